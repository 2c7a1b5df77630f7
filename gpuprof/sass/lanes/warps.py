"""The warps of a block of threads: one that stands for all that are full, and those that are looked at each."""

from __future__ import annotations

from typing import NamedTuple

from gpuprof.sass.lanes.operands import ThreadBlock
from gpuprof.sass.lanes.values import LANES, UNIFORM, ZERO, LaneValue, value, zero_bits

_Dims = tuple[int, int, int]
_ALL = (1 << LANES) - 1
_EVERY = -1
"""The number of no warp, so that a block with it equals no block with a warp."""
_NO_SIZE, _ONE_ROW = (0, 0, 0), (1 << 20, 1, 1)


class AnyWarp(ThreadBlock):
    """Every full warp of a block: threadIdx of a lane is known but for what differs from warp to warp.

    Of a block without a size nothing is known of it.
    """

    __slots__ = ()

    @property
    def lanes(self) -> int:
        """Return all lanes."""
        return _ALL

    def thread_indices(self) -> tuple[LaneValue | None, ...]:
        """Return threadIdx as far as it is the same for all warps.

        Rows that warps fill leave a multiple of 32 unknown in x. Where a warp holds several whole rows, or planes,
        that is exact, and what is unknown is in the next direction.
        """
        if self.size == _NO_SIZE:
            return None, None, None
        known: list[LaneValue] = []
        inner = 1
        for size in self.size:
            lanes = [lane // inner for lane in range(LANES)]
            rows = LANES // inner
            if size == 1:
                known.append(ZERO)
            elif inner >= LANES:
                known.append(UNIFORM)
            elif size < rows:
                known.append(value(lane % size for lane in lanes))
            else:
                known.append(value(lanes) if size == rows else value(lanes, zero_bits(rows)))
            inner *= size
        return tuple(known)


def any_warp(block: _Dims | None, *, only_x: bool = True) -> AnyWarp | None:
    """Return what stands for all full warps of a block; None where they are not alike.

    Where the block is not known, it is taken to be one row, or to have rows of a multiple of 32 threads, if the kernel
    reads `only_x` of threadIdx; else nothing is known of threadIdx.
    """
    if block is None:
        return AnyWarp(_ONE_ROW if only_x else _NO_SIZE, _EVERY)
    if block[0] * block[1] * block[2] < LANES:
        return None
    inner = 1
    for size, beyond in zip(block, (block[1] * block[2], block[2], 1), strict=True):
        if inner % LANES == 0 or beyond == 1:
            break
        rows = LANES // inner
        if size % rows and rows % size:
            return None
        inner *= size
    return AnyWarp(block, _EVERY)


class WeightedWarp(NamedTuple):
    """A warp of a block, by its number, and for how many warps it stands."""

    number: int
    weight: float


def warps_of(block: _Dims, most: int) -> tuple[WeightedWarp, ...]:
    """Return the warps of a block; of more than so many a sample, evenly spread, the last one if it is not full."""
    threads = block[0] * block[1] * block[2]
    full, rest = divmod(threads, LANES)
    room = max(1, most - bool(rest))
    chosen = (
        range(full) if full <= room else sorted({round(index * (full - 1) / max(1, room - 1)) for index in range(room)})
    )
    sample = [WeightedWarp(number, full / len(chosen)) for number in chosen]
    return (*sample, WeightedWarp(full, 1.0)) if rest else tuple(sample)


def thread_indices(block: ThreadBlock) -> tuple[LaneValue | None, ...]:
    """Return threadIdx of each lane in a warp: x, y and z."""
    return block.thread_indices() if isinstance(block, AnyWarp) else tuple(map(value, block.indices()))
