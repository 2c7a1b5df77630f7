"""Steps of a latency curve over a size: cache capacities, line sizes, TLB reach.

A cut is where the two-sample Kolmogorov–Smirnov distance between the two sides is largest (weighted by their lengths),
if permuted curves reach such a distance with a probability below `alpha`; each side is cut on in the same way. Cuts
alone would slice a slow ramp into steps, so levels that still rise by themselves are no plateaus but the way between
two of them.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SHORTEST = 3
"""Points of the shortest level."""
_TRENDING = 0.5
"""A level that rises by itself by more than this fraction of the smaller step beside it is no plateau."""
_CLEARLY = 1.4
"""Two constants must leave so much less than a line does, else the line has it: noise alone gives one an advantage."""
_NEAR = (0.05, 0.5)
"""A point belongs to a plateau within five times its noise, but within these fractions of the step to the next one."""
_SHARP = 1.5
"""A step is done within this factor of size, or within two points; what takes longer is a ramp."""
_DENSE = 2.0
"""An allocation whose sizes around a break are further apart than a doubling says nothing about its place."""
_SAME_GAP = 1.01
"""Sizes are rounded to what a chase can have, so that equal distances differ by less than this factor."""
_ROUNDS = 5
_BATCH = 64
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Break:
    """Where a curve leaves one plateau for the next.

    `last_before` is the largest size still on the first plateau: the capacity. `first_after` is the smallest on the
    next; None, like `after`, where the curve ends before it settles. `p` is the probability of such a cut by chance.
    """

    last_before: float
    first_after: float | None
    before: float
    after: float | None
    p: float
    kind: Literal["step", "ramp"]


@dataclass(frozen=True, slots=True)
class StableBreak:
    """A break over several allocations: its place in each of those that show it.

    `allocations`: how many were dense enough around it to show it, of which `seen` do. `stable`: there are at least
    three of them, all show it, and all within one step of the middle one.
    """

    last_before: float
    lowest: float
    highest: float
    before: float
    after: float | None
    seen: int
    allocations: int
    stable: bool


class _Level(NamedTuple):
    """The points `start` to `stop` (excluded), and the middle of their logarithms."""

    start: int
    stop: int
    middle: float


def breaks(
    sizes: Sequence[float],
    latencies: Sequence[float],
    *,
    alpha: float = 0.01,
    smallest: float = 0.05,
    permutations: int = 499,
    seed: int = 0,
) -> tuple[Break, ...]:
    """Return the breaks of a curve in order of size. `smallest` is the smallest relative step that counts.

    Sizes must rise, and sizes and latencies be above zero; otherwise ValueError.
    """
    _check(sizes, latencies)
    logs = _without_spikes([math.log(latency) for latency in latencies])
    if not logs:
        return ()
    cuts = dict(_cuts(logs, 0, len(logs), alpha, permutations, seed))
    levels = _merged(logs, _refined(logs, sorted(cuts)), math.log1p(smallest))
    plateaus = [level for index, level in enumerate(levels) if not _on_the_way(logs, levels, index)]
    return tuple(_breaks(sizes, logs, plateaus, levels, cuts))


def across_allocations(
    breaks_of_each: Sequence[Sequence[Break]], measured: Sequence[Sequence[float]]
) -> tuple[StableBreak, ...]:
    """Return the breaks of the same curve over several allocations, each with how many show it within one step.

    `measured` has the sizes of each allocation, in their order: one may have fewer than another. Two are compared by
    the sizes that both have, and a break is asked of those allocations only that are dense enough around it.
    """
    entries = sorted(
        (
            _Entry(shown.last_before, allocation, shown)
            for allocation, of_allocation in enumerate(breaks_of_each)
            for shown in of_allocation
        ),
        key=lambda entry: entry[:2],
    )
    groups: list[list[_Entry]] = []
    for entry in entries:
        group = groups[-1] if groups else []
        taken = {other.allocation for other in group}
        if group and entry.allocation not in taken and _apart(group[-1], entry, measured) <= 1:
            group.append(entry)
        else:
            groups.append([entry])
    return tuple(_stable(group, measured) for group in groups)


class _Entry(NamedTuple):
    """A break as one allocation shows it."""

    last_before: float
    allocation: int
    shown: Break


def _apart(entry: _Entry, other: _Entry, measured: Sequence[Sequence[float]]) -> int:
    """Return how many steps two places are apart on the sizes that both allocations have."""
    common = sorted({*measured[entry.allocation]} & {*measured[other.allocation]})
    return abs(bisect_right(common, entry.last_before) - bisect_right(common, other.last_before))


def _gap(sizes: Sequence[float], place: float) -> float:
    """Return by which factor the sizes around a place differ; infinite where too few lie on a side of it."""
    after = bisect_right(sizes, place)
    return sizes[after] / sizes[after - 1] if _SHORTEST <= after <= len(sizes) - _SHORTEST else math.inf


def _stable(group: Sequence[_Entry], measured: Sequence[Sequence[float]]) -> StableBreak:
    """Sum up one break. The group is sorted by place. Where allocations differ in their sizes, the finest tell it."""
    gaps = [_gap(sizes, group[len(group) // 2].last_before) for sizes in measured]
    finest = min(gaps[entry.allocation] for entry in group)
    fine = [entry for entry in group if gaps[entry.allocation] <= finest * _SAME_GAP]
    middle = fine[len(fine) // 2]
    asked = {index for index, gap in enumerate(gaps) if gap <= max(_DENSE, finest)}
    asked |= {entry.allocation for entry in group}
    places = [
        middle.last_before if entry not in fine and not _apart(entry, middle, measured) else entry.last_before
        for entry in group
    ]
    afters = [entry.shown.after for entry in group if entry.shown.after is not None]
    near = all(_apart(entry, middle, measured) <= 1 for entry in group)
    return StableBreak(
        last_before=middle.last_before,
        lowest=min(places),
        highest=max(places),
        before=median(entry.shown.before for entry in group),
        after=median(afters) if afters else None,
        seen=len(group),
        allocations=len(asked),
        stable=len(asked) >= 3 and len(group) == len(asked) and near,
    )


def _check(sizes: Sequence[float], latencies: Sequence[float]) -> None:
    if len(sizes) != len(latencies):
        raise ValueError(f"{len(sizes)} sizes, but {len(latencies)} latencies")
    if not all(math.isfinite(value) and value > 0 for value in (*sizes, *latencies)):
        raise ValueError("sizes and latencies must be finite and above zero")
    if any(after <= before for before, after in itertools.pairwise(sizes)):
        raise ValueError("sizes must rise")


def _without_spikes(values: Sequence[float]) -> list[float]:
    """Return the running median of three: a single outlier goes, a step stays where it is."""
    inner = [median(values[index - 1 : index + 2]) for index in range(1, len(values) - 1)]
    return [*values[:1], *inner, *values[-1:]] if len(values) > 2 else list(values)


def _cuts(
    values: Sequence[float], start: int, stop: int, alpha: float, permutations: int, seed: int
) -> Iterator[tuple[int, float]]:
    """Yield the significant cuts between `start` and `stop`, each as the index of its first point after, with p."""
    if stop - start < 2 * _SHORTEST:
        return
    cut, p = _best_cut(values[start:stop], alpha, permutations, seed)
    if p >= alpha:
        return
    yield start + cut, p
    yield from _cuts(values, start, start + cut, alpha, permutations, seed)
    yield from _cuts(values, start + cut, stop, alpha, permutations, seed)


def _best_cut(values: Sequence[float], alpha: float, permutations: int, seed: int) -> tuple[int, float]:
    """Return the cut with the largest distance and its p-value by permutation of the largest distance.

    Once enough permutations reach that distance, p is at least alpha whatever the others do, and they are left out.
    """
    import numpy as np

    ranks = np.unique(np.asarray(values), return_inverse=True)[1]
    scores = _distances(ranks[None, :])[0]
    cut = int(np.argmax(scores))
    generator = np.random.default_rng(seed)
    reached = 0
    for first in range(0, permutations, _BATCH):
        batch = min(_BATCH, permutations - first)
        shuffled = generator.permuted(np.tile(ranks, (batch, 1)), axis=1)
        reached += int((_distances(shuffled).max(axis=1) >= scores[cut] - 1e-12).sum())
        if (reached + 1) / (permutations + 1) >= alpha:
            break
    return cut + _SHORTEST, (reached + 1) / (permutations + 1)


def _distances(ranks: NDArray[np.int_]) -> NDArray[np.float64]:
    """Return the weighted Kolmogorov–Smirnov distance of every cut, for each row of ranks.

    A few rows at a time and in the same memory, so that what lies between stays in the processor's cache.
    """
    import numpy as np

    rows, length = ranks.shape
    left = np.arange(_SHORTEST, length - _SHORTEST + 1)
    right = length - left
    values = np.arange(ranks.max() + 1)[None, :, None]
    below = np.empty((_AT_ONCE, len(values[0]), length), dtype=np.bool_)
    counts = np.empty(below.shape)
    gaps, others = np.empty((2, *below.shape[:2], len(left)))
    scores = np.empty((rows, len(left)))
    for start in range(0, rows, _AT_ONCE):
        few = slice(min(_AT_ONCE, rows - start))
        np.less_equal(ranks[start : start + _AT_ONCE, None, :], values, out=below[few])
        np.cumsum(below[few], axis=2, out=counts[few])
        first = counts[few, :, _SHORTEST - 1 : length - _SHORTEST]
        np.divide(first, left, out=gaps[few])
        np.subtract(counts[few, :, -1:], first, out=others[few])
        np.divide(others[few], right, out=others[few])
        np.subtract(gaps[few], others[few], out=gaps[few])
        np.abs(gaps[few], out=gaps[few])
        gaps[few].max(axis=1, out=scores[start : start + _AT_ONCE])
    scores *= np.sqrt(left * right / length)
    return scores


def _refined(values: Sequence[float], cuts: Sequence[int]) -> list[int]:
    """Return the cuts, each moved between its neighbours to where two constants leave the least squares.

    Ranks see a step, but beside another one they do not see exactly where it is.
    """
    bounds = [0, *cuts, len(values)]
    for _ in range(_ROUNDS):
        before = list(bounds)
        for index in range(1, len(bounds) - 1):
            bounds[index] = _least_squares_cut(values, bounds[index - 1], bounds[index], bounds[index + 1])
        if bounds == before:
            break
    return bounds[1:-1]


def _least_squares_cut(values: Sequence[float], start: int, cut: int, stop: int) -> int:
    candidates = range(start + _SHORTEST, stop - _SHORTEST + 1)
    return min(
        candidates,
        key=lambda at: (_squares(values[start:at]) + _squares(values[at:stop]), abs(at - cut)),
        default=cut,
    )


def _merged(values: Sequence[float], cuts: Sequence[int], smallest: float) -> list[_Level]:
    """Return the levels between the cuts, those joined whose step is too small to count, the smallest first."""
    bounds = [0, *cuts, len(values)]
    while True:
        levels = [_Level(a, b, median(values[a:b])) for a, b in itertools.pairwise(bounds)]
        steps = [abs(after.middle - before.middle) for before, after in itertools.pairwise(levels)]
        if not steps or min(steps) >= smallest:
            return levels
        del bounds[steps.index(min(steps)) + 1]


def _on_the_way(values: Sequence[float], levels: Sequence[_Level], index: int) -> bool:
    """Tell whether a level is no plateau but a piece of the way between two."""
    beside = [levels[other] for other in (index - 1, index + 1) if 0 <= other < len(levels)]
    return any(_one_line(values, levels[index], other) for other in beside) or _trends(values, levels[index], beside)


def _one_line(values: Sequence[float], first: _Level, second: _Level) -> bool:
    """Tell whether one straight line describes two neighbouring levels better than two constants do."""
    start, stop = min(first.start, second.start), max(first.stop, second.stop)
    part = values[start:stop]
    steps = sum(_squares(values[level.start : level.stop]) for level in (first, second))
    middle, mean = (len(part) - 1) / 2, fmean(part)
    along = sum((index - middle) * (value - mean) for index, value in enumerate(part))
    spread = sum((index - middle) ** 2 for index in range(len(part)))
    return _squares(part) - along**2 / spread < _CLEARLY * steps


def _squares(values: Sequence[float]) -> float:
    mean = fmean(values)
    return sum((value - mean) ** 2 for value in values)


def _trends(values: Sequence[float], level: _Level, beside: Sequence[_Level]) -> bool:
    """Tell whether a level rises or falls by itself, compared with the smaller step to its neighbours."""
    if not beside:
        return False
    part = values[level.start : level.stop]
    third = max(1, len(part) // 3)
    drift = abs(median(part[-third:]) - median(part[:third])) * len(part) / max(1, len(part) - third)
    return drift > _TRENDING * min(abs(level.middle - other.middle) for other in beside)


def _breaks(
    sizes: Sequence[float],
    values: Sequence[float],
    plateaus: Sequence[_Level],
    levels: Sequence[_Level],
    cuts: dict[int, float],
) -> Iterator[Break]:
    for here, there in itertools.pairwise(plateaus):
        yield _between(sizes, values, here, there, cuts)
    if plateaus and plateaus[-1] != levels[-1]:
        yield _unsettled(sizes, values, plateaus[-1], levels[-1], cuts)


def _between(
    sizes: Sequence[float], values: Sequence[float], here: _Level, there: _Level, cuts: dict[int, float]
) -> Break:
    step = there.middle - here.middle
    crossing = _crossing(values, here, there)
    last = _last_near(values, here, crossing, abs(step))
    near = _tolerance(values[max(crossing, there.start) : there.stop], there, abs(step))
    first = next(
        (index for index in range(crossing, there.stop) if abs(values[index] - there.middle) <= near), crossing
    )
    sharp = first - last <= 2 or sizes[first] / sizes[last] <= _SHARP
    return Break(
        last_before=sizes[last], first_after=sizes[first], before=math.exp(here.middle), after=math.exp(there.middle),
        p=_p_near(cuts, crossing), kind="step" if sharp else "ramp",
    )  # fmt: skip


def _unsettled(
    sizes: Sequence[float], values: Sequence[float], here: _Level, end: _Level, cuts: dict[int, float]
) -> Break:
    """A curve that leaves its last plateau and still moves at the largest size."""
    crossing = _crossing(values, here, end)
    last = _last_near(values, here, crossing, abs(end.middle - here.middle))
    return Break(
        last_before=sizes[last], first_after=None, before=math.exp(here.middle), after=None,
        p=_p_near(cuts, crossing), kind="ramp",
    )  # fmt: skip


def _crossing(values: Sequence[float], here: _Level, there: _Level) -> int:
    """Return the first point from which on the curve is beyond the middle of the two levels."""
    halfway, sign = (here.middle + there.middle) / 2, 1 if there.middle > here.middle else -1
    inside = [index for index in range(here.start, there.stop) if sign * (values[index] - halfway) <= 0]
    before = [index for index in inside if index < there.start + (there.stop - there.start) // 2]
    return (before[-1] if before else here.start) + 1


def _last_near(values: Sequence[float], here: _Level, crossing: int, step: float) -> int:
    """Return the last point before the crossing that is still on the plateau, given its own noise."""
    near = _tolerance(values[here.start : min(here.stop, crossing)], here, step)
    on = [index for index in range(here.start, crossing) if abs(values[index] - here.middle) <= near]
    return on[-1] if on else max(here.start, crossing - 1)


def _tolerance(part: Sequence[float], level: _Level, step: float) -> float:
    """Return how far from a plateau's middle a point may lie: five times its noise, within a fraction of the step."""
    noise = 1.4826 * median(abs(value - level.middle) for value in part)
    return min(max(5 * noise, _NEAR[0] * step), _NEAR[1] * step)


def _p_near(cuts: dict[int, float], index: int) -> float:
    return cuts[min(cuts, key=lambda cut: abs(cut - index))]
