"""The flat table of kernels as CSV: base units, the unit in the column's name, empty cells for what is missing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from gpuprof.model.session import Session
from gpuprof.present.table import Cell, columns_without_kernels, rows
from gpuprof.text import printable

_FORMULA_STARTS = tuple("=+-@＝＋－＠\t\r")
"""What a spreadsheet takes for the start of a formula, in some languages in full width too."""


def csv_lines(session: Session) -> Iterator[str]:
    """Yield the header and a line per kernel, without line ends."""
    yield from table_lines(rows(session)) if session.kernels else (_line(columns_without_kernels()),)


def table_lines(table: Sequence[Mapping[str, Cell]]) -> Iterator[str]:
    """Yield the header and a line for each row of a table, without line ends; all rows have the same columns."""
    yield _line(list(table[0]))
    for row in table:
        yield _line([_cell(value) for value in row.values()])


def _cell(value: Cell) -> str:
    """Write a cell; a name that a spreadsheet would take for a formula gets a quote before it."""
    if value is None:
        return ""
    if isinstance(value, str):
        text = printable(value)
        return f"'{text}" if text.startswith(_FORMULA_STARTS) else text
    return repr(value)


def _line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()
