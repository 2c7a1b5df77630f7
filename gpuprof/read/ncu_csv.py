"""Reads the CSV that ncu prints: raw pages, details pages, and both mixed with a program's own output."""

from __future__ import annotations

import csv
import math
import re
import shlex
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import (
    DictMetrics,
    Dim3,
    FixedDetails,
    Launch,
    LaunchDetails,
    Metric,
    Report,
    RuleResult,
)
from gpuprof.model.torch_ranges import readable_range
from gpuprof.read.details_labels import metric_name
from gpuprof.units import ncu_unit

_HINT = "export a report with `ncu --import FILE.ncu-rep --page raw --csv > FILE.csv`"
_PRINTED_LAUNCH = ", Context "
_HEADER_START = re.compile(r'"?ID"?,"?Process ID"?(?=,|$)')
_LAUNCH_COLUMNS = frozenset(
    (
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC",
    )
)  # fmt: skip
_RANGE_COLUMNS = ("Push/Pop_Range", "Start/Stop_Range")
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
_SPACES = str.maketrans("", "", " '\u00a0\u2019\u202f")
_WITH_INSTANCES = re.compile(r"(\S+) \(.*\)", re.DOTALL)
_NOT_A_VALUE = frozenset(
    ("", "n/a", "nan", "-nan", "+nan", "nan(ind)", "-nan(ind)", "inf", "-inf", "+inf", "no data")
)  # fmt: skip
_LONGEST_PATH = 300
_WRITTEN = re.compile(r"^==PROF== Report: (\S[^\r\n]*)", re.MULTILINE)
_OTHER_PAGES = (
    (
        "a summary of ncu: least, most and average over launches, without the launches; leave out --print-summary",
        re.compile(r'"Invocations","Section Name"|"Invocations","Metric Name"|, Invocations \d+ *$', re.MULTILINE),
    ),
    (
        "ncu's page of source, without the kernels' numbers",
        re.compile(r'^"(?:Address|Line No)","Source"|^ *(?:# +)?(?:Address|Line No) +Source ', re.MULTILINE),
    ),
    (
        "ncu's page of the session, without kernels",
        re.compile(r'^"Launch Attribute","Value"|^ *Launch Attribute +Value *$', re.MULTILINE),
    ),
    (
        "part of ncu's output: it has sections, and no line that says of which kernel",
        re.compile(r"^.{0,40}Section: (?:GPU Speed Of Light|Launch Statistics|Occupancy|Command line)", re.MULTILINE),
    ),
)
"""What else ncu prints, and how it is told."""
_RANGE = re.compile(r'"([^:"]*):(.*?)(?::[^:"]*){6}"(?=\s|$)', re.DOTALL)
_OPENING = {")": "(", "]": "[", "}": "{"}
# ncu's marks and the names that ncu_report's message types have in `RuleResult.kind`.
_RULE_KINDS = {"OPT": "optimization", "WRN": "warning", "ERR": "error", "INF": "ok", "OK": "ok"}


def has_header(text: str) -> bool:
    """Tell whether a line is the header of one of ncu's tables."""
    return _HEADER_START.search(text) is not None


def read_ncu_csv(text: str, file: str, sha256: str) -> Report:
    """Read the launches of every table in the text. Raises InputError where there is no launch."""
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


def report_of(tables: Iterable[PrintedTable], text: str, file: str, sha256: str, kind: str) -> Report:
    """Make a report of the tables that ncu printed in a text. Raises InputError where they have no launch."""
    tables = [_with_points(table) for table in tables]
    parts = [_details_launches(t) if t.is_details else _raw_launches(t) for t in tables]
    launches, devices = _with_devices([launch for part in parts for launch in part.launches])
    problems = [problem for table, part in zip(tables, parts, strict=True) for problem in table.problems(part.dropped)]
    if not launches:
        raise InputError("; ".join((f"{file} has a header but no kernels", *problems)), hint=_HINT)
    if len({table.is_details for table in tables}) > 1:
        problems.append("raw and details pages are mixed in this file; their launches are listed one after the other")
    said = _ncu_messages(text, "ERROR")
    return Report(
        file=file,
        sha256=sha256,
        kind=kind,
        tool="ncu",
        tool_version=None,
        launches=launches,
        devices=devices,
        sections=tuple(dict.fromkeys(name for part in parts for name in part.sections)),
        warnings=(*problems, *(f"ncu reported an error: {message}" for message in said[:3])),
    )


def _with_points(table: PrintedTable) -> PrintedTable:
    """Return a table with points for decimals: ncu prints numbers as the user's language does."""
    named = ("Metric Value", "Estimated Speedup") if table.is_details else set(table.columns) - _LAUNCH_COLUMNS
    places = frozenset(place for place, column in enumerate(table.columns) if column in named)

    def has(number: re.Pattern[str]) -> bool:
        cells = (row.cells[place] for row in table.rows for place in places if place < len(row.cells))
        return any(number.fullmatch(cell.strip()) for cell in cells)

    if has(_SPACED):
        table = _translated(table, places, _SPACED, _SPACES)

    if has(_ONLY_WITH_POINT) or not has(_ONLY_WITH_COMMA):
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


def _ncu_messages(text: str, level: str) -> list[str]:
    return [match.strip() for match in re.findall(rf"^=={level}==[ \t]*(.*)$", text, re.MULTILINE)]


def refusal(text: str, file: str) -> InputError:
    """Return what is wrong with a text of ncu that has no launch to read, and what to do."""
    errors = _ncu_messages(text, "ERROR")
    if errors:
        return InputError(f"{file} has no kernels, only ncu's error {errors[0]!r}", _HINT)
    if "No kernels were profiled" in text:
        return InputError(f"{file} has no kernels: ncu says 'No kernels were profiled'", _HINT)
    if not text.strip():
        return InputError(f"{file} is empty", _HINT)
    written = _WRITTEN.search(text)
    if written is not None:
        report = written[1][:_LONGEST_PATH].rstrip()
        return InputError(f"{file} has no kernels: ncu wrote them to {report}", f"gpuprof show {shlex.quote(report)}")
    for page, told in _OTHER_PAGES:
        if told.search(text):
            return InputError(f"{file} is {page}", _HINT)
    return InputError(
        f'{file} is not output of ncu: no line starts with "ID","Process ID", and none names a launch as ncu does: '
        "kernel(float *) (16, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0",
        _HINT,
    )


class PrintedRow(Struct, frozen=True):
    """A row of a table, and the line that it starts in."""

    line: int
    cells: tuple[str, ...]


class PrintedTable(Struct):
    """A header and the rows below it, until the next header."""

    columns: tuple[str, ...]
    quoted: bool
    rows: list[PrintedRow] = field(default_factory=list)
    broken_lines: list[int] = field(default_factory=list)
    cut_line: int | None = None
    sentences: list[str] = field(default_factory=list)

    @property
    def is_details(self) -> bool:
        """Tell whether a row is a metric of a launch; else it is a launch."""
        return "Metric Name" in self.columns and "Metric Value" in self.columns

    def problems(self, dropped: _Dropped) -> Iterator[str]:
        """Say what of the table could not be read, in sentences."""
        lines = sorted({*self.broken_lines, *dropped.lines})
        if self.cut_line is not None:
            yield f"the file ends inside the row that starts in line {self.cut_line}: it is truncated"
        if lines:
            rows = "1 row was" if len(lines) == 1 else f"{len(lines)} rows were"
            yield f"{rows} dropped or shortened for missing, extra or garbled cells, the first in line {lines[0]}"
        yield from (*self.sentences, *dropped.sentences)


class _Dropped(Struct):
    lines: list[int] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)


class _TableLaunches(Struct):
    """The launches of one table; their device index is still that of CUDA."""

    launches: list[_Recorded]
    dropped: _Dropped
    sections: tuple[str, ...] = ()


class _Recorded(Struct, frozen=True):
    launch: Launch
    device_key: tuple[str, str, str | None]
    device: RecordedDevice


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
    try:
        csv.field_size_limit(max(len(record), csv.field_size_limit()))
        return next(csv.reader([record]), None)
    except csv.Error:
        return None


def _raw_launches(table: PrintedTable) -> _TableLaunches:
    """Read one launch a row; the first row, without an ID, holds the units."""
    content = _TableLaunches([], _Dropped())
    rows = table.rows
    units: tuple[str, ...] = ()
    if rows and rows[0].cells[0] == "":
        units, rows = rows[0].cells, rows[1:]
    elif rows:
        content.dropped.sentences.append("the raw page has no row of units: values are taken as printed")
    units += ("",) * (len(table.columns) - len(units))
    for row in rows:
        cells = dict(zip(table.columns, row.cells, strict=False))
        if len(row.cells) != len(table.columns):
            content.dropped.lines.append(row.line)
        if not cells.get("ID", "").isdigit() or "Kernel Name" not in cells or len(row.cells) > len(table.columns):
            content.dropped.lines.append(row.line)
            continue
        metrics = _raw_metrics(table.columns, units, row, content.dropped)
        content.launches.append(_recorded(cells, metrics, FixedDetails()))
    return content


def _raw_metrics(columns: Sequence[str], units: Sequence[str], row: PrintedRow, dropped: _Dropped) -> dict[str, Metric]:
    metrics: dict[str, Metric] = {}
    unmeasured = False
    for name, unit, cell in zip(columns, units, row.cells, strict=False):
        if name in _LAUNCH_COLUMNS or _is_range_column(name) or name in metrics:
            continue
        metric = _metric(cell, unit)
        if metric is not None and _is_garbled(metric):
            dropped.lines.append(row.line)
        elif metric is not None:
            metrics[name] = metric
        elif name == "gpu__time_duration.sum" and "nan" in cell:
            unmeasured = True
    return _without_zeros(metrics, row.line, dropped) if unmeasured else metrics


def _without_zeros(metrics: dict[str, Metric], line: int, dropped: _Dropped) -> dict[str, Metric]:
    """Leave out what ncu 2024.1 prints as 0.00 for NaN: 383 of 598 counters of such a launch in a real H800 report."""
    dropped.sentences.append(
        f"the launch in line {line} was not measured (its duration is nan): its zeros are left out"
    )
    return {name: metric for name, metric in metrics.items() if not (metric.value == 0 and metric.digits == 0)}


def _is_garbled(metric: Metric) -> bool:
    """Tell a number that is none any more: ncu gives no unit to words, but to a list of instances in brackets."""
    return isinstance(metric.value, str) and metric.unit != "" and not metric.value.startswith("(")


def _is_range_column(name: str) -> bool:
    return any(part in name for part in _RANGE_COLUMNS)


def _metric(cell: str, unit: str) -> Metric | None:
    """Read a printed value into its base unit; None where the cell says that there is none."""
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
    factor, base = _printed_unit(unit.strip())
    if number is None:
        return Metric(text, base)
    value = number * factor
    return Metric(value, base, _printed_digits(text)) if math.isfinite(value) else None


def _number(text: str) -> float | None:
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


@lru_cache(maxsize=256)
def _printed_unit(unit: str) -> tuple[float, str]:
    """Return the factor and base unit of a printed value.

    A byte prefix below the fraction stroke is what ncu divided by, against what the unit says: ncu 2024.1
    prints the 7949 %/byte of a real report as 7.949 %/Kbyte.
    """
    factor, base = ncu_unit(unit)
    below_factor, below = ncu_unit(unit.partition("/")[2])
    return (factor * below_factor**2 if below == "byte" else factor), base


def _printed_digits(text: str) -> int | None:
    """Return the significant digits kept, 0 for "0.00"; None for a whole number: ncu prints those exactly."""
    mantissa = re.split("[eE]", text)[0]
    if "." not in mantissa:
        return None
    return len(re.sub(r"\D", "", mantissa).lstrip("0"))


def _details_launches(table: PrintedTable) -> _TableLaunches:
    """Read one launch for each ID from its rows of metrics and rules."""
    content = _TableLaunches([], _Dropped(), tuple(_sections(table)))
    rows: dict[tuple[str, str], list[PrintedRow]] = {}
    rule_column = "Rule Name" if "Rule Name" in table.columns else "Rule Description"
    last_needed = max(table.columns.index(name) for name in ("Kernel Name", "Metric Name", "Metric Value"))
    for row in table.rows:
        if not last_needed < len(row.cells) <= len(table.columns) or not row.cells[0].isdigit():
            content.dropped.lines.append(row.line)
            continue
        rows.setdefault((row.cells[0], row.cells[1]), []).append(row)
    for of_launch in rows.values():
        cells = dict(zip(table.columns, of_launch[0].cells, strict=False))
        metrics: dict[str, Metric] = {}
        rules: list[RuleResult] = []
        unmeasured = False
        for row in of_launch:
            values = dict(zip(table.columns, row.cells, strict=False))
            if values["Metric Name"]:
                name = _add_metric(metrics, values, row.line, content.dropped)
                unmeasured |= name == "gpu__time_duration.sum" and "nan" in values["Metric Value"]
            elif values.get(rule_column) and "Rule Description" in values:
                rules.append(_rule(values))
            if not values["Metric Name"] and len(row.cells) < len(table.columns):
                content.dropped.lines.append(row.line)
        if unmeasured:
            metrics = _without_zeros(metrics, of_launch[0].line, content.dropped)
        content.launches.append(_recorded(cells, metrics, FixedDetails(tuple(rules))))
    return content


def _sections(table: PrintedTable) -> Iterator[str]:
    """Yield the names of the sections that have metrics."""
    if "Section Name" not in table.columns:
        return
    section, name = table.columns.index("Section Name"), table.columns.index("Metric Name")
    for row in table.rows:
        if len(row.cells) > max(section, name) and row.cells[name]:
            yield row.cells[section]


def _add_metric(metrics: dict[str, Metric], values: Mapping[str, str], line: int, dropped: _Dropped) -> str:
    """Add a metric that has a value, unless it is there already, as precise or more; return its name."""
    metric = _metric(values["Metric Value"], values.get("Metric Unit", ""))
    section, body = values.get("Section Name", ""), values.get("Body Item Label", "")
    unit = metric.unit if metric is not None else _printed_unit(values.get("Metric Unit", "").strip())[1]
    name = metric_name(section, values["Metric Name"], unit, body)
    if metric is None:
        return name
    if _is_garbled(metric):
        dropped.lines.append(line)
        return name
    before = metrics.get(name)
    if before is None or (before.digits is not None and (metric.digits is None or metric.digits > before.digits)):
        metrics[name] = metric
    return name


def _rule(values: Mapping[str, str]) -> RuleResult:
    speedup = _metric(values.get("Estimated Speedup", ""), "%")
    return RuleResult(
        rule=values.get("Rule Name", ""),
        section=values.get("Section Name", ""),
        kind=_RULE_KINDS.get(values.get("Rule Type", ""), "none"),
        title="",
        message=values["Rule Description"],
        speedup_percent=speedup.value if speedup is not None and not isinstance(speedup.value, str) else None,
        speedup_scope=values.get("Estimated Speedup Type") or None,
    )


def _recorded(cells: Mapping[str, str], metrics: Mapping[str, Metric], details: LaunchDetails) -> _Recorded:
    """Make the launch and the device of a row's launch columns and metrics."""
    table = DictMetrics(metrics)
    device = _device(cells.get("CC", ""), table)
    demangled = cells["Kernel Name"]
    launch = Launch(
        name=short_name(demangled),
        demangled=demangled,
        device=0,
        process=_integer(cells.get("Process ID", "")),
        process_name=cells.get("Process Name") or None,
        context=_integer(cells.get("Context", "")),
        stream=_integer(cells.get("Stream", "")),
        grid=_dimensions(cells.get("Grid Size", ""), "grid", table),
        block=_dimensions(cells.get("Block Size", ""), "block", table),
        ranges=tuple(
            name for column, cell in cells.items() if _is_range_column(column) for name in _ranges(column, cell)
        ),
        metrics=table,
        details=details,
    )
    return _Recorded(launch, (cells.get("Device", ""), cells.get("CC", ""), device.name), device)


def _integer(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,20}", text.strip()) else None


def _dimensions(cell: str, which: str, metrics: DictMetrics) -> Dim3 | None:
    """Return the sizes of "(256, 1, 1)" or of launch__block_dim_*; a product alone has no dimensions."""
    texts = re.findall(r"[0-9]{1,10}", cell)
    sizes: list[float | None] = [float(text) for text in texts]
    if len(sizes) != 3:
        sizes = [metrics.number(f"launch__{which}_dim_{axis}") for axis in "xyz"]
    x, y, z = sizes
    return (int(x), int(y), int(z)) if x and y and z else None


def _device(compute_capability: str, metrics: DictMetrics) -> RecordedDevice:
    """Describe the GPU by its attributes on a raw page, or by what a details page prints."""

    def attribute(name: str) -> float | None:
        return metrics.number(f"device__attribute_{name}") or None

    def whole(name: str) -> int | None:
        value = attribute(name)
        return round(value) if value is not None else None

    major, minor = (
        attribute("compute_capability_major"),
        metrics.number("device__attribute_compute_capability_minor"),
    )
    recorded_cc = f"{major:.0f}.{minor:.0f}" if major is not None and minor is not None else None
    name, pci = metrics.get("device__attribute_display_name"), whole("gpu_pci_device_id")
    clock_khz, memory_clock_khz = attribute("clock_rate"), attribute("memory_clock_rate")
    launched_sms = metrics.number("launch__sm_count")
    return RecordedDevice(
        name=name.value if name is not None and isinstance(name.value, str) else None,
        compute_capability=compute_capability or recorded_cc,
        pci_id=f"{pci & 0xFFFF:04x}:{pci >> 16:04x}" if pci is not None else None,
        sm_count=whole("multiprocessor_count") or (round(launched_sms) if launched_sms else None),
        max_sm_clock_hz=clock_khz * 1e3 if clock_khz is not None else None,
        max_memory_clock_hz=memory_clock_khz * 1e3 if memory_clock_khz is not None else None,
        memory_bus_bits=whole("global_memory_bus_width"),
        memory_bytes=whole("total_memory"),
        l2_bytes=whole("l2_cache_size"),
    )


def short_name(demangled: str) -> str:
    """Return a function's base name: no return type, scope, template arguments or parameters."""
    text = demangled.replace("(anonymous namespace)", "_anonymous_").replace("<unnamed>", "_unnamed_")
    text = re.sub(r"\boperator ?\(\)", "operator_call", text)
    tokens = _outside_brackets(text).split()
    name = tokens[-1].rpartition("::")[2].lstrip("*&") if tokens else ""
    return name.replace("operator_call", "operator()") or demangled


def _outside_brackets(text: str) -> str:
    """Return what stands in no bracket, up to the parameter list."""
    kept: list[str] = []
    open_brackets: list[str] = []
    for before, char in zip(" " + text, text, strict=False):
        if char == "(" and not open_brackets:
            break
        if char in "<([{":
            open_brackets.append(char)
        elif char == ">" and open_brackets:
            if open_brackets[-1] == "<" and before != "-":
                open_brackets.pop()
        elif char in _OPENING and _OPENING[char] in open_brackets:
            while open_brackets.pop() != _OPENING[char]:
                pass
        elif not open_brackets:
            kept.append(char)
    return "".join(kept)


def _ranges(column: str, cell: str) -> tuple[str, ...]:
    """Return the range names of a cell such as `THREAD  "DOMAIN:NAME:none:none:none:none:none:none" `.

    A name may hold colons; the six fields behind it do not. The default domain is left out, another is kept.
    """
    names = []
    for match in _RANGE.finditer(cell):
        domain, name = match[1], match[2]
        if "Start/Stop" in column:
            domain, _, name = name.partition(":")
        name = readable_range(name)
        names.append(name if domain in {"", "<default domain>"} else f"{domain}:{name}")
    return tuple(names)


def _with_devices(recorded: Sequence[_Recorded]) -> tuple[tuple[Launch, ...], tuple[RecordedDevice, ...]]:
    """List each GPU once and give the launches its place in the list."""
    places: dict[tuple[str, str, str | None], int] = {}
    devices: list[RecordedDevice] = []
    launches: list[Launch] = []
    for entry in recorded:
        place = places.setdefault(entry.device_key, len(devices))
        if place == len(devices):
            devices.append(entry.device)
        elif devices[place].sm_count is None and entry.device.sm_count is not None:
            devices[place] = replace(devices[place], sm_count=entry.device.sm_count)
        launches.append(replace(entry.launch, device=place))
    return tuple(launches), tuple(devices)
