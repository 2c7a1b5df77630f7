"""Axes of a curve: from a value to its place between 0 and 1, and the ticks that a reader needs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, count
from typing import NamedTuple

from gpuprof.characterize.present.words import SI_UNITS, amount, plural
from gpuprof.units import round_step

_MOST_TICKS = 8
_LINEAR_STEPS = 5
_LOG_MARGIN = 1.12
_LINEAR_MARGIN = 1.06
_WIDE = 100.0
"""What spans more than two decades is drawn on a logarithmic axis."""
_TALL = 6.0
"""So is the height over a logarithmic width: a law of proportion is a straight line only there."""
_SCALED = ("B", *SI_UNITS)
"""Units that stand beside the number of a tick because their prefix changes; others are named once at the axis."""


class AxisScale(NamedTuple):
    """The range of an axis."""

    low: float
    high: float
    logarithmic: bool

    def part(self, value: float) -> float:
        """Return where a value lies, 0 at the lower end and 1 at the upper one."""
        low, high, at = map(math.log, (self.low, self.high, value)) if self.logarithmic else (*self[:2], value)
        return (at - low) / (high - low)


class Tick(NamedTuple):
    """A value with its text."""

    value: float
    text: str


def width_scale(values: Sequence[float], unit: str) -> AxisScale:
    """Return the horizontal axis: sizes and what spans decades by factors, counts by their number."""
    positive = min(values) > 0
    if positive and (unit == "B" or max(values) > _WIDE * min(values)):
        return _logarithmic(values)
    return _linear(values)


def height_scale(values: Sequence[float], width: AxisScale) -> AxisScale:
    """Return the vertical axis: from 0, or by factors over a width that goes by factors too."""
    if width.logarithmic and min(values) > 0 and max(values) > _TALL * min(values):
        return _logarithmic(values)
    return _linear(values)


def _logarithmic(values: Sequence[float]) -> AxisScale:
    return AxisScale(min(values) / _LOG_MARGIN, max(values) * _LOG_MARGIN, logarithmic=True)


def _linear(values: Sequence[float]) -> AxisScale:
    low, high = min(0.0, *values), max(0.0, *values)
    return AxisScale(low, low + (high - low) * _LINEAR_MARGIN if high > low else low + 1.0, logarithmic=False)


def ticks(scale: AxisScale, unit: str) -> tuple[Tick, ...]:
    """Return the ticks of an axis."""
    by_factors = _doublings if unit == "B" else _decades
    values = by_factors(scale) if scale.logarithmic else _linear_ticks(scale)
    return tuple(Tick(value, _text(value, unit)) for value in values)


def axis_unit(unit: str) -> str:
    """Return the unit that is to be named once at the axis; empty where each tick has it."""
    return "" if unit in _SCALED else plural(unit)


def _text(value: float, unit: str) -> str:
    number, _, scaled = amount(value, unit if unit in _SCALED else "").partition(" ")
    plain = number.rstrip("0").rstrip(".") if "." in number else number
    return f"{plain} {scaled}".rstrip()


def _doublings(scale: AxisScale) -> list[float]:
    first, last = math.ceil(math.log2(scale.low)), math.floor(math.log2(scale.high))
    step = max(1, math.ceil((last - first + 1) / _MOST_TICKS))
    return [2.0**exponent for exponent in range(first, last + 1) if exponent % step == 0]


def _decades(scale: AxisScale) -> list[float]:
    """Return 1, 2, 5, 10, …; only the powers of ten, or some of them, where these are too many."""
    steps = (1 << number for number in count())
    choices = chain([((1, 2, 5), 1)], (((1,), step) for step in steps))
    every = (list(_between(scale, mantissas, step)) for mantissas, step in choices)
    return next(values for values in every if len(values) <= _MOST_TICKS)


def _between(scale: AxisScale, mantissas: Sequence[int], step: int) -> Iterator[float]:
    for exponent in range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1):
        for mantissa in mantissas:
            value = mantissa * 10.0**exponent
            if exponent % step == 0 and scale.low <= value <= scale.high:
                yield value


def _linear_ticks(scale: AxisScale) -> list[float]:
    rough = (scale.high - scale.low) / _LINEAR_STEPS
    step = round_step(rough * 0.999)
    first, last = math.ceil(scale.low / step), math.floor(scale.high / step)
    return [index * step for index in range(first, last + 1)]
