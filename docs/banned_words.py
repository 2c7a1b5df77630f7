"""The vocabulary of what gpuprof says: what is not to be said, what instead, and where it may be said all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator

_STALLS = r"\b(?:(?:long|short) scoreboard|(?:lg|mio|tex|math pipe) throttle|not selected|imc miss)\b"
INSTEAD = {
    r"\broofs?\b": "ceiling; the chart, and what is attainable at an intensity, is the roofline",
    r"\brepair(?:s|ed|ing)?\b": "fix",
    r"\blaunch shapes?\b": "launch configuration",
    r"\bwarp places?\b": "warp slots",
    r"\bissue places?\b": "issue slots",
    r"\bon the (?:memory|compute) side\b": "memory-bound, compute-bound",
    r"\b(?:additions|multiplications) that stand alone\b": "unfused FADD/FMUL (DADD/DMUL, HADD/HMUL)",
    r"\bworth its while\b": "say what it gains",
    rf"(?<=\S ){_STALLS}|{_STALLS}(?=[ ,.;:])": "the name that ncu has for it, such as Long Scoreboard",
    r"\b[Pp]lease\b|\b[Ss]orry\b": "leave it out",
    r"\b[Cc]onsider\b": "say what to do",
    r"\w!(?:\s|$)": "a full stop, or none",
    r"\bError:": "nothing: the command line writes `error:`",
    r"(?<![Tt]here )\bis no (?!longer|more|less|such)\w+": "is not a",
    r"\b(?:is|are) none of (?:its|the)\b": "is not one of",
    r"\bthat can be run\b": "the reason why not: no such file, not executable",
    r"\b[Ll]ook at (?:the|how|--)": "check",
    r"\b(?:was|were|is|are|not) looked at\b": "checked",
    r"\bis there already\b": "already exists",
    r"\bexcludes? each other\b": "cannot be combined with",
    r"\bsays? more\b": "shows details",
    r"\bby hand\b": "yourself, or the command to type",
    r"\bat all\b": "leave it out",
    r"^type: ": "what it does: install it: python -m pip install …",
}
"""What is not to be said, as a pattern, and what to say. What a value is put into is written as {…}."""

ALLOWED = {
    "webbrowser.Error:": "a program in Python",
    "chart draw graph plot roof rooflines": "what people type for the command roofline",
    "--sort roof": "scripts have the option's value, which keeps its name",
}
"""Pieces of text that may have such words, and why."""


def banned(text: str) -> Iterator[str]:
    """Yield for each word of a text that is not to be said what to say instead."""
    for piece in ALLOWED:
        text = text.replace(piece, "")
    for pattern, instead in INSTEAD.items():
        match = re.search(pattern, text)
        if match is not None:
            yield f"{match[0].strip()!r}: {instead}"
