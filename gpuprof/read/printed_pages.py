"""Makes a report of the tables that ncu printed: pages with a launch a row, and pages with a metric a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct, field

from gpuprof.errors import InputError
from gpuprof.model.recorded import DictMetrics, Metric, Report, names_of
from gpuprof.read.details_labels import RAW_NAMES_SECTION, depends_on_unit, is_known, metric_name, section_of
from gpuprof.read.metric_units import unit_of
from gpuprof.read.printed_launch import RecordedLaunch, recorded_launch, with_devices
from gpuprof.read.printed_numbers import MetricColumn, is_garbled, metric_of, printed_unit, with_points
from gpuprof.read.printed_refusal import HINT, ncu_messages
from gpuprof.read.printed_table import PrintedRow, PrintedTable, as_printed
from gpuprof.read.printed_units import DURATION, needs_unit, time_unit
from gpuprof.units import ncu_unit

_PLACE_OF_METRIC = ("Section Name", "Body Item Label", "Metric Name")
_NAME = re.compile(r"[a-z][\w:.]+")
_UNIT = re.compile(r"[a-zA-Z%]")
"""How units start; a sum that someone has added does not."""
_LONGEST_S = 1e9
_ENDLESS = re.compile(r"[+-]?(?:inf(?:inity)?|[\d.,]+e\+?\d+)(?: \(.*\))?", re.IGNORECASE)
"""Values that are no finite time: infinities, and exponents beyond a float."""
_MOST = {"lines": (400_000, 64), "launches": (60_000, 1_000)}
"""Maximum numbers for any text, plus one for each of so many characters. In real exports a line has at least 100
characters, and a launch with more than its duration at least 2,000."""


def report_of(tables: Iterable[PrintedTable], text: str, file: str, sha256: str, kind: str) -> Report:
    """Make a report of the tables that ncu printed in a text. Raises InputError where they have no launch."""
    tables = [with_points(table) for table in tables]
    recorded = [launch for table in tables for launch in _launches(table)]
    refuse_too_many(len(recorded), "launches", text, file)
    launches, devices = with_devices(recorded)
    problems = [problem for table in tables for problem in table.problems()]
    if any(launch.invocations > 1 for launch in launches):
        problems.append("ncu has summarised launches: all figures are averages over the launches of a kernel")
    if not launches:
        raise InputError("; ".join((f"{file} has a header but no kernels", *problems)), hint=HINT)
    if len({table.is_details for table in tables}) > 1:
        problems.append("raw and details pages are mixed in this file; their launches are listed one after the other")
    said = ncu_messages(text, "ERROR")
    return Report(
        file=file,
        sha256=sha256,
        kind=kind,
        tool="ncu",
        tool_version=None,
        launches=launches,
        devices=devices,
        names=names_of(launches).union(*(table.without_unit for table in tables)),
        warnings=(*problems, *(f"ncu reported an error: {message}" for message in said[:3])),
    )


def refuse_too_many(number: int, what: str, text: str, file: str) -> None:
    """Raise InputError for more lines or launches than ncu prints in a text of that length; each takes memory."""
    always, characters = _MOST[what]
    most = always + len(text) // characters
    if number > most:
        raise InputError(
            f"{file} has {number:,} {what} in {len(text):,} characters, and {most:,} are read",
            "print a part of the report: ncu --import FILE.ncu-rep --launch-count N --page raw --csv",
        )


def _launches(table: PrintedTable) -> Iterator[RecordedLaunch]:
    """Yield the launches of a table, whose device index is still that of CUDA; what is wrong is noted in the table."""
    return _details_launches(table) if table.is_details else _raw_launches(table)


class _Metrics(Struct):
    """The metrics of a launch as they are read, and numbers that mean nothing because their unit was not printed."""

    table: PrintedTable
    row: PrintedRow
    known: dict[str, Metric] = field(default_factory=dict)
    without_unit: dict[str, Metric] = field(default_factory=dict)
    range_s: tuple[float, float] | None = None
    is_unmeasured: bool = False

    def add(self, name: str, cell: str, metric: Metric | None, line: int, *, is_bare: bool) -> None:
        """Add a metric that has a value, unless it is there already, as precise or more."""
        if is_bare and metric is not None and not isinstance(metric.value, str):
            self.without_unit.setdefault(name, metric)
            return
        if name == DURATION:
            self.is_unmeasured |= "nan" in cell
            if _is_impossible(cell, metric):
                self.table.sentences.append(_impossible_text(line, cell))
                return
        if metric is None:
            return
        before = self.known.get(name)
        if is_garbled(metric):
            self.table.broken_lines.append(line)
        elif before is None or (before.digits is not None and (metric.digits is None or metric.digits > before.digits)):
            self.known[name] = metric

    def launch(self) -> RecordedLaunch:
        """Return the launch of these metrics, with its duration in the unit that it can only have."""
        duration = self.without_unit.get(DURATION)
        unit = time_unit(duration.value, self.known) if duration is not None else None
        if duration is not None and unit is not None:
            self.known[DURATION] = Metric(float(duration.value) * ncu_unit(unit)[0], "s", duration.digits)
            self.table.inferred_units.add(unit)
        missing = frozenset(self.without_unit.keys() - self.known.keys())
        self.table.without_unit.update(missing)
        if self.is_unmeasured:
            self.known = _without_zeros(self.known, self.row.line, self.table)
        metrics = DictMetrics(self.known, without_unit=missing)
        return recorded_launch(self.table.launch_cells(self.row), metrics, self.range_s)


def _raw_launches(table: PrintedTable) -> Iterator[RecordedLaunch]:
    """Read one launch a row."""
    for units, rows in _units_and_launches(table):
        columns = tuple(_metric_columns(table, units))
        for row in rows:
            if len(row.cells) != len(table.columns):
                table.broken_lines.append(row.line)
            if len(row.cells) > len(table.columns) or not table.has_launch(table.launch_cells(row)):
                table.broken_lines.append(row.line)
                continue
            yield _raw_metrics(columns, row, table).launch()


def _units_and_launches(table: PrintedTable) -> list[tuple[tuple[str, ...] | None, list[PrintedRow]]]:
    """Return the cells of each row of units with the rows of launches below it, and the first with all above it, too.

    A row of units names no launch. Tables that are put together have one each, and who sorts rows may move them: then
    only a unit that they agree on is known.
    """
    above: list[PrintedRow] = []
    parts: list[tuple[tuple[str, ...], list[PrintedRow]]] = []
    for row in table.rows:
        units = () if table.names_launch(row) else tuple(as_printed("", cell) for cell in row.cells)
        if units and (not parts or any(map(_UNIT.match, units))):
            parts.append((units, [] if parts else above))
        else:
            (parts[-1][1] if parts else above).append(row)
    if not parts:
        return [(None, above)]
    if all(rows for _, rows in parts):
        return [*parts]
    agreed = (cells[0] if len(set(cells)) == 1 else "" for cells in zip(*(units for units, _ in parts), strict=False))
    return [(tuple(agreed), [row for _, rows in parts for row in rows])]


def _metric_columns(table: PrintedTable, units: tuple[str, ...] | None) -> Iterator[MetricColumn]:
    """Yield the columns of metrics; beside those of ncu, a table that was saved again may have any others."""
    has_units = units is not None and any(units)
    for place, name in enumerate(table.columns):
        unit = units[place] if units is not None and place < len(units) else ""
        is_unknown = unit_of(name) is None
        if name in table.launch_places or (is_unknown and "__" not in name and not table.is_original):
            continue
        # A row of units without one for an unknown name: ncu did not know it either, and has not scaled the numbers.
        is_bare = not unit and not (is_unknown and units is not None) and needs_unit(name, has_units=has_units)
        yield MetricColumn(place, name, unit, is_bare=is_bare)


def _raw_metrics(columns: Iterable[MetricColumn], row: PrintedRow, table: PrintedTable) -> _Metrics:
    """Return the metrics of a launch; of columns of one name, the first that has a value."""
    metrics = _Metrics(table, row)
    for column in columns:
        if column.name not in metrics.known and column.place < len(row.cells):
            cell = row.cells[column.place]
            metrics.add(column.name, cell, column.metric(cell), row.line, is_bare=column.is_bare)
    return metrics


def _is_impossible(cell: str, metric: Metric | None) -> bool:
    """Return whether a duration is impossible: negative, infinite, or years."""
    if metric is None or isinstance(metric.value, str):
        return _ENDLESS.fullmatch(cell.strip()) is not None
    return not 0 <= metric.value <= _LONGEST_S


def _impossible_text(line: int, cell: str) -> str:
    return f"the launch in line {line} has an impossible duration, {cell.strip():.40}, which is not used"


def _without_zeros(metrics: dict[str, Metric], line: int, table: PrintedTable) -> dict[str, Metric]:
    """Leave out what ncu 2024.1 prints as 0.00 for NaN: 383 of 598 counters of such a launch in a real H800 report."""
    kept = {name: metric for name, metric in metrics.items() if not (metric.value == 0 and metric.digits == 0)}
    zeros = ": its zeros are left out" if len(kept) < len(metrics) else ", or has failed"
    table.sentences.append(f"the launch in line {line} was not measured (its duration is nan){zeros}")
    return kept


def _details_launches(table: PrintedTable) -> Iterator[RecordedLaunch]:
    """Read each launch from its rows of metrics; those of rules' messages are left out."""
    last_needed = max(table.places[name] for name in ("Kernel Name", "Metric Name", table.value_column))
    launch_places = [*table.launch_places.values()]
    groups: dict[tuple[str, ...], list[PrintedRow]] = {}
    for row in _aligned(table) if table.is_summary else table.rows:
        if last_needed < len(row.cells) <= len(table.columns):
            # An ID is not enough if tables were put together, each with launches from 0 on.
            groups.setdefault(_cells_at(launch_places, row), []).append(row)
        else:
            table.broken_lines.append(row.line)
    has_units = any(table.cell(row, "Metric Unit") for row in table.rows)
    for rows in groups.values():
        if not table.has_launch(table.launch_cells(rows[0])):
            table.broken_lines.extend(row.line for row in rows)
            continue
        for of_launch in _by_launch(rows, table):
            yield _details_metrics(of_launch, table, has_units=has_units).launch()


def _cells_at(places: Iterable[int], row: PrintedRow) -> tuple[str, ...]:
    cells = row.cells
    return tuple([cells[place] for place in places if place < len(cells)])


def _by_launch(rows: list[PrintedRow], table: PrintedTable) -> list[list[PrintedRow]]:
    """Return the rows of each launch, if all columns about launches are alike.

    Launches follow one another if all have the same metrics in the same order. With an ID, rows that only repeat others
    are of the same launch. Other rows are those of one launch, for which ncu may print a label several times: in the
    table of a workload distribution, for the average, the maximum, the minimum and the sum. Without an ID they are left
    out if a metric that is known has several values: then they are of several launches, and mixed.
    """
    named = [row for row in rows if table.cell(row, "Metric Name")]
    places = [table.places[name] for name in _PLACE_OF_METRIC if name in table.places]
    metrics = [(*_cells_at(places, row), printed_unit(table.cell(row, "Metric Unit"))[1]) for row in named]
    distinct, number = len(set(metrics)), len(metrics)
    if distinct == number or not table.delimiter:
        return [rows]
    sizes = (size for size in range(distinct, number + 1) if number % size == 0)
    size = next(size for size in sizes if metrics == metrics[:size] * (number // size))
    values = [(table.cell(row, "Metric Unit"), table.cell(row, table.value_column)) for row in named]
    if "ID" in table.places and values == values[:size] * (number // size):
        return [rows]
    if size == number:
        return _as_one_launch(named, metrics, table)
    return [named[start : start + size] for start in range(0, number, size)]


def _as_one_launch(
    named: Sequence[PrintedRow], metrics: Iterable[tuple[str, ...]], table: PrintedTable
) -> list[list[PrintedRow]]:
    """Return the first row of each metric; if one that is known has other values, too, say so."""
    first: dict[tuple[str, ...], PrintedRow] = {}
    others = []
    for metric, row in zip(metrics, named, strict=True):
        value = table.cell(first.setdefault(metric, row), table.value_column)
        if value != table.cell(row, table.value_column) and is_known(*_label_of(row, table)):
            others.append(table.cell(row, "Metric Name"))
    if others:
        has_id = "ID" in table.places
        done = "the first one is read" if has_id else "its launches are left out, because no column distinguishes them"
        table.sentences.append(f"the kernel in line {named[0].line} has several values of {others[0]}: {done}")
        if not has_id:
            return []
    return [[*first.values()]]


def _aligned(table: PrintedTable) -> Iterator[PrintedRow]:
    """Yield the rows of a summary in their columns.

    ncu 2024.1 starts a raw page of --print-summary per-gpu with attributes of the GPU that have fewer cells, and leaves
    out the cells of a metric without a value on a page of details; what follows comes in the same line.
    """
    if all(table.has_launch(table.launch_cells(row)) for row in table.rows):
        yield from table.rows
        return
    cells = [cell for row in table.rows for cell in row.cells]
    lines = [row.line for row in table.rows for _ in row.cells]
    width = len(table.columns)
    windows = (PrintedRow(line, tuple(cells[at : at + width])) for at, line in enumerate(lines))
    starts = [at for at, row in enumerate(windows) if table.has_launch(table.launch_cells(row))]
    skipped = sum(map(bool, cells[: starts[0]] if starts else cells))
    for at, end in pairwise([*starts, len(cells)]):
        row = PrintedRow(lines[at], tuple(cells[at : min(end, at + width)]))
        skipped += sum(map(bool, cells[at + width : end]))
        if table.cell(row, "Metric Name"):
            yield row
    if skipped:
        table.sentences.append(f"{skipped} cells are left out that ncu has printed in columns of others")


def _details_metrics(rows: Sequence[PrintedRow], table: PrintedTable, *, has_units: bool) -> _Metrics:
    """Return the metrics of a launch."""
    metrics = _Metrics(table, rows[0])
    for row in rows:
        if table.cell(row, "Metric Name"):
            _add_printed(metrics, row, has_units=has_units)
        elif not table.cell(row, table.value_column) and len(row.cells) < len(table.columns):
            table.broken_lines.append(row.line)
    return metrics


def _add_printed(metrics: _Metrics, row: PrintedRow, *, has_units: bool) -> None:
    """Add the metric of a row of a details page."""
    table = metrics.table
    section, label, base, body = _label_of(row, table)
    unit, value = table.cell(row, "Metric Unit"), row.cells[table.places[table.value_column]]
    name = metric_name(section, label, base, body)
    metric = metric_of(value, unit)
    is_bare = unit == "" and (needs_unit(name, has_units=has_units) or depends_on_unit(section, label))
    metrics.add(name, value, metric, row.line, is_bare=is_bare)
    if name == DURATION:
        metrics.range_s = _range_s(table.cell(row, "Minimum"), table.cell(row, "Maximum"), unit)


def _label_of(row: PrintedRow, table: PrintedTable) -> tuple[str, str, str, str]:
    """Return the section, the label, the base unit and the body of the metric of a row."""
    section, body, label = [table.cell(row, name) for name in _PLACE_OF_METRIC]
    base = printed_unit(table.cell(row, "Metric Unit"))[1]
    return section if "Section Name" in table.places else _section_of(label, base), label, base, body


@lru_cache(maxsize=8192)
def _section_of(label: str, unit: str) -> str:
    """Return the section of a metric if the table has none: that of full names, or the only one with the label."""
    return RAW_NAMES_SECTION if _NAME.fullmatch(label) else section_of([(label, unit)]) or ""


def _range_s(least: str, most: str, unit: str) -> tuple[float, float] | None:
    """Return the shortest and longest duration of a summary in seconds; None if they are not there."""
    ends = [metric_of(cell, unit) for cell in (least, most) if unit]
    values = [end.value for end in ends if end is not None and not isinstance(end.value, str)]
    return (values[0], values[1]) if len(values) == 2 else None
