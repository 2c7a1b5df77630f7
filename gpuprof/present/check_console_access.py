"""Loops and memory accesses of a kernel in the terminal: what a request costs, what it needs, what is not known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuprof.present.check_alike import alike_accesses, most_worth
from gpuprof.present.check_text import (
    access_place,
    bytes_text,
    cost_text,
    is_costly,
    loop_text,
    needed_text,
)
from gpuprof.present.console_parts import LABEL_WIDTH, Sheet, aligned
from gpuprof.review.contract import CodeAccess, ReviewedKernel
from gpuprof.words.profile_values import count_text

if TYPE_CHECKING:
    from rich.text import Text

_MOST_LOOPS, _MOST_ACCESSES = 24, 40
_INDENT, _LEAST_PLACE, _MOST_PLACE = 3, 16, 40
_LEAST_COLUMNS = 5
_HEAD = ("line", "access", "width", "a request", "needs", "lane to lane", "loops")
_RIGHT = (2, 3, 4, 5, 6)


def loop_lines(kernel: ReviewedKernel, sheet: Sheet) -> Iterator[Text]:
    """Yield the loops, each inside the one around it."""
    shown = kernel.loops[:_MOST_LOOPS]
    room = sheet.width - LABEL_WIDTH
    lines = [sheet.clipped(f"{'  ' * min(loop.depth - 1, 8)}{loop_text(loop)}", room) for loop in shown]
    if lines:
        yield sheet.labelled("loops", lines)
    if len(kernel.loops) > len(shown):
        more = count_text(len(kernel.loops) - len(shown), "more loop")
        yield sheet.field("", f"… and {more}: --format json has all", "dim")


def access_lines(kernel: ReviewedKernel, sheet: Sheet) -> Iterator[Text]:
    """Yield a table of the accesses; those that are alike are one row, and of many the costly ones are shown.

    Why costs are not known is said below, once for all rows.
    """
    from rich.text import Text

    rows = alike_accesses(kernel.accesses, by_opcode=False)
    if not rows:
        return
    shown = most_worth(rows, _MOST_ACCESSES)
    depths = {loop.id: loop.depth for loop in kernel.loops}
    unknown = dict.fromkeys(row.access.unknown for row in shown if row.access.unknown)
    reasons = {text: number for number, text in enumerate(unknown, 1)}
    cells = [_cells(row.access, row.number, depths, reasons) for row in shown]
    head, *body = _aligned(cells, sheet)
    margin = " " * _INDENT
    yield Text("")
    yield Text(f"{margin}{head}", "bold", no_wrap=True, overflow="ignore")
    for row, line in zip(shown, body, strict=True):
        style = "yellow" if is_costly(row.access) else ""
        yield Text(f"{margin}{line}", style=style, no_wrap=True, overflow="ignore")
    for text, number in reasons.items():
        yield sheet.hanging(f"{margin}({number}) ", text)
    if len(rows) > len(shown):
        more = count_text(len(rows) - len(shown), "more line")
        yield sheet.paragraph(f"… and {more} that cost no more than they need: --format json has all", "dim", _INDENT)


def _cells(access: CodeAccess, number: int, depths: Mapping[int, int], reasons: Mapping[str, int]) -> tuple[str, ...]:
    times = f" ×{number}" if number > 1 else ""
    stride = access.lane_stride_bytes if access.space != "local" else None
    return (
        access_place(access),
        f"{access.space} {access.kind}{times}",
        bytes_text(access.width_bytes),
        cost_text(access) + (f" ({reasons[access.unknown]})" if access.unknown else ""),
        needed_text(access),
        f"{stride} B" if stride is not None else "–",
        str(depths.get(access.loop, 0) if access.loop is not None else 0),
    )


def _aligned(cells: Sequence[Sequence[str]], sheet: Sheet) -> Iterator[str]:
    """Yield the head and the rows; what is left beside the figures is for the places, and the last columns go first."""
    rows = [tuple(map(sheet.legible, row)) for row in (_HEAD, *cells)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    shown = len(_HEAD)
    room = sheet.table_width - _INDENT
    while sum(widths[1:shown]) + 2 * (shown - 1) + min(widths[0], _LEAST_PLACE) > room and shown > _LEAST_COLUMNS:
        shown -= 1
    place = min(max(room - sum(widths[1:shown]) - 2 * (shown - 1), _LEAST_PLACE // 2), _MOST_PLACE)
    return aligned([(sheet.fitted(row[0], place), *row[1:shown]) for row in rows], right=_RIGHT)
