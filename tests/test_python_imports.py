"""What is known of a Python program before it runs: its framework, and whether our part can be loaded into it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.collect.frameworks import PREALLOCATORS, remark_on, variables_for
from gpuprof.collect.machine import Machine
from gpuprof.collect.python_imports import imported, is_without_torch, isolated_by
from gpuprof.collect.survey_tools import CUPTI, NCU, TORCH, tools_for
from tests.table import each_row
from tests.test_surveys import machine_with_driver

PREALLOCATE = PREALLOCATORS[0].variable


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with a program of each kind."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/__init__.py").write_text("")
    (tmp_path / "deep/layers.py").write_text("def f():\n    import torch\n")
    (tmp_path / "relative").mkdir()
    (tmp_path / "relative/__main__.py").write_text("import cupy\nfrom .core import main\n")
    (tmp_path / "relative/core.py").write_text("import torch\n")
    (tmp_path / "arrays.py").write_text("import numpy as np, cupy\nfrom cupyx.profiler import benchmark\n")
    (tmp_path / "model.py").write_text("import jax.numpy as jnp\nfrom helper import step\n")
    (tmp_path / "helper.py").write_text("import flax, os.path\n")
    (tmp_path / "mixed.py").write_text("import cupy\nfrom deep import layers\n")
    (tmp_path / "large.py").write_text("import cupy, somebodys_package\n")
    (tmp_path / "broken.py").write_text("import cupy\ndef (:\n")
    return tmp_path


@each_row(
    ("program", "names", "without_torch"),
    [
        (("python3", "arrays.py"), {"numpy", "cupy", "cupyx"}, True),
        (("python3", "-u", "-X", "dev", "-Werror", "arrays.py", "--size", "3"), {"numpy", "cupy", "cupyx"}, True),
        (("python3", "model.py"), {"jax", "flax", "os"}, True),
        (("python3", "-m", "model"), {"jax", "flax", "os"}, True),
        (("python3", "-c", "import cupy"), {"cupy"}, True),
        (("python3", "mixed.py"), {"cupy", "torch"}, False),
        (("python3", "large.py"), {"cupy", "somebodys_package"}, False),
        (("python3", "-c", "import json"), {"json"}, False),
        (("python3", "broken.py"), None, False),
        (("python3", "missing.py"), None, False),
        (("python3", "-m", "somewhere.else"), None, False),
        (("python3",), None, False),
        (("python3", "-c", f"import {'a' * 300}, cupy"), {"a" * 300, "cupy"}, False),
        (("python3", "-Bc", "import cupy"), {"cupy"}, True),
        (("python3", "-um", "model"), {"jax", "flax", "os"}, True),
        (("python3", "-m", "relative"), {"cupy", "torch"}, False),
        (("python3", "-c", "import cupy, importlib; importlib.import_module('torch')"), None, False),
        (("python3", "-c", "import cupy; __import__('torch')"), None, False),
        (("./app", "model.py"), None, False),
    ],
)
def test_a_programs_framework_is_read_from_its_source(
    folder: Path, program: tuple[str, ...], names: set[str] | None, without_torch: bool
) -> None:
    assert imported(program) == names
    assert is_without_torch(imported(program)) == without_torch


@given(st.binary(max_size=200))
def test_any_file_may_be_called_a_program(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    place = tmp_path_factory.getbasetemp() / "any.py"
    place.write_bytes(content)
    names = imported(("python3", str(place)))
    assert names is None or all(isinstance(name, str) for name in names)


@each_row(
    ("command", "option"),
    [
        ("python3 -I x.py", "-I"), ("python3 -uE x.py", "-E"), ("python3 -X -S x.py", None), ("python3 x.py -I", None),
        ("python3 -S -m x", "-S"), ("python3 -WI x.py", None), ("python3 -c -I", None), ("app -I", None),
        ("python3 --check-hash-based-pycs default x.py", None),
    ],
)  # fmt: skip
def test_a_python_that_is_told_to_load_nothing_is_known(command: str, option: str | None) -> None:
    assert isolated_by(command.split()) == option


def python_with(folder: Path, *packages: str) -> str:
    """A program called python3 that has these packages and no others."""
    place = folder / "-".join(packages) / "python3"
    place.parent.mkdir(exist_ok=True)
    place.write_text(f"#!/bin/sh\necho {' '.join(packages)}\n")
    place.chmod(0o755)
    return str(place)


def test_a_program_without_torch_costs_no_run_under_its_profiler(folder: Path) -> None:
    machine: Machine = machine_with_driver(folder / "root")
    torch, with_cupti = python_with(folder, "torch"), python_with(folder, "torch", "cupti")
    for program, tools in (
        ((torch, "arrays.py"), (NCU,)),
        ((with_cupti, "arrays.py"), (CUPTI, NCU)),
        ((with_cupti, "mixed.py"), (TORCH, NCU)),
        ((with_cupti, "large.py"), (TORCH, NCU)),
        ((with_cupti, "-I", "mixed.py"), (NCU,)),
    ):
        assert tools_for(program, {"PATH": ""}, machine) == tools, program


def test_jax_leaves_room_for_ncu_unless_the_user_has_said_otherwise(folder: Path) -> None:
    for launcher in (("python3",), ("torchrun", "--nproc-per-node", "2"), ("mpirun", "-n", "2", "python3")):
        program = (*launcher, "model.py")
        variables = variables_for(program, {})
        assert variables == {PREALLOCATE: "false"}
        assert f"{PREALLOCATE}=false" in (remark_on(program, variables) or "")
        assert variables_for(program, {PREALLOCATE: "true"}) == {}
        assert variables_for((*launcher, "arrays.py"), {}) == {}
