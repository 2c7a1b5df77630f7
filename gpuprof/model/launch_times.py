"""The launches of a group one by one: which are kept where they are many, and those of several groups together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from gpuprof.model.session import LaunchTimes
from gpuprof.model.timed import BY_NCU, Groupable

MOST = 1_000
"""A median of so many is off by 4 % of their standard deviation; more would make sessions long."""
_GOLDEN = 0.6180339887498949
"""Multiples of the golden ratio fall evenly into 0 to 1, and never in a rhythm."""


def launch_times(durations: Sequence[float | None], clock_of: Callable[[int], float | None]) -> LaunchTimes | None:
    """Return the known durations of a group's launches in their order; None where none is known.

    `clock_of` tells the average SM clock of the launch at a place, and is asked for those that are kept only.
    """
    known = [place for place, duration in enumerate(durations) if duration is not None]
    if not known:
        return None
    kept = [known[index] for index in _spread(len(known))]
    return LaunchTimes(
        durations_s=tuple(duration for place in kept if (duration := durations[place]) is not None),
        sm_clocks_hz=_all_known(map(clock_of, kept)),
        dropped=len(known) - len(kept),
    )


def merged_times(kernels: Sequence[Groupable]) -> LaunchTimes | None:
    """Return the launches of kernels that are alike; those of a group that does not list them count as dropped.

    The clock of a single launch is of no use where its time is another tool's: it ran again under the profiler.
    """
    durations: list[float] = []
    clocks: list[float | None] = []
    dropped = 0
    for kernel in kernels:
        own = kernel.launch_times or _single(kernel)
        durations += own.durations_s
        clocks += own.sm_clocks_hz or (None,) * len(own.durations_s)
        dropped += own.dropped
    times = launch_times(durations, clocks.__getitem__)
    if times is None:
        return None
    return LaunchTimes(durations_s=times.durations_s, sm_clocks_hz=times.sm_clocks_hz, dropped=times.dropped + dropped)


def _single(kernel: Groupable) -> LaunchTimes:
    """Return the one launch of a kernel; nothing but its number where it is a group, as old sessions have them."""
    if kernel.launches > 1 or kernel.duration_s is None:
        spread = kernel.duration_percentiles_s
        return LaunchTimes(durations_s=(), dropped=min(kernel.launches, max(0, spread.count)) if spread else 0)
    clock = kernel.sm_clock_hz if kernel.duration_source in BY_NCU else None
    return LaunchTimes(durations_s=(kernel.duration_s,), sm_clocks_hz=(clock,) if clock is not None else ())


def _spread(known: int) -> Iterable[int]:
    """Return which of so many launches are kept: one of each of equal spans, at a place that differs from span to span.

    Every tenth launch could be always the same layer of a network.
    """
    if known <= MOST:
        return range(known)
    starts = [span * known // MOST for span in range(MOST + 1)]
    return [start + int(span * _GOLDEN % 1 * (end - start)) for span, (start, end) in enumerate(pairwise(starts))]


def _all_known(clocks: Iterable[float | None]) -> tuple[float, ...]:
    """Return the clocks; nothing where one is not known."""
    known: list[float] = []
    for clock in clocks:
        if clock is None:
            return ()
        known.append(clock)
    return tuple(known)
