"""What `gpuprof roofline` prints: the verdict, then for each figure a row for each point, and what is not drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.model.path_names import path_name
from gpuprof.model.session import Session
from gpuprof.units import format_percent
from gpuprof.views.document import Block, Column, Document, Heading, Note, Table
from gpuprof.views.roofline import DeviceFigures
from gpuprof.views.roofline_values import Roofline, RooflinePlace
from gpuprof.views.utilization import Utilization, unit_name
from gpuprof.words.profile_values import LEVEL_NAMES, count_text, intensity_text, rate_text, row_noun
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
    summary = summary_of(session)
    blocks: list[Block] = []
    if summary.headline:
        blocks.append(Note(summary.headline, "strong"))
    blocks.append(Note(summary.spread, "" if summary.headline else "strong"))
    blocks += [Note(note) for note in summary.notes]
    for figures in drawn:
        blocks += _roofline_blocks(session, figures.roofline, top)
        for title, rows in ((_BANDWIDTHS, figures.bandwidths), (_THROUGHPUTS, figures.throughputs)):
            if rows:
                blocks += [Heading(title), _utilization_table(title, rows, top)]
    return Document("Roofline", tuple(blocks))


def _roofline_blocks(session: Session, figure: Roofline, top: int) -> Iterator[Block]:
    yield Heading(figure.title)
    yield Note(figure.subtitle, "muted")
    kernels = list(dict.fromkeys(point.kernel for point in figure.points))
    hidden = kernels[top:] if top else []
    points = [point for point in figure.points if point.kernel not in hidden]
    if points:
        rows = []
        named: set[int] = set()
        for point in points:
            rows.append(_cells(point, is_first=point.kernel not in named))
            named.add(point.kernel)
        columns = [place for place, _ in enumerate(_COLUMNS) if any(row[place] for row in rows)]
        yield Table(
            label=figure.title,
            columns=tuple(_COLUMNS[place] for place in columns),
            rows=tuple(tuple(row[place] for place in columns) for row in rows),
            more=_more(session, figure, hidden),
        )
    for note in figure.notes:
        yield Note(note, "muted")


def _cells(point: RooflinePlace, *, is_first: bool) -> tuple[str, ...]:
    """Return the row of a point; what is its kernel's stands in its first row only."""
    source = f" in {point.source}" if point.source else ""
    return (
        str(point.kernel) if is_first else "",
        f"{point.label}{source}" if is_first else "",
        format_percent(point.share) if is_first and point.share is not None else "",
        path_name(point.path) + (", estimated" if point.estimated else ""),
        LEVEL_NAMES[point.level],
        intensity_text(point.path, point.intensity),
        rate_text(point.path, point.flop_per_s),
        rate_text(point.path, point.roof_flop_per_s),
        format_percent(point.fraction_of_roof),
        point.ridge,
        point.limit if is_first else "",
    )


def _more(session: Session, figure: Roofline, hidden: Sequence[int]) -> str:
    if not hidden:
        return ""
    noun, plural = row_noun(session.kernels)
    shares = {point.kernel: point.share or 0.0 for point in figure.points}
    share = sum(shares[kernel] for kernel in hidden)
    of_time = f", {format_percent(share)} of the time" if share else ""
    return f"… and {count_text(len(hidden), f'more {noun}', plural)}{of_time}: --top 0 shows all"


def _utilization_table(label: str, rows: Sequence[Utilization], top: int) -> Table:
    units = list(dict.fromkeys(unit for row in rows for unit in row.fractions))
    shown = rows[:top] if top else rows
    cells = []
    for row in shown:
        fractions = [format_percent(row.fractions[unit]) if unit in row.fractions else "" for unit in units]
        cells.append((str(row.kernel), row.label + row.source, *fractions, row.limit))
    left_out = len(rows) - len(shown)
    return Table(
        label=label,
        columns=(
            Column("#", "number"),
            Column("kernel", "name"),
            *(Column(unit_name(unit), "number") for unit in units),
            Column("limit"),
        ),
        rows=tuple(cells),
        more=f"… and {left_out} more: --top 0 shows all" if left_out else "",
    )
