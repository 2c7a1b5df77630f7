"""Reports of ncu into kernels: the cubins that they embed, one kernel a launch, with what the launch recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from gpuprof.errors import DamagedInput, InputError
from gpuprof.model.recorded import EmbeddedProgram, Launch, Report
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.inputs.chosen import KernelChoice, compiled_kernel
from gpuprof.review.inputs.targets import target_named
from gpuprof.review.kernel import NO_CODE_HINT, CompiledKernel, InputModule, KnownLaunch
from gpuprof.sass.binary.cubin import CubinKernel, read_cubin
from gpuprof.units import counted

_REGISTERS = "launch__registers_per_thread"
_STATIC_SHARED = "launch__shared_mem_per_block_static"
_DYNAMIC_SHARED = "launch__shared_mem_per_block_dynamic"
_MOST_NAMED = 5


class _Programs:
    """The cubins of a report, each read once."""

    def __init__(self) -> None:
        self._read: dict[bytes, tuple[str, Mapping[str, CubinKernel]]] = {}

    def kernel(self, program: EmbeddedProgram) -> tuple[str, CubinKernel] | str:
        """Return the target and the kernel of a launch, or why there is none."""
        if program.cubin not in self._read:
            try:
                cubin = read_cubin(program.cubin)
            except DamagedInput as error:
                return error.message
            self._read[program.cubin] = cubin.target, {kernel.mangled: kernel for kernel in cubin.kernels}
        target, kernels = self._read[program.cubin]
        kernel = kernels.get(program.mangled)
        return (target, kernel) if kernel is not None else f"its cubin has no kernel {program.mangled:.100}"


def report_modules(path: Path, origin: str, choice: KernelChoice) -> Iterator[InputModule]:
    """Yield the code of a report's launches in their order, by architecture; those without have what was recorded.

    Raises InputError where the report cannot be read.
    """
    report = read_ncu_rep(path, salvage=choice.request.salvage)
    kernels, bare = _kernels(report, origin, choice)
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
        wanted = choice.takes_target(target, there)
        yield InputModule(
            origin=origin,
            target=target,
            form="sass",
            holds=len(launches),
            kernels=tuple(kernel for kernel in launches if wanted and choice.takes(kernel.kernel.mangled, kernel.name)),
            tools=(f"ncu {report.tool_version}",) if report.tool_version else (),
            notes=notes,
        )
        notes = ()


def _listed(names: Sequence[str]) -> str:
    """Name kernels, each once."""
    each = list(dict.fromkeys(f"{name:.60}" for name in names))
    more = f" and {len(each) - _MOST_NAMED} more" if len(each) > _MOST_NAMED else ""
    return ", ".join(each[:_MOST_NAMED]) + more


def _kernels(report: Report, origin: str, choice: KernelChoice) -> tuple[list[CompiledKernel], dict[str, list[str]]]:
    """Return the kernels of the launches, and the names of those that are none, by why they are none."""
    programs = _Programs()
    kernels: list[CompiledKernel] = []
    bare: dict[str, list[str]] = {}
    for number, launch in enumerate(report.launches):
        kernel = _kernel(launch, number, origin, choice, programs)
        if isinstance(kernel, str) and launch.kind == "kernel":
            kernel = _recorded(report, number, origin, choice, kernel) or kernel
        if isinstance(kernel, str):
            bare.setdefault(kernel, []).append(launch.name or launch.demangled)
        else:
            kernels.append(kernel)
    return kernels, bare


def _kernel(
    launch: Launch, number: int, origin: str, choice: KernelChoice, programs: _Programs
) -> CompiledKernel | str:
    """Return the kernel of a launch, or why there is no code of it."""
    program = launch.details.program() if launch.kind == "kernel" else None
    if program is None:
        return "the report embeds no code of it" if launch.kind == "kernel" else f"a {launch.kind:.40} is not a kernel"
    known = programs.kernel(program)
    if isinstance(known, str):
        return known
    target, kernel = known
    if not kernel.code:
        return "the report embeds its cubin without machine code"
    compiled = compiled_kernel(
        kernel,
        launch.demangled or kernel.mangled,
        target,
        program.cubin,
        origin=origin,
        choice=choice,
        shape=_shape(launch),
    )
    return replace(compiled, launch=number)


def _recorded(report: Report, number: int, origin: str, choice: KernelChoice, why: str) -> CompiledKernel | None:
    """Return what the report recorded of a launch that it has no code of; None where its GPU is not known."""
    launch = report.launches[number]
    device = report.devices[launch.device] if launch.device < len(report.devices) else None
    target = target_named(device.compute_capability or "") if device is not None else None
    if target is None:
        return None
    name = launch.mangled or launch.demangled or launch.name
    kernel = CubinKernel(
        mangled=name,
        code=b"",
        registers=_whole(launch, _REGISTERS),
        static_shared_bytes=_whole(launch, _STATIC_SHARED),
    )
    compiled = compiled_kernel(
        kernel, launch.demangled or name, target, b"", origin=origin, choice=choice, shape=_shape(launch)
    )
    return replace(compiled, launch=number, bare=why)


def _shape(launch: Launch) -> KnownLaunch:
    return KnownLaunch(block=launch.block, grid=launch.grid, dynamic_shared_bytes=_whole(launch, _DYNAMIC_SHARED))


def _whole(launch: Launch, name: str) -> int | None:
    number = launch.metrics.number(name)
    return round(number) if number is not None else None
