"""Fat binaries, objects, programs, libraries and archives into kernels, for the requested architectures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuprof.errors import DamagedInput, InputError
from gpuprof.review.inputs.chosen import fitting, module_of_cubin
from gpuprof.review.inputs.ptx import compiled_ptx
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.targets import compiles_for
from gpuprof.review.kernel import InputModule
from gpuprof.sass.binary.fatbin import FatEntry, containers
from gpuprof.sass.binary.host_binary import device_code

_ENTRY_POINT = re.compile(rb"^[^\S\n]*(?:\.(?:visible|weak|extern)[^\S\n]+)*\.entry\b", re.MULTILINE)


def binary_modules(path: Path, name: str, request: ReviewRequest) -> Iterator[InputModule]:
    """Yield the requested code of a binary. Raises InputError if it has none, DamagedInput for a broken one.

    If code for an architecture is missing, all other code is yielded, too, without kernels.
    """
    try:
        for code in device_code(path):
            origin = f"{name}[{code.member}]" if code.member else name
            if code.form == "cubin":
                yield module_of_cubin(bytes(code.part), origin, request)
                continue
            for entries in containers(code.part):
                yield from _of_source(entries, origin, request, name)
    except DamagedInput as error:
        named = error.message.startswith(name)
        raise DamagedInput(error.message if named else f"{name}: {error.message}", error.hint) from error


def _of_source(entries: Sequence[FatEntry], origin: str, request: ReviewRequest, name: str) -> Iterator[InputModule]:
    """Yield the requested code of one source. PTX is compiled only if there is no machine code."""
    sass = [entry for entry in entries if entry.kind == "sass"]
    ptx = [entry for entry in entries if entry.kind == "ptx"]
    ptx.sort(key=lambda entry: int(entry.target.strip("compute_af") or 0), reverse=True)
    if not sass and not ptx and any(entry.kind == "lto" for entry in entries):
        raise InputError(f"{origin} has code for link-time optimisation only", "check the program that is linked of it")
    available = [entry.target for entry in sass]
    newest = [entry.target.replace("compute_", "sm_") for entry in ptx[:1]]
    fits = {wanted: fitting(wanted, available) for wanted in request.targets or available or newest}
    is_complete = bool(request.targets) and all(wanted == fit for wanted, fit in fits.items())
    kernels = 0
    for entry in sass:
        is_wanted = entry.target in fits.values()
        if is_wanted or not is_complete:
            others = [wanted for wanted, fit in fits.items() if fit == entry.target != wanted]
            notes = (
                f"{name}: has no code for {wanted}; a GPU of that runs its code for {entry.target}" for wanted in others
            )
            module = module_of_cubin(entry.content(), origin, request, notes=tuple(notes), wanted=is_wanted)
            kernels = module.holds
            yield module
    if is_complete:
        return
    rest: dict[str, InputModule] = {}
    if sass or request.targets:
        rest = {entry.target: _not_compiled(entry, origin, kernels) for entry in ptx}
    for wanted, fit in fits.items():
        compiling = [entry for entry in ptx if compiles_for(entry.target, wanted)]
        if compiling and fit is None:
            module = _compiled(compiling[0], origin, wanted, request, name, kernels)
            rest[module.target] = module
    yield from rest.values()


def _compiled(
    entry: FatEntry, origin: str, wanted: str, request: ReviewRequest, name: str, kernels: int
) -> InputModule:
    """Return PTX compiled for an architecture without machine code; the PTX itself if it does not compile."""
    note = f"{name}: has no code for {wanted}; its PTX for {entry.target} was compiled as a driver would"
    try:
        ptx = entry.content().rstrip(b"\0")
        return compiled_ptx(ptx, f"{origin} ({entry.target})", wanted, request, origin=origin, notes=(note,))
    except InputError as error:
        return _not_compiled(entry, origin, kernels, error.message)


def _not_compiled(entry: FatEntry, origin: str, kernels: int, *notes: str) -> InputModule:
    """Return PTX as it is; if it is compressed, it has as many kernels as the machine code of the same source."""
    if not entry.compressed:
        kernels = len(_ENTRY_POINT.findall(entry.content()))
    return InputModule(origin=origin, target=entry.target, form="ptx", holds=kernels, kernels=(), notes=notes)
