"""What tests of the inputs of a review share: asking for modules, and small sources to compile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gpuprof.model.kernel_match import kernel_pattern
from gpuprof.model.recorded import Dim3
from gpuprof.review.inputs.modules import modules_of
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.kernel import CompiledKernel, InputModule
from gpuprof.sass.tools.programs import find_programs

CACHE = Path(__file__).parent / "data" / "triton-cache"

SAXPY = """\
// Each thread does one element.
extern "C" __global__ void saxpy(int n, float a, const float* __restrict__ x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
template <class T> __global__ void __launch_bounds__(128) scale(T* values, T by) { values[threadIdx.x] *= by; }
template __global__ void scale<float>(float*, float);
template __global__ void scale<double>(double*, double);
"""

needs_nvcc = pytest.mark.skipif(
    not find_programs("nvcc") or shutil.which("g++") is None, reason="there is no nvcc with a C++ compiler"
)
needs_ptxas = pytest.mark.skipif(not find_programs("ptxas"), reason="there is no ptxas")


def modules(
    *files: Path | str,
    targets: tuple[str, ...] = (),
    kernel: str | None = None,
    block: Dim3 | None = None,
    arguments: dict[str, int] | None = None,
    defines: tuple[str, ...] = (),
    folders: tuple[str, ...] = (),
    standard: str | None = None,
    flags: tuple[str, ...] = (),
) -> list[InputModule]:
    """The modules that are asked for."""
    request = ReviewRequest(
        files=tuple(map(str, files)),
        targets=targets,
        kernel=kernel_pattern(kernel, "--kernel") if kernel is not None else None,
        block=block,
        arguments=arguments or {},
        defines=defines,
        include_folders=folders,
        standard=standard,
        flags=flags,
    )
    return list(modules_of(request))


def kernels(listed: list[InputModule]) -> dict[str, CompiledKernel]:
    """The kernels by their names."""
    return {kernel.name: kernel for module in listed for kernel in module.kernels}
