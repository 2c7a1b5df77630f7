"""Rooflines in the terminal: the verdict, then a line for each point of a figure, and what is not drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from gpuprof.model.path_names import path_name
from gpuprof.model.session import Session
from gpuprof.present.console_findings import verdict_lines
from gpuprof.present.console_parts import Sheet, padded
from gpuprof.present.roofline_figure import FigurePoint, RooflineFigure
from gpuprof.units import format_percent
from gpuprof.views.terminal import print_blocks
from gpuprof.words.profile_values import LEVEL_NAMES, count_text, intensity_text, rate_text, row_noun
from gpuprof.words.recommendations import summary_of
from gpuprof.words.source_names import in_source

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_GAP = "  "
_LEFT = {"path", "level", "bound", "basis"}
_ROOM_FOR_NAMES = {"roofline": 36, "share": 14, "achieved": 8, "intensity": 8}
"""What is left out first, and how much room names must have for it to stay."""


def print_rooflines(console: Console, session: Session, figures: Sequence[RooflineFigure], top: int) -> None:
    """Print the verdict on the kernels and, of each figure, the points of its first `top` kernels (0: all)."""
    print_blocks(console, _blocks(Sheet.of(console), session, figures, top))


def _blocks(sheet: Sheet, session: Session, figures: Sequence[RooflineFigure], top: int) -> Iterator[Text]:
    from rich.text import Text

    yield from verdict_lines(summary_of(session), sheet)
    for figure in figures:
        yield Text("")
        yield sheet.paragraph(figure.title, "bold")
        yield sheet.paragraph(figure.subtitle, "dim")
        kernels = [list(points) for _, points in groupby(figure.points, lambda point: point.kernel)]
        shown, hidden = (kernels[:top], kernels[top:]) if top else (kernels, [])
        if shown:
            head, *lines = _point_lines(sheet, session, shown)
            yield Text("")
            yield _line(head, "bold")
            yield _line(("─" if sheet.blocks else "-") * max(map(sheet.cells, (head, *lines))), "dim")
            yield from (_line(line) for line in lines)
        if hidden:
            noun, plural = row_noun(session.kernels)
            share = sum(points[0].share or 0.0 for points in hidden)
            time = f", {format_percent(share)} of the time" if share else ""
            more = count_text(len(hidden), f"more {noun}", plural)
            yield sheet.paragraph(f"… and {more}{time}: --top 0 shows all", "dim")
        for note in figure.notes:
            yield sheet.paragraph(note, "dim")


def _line(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _point_lines(sheet: Sheet, session: Session, kernels: Sequence[Sequence[FigurePoint]]) -> list[str]:
    """Return the head and a line for each point of these kernels, no wider than the sheet; the first names its kernel.

    Columns that nothing fills are left out; the middle of names goes where there is no room.
    """
    names = {kernel.id: f"{kernel.label}{in_source(session, kernel)}" for kernel in session.kernels}
    rows = [
        _cells(point, names[point.kernel] if point is points[0] else None) for points in kernels for point in points
    ]
    if len({row["level"] for row in rows}) == 1:
        rows = [row | {"level": ""} for row in rows]
    columns = {
        head: [sheet.legible(cell) for cell in (head, *(row[head] for row in rows))]
        for head in rows[0]
        if any(row[head] for row in rows)
    }
    longest = max(map(sheet.cells, columns["kernel"]))
    for head, least in _ROOM_FOR_NAMES.items():
        if _room(sheet, columns) < min(longest, least):
            columns.pop(head, None)
    fitted = [sheet.fitted(name, max(_room(sheet, columns), len("kernel"))) for name in columns["kernel"]]
    columns["kernel"] = [sheet.filled(name, max(map(sheet.cells, fitted))) for name in fitted]
    written = [cells if head == "kernel" else padded(cells, left=head in _LEFT) for head, cells in columns.items()]
    return [_GAP.join(row).rstrip() for row in zip(*written, strict=True)]


def _room(sheet: Sheet, columns: dict[str, list[str]]) -> int:
    """Return how many characters the columns leave to the names of kernels."""
    others = (max(map(len, cells)) + len(_GAP) for head, cells in columns.items() if head != "kernel")
    return sheet.table_width - sum(others)


def _cells(point: FigurePoint, name: str | None) -> dict[str, str]:
    """Return what a point has in each column; what is its kernel's only where a name is given."""
    return {
        "#": str(point.kernel) if name is not None else "",
        "kernel": name or "",
        "share": format_percent(point.share) if name is not None and point.share is not None else "",
        "path": path_name(point.path),
        "level": LEVEL_NAMES[point.level],
        "intensity": intensity_text(point.path, point.intensity),
        "achieved": rate_text(point.path, point.flop_per_s),
        "roofline": rate_text(point.path, point.roof_flop_per_s),
        "of roofline": format_percent(point.fraction_of_roof),
        "bound": point.bound,
        "basis": "estimated" if point.estimated else "",
    }
