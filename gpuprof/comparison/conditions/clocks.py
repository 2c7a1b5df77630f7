"""Differences between the clocks of two sides: throttling, SM clock, DRAM clock, temperature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log
from statistics import median
from typing import NamedTuple

from gpuprof.comparison.conditions.values import common, condition, sources
from gpuprof.comparison.contract import Affects, RunCondition
from gpuprof.comparison.sides import Side
from gpuprof.model.session import KernelProfile
from gpuprof.model.sm_clocks import FREE, held_clock, off_by
from gpuprof.model.surveyed import was_throttled

_SM_CLOCK = 0.03
"""1.95 % is the most by which the average SM clock of a kernel differed that ncu profiled twice with locked clocks, of
seven kernels longer than 20 µs (V100, A10G); of shorter ones 10 %. Eight recordings of one kernel of 70 µs on an H100
whose clock did not move differed by 2.3 %: ncu 2025.3 counted cycles in another pass than the time."""
_DRAM_CLOCK = 0.07
"""The DRAM clock does not follow the load; what counters make of it differed by 5.8 % over seven launches of one kernel
of 20 ms (RTX 2060), and by at most 2.2 % in seven others. What is more is another state of power."""
_LONG_ENOUGH_S = 20e-6
"""NVIDIA calls what ncu derives from shorter kernels unreliable."""
_THROTTLED_SHARE = 0.05
"""Of the GPU time of a side: kernels that take less decide no total."""
_WARMER_C = 10.0
"""So much warmer, a GPU leaks several watts more, which can lower its clocks."""
_STATES: dict[bool | None, list[str]] = {True: ["throttled"], False: ["not throttled"], None: []}


def throttled(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield that the driver lowered the clocks of a side, or of both, which forbids nothing."""
    states = [_throttling(side) for side in (base, new)]
    if True in states:
        kind = "both" if all(states) else "base" if states[0] else "new"
        affects: Affects | None = None if all(states) else "time"
        yield condition("throttling", [_STATES[state] for state in states], affects, kind=kind)


def clocks(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield the clocks that differ over the kernels of both sides by more than they vary."""
    for name, change in (("sm-clock", _sm_change(base, new)), ("dram-clock", _dram_change(base, new))):
        if change is not None:
            yield condition(name, change.medians_hz, ratio=change.ratio)


def dram_shift(base: Side, new: Side) -> float:
    """Return what another DRAM clock can change the time of a kernel by, as a logarithm: no kernel loses or gains more
    than the ratio of the clocks, be it bound by DRAM. 0 if the clocks are alike or not known.
    """
    return _shift(_dram_change(base, new))


def clock_shift(base: Side, new: Side) -> float:
    """Return what other clocks, of SM or DRAM, can change seconds by, as a logarithm: the cycles of a run
    are not known, which would distinguish them from a change of the code. 0 if they are alike or not known.
    """
    return _shift(_sm_change(base, new)) + dram_shift(base, new)


def _shift(change: _Clocks | None) -> float:
    return abs(log(change.ratio)) if change is not None else 0.0


def warmth(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield the highest temperatures if one side was much warmer."""
    hottest = [_hottest(side) for side in (base, new)]
    before, after = hottest
    if before is not None and after is not None and abs(after - before) >= _WARMER_C:
        yield condition("temperature", [[before], [after]])


def _throttling(side: Side) -> bool | None:
    """Return whether kernels with more than 5 % of the time ran at lowered clocks, or any kernel if no time is known.

    None if neither reports nor samples say.
    """
    states = [(kernel.representative.throttled, kernel.total_s or 0.0) for kernel in side.kernels]
    if any(state is not None for state, _ in states):
        total_s = sum(time_s for _, time_s in states)
        lowered_s = sum(time_s for state, time_s in states if state)
        return lowered_s > _THROTTLED_SHARE * total_s if total_s > 0 else any(state for state, _ in states)
    told = [was_throttled(source.samples) for source in sources(side)]
    return any(told) if any(state is not None for state in told) else None


def _sm_change(base: Side, new: Side) -> _Clocks | None:
    """Compare the SM clock; None if the driver saw the same one on both sides all the time, and each kernel's cycles
    can be of it.
    """
    held = {_held(side) for side in (base, new)}
    held_hz = held.pop() if len(held) == 1 else None
    representatives = [kernel.representative for side in (base, new) for kernel in side.kernels]
    if held_hz is not None and all(_can_be(held_hz, kernel) for kernel in representatives):
        return None
    return _clock_change(base, new, lambda kernel: kernel.sm_clock_hz, _SM_CLOCK)


def _dram_change(base: Side, new: Side) -> _Clocks | None:
    return _clock_change(base, new, lambda kernel: kernel.dram_clock_hz, _DRAM_CLOCK)


def _can_be(held_hz: float, kernel: KernelProfile) -> bool:
    clock = kernel.sm_clock_hz
    return clock is None or abs(clock / held_hz - 1) <= off_by(kernel.duration_s)


def _held(side: Side) -> float | None:
    """Return the SM clock that the driver saw in every file of a side; None if a file has none, or it moved."""
    clocks = {
        held_clock(source.samples, source.samples[0].name if source.samples else None, source.clock_control or FREE)
        for source in sources(side)
    }
    return clocks.pop() if len(clocks) == 1 else None


class _Clocks(NamedTuple):
    """The median clock of the kernels of each side, and the median of new ÷ base."""

    medians_hz: list[list[float]]
    ratio: float


def _clock_change(base: Side, new: Side, of: Callable[[KernelProfile], float | None], noise: float) -> _Clocks | None:
    """Compare a clock over the kernels of both sides that run long enough; None if it differs by no more than noise."""
    pairs = []
    for both in common(base, new):
        kernels = [kernel.representative for kernel in both]
        values = [of(kernel) for kernel in kernels]
        if all(values) and all((kernel.duration_s or 0.0) >= _LONG_ENOUGH_S for kernel in kernels):
            pairs.append((values[0] or 0.0, values[1] or 0.0))
    if not pairs:
        return None
    ratio = median(after / before for before, after in pairs)
    if abs(ratio - 1) <= noise:
        return None
    return _Clocks([[median(values)] for values in zip(*pairs, strict=True)], ratio)


def _hottest(side: Side) -> float | None:
    known = [
        sample.temperature_max_c
        for source in sources(side)
        for sample in source.samples
        if sample.temperature_max_c is not None
    ]
    return max(known, default=None)
