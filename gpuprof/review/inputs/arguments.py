"""Values that the user gives to arguments, and to parts of those that are structures, for the kernels that have them.

"3" and "n" name an argument; "in.stride", "in+8" and "0+8" a part.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gpuprof.errors import UsageError
from gpuprof.review.kernel import SCALAR_BYTES, ArgumentPart, CompiledKernel, InputModule
from gpuprof.sass.binary.cubin_attributes import CubinParameter

_KEY = re.compile(r"(?P<argument>\w+)(?P<path>\+(?P<offset>\d{1,6})|[.\[].*)?")
_MOST_KERNELS, _MOST_LISTED = 5, 20


def with_arguments(modules: Sequence[InputModule], values: Mapping[str, int]) -> tuple[InputModule, ...]:
    """Return the modules with the values at the kernels that have such arguments.

    Raises UsageError for a value that no chosen kernel takes, or that does not fit.
    """
    if not values:
        return tuple(modules)
    taken: set[str] = set()
    given = []
    for module in modules:
        changed = tuple(_given(kernel, values, taken) for kernel in module.kernels)
        given.append(replace(module, kernels=changed, notes=(*module.notes, *_notes(changed))))
    kernels = [kernel for module in modules for kernel in module.kernels]
    for key in values:
        if kernels and key not in taken:
            raise _refusal(kernels, key)
    return tuple(given)


def _given(kernel: CompiledKernel, values: Mapping[str, int], taken: set[str]) -> CompiledKernel:
    """Return a kernel with the values that it takes, whose keys are added to `taken`."""
    arguments: dict[int, int] = {}
    parts: dict[ArgumentPart, int] = {}
    for key, value in values.items():
        for part in _parts(kernel, key, values):
            taken.add(key)
            bits = 8 * part.size_bytes
            if not -(1 << bits - 1) <= value < 1 << bits:
                size = f"{part.size_bytes} bytes, the size of that argument of {kernel.name:.100}"
                raise UsageError(f"--arg {part}={value} does not fit into {size}")
            given = parts.setdefault(part, value) if part.path else arguments.setdefault(part.ordinal, value)
            if given != value:
                raise UsageError(f"--arg {key:.60} is given twice, with two values", "give each argument once")
    return replace(kernel, shape=replace(kernel.shape, arguments=arguments, parts=parts))


def _parts(kernel: CompiledKernel, key: str, keys: Collection[str]) -> Iterator[ArgumentPart]:
    """Yield what a key names in a kernel, beside the other `keys`."""
    match = _KEY.fullmatch(key)
    if match is None:
        return
    for parameter in kernel.kernel.parameters:
        if match["argument"] not in (str(parameter.ordinal), kernel.name_of(parameter)):
            continue
        members = _members(kernel, parameter)
        if match["path"] is None:
            if parameter.size_bytes <= SCALAR_BYTES:
                yield ArgumentPart(parameter.ordinal, 0, parameter.size_bytes)
        elif match["offset"] is None:
            yield from (member for member in members if member.path == match["path"])
        elif int(match["offset"]) < parameter.size_bytes:
            offset = int(match["offset"])
            word = kernel.word_of(parameter, offset)
            # Of a number of eight bytes, as strides often are, the lower half alone says nothing.
            is_alone = not members and f"{match['argument']}+{offset + word.size_bytes}" not in keys
            if is_alone and offset % SCALAR_BYTES == 0 and offset + SCALAR_BYTES <= parameter.size_bytes:
                word = word._replace(size_bytes=SCALAR_BYTES)
            yield next((member for member in members if member.offset == offset), word)


def _notes(kernels: Sequence[CompiledKernel]) -> Iterator[str]:
    """Yield what was assumed of parts whose members are not known."""
    parts = dict.fromkeys(part for kernel in kernels for part in kernel.shape.parts)
    for part in parts:
        if part.path.startswith("+") and part.size_bytes == SCALAR_BYTES:
            other = f"{part.name or part.ordinal}+{part.offset + 4}"
            yield f"--arg {part} sets 8 bytes, since no member is known; name {other}, too, if another one begins there"


def _members(kernel: CompiledKernel, parameter: CubinParameter) -> list[ArgumentPart]:
    return [member for member in kernel.members if member.ordinal == parameter.ordinal]


def _refusal(kernels: Sequence[CompiledKernel], key: str) -> UsageError:
    """Return the error for a key that names nothing; kernels without code have no arguments that are known."""
    known = dict.fromkeys(f"{kernel.name:.60} has {_listed(kernel)}" for kernel in kernels if kernel.has_code)
    more = f" and {len(known) - _MOST_KERNELS} more kernels" if len(known) > _MOST_KERNELS else ""
    hint = "; ".join(list(known)[:_MOST_KERNELS]) + more
    return UsageError(f"--arg {key:.80}: no kernel has such a number among its arguments", hint)


def _listed(kernel: CompiledKernel) -> str:
    """Name the arguments of a kernel and the parts of structures; without members a part is named by its offset."""
    names: list[str] = []
    for parameter in kernel.kernel.parameters:
        name = kernel.name_of(parameter) or str(parameter.ordinal)
        if parameter.size_bytes <= SCALAR_BYTES:
            names.append(f"{name:.40}")
        else:
            members = [str(member) for member in _members(kernel, parameter)]
            names += members or [f"{name}+8 for byte 8 of {parameter.size_bytes}"]
    return ", ".join(names[:_MOST_LISTED]) + (", …" if len(names) > _MOST_LISTED else "") if names else "none"
