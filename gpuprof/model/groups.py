"""Which launches are alike, and what speaks for them: same name, grid, block and ranges on one GPU of one report."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

from gpuprof.model.recorded import Dim3
from gpuprof.model.session import DurationSpread
from gpuprof.model.timed import Groupable

Item = TypeVar("Item")


def kind_of(
    source: int, device: int, name: str, grid: Dim3 | None, block: Dim3 | None, ranges: tuple[str, ...], number: int
) -> Hashable:
    """Return what equal launches share; a launch of unknown grid or block is like no other (`number` is its own)."""
    if grid is None or block is None:
        return number
    return source, device, name, grid, block, ranges


def kind_of_kernel(kernel: Groupable, name: str) -> Hashable:
    """Return what equal launches share for a kernel of a session, under one of its names."""
    return kind_of(kernel.source, kernel.device, name, kernel.grid, kernel.block, kernel.ranges, kernel.id)


def collected(items: Iterable[tuple[Hashable, Item]]) -> list[list[Item]]:
    """Return the items of each kind, kinds in the order of their first item."""
    groups: dict[Hashable, list[Item]] = {}
    for kind, item in items:
        groups.setdefault(kind, []).append(item)
    return list(groups.values())


def middle(durations: Sequence[float | None]) -> int:
    """Return the place of the launch that speaks for its group: of median duration, the first where none is known."""
    timed = sorted((duration, place) for place, duration in enumerate(durations) if duration is not None)
    return timed[(len(timed) - 1) // 2][1] if timed else 0


def spread(durations: Sequence[float | None]) -> DurationSpread | None:
    """Return how the known durations differ; None where none is known."""
    ordered = sorted(duration for duration in durations if duration is not None)
    if not ordered:
        return None
    return DurationSpread(
        min=ordered[0],
        p50=percentile(ordered, 50),
        p95=percentile(ordered, 95),
        p99=percentile(ordered, 99),
        max=ordered[-1],
        count=len(ordered),
    )


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile: the smallest value that at least so many percent do not exceed."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(1, rank) - 1]
