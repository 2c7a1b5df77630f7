"""The small values of the comparison page: texts without private folders, spans around no change, two-sided values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec import Struct

from gpuprof.comparison.contract import KernelChange, TimeChange
from gpuprof.comparison.sides import SideKernel
from gpuprof.model.session import KernelProfile
from gpuprof.present.page.parts import percent_number
from gpuprof.text import cut_end, printable

_LONGEST_SENTENCE = 600
_MARGIN = 1.1
"""What a span's line is longer than the largest change."""
_LEAST_SPAN, _MOST_SPAN = math.log(1.1), math.log(4.0)
"""A span reaches at least to 10 % and at most to a factor of four, both ways."""


class TwoSided(Struct, frozen=True):
    """A quantity on both sides, as texts. `metric` is its counter."""

    name: str
    base: str
    new: str
    changed: bool = False
    metric: str = ""


class Span(Struct, frozen=True):
    """A ratio with its interval as places on a line, in percent of its length: 50 is no change."""

    low: str
    high: str
    middle: str


def told(text: str, most: int = _LONGEST_SENTENCE) -> str:
    """Return a printable sentence of limited length."""
    return cut_end(printable(text[: 8 * most]), most)


def representative_of(kernels: Sequence[SideKernel]) -> KernelProfile | None:
    """Return the profile that speaks for a side of a change: of several kernels that of the longest."""
    return max(kernels, key=lambda kernel: kernel.total_s or 0.0).representative if kernels else None


def span_reach(changes: Iterable[KernelChange]) -> float:
    """Return how far the spans of a page reach: the logarithm of the ratio at their ends."""
    ratios: list[float | None] = []
    for change in changes:
        interval = change.time.interval
        ratios += [change.time.ratio, *((interval.low, interval.high) if interval is not None else ())]
    sizes = [abs(size) for ratio in ratios if (size := _log(ratio)) is not None]
    return min(_MOST_SPAN, max([_LEAST_SPAN, *(size * _MARGIN for size in sizes)]))


def span_of(time: TimeChange, reach: float) -> Span | None:
    """Return the span of a change of time; None if there is no ratio."""
    middle = _log(time.ratio)
    if middle is None:
        return None
    low, high = (_log(time.interval.low), _log(time.interval.high)) if time.interval is not None else (middle, middle)
    places = [percent_number(0.5 + 0.5 * (middle if value is None else value) / reach) for value in (low, high, middle)]
    return Span(low=places[0], high=places[1], middle=places[2])


def _log(ratio: float | None) -> float | None:
    if ratio is None or not math.isfinite(ratio) or ratio <= 0:
        return None
    return math.log(ratio)
