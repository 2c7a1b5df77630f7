"""The table of kernels: a row each, with the columns in which any of them has a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from gpuprof.model.headline import asked_of_peak, first_finding, nearest_limit
from gpuprof.model.session import KernelProfile, Session
from gpuprof.units import format_percent, spaced
from gpuprof.views.document import Cell, Column, Inline, Table, filled, text_of
from gpuprof.views.kernel import finding_anchor
from gpuprof.words.flop import of_peak_text
from gpuprof.words.profile_values import (
    IMPOSSIBLE,
    NO_CEILING,
    NOT_COLLECTED,
    count_text,
    duration_text,
    launch_text,
    limit_text,
    name_repeats,
    occupied_text,
    resource_texts,
    roof_point,
    roof_text,
    row_noun,
    share_text,
    stall_text,
    time_text,
)
from gpuprof.words.sentences import joined_by
from gpuprof.words.source_names import in_source

SHOW_ALL = "gpuprof show --top 0 lists all"
_NO_FINDING = "–"
_SHORT = {NOT_COLLECTED: "n/c", NO_CEILING: "no ceiling"}
_EMPTY = ("n/c", _NO_FINDING)
# The meaning of marks in the rows.
_MARKS = {
    "n/c": "n/c: not collected, the report lacks the counters",
    "no ceiling": "no ceiling: work and traffic are known, the GPU's peak rates are not; see --spec",
    IMPOSSIBLE: f"{IMPOSSIBLE}: a rate is above its ceiling, so the counters or the ceiling are wrong",
    "≥ ": "≥: tensor work was not collected, so the kernel may be closer to its ceiling",
    "%+": "+: or more; only some of its parts were counted",
}
_COLUMNS = (
    Column("#", "number"),
    Column("kernel", "name"),
    Column("grid×block", rank=1),
    Column("registers", "number", rank=1),
    Column("shared", "number", rank=1),
    Column("launches", "number", rank=1),
    Column("time", "number"),
    Column("share", "number"),
)
# Of a session without counters.
_TIME_COLUMNS = (
    Column(
        "of peak", "number", meaning="what its operator asks for by shapes, FLOP or operands once, of the rated peak"
    ),
    Column("median", "number"),
    Column("p95", "number", rank=1),
    Column("p99", "number", rank=2),
)
_BUSIEST = "of SM, L1, L2, DRAM and memory as a whole, the one nearest to its peak over all elapsed cycles"
_COUNTER_COLUMNS = (
    Column("busiest", "number", meaning=_BUSIEST),
    Column("roofline", "number", rank=2, meaning="share of the DRAM roofline at the clock that the kernel ran at"),
    Column("occ.", "number", rank=1),
    Column("main stall", rank=3),
    Column("first finding", rank=4),
)


def kernel_table(
    session: Session, kernels: Sequence[KernelProfile], rows: int, links: Mapping[int, str] | None = None
) -> Table:
    """Return the first `rows` of these kernels.

    `links` are the anchors of kernels that have a section, by id; with it the page can filter the rows.
    """
    shown = kernels[:rows]
    repeats = name_repeats(session.kernels)
    registers, shared = resource_texts(session.kernels)
    several = any(kernel.launches > 1 for kernel in shown)
    anchors = links or {}
    cells: list[tuple[Inline, ...]] = []
    for kernel in shown:
        row = (
            Cell(str(kernel.id), order=kernel.id),
            Cell(kernel.label + in_source(session, kernel), href=anchors.get(kernel.id, "")),
            launch_text(kernel) if repeats else "",
            registers.get(kernel.id, ""),
            shared.get(kernel.id, ""),
            _cell(spaced(kernel.launches), kernel.launches) if several else "",
            _cell(time_text(kernel), kernel.time_total_s),
            _cell(share_text(kernel), kernel.time_share, kernel.time_share),
        )
        values = _time_cells(kernel) if session.only_times else _counter_cells(kernel, anchors)
        cells.append((*row, *values))
    table = Table(
        label="Kernels",
        columns=_COLUMNS + (_TIME_COLUMNS if session.only_times else _COUNTER_COLUMNS),
        rows=tuple(cells),
        anchors=tuple(f"row-{kernel.id}" for kernel in shown) if links is not None else (),
        filter=links is not None,
    )
    table = filled(table, *_EMPTY)
    below = partial(_below, kernels, table.rows, row_noun(session.kernels))
    return replace(table, more=below(len(cells)), short_more=below)


def _below(
    kernels: Sequence[KernelProfile], rows: Sequence[Sequence[Inline]], noun: tuple[str, str], shown: int
) -> str:
    """Write how many kernels the first rows leave out, and the meaning of the marks in them."""
    left_out = ""
    rest = kernels[shown:]
    if rest:
        share = sum(kernel.time_share or 0.0 for kernel in rest)
        of_time = f", {format_percent(share)} of the time" if share else ""
        left_out = f"… and {count_text(len(rest), f'more {noun[0]}', noun[1])}{of_time}: {SHOW_ALL}"
    texts = [text_of(cell) for row in rows[:shown] for cell in row[2:]]
    notes = [note for mark, note in _MARKS.items() if any(mark in text for text in texts)]
    return joined_by("; ", left_out, *notes)


def _time_cells(kernel: KernelProfile) -> Iterator[Cell]:
    nearer = asked_of_peak(kernel.own_flop, kernel.operator_bytes)
    most = nearer.most if nearer is not None else None
    yield _cell(of_peak_text(kernel.own_flop, kernel.operator_bytes), most)
    # The percentiles of one launch are its duration.
    only = kernel.duration_s if kernel.averages is None else None
    for name in ("p50", "p95", "p99"):
        seconds = getattr(kernel.duration_percentiles_s, name, only)
        yield _cell(duration_text(seconds), seconds)


def _counter_cells(kernel: KernelProfile, links: Mapping[int, str]) -> Iterator[Cell]:
    limit = nearest_limit(kernel)
    yield _cell(limit_text(kernel), limit.fraction if limit is not None else None)
    point = roof_point(kernel)
    fraction = point.fraction_of_roof if point is not None else None
    yield _cell(roof_text(kernel), fraction, fraction)
    occupancy = kernel.occupancy
    achieved = occupancy.theoretical if occupancy.achieved is None else occupancy.achieved
    yield _cell(occupied_text(kernel), achieved)
    yield _cell(stall_text(kernel))
    finding = first_finding(kernel)
    if finding is None:
        yield _cell(_NO_FINDING, 0.0)
        return
    gain = finding.gain_total if finding.gain_total is not None else finding.gain_kernel
    href = finding_anchor(finding.id) if kernel.id in links else ""
    yield Cell(finding.rule, finding.severity, href, order=gain or 0.0, whole=finding.headline)


def _cell(text: str, order: float | None = None, bar: float | None = None) -> Cell:
    """Return a value with the number that it is sorted by; a value that was not collected is short and pale."""
    short = _SHORT.get(text, text)
    return Cell(short, "muted" if short in _EMPTY else "", order=order, bar=bar)
