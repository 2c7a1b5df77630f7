"""Reads what ncu prints for people: its pages of details and of raw metrics without --csv, in a log or a document.

A launch starts with a line `NAME (16, 2, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0`; until 2021 it was
`NAME, 2021-Mar-22 11:05:15, Context 1, Stream 7`, and a graph that was profiled as one is `graph, Context 1, Device 0,
CC 9.0`. Below it are sections, each with a table of label, unit and value whose columns are drawn by dashes, and
messages of rules that start with OPT, INF, WRN or ERR. What stands before and between is the program's, or of whoever
wrote the document.

Three things that ncu never does tell damage: it prints no section of a launch twice, opens no second table in a section
without a name, and ends every value where the dashes end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise

from msgspec import Struct, field

from gpuprof.model.recorded import Report
from gpuprof.read.details_labels import RAW_NAMES_SECTION, metric_name
from gpuprof.read.printed_pages import report_of
from gpuprof.read.printed_refusal import refusal
from gpuprof.read.printed_table import PrintedRow, PrintedTable
from gpuprof.units import ncu_unit

_SIZE = r"(?:\d{1,3}(?:[.,]\d{3}){1,3}|\d{1,10})"
_DIMENSIONS = rf"\({_SIZE}, ?{_SIZE}, ?{_SIZE}\)"
_LAUNCH = re.compile(
    rf"(?P<name>.*?)(?: ?(?P<grid>{_DIMENSIONS})x(?P<block>{_DIMENSIONS})|(?P<date>, \d{{4}}-\w{{3}}-\d\d? [\d:]+))?"
    r", Context (?P<context>\d+)(?:, Stream (?P<stream>\d+))?(?:, Device (?P<device>\d+))?(?:, CC (?P<cc>\d+\.\d+))?`*"
)
_BEFORE_LINES = re.compile(r"\s*(?:\d{4}-\d\d-\d\dT[\d:.]+Z?\s|[>|#*/]\s*)*\s*")
"""What documents and logs put in front of each line: marks of a quotation or a comment, and the time."""
_PROCESS = re.compile(r"\[(?P<process>\d+)\] (?P<name>.+)@(?P<host>[^\s@]+)")
_SECTION = re.compile(r"Section: (?P<name>\S.*)")
_KINDS = ("OPT", "INF", "WRN", "ERR")
_RULE = re.compile(r"(?P<kind>\w{3})\s{1,4}(?P<text>\S.*)")
_SPEEDUP = re.compile(r"Est(?:\.|imated) (?P<local>Local )?Speedup: (?P<percent>[\d.,]+) ?%")
_DASHES = re.compile(r"-{3,}(?: -{3,}){2,}")
_COLOURS = re.compile(r"\x1b\[[\d;]*[A-Za-z]")
_RULE_BORDER = re.compile(r"-{3,} -{3,}")
_HEADER = re.compile(r"Metric Name\s+Metric Unit\s+Metric Value\b")
_BODY = re.compile(r"Table Name : (?P<table>\S.*)|(?P<group>\S.*(?:Roofline|Achieved Value)(?: \(.*\))?)")
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
_OF_LAUNCH = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "thread Domain:Push/Pop_Range",
)  # fmt: skip
_OF_METRIC = ("Section Name", "Body Item Label", "Metric Name", "Metric Unit", "Metric Value")
_OF_RULE = ("Rule Type", "Rule Description", "Estimated Speedup Type", "Estimated Speedup")


def has_launch(text: str) -> bool:
    """Tell whether a line names a launch as ncu prints it."""
    if ", Context " not in text:
        return False
    return any(_launch(line, before) is not None for before, line in _lines(text) if ", Context " in line)


def read_ncu_text(text: str, file: str, sha256: str) -> Report:
    """Read the launches that the text tells of. Raises InputError where there is none."""
    pages = _Pages()
    for number, (before, line) in enumerate(_lines(text), start=1):
        pages.take(number, line, before)
    if not pages.launches:
        raise refusal(text, file)
    problems = list(pages.problems(is_whole=text.endswith(("\n", "\r"))))
    rows = [row for launch in pages.launches for row in launch.rows()]
    table = PrintedTable(
        (*_OF_LAUNCH, *_OF_METRIC, *_OF_RULE),
        quoted=False,
        rows=rows,
        broken_lines=pages.broken_lines,
        sentences=problems,
    )
    return report_of([table], text, file, sha256, "ncu-text")


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield every line behind the one above it, without the colours that logs have."""
    return pairwise(chain([""], (_COLOURS.sub("", text) if "\x1b" in text else text).splitlines()))


class _Rule(Struct):
    """A message of one of NVIDIA's rules: its first line and those that go on below it."""

    line: int
    section: str
    kind: str
    texts: list[str]

    def cells(self) -> tuple[str, ...]:
        speedup = _SPEEDUP.fullmatch(self.texts[0])
        if speedup is None:
            return self.section, "", "", "", "", self.kind, " ".join(self.texts), "", ""
        scope = "local" if speedup["local"] else "global"
        return self.section, "", "", "", "", self.kind, " ".join(self.texts[1:]), scope, speedup["percent"]


class _Metric(Struct):
    """A row of a table; a long value goes on below it."""

    line: int
    section: str
    body: str
    label: str
    unit: str
    values: list[str]

    def cells(self) -> tuple[str, ...]:
        return self.section, self.body, self.label, self.unit, "".join(self.values), "", "", "", ""


class _Launch(Struct):
    """What is printed of a launch: the cells of its own line, its metrics, and what rules say."""

    line: int
    cells: Mapping[str, str]
    metrics: list[_Metric] = field(default_factory=list)
    rules: list[_Rule] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    sections: set[str] = field(default_factory=set)

    def rows(self) -> Iterator[PrintedRow]:
        """Yield the rows that a details page has; the first one stands for the launch itself."""
        cells = {**self.cells, "thread Domain:Push/Pop_Range": " ".join(self.ranges)}
        own = tuple(cells.get(column, "") for column in _OF_LAUNCH)
        yield PrintedRow(self.line, own + ("",) * len(_OF_METRIC + _OF_RULE))
        yield from (PrintedRow(row.line, own + row.cells()) for row in chain[_Metric | _Rule](self.metrics, self.rules))


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

    def has_edge(self, line: str) -> bool:
        """Tell whether a line has a value that ends where its column does, as ncu prints every one, or has none."""
        value, value_end = self.places[2]
        end = line[value_end - 1 : value_end + 1]
        return (end != "" and not end[0].isspace() and not end[1:].strip()) or not line[value:].strip()

    def is_full(self, line: str) -> bool:
        """Tell whether the value takes all of its column: what goes on below it was cut inside a word."""
        value, value_end = self.places[2]
        return len(line) >= value_end and not line[value].isspace()


class _Pages:
    """Launches as their lines come."""

    def __init__(self) -> None:
        self.launches: list[_Launch] = []
        self.broken_lines: list[int] = []
        self._moved: list[_Metric] = []
        self._lost_lines: list[int] = []
        self._process: Mapping[str, str] = {}
        self._section = self._body = self._domain = ""
        self._columns: _Columns | None = None
        self._rule: _Rule | None = None
        self._is_stack = self._is_in_section = self._was_full = self._is_lost = self._has_table = False
        self._text_place = self._line = 0

    def take(self, number: int, line: str, before: str) -> None:
        """Take the next line; `before` is the one above it."""
        self._line = number
        if ", Context " in line and (launch := _launch(line, before)) is not None:
            self.launches.append(_Launch(number, {**self._process, "ID": str(len(self.launches)), **launch}))
            self._start(RAW_NAMES_SECTION, is_section=False)
            if launch["Stream"] and launch["CC"] and not launch["Grid Size"]:
                self.broken_lines.append(number)
            return
        bare = _bare(line)
        if bare.startswith("[") and (process := _PROCESS.fullmatch(bare)) is not None:
            self._process = {
                "Process ID": process["process"], "Process Name": process["name"], "Host Name": process["host"],
            }  # fmt: skip
        elif self.launches:
            self._take_content(line, bare)

    def problems(self, *, is_whole: bool) -> Iterator[str]:
        """Say what looks damaged, in sentences, once all lines are taken; `is_whole` if the last one has its end."""
        last = self._moved[-1] if self._moved else None
        if last is not None and last.line == self._line and not is_whole:
            self._moved.pop()
            self.launches[-1].metrics.remove(last)
            yield f"the file ends inside the row in line {last.line}: it is truncated"
        elif self._is_in_section and self._columns is not None and self._columns.rows:
            yield "the file ends inside a table: it is truncated"
        if self._lost_lines:
            rows = "1 row is" if len(self._lost_lines) == 1 else f"{len(self._lost_lines)} rows are"
            yield f"{rows} left out from line {self._lost_lines[0]} on: the line of their launch or section is missing"
        if self._moved:
            rows = "1 row does" if len(self._moved) == 1 else f"{len(self._moved)} rows do"
            yield (
                f"{rows} not end where the table does, the first in line {self._moved[0].line}: "
                "digits may be missing or added"
            )

    def _start(self, section: str, *, is_section: bool = True) -> None:
        self._section, self._body, self._domain = section, "", ""
        self._is_in_section = is_section
        self._columns = self._rule = None
        self._is_stack = self._has_table = False
        sections = self.launches[-1].sections
        self._is_lost = is_section and section in sections
        if is_section:
            sections.add(section)

    def _take_content(self, line: str, bare: str) -> None:
        """Take a line below that of a launch."""
        if bare.startswith("Section:") and (section := _SECTION.fullmatch(bare)) is not None:
            self._start(section["name"])
            self._text_place = line.index(bare) + len("OPT   ")
        elif bare.startswith("---") and _DASHES.fullmatch(bare) is not None:
            self._take_dashes(bare, line.index(bare))
        elif not bare or _RULE_BORDER.fullmatch(bare):
            self._rule = None
        elif bare.startswith("```"):
            self._columns = self._rule = None
            self._is_in_section = False
        elif bare[:3] in _KINDS and (rule := _RULE.fullmatch(bare)) is not None:
            self._columns = None
            self._take_rule(rule["kind"], rule["text"])
        elif self._rule is not None:
            self._rule.texts.append(bare)
        elif self._columns is not None:
            self._take_row(line, self._columns)
        else:
            self._take_loose(line, bare)

    def _take_loose(self, line: str, bare: str) -> None:
        """Take a line that is in no table and goes on with no rule."""
        if self._is_in_section and (row := self._loose_row(bare)) is not None:
            self._add(row)
        elif (body := _BODY.fullmatch(bare)) is not None:
            self._body = body["table"] or body["group"]
            if not self._is_in_section:
                self._section = _SECTION_OF_TABLE.get(self._body, "")
        elif self._is_in_section and line.find(bare) == self._text_place:
            self._take_rule("", bare)
        elif "Section: " in bare:
            self.broken_lines.append(self._line)
        else:
            self._take_range(bare)

    def _take_rule(self, kind: str, text: str) -> None:
        """Take the first line of what a rule says; one without a kind is told by its place alone."""
        self._rule = _Rule(line=self._line, section=self._section, kind=kind, texts=[text])
        if self._is_lost:
            self._lost_lines.append(self._line)
        else:
            self.launches[-1].rules.append(self._rule)

    def _take_dashes(self, dashes: str, at: int) -> None:
        """Open a table's columns, or close them below its rows."""
        self._rule = None
        if self._columns is not None and self._columns.rows:
            self._columns = None
            return
        if self._columns is None and not self._body:
            self._is_lost |= self._has_table
        places = tuple((at + match.start(), at + match.end()) for match in re.finditer("-+", dashes))
        was_foreign = self._columns is not None and self._columns.is_foreign
        self._columns = _Columns(places, is_foreign=was_foreign or len(places) != 3)

    def _take_row(self, line: str, columns: _Columns) -> None:
        """Take a line between a table's dashes."""
        if "Metric Name" in line and _HEADER.search(line):
            return
        if not columns.rows and re.search(r"\b(?:Metric )?Name\s{2,}", line):
            columns.is_foreign = True
        if columns.is_foreign:
            return
        in_place = columns.cells(line) if columns.has_edge(line) else None
        cells = in_place or _by_gaps(line) or columns.cells(line)
        if cells is None or "---" in line or any(map(_GAP.search, cells)):
            if line[columns.places[0][1] :].strip():
                self.broken_lines.append(self._line)
            return
        label, unit, value = cells
        if in_place is None and self._section == RAW_NAMES_SECTION and " " in label:
            return
        columns.rows += 1
        self._has_table |= not self._body
        metrics = self.launches[-1].metrics
        if not label and not unit and columns.rows > 1 and metrics:
            if not self._is_lost:
                metrics[-1].values += ("" if self._was_full else " ", value)
        else:
            row = self._metric(label, unit, value)
            self._add(row)
            if in_place is None and not self._is_lost:
                self._moved.append(row)
        self._was_full = columns.is_full(line)

    def _add(self, row: _Metric) -> None:
        if self._is_lost:
            self._lost_lines.append(self._line)
        else:
            self.launches[-1].metrics.append(row)

    def _metric(self, label: str, unit: str, value: str) -> _Metric:
        return _Metric(line=self._line, section=self._section, body=self._body, label=label, unit=unit, values=[value])

    def _loose_row(self, bare: str) -> _Metric | None:
        """Return the row of a table whose dashes someone left out: only a label that is known tells it from text."""
        label, unit, value = _by_gaps(bare) or ("", "", "")
        if not label or metric_name(self._section, label, ncu_unit(unit)[1]).startswith("details:"):
            return None
        is_name = self._section == RAW_NAMES_SECTION
        if not _VALUE.fullmatch(value) or (is_name and not _METRIC.fullmatch(label)):
            return None
        return self._metric(label, unit, value)

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
    """Return the cells of a launch that a line names; a document may have the name on the line above.

    A kernel has a size or a date, a graph has neither and no stream; with a stream alone, the size is damaged.
    """
    match = _LAUNCH.fullmatch(_bare(line))
    if match is None:
        return None
    told = {key: value or "" for key, value in match.groupdict().items()}
    is_kernel = bool(told["stream"] and (told["grid"] or told["date"]))
    if not is_kernel and not (told["device"] and told["cc"]):
        return None
    name = told["name"].strip() or (_bare(before) if is_kernel else "")
    if not name:
        return None
    return {
        "Kernel Name": name,
        "Context": told["context"],
        "Stream": told["stream"],
        "Block Size": told["block"],
        "Grid Size": told["grid"],
        "Device": told["device"],
        "CC": told["cc"],
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
