"""The ratio of times of two sides: its interval at 99 %, and whether it is changed, unchanged or inconclusive.

A sample is a run. Launches of a run share what the run is subject to (clock, placement in memory, temperature), so they
only show how well the run's median is known. docs/explanation/noise.md has the reasons and the rates that follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import mul
from statistics import fmean
from typing import Literal

from msgspec import Struct

from gpuprof.comparison.contract import Interval, TimeDoubt
from gpuprof.comparison.timing.quantiles import ALPHA, NORMAL, student_t, wins_needed

SampleWord = Literal["same", "faster", "slower", "unclear"]

SMALLEST = math.log(1.005)
"""The least change that is called one: less, nobody acts on, and a different address of the code can cause it."""
MARGIN = math.log(1.02)
"""`same` is at most this much apart, at the confidence of the interval."""
STATE = 0.135
"""What all runs of a side may be off by when they are too few to show it: 22.5 and 25.5 ms are the two modes between
runs of one program in newton-physics/newton#2534, which log(25.5 / 22.5) = 0.125 and a little within each are apart."""
STATE_OF_UNKNOWN_CLOCK = 0.25
"""The same of one run a side whose SM clock is not known: a lowered clock comes on top of it. 24.6 % is the largest
spread between runs of a kernel in ROCm/FlyDSL#924; nvbench discards samples at a clock below 80 %."""
ASSUMED_SPREAD = 0.01
ASSUMED_FREEDOM = 4
"""Relative standard deviation between runs if too few show it, and the degrees of freedom that it is worth. Within a
session of measuring 0.5 % to 0.85 % were seen (yetanotherco/lambda_vm#712), 0.2 % to 0.6 % in ROCm/FlyDSL#924."""
LEAST_SPREAD = 0.001
"""Runs that agree better than this, do so by chance or by the step of their clock."""
SHIFT = 0.0025
"""Standard deviation of what two series of runs are apart that were not interleaved, however many runs they have: the
room has another temperature, the memory is laid out in another way. It covers a steady drift of 0.6 % over both."""
OF_BLOCKS = 1.08
"""What the interval of interleaved runs is wider by than t says: noise between two states is far from normal in blocks
of four, and gave 1.2 % false alarms instead of 1 % without it (`python -m benchmarks.gate`)."""
FEWEST_RUNS = 5
"""With five runs a side, all of one are above all of the other by chance in 0.8 % of cases; with four, in 2.9 %."""
MOST_RUNS = 1000


class Samples(Struct, frozen=True):
    """One side: the time of each of its runs in their order, and how well the launches of a run determine it.

    `errors` are relative standard errors of the runs' medians. `step` is the clock's, relative to the time.
    """

    logs: tuple[float, ...]
    errors: tuple[float, ...]
    step: float = 0.0


class RatioEstimate(Struct, frozen=True):
    """The ratio new ÷ base as a logarithm, the half width of its interval, and what follows.

    `spread` is the relative standard deviation between runs that the interval rests on. `few`: it is assumed.
    """

    change: float
    half: float
    spread: float
    drift: float
    few: bool
    word: SampleWord
    doubt: TimeDoubt | None


def estimate(
    base: Samples, new: Samples, *, paired: bool = False, clock_known: bool = False, shift: float = 0.0
) -> RatioEstimate:
    """Compare the runs of two sides. `paired`: the nth runs of both were made side by side, in the order ABBA.

    `shift`: what is known to set the sides apart by up to as much, as a logarithm; no number of runs makes it less.
    """
    change = fmean(new.logs) - fmean(base.logs)
    few = too_few(len(base.logs), len(new.logs))
    logs = _aligned(base.logs, new.logs) if paired else (base.logs, new.logs)
    freedom = _freedom(len(base.logs), len(new.logs), paired=paired)
    variance, freedom = _variance(logs, change, freedom, few=few, paired=paired)
    squared = variance * (1 / len(base.logs) + 1 / len(new.logs))
    drift = 0.0 if paired or few else _drift(base.logs, new.logs)
    if few:
        half = student_t(freedom) * math.sqrt(squared + _errors(base) + _errors(new))
        alone = 1 in (len(base.logs), len(new.logs))
        half += STATE_OF_UNKNOWN_CLOCK if alone and not clock_known else STATE
    else:
        half = _width(student_t(freedom) * math.sqrt(squared), paired=paired)
    half += abs(drift) + base.step / 2 + new.step / 2 + shift
    word = word_of(change, half, apart=few or _sides_are_apart(*logs))
    doubt = _doubt(change, half, few=few, drift=drift, shift=shift) if word == "unclear" else None
    return RatioEstimate(
        change=change, half=half, spread=math.sqrt(variance), drift=drift, few=few, word=word, doubt=doubt
    )


def too_few(base: int, new: int) -> bool:
    """Return whether no order of the runs is rare enough for a verdict without an assumption on their noise."""
    return 2 / math.comb(base + new, base) > ALPHA


def word_of(change: float, half: float, *, apart: bool) -> SampleWord:
    """Return the verdict on a change. `apart`: the order of the runs, too, says that it is none of chance."""
    if apart and abs(change) >= SMALLEST and abs(change) > half:
        return "slower" if change > 0 else "faster"
    return "same" if abs(change) + half <= MARGIN else "unclear"


def runs_needed(estimated: RatioEstimate, runs: int, step: float, *, paired: bool = False) -> int | None:
    """Return the runs a side at which the verdict on this change would be clear; None if no number does, as for
    runs that drift: more of them drift further.

    `runs` are those of the side that has fewer.
    """
    if estimated.drift:
        return None
    size = abs(estimated.change)
    enough = max(size if size >= SMALLEST else 0.0, MARGIN - size)
    least = max(FEWEST_RUNS, runs + 1)
    if _forecast(MOST_RUNS, estimated.spread, step, paired=paired) >= enough:
        return None
    below, above = least - 1, MOST_RUNS
    while above - below > 1:
        middle = (below + above) // 2
        if _forecast(middle, estimated.spread, step, paired=paired) < enough:
            above = middle
        else:
            below = middle
    return above


def interval_of(change: float, half: float) -> Interval:
    """Return what a ratio lies between, from its logarithm and the half width of that."""
    return Interval(math.exp(_bounded(change - half)), math.exp(_bounded(change + half)))


def _bounded(log: float) -> float:
    """Return a logarithm that has an exponential that can be written: a wide interval of odd values has none."""
    return max(-69.0, min(log, 69.0))


def _aligned(base: Sequence[float], new: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return runs in the order ABBA over the middle of their four: what drifts is in both sides of these."""
    middles = [fmean((*base[start : start + 2], *new[start : start + 2])) for start in range(0, len(base), 2)]
    before, after = ([log - middles[number // 2] for number, log in enumerate(side)] for side in (base, new))
    return before, after


def _freedom(base: int, new: int, *, paired: bool) -> int:
    return base + new - 1 - ((base + 1) // 2 if paired else 1)


def _variance(
    logs: tuple[Sequence[float], Sequence[float]], change: float, freedom: int, *, few: bool, paired: bool
) -> tuple[float, int]:
    """Return the variance between runs and its degrees of freedom.

    Few runs and what is assumed of them count by their degrees of freedom (Smyth 2004, the moderated t of limma).
    """
    if paired:
        squares = max(sum(log * log for side in logs for log in side) - len(logs[0]) * change * change / 2, 0.0)
    else:
        squares = sum(map(_squares, logs))
    if few:
        whole = ASSUMED_FREEDOM + freedom
        return (ASSUMED_FREEDOM * ASSUMED_SPREAD**2 + squares) / whole, whole
    return max(squares / freedom, LEAST_SPREAD**2), freedom


def _width(sampled: float, *, paired: bool) -> float:
    """Return the half width with what samples do not show: a shift between series that were not interleaved."""
    return OF_BLOCKS * sampled if paired else math.hypot(sampled, NORMAL * SHIFT)


def _errors(side: Samples) -> float:
    """Return the variance of the mean of a side's runs that comes from the launches in them."""
    return sum(error * error for error in side.errors) / len(side.errors) ** 2


def _drift(base: Sequence[float], new: Sequence[float]) -> float:
    """Return what a steady drift makes the sides differ by, had all base runs been made before the new ones.

    It is a slope that both sides have, and counts if that is not chance, at the confidence of the interval.
    """
    sides, freedom = (base, new), len(base) + len(new) - 3
    positions = [[number - (len(logs) - 1) / 2 for number in range(len(logs))] for logs in sides]
    weight = sum(place * place for places in positions for place in places)
    products = (map(mul, places, logs) for places, logs in zip(positions, sides, strict=True))
    slope = sum(map(sum, products)) / weight
    left = max(sum(map(_squares, sides)) - slope * slope * weight, freedom * LEAST_SPREAD**2)
    noticed = abs(slope) > student_t(freedom) * math.sqrt(left / freedom / weight)
    return slope * (len(base) + len(new)) / 2 if noticed else 0.0


def _sides_are_apart(base: Sequence[float], new: Sequence[float]) -> bool:
    """Return whether the sides differ by ranks alone (Mann and Whitney), which noise that both share does not cause."""
    slower = sum(after > before for before in base for after in new)
    faster = sum(after < before for before in base for after in new)
    return max(slower, faster) >= wins_needed(len(base), len(new))


def _doubt(change: float, half: float, *, few: bool, drift: float, shift: float) -> TimeDoubt:
    if shift and word_of(change, half - shift, apart=True) != "unclear":
        return TimeDoubt(kind="dram-clock", size=math.expm1(shift))
    if few:
        return TimeDoubt(kind="few-runs")
    if drift:
        return TimeDoubt(kind="drift", size=math.expm1(abs(drift)))
    return TimeDoubt(kind="overlap" if abs(change) > half else "noise")


def _forecast(runs: int, spread: float, step: float, *, paired: bool) -> float:
    """Return the half width that as many runs a side will have, if they are as noisy."""
    error = max(spread, LEAST_SPREAD) * math.sqrt(2 / runs)
    return _width(student_t(_freedom(runs, runs, paired=paired)) * error, paired=paired) + step


def _squares(values: Sequence[float]) -> float:
    """Return the sum of squares around the mean."""
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values)
