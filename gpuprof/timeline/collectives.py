"""Collectives of several ranks: which belong together, how long each rank waited for the last one, why, and their rate.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.model.field_types import LATE_CAUSES, LateCause
from gpuprof.model.groups import by_key
from gpuprof.model.session import DeviceTimeline
from gpuprof.timeline.intervals import between, length, merged, outside
from gpuprof.timeline.trace import COPY, Activity, Collective
from gpuprof.timeline.window import TracedGpu, computing

_OF_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that no rank ends before all have begun: each needs something of every other one."""
_BY_NAME = re.compile(r"\bnccl\w*?(all|reduce)_?(reduce|gather|scatter)", re.IGNORECASE)
"""NCCL's kernels of those, in old and new releases: ncclKernel_AllReduce_RING_LL_Sum_float, ncclDevKernel_AllGather."""
_PAIR = 2


class _Paired(NamedTuple):
    """A collective as one rank ran it, the least time that it took a rank, and which: the one that came last.

    `longer_s` is how much longer than this rank the last one did what can make it late, since the collective before.
    """

    activity: Activity
    least_s: float
    last: int
    longer_s: Sequence[float]

    @property
    def waited_s(self) -> float:
        """Return for how long the rank waited for the last one."""
        return (self.activity.duration_s or 0.0) - self.least_s


def with_waits(
    devices: Iterable[DeviceTimeline], gpus: Sequence[TracedGpu], world: int | None
) -> Iterator[DeviceTimeline]:
    """Yield GPUs with the waits of their ranks for each other in the judged collectives, if these can be paired.

    Nothing is known unless each file is whole and of a rank of its own with one GPU.

    A collective begins when a rank arrives and ends on all ranks together: moving the data takes at most the shortest
    time over the ranks, and the time beyond it on another rank is a wait. The clocks of the ranks need not agree.
    `world` is the number of all ranks: of two, collectives are also known by the names of their kernels.
    """
    ranks = {gpu.trace.rank for gpu in gpus}
    if None in ranks or not len(ranks) == len(gpus) > 1 or any(gpu.trace.incomplete for gpu in gpus):
        yield from devices
        return
    work = {gpu.source: _Work(gpu) for gpu in gpus}
    paired = by_key(_paired(work, by_name=world == len(gpus) == _PAIR))
    of_last = by_key((entry.last, (rank, entry)) for rank, collectives in paired.items() for entry in collectives)
    for device in devices:
        talk = device.communication
        rank = device.source
        if talk is not None and rank in paired:
            waits = by_key(of_last.get(rank, ()))
            awaited_s = sum((_waits_s(own, work[waiting]) for waiting, own in waits.items()), 0.0)
            late_for, explained = _late(chain.from_iterable(waits.values()))
            talk = replace(
                talk,
                waiting_s=_waits_s(paired[rank], work[rank]),
                awaited_s=awaited_s,
                transfer_bytes_per_s=bus_rate((entry.least_s, entry.activity.collective) for entry in paired[rank]),
                late_for=late_for,
                late_s=explained * awaited_s,
            )
        yield replace(device, communication=talk)


def _waits_s(collectives: Iterable[_Paired], work: _Work) -> float:
    """Return for how long a rank waited in collectives while it computed nothing."""
    waits = merged((entry.activity.start_s, entry.activity.start_s + entry.waited_s) for entry in collectives)
    return outside(waits, work.computing)


class _Work:
    """When the GPU of a rank computed, when it computed or copied, and when it did anything."""

    def __init__(self, gpu: TracedGpu) -> None:
        self.gpu = gpu
        self.computing = computing(gpu.every)
        working = merged(own.interval for own in gpu.every if own.computes or own.kind == COPY)
        self._unions = (self.computing, working, merged(own.interval for own in gpu.every))

    def parts_s(self, since_s: float, until_s: float) -> tuple[float, ...]:
        """Return for how long between two moments it computed, copied beside that, and did nothing."""
        computing_s, working_s, busy_s = (length(between(union, since_s, until_s)) for union in self._unions)
        return computing_s, working_s - computing_s, until_s - since_s - busy_s


def _late(waits: Iterable[_Paired]) -> tuple[LateCause | None, float]:
    """Return what a rank does longer than the ranks that wait for it, and the share of these waits that explains.

    Between two collectives, which end together, the last rank does something for longer by as much as another waits.
    """
    total_s = 0.0
    explained_s = dict.fromkeys(LATE_CAUSES, 0.0)
    for entry in waits:
        total_s += entry.waited_s
        for cause, longer_s in zip(LATE_CAUSES, entry.longer_s, strict=True):
            explained_s[cause] += min(entry.waited_s, longer_s)
    cause = max(LATE_CAUSES, key=explained_s.__getitem__)
    return (cause, explained_s[cause] / total_s) if total_s and explained_s[cause] > 0 else (None, 0.0)


def _paired(work: Mapping[int, _Work], *, by_name: bool) -> Iterator[tuple[int, _Paired]]:
    """Yield by rank the judged collectives of groups all of whose ranks ran the same ones in the same order."""
    groups: dict[str, dict[int, list[Activity]]] = {}
    for rank, own in work.items():
        for activity in own.gpu.every:
            done = activity.collective or (_named(activity) if by_name else None)
            if done is not None and done.group is not None and done.name in _OF_ALL:
                named = activity._replace(collective=done)
                groups.setdefault(done.group, {}).setdefault(rank, []).append(named)
    for members in groups.values():
        since_s = {rank: own.gpu.judged.start_s for rank, own in work.items()}
        for together in _together(members):
            times = {rank: activity.duration_s or 0.0 for rank, activity in together.items()}
            last = min(times, key=times.__getitem__)
            of_last = work[last].parts_s(since_s[last], together[last].start_s)
            for rank, activity in together.items():
                if work[rank].gpu.judged.has(activity):
                    parts = zip(of_last, work[rank].parts_s(since_s[rank], activity.start_s), strict=True)
                    longer_s = [last_s - own_s for last_s, own_s in parts]
                    yield rank, _Paired(activity, times[last], last, longer_s)
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
    # What a link carries, in parts of the bytes: as many parts as ranks are all of them.
    parts = {"all_reduce": 2 * peers, "all_gather": peers * done.ranks, "reduce_scatter": peers, "all_to_all": peers}
    return done.bytes * parts.get(done.name, done.ranks) / done.ranks
