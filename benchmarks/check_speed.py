"""How fast `gpuprof check` is: 100 small kernels, a million instructions, and a library, against nvdisasm alone.

    python -m benchmarks.check_speed [--instructions 1000000] [--folder FOLDER] [--library FILE]

NVRTC builds two cubins, which are kept in the folder. The large one is straight arithmetic, which repeats itself; how
long real code takes, with its branches and addresses, a library tells: any file that `gpuprof check` reads, with code
for the target (torchvision's `_C.so`, say). Of each the whole command is timed once, as a user starts it, with blocks
of 256 threads and all kernels as JSON: seconds by the clock, which other programs on the machine lengthen, seconds of
processors in all processes, nvdisasm's among them, and those for an instruction. nvdisasm alone is one call for all
code of the target.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from gpuprof.review.inputs.modules import modules_of
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.sass.binary.elf import INSTRUCTION_BYTES
from gpuprof.sass.tools.compile import compiler_for, target_options
from gpuprof.sass.tools.disassemble import Disassembler, disassembler_for

TARGET = "sm_90"
_SMALL_KERNELS = 100
_PIECE = 4_700
"""Instructions, about, of a kernel of the large cubin."""

_SMALL = """
extern "C" __global__ void axpy_NUMBER(float *y, const float *x, float a, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += a * x[i] + NUMBER;
}
extern "C" __global__ void transpose_NUMBER(float *out, const float *in, int n) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8) tile[threadIdx.y + i][threadIdx.x] = in[(y + i) * n + x + NUMBER];
    __syncthreads();
    for (int i = 0; i < 32; i += 8) out[(y + i) * n + x] = tile[threadIdx.x][threadIdx.y + i];
}
extern "C" __global__ void reduce_NUMBER(float *out, const float *in, int n) {
    __shared__ float part[256];
    float sum = NUMBER;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) sum += in[i];
    part[threadIdx.x] = sum;
    for (int half = 128; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void multiply_NUMBER(float *c, const float *a, const float *b, int n) {
    __shared__ float as[16][16], bs[16][17];
    float sum = NUMBER;
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    for (int k = 0; k < n; k += 16) {
        as[threadIdx.y][threadIdx.x] = a[row * n + k + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + column];
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}
"""
_LARGE = """
extern "C" __global__ void large_NUMBER(float *out, const float *in, int n) {
    float x[8];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 0; i < 8; i++) x[i] = in[at + i * n];
    for (int turn = 0; turn < n; turn++) {
#pragma unroll
        for (int i = 0; i < 3200; i++) {
            x[i % 8] = fmaf(x[(i + 1) % 8], x[(i + 3) % 8], NUMBER.f + i);
            x[(i + 5) % 8] += x[i % 8] * x[(i + 2) % 8];
            if (i % 40 == 0) x[i % 8] += in[at + i * 64 + turn];
            x[(i + 2) % 8] = fmaf(x[i % 8], 1.5f, x[(i + 7) % 8]);
            x[(i + 3) % 8] = fmaf(x[(i + 6) % 8], x[i % 8], 2.5f);
            if (i % 100 == 0 && x[i % 8] > 7.0f) x[i % 8] = in[at + turn * i];
        }
    }
    for (int i = 0; i < 8; i++) out[at + i * n] = x[i];
}
"""


class Measured(NamedTuple):
    """What the command took: seconds, those of processors, bytes at the most of its largest process; nvdisasm alone."""

    seconds: float
    processor_seconds: float
    peak_bytes: int
    alone_seconds: float


def main() -> None:
    """Build the cubins, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--instructions", type=int, default=1_000_000, help="of the large cubin, about")
    parser.add_argument("--folder", type=Path, help="where cubins are kept (else a temporary folder)")
    parser.add_argument("--library", type=Path, help=f"a real file with code for {TARGET}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuprof-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        small = _numbered(_SMALL, _SMALL_KERNELS // _SMALL.count("__global__"))
        large = _numbered(_LARGE, max(1, options.instructions // _PIECE))
        for name, source in (("small", small), (f"large-{options.instructions}", large)):
            print(_line(name, _built(folder / f"{name}.cubin", source), folder), flush=True)
        if options.library is not None:
            print(_line(options.library.name, options.library, folder), flush=True)


def _numbered(source: str, count: int) -> str:
    return "".join(source.replace("NUMBER", str(number)) for number in range(count))


def _built(cubin: Path, source: str) -> Path:
    if not cubin.is_file():
        nvrtc = compiler_for(TARGET)
        if nvrtc is None:
            sys.exit(f"no NVRTC compiles for {TARGET}")
        outcome = nvrtc.compile(source, "speed.cu", target_options(TARGET))
        if outcome.cubin is None:
            sys.exit(outcome.log)
        cubin.write_bytes(outcome.cubin)
    return cubin


def _line(name: str, file: Path, folder: Path) -> str:
    """Measure one file and say what came out."""
    modules = modules_of(ReviewRequest(files=(str(file),), targets=(TARGET,)))
    kernels = [kernel.kernel for module in modules for kernel in module.kernels]
    if not kernels:
        sys.exit(f"{file}: no code for {TARGET}")
    code = b"".join(kernel.code for kernel in kernels)
    count = len(code) // INSTRUCTION_BYTES
    taken = _measured(file, folder / f"{file.stem}.bin", code)
    return (
        f"{name}: {len(kernels)} kernels, {count} instructions: {taken.seconds:.1f} s, "
        f"{count / taken.seconds:.0f} instructions a second, {taken.processor_seconds:.1f} s of processors "
        f"({1e6 * taken.processor_seconds / count:.0f} µs an instruction), "
        f"{taken.peak_bytes / 1e6:.0f} MB at most in a process; "
        f"nvdisasm alone {taken.alone_seconds:.1f} s (×{taken.seconds / taken.alone_seconds:.1f})"
    )


def _measured(file: Path, binary: Path, code: bytes) -> Measured:
    tool = disassembler_for(TARGET)
    if tool is None:
        sys.exit("no nvdisasm")
    options = ["--arch", TARGET, "--block", "256", "--format", "json"]
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuprof", "check", str(file), *options], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    if status:
        print(f"{file}: gpuprof check ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr)
    return Measured(
        seconds=seconds,
        processor_seconds=usage.ru_utime + usage.ru_stime,
        peak_bytes=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
        alone_seconds=_alone_s(tool, binary, code),
    )


def _alone_s(tool: Disassembler, file: Path, code: bytes) -> float:
    file.write_bytes(code)
    command = [str(tool.path), "--binary", TARGET.replace("sm_", "SM"), "--no-dataflow", str(file)]
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=os.environ)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
