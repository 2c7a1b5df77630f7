"""Programs of several ranks: which of them are profiled, and what becomes of their reports."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.collect.ranks import ALL, RANK, launcher_of, of_rank, rank_files, script_text
from tests.table import each_row
from tests.test_run import Bench, bench
from tests.test_surveys import GEMMS

assert bench  # a fixture

MPIRUN = """#!/bin/sh
shift 2
for rank in 0 1; do OMPI_COMM_WORLD_RANK=$rank "$@" || exit $?; done
"""
"""Stands in for mpirun: runs two ranks, one after the other."""


@each_row(("line", "own"), [
    ("mpirun -n 4 true --x", "true --x"), ("mpirun -np 4 --map-by ppr:2:node -x PATH --mca btl self true", "true"),
    ("mpirun --bind-to none -n 2 -- env A=1 true", "env A=1 true"),
    ("mpiexec.hydra -genv OMP_NUM_THREADS 4 -ppn 2 sh -c true", "sh -c true"),
    ("srun --ntasks=4 -p gpu -t 10:00 --gres gpu:1 sh run.sh", "sh run.sh"),
    ("/opt/openmpi/bin/mpirun --oversubscribe -n 1 sh x", "sh x"), ("mpirun --unknown-option value true", "true"),
])  # fmt: skip
def test_the_own_command_of_mpi_ranks_is_found(line: str, own: str) -> None:
    launcher = launcher_of(shlex.split(line))
    assert launcher is not None and launcher.at is not None
    assert shlex.join(launcher.argv[launcher.at :]) == own
    words, variables = launcher.start(Path("/tmp/rank.sh"))
    assert shlex.join(words) == line.removesuffix(own) + f"/tmp/rank.sh {own}" and variables == {}


@each_row("line", ["python train.py", "true", "mpirun --version", "python -m train", "./mpirun_test", "mpirun-wrapper"])
def test_other_programs_have_no_ranks_to_start(line: str) -> None:
    found = launcher_of(shlex.split(line))
    assert found is None


def test_torchrun_is_told_by_a_variable_what_to_start() -> None:
    launcher = launcher_of(["python3", "-m", "torch.distributed.run", "--nproc-per-node", "2", "train.py"])
    assert launcher is not None and launcher.python == "python3"
    words, variables = launcher.start(Path("/tmp/rank.sh"))
    assert words == list(launcher.argv) and variables == {"PYTHON_EXEC": "/tmp/rank.sh"}


def run_as(rank: str, script: Path, *words: str) -> str:
    environ = {"PATH": os.environ["PATH"], "PMI_RANK": rank}
    return subprocess.run([str(script), *words], env=environ, capture_output=True, text=True, check=True).stdout


def written(folder: Path, text: str) -> Path:
    place = folder / "it's a rank.sh"
    place.write_text(text)
    place.chmod(0o755)
    return place


def test_the_script_puts_the_chosen_rank_alone_under_the_profiler(tmp_path: Path) -> None:
    script = written(tmp_path, script_text(["echo", f"p {RANK}.rep", "--"], "1", None, {"A": "it's $HOME"}))
    assert run_as("1", script, "echo", "$A", "a  b") == "p 1.rep -- echo $A a  b\n"
    assert run_as("0", script, "echo", "a  b") == "a  b\n"
    script = written(tmp_path, script_text([], "1", None, {"A": "it's $HOME"}))
    assert run_as("1", script, "sh", "-c", "echo $A") == "it's $HOME\n"
    assert run_as("11", script, "sh", "-c", "echo $A") == "\n"
    script = written(tmp_path, script_text(["echo", RANK], ALL, "python3", {}))
    assert [run_as(rank, script, "x") for rank in "07"] == ["0 python3 x\n", "7 python3 x\n"]


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0@"), max_size=30))
def test_any_word_comes_through_the_script_as_it_is(word: str) -> None:
    text = script_text(["printf", "%s", word], ALL, None, {})
    done = subprocess.run(["sh", "-c", text, "x"], capture_output=True, check=True, env={"PATH": os.environ["PATH"]})
    assert done.stdout.decode() == word


def test_files_of_ranks_are_found_in_the_order_of_ranks(tmp_path: Path) -> None:
    path = tmp_path / "profile.ncu-rep"
    for rank in ("10", "2", "0", "x"):
        of_rank(path, rank).touch()
    (tmp_path / "profile.rank1.log").touch()
    assert list(rank_files(path)) == [0, 2, 10]
    assert rank_files(path)[2] == tmp_path / "profile.rank2.ncu-rep"


def mpirun_on_path(bench: Bench) -> None:
    place = bench.folder / "bin/mpirun"
    place.parent.mkdir()
    place.write_text(MPIRUN)
    place.chmod(0o755)
    bench.environ["PATH"] = f"{place.parent}:{os.environ['PATH']}"


PROGRAM = ("mpirun", "-n", "2", "sh", "-c", "echo rank $OMPI_COMM_WORLD_RANK")


def test_one_rank_is_profiled_unless_more_are_asked_for(bench: Bench) -> None:
    mpirun_on_path(bench)
    bench.steps({"report": str(GEMMS), "program": True}, {"report": str(GEMMS), "program": True})
    done = bench.run("--survey", "ncu", program=PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rank 0\nrank 1\n")
    assert len(bench.calls) == 2
    assert {"survey.rank0.ncu-rep", "profile.rank0.ncu-rep", "rank.sh"} <= set(bench.left())
    session = json.loads((bench.folder / "out/session.json").read_text())
    assert {kernel["rank"] for kernel in session["kernels"]} == {0}
    assert session["sources"][0]["command"].split()[-2:] == ["'…/mpirun'", "'…'"]


@pytest.mark.slow
def test_all_ranks_are_in_one_session_each_with_its_own_counters(bench: Bench) -> None:
    mpirun_on_path(bench)
    report = {"report": str(GEMMS)}
    bench.steps(*[report] * 4)
    done = bench.run("--survey", "ncu", "--ranks", "all", "--coverage", "100", program=PROGRAM)
    assert done.returncode == 0, done.stderr
    session = json.loads((bench.folder / "out/session.json").read_text())
    assert [kernel["rank"] for kernel in session["kernels"]] == [0] * 3 + [1] * 3
    assert [Path(source["file"]).name for source in session["sources"]] == [
        "profile.rank0.ncu-rep", "profile.rank1.ncu-rep", "survey.rank0.ncu-rep", "survey.rank1.ncu-rep",
    ]  # fmt: skip
    assert {kernel["source"] for kernel in session["kernels"] if kernel["rank"] == 1} == {1}
    # A rank that leaves a damaged report does not take the others with it.
    again = bench.run("--survey", "ncu", "--ranks", "all", program=PROGRAM)
    assert again.returncode == 2 and "--force" in again.stderr
    bench.steps(*[report] * 5, {**report, "bytes": 1000}, report, report)
    done = bench.run("--survey", "ncu", "--ranks", "all", "--force", program=PROGRAM)
    assert done.returncode == 5 and done.stderr.count("survey.rank1.ncu-rep is damaged") == 2, "it, and the error"
    session = json.loads((bench.folder / "out/session.json").read_text())
    assert {kernel["rank"] for kernel in session["kernels"]} == {0}


@each_row("ranks", ["some", "-1", "0,1", ""])
def test_a_rank_is_a_number_or_all(bench: Bench, ranks: str) -> None:
    done = bench.run("--ranks", ranks)
    assert done.returncode == 2 and "--ranks" in done.stderr
