"""Which SM clock a launch ran at, where its counters, the driver and the product do not say the same.

ncu 2025.3 counts the cycles of the SMs in another pass than it takes the time in, and no two passes take equally long:
their ratio is no clock. On an H100 that the driver saw at 1.98 GHz in every sample of three runs it was up to 22 % off
in 46 launches under 20 µs, up to 9.5 % in 32 from there to 100 µs, up to 0.4 % in 3 of 121 µs and more. The cycles of
the GPCs are counted with the time: 0.1 % off from 70 µs on, 1.1 % at 2 µs. Older releases count both with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gpuprof.model.recorded import GpuSamples

SM_CYCLES = "sm-cycles"
GPC_CYCLES = "gpc-cycles"
DRIVER = "driver"
HIGHEST = "highest"

_SAME_PASS = 0.001
"""Cycles of SMs and GPCs that were counted in one pass agree within 0.01 % in 31 launches of public reports."""
_OFF = ((20e-6, 0.25), (100e-6, 0.10))
"""How far cycles of the SMs over the time can be from the clock in launches shorter than that, as a fraction, where
nothing else tells the clock: up to 0.22 and 0.095 on an H100 whose clock did not move."""
_OFF_LONG, _OFF_GPC = 0.01, 0.015
"""The same in longer launches, 0.004 there, and of cycles of the GPCs in any, 0.011: farther away it was another clock,
which samples between the passes did not see."""
_LEAST_SAMPLES = 10
"""Of a clock that a tenth of a run had, so many miss it in one of three runs; a third, in one of fifty."""
FREE = "none"
"""Of ncu's --clock-control: where it locks clocks for its passes, the driver's samples fall between them, too."""


class LaunchClock(NamedTuple):
    """A clock, what told it, and the cycles per second that the counters gave where that is another number."""

    hz: float | None
    source: str | None = None
    counted_hz: float | None = None


def off_by(duration_s: float | None, of_long: float = _OFF_LONG) -> float:
    """Return how far the cycles of the SMs over the time can be from the clock of a launch, as a fraction.

    `of_long` is what to say of launches that are long enough to be trusted.
    """
    return next((most for shorter_s, most in _OFF if (duration_s or 0.0) < shorter_s), of_long)


def sm_clock(
    counted_hz: float | None,
    gpc_hz: float | None,
    held_hz: float | None,
    highest_hz: float | None,
    duration_s: float | None = None,
) -> LaunchClock:
    """Return the clock of a launch: what the driver saw in all of its samples, if what was counted can be that; else
    the clock of the GPCs, which was counted with the time; else what the SMs counted, but none above the highest.
    """
    if counted_hz is None:
        return LaunchClock(None)
    seen_hz, off = (gpc_hz, _OFF_GPC) if gpc_hz is not None else (counted_hz, off_by(duration_s))
    if held_hz is not None and abs(seen_hz / held_hz - 1) <= off:
        return _unless_same(held_hz, DRIVER, counted_hz)
    if gpc_hz is not None:
        return _unless_same(gpc_hz, GPC_CYCLES, counted_hz)
    if highest_hz is not None and counted_hz > highest_hz:
        return LaunchClock(highest_hz, HIGHEST, counted_hz)
    return LaunchClock(counted_hz, SM_CYCLES)


def _unless_same(hz: float, source: str, counted_hz: float) -> LaunchClock:
    alike = abs(counted_hz / hz - 1) <= _SAME_PASS
    return LaunchClock(counted_hz, source) if alike else LaunchClock(hz, source, counted_hz)


def held_clock(samples: Sequence[GpuSamples], gpu: str | None, clock_control: str | None) -> float | None:
    """Return the SM clock that the driver saw in every sample of the GPUs of a name; None where it moved, or the
    samples are too few to tell, or ncu locked clocks meanwhile.
    """
    mine = [sample for sample in samples if sample.name == gpu]
    if clock_control != FREE or sum(sample.samples for sample in mine) < _LEAST_SAMPLES:
        return None
    seen = {clock for sample in mine for clock in (sample.sm_clock_min_hz, sample.sm_clock_max_hz)}
    held = seen.pop() if len(seen) == 1 else None
    return held or None
