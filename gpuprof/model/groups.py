"""Which launches are alike, and what speaks for them: same name, configuration and ranges on one GPU of one report.

A configuration is grid and block, registers per thread and shared memory per block: with other registers it is another
build of the kernel. What is not known of a launch does not set it apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Averages, DurationSpread
from gpuprof.model.timed import Groupable

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
USUAL = 0.1
"""By so much the time of a launch may differ from the median of its kernel's, and it still stands for the others."""
OTHER_SIZE = 1.3
"""A gap so wide between the times of a kernel's launches is of another size of its work, such as a GEMM's depth: noise
and clocks fill it."""
_MANY = 20
"""Of so many launches one is an exception, unless it takes nearly all of the time."""
_MOST, _NEARLY_ALL = 0.5, 0.9


def times_apart(one_s: float | None, other_s: float | None) -> float:
    """Return how many times as long the longer of two launches took; 1 if that is not known."""
    return max(one_s / other_s, other_s / one_s) if one_s and other_s else 1.0


class Resources(NamedTuple):
    """What a launch takes of an SM beside its threads; None where it is not known."""

    registers_per_thread: int | None
    shared_memory_per_block: int | None


class LaunchKind(NamedTuple):
    """What equal launches share: what is known of all, and what need not be known."""

    of: Hashable
    resources: Resources


def kind_of(
    source: int,
    device: int,
    name: str,
    shape: tuple[Dim3 | None, Dim3 | None],
    resources: Resources,
    ranges: tuple[str, ...],
    number: int,
) -> LaunchKind:
    """Return what equal launches share; a launch of unknown grid or block is like no other (`number` is its own)."""
    of = number if None in shape else (source, device, name, shape, ranges)
    return LaunchKind(of, resources)


def kind_of_kernel(kernel: Groupable, name: str) -> LaunchKind:
    """Return what equal launches share for a kernel of a session, under one of its names."""
    shape, resources = (kernel.grid, kernel.block), resources_of_kernel(kernel)
    return kind_of(kernel.source, kernel.device, name, shape, resources, kernel.ranges, kernel.id)


def resources_of_kernel(kernel: Groupable) -> Resources:
    """Return what launches of a kernel of a session take."""
    return Resources(kernel.registers_per_thread, kernel.shared_memory_per_block)


def may_be(resources: Resources, other: Resources) -> bool:
    """Tell whether nothing that is known of both differs."""
    return all(mine is None or its is None or mine == its for mine, its in zip(resources, other, strict=True))


def alike(items: Iterable[tuple[LaunchKind, Item]]) -> list[list[Item]]:
    """Return equal launches, in the order of the first of each.

    One whose resources are not all known is with those that it can be like; alone where these differ among themselves.
    """
    listed = list(items)
    known: dict[Hashable, dict[Resources, Resources]] = {}
    for kind, _ in listed:
        known.setdefault(kind.of, {})[kind.resources] = kind.resources
    for of_kind in known.values():
        if len(of_kind) > 1:
            of_kind.update(_completed(of_kind))
    return collected(((kind.of, known[kind.of][kind.resources]), item) for kind, item in listed)


def _completed(every: Iterable[Resources]) -> dict[Resources, Resources]:
    """Return for resources that are not all known those, of others, that they can only be; themselves at a choice."""
    fuller: dict[Resources, list[Resources]] = {}
    for taken in every:
        registers, shared = taken
        for part in {Resources(registers, None), Resources(None, shared), Resources(None, None)} - {taken}:
            fuller.setdefault(part, []).append(taken)
    completed = {}
    for own in (taken for taken in every if None in taken):
        others = fuller.get(own, [])
        fullest = [other for other in others if None not in other] or others
        is_only_one = len(fullest) == 1 and all(_is_part_of(other, fullest[0]) for other in others)
        completed[own] = fullest[0] if is_only_one else own
    return completed


def _is_part_of(own: Resources, other: Resources) -> bool:
    """Tell whether all that is known of some resources is known of the others, and equal."""
    return all(mine is None or mine == its for mine, its in zip(own, other, strict=True))


def collected(items: Iterable[tuple[Hashable, Item]]) -> list[list[Item]]:
    """Return the items of each kind, kinds in the order of their first item."""
    return list(by_key(items).values())


def by_key(items: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return the items of each key, keys in the order of their first item."""
    groups: dict[Key, list[Item]] = {}
    for key, item in items:
        groups.setdefault(key, []).append(item)
    return groups


def speaker(durations: Sequence[float | None]) -> int:
    """Return the place of the launch that speaks for its group, the first where no duration is known.

    It is the one of median duration: where launches are of several sizes, of those that take most of the time.
    """
    timed = sorted((duration, place) for place, duration in enumerate(durations) if duration is not None)
    if not timed:
        return 0
    size = max(sizes(timed), key=lambda size: sum(duration for duration, _ in size))
    return size[(len(size) - 1) // 2][1]


def sizes(ordered: Sequence[tuple[float, int]]) -> list[list[tuple[float, int]]]:
    """Return launches, each a duration with a number, in groups with a wide gap between their durations.

    They come in order, and there is at least one. One launch alone is of no size of its own unless it takes most of the
    time, of many nearly all, and the others are of one size: something may have held it up.
    """
    groups: list[list[tuple[float, int]]] = [[ordered[0]]]
    for before, launch in pairwise(ordered):
        if launch[0] > OTHER_SIZE * before[0]:
            groups.append([])
        groups[-1].append(launch)
    least = (_MOST if len(ordered) < _MANY else _NEARLY_ALL) * sum(duration for duration, _ in ordered)
    is_two = len(groups) == 2
    return [group for group in groups if len(group) > 1 or (is_two and group[0][0] >= least)] or [[*ordered]]


def middle(durations: Sequence[float | None]) -> int:
    """Return the place of the launch of median duration, the first where none is known."""
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


def averages_of(parts: Iterable[Averages | None]) -> Averages | None:
    """Return what is known of all launches of a group that has averages; None if all its launches are known."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    shortest = [part.min_s for part in known if part.min_s is not None]
    longest = [part.max_s for part in known if part.max_s is not None]
    return Averages(min_s=min(shortest, default=None), max_s=max(longest, default=None))


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile: the smallest value that at least so many percent do not exceed."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(1, rank) - 1]


def summed(items: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    """Return the sums of the numbers by key."""
    sums: dict[Key, float] = {}
    for key, value in items:
        sums[key] = sums.get(key, 0.0) + value
    return sums
