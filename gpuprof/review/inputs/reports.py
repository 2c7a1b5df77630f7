"""Reports of ncu into kernels: the cubins that they embed, one kernel a launch, with its recorded configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path

from gpuprof.errors import DamagedInput, InputError
from gpuprof.model.recorded import EmbeddedProgram, Launch, Report
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.inputs.chosen import compiled_kernel, is_name_chosen, is_target_chosen
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.targets import target_named
from gpuprof.review.kernel import NO_CODE_HINT, CompiledKernel, InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import Cubin, CubinKernel, read_cubin
from gpuprof.units import counted

_REGISTERS = "launch__registers_per_thread"
_STATIC_SHARED = "launch__shared_mem_per_block_static"
_DYNAMIC_SHARED = "launch__shared_mem_per_block_dynamic"
_UNKNOWN_TARGET = "sm_?"


def report_modules(path: Path, origin: str, request: ReviewRequest) -> Iterator[InputModule]:
    """Yield the code of a report's launches in their order, by architecture; launches without code, as recorded.

    Raises InputError if the report cannot be read, or has no kernel.
    """
    report = read_ncu_rep(path, salvage=request.salvage)
    kernels = list(_kernels(report, origin, request))
    if not kernels:
        raise InputError(f"{origin}: none of its {len(report.launches)} launches is a kernel", NO_CODE_HINT)
    notes = tuple(f"{origin}: {warning}" for warning in report.warnings)
    others = len(report.launches) - len(kernels)
    if others:
        notes += (f"{origin}: {counted(others, 'launch', 'es')} left out: graphs and ranges are no kernels",)
    there = list(dict.fromkeys(kernel.target for kernel in kernels))
    for target, group in groupby(kernels, key=lambda kernel: kernel.target):
        launches = list(group)
        wanted = launches if is_target_chosen(request, target, there) else []
        yield InputModule(
            origin=origin,
            target=target,
            form="sass",
            holds=len(launches),
            kernels=tuple(kernel for kernel in wanted if is_name_chosen(request, kernel.kernel.mangled, kernel.name)),
            names=tuple(kernel.name for kernel in wanted),
            tools=(f"ncu {report.tool_version}",) if report.tool_version else (),
            notes=notes,
        )
        notes = ()


def _kernels(report: Report, origin: str, request: ReviewRequest) -> Iterator[CompiledKernel]:
    """Yield the kernels of the launches. A kernel without code has its recorded resources."""
    read = cache(read_cubin)
    for number, launch in enumerate(report.launches):
        if launch.kind != "kernel":
            continue
        code = _code(launch.details.program(), read)
        if isinstance(code, str):
            bare = code
            data = b""
            target, kernel = _recorded(report, launch)
        else:
            bare = None
            data, target, kernel = code
        shape = KnownLaunch(block=launch.block, grid=launch.grid, dynamic_shared_bytes=_whole(launch, _DYNAMIC_SHARED))
        name = launch.demangled or kernel.mangled
        compiled = compiled_kernel(kernel, name, target, data, origin=origin, request=request, shape=shape)
        yield replace(compiled, launch=number, bare=bare)


def _code(program: EmbeddedProgram | None, read: Callable[[bytes], Cubin]) -> tuple[bytes, str, CubinKernel] | str:
    """Return the cubin, the target and the kernel of a launch, or why it has no code."""
    if program is None:
        return "the report embeds no code of it"
    try:
        cubin = read(program.cubin)
    except DamagedInput as error:
        return error.message
    for kernel in cubin.kernels:
        if kernel.mangled == program.mangled:
            no_code = "the report embeds its cubin without machine code"
            return (program.cubin, cubin.target, kernel) if kernel.code else no_code
    return f"its cubin has no kernel {program.mangled:.100}"


def _recorded(report: Report, launch: Launch) -> tuple[str, CubinKernel]:
    """Return the target and the kernel of a launch without code, as far as they were recorded."""
    capability = None
    if launch.device < len(report.devices):
        capability = report.devices[launch.device].compute_capability
    kernel = CubinKernel(
        mangled=launch.mangled or launch.demangled or launch.name,
        code=b"",
        registers=_whole(launch, _REGISTERS),
        static_shared_bytes=_whole(launch, _STATIC_SHARED),
    )
    return target_named(capability or "") or _UNKNOWN_TARGET, kernel


def _whole(launch: Launch, name: str) -> int | None:
    number = launch.metrics.number(name)
    return round(number) if number is not None else None
