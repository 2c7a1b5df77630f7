"""Render documents for a terminal: lines of rich's `Text` for the width and the characters of a console.

Colour appears on a terminal only. A pipe gets 80 columns and no spaces at the end of a line.
"""

from __future__ import annotations

import math
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, singledispatchmethod
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segments
from rich.text import Text
from rich.tree import Tree

from gpuprof.collect.shell import shell_lines
from gpuprof.text import cut_end, cut_middle, legible
from gpuprof.views import document as doc
from gpuprof.views.code_lines import code_lines
from gpuprof.words.sentences import joined_by

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
_GAP = "  "
_INDENT = "   "
_LABEL_WIDTH = 11
_BAR_WIDTH = 8
_LONG_BAR_WIDTH = 20
_GAIN_WIDTH = len("~ 0.50–0.82 %")
_LEAST_NAME = 24
_OTHER_NAME = 20
_LEAST_TEXT = 4
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NUMBER_AND_UNIT = re.compile(r"((?<![\w.])(?<![0-9.,],)[0-9][0-9.,]*(?<=[0-9])|[≤≥=~]) (?=\S)")
# rich breaks lines at every kind of space. This character keeps a number beside its unit until the lines are made; no
# printable text contains it.
_GLUE = "\ue000"
# The most recommendations, rows of each table but the last, and lines of each text on a screen.
_MOST_PARTS = 5
_CODE_LINES = 3
_VERDICT_LINES = 5
# Of the heat of the hottest line of code.
_HOT = 0.3
_WARM = 0.03


def make_console() -> Console:
    """Return a console for stdout: 80 columns when piped, without colour then or with NO_COLOR."""
    console = Console(highlight=False)
    if not os.isatty(1) and "COLUMNS" not in os.environ:
        console.width = PIPED_WIDTH
    console.width = max(console.width, LEAST_WIDTH)
    return console


def make_talk_console() -> Console:
    """Return a console for stderr, for progress and remarks."""
    return Console(stderr=True, highlight=False)


def print_document(
    console: Console, document: doc.Document, form: doc.Form = "full", height: int | None = None
) -> None:
    """Print the blocks of a document; its title is not printed.

    In the short form with a `height`, all blocks are shortened to fit into that many lines, if their least sizes allow
    it.
    """
    terminal = Terminal(console, form)
    blocks = document.blocks
    lines = terminal.lines(blocks) if height is None else terminal.fitted(blocks, height)
    # To print the lines one by one takes fifty times as long.
    whole = Text("\n").join([*lines, Text()])
    print_blocks(console, [Segments(whole.render(console))])


def print_blocks(console: Console, blocks: Iterable[RenderableType]) -> None:
    """Print one by one, without spaces at the end of a line."""
    for block in blocks:
        with console.capture() as captured:
            console.print(block, crop=False)
        lines = captured.get().replace(_GLUE, " ").split("\n")
        console.file.write("\n".join(line.rstrip() for line in lines))
    console.file.flush()


Lines = list[Text]


class Terminal:
    """Blocks as lines, in one form, for the width and the characters of a console."""

    def __init__(self, console: Console, form: doc.Form = "full") -> None:
        """Take the width and the encoding from the console."""
        self._console = console
        self._legible = partial(legible, encoding=console.encoding)
        self._short = form == "short"
        # No empty line is between these blocks.
        self._close = (doc.Note, doc.Command, doc.Bars) if self._short else (doc.Note, doc.Command)
        # The most parts of a block; 0 for any number.
        self._most = 0
        # The most lines of the headline of a recommendation on a full screen.
        self._headline_lines = 1
        self._width = min(console.width, TEXT_WIDTH)

    def lines(self, blocks: Iterable[doc.Block]) -> Iterator[Text]:
        """Yield the lines of blocks, with empty lines between blocks that do not belong together."""
        previous: doc.Block | None = None
        for block in blocks:
            lines = self.render(block)
            if not lines:
                continue
            close = isinstance(previous, self._close) and isinstance(block, self._close)
            close = close or (self._short and isinstance(block, doc.Fold) and not block.open)
            if previous is not None and not close and not isinstance(previous, doc.Heading):
                yield Text()
            yield from lines
            previous = block

    def fitted(self, blocks: Sequence[doc.Block], height: int) -> Lines:
        """Return the lines of blocks, so short that all fit into `height` lines if that is possible.

        The last table gets the lines that the other blocks leave.
        """
        lines: Lines = []
        for self._most in range(_MOST_PARTS, 0, -1):
            lines = list(self.lines(self._shortened(blocks, 0)))
            if self._rows(lines) <= height:
                break
        # All rows fit into one line more: it says how many are left out.
        for more_rows in range(max(0, height - self._rows(lines) + 1), -1, -1):
            lines = list(self.lines(self._shortened(blocks, more_rows)))
            if self._rows(lines) <= height:
                break
        self._headline_lines = 2
        longer = list(self.lines(self._shortened(blocks, more_rows)))
        return longer if self._rows(longer) <= height else lines

    def _rows(self, lines: Lines) -> int:
        """Return how many rows of the terminal these lines take: a long word of a command takes several."""
        return sum(max(1, math.ceil(line.cell_len / self._console.width)) for line in lines)

    def _shortened(self, blocks: Sequence[doc.Block], more_rows: int) -> Iterator[doc.Block]:
        """Yield blocks with short tables; the last one has `more_rows` above its minimum."""
        tables = [block for block in blocks if isinstance(block, doc.Table)]
        for block in blocks:
            if not isinstance(block, doc.Table):
                yield block
            elif block is tables[-1]:
                yield doc.first_rows(block, min(block.least, self._most + 1) + more_rows)
            else:
                yield doc.first_rows(block, max(block.least, self._most))

    @singledispatchmethod
    def render(self, block: doc.Block) -> Lines:
        """Return the lines of a block; none if its form has nothing to show."""
        raise TypeError(f"no rendering of {type(block).__name__}")

    @render.register
    def _(self, block: doc.Heading) -> Lines:
        return self._wrapped(block.text, "bold")

    @render.register
    def _(self, block: doc.Note) -> Lines:
        text = block.short if self._short and block.short else block.text
        most = self._most
        if block.tone == "strong":
            # A verdict ends with the place or the action. Only wide or hidden characters make a short one longer.
            most = _VERDICT_LINES if text is block.short else 0
        return self._wrapped(text, _STYLES[block.tone], most)

    @render.register
    def _(self, block: doc.Facts) -> Lines:
        return self._wrapped(block.label, "bold") + self._labelled(block.rows)

    @render.register
    def _(self, block: doc.Table) -> Lines:
        lines: Lines = []
        widths: dict[int, int] = {}
        if block.rows:
            names = tuple(doc.Cell(column.name, "strong") for column in block.columns)
            cells = (names, *block.rows)
            widths = self._widths(block.columns, cells, min(self._console.width, TABLE_WIDTH))
            header, *rows = self._aligned(block.columns, cells, widths)
            width = max(line.cell_len for line in (header, *rows))
            lines = [header, Text(self._legible("─") * width, "dim")]
            for line, row in zip(rows, block.rows, strict=True):
                lines.append(line)
                for column, cell in zip(block.columns, row, strict=True):
                    if column.kind == "sentence" and doc.text_of(cell):
                        below = self._wrapped(cell, "dim", self._most, width=self._width - len(_INDENT))
                        lines += [Text.assemble(_INDENT, each) for each in below]
        lines += self._wrapped(block.more, "dim")
        for index, column in enumerate(block.columns):
            if index in widths and column.meaning and not self._most:
                lines += self._wrapped(f"{column.name}: {column.meaning}", "dim")
        return lines

    @render.register
    def _(self, block: doc.Recommendations) -> Lines:
        most = self._most or len(block.items)
        lines = self._wrapped(joined_by(_GAP, block.title, block.legend), "dim", self._most)
        if block.title:
            lines[0].stylize("not dim bold", 0, len(block.title))
        have_gains = any(item.gain != item.severity for item in block.items)
        for item in block.items[:most]:
            lines += self._recommendation(item, has_gain=have_gains)
        left_out = len(block.items) - most
        more = f"{left_out} more with -v" if left_out > 0 else block.more
        return lines + self._wrapped(more, "dim")

    def _recommendation(self, item: doc.Recommendation, *, has_gain: bool) -> Lines:
        gain = self._legible(item.gain)
        left = Text.assemble(_INDENT, (gain.ljust(_LABEL_WIDTH), _STYLES[item.severity]))
        if has_gain:
            bar = self._bar(item.bar or 0.0, _BAR_WIDTH).ljust(_BAR_WIDTH)
            left = Text.assemble((bar, _STYLES[item.severity]), _GAP, (gain.rjust(_GAIN_WIDTH), "bold"), _GAP)
        room = self._width - left.cell_len
        lines = self._wrapped(item.headline, most=min(self._most, self._headline_lines), width=room)
        if item.action:
            lines += self._wrapped(f"→ {item.action}", "bold", width=room)
        rule = "" if self._short else item.rule
        about = joined_by(", ", item.place, item.certainty, rule, item.condition)
        name_width = room - len(item.spread + about) - len(_GAP)
        if name_width < _LEAST_NAME:  # they take two lines anyway
            name_width = room
        kernels = self._cut(doc.text_of(item.kernels), name_width, "name") + item.spread
        lines += self._wrapped(joined_by(", ", kernels, about), "dim", width=room)
        return _beside([left], lines, left.cell_len)

    @render.register
    def _(self, block: doc.Findings) -> Lines:
        lines: Lines = []
        for item in block.items:
            rows = [row for row in self._finding_rows(item) if doc.text_of(row[1])]
            if lines and len(rows) > 1:
                lines.append(Text())
            lines += self._labelled(rows)
        return lines

    def _finding_rows(self, item: doc.Finding) -> Iterator[tuple[doc.Inline, doc.Inline]]:
        severity = doc.Cell(item.severity, item.severity)
        if self._short and (item.explained_by or item.severity in {"low", "info"}):
            cause = f" ({doc.text_of(item.explained_by)})" if item.explained_by else ""
            yield severity, item.headline + cause
            return
        yield severity, doc.Cell(item.headline, "" if item.explained_by else "strong")
        yield "cause", item.explained_by
        yield "gain", joined_by("; ", item.gain, item.remains)
        yield "where", item.place
        for place in () if self._short else item.places:
            yield "", place
        if self._short:
            yield "do", item.action
            return
        # The finding that explains this one says the rest.
        if not item.explained_by:
            yield "do", joined_by(" ", item.action, item.advice)
            yield "why", item.why
        for index, evidence in enumerate(item.evidence):
            yield "" if index else "evidence", doc.evidence_text(evidence)
        yield "sure", f"{item.certainty}; rule {item.rule}"

    @render.register
    def _(self, block: doc.Code) -> Lines:
        width = self._console.width
        lines: Lines = []
        for line, margin, text in code_lines(block, width, self._legible, short=self._short):
            margin_style, style = _code_styles(line)
            right = self._wrapped(text, style, _CODE_LINES, width=width - len(margin))
            lines += _beside([Text(margin, margin_style)], right, len(margin))
        return lines

    @render.register
    def _(self, block: doc.Figure) -> Lines:
        lines: Lines = []
        for note in () if self._short else block.notes:
            lines += self._wrapped(note, "dim")
        return lines

    @render.register
    def _(self, block: doc.Bars) -> Lines:
        label = joined_by(", % of ", block.label, block.ceiling)
        if self._short:
            values = ", ".join(f"{doc.text_of(bar.name)} {bar.text}" for bar in block.items)
            return self._wrapped(f"{label}: {values}")
        columns = (doc.Column("", "name"), doc.Column("", "number"), doc.Column("", "text", rank=1))
        rows = [(bar.name, bar.text, self._bar(bar.fraction or 0.0, _LONG_BAR_WIDTH)) for bar in block.items]
        lines = self._wrapped(label, "cyan")
        lines += self._aligned(columns, rows, self._widths(columns, rows, self._width))
        return lines + self._wrapped(block.note, "dim")

    @render.register
    def _(self, block: doc.Tree) -> Lines:
        lines = []
        options = self._console.options.update(width=self._width)
        for segments in self._console.render_lines(self._tree(block), options, pad=False):
            lines.append(Text.assemble(*((segment.text, segment.style or "") for segment in segments)))
        return lines

    def _tree(self, step: doc.Tree) -> Tree:
        is_code = isinstance(step.text, doc.Cell) and step.text.code
        text = self._text(step.text, "cyan" if is_code else "")
        if step.number:
            text = Text.assemble(self._text(step.number, "bold"), _GAP, text)
        tree = Tree(text, guide_style="dim")
        tree.children += map(self._tree, step.children)
        return tree

    @render.register
    def _(self, block: doc.Command) -> Lines:
        lines = self._wrapped(block.lead)
        for line in shell_lines(self._legible(block.text), self._console.width - len(_INDENT)):
            lines.append(Text(_INDENT + line, "cyan"))
        return lines

    @render.register
    def _(self, block: doc.Fold) -> Lines:
        if self._short and not block.open:
            return self._wrapped(block.short, "dim")
        return [*self._wrapped(block.title, "bold"), *self.lines(block.blocks)]

    def _labelled(self, rows: Sequence[tuple[doc.Inline, doc.Inline]]) -> Lines:
        """Return labels and a value beside each."""
        widest = max([_LABEL_WIDTH, *(len(doc.text_of(name)) for name, _ in rows)])
        width = min(widest, self._width * 2 // 5) + len(_GAP)
        lines: Lines = []
        for name, value in rows:
            label = self._wrapped(name, "cyan", width=width - len(_GAP))
            lines += _beside(label, self._wrapped(value, most=self._most, width=self._width - width), width)
        return lines

    def _widths(
        self, columns: Sequence[doc.Column], rows: Sequence[Sequence[doc.Inline]], limit: int
    ) -> dict[int, int]:
        """Return the widths of the shown columns, by their index: at most `limit` in all, if all numbers fit."""
        if not rows:
            return {}
        texts = [[self._legible(doc.text_of(cell)) for cell in row] for row in rows]
        return _fitting_widths(columns, [max(map(cell_len, column)) for column in zip(*texts, strict=True)], limit)

    def _aligned(
        self, columns: Sequence[doc.Column], rows: Sequence[Sequence[doc.Inline]], widths: Mapping[int, int]
    ) -> Lines:
        """Return rows of cells as lines, one line each."""
        lines = []
        for row in rows:
            line = Text(no_wrap=True)
            for index, width in widths.items():
                text = self._cut(doc.text_of(row[index]), width, columns[index].kind)
                space = " " * (width - cell_len(text))
                text = space + text if columns[index].kind == "number" else text + space
                line.append(text, _style_of(row[index])).append(_GAP)
            line.rstrip()
            lines.append(line)
        return lines

    def _wrapped(
        self, value: doc.Inline, style: str = "", most: int = 0, kind: str = "text", width: int | None = None
    ) -> Lines:
        """Return a text as lines, cut to at most `most` lines (0: any number); none if it is empty."""
        width = self._width if width is None else width
        text = self._text(value, style)
        if text.cell_len <= width:
            return [text] if text else []
        lines = list(text.wrap(self._console, width))
        if not most or len(lines) <= most:
            return lines

        def cut(length: int) -> Lines:
            shorter = _cut(doc.text_of(value), length, kind)
            return list(self._text(shorter, str(text.style)).wrap(self._console, width))

        return cut(_longest(most * width, lambda length: len(cut(length)) <= most))

    def _cut(self, text: str, width: int, kind: str) -> str:
        """Cut a text to at most `width` columns of the terminal."""
        shown = self._legible(text)
        if cell_len(shown) <= width:
            return shown

        def cut(length: int) -> str:
            return self._legible(_cut(text, length, kind))

        return cut(_longest(width, lambda length: cell_len(cut(length)) <= width))

    def _text(self, value: doc.Inline, style: str = "") -> Text:
        """Return an inline text, legible, each number beside its unit."""
        glued = _NUMBER_AND_UNIT.sub(rf"\1{_GLUE}", self._legible(doc.text_of(value)))
        return Text(glued, _style_of(value) or style, overflow="fold")

    def _bar(self, fraction: float, width: int) -> str:
        """Draw 0 to 1 in eighths of a character, or in `#`; a fraction above 0 is always visible."""
        least = 1 if fraction > 0 else 0
        whole, rest = divmod(max(round(min(fraction, 1.0) * width * 8), least), 8)
        bar = "█" * whole + _EIGHTHS[rest].strip()
        return bar if self._legible(bar) == bar else "#" * len(bar)


def _beside(left: Lines, right: Lines, width: int) -> Lines:
    """Return lines with others to their left, which take `width` columns."""
    lines = []
    for start, rest in zip_longest(left, right, fillvalue=Text()):
        line = Text.assemble(start, " " * (width - start.cell_len), rest)
        line.rstrip()
        lines.append(line)
    return lines


def _longest(most: int, fits: Callable[[int], bool]) -> int:
    """Return the largest length of at most `most` that fits; 0 if none does. All shorter ones fit, too."""
    return bisect_left(range(1, most + 1), True, key=lambda length: not fits(length))


def _cut(text: str, length: int, kind: str) -> str:
    """Cut the middle of a name, the end of all others."""
    return cut_middle(text, length) if kind == "name" else cut_end(text, length)


def _style_of(value: doc.Inline) -> str:
    return "" if isinstance(value, str) else _STYLES[value.tone]


def _code_styles(line: doc.CodeLine | None) -> tuple[str, str]:
    """Return the styles of the numbers and of the text of a line of code, or of the title."""
    if line is None:
        return "bold cyan", "bold cyan"
    if line.across:
        return "", _STYLES[line.tone] or "cyan"
    if line.heat >= _HOT:
        return "bold red", "bold"
    if line.heat >= _WARM:
        return "yellow", "bold"
    return "dim", "bold" if line.marked else ""


def _fitting_widths(columns: Sequence[doc.Column], widths: Sequence[int], limit: int) -> dict[int, int]:
    """Return the widths of the columns that are shown, by their index.

    Columns with the highest rank go until names have a readable length. Then the widest name or text gets narrower,
    until all fit.
    """
    readable = max(_LEAST_NAME, limit // 3)
    if sum(column.kind == "name" for column in columns) > 1:
        readable = max(_OTHER_NAME, limit // 4)
    fitting: dict[int, int] = {}
    for index, column in enumerate(columns):
        if column.kind == "name":
            fitting[index] = min(widths[index], readable)
        elif column.kind != "sentence":
            fitting[index] = widths[index]
    by_rank = sorted(fitting, key=lambda index: columns[index].rank)
    while _line_width(fitting) > limit and columns[by_rank[-1]].rank:
        del fitting[by_rank.pop()]
    loose = [index for index in fitting if columns[index].kind != "number"]
    for index in loose:
        fitting[index] = min(widths[index], limit)
    while _line_width(fitting) > limit and loose:
        widest = max(loose, key=lambda index: fitting[index])
        if fitting[widest] <= _LEAST_TEXT:
            break
        fitting[widest] -= 1
    return fitting


def _line_width(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)
