"""What is known of a Python program before it runs: its framework, and whether our part can be loaded into it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.collect.annotate import annotated
from gpuprof.collect.frameworks import PREALLOCATORS, remark_on, variables_for
from gpuprof.collect.machine import Machine
from gpuprof.collect.python_imports import imported, is_without_torch, isolated_by
from gpuprof.collect.survey_tools import CUPTI, NCU, TORCH, tools_for
from tests.conftest import OWN_REPORTS
from tests.table import each_row
from tests.test_run import Bench
from tests.test_surveys import machine_with_driver

PREALLOCATE = PREALLOCATORS[0].variable
REPORT = str(OWN_REPORTS[-1])


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


@each_row("option", ["-I", "-E", "-S"])
def test_such_a_python_runs_the_program_as_it_is(option: str) -> None:
    code = (
        "import sys; print('sitecustomize' in sys.modules, [1 for finder in sys.meta_path if 'Watch' in str(finder)])"
    )
    done = subprocess.run(
        [sys.executable, option, "-c", code],
        env=annotated(dict(os.environ)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.endswith("[]\n") and done.stderr == ""


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


def test_a_program_of_which_nothing_is_known_leaves_room_too_but_a_binary_does_not(folder: Path) -> None:
    launcher = folder / "uv"
    launcher.write_text('#!/bin/sh\nshift\nexec "$@"\n')
    assert set(variables_for((str(launcher), "run", "x.py"), {})) == {framework.variable for framework in PREALLOCATORS}
    assert remark_on((str(launcher), "run", "x.py"), variables_for((str(launcher), "run", "x.py"), {})) is None
    binary = folder / "app"
    binary.write_bytes(b"\x7fELF\x02\x01\x01")
    assert variables_for((str(binary),), {}) == {}


@pytest.mark.slow
def test_launchers_of_environments_pass_on_what_marks_the_program(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    place = bench.folder / "bin" / "conda"
    place.parent.mkdir()
    place.write_text('#!/bin/sh\nshift 3\nexec "$@"\n')
    place.chmod(0o755)
    bench.environ["PATH"] = f"{place.parent}:{bench.environ['PATH']}"
    bench.steps({"report": REPORT, "program": True}, {"report": REPORT, "program": True})
    code = "import os, sys; print(os.environ['GPUPROF_ANNOTATE'], 'sitecustomize' in sys.modules)"
    done = bench.run(program=("conda", "run", "-n", "env", sys.executable, "-c", code))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("1 ")


@pytest.mark.slow
def test_the_remark_on_memory_is_told_once_in_a_run(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.steps({"report": REPORT, "program": True}, {"report": REPORT})
    (bench.folder / "model.py").write_text(
        f"import os\nprint(os.environ['{PREALLOCATE}'])\nif False:\n    import jax\n", encoding="utf-8"
    )
    done = bench.run("--survey", "ncu", program=("model.py",))
    assert done.stdout.startswith("false\n")
    assert done.stderr.count("JAX would") == 1
