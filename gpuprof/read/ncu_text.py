"""Reads what ncu prints for people: its pages of details and of raw metrics without --csv, in a log or a document.

A launch starts with a line `NAME (16, 2, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0`; until 2021 it was
`NAME, 2021-Mar-22 11:05:15, Context 1, Stream 7`. Below it are sections, each with a table of label, unit and value
whose columns are drawn by dashes, and messages of rules that start with OPT, INF, WRN or ERR. What stands before and
between is the program's, or of whoever wrote the document.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise

from msgspec import Struct, field

from gpuprof.model.recorded import Report
from gpuprof.read.details_labels import RAW_NAMES_SECTION, metric_name
from gpuprof.read.ncu_csv import PrintedRow, PrintedTable, refusal, report_of
from gpuprof.units import ncu_unit

_DIMENSIONS = r"\([\d.,]+, ?[\d.,]+, ?[\d.,]+\)"
_LAUNCH = re.compile(
    rf"(?P<name>.*?) ?(?P<grid>{_DIMENSIONS})x(?P<block>{_DIMENSIONS})"
    r", Context (?P<context>\d+), Stream (?P<stream>\d+)(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>\d+\.\d+))?[\s`]*"
)
_OLD_LAUNCH = re.compile(r"(?P<name>.+), \d{4}-\w{3}-\d{1,2} [\d:]+, Context (?P<context>\d+), Stream (?P<stream>\d+)")
_BEFORE_LINES = re.compile(r"\s*(?:\d{4}-\d\d-\d\dT[\d:.]+Z?\s|[>|#*/]\s*)*\s*")
"""What documents and logs put in front of each line: marks of a quotation or a comment, and the time."""
_PROCESS = re.compile(r"\[(?P<process>\d+)\] (?P<name>.+)@(?P<host>[^\s@]+)")
_SECTION = re.compile(r"Section: (?P<name>\S.*)")
_RULE = re.compile(r"(?P<kind>OPT|INF|WRN|ERR)\s{1,4}(?P<text>\S.*)")
_SPEEDUP = re.compile(r"Est(?:\.|imated) (?P<local>Local )?Speedup: (?P<percent>[\d.,]+) ?%")
_DASHES = re.compile(r"-{3,}(?: -{3,}){2,}")
_RULE_BORDER = re.compile(r"-{3,} -{3,}")
_HEADER = re.compile(r"Metric Name\s+Metric Unit\s+Metric Value\b")
_BODY = re.compile(r"Table Name : (?P<table>\S.*)|(?P<group>\S.*(?:Roofline|Achieved Value))")
_SECTION_OF_TABLE = {
    "GPU Throughput": "GPU Speed Of Light Throughput",
    "Warps Per Scheduler": "Scheduler Statistics",
    "Warp State (All Cycles)": "Warp State Statistics",
}
"""For tables of `--print-details body`, of which someone has kept only some."""
_STACK = re.compile(r"NVTX (?:Push/Pop Stack|Start/End Ranges).*")
_RANGE = re.compile(r"<\d+,(?P<name>.*)>")
_METRIC = re.compile(r"[a-z0-9_]+__[\w.:]+")
_VALUE = re.compile(r"\(!\) \S+|[+-]?\d[\d.,'\u00a0\u2019\u202f ]*|\w+")
_GAP = re.compile(r"\s{2,}|\t")
_COLUMNS = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "thread Domain:Push/Pop_Range", "Section Name", "Body Item Label", "Metric Name", "Metric Unit",
    "Metric Value", "Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup",
)  # fmt: skip


def has_launch(text: str) -> bool:
    """Tell whether a line names a launch as ncu prints it."""
    lines = pairwise(chain([""], text.splitlines()))
    return any(_launch(line, before) is not None for before, line in lines if ", Context " in line)


def read_ncu_text(text: str, file: str, sha256: str) -> Report:
    """Read the launches that the text tells of. Raises InputError where there is none."""
    pages = _Pages()
    for number, (before, line) in enumerate(pairwise(chain([""], text.splitlines())), start=1):
        pages.take(number, line, before)
    if not pages.launches:
        raise refusal(text, file)
    rows = [row for launch in pages.launches for row in launch.rows()]
    table = PrintedTable(_COLUMNS, quoted=False, rows=rows, broken_lines=pages.broken_lines)
    return report_of([table], text, file, sha256, "ncu-text")


class _Rule(Struct):
    """A message of one of NVIDIA's rules: its first line and those that go on below it."""

    line: int
    section: str
    kind: str
    texts: list[str]

    def cells(self) -> dict[str, str]:
        speedup = _SPEEDUP.fullmatch(self.texts[0])
        said = self.texts if speedup is None else self.texts[1:]
        scope = "" if speedup is None else "local" if speedup["local"] else "global"
        return {
            "Section Name": self.section,
            "Rule Type": self.kind,
            "Rule Description": " ".join(said),
            "Estimated Speedup Type": scope,
            "Estimated Speedup": "" if speedup is None else speedup["percent"],
        }


class _Metric(Struct):
    """A row of a table; a long value goes on below it."""

    line: int
    section: str
    body: str
    label: str
    unit: str
    value: str

    def cells(self) -> dict[str, str]:
        return {
            "Section Name": self.section,
            "Body Item Label": self.body,
            "Metric Name": self.label,
            "Metric Unit": self.unit,
            "Metric Value": self.value,
        }


class _Launch(Struct):
    """What is printed of a launch: the cells of its own line, its metrics, and what rules say."""

    line: int
    cells: Mapping[str, str]
    metrics: list[_Metric] = field(default_factory=list)
    rules: list[_Rule] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[PrintedRow]:
        """Yield the rows that a details page has; the first one stands for the launch itself."""
        own = {**self.cells, "thread Domain:Push/Pop_Range": " ".join(self.ranges)}
        metrics = ((metric.line, metric.cells()) for metric in self.metrics)
        rules = ((rule.line, rule.cells()) for rule in self.rules)
        for line, cells in chain([(self.line, {})], metrics, rules):
            every = {**own, **cells}
            yield PrintedRow(line, tuple(every.get(column, "") for column in _COLUMNS))


class _Columns(Struct):
    """Where the dashes above and below a table's header say that its columns are: first and last place of each."""

    places: tuple[tuple[int, int], ...]
    rows: int = 0
    is_foreign: bool = False

    def cells(self, line: str) -> tuple[str, str, str] | None:
        """Return label, unit and value; None for a line that does not stand in the columns."""
        (first, last), (unit, unit_end), (value, value_end) = self.places
        if any(line[edge : edge + 1].strip() for edge in (last, unit_end, value_end)):
            return None
        cells = line[first:last].strip(), line[unit:unit_end].strip(), line[value:value_end].strip()
        return cells if cells[2] or (cells[0] and cells[1]) else None

    def is_full(self, line: str) -> bool:
        """Tell whether the value takes all of its column: what goes on below it was cut inside a word."""
        value, value_end = self.places[2]
        return len(line) >= value_end and not line[value].isspace()


class _Pages:
    """Launches as their lines come."""

    def __init__(self) -> None:
        self.launches: list[_Launch] = []
        self.broken_lines: list[int] = []
        self._process: Mapping[str, str] = {}
        self._section = self._body = self._domain = ""
        self._columns: _Columns | None = None
        self._rule: _Rule | None = None
        self._is_stack = self._is_in_section = self._was_full = False

    def take(self, number: int, line: str, before: str) -> None:
        """Take the next line; `before` is the one above it."""
        bare = _bare(line)
        if ", Context " in line and (launch := _launch(line, before)) is not None:
            self.launches.append(_Launch(number, {**self._process, "ID": str(len(self.launches)), **launch}))
            self._start(RAW_NAMES_SECTION, is_section=False)
        elif (process := _PROCESS.fullmatch(bare)) is not None:
            self._process = {
                "Process ID": process["process"], "Process Name": process["name"], "Host Name": process["host"],
            }  # fmt: skip
        elif self.launches:
            self._take_content(number, line, bare)

    def _start(self, section: str, *, is_section: bool = True) -> None:
        self._section, self._body, self._domain = section, "", ""
        self._is_in_section = is_section
        self._columns = self._rule = None
        self._is_stack = False

    def _take_content(self, number: int, line: str, bare: str) -> None:
        """Take a line below that of a launch."""
        if (section := _SECTION.fullmatch(bare)) is not None:
            self._start(section["name"])
        elif (dashes := _DASHES.search(line)) is not None:
            self._take_dashes(dashes)
        elif _RULE_BORDER.fullmatch(bare) or not bare:
            self._rule = None
        elif (rule := _RULE.fullmatch(bare)) is not None:
            self._columns = None
            self._rule = _Rule(line=number, section=self._section, kind=rule["kind"], texts=[rule["text"]])
            self.launches[-1].rules.append(self._rule)
        elif self._rule is not None:
            self._rule.texts.append(bare)
        elif self._columns is not None:
            self._take_row(number, line, self._columns)
        elif self._is_in_section and (row := self._loose_row(number, bare)) is not None:
            self.launches[-1].metrics.append(row)
        elif (body := _BODY.fullmatch(bare)) is not None:
            self._body = body["table"] or body["group"]
            if not self._is_in_section:
                self._section = _SECTION_OF_TABLE.get(self._body, "")
        else:
            self._take_range(bare)

    def _take_dashes(self, dashes: re.Match[str]) -> None:
        """Open a table's columns, or close them below its rows."""
        self._rule = None
        if self._columns is not None and self._columns.rows:
            self._columns = None
            return
        ends = [match.span() for match in re.finditer("-+", dashes[0])]
        places = tuple((dashes.start() + first, dashes.start() + last) for first, last in ends)
        was_foreign = self._columns is not None and self._columns.is_foreign
        self._columns = _Columns(places, is_foreign=was_foreign or len(places) != 3)

    def _take_row(self, number: int, line: str, columns: _Columns) -> None:
        """Take a line between a table's dashes."""
        if _HEADER.search(line):
            return
        if not columns.rows and re.search(r"\b(?:Metric )?Name\s{2,}", line):
            columns.is_foreign = True
        if columns.is_foreign:
            return
        cells = columns.cells(line) or _by_gaps(line)
        if cells is None:
            if line[columns.places[0][1] :].strip():
                self.broken_lines.append(number)
            return
        columns.rows += 1
        label, unit, value = cells
        metrics = self.launches[-1].metrics
        if not label and not unit and columns.rows > 1 and metrics:
            metrics[-1].value += ("" if self._was_full else " ") + value
        else:
            metrics.append(
                _Metric(line=number, section=self._section, body=self._body, label=label, unit=unit, value=value)
            )
        self._was_full = columns.is_full(line)

    def _loose_row(self, number: int, bare: str) -> _Metric | None:
        """Return the row of a table whose dashes someone left out: only a label that is known tells it from text."""
        label, unit, value = _by_gaps(bare) or ("", "", "")
        if not label or metric_name(self._section, label, ncu_unit(unit)[1]).startswith("details:"):
            return None
        is_name = self._section == RAW_NAMES_SECTION
        if not _VALUE.fullmatch(value) or (is_name and not _METRIC.fullmatch(label)):
            return None
        return _Metric(line=number, section=self._section, body="", label=label, unit=unit, value=value)

    def _take_range(self, bare: str) -> None:
        """Take a line of the NVTX ranges that stand between a launch and its sections."""
        if _STACK.fullmatch(bare):
            self._is_stack, self._domain = True, ""
        elif self._is_stack and (named := _RANGE.fullmatch(bare)) is not None:
            name = f"{self._domain}:{named['name']}".replace('"', "'")
            self.launches[-1].ranges.append(f'"{name}:none:none:none:none:none:none"')
        elif self._is_stack:
            self._domain = bare


def _launch(line: str, before: str) -> dict[str, str] | None:
    """Return the cells of a launch that a line names; a document may have the name on the line above."""
    bare = _bare(line)
    match = _LAUNCH.fullmatch(bare) or _OLD_LAUNCH.fullmatch(bare)
    if match is None:
        return None
    told = {key: value or "" for key, value in match.groupdict().items()}
    name = told["name"].strip() or _bare(before)
    if not name:
        return None
    return {
        "Kernel Name": name,
        "Context": told["context"],
        "Stream": told["stream"],
        "Block Size": told.get("block", ""),
        "Grid Size": told.get("grid", ""),
        "Device": told.get("device", ""),
        "CC": told.get("cc", ""),
    }


def _by_gaps(line: str) -> tuple[str, str, str] | None:
    """Return label, unit and value of a row that was moved out of its columns: two spaces stand between them."""
    parts = _GAP.split(line.strip())
    if len(parts) == 2:
        return parts[0], "", parts[1]
    return (parts[0], parts[1], parts[2]) if len(parts) == 3 else None


def _bare(line: str) -> str:
    """Return a line without what logs and documents put before it, and without the spaces that ncu fills it with."""
    match = _BEFORE_LINES.match(line)
    return (line[match.end() :] if match is not None else line).rstrip()
