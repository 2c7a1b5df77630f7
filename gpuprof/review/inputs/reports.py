"""Reports of ncu into kernels: the cubins that they embed, one kernel a launch, with what the launch recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from gpuprof.code.binary.cubin import Cubin, CubinKernel, read_cubin
from gpuprof.code.tools.disassemble import VOLTA_HINT, disassembler_for
from gpuprof.errors import DamagedInput, EnvironmentProblem, InputError
from gpuprof.model.recorded import EmbeddedProgram, Launch, Report
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.review.inputs.chosen import KernelChoice, compiled_kernel
from gpuprof.review.kernel import CompiledKernel, InputModule, KnownLaunch
from gpuprof.units import counted

_DYNAMIC_SHARED = "launch__shared_mem_per_block_dynamic"
_TEXT_BY_READER = "sm_70"
"""No packaged nvdisasm reads it; NVIDIA's report reader of 2025 does."""
_NO_TEXT = "neither an nvdisasm nor NVIDIA's report reader here reads code for sm_70"
_TEXT_HINT = f"python -m pip install 'ncu-report<2026'; or {VOLTA_HINT}"


class _Programs:
    """The cubins of a report, each read once."""

    def __init__(self) -> None:
        self._cubins: dict[int, tuple[bytes, Cubin | str]] = {}
        self._kernels: dict[int, Mapping[str, CubinKernel]] = {}
        self._texts: dict[tuple[int, str], Mapping[int, str] | None] = {}

    def kernel(self, program: EmbeddedProgram) -> tuple[str, CubinKernel] | str:
        """Return the target and the kernel of a launch, or why there is none."""
        key = id(program.cubin)
        if key not in self._cubins:
            try:
                cubin: Cubin | str = read_cubin(program.cubin)
            except DamagedInput as error:
                cubin = error.message
            self._cubins[key] = (program.cubin, cubin)
            if isinstance(cubin, Cubin):
                self._kernels[key] = {kernel.mangled: kernel for kernel in cubin.kernels}
        cubin = self._cubins[key][1]
        if isinstance(cubin, str):
            return cubin
        kernel = self._kernels[key].get(program.mangled)
        return (cubin.target, kernel) if kernel is not None else f"its cubin has no kernel {program.mangled:.100}"

    def text(self, program: EmbeddedProgram, target: str, launch: Launch, size: int) -> Mapping[int, str] | None:
        """Return the text that NVIDIA's reader has of a kernel that no disassembler reads; None where it has none."""
        key = (id(program.cubin), program.mangled)
        if target != _TEXT_BY_READER:
            return None
        if key not in self._texts:
            readable = disassembler_for(target) is not None
            self._texts[key] = None if readable else launch.details.program_text(size) or None
        return self._texts[key]


def report_modules(path: Path, origin: str, choice: KernelChoice) -> Iterator[InputModule]:
    """Yield the code of a report's launches in their order, by architecture.

    Raises InputError where the report cannot be read, or embeds no code at all.
    """
    report = read_ncu_rep(path)
    kernels, bare = _kernels(report, origin, choice)
    if not kernels and _NO_TEXT in bare:
        raise EnvironmentProblem(f"{origin}: {_NO_TEXT}", _TEXT_HINT)
    if not kernels:
        raise InputError(
            f"{origin}: none of its {len(report.launches)} launches has code that can be read"
            + (f": {next(iter(bare))}" if bare else ""),
            "check the program or its cubin instead",
        )
    notes = tuple(f"{origin}: {counted(number, 'launch', 'es')} left out: {why}" for why, number in bare.items())
    there = list(dict.fromkeys(kernel.target for kernel in kernels))
    for target, group in groupby(kernels, key=lambda kernel: kernel.target):
        launches = list(group)
        wanted = choice.means_target(target, there)
        yield InputModule(
            origin=origin,
            target=target,
            form="sass",
            holds=len(launches),
            kernels=tuple(kernel for kernel in launches if wanted and choice.means(kernel.kernel.mangled, kernel.name)),
            tools=(f"ncu {report.tool_version}",) if report.tool_version else (),
            notes=notes,
        )
        notes = ()


def _kernels(report: Report, origin: str, choice: KernelChoice) -> tuple[list[CompiledKernel], dict[str, int]]:
    """Return the kernels of the launches, and why how many have none."""
    programs = _Programs()
    kernels: list[CompiledKernel] = []
    bare: dict[str, int] = {}
    for number, launch in enumerate(report.launches):
        kernel = _kernel(launch, number, origin, choice, programs)
        if isinstance(kernel, str):
            bare[kernel] = bare.get(kernel, 0) + 1
        else:
            kernels.append(kernel)
    return kernels, bare


def _kernel(
    launch: Launch, number: int, origin: str, choice: KernelChoice, programs: _Programs
) -> CompiledKernel | str:
    program = launch.details.program() if launch.kind == "kernel" else None
    if program is None:
        return (
            "the report embeds no code of them" if launch.kind == "kernel" else f"a {launch.kind:.40} is not a kernel"
        )
    known = programs.kernel(program)
    if isinstance(known, str):
        return known
    target, kernel = known
    dynamic = launch.metrics.number(_DYNAMIC_SHARED)
    shape = KnownLaunch(
        block=launch.block,
        grid=launch.grid,
        dynamic_shared_bytes=round(dynamic) if dynamic is not None else None,
    )
    compiled = compiled_kernel(
        kernel, launch.demangled or kernel.mangled, target, program.cubin, origin=origin, choice=choice, shape=shape
    )
    sass = programs.text(program, target, launch, len(kernel.code))
    if sass is None and target == _TEXT_BY_READER and disassembler_for(target) is None:
        return _NO_TEXT
    return replace(compiled, launch=number, sass=sass)
