"""Numbers and units as ncu prints them: in the user's language, with prefixes, and with so many digits."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Mapping
from functools import lru_cache

from msgspec.structs import replace

from gpuprof.model.recorded import Metric
from gpuprof.read.printed_table import LAUNCH_COLUMNS, PrintedRow, PrintedTable
from gpuprof.units import ncu_unit

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII
)
"""With groups of three digits, or as in India of two above the thousands: 17,88,903."""
_DECIMAL_COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?", re.ASCII)
_ONLY_WITH_COMMA = re.compile(
    r"[+-]?(?:(?:\d+|\d{1,3}(?:\.\d{3})+),(?:\d{1,2}|\d{4,})|\d{1,3}(?:\.\d{3}){2,})", re.ASCII
)
_ONLY_WITH_POINT = re.compile(r"[+-]?[\d,]*\.(?:\d{1,2}|\d{4,})", re.ASCII)
"""What can only be a number with a decimal comma, or with a point: 12,50, 1.234,567 and 1.234.567, or 12.50."""
_SPACED = re.compile(r"[+-]?[0-9]{1,3}(?:[ '\u00a0\u2019\u202f][0-9]{3})+(?:[.,][0-9]*)?")
"""With groups as in Finland or France, 12 345 678,25, or in Switzerland, 12'345'678.25."""
_MAYBE_SPACED = re.compile(r"[0-9][ '\u00a0\u2019\u202f][0-9]{3}")
"""What such a number has in it: rows without need no look at each cell."""
_SPACES = str.maketrans("", "", " '\u00a0\u2019\u202f")
_SIGNS = str.maketrans("", "", "+-,.")
_WITH_INSTANCES = re.compile(r"(\S+) \(.*\)", re.DOTALL)
_NOT_A_VALUE = frozenset(
    ("", "n/a", "nan", "-nan", "+nan", "nan(ind)", "-nan(ind)", "inf", "-inf", "+inf", "no data")
)  # fmt: skip


def with_points(table: PrintedTable) -> PrintedTable:
    """Return a table with points for decimals: ncu prints numbers as the user's language does."""
    named = ("Metric Value",) if table.is_details else set(table.columns) - LAUNCH_COLUMNS
    places = frozenset(place for place, column in enumerate(table.columns) if column in named)

    def has(number: re.Pattern[str], rows: Iterable[PrintedRow]) -> bool:
        cells = (row.cells[place] for row in rows for place in places if place < len(row.cells))
        return any(number.fullmatch(cell.strip()) for cell in cells)

    if has(_SPACED, (row for row in table.rows if _MAYBE_SPACED.search("\n".join(row.cells)))):
        table = _translated(table, places, _SPACED, _SPACES)

    if has(_ONLY_WITH_POINT, table.rows) or not has(_ONLY_WITH_COMMA, table.rows):
        return table
    return _translated(table, places, _DECIMAL_COMMA, str.maketrans(",.", ".,"))


def _translated(
    table: PrintedTable, places: Container[int], numbers: re.Pattern[str], characters: Mapping[int, int | None]
) -> PrintedTable:
    """Return a table whose numbers of a form have other characters, in the columns of these places."""
    rows = [
        PrintedRow(
            row.line,
            tuple(
                cell.translate(characters) if place in places and numbers.fullmatch(cell.strip()) else cell
                for place, cell in enumerate(row.cells)
            ),
        )
        for row in table.rows
    ]
    return replace(table, rows=rows)


def is_garbled(metric: Metric) -> bool:
    """Tell a number that is none any more: ncu gives no unit to words, but to a list of instances in brackets."""
    return isinstance(metric.value, str) and metric.unit != "" and not metric.value.startswith("(")


def metric_of(cell: str, unit: str) -> Metric | None:
    """Read a printed value into its base unit; None where the cell says that there is none."""
    return _metric_in(cell, *printed_unit(unit.strip()))


class MetricColumn:
    """The column of a metric on a raw page: its name, and its cells read by a unit that is looked up once."""

    __slots__ = ("_base", "_cell", "_factor", "_metric", "name")

    def __init__(self, name: str, unit: str) -> None:
        self.name = name
        self._factor, self._base = printed_unit(unit.strip())
        self._cell: str | None = None
        self._metric: Metric | None = None

    def metric(self, cell: str) -> Metric | None:
        """Return what `metric_of` does; much of what is printed of a launch is as printed of the one before."""
        if cell != self._cell:
            self._cell, self._metric = cell, _metric_in(cell, self._factor, self._base)
        return self._metric


def _metric_in(cell: str, factor: float, base: str) -> Metric | None:
    if _NUMBER.fullmatch(cell):  # nearly all cells: nothing else fits those
        value = float(cell.replace(",", "")) * factor
        return Metric(value, base, _printed_digits(cell)) if math.isfinite(value) else None
    text = cell.strip()
    if text.startswith("(!)"):
        text = text[3:].strip()
    if text.lower() in _NOT_A_VALUE:
        return None
    with_instances = _WITH_INSTANCES.fullmatch(text)
    if with_instances is not None and with_instances[1].lower() in _NOT_A_VALUE:
        return None
    number = _number(text)
    if number is None and with_instances is not None:
        text = with_instances[1]
        number = _number(text)
        text = text if number is not None else cell.strip()
    if number is None:
        return Metric(text, base)
    value = number * factor
    return Metric(value, base, _printed_digits(text)) if math.isfinite(value) else None


def _number(text: str) -> float | None:
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


@lru_cache(maxsize=256)
def printed_unit(unit: str) -> tuple[float, str]:
    """Return the factor and base unit of a printed value.

    A byte prefix below the fraction stroke is what ncu divided by, against what the unit says: ncu 2024.1
    prints the 7949 %/byte of a real report as 7.949 %/Kbyte.
    """
    factor, base = ncu_unit(unit)
    below_factor, below = ncu_unit(unit.partition("/")[2])
    return (factor * below_factor**2 if below == "byte" else factor), base


def _printed_digits(text: str) -> int | None:
    """Return the significant digits kept, 0 for "0.00"; None for a whole number: ncu prints those exactly."""
    if "." not in text:
        return None
    mantissa = text.lower().partition("e")[0]
    return len(mantissa.translate(_SIGNS).lstrip("0"))
