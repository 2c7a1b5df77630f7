"""Keeps what lies in the working folder from being run: somebody else may have filled it.

It imports only what every Python has loaded when it starts, neither pathlib nor `__future__`: while the working folder
is on the path, a file of that name in it would be run.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_left = False


def leave() -> None:
    """Take the working folder off the path of this process, whose program is gpuprof, before it imports anything."""
    global _left  # noqa: PLW0603
    _left = True
    sys.path[:] = trusted_path()


def trusted_path() -> list[str]:
    """Return `sys.path` without the working folder, and without what relative entries of PYTHONPATH name.

    Folders of this Python stay, and absolute entries of PYTHONPATH, even where one is the working folder.
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
    """Return the command that calls `main(arguments)` of a module of gpuprof in a Python of its own.

    That Python has our path without the working folder. Isolated (`-I`), it reads neither PYTHONPATH nor the user's
    `usercustomize`; Python 3.10 has no other way to leave the working folder out from the start.
    """
    import json

    return [sys.executable, "-I", __file__, json.dumps(trusted_path()), module, *arguments]


def programs_path(environ: "Mapping[str, str]") -> str:
    """Return PATH without its empty and relative entries, by which programs of the working folder would be run."""
    return os.pathsep.join(filter(os.path.isabs, environ.get("PATH", "").split(os.pathsep)))


def program_on_path(name: str, environ: "Mapping[str, str]") -> str | None:
    """Return the program that PATH has under a name, never one of the working folder; None if there is none."""
    import shutil

    return shutil.which(name, path=programs_path(environ))


def import_outside(package: str) -> None:
    """Import a package that reads settings of the working folder when it is imported, without those.

    Another program than gpuprof, such as a notebook, keeps its own settings.
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
    """Do in the other Python what `python_command` asks for; its gpuprof is that which this file is of."""
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
