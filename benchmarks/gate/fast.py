"""The verdict of `gpuprof.comparison.timing` for thousands of pairs at once. A test holds that both say the same."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.gate.simulate import Sides
from gpuprof.comparison.timing import noise
from gpuprof.comparison.timing.quantiles import NORMAL, student_t, wins_needed
from gpuprof.comparison.timing.verdict import CLOCK_STEP_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Words = NDArray[np.int64]

UNCLEAR, SAME, FASTER, SLOWER = range(4)
NAMES = ("unclear", "same", "faster", "slower")


@dataclass(frozen=True, slots=True)
class Verdicts:
    """A verdict of each pair, as its place in NAMES, and the spread between runs that it rests on."""

    verdicts: Words
    spreads: Array


@dataclass(frozen=True, slots=True)
class _Series:
    logs: Array
    variance: Array
    step: Array


@dataclass(frozen=True, slots=True)
class _Estimates:
    verdicts: Words
    changes: Array
    spreads: Array


def read(seconds: Array) -> Array:
    """Return durations as a profiler writes them: in steps of its clock."""
    import numpy as np

    return np.maximum(np.rint(seconds / CLOCK_STEP_S), 1.0) * CLOCK_STEP_S


def judge(sides: Sides, *, paired: bool) -> Verdicts:
    """Return the verdict on time of each pair."""
    import numpy as np

    clock_known = sides.base_cycles is not None
    few = noise.too_few(sides.base_s.shape[1], sides.new_s.shape[1])
    base, new = (_series(read(side), few=few) for side in (sides.base_s, sides.new_s))
    seconds = _estimate(base, new, paired=paired, clock_known=clock_known)
    if sides.base_cycles is None or sides.new_cycles is None:
        return Verdicts(seconds.verdicts, seconds.spreads)
    own = (np.median(side, axis=2) for side in (sides.base_cycles, sides.new_cycles))
    in_cycles = (
        _Series(np.log(side), series.variance, np.zeros(len(side)))
        for side, series in zip(own, (base, new), strict=True)
    )
    cycles = _estimate(*in_cycles, paired=paired, clock_known=True)
    return Verdicts(_joined(cycles, seconds), seconds.spreads)


def _series(seconds: Array, *, few: bool) -> _Series:
    """Return the runs of a side; what launches tell is used only where runs are too few."""
    import numpy as np

    medians = np.median(seconds, axis=2)
    variance = np.zeros(len(seconds))
    if few:
        launches = seconds.shape[2]
        errors = math.pi / 2 * np.log(seconds).var(axis=2) / launches
        variance = errors.sum(axis=1) / seconds.shape[1] ** 2
    return _Series(np.log(medians), variance, (CLOCK_STEP_S / medians).max(axis=1))


def _estimate(base: _Series, new: _Series, *, paired: bool, clock_known: bool) -> _Estimates:
    import numpy as np

    runs = base.logs.shape[1], new.logs.shape[1]
    few = noise.too_few(*runs)
    changes = new.logs.mean(axis=1) - base.logs.mean(axis=1)
    logs = _aligned(base.logs, new.logs) if paired else (base.logs, new.logs)
    variance, freedom = _variance(logs, changes, few=few, paired=paired)
    squared = variance * (1 / runs[0] + 1 / runs[1])
    apart = np.ones(len(changes), dtype=bool)
    if few:
        halves = student_t(freedom) * np.sqrt(squared + base.variance + new.variance)
        halves = halves + (noise.STATE_OF_UNKNOWN_CLOCK if min(runs) == 1 and not clock_known else noise.STATE)
    else:
        halves = student_t(freedom) * np.sqrt(squared)
        if paired:
            halves = noise.OF_BLOCKS * halves
        else:
            halves = np.hypot(halves, NORMAL * noise.SHIFT) + _drift(base.logs, new.logs)
        apart = _sides_are_apart(*logs)
    halves = halves + base.step / 2 + new.step / 2
    size = np.abs(changes)
    changed = apart & (size >= noise.SMALLEST) & (size > halves)
    otherwise = np.where(size + halves <= noise.MARGIN, SAME, UNCLEAR)
    return _Estimates(np.where(changed, np.where(changes > 0, SLOWER, FASTER), otherwise), changes, np.sqrt(variance))


def _aligned(base: Array, new: Array) -> tuple[Array, Array]:
    import numpy as np

    before, after = base.copy(), new.copy()
    for start in range(0, base.shape[1], 2):
        block = slice(start, start + 2)
        middle = np.hstack([base[:, block], new[:, block]]).mean(axis=1, keepdims=True)
        before[:, block] -= middle
        after[:, block] -= middle
    return before, after


def _variance(logs: tuple[Array, Array], changes: Array, *, few: bool, paired: bool) -> tuple[Array, int]:
    import numpy as np

    base, new = logs
    runs = base.shape[1], new.shape[1]
    if paired:
        squares = np.maximum((base**2).sum(axis=1) + (new**2).sum(axis=1) - runs[0] * changes**2 / 2, 0.0)
        freedom = 2 * runs[0] - 1 - (runs[0] + 1) // 2
    else:
        squares, freedom = _squares(base) + _squares(new), sum(runs) - 2
    if few:
        whole = noise.ASSUMED_FREEDOM + freedom
        return (noise.ASSUMED_FREEDOM * noise.ASSUMED_SPREAD**2 + squares) / whole, whole
    return np.maximum(squares / freedom, noise.LEAST_SPREAD**2), freedom


def _drift(base: Array, new: Array) -> Array:
    import numpy as np

    runs = base.shape[1] + new.shape[1]
    places = [np.arange(side.shape[1]) - (side.shape[1] - 1) / 2 for side in (base, new)]
    weight = sum(float((place**2).sum()) for place in places)
    slopes = (base @ places[0] + new @ places[1]) / weight
    freedom = runs - 3
    left = np.maximum(_squares(base) + _squares(new) - slopes**2 * weight, freedom * noise.LEAST_SPREAD**2)
    noticed = np.abs(slopes) > student_t(freedom) * np.sqrt(left / freedom / weight)
    return np.where(noticed, np.abs(slopes) * runs / 2, 0.0)


def _sides_are_apart(base: Array, new: Array) -> NDArray[np.bool_]:
    import numpy as np

    slower = sum((new > base[:, number, None]).sum(axis=1) for number in range(base.shape[1]))
    faster = sum((new < base[:, number, None]).sum(axis=1) for number in range(base.shape[1]))
    return np.asarray(np.maximum(slower, faster) >= wins_needed(base.shape[1], new.shape[1]), dtype=bool)


def _joined(cycles: _Estimates, seconds: _Estimates) -> Words:
    """Return the verdict of cycles and seconds together."""
    import numpy as np

    first, second = cycles.verdicts, seconds.verdicts
    same = (first == SAME) & (second == UNCLEAR) & (np.abs(seconds.changes) <= noise.MARGIN)
    same |= (second == SAME) & (first == UNCLEAR) & (np.abs(cycles.changes) <= noise.MARGIN)
    return np.where(first == second, first, np.where(same, SAME, UNCLEAR))


def _squares(values: Array) -> Array:
    import numpy as np

    return np.asarray(((values - values.mean(axis=1, keepdims=True)) ** 2).sum(axis=1), dtype=np.float64)
