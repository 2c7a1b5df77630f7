"""Times of a PyTorch trace that cannot be, given the others: faults of the profiler, which no number may come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter

from gpuprof.read.torch_events import DAY_NS, GpuEvent, TraceEvents
from gpuprof.timeline.trace import KERNEL
from gpuprof.units import format_si

_EARLY_NS = 10**6
"""No kernel of 13 real traces begins before its launch. CUPTI mixes up its clocks in some records
(pytorch/pytorch#192021)."""

_STRAYS = 20
"""At most one in so many activities has a wrong time of its own."""
_FAR_NS = 60 * 10**9
"""No activity begins so long before the CPU or after it, or goes on so long after all else has begun or ended."""


def settle_times(events: TraceEvents) -> int | None:
    """Keep the day with most events and those before and after it; return when the CPU began, if it did anything."""
    day = max(events.days, key=events.days.__getitem__, default=0)
    begin, end = (day - 1) * DAY_NS, (day + 2) * DAY_NS
    if events.last > end or events.days.keys() - {day - 1, day, day + 1}:

        def within(start: int, until: int) -> bool:
            return begin <= start and until <= end

        for spans in events.cpu:
            spans.keep(within)
        events.waits = [wait for wait in events.waits if within(wait.start, wait.end)]
        _keep(events, lambda event: within(event.start, event.start))
    events.last = min(end, events.last)
    return min((at for at in events.firsts.values() if at >= begin), default=None)


def _keep(events: TraceEvents, is_kept: Callable[[GpuEvent], bool]) -> None:
    """Keep some of the GPU activities, and count the others."""
    kept = []
    for event in events.gpu:
        if is_kept(event):
            kept.append(event)
        else:
            (events.misplaced if event.start else events.untimed)[event.role] += 1
    events.gpu = kept


def correct_times(events: TraceEvents, first: int | None) -> None:
    """Drop activities that begin before their launch, or far from all else; the CPU began with `first`, if it did.

    If most begin before their launch, the clocks differ, and all are shifted. Durations that end long after all else
    are dropped, too.
    """
    delays = sorted(event.start - event.place.start for event in events.gpu if event.place is not None)
    if delays and delays[len(delays) // 2] < -_EARLY_NS:
        # The shortest delay is nearly none, but for strays.
        delay = delays[len(delays) // _STRAYS]
        behind = f"the GPU's clock is {format_si(-delay / 1e9, 's')} behind that of the CPU"
        events.warnings.append(f"{behind}: its times are shifted, and pauses are not exact")
        for event in events.gpu:
            event.start -= delay
    else:
        _keep(events, lambda event: event.place is None or event.start >= event.place.start - _EARLY_NS)
    if first is not None:
        _drop_strays(events, first)
    latest = max([events.last, *(event.start for event in events.gpu)]) + _FAR_NS
    for event in events.gpu:
        if event.duration is not None and event.start + event.duration > latest:
            events.impossible.append((event.name, f"{event.duration / 1000:g} µs"))
            event.duration = None


def _drop_strays(events: TraceEvents, first: int) -> None:
    """Drop activities that start long before the CPU, or long after it and after all earlier work of the GPUs."""
    until = events.last
    strays: set[int] = set()
    for event in sorted(events.gpu, key=attrgetter("start")):
        if first - _FAR_NS <= event.start <= until + _FAR_NS:
            until = max(until, event.start + (event.duration or 0))
        else:
            strays.add(id(event))
    _keep(events, lambda event: id(event) not in strays)


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
