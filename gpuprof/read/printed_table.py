"""A table that ncu printed, as CSV or as text: its columns, its rows, and what of it could not be read."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

LAUNCH_COLUMNS = frozenset(
    (
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC",
    )
)  # fmt: skip
_RANGE_COLUMNS = ("Push/Pop_Range", "Start/Stop_Range")


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

    def problems(self) -> Iterator[str]:
        """Say what of the table could not be read, in sentences."""
        lines = sorted(set(self.broken_lines))
        if self.cut_line is not None:
            yield f"the file ends inside the row that starts in line {self.cut_line}: it is truncated"
        if lines:
            rows = "1 row was" if len(lines) == 1 else f"{len(lines)} rows were"
            yield f"{rows} dropped or shortened for missing, extra or garbled cells, the first in line {lines[0]}"
        yield from self.sentences


def is_range_column(name: str) -> bool:
    """Tell whether a column holds the NVTX ranges that a launch stands in."""
    return any(part in name for part in _RANGE_COLUMNS)
