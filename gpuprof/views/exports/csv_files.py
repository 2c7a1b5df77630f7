"""Tables as CSV: base units, the unit in the column's name, empty cells for what is missing."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.text import printable
from gpuprof.views.exports.tables import Cell, Row, instruction_rows, kernel_columns, kernel_rows, time_rows

if TYPE_CHECKING:
    from gpuprof.annotated.listing import Listing
    from gpuprof.model.session import Session
    from gpuprof.model.time_by import TimeBy

# A text that begins with one of these is a formula for spreadsheets, in some languages in full width, too.
_FORMULA_STARTS = tuple("=+-@＝＋－＠\t\r")


def kernel_lines(session: Session) -> Iterator[str]:
    """Yield the header and a line per kernel, without line ends."""
    if session.kernels:
        yield from _lines(kernel_rows(session))
    else:
        yield _line(kernel_columns())


def time_lines(_session: object, times: TimeBy, _top: object) -> Iterator[str]:
    """Yield the header and a line for each group, all of them, without line ends."""
    yield from _lines(time_rows(times))


def listing_lines(_session: object, _kernel: object, listing: Listing, _whole: object) -> Iterator[str]:
    """Yield the header and a line for each instruction, without line ends."""
    yield from _lines(instruction_rows(listing))


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    yield _line(map(_text, rows[0]))
    for row in rows:
        yield _line(map(_text, row.values()))


def _text(cell: Cell) -> str:
    """Write a cell; a name that a spreadsheet would take for a formula gets a quote before it."""
    if cell is None:
        return ""
    if not isinstance(cell, str):
        return repr(cell)
    text = printable(cell)
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _line(cells: Iterable[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow(cells)
    return buffer.getvalue()
