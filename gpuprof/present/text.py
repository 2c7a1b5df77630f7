"""Text from files made safe to print: control, bidirectional and other invisible characters become visible."""

from __future__ import annotations

import codecs
import io
import unicodedata
from typing import TextIO

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str) -> str:
    r"""Replace characters that could steer a terminal or hide: ESC becomes `\x1b`, a right-to-left mark `\u200f`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if unicodedata.category(char) not in _HIDDEN else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shortened_middle(text: str, length: int, tail: int) -> str:
    """Cut the middle out of a text that is longer than `length`, and keep `tail` characters of its end."""
    return text if len(text) <= length else f"{text[: length - tail - 1]}…{text[-tail:]}"


_ASCII = {
    "±": "+-", "°": " ", "²": "2",
    "×": "x", "µ": "u", "…": "...", "≤": "<=", "≥": ">=", "–": "-", "—": "-", "·": ".", "↔": "<->", "→": "->",
    "÷": "/", "Σ": "sum", "\u202f": " ", "\u2009": " ", "\u00a0": " ", "█": "#", "▏": "|", "─": "-", "━": "-", "│": "|",
}  # fmt: skip


def tolerate(stream: TextIO) -> None:
    """Let a stream whose encoding lacks our characters print ASCII for them, and a question mark for the rest."""
    if isinstance(stream, io.TextIOWrapper) and "utf" not in (stream.encoding or "").lower():
        codecs.register_error("gpuprof-ascii", _ascii_for)
        stream.reconfigure(errors="gpuprof-ascii")


def _ascii_for(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_ASCII.get(char, "?") for char in error.object[error.start : error.end]), error.end
