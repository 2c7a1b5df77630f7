"""ncu's tables that someone has rewritten for a document: as Markdown, or as lines of label and value.

Nothing but the label says what a number is: it is ncu's own, letter for letter, or a metric's full name, and its unit
is ncu's. A number without its unit is read where ncu scales none and the label means one metric. All else is left out.

In a table of a metric a row, each column of values is a launch: a column with anything else, or one whose head says
that it compares or sums up, is none. In a table of a launch a row, the labels are the heads. A launch goes on in the
next table with the same heads, until a label comes again. So it does below a heading that is made of words of ncu's
sections, or that stands deeper than the launch's own and names no kernel; any other heading begins the next launch.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct, field

from gpuprof.read.details_labels import (
    RAW_NAMES_SECTION,
    SECTIONS,
    is_known,
    labels,
    metric_name,
    needs_unit,
    section_of,
)
from gpuprof.read.metric_units import unit_of
from gpuprof.read.printed_lines import bare_line, launch_in, lines_of
from gpuprof.read.printed_sections import TextLaunch, TextMetric
from gpuprof.units import counted, ncu_unit

_Key = tuple[str, int]
"""The head of a launch's column, or the first cell of its row, and how many of the same are before it."""
_Columns = Mapping[_Key, list[TextMetric]]

_LONGEST_DOCUMENT = 2**20
"""So many characters nobody writes by hand."""
_MAY_BE_TABLE = re.compile(r"[-:][ \t]*\|")
_DELIMITER = re.compile(r":?-+:?")
"""A cell of the line below a Markdown table's heads."""
_QUOTED = re.compile(r"\s*(?:>\s*)*")
_HEADING = re.compile(r"(?P<marks>#{1,6})\s+(?P<text>\S.*)|\*\*(?P<bold>[^*]+)\*\*:?")
_KERNEL = re.compile(r"Kernel(?: Name)?:\s*(?P<name>\S.*)")
_BOLD, _NO_HEADING = 7, 8
"""Levels of headings: deeper than those with marks, and where there is none."""
_NUMBERED = re.compile(r"\A(?:Section: |[\d.]+[.)]? )")
_PAIR = re.compile(r"(?:[-*+] +)?\**(?P<label>[^\s:|*][^:|*]{0,99}):\**\s+(?P<value>\S.*)")
"""A line of label and value."""
_LONGEST_CELL = 400
_MARKS = re.compile(r"\*\*|`")
_VALUE = re.compile(r"(?P<value>\d[\d.,'\u00a0\u2019\u202f]*(?: \d{3})*(?:[.,]\d+)?)(?P<unit> ?(?:%|[^\W\d_][\w/%]*))?")
_FRACTION = re.compile(r"0?[.,](?=\d*?[1-9])\d+|1(?:[.,]0*)?")
_MEASURED = re.compile(r"[.,]\d|\d{4}")
_MISSING = frozenset({"", "-", "\N{EN DASH}", "\N{EM DASH}", "n/a", "(!) n/a", "nan", "(!) nan"})
_MICRO = str.maketrans("\N{MICRO SIGN}\N{GREEK SMALL LETTER MU}", "uu")
"""As documents write ncu's us."""
_WORD = re.compile(r"[A-Za-z]\w*")
_WITH_UNIT = re.compile(r"(?P<label>.*\S) ?(?:\((?P<round>[^()]+)\)|\[(?P<square>[^\[\]]+)\])")
"""A label with its unit behind it."""
_UNIT_HEADS = frozenset({"unit", "units", "metric unit"})
_VALUE_HEADS = frozenset({"value", "metric value"})
_LABEL_HEADS = frozenset({"metric", "metric name", "label", "name", "counter"})
_KERNEL_HEADS = ("kernel name", "kernel")
_KEY_HEADS = frozenset({"id", "launch", *_KERNEL_HEADS})
_SECTION_WORDS = frozenset(
    chain.from_iterable(re.findall(r"[a-z]+", section.casefold()) for section in SECTIONS)
) | {"metrics"}  # fmt: skip
_NO_LAUNCH = re.compile(
    r"\b(?:delta|diff(?:erence)?|change|ratio|speed-?up|factor|improvement|gain|min(?:imum)?|max(?:imum)?|avg|average|"
    r"mean|median|std\w*|peak|roof|target|goal|ideal|expected|limit|threshold|total|sum|notes?|theoretical|"
    r"predicted|estimated)\b|[\u0394%]",
    re.IGNORECASE,
)
"""What the head of a column says that holds no launch's values."""
_NAME = re.compile(r"(?:void )?[A-Za-z_][\w:]*(?![\w:])(?:<.*>|(?=.*\)\Z)(?:<.*>)?\(.*)?")
_ASIDE = re.compile(r"(?<! ) *\([^()]*\)\Z")
_CLOCK = "__cycles_elapsed.avg.per_second"
_TELLS_A_NAME = ("_", "::", "<", "(")


class _Heading(Struct):
    """A heading, or a line that names a kernel; `cells` are those of a launch that ncu's own line names."""

    level: int
    text: str = ""
    kernel: str = ""
    cells: Mapping[str, str] = {}


class _Table(Struct):
    """Cells as they stand there. Lines of label and value are one, too, and `is_whole` if no others are among them."""

    line: int
    heads: Sequence[str]
    rows: list[tuple[int, Sequence[str]]] = field(default_factory=list)
    is_list: bool = False
    is_whole: bool = True


def may_be_rewritten(text: str) -> bool:
    """Tell whether a text has what such tables have, which takes less time than reading it."""
    if len(text) > _LONGEST_DOCUMENT:
        return False
    if any(f"{label}:" in text or f"{label}**:" in text for label in labels()):
        return True
    return _MAY_BE_TABLE.search(text) is not None and ("__" in text or any(label in text for label in labels()))


def rewritten(text: str) -> Rewritten:
    """Read the launches that the text's tables tell of; none if no counter is among their metrics."""
    tables = Rewritten()
    for part in _parts(text):
        if isinstance(part, _Heading):
            tables.take_heading(part)
        else:
            tables.take(part)
    tables.launches = [launch for launch in tables.launches if not _may_be_goals(launch.metrics)]
    if not any(_is_counter(row) for launch in tables.launches for row in launch.metrics):
        tables.launches = []
    for number, launch in enumerate(tables.launches):
        launch.cells["ID"] = str(number)
    return tables


def looks_rewritten(text: str) -> bool:
    """Tell whether a table has a label of a counter of ncu's, be it in other letters."""
    if len(text) > _LONGEST_DOCUMENT:
        return False
    sections = {label: section_of([(label, "")]) for label in labels()}
    counters = {
        label.casefold()
        for label, section in sections.items()
        if section is not None and not _is_common(metric_name(section, label))
    }
    tables = (part for part in _parts(text) if isinstance(part, _Table))
    cells = (cell for table in tables for cell in (*table.heads, *(row[0] for _, row in table.rows)))
    return any(_plain(cell).casefold() in counters for cell in cells)


class Rewritten:
    """Launches as their tables come."""

    def __init__(self) -> None:
        self.launches: list[TextLaunch] = []
        self._lost: list[int] = []
        self._lost_heads: list[str] = []
        self._names: dict[str, str] = {}
        self._columns: dict[_Key, TextLaunch] = {}
        self._heading = _Heading(_NO_HEADING)
        self._opened = _NO_HEADING
        self._section = ""

    def problems(self) -> Iterator[str]:
        """Say what was left out of the tables of which something was read."""
        if self._lost:
            verb, whose = ("is", "its") if len(self._lost) == 1 else ("are", "their")
            yield (
                f"{counted(len(self._lost), 'row')} {verb} left out from line {self._lost[0]} on: "
                f"{whose} label, unit or value is not as ncu prints it"
            )
        if self._lost_heads:
            heads = ", ".join(dict.fromkeys(self._lost_heads))
            yield f"columns of rewritten tables are left out that are no launch's: {heads}"

    def take_heading(self, heading: _Heading) -> None:
        """Note a heading; one that is no section's ends the launches above unless it is of a part of theirs."""
        text = _NUMBERED.sub("", _plain(heading.text), count=1).rstrip(" :")
        self._section = text if text in SECTIONS else ""
        told = re.findall(r"\w+", text.casefold())
        if told and _SECTION_WORDS.issuperset(told):
            return
        if heading.cells or heading.kernel or heading.level <= self._opened:
            self._columns = {}
        self._heading = heading

    def take(self, table: _Table) -> None:
        """Take the next table: of a metric a row, or of a launch a row."""
        heads = [_plain(head).casefold() for head in table.heads]
        if "id" in heads and "kernel name" in heads:
            number, name = heads.index("id"), heads.index("kernel name")
            self._names.update({_plain(row[number]): _plain(row[name]) for _, row in table.rows})
        at = next((place for place, head in enumerate(heads) if head in _LABEL_HEADS), 0)
        if any(_is_label(_label_of(row[at])[0]) for _, row in table.rows):
            if _KEY_HEADS.isdisjoint(heads):
                self._take_metrics(table, heads, at)
        elif any(_is_label(_label_of(head)[0]) for head in table.heads):
            named = next((heads.index(head) for head in _KERNEL_HEADS if head in heads), 0)
            self._take_launches(table, named, is_told=heads[named] in _KERNEL_HEADS)

    def _take_metrics(self, table: _Table, heads: Sequence[str], at: int) -> None:
        """Take a table of a metric a row."""
        unit = next((place for place, head in enumerate(heads) if head in _UNIT_HEADS), None)
        labelled = [(line, row, *_label_of(row[at])) for line, row in table.rows]
        known = [
            (line, row, label, behind or (_plain(row[unit]) if unit is not None else ""))
            for line, row, label, behind in labelled
            if _is_label(label)
        ]
        of_value = [place for place, head in enumerate(heads) if head in _VALUE_HEADS][:1]
        has_words = bool(of_value)
        places = of_value or [place for place in range(at + 1, len(heads)) if place != unit]
        columns: dict[_Key, list[TextMetric]] = {}
        names: dict[_Key, str] = {}
        dropped: list[str] = []
        for place, key in zip(places, _keys(table.heads[place] for place in places), strict=True):
            cells = [(line, label, measure, _plain(row[place])) for line, row, label, measure in known]
            names[key] = self._names.get(_plain(key[0])) or _kernel_name(key[0])
            has_values = len(places) == 1 or all(_is_value(cell, measure) for _, _, measure, cell in cells)
            if of_value or (has_values and (names[key] or not _NO_LAUNCH.search(key[0]))):
                rows = [_metric(*cell, has_words=has_words) for cell in cells]
                columns[key] = self._placed([row for row in rows if row is not None])
            else:
                dropped.append(_plain(key[0]))
        if len(columns) == 1:
            ((key, metrics),) = columns.items()
            alone = ("", 0) if of_value else key
            columns, names = {alone: metrics}, {alone: names[key] or self._heading.kernel}
        if self._add(table, columns, names):
            self._lost_heads += dropped

    def _take_launches(self, table: _Table, named: int, *, is_told: bool) -> None:
        """Take a table of a launch a row, which one of its cells names."""
        labelled = [(place, *_label_of(head)) for place, head in enumerate(table.heads)]
        columns: dict[_Key, list[TextMetric]] = {}
        names: dict[_Key, str] = {}
        for (line, row), key in zip(table.rows, _keys(row[named] for _, row in table.rows), strict=True):
            cells = [(line, label, unit, _plain(row[place])) for place, label, unit in labelled if _is_label(label)]
            names[key] = _kernel_name(key[0], is_told=is_told)
            is_summary = _NO_LAUNCH.search(_plain(key[0])) and not _kernel_name(key[0])
            if all(_is_value(cell, unit) for _, _, unit, cell in cells) and not is_summary:
                metrics = [_metric(*cell) for cell in cells]
                columns[key] = self._placed([metric for metric in metrics if metric is not None])
        self._add(table, columns, names)

    def _placed(self, rows: Sequence[TextMetric]) -> list[TextMetric]:
        """Return the rows whose section is known, with it: that of the heading, of the table, or the only one."""
        of_table = section_of((row.label, ncu_unit(row.unit)[1]) for row in rows if row.unit and not row.has_full_name)
        for row in rows:
            row.section = _section(row, (self._section, of_table or ""))
        return [row for row in rows if row.section]

    def _add(self, table: _Table, columns: _Columns, names: Mapping[_Key, str]) -> bool:
        """Give each column's rows to its launch, or to the next one if a label comes again; tell whether any are read.

        A table with one label twice is of several launches that nothing tells apart.
        """
        columns = {key: rows for key, rows in columns.items() if rows}
        read = {row.line for rows in columns.values() for row in rows}
        left = [line for line, _ in table.rows if line not in read]
        is_list_of_others = table.is_list and (left or not table.is_whole)
        if not columns or is_list_of_others or any(len(_places(rows)) < len(rows) for rows in columns.values()):
            return False
        self._lost += left
        if self._columns and (not columns.keys() <= self._columns.keys() or self._has_again(columns)):
            self._columns = {}
            self._heading = _Heading(self._heading.level)
            names = {key: name for key, name in names.items() if key[0]}
        if not self._columns:
            self._opened = self._heading.level
            self._columns = {key: self._launch(table.line, names.get(key, ""), key) for key in columns}
            self.launches += self._columns.values()
        for key, rows in columns.items():
            self._columns[key].metrics += rows
        return True

    def _has_again(self, columns: _Columns) -> bool:
        return any(_places(self._columns[key].metrics) & _places(rows) for key, rows in columns.items())

    def _launch(self, line: int, name: str, key: _Key) -> TextLaunch:
        """Return a launch that ncu's own line names, or a heading, or the head of its column."""
        if not key[0] and self._heading.cells:
            return TextLaunch(line, dict(self._heading.cells))
        called = "" if name else _plain(key[0]) or _plain(self._heading.text)
        return TextLaunch(line, {"Kernel Name": name} if name else {}, is_named=False, called=called)


def _places(rows: Iterable[TextMetric]) -> set[tuple[str, str]]:
    return {(row.section, row.label) for row in rows}


def _keys(heads: Iterable[str]) -> Iterator[_Key]:
    seen = Counter[str]()
    for head in heads:
        yield head, seen[head]
        seen[head] += 1


def _parts(text: str) -> Iterator[_Heading | _Table]:
    """Yield headings and tables in the order in which they stand there."""
    table: _Table | None = None
    for number, before, line in chain(lines_of(text), [(0, "", "")]):
        bare = _unquoted(line)
        if table is not None and not table.is_list and "|" in bare:
            cells = _cells(bare)
            if len(cells) != len(table.heads):
                cells = [cells[0], *[""] * (len(table.heads) - 1)]
            table.rows.append((number, cells))
            continue
        heads = _heads(bare, before)
        heading = _heading(line, bare, before)
        pair = _PAIR.fullmatch(bare)
        is_other = not bare or bare.startswith("```") or heading is not None or heads is not None
        if table is not None and table.is_list and not is_other:
            _add_pair(table, number, pair)
            continue
        if table is not None:
            yield table
            table = None
        if heading is not None:
            yield heading
        elif heads is not None:
            table = _Table(number - 1, heads)
        elif pair is not None:
            is_first = (
                not bare_line(before) or before.lstrip().startswith("```") or _heading(before, before, "") is not None
            )
            table = _Table(number, ("Metric", "Value"), is_list=True, is_whole=is_first)
            _add_pair(table, number, pair)


def _add_pair(table: _Table, number: int, pair: re.Match[str] | None) -> None:
    if pair is None:
        table.is_whole = False
    else:
        table.rows.append((number, (pair["label"], pair["value"])))


def _heading(line: str, bare: str, before: str) -> _Heading | None:
    cells = launch_in(line, before)
    if cells is not None:
        return _Heading(_NO_HEADING, cells=cells)
    kernel = _KERNEL.fullmatch(_plain(bare).lstrip("#*- "))
    if kernel is not None:
        return _Heading(_BOLD, kernel["name"], _kernel_name(kernel["name"], is_told=True))
    match = _HEADING.fullmatch(bare)
    if match is None:
        return None
    text = match["text"] or match["bold"]
    return _Heading(len(match["marks"]) if match["marks"] else _BOLD, text, _kernel_name(text))


def _heads(bare: str, before: str) -> list[str] | None:
    """Return the heads of the table that begins with this line and the one above."""
    if "|" not in bare or "|" not in before or bare.strip("|:- \t"):
        return None
    heads, below = _cells(_unquoted(before)), _cells(bare)
    return heads if len(heads) == len(below) and all(map(_DELIMITER.fullmatch, below)) else None


def _unquoted(line: str) -> str:
    match = _QUOTED.match(line)
    return (line[match.end() :] if match is not None else line).rstrip()


def _cells(line: str) -> list[str]:
    """Return the cells of a Markdown table's line."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().removeprefix("|").removesuffix("|"))]


def _plain(cell: str) -> str:
    """Return a cell without what Markdown marks it with."""
    return _MARKS.sub("", cell[:_LONGEST_CELL]).replace("\\", "").strip()


def _label_of(cell: str) -> tuple[str, str]:
    """Return a label, and the unit that may stand in brackets behind it."""
    label = _plain(cell)
    match = _WITH_UNIT.fullmatch(label) if not _is_label(label) else None
    return (match["label"], match["round"] or match["square"]) if match is not None else (label, "")


def _is_label(label: str) -> bool:
    """Tell whether it is one of ncu's labels, or a metric's full name whose unit is known."""
    return label in labels() or ("__" in label and unit_of(label) is not None)


def _is_value(cell: str, unit: str) -> bool:
    return cell.casefold() in _MISSING or _split(cell, unit) is not None


def _split(cell: str, unit: str) -> tuple[str, str] | None:
    """Return number and unit, which may stand behind the number, and not two different ones."""
    match = _VALUE.fullmatch(cell)
    behind = (match["unit"] or "").strip() if match is not None else ""
    unit = "" if unit in _MISSING else unit
    if match is None or (behind and unit and behind != unit):
        return None
    return match["value"], (behind or unit).translate(_MICRO)


def _metric(line: int, label: str, unit: str, cell: str, *, has_words: bool = False) -> TextMetric | None:
    """Return the metric of a row, whose section is yet to be told; words where the metric is one."""
    if has_words and not unit and unit_of(metric_name("Launch Statistics", label)) is None and _WORD.fullmatch(cell):
        value = cell, ""
    else:
        number = _split(cell, unit)
        if number is None:
            return None
        value = number
    return TextMetric(line=line, section="", body="", label=label, unit=value[1], values=[value[0]])


def _section(row: TextMetric, told: Iterable[str]) -> str:
    """Return the section of a row's label; empty where another metric may be meant.

    A percentage without its sign may be a fraction if it is not above one.
    """
    unit = ncu_unit(row.unit)[1]
    if row.has_full_name:
        section = RAW_NAMES_SECTION if is_known(RAW_NAMES_SECTION, row.label, unit) else ""
    else:
        known = (
            section
            for section in told
            if section
            and is_known(section, row.label, unit)
            and (
                row.unit or unit_of(metric_name(section, row.label)) == ""
            )  # a number without a unit has none to print
        )
        section = next(known, None) or section_of([(row.label, unit)]) or ""
    if row.unit or not section:
        return section
    name = metric_name(section, row.label)
    may_be_fraction = unit_of(name) == "%" and _FRACTION.fullmatch(row.values[0]) is not None
    return "" if needs_unit(name) or may_be_fraction else section


def _is_counter(row: TextMetric) -> bool:
    return not _is_common(metric_name(row.section, row.label, ncu_unit(row.unit)[1]))


def _may_be_goals(rows: Iterable[TextMetric]) -> bool:
    """Tell whether all that is said of counters are small round numbers, such as 50 %: ncu prints what it measures."""
    counters = [row for row in rows if _is_counter(row)]
    return bool(counters) and not any(row.has_full_name or _MEASURED.search(row.values[0]) for row in counters)


def _is_common(name: str) -> bool:
    """Tell whether a metric has a label that others print as well: Duration, Block Size, or a clock of a GPU."""
    return name.startswith(("launch__", "gpu__time_duration", "details:")) or name.endswith(_CLOCK)


def _kernel_name(text: str, *, is_told: bool = False) -> str:
    """Return the kernel that a heading names; empty where it may be any word."""
    name = _plain(text)
    for candidate in (name, _ASIDE.sub("", name)):
        is_name = is_told or any(mark in candidate for mark in _TELLS_A_NAME)
        if is_name and _NAME.fullmatch(candidate) and not _is_label(candidate):
            return candidate
    return ""
