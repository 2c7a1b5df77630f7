"""The warps of a block of threads: one that represents all full warps, and a sample of single warps."""

from __future__ import annotations

from typing import NamedTuple

from gpuprof.sass.dataflow.expressions import LANES, UNIFORM, ZERO, LinearExpr, folded, zero_bits

_Dims = tuple[int, int, int]
_EVERY = -1
"""The number of the warp that represents all full warps; no real warp has it."""
_NO_SIZE = (0, 0, 0)


THREAD_INDICES = ("SR_TID.X", "SR_TID.Y", "SR_TID.Z")


class ThreadBlock(NamedTuple):
    """A block of threads, and which of its warps is analysed. `first`: the block is block 0."""

    size: _Dims
    warp: int = 0
    first: bool = False

    @property
    def threads(self) -> int:
        """Return the number of threads."""
        return self.size[0] * self.size[1] * self.size[2]

    @property
    def lanes(self) -> int:
        """Return the mask of lanes that have a thread."""
        if self.warp == _EVERY:
            return (1 << LANES) - 1
        return (1 << max(0, min(LANES, self.threads - self.warp * LANES))) - 1

    def indices(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Return threadIdx of each lane: x runs fastest (CUDA C++ Programming Guide, Thread Hierarchy)."""
        width, height, _ = self.size
        threads = range(self.warp * LANES, (self.warp + 1) * LANES)
        return (
            tuple(thread % width for thread in threads),
            tuple(thread // width % height for thread in threads),
            tuple(thread // (width * height) for thread in threads),
        )


def any_warp(block: _Dims | None, *, only_x: bool = True) -> ThreadBlock | None:
    """Return a representative of all full warps of a block; None if full warps differ.

    Without a block: if the kernel reads `only_x` of threadIdx, the block is assumed to be one row, or to have rows of a
    multiple of 32 threads. Otherwise threadIdx is unknown.
    """
    if block is None:
        return ANY_ROWS if only_x else ThreadBlock(_NO_SIZE, _EVERY)
    alike = block[0] * block[1] * block[2] >= LANES and _indices_of_any(block) is not None
    return ThreadBlock(block, _EVERY) if alike else None


ANY_ROWS = ThreadBlock((1 << 20,) * 3, _EVERY)
"""A warp of a block whose rows are multiples of 32 threads."""


class WeightedWarp(NamedTuple):
    """A warp of a block, by its number, and how many warps it represents."""

    number: int
    weight: float


def warps_of(block: _Dims, most: int) -> tuple[WeightedWarp, ...]:
    """Return the warps of a block; of more than `most`, an evenly spread sample, with the last one if it is partial."""
    threads = block[0] * block[1] * block[2]
    full, rest = divmod(threads, LANES)
    room = max(1, most - bool(rest))
    if full > room:
        chosen = {round(index * (full - 1) / max(1, room - 1)) for index in range(room)}
    else:
        chosen = set(range(full))
    sample = [WeightedWarp(number, full / len(chosen)) for number in sorted(chosen)]
    return (*sample, WeightedWarp(full, 1.0)) if rest else tuple(sample)


def thread_indices(block: ThreadBlock) -> tuple[LinearExpr | None, ...]:
    """Return threadIdx.x, y and z in each lane of a warp; None for each that is unknown."""
    if block.warp != _EVERY:
        return tuple(LinearExpr(folded(lanes)) for lanes in block.indices())
    known = _indices_of_any(block.size) if block.size != _NO_SIZE else None
    return known or (None, None, None)


def _indices_of_any(block: _Dims) -> tuple[LinearExpr, ...] | None:
    """Return threadIdx for all full warps at once; None if rows begin at different lanes in different warps.

    If rows are multiples of 32 threads, x is known except for a multiple of 32. If a warp has several whole rows (or
    planes), x is exact and the next axis has the unknown part.
    """
    known: list[LinearExpr] = []
    inner = 1
    for size, beyond in zip(block, (block[1] * block[2], block[2], 1), strict=True):
        rows = LANES // inner
        lanes = tuple(lane // inner for lane in range(LANES))
        if size == 1:
            known.append(ZERO)
        elif inner >= LANES:
            known.append(UNIFORM)
        elif beyond > 1 and size % rows and rows % size:
            return None
        elif size < rows:
            known.append(LinearExpr(tuple(lane % size for lane in lanes)))
        else:
            known.append(LinearExpr(lanes) if size == rows else LinearExpr(lanes, (), zero_bits(rows)))
        inner *= size
    return tuple(known)
