"""The view of the time by operator, module, range or kernel."""

from __future__ import annotations

from functools import partial

from gpuprof.model.time_by import TimeBy, TimeGroup
from gpuprof.units import spaced
from gpuprof.views.document import Block, Cell, Column, Document, Heading, Inline, Table, filled
from gpuprof.views.kernel_table import SHOW_ALL
from gpuprof.words.sentences import joined_by
from gpuprof.words.time_by import (
    UNKNOWN,
    flop_text,
    header_text,
    launches_text,
    longest_text,
    name_text,
    note_texts,
    peak_text,
    percent_text,
    rest_text,
    share_of,
    time_text,
)

_OF_PEAK = "FLOP, or operands once, by shapes ÷ time, of the rated peak"
_OF_ROOF = "of the DRAM roofline at the kernels' clocks, weighted by time"


def times_document(_session: object, times: TimeBy, top: int) -> Document:
    """Return the time by one grouping alone, with the `top` longest groups (0: all)."""
    return Document(header_text(times), times_blocks(times, top))


def times_blocks(times: TimeBy, top: int) -> tuple[Block, ...]:
    """Return the total and the table of the `top` longest groups (0: all)."""
    shown = times.groups[: top or None]
    columns = (
        Column(times.by, "name"),
        Column("kernels", "number", rank=3),
        Column("launches", "number", rank=3),
        Column("time", "number", rank=2),
        Column("share" if times.steps is None else "of step", "number"),
        Column("FLOP", "number"),
        Column("of peak", "number", meaning=_OF_PEAK),
        Column("of roofline", "number", rank=4, meaning=_OF_ROOF),
        Column("longest kernel", "name", rank=1),
    )
    table = Table(
        label=f"Time by {times.by}",
        columns=columns,
        rows=tuple(_row(times, group) for group in shown),
        more=_below(times, len(shown)),
        short_more=partial(_below, times),
    )
    return Heading(header_text(times), level=3), filled(table, UNKNOWN)


def _row(times: TimeBy, group: TimeGroup) -> tuple[Inline, ...]:
    share = share_of(times, group)
    return (
        name_text(times, group),
        spaced(group.kernels) if times.by not in ("operator", "kernel") else "",
        launches_text(times, group),
        time_text(times, group.time_s),
        Cell(percent_text(share), order=share, bar=share),
        flop_text(times, group),
        peak_text(group),
        percent_text(group.fraction_of_roof),
        longest_text(times, group) if times.by != "kernel" else "",
    )


def _below(times: TimeBy, shown: int) -> str:
    rest = rest_text(times, shown)
    left_out = f"… {rest}: {SHOW_ALL}" if rest else ""
    return joined_by("; ", left_out, *note_texts(times, shown))
