"""A package that is missing is named before anything runs, whichever module asks for it first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gpuprof import needed_packages
from gpuprof.errors import EnvironmentProblem
from tests.table import each_row
from tests.test_packaging import PROJECT

_HIDES = """
import os, sys

class Hides:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in os.environ["HIDDEN"].split(","):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hides())
"""
ROOT = Path(__file__).parents[1]


def without(folder: Path, hidden: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a Python that does not find some modules."""
    (folder / "sitecustomize.py").write_text(_HIDES)
    environ = {**os.environ, "HIDDEN": hidden, "PYTHONPATH": f"{folder}:{ROOT}", "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "gpuprof", *words], env=environ, capture_output=True, text=True, check=False, cwd=folder
    )


@each_row(
    ("hidden", "told"),
    [
        ("click", "click"),  # imported at start-up
        ("msgspec", "msgspec"),  # imported with the command
        ("numpy", "numpy"),  # imported for the page, when the program has run
        ("pandas", "pandas"),  # for notebooks only
        ("yaml", "pyyaml"),
        ("pynvml", "nvidia-ml-py"),
    ],
)
def test_run_names_a_missing_package_and_starts_nothing(tmp_path: Path, hidden: str, told: str) -> None:
    done = without(tmp_path, hidden, "run", "--", "touch", "ran")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.splitlines() == [
        f"error: the Python package {told} is missing (gpuprof needs it)", f"hint: python3 -m pip install {told}"
    ]  # fmt: skip
    assert not (tmp_path / "ran").exists()


def test_several_missing_packages_are_named_together(tmp_path: Path) -> None:
    done = without(tmp_path, "msgspec,rich,yaml", "run", "true")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "hint: python3 -m pip install msgspec pyyaml rich"


def test_doctor_lists_every_missing_package(tmp_path: Path) -> None:
    done = without(tmp_path, "msgspec,pandas", "doctor", "--format", "json")
    checks = [check for check in json.loads(done.stdout)["checks"] if "missing" in check["found"]]
    assert done.returncode == 3
    assert [(check["state"], check["fix"]) for check in checks] == [
        ("problem", "python3 -m pip install msgspec"), ("problem", "python3 -m pip install pandas")
    ]  # fmt: skip


def test_doctor_that_cannot_print_names_what_it_lacks(tmp_path: Path) -> None:
    done = without(tmp_path, "rich", "doctor")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (3, "hint: python3 -m pip install rich")


def test_help_needs_click_alone(tmp_path: Path) -> None:
    hidden = "msgspec,pandas,numpy,rich,jinja2,matplotlib,yaml,pynvml,zstandard,nvtx"
    assert without(tmp_path, hidden, "--help").returncode == 0


def test_the_table_is_that_of_the_project() -> None:
    wanted = map(Requirement, PROJECT["dependencies"])
    assert sorted(needed_packages.needed_packages()) == sorted(
        need.name for need in wanted if need.marker is None or need.marker.evaluate()
    )
    assert needed_packages.missing_packages() == ()


def test_what_another_package_needs_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    problem = needed_packages.problem_of(ModuleNotFoundError("no", name="markupsafe._speedups"))
    assert isinstance(problem, EnvironmentProblem) and problem.hint == "python3 -m pip install markupsafe pyyaml"
    for own in ("gpuprof.nowhere", "_lzma", None):
        assert needed_packages.problem_of(ModuleNotFoundError("no", name=own)) is None
