"""What is not the same of the clocks of two sides: throttling, SM clock, DRAM clock, temperature."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import log
from statistics import median
from typing import NamedTuple

from gpuprof.comparison.conditions.values import NOT_KNOWN, common, condition, sources
from gpuprof.comparison.contract import RunCondition
from gpuprof.comparison.sides import Side
from gpuprof.model.session import KernelProfile
from gpuprof.model.sm_clocks import FREE, held_clock, off_by
from gpuprof.model.surveyed import was_throttled
from gpuprof.units import format_percent, format_si

_SM_CLOCK = 0.03
"""1.95 % is the most by which the average SM clock of a kernel differed that ncu profiled twice with locked clocks, of
seven kernels longer than 20 µs (V100, A10G); of shorter ones 10 %. Eight recordings of one kernel of 70 µs on an H100
whose clock did not move differed by 2.3 %, where ncu 2025.3 counted cycles in another pass than the time."""
_DRAM_CLOCK = 0.07
"""The DRAM clock does not follow the load; what counters make of it differed by 5.8 % over seven launches of one kernel
of 20 ms (RTX 2060), and by at most 2.2 % in seven others. What is more is another state of power."""
_LONG_ENOUGH_S = 20e-6
"""NVIDIA calls what ncu derives from shorter kernels unreliable."""
_THROTTLED_SHARE = 0.05
"""Of the GPU time of a side: kernels that take less decide no total."""
_WARMER_C = 10.0
"""So much warmer, a GPU leaks several watts more, which can lower its clocks."""


def throttled(base: Side, new: Side) -> Iterator[RunCondition]:
    """Say whether the driver lowered the clocks of a side."""
    states = [_throttling(side) for side in (base, new)]
    told = [[_STATES[state]] for state in states]
    if states == [True, True]:
        sentence = (
            "The driver lowered the clocks on both sides: seconds vary with that. Cool the GPU, or lock lower clocks."
        )
        yield condition("throttling", told, None, sentence)
    elif True in states:
        side = "base" if states[0] else "new"
        sentence = (
            f"The driver lowered the clocks on the {side} side: times are not compared. Cool the GPU, or lock lower "
            "clocks, and measure both sides again."
        )
        yield condition("throttling", told, "time", sentence)


def clocks(base: Side, new: Side) -> Iterator[RunCondition]:
    """Say by how much the clocks differ over the kernels of both sides, where that is more than they vary."""
    sm = _sm_change(base, new)
    if sm is not None and abs(sm.ratio - 1) > _SM_CLOCK:
        sentence = (
            f"The SM clock of the new side is {_apart(sm.ratio)} the base's, by the median kernel: seconds vary with "
            "it. Lock the clocks, or measure both sides in turn."
        )
        yield condition("sm-clock", sm.told, None, sentence)
    dram = _clock_change(base, new, lambda kernel: kernel.dram_clock_hz)
    if dram is not None and abs(dram.ratio - 1) > _DRAM_CLOCK:
        sentence = (
            f"The DRAM clock of the new side is {_apart(dram.ratio)} the base's, which alone can change times by as "
            "much: a change is one only beyond that. Bring the GPU into one power state: nvidia-smi "
            "--lock-memory-clocks."
        )
        yield condition("dram-clock", dram.told, None, sentence)


def dram_shift(base: Side, new: Side) -> float:
    """Return what another DRAM clock can change the time of a kernel by, as a logarithm: no kernel loses or gains more
    than the ratio of the clocks, be it bound by DRAM. 0 where the clocks are alike or not known.
    """
    dram = _clock_change(base, new, lambda kernel: kernel.dram_clock_hz)
    return abs(log(dram.ratio)) if dram is not None and abs(dram.ratio - 1) > _DRAM_CLOCK else 0.0


def clock_shift(base: Side, new: Side) -> float:
    """Return what other clocks, of SM or DRAM, can change seconds by, as a logarithm: of a run no cycles tell them
    from a change of the code. 0 where they are alike or not known.
    """
    sm = _sm_change(base, new)
    shift = abs(log(sm.ratio)) if sm is not None and abs(sm.ratio - 1) > _SM_CLOCK else 0.0
    return shift + dram_shift(base, new)


def warmth(base: Side, new: Side) -> Iterator[RunCondition]:
    """Say whether a side was much warmer."""
    hottest = [_hottest(side) for side in (base, new)]
    before, after = hottest
    if before is not None and after is not None and abs(after - before) >= _WARMER_C:
        sentence = "A warmer GPU can run at lower clocks. Let it warm up before both sides, or measure them in turn."
        yield condition("temperature", [[f"{before:.0f} °C"], [f"{after:.0f} °C"]], None, sentence)


_STATES = {True: "throttled", False: "not throttled", None: NOT_KNOWN}


def _throttling(side: Side) -> bool | None:
    """Tell whether kernels that take a part of the time ran with lowered clocks, or any where no time is known; None
    where nothing says so.
    """
    states = [(kernel.speaker.throttled, kernel.total_s or 0.0) for kernel in side.kernels]
    if any(state is not None for state, _ in states):
        total_s = sum(time_s for _, time_s in states)
        lowered_s = sum(time_s for state, time_s in states if state)
        return lowered_s > _THROTTLED_SHARE * total_s if total_s > 0 else any(state for state, _ in states)
    told = [was_throttled(source.samples) for source in sources(side)]
    return any(told) if any(state is not None for state in told) else None


def _sm_change(base: Side, new: Side) -> _Clocks | None:
    """Compare the SM clock; None where the driver saw the same one on both sides all the time, and each kernel's cycles
    can be of it.
    """
    held = {_held(side) for side in (base, new)}
    held_hz = held.pop() if len(held) == 1 else None
    speakers = [kernel.speaker for side in (base, new) for kernel in side.kernels]
    if held_hz is not None and all(_can_be(held_hz, kernel) for kernel in speakers):
        return None
    return _clock_change(base, new, lambda kernel: kernel.sm_clock_hz)


def _can_be(held_hz: float, kernel: KernelProfile) -> bool:
    clock = kernel.sm_clock_hz
    return clock is None or abs(clock / held_hz - 1) <= off_by(kernel.duration_s)


def _held(side: Side) -> float | None:
    """Return the SM clock that the driver saw in every file of a side; None where one does not tell, or it moved."""
    clocks = {
        held_clock(source.samples, source.samples[0].name if source.samples else None, source.clock_control or FREE)
        for source in sources(side)
    }
    return clocks.pop() if len(clocks) == 1 else None


class _Clocks(NamedTuple):
    """The clock of the median kernel on both sides, told, and the median of new ÷ base."""

    told: list[list[str]]
    ratio: float


def _clock_change(base: Side, new: Side, of: Callable[[KernelProfile], float | None]) -> _Clocks | None:
    """Compare a clock over the kernels of both sides that run long enough; None where it is known of none."""
    pairs = []
    for before, after in common(base, new):
        values = of(before.speaker), of(after.speaker)
        if all(values) and all((kernel.speaker.duration_s or 0.0) >= _LONG_ENOUGH_S for kernel in (before, after)):
            pairs.append((values[0] or 0.0, values[1] or 0.0))
    if not pairs:
        return None
    ratio = median(after / before for before, after in pairs)
    return _Clocks([[format_si(median(values), "Hz")] for values in zip(*pairs, strict=True)], ratio)


def _apart(ratio: float) -> str:
    return f"{format_percent(abs(ratio - 1))} {'above' if ratio > 1 else 'below'}"


def _hottest(side: Side) -> float | None:
    known = [
        sample.temperature_max_c
        for source in sources(side)
        for sample in source.samples
        if sample.temperature_max_c is not None
    ]
    return max(known, default=None)
