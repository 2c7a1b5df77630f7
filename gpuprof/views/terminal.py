"""Render documents for a terminal, with the tables and texts of rich.

Colour appears on a terminal only. A pipe gets 80 columns and no spaces at the end of a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatchmethod
from typing import NamedTuple

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text
from rich.tree import Tree as RichTree

from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.views import document as doc
from gpuprof.views.code_lines import cells as _cells
from gpuprof.views.code_lines import code_lines

LEAST_WIDTH = 60
PIPED_WIDTH = 80
TEXT_WIDTH = 120
TABLE_WIDTH = 140
SCREEN_HEIGHT = 29

_STYLES: dict[str, str] = {
    "": "",
    "muted": "dim",
    "strong": "bold",
    "good": "green",
    "bad": "red",
    "warning": "yellow",
    "high": "bold red",
    "medium": "bold yellow",
    "low": "cyan",
    "info": "dim",
}
_LABEL_WIDTH = 13
_BAR_WIDTH = 8
_LONG_BAR_WIDTH = 20
_GAIN_WIDTH = len("~ 0.50–0.82 %")
_WIDEST_TEXT = 48
_LEAST_NAME = 24
_WANTED_NAME = 36
_GAP = 2

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NUMBER_AND_UNIT = re.compile(r"((?<![\w.])(?<![0-9.,],)[0-9][0-9.,]*(?<=[0-9])|[≤≥=~]) (?=\S)")
# rich breaks lines at every kind of space. This character keeps a number beside its unit until the lines are made; no
# printable text contains it.
_GLUE = "\ue000"
_SHELL_WORD = re.compile(r"""(?:\\.|[^\s'"\\]|'[^']*'|"(?:\\.|[^"\\])*")+""")


class Brevity(NamedTuple):
    """How much of a screen each block may take: recommendations, rows of all tables but the last, lines of a note."""

    recommendations: int
    rows: int
    lines: int


_BREVITIES = (Brevity(5, 5, 4), Brevity(4, 4, 3), Brevity(3, 3, 2), Brevity(2, 2, 2), Brevity(1, 1, 1))


def make_console() -> Console:
    """Return a console for stdout: 80 columns when piped, without colour then or with NO_COLOR."""
    if not os.environ.get("COLUMNS", "0").isascii():
        # "²" is a digit to rich, and no number to Python.
        del os.environ["COLUMNS"]
    fixed = not os.isatty(1) and "COLUMNS" not in os.environ
    console = Console(highlight=False, soft_wrap=False, width=PIPED_WIDTH if fixed else None)
    if console.width < LEAST_WIDTH:
        console = Console(highlight=False, width=LEAST_WIDTH)
    return console


def make_talk_console() -> Console:
    """Return a console for stderr, for progress and remarks."""
    return Console(stderr=True, highlight=False)


def print_document(
    console: Console, document: doc.Document, form: doc.Form = "full", height: int | None = None
) -> None:
    """Print the blocks of a document; its title is not printed.

    In the short form with a `height`, recommendations and tables are shortened until the whole fits into so many lines,
    if their least sizes allow it.
    """
    renderer = Terminal(console, form)
    blocks = document.blocks
    if height is not None:
        print_blocks(console, renderer.fitted(blocks, height))
    else:
        print_blocks(console, renderer.spaced(blocks))


def print_blocks(console: Console, blocks: Iterable[RenderableType]) -> None:
    """Print one by one on a terminal, at once elsewhere."""
    if console.is_terminal:
        for block in blocks:
            _write(console, [block])
    else:
        _write(console, blocks)


def _write(console: Console, blocks: Iterable[RenderableType]) -> None:
    with console.capture() as captured:
        for block in blocks:
            console.print(block, crop=False)
    lines = captured.get().replace(_GLUE, " ").split("\n")
    console.file.write("\n".join(line.rstrip() for line in lines))
    console.file.flush()


class Terminal:
    """Blocks as renderables of rich, in one form, for the width and the characters of a console."""

    def __init__(self, console: Console, form: doc.Form = "full") -> None:
        """Take the width and the encoding from the console."""
        self._console = console
        self._encoding = console.encoding or "ascii"
        self._short = form == "short"
        self._brevity: Brevity | None = None
        self.width = min(console.width, TEXT_WIDTH)
        self.table_width = min(console.width, TABLE_WIDTH)

    def spaced(self, blocks: Sequence[doc.Block]) -> Iterator[RenderableType]:
        """Yield blocks with empty lines between them, but none within a paragraph or below a heading."""
        previous: doc.Block | None = None
        for block in blocks:
            if self._is_hidden(block):
                continue
            are_lines = self._short and isinstance(previous, doc.Bars) and isinstance(block, doc.Bars)
            if previous is not None and not are_lines and not _belong_together(previous, block):
                yield Text("")
            yield self.render(block)
            previous = block

    def fitted(self, blocks: Sequence[doc.Block], height: int) -> Iterator[RenderableType]:
        """Yield blocks in their short form, so short that all fit into `height` lines if that is possible."""
        last = max((index for index, block in enumerate(blocks) if isinstance(block, doc.Table)), default=None)
        if last is None:
            yield from self.spaced(blocks)
            return
        table = blocks[last]
        assert isinstance(table, doc.Table)
        around = (*blocks[:last], *blocks[last + 1 :])
        room = 0
        for brevity in _BREVITIES:
            self._brevity = brevity
            room = height - self._height(around) - 1
            if room >= self._height([self._first_rows(table, table.least)]):
                break
        rows = self._rows_that_fit(table, room)
        yield from self.spaced((*blocks[:last], self._first_rows(table, rows), *blocks[last + 1 :]))

    def _rows_that_fit(self, table: doc.Table, room: int) -> int:
        rows = max(min(room, len(table.rows)), min(table.least, len(table.rows)))
        while rows > table.least and self._height([self._first_rows(table, rows)]) > room:
            rows -= 1
        return rows

    def _first_rows(self, table: doc.Table, count: int) -> doc.Table:
        return doc.first_rows(table, count)

    def _height(self, blocks: Sequence[doc.Block]) -> int:
        """Return how many lines blocks take."""
        lines = 0
        for renderable in self.spaced(blocks):
            lines += len(self._console.render_lines(renderable, pad=False))
        return lines

    def _is_hidden(self, block: doc.Block) -> bool:
        if isinstance(block, doc.Fold):
            return self._short and not block.open
        if isinstance(block, doc.Figure):
            return self._short or not block.notes
        return False

    @singledispatchmethod
    def render(self, block: doc.Block) -> RenderableType:
        """Return a block as rich prints it."""
        raise TypeError(f"no rendering of {type(block).__name__}")

    @render.register
    def _(self, block: doc.Heading) -> RenderableType:
        return self._text(block.text, "bold")

    @render.register
    def _(self, block: doc.Note) -> RenderableType:
        text = block.short if self._short and block.short else block.text
        return self._paragraph(self._text(text, _STYLES[block.tone]))

    def _paragraph(self, text: Text) -> RenderableType:
        """Return a text as wide as texts may be; on a short screen no longer than its brevity allows."""
        if self._brevity is not None:
            lines = text.wrap(self._console, self.width)
            if len(lines) > self._brevity.lines:
                room = self._brevity.lines * self.width - 2 * self._brevity.lines
                text = Text(cut_end(text.plain, room), style=text.style)
        return Padding(text, (0, max(self._console.width - self.width, 0), 0, 0))

    @render.register
    def _(self, block: doc.Facts) -> RenderableType:
        grid = self._grid()
        for name, value in block.rows:
            grid.add_row(self._text(name, "cyan"), self._text(value))
        return self._under_title(block.label, grid)

    def _grid(self) -> RichTable:
        """Return a grid of labels and values that wrap beside them, indented."""
        grid = RichTable.grid(padding=(0, _GAP, 0, 0), pad_edge=False)
        grid.width = self.width
        grid.add_column(min_width=_LABEL_WIDTH - _GAP, max_width=max(self.width // 3, _LABEL_WIDTH))
        grid.add_column(ratio=1, overflow="fold")
        return grid

    def _under_title(self, title: str, body: RenderableType) -> RenderableType:
        if not title:
            return body
        return Group(self._text(title, "bold"), body)

    @render.register
    def _(self, block: doc.Table) -> RenderableType:
        if self._brevity is not None and len(block.rows) > max(self._brevity.rows, block.least):
            block = self._first_rows(block, max(self._brevity.rows, block.least))
        parts: list[RenderableType] = []
        if block.rows:
            parts.append(self._rich_table(block))
        if block.more:
            parts.append(self._paragraph(self._text(block.more, "dim")))
        return Group(*parts)

    def _rich_table(self, block: doc.Table) -> RichTable:
        cells = [[self._legible(_text_of(cell)) for cell in row] for row in block.rows]
        widths = [
            max(_cells(self._legible(column.name)), *(_cells(row[index]) for row in cells))
            for index, column in enumerate(block.columns)
        ]
        shown = _fitting_columns(block.columns, widths, self.table_width)
        name_width = self.table_width - sum(
            widths[index] + _GAP for index in shown if block.columns[index].kind != "name"
        )
        table = RichTable(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold",
            border_style="dim",
        )  # fmt: skip
        for index in shown:
            self._add_column(table, block.columns[index], widths[index], name_width)
        for row, texts in zip(block.rows, cells, strict=True):
            table.add_row(
                *(self._table_cell(row[index], texts[index], block.columns[index], name_width) for index in shown)
            )
        return table

    def _add_column(self, table: RichTable, column: doc.Column, width: int, name_width: int) -> None:
        name = self._text(column.name)
        if column.kind == "number":
            table.add_column(name, justify="right", no_wrap=True, min_width=width)
        elif column.kind == "name":
            table.add_column(name, no_wrap=True, overflow="ellipsis", min_width=min(width, name_width))
        else:
            table.add_column(name, no_wrap=True, overflow="ellipsis", max_width=_WIDEST_TEXT)

    def _table_cell(self, cell: doc.Inline, text: str, column: doc.Column, name_width: int) -> Text:
        tone = _STYLES[cell.tone] if isinstance(cell, doc.Cell) else ""
        if column.kind == "name":
            text = self._cut_name(text, max(name_width, _LEAST_NAME))
        return Text(text, style=tone)

    def _cut_name(self, text: str, width: int) -> str:
        length = width
        shown = cut_middle(text, length)
        while _cells(shown) > width and length > 1:
            length -= 1
            shown = cut_middle(text, length)
        return self._legible(shown)

    @render.register
    def _(self, block: doc.Recommendations) -> RenderableType:
        most = self._brevity.recommendations if self._brevity is not None else len(block.items)
        heading = RichTable.grid(padding=(0, _GAP, 0, 0))
        heading.width = self.width
        heading.add_column(no_wrap=True)
        heading.add_column(ratio=1)
        heading.add_row(Text("Fix first", style="bold"), self._text(block.legend, "dim"))
        grid = RichTable.grid(padding=(0, _GAP, 0, 0))
        grid.width = self.width
        grid.add_column(width=_BAR_WIDTH, no_wrap=True)
        grid.add_column(width=_GAIN_WIDTH, justify="right", no_wrap=True)
        grid.add_column(ratio=1, overflow="fold")
        for item in block.items[:most]:
            self._add_recommendation(grid, item)
        left_out = len(block.items) - most
        more = f"{left_out} more with -v" if left_out > 0 else block.more if not self._short else ""
        if more:
            grid.add_row("", "", self._text(more, "dim"))
        return Group(heading, grid)

    def _add_recommendation(self, grid: RichTable, item: doc.Recommendation) -> None:
        doubt = "dim" if item.doubted else ""
        bar = Text(self._bar(item.bar or 0.0, _BAR_WIDTH), style=doubt or _STYLES[item.severity])
        lines = [self._text(item.headline)]
        if self._short:
            room = self.width - _BAR_WIDTH - _GAIN_WIDTH - 2 * _GAP
            lines = [Text(self._cut_sentence(item.headline, room))]
        if item.action:
            lines.append(self._text(f"→ {item.action}", "bold"))
        lines += self._about(item)
        grid.add_row(bar, self._text(item.gain, doubt or "bold"), Group(*lines))

    def _about(self, item: doc.Recommendation) -> list[Text]:
        """Return which kernels, where, how certain and under which condition: in one line if it fits."""
        separator = " · " if self._short else ", "
        kernels = _text_of(item.kernels)
        rest = separator.join(filter(None, (item.place, item.certainty, item.condition)))
        room = self.width - _BAR_WIDTH - _GAIN_WIDTH - 2 * _GAP
        if self._short:
            least = max(room - len(rest) - len(separator), room // 3)
            kernels = self._cut_name(self._legible(kernels), least)
        return [self._text(separator.join(filter(None, (kernels, rest))), "dim")]

    @render.register
    def _(self, block: doc.Findings) -> RenderableType:
        parts: list[RenderableType] = []
        brief: list[str] = []
        for item in block.items:
            if self._short and (item.explained_by or item.severity in {"low", "info"}):
                brief.append(_brief_finding(item))
                continue
            if parts:
                parts.append(Text(""))
            parts.append(self._finding(item))
        if brief:
            if parts:
                parts.append(Text(""))
            grid = self._grid()
            for index, text in enumerate(brief):
                grid.add_row(Text("" if index else "also", style="cyan"), self._text(text))
            parts.append(grid)
        return Group(*parts)

    def _finding(self, item: doc.Finding) -> RenderableType:
        grid = self._grid()
        grid.add_row(
            Text(item.severity, style=_STYLES[item.severity]),
            self._text(item.headline, "" if item.explained_by else "bold"),
        )
        rows: list[tuple[str, doc.Inline]] = [
            ("cause", item.explained_by),
            ("gain", "; ".join(filter(None, (item.gain, item.remains)))),
            ("where", item.place),
        ]
        if self._short:
            rows.append(("do", item.action))
        else:
            rows += _full_rows(item)
        for name, value in rows:
            if _text_of(value):
                grid.add_row(Text(name, style="cyan"), self._text(value))
        return grid

    @render.register
    def _(self, block: doc.Code) -> RenderableType:
        form: doc.Form = "short" if self._short else "full"
        text = Text(no_wrap=True, overflow="ignore")
        for index, line in enumerate(code_lines(block, form, self._console.width, self._legible)):
            if index:
                text.append("\n")
            for part, style in line:
                text.append(part, _STYLES.get(style, style))
        return Group(text)

    @render.register
    def _(self, block: doc.Figure) -> RenderableType:
        return Group(*(self._paragraph(self._text(note, "dim")) for note in block.notes))

    @render.register
    def _(self, block: doc.Bars) -> RenderableType:
        ceiling = f", % of {block.ceiling}" if block.ceiling else ""
        if self._short:
            values = ", ".join(f"{_text_of(bar.name)} {bar.text}" for bar in block.items)
            label = self._text(f"{block.label}{ceiling}: ", "cyan")
            return self._paragraph(Text().join((label, self._text(values))))
        grid = RichTable.grid(padding=(0, _GAP, 0, 0))
        grid.add_column(min_width=_LABEL_WIDTH - _GAP)
        grid.add_column(justify="right", no_wrap=True)
        grid.add_column(width=_LONG_BAR_WIDTH, no_wrap=True)
        for bar in block.items:
            drawn = self._bar(bar.fraction, _LONG_BAR_WIDTH) if bar.fraction is not None else ""
            grid.add_row(self._text(bar.name), self._text(bar.text), drawn)
        parts: list[RenderableType] = [self._text(f"{block.label}{ceiling}", "cyan"), grid]
        if block.note:
            parts.append(self._paragraph(self._text(block.note, "dim")))
        return Group(*parts)

    @render.register
    def _(self, block: doc.Tree) -> RenderableType:
        return Padding(self._tree(block), (0, max(self._console.width - self.width, 0), 0, 0))

    def _tree(self, step: doc.Tree) -> RichTree:
        number = self._text(step.number, "bold")
        is_code = isinstance(step.text, doc.Cell) and step.text.code
        text = self._text(step.text, "cyan" if is_code else "")
        label = Text("  ").join((number, text)) if step.number else text
        tree = RichTree(label, guide_style="dim")
        for child in step.children:
            tree.add(self._tree(child))
        return tree

    @render.register
    def _(self, block: doc.Command) -> RenderableType:
        parts: list[RenderableType] = []
        if block.lead:
            parts.append(self._paragraph(self._text(block.lead)))
        parts.append(self._shell_lines(block.text))
        return Group(*parts)

    @render.register
    def _(self, block: doc.Fold) -> RenderableType:
        return Group(self._text(block.title, "bold"), *self.spaced(block.blocks))

    def _text(self, value: doc.Inline, style: str = "") -> Text:
        """Return an inline text, legible, each number beside its unit."""
        tone = _STYLES[value.tone] if isinstance(value, doc.Cell) else ""
        glued = _NUMBER_AND_UNIT.sub(rf"\1{_GLUE}", self._legible(_text_of(value)))
        return Text(glued, style=tone or style, overflow="fold")

    def _legible(self, text: str) -> str:
        """Return a text from anywhere without control characters, in the characters of the console."""
        shown = printable(text)
        if "utf" in self._encoding.lower():
            return shown
        try:
            return shown.encode(self._encoding, "gpuprof-ascii").decode(self._encoding)
        except LookupError:
            # The handler is registered for streams without Unicode, see `gpuprof.text.tolerate`.
            return shown.encode("ascii", "replace").decode()

    def _cut_sentence(self, text: str, width: int) -> str:
        return cut_end(self._legible(text), width)

    def _bar(self, fraction: float, width: int) -> str:
        """Draw 0 to 1 in eighths of a character, or in `#`; a fraction above 0 is always visible."""
        filled = min(1.0, max(0.0, fraction)) * width
        least = 1 if fraction > 0 else 0
        if "utf" not in self._encoding.lower():
            return "#" * max(round(filled), least)
        whole, rest = divmod(max(round(filled * 8), least), 8)
        return "█" * whole + (_EIGHTHS[rest] if rest else "")

    def _shell_lines(self, command: str) -> RenderableType:
        """Return a command line to copy: broken only where a shell reads on."""
        margin = " " * 3
        room = self._console.width - len(margin) - len(" \\")
        lines = [""]
        for word in _options(_shell_words(self._legible(command)), room):
            longer = f"{lines[-1]} {word}" if lines[-1] else word
            if lines[-1] and len(longer) > room:
                lines.append(word)
            else:
                lines[-1] = longer
        text = " \\\n".join(f"{margin}{line}" for line in lines)
        return Group(Text(text, style="cyan", no_wrap=True, overflow="ignore"))


def _belong_together(first: doc.Block, second: doc.Block) -> bool:
    if isinstance(first, doc.Heading):
        return True
    return isinstance(first, doc.Note | doc.Command) and isinstance(second, doc.Note | doc.Command)


def _text_of(value: doc.Inline) -> str:
    return value if isinstance(value, str) else value.text


def _fitting_columns(columns: Sequence[doc.Column], widths: Sequence[int], limit: int) -> list[int]:
    """Return the columns that fit beside names of a readable length; those with the highest rank go first."""
    needed = list(widths)
    for index, column in enumerate(columns):
        if column.kind == "name":
            needed[index] = min(widths[index], _WANTED_NAME, limit // 3)
        elif column.kind == "text":
            needed[index] = min(widths[index], _WIDEST_TEXT)
    shown = list(range(len(columns)))
    while sum(needed[index] + _GAP for index in shown) - _GAP > limit:
        last = max(shown, key=lambda index: columns[index].rank)
        if columns[last].rank == 0:
            break
        shown.remove(last)
    return shown


def _brief_finding(item: doc.Finding) -> str:
    beside = _text_of(item.explained_by) or ("" if item.severity == "info" else item.gain)
    return f"{item.headline} ({beside})" if beside else item.headline


def _full_rows(item: doc.Finding) -> Iterator[tuple[str, str]]:
    """Yield all that supports a finding; if another one explains it, its evidence alone."""
    if not item.explained_by:
        yield "why", item.why
    for index, evidence in enumerate(item.evidence):
        yield "" if index else "evidence", _evidence_text(evidence)
    if not item.explained_by:
        yield "do", " ".join(filter(None, (item.action, item.advice)))
        yield "sure", f"{item.certainty}; rule {item.rule}"


def _evidence_text(item: doc.Evidence) -> str:
    threshold = f" (threshold {item.threshold})" if item.threshold else ""
    return f"{item.meaning}: {item.value.text}{threshold}"


def _shell_words(command: str) -> list[str]:
    """Split a command line where a shell would; a command whose quotes do not match stays whole."""
    if _SHELL_WORD.sub("", command).strip():
        return [command]
    return _SHELL_WORD.findall(command)


def _options(words: Sequence[str], room: int) -> list[str]:
    """Join options with their values if both fit into a line."""
    joined: list[str] = []
    for word in words:
        last = joined[-1] if joined else ""
        is_value = last.startswith("-") and " " not in last and not word.startswith("-")
        if is_value and len(last) + 1 + len(word) <= room:
            joined[-1] = f"{last} {word}"
        else:
            joined.append(word)
    return joined
