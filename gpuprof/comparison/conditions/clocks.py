"""Differences between the clocks of two sides: throttling, SM clock, DRAM clock, temperature."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import log
from operator import truediv
from statistics import median
from typing import NamedTuple

from gpuprof.comparison.conditions.values import common, condition, sources
from gpuprof.comparison.contract import RunCondition
from gpuprof.comparison.sides import Side
from gpuprof.model.session import KernelProfile
from gpuprof.model.sm_clocks import FREE, held_clock, off_by
from gpuprof.model.surveyed import was_throttled

_SM_CLOCK = 0.03
"""1.95 % is the most by which the average SM clock of a kernel differed that ncu profiled twice with locked clocks, of
seven kernels longer than 20 µs (V100, A10G); of shorter ones 10 %. Eight recordings of one kernel of 70 µs on an H100
whose clock did not move differed by 2.3 %: ncu 2025.3 counted cycles in another pass than the time."""
_DRAM_CLOCK = 0.07
"""The DRAM clock does not follow the load. As computed from counters it differed by 5.8 % over
seven launches of one kernel of 20 ms (RTX 2060), and by at most 2.2 % in seven others. A larger
difference is another power state."""
_LONG_ENOUGH_S = 20e-6
"""NVIDIA calls values that ncu derives from shorter kernels unreliable."""
_THROTTLED_SHARE = 0.05
"""Share of the GPU time of a side: kernels that take less decide no total."""
_WARMER_C = 10.0
"""So much warmer, a GPU leaks several watts more, which can lower its clocks."""
_STATES: dict[bool | None, list[str]] = {True: ["throttled"], False: ["not throttled"], None: []}


def throttled(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield that the driver lowered the clocks of a side, or of both, which forbids nothing."""
    states = _throttling(base), _throttling(new)
    values = [_STATES[state] for state in states]
    if all(states):
        yield condition("throttling", values, kind="both")
    elif any(states):
        yield condition("throttling", values, "time", kind="base" if states[0] else "new")


def clocks(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield the clocks that differ over the kernels of both sides by more than they vary."""
    for name, change in (
        ("sm-clock", _sm_change(base, new)),
        ("dram-clock", _dram_change(base, new)),
    ):
        if change is not None:
            yield condition(name, change.medians_hz, ratio=change.ratio)


def dram_shift(base: Side, new: Side) -> float:
    """Return the largest effect of another DRAM clock on a kernel's time, as a logarithm.

    No kernel loses or gains more than the ratio of the clocks, even if DRAM binds it. 0 if the
    clocks are alike or not known.
    """
    return _shift(_dram_change(base, new))


def clock_shift(base: Side, new: Side) -> float:
    """Return the largest effect of other SM and DRAM clocks on seconds, as a logarithm.

    The cycles of a run are not known, which would distinguish other clocks from a change of the
    code. 0 if the clocks are alike or not known.
    """
    return _shift(_sm_change(base, new)) + dram_shift(base, new)


def _shift(change: _Clocks | None) -> float:
    return abs(log(change.ratio)) if change is not None else 0.0


def warmth(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield the highest temperatures if one side was much warmer."""
    before = _hottest(base)
    after = _hottest(new)
    if before is not None and after is not None and abs(after - before) >= _WARMER_C:
        yield condition("temperature", [[before], [after]])


def _throttling(side: Side) -> bool | None:
    """Return whether kernels with over 5 % of the time, or any without times, had lowered clocks.

    None if neither reports nor samples say.
    """
    representatives = [kernel.representative for kernel in side.kernels]
    if all(kernel.throttled is None for kernel in representatives):
        return _any_known(was_throttled(source.samples) for source in sources(side))
    total_s = sum(kernel.total_s or 0.0 for kernel in side.kernels)
    if total_s <= 0:
        return any(kernel.throttled for kernel in representatives)
    lowered_s = sum(kernel.total_s or 0.0 for kernel in side.kernels if kernel.representative.throttled)
    return lowered_s > _THROTTLED_SHARE * total_s


def _any_known(states: Iterable[bool | None]) -> bool | None:
    known = [state for state in states if state is not None]
    return any(known) if known else None


def _sm_change(base: Side, new: Side) -> _Clocks | None:
    """Compare the SM clock.

    None if the driver saw the same one on both sides all the time, and the cycles of each kernel
    fit it.
    """
    held_hz = _held(base)
    kernels = (*base.kernels, *new.kernels)
    if (
        held_hz is not None
        and held_hz == _held(new)
        and all(_fits(held_hz, kernel.representative) for kernel in kernels)
    ):
        return None
    return _clock_change(base, new, lambda kernel: kernel.sm_clock_hz, _SM_CLOCK)


def _dram_change(base: Side, new: Side) -> _Clocks | None:
    return _clock_change(base, new, lambda kernel: kernel.dram_clock_hz, _DRAM_CLOCK)


def _fits(held_hz: float, kernel: KernelProfile) -> bool:
    clock = kernel.sm_clock_hz
    return clock is None or abs(clock / held_hz - 1) <= off_by(kernel.duration_s)


def _held(side: Side) -> float | None:
    """Return the SM clock that the driver saw in all files of a side; None if not one and the same."""
    clocks = set()
    for source in sources(side):
        name = source.samples[0].name if source.samples else None
        clocks.add(held_clock(source.samples, name, source.clock_control or FREE))
    return clocks.pop() if len(clocks) == 1 else None


class _Clocks(NamedTuple):
    """The median clock of the kernels of each side, and the median of new ÷ base."""

    medians_hz: list[list[float]]
    ratio: float


def _clock_change(base: Side, new: Side, of: Callable[[KernelProfile], float | None], noise: float) -> _Clocks | None:
    """Compare a clock over the kernels of both sides that run long enough; None if it differs by no more than noise."""
    base_hz: list[float] = []
    new_hz: list[float] = []
    for pair in common(base, new):
        kernels = [kernel.representative for kernel in pair]
        before, after = map(of, kernels)
        if before and after and all((kernel.duration_s or 0.0) >= _LONG_ENOUGH_S for kernel in kernels):
            base_hz.append(before)
            new_hz.append(after)
    if not base_hz:
        return None
    ratio = median(map(truediv, new_hz, base_hz))
    if abs(ratio - 1) <= noise:
        return None
    return _Clocks([[median(base_hz)], [median(new_hz)]], ratio)


def _hottest(side: Side) -> float | None:
    temperatures = [sample.temperature_max_c for source in sources(side) for sample in source.samples]
    return max((temperature for temperature in temperatures if temperature is not None), default=None)
