"""Times of a PyTorch trace that cannot be, given the others: faults of the profiler, which no number may come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuprof.read.torch_events import DAY_NS, GpuEvent, TraceEvents
from gpuprof.timeline.trace import KERNEL

_EARLY_NS = 10**6
"""No kernel of 13 real traces begins before its launch. CUPTI mixes up its clocks in some records
(pytorch/pytorch#192021)."""

_OUTLASTS_NS = 600 * 10**9
"""No activity goes on so long after all else has begun or ended."""


def settle_times(events: TraceEvents) -> int | None:
    """Keep the day with most events and the days next to it without a gap: no trace pauses for a day.

    Return when the CPU began, if it did anything.
    """
    first = last = max(events.days, key=events.days.__getitem__, default=0)
    while first - 1 in events.days:
        first -= 1
    while last + 1 in events.days:
        last += 1
    begin, end = first * DAY_NS, (last + 2) * DAY_NS
    if len(events.days) > last - first + 1 or events.last > end:

        def within(start: int, until: int) -> bool:
            return begin <= start and until <= end

        for spans in events.cpu:
            spans.keep(within)
        events.waits = [wait for wait in events.waits if within(wait[0].at, wait[1])]
        _keep(events, lambda event: within(event.start, event.start))
    events.last = min(end, events.last)
    return min((at for day, at in events.firsts.items() if day >= first), default=None)


def _keep(events: TraceEvents, is_kept: Callable[[GpuEvent], bool]) -> None:
    """Keep some of the GPU activities, and count the others."""
    kept = []
    for event in events.gpu:
        if is_kept(event):
            kept.append(event)
        else:
            (events.misplaced if event.start else events.untimed)[event.role] += 1
    events.gpu = kept


def correct_times(events: TraceEvents) -> None:
    """Drop activities that begin long before their launch, and durations that end long after all else."""

    def is_early(event: GpuEvent) -> bool:
        return event.place is not None and event.start < event.place.at - _EARLY_NS

    launched = sum(event.place is not None for event in events.gpu)
    # If most are early, the clocks differ, and no event is wrong.
    if 0 < 2 * sum(map(is_early, events.gpu)) < launched:
        _keep(events, lambda event: not is_early(event))
    latest = max([events.last, *(event.start for event in events.gpu)]) + _OUTLASTS_NS
    for event in events.gpu:
        if event.duration is not None and event.start + event.duration > latest:
            events.impossible.append((event.name, f"{event.duration / 1000:g} µs"))
            event.duration = None


def keep_what_has_kernels(events: TraceEvents) -> None:
    """Drop what the CPU did after the last launch that all GPUs have: in the file, the GPUs come after the CPU."""
    latest = {event.device: 0 for event in events.gpu}
    for event in events.gpu:
        if event.place is not None:
            latest[event.device] = max(latest[event.device], event.place.at)
    until = min(latest.values(), default=0)
    if until:
        events.steps.keep(lambda _, end: end <= until)
        for spans in (events.ranges, events.operators):
            spans.keep(lambda start, _: start <= until)
        events.waits = [wait for wait in events.waits if wait[0].at <= until]
        events.gpu = [event for event in events.gpu if event.place is None or event.place.at <= until]


def without_times(events: TraceEvents) -> Iterator[str]:
    """Say how many GPU activities are left out because they have no time, or one that cannot be."""
    missing = events.untimed + events.misplaced
    only_kernels = set(missing) == {KERNEL}
    total = missing.total() + sum(event.role == KERNEL or not only_kernels for event in events.gpu)
    noun = "kernels" if only_kernels else "GPU activities"
    for counted, what in (
        (events.untimed, "no timestamp (PyTorch wrote 0 or none, a fault known of 2.12)"),
        (events.misplaced, "an impossible timestamp, far from all others or before the launch"),
    ):
        number = counted.total()
        if number:
            yield f"{number:,} of {total:,} {noun} {'has' if number == 1 else 'have'} {what}; shares are of the rest"
