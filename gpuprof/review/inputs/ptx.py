"""PTX into kernels: compiled by ptxas, with the source's lines if it names them, else with its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from gpuprof.errors import InputError
from gpuprof.review.inputs.chosen import module_of_cubin
from gpuprof.review.inputs.file_bytes import read_bytes
from gpuprof.review.inputs.request import ReviewRequest
from gpuprof.review.inputs.targets import compiles_for
from gpuprof.review.kernel import InputModule
from gpuprof.sass.binary.line_table import line_tables
from gpuprof.sass.tools.compile import compile_ptx
from gpuprof.sass.tools.programs import find_programs, targets_of
from gpuprof.sass.tools.ptx_lines import NAME, with_own_lines

_MOST_PTX = 512 * 2**20
_TARGET = re.compile(rb"^[^\S\n]*\.target\s+(sm_\d{2,3}[af]?)\b", re.MULTILINE)
_VERSION = re.compile(rb"^[^\S\n]*\.version\s+\d+\.\d+", re.MULTILINE)


def is_ptx(head: bytes) -> bool:
    """Return whether text is PTX: it says its version and its target first."""
    return b"\0" not in head and _VERSION.search(head) is not None and _TARGET.search(head) is not None


def ptx_modules(path: Path, name: str, request: ReviewRequest) -> Iterator[InputModule]:
    """Yield the kernels of a PTX file for one target. Raises InputError if it does not compile."""
    ptx = read_bytes(path, name, _MOST_PTX).rstrip(b"\0\n ") + b"\n"
    match = _TARGET.search(ptx)
    if match is None:
        raise InputError(f"{name} is not PTX: it has no .target", "write it with nvcc -ptx, or name the .cu")
    own = match[1].decode()
    target = next(iter(request.targets), None) or _own_or_next(own)
    if not compiles_for(own, target):
        hint = f"leave --arch out: it is then compiled for {own}"
        raise InputError(f"{name} is PTX for {own}, which does not compile for {target}", hint)
    is_other = not request.targets and target != own
    notes = (f"{name}: compiled for {target}, since no ptxas here knows {own}",) if is_other else ()
    yield compiled_ptx(ptx, name, target, request, notes=notes)


def compiled_ptx(
    ptx: bytes,
    name: str,
    target: str,
    request: ReviewRequest,
    *,
    origin: str | None = None,
    notes: tuple[str, ...] = (),
) -> InputModule:
    """Return the kernels of PTX that was compiled for a target. Raises InputError if it does not compile.

    `name` is the name of the PTX in lines and errors.
    """
    compiled = compile_ptx(with_own_lines(ptx), target, name, request.limits)
    tool = " ".join((compiled.compiler, *compiled.options))
    module = module_of_cubin(compiled.cubin, origin or name, request, tools=(tool,), notes=notes, wanted=True)
    tables = line_tables(compiled.cubin)
    kernels = []
    for kernel in module.kernels:
        places = tables.get(kernel.kernel.mangled, {})
        lines = {offset: (name if file == NAME else file, line) for offset, (file, line) in places.items()}
        kernels.append(replace(kernel, lines=lines))
    return replace(module, target=target, kernels=tuple(kernels))


def _own_or_next(own: str) -> str:
    """Return the target of the PTX, or the next newer one if no installed ptxas knows it."""
    known = frozenset[str]().union(*map(targets_of, find_programs("ptxas")))
    if own in known:
        return own
    newer = [target for target in known if target[-1].isdecimal() and compiles_for(own, target)]
    return min(newer, key=lambda target: int(target.removeprefix("sm_")), default=own)
