"""One side of a comparison: its runs, and its kernels over all of them, each with a representative launch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from statistics import fmean, median
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.counts import spanning
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import KernelProfile, LaunchCount, Session
from gpuprof.model.timed import BY_NCU, GRAPH_REPLAY


class Run(Struct, frozen=True):
    """A run of the program: a file or files that were read together, as one session."""

    file: str
    session: Session


class KernelKey(Struct, frozen=True):
    """What a kernel is known by on both sides: name in any demangler's spelling, ranges, launch configuration."""

    name: str
    ranges: tuple[str, ...]
    grid: Dim3 | None
    block: Dim3 | None

    @property
    def order(self) -> tuple[object, ...]:
        """Return what sorts kernels the same way whatever the order of their launches."""
        return self.name, self.ranges, self.grid or (), self.block or ()


class RunTimes(Struct, frozen=True):
    """The launches of a kernel in one run. `cycles` are SM cycles of the same launches; empty if not all are known.

    Each rank and each GPU of a session counts as a run. `launches` are all of them, with a duration or without;
    `total_s` is the time of those that have one.
    """

    run: int
    durations_s: tuple[float, ...]
    cycles: tuple[float, ...]
    launches: int
    total_s: float | None


class SideKernel(Struct, frozen=True):
    """A kernel of one side. `representative` is its profile of median duration, in the run `run`; `profiles` are all.

    `counts` have the value of the representative, and the least and most of all launches in all runs. `launches` and
    `total_s` are those of a run, all its ranks and GPUs together, on average over the `runs` that have the kernel.
    """

    key: KernelKey
    run: int
    representative: KernelProfile
    profiles: tuple[KernelProfile, ...]
    times: tuple[RunTimes, ...]
    counts: dict[str, LaunchCount]
    runs: frozenset[int]
    launches: float
    total_s: float | None


class Side(Struct, frozen=True):
    """All runs of a side and its kernels, the one that takes most time first."""

    runs: tuple[Run, ...]
    kernels: tuple[SideKernel, ...]

    @property
    def total_s(self) -> float | None:
        """Return the GPU time of a run, on average; what was excluded or not profiled counts."""
        known = [time for run in self.runs if (time := run_time_s(run.session)) is not None]
        return fmean(known) if known else None


def sums_alike(base: Side, new: Side) -> bool:
    """Return whether both sides have times of one kind: of whole graphs that ncu replayed, or of kernels."""
    sides = ([kernel for kernel in side.kernels if kernel.total_s is not None] for side in (base, new))
    of_replays = [{is_replay(kernel) for kernel in timed} for timed in sides]
    return not all(of_replays) or of_replays[0] == of_replays[1]


def has_replays_alone(side: Side) -> bool:
    """Return whether all times of a side are of replays of whole graphs under ncu: they add up to no GPU time."""
    return {is_replay(kernel) for kernel in side.kernels if kernel.total_s is not None} == {True}


def is_replay(kernel: SideKernel) -> bool:
    """Return whether a kernel is a whole CUDA graph, and its time that of replaying it under ncu."""
    return kernel.representative.duration_source == GRAPH_REPLAY


def are_identical(base: Sequence[Run], new: Sequence[Run]) -> bool:
    """Return whether both sides are the same recordings: files of the same bytes, in which the same was read."""
    if not base or len(base) != len(new):
        return False
    return all(
        _hashes(ours) == _hashes(theirs) and _read(ours) == _read(theirs)
        for ours, theirs in zip(base, new, strict=True)
    )


def without_copies(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the runs without those that are copies of another one: a copy does not show noise."""
    kept: list[Run] = []
    for run in runs:
        if not any(are_identical([run], [other]) for other in kept):
            kept.append(run)
    return tuple(kept)


def _read(run: Run) -> Counter[KernelProfile]:
    """Return what was read of a run: its kernels in any order and under any number, for a session has its own."""
    return Counter(replace(kernel, id=0) for kernel in run.session.kernels)


def _hashes(run: Run) -> list[str]:
    return [source.sha256 for source in run.session.sources]


class Known(NamedTuple):
    """What both sides recorded of the launches, so that it distinguishes kernels."""

    ranges: bool = True
    configurations: bool = True


ALL_KNOWN = Known()


def sides_of(base: Sequence[Run], new: Sequence[Run]) -> tuple[Side, Side, Known]:
    """Return both sides. Ranges or launch configurations that only one of them recorded distinguish no kernels."""
    ours, theirs = ([kernel for run in runs for kernel in run.session.kernels] for runs in (base, new))
    known = Known(
        ranges=_agree(ours, theirs, lambda kernel: bool(kernel.ranges)),
        configurations=_agree(ours, theirs, lambda kernel: kernel.grid is not None or kernel.block is not None),
    )
    return side_of(base, known), side_of(new, known), known


def _agree(base: Sequence[KernelProfile], new: Sequence[KernelProfile], has: Callable[[KernelProfile], bool]) -> bool:
    """Return whether both sides recorded something or neither did; a side without kernels agrees."""
    return not base or not new or any(map(has, base)) == any(map(has, new))


def side_of(runs: Sequence[Run], known: Known = ALL_KNOWN) -> Side:
    """Return a side from its runs; equal launches of a run are one kernel."""
    groups: defaultdict[KernelKey, list[tuple[int, KernelProfile]]] = defaultdict(list)
    for number, run in enumerate(runs):
        for kernel in run.session.kernels:
            groups[_key(kernel, known)].append((number, kernel))
    lanes = _lanes(runs)
    kernels = [_side_kernel(key, members, lanes) for key, members in groups.items()]
    kernels.sort(key=lambda kernel: -(kernel.total_s or 0.0))
    return Side(tuple(runs), tuple(kernels))


def run_time_s(session: Session) -> float | None:
    """Return the GPU time of a session's run, with what it keeps only the total of; None if none is known."""
    if session.run is not None:
        return session.run.time_s
    known = [kernel.time_total_s for kernel in session.kernels if _is_time(kernel.time_total_s)]
    excluded_s = session.excluded.time_s if session.excluded is not None else None
    if not known:
        return excluded_s
    return sum(time for time in known if time is not None) + (excluded_s or 0.0)


def _key(kernel: KernelProfile, known: Known) -> KernelKey:
    return KernelKey(
        name=kernel_key(kernel.demangled),
        ranges=kernel.ranges if known.ranges else (),
        grid=kernel.grid if known.configurations else None,
        block=kernel.block if known.configurations else None,
    )


_Lane = tuple[int, "int | None", int]
"""A run, and the rank and the GPU in it."""


def _lanes(runs: Sequence[Run]) -> dict[_Lane, int]:
    """Return the numbers of what counts as a run: each rank and each GPU of each of them."""
    lanes = {(number, kernel.rank, kernel.device) for number, run in enumerate(runs) for kernel in run.session.kernels}
    ordered = sorted(lanes, key=lambda lane: (lane[0], -1 if lane[1] is None else lane[1], lane[2]))
    return {lane: number for number, lane in enumerate(ordered)}


def _side_kernel(
    key: KernelKey, members: Sequence[tuple[int, KernelProfile]], lanes: Mapping[_Lane, int]
) -> SideKernel:
    by_lane: defaultdict[int, list[KernelProfile]] = defaultdict(list)
    for number, kernel in members:
        by_lane[lanes[number, kernel.rank, kernel.device]].append(kernel)
    run, representative = _representative(members)
    kernels = [kernel for _, kernel in members]
    runs = frozenset(number for number, _ in members)
    return SideKernel(
        key=key,
        run=run,
        representative=representative,
        profiles=tuple(kernels),
        times=tuple(_run_times(lane, by_lane[lane]) for lane in sorted(by_lane)),
        counts={count.name: count for count in spanning(_finite(representative), map(_finite, kernels))},
        runs=runs,
        launches=sum(kernel.launches for kernel in kernels) / len(runs),
        total_s=_total_s(members),
    )


def _total_s(members: Sequence[tuple[int, KernelProfile]]) -> float | None:
    """Return the time of a run, on average over the runs that have it."""
    known: defaultdict[int, float] = defaultdict(float)
    for number, kernel in members:
        if kernel.time_total_s is not None and _is_time(kernel.time_total_s):
            known[number] += kernel.time_total_s
    return fmean(known.values()) if known else None


def _is_time(value: float | None) -> bool:
    """Return whether a duration is one: not missing, infinite or less than nothing."""
    return value is not None and 0 <= value < inf


def _representative(members: Sequence[tuple[int, KernelProfile]]) -> tuple[int, KernelProfile]:
    """Return the launch of median duration, among those with counters if any has some."""
    counted = [member for member in members if member[1].counts or member[1].throughput] or members
    timed = [(member[1].duration_s or 0.0, member) for member in counted if _is_time(member[1].duration_s)]
    if not timed:
        return min(counted, key=lambda member: _known_of(member[1]))
    middle = median(duration_s for duration_s, _ in timed)
    return min(timed, key=lambda item: (abs(item[0] - middle), item[0], _known_of(item[1][1])))[1]


def _known_of(kernel: KernelProfile) -> tuple[object, ...]:
    """Return what sorts profiles of the same time by what is known of them, most first, in any order."""
    amounts = [*(work.flop for work in kernel.work), *(traffic.bytes for traffic in kernel.traffic)]
    known = [amount for amount in amounts if amount is not None]
    return -len(kernel.counts), -len(known), sorted(known), sorted(count.value for count in kernel.counts)


def _run_times(run: int, kernels: Sequence[KernelProfile]) -> RunTimes:
    durations: list[float] = []
    cycles: list[float] = []
    for kernel in kernels:
        own, clocks = _launches(kernel)
        durations += own
        if clocks:
            cycles += [duration * clock for duration, clock in zip(own, clocks, strict=True)]
    totals = [kernel.time_total_s or 0.0 for kernel in kernels if _is_time(kernel.time_total_s)]
    return RunTimes(
        run=run,
        durations_s=tuple(durations),
        cycles=tuple(cycles) if len(cycles) == len(durations) else (),
        launches=sum(kernel.launches for kernel in kernels),
        total_s=sum(totals) if totals else None,
    )


def _launches(kernel: KernelProfile) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return durations and SM clocks of the launches of a kernel's group, or of its single launch."""
    times = kernel.launch_times
    if times is None:
        if kernel.duration_s is None or not _is_time(kernel.duration_s):
            return (), ()
        # Of a kernel that was timed by a survey, the clock is that of another run, under the profiler.
        clock = kernel.sm_clock_hz if kernel.duration_source in BY_NCU else None
        return (kernel.duration_s,), (clock,) if clock is not None and 0 < clock < inf else ()
    durations, clocks = times.durations_s, times.sm_clocks_hz
    kept = [place for place, duration in enumerate(durations) if _is_time(duration)]
    all_clocks = len(clocks) == len(durations) and all(_is_time(clock) and clock for clock in clocks)
    return tuple(durations[place] for place in kept), tuple(clocks[place] for place in kept) if all_clocks else ()


def _finite(kernel: KernelProfile) -> list[LaunchCount]:
    return [count for count in kernel.counts if isfinite(count.value)]
