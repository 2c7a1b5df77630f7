"""Fat binaries, objects, programs, libraries and archives into kernels: which of their code is asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuprof.errors import DamagedInput, EnvironmentProblem, InputError
from gpuprof.review.inputs.chosen import KernelChoice, fitting, module_of_cubin
from gpuprof.review.inputs.ptx import compiled_ptx
from gpuprof.review.inputs.targets import compiles_for
from gpuprof.review.kernel import InputModule
from gpuprof.sass.binary.fatbin import FatEntry, fatbin_entries
from gpuprof.sass.binary.host_binary import DeviceCode, device_code
from gpuprof.sass.tools.cuobjdump import cubin_of, find_cuobjdump, ptx_of

_ENTRY_POINT = re.compile(rb"^[^\S\n]*(?:\.(?:visible|weak|extern)[^\S\n]+)*\.entry\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Unit:
    """The code of one source file, for several architectures: what a container of a fat binary holds."""

    origin: str
    entries: tuple[FatEntry, ...]

    @property
    def sass(self) -> tuple[FatEntry, ...]:
        """Return its machine code."""
        return tuple(entry for entry in self.entries if entry.kind == "sass")

    @property
    def ptx(self) -> tuple[FatEntry, ...]:
        """Return its PTX, the newest first."""
        ptx = (entry for entry in self.entries if entry.kind == "ptx")
        return tuple(sorted(ptx, key=lambda entry: int(entry.target.strip("compute_af") or 0), reverse=True))


def binary_modules(path: Path, name: str, choice: KernelChoice) -> Iterator[InputModule]:
    """Yield the code of a binary that is asked for. Raises InputError where it has none, DamagedInput for a broken one.

    Of code that is missing for an architecture, all that is there instead is yielded, too, without kernels.
    """
    try:
        for code in device_code(path):
            origin = f"{name}[{code.member}]" if code.member else name
            if code.form == "cubin":
                yield module_of_cubin(code.part.read(), origin, choice)
                continue
            for unit in _units(code, origin):
                yield from _of_unit(unit, choice, name)
    except DamagedInput as error:
        named = error.message.startswith(name)
        raise DamagedInput(error.message if named else f"{name}: {error.message}", error.hint) from error


def _units(code: DeviceCode, origin: str) -> Iterator[_Unit]:
    """Yield the containers of a fat binary: entries of one lie side by side."""
    entries: list[FatEntry] = []
    for entry in fatbin_entries(code.part):
        last = entries[-1] if entries else None
        if last is not None and entry.header.start not in (last.header.start, last.stored.start + last.stored.size):
            yield _Unit(origin, tuple(entries))
            entries = []
        entries.append(entry)
    if entries:
        yield _Unit(origin, tuple(entries))


def _of_unit(unit: _Unit, choice: KernelChoice, name: str) -> Iterator[InputModule]:
    """Yield the code of one source that is asked for."""
    there = [entry.target for entry in unit.sass]
    if not choice.targets:
        yield from _all_of(unit, choice, name)
        return
    complete = all(wanted in there for wanted in choice.targets)
    taken = {fitting(wanted, there) for wanted in choice.targets}
    holds = 0
    for entry in unit.sass:
        if entry.target in taken or not complete:
            notes = _stand_in_notes(entry.target, there, choice, name)
            module = _unpacked(entry, unit.origin, choice, notes=notes, wanted=entry.target in taken)
            holds = module.holds
            yield module
    left: dict[str, InputModule] = {}
    if not complete:
        left = {entry.target: _not_compiled(entry, unit.origin, holds) for entry in unit.ptx}
    for wanted in choice.targets:
        if fitting(wanted, there) is None:
            left.update(_from_ptx(unit, wanted, choice, name, holds))
    yield from left.values()


def _all_of(unit: _Unit, choice: KernelChoice, name: str) -> Iterator[InputModule]:
    """Yield all code of one source; PTX is compiled only where there is no machine code."""
    holds = 0
    for entry in unit.sass:
        module = _unpacked(entry, unit.origin, choice)
        holds = module.holds
        yield module
    if unit.sass:
        yield from (_not_compiled(entry, unit.origin, holds) for entry in unit.ptx)
    elif unit.ptx:
        yield from _from_ptx(unit, unit.ptx[0].target.replace("compute_", "sm_"), choice, name, 0).values()
    elif any(entry.kind == "lto" for entry in unit.entries):
        raise InputError(
            f"{unit.origin} has code for link-time optimisation only", "check the program that is linked of it"
        )


def _stand_in_notes(target: str, there: Sequence[str], choice: KernelChoice, name: str) -> tuple[str, ...]:
    """Say for which architectures code of another one stands in."""
    others = [wanted for wanted in choice.targets if wanted != target and fitting(wanted, there) == target]
    return tuple(f"{name}: has no code for {wanted}; a GPU of that runs its code for {target}" for wanted in others)


def _unpacked(
    entry: FatEntry, origin: str, choice: KernelChoice, *, notes: tuple[str, ...] = (), wanted: bool = True
) -> InputModule:
    """Return the code of an entry; without kernels where it is for an architecture that cuobjdump knows no longer."""
    tool = find_cuobjdump() if entry.compressed else None
    try:
        cubin = cubin_of(entry)
    except EnvironmentProblem as error:
        if tool is None:
            raise
        left_out = f"{origin}: {error.message}"
        return InputModule(
            origin=origin, target=entry.target, form="sass", holds=0, kernels=(), notes=(*notes, left_out)
        )
    tools = (str(tool),) if tool is not None else ()
    return module_of_cubin(cubin, origin, choice, tools=tools, notes=notes, wanted=wanted)


def _from_ptx(unit: _Unit, wanted: str, choice: KernelChoice, name: str, holds: int) -> dict[str, InputModule]:
    """Return what ptxas makes of PTX for an architecture without machine code; the PTX where it can make nothing."""
    entry = next((entry for entry in unit.ptx if compiles_for(entry.target, wanted)), None)
    if entry is None:
        return {}
    note = f"{name}: has no code for {wanted}; its PTX for {entry.target} was compiled as a driver would"
    try:
        return {
            wanted: compiled_ptx(
                ptx_of(entry), f"{unit.origin} ({entry.target})", wanted, choice, origin=unit.origin, notes=(note,)
            )
        }
    except InputError as error:
        return {entry.target: _not_compiled(entry, unit.origin, holds, error.message)}


def _not_compiled(entry: FatEntry, origin: str, holds: int, *notes: str) -> InputModule:
    """Return PTX as it is; where it is compressed, it has the kernels that the machine code of the same source has."""
    if not entry.compressed:
        holds = len(_ENTRY_POINT.findall(entry.content()))
    return InputModule(origin=origin, target=entry.target, form="ptx", holds=holds, kernels=(), notes=notes)
