"""The small values that every part of the page is made of: facts, bars, table cells, and how texts are cut."""

from __future__ import annotations

from msgspec import Struct

from gpuprof.text import cut_middle, printable
from gpuprof.units import format_percent
from gpuprof.words.profile_values import NOT_COLLECTED

_LABEL_LENGTH, _WHOLE_LENGTH = 120, 300


class LabelledText(Struct, frozen=True):
    """A name and its value, both as text."""

    name: str
    value: str


class Bar(Struct, frozen=True):
    """A text with a bar: `percent` is the bar's length, None where there is no value."""

    text: str
    percent: str | None


class Table(Struct, frozen=True):
    """Headings, rows of text, and the places of the columns that hold numbers."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, ...]


class KernelLabel(Struct, frozen=True):
    """A kernel's name as it is shown, and more of it where that was cut."""

    text: str
    whole: str | None


def bar(fraction: float | None, text: str | None = None) -> Bar:
    """Return a bar for a fraction, with the percentage as text where no other is given."""
    if fraction is None:
        return Bar(text or NOT_COLLECTED, None)
    return Bar(text or format_percent(fraction), percent_number(fraction))


def percent_number(fraction: float) -> str:
    """Write a fraction as a number of percent between 0 and 100, for lengths."""
    return f"{100 * min(1.0, max(0.0, fraction)):.4g}"


def label(name: str, length: int = _LABEL_LENGTH) -> KernelLabel:
    """Cut the middle out of a name that is too long for a heading or a table."""
    text = printable(name)
    if len(text) <= length:
        return KernelLabel(text, None)
    return KernelLabel(cut_middle(text, length), cut_middle(text, _WHOLE_LENGTH))
