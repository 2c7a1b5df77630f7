"""Finds tables of CSV in a text: as ncu prints them among a program's output, or as pandas or a spreadsheet saved them.

ncu quotes all cells and puts commas between them. If its CSV was saved again, both may differ, and so may the order of
the columns and which of them are there.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence

from gpuprof.model.recorded import Report
from gpuprof.read.printed_lines import by_rank
from gpuprof.read.printed_pages import refuse_too_many, report_of
from gpuprof.read.printed_refusal import refusal
from gpuprof.read.printed_sections import FULL_NAME
from gpuprof.read.printed_table import PrintedRow, PrintedTable

_DELIMITERS = ",;\t"
_PRINTED_LAUNCH = ", Context "
_OWN_HEADER = re.compile(
    r'^ID,Process ID(?=,)|(?<![,;\t])(?:"ID","Process ID"(?=,)|"Process ID","Process Name",|"Domain","Range:)'
)
"""Starts of ncu's own headers, which can follow a program's output on the same line."""
_LINE_WITH_NAME = re.compile(r"^.*Kernel Name.*$", re.MULTILINE)
_NUMBER = re.compile(r"[+-]?\d[\d.,]*(?<=\d)(?:[eE][+-]?\d+)?")
_NUMBERED = ("ID", "Process ID")
_FIRST = (*_NUMBERED, "Domain")
"""Columns that ncu prints first; two of them are numbers."""


def has_header(text: str) -> bool:
    """Return whether a line is the header of a table of ncu, by the names of its columns."""
    return any(_table_below(match[0]) is not None for match in _LINE_WITH_NAME.finditer(text))


def read_ncu_csv(text: str, file: str, sha256: str) -> Report:
    """Read the launches of every table in the text. Raises InputError if there is no launch."""
    refuse_too_many(text.count("\n"), "lines", text, file)
    tables = _tables(text)
    if not tables:
        raise refusal(text, file)
    if _PRINTED_LAUNCH in text and any(_is_printed_launch(line) for line in text.splitlines()):
        tables[-1].sentences.append("the launches that ncu printed as text, beside the CSV, are not read")
    kind = "ncu-csv-details" if all(table.is_details for table in tables) else "ncu-csv-raw"
    return report_of(tables, text, file, sha256, kind)


def _is_printed_launch(line: str) -> bool:
    """Return whether a line that is no row of CSV ends as a launch does in ncu's text."""
    return _PRINTED_LAUNCH in line and not line.startswith('"') and re.search(r"\d, CC \d+\.\d+$", line) is not None


def _tables(text: str) -> list[PrintedTable]:
    """Find headers and collect the rows below each; a record may span lines, other lines are skipped."""
    text = text.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = by_rank([*enumerate(text.split("\n"), start=1)])
    if text.endswith("\n"):
        # Then the last row of each rank has its end, too.
        lines = [*lines, (0, "")]
    tables: list[PrintedTable] = []
    at = 0
    while at < len(lines):
        _, line = lines[at]
        begun = _table_below(line)
        if begun is not None:
            begun.is_original &= not any(_is_unquoted_row(line, begun) for _, line in lines[at + 1 : at + 3])
            tables.append(begun)
        elif tables and _starts_row(line, tables[-1], is_last=at + 1 == len(lines)):
            at = _take_record(lines, at, tables[-1])
            continue
        at = _end_of_other_table(lines, at, tables[-1]) if tables and line.startswith('"') else at + 1
    return tables


def _end_of_other_table(lines: Sequence[tuple[int, str]], at: int, table: PrintedTable) -> int:
    """Return the place below a line and, if it has fewer cells than a row of the table, rows with as many cells.

    ncu prints a table of GPUs and their NUMA nodes between the rows of a launch.
    """
    width = len(_cells(lines[at][1], table.delimiter) or ())
    at += 1
    if 1 < width <= table.places.get(table.value_column, len(table.columns) - 1):
        while at < len(lines) and len(_cells(lines[at][1], table.delimiter) or ()) == width:
            at += 1
    return at


def _table_below(line: str) -> PrintedTable | None:
    """Return the empty table whose header a line is; None for any other line."""
    if "Kernel Name" not in line:
        return None
    own = _OWN_HEADER.search(line)
    header = line[own.start() :] if own is not None else line
    for delimiter in filter(header.__contains__, _DELIMITERS):
        columns = tuple(_cells(header, delimiter) or ())
        if _is_header(columns):
            is_original = delimiter == "," and columns[0] in _FIRST and header.count('"') == 2 * len(columns)
            return PrintedTable(columns, is_original=is_original, delimiter=delimiter)
    return None


def _is_header(columns: Collection[str]) -> bool:
    """Return whether these are columns of ncu: kernels, with metrics and their values, or with a column a metric."""
    if "Kernel Name" not in columns:
        return False
    if "Metric Name" in columns:
        return "Metric Value" in columns or "Average" in columns
    return all(name in columns for name in _NUMBERED) or any(map(FULL_NAME.fullmatch, columns))


def _is_unquoted_row(line: str, table: PrintedTable) -> bool:
    """Return whether a line is a row in which numbers have no quotes: then ncu has not printed the table."""
    return not line.startswith('"') and len(_cells(line, table.delimiter) or ()) == len(table.columns)


def _starts_row(line: str, table: PrintedTable, *, is_last: bool) -> bool:
    """Return whether a line starts a row, and is not one of the program. The last line may be any part of a row."""
    if not table.is_original:
        return table.delimiter in line or line.startswith('"')
    if is_last and line.startswith('"'):
        return True
    if table.columns[0] in _NUMBERED and not table.is_summary:
        return re.match(r'"\d+(?:\.0)?","|"",', line) is not None
    return line.startswith('"') and '","' in line


def _take_record(lines: Sequence[tuple[int, str]], first: int, table: PrintedTable) -> int:
    """Add the record that starts at that line to the table and return the place of the line after it."""
    last = first
    number, line = lines[first]
    odd = line.count('"') % 2 == 1
    while odd and last + 1 < len(lines) and not _begins_anew(lines[last + 1][1], table):
        last += 1
        odd ^= lines[last][1].count('"') % 2 == 1
    has_end = last + 1 < len(lines)
    if odd and (has_end or not table.is_original):
        table.broken_lines.append(number)
        return first + 1
    cells = _cells("\n".join(line for _, line in lines[first : last + 1]), table.delimiter)
    if cells is None:
        table.broken_lines.append(number)
    elif has_end or (not odd and _is_whole(cells, table)):
        _add_row(number, cells, table)
    else:
        _add_cut_row(number, cells, table)
    return last + 1


def _add_row(line: int, cells: Sequence[str], table: PrintedTable) -> None:
    """Add a row, unless a spreadsheet has saved an empty one."""
    if table.is_original or any(cells):
        table.rows.append(PrintedRow(line, tuple(cells)))


def _add_cut_row(line: int, cells: Sequence[str], table: PrintedTable) -> None:
    """Add what is known of the last row of a text that may have been cut: all cells but the last one.

    Spreadsheets write no line break behind a table that they save. The last number of a whole row then stays, unless it
    has fewer digits behind the point than all above it; if those differ, it may be cut.
    """
    if table.is_original or len(cells) < len(table.columns):
        table.cut_line = line
        if len(cells) > 1:
            table.rows.append(PrintedRow(line, tuple(cells[:-1])))
        return
    digits = {_decimals(row.cells[-1]) for row in table.rows if _NUMBER.fullmatch(row.cells[-1])}
    own = _decimals(cells[-1]) if _NUMBER.fullmatch(cells[-1]) else None
    is_sure = digits == {own} and bool(own)
    is_kept = own is not None and (is_sure or len(digits) > 1 or digits == {0})
    if not is_sure:
        what = "may be cut" if is_kept else "may be cut and is left out"
        table.sentences.append(f"the file has no final line break: the last value of line {line} {what}")
    table.rows.append(PrintedRow(line, (*cells[:-1], cells[-1] if is_kept else "")))


def _decimals(number: str) -> int:
    """Return how many digits are behind the last point or comma of a number."""
    return len(re.split("[.,]", number)[-1]) if re.search("[.,]", number) else 0


def _is_whole(cells: Sequence[str], table: PrintedTable) -> bool:
    """Return whether a record without a line end can be complete: a value without quotes may have been cut.

    ncu quotes empty cells too, except behind the value on a details page.
    """
    is_behind_value = table.is_details and len(cells) > table.places[table.value_column] + 1
    if table.is_original:
        return is_behind_value or cells[-1] != ""
    return is_behind_value and len(cells) == len(table.columns)


def _begins_anew(line: str, table: PrintedTable) -> bool:
    """Return whether a line is a new record, and does not continue an open quote."""
    if table.columns[0] not in _NUMBERED:
        return False
    row = r'"\d+","[^"]*","' if table.is_original else rf"\d+{table.delimiter}\d+{table.delimiter}"
    return _OWN_HEADER.match(line) is not None or re.match(row, line) is not None


def _cells(record: str, delimiter: str) -> list[str] | None:
    """Return the cells of a record without the blanks around them, which ncu never prints but an editor can add."""
    try:
        csv.field_size_limit(max(len(record), csv.field_size_limit()))
        cells = next(csv.reader([record], delimiter=delimiter), None)
    except csv.Error:
        return None
    return [cell.strip() for cell in cells] if cells is not None else None
