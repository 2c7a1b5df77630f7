"""Where a launch's sizes and a kernel's arguments lie in constant bank 0, and which arguments are pointers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.sass.instruction import Instruction, Operation
from gpuprof.sass.operands import named, sources, written

_Dims = tuple[int, int, int]


class ArgumentBytes(NamedTuple):
    """An argument of a kernel: a number of 1, 2, 4 or 8 bytes; without a value it is not known.

    A pointer is a multiple of `aligned`, as cudaMalloc returns it (CUDA C++ Programming Guide, Device Memory Accesses).
    """

    size_bytes: int
    value: int | None = None
    aligned: int = 1


POINTER = ArgumentBytes(8, aligned=256)


class PlacedArgument(NamedTuple):
    """An argument, how far behind the first one it lies, in bytes, and its value, if that is known."""

    offset: int
    size_bytes: int
    value: int | None = None


class _Layout(NamedTuple):
    block: int
    grid: int
    arguments: int


_LAYOUTS = (
    (100, _Layout(0x360, 0x370, 0x380)),
    (90, _Layout(0x0, 0xC, 0x210)),
    (0, _Layout(0x0, 0xC, 0x160)),
)
"""By the lowest compute capability: the offsets at which code by NVRTC 13.5 reads blockDim, gridDim and arguments."""
_NUMBER = re.compile(r"sm_(\d+)")


def constants_for(
    target: str,
    block: _Dims,
    grid: _Dims | None,
    arguments: Sequence[ArgumentBytes] = (),
) -> dict[int, int]:
    """Return the known bytes of constant bank 0 by their offset, for one launch; `grid` None: not known.

    Arguments lie one behind the other, each at a multiple of its own size.
    """
    layout = _layout(target)
    known = _sizes(layout, block, grid)
    offset = layout.arguments
    for argument in arguments:
        offset += -offset % argument.size_bytes
        if argument.value is not None:
            known |= _bytes(offset, argument.size_bytes, argument.value)
        else:
            known |= _bytes(offset, (argument.aligned.bit_length() - 1) // 8, 0)
        offset += argument.size_bytes
    return known


def known_constants(
    target: str,
    block: _Dims | None,
    grid: _Dims | None,
    arguments: Iterable[PlacedArgument],
    *,
    begin: int | None,
    aligned: Callable[[int], Collection[int]],
) -> dict[int, int]:
    """Return the known bytes of constant bank 0 by their offset, with arguments at the offsets in the cubin.

    `begin` is the offset of the first one; None: that of the architecture. `aligned` returns which offsets contain
    pointers: multiples of 256, as cudaMalloc returns them (CUDA C++ Programming Guide, Device Memory Accesses).
    """
    layout = _layout(target)
    first = begin if begin is not None else layout.arguments
    known = _sizes(layout, block, grid) | dict.fromkeys(aligned(first), 0)
    for argument in arguments:
        if argument.value is not None:
            known |= _bytes(first + argument.offset, min(argument.size_bytes, 8), argument.value)
    return known


def size_offsets(target: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the offsets of blockDim.x, y and z in constant bank 0, and those of gridDim."""
    layout = _layout(target)
    return tuple(range(layout.block, layout.block + 12, 4)), tuple(range(layout.grid, layout.grid + 12, 4))


def _layout(target: str) -> _Layout:
    match = _NUMBER.match(target)
    number = int(match[1]) if match else 0
    return next(layout for lowest, layout in _LAYOUTS if number >= lowest)


def _sizes(layout: _Layout, block: _Dims | None, grid: _Dims | None) -> dict[int, int]:
    known: dict[int, int] = {}
    for start, sizes in ((layout.block, block or ()), (layout.grid, grid or ())):
        for index, size in enumerate(sizes):
            known |= _bytes(start + 4 * index, 4, size)
    return known


def _bytes(offset: int, size: int, value: int) -> dict[int, int]:
    content = (value % (1 << 8 * size)).to_bytes(size, "little")
    return {offset + index: byte for index, byte in enumerate(content)}


# Pointers

_BANK = re.compile(r"c\[0x0\]\[(0x[0-9a-f]+)\]")
_REGISTER = re.compile(r"U?R\d+")
_COPIES = {"MOV", "UMOV", "LDC", "LDCU", "ULDC", "R2UR"}
_SUMS = {"IADD3", "UIADD3", "IADD", "UIADD"}
_LAST = {"IMAD", "UIMAD"}
_SECOND = {"LEA", "ULEA"}


def pointers(code: Sequence[Instruction], offsets: Collection[int]) -> frozenset[int]:
    """Return those of these offsets in bank 0 whose two words are only ever added to something, or used as an address.

    What is multiplied, shifted, compared or masked is a number. Copies in registers count until they are overwritten,
    in the order of the code.
    """
    held: dict[str, int] = {}
    seen: set[int] = set()
    numbers: set[int] = set()
    for instruction in code:
        banks = _banks(instruction.operation)
        if not banks and (not held or held.keys().isdisjoint(_named(instruction.operation))):
            continue
        used = [(place, offset) for place, offset in banks if offset in offsets]
        used += ((place, held[name]) for place, name in _sources_named(instruction.operation) if name in held)
        for name in written(instruction):
            held.pop(name, None)
        is_copy = instruction.name in _COPIES or instruction.is_a("IMAD.MOV")
        for place, offset in used:
            seen.add(offset)
            if is_copy:
                held.update((name, offset) for name in _filled(instruction))
            elif not _adds(instruction, place):
                numbers.add(offset)
    return frozenset(seen - numbers)


@lru_cache(maxsize=1 << 16)
def _banks(operation: Operation) -> tuple[tuple[int, int], ...]:
    """Return which sources of an operation are of constant bank 0, and their offsets."""
    if not any("c[0x0]" in operand for operand in operation.operands):
        return ()
    matches = ((place, _BANK.search(operand)) for place, operand in enumerate(sources(Instruction(0, operation))))
    return tuple((place, int(match[1], 16)) for place, match in matches if match)


@lru_cache(maxsize=1 << 16)
def _named(operation: Operation) -> frozenset[str]:
    return frozenset(name for operand in operation.operands for name in named(operand)).union(
        written(Instruction(0, operation))
    )


def _sources_named(operation: Operation) -> Iterator[tuple[int, str]]:
    """Yield the registers that the sources of an operation name, and in which."""
    for place, operand in enumerate(sources(Instruction(0, operation))):
        yield from ((place, name) for name in named(operand))


def _filled(instruction: Instruction) -> list[str]:
    """Return the first register that a copy writes: that of the lower word."""
    return [name for name in instruction.operands[:1] if _REGISTER.fullmatch(name)]


def _adds(instruction: Instruction, place: int) -> bool:
    """Return whether a source of an instruction is only added to something, or an address."""
    operands = sources(instruction)
    if "[" in operands[place] and not operands[place].startswith("c["):
        return True
    plain = [at for at, operand in enumerate(operands) if "P" not in operand]
    at = plain.index(place) if place in plain else -1
    if instruction.name in _SUMS:
        return not operands[place].startswith("-")
    if instruction.name in _LAST:
        return at == 2
    return instruction.name in _SECOND and at == 1
