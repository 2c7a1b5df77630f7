"""Collectives of several ranks: which belong together, how long each rank waited for the last one, and their rate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuprof.timeline.intervals import TimeInterval, merged, outside
from gpuprof.timeline.trace import Activity, Collective
from gpuprof.timeline.window import Judged

_OF_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that no rank ends before all have begun: each needs something of every other one."""


class RankWaits(NamedTuple):
    """What pairing tells of a rank: for how long it waited for other ranks while it computed nothing, and they so for
    it; the bus bandwidth by the least time of each collective over its ranks, None where sizes are not known."""

    waiting_s: float
    awaited_s: float
    bus_bytes_per_s: float | None


class _Paired(NamedTuple):
    """A collective as one rank ran it, the least time that it took a rank, and which: the one that came last."""

    activity: Activity
    least_s: float
    last: int


def rank_waits(of_ranks: Mapping[int, Sequence[Activity]], judged: Mapping[int, Judged]) -> dict[int, RankWaits]:
    """Return by rank, or by what stands for it, its waits in the collectives of the part that is judged; nothing of one
    of which none can be paired.

    They begin when a rank arrives and end together: the least time over the ranks bounds that of moving the data, and
    what another rank takes longer it waits. The clocks of the ranks need not agree.
    """
    paired = {
        rank: [entry for entry in collectives if judged[rank].has(entry.activity)]
        for rank, collectives in _paired(of_ranks).items()
    }
    waiting: dict[int, float] = {}
    awaited: dict[int, float] = {}
    for rank, collectives in paired.items():
        computing = merged(kernel.interval for kernel in of_ranks[rank] if kernel.computes)
        by_last: dict[int, list[TimeInterval]] = {}
        for activity, least_s, last in collectives:
            waits_s = (activity.duration_s or 0.0) - least_s
            by_last.setdefault(last, []).append((activity.start_s, activity.start_s + waits_s))
        waiting[rank] = outside(merged(wait for waits in by_last.values() for wait in waits), computing)
        for last, waits in by_last.items():
            awaited[last] = awaited.get(last, 0.0) + outside(merged(waits), computing)
    return {
        rank: RankWaits(
            waiting_s=waiting[rank],
            awaited_s=awaited.get(rank, 0.0),
            bus_bytes_per_s=bus_rate((least_s, activity.collective) for activity, least_s, _ in collectives),
        )
        for rank, collectives in paired.items()
    }


def _paired(of_ranks: Mapping[int, Sequence[Activity]]) -> dict[int, list[_Paired]]:
    """Return by rank the collectives of groups all of whose ranks ran the same ones in the same order."""
    groups: dict[str, dict[int, list[Activity]]] = {}
    for rank, activities in of_ranks.items():
        for activity in activities:
            done = activity.collective
            if done is not None and done.group is not None and done.name in _OF_ALL:
                groups.setdefault(done.group, {}).setdefault(rank, []).append(activity)
    paired: dict[int, list[_Paired]] = {}
    for members in groups.values():
        for together in _together(members):
            times = {rank: activity.duration_s or 0.0 for rank, activity in together.items()}
            last = min(times, key=lambda rank: times[rank])
            for rank, activity in together.items():
                paired.setdefault(rank, []).append(_Paired(activity, times[last], last))
    return paired


def _together(members: Mapping[int, Sequence[Activity]]) -> Iterator[Mapping[int, Activity]]:
    """Yield the collectives of a group by rank; none where it is not sure which belong together."""
    every = [[activity.collective for activity in activities] for activities in members.values()]
    first = every[0]
    known = all(activity.duration_s is not None for activities in members.values() for activity in activities)
    whole = all(done is not None and done.ranks == len(members) > 1 for done in first)
    if known and whole and all(other == first for other in every):
        for activities in zip(*members.values(), strict=True):
            yield dict(zip(members, activities, strict=True))


def bus_rate(done: Iterable[tuple[float | None, Collective | None]]) -> float | None:
    """Return the bytes that each link carried over the time of the collectives whose size is known."""
    sized = [(seconds, _bus_bytes(collective)) for seconds, collective in done if collective is not None]
    known = [(seconds, moved) for seconds, moved in sized if seconds and moved is not None]
    total_s = sum(seconds for seconds, _ in known)
    return sum(moved for _, moved in known) / total_s if total_s else None


def _bus_bytes(done: Collective) -> float | None:
    """Return bytes × the factor by which NCCL's tests make bus bandwidth of it (nccl-tests, PERFORMANCE.md).

    None where that is not known, and for barriers and waits, whose time is not that of moving bytes.
    """
    name = done.name.lower().replace("_", "")
    if not done.bytes or done.ranks is None or done.ranks < 2 or "barrier" in name:
        return None
    peers = done.ranks - 1
    if "allreduce" in name:
        return done.bytes * 2 * peers / done.ranks
    if "allgather" in name:
        return float(done.bytes * peers)
    if "reducescatter" in name or "alltoall" in name:
        return done.bytes * peers / done.ranks
    return float(done.bytes)
