"""Text from files made safe to print: control, bidirectional and other invisible characters become visible."""

from __future__ import annotations

import codecs
import io
import unicodedata
from typing import TextIO

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str) -> str:
    r"""Replace characters that could steer a terminal or hide: ESC becomes `\x1b`, a right-to-left mark `\u200f`."""
    if text.isprintable():
        return text
    return "".join(char if unicodedata.category(char) not in _HIDDEN else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_CLOSING = " _>)],;:…"
"""What no end of a name begins with."""
_LOOSE = " _…"
"""What no beginning of a name ends with."""


def cut_middle(text: str, width: int) -> str:
    """Fit a name into `width` characters: its middle goes, between words; about a third of what stays is its end.

    Letters and digits that belong together are broken only where a word fills most of its side. What the head leaves
    free, the tail may take.
    """
    if len(text) <= width:
        return text
    room = max(width - 1, 0)
    tail = room // 3
    most = room - tail
    end = next((index for index in range(most, most // 3, -1) if not _within_word(text, index)), most)
    least = len(text) - tail - (most - end)
    start = next((index for index in range(least, len(text) - 1) if not _within_word(text, index)), len(text) - tail)
    return f"{text[:end].rstrip(_LOOSE)}…{text[start:].lstrip(_CLOSING)}"


def _within_word(text: str, index: int) -> bool:
    """Tell whether a cut before this character would break a word."""
    return 0 < index < len(text) and text[index - 1].isalnum() and text[index].isalnum()


def cut_end(text: str, width: int) -> str:
    """Fit a sentence into `width` characters: its last clauses go, else its last words."""
    if len(text) <= width:
        return text
    clause = text[:width].rfind("; ")
    if clause > width // 2:
        return f"{text[:clause]}…"
    words_end = text[:width].rfind(" ")
    kept = text[: words_end if words_end > width // 2 else max(width - 1, 0)]
    return f"{kept.rstrip(' ,;:')}…"


_ASCII = {
    "±": "+-", "°": " ", "²": "2",
    "×": "x", "µ": "u", "…": "...", "≤": "<=", "≥": ">=", "–": "-", "—": "-", "−": "-", "·": ".", "↔": "<->", "→": "->",
    "÷": "/", "Σ": "sum", "\u202f": " ", "\u2009": " ", "\u00a0": " ", "█": "#", "▏": "|", "─": "-", "━": "-", "│": "|",
    "▲": "^", "├": "|", "└": "`",
}  # fmt: skip


def legible(text: str, encoding: str) -> str:
    """Return a text without control characters, in the characters of an encoding: "≤" is "<=" in ASCII."""
    shown = printable(text)
    if "utf" in encoding.lower():
        return shown
    try:
        return shown.encode(encoding, "gpuprof-ascii").decode(encoding)
    except LookupError:
        # The handler is registered for streams without Unicode, see `tolerate`.
        return shown.encode("ascii", "replace").decode()


def tolerate(stream: TextIO) -> None:
    """Let a stream whose encoding lacks our characters print ASCII for them, and a question mark for the rest."""
    if isinstance(stream, io.TextIOWrapper) and "utf" not in (stream.encoding or "").lower():
        codecs.register_error("gpuprof-ascii", _ascii_for)
        stream.reconfigure(errors="gpuprof-ascii")


def _ascii_for(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_ASCII.get(char, "?") for char in error.object[error.start : error.end]), error.end
