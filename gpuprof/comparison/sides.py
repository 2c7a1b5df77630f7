"""One side of a comparison: its runs, and its kernels, each with a representative launch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import inf, isfinite
from operator import mul
from statistics import fmean, median
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.contract import Per
from gpuprof.comparison.per_step import computing_gpus, steps_of
from gpuprof.model.counts import spanning
from gpuprof.model.groups import summed
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import KernelProfile, LaunchCount, Session
from gpuprof.model.timed import BY_NCU, GRAPH_REPLAY


class Run(Struct, frozen=True):
    """A run of the program: a file or files that were read together, as one session."""

    file: str
    session: Session


class KernelKey(Struct, frozen=True):
    """The identity of a kernel on both sides: name in any demangler's spelling, ranges, launch configuration.

    Without ranges if launches in all ranges are compared as one.
    """

    name: str
    ranges: tuple[str, ...]
    grid: Dim3 | None
    block: Dim3 | None

    @property
    def launch(self) -> KernelKey:
        """Return the function and its launch configuration, whatever range launched it."""
        return replace(self, ranges=()) if self.ranges else self

    @property
    def order(self) -> tuple[object, ...]:
        """Return a sort key that does not depend on the order of launches."""
        return self.name, self.ranges, self.grid or (), self.block or ()


class RunTimes(Struct, frozen=True):
    """The launches of a kernel in one run.

    `cycles` are SM cycles of the launches with a duration; empty if not all are known. Each rank
    and each GPU of a session counts as a run. `launches` counts those without a duration, too;
    `total_s` is the time of the others. `steps` are those of the run if the sides are compared by step.
    """

    run: int
    durations_s: tuple[float, ...]
    cycles: tuple[float, ...]
    launches: int
    total_s: float | None
    steps: float = 1.0


class Member(NamedTuple):
    """A profile of a kernel, its run, the number of its rank and GPU among those of all runs, and the run's steps."""

    run: int
    lane: int
    profile: KernelProfile
    steps: float = 1.0


class SideKernel(Struct, frozen=True):
    """A kernel of one side.

    `representative` is the one of its `members` with median duration, in the run `run`. `counts`
    have the value of the representative, and the least and most of all launches in all runs.
    `launches` and `total_s` are those of a run or step, all its ranks and GPUs together, on average
    over the `runs` that have the kernel.
    """

    key: KernelKey
    run: int
    representative: KernelProfile
    members: tuple[Member, ...]
    times: tuple[RunTimes, ...]
    counts: dict[str, LaunchCount]
    runs: frozenset[int]
    launches: float
    total_s: float | None
    per: Per = "run"

    @property
    def profiles(self) -> tuple[KernelProfile, ...]:
        """Return its profiles in all runs."""
        return tuple(member.profile for member in self.members)

    @property
    def is_mixed(self) -> bool:
        """Return whether its launches have several launch configurations."""
        return len({(profile.grid, profile.block) for profile in self.profiles}) > 1

    @property
    def label(self) -> str:
        """Return its label; that of its function if its launches are in several ranges."""
        if self.key.ranges:
            return self.representative.label
        return self.representative.numbered_name


class Side(Struct, frozen=True):
    """All runs of a side and its kernels, the one that takes most time first.

    `steps` are those that the figures of each run are divided by: 1 unless the sides are compared by step.
    """

    runs: tuple[Run, ...]
    kernels: tuple[SideKernel, ...]
    steps: tuple[float, ...] = ()
    per: Per = "run"

    @property
    def total_s(self) -> float | None:
        """Return the GPU time of a run or step, on average; excluded and unprofiled kernels count."""
        times = [(run_time_s(run.session), steps) for run, steps in zip(self.runs, self.steps, strict=True)]
        known = [time / steps for time, steps in times if time is not None]
        return fmean(known) if known else None


def sums_alike(base: Side, new: Side) -> bool:
    """Return whether both sides have times of one kind: of replayed whole graphs, or of kernels."""
    base_kinds = _kinds_of_times(base)
    new_kinds = _kinds_of_times(new)
    return not base_kinds or not new_kinds or base_kinds == new_kinds


def _kinds_of_times(side: Side) -> set[bool]:
    """Return the values of `is_replay` of the kernels with a time."""
    return {is_replay(kernel) for kernel in side.kernels if kernel.total_s is not None}


def has_replays_alone(side: Side) -> bool:
    """Return whether all times are of replays of whole graphs: they add up to no GPU time."""
    return _kinds_of_times(side) == {True}


def has_whole_graphs(side: Side) -> bool:
    """Return whether traces of a side have CUDA graphs without their kernels."""
    return any(has_graphs(run.session) for run in side.runs)


def has_graphs(session: Session) -> bool:
    """Return whether a trace has CUDA graphs that were recorded as a whole."""
    return any(gpu.graphs is not None for gpu in computing_gpus(session))


def gpus_of(session: Session) -> list[str]:
    """Return the model of each GPU that ran more than copies; without a timeline, each model once."""
    names = {device.id: device.name or device.spec for device in session.devices}
    ran = [names.get(gpu.device) for gpu in computing_gpus(session)]
    return [name for name in ran or dict.fromkeys(names.values()) if name]


def is_replay(kernel: SideKernel) -> bool:
    """Return whether a kernel is a whole CUDA graph that was timed by replaying it under ncu."""
    return kernel.representative.duration_source == GRAPH_REPLAY


def are_identical(base: Sequence[Run], new: Sequence[Run]) -> bool:
    """Return whether both sides are the same recordings: equal files with equal kernels."""
    return bool(base) and len(base) == len(new) and all(map(_is_copy, base, new))


def _is_copy(run: Run, other: Run) -> bool:
    return _hashes(run) == _hashes(other) and _kernels(run) == _kernels(other)


def without_copies(runs: Sequence[Run]) -> tuple[Run, ...]:
    """Return the runs without copies of another one: a copy does not show noise."""
    kept: list[Run] = []
    for run in runs:
        if not any(_is_copy(run, other) for other in kept):
            kept.append(run)
    return tuple(kept)


def _kernels(run: Run) -> Counter[KernelProfile]:
    """Return the kernels of a run, in any order and without the numbers that a session gives."""
    return Counter(replace(kernel, id=0) for kernel in run.session.kernels)


def _hashes(run: Run) -> list[str]:
    return [source.sha256 for source in run.session.sources]


def sides_of(base: Sequence[Run], new: Sequence[Run]) -> tuple[Side, Side, bool]:
    """Return both sides, and whether launch configurations distinguish kernels: both or neither recorded them.

    They are compared by step if all runs have steps.
    """
    had, have = (
        [(kernel.grid or kernel.block) is not None for run in runs for kernel in run.session.kernels]
        for runs in (base, new)
    )
    configured = not had or not have or any(had) == any(have)
    per: Per = "run" if any(steps_of(run.session) is None for run in (*base, *new)) else "step"
    return side_of(base, configured=configured, per=per), side_of(new, configured=configured, per=per), configured


def side_of(runs: Sequence[Run], *, configured: bool = True, per: Per = "run") -> Side:
    """Return a side from its runs; equal launches of a run are one kernel, of any configuration if not `configured`."""
    groups: defaultdict[KernelKey, list[Member]] = defaultdict(list)
    lanes = _lanes(runs)
    steps = [(steps_of(run.session) if per == "step" else None) or 1.0 for run in runs]
    for number, run in enumerate(runs):
        for kernel in run.session.kernels:
            lane = lanes[number, kernel.rank, kernel.device]
            groups[_key(kernel, configured=configured)].append(Member(number, lane, kernel, steps[number]))
    kernels = [_side_kernel(key, members, per) for key, members in groups.items()]
    kernels.sort(key=lambda kernel: -(kernel.total_s or 0.0))
    return Side(tuple(runs), tuple(kernels), tuple(steps), per)


def grouped_by_launch(kernels: Iterable[SideKernel]) -> dict[KernelKey, list[SideKernel]]:
    """Return the kernels by function and launch configuration."""
    groups: defaultdict[KernelKey, list[SideKernel]] = defaultdict(list)
    for kernel in kernels:
        groups[kernel.key.launch].append(kernel)
    return groups


def together(kernels: Sequence[SideKernel]) -> SideKernel:
    """Return kernels of one function as one without ranges, and without a launch configuration if they have several."""
    ordered = sorted(kernels, key=lambda kernel: kernel.key.order)
    key = ordered[0].key.launch
    if any(kernel.key.launch != key for kernel in ordered):
        key = replace(key, grid=None, block=None)
    members = [member for kernel in ordered for member in kernel.members]
    return _side_kernel(key, members, ordered[0].per)


def run_time_s(session: Session) -> float | None:
    """Return the GPU time of a run, with that of excluded kernels; None if none is known."""
    if session.run is not None:
        return session.run.time_s
    excluded_s = session.excluded.time_s if session.excluded is not None else None
    times = _times_s(session.kernels)
    return sum(times) + (excluded_s or 0.0) if times else excluded_s


def _times_s(kernels: Iterable[KernelProfile]) -> list[float]:
    """Return the times of all launches of the kernels that have one."""
    return [
        kernel.time_total_s for kernel in kernels if kernel.time_total_s is not None and _is_time(kernel.time_total_s)
    ]


def _key(kernel: KernelProfile, *, configured: bool) -> KernelKey:
    return KernelKey(
        name=kernel_key(kernel.demangled),
        ranges=kernel.ranges,
        grid=kernel.grid if configured else None,
        block=kernel.block if configured else None,
    )


_Lane = tuple[int, "int | None", int]
"""A run, and the rank and the GPU in it."""


def _lanes(runs: Sequence[Run]) -> dict[_Lane, int]:
    """Number each rank and each GPU of each run: each of them counts as a run."""
    lanes = {(number, kernel.rank, kernel.device) for number, run in enumerate(runs) for kernel in run.session.kernels}
    ordered = sorted(lanes, key=lambda lane: (lane[0], -1 if lane[1] is None else lane[1], lane[2]))
    return {lane: number for number, lane in enumerate(ordered)}


def _side_kernel(key: KernelKey, members: Sequence[Member], per: Per) -> SideKernel:
    by_lane: defaultdict[int, list[Member]] = defaultdict(list)
    for member in members:
        by_lane[member.lane].append(member)
    speaker = _representative(members)
    kernels = [member.profile for member in members]
    runs = frozenset(member.run for member in members)
    # Added up before they are divided, so that equal numbers of launches stay equal.
    launches = summed((member.steps, member.profile.launches) for member in members)
    return SideKernel(
        key=key,
        run=speaker.run,
        representative=speaker.profile,
        members=tuple(members),
        times=tuple(_run_times(lane, by_lane[lane]) for lane in sorted(by_lane)),
        counts={count.name: count for count in spanning(_finite(speaker.profile), map(_finite, kernels))},
        runs=runs,
        launches=sum(count / steps for steps, count in launches.items()) / len(runs),
        total_s=_total_s(members),
        per=per,
    )


def _total_s(members: Sequence[Member]) -> float | None:
    """Return the time of a run or step, on average over the runs that have it."""
    totals: defaultdict[int, float] = defaultdict(float)
    for member in members:
        for time_s in _times_s([member.profile]):
            totals[member.run] += time_s / member.steps
    return fmean(totals.values()) if totals else None


def _is_time(value: float | None) -> bool:
    """Return whether a duration is valid: not missing, infinite or negative."""
    return value is not None and 0 <= value < inf


def _representative(members: Sequence[Member]) -> Member:
    """Return the launch of median duration, among those with counters if any has some."""
    counted = [member for member in members if member.profile.counts or member.profile.throughput] or members
    timed = [(member.profile.duration_s or 0.0, member) for member in counted if _is_time(member.profile.duration_s)]
    if not timed:
        return min(counted, key=lambda member: _known_of(member.profile))
    middle = median(duration_s for duration_s, _ in timed)
    return min(timed, key=lambda item: (abs(item[0] - middle), item[0], _known_of(item[1].profile)))[1]


def _known_of(kernel: KernelProfile) -> tuple[object, ...]:
    """Return a sort key for profiles of the same time: those with most counts and amounts first."""
    amounts = [*(work.flop for work in kernel.work), *(traffic.bytes for traffic in kernel.traffic)]
    known = sorted(amount for amount in amounts if amount is not None)
    return -len(kernel.counts), -len(known), known, sorted(count.value for count in kernel.counts)


def _run_times(run: int, members: Sequence[Member]) -> RunTimes:
    kernels = [member.profile for member in members]
    durations: list[float] = []
    cycles: list[float] = []
    for kernel in kernels:
        own, clocks = _launches(kernel)
        durations += own
        if clocks:
            cycles += map(mul, own, clocks)
    totals = _times_s(kernels)
    return RunTimes(
        run=run,
        durations_s=tuple(durations),
        cycles=tuple(cycles) if len(cycles) == len(durations) else (),
        launches=sum(kernel.launches for kernel in kernels),
        total_s=sum(totals) if totals else None,
        steps=members[0].steps,
    )


def _launches(kernel: KernelProfile) -> tuple[list[float], list[float]]:
    """Return durations and SM clocks of the launches of a kernel."""
    times = kernel.launch_times
    if times is not None:
        durations = times.durations_s
        clocks = times.sm_clocks_hz
    elif kernel.duration_s is not None:
        durations = (kernel.duration_s,)
        # Of a kernel that was timed by a survey, the clock is that of another run, under the profiler.
        has_clock = kernel.sm_clock_hz is not None and kernel.duration_source in BY_NCU
        clocks = (kernel.sm_clock_hz or 0.0,) if has_clock else ()
    else:
        return [], []
    kept = [place for place, duration in enumerate(durations) if _is_time(duration)]
    if len(clocks) != len(durations) or not all(0 < clock < inf for clock in clocks):
        return [durations[place] for place in kept], []
    return [durations[place] for place in kept], [clocks[place] for place in kept]


def _finite(kernel: KernelProfile) -> list[LaunchCount]:
    return [count for count in kernel.counts if isfinite(count.value)]
