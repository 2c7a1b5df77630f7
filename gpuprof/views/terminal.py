"""Render documents for a terminal: lines of rich's `Text` for the width and the characters of a console.

Colour appears on a terminal only. A pipe gets 80 columns and no spaces at the end of a line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatchmethod
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segments
from rich.text import Text

from gpuprof.collect.shell import shell_lines
from gpuprof.text import cut_end, cut_middle, legible
from gpuprof.views import document as doc
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
_GAP = "  "
_LABEL_WIDTH = 11
_BAR_WIDTH = 8
_LONG_BAR_WIDTH = 20
_GAIN_WIDTH = len("~ 0.50–0.82 %")
_LEAST_NAME = 24
_WANTED_NAME = 36
_OTHER_NAME = 20
# Columns get narrower in this order, down to these widths, until a table fits; numbers stay whole.
_LEAST_WIDTHS = (("name", _LEAST_NAME), ("text", 12), ("name", 8), ("text", 4))

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_NUMBER_AND_UNIT = re.compile(r"((?<![\w.])(?<![0-9.,],)[0-9][0-9.,]*(?<=[0-9])|[≤≥=~]) (?=\S)")
# rich breaks lines at every kind of space. This character keeps a number beside its unit until the lines are made; no
# printable text contains it.
_GLUE = "\ue000"
# A screen has so many recommendations, rows of all tables but the last and lines of each note, or fewer.
_MOST_PARTS = 5
_LEAST_PARTS = 2
_LEAST_LINES = 2
_MOST_SENTENCE_LINES = 3
_INDENT = " " * 3

# Before the last step of a tree or another one, and before what is below it.
_GUIDES = {True: ("└─ ", "   "), False: ("├─ ", "│  ")}


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
    terminal = Terminal(console, form)
    blocks = document.blocks
    lines = terminal.lines(blocks) if height is None else terminal.fitted(blocks, height)
    # To print the lines one by one takes fifty times as long.
    whole = Text()
    for line in lines:
        whole.append_text(line).append("\n")
    _write(console, [Segments(whole.render(console))], end="")


def print_blocks(console: Console, blocks: Iterable[RenderableType]) -> None:
    """Print one by one on a terminal, at once elsewhere."""
    if console.is_terminal:
        for block in blocks:
            _write(console, [block])
    else:
        _write(console, blocks)


def _write(console: Console, blocks: Iterable[RenderableType], end: str = "\n") -> None:
    with console.capture() as captured:
        for block in blocks:
            console.print(block, crop=False, end=end)
    lines = captured.get().replace(_GLUE, " ").split("\n")
    console.file.write("\n".join(line.rstrip() for line in lines))
    console.file.flush()


Lines = list[Text]


class Terminal:
    """Blocks as lines, in one form, for the width and the characters of a console."""

    def __init__(self, console: Console, form: doc.Form = "full") -> None:
        """Take the width and the encoding from the console."""
        self._console = console
        self._encoding = console.encoding or "ascii"
        self._short = form == "short"
        self._most: int | None = None
        self._is_tight = False
        self._sentence_lines = 1
        self.width = min(console.width, TEXT_WIDTH)
        self.table_width = min(console.width, TABLE_WIDTH)

    def lines(self, blocks: Iterable[doc.Block]) -> Iterator[Text]:
        """Yield the lines of blocks, with empty lines between blocks that do not belong together."""
        previous: doc.Block | None = None
        for block in blocks:
            lines = self.render(block)
            if not lines:
                continue
            if previous is not None and not self._belong_together(previous, block):
                yield Text()
            yield from lines
            previous = block

    def fitted(self, blocks: Sequence[doc.Block], height: int) -> Lines:
        """Return the lines of blocks, so short that all fit into `height` lines if that is possible.

        The last table gets the lines that the other blocks leave.
        """
        lines: Lines = []
        for most in range(_MOST_PARTS, 0, -1):
            self._most = most
            lines = list(self.lines(self._shortened(blocks, 0)))
            if len(lines) <= height:
                break
        if len(lines) > height:
            # Texts are cut, too, that are whole otherwise.
            self._is_tight = True
            lines = list(self.lines(self._shortened(blocks, 0)))
        if len(lines) > height:
            # Two recommendations say far more than one, and what does not fit anyway may be longer.
            self._most = _LEAST_PARTS
            return list(self.lines(self._shortened(blocks, 0)))
        spare = height - len(lines)
        tables = [block for block in blocks if isinstance(block, doc.Table)]
        has_sentences = any(column.kind == "sentence" for table in tables for column in table.columns)
        for self._sentence_lines in range(_MOST_SENTENCE_LINES if has_sentences else 1, 0, -1):
            # All rows fit into one line more: it says how many are left out.
            for more_rows in range(spare + 1, 0, -1):
                longer = list(self.lines(self._shortened(blocks, more_rows)))
                if len(longer) <= height:
                    return longer
                if self._sentence_lines > 1:
                    break
        return lines

    def _shortened(self, blocks: Sequence[doc.Block], more_rows: int) -> Iterator[doc.Block]:
        """Yield blocks with short tables; the last one has so many rows more than it needs."""
        last = max((index for index, block in enumerate(blocks) if isinstance(block, doc.Table)), default=None)
        for index, block in enumerate(blocks):
            if isinstance(block, doc.Table):
                rows = block.least + more_rows if index == last else max(block.least, self._most or 0)
                yield doc.first_rows(block, rows)
            else:
                yield block

    @singledispatchmethod
    def render(self, block: doc.Block) -> Lines:
        """Return the lines of a block; none if its form has nothing to show."""
        raise TypeError(f"no rendering of {type(block).__name__}")

    @render.register
    def _(self, block: doc.Heading) -> Lines:
        return self._paragraph(block.text, "bold")

    @render.register
    def _(self, block: doc.Note) -> Lines:
        text = block.short if self._short and block.short else block.text
        lines = self._paragraph(text, _STYLES[block.tone])
        least = _LEAST_LINES
        if self._is_tight:
            least = _LEAST_LINES if block.tone == "strong" else 1
        elif block.tone == "strong":
            return lines
        return self._first_lines(lines, max(self._most or 0, least), self.width)

    def _first_lines(self, lines: Lines, most: int, width: int) -> Lines:
        """Return at most so many lines on a screen; the last one ends with an ellipsis if there are more."""
        if self._most and len(lines) > most:
            del lines[most:]
            ellipsis = self._legible("…")
            lines[-1].truncate(width - len(ellipsis))
            lines[-1].rstrip()
            lines[-1].append(ellipsis)
        return lines

    @render.register
    def _(self, block: doc.Facts) -> Lines:
        title = self._paragraph(block.label, "bold") if block.label else []
        return title + self._labelled(block.rows, self._most)

    @render.register
    def _(self, block: doc.Table) -> Lines:
        lines: Lines = []
        if block.rows:
            names = tuple(doc.Cell(column.name, "strong") for column in block.columns)
            header, *rows = self._aligned(block.columns, (names, *block.rows), self.table_width)
            width = max(line.cell_len for line in (header, *rows))
            lines = [header, Text(self._legible("─") * width, "dim")]
            for line, row in zip(rows, block.rows, strict=True):
                lines += [line, *self._sentences(block.columns, row)]
        if block.more:
            lines += self._paragraph(block.more, "dim")
        if self._most is None:
            for column in block.columns:
                if column.meaning:
                    lines += self._paragraph(f"{column.name}: {column.meaning}", "dim")
        return lines

    def _sentences(self, columns: Sequence[doc.Column], row: Sequence[doc.Inline]) -> Lines:
        """Return the lines below a row of a table."""
        lines: Lines = []
        for column, cell in zip(columns, row, strict=True):
            if column.kind == "sentence" and doc.text_of(cell):
                room = self.width - len(_INDENT)
                wrapped = list(self._text(cell, "dim").wrap(self._console, room))
                for line in self._first_lines(wrapped, self._sentence_lines, room):
                    lines.append(Text.assemble(_INDENT, line))
        return lines

    @render.register
    def _(self, block: doc.Recommendations) -> Lines:
        most = self._most or len(block.items)
        lines = self._paragraph(block.legend, "dim")
        if block.title:
            lines = self._beside(self._text(block.title, "bold"), self._text(block.legend, "dim"))
        for item in block.items[:most]:
            lines += self._recommendation(item)
        left_out = len(block.items) - most
        more = f"{left_out} more with -v" if left_out > 0 else block.more
        if more:
            lines += self._paragraph(more, "dim")
        return lines

    def _recommendation(self, item: doc.Recommendation) -> Lines:
        doubt = "dim" if item.doubted else ""
        bar = self._bar(item.bar or 0.0, _BAR_WIDTH).ljust(_BAR_WIDTH)
        gain = self._text(item.gain, doubt or "bold")
        gain.pad_left(_GAIN_WIDTH - gain.cell_len)
        left = Text.assemble((bar, doubt or _STYLES[item.severity]), _GAP, gain)
        room = self.width - left.cell_len - len(_GAP)
        headline = item.headline if self._most is None else self._cut(item.headline, room, "text")
        right = self._text(headline)
        if item.action:
            right.append("\n").append_text(self._text(f"→ {item.action}", "bold"))
        rule = "" if self._short else item.rule
        about = _joined(", ", item.place, item.certainty, rule, item.condition)
        kernels = self._cut(doc.text_of(item.kernels), max(room - _cells(about) - len(_GAP), _LEAST_NAME), "name")
        right.append("\n").append_text(self._text(_joined(", ", kernels, about), "dim"))
        return self._beside(left, right)

    @render.register
    def _(self, block: doc.Findings) -> Lines:
        lines: Lines = []
        brief: list[tuple[str, str]] = []
        for item in block.items:
            if self._short and (item.explained_by or item.severity in {"low", "info"}):
                gain = "" if item.severity == "info" else item.gain
                beside = doc.text_of(item.explained_by) or gain
                brief.append(("" if brief else "also", f"{item.headline} ({beside})" if beside else item.headline))
                continue
            if lines:
                lines.append(Text())
            rows = [row for row in self._finding_rows(item) if doc.text_of(row[1])]
            lines += self._labelled(rows)
        if lines and brief:
            lines.append(Text())
        return lines + self._labelled(brief)

    def _finding_rows(self, item: doc.Finding) -> Iterator[tuple[doc.Inline, doc.Inline]]:
        yield doc.Cell(item.severity, item.severity), doc.Cell(item.headline, "" if item.explained_by else "strong")
        yield "cause", item.explained_by
        yield "gain", _joined("; ", item.gain, item.remains)
        yield "where", item.place
        if self._short:
            yield "do", item.action
            return
        # The finding that explains this one says the rest.
        label = "evidence"
        if not item.explained_by:
            yield "why", item.why
        for evidence in item.evidence:
            yield label, doc.evidence_text(evidence)
            label = ""
        if not item.explained_by:
            yield "do", _joined(" ", item.action, item.advice)
            yield "sure", f"{item.certainty}; rule {item.rule}"

    @render.register
    def _(self, block: doc.Code) -> Lines:
        form: doc.Form = "short" if self._short else "full"
        lines = []
        for parts in code_lines(block, form, self._console.width, self._legible):
            line = Text(no_wrap=True, overflow="ignore")
            for part, style in parts:
                line.append(part, _STYLES.get(style, style))
            line.rstrip()
            lines.append(line)
        return lines

    @render.register
    def _(self, block: doc.Figure) -> Lines:
        lines: Lines = []
        for note in () if self._short else block.notes:
            lines += self._paragraph(note, "dim")
        return lines

    @render.register
    def _(self, block: doc.Bars) -> Lines:
        ceiling = f", % of {block.ceiling}" if block.ceiling else ""
        if self._short:
            values = ", ".join(f"{doc.text_of(bar.name)} {bar.text}" for bar in block.items)
            line = Text.assemble(self._text(f"{block.label}{ceiling}: ", "cyan"), self._text(values))
            return list(line.wrap(self._console, self.width))
        columns = (doc.Column("", "name"), doc.Column("", "number"), doc.Column("", "text", rank=1))
        rows = []
        start = 0.0
        for bar in block.items:
            indent = " " * round(min(start, 1.0) * _LONG_BAR_WIDTH)
            rows.append((bar.name, bar.text, indent + self._bar(bar.fraction or 0.0, _LONG_BAR_WIDTH)))
            if block.stacked:
                start += bar.fraction or 0.0
        lines = self._paragraph(f"{block.label}{ceiling}", "cyan") + self._aligned(columns, rows, self.width)
        return lines + self._paragraph(block.note, "dim") if block.note else lines

    @render.register
    def _(self, block: doc.Tree) -> Lines:
        return self._tree(block, "", "")

    def _tree(self, step: doc.Tree, first: str, rest: str) -> Lines:
        """Return a step and those below it, with guides before their first and their other lines."""
        is_code = isinstance(step.text, doc.Cell) and step.text.code
        text = self._text(step.text, "cyan" if is_code else "")
        if step.number:
            text = Text.assemble(self._text(step.number, "bold"), _GAP, text)
        _, down = _GUIDES[not step.children]
        below = rest + down
        lines = []
        for index, line in enumerate(text.wrap(self._console, self.width - len(below))):
            lines.append(Text.assemble((self._legible(below if index else first), "dim"), line))
        for child in step.children:
            guide, down = _GUIDES[child is step.children[-1]]
            lines += self._tree(child, rest + guide, rest + down)
        return lines

    @render.register
    def _(self, block: doc.Command) -> Lines:
        lines = self._paragraph(block.lead) if block.lead else []
        for line in shell_lines(self._legible(block.text), self._console.width - len(_INDENT)):
            lines.append(Text(_INDENT + line, "cyan", no_wrap=True, overflow="ignore"))
        return lines

    @render.register
    def _(self, block: doc.Fold) -> Lines:
        if self._short and not block.open:
            return []
        return [*self._paragraph(block.title, "bold"), *self.lines(block.blocks)]

    def _belong_together(self, first: doc.Block, second: doc.Block) -> bool:
        if isinstance(first, doc.Heading):
            return True
        if self._short and isinstance(first, doc.Bars) and isinstance(second, doc.Bars):
            return True
        return isinstance(first, doc.Note | doc.Command) and isinstance(second, doc.Note | doc.Command)

    def _paragraph(self, value: doc.Inline, style: str = "") -> Lines:
        return list(self._text(value, style).wrap(self._console, self.width))

    def _labelled(self, rows: Sequence[tuple[doc.Inline, doc.Inline]], most: int | None = None) -> Lines:
        """Return labels and, beside each, a value of at most so many lines."""
        labels = [self._text(name, "cyan") for name, _ in rows]
        width = max([_LABEL_WIDTH, *(label.cell_len for label in labels)])
        lines: Lines = []
        for label, (_, value) in zip(labels, rows, strict=True):
            lines += self._beside(label, self._text(value), min(width, self.width * 2 // 5), most)
        return lines

    def _beside(self, left: Text, right: Text, width: int = 0, most: int | None = None) -> Lines:
        """Return two texts side by side: the left one `width` columns wide, the right one of at most so many lines."""
        width = width or left.cell_len
        room = self.width - width - len(_GAP)
        rests = list(right.wrap(self._console, room))
        rests = self._first_lines(rests, most or len(rests), room)
        lines = []
        for start, rest in zip_longest(left.wrap(self._console, width), rests, fillvalue=Text()):
            gap = " " * (width - start.cell_len + len(_GAP))
            line = Text.assemble(start, gap, rest)
            line.rstrip()
            lines.append(line)
        return lines

    def _aligned(self, columns: Sequence[doc.Column], rows: Sequence[Sequence[doc.Inline]], limit: int) -> Lines:
        """Return rows of cells as lines of at most `limit` columns, one line each, if their numbers fit."""
        if not rows:
            return []
        texts = [[self._legible(doc.text_of(cell)) for cell in row] for row in rows]
        widths = [max(map(_cells, column)) for column in zip(*texts, strict=True)]
        fitting = _fitting_widths(columns, widths, limit)
        lines = []
        for row, cells in zip(rows, texts, strict=True):
            line = Text(no_wrap=True, overflow="ignore")
            gap = ""
            for index, width in fitting.items():
                text = self._cut(cells[index], width, columns[index].kind)
                space = " " * (width - _cells(text))
                text = space + text if columns[index].kind == "number" else text + space
                line.append(gap).append(text, _style_of(row[index]))
                gap = _GAP
            line.rstrip()
            lines.append(line)
        return lines

    def _cut(self, text: str, width: int, kind: str) -> str:
        """Fit a text into so many columns of the terminal: a name loses its middle, all others their end."""
        shown = self._legible(text)
        cut = cut_middle if kind == "name" else cut_end
        length = width
        while _cells(shown) > width and length > 0:
            shown = self._legible(cut(text, length))
            length -= 1
        return shown

    def _text(self, value: doc.Inline, style: str = "") -> Text:
        """Return an inline text, legible, each number beside its unit."""
        glued = _NUMBER_AND_UNIT.sub(rf"\1{_GLUE}", self._legible(doc.text_of(value)))
        return Text(glued, style=_style_of(value) or style, overflow="fold")

    def _legible(self, text: str) -> str:
        return legible(text, self._encoding)

    def _bar(self, fraction: float, width: int) -> str:
        """Draw 0 to 1 in eighths of a character, or in `#`; a fraction above 0 is always visible."""
        filled = min(1.0, max(0.0, fraction)) * width
        least = 1 if fraction > 0 else 0
        if "utf" not in self._encoding.lower():
            return "#" * max(round(filled), least)
        whole, rest = divmod(max(round(filled * 8), least), 8)
        return "█" * whole + (_EIGHTHS[rest] if rest else "")


def _joined(separator: str, *texts: str) -> str:
    return separator.join(filter(None, texts))


def _cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def _style_of(value: doc.Inline) -> str:
    return "" if isinstance(value, str) else _STYLES[value.tone]


def _fitting_widths(columns: Sequence[doc.Column], widths: Sequence[int], limit: int) -> dict[int, int]:
    """Return the widths of the columns that are shown, by their index.

    Columns with the highest rank go until names have a readable length; then names and texts get narrower.
    """
    fitting = {index: width for index, width in enumerate(widths) if columns[index].kind != "sentence"}
    wanted = _WANTED_NAME
    for index, column in enumerate(columns):
        if column.kind == "name":
            fitting[index] = min(widths[index], wanted, limit // 3)
            wanted = _OTHER_NAME
    while _line_width(fitting) > limit:
        last = max(fitting, key=lambda index: columns[index].rank)
        if columns[last].rank == 0:
            break
        del fitting[last]
    for index in fitting:
        fitting[index] = min(widths[index], limit)
    for kind, least in _LEAST_WIDTHS:
        while _line_width(fitting) > limit:
            loose = [index for index in fitting if columns[index].kind == kind and fitting[index] > least]
            if not loose:
                break
            fitting[max(loose, key=lambda index: fitting[index])] -= 1
    return fitting


def _line_width(widths: dict[int, int]) -> int:
    return sum(widths.values()) + len(_GAP) * (len(widths) - 1)
