"""The clock that a GPU ran at and whether it was held back: throttle reasons, SM clock in the kernel, settled clock."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal, NamedTuple, get_args

from gpuprof.collect.nvml import REASONS

Regime = Literal["short", "sustained", "power_limited"]
REGIMES: tuple[Regime, ...] = get_args(Regime)

THROTTLE_REASONS = REASONS | {0x100: "display clock setting"}
"""Bits of NVML's clocks event reasons that hold clocks back. Idle (0x1) and application clocks (0x2) do not."""
THROTTLE_MASK = sum(THROTTLE_REASONS)
RETRIES = 3
_STEPS_PER_WINDOW = 200
"""`globaltimer` moves in steps of 32 ns to 1 µs: a window of so many steps is timed within 1 %."""


class SmClock(NamedTuple):
    """The SM clock in the timed window, the middle of all blocks."""

    median_hz: float


class NoClock(NamedTuple):
    """The SM clock could not be told, and why."""

    why: str


class Settled(NamedTuple):
    """The clock of the last seconds, its relative change over them, and whether it has settled."""

    hz: float
    change: float
    settled: bool


class Attempt(NamedTuple):
    """The samples of one try, and NVML's clocks event reasons meanwhile (all bits seen); None where it does not say."""

    samples: tuple[float, ...]
    reasons: int | None


class Kept(NamedTuple):
    """The samples that count, their regime, and what held the clocks back."""

    samples: tuple[float, ...]
    regime: Regime
    throttling: tuple[str, ...]


def throttling(reasons: int | None) -> tuple[str, ...]:
    """Return what held the clocks back; nothing for an idle GPU or clocks that a user has set."""
    return tuple(name for bit, name in THROTTLE_REASONS.items() if (reasons or 0) & bit)


def keep(attempts: Sequence[Attempt], regime: Regime = "short", retries: int = RETRIES) -> Kept | None:
    """Return the first undisturbed attempt's samples; None: try again.

    A GPU that is held back each time is measured as it is, in the regime `power_limited`: discarding everything would
    leave nothing of a part that never reaches its clock.
    """
    for attempt in attempts:
        if not throttling(attempt.reasons):
            return Kept(attempt.samples, regime, ())
    if len(attempts) <= retries:
        return None
    seen = {name for attempt in attempts for name in throttling(attempt.reasons)}
    return Kept(
        attempts[-1].samples, "power_limited", tuple(name for name in THROTTLE_REASONS.values() if name in seen)
    )


def sm_clock(windows: Sequence[tuple[int, int]], step_ns: int) -> SmClock | NoClock:
    """Return the SM clock from (clock64 cycles, globaltimer nanoseconds) of each block's window."""
    if not windows:
        return NoClock("no block recorded its clocks")
    shortest = min(nanoseconds for _, nanoseconds in windows)
    if shortest < _STEPS_PER_WINDOW * step_ns:
        return NoClock(
            f"the timed window of {shortest} ns is shorter than {_STEPS_PER_WINDOW} steps of globaltimer ({step_ns} ns)"
        )
    if any(cycles <= 0 for cycles, _ in windows):
        return NoClock("clock64 did not advance")
    clocks = [cycles / nanoseconds * 1e9 for cycles, nanoseconds in windows]
    return SmClock(median(clocks))


def settled(samples: Sequence[tuple[float, float]], last_s: float = 2.0, tolerance: float = 0.005) -> Settled:
    """Return the clock of (seconds, hertz) samples over their last seconds, and whether it changed by less than 0.5 %.

    Raises ValueError without samples.
    """
    if not samples:
        raise ValueError("no clock samples")
    end = max(time for time, _ in samples)
    recent = [(time, hz) for time, hz in samples if time >= end - last_s]
    hz = median(value for _, value in recent)
    covered = end - min(time for time, _ in samples)
    change = _slope(recent) * last_s / hz if hz else 0.0
    return Settled(hz, change, covered >= last_s and len(recent) >= 3 and abs(change) < tolerance)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
