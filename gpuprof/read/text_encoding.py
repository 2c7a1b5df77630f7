"""The encoding of text: UTF-8, or the UTF-16 that Windows PowerShell writes to a file, with a mark at its start or not.

PowerShell appends UTF-16 to any file, and other shells append UTF-8 to its files: one may have both.
"""

from __future__ import annotations

import re

UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
"""How UTF-16 starts if it says so."""
_WIDE = re.compile(rb"(?:[^\0]\0){4}|(?:\0[^\0]){4}")
"""Four characters of UTF-16 in a row."""
_CONTROL = re.compile(r"[\x00-\x06\x0e-\x1a\x1c-\x1f]")
"""Characters that no log has."""


def is_utf16(head: bytes) -> bool:
    """Return whether bytes are text with UTF-16 in it, and no binary data."""
    if head.startswith(UTF16_MARKS):
        return True
    return _WIDE.search(head) is not None and b"\0\0" not in head and _CONTROL.search(decoded(head)) is None


def decoded(data: bytes) -> str:
    """Return the text of bytes in UTF-8, UTF-16 or both."""
    if b"\0" not in data and not data.startswith(UTF16_MARKS):
        return data.decode("utf-8-sig", "replace")
    is_little_endian = data[1::2].count(0) >= data[::2].count(0)
    text = data.decode("utf-16-le" if is_little_endian else "utf-16-be", "replace")
    if text.count("\n") == data.count(b"\n"):
        return text.removeprefix("\ufeff")
    for mark in (b"\0", *UTF16_MARKS):
        data = data.replace(mark, b"")
    return data.decode("utf-8-sig", "replace")
