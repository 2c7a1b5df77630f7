"""Quantiles at the comparison's confidence: Student's t, and the ranks of Mann and Whitney, exact."""

from __future__ import annotations

import math
from functools import cache, lru_cache

CONFIDENCE = 0.99
ALPHA = 1 - CONFIDENCE + 1e-12
_MOST_FREEDOM = 400
"""Beyond it the quantile of t is that of the normal distribution within 0.2 %."""
_MOST_EXACT = 25
"""Runs a side up to which ranks are counted out; from there on they are as good as normal."""
NORMAL = 2.5758293035489
"""Two-sided quantile of the normal distribution at 99 %."""


@cache
def student_t(freedom: int) -> float:
    """Return the two-sided quantile of Student's t."""
    freedom = min(freedom, _MOST_FREEDOM)
    low, high = 0.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < CONFIDENCE else (low, middle)
    return high


@lru_cache(maxsize=4096)
def wins_needed(base: int, new: int) -> int:
    """Return how many of base × new pairs of runs have to go one way that chance makes that happen in 1 % at most.

    One more than there are if no number does.
    """
    if min(base, new) > _MOST_EXACT or base + new > 4 * _MOST_EXACT:
        deviation = math.sqrt(base * new * (base + new + 1) / 12)
        return math.ceil(base * new / 2 + NORMAL * deviation + 0.5)
    return _least_rare(_win_counts(base, new))


def _within(value: float, freedom: int) -> float:
    """Return the probability of |t| below a value (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(value / math.sqrt(freedom))
    sine, square = math.sin(angle), math.cos(angle) ** 2
    odd = freedom % 2 == 1
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for number in range(3 if odd else 2, freedom - 1, 2):
        term *= square * (number - 1) / number
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _win_counts(base: int, new: int) -> list[int]:
    """Return in how many orders of all runs a side wins 0, 1, … pairs: the coefficients of a Gaussian binomial."""
    size = base * new
    counts = [1] + [0] * size
    for number in range(1, new + 1):
        for wins in range(size, base + number - 1, -1):
            counts[wins] -= counts[wins - base - number]
        for wins in range(number, size + 1):
            counts[wins] += counts[wins - number]
    return counts


def _least_rare(counts: list[int]) -> int:
    """Return the least value that it and all above it have half of what is allowed of the counts."""
    allowed, tail = ALPHA / 2 * sum(counts), 0
    for value in range(len(counts) - 1, -1, -1):
        tail += counts[value]
        if tail > allowed:
            return value + 1
    return 0
