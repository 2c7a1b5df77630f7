"""A table that ncu printed, as CSV or as text: its columns, its rows, and what of it could not be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from gpuprof.units import counted

NUMBER_COLUMNS = frozenset(("ID", "Process ID", "Context", "Stream", "Device", "Invocations"))
LAUNCH_COLUMNS = NUMBER_COLUMNS | {
    "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Block Size", "Grid Size", "CC", "Domain",
}  # fmt: skip
_RANGE_COLUMNS = ("Push/Pop_Range", "Start/Stop_Range", "Range:PL_Type")
_INVOCATIONS = re.compile(r"[1-9][0-9]{0,8}")
_WHOLE = re.compile(r"(\d+)[.,]0+")
_CAPABILITY = re.compile(r"(\d{1,2})(?:[.,](\d))?")
_NO_VALUE = frozenset(("", "nan", "NaN", "NA", "None", "<NA>"))
"""Cells that pandas writes if there is no value; in a second header row also "Unnamed: 4_level_1"."""
_DURATION = "gpu__time_duration.sum"
_WITH_UNITS = "Keep the row of units below the header of a raw page, and the column Metric Unit of others"


class PrintedRow(Struct, frozen=True):
    """A row of a table, and the line that it starts in."""

    line: int
    cells: tuple[str, ...]


class PrintedTable(Struct):
    """A header and the rows below it, until the next header.

    One that `is_original` is as ncu printed it, and if it is CSV, all cells have quotes. Text has no delimiter.
    """

    columns: tuple[str, ...]
    is_original: bool
    delimiter: str = ","
    rows: list[PrintedRow] = field(default_factory=list)
    broken_lines: list[int] = field(default_factory=list)
    cut_line: int | None = None
    sentences: list[str] = field(default_factory=list)
    without_unit: set[str] = field(default_factory=set)
    inferred_units: set[str] = field(default_factory=set)
    places: dict[str, int] = field(default_factory=dict)
    launch_places: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, name in enumerate(self.columns):
            self.places.setdefault(name, place)
            if name in LAUNCH_COLUMNS or is_range_column(name):
                self.launch_places.setdefault(name, place)

    @property
    def is_summary(self) -> bool:
        """Return whether a row has the minimum, maximum and average over equal launches, and no value of a launch."""
        return "Average" in self.places and "Metric Value" not in self.places

    @property
    def is_details(self) -> bool:
        """Return whether a row is a metric of a launch; else it is a launch."""
        return "Metric Name" in self.places and self.value_column in self.places

    @property
    def value_column(self) -> str:
        """Return the name of the column that has the values of a details page."""
        return "Average" if self.is_summary else "Metric Value"

    def cell(self, row: PrintedRow, name: str) -> str:
        """Return the cell of a row in a column; empty if it is not there."""
        place = self.places.get(name, len(row.cells))
        return as_printed(name, row.cells[place]) if place < len(row.cells) else ""

    def launch_cells(self, row: PrintedRow) -> dict[str, str]:
        """Return the cells about the launch of a row, by column, as ncu writes them."""
        return {name: self.cell(row, name) for name in self.launch_places}

    def names_launch(self, row: PrintedRow) -> bool:
        """Return whether a row has a cell about a launch, which a row of units has not."""
        return any(as_printed("", row.cells[place]) for place in self.launch_places.values() if place < len(row.cells))

    def has_launch(self, cells: Mapping[str, str]) -> bool:
        """Return whether cells are in their columns and name a kernel."""
        if not cells.get("Kernel Name"):
            return False
        if self.is_summary:
            is_number = _INVOCATIONS.fullmatch(cells.get("Invocations", "1")) is not None
            return is_number and all(cells.get(name, "(").startswith("(") for name in ("Block Size", "Grid Size"))
        return cells.get("ID", "0").isdigit()

    def problems(self) -> Iterator[str]:
        """Say what of the table could not be read, in sentences."""
        lines = sorted(set(self.broken_lines))
        if self.cut_line is not None:
            yield f"the file ends inside the row that starts in line {self.cut_line}: it is truncated"
        if lines:
            rows = "1 row was" if len(lines) == 1 else f"{len(lines)} rows were"
            yield f"{rows} dropped or shortened for missing, extra or garbled cells, the first in line {lines[0]}"
        if self.is_summary and "Invocations" not in self.places:
            yield "the column Invocations is missing: all figures are averages, each of them counted as 1 launch"
        if self.inferred_units:
            yield (
                f"durations were printed without a unit and are taken as {' and '.join(sorted(self.inferred_units))}: "
                "in no other unit do the elapsed cycles make a clock that a GPU has"
            )
        if self.without_unit:
            example = _DURATION if _DURATION in self.without_unit else min(self.without_unit)
            number = counted(len(self.without_unit), "metric")
            yield f"no unit was printed for {number}, such as {example}: the numbers are left out. {_WITH_UNITS}"
        yield from self.sentences


def is_range_column(name: str) -> bool:
    """Return whether a column has the NVTX ranges around a launch."""
    return any(part in name for part in _RANGE_COLUMNS)


def as_printed(name: str, cell: str) -> str:
    """Return a cell as ncu prints it. pandas and Excel may have made "0.0" of 0, "8,6" of 8.6, and "9" of 9.0."""
    if cell in _NO_VALUE or ("_level_" in cell and cell.startswith("Unnamed: ")):
        return ""
    if name in NUMBER_COLUMNS:
        whole = _WHOLE.fullmatch(cell)
        return whole[1] if whole is not None else cell
    if name == "CC":
        capability = _CAPABILITY.fullmatch(cell)
        return f"{capability[1]}.{capability[2] or 0}" if capability is not None else ""
    return cell
