"""What the recorded command line of ncu says of how a report was made."""

from __future__ import annotations

import shlex


def clock_control(command: str | None, locked: bool | None) -> str | None:
    """Return the mode named on the command line, else whether ncu held the clocks."""
    named = _option(command, "--clock-control")
    if named is not None or locked is None:
        return named
    return "locked" if locked else "none"


def cache_control(command: str | None) -> str | None:
    """Return the mode named on the command line; a command that names none ran with ncu's documented default."""
    return None if command is None else _option(command, "--cache-control") or "all (default)"


def _option(command: str | None, name: str) -> str | None:
    """Return the value that the recorded ncu command line gives an option, or None."""
    try:
        arguments = shlex.split(command or "")
    except ValueError:
        arguments = (command or "").split()
    for index, word in enumerate(arguments):
        if word == name:
            return arguments[index + 1] if index + 1 < len(arguments) else None
        if word.startswith(name + "="):
            return word.partition("=")[2]
    return None
