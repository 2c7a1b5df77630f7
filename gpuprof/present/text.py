"""Text from files made safe to print: control, bidirectional and other invisible characters become visible."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def printable(text: str) -> str:
    r"""Replace characters that could steer a terminal or hide: ESC becomes `\x1b`, a right-to-left mark `\u200f`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if unicodedata.category(char) not in _HIDDEN else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
