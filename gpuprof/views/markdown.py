"""Render documents as Markdown to paste into a review, at most as long as a comment may be."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from itertools import repeat

from msgspec.structs import replace

from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.views import document as doc
from gpuprof.views.code_lines import code_lines

# GitHub takes comments of 65,536 characters; continuous integration may add to them.
MOST_CHARACTERS = 60_000
_LEFT_OUT = "left out: a comment has at most 65,536 characters."
_ENDING = 200
_HEAD_LINES = 2
_NAME_WIDTH = 100
_CELL_WIDTH = 300
_TEXT_WIDTH = 600
_CODE_WIDTH = 1_000
_GROWTH = 2

_TICKS = re.compile("`+")
_SPECIAL = "\\`*_{}[]<>|#~!$&"
# What review tools make links of, even behind a backslash: users, issues, addresses.
_LINKED = re.compile(r"@|[#!](?=\d)|:(?=//)|www(?=\.)", re.IGNORECASE)


def markdown_lines(document: doc.Document, most: int = MOST_CHARACTERS) -> Iterator[str]:
    """Yield lines of at most `most` characters in all; what does not fit is left out, and counted."""
    yield from _fitting(document.blocks, most)


def _fitting(blocks: Iterable[doc.Block], room: int) -> Iterator[str]:
    left_out = 0
    for block in blocks:
        lines = list(render(block))
        if _length(lines) > room - _ENDING:
            lines = list(_shortened(block, lines, room - _ENDING))
            left_out += not lines
        room -= _length(lines)
        yield from lines
    if left_out:
        yield f"{left_out} part{'s' if left_out > 1 else ''} {_LEFT_OUT}"
        yield ""


def _shortened(block: doc.Block, lines: Sequence[str], room: int) -> Iterator[str]:
    """Yield the lines of a block that fit: the first rows of a table, the first blocks of a fold, nothing of others."""
    if isinstance(block, doc.Table):
        rows = 0
        while _length(lines[: _HEAD_LINES + rows + 1]) <= room - _ENDING:
            rows += 1
        if rows:
            left_out = f"{len(block.rows) - rows} more rows {_LEFT_OUT}"
            yield from render(replace(doc.first_rows(block, rows), more=left_out))
    elif isinstance(block, doc.Fold) and room > _ENDING:
        yield from _details(block, _fitting(block.blocks, room - _ENDING))
        yield ""


def _length(lines: Iterable[str]) -> int:
    return sum(len(line) + 1 for line in lines)


def render(block: doc.Block) -> Iterator[str]:
    """Yield a block as lines of Markdown, with an empty line behind it."""
    lines = list(_lines(block))
    if lines:
        yield from lines
        yield ""


@singledispatch
def _lines(block: doc.Block) -> Iterator[str]:
    raise TypeError(f"no Markdown of {type(block).__name__}")


@_lines.register
def _(block: doc.Heading) -> Iterator[str]:
    yield f"{'#' * (block.level + 1)} {inline(block.text, _TEXT_WIDTH)}"


@_lines.register
def _(block: doc.Note) -> Iterator[str]:
    text = inline(block.text, _TEXT_WIDTH)
    yield f"**{text}**" if block.tone == "strong" else text


@_lines.register
def _(block: doc.Facts) -> Iterator[str]:
    if block.label:
        yield f"**{inline(block.label)}**"
        yield ""
    for name, value in block.rows:
        label = f"{inline(name)}: " if name else ""
        yield f"- {label}{inline(value, _TEXT_WIDTH)}"


@_lines.register
def _(block: doc.Table) -> Iterator[str]:
    if block.rows:
        yield _row(column.name for column in block.columns)
        yield _row("--:" if column.kind == "number" else "---" for column in block.columns)
        widths = [_CELL_WIDTH if column.kind == "sentence" else _NAME_WIDTH for column in block.columns]
        for row in block.rows:
            yield _row(row, widths)
    if block.rows and block.more:
        yield ""
    if block.more:
        yield inline(block.more, _TEXT_WIDTH)


def _row(cells: Iterable[doc.Inline], widths: Iterable[int] = repeat(_NAME_WIDTH)) -> str:
    return f"| {' | '.join(map(inline, cells, widths))} |"


@_lines.register
def _(block: doc.Recommendations) -> Iterator[str]:
    title = f"**{inline(block.title)}**, " if block.title else ""
    yield f"{title}{inline(block.legend, _TEXT_WIDTH)}"
    yield ""
    for index, item in enumerate(block.items, 1):
        gain = f"{item.gain} ({item.condition})" if item.condition else item.gain
        about = [doc.text_of(item.kernels).removeprefix("#"), item.place, item.certainty, item.rule]
        shown = ", ".join(inline(text) for text in about if text)
        action = f" → {inline(item.action, _TEXT_WIDTH)}" if item.action else ""
        yield f"{index}. **{inline(gain, _TEXT_WIDTH)}** {inline(item.headline, _TEXT_WIDTH)}{action} – {shown}"
    if block.more:
        yield ""
        yield inline(block.more, _TEXT_WIDTH)


@_lines.register
def _(block: doc.Findings) -> Iterator[str]:
    for item in block.items:
        about = [item.gain, doc.text_of(item.place), doc.text_of(item.explained_by)]
        shown = ", ".join(inline(text, _TEXT_WIDTH) for text in about if text)
        action = f" → {inline(item.action, _TEXT_WIDTH)}" if item.action else ""
        yield f"- **{item.severity}** {inline(item.headline, _TEXT_WIDTH)}{f' ({shown})' if shown else ''}{action}"
        if item.evidence:
            yield f"  - {'; '.join(inline(doc.evidence_text(evidence)) for evidence in item.evidence)}"


@_lines.register
def _(block: doc.Code) -> Iterator[str]:
    lines = []
    for parts in code_lines(block, "short", _CODE_WIDTH, printable):
        lines.append("".join(part for part, _ in parts).rstrip())
    yield from code_block(lines)


@_lines.register
def _(block: doc.Tree) -> Iterator[str]:
    number = f"**{inline(block.number)}** " if block.number else ""
    yield f"- {number}{inline(block.text, _TEXT_WIDTH)}"
    for child in block.children:
        for line in _lines(child):
            yield f"  {line}"


@_lines.register
def _(block: doc.Figure) -> Iterator[str]:
    for note in block.notes:
        yield f"- {inline(note, _TEXT_WIDTH)}"


@_lines.register
def _(block: doc.Bars) -> Iterator[str]:
    ceiling = f", % of {block.ceiling}" if block.ceiling else ""
    parts = ", ".join(f"{inline(bar.name)} {inline(bar.text)}" for bar in block.items)
    yield f"- {inline(block.label + ceiling)}: {parts}"
    if block.note:
        yield f"  {inline(block.note, _TEXT_WIDTH)}"


@_lines.register
def _(block: doc.Command) -> Iterator[str]:
    lead = f"{inline(block.lead, _TEXT_WIDTH)} " if block.lead else ""
    yield f"{lead}{code(block.text)}"


@_lines.register
def _(block: doc.Fold) -> Iterator[str]:
    lines: list[str] = []
    for item in block.blocks:
        lines += render(item)
    yield from _details(block, lines)


def _details(block: doc.Fold, lines: Iterable[str]) -> Iterator[str]:
    # Markdown is not read within this line: the title is text of HTML.
    title = cut_middle(printable(doc.text_of(block.title)), _NAME_WIDTH)
    yield f"<details><summary>{_unlinked(html.escape(title))}</summary>"
    yield ""
    yield from lines
    yield "</details>"


def inline(value: doc.Inline, most: int = _NAME_WIDTH) -> str:
    """Return a text as harmless Markdown on one line, cut to a bounded length; strong texts are bold."""
    cut = cut_middle if most == _NAME_WIDTH else cut_end
    text = printable(doc.text_of(value)[: 8 * most]).strip()
    room = most
    made = escape(cut(text, room))
    # What is harmless can be eight times as long, as an `@` is.
    while len(made) > _GROWTH * most:
        room //= 2
        made = escape(cut(text, room))
    is_strong = isinstance(value, doc.Cell) and value.tone == "strong"
    return f"**{made}**" if is_strong and made else made


def escape(text: str) -> str:
    """Make text harmless in Markdown: no markup, no HTML, no links, no mention of a user or an issue, one line.

    Review tools look for mentions in what is rendered, where `\\@` and `&#64;` are an `@` again. A space of no width
    behind it stops them.
    """
    plain = "".join(f"\\{char}" if char in _SPECIAL else char for char in printable(text))
    return _unlinked(plain)


def _unlinked(text: str) -> str:
    return _LINKED.sub(lambda start: f"{start[0]}&#8203;", text)


def code(text: str) -> str:
    """Return text as code that can be copied, whatever quotes are in it."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {printable(text)} {ticks}"


def code_block(lines: Sequence[str]) -> Iterator[str]:
    """Yield lines of code between fences that none of them ends."""
    longest = max((len(ticks) for line in lines for ticks in _TICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield fence
    for line in lines:
        yield printable(line)
    yield fence
