"""Collectives of several ranks: which belong together, how long each rank waited for the last one, why, and their rate.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from gpuprof.model.field_types import LATE_CAUSES, LateCause
from gpuprof.model.groups import by_key
from gpuprof.timeline.intervals import TimeInterval, between, length, merged, outside
from gpuprof.timeline.trace import COPY, Activity, Collective
from gpuprof.timeline.window import TracedGpu, computing

_OF_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that no rank ends before all have begun: each needs something of every other one."""
_BY_NAME = re.compile(r"\bnccl\w*?(all|reduce)_?(reduce|gather|scatter)", re.IGNORECASE)
"""NCCL's kernels of those, in old and new releases: ncclKernel_AllReduce_RING_LL_Sum_float, ncclDevKernel_AllGather."""
_PAIR = 2


class RankWaits(NamedTuple):
    """How long a rank waited for others in collectives while it computed nothing, and how long others waited for it.

    The bus bandwidth takes the shortest time of each collective over its ranks; it is None if sizes are not known.
    `late_for` is the work that makes this rank arrive later than those that wait for it, and `late_s` the part of
    their waits that this explains.
    """

    waiting_s: float
    awaited_s: float
    transfer_bytes_per_s: float | None
    late_for: LateCause | None
    late_s: float


class _Paired(NamedTuple):
    """A collective as one rank ran it, the least time that it took a rank, and which: the one that came last.

    `since_s` is when the collective before it ended on this rank, and `of_last` from then to the collective on the last
    rank.
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


def rank_waits(gpus: Sequence[TracedGpu], world: int | None) -> dict[int, RankWaits]:
    """Return the waits of ranks for each other in the judged collectives, by their files.

    Each file is of a rank of its own with one GPU, else nothing is known, as of ranks whose collectives cannot be
    paired.

    A collective begins when a rank arrives and ends on all ranks together: moving the data takes at most the shortest
    time over the ranks, and the time beyond it on another rank is a wait. The clocks of the ranks need not agree.
    `world` is the number of all ranks: of two, collectives are also known by the names of their kernels.
    """
    ranks = {gpu.trace.rank for gpu in gpus}
    if None in ranks or not len(ranks) == len(gpus) > 1:
        return {}
    paired = by_key(_paired(gpus, by_name=world == len(gpus) == _PAIR))
    work = {gpu.source: _Work(gpu.every) for gpu in gpus}
    awaited = dict.fromkeys(work, 0.0)
    for rank, collectives in paired.items():
        for last, for_last in by_key((entry.last, entry) for entry in collectives).items():
            awaited[last] += _waits_s(for_last, work[rank])
    of_rank = {}
    for rank, collectives in paired.items():
        late_for, explained = _late(rank, paired, work)
        of_rank[rank] = RankWaits(
            waiting_s=_waits_s(collectives, work[rank]),
            awaited_s=awaited[rank],
            transfer_bytes_per_s=bus_rate((entry.least_s, entry.activity.collective) for entry in collectives),
            late_for=late_for,
            late_s=explained * awaited[rank],
        )
    return of_rank


def _waits_s(collectives: Iterable[_Paired], work: _Work) -> float:
    """Return for how long a rank waited in collectives while it computed nothing."""
    waits = merged((entry.activity.start_s, entry.activity.start_s + entry.waited_s) for entry in collectives)
    return outside(waits, work.computing)


class _Work:
    """When a rank computed, when it computed or copied, and when it did anything."""

    def __init__(self, activities: Sequence[Activity]) -> None:
        self.computing = computing(activities)
        working = merged(own.interval for own in activities if own.computes or own.kind == COPY)
        self._unions = (self.computing, working, merged(own.interval for own in activities))

    def parts_s(self, since_s: float, until_s: float) -> tuple[float, ...]:
        """Return for how long between two moments it computed, copied beside that, and did nothing."""
        computing_s, working_s, busy_s = (length(between(union, since_s, until_s)) for union in self._unions)
        return computing_s, working_s - computing_s, until_s - since_s - busy_s


def _late(
    last: int, paired: Mapping[int, Sequence[_Paired]], work: Mapping[int, _Work]
) -> tuple[LateCause | None, float]:
    """Return what a rank does longer than the ranks that wait for it, and the share of their waits that explains.

    Between two collectives, which end together, the last rank does something for longer by as much as another waits.
    """
    total_s, longer_s = 0.0, dict.fromkeys(LATE_CAUSES, 0.0)
    for rank, collectives in paired.items():
        for entry in collectives:
            if rank != last == entry.last:
                total_s += entry.waited_s
                own = work[rank].parts_s(entry.since_s, entry.activity.start_s)
                for cause, of_last_s, own_s in zip(LATE_CAUSES, work[last].parts_s(*entry.of_last), own, strict=True):
                    longer_s[cause] += min(entry.waited_s, of_last_s - own_s)
    cause = max(LATE_CAUSES, key=longer_s.__getitem__)
    return (cause, longer_s[cause] / total_s) if total_s and longer_s[cause] > 0 else (None, 0.0)


def _paired(gpus: Sequence[TracedGpu], *, by_name: bool) -> Iterator[tuple[int, _Paired]]:
    """Yield by rank the judged collectives of groups all of whose ranks ran the same ones in the same order."""
    groups: dict[str, dict[int, list[Activity]]] = {}
    for gpu in gpus:
        for activity in gpu.every:
            done = activity.collective or (_named(activity) if by_name else None)
            if done is not None and done.group is not None and done.name in _OF_ALL:
                named = activity._replace(collective=done)
                groups.setdefault(done.group, {}).setdefault(gpu.source, []).append(named)
    judged = {gpu.source: gpu.judged for gpu in gpus}
    for members in groups.values():
        since_s = {rank: part.start_s for rank, part in judged.items()}
        for together in _together(members):
            times = {rank: activity.duration_s or 0.0 for rank, activity in together.items()}
            last = min(times, key=times.__getitem__)
            of_last = (since_s[last], together[last].start_s)
            for rank, activity in together.items():
                if judged[rank].has(activity):
                    yield rank, _Paired(activity, times[last], last, since_s[rank], of_last)
                since_s[rank] = max(since_s[rank], activity.interval[1])


def _named(activity: Activity) -> Collective | None:
    """Return the collective of the only two ranks that a kernel does, by its name."""
    found = _BY_NAME.search(activity.name)
    return Collective("_".join(found.groups()).lower(), None, _PAIR, group="") if found is not None else None


def _together(members: Mapping[int, Sequence[Activity]]) -> Iterator[Mapping[int, Activity]]:
    """Yield the collectives of a group by rank; none if it is not certain which belong together."""
    if len({tuple(own.collective for own in activities) for activities in members.values()}) > 1:
        return
    for own in chain.from_iterable(members.values()):
        if own.duration_s is None or own.collective is None or not own.collective.ranks == len(members) > 1:
            return
    for activities in zip(*members.values(), strict=True):
        yield dict(zip(members, activities, strict=True))


def bus_rate(done: Iterable[tuple[float | None, Collective | None]]) -> float | None:
    """Return the bytes that each link carried over the time of the collectives whose size is known."""
    total_s = moved = 0.0
    for seconds, collective in done:
        size = _bus_bytes(collective)
        if seconds and size is not None:
            total_s += seconds
            moved += size
    return moved / total_s if total_s else None


def _bus_bytes(done: Collective | None) -> float | None:
    """Return bytes × the factor by which NCCL's tests make bus bandwidth of it (nccl-tests, PERFORMANCE.md).

    None if it is not known, and for barriers and waits, which move no data.
    """
    if done is None or not done.bytes or done.ranks is None or done.ranks < _PAIR or done.name == "barrier":
        return None
    peers = done.ranks - 1
    factors = {
        "all_reduce": 2 * peers / done.ranks,
        "all_gather": peers,
        "reduce_scatter": peers / done.ranks,
        "all_to_all": peers / done.ranks,
    }
    return done.bytes * factors.get(done.name, 1.0)
