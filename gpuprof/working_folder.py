"""Keep files in the working folder from being executed; someone else may have put them there.

This module imports only modules that Python has already loaded at start-up. Importing pathlib or `__future__` while the
working folder is on the path would execute a file of that name.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_left = False


def leave() -> None:
    """Remove the working folder from `sys.path`. The command line calls this before it imports anything else."""
    global _left  # noqa: PLW0603
    _left = True
    sys.path[:] = trusted_path()


def trusted_path() -> list[str]:
    """Return `sys.path` without the working folder and without relative entries of PYTHONPATH.

    Keep the folders of this Python and absolute entries of PYTHONPATH, even if one of them is the working folder.
    """
    import site

    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    named = {os.path.dirname(os.__file__), *site.getsitepackages(), *filter(os.path.isabs, entries)}
    try:
        left_out = {os.path.realpath(entry) for entry in ("", *entries) if not os.path.isabs(entry)}
    except OSError:  # the working folder is gone
        left_out = set()
    absolute = [entry for entry in sys.path if isinstance(entry, str) and os.path.isabs(entry)]
    return [entry for entry in absolute if entry in named or os.path.realpath(entry) not in left_out]


def python_command(module: str, *arguments: str) -> list[str]:
    """Return a command that calls `main(arguments)` of a gpuprof module in a new Python process.

    The process gets `trusted_path()`. It runs isolated (`-I`), so it reads neither PYTHONPATH nor `usercustomize`;
    Python 3.10 has no other way to keep the working folder off the path from the start.
    """
    import json

    return [sys.executable, "-I", __file__, json.dumps(trusted_path()), module, *arguments]


def programs_path(environ: "Mapping[str, str]") -> str:
    """Return PATH without empty and relative entries, which could run programs from the working folder."""
    return os.pathsep.join(filter(os.path.isabs, environ.get("PATH", "").split(os.pathsep)))


def program_on_path(name: str, environ: "Mapping[str, str]") -> str | None:
    """Return the path of a program on PATH, never one in the working folder; None if there is none."""
    import shutil

    return shutil.which(name, path=programs_path(environ))


def import_outside(package: str) -> None:
    """Import a package without the settings that it would read from the working folder.

    Do nothing in another program, such as a notebook, which keeps its own settings.
    """
    import importlib

    if not _left or package in sys.modules:
        return
    here = os.open(".", os.O_DIRECTORY | getattr(os, "O_PATH", 0))
    try:
        os.chdir(os.sep)
        importlib.import_module(package)
    finally:
        os.fchdir(here)
        os.close(here)


def _call(path: str, module: str, *arguments: str) -> None:
    """Run in the new process what `python_command` asks for, with the gpuprof that this file belongs to."""
    import importlib.util
    import json

    sys.path[:] = dict.fromkeys([*json.loads(path), *sys.path])
    face = os.path.join(os.path.dirname(__file__), "__init__.py")
    spec = importlib.util.spec_from_file_location("gpuprof", face)
    assert spec is not None and spec.loader is not None
    sys.modules["gpuprof"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["gpuprof"])
    importlib.import_module(module).main(arguments)


if __name__ == "__main__":
    _call(*sys.argv[1:])
