"""Times of a PyTorch trace that cannot be, given the others: faults of the profiler, which no number may come from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from gpuprof.read.timeline_parts import LaunchOrigin
from gpuprof.read.torch_events import TraceEvents
from gpuprof.timeline.trace import KERNEL

_EARLY_NS = 10**9
"""The clocks of GPU and CPU differ by less. CUPTI mixes up its clocks in some records (pytorch/pytorch#192021)."""
_OUTLASTS_NS = 10 * 10**9
"""So much longer than all else an activity may last, or as long as all else."""


def correct_times(events: TraceEvents, places: Sequence[LaunchOrigin | None]) -> Sequence[LaunchOrigin | None]:
    """Drop activities that begin long before their launch, and durations far beyond the end of all else.

    Returns the places of those that are left.
    """
    early = [
        place is not None and event.start < place.at - _EARLY_NS
        for event, place in zip(events.gpu, places, strict=True)
    ]
    launched = sum(place is not None for place in places)
    if any(early) and sum(early) < launched:
        events.misplaced.update(event.role for event, is_early in zip(events.gpu, early, strict=True) if is_early)
        places = [place for place, is_early in zip(places, early, strict=True) if not is_early]
        events.gpu = [event for event, is_early in zip(events.gpu, early, strict=True) if not is_early]
    _drop_endless_durations(events, places)
    return places


def _drop_endless_durations(events: TraceEvents, places: Sequence[LaunchOrigin | None]) -> None:
    starts = [event.start for event in events.gpu]
    known = chain(starts, (place.at for place in places if place is not None), (wait.end for wait in events.waits))
    last = max(known, default=0)
    latest = last + max(_OUTLASTS_NS, last - min(starts, default=last))
    for event in events.gpu:
        if event.duration is not None and event.start + event.duration > latest:
            events.impossible.append((event.name, f"{event.duration / 1000:g} µs"))
            event.duration = None


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
