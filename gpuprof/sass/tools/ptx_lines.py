"""Adds line information to PTX that was written by hand: without `.loc`, ptxas records none."""

from __future__ import annotations

import re

NAME = "source.ptx"
"""The name of the file in the line table."""

_HAS_PLACES = re.compile(rb"^[^\S\n]*\.(?:loc|file)\b", re.MULTILINE)
_INSTRUCTION = re.compile(
    rb"\s*(?:[$%\w]+:(?!:)\s*)*(?P<start>(?:@!?[$%\w]+\s+)?[a-z][a-z0-9_]*(?:(?:\.|::)\w+)*)(?=[\s;(])"
)
_ENDS = (b";", b"{", b"}", b":")


def with_own_lines(ptx: bytes) -> bytes:
    """Return PTX in which each instruction of a function names its line; unchanged if it names lines already.

    No line moves, so that errors name the right ones. Text with comments of several lines is left unchanged.
    """
    if _HAS_PLACES.search(ptx) or b"/*" in ptx:
        return ptx
    lines = ptx.split(b"\n")
    depth = 0
    ended = True
    for index, line in enumerate(lines):
        code = line.partition(b"//")[0].rstrip()
        if not code:
            continue
        match = _INSTRUCTION.match(code) if depth > 0 and ended else None
        if match is not None:
            at = match.start("start")
            lines[index] = line[:at] + b".loc 1 %d 0 " % (index + 1) + line[at:]
        depth += code.count(b"{") - code.count(b"}")
        ended = code.endswith(_ENDS)
    return b"\n".join([*lines, b'.file 1 "%s"' % NAME.encode(), b""])
