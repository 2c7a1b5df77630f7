"""What a GPU did when, in few bins, so that a long timeline can be drawn: kernels by name, copies, exchange. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import chain

from gpuprof.model.field_types import StripKind
from gpuprof.model.session import StripRow, TimeStrip
from gpuprof.timeline.intervals import TimeInterval, binned, merged
from gpuprof.timeline.pauses import Pause, long_pause
from gpuprof.timeline.trace import COPY, GRAPH, SET, Activity
from gpuprof.timeline.window import TracedGpu

BINS = 270
_NAMES, _PAUSES, _DIGITS = 5, 3, 4
_STEPS = 1_000


def drawn_kernels(gpus: Iterable[TracedGpu], ids: Mapping[int, int]) -> dict[str, int]:
    """Return the names of the kernels that compute and take most time of a run, and the longest kernel of each name.

    `ids` are those of the kernels by the identity of launches.
    """
    times: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
    for gpu in gpus:
        for activity in gpu.activities:
            if activity.duration_s and activity.is_kernel and activity.computes:
                times[activity.name][ids[id(activity)]] += activity.duration_s
    names = nlargest(_NAMES, times, key=lambda name: sum(times[name].values()))
    return {name: max(times[name], key=times[name].__getitem__) for name in names}


def strip_of(gpu: TracedGpu, pauses: Iterable[Pause], kernels: Mapping[str, int]) -> TimeStrip | None:
    """Return the strip of a GPU; None if its activities take no time, or less than their clock resolves.

    `kernels` are those that have a row, by name, with their number.
    """
    start_s = gpu.judged.start_s
    bin_s = (gpu.judged.end_s - start_s) / BINS
    timed = [activity for activity in gpu.activities if activity.duration_s]
    if not timed or bin_s <= 0:
        return None
    groups: dict[StripKind, dict[int | None, list[TimeInterval]]] = {
        "kernels": {number: [] for number in kernels.values()},
        "graphs": {},
        "copies": {},
        "exchange": {},
    }
    for activity in timed:
        groups[_kind(activity)].setdefault(kernels.get(activity.name), []).append(activity.interval)
    rows = (
        StripRow(kind=kind, kernel=number, busy=busy)
        for kind, of_kind in groups.items()
        for number, busy in _shares(of_kind, start_s, bin_s)
        if of_kind[number]
    )
    sure = (pause for pause in pauses if not pause.unsure)
    longest = nlargest(_PAUSES, sure, key=lambda pause: pause.length_s)
    drawn = sorted((long_pause(pause, start_s) for pause in longest), key=lambda pause: pause.start_s)
    starts_s = tuple(begin_s - start_s for begin_s in gpu.judged.starts_s[:_STEPS] if begin_s >= start_s)
    return TimeStrip(bin_s=bin_s, rows=tuple(rows), pauses=tuple(drawn), steps_s=starts_s)


def _kind(activity: Activity) -> StripKind:
    if activity.kind in (COPY, SET):
        return "copies"
    if activity.kind == GRAPH:
        return "graphs"
    return "exchange" if activity.is_kernel and not activity.computes else "kernels"


def _shares(
    groups: Mapping[int | None, Sequence[TimeInterval]], start_s: float, bin_s: float
) -> Iterator[tuple[int | None, tuple[float, ...]]]:
    """Yield of each group the part that it takes of each bin, in all that of their union."""
    union = binned(merged(chain.from_iterable(groups.values())), start_s, bin_s, BINS)
    taken = {number: binned(times, start_s, bin_s, BINS) for number, times in groups.items()}
    whole = [sum(parts) for parts in zip(*taken.values(), strict=True)]
    for number, times in taken.items():
        shares = [
            mine / together * busy / bin_s if together > 0 else 0.0
            for mine, together, busy in zip(times, whole, union, strict=True)
        ]
        yield number, tuple(round(min(1.0, max(0.0, share)), _DIGITS) for share in shares)
