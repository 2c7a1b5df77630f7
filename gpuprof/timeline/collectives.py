"""Collectives of several ranks: which belong together, how long each rank waited for the last one, why, and their rate.

Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuprof.model.field_types import LateCause
from gpuprof.timeline.intervals import TimeInterval, between, length, merged, outside
from gpuprof.timeline.trace import COPY, Activity, Collective
from gpuprof.timeline.window import Judged

_OF_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that no rank ends before all have begun: each needs something of every other one."""
_BY_NAME = re.compile(r"nccl\w*?(all|reduce)_?(reduce|gather|scatter)", re.IGNORECASE)
"""NCCL's kernels of those, in old and new releases: ncclKernel_AllReduce_RING_LL_Sum_float, ncclDevKernel_AllGather."""
_PAIR = 2


class RankWaits(NamedTuple):
    """What pairing tells of a rank: for how long it waited for other ranks while it computed nothing, and they so for
    it; the bus bandwidth by the least time of each collective over its ranks, None where sizes are not known.

    `late_for` is what this rank does longer than those that wait for it, before it comes, and `late_s` the part of
    their waits that this explains; None if it does nothing longer.
    """

    waiting_s: float
    awaited_s: float
    bus_bytes_per_s: float | None
    late_for: LateCause | None
    late_s: float


class _Paired(NamedTuple):
    """A collective as one rank ran it, the least time that it took a rank, and which: the one that came last.

    `since_s` is when the one before of the same group ended, or what is judged began; None for both in `last`.
    """

    activity: Activity
    least_s: float
    last: int
    since_s: float
    of_last: TimeInterval

    @property
    def waited_s(self) -> float:
        """Return for how long the rank waited for the last one."""
        return (self.activity.duration_s or 0.0) - self.least_s


def rank_waits(
    of_ranks: Mapping[int, Sequence[Activity]], judged: Mapping[int, Judged], world: int | None = None
) -> dict[int, RankWaits]:
    """Return by rank, or by what stands for it, its waits in the collectives of the part that is judged; nothing of one
    of which none can be paired.

    They begin when a rank arrives and end together: the least time over the ranks bounds that of moving the data, and
    what another rank takes longer it waits. The clocks of the ranks need not agree. `world` is how many ranks there
    are: in a world of two, collectives are known by the names of their kernels, too.
    """
    begins_s = {rank: part.start_s for rank, part in judged.items()}
    by_name = world == len(of_ranks) == _PAIR
    paired = {
        rank: [entry for entry in collectives if judged[rank].has(entry.activity)]
        for rank, collectives in _paired(of_ranks, begins_s, by_name=by_name).items()
    }
    work = {rank: _Work.of(of_ranks[rank]) for rank in paired}
    waiting: dict[int, float] = {}
    awaited: defaultdict[int, float] = defaultdict(float)
    for rank, collectives in paired.items():
        by_last: defaultdict[int, list[TimeInterval]] = defaultdict(list)
        for entry in collectives:
            start_s = entry.activity.start_s
            by_last[entry.last].append((start_s, start_s + entry.waited_s))
        waiting[rank] = outside(merged(wait for waits in by_last.values() for wait in waits), work[rank].computing)
        for last, waits in by_last.items():
            awaited[last] += outside(merged(waits), work[rank].computing)
    late = _late(paired, work)
    return {
        rank: RankWaits(
            waiting_s=waiting[rank],
            awaited_s=awaited[rank],
            bus_bytes_per_s=bus_rate((entry.least_s, entry.activity.collective) for entry in collectives),
            late_for=late[rank][0] if rank in late else None,
            late_s=late[rank][1] * awaited[rank] if rank in late else 0.0,
        )
        for rank, collectives in paired.items()
    }


class _Work(NamedTuple):
    """When a rank computed, and when it computed or copied."""

    computing: Sequence[TimeInterval]
    working: Sequence[TimeInterval]

    @classmethod
    def of(cls, activities: Sequence[Activity]) -> _Work:
        """Sort out what a rank did."""
        computing = merged(activity.interval for activity in activities if activity.computes)
        copying = (activity.interval for activity in activities if activity.kind == COPY)
        return cls(computing, merged((*computing, *copying)))

    def parts_s(self, since_s: float, until_s: float) -> dict[LateCause, float]:
        """Return for how long between two moments it computed, copied beside that, and did neither."""
        computing_s = length(between(self.computing, since_s, until_s))
        working_s = length(between(self.working, since_s, until_s))
        return {"computing": computing_s, "copies": working_s - computing_s, "idle": until_s - since_s - working_s}


def _late(paired: Mapping[int, Sequence[_Paired]], work: Mapping[int, _Work]) -> dict[int, tuple[LateCause, float]]:
    """Return by rank what it does longer than the ranks that wait for it, and the share of their waits that explains.

    Between two collectives, which end together, the last rank does something for longer by as much as another waits.
    """
    waits_s: defaultdict[int, float] = defaultdict(float)
    longer_s: defaultdict[int, defaultdict[LateCause, float]] = defaultdict(lambda: defaultdict(float))
    for rank, collectives in paired.items():
        for entry in collectives:
            if entry.last == rank or entry.waited_s <= 0:
                continue
            waits_s[entry.last] += entry.waited_s
            own = work[rank].parts_s(entry.since_s, entry.activity.start_s)
            for cause, last_s in work[entry.last].parts_s(*entry.of_last).items():
                longer_s[entry.last][cause] += min(entry.waited_s, last_s - own[cause])
    late: dict[int, tuple[LateCause, float]] = {}
    for rank, causes in longer_s.items():
        cause = max(causes, key=causes.__getitem__)
        if causes[cause] > 0:
            late[rank] = cause, causes[cause] / waits_s[rank]
    return late


def _paired(
    of_ranks: Mapping[int, Sequence[Activity]], begins_s: Mapping[int, float], *, by_name: bool
) -> dict[int, list[_Paired]]:
    """Return by rank the collectives of groups all of whose ranks ran the same ones in the same order."""
    groups: dict[str, dict[int, list[Activity]]] = {}
    for rank, activities in of_ranks.items():
        for activity in activities:
            done = activity.collective or (_named(activity) if by_name else None)
            if done is not None and done.group is not None and done.name in _OF_ALL:
                named = activity._replace(collective=done)
                groups.setdefault(done.group, {}).setdefault(rank, []).append(named)
    paired: dict[int, list[_Paired]] = {}
    for members in groups.values():
        since_s = dict(begins_s)
        for together in _together(members):
            times = {rank: activity.duration_s or 0.0 for rank, activity in together.items()}
            last = min(times, key=lambda rank: times[rank])
            of_last = (min(since_s[last], together[last].start_s), together[last].start_s)
            for rank, activity in together.items():
                before_s = min(since_s[rank], activity.start_s)
                paired.setdefault(rank, []).append(_Paired(activity, times[last], last, before_s, of_last))
            for rank, activity in together.items():
                since_s[rank] = max(since_s[rank], activity.interval[1])
    return paired


def _named(activity: Activity) -> Collective | None:
    """Return the collective of the only two ranks that a kernel does, by its name."""
    found = _BY_NAME.search(activity.name)
    return Collective("_".join(found.groups()).lower(), None, _PAIR, group="") if found is not None else None


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
