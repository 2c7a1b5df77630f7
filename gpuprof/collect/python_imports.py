"""What a Python program imports, read from its source without running it, and what Python was told to leave out."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
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
    source = _source(program)
    if source is None:
        return None
    text, folder = source
    names: set[str] = set()
    waiting, seen = [text], set()
    while waiting:
        found = _imports(waiting.pop())
        if found is None:
            return None
        for name in found:
            local = _local(name, folder)
            if local is None:
                names.add(name)
            elif local not in seen:
                seen.add(local)
                waiting += _texts(local)
        if len(seen) > _MOST_FILES:
            return None
    return frozenset(names)


def is_without_torch(names: frozenset[str] | None) -> bool:
    """Tell whether a program that imports these uses another framework, and surely not PyTorch."""
    known = _WITHOUT_TORCH | sys.stdlib_module_names
    return names is not None and bool(names & _OTHER_FRAMEWORKS) and names <= known


def isolated_by(program: Sequence[str]) -> str | None:
    """Return the option -E, -I or -S by which Python is kept from loading anything of ours; None without one."""
    if python_of(program) is None:
        return None
    for word in _options(program):
        letters = "" if word.startswith("--") else word[1:]
        for letter in letters:
            if letter in _ISOLATING:
                return f"-{letter}"
            if letter not in _FLAGS:
                break
    return None


def _options(program: Sequence[str]) -> Iterator[str]:
    """Yield the words by which Python itself is told something, without their values."""
    words = iter(program[1:])
    for word in words:
        if not word.startswith("-") or word == "-" or word[:2] in ("-c", "-m"):
            return
        yield word
        if word in _TAKE_A_VALUE:
            next(words, None)


def _source(program: Sequence[str]) -> tuple[str, Path] | None:
    """Return the text of the program and the folder of its modules."""
    if python_of(program) is None:
        return None
    if program[0].endswith(".py") or not Path(program[0]).name.startswith(("python", "pypy")):
        return _file(Path(program[0]))
    taken = sum(2 if word in _TAKE_A_VALUE else 1 for word in _options(program))
    rest = program[1 + taken :]
    if not rest:
        return None
    if rest[0] == "-c" and len(rest) > 1:
        return rest[1], Path()
    if rest[0] == "-m" and len(rest) > 1:
        local = _local(rest[1], Path())
        main = local / "__main__.py" if local is not None and local.is_dir() else local
        return _file(main, Path()) if main is not None else None
    return _file(Path(rest[0]))


def _file(place: Path, folder: Path | None = None) -> tuple[str, Path] | None:
    text = _text(place)
    return (text, folder if folder is not None else place.parent) if text is not None else None


def _text(place: Path) -> str | None:
    try:
        if not place.is_file() or place.stat().st_size > _MOST_BYTES:
            return None
        return place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _imports(text: str) -> set[str] | None:
    """Return the first words of all imports, also of those in functions; None if this is no Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _local(name: str, folder: Path) -> Path | None:
    """Return the module or package of that name that lies beside the program."""
    module, package = folder / f"{name.replace('.', '/')}.py", folder / name.replace(".", "/")
    if module.is_file():
        return module
    return package if (package / "__init__.py").is_file() else None


def _texts(local: Path) -> Iterator[str]:
    files = sorted(local.rglob("*.py"))[:_MOST_FILES] if local.is_dir() else [local]
    yield from (text for text in map(_text, files) if text is not None)
