"""The output of `gpuprof roofline`: the verdict, then for each figure a row for each point and its notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.model.path_names import path_name
from gpuprof.model.session import Session
from gpuprof.units import format_percent
from gpuprof.views.document import Block, Column, Document, Heading, Note, Table, filled
from gpuprof.views.profile import verdict_blocks
from gpuprof.views.roofline import DeviceFigures
from gpuprof.views.roofline_values import Roofline, RooflinePlace
from gpuprof.views.utilization import Utilization, unit_name
from gpuprof.words.profile_values import LEVEL_NAMES, intensity_text, rate_text
from gpuprof.words.recommendations import summary_of

_BANDWIDTHS = "Bandwidth of each level, % of its ceiling"
_THROUGHPUTS = "Throughput, % of peak"
_COLUMNS = (
    Column("#", "number"),
    Column("kernel", "name"),
    Column("share", "number", rank=3),
    Column("path"),
    Column("level"),
    Column("intensity", "number", rank=1),
    Column("achieved", "number", rank=2),
    Column("roofline", "number", rank=4),
    Column("of roofline", "number"),
    Column("of ridge", rank=5),
    Column("limit"),
)


def roofline_document(session: Session, drawn: Sequence[DeviceFigures], top: int) -> Document:
    """Return the verdict on the kernels and, of each figure, its first `top` kernels (0: all)."""
    blocks = list(verdict_blocks(summary_of(session)))
    for figures in drawn:
        blocks += _roofline_blocks(figures.roofline, top)
        for title, rows in ((_BANDWIDTHS, figures.bandwidths), (_THROUGHPUTS, figures.throughputs)):
            if rows:
                blocks += [Heading(title), _utilization_table(title, rows, top)]
    return Document("Roofline", tuple(blocks))


def _roofline_blocks(figure: Roofline, top: int) -> Iterator[Block]:
    yield Heading(figure.title)
    yield Note(figure.subtitle, "muted")
    points_of: dict[int, list[RooflinePlace]] = {}
    for point in figure.points:
        points_of.setdefault(point.kernel, []).append(point)
    shown = list(points_of)[: top or None]
    rows = []
    for kernel in shown:
        main, *others = points_of[kernel]
        source = f" in {main.source}" if main.source else ""
        share = format_percent(main.share) if main.share is not None else ""
        rows.append((str(kernel), f"{main.label}{source}", share, *_cells(main), main.limit))
        rows += [("", "", "", *_cells(other), "") for other in others]
    if rows:
        yield filled(Table(figure.title, _COLUMNS, tuple(rows), more=_more(len(points_of) - len(shown))))
    for note in figure.notes:
        yield Note(note, "muted")


def _cells(point: RooflinePlace) -> tuple[str, ...]:
    return (
        path_name(point.path) + (", estimated" if point.estimated else ""),
        LEVEL_NAMES[point.level],
        intensity_text(point.path, point.intensity),
        rate_text(point.path, point.flop_per_s),
        rate_text(point.path, point.roof_flop_per_s),
        format_percent(point.fraction_of_roof),
        point.ridge,
    )


def _more(hidden: int) -> str:
    return f"… and {hidden} more: --top 0 shows all" if hidden else ""


def _utilization_table(label: str, rows: Sequence[Utilization], top: int) -> Table:
    units = list(dict.fromkeys(unit for row in rows for unit in row.fractions))
    cells = []
    for row in rows[: top or None]:
        fractions = [format_percent(row.fractions[unit]) if unit in row.fractions else "" for unit in units]
        cells.append((str(row.kernel), row.label + row.source, *fractions, row.limit))
    parts = [Column(unit_name(unit), "number") for unit in units]
    columns = (Column("#", "number"), Column("kernel", "name"), *parts, Column("limit"))
    return Table(label, columns, tuple(cells), more=_more(len(rows) - len(cells)))
