"""Makes a report of the tables that ncu printed: pages with a launch a row, and pages with a metric a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import compress

from gpuprof.errors import InputError
from gpuprof.model.recorded import Metric, Report, names_of
from gpuprof.read.details_labels import metric_name
from gpuprof.read.printed_launch import RecordedLaunch, recorded_launch, with_devices
from gpuprof.read.printed_numbers import MetricColumn, is_garbled, metric_of, printed_unit, with_points
from gpuprof.read.printed_refusal import HINT, ncu_messages
from gpuprof.read.printed_table import LAUNCH_COLUMNS, PrintedRow, PrintedTable, is_range_column

_DURATION = "gpu__time_duration.sum"
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
        names=names_of(launches),
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


def _raw_launches(table: PrintedTable) -> Iterator[RecordedLaunch]:
    """Read one launch a row; the first row, without an ID, holds the units."""
    rows = table.rows
    units: tuple[str, ...] = ()
    if rows and rows[0].cells[0] == "":
        units, rows = rows[0].cells, rows[1:]
    elif rows:
        table.sentences.append("the raw page has no row of units: values are taken as printed")
    units += ("",) * (len(table.columns) - len(units))
    is_of_launch = [name in LAUNCH_COLUMNS or is_range_column(name) for name in table.columns]
    is_metric = [not told for told in is_of_launch]
    named = list(compress(table.columns, is_of_launch))
    columns = [MetricColumn(name, unit) for name, unit in compress(zip(table.columns, units, strict=False), is_metric)]
    for row in rows:
        cells = dict(zip(named, compress(row.cells, is_of_launch), strict=False))
        if len(row.cells) != len(table.columns):
            table.broken_lines.append(row.line)
        if not cells.get("ID", "").isdigit() or "Kernel Name" not in cells or len(row.cells) > len(table.columns):
            table.broken_lines.append(row.line)
            continue
        metrics = _raw_metrics(zip(columns, compress(row.cells, is_metric), strict=False), row.line, table)
        yield recorded_launch(cells, metrics)


def _raw_metrics(cells: Iterable[tuple[MetricColumn, str]], line: int, table: PrintedTable) -> dict[str, Metric]:
    """Return the metrics of a launch; of columns of one name, the first that has a value."""
    metrics: dict[str, Metric] = {}
    unmeasured = False
    for column, cell in cells:
        name = column.name
        if name in metrics:
            continue
        metric = column.metric(cell)
        if name == _DURATION and _is_impossible(cell, metric):
            table.sentences.append(_impossible_text(line, cell))
        elif metric is not None and is_garbled(metric):
            table.broken_lines.append(line)
        elif metric is not None:
            metrics[name] = metric
        elif name == _DURATION and "nan" in cell:
            unmeasured = True
    return _without_zeros(metrics, line, table) if unmeasured else metrics


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
    """Read one launch for each ID from its rows of metrics; those of rules' messages are left out."""
    rows: dict[tuple[str, str], list[PrintedRow]] = {}
    last_needed = max(table.columns.index(name) for name in ("Kernel Name", "Metric Name", "Metric Value"))
    for row in table.rows:
        if not last_needed < len(row.cells) <= len(table.columns) or not row.cells[0].isdigit():
            table.broken_lines.append(row.line)
            continue
        rows.setdefault((row.cells[0], row.cells[1]), []).append(row)
    for of_launch in rows.values():
        cells = dict(zip(table.columns, of_launch[0].cells, strict=False))
        metrics: dict[str, Metric] = {}
        unmeasured = False
        for row in of_launch:
            values = dict(zip(table.columns, row.cells, strict=False))
            if values["Metric Name"]:
                name = _add_metric(metrics, values, row.line, table)
                unmeasured |= name == _DURATION and "nan" in values["Metric Value"]
            elif len(row.cells) < len(table.columns):
                table.broken_lines.append(row.line)
        if unmeasured:
            metrics = _without_zeros(metrics, of_launch[0].line, table)
        yield recorded_launch(cells, metrics)


def _add_metric(metrics: dict[str, Metric], values: Mapping[str, str], line: int, table: PrintedTable) -> str:
    """Add a metric that has a value, unless it is there already, as precise or more; return its name."""
    metric = metric_of(values["Metric Value"], values.get("Metric Unit", ""))
    section, body = values.get("Section Name", ""), values.get("Body Item Label", "")
    unit = metric.unit if metric is not None else printed_unit(values.get("Metric Unit", "").strip())[1]
    name = metric_name(section, values["Metric Name"], unit, body)
    if name == _DURATION and _is_impossible(values["Metric Value"], metric):
        table.sentences.append(_impossible_text(line, values["Metric Value"]))
        return name
    if metric is None:
        return name
    if is_garbled(metric):
        table.broken_lines.append(line)
        return name
    before = metrics.get(name)
    if before is None or (before.digits is not None and (metric.digits is None or metric.digits > before.digits)):
        metrics[name] = metric
    return name
