"""Which code an answer follows from: the hash of a module of this repository and of all that it imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from tests import kept

ROOT = Path(__file__).resolve().parents[1]
_OURS = ("gpuprof", "benchmarks", "tests")
_PUBLIC = ("gpuprof.api", "gpuprof.profiling", "gpuprof.ranges")
"""What the package itself imports, on the first use of a name that is no module of it."""


@lru_cache(maxsize=16)
def code_key(*modules: str) -> str:
    """Return the hash of modules with all that they import, at their head or within a function, and of NumPy's version.

    What they read, such as specs, is not among it.
    """
    files = sorted(_all_from(modules))
    return kept.key_of([(str(file.relative_to(ROOT)), kept.hash_of(file)) for file in files], version("numpy"))


@lru_cache(maxsize=16)
def folder_key(*folders: Path) -> str:
    """Return the hash of all files of folders."""
    files = sorted(file for folder in folders for file in folder.rglob("*") if file.is_file())
    return kept.key_of([(str(file.relative_to(ROOT)), kept.hash_of(file)) for file in files])


def _all_from(modules: tuple[str, ...]) -> set[Path]:
    files: set[Path] = set()
    waiting = [file for module in modules for file in _files(module)]
    assert waiting
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            waiting += _imported(file)
    return files


@lru_cache(maxsize=1000)
def _imported(file: Path) -> tuple[Path, ...]:
    if file == ROOT / "gpuprof" / "__init__.py":
        return _files("gpuprof._version")
    tree = ast.parse(file.read_bytes())
    return tuple(file for node in _run(tree) for name in _names(node) for file in _files(name))


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only a checker of types looks at."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            yield from (other for part in child.orelse for other in (part, *_run(part)))
        else:
            yield child
            yield from _run(child)


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        assert node.level == 0, "imports here are absolute"
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    else:
        return
    yield from names
    if "gpuprof" in names and (isinstance(node, ast.Import) or not all(map(_is_module, names))):
        yield from _PUBLIC


def _is_module(name: str) -> bool:
    place = ROOT.joinpath(*name.split("."))
    return place.with_suffix(".py").is_file() or place.is_dir()


def _files(module: str) -> tuple[Path, ...]:
    """Return the files of a module of this repository: its own, and those of the packages that it lies in."""
    parts = module.split(".")
    if parts[0] not in _OURS:
        return ()
    places = [ROOT.joinpath(*parts[: count + 1]) for count in range(len(parts))]
    return tuple(
        file for place in places for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()
    )
