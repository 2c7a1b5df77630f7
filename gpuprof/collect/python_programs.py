"""Whether a program is run by Python, by which, and whether that one has PyTorch."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_LINE_BYTES = 512
_PATIENCE_S = 20.0
_FIND = "import importlib.util as u, sys; sys.exit(u.find_spec('torch') is None)"


def python_of(program: Sequence[str], path: str | None = None) -> str | None:
    """Return the Python that runs a program: its first word, or what the first line of that script names.

    None if it is none, or a script of the shell, whatever that runs. `path` is searched instead of PATH.
    """
    if _PYTHON.fullmatch(Path(program[0]).name):
        return program[0]
    place = shutil.which(program[0], path=path)
    words = _first_line(Path(place)) if place is not None else []
    named = next((word for word in words if _PYTHON.fullmatch(Path(word).name)), None)
    return shutil.which(named, path=path) if named is not None else None


def has_torch(python: str, environ: Mapping[str, str]) -> bool:
    """Tell whether a Python finds PyTorch, without loading it."""
    try:
        done = subprocess.run(
            [python, "-c", _FIND], env=dict(environ), capture_output=True, timeout=_PATIENCE_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _first_line(script: Path) -> list[str]:
    """Return the words of the line by which a script says what runs it; empty for anything else."""
    try:
        with script.open("rb") as file:
            head = file.read(_LINE_BYTES)
    except OSError:
        return []
    return head[2:].split(b"\n")[0].decode(errors="replace").split() if head.startswith(b"#!") else []
