"""Parts of the terminal view of measured values: wrapped text, labelled fields, aligned rows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.text import legible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

LABEL_WIDTH = 15
TEXT_WIDTH = 120

_GLUE = "\u00a0"
_NUMBER_AND_UNIT = re.compile(r"((?<![\w.])(?<![0-9.,],)[0-9][0-9.,]*(?<=[0-9])|[≤≥=~]) (?=\S)")
_SECOND_CELL = "\x00"
"""Stands behind a character that is two columns wide while a text is wrapped; no legible text has it."""


def padded(cells: Sequence[str], *, left: bool) -> list[str]:
    """Return the cells of a column, as wide as the widest: they begin below each other if `left`, else they end so."""
    width = max(map(len, cells))
    return [cell.ljust(width) if left else cell.rjust(width) for cell in cells]


def aligned(rows: Sequence[Sequence[str]], right: Collection[int] = (), gap: str = "  ") -> Iterator[str]:
    """Yield rows as plain lines, their columns below each other; those in `right` end there, the others begin there."""
    columns = [padded(column, left=index not in right) for index, column in enumerate(zip(*rows, strict=True))]
    yield from (gap.join(row).rstrip() for row in zip(*columns, strict=True))


class Sheet(NamedTuple):
    """What is written on: `columns` of characters, texts no wider than `width`, and the characters of an encoding."""

    columns: int
    encoding: str = "utf-8"

    @classmethod
    def of(cls, console: Console) -> Sheet:
        """Return the sheet of a console."""
        return cls(console.width, console.encoding or "ascii")

    @property
    def width(self) -> int:
        """Return how wide a text may be: lines that are too long are hard to read."""
        return min(self.columns, TEXT_WIDTH)

    @property
    def blocks(self) -> bool:
        """Tell whether there are block characters and lines."""
        return "utf" in self.encoding.lower()

    def legible(self, text: str) -> str:
        """Return a text from anywhere as it will stand there: "≤" is two characters where there is only ASCII."""
        return legible(text, self.encoding)

    def wrapped(self, text: str, indent: int = 0) -> list[str]:
        """Break a text from anywhere into lines; a number stays with its unit."""
        glued = _NUMBER_AND_UNIT.sub(rf"\1{_GLUE}", self.legible(text).replace(_GLUE, " "))
        shown = self._widened(glued)
        # Broken inside a word, a line may end in the first half of a wide character: one column is left for it.
        width = max(self.width - indent - (shown != glued), 10)
        lines = textwrap.wrap(shown, width, break_on_hyphens=False)
        return [line.replace(_GLUE, " ").replace(_SECOND_CELL, "") for line in lines]

    def _widened(self, text: str) -> str:
        """Return a text with as many characters as it takes columns."""
        if text.isascii() or self.cells(text) == len(text):
            return text
        return "".join(char + _SECOND_CELL * (self.cells(char) - 1) for char in text)

    def paragraph(self, text: str, style: str = "", indent: int = 0) -> Text:
        """Return a text as wide as the sheet."""
        margin = " " * indent
        return _text("\n".join(f"{margin}{line}" for line in self.wrapped(text, indent)), style)

    def field(self, label: str, text: str | Iterable[str], style: str = "", label_style: str = "cyan") -> Text:
        """Return a label and, beside it, a text that wraps under itself; several texts begin a line each."""
        texts = (text,) if isinstance(text, str) else text
        lines = [line for item in texts for line in self.wrapped(item, LABEL_WIDTH)]
        return self.labelled(label, lines, style, label_style)

    def labelled(self, label: str, lines: Iterable[str], style: str = "", label_style: str = "cyan") -> Text:
        """Return a label and, beside it, lines that are legible and cut already."""
        whole = _text("", "")
        whole.append(f"   {label}".ljust(LABEL_WIDTH), label_style)
        whole.append(f"\n{' ' * LABEL_WIDTH}".join(lines), style)
        whole.rstrip()
        return whole

    def hanging(self, label: str, text: str) -> Text:
        """Return a dim text that wraps beside its label."""
        return _text(label + f"\n{' ' * len(label)}".join(self.wrapped(text, len(label))), "dim")

    def cells(self, text: str) -> int:
        """Return how many columns a text takes: characters of some scripts take two."""
        if text.isascii():
            return len(text)
        from rich.cells import cell_len

        return cell_len(text)


def _text(content: str, style: str) -> Text:
    from rich.text import Text

    return Text(content, style=style, overflow="fold")
