"""Splits numbers into a lower and an upper group, where there are two."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean, pstdev

_APART = 5.0
"""Two groups are believed where their middles are so many times further apart than the groups are wide."""
_SMALLEST = 0.05
"""A group holds at least this share."""


def two_groups(values: Sequence[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the numbers in two groups by the least sum of squares within them; the second is empty where one fits."""
    ordered = sorted(values)
    least = max(2, round(_SMALLEST * len(ordered)))
    if len(ordered) < 2 * least:
        return tuple(ordered), ()
    cut = min(range(least, len(ordered) - least + 1), key=_squares(ordered).__getitem__)
    low, high = ordered[:cut], ordered[cut:]
    width = max(pstdev(low), pstdev(high), 1e-9 * abs(ordered[-1]))
    if fmean(high) - fmean(low) < _APART * width:
        return tuple(ordered), ()
    return tuple(low), tuple(high)


def _squares(ordered: Sequence[float]) -> list[float]:
    """Return the sum of squares within both sides of every cut."""
    count = len(ordered)
    sums, squares = [0.0, *accumulate(ordered)], [0.0, *accumulate(value * value for value in ordered)]

    def within(start: int, stop: int) -> float:
        if stop <= start:
            return 0.0
        return squares[stop] - squares[start] - (sums[stop] - sums[start]) ** 2 / (stop - start)

    return [within(0, cut) + within(cut, count) for cut in range(count + 1)]
