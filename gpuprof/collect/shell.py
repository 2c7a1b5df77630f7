"""Arguments as a shell takes them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_WORD = re.compile(r"""(?:\\.|[^\s'"\\]|'[^']*'|"(?:\\.|[^"\\])*")+""")


def shell_line(arguments: Sequence[str]) -> str:
    """Quote arguments for a POSIX shell; line breaks within one stay on the line as `$'…'`."""
    return " ".join(_quoted(argument) for argument in arguments)


def _quoted(argument: str) -> str:
    if argument.isprintable():
        return shlex.quote(argument)
    escaped = "".join(
        char
        if char.isprintable() and char not in "'\\"
        else "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
        for char in argument
    )
    return f"$'{escaped}'"


def shell_lines(command: str, width: int) -> list[str]:
    """Break a command line with `\\` between words, but not between an option and its value."""
    room = width - len(" \\")
    lines: list[str] = []
    for word in _words(command):
        if lines and len(lines[-1]) + 1 + len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return [f"{line} \\" for line in lines[:-1]] + lines[-1:]


def _words(command: str) -> list[str]:
    """Split a command line where a shell would; if its quotes do not match, it stays whole."""
    if _WORD.sub("", command).strip():
        return [command]
    words: list[str] = []
    for word in _WORD.findall(command):
        if words and words[-1].startswith("-") and " " not in words[-1] and not word.startswith("-"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    return words
