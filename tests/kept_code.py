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
    tree = ast.parse(file.read_bytes())
    return tuple(file for node in ast.walk(tree) for name in _names(node) for file in _files(name))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        assert node.level == 0, "imports here are absolute"
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _files(module: str) -> Iterator[Path]:
    """Yield the files of a module of this repository: its own, and those of the packages that it lies in."""
    parts = module.split(".")
    if parts[0] not in _OURS:
        return
    for count in range(1, len(parts) + 1):
        place = ROOT.joinpath(*parts[:count])
        yield from (file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file())
