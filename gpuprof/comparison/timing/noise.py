"""The ratio of times of two sides: its interval at 99 %, and whether it is changed, unchanged or
inconclusive.

A sample is a run. Launches of a run share its circumstances (clock, placement in memory,
temperature), so they only show how well the run's median is known. docs/explanation/noise.md has
the reasons and the resulting error rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product, starmap
from operator import gt, lt, mul
from statistics import fmean
from typing import Literal

from msgspec import Struct

from gpuprof.comparison.contract import Interval, TimeDoubt
from gpuprof.comparison.timing.quantiles import ALPHA, NORMAL, student_t, wins_needed

SampleWord = Literal["same", "faster", "slower", "unclear"]

SMALLEST = math.log(1.005)
"""The smallest change that counts: nobody acts on a smaller one, and a different address of the code can cause it."""
MARGIN = math.log(1.02)
"""Sides are the `same` if they differ by at most this much, at the confidence of the interval."""
STATE = 0.135
"""Possible error of all runs of a side that are too few to show it. Runs of one program in
newton-physics/newton#2534 have two modes, 22.5 and 25.5 ms: log(25.5 / 22.5) = 0.125, and each mode
scatters a little."""
STATE_OF_UNKNOWN_CLOCK = 0.25
"""The same for one run a side whose SM clock is not known: a lowered clock may add to it. 24.6 % is
the largest spread between runs of a kernel in ROCm/FlyDSL#924; nvbench discards samples at a clock
below 80 %."""
ASSUMED_SPREAD = 0.01
ASSUMED_FREEDOM = 4
"""Relative standard deviation between runs if too few show it, and its degrees of freedom. Within one session it was
0.5 % to 0.85 % in yetanotherco/lambda_vm#712, and 0.2 % to 0.6 % in ROCm/FlyDSL#924."""
LEAST_SPREAD = 0.001
"""Runs that agree better than this do so by chance or because of the step of their clock."""
SHIFT = 0.0025
"""Standard deviation of the shift between two series of runs that were not interleaved, however
many runs they have: temperature and memory layout differ. It covers a steady drift of 0.6 % over
both."""
OF_BLOCKS = 1.08
"""Factor on the interval that t gives for interleaved runs: noise between two states is far from
normal in blocks of four, and gave 1.2 % false alarms instead of 1 % without it (`python -m
benchmarks.gate`)."""
FEWEST_RUNS = 5
"""With five runs a side, all of one are above all of the other by chance in 0.8 % of cases; with four, in 2.9 %."""
MOST_RUNS = 1000


class Samples(Struct, frozen=True):
    """One side: the time of each of its runs in order, and how well a run's launches determine it.

    `errors` are relative standard errors of the runs' medians. `step` is the clock's, relative to
    the time.
    """

    logs: tuple[float, ...]
    errors: tuple[float, ...]
    step: float = 0.0


class RatioEstimate(Struct, frozen=True):
    """The ratio new ÷ base as a logarithm, the half width of its interval, and the verdict.

    `spread` is the relative standard deviation between runs that gives the interval. `few`: it is
    assumed.
    """

    change: float
    half: float
    spread: float
    drift: float
    few: bool
    word: SampleWord
    doubt: TimeDoubt | None


def estimate(
    base: Samples,
    new: Samples,
    *,
    paired: bool = False,
    clock_known: bool = False,
    shift: float = 0.0,
) -> RatioEstimate:
    """Compare the runs of two sides.

    `paired`: the nth runs of both were made side by side, in the order ABBA.

    `shift`: the largest effect of a known difference between the sides, as a logarithm. More runs
    do not reduce it.
    """
    logs: tuple[Sequence[float], Sequence[float]] = (base.logs, new.logs)
    base_runs, new_runs = map(len, logs)
    change = fmean(new.logs) - fmean(base.logs)
    few = too_few(base_runs, new_runs)
    drift = 0.0 if paired or few else _drift(*logs)
    if paired:
        logs = _aligned(*logs)
    freedom = _freedom(base_runs, new_runs, paired=paired)
    variance, freedom = _variance(logs, change, freedom, few=few, paired=paired)
    squared = variance * (1 / base_runs + 1 / new_runs)
    if few:
        half = student_t(freedom) * math.sqrt(squared + _errors(base) + _errors(new))
        half += STATE_OF_UNKNOWN_CLOCK if 1 in (base_runs, new_runs) and not clock_known else STATE
    else:
        half = _width(student_t(freedom) * math.sqrt(squared), paired=paired)
    half += abs(drift) + base.step / 2 + new.step / 2 + shift
    word = word_of(change, half, apart=few or _sides_are_apart(*logs))
    doubt = _doubt(change, half, few=few, drift=drift, shift=shift) if word == "unclear" else None
    return RatioEstimate(change, half, math.sqrt(variance), drift, few, word, doubt)


def too_few(base: int, new: int) -> bool:
    """Return whether no order of the runs is rare enough for a verdict without assumed noise."""
    return 2 / math.comb(base + new, base) > ALPHA


def word_of(change: float, half: float, *, apart: bool) -> SampleWord:
    """Return the verdict on a change. `apart`: the order of the runs, too, excludes chance."""
    size = abs(change)
    if apart and size >= SMALLEST and size > half:
        return "slower" if change > 0 else "faster"
    if size + half <= MARGIN:
        return "same"
    return "unclear"


def runs_needed(estimated: RatioEstimate, runs: int, step: float, *, paired: bool = False) -> int | None:
    """Return the runs a side at which the verdict on this change would be clear.

    None if no number suffices. Runs that drift are such a case: more of them drift further. `runs`
    are those of the side that has fewer.
    """
    size = abs(estimated.change)
    enough = max(size if size >= SMALLEST else 0.0, MARGIN - size)
    if estimated.drift or _forecast(MOST_RUNS, estimated.spread, step, paired=paired) >= enough:
        return None
    below = max(FEWEST_RUNS - 1, runs)
    above = MOST_RUNS
    while above - below > 1:
        middle = (below + above) // 2
        if _forecast(middle, estimated.spread, step, paired=paired) < enough:
            above = middle
        else:
            below = middle
    return above


def interval_of(change: float, half: float) -> Interval:
    """Return the interval of a ratio from its logarithm and the half width of that."""
    return Interval(math.exp(_bounded(change - half)), math.exp(_bounded(change + half)))


def _bounded(log: float) -> float:
    """Limit a logarithm so that its exponential is a finite number: that of a wide interval of odd values is not."""
    return max(-69.0, min(log, 69.0))


def _aligned(base: Sequence[float], new: Sequence[float]) -> tuple[list[float], list[float]]:
    """Return runs in the order ABBA relative to the mean of their four, which removes drift."""
    before: list[float] = []
    after: list[float] = []
    for start in range(0, len(base), 2):
        base_logs = base[start : start + 2]
        new_logs = new[start : start + 2]
        middle = fmean((*base_logs, *new_logs))
        before += [log - middle for log in base_logs]
        after += [log - middle for log in new_logs]
    return before, after


def _freedom(base: int, new: int, *, paired: bool) -> int:
    return base + new - 1 - ((base + 1) // 2 if paired else 1)


def _variance(
    logs: tuple[Sequence[float], Sequence[float]],
    change: float,
    freedom: int,
    *,
    few: bool,
    paired: bool,
) -> tuple[float, int]:
    """Return the variance between runs and its degrees of freedom.

    Few runs and the assumed variance count by their degrees of freedom (Smyth 2004, the moderated t
    of limma).
    """
    if paired:
        squares = max(
            sum(log * log for side in logs for log in side) - len(logs[0]) * change * change / 2,
            0.0,
        )
    else:
        squares = sum(map(_squares, logs))
    if few:
        whole = ASSUMED_FREEDOM + freedom
        return (ASSUMED_FREEDOM * ASSUMED_SPREAD**2 + squares) / whole, whole
    return max(squares / freedom, LEAST_SPREAD**2), freedom


def _width(sampled: float, *, paired: bool) -> float:
    """Add to a half width the shift between series that were not interleaved."""
    if paired:
        return OF_BLOCKS * sampled
    return math.hypot(sampled, NORMAL * SHIFT)


def _errors(side: Samples) -> float:
    """Return the variance of the mean of a side's runs that comes from the launches in them."""
    return sum(error * error for error in side.errors) / len(side.errors) ** 2


def _drift(base: Sequence[float], new: Sequence[float]) -> float:
    """Return the difference that a steady drift causes if all base runs came before the new ones.

    It is a slope that both sides have. It counts if it is not chance, at the confidence of the
    interval.
    """
    weight = products = squares = 0.0
    for logs in (base, new):
        positions = [number - (len(logs) - 1) / 2 for number in range(len(logs))]
        weight += sum(position * position for position in positions)
        products += sum(map(mul, positions, logs))
        squares += _squares(logs)
    slope = products / weight
    freedom = len(base) + len(new) - 3
    left = max(squares - slope * slope * weight, freedom * LEAST_SPREAD**2)
    if abs(slope) <= student_t(freedom) * math.sqrt(left / freedom / weight):
        return 0.0
    return slope * (len(base) + len(new)) / 2


def _sides_are_apart(base: Sequence[float], new: Sequence[float]) -> bool:
    """Return whether the ranks of the runs alone show a difference (Mann-Whitney)."""
    slower: int = sum(starmap(lt, product(base, new)))
    faster: int = sum(starmap(gt, product(base, new)))
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
    """Return the half width for this number of runs a side, if they are as noisy."""
    error = max(spread, LEAST_SPREAD) * math.sqrt(2 / runs)
    return _width(student_t(_freedom(runs, runs, paired=paired)) * error, paired=paired) + step


def _squares(values: Sequence[float]) -> float:
    """Return the sum of squares around the mean."""
    middle = fmean(values)
    return sum((value - middle) ** 2 for value in values)
