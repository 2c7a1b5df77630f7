"""The table of kernels: a row each, with the columns in which any of them has a value."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from gpuprof.model.headline import asked_of_peak, first_finding, main_point, main_stall, nearest_limit
from gpuprof.model.session import KernelProfile, Session
from gpuprof.units import format_percent, spaced
from gpuprof.views.document import Cell, Column, Inline, Table
from gpuprof.views.kernel import finding_anchor
from gpuprof.words.finding_text import short_gain
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
    roof_text,
    row_noun,
    share_text,
    stall_text,
    time_text,
)
from gpuprof.words.sentences import joined_by
from gpuprof.words.source_names import in_source

_LONGEST_LAUNCH = 24
_NO_FINDING = "–"
_SHORT = {NOT_COLLECTED: "n/c", NO_CEILING: "no ceiling"}
_EMPTY = ("n/c", _NO_FINDING, "")
# What a text in a row means.
_MARKS = {
    "n/c": "n/c: not collected, the report lacks the counters",
    "no ceiling": "no ceiling: work and traffic are known, the GPU's peak rates are not; see --spec",
    IMPOSSIBLE: f"{IMPOSSIBLE}: a rate is above its ceiling, so the counters or the ceiling are wrong",
    "≥ ": "≥: tensor work was not collected, so the kernel may be closer to its ceiling",
    "%+": "+: or more; only some of its parts were counted",
}
_PEAK = "what its operator asks for by shapes, FLOP or operands once, of the rated peak"
_ROOF = "share of the DRAM roofline at the clock that the kernel ran at"
_BUSIEST = "of SM, L1, L2, DRAM and memory as a whole, the one nearest to its peak over all elapsed cycles"


class _KernelColumn(Struct, frozen=True):
    column: Column
    cell: Callable[[KernelProfile], Inline]


def kernel_table(
    session: Session,
    kernels: Sequence[KernelProfile],
    rows: int,
    show_all: str,
    links: Mapping[int, str] | None = None,
) -> Table:
    """Return the first `rows` of these kernels; `show_all` says how to see the others.

    `links` are the anchors of kernels that have a section, by id; with it the page can filter the rows.
    """
    shown = kernels[:rows]
    columns: list[Column] = []
    cells: list[list[Inline]] = []
    for item in _columns(session, shown, links or {}):
        texts = [item.cell(kernel) for kernel in shown]
        if any(_text(text) not in _EMPTY for text in texts):
            columns.append(item.column)
            cells.append(texts)
    made = tuple(zip(*cells, strict=True))
    below = partial(_below, kernels, made, row_noun(session.kernels), show_all)
    return Table(
        label="Kernels",
        columns=tuple(columns),
        rows=made,
        anchors=tuple(f"row-{kernel.id}" for kernel in shown) if links is not None else (),
        more=below(len(made)),
        short_more=below,
        filter=links is not None,
    )


def _text(cell: Inline) -> str:
    return cell if isinstance(cell, str) else cell.text


def _below(
    kernels: Sequence[KernelProfile],
    rows: Sequence[Sequence[Inline]],
    noun: tuple[str, str],
    show_all: str,
    shown: int,
) -> str:
    """Say which kernels are not in the first rows, and what the marks in these mean."""
    texts = [_text(cell) for row in rows[:shown] for cell in row[2:]]
    notes = [note for mark, note in _MARKS.items() if any(mark in text for text in texts)]
    return joined_by("; ", left_out_text(kernels[shown:], noun, show_all), *notes)


def left_out_text(rest: Sequence[KernelProfile], noun: tuple[str, str], show_all: str) -> str:
    """Write how many kernels are left out and their share of the time; empty if none is."""
    if not rest:
        return ""
    share = sum(kernel.time_share or 0.0 for kernel in rest)
    of_time = f", {format_percent(share)} of the time" if share else ""
    return f"… and {count_text(len(rest), f'more {noun[0]}', noun[1])}{of_time}: {show_all}"


def _columns(session: Session, kernels: Sequence[KernelProfile], links: Mapping[int, str]) -> Iterator[_KernelColumn]:
    yield _KernelColumn(Column("#", "number"), lambda kernel: Cell(str(kernel.id), order=kernel.id))
    yield _KernelColumn(Column("kernel", "name"), lambda kernel: _name(session, kernel, links))
    if name_repeats(session.kernels):
        yield _KernelColumn(Column("grid×block", rank=1), _configuration)
    for head, texts in zip(("registers", "shared"), resource_texts(session.kernels), strict=True):
        if texts:
            yield _KernelColumn(Column(head, "number", rank=1), partial(_written, texts))
    if any(kernel.launches > 1 for kernel in kernels):
        yield _KernelColumn(Column("launches", "number", rank=1), _launches)
    yield _KernelColumn(Column("time", "number"), lambda kernel: _cell(time_text(kernel), kernel.time_total_s))
    yield _KernelColumn(Column("share", "number"), _share)
    yield from _time_columns() if session.only_times else _counter_columns(links)


def _time_columns() -> Iterator[_KernelColumn]:
    """Yield the columns of a session without counters."""
    yield _KernelColumn(Column("of peak", "number", meaning=_PEAK), _of_peak)
    for rank, (name, percentile) in enumerate((("median", "p50"), ("p95", "p95"), ("p99", "p99"))):
        yield _KernelColumn(Column(name, "number", rank=rank), partial(_percentile, percentile))


def _counter_columns(links: Mapping[int, str]) -> Iterator[_KernelColumn]:
    yield _KernelColumn(Column("busiest", "number", meaning=_BUSIEST), _busiest)
    yield _KernelColumn(Column("roofline", "number", rank=2, meaning=_ROOF), _roof)
    yield _KernelColumn(Column("occ.", "number", rank=1), _occupancy)
    yield _KernelColumn(Column("main stall", rank=3), _stall)
    yield _KernelColumn(Column("first finding", rank=4), partial(_finding, links))


def _cell(text: str, order: float | None, bar: float | None = None) -> Cell:
    """Return a value with the number that it is sorted by; what was not collected is short and pale."""
    short = _SHORT.get(text, text)
    return Cell(short, "muted" if short in _EMPTY else "", order=order, bar=bar)


def _name(session: Session, kernel: KernelProfile, links: Mapping[int, str]) -> Cell:
    return Cell(kernel.label + in_source(session, kernel), href=links.get(kernel.id, ""))


def _configuration(kernel: KernelProfile) -> str:
    text = launch_text(kernel)
    return text if len(text) <= _LONGEST_LAUNCH else ""


def _written(texts: Mapping[int, str], kernel: KernelProfile) -> str:
    return texts.get(kernel.id, "")


def _launches(kernel: KernelProfile) -> Cell:
    return _cell(spaced(kernel.launches), kernel.launches)


def _share(kernel: KernelProfile) -> Cell:
    return _cell(share_text(kernel), kernel.time_share, kernel.time_share)


def _of_peak(kernel: KernelProfile) -> Cell:
    nearer = asked_of_peak(kernel.own_flop, kernel.operator_bytes)
    most = nearer.most if nearer is not None else None
    return _cell(of_peak_text(kernel.own_flop, kernel.operator_bytes), most)


def _percentile(name: str, kernel: KernelProfile) -> Cell:
    """Return a percentile of the durations of a kernel's launches; of one launch it is its duration."""
    known = kernel.duration_s if kernel.averages is None else None
    seconds = getattr(kernel.duration_percentiles_s, name, known)
    return _cell(duration_text(seconds), seconds)


def _busiest(kernel: KernelProfile) -> Cell:
    limit = nearest_limit(kernel)
    return _cell(limit_text(kernel), limit.fraction if limit is not None else None)


def _roof(kernel: KernelProfile) -> Cell:
    point = main_point(kernel)
    fraction = point.fraction_of_roof if point is not None else None
    return _cell(roof_text(kernel), fraction, fraction)


def _occupancy(kernel: KernelProfile) -> Cell:
    achieved = kernel.occupancy.achieved
    return _cell(occupied_text(kernel), kernel.occupancy.theoretical if achieved is None else achieved)


def _stall(kernel: KernelProfile) -> Cell:
    stall = main_stall(kernel)
    return _cell(stall_text(kernel), stall.share if stall is not None else None)


def _finding(links: Mapping[int, str], kernel: KernelProfile) -> Cell:
    finding = first_finding(kernel)
    if finding is None:
        return Cell(_NO_FINDING, "muted", order=0.0)
    gain = finding.gain_total if finding.gain_total is not None else finding.gain_kernel
    whole = joined_by(": ", short_gain(gain, finding.gain_kind) if gain else "", finding.headline)
    href = finding_anchor(finding) if kernel.id in links else ""
    return Cell(finding.rule, finding.severity, href, order=gain or 0.0, whole=whole)
