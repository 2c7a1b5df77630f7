"""The files that the golden corpus is made of: what gpuprof is asked about each, and where its answer is kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

Kind = Literal["show", "compare", "check"]

_OWN = Path("tests/data/gpu/nvidia-h100-80gb-hbm3")
_OWN_READ = (
    "passes/full/profile.ncu-rep",
    "passes/diagnose/profile.ncu-rep",
    "passes/roofline/profile.ncu-rep",
    "graphs/graph.ncu-rep",
    "graphs/node.ncu-rep",
    "graphs/third.ncu-rep",
    "graphs/run/profile.ncu-rep",
    "graphs/run/survey.ncu-rep",
    "graphs/graph.csv",
    "graphs/node.csv",
    "graphs/third.csv",
    "run-launches/full.ncu-rep",
    "run-launches/run/profile.ncu-rep",
    "run-launches/run/survey.ncu-rep",
    "run-transformer/run/session.json",
    "run-transformer/run/survey.pt.trace.json.gz",
    "names-of-templates/every.ncu-rep",
    "names-of-templates/cast.csv",
    "renamed-kernels/renamed-demangled-with.ncu-rep",
    "renamed-kernels/renamed-function-without.ncu-rep",
    "killed/kill-no.ncu-rep",
    "two-streams",
)
_OWN_PAIRS = (
    ("passes/full/profile.ncu-rep", "passes/diagnose/profile.ncu-rep"),
    ("passes/full/profile.ncu-rep", "run-launches/full.ncu-rep"),
    ("run-launches/full.ncu-rep", "run-launches/run/profile.ncu-rep"),
    ("graphs/node.ncu-rep", "graphs/run/profile.ncu-rep"),
    ("killed/kill-no.ncu-rep", "killed/kill-yes.ncu-rep"),
)
_OWN_CODE = ("passes/full/profile.ncu-rep", "run-launches/full.ncu-rep")
_EXPECTED_PAIRS = Path("tests/data/expected-changes.yaml")
_REPORTS = (".ncu-rep", ".nsight-cuprof-report")
_OTHER_FILES = (".csv", ".json", ".json.gz", ".sqlite")
_CATALOGUE = "catalogue.json"
_PERMISSIVE = ("MIT", "BSD-3-Clause", "Apache-2.0")
"""Licences under which values from a report may be kept in this repository; NOTICE names these reports."""


class GoldenInput(NamedTuple):
    """A question to gpuprof: the command with its arguments, and the name of the file that holds the answer."""

    name: str
    kind: Kind
    arguments: tuple[str, ...]
    files: tuple[Path, ...]


def own_inputs(root: Path) -> Iterator[GoldenInput]:
    """Yield the questions about files of the repository at `root`."""
    for path in sorted((root / "recordings").glob("*.ncu-rep.gz")):
        yield _read(path, path.name.removesuffix(".gz"))
    for name in _OWN_READ:
        for path in _files(root / _OWN / name):
            yield _read(path, str(path.relative_to(root / _OWN)))
    for base, new in _OWN_PAIRS:
        yield _compared(root / _OWN / base, root / _OWN / new, f"{base} to {new}")
    for name in _OWN_CODE:
        yield _checked(root / _OWN / name, name)


def field_inputs(root: Path, folder: Path) -> Iterator[GoldenInput]:
    """Yield the questions about reports and traces of others in `folder`, and about its compared pairs."""
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name.endswith(_REPORTS):
            yield _read(path, name)
            yield _checked(path, name)
        elif path.name.endswith(_OTHER_FILES) and path.name != _CATALOGUE:
            yield _read(path, name)
    for pair in yaml.safe_load((root / _EXPECTED_PAIRS).read_text(encoding="utf-8"))["pairs"]:
        sides: list[dict[str, Any]] = [pair["base"], pair["new"]]
        base, new = (folder / side["report"] for side in sides)
        if base.exists() and new.exists():
            names = "=".join(re.escape(side["kernel"]) for side in sides)
            yield _compared(base, new, f"{pair['name']} {base.stem} {new.stem}", "--match", names)


def permissive_inputs(root: Path, folder: Path) -> Iterator[GoldenInput]:
    """Yield those questions about others' files whose answers this repository may keep, by the folder's catalogue."""
    catalogue = json.loads((folder / _CATALOGUE).read_text(encoding="utf-8"))
    allowed = {
        folder / entry["file"]
        for entries in catalogue.values()
        for entry in entries
        if entry["licence"].startswith(_PERMISSIVE)
    }
    return (question for question in field_inputs(root, folder) if allowed.issuperset(question.files))


def _files(path: Path) -> list[Path]:
    """Return a file, or all reports in a folder."""
    return [path] if path.is_file() else sorted(path.rglob("*.ncu-rep"))


def _read(path: Path, name: str) -> GoldenInput:
    return GoldenInput(_slug("show", name), "show", (str(path),), (path,))


def _checked(path: Path, name: str) -> GoldenInput:
    return GoldenInput(_slug("check", name), "check", (str(path),), (path,))


def _compared(base: Path, new: Path, name: str, *options: str) -> GoldenInput:
    return GoldenInput(_slug("compare", name), "compare", (str(base), str(new), *options), (base, new))


def _slug(kind: Kind, name: str) -> str:
    return f"{kind}-{re.sub(r'[^A-Za-z0-9.]+', '-', name).strip('-').lower()}"
