"""Chooses the NVRTC whose code this GPU's driver loads: by their versions, and by loading one small kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from gpuprof.characterize.record.gpu import DeviceError, Gpu
from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.tools.compile import target_options
from gpuprof.sass.tools.nvrtc import INSTALL_HINT, Nvrtc, find_nvrtc

_TRIAL, _SOURCE = "gpuprof_trial", 'extern "C" __global__ void gpuprof_trial(unsigned *out) { *out = 1; }\n'
_NEWEST = 13
"""The major version of CUDA whose packages bear no number; those of 12 end in -cu12."""
_OLDEST = 12
_LAST_OF_CUDA_12 = "sm_70"
"""CUDA 13 no longer knows it."""


Load = Callable[[bytes, str, str], object]
"""Loads the kernel of a cubin with that SHA-256; raises DeviceError."""


def fitting_nvrtc(gpu: Gpu, target: str) -> Nvrtc:
    """Return the NVRTC that knows the target and whose code the driver of the GPU loads, as `nvrtc_for` does."""
    return nvrtc_for(gpu.properties.cuda, target, gpu.load)


def nvrtc_for(cuda: str | None, target: str, load: Load) -> Nvrtc:
    """Return the first NVRTC, newest first, that knows the target and whose code a driver of that CUDA ("12.8") loads.

    A driver loads code of its own major version of CUDA, of a newer minor version, too, and of older major versions
    (NVIDIA, "CUDA Compatibility", chapter "Minor Version Compatibility"). A driver that does not say its version is
    only tried. Raises EnvironmentProblem where none fits, with the driver's words and what to install.
    """
    nvrtcs = _found(cuda)
    fitting = [nvrtc for nvrtc in nvrtcs if _runs(cuda, nvrtc)]
    if not fitting:
        raise EnvironmentProblem(
            f"the driver supports CUDA {cuda} and no code of a newer major version; installed: {_names(nvrtcs)}",
            _install(cuda),
        )
    knowing = [nvrtc for nvrtc in fitting if nvrtc.knows(target)]
    if not knowing:
        hint = _install("12" if target == _LAST_OF_CUDA_12 else cuda)
        raise EnvironmentProblem(f"{_names(fitting)} does not compile for {target}", hint)
    refusals = []
    for nvrtc in knowing:
        refusal = _refusal(load, target, nvrtc)
        if refusal is None:
            return nvrtc
        refusals.append(f"of {nvrtc}: {refusal}")
    raise EnvironmentProblem(f"the driver loads no code {'; '.join(refusals)}", _install(cuda, not_newer=True))


def _found(cuda: str | None) -> tuple[Nvrtc, ...]:
    """Return every NVRTC; where there is none, the hint names the package for the driver."""
    try:
        return find_nvrtc()
    except EnvironmentProblem as problem:
        hint = _install(cuda) if problem.hint == INSTALL_HINT else problem.hint
        raise EnvironmentProblem(problem.message, hint) from problem


def _runs(cuda: str | None, nvrtc: Nvrtc) -> bool:
    major = _major(cuda)
    return major is None or nvrtc.version[0] <= major


def _major(cuda: str | None) -> int | None:
    """Return the major version of "12.8"; None where the driver does not say it."""
    first = (cuda or "").partition(".")[0]
    return int(first) if first.isdecimal() and int(first) else None


def _refusal(load: Load, target: str, nvrtc: Nvrtc) -> str | None:
    """Compile a small kernel and load it; return why that fails. Raises DeviceError where the GPU is lost by it."""
    try:
        outcome = nvrtc.compile(_SOURCE, f"{_TRIAL}.cu", target_options(target))
        if outcome.cubin is None:
            return outcome.log.strip() or "it does not compile"
        load(outcome.cubin, hashlib.sha256(outcome.cubin).hexdigest(), _TRIAL)
    except DeviceError as error:
        if error.fatal:
            raise
        return error.message
    except EnvironmentProblem as problem:
        return problem.message
    return None


def _names(nvrtcs: Sequence[Nvrtc]) -> str:
    return ", ".join(map(str, nvrtcs))


def _install(cuda: str | None, *, not_newer: bool = False) -> str:
    """Return what to type for an NVRTC of the driver's major version; `not_newer`: nor of a newer minor one."""
    major = _major(cuda) or _NEWEST
    if major < _OLDEST:
        return "install a driver of CUDA 12 or newer"
    package = "nvidia-cuda-nvrtc" if major >= _NEWEST else "nvidia-cuda-nvrtc-cu12"
    minor = (cuda or "").partition(".")[2]
    if not_newer and minor.isdecimal():
        package = f"'{package}<{major}.{int(minor) + 1}'"
    return f"install it: python -m pip install --upgrade {package} nvidia-cuda-nvdisasm"
