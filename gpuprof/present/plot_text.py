"""The sizes of plots' texts, in points: how wide a text is, and texts cut or broken until they fit a width."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from unicodedata import combining, east_asian_width

from gpuprof.text import cut_middle, printable

TEXT, SMALL, TITLE = 9.0, 8.0, 12.0
_MOST_LETTERS = 400
_EM, _OTHER = 2048, 1400
_ADVANCES = {
    563: "'", 569: "ijl", 604: "IJ", 651: " ,.·", 690: "/:;\\|", 721: "f", 739: "-", 799: "()[]", 803: "t",
    821: "!²³", 842: "r", 942: '"', 1024: "*_`–°", 1067: "s", 1075: "z", 1087: "?", 1126: "c", 1141: "L", 1178: "F",
    1186: "k", 1212: "vxy", 1235: "P", 1251: "TY", 1255: "a", 1253: "o", 1260: "e", 1294: "E", 1298: "hnu",
    1300: "Sbdgpq", 1303: "$0123456789{}µ", 1343: "K", 1401: "AV", 1403: "XZ", 1405: "B", 1423: "R", 1430: "C",
    1499: "U", 1532: "N", 1540: "H", 1577: "D", 1587: "G", 1597: "&", 1612: "OQ", 1675: "w",
    1716: "#+<=>^~×→←≤≥≈±−", 1767: "M", 1946: "%", 1995: "m", 2025: "W", 2048: "@…—",
}  # fmt: skip
"""How far letters of DejaVu Sans, the font of matplotlib, advance: https://dejavu-fonts.github.io, DejaVuSans.ttf."""
_ADVANCE_OF = {letter: advance for advance, letters in _ADVANCES.items() for letter in letters}


@lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """Return the width of a text in DejaVu Sans; kerning, which makes it narrower, is left out."""
    return size / _EM * sum(map(_advance, text))


def _advance(letter: str) -> int:
    known = _ADVANCE_OF.get(letter)
    if known is not None:
        return known
    if combining(letter):
        return 0
    return _EM if east_asian_width(letter) in "WF" else _OTHER


def fitted(text: str, width: float, size: float) -> str:
    """Cut the middle out of a text that is too wide, or has very many letters."""
    if len(text) <= _MOST_LETTERS and text_width(text, size) <= width:
        return text
    lengths = range(1, min(len(text), _MOST_LETTERS) + 1)
    fitting = bisect_right(lengths, width, key=lambda length: text_width(cut_middle(text, length), size))
    return cut_middle(text, fitting)


def wrapped(notes: Iterable[str], width: float) -> list[str]:
    """Break notes into small lines; what a single note needs beyond three lines is cut."""
    lines: list[str] = []
    for note in notes:
        mine = [""]
        for word in printable(note).split(" "):
            longer = f"{mine[-1]} {word}".strip()
            if mine[-1] and text_width(longer, SMALL) > width:
                mine.append(word)
            else:
                mine[-1] = longer
        lines += [fitted(line, width, SMALL) for line in mine[:3]]
    return lines
