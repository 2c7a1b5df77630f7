"""Instructions read once each, and placed, against the text of nvdisasm for the same code as a whole."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.binary.cubin import read_cubin
from gpuprof.sass.instruction import instruction_of, names_address, parse_sass, with_addresses_moved
from gpuprof.sass.tools import disassemble as disassembling
from gpuprof.sass.tools.compile import compiler_for, target_options
from gpuprof.sass.tools.disassemble import Disassembler, disassemble, disassembler_for
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row

SOURCE = """
__device__ __noinline__ double slow(double x, double y) { return fmod(x, y) / (y + 1); }
extern "C" __global__ void first(double *out, const float *in, int n, double scale) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        out[i] = slow(in[i] / (in[i + 1] + 1.0e-30), scale) + 3.14159265358979 * (1ll << 40);
        if (out[i] > 0) __syncwarp();
    }
}
extern "C" __global__ void second(double *out, const float *in, int n, double scale) {
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (in[i] > 0) out[i] = slow(in[i], scale) + 3.14159265358979;
}
"""


@cache
def codes(target: str) -> tuple[bytes, ...]:
    nvrtc = compiler_for(target)
    assert nvrtc is not None
    outcome = nvrtc.compile(SOURCE, "k.cu", target_options(target))
    assert outcome.cubin is not None, outcome.log
    return tuple(kernel.code for kernel in read_cubin(outcome.cubin).kernels)


@pytest.mark.compilers
@needs_cuda_wheels
@each_row("target", ["sm_80", "sm_120"])
def test_the_text_is_that_of_the_whole_kernel(target: str, tmp_path: Path) -> None:
    """Each kernel alone has its own addresses in the text of nvdisasm, and all its instructions."""
    tool = disassembler_for(target)
    assert tool is not None
    kernels = codes(target)
    listings = disassemble(tool, target, kernels)
    for code, listing in zip(kernels, listings, strict=True):
        file = tmp_path / "code.bin"
        file.write_bytes(code)
        command = [str(tool.path), "--binary", target.replace("sm_", "SM"), "--no-dataflow", str(file)]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert list(map(str, listing)) == list(map(str, parse_sass(text)))
        assert [item.address for item in listing] == list(range(0, len(code), 16))
    jumps = {item.name for listing in listings for item in listing if item.target is not None}
    assert {"BRA", "CALL"} <= jumps


@pytest.mark.compilers
@needs_cuda_wheels
def test_an_instruction_is_asked_for_once_and_what_is_not_known_costs_its_kernel_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(disassembling, "_KNOWN", {})
    asked: list[int] = []
    run = disassembling._run

    def counting(tool: Disassembler, target: str, code: bytes) -> str:
        asked.append(len(code) // 16)
        return run(tool, target, code)

    monkeypatch.setattr(disassembling, "_run", counting)
    tool, kernels = disassembler_for("sm_90"), codes("sm_90")
    assert tool is not None
    first = disassemble(tool, "sm_90", kernels)
    assert disassemble(tool, "sm_90", [kernels[1], kernels[0]]) == [first[1], first[0]]
    assert len(asked) == 1 and 0 < asked[0] < sum(map(len, kernels)) // 16
    broken = [bytes([number] * 16) + kernels[0] for number in range(0x39, 0x40)]
    listings = disassembling.disassembled(tool, "sm_90", [kernels[1], *broken, kernels[0]])
    assert all(isinstance(said, str) and "sm_90" in said for said in listings[1:-1])
    assert [listings[0], listings[-1]] == [first[1], first[0]]
    assert len(asked) == 2
    with pytest.raises(EnvironmentProblem, match="sm_90"):
        disassemble(tool, "sm_90", broken)
    assert len(asked) == 2
    monkeypatch.setattr(disassembling, "_MOST_KNOWN", asked[0] - 1)
    disassemble(tool, "sm_90", kernels[:1])
    assert len(asked) == 3


@each_row(
    ("text", "moved"),
    [
        ("@P0 BRA 0x10000000030", "@P0 BRA 0x50"), ("BRA.U !UP0, 0xfffffffff0", "BRA.U !UP0, 0x10"),
        ("RET.REL.NODEC R2 0x10000000000", "RET.REL.NODEC R2 0x20"), ("BSSY B0, 0x10000000010", "BSSY B0, 0x30"),
        ("CALL.ABS.NOINC 0x0", None), ("UMOV.64 UR6, 0x10000000030", None), ("IADD3 R2, R2, 0x30, RZ", None),
    ],
)  # fmt: skip
def test_addresses_of_code_are_told_from_other_numbers(text: str, moved: str | None) -> None:
    """The code was read at 2^40, and the instruction lies 0x20 behind that."""
    item = instruction_of(text)
    assert item is not None
    operation, base = item.operation, 1 << 40
    assert names_address(operation, base) == (moved is not None)
    if moved is not None:
        again = with_addresses_moved(operation, base, 0x20 - base)
        expected = instruction_of(moved)
        assert expected is not None and again is expected.operation
