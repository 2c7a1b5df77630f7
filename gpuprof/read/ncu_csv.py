"""Finds the tables of CSV that ncu prints: raw pages, details pages, and both mixed with a program's own output."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

from gpuprof.model.recorded import Report
from gpuprof.read.printed_pages import refuse_too_many, report_of
from gpuprof.read.printed_refusal import refusal
from gpuprof.read.printed_table import PrintedRow, PrintedTable

_PRINTED_LAUNCH = ", Context "
_HEADER_START = re.compile(r'"?ID"?,"?Process ID"?(?=,|$)')


def has_header(text: str) -> bool:
    """Tell whether a line is the header of one of ncu's tables."""
    return _HEADER_START.search(text) is not None


def read_ncu_csv(text: str, file: str, sha256: str) -> Report:
    """Read the launches of every table in the text. Raises InputError where there is no launch."""
    refuse_too_many(text.count("\n"), "lines", text, file)
    tables = list(_tables(text))
    if not tables:
        raise refusal(text, file)
    if _PRINTED_LAUNCH in text and any(_is_printed_launch(line) for line in text.splitlines()):
        tables[-1].sentences.append("the launches that ncu printed as text, beside the CSV, are not read")
    kind = "ncu-csv-details" if all(table.is_details for table in tables) else "ncu-csv-raw"
    return report_of(tables, text, file, sha256, kind)


def _is_printed_launch(line: str) -> bool:
    """Tell whether a line that is no row of CSV ends as a launch does in ncu's text."""
    return _PRINTED_LAUNCH in line and not line.startswith('"') and re.search(r"\d, CC \d+\.\d+$", line) is not None


def _tables(text: str) -> Iterator[PrintedTable]:
    """Find headers and collect the rows below each; a record may span lines, other lines are skipped."""
    lines = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    table: PrintedTable | None = None
    at = 0
    while at < len(lines):
        header = _HEADER_START.search(lines[at]) if "Process ID" in lines[at] else None
        if header is not None:
            columns = tuple(_cells(lines[at][header.start() :]) or ())
            if "Kernel Name" in columns:
                if table is not None:
                    yield table
                table = PrintedTable(columns, quoted=header[0].startswith('"'))
            at += 1
        elif table is not None and _starts_row(lines[at], table, is_last=at + 1 == len(lines)):
            at = _take_record(lines, at, table)
        else:
            at += 1
    if table is not None:
        yield table


def _starts_row(line: str, table: PrintedTable, *, is_last: bool) -> bool:
    """Tell rows from a program's own lines: ncu quotes the cells. The last line may be any part of a row."""
    if table.quoted:
        return re.match(r'"\d+","|"",', line) is not None or (is_last and line.startswith('"'))
    return re.match(r'"?\d+"?,|,', line) is not None


def _take_record(lines: Sequence[str], first: int, table: PrintedTable) -> int:
    """Add the record that starts at that line to the table and return the line after it."""
    record, last = lines[first], first
    odd = record.count('"') % 2 == 1
    while odd and last + 1 < len(lines) and not _begins_anew(lines[last + 1], table):
        last += 1
        odd ^= lines[last].count('"') % 2 == 1
    if last > first:
        record = "\n".join(lines[first : last + 1])
    cells = _cells(record)
    if cells is None:
        table.broken_lines.append(first + 1)
    elif not odd and (last + 1 < len(lines) or _is_whole(cells, table)):
        table.rows.append(PrintedRow(first + 1, tuple(cells)))
    elif last + 1 < len(lines):
        table.broken_lines.append(first + 1)
        return first + 1
    else:
        table.cut_line = first + 1
        if len(cells) > 1:
            table.rows.append(PrintedRow(first + 1, tuple(cells[:-1])))
    return last + 1


def _is_whole(cells: Sequence[str], table: PrintedTable) -> bool:
    """Tell whether a record without a line end can be complete: a value without quotes may have been cut.

    ncu quotes empty cells too, except behind the value on a details page.
    """
    ends_after_comma = table.quoted and cells[-1] == ""
    behind_value = table.is_details and len(cells) > table.columns.index("Metric Value") + 1
    return table.quoted and (behind_value or not ends_after_comma)


def _begins_anew(line: str, table: PrintedTable) -> bool:
    """Tell a new record from the continuation of an open quote."""
    row = r'"\d+","\d+","' if table.quoted else r"\d+,\d+,"
    return _HEADER_START.match(line) is not None or re.match(row, line) is not None


def _cells(record: str) -> list[str] | None:
    """Return the cells of a record without the blanks around them, which ncu never prints but an editor can add."""
    try:
        csv.field_size_limit(max(len(record), csv.field_size_limit()))
        cells = next(csv.reader([record]), None)
    except csv.Error:
        return None
    return [cell.strip() for cell in cells] if cells is not None else None
