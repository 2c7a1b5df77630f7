"""Signs that rules read from code, in what NVRTC writes for each architecture: unoptimised code, reductions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from gpuprof.annotated.counts import EXECUTED
from gpuprof.model.recorded import ProfiledInstruction
from gpuprof.sass.binary.cubin import kernel_code
from gpuprof.sass.binary.encodings import moves_of
from gpuprof.sass.patterns.reduction_steps import steps_of
from gpuprof.sass.tools.compile import compiler_for
from gpuprof.sass.tools.disassemble import disassemble, disassembler_for
from tests.cuda_tools import needs_cuda_wheels
from tests.kernels import Histograms, Program, made

pytestmark = [needs_cuda_wheels, pytest.mark.compilers]

TARGETS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
"""Each with another encoding of instructions."""
SOURCE = """
extern "C" __global__ void tree(const float* values, float* sums) {
  extern __shared__ float part[];
  const int me = threadIdx.x;
  part[me] = values[blockIdx.x * blockDim.x + me];
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (me < half) part[me] += part[me + half];
    __syncthreads();
  }
  if (me == 0) sums[blockIdx.x] = part[0];
}
extern "C" __global__ void unrolled(const int* values, int* least) {
  __shared__ int part[256];
  const int me = threadIdx.x;
  part[me] = values[blockIdx.x * 256 + me];
  __syncthreads();
#pragma unroll
  for (int half = 128; half > 0; half /= 2) {
    if (me < half) part[me] = min(part[me], part[me + half]);
    __syncthreads();
  }
  if (me == 0) least[blockIdx.x] = part[0];
}
extern "C" __global__ void shuffled(const float* values, float* sums) {
  __shared__ float part[32];
  const int me = threadIdx.x;
  float sum = values[blockIdx.x * blockDim.x + me];
  for (int half = 16; half > 0; half /= 2) sum += __shfl_down_sync(~0u, sum, half);
  if (me % 32 == 0) part[me / 32] = sum;
  __syncthreads();
  if (me == 0) {
    for (int warp = 1; warp < blockDim.x / 32; ++warp) sum += part[warp];
    sums[blockIdx.x] = sum;
  }
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int n) {
  __shared__ float left[16][16], right[16][16];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int tile = 0; tile < n; tile += 16) {
    left[y][x] = a[row * n + tile + x];
    right[y][x] = b[(tile + y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) sum += left[y][k] * right[k][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""
STEPS = {"tree": 1, "unrolled": 8, "shuffled": 0, "product": 0}
"""Of `tree`, one that is executed again and again."""


class Code(NamedTuple):
    """A kernel's instructions in text, and its machine code."""

    lines: tuple[str, ...]
    machine: bytes


def code_of(target: str, *options: str) -> Mapping[str, Code]:
    """The code of each kernel, in text as reports have it and in bytes."""
    compiler, reader = compiler_for(target), disassembler_for(target)
    if compiler is None or reader is None:
        pytest.skip(f"no NVRTC or nvdisasm here knows {target}")
    outcome = compiler.compile(SOURCE, "sums.cu", (f"--gpu-architecture={target}", *options))
    assert outcome.cubin is not None, outcome.log
    cubin = outcome.cubin
    machine = [kernel_code(cubin, name) for name in STEPS]
    return {
        name: Code(
            tuple(f"{line.predicate or ''} {line.opcode} {', '.join(line.operands)}".strip() for line in code), binary
        )
        for name, code, binary in zip(STEPS, disassemble(reader, target, machine), machine, strict=True)
    }


def told(lines: tuple[str, ...]) -> bool:
    """Whether `debug-build` speaks of code that is executed from its first instruction to its last."""
    code = tuple(ProfiledInstruction(16 * place, line, None, None, {EXECUTED: 1.0}) for place, line in enumerate(lines))
    counts: Histograms = {EXECUTED: {instruction.pc: 1.0 for instruction in code}}
    return bool(made(histograms=counts, details=Program(code)).findings("debug-build"))


@pytest.mark.parametrize("target", TARGETS)
def test_code_shows_how_it_was_built_and_what_it_adds_up(target: str) -> None:
    debugged, optimised = (code_of(target, option) for option in ("--device-debug", "--generate-line-info"))
    # Code for a debugger moves registers onto themselves, and no other code does.
    assert all(told(code.lines) for code in debugged.values())
    assert not any(told(code.lines) for code in optimised.values())
    # Machine code gives the same moves as its text.
    for code in (*debugged.values(), *optimised.values()):
        by_text = sum(re.fullmatch(r"(?:@\S+ )?MOV(?:\.64)? (R\d+), \1", line) is not None for line in code.lines)
        moves = moves_of(code.machine)
        assert moves.onto_itself == by_text
        assert moves.instructions == sum("NOP" not in line for line in code.lines)
    # Only reductions in shared memory have their steps.
    assert {name: len(steps_of(kernel.lines)) for name, kernel in optimised.items()} == STEPS
