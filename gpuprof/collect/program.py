"""The program to profile: the words that run it, and the folder that is named for it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from gpuprof.errors import UsageError


def runnable(program: Sequence[str], *, check: bool = True) -> tuple[str, ...]:
    """Return the words that run a program; a script or `-m MODULE` runs under the Python that is first on PATH.

    Raises UsageError if there is no such program.
    """
    argv = tuple(program)
    if argv[0] == "-m" or (argv[0].endswith(".py") and not _runs_itself(argv[0])):
        argv = ("python3" if shutil.which("python3") else "python", *argv)
    place = shutil.which(argv[0])
    missing = argv[0] if place is None else _missing_script(argv)
    if missing is not None and check:
        raise UsageError(f"{missing or 'an empty word'} is no program that can be run", "look at the words after --")
    return (place or argv[0], *argv[1:])


def folder_name(program: Sequence[str]) -> str:
    """Return the folder for a program's results: "gpuprof-train" for `python train.py`."""
    scripts = [word for word in program if word.endswith(".py")]
    modules = [after for before, after in pairwise(program) if before == "-m"]
    name = Path(scripts[0]).stem if scripts else modules[0] if modules else Path(program[0]).name
    return "gpuprof-" + (re.sub(r"[^\w.-]+", "-", name).strip("-.") or "run")


def _runs_itself(script: str) -> bool:
    """Tell whether a script can be executed as it is: with a folder in its name, the right to, and a first line."""
    try:
        with Path(script).open("rb") as text:
            return os.sep in script and os.access(script, os.X_OK) and text.read(2) == b"#!"
    except OSError:
        return False


def _missing_script(argv: Sequence[str]) -> str | None:
    """Return the script that Python is told to run, if it is not there."""
    if not re.fullmatch(r"python[\d.]*", Path(argv[0]).name):
        return None
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    told = not any(word in ("-m", "-c") for word in argv[1 : argv.index(script) if script else None])
    return script if told and script.endswith(".py") and not Path(script).exists() else None
