"""Numbers and units as ncu prints them: in the user's language, with prefixes, and with so many digits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import lru_cache

from msgspec.structs import replace

from gpuprof.model.recorded import Metric
from gpuprof.read.printed_table import LAUNCH_COLUMNS, PrintedRow, PrintedTable, as_printed
from gpuprof.units import ncu_unit

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d{1,2}(?:,\d{2})+,\d{3}|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII
)
"""With groups of three digits, or as in India of two above the thousands: 17,88,903."""
_EXPONENT = r"(?:[eE][+-]?\d{1,4})"
_DECIMAL_COMMA = re.compile(rf"[+-]?(?:\d{{1,3}}(?:\.\d{{3}})+|\d+)(?:,\d+)?{_EXPONENT}?", re.ASCII)
_ONLY_WITH_COMMA = re.compile(
    rf"[+-]?(?:(?:(?:\d+|\d{{1,3}}(?:\.\d{{3}})+),(?:\d{{1,2}}|\d{{4,}})|0,\d+){_EXPONENT}?|\d+,\d+{_EXPONENT}"
    r"|\d{1,3}(?:\.\d{3}){2,})",
    re.ASCII,
)
_ONLY_WITH_POINT = re.compile(
    rf"[+-]?(?:(?:[\d,]*\.(?:\d{{1,2}}|\d{{4,}})|0\.\d+){_EXPONENT}?|\d+\.\d+{_EXPONENT}|\d{{1,3}}(?:,\d{{3}}){{2,}})",
    re.ASCII,
)
"""What can only be a number with a decimal comma, or with a point: 12,50, 1.234,567 and 1.234.567, or 12.50."""
_EITHER = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)
"""3,744 and 3.744 are more than a thousand in one language and less than four in another."""
_EITHER_WITH_COMMA = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}", re.ASCII)
"""The same in a table with commas between its cells, which has decimal points unless a comma is in a number."""
_SPACED = re.compile(r"[+-]?[0-9]{1,3}(?:[ '\u00a0\u2019\u202f][0-9]{3})+(?:[.,][0-9]*)?")
"""With groups as in Finland or France, 12 345 678,25, or in Switzerland, 12'345'678.25."""
_MAYBE_SPACED = re.compile(r"[0-9][ '\u00a0\u2019\u202f][0-9]{3}")
"""What such a number has in it: rows without need no look at each cell."""
_SPACES = str.maketrans("", "", " '\u00a0\u2019\u202f")
_POINT_FOR_COMMA = str.maketrans(",.", ".,")
_SIGNS = str.maketrans("", "", "+-,.")
_WITH_INSTANCES = re.compile(r"(\S+) \(.*\)", re.DOTALL)
_NOT_A_VALUE = frozenset(
    ("", "n/a", "nan", "-nan", "+nan", "nan(ind)", "-nan(ind)", "inf", "-inf", "+inf", "no data")
)  # fmt: skip


def with_points(table: PrintedTable) -> PrintedTable:
    """Return a table with points for decimals: numbers are written as the user's language does.

    In a table of ncu all are written alike. pandas writes a comma in columns of numbers and leaves those with a word as
    they were, and a column in which any number can be read both ways follows the others; if these do not agree, one
    of numbers follows those of numbers. A column that follows none is left out.
    """
    places = _places_of_numbers(table)
    rows = [row for row in table.rows if _MAYBE_SPACED.search("\n".join(row.cells))]
    if any(map(_SPACED.fullmatch, _cells(rows, places))):
        table = _translated(table, places, _SPACED, lambda cell: cell.translate(_SPACES))
    if table.is_original or table.is_details:
        marks = dict.fromkeys(places, _decimal_mark(_cells(table.rows, places)))
    else:
        marks = {place: _decimal_mark(_cells(table.rows, [place])) for place in places}
    alike, known = places, set(marks.values()) - {""}
    if len(known) > 1:
        launches = [*filter(table.names_launch, table.rows)]
        alike = [place for place in places if not _has_words(launches, place)]
        known = {marks[place] for place in alike} - {""}
    if len(known) == 1:
        marks |= {place: mark for place in alike if not marks[place] for mark in known}
    commas = [place for place, mark in marks.items() if mark == ","]
    if commas:
        table = _translated(table, commas, _DECIMAL_COMMA, lambda cell: cell.translate(_POINT_FOR_COMMA))
    if not table.is_original:
        table = _without_unclear(table, [place for place, mark in marks.items() if not mark])
    return table


def _places_of_numbers(table: PrintedTable) -> list[int]:
    named = {table.value_column, "Minimum", "Maximum"}
    if not table.is_details:
        named = set(table.columns) - LAUNCH_COLUMNS
    return [place for place, column in enumerate(table.columns) if column in named]


def _cells(rows: Iterable[PrintedRow], places: Collection[int]) -> Iterator[str]:
    return (row.cells[place].strip() for row in rows for place in places if place < len(row.cells))


def _decimal_mark(cells: Iterable[str]) -> str:
    """Return what is before the decimals of numbers: a point if any shows that, else a comma; empty if none shows."""
    mark = ""
    for cell in cells:
        if _ONLY_WITH_POINT.fullmatch(cell):
            return "."
        if not mark and _ONLY_WITH_COMMA.fullmatch(cell):
            mark = ","
    return mark


def _has_words(launches: Iterable[PrintedRow], place: int) -> bool:
    """Return whether a launch has anything but a number in a column."""
    cells = (as_printed("", cell) for cell in _cells(launches, [place]))
    return any(cell and not _NUMBER.fullmatch(cell) and not _DECIMAL_COMMA.fullmatch(cell) for cell in cells)


def _without_unclear(table: PrintedTable, places: Collection[int]) -> PrintedTable:
    """Return a table without the numbers that can be read both ways, which its sentences name."""
    either = _EITHER_WITH_COMMA if table.delimiter == "," else _EITHER
    unclear = [cell for cell in _cells(table.rows, places) if either.fullmatch(cell)]
    if not unclear:
        return table
    number = "1 number is" if len(unclear) == 1 else f"{len(unclear)} numbers are"
    table.sentences.append(
        f"{number} left out, such as {unclear[0]}: no other number shows whether that is a decimal point or comma"
    )
    return _translated(table, places, either, lambda _: "")


def _translated(
    table: PrintedTable, places: Collection[int], numbers: re.Pattern[str], translate: Callable[[str], str]
) -> PrintedTable:
    """Return a table whose numbers of a form are written in another way, in the columns of these places."""
    rows = []
    for row in table.rows:
        cells = list(row.cells)
        for place in places:
            if place < len(cells) and numbers.fullmatch(cells[place].strip()):
                cells[place] = translate(cells[place])
        rows.append(PrintedRow(row.line, tuple(cells)))
    return replace(table, rows=rows)


def is_garbled(metric: Metric) -> bool:
    """Tell a number that is none any more: ncu gives no unit to words, but to a list of instances in brackets."""
    return isinstance(metric.value, str) and metric.unit != "" and not metric.value.startswith("(")


def metric_of(cell: str, unit: str) -> Metric | None:
    """Read a printed value into its base unit; None where the cell says that there is none."""
    return _metric_in(cell, *printed_unit(unit.strip()))


class MetricColumn:
    """The column of a metric on a raw page: its place and name, and its cells read by a unit that is looked up once.

    Numbers of one that `is_bare` mean nothing without a unit.
    """

    __slots__ = ("_base", "_cell", "_factor", "_metric", "is_bare", "name", "place")

    def __init__(self, place: int, name: str, unit: str, *, is_bare: bool) -> None:
        self.place = place
        self.name = name
        self.is_bare = is_bare
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
    mantissa, exponent, _ = text.lower().partition("e")
    if "." not in mantissa and not exponent:
        return None
    return len(mantissa.translate(_SIGNS).lstrip("0"))
