"""What ncu prints of a launch for people: its own line, and the rows of its sections' tables.

Who copies a page may leave out the lines above a table. A metric's full name, which `--metrics` prints, says of itself
what it is. Labels do where only one section can have all those of a table; a launch has each section once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct, field

from gpuprof.read.details_labels import RAW_NAMES_SECTION, is_known, section_of
from gpuprof.read.printed_table import PrintedRow
from gpuprof.units import ncu_unit

_OF_LAUNCH = (
    "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
    "Device", "CC", "Invocations", "thread Domain:Push/Pop_Range",
)  # fmt: skip
_OF_METRIC = ("Section Name", "Body Item Label", "Metric Name", "Metric Unit", "Metric Value", "Minimum", "Maximum")
COLUMNS = (*_OF_LAUNCH, *_OF_METRIC)
"""Those of a details page, which the rows of a launch have."""
FULL_NAME = re.compile(r"launch__\w+|(?=[a-z0-9_]+?__\w)\w+\.(?:sum|avg|min|max|ratio|pct|max_rate)(?:\.\w+)*")
"""A launch's attribute, or a counter with how its instances were rolled up."""


class TextMetric(Struct):
    """A row of a table; a long value goes on below it. One that `is_moved` does not end where the table does.

    In a summary its value is an average, and `ends` are the minimum and the maximum.
    """

    line: int
    section: str
    body: str
    label: str
    unit: str
    values: list[str]
    is_moved: bool = False
    ends: tuple[str, ...] = ()

    def cells(self) -> tuple[str, ...]:
        """Return the cells of a details page behind those of the launch."""
        return self.section, self.body, self.label, self.unit, "".join(self.values), *self.ends

    @property
    def has_full_name(self) -> bool:
        """Tell whether the label is the metric's own name, which needs no section."""
        return FULL_NAME.fullmatch(self.label) is not None

    @property
    def is_known(self) -> bool:
        """Tell whether it is a metric of ncu, in its unit."""
        if self.section == RAW_NAMES_SECTION:
            return self.has_full_name
        return is_known(self.section, self.label, ncu_unit(self.unit)[1], self.body)


class TextLaunch(Struct):
    """What is printed of a launch: the cells of its own line, if that is there, and its metrics.

    `strays` are tables without the line of their section.
    """

    line: int
    cells: dict[str, str]
    is_named: bool = True
    metrics: list[TextMetric] = field(default_factory=list)
    strays: list[list[TextMetric]] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    sections: set[str] = field(default_factory=set)
    lost_lines: list[int] = field(default_factory=list)
    broken_lines: list[int] = field(default_factory=list)
    labels: set[str] = field(default_factory=set)
    labelled: int = 0

    @property
    def is_summary(self) -> bool:
        """Return whether it is several launches, of which only averages are there."""
        return "Invocations" in self.cells

    def _has(self, label: str) -> bool:
        """Tell whether a row of that label is there; rows are only ever added."""
        self.labels.update(row.label for row in self.metrics[self.labelled :])
        self.labelled = len(self.metrics)
        return label in self.labels

    def repeated(self) -> list[TextMetric] | None:
        """Take out and return the last stray table if it has a label again that the launch has in that section."""
        if not self.strays:
            return None
        *before, last = self.strays
        self.strays = before
        self.place_strays()
        section = RAW_NAMES_SECTION if all(row.has_full_name for row in last) else self._section_again(last)
        labels = {row.label for row in self.metrics if row.section == section}
        if not labels.isdisjoint(row.label for row in last):
            return last
        self.strays = [last]
        return None

    def _section_again(self, rows: list[TextMetric]) -> str | None:
        """Return the section that only can have all labels of a table if the launch has it already."""
        section = _only_section(rows)
        names = self.sections.intersection({section, f"{section} Throughput"}) if section is not None else ()
        return next(iter(names), None)

    def place_strays(self) -> None:
        """Put tables without a section's line where their labels say, once all of the launch is there.

        A section that is there already, maybe with the "Throughput" that its name got in 2021, is another launch's.
        """
        for rows in self.strays:
            section = _only_section(rows) if self._section_again(rows) is None else None
            for row in rows:
                if section is None or row.has_full_name:
                    self.take_by_name(row)
                else:
                    row.section = section
                    self.metrics.append(row)
            if section is not None:
                self.sections.add(section)
        self.strays.clear()

    def take_by_name(self, row: TextMetric) -> None:
        """Add a row of no section if its label is a metric's name that is not there yet; else it is lost."""
        is_raw = row.section == RAW_NAMES_SECTION and " " not in row.label
        if is_raw or (row.has_full_name and not self._has(row.label)):
            row.section = RAW_NAMES_SECTION
            self.metrics.append(row)
        else:
            self.lost_lines.append(row.line)

    def rows(self) -> Iterator[PrintedRow]:
        """Yield the rows that a details page has; the first one stands for the launch itself."""
        cells = {**self.cells, "thread Domain:Push/Pop_Range": " ".join(self.ranges)}
        own = tuple(cells.get(column, "") for column in _OF_LAUNCH)
        yield PrintedRow(self.line, own + ("",) * len(_OF_METRIC))
        yield from (PrintedRow(row.line, own + row.cells()) for row in self.metrics)


def _only_section(rows: list[TextMetric]) -> str | None:
    """Return the only section whose table can have all the labels of these rows, beside full names."""
    labels = [row for row in rows if not row.has_full_name]
    return section_of((row.label, ncu_unit(row.unit)[1]) for row in labels) if labels else None
