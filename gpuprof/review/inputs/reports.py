"""Reports of ncu into kernels: the cubins that they embed, one kernel a launch, with its recorded configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path

from gpuprof.errors import DamagedInput, InputError
from gpuprof.model.groups import by_key
from gpuprof.model.recorded import EmbeddedProgram, Launch, Report
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.inputs.chosen import compiled_kernel, is_name_chosen, is_target_chosen
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.targets import target_named
from gpuprof.review.kernel import NO_CODE_HINT, CompiledKernel, InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel, read_cubin
from gpuprof.units import counted

_REGISTERS = "launch__registers_per_thread"
_STATIC_SHARED = "launch__shared_mem_per_block_static"
_DYNAMIC_SHARED = "launch__shared_mem_per_block_dynamic"
_MOST_NAMED = 5
_Kernels = tuple[str, Mapping[str, CubinKernel]]
"""The target of a cubin, and its kernels by their symbols."""


def report_modules(path: Path, origin: str, request: ReviewRequest) -> Iterator[InputModule]:
    """Yield the code of a report's launches in their order, by architecture; launches without code, as recorded.

    Raises InputError if the report cannot be read.
    """
    report = read_ncu_rep(path, salvage=request.salvage)
    kernels, bare = _kernels(report, origin, request)
    if not kernels:
        raise InputError(
            f"{origin}: none of its {len(report.launches)} launches has code that can be read"
            + (f": {next(iter(bare))}" if bare else ""),
            NO_CODE_HINT,
        )
    notes = tuple(f"{origin}: {warning}" for warning in report.warnings)
    notes += tuple(
        f"{origin}: {counted(len(names), 'launch', 'es')} left out ({_listed(names)}): {why}"
        for why, names in bare.items()
    )
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


def _listed(names: Sequence[str]) -> str:
    """Name kernels, each once."""
    each = list(dict.fromkeys(f"{name:.60}" for name in names))
    more = f" and {len(each) - _MOST_NAMED} more" if len(each) > _MOST_NAMED else ""
    return ", ".join(each[:_MOST_NAMED]) + more


def _kernels(report: Report, origin: str, request: ReviewRequest) -> tuple[list[CompiledKernel], dict[str, list[str]]]:
    """Return the kernels of the launches, and the names of those that are none, by why they are none.

    A kernel without code has its recorded resources.
    """
    read = cache(_kernels_of)
    kernels: list[CompiledKernel] = []
    bare: list[tuple[str, str]] = []
    for number, launch in enumerate(report.launches):
        if launch.kind != "kernel":
            bare.append((f"a {launch.kind:.40} is not a kernel", launch.name or launch.demangled))
            continue
        program = launch.details.program()
        code = _code(program, read)
        why = code if isinstance(code, str) else None
        target, kernel = _recorded(report, launch) if isinstance(code, str) else code
        if target is None:
            bare.append((why or "", launch.name or launch.demangled))
            continue
        cubin = program.cubin if program is not None and why is None else b""
        name = launch.demangled or kernel.mangled
        shape = KnownLaunch(block=launch.block, grid=launch.grid, dynamic_shared_bytes=_whole(launch, _DYNAMIC_SHARED))
        compiled = compiled_kernel(kernel, name, target, cubin, origin=origin, request=request, shape=shape)
        kernels.append(replace(compiled, launch=number, bare=why))
    return kernels, by_key(bare)


def _code(program: EmbeddedProgram | None, read: Callable[[bytes], _Kernels]) -> tuple[str, CubinKernel] | str:
    """Return the target and the kernel of a launch, or why there is no code of it."""
    if program is None:
        return "the report embeds no code of it"
    try:
        target, kernels = read(program.cubin)
    except DamagedInput as error:
        return error.message
    kernel = kernels.get(program.mangled)
    if kernel is None:
        return f"its cubin has no kernel {program.mangled:.100}"
    return (target, kernel) if kernel.code else "the report embeds its cubin without machine code"


def _kernels_of(data: bytes) -> _Kernels:
    cubin = read_cubin(data)
    return cubin.target, {kernel.mangled: kernel for kernel in cubin.kernels}


def _recorded(report: Report, launch: Launch) -> tuple[str | None, CubinKernel]:
    """Return the target and the kernel of a launch without code, as far as they were recorded."""
    device = report.devices[launch.device] if launch.device < len(report.devices) else None
    kernel = CubinKernel(
        mangled=launch.mangled or launch.demangled or launch.name,
        code=b"",
        registers=_whole(launch, _REGISTERS),
        static_shared_bytes=_whole(launch, _STATIC_SHARED),
    )
    return target_named(device.compute_capability or "") if device is not None else None, kernel


def _whole(launch: Launch, name: str) -> int | None:
    number = launch.metrics.number(name)
    return round(number) if number is not None else None
