"""Whether a program is run by Python, by which, and which packages that one has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_LINE_BYTES = 512
_PATIENCE_S = 20.0
_FIND = Path(__file__).with_name("found_packages.py")


def python_of(program: Sequence[str], path: str | None = None) -> str | None:
    """Return the Python that runs a program: its first word, or what the first line of that script names.

    None if it is none, or a script of the shell, whatever that runs. `path` is searched instead of PATH.
    """
    if _PYTHON.fullmatch(Path(program[0]).name):
        return program[0]
    place = shutil.which(program[0], path=path)
    interpreter = _first_line(Path(place)) if place is not None else []
    named = next((argument for argument in interpreter if _PYTHON.fullmatch(Path(argument).name)), None)
    return shutil.which(named, path=path) if named is not None else None


def packages_of(python: str, names: Sequence[str], environ: Mapping[str, str]) -> frozenset[str]:
    """Return which of these packages a Python finds, without importing them; none if it does not answer.

    The working folder is not searched.
    """
    folders = filter(os.path.isabs, environ.get("PYTHONPATH", "").split(os.pathsep))
    variables = {**environ, "PYTHONPATH": os.pathsep.join(folders)}
    try:
        completed = subprocess.run(
            [python, str(_FIND), *names], env=variables, capture_output=True, timeout=_PATIENCE_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(completed.stdout.decode(errors="replace").split()) if completed.returncode == 0 else frozenset()


def _first_line(script: Path) -> list[str]:
    """Return the words of the line by which a script says what runs it; empty for anything else."""
    try:
        with script.open("rb") as file:
            head = file.read(_LINE_BYTES)
    except OSError:
        return []
    return head[2:].split(b"\n")[0].decode(errors="replace").split() if head.startswith(b"#!") else []
