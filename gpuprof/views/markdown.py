"""Render documents as Markdown to paste into a review, at most as long as a comment may be."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import singledispatch
from itertools import accumulate

from msgspec.structs import replace

from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.views import document as doc
from gpuprof.views.code_lines import code_lines
from gpuprof.words.sentences import joined_by, without_stop

# GitHub takes comments of 65,536 characters; continuous integration may add to them.
MOST_CHARACTERS = 60_000
# Room for the line that says how much is left out.
_ENDING = 200
_HEAD_LINES = 2
_NAME_WIDTH = 100
_TEXT_WIDTH = 600
_CODE_WIDTH = 1_000

Lines = Iterator[str]

_TICKS = re.compile("`+")
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>|#~!$&]")
# Starts of what review tools turn into links even after a backslash: users, issues, addresses.
_LINKED = re.compile(r"@|[#!](?=\d)|\bGH(?=-\d)|:(?=//)|www(?=\.)", re.IGNORECASE)


def markdown_lines(document: doc.Document, most: int = MOST_CHARACTERS) -> Lines:
    """Yield lines of at most `most` characters in all; blocks that do not fit are left out, and counted."""
    return _fitting(document.blocks, most)


def _fitting(blocks: Iterable[doc.Block], room: int) -> Lines:
    left_out = 0
    for block in blocks:
        lines = list(_lines(block))
        if _length(lines) > room - _ENDING:
            lines = list(_shortened(block, lines, room - _ENDING))
            left_out += not lines
        if lines:
            lines.append("")
        room -= _length(lines)
        yield from lines
    if left_out:
        yield f"{left_out} part{'s' if left_out > 1 else ''} left out: a comment has at most 65,536 characters."
        yield ""


def _shortened(block: doc.Block, lines: Sequence[str], room: int) -> Lines:
    """Yield the lines of a block that fit: the first rows, recommendations or blocks of a fold, nothing of others."""
    if isinstance(block, doc.Table | doc.Recommendations):
        ends = accumulate(len(line) + 1 for line in lines)
        rows = sum(end <= room - _TEXT_WIDTH for end in ends) - _HEAD_LINES
        if rows <= 0:
            return
        if isinstance(block, doc.Table):
            yield from _lines(doc.first_rows(block, rows))
        else:
            more = f"And {len(block.items) - rows} more."
            yield from _lines(replace(block, items=block.items[:rows], more=more))
    elif isinstance(block, doc.Fold) and room > _ENDING:
        yield from _fold(block, room - _ENDING)


def _length(lines: Sequence[str]) -> int:
    return sum(len(line) + 1 for line in lines)


@singledispatch
def _lines(block: doc.Block) -> Lines:
    raise TypeError(f"no Markdown of {type(block).__name__}")


@_lines.register
def _(block: doc.Heading) -> Lines:
    yield f"{'#' * (block.level + 1)} {inline(block.text)}"


@_lines.register
def _(block: doc.Note) -> Lines:
    yield inline(doc.Cell(doc.text_of(block.text), block.tone))


@_lines.register
def _(block: doc.Facts) -> Lines:
    if block.label:
        yield from (f"**{inline(block.label)}**", "")
    for name, value in block.rows:
        yield f"- {joined_by(': ', inline(name), inline(value))}"


@_lines.register
def _(block: doc.Table) -> Lines:
    if block.rows:
        yield _row(inline(column.name) for column in block.columns)
        yield _row("--:" if column.kind == "number" else "---" for column in block.columns)
        widths = [_TEXT_WIDTH if column.kind == "sentence" else _NAME_WIDTH for column in block.columns]
        for row in block.rows:
            yield _row(map(inline, row, widths))
    if block.more:
        yield from ("", inline(block.more))


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


@_lines.register
def _(block: doc.Recommendations) -> Lines:
    yield joined_by(", ", inline(doc.Cell(block.title, "strong")), inline(block.legend))
    yield ""
    for index, item in enumerate(block.items, 1):
        gain = f"{item.gain} ({item.condition})" if item.condition else item.gain
        name = inline(doc.text_of(item.kernels).removeprefix("#"), _NAME_WIDTH)
        kernels = joined_by(" ", name, inline(item.spread))
        about = joined_by(", ", kernels, inline(item.place), inline(item.certainty), inline(item.rule))
        yield f"{index}. **{inline(gain)}** {_what_to_do(item)} – {about}"
    if block.more:
        yield from ("", inline(block.more))


def _what_to_do(item: doc.Recommendation | doc.Finding) -> str:
    return joined_by(" → ", inline(item.headline), inline(item.action))


@_lines.register
def _(block: doc.Findings) -> Lines:
    for item in block.items:
        about = joined_by(", ", inline(item.gain), inline(item.place), inline(item.explained_by))
        yield f"- **{item.severity}** {_what_to_do(item)}{f' ({about})' if about else ''}"
        reasons = (without_stop(item.why), *map(doc.evidence_text, item.evidence), *item.places)
        if any(reasons):
            yield f"  - {joined_by('; ', *map(inline, reasons))}"


@_lines.register
def _(block: doc.Code) -> Lines:
    lines = []
    for _, margin, text in code_lines(block, _CODE_WIDTH, printable, short=True):
        lines.append((margin + cut_end(text, _CODE_WIDTH)).rstrip())
    fence = "``" + _ticks_beyond("\n".join(lines))
    yield from (fence, *lines, fence)


@_lines.register
def _(block: doc.Tree) -> Lines:
    yield f"- {joined_by(' ', inline(doc.Cell(block.number, 'strong')), inline(block.text))}"
    for child in block.children:
        for line in _lines(child):
            yield f"  {line}"


@_lines.register
def _(block: doc.Figure) -> Lines:
    for note in block.notes:
        yield f"- {inline(note)}"


@_lines.register
def _(block: doc.Bars) -> Lines:
    label = joined_by(", % of ", block.label, block.ceiling)
    parts = ", ".join(f"{inline(bar.name)} {inline(bar.text)}" for bar in block.items)
    yield f"- {inline(label)}: {joined_by('; ', parts, inline(block.note))}"


@_lines.register
def _(block: doc.Command) -> Lines:
    ticks = _ticks_beyond(block.text)
    yield joined_by(" ", inline(block.lead), f"{ticks} {printable(block.text)} {ticks}")


@_lines.register
def _fold(block: doc.Fold, room: int = sys.maxsize) -> Lines:
    # Markdown is not read within this line: the title is text of HTML.
    title = cut_middle(printable(doc.text_of(block.title)), _NAME_WIDTH)
    yield f"<details><summary>{_unlinked(html.escape(title))}</summary>"
    yield ""
    yield from _fitting(block.blocks, room)
    yield "</details>"


def inline(value: doc.Inline, most: int = _TEXT_WIDTH) -> str:
    """Return a text as harmless Markdown on one line, cut to `most` characters; strong texts are bold."""
    cut = cut_middle if most == _NAME_WIDTH else cut_end
    made = escape(cut(doc.text_of(value).strip(), most))
    is_strong = isinstance(value, doc.Cell) and value.tone == "strong"
    return f"**{made}**" if is_strong and made else made


def escape(text: str) -> str:
    """Make text harmless in Markdown: no markup, no HTML, no links, no mention of a user or an issue, one line.

    Review tools look for mentions in what is rendered, where `\\@` and `&#64;` are an `@` again. A space of no width
    behind it stops them.
    """
    return _unlinked(_SPECIAL.sub(r"\\\g<0>", printable(text)))


def _unlinked(text: str) -> str:
    return _LINKED.sub(lambda start: f"{start[0]}&#8203;", text)


def _ticks_beyond(text: str) -> str:
    """Return more backticks than a text has in a row, so that it can be copied whatever quotes are in it."""
    return "`" * (1 + max(map(len, _TICKS.findall(text)), default=0))
