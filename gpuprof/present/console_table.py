"""The table of kernels in the terminal: a line each, with as many columns as have something to tell and fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from gpuprof.model.headline import first_finding
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.console_parts import SEVERITY_STYLES, Sheet, padded
from gpuprof.present.kernel_columns import NO_FINDING, SPREAD_COLUMNS, launches_text, peak_text, rule_text
from gpuprof.units import format_percent
from gpuprof.words.profile_values import (
    IMPOSSIBLE,
    NO_CEILING,
    NOT_COLLECTED,
    count_text,
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
from gpuprof.words.source_names import in_source

if TYPE_CHECKING:
    from rich.text import Text

_WIDE, _WIDER = 100, 120
_WANTED_NAME, _MOST_NAME = 36, 72
_LONGEST_LAUNCH = 24
_GAP = "  "
_OF_PEAK = "of peak"
_PEAK_NOTE = "of peak: what its operator asks for by shapes, FLOP or operands once, of the rated peak"
_SHORT = {NOT_COLLECTED: "n/c", NO_CEILING: "no ceiling"}
_MARKS = {
    " n/c": "n/c: not collected; the report lacks the counters",
    " no ceiling": "no ceiling: work and traffic are known, the GPU's peak rates are not; see --spec",
    f" {IMPOSSIBLE}": f"{IMPOSSIBLE}: a rate is above its ceiling, so the counters or the ceiling are wrong",
    "≥ ": "≥: tensor work was not collected, so the kernel may be closer to its ceiling",
    "%+": "+: or more; only some of its parts were counted",
}
"""What is said below a table in which a mark stands."""
_HEAD_LINES = 2
_EMPTY = ("n/c", NO_FINDING, "")


class _Column(Struct, frozen=True):
    """A column: its head, its cells, and what it takes to be shown.

    `rank` orders what is left out first where the names get too little room, the highest first; 0 always stays.
    """

    head: str
    cell: Callable[[KernelProfile], str]
    least_width: int = 0
    left: bool = False
    rank: int = 0


def table_lines(
    session: Session, kernels: Sequence[KernelProfile], hidden: Sequence[KernelProfile], sheet: Sheet, show_all: str
) -> Iterator[Text]:
    """Yield the table of kernels and, below it, what its marks mean and how many it leaves out.

    `show_all` is the option that shows those, too.
    """
    from rich.text import Text

    if not kernels:
        return
    lines = list(_kernel_lines(session, kernels, sheet))
    yield from lines
    shown = "\n".join(line.plain for line in lines[_HEAD_LINES:])
    for mark, note in _MARKS.items():
        if sheet.legible(mark) in shown:
            yield sheet.paragraph(note, "dim")
    if _OF_PEAK in lines[0].plain:
        yield sheet.paragraph(_PEAK_NOTE, "dim")
    if hidden:
        rest = sum(kernel.time_share or 0.0 for kernel in hidden)
        share = f", {format_percent(rest)} of the time" if rest else ""
        noun, plural = row_noun(session.kernels)
        more = count_text(len(hidden), f"more {noun}", plural)
        yield Text(sheet.legible(f"… and {more}{share}: {show_all}"), style="dim")


def _kernel_lines(session: Session, kernels: Sequence[KernelProfile], sheet: Sheet) -> Iterator[Text]:
    """The head, a rule and a line for each kernel; the names take what room the other columns leave."""
    from rich.text import Text

    limit = sheet.table_width
    numbers = [str(kernel.id) for kernel in kernels]
    first = max(len(text) for text in ("#", *numbers))
    names = [(kernel.label, in_source(session, kernel)) for kernel in kernels]
    longest = max(sheet.cells(sheet.legible("".join(name))) for name in (("kernel",), *names))
    columns = _columns(session, kernels, sheet, limit - first - len(_GAP) - _least_name(longest, limit))
    room = limit - first - len(_GAP) - sum(column.width + len(_GAP) for column in columns)
    width = min(longest, max(room, _least_name(longest, limit)), _MOST_NAME)
    head = [f"{'#'.rjust(first)}", "kernel".ljust(width), *(column.head for column in columns)]
    yield Text(_GAP.join(head).rstrip(), style="bold", no_wrap=True, overflow="ignore")
    rule = "─" if sheet.blocks else "-"
    yield Text(rule * min(limit, len(_GAP.join(head))), style="dim", no_wrap=True, overflow="ignore")
    for index in range(len(kernels)):
        line = Text(no_wrap=True, overflow="ignore")
        label, source = names[index]
        line.append(f"{numbers[index].rjust(first)}{_GAP}{sheet.filled(sheet.fitted(label, width, source), width)}")
        for column in columns:
            line.append(_GAP)
            line.append(column.cells[index], column.styles[index])
        line.rstrip()
        yield line


def _least_name(longest: int, limit: int) -> int:
    """Return how much room names get before any column that can be left out."""
    return min(longest, _WANTED_NAME, limit // 3)


class _Filled(Struct, frozen=True):
    """A column as it will stand: head and cells padded to its width."""

    head: str
    cells: list[str]
    styles: list[str]
    width: int
    rank: int


def _columns(session: Session, kernels: Sequence[KernelProfile], sheet: Sheet, limit: int) -> list[_Filled]:
    """Return the columns that have something to tell, fewer where the names would have too little room."""
    filled = [
        column
        for wanted in _wanted(session, kernels)
        if sheet.columns >= wanted.least_width and (column := _filled(wanted, kernels, sheet)) is not None
    ]
    while sum(column.width + len(_GAP) for column in filled) > limit:
        last = max(filled, key=lambda column: column.rank)
        if last.rank == 0:
            break
        filled.remove(last)
    return filled


def _filled(column: _Column, kernels: Sequence[KernelProfile], sheet: Sheet) -> _Filled | None:
    """Return a column with its cells; None where all of them are empty."""
    cells = [sheet.legible(_SHORT.get(text, text)) for text in map(column.cell, kernels)]
    if all(cell in _EMPTY for cell in cells):
        return None
    head, *cells = padded((column.head, *cells), left=column.left)
    styles = [_finding_style(kernel) if column.cell is rule_text else "" for kernel in kernels]
    return _Filled(head=head, cells=cells, styles=styles, width=len(head), rank=column.rank)


def _wanted(session: Session, kernels: Sequence[KernelProfile]) -> Iterator[_Column]:
    if name_repeats(session.kernels):
        yield _Column("grid×block", _configuration, left=True, rank=1)
    for head, texts in zip(("registers", "shared"), resource_texts(session.kernels), strict=True):
        if texts:
            yield _Column(head, _written(texts), rank=1)
    if any(kernel.launches > 1 for kernel in kernels):
        yield _Column("launches", launches_text)
    yield _Column("time", time_text)
    yield _Column("share", share_text)
    if session.only_times:
        yield _Column(_OF_PEAK, peak_text)
        for index, (name, text) in enumerate(SPREAD_COLUMNS.items()):
            yield _Column(name, text, rank=index)
        return
    yield _Column("busiest", limit_text)
    yield _Column("roofline", roof_text, rank=2)
    yield _Column("occ.", occupied_text)
    yield _Column("main stall", stall_text, _WIDE, left=True, rank=3)
    yield _Column("first finding", rule_text, _WIDER, left=True, rank=4)


def _written(texts: Mapping[int, str]) -> Callable[[KernelProfile], str]:
    """Return what writes the text of a kernel."""
    return lambda kernel: texts.get(kernel.id, "")


def _configuration(kernel: KernelProfile) -> str:
    text = launch_text(kernel)
    return text if len(text) <= _LONGEST_LAUNCH else ""


def _finding_style(kernel: KernelProfile) -> str:
    """Dim where there is nothing to gain."""
    finding = first_finding(kernel)
    return SEVERITY_STYLES[finding.severity].removeprefix("bold ") if finding is not None else "dim"
