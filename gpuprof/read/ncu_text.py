"""Reads what ncu prints for people: its pages of details and of raw metrics without --csv, in a log or a document.

A launch starts with a line `NAME (16, 2, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0`; until 2021 it was
`NAME, 2021-Mar-22 11:05:15, Context 1, Stream 7`, and a graph that was profiled as one is `graph, Context 1, Device 0,
CC 9.0`. The launches of a kernel in a summary are `NAME (16, 2, 1)x(256, 1, 1), Device 0, CC 9.0, Invocations 7`, with
their GPU or NVTX range on lines above if there is a summary for each.

Below such a line are sections, each with a table of label, unit and value (of minimum, maximum and average in a
summary) whose columns are drawn by dashes, and messages of rules that start with OPT, INF, WRN or ERR. Lines before and
between are the program's, or of whoever wrote the document.

Sections before any such line are a launch whose kernel has no name here, and one that comes again begins the next. So
does a table without its section's line that has a label again.

Three things that ncu never does tell damage: it prints no section of a launch twice, opens no second table in a section
without a name, and ends every value where the dashes end. Such a second table is read if its labels say what it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from gpuprof.model.recorded import Report
from gpuprof.read.details_labels import RAW_NAMES_SECTION, section_of
from gpuprof.read.printed_lines import bare_line, launch_in, lines_of
from gpuprof.read.printed_pages import refuse_too_many, report_of
from gpuprof.read.printed_refusal import other_page, refusal
from gpuprof.read.printed_sections import COLUMNS, TextLaunch, TextMetric
from gpuprof.read.printed_table import PrintedTable
from gpuprof.units import ncu_unit

_PROCESS = re.compile(r"\[(?P<process>\d+)\] (?P<name>.+)@(?P<host>[^\s@]+)")
_SECTION = re.compile(r"Section: (?P<name>\S.*)")
_RULE = re.compile(r"(?:OPT|INF|WRN|ERR)\s{1,4}\S.*")
_DASHES = re.compile(r"-{3,}(?: -{3,}){2,}")
_RULE_BORDER = re.compile(r"-{3,} -{3,}")
_DEVICE = re.compile(r"Device (?P<device>\d+), CC (?P<cc>\d+\.\d+)")
_STATE = "== NVTX State =="
_NOTE = "Note: The shown averages are"
"""How what ncu writes below a summary starts."""
_DEFAULT_DOMAIN = "<default domain>"
_HEADER = re.compile(r"Metric Name\s+Metric Unit\s+(?:Metric Value|Minimum\s+Maximum\s+Average)\b")
_GROUP = r".*(?:Roofline|Achieved Value)"
_BODY = re.compile(rf"Table Name : (?P<table>\S.*)|(?P<group>\S(?:{_GROUP}|(?=.*\)\Z){_GROUP} \(.*))")
_SECTION_OF_TABLE = {
    "GPU Throughput": "GPU Speed Of Light Throughput",
    "Warps Per Scheduler": "Scheduler Statistics",
    "Warp State (All Cycles)": "Warp State Statistics",
}
"""For tables of `--print-details body`, of which someone has kept only some."""
_OF_LAUNCH, _OF_SUMMARY = 3, 5
"""Columns of tables: of a launch, and with minimum, maximum and average of a summary."""
_STACK = re.compile(r"NVTX (?:Push/Pop Stack|Start/End Ranges).*")
_RANGE = re.compile(r"<(?:\d+,)?(?P<name>.*)>")
_NUMBER = re.compile(r"[+-]?\d[\d.,'\u00a0\u2019\u202f ]*")
_VALUE = re.compile(rf"\(!\) \S+|{_NUMBER.pattern}|\w+")
_UNIT_BEHIND = re.compile(rf"(?P<value>{_NUMBER.pattern})(?<= )(?P<unit>[^\W\d].*|%)")
"""A value with its unit behind it, as people write it."""
_GAP = re.compile(r"\s{2,}|\t")
_REMARK = re.compile(r"(?<=\s)(?:<-|\u2190|#|//).*")
"""What someone has written behind a row."""
_CAPABILITY = re.compile(r"\b(?:CC|compute capability)[ :=]{1,3}(\d{1,2}\.\d)\b", re.IGNORECASE)


def has_launch(text: str) -> bool:
    """Tell whether a line names a launch as ncu prints it, or sections are there without such a line."""
    if "Context " in text and any(launch_in(line, before) is not None for _, before, line in lines_of(text)):
        return True
    return ("Section: " in text or _HEADER.search(text) is not None) and bool(_pages_of(text).launches)


def read_ncu_text(text: str, file: str, sha256: str) -> Report:
    """Read the launches that the text tells of. Raises InputError where there is none."""
    refuse_too_many(text.count("\n"), "lines", text, file)
    pages = _pages_of(text)
    launches = pages.launches
    problems = [*pages.problems(is_whole=text.endswith(("\n", "\r")))]
    if not launches:
        raise refusal(text, file)
    table = PrintedTable(
        COLUMNS,
        is_original=True,
        delimiter="",
        sentences=[*_tell_unnamed(launches, text), *problems],
        rows=[row for launch in launches for row in launch.rows()],
        broken_lines=[line for launch in launches for line in launch.broken_lines],
    )
    return report_of([table], text, file, sha256, "ncu-text")


def _pages_of(text: str) -> _Pages:
    pages = _Pages(takes_unnamed=other_page(text) is None)
    for number, before, line in lines_of(text):
        pages.take(number, line, before)
    pages.close()
    return pages


def _tell_unnamed(launches: Sequence[TextLaunch], text: str) -> Iterator[str]:
    """Say whose line is missing, and number those without a name: no two are known to be of one kernel.

    The only compute capability that all of the text tells of is that of their GPU.
    """
    unnamed = [launch for launch in launches if not launch.is_named]
    if not unnamed:
        return
    capabilities = set(_CAPABILITY.findall(text))
    capability = capabilities.pop() if len(capabilities) == 1 else ""
    for number, launch in enumerate(unnamed, start=1):
        launch.cells["CC"] = capability
        launch.cells["Kernel Name"] = "(unnamed)" if len(unnamed) == 1 else f"(unnamed {number})"
    whose = "the launch" if len(unnamed) == 1 else f"{len(unnamed)} launches, the first of them the one"
    its = "its" if len(unnamed) == 1 else "their"
    lacking = f"{its} kernel, the shape of {its} grid, {its} stream"
    if capability:
        lacking += f" are not known, and {its} GPU is taken to have the compute capability {capability} of this text"
    else:
        lacking += f" and {its} GPU are not known"
    yield f"no line names {whose} whose sections start in line {unnamed[0].line}: {lacking}"


class _Columns(Struct):
    """Where the dashes above and below a table's header say that its columns are: first and last place of each."""

    places: tuple[tuple[int, int], ...]
    rows: int = 0
    is_foreign: bool = False

    def cells(self, line: str) -> tuple[str, ...] | None:
        """Return the cells of a line: label, unit and value, or all of a summary; None if it is not in the columns."""
        if any(line[end : end + 1].strip() for _, end in self.places):
            return None
        cells = tuple(line[start:end].strip() for start, end in self.places)
        return cells if cells[-1] or (cells[0] and cells[1]) else None

    def has_edge(self, line: str) -> bool:
        """Return whether a line has a value that ends where its column does, as ncu prints every one, or has none.

        On the raw page of a summary values start where the column does, and spaces fill it.
        """
        value, value_end = self.places[-1]
        end = line[value_end - 1 : value_end + 1]
        is_filled = len(self.places) == _OF_SUMMARY and len(line) >= value_end and not line[value].isspace()
        return is_filled or (end != "" and not end[0].isspace() and not end[1:].strip()) or not line[value:].strip()

    def is_full(self, line: str) -> bool:
        """Return whether the value takes all of its column: what goes on below it was cut inside a word."""
        value, value_end = self.places[-1]
        return len(line) >= value_end and not line[value].isspace()


class _Pages:
    """Launches as their lines come."""

    def __init__(self, *, takes_unnamed: bool) -> None:
        self.launches: list[TextLaunch] = []
        self._takes_unnamed = takes_unnamed
        self._process: Mapping[str, str] = {}
        self._device: Mapping[str, str] = {}
        self._state: list[str] = []
        self._is_between = False
        self._section = self._body = self._domain = ""
        self._columns: _Columns | None = None
        self._rows: list[TextMetric] = []
        self._is_rule = False
        self._is_stack = self._is_in_section = self._was_full = self._is_again = self._has_table = self._is_stray = (
            False
        )
        self._text_place = self._line = 0

    def take(self, number: int, line: str, before: str) -> None:
        """Take the next line; `before` is the one above it."""
        self._line = number
        named = launch_in(line, before)
        if named is not None:
            summary = self._device if "Invocations" in named else {}
            self._open(TextLaunch(number, {**self._process, **summary, **named}))
            self.launches[-1].ranges += self._state
            self._is_between = False
            if named.get("Stream") and named["CC"] and not named["Grid Size"]:
                self.launches[-1].broken_lines.append(number)
            return
        bare = bare_line(line)
        if bare.startswith("[") and (process := _PROCESS.fullmatch(bare)) is not None:
            self._process = {
                "Process ID": process["process"], "Process Name": process["name"], "Host Name": process["host"],
            }  # fmt: skip
            return
        if self._take_above_summary(bare):
            return
        if not self.launches and self._takes_unnamed and (_SECTION.fullmatch(bare) or _HEADER.fullmatch(bare)):
            self._open_unnamed()
        if self.launches:
            self._take_content(line, bare)

    def _take_above_summary(self, bare: str) -> bool:
        """Take a line above the kernels of a summary: a GPU with its attributes, or an NVTX range with its domain."""
        device = _DEVICE.fullmatch(bare)
        if self.launches and not self.launches[-1].is_summary:
            return False
        if device is not None:
            self._device = {"Device": device["device"], "CC": device["cc"]}
        elif bare == _STATE:
            self._state, self._domain = [], ""
        elif self._is_between and _SECTION.fullmatch(bare) is None:
            self._take_range_name(bare, self._state)
        else:
            return False
        self._is_between = True
        return True

    def close(self) -> None:
        """End the last launch; one without its line of which nothing is known was none."""
        if not self.launches:
            return
        self._settle()
        last = self.launches[-1]
        last.place_strays()
        if not last.is_named and not any(row.is_known for row in last.metrics):
            self.launches.pop()

    def problems(self, *, is_whole: bool) -> Iterator[str]:
        """Say what looks damaged, in sentences, once all lines are taken; `is_whole` if the last one has its end."""
        moved = [(launch, row) for launch in self.launches for row in launch.metrics if row.is_moved]
        moved.sort(key=lambda place: place[1].line)
        if moved and moved[-1][1].line == self._line and not is_whole:
            launch, last = moved.pop()
            launch.metrics.remove(last)
            yield f"the file ends inside the row in line {last.line}: it is truncated"
        elif self._is_in_section and self._columns is not None and self._columns.rows:
            yield "the file ends inside a table: it is truncated"
        lost = [line for launch in self.launches for line in launch.lost_lines]
        if lost:
            rows = "1 row is" if len(lost) == 1 else f"{len(lost)} rows are"
            yield f"{rows} left out from line {lost[0]} on: the line of their launch or section is missing"
        if moved:
            rows = "1 row does" if len(moved) == 1 else f"{len(moved)} rows do"
            yield (
                f"{rows} not end where the table does, the first in line {moved[0][1].line}: "
                "digits may be missing or added"
            )

    def _open(self, launch: TextLaunch) -> None:
        """End the launch above and begin one whose table, if no section comes first, is a page of raw metrics."""
        self.close()
        launch.cells["ID"] = str(len(self.launches))
        self.launches.append(launch)
        self._start(RAW_NAMES_SECTION if launch.is_named else "", is_section=False)

    def _open_unnamed(self) -> None:
        self._open(TextLaunch(self._line, dict(self._process), is_named=False))

    def _settle(self) -> None:
        """End a table without its section's line, where the launch has none either: is it the next such launch's?"""
        launch = self.launches[-1]
        again = launch.repeated() if not launch.is_named else None
        if again is None:
            return
        self._open(TextLaunch(again[0].line, dict(self._process), is_named=False))
        self.launches[-1].strays.append(again)
        self._has_table = True

    def _start(self, section: str, *, is_section: bool = True) -> None:
        self._settle()
        if is_section and not self.launches[-1].is_named and section in self.launches[-1].sections:
            self._open_unnamed()
        self._section, self._body, self._domain = section, "", ""
        self._is_in_section = is_section
        self._columns = None
        self._is_stack = self._is_rule = self._has_table = self._is_stray = False
        sections = self.launches[-1].sections
        self._is_again = is_section and section in sections
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
            self._is_rule = False
        elif bare.startswith("```"):
            self._columns = None
            self._is_in_section, self._is_rule, self._body = False, False, ""
            if self._has_table:
                self._section = ""
        elif _RULE.fullmatch(bare) is not None or bare.startswith(_NOTE):
            self._columns, self._is_rule = None, True
        elif not self._is_rule and self._columns is not None:
            self._take_row(line, self._columns)
        elif not self._is_rule:
            self._take_loose(line, bare)

    def _take_loose(self, line: str, bare: str) -> None:
        """Take a line that is in no table and in no message of a rule."""
        if (row := self._loose_row(bare)) is not None:
            self._take_loose_row(row)
        elif (body := _BODY.fullmatch(bare)) is not None:
            self._body = body["table"] or body["group"]
            if not self._is_in_section:
                self._section = _SECTION_OF_TABLE.get(self._body, "")
        elif self._is_in_section and line.find(bare) == self._text_place:
            self._is_rule = True
        elif "Section: " in bare:
            self.launches[-1].broken_lines.append(self._line)
        else:
            self._take_range(bare)

    def _take_dashes(self, dashes: str, at: int) -> None:
        """Open a table's columns, or close them below its rows."""
        self._is_rule = False
        if self._columns is not None and self._columns.rows:
            self._columns = None
            self._settle()
            return
        if self._columns is None:
            self._settle()
            self._open_table()
        places = tuple((at + match.start(), at + match.end()) for match in re.finditer("-+", dashes))
        was_foreign = self._columns is not None and self._columns.is_foreign
        number = _OF_SUMMARY if self.launches[-1].is_summary else _OF_LAUNCH
        self._columns = _Columns(places, is_foreign=was_foreign or len(places) != number)

    def _open_table(self) -> None:
        """Begin a table: of the section, or of a body in it, or one whose section is yet to be told by its labels."""
        launch = self.launches[-1]
        self._is_stray |= not self._body and self._has_table
        self._rows = launch.metrics
        has_section = self._is_in_section or self._section not in {"", RAW_NAMES_SECTION}
        if not self._body and (self._has_table or not has_section):
            self._rows = []
            launch.strays.append(self._rows)

    def _take_row(self, line: str, columns: _Columns) -> None:
        """Take a line between a table's dashes."""
        if "Metric Name" in line and _HEADER.search(line):
            return
        if not columns.rows and re.search(r"\b(?:Metric )?Name\s{2,}", line):
            columns.is_foreign = True
        if columns.is_foreign:
            return
        in_place = columns.cells(line) if columns.has_edge(line) else None
        if in_place is not None and not in_place[-1] and any(map(_GAP.search, in_place)):
            # A shorter line, such as of a copy without some of its spaces: its value stands under the label.
            in_place = None
        cells = in_place or _by_gaps(line, len(columns.places)) or columns.cells(line)
        if cells is None or "---" in line or any(map(_GAP.search, cells)):
            if line[columns.places[0][1] :].strip():
                self.launches[-1].broken_lines.append(self._line)
            return
        label, unit, *ends, value = cells
        if in_place is None and self._section == RAW_NAMES_SECTION and " " in label:
            return
        columns.rows += 1
        self._has_table |= not self._body
        if not label and not unit and columns.rows > 1 and self._rows:
            if not self._is_again:
                self._rows[-1].values += ("" if self._was_full else " ", value)
        else:
            self._add(self._metric(label, unit, value, is_moved=in_place is None, ends=tuple(ends)))
        self._was_full = columns.is_full(line)

    def _add(self, row: TextMetric) -> None:
        if self._is_again:
            self.launches[-1].lost_lines.append(self._line)
        else:
            self._rows.append(row)

    def _metric(
        self, label: str, unit: str, value: str, *, is_moved: bool = False, ends: tuple[str, ...] = ()
    ) -> TextMetric:
        section = self._section if self._body or not self._is_stray else ""
        return TextMetric(
            line=self._line,
            section=section,
            body=self._body,
            label=label,
            unit=unit,
            values=[value],
            is_moved=is_moved,
            ends=ends,
        )

    def _take_loose_row(self, row: TextMetric) -> None:
        launch = self.launches[-1]
        if self._is_again:
            launch.lost_lines.append(row.line)
        elif row.has_full_name:
            launch.take_by_name(row)
        else:
            launch.metrics.append(row)

    def _loose_row(self, bare: str) -> TextMetric | None:
        """Return the row of a table whose dashes someone left out: only a label that is known tells it from text."""
        label, unit, value = _by_gaps(_REMARK.sub("", bare).rstrip(), _OF_LAUNCH) or ("", "", "")
        by_hand = _UNIT_BEHIND.fullmatch(f"{unit} {value}".strip())
        if by_hand is not None:
            value, unit = by_hand["value"].rstrip(" "), by_hand["unit"]
        if not label or not _VALUE.fullmatch(value):
            return None
        row = self._metric(label, unit, value)
        if row.has_full_name:
            return row if _NUMBER.fullmatch(value) else None
        if not self._is_in_section:
            return None
        if not row.is_known and _NUMBER.fullmatch(value):
            row.section = section_of([(label, ncu_unit(unit)[1])]) or ""
        return row if row.is_known else None

    def _take_range(self, bare: str) -> None:
        """Take a line of the NVTX ranges that stand between a launch and its sections."""
        if _STACK.fullmatch(bare):
            self._is_stack, self._domain = True, ""
        elif self._is_stack:
            self._take_range_name(bare, self.launches[-1].ranges)

    def _take_range_name(self, bare: str, ranges: list[str]) -> None:
        """Take the name of a range, or of the domain of those below it."""
        named = _RANGE.fullmatch(bare)
        if named is None or bare == _DEFAULT_DOMAIN:
            self._domain = bare
            return
        name = f"{self._domain}:{named['name']}".replace('"', "'")
        ranges.append(f'"{name}:none:none:none:none:none:none"')


def _by_gaps(line: str, columns: int) -> tuple[str, ...] | None:
    """Return the cells of a row that was moved out of its columns: two spaces are between them.

    A row of a summary has a unit or none, and so many columns.
    """
    parts = _GAP.split(line.strip())
    if len(parts) in {2, columns - 1}:
        return parts[0], "", *parts[1:]
    return tuple(parts) if len(parts) in {_OF_LAUNCH, columns} else None
