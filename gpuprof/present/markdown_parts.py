"""A page of Markdown that ends before it is too long: what does not fit is counted, and nothing is cut in two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuprof.text import cut_end, cut_middle, printable
from gpuprof.views.markdown import escape
from gpuprof.words.profile_values import count_text

MOST_CHARACTERS = 60_000
"""Below GitHub's limit by what CI may put around it."""
_NAME_WIDTH = 100
_GROWTH = 2
_ENDING = 200
"""Room for the line that says what is left out, and for the end of a folded section."""


def cell(text: str, width: int = 0) -> str:
    """Return a text as harmless Markdown on one line: a sentence of at most `width` characters, else a name.

    What is harmless can be eight times as long, as an `@` is: such a text is cut further, so that it stays bounded.
    """
    shown = printable(text)
    cut = cut_end if width else cut_middle
    most = width or _NAME_WIDTH
    made = escape(cut(shown, most))
    while len(made) > _GROWTH * (width or _NAME_WIDTH):
        most //= 2
        made = escape(cut(shown, most))
    return made


class Page:
    """Lines of Markdown, of at most `room` characters where only bounded texts are added without asking."""

    def __init__(self, room: int) -> None:
        """Begin an empty page."""
        self.lines: list[str] = []
        self.length = 0
        self._room = room

    def add(self, *lines: str) -> None:
        """Add lines that have to be there."""
        self.lines += lines
        self.length += _length(lines)

    def table(self, head: Sequence[str], rows: Iterable[str], noun: str) -> None:
        """Add a table with as many rows as fit."""
        self.add(*head)
        self._fill(([row] for row in rows), noun)

    def folded(self, summary: str, blocks: Sequence[Sequence[str]], noun: str) -> None:
        """Add a section that opens by a click, with as many blocks as fit; none where there are none."""
        if not blocks:
            return
        self.add(f"<details><summary>{summary}</summary>", "")
        self._fill(blocks, noun)
        self.add("", "</details>", "")

    def folded_table(self, summary: str, head: Sequence[str], rows: Iterable[str]) -> None:
        """Add a table that opens by a click, with as many rows as fit."""
        self.add(f"<details><summary>{summary}</summary>", "")
        self.table(head, rows, "more kernel")
        self.add("", "</details>", "")

    def _fill(self, blocks: Iterable[Sequence[str]], noun: str) -> None:
        left_out = 0
        for block in blocks:
            if left_out or self.length + _length(block) + _ENDING > self._room:
                left_out += 1
            else:
                self.add(*block)
        if left_out:
            self.add("", f"{count_text(left_out, noun)} left out: a comment holds 65,536 characters.")


def _length(lines: Iterable[str]) -> int:
    return sum(len(line) + 1 for line in lines)
