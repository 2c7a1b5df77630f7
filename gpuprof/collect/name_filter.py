"""Kernel names as the regular expressions by which ncu is told what to profile.

ncu takes an expression in `context:stream:name:invocation`, so no colon may be in it, and its dialect is not said:
what is no letter, digit or _ becomes any character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

_LONGEST = 100_000
"""Linux allows 128 KiB for one argument."""
_LONGEST_DEMANGLED = 400
_PIECE = re.compile(
    r"(?P<unnamed>[(<{]anonymous namespace[)>}]|<unnamed>)|(?P<bool>\b(?:true|false)\b)|(?P<number>(?<!\w)\d+)[uUlL]*"
    r"|(?P<stop> ?const\b|[({\[])|(?P<space> (?=[>*&]))|(?P<close>>)|(?P<sign>[*&])|(?P<argument><|, )|(?P<other>.)",
    re.DOTALL,
)
_TEXT_OF_PIECE = {
    "unnamed": ".(unnamed|anonymous namespace).",
    "space": "",
    "close": " ?>",
    "sign": " ?.",
}
_RETURNED = "(void )?"
"""ncu writes what the function returns in which a template's argument was defined."""
_LENGTH = re.compile(r"\d{1,4}")
_CAST = "([(][a-z ]+[)])?"


class NameFilter(NamedTuple):
    """What ncu compares names by, "mangled" or "demangled", and the expression that the whole name must match."""

    base: str
    expression: str


def by_symbol(mangled: Iterable[str]) -> NameFilter:
    """Return the filter for kernels whose symbols are known."""
    return NameFilter("mangled", f"^({'|'.join(_fitting(map(exactly, mangled)))})$")


def by_name(demangled: Iterable[str]) -> NameFilter:
    """Return the filter for kernels of which only the names for people are known, as PyTorch's traces have them.

    More than the kernels meant may come: where ncu may write a name otherwise, the expression takes anything.
    """
    return NameFilter("demangled", f"^({'|'.join(_fitting(map(as_ncu_may_write, demangled)))})$")


def _fitting(expressions: Iterable[str]) -> list[str]:
    """Have expressions together fit an argument of a command; where they do not, only their beginnings count."""
    every = sorted(set(expressions))
    if sum(map(len, every)) + len(every) <= _LONGEST:
        return every
    kept = max(1, _LONGEST // len(every) - 3)
    return sorted({f"{_cut(one, kept)}.*" if len(one) > kept else one for one in every})


def _cut(expression: str, length: int) -> str:
    """Cut an expression where no group or class is open."""
    end, depth = 0, 0
    for place, char in enumerate(expression[:length]):
        depth += (char in "([") - (char in ")]")
        if depth == 0 and char not in "?" and expression[place + 1 : place + 2] != "?":
            end = place + 1
    return expression[:end]


def exactly(name: str) -> str:
    """Write a symbol as an expression that every dialect reads alike."""
    return "".join(map(_character, name))


def _character(char: str) -> str:
    if char in "$.":
        return f"[{char}]"
    return char if char == "_" or (char.isascii() and char.isalnum()) else "."


def as_ncu_may_write(demangled: str) -> str:
    """Write a demangled name, as C++ libraries write it, as an expression that also matches what ncu makes of it."""
    if demangled.startswith("_Z"):
        # The demangler of the trace gave up on it; ncu's may not.
        return f".*{'..'.join(map(exactly, _scopes(demangled)))}.*"
    written = ""
    for piece in _PIECE.finditer(demangled):
        kind = piece.lastgroup or "other"
        if kind == "stop" or len(written) > _LONGEST_DEMANGLED:
            return written.rstrip(" ?") + ".*"
        written += _expression(kind, piece)
    return written


def _expression(kind: str, piece: re.Match[str]) -> str:
    if kind == "bool":
        return f"({piece[0]}|.bool.{int(piece[0] == 'true')})"
    if kind == "number":
        return f"{_CAST}{piece['number']}"
    if kind == "argument":
        return f"{piece[0].replace('<', '.').replace(',', '.')}{_RETURNED}"
    if kind == "other":
        return " " if piece[0] == " " else _character(piece[0])
    return _TEXT_OF_PIECE[kind]


def _scopes(mangled: str) -> list[str]:
    """Return the first identifiers of a mangled name: namespaces and function of `_ZN7cutlass6KernelI…`."""
    found = []
    place = len("_ZN") if mangled.startswith("_ZN") else len("_Z")
    while (length := _LENGTH.match(mangled, place)) is not None:
        place = length.end() + int(length[0])
        found.append(mangled[length.end() : place])
    return found or [mangled]
