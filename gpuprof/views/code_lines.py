"""Lay out code with its notes in columns of characters, for a terminal or a block of plain text."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gpuprof.text import cut_middle
from gpuprof.views import document as doc

# If less is left for the code, notes become short, and then the last columns go.
_WANTED_CODE = 44
_LEAST_CODE = 28
# A line of code takes at most so many lines.
_MOST_LINES = 3
# Of the heat of the hottest line.
_HOT = 0.3
_WARM = 0.03
_GAP = "  "
_TAB = 4

# Parts of a line with their styles.
Line = list[tuple[str, str]]
Legible = Callable[[str], str]


class _Column(NamedTuple):
    """A column of notes: its name, the text of each line and its width."""

    name: str
    texts: tuple[str, ...]
    width: int


def code_lines(block: doc.Code, form: doc.Form, width: int, legible: Legible) -> Iterator[Line]:
    """Yield the lines of a block, none wider than `width` characters, each with the styles of its parts.

    `legible` makes a text safe for the medium. A first line names the columns for which there is no room.
    """
    shown = doc.shortest_excerpt(block) if form == "short" else block.lines
    if not shown:
        yield [(_cut(legible(block.title), width, legible), "bold cyan")]
        return
    numbers = [legible(line.number) for line in shown if not line.across]
    head = legible(block.numbers) if any(numbers) else ""
    number_width = max(map(cells, [head, *numbers]))
    columns, hidden = _fitting(block, shown, width - number_width - len(_GAP), legible)
    if hidden:
        yield [(_cut(f"on a wider terminal also: {', '.join(hidden)}", width, legible), "dim")]
    margin = number_width + sum(column.width + len(_GAP) for column in columns) + len(_GAP)
    heads = [_right(column.name, column.width) for column in columns]
    title = legible(block.title)
    if len(shown) < len(block.lines):
        title += f" ({len(shown)} of {len(block.lines)} lines)"
    yield [(_GAP.join([_right(head, number_width), *heads, _cut(title, width - margin, legible)]), "bold cyan")]
    for index, line in enumerate(shown):
        if line.across:
            yield from _across(line, number_width, width, legible)
            continue
        style = _heat_style(line)
        parts = [(_right(legible(line.number), number_width) + _GAP, "dim")]
        for column in columns:
            parts.append((_right(column.texts[index], column.width) + _GAP, style))
        pieces = _pieces(legible((line.text or "").expandtabs(_TAB)), width - margin, legible)
        code_style = "bold" if line.marked or line.heat >= _WARM else ""
        yield [*parts, (pieces[0], code_style)]
        for piece in pieces[1:]:
            yield [(" " * margin + piece, code_style)]


def _fitting(
    block: doc.Code, lines: Sequence[doc.CodeLine], width: int, legible: Legible
) -> tuple[list[_Column], list[str]]:
    """Return the columns that leave room for the code, and the names of the others."""
    columns = _filled(block, lines, legible, whole=True)
    if width - _taken(columns) < _WANTED_CODE:
        columns = _filled(block, lines, legible, whole=False)
    hidden: list[str] = []
    while len(columns) > 1 and width - _taken(columns) < _LEAST_CODE:
        hidden.insert(0, columns.pop().name)
    return columns, hidden


def _filled(block: doc.Code, lines: Sequence[doc.CodeLine], legible: Legible, *, whole: bool) -> list[_Column]:
    """Return the columns in which any line has a note."""
    columns = []
    for index, name in enumerate(block.columns):
        texts = []
        for line in lines:
            note = line.notes[index] if index < len(line.notes) else ""
            text = doc.text_of(note)
            if whole and isinstance(note, doc.Cell) and note.whole:
                text = note.whole
            texts.append(legible(text))
        if any(texts):
            columns.append(_Column(legible(name), tuple(texts), max(map(cells, [name, *texts]))))
    return columns


def _taken(columns: Sequence[_Column]) -> int:
    return sum(column.width + len(_GAP) for column in columns)


def _across(line: doc.CodeLine, indent: int, width: int, legible: Legible) -> Iterator[Line]:
    """Yield a heading in one line, or a remark below the numbers."""
    text = legible((line.text or "").expandtabs(_TAB))
    if not line.number:
        margin = " " * (indent + len(_GAP))
        room = max(width - len(margin), _LEAST_CODE)
        for piece in textwrap.wrap(text, room, subsequent_indent=_GAP, break_on_hyphens=False):
            yield [(margin + piece, line.tone)]
        return
    place = legible(line.number)
    most = width // 2 if text else width
    if cells(place) > most:
        place = legible(cut_middle(place, _characters(place, most - 2)))
    rest = _cut(text.strip(), width - cells(place) - len(_GAP), legible)
    yield [(place, line.tone or "cyan"), (f"{_GAP}{rest}" if rest else "", "dim")]


def _heat_style(line: doc.CodeLine) -> str:
    if line.heat >= _HOT:
        return "bold red"
    if line.heat >= _WARM:
        return "yellow"
    return "" if line.heat > 0 else "dim"


def _pieces(text: str, room: int, legible: Legible) -> list[str]:
    """Break a line of code between words; what is longer than a few lines ends in an ellipsis."""
    room = max(room, 10)
    if cells(text) <= room:
        return [text]
    pieces = textwrap.wrap(text, _characters(text, room), break_on_hyphens=False) or [""]
    if len(pieces) > _MOST_LINES:
        rest = " ".join(pieces[_MOST_LINES - 1 :])
        pieces = [*pieces[: _MOST_LINES - 1], _cut(rest, room, legible)]
    return pieces


def _cut(text: str, room: int, legible: Legible) -> str:
    if cells(text) <= room:
        return text
    ellipsis = legible("…")
    return text[: max(_characters(text, room) - len(ellipsis), 0)] + ellipsis


def _characters(text: str, room: int) -> int:
    """Return how many characters of a text fit for sure: some take two columns."""
    return room if cells(text) == len(text) else room // 2


def _right(text: str, width: int) -> str:
    return " " * (width - cells(text)) + text


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes; characters of some scripts take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
