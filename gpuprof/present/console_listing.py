"""A kernel's machine code in the terminal: a table, its last column as wide as the screen leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from gpuprof.annotated.listing import ListedInstruction, Listing
from gpuprof.model.session import KernelProfile
from gpuprof.present.console_parts import Sheet
from gpuprof.present.listing_rows import (
    FoldedStretch,
    Heading,
    access_text,
    all_folded_text,
    executed_text,
    finding_texts,
    folded_text,
    head_texts,
    listing_rows,
    main_stall_text,
    note_texts,
    offset_text,
    share_text,
    short_access_text,
    short_stall_text,
    threads_text,
)
from gpuprof.views.terminal import print_blocks

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_GAP = "  "
_MOST_CODE, _LEAST_CODE = 44, 28
"""Columns that nearly all instructions fit into, and most: other columns become short for the first, and give way to
the second."""
_HOT, _WARM = 0.1, 0.01
_STAYS = 9


class _Column(Struct, frozen=True, kw_only=True):
    """A column: its head, what stands in it, and in little room, and whether numbers end below each other."""

    head: str
    text: Callable[[ListedInstruction], str]
    short: Callable[[ListedInstruction], str] | None = None
    right: bool = True
    stays: int = _STAYS


_COLUMNS = (
    _Column(head="offset", text=offset_text),
    _Column(head="samples", text=share_text),
    _Column(head="main stall", text=main_stall_text, short=short_stall_text, right=False, stays=3),
    _Column(head="executed", text=executed_text, stays=1),
    _Column(head="threads", text=threads_text, stays=0),
    _Column(head="memory", text=access_text, short=short_access_text, right=False, stays=2),
)
"""Those that stay least go first where there is little room."""


def print_listing(console: Console, kernel: KernelProfile, listing: Listing, whole: bool) -> None:
    """Print the listing of a kernel; `whole`: without folding what takes next to no time."""
    print_blocks(console, _lines(kernel, listing, Sheet.of(console), whole=whole))


def _lines(kernel: KernelProfile, listing: Listing, sheet: Sheet, *, whole: bool) -> Iterator[Text]:
    from rich.text import Text

    for number, text in enumerate(head_texts(kernel, listing)):
        yield sheet.paragraph(text, "bold" if not number else "")
    for text in note_texts(listing):
        yield sheet.paragraph(f"not known: {text}", "dim")
    yield Text("")
    table = _Table(listing, sheet)
    if table.hidden:
        yield sheet.paragraph(f"on a wider terminal also: {', '.join(table.hidden)}", "dim")
    yield table.head()
    rows = list(listing_rows(listing, whole=whole))
    for row in rows:
        if isinstance(row, Heading):
            yield from table.heading(row)
        elif isinstance(row, FoldedStretch):
            yield Text(sheet.legible(f"{table.indent}{folded_text(row)}"), style="dim")
        else:
            yield from table.instruction(row)
            for text in finding_texts(kernel, row):
                yield table.finding(text)
    folded = all_folded_text(rows)
    if folded:
        yield Text("")
        yield sheet.paragraph(folded, "dim")


class _Table:
    """The columns that there is room for, those first to go left out, and the code behind them."""

    def __init__(self, listing: Listing, sheet: Sheet) -> None:
        self._sheet = sheet
        columns = _filled(_COLUMNS, listing)
        if _taken(columns) + _MOST_CODE > sheet.columns:
            columns = _filled([structs.replace(each, text=each.short or each.text) for each in _COLUMNS], listing)
        self.hidden: list[str] = []
        for column in sorted(columns, key=lambda column: column.stays):
            if column.stays < _STAYS and _taken(columns) + _LEAST_CODE > sheet.columns:
                self.hidden.append(column.head)
                del columns[column]
        self._columns = tuple(columns.items())
        self._code = _taken(columns)
        self.indent = " " * (self._columns[0][1] + len(_GAP))
        self._has_code = "SASS" if any(each.sass for each in listing.instructions) else ""

    def head(self) -> Text:
        """Return the heads of the columns."""
        return _line(
            _GAP.join((*(_fill(column, column.head, width) for column, width in self._columns), self._has_code)), "bold"
        )

    def heading(self, row: Heading) -> Iterator[Text]:
        """Yield the line that a source line or a function begins with; nothing where it says nothing."""
        if not row.place:
            return
        room = self._sheet.columns
        if row.is_function:
            yield _line(self._sheet.clipped(row.place, room), "bold")
            return
        place = self._sheet.fitted(row.place, room // 2 if row.text else room)
        left = room - self._sheet.cells(place) - len(_GAP)
        line = _line(place, "cyan")
        if row.text:
            line.append(f"{_GAP}{self._sheet.clipped(row.text.expandtabs(4), left)}", "dim")
        yield line

    def instruction(self, row: ListedInstruction) -> Iterator[Text]:
        """Yield an instruction; what is longer than the screen goes on below where it begins."""
        from rich.text import Text

        share = row.share or 0.0
        style = "bold red" if share >= _HOT else "yellow" if share >= _WARM else "" if share else "dim"
        line = Text(no_wrap=True, overflow="ignore")
        for column, width in self._columns:
            text = _fill(column, self._sheet.legible(column.text(row)), width)
            line.append(text + _GAP, "dim" if column.head == "offset" else style)
        code = f"\n{' ' * self._code}".join(self._sheet.wrapped(row.sass, self._code))
        line.append(code, "bold" if share >= _WARM else "")
        line.rstrip()
        yield line

    def finding(self, text: str) -> Text:
        """Return the line that says which finding points at the instruction above it."""
        mark = "▲ " if self._sheet.blocks else "^ "
        indent = f"{self.indent}{' ' * len(mark)}"
        lines = self._sheet.wrapped(text, len(indent))
        return _line(f"{self.indent}{mark}" + f"\n{indent}".join(lines), "bold magenta")


def _filled(columns: Sequence[_Column], listing: Listing) -> dict[_Column, int]:
    """Return the columns in which anything stands, with how wide they are."""
    cells = {column: [column.text(each) for each in listing.instructions] for column in columns}
    return {column: max(len(column.head), *map(len, texts)) for column, texts in cells.items() if any(texts)}


def _taken(columns: Mapping[_Column, int]) -> int:
    return sum(width + len(_GAP) for width in columns.values())


def _fill(column: _Column, text: str, width: int) -> str:
    return text.rjust(width) if column.right else text.ljust(width)


def _line(text: str, style: str) -> Text:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ignore")
