"""The layout of constant bank 0 (launch sizes, kernel arguments), and which arguments are pointers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import named, sources, written

_Dims = tuple[int, int, int]


class PlacedArgument(NamedTuple):
    """An argument: its offset from the first one, its size, and its value if known."""

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
"""Offsets of blockDim, gridDim and arguments in code by NVRTC 13.5, by the lowest compute capability they apply to."""
_NUMBER = re.compile(r"sm_(\d+)")


def known_constants(
    target: str,
    block: _Dims | None,
    grid: _Dims | None,
    arguments: Iterable[PlacedArgument] = (),
    *,
    begin: int | None = None,
    aligned: Callable[[int], Collection[int]] = lambda _: (),
) -> dict[int, int]:
    """Return the known bytes of constant bank 0 by their offset.

    `begin` is the offset of the first argument; None: that of the architecture. `aligned` maps it to the offsets whose
    byte is 0, as the low byte of a pointer is: cudaMalloc returns multiples of 256 (CUDA C++ Programming Guide, Device
    Memory Accesses).
    """
    layout = _layout(target)
    first = begin if begin is not None else layout.arguments
    known = dict.fromkeys(aligned(first), 0)
    for start, sizes in ((layout.block, block or ()), (layout.grid, grid or ())):
        for index, size in enumerate(sizes):
            known |= _bytes(start + 4 * index, 4, size)
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


def _bytes(offset: int, size: int, value: int) -> dict[int, int]:
    content = (value % (1 << 8 * size)).to_bytes(size, "little")
    return {offset + index: byte for index, byte in enumerate(content)}


# Pointers

_BANK_0 = re.compile(r"c\[0x0\]\[(?:U?RZ\+?)?(?P<offset>0x[0-9a-f]+)?\]")
"""`c[0x0][RZ]` is how nvdisasm prints the first word, blockDim.x on sm_90 and older."""
_COPIES = {"MOV", "UMOV", "LDC", "LDCU", "ULDC", "R2UR"}
_SUMS = {"IADD3", "UIADD3", "IADD", "UIADD"}
_ADDENDS = {"IMAD": 2, "UIMAD": 2, "LEA": 1, "ULEA": 1}
"""The sources that are only added."""


@lru_cache(maxsize=1 << 16)
def bank_offset(operand: str) -> int | None:
    """Return the offset in constant bank 0 that an operand reads; None for other operands."""
    match = _BANK_0.fullmatch(operand)
    return int(match["offset"] or "0", 16) if match else None


def pointers(code: Sequence[Instruction], offsets: Collection[int]) -> frozenset[int]:
    """Return the offsets whose two words are pointers: only ever added to something, or used as an address.

    A value that is multiplied, shifted, compared or masked is a number. Copies in registers are followed in the order
    of the code until they are overwritten.
    """
    copies: dict[str, int] = {}
    seen: set[int] = set()
    numbers: set[int] = set()
    for instruction in code:
        used = list(_used(instruction, offsets, copies))
        if copies:
            for name in written(instruction):
                copies.pop(name, None)
        for place, offset in used:
            seen.add(offset)
            if instruction.name in _COPIES or instruction.is_a("IMAD.MOV"):
                copies[instruction.operands[0]] = offset
            elif not _adds(instruction, place):
                numbers.add(offset)
    return frozenset(seen - numbers)


def _used(instruction: Instruction, offsets: Collection[int], copies: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Yield, for each argument that an instruction reads, the index of the source operand and the argument's offset."""
    for place, operand in enumerate(sources(instruction)):
        offset = bank_offset(operand.strip("-~|"))
        if offset is not None and offset in offsets:
            yield place, offset
        for name in named(operand) if copies else ():
            if name in copies:
                yield place, copies[name]


def _adds(instruction: Instruction, place: int) -> bool:
    """Return whether a source operand is only added to something, or is an address."""
    operand = sources(instruction)[place]
    if "[" in operand and not operand.startswith("c["):
        return True
    if instruction.name in _SUMS:
        return not operand.startswith("-")
    return _ADDENDS.get(instruction.name) == place
