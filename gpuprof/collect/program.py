"""The program to profile: the words that run it, and the folder that is named for it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import NoReturn

from gpuprof.errors import UsageError

EXAMPLE = "gpuprof run -- ./app"
_PROFILERS = ("ncu", "nsys", "nvprof", "ncu-ui", "nsys-ui")
_SOURCES = (".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hpp")
_MOST_NAMES = 2000
"""So many names of a folder are compared with a missing one."""
_LIKENESS = 0.75
"""From here on a name is taken for one that was mistyped."""


def runnable(program: Sequence[str]) -> tuple[str, ...]:
    """Return the words that run a program; a script or `-m MODULE` runs under the Python that is first on PATH.

    Raises UsageError if there is no such program, with what is wrong with the one that was named.
    """
    argv = tuple(program)
    if Path(argv[0]).name in _PROFILERS and not Path(argv[0]).is_dir():
        raise UsageError(f"{argv[0]} is a profiler; gpuprof starts ncu itself", f"name the program alone: {EXAMPLE}")
    if argv[0] == "-m" or (argv[0].endswith(".py") and not _runs_itself(argv[0])):
        argv = ("python3" if shutil.which("python3") else "python", *argv)
    place = shutil.which(argv[0])
    if place is None:
        refuse_program(argv[0])
    elif _is_empty(place):
        raise UsageError(f"{argv[0]} is empty", "build it again")
    script = _script(argv)
    if script is not None:
        _refuse_script(script)
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


def _script(argv: Sequence[str]) -> str | None:
    """Return the script that Python is told to run."""
    if not re.fullmatch(r"python[\d.]*", Path(argv[0]).name):
        return None
    script = next((word for word in argv[1:] if not word.startswith("-")), "")
    told = not any(word in ("-m", "-c") for word in argv[1 : argv.index(script) if script else None])
    return script if told and script.endswith(".py") else None


def _refuse_script(script: str) -> None:
    """Raise UsageError for a script that Python cannot run, or that does nothing."""
    path = Path(script)
    if not _is_there(path):
        raise UsageError(f"{script}: no such file", _near(script))
    if path.is_dir():
        raise UsageError(f"{script} is a folder", "name the script in it")
    if _is_empty(script):
        raise UsageError(f"{script} is empty", "save it first")
    try:
        path.open("rb").close()
    except OSError as error:
        raise UsageError(f"{script} cannot be read: {(error.strerror or str(error)).lower()}") from error


def refuse_program(name: str) -> NoReturn:
    """Raise UsageError for a program that cannot be run, with the reason."""
    path = Path(name)
    if not name:
        raise UsageError("the program is an empty word", f"name it: {EXAMPLE}")
    if os.sep not in name:
        raise _not_on_path(name)
    if not _is_there(path):
        raise UsageError(f"{name}: no such file", _near(name))
    if path.is_dir():
        raise UsageError(f"{name} is a folder", f"name the program in it: {EXAMPLE}")
    if path.is_symlink() and not path.exists():
        raise UsageError(f"{name} links to a file that does not exist", "build it again")
    if not path.is_file():
        raise UsageError(f"{name} is not a program", f"name one: {EXAMPLE}")
    if _is_empty(name):
        raise UsageError(f"{name} is empty", "build it again")
    if is_source(name):
        raise _is_source_code(name)
    if may_be_run(name):
        raise UsageError(f"{name} is not executable", f"chmod +x {shlex.quote(name)}")
    raise UsageError(f"{name} is not a program", f"name one: {EXAMPLE}")


def may_be_run(name: str) -> bool:
    """Tell whether a file is a program by its content: ELF, or a script that names what runs it."""
    try:
        with Path(name).open("rb") as file:
            return file.read(4).startswith((b"\x7fELF", b"#!"))
    except OSError:
        return False


def is_source(name: str) -> bool:
    """Tell whether a name is that of code to compile."""
    return name.lower().endswith(_SOURCES)


def _is_source_code(name: str) -> UsageError:
    built = shlex.quote(str(Path(name).with_suffix("")))
    return UsageError(f"{name} is source code", f"compile it first: nvcc -lineinfo -o {built} {shlex.quote(name)}")


def _not_on_path(name: str) -> UsageError:
    """Return what to say of a name without a folder: programs are looked for on PATH, not in the current folder."""
    path = Path(name)
    if is_source(name) and _is_there(path):
        return _is_source_code(name)
    if path.is_dir():
        return UsageError(f"{name} is a folder", f"name the program in it: {EXAMPLE}")
    if path.is_file():
        here = shlex.quote(f"./{name}")
        if os.access(path, os.X_OK) or may_be_run(name):
            return UsageError(f"{name}: not found on PATH", f"there is one in this folder: gpuprof run -- {here}")
        return UsageError(f"{name} is not a program", f"name one: {EXAMPLE}")
    if re.fullmatch(r"python[\d.]*", name) and shutil.which("python3"):
        return UsageError(f"{name}: not found on PATH", "python3 is there")
    hint = _near(f"./{name}") or f"name a program outside of PATH with its folder: {EXAMPLE}"
    return UsageError(f"{name}: not found on PATH", hint)


def _is_there(path: Path) -> bool:
    """Tell whether a file or folder is there. Raises UsageError where that may not be known."""
    try:
        path.lstat()
    except PermissionError as error:
        raise UsageError(
            f"{path}: permission denied", f"ls -ld {shlex.quote(str(path.parent))} says for whom"
        ) from error
    except (OSError, ValueError):
        return False
    return True


def _is_empty(name: str) -> bool:
    path = Path(name)
    return path.is_file() and path.stat().st_size == 0


def _near(name: str) -> str | None:
    """Return what lies beside a missing file under a name much like it."""
    path = Path(name)
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    try:
        names = sorted(entry.name for entry in path.parent.iterdir())
    except OSError:
        return None
    near = get_close_matches(path.name, names[:_MOST_NAMES], n=1, cutoff=_LIKENESS)
    return f"did you mean {name.removesuffix(path.name)}{near[0]}?" if near else None
