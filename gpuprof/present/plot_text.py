"""The sizes of plots' texts, in points: how wide a text is, and texts cut or broken until they fit a width."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from functools import lru_cache

from gpuprof.present.text import cut_middle, printable
from gpuprof.working_folder import import_outside

TEXT, SMALL, TITLE = 9.0, 8.0, 12.0


@lru_cache(maxsize=4096)
def text_width(text: str, size: float) -> float:
    """Return the width of a text in the font that matplotlib ships, whatever the backend."""
    import_outside("matplotlib")

    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    with warnings.catch_warnings():
        ignore_missing_glyphs()
        properties = FontProperties(family="DejaVu Sans", size=size)
        width, _, _ = text_to_path.get_text_width_height_descent(text, properties, False)
    return float(width)


def ignore_missing_glyphs() -> None:
    """Silence matplotlib about kernel names with glyphs that its font lacks; the caller restores the filters."""
    warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")


def fitted(text: str, width: float, size: float) -> str:
    """Cut the middle out of a text that is too wide."""
    if len(text) <= 400 and text_width(text, size) <= width:
        return text
    low, high = 0, min(len(text), 400)
    while low < high:
        kept = (low + high + 1) // 2
        if text_width(_kept(text, kept), size) <= width:
            low = kept
        else:
            high = kept - 1
    return _kept(text, low)


def _kept(text: str, length: int) -> str:
    """Return so many characters of a text, and an ellipsis for the rest."""
    return text if length >= len(text) else cut_middle(text, length + 1)


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
