"""The view of the time by operator, module, range or kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from msgspec import Struct

from gpuprof.model.session import Session
from gpuprof.model.time_by import TimeBy, TimeGroup
from gpuprof.units import spaced
from gpuprof.views.document import Block, Cell, Column, Document, Heading, Inline, Table
from gpuprof.views.markdown import markdown_lines
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

if TYPE_CHECKING:
    from rich.console import Console

SHOW_ALL = "--top 0 shows all"
_TOP = 20
# The rows of operators have this share of the time together.
_MAIN_PART = 0.95
_OF_PEAK = "FLOP, or operands once, by shapes ÷ time, of the rated peak"
_OF_ROOF = "of the DRAM roofline at the kernels' clocks, weighted by time"


class _TimeColumn(Struct, frozen=True):
    """A column with the text of each group; an optional one is left out if no group has a value."""

    column: Column
    cell: Callable[[TimeGroup], Inline]
    is_optional: bool = False


def times_document(session: Session, times: TimeBy, top: int) -> Document:
    """Return the time by one grouping alone, with the `top` longest groups (0: all)."""
    return Document(header_text(times), times_blocks(times, top), session.gpuprof_version)


def print_times(console: Console, session: Session, times: TimeBy, top: int) -> None:
    """Print it in a terminal."""
    from gpuprof.views.terminal import print_document

    print_document(console, times_document(session, times, top))


def times_lines(session: Session, times: TimeBy, top: int) -> Iterator[str]:
    """Yield it as Markdown."""
    return markdown_lines(times_document(session, times, top))


def rows_of(times: TimeBy, top: int | None = None) -> int:
    """Return the number of rows: `top` (0: all), else 20, of operators at most those that take most of the time."""
    if top is not None:
        return top
    time_s = times.time_s if times.by == "operator" else None
    if time_s is None:
        return _TOP
    main = len(times.groups)
    for rows, until_s in enumerate(accumulate(group.time_s or 0.0 for group in times.groups), 1):
        if until_s >= _MAIN_PART * time_s:
            main = rows
            break
    # One more row says more than that one is left out.
    if len(times.groups) == main + 1:
        main += 1
    return min(_TOP, main)


def times_blocks(times: TimeBy, top: int, show_all: str = SHOW_ALL) -> tuple[Block, ...]:
    """Return the total and the table of the `top` longest groups (0: all); `show_all` says how to see the others."""
    return Heading(header_text(times), level=3), _table(times, top, show_all)


def _table(times: TimeBy, top: int, show_all: str) -> Table:
    shown = times.groups[: top or None]
    columns = [column for column in _columns(times) if _is_filled(column, shown)]
    return Table(
        label=f"Time by {times.by}",
        columns=tuple(item.column for item in columns),
        rows=tuple(tuple(item.cell(group) for item in columns) for group in shown),
        more=_below(times, show_all, len(shown)),
        short_more=partial(_below, times, show_all),
    )


def _is_filled(column: _TimeColumn, groups: Sequence[TimeGroup]) -> bool:
    if not column.is_optional:
        return True
    return any(column.cell(group) not in ("", UNKNOWN) for group in groups)


def _columns(times: TimeBy) -> Iterator[_TimeColumn]:
    yield _TimeColumn(Column(times.by, "name"), partial(name_text, times))
    if times.by not in ("operator", "kernel"):
        yield _TimeColumn(Column("kernels", "number", rank=3), lambda group: spaced(group.kernels))
    yield _TimeColumn(Column("launches", "number", rank=3), partial(launches_text, times))
    yield _TimeColumn(Column("time", "number", rank=2), lambda group: time_text(times, group.time_s))
    share = "share" if times.steps is None else "of step"
    yield _TimeColumn(Column(share, "number"), partial(_share, times))
    yield _TimeColumn(Column("FLOP", "number"), partial(flop_text, times), is_optional=True)
    yield _TimeColumn(Column("of peak", "number", meaning=_OF_PEAK), peak_text, is_optional=True)
    roof = Column("of roofline", "number", rank=4, meaning=_OF_ROOF)
    yield _TimeColumn(roof, lambda group: percent_text(group.fraction_of_roof), is_optional=True)
    if times.by != "kernel":
        longest = Column("longest kernel", "name", rank=1)
        yield _TimeColumn(longest, partial(longest_text, times), is_optional=True)


def _share(times: TimeBy, group: TimeGroup) -> Cell:
    share = share_of(times, group)
    return Cell(percent_text(share), order=share, bar=share)


def _below(times: TimeBy, show_all: str, shown: int) -> str:
    rest = rest_text(times, shown)
    left_out = f"… {rest}: {show_all}" if rest else ""
    return joined_by("; ", left_out, *note_texts(times, shown))
