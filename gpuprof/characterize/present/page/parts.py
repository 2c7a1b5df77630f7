"""The small values that every part of the page is made of: facts and bars."""

from __future__ import annotations

from msgspec import Struct

from gpuprof.units import format_percent
from gpuprof.words.profile_values import NOT_COLLECTED


class LabelledText(Struct, frozen=True):
    """A name and its value, both as text."""

    name: str
    value: str


class Bar(Struct, frozen=True):
    """A text with a bar: `percent` is the bar's length, None where there is no value."""

    text: str
    percent: str | None


def bar(fraction: float | None, text: str | None = None) -> Bar:
    """Return a bar for a fraction, with the percentage as text where no other is given."""
    if fraction is None:
        return Bar(text or NOT_COLLECTED, None)
    return Bar(text or format_percent(fraction), percent_number(fraction))


def percent_number(fraction: float) -> str:
    """Write a fraction as a number of percent between 0 and 100, for lengths."""
    return f"{100 * min(1.0, max(0.0, fraction)):.4g}"
