"""What a whole run took, and a session of some of its kernels that still knows it."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gpuprof.model.groups import LaunchKind, alike, kind_of, resources_of_kernel, summed
from gpuprof.model.session import DeviceTimeline, KernelProfile, RunTotals, Session

_MOST_OF_THE_TIME = 0.9


def run_of(session: Session) -> RunTotals:
    """Return what the run of a session took: what the session says, else the sums over its kernels."""
    if session.run is not None:
        return session.run
    timed = [kernel for kernel in session.kernels if kernel.time_total_s is not None]
    times = summed((kernel.numbered_name, kernel.time_total_s or 0.0) for kernel in timed)
    is_one = are_ranks(session)
    shapes = alike((_configuration(kernel, is_one), kernel) for kernel in timed)
    total_s = sum(times.values())
    ranked, covered_s, needed = sorted(times.values(), reverse=True), 0.0, 0
    while covered_s < _MOST_OF_THE_TIME * total_s:
        covered_s, needed = covered_s + ranked[needed], needed + 1
    return RunTotals(
        kernels=len(ranked),
        launches=_launches(session.kernels),
        timed_launches=sum(map(timed_launches, timed)),
        timed_shapes=len(shapes),
        time_s=total_s,
        main_kernels=needed,
        main_time_s=covered_s,
    )


def are_ranks(session: Session) -> bool:
    """Return whether its sources are traces of one run, each of another rank."""
    ranks = session.timeline.source_ranks if session.timeline is not None else ()
    return None not in ranks and len(set(ranks)) == len(ranks) == len(session.sources) > 1


def _configuration(kernel: KernelProfile, is_one: bool) -> LaunchKind:
    """Return the function and launch configuration of a kernel, on its GPU unless all are of one run."""
    shape, resources = (kernel.grid, kernel.block), resources_of_kernel(kernel)
    source, device = (0, 0) if is_one else (kernel.source, kernel.device)
    return kind_of(source, device, kernel.numbered_name, shape, resources, (), kernel.id)


def timed_launches(kernel: KernelProfile) -> int:
    """Return how many launches of a timed kernel have a duration; a timeline lacks it of some."""
    spread = kernel.duration_percentiles_s
    return spread.count if spread is not None else kernel.launches


def running_s(device: DeviceTimeline) -> float:
    """Return the length of the judged part of a GPU's time, without pauses for the start-up and for the profiler."""
    return device.span_s - loading_s(device) - (device.gaps.profiler_s if device.gaps is not None else 0.0)


def step_s(devices: Iterable[DeviceTimeline]) -> float | None:
    """Return how long a step takes on the slowest of these GPUs; None if none of them is judged by steps."""
    return max((running_s(device) / device.steps for device in devices if device.steps), default=None)


def loading_s(device: DeviceTimeline) -> float:
    """Return the time of start-up pauses inside the judged part."""
    return (device.gaps.start_up_s or 0.0) if device.gaps is not None else 0.0


def begins_with_start_up(device: DeviceTimeline) -> bool:
    """Return whether what comes before the judged part is a start-up: a recording can begin in a loop, too."""
    return device.from_start or device.judged == "repetition"


def start_up_s(device: DeviceTimeline) -> float:
    """Return how long a GPU's start-up takes: all before the judged part, and the start-up pauses in it."""
    start_up = device.start_up if begins_with_start_up(device) else None
    before = (part.time_s for part in (start_up, device.warm_up) if part is not None)
    return sum(before) + loading_s(device)


def busy_share(session: Session) -> float:
    """Return which part of the time from the start-up to the last activity of its GPUs the kernels took.

    1 without a timeline: the run is then its kernels.
    """
    devices = session.timeline.devices if session.timeline is not None else ()
    span_s = sum(map(running_s, devices))
    return min(1.0, sum(device.kernel_s for device in devices) / span_s) if span_s > 0 else 1.0


def is_part(session: Session) -> bool:
    """Return whether its run has more launches than its kernels: others were not chosen, or excluded."""
    return session.run is not None and session.run.launches > _launches(session.kernels)


def narrowed(session: Session, kernels: Iterable[KernelProfile]) -> Session:
    """Return the session with these of its kernels, in this order, and its run; what is judged of all is left out."""
    chosen = tuple(kernels)
    whole = _launches(chosen) == _launches(session.kernels)
    return replace(
        session,
        kernels=chosen,
        verdict=None,
        recommendations=(),
        run=session.run if whole else run_of(session),
    )


def _launches(kernels: Iterable[KernelProfile]) -> int:
    return sum(kernel.launches for kernel in kernels)
