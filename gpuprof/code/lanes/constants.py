"""Where a launch's sizes and a kernel's arguments lie in constant bank 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class ArgumentBytes(NamedTuple):
    """An argument of a kernel: a number of 1, 2, 4 or 8 bytes; without a value it is not known.

    A pointer is a multiple of `aligned`, as cudaMalloc returns it (CUDA C++ Programming Guide, Device Memory Accesses).
    """

    size_bytes: int
    value: int | None = None
    aligned: int = 1


POINTER = ArgumentBytes(8, aligned=256)


class _Layout(NamedTuple):
    block: int
    grid: int
    arguments: int


_LAYOUTS = (
    (100, _Layout(0x360, 0x370, 0x380)),
    (90, _Layout(0x0, 0xC, 0x210)),
    (0, _Layout(0x0, 0xC, 0x160)),
)
"""From which compute capability: where code that NVRTC 13.5 compiles reads blockDim, gridDim and its arguments."""


def constants_for(
    target: str,
    block: tuple[int, int, int],
    grid: tuple[int, int, int] | None,
    arguments: Sequence[ArgumentBytes] = (),
) -> dict[int, int]:
    """Return the known bytes of constant bank 0 by their offset, for one launch; `grid` None: not known.

    Arguments lie one behind the other, each at a multiple of its own size.
    """
    number = int(target.removeprefix("sm_").rstrip("af"))
    layout = next(layout for lowest, layout in _LAYOUTS if number >= lowest)
    known: dict[int, int] = {}
    for start, sizes in ((layout.block, block), (layout.grid, grid or ())):
        for index, size in enumerate(sizes):
            known |= _bytes(start + 4 * index, 4, size)
    offset = layout.arguments
    for argument in arguments:
        offset += -offset % argument.size_bytes
        if argument.value is not None:
            known |= _bytes(offset, argument.size_bytes, argument.value)
        else:
            known |= _bytes(offset, (argument.aligned.bit_length() - 1) // 8, 0)
        offset += argument.size_bytes
    return known


def _bytes(offset: int, size: int, value: int) -> dict[int, int]:
    content = (value % (1 << 8 * size)).to_bytes(size, "little")
    return {offset + index: byte for index, byte in enumerate(content)}
