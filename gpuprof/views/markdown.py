"""Render documents as Markdown to paste into a review, at most as long as a comment may be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import singledispatch

from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.views import document as doc
from gpuprof.views.code_lines import code_lines

# GitHub takes comments of 65,536 characters; continuous integration may add to them.
MOST_CHARACTERS = 60_000
_TICKS = re.compile("`+")
_SPECIAL = "\\`*_{}[]<>|#~!$&"
_NAME_WIDTH = 100
_TEXT_WIDTH = 600
_CODE_WIDTH = 1_000
_GROWTH = 2


def markdown_lines(document: doc.Document, most: int = MOST_CHARACTERS) -> Iterator[str]:
    """Yield lines of at most `most` characters in all; blocks that do not fit are left out, and counted."""
    length = 0
    left_out = 0
    for block in document.blocks:
        lines = list(render(block))
        size = sum(len(line) + 1 for line in lines) + 1
        if length + size > most:
            left_out += 1
            continue
        length += size
        yield from lines
        if lines:
            yield ""
    if left_out:
        yield f"{left_out} parts left out: this would be longer than a comment may be."


@singledispatch
def render(block: doc.Block) -> Iterator[str]:
    """Yield a block as lines of Markdown."""
    raise TypeError(f"no Markdown of {type(block).__name__}")


@render.register
def _(block: doc.Heading) -> Iterator[str]:
    yield f"{'#' * (block.level + 1)} {inline(block.text)}"


@render.register
def _(block: doc.Note) -> Iterator[str]:
    text = inline(block.text, _TEXT_WIDTH)
    yield f"**{text}**" if block.tone == "strong" else text


@render.register
def _(block: doc.Facts) -> Iterator[str]:
    for name, value in block.rows:
        yield f"- {escape(name)}: {inline(value, _TEXT_WIDTH)}"


@render.register
def _(block: doc.Table) -> Iterator[str]:
    yield f"| {' | '.join(escape(column.name) for column in block.columns)} |"
    yield f"|{'|'.join('--:' if column.kind == 'number' else '---' for column in block.columns)}|"
    for row in block.rows:
        yield f"| {' | '.join(inline(cell) for cell in row)} |"
    if block.more:
        yield ""
        yield escape(block.more)


@render.register
def _(block: doc.Recommendations) -> Iterator[str]:
    yield f"**Fix first**, {escape(block.legend)}"
    yield ""
    for index, item in enumerate(block.items, 1):
        gain = f"{item.gain} ({item.condition})" if item.condition else item.gain
        action = f" → {escape(item.action)}" if item.action else ""
        # Review tools take "#3" for an issue.
        kernels = inline(item.kernels).removeprefix("\\#")
        about = ", ".join(filter(None, (item.place, item.certainty)))
        yield f"{index}. **{escape(gain)}** {escape(item.headline)}{action} – {kernels} ({escape(about)})"
    if block.more:
        yield ""
        yield escape(block.more)


@render.register
def _(block: doc.Findings) -> Iterator[str]:
    for item in block.items:
        beside = ", ".join(filter(None, (item.gain, _text_of(item.place), _text_of(item.explained_by))))
        action = f" → {escape(item.action)}" if item.action else ""
        yield f"- **{escape(item.severity)}** {escape(item.headline)} ({escape(beside)}){action}"


@render.register
def _(block: doc.Code) -> Iterator[str]:
    lines = []
    for parts in code_lines(block, "short", _CODE_WIDTH, printable):
        lines.append("".join(part for part, _ in parts).rstrip())
    yield from code_block(lines)


@render.register
def _(block: doc.Tree) -> Iterator[str]:
    number = f"**{escape(block.number)}** " if block.number else ""
    yield f"- {number}{inline(block.text, _TEXT_WIDTH)}"
    for child in block.children:
        for line in render(child):
            yield f"  {line}"


@render.register
def _(block: doc.Figure) -> Iterator[str]:
    for note in block.notes:
        yield f"{escape(note)}  "


@render.register
def _(block: doc.Bars) -> Iterator[str]:
    ceiling = f", % of {escape(block.ceiling)}" if block.ceiling else ""
    parts = ", ".join(f"{inline(bar.name)} {escape(bar.text)}" for bar in block.items)
    yield f"- {escape(block.label)}{ceiling}: {parts}"


@render.register
def _(block: doc.Command) -> Iterator[str]:
    lead = f"{escape(block.lead)} " if block.lead else ""
    yield f"{lead}{code(block.text)}"


@render.register
def _(block: doc.Fold) -> Iterator[str]:
    yield f"<details><summary>{inline(block.title)}</summary>"
    yield ""
    for item in block.blocks:
        yield from render(item)
        yield ""
    yield "</details>"


def inline(value: doc.Inline, most: int = _NAME_WIDTH) -> str:
    """Return a text as harmless Markdown on one line, cut to a bounded length."""
    text = _text_of(value)
    cut = cut_middle if most == _NAME_WIDTH else cut_end
    shown = printable(text[: 8 * most])
    room = most
    made = escape(cut(shown, room))
    # What is harmless can be eight times as long, as an `@` is.
    while len(made) > _GROWTH * most:
        room //= 2
        made = escape(cut(shown, room))
    return made


def escape(text: str) -> str:
    """Make text harmless in Markdown: no markup, no HTML, no links, no mention of a user, one line.

    Review tools look for mentions in what is rendered, where `\\@` and `&#64;` are an `@` again. A space of no width
    behind it stops them.
    """
    plain = "".join(f"\\{char}" if char in _SPECIAL else char for char in printable(text))
    return plain.replace("://", ":\\//").replace("www.", "www\\.").replace("@", "@&#8203;")


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


def _text_of(value: doc.Inline) -> str:
    return value if isinstance(value, str) else value.text
