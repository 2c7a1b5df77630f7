"""Quantiles at the comparison's confidence: Student's t, and exact Mann-Whitney ranks."""

from __future__ import annotations

import math
from functools import cache, lru_cache

CONFIDENCE = 0.99
ALPHA = 1 - CONFIDENCE + 1e-12
_MOST_FREEDOM = 400
"""Beyond it the quantile of t equals that of the normal distribution within 0.2 %."""
_MOST_EXACT = 25
"""Runs a side up to which ranks are counted exactly; beyond, they are as good as normal."""
NORMAL = 2.5758293035489
"""Two-sided quantile of the normal distribution at 99 %."""


@cache
def student_t(freedom: int) -> float:
    """Return the two-sided quantile of Student's t."""
    low = 0.0
    high = 100.0
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, min(freedom, _MOST_FREEDOM)) < CONFIDENCE:
            low = middle
        else:
            high = middle
    return high


@lru_cache(maxsize=4096)
def wins_needed(base: int, new: int) -> int:
    """Return how many of base × new pairs must go one way to be chance in at most 1 % of cases.

    It is one more than the number of pairs if no number suffices.
    """
    if min(base, new) > _MOST_EXACT or base + new > 4 * _MOST_EXACT:
        deviation = math.sqrt(base * new * (base + new + 1) / 12)
        return math.ceil(base * new / 2 + NORMAL * deviation + 0.5)
    return _least_rare(_win_counts(base, new))


def _within(value: float, freedom: int) -> float:
    """Return the probability of |t| below a value (Abramowitz and Stegun, 26.7.3 and 26.7.4)."""
    angle = math.atan(value / math.sqrt(freedom))
    sine = math.sin(angle)
    square = math.cos(angle) ** 2
    odd = freedom % 2 == 1
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for number in range(3 if odd else 2, freedom - 1, 2):
        term *= square * (number - 1) / number
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _win_counts(base: int, new: int) -> list[int]:
    """Return the number of orders of the runs in which a side wins 0, 1, … pairs: Gaussian binomial coefficients."""
    size = base * new
    counts = [1] + [0] * size
    for number in range(1, new + 1):
        for wins in range(size, base + number - 1, -1):
            counts[wins] -= counts[wins - base - number]
        for wins in range(number, size + 1):
            counts[wins] += counts[wins - number]
    return counts


def _least_rare(counts: list[int]) -> int:
    """Return the least value for which it and all larger ones have at most half of the allowed share of the counts."""
    allowed = ALPHA / 2 * sum(counts)
    tail = 0
    value = len(counts)
    while value and tail + counts[value - 1] <= allowed:
        value -= 1
        tail += counts[value]
    return value
