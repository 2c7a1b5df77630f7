"""The measuring of reports of any size: what a run took, when it is ended, and when an aim is missed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.any_size import CASES, VIEWS, Aim, filled, has_code, in_turns, main, reached
from benchmarks.large_reports import write_large
from benchmarks.measured_runs import Limits, Run, described, measured, one_after_the_other, ratio, tree_bytes
from gpuprof.read.container import walk
from tests.table import each_row

FREE = Limits(60, 4e9)
needs_proc = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux says how much memory")


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def taken(seconds: float, tree: int | None = 100, failure: str | None = None) -> Run:
    return Run(
        seconds=seconds, processor_seconds=2 * seconds, largest_bytes=50, tree_bytes=tree, failure=failure
    )  # fmt: skip


@needs_proc
def test_memory_of_a_run_is_that_of_all_its_processes(tmp_path: Path) -> None:
    child = "import subprocess, sys, time; held = bytearray(80_000_000); time.sleep(1)"
    parent = f"import subprocess, sys; held = bytearray(80_000_000); subprocess.run([sys.executable, '-c', {child!r}])"
    held = bytearray(300_000_000)
    run = measured(python(parent), FREE, tmp_path)
    assert run.failure is None and held
    assert run.largest_bytes is not None and 80e6 < run.largest_bytes < 140e6
    assert run.tree_bytes is not None and 160e6 < run.tree_bytes < 280e6


def test_processor_time_is_that_of_what_it_started_too(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    run = measured(python(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"), FREE, tmp_path)
    assert run.processor_seconds >= 0.3


def test_a_run_over_a_limit_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    sleeps = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
    assert measured(python(sleeps), Limits(0.3, 4e9), tmp_path).failure == "ended at 0.3 s"


@needs_proc
def test_a_run_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    run = measured(python("import time; held = bytearray(90_000_000); time.sleep(600)"), Limits(60, 5e7), tmp_path)
    assert run.failure == "ended at 0.05 GB"
    assert described(run).startswith("ended at 0.05 GB: ")


def test_a_run_has_the_cache_that_it_is_given(tmp_path: Path) -> None:
    text = "import os, sys; sys.exit(os.environ['XDG_CACHE_HOME'] != os.environ['GPUPROF_CACHE'])"
    assert measured(python(text), FREE, tmp_path).failure is None
    assert measured(python("raise SystemExit(3)"), FREE, tmp_path).failure == "ended with 3"


def test_memory_of_a_process_that_is_gone_is_not_known() -> None:
    assert tree_bytes(2**30) == (None, None)


@each_row(
    ("run", "is_reached"),
    [
        (taken(2.0, 300), True),
        (taken(2.1, 300), False),
        (taken(2.0, 301), False),
        (taken(1.0, None), False),
        (taken(1.0, 100, "ended with 1"), False),
    ],
)
def test_an_aim_is_reached_by_time_and_memory(run: Run, is_reached: bool) -> None:
    assert reached(run, Aim(2.0, 300)) is is_reached


def test_a_ratio_is_the_median_over_pairs() -> None:
    mine, theirs = [taken(1.0), taken(9.0), taken(3.0)], [taken(2.0), taken(3.0), taken(3.0)]
    assert ratio(mine, theirs) == 1.0
    assert ratio(mine, theirs, "processor_seconds") == 1.0
    assert ratio(mine, theirs[:2]) is None
    assert ratio([taken(1.0, failure="ended with 1")], [taken(1.0)]) is None
    assert ratio([], []) is None


def test_runs_of_both_are_taken_in_turns(tmp_path: Path) -> None:
    log = tmp_path / "log"
    mine, theirs = (python(f"open({str(log)!r}, 'a').write({name!r})") for name in "gn")
    cold, warm, other = in_turns(mine, [theirs, theirs], 2, FREE, tmp_path)
    assert (len(cold), len(warm), len(other)) == (2, 2, 2)
    assert log.read_text(encoding="utf-8") == "g" + "ggnn" + "nngg"


def test_pages_of_ncu_count_together() -> None:
    together = one_after_the_other([taken(1.0), taken(2.0, 300, "ended with 1"), taken(3.0, None)])
    assert (together.seconds, together.processor_seconds) == (6.0, 12.0)
    assert (together.largest_bytes, together.tree_bytes, together.failure) == (50, 300, "ended with 1")


def test_each_view_names_the_report() -> None:
    for view in {view for case in CASES for view in case.aims}:
        assert "some.ncu-rep" in filled(VIEWS[view], Path("some.ncu-rep"), Path("page.html"))


def test_without_reports_there_is_nothing_to_measure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--reports", str(tmp_path)]) == 2
    assert "no reports in" in capsys.readouterr().err


def test_a_report_that_cannot_be_made_is_an_aim_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.ncu-rep").write_bytes(b"")
    assert main(["--reports", str(tmp_path), "--made-only", "--quick"]) == 1
    assert "1 missed" in capsys.readouterr().out


def test_a_made_report_is_read_by_nvidia_s_reader(reports: Path, tmp_path: Path) -> None:
    import ncu_report

    source, made = reports / "cuda_learning_mojo-profile.ncu-rep", tmp_path / "made.ncu-rep"
    with made.open("wb") as file:
        write_large(source.read_bytes(), file, 40, 10)
    assert walk(made.read_bytes()).results == 40
    assert has_code(source) and has_code(made)
    context = ncu_report.load_report(str(made))
    ranges = [context.range_by_idx(index) for index in range(context.num_ranges())]
    actions = [some.action_by_idx(index) for some in ranges for index in range(some.num_actions())]
    assert len({action.name() for action in actions}) == 10
    assert len({action.metric_by_name("gpu__time_duration.sum").value() for action in actions}) > 30
