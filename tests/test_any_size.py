"""The measuring of reports of any size: what a run took, when it is ended, and that a made report is one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.any_size import has_code, main
from benchmarks.large_reports import write_large
from benchmarks.measured_runs import Limits, measured
from gpuprof.read.container import walk
from tests.conftest import OWN_REPORTS

FREE = Limits(60, 4e9)
needs_proc = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux says how much memory")


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


@pytest.mark.slow
@needs_proc
def test_memory_of_a_run_is_that_of_all_its_processes(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; held = bytearray(80_000_000); time.sleep(1)"
    parent = f"import subprocess, sys; held = bytearray(80_000_000); subprocess.run([sys.executable, '-c', {child!r}])"
    held = bytearray(300_000_000)
    run = measured(python(parent), FREE, tmp_path)
    assert run.failure is None and held
    assert run.largest_bytes is not None and 80e6 < run.largest_bytes < 140e6
    assert run.tree_bytes is not None and 160e6 < run.tree_bytes < 280e6


def test_a_run_over_a_limit_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    sleeps = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    assert measured(python(sleeps), Limits(0.3, 4e9), tmp_path).failure == "ended at 0.3 s"


def test_a_report_that_cannot_be_made_is_an_aim_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.ncu-rep").write_bytes(b"")
    assert main(["--reports", str(tmp_path), "--made-only", "--quick"]) == 1
    assert "1 missed" in capsys.readouterr().out


def test_a_made_report_is_read_by_nvidia_s_reader(tmp_path: Path) -> None:
    import ncu_report

    source, made = OWN_REPORTS[2], tmp_path / "made.ncu-rep"
    with made.open("wb") as file:
        write_large(source.read_bytes(), file, 40, 10)
    assert walk(made.read_bytes()).results == 40
    assert has_code(source) and has_code(made)
    context = ncu_report.load_report(str(made))
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    actions = [some.action_by_idx(index) for some in ranges for index in range(some.num_actions())]
    assert len({action.name() for action in actions}) == 10
    assert len({action.metric_by_name("gpu__time_duration.sum").value() for action in actions}) > 30
