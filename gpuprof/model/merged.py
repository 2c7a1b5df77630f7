"""Equal launches of a session as one kernel each, for which one of them speaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.model.counts import spanning
from gpuprof.model.groups import alike, averages_of, kind_of_kernel, speaker, spread
from gpuprof.model.launch_times import merged_times
from gpuprof.model.run_totals import busy_share
from gpuprof.model.session import KernelProfile, LaunchCount, Session
from gpuprof.model.timed import Groupable


class Launches(NamedTuple):
    """The kernels of a session: of each what tells its group and time; by its place, the whole of it, or its counts."""

    timed: Sequence[Groupable]
    profile: Callable[[int], KernelProfile]
    counts: Callable[[int], Sequence[LaunchCount]]


def launches_of(kernels: Sequence[KernelProfile]) -> Launches:
    """Return kernels that are all there."""
    return Launches(kernels, kernels.__getitem__, lambda place: kernels[place].counts)


def merged(session: Session, launches: Launches) -> Session | None:
    """Return the session with equal ones of its launches as one kernel each; None where no two are equal.

    A group keeps the number of the launch that speaks for it; `launches`, the total time, its share, the spread and
    the gains for the run are the group's. What is judged of all launches is left out. No more is asked of a launch
    than its group needs.
    """
    timed = launches.timed
    groups = alike((kind_of_kernel(kernel, kernel.demangled), place) for place, kernel in enumerate(timed))
    if len(groups) == len(timed):
        return None
    busy = busy_share(session)
    kernels = tuple(
        _as_one(group, launches, busy) if len(group) > 1 else launches.profile(group[0]) for group in groups
    )
    return replace(session, kernels=kernels, verdict=None, recommendations=())


def _as_one(places: Sequence[int], launches: Launches, busy: float) -> KernelProfile:
    group = [launches.timed[place] for place in places]
    durations = [kernel.duration_s for kernel in group]
    spoken = launches.profile(places[speaker(durations)])
    times = [kernel.time_total_s for kernel in group if kernel.time_total_s is not None]
    shares = [kernel.time_share for kernel in group if kernel.time_share is not None]
    share = sum(shares) if shares else None
    averages = averages_of(kernel.averages for kernel in group)
    findings = tuple(
        replace(finding, gain_total=finding.gain_kernel * share * busy)
        if finding.gain_kernel is not None and share is not None
        else finding
        for finding in spoken.findings
    )
    return replace(
        spoken,
        launches=sum(kernel.launches for kernel in group),
        time_total_s=sum(times) if times else None,
        time_share=share,
        duration_percentiles_s=spread(durations) if averages is None else None,
        launch_times=merged_times(group),
        counts=spanning(spoken.counts, map(launches.counts, places)),
        findings=findings,
        averages=averages,
    )
