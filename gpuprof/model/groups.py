"""Which launches are alike, and what speaks for them: same name, configuration and ranges on one GPU of one report.

A configuration is grid and block, registers per thread and shared memory per block: with other registers it is another
build of the kernel. What is not known of a launch does not set it apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, TypeVar

from gpuprof.model.recorded import Dim3
from gpuprof.model.session import DurationSpread
from gpuprof.model.timed import Groupable

Item = TypeVar("Item")
USUAL = 0.1
"""By so much the time of a launch may differ from the median of its kernel's, and it still stands for the others."""


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
            of_kind.update({own: _fullest(own, tuple(of_kind)) for own in of_kind if None in own})
    return collected(((kind.of, known[kind.of][kind.resources]), item) for kind, item in listed)


def _fullest(own: Resources, others: Sequence[Resources]) -> Resources:
    """Return the resources, of those of other launches, that these can only be; themselves where there is a choice."""
    fuller = [other for other in others if other != own and _is_part_of(own, other)]
    fullest = [taken for taken in fuller if not any(other != taken and _is_part_of(taken, other) for other in fuller)]
    return fullest[0] if len(fullest) == 1 else own


def _is_part_of(own: Resources, other: Resources) -> bool:
    """Tell whether all that is known of some resources is known of the others, and equal."""
    return all(mine is None or mine == its for mine, its in zip(own, other, strict=True))


def collected(items: Iterable[tuple[Hashable, Item]]) -> list[list[Item]]:
    """Return the items of each kind, kinds in the order of their first item."""
    groups: dict[Hashable, list[Item]] = {}
    for kind, item in items:
        groups.setdefault(kind, []).append(item)
    return list(groups.values())


def speaker(durations: Sequence[float | None]) -> int:
    """Return the place of the launch that speaks for its group.

    It is the one of median duration. Where those that are clearly longer take half of the time, it is the one in the
    middle of the time: half of it passes in launches that are no longer.
    """
    at = middle(durations)
    timed = sorted((duration, place) for place, duration in enumerate(durations) if duration is not None)
    passed = accumulate(duration for duration, _ in timed)
    half_s = sum(duration for duration, _ in timed) / 2
    longer_s, longer = next((item for item, by_s in zip(timed, passed, strict=True) if by_s >= half_s), (0.0, at))
    return longer if longer_s > (1 + USUAL) * (durations[at] or 0.0) else at


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


def percentile(ordered: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile: the smallest value that at least so many percent do not exceed."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(1, rank) - 1]
