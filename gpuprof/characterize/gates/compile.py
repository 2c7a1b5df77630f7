"""Compiles a probe's kernel for one exact target."""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.characterize.probes.probe import Kernel
from gpuprof.sass.tools.compile import Compiled, NotCompiled, compile_file, include_options, target_options
from gpuprof.sass.tools.nvrtc import Nvrtc


def compile_kernel(
    kernel: Kernel, target: str, assignment: Mapping[str, str], nvrtc: Nvrtc | None = None
) -> Compiled | NotCompiled:
    """Compile for exactly `target` ("sm_90a"); `nvrtc` None: with the first that knows it.

    Raises EnvironmentProblem where there is no NVRTC.
    """
    return compile_file(kernel.source, target, compile_options(kernel, target, assignment), nvrtc)


def compile_options(kernel: Kernel, target: str, assignment: Mapping[str, str]) -> tuple[str, ...]:
    """Return NVRTC's options: the exact target, one macro per parameter, and where the shared headers lie."""
    folder = kernel.source.parent
    defines = (f"--define-macro={name}={value}" for name, value in assignment.items())
    return (*target_options(target), *defines, *include_options(folder, folder.parent))
