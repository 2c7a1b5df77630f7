"""A quantity on both sides of a comparison, and how far it moved."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from gpuprof.comparison.contract import CountChange, ValueChange

_Value = TypeVar("_Value")

_MOST_LOG = 3.0
"""Twentyfold, as a logarithm: a larger change says no more about the time."""
_MOST = 1e32
"""No quantity comes near it; a larger value, or NaN, counts as missing."""

SAME_VALUE = 1e-6
"""Relative difference that sums of the same numbers in another order can have, and more."""


class Values(NamedTuple):
    """A quantity that is known on both sides."""

    base: float
    new: float

    @property
    def ratio(self) -> float | None:
        """Return new ÷ base, 1 for the same sums in another order; None of nothing."""
        if self.base <= 0:
            return None
        return 1.0 if math.isclose(*self, rel_tol=SAME_VALUE) else self.new / self.base

    @property
    def log_ratio(self) -> float:
        """Return ln(new ÷ base), limited to ±3, the value for a quantity that was or became zero."""
        if self.base == self.new:
            return 0.0
        if self.base <= 0 or self.new <= 0:
            return _MOST_LOG if self.new > self.base else -_MOST_LOG
        return max(-_MOST_LOG, min(_MOST_LOG, math.log(self.new) - math.log(self.base)))

    def named(self, name: str, unit: str = "") -> ValueChange:
        """Return the same for the contract."""
        return ValueChange(name=name, unit=unit, base=self.base, new=self.new)


def values_of(base: float | None, new: float | None) -> Values | None:
    """Return two values; None if one is missing or not finite."""
    if base is None or new is None or not (abs(base) <= _MOST and abs(new) <= _MOST):
        return None
    return Values(base, new)


def all_known(values: Iterable[_Value | None]) -> list[_Value] | None:
    """Return the values; None if one is missing."""
    every = []
    for value in values:
        if value is None:
            return None
        every.append(value)
    return every


def known(change: CountChange | None) -> Values | None:
    """Return both values of a count; None if one is missing."""
    return values_of(change.base, change.new) if change is not None else None


def counted_value(count: CountChange) -> ValueChange:
    """Return a count as the value of a cause."""
    return ValueChange(name=count.name, unit=count.unit, base=count.base, new=count.new, ratio=count.ratio)
