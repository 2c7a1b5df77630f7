"""Arguments as a shell takes them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


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
