"""What a Python program imports, read from its source without running it, and what Python was told to leave out."""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from gpuprof.collect.python_programs import python_of

_MOST_FILES, _MOST_BYTES = 300, 2_000_000
_OTHER_FRAMEWORKS = frozenset((
    "cupy", "cupyx", "jax", "jaxlib", "numba", "pycuda", "cudf", "cuml", "tensorflow", "cuda", "warp", "taichi",
    "cunumeric", "legate", "tinygrad",
))  # fmt: skip
_WITHOUT_TORCH = _OTHER_FRAMEWORKS | frozenset((
    "numpy", "scipy", "matplotlib", "pandas", "flax", "optax", "chex", "haiku", "orbax", "equinox", "nvtx", "gpuprof",
    "click", "tqdm", "yaml", "rich", "PIL", "h5py", "mpi4py", "pynvml", "psutil", "pytest",
))  # fmt: skip
_TAKE_A_VALUE = ("-W", "-X")
_ISOLATING = "EIS"
_FLAGS = frozenset("bBdEhiIOPqRsStuvVx")


def imported(program: Sequence[str]) -> frozenset[str] | None:
    """Return the packages that a program imports, and the modules beside it that it imports do; None if unknown."""
    return _imported(tuple(program), Path.cwd())


@lru_cache(maxsize=64)
def _imported(program: tuple[str, ...], _: Path) -> frozenset[str] | None:
    source = _source(program)
    if source is None:
        return None
    waiting, folder = source
    names: set[str] = set()
    seen: set[Path] = set()
    left = _MOST_BYTES
    while waiting:
        text = waiting.pop()
        left -= len(text)
        imports = _imports(text) if left >= 0 else None
        if imports is None:
            return None
        for name in imports:
            local = _local(name, folder)
            if local is None:
                names.add(name)
            elif local not in seen:
                seen.add(local)
                more = _texts(local)
                if more is None:
                    return None
                waiting += more
    return frozenset(names)


def is_without_torch(names: frozenset[str] | None) -> bool:
    """Tell whether a program that imports these uses another framework, and surely not PyTorch."""
    known = _WITHOUT_TORCH | sys.stdlib_module_names
    return names is not None and bool(names & _OTHER_FRAMEWORKS) and names <= known


def isolated_by(program: Sequence[str]) -> str | None:
    """Return the option -E, -I or -S by which Python is kept from loading anything of ours; None without one."""
    if python_of(program) is None:
        return None
    for word in (*_options(program), *program[_begins(program) :][:1]):
        letters = "" if word.startswith("--") or not word.startswith("-") else word[1:]
        for letter in letters:
            if letter in _ISOLATING:
                return f"-{letter}"
            if letter not in _FLAGS:
                break
    return None


def _options(program: Sequence[str]) -> Iterator[str]:
    """Yield the words by which Python itself is told something, without their values."""
    arguments = iter(program[1:])
    for argument in arguments:
        if not argument.startswith("-") or argument == "-" or _starts(argument) is not None:
            return
        yield argument
        if argument in _TAKE_A_VALUE:
            next(arguments, None)


def _begins(program: Sequence[str]) -> int:
    """Return where the words begin that say what Python runs."""
    return 1 + sum(2 if word in _TAKE_A_VALUE else 1 for word in _options(program))


def _starts(word: str) -> tuple[str, str] | None:
    """Return "c" or "m" and what follows in the word, if that is how Python is told what to run: -um."""
    if word.startswith("--"):
        return None
    for place, letter in enumerate(word[1:], 2):
        if letter in "cm":
            return letter, word[place:]
        if letter not in _FLAGS:
            return None
    return None


def _source(program: Sequence[str]) -> tuple[list[str], Path] | None:
    """Return the texts of the program and the folder of its modules."""
    if python_of(program) is None:
        return None
    if program[0].endswith(".py") or not Path(program[0]).name.startswith(("python", "pypy")):
        return _file(Path(program[0]))
    rest = program[_begins(program) :]
    if not rest:
        return None
    how, value = _starts(rest[0]) or ("", "")
    value = value or (rest[1] if len(rest) > 1 else "")
    if how == "c":
        return [value], Path()
    if how == "m":
        # All of the package: what it imports of itself is not followed.
        local = _local(value.partition(".")[0], Path())
        texts = _texts(local) if local is not None else None
        return (texts, Path()) if texts else None
    return _file(Path(rest[0]))


def _file(place: Path) -> tuple[list[str], Path] | None:
    text = _text(place)
    return ([text], place.parent) if text is not None else None


def _text(place: Path) -> str | None:
    try:
        if not place.is_file() or place.stat().st_size > _MOST_BYTES:
            return None
        with tokenize.open(place) as file:
            return file.read()
    except (OSError, ValueError, SyntaxError):
        return None


def _imports(text: str) -> set[str] | None:
    """Return the first words of all imports, also of those in functions; None if they are not to be told."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
        elif isinstance(node, ast.Call) and _imports_by_call(node.func):
            return None
    return names


def _imports_by_call(function: ast.expr) -> bool:
    """Tell whether a call may import what its words do not say."""
    if isinstance(function, ast.Attribute):
        return function.attr in ("import_module", "run_path", "run_module", "exec_module")
    return isinstance(function, ast.Name) and function.id in ("__import__", "exec", "import_module")


def _local(name: str, folder: Path) -> Path | None:
    """Return the module or package of that name that lies beside the program."""
    module, package = folder / f"{name}.py", folder / name
    try:
        if module.is_file():
            return module
        return package if (package / "__init__.py").is_file() or (package / "__main__.py").is_file() else None
    except OSError:  # a name that no file can have, a folder that may not be entered
        return None


def _texts(local: Path) -> list[str] | None:
    """Return the text of a module, or of all files of a package; None where that is too much or cannot be read."""
    files = [*islice(local.rglob("*.py"), _MOST_FILES + 1)] if local.is_dir() else [local]
    texts = [text for text in map(_text, files) if text is not None]
    return texts if len(texts) == len(files) <= _MOST_FILES else None
