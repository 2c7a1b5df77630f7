"""Lay out code with its notes in columns of characters, for a terminal or a block of plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest

from gpuprof.views import document as doc

# If less is left for the code, the last columns go.
_LEAST_CODE = 28
_GAP = "  "
_TAB = 4


def code_lines(
    block: doc.Code, width: int, legible: Callable[[str], str], *, short: bool
) -> Iterator[tuple[doc.CodeLine | None, str, str]]:
    """Yield the title of a block and its lines: each line, its number and notes in columns, and its text.

    If the `width` is too small for code beside all columns, the last ones go. `legible` makes a text safe for the
    medium.
    """
    shown = doc.shortest_excerpt(block) if short else block.lines
    rows = [(line.number, *map(doc.text_of, line.notes)) for line in shown if not line.across]
    columns = []
    for texts in zip_longest((block.numbers, *block.columns), *rows, fillvalue=""):
        if any(texts[1:]):
            safe = list(map(legible, texts))
            most = max(map(len, safe))
            columns.append([text.rjust(most) + _GAP for text in safe])
    while len(columns) > 2 and sum(len(texts[0]) for texts in columns) > width - _LEAST_CODE:
        columns.pop()
    margins = map("".join, zip(*columns, strict=True))
    title = block.title
    if len(shown) < len(block.lines):
        title += f" ({len(shown)} of {len(block.lines)} lines)"
    yield None, next(margins, ""), legible(title)
    for line in shown:
        text = legible((line.text or "").expandtabs(_TAB))
        if not line.across:
            yield line, next(margins), text
        elif line.number:
            yield line, "", f"{legible(line.number)}{_GAP}{text.strip()}"
        else:
            yield line, " " * len(columns[0][0] if columns else ""), text
