"""`--exclude`: kernels that the user does not want to hear of go, and their time stays known."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from gpuprof.cli import patience, select
from gpuprof.collect.plan import Seen, make_plan
from gpuprof.diagnose.exclusion import without_excluded
from gpuprof.diagnose.exclusion_text import exclusion_text
from gpuprof.diagnose.grouping import grouped
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import kernel_pattern, name_patterns
from gpuprof.model.session import KernelProfile, Session
from gpuprof.present.html import render_html
from gpuprof.present.plan_text import plan_lines
from gpuprof.store.page import read_session_html
from tests import hand_made
from tests.cli import gpuprof
from tests.table import each_row
from tests.test_run import BASELINE, STANDIN, Bench, bench, value_after

__all__ = ["bench"]

HALO = "2 kernels are excluded (0.16 % of the time): --exclude set_halo"


def kernel(number: int, label: str, time_s: float | None, share: float | None) -> KernelProfile:
    finding = hand_made.finding(gain_total=share / 2 if share is not None else None)
    return hand_made.kernel(
        number, finding, label=label, demangled=f"void {label}(float *)", duration_s=time_s, time_total_s=time_s,
        time_share=share,
    )  # fmt: skip


RUN = hand_made.session(
    kernel(0, "gemm", 6e-3, 0.6), kernel(1, "fill", 3e-3, 0.3), kernel(2, "memset", 1e-3, 0.1),
)  # fmt: skip


def labels(session: Session) -> list[str]:
    return [item.label for item in session.kernels]


def test_excluded_kernels_are_in_no_list_and_their_time_is_told() -> None:
    left = without_excluded(RUN, ["fill", "memset"])
    assert labels(left) == ["gemm"]
    assert [item.kernels for item in left.opportunities] == [(0,)]
    assert left.excluded is not None
    assert (left.excluded.kernels, left.excluded.launches, left.excluded.untimed) == (2, 2, 0)
    assert (left.excluded.time_s, left.excluded.time_share) == pytest.approx((4e-3, 0.4))
    assert left.verdict is not None
    assert left.verdict.notes[-1] == "2 kernels are excluded (40 % of the time): --exclude fill --exclude memset"


def test_shares_and_gains_stay_those_of_the_whole_run() -> None:
    left = without_excluded(RUN, ["gemm"])
    assert [item.time_share for item in left.kernels] == [0.3, 0.1]
    # 0.3 of a kernel that takes half of the run is 0.15; here its share is 0.3 + 0.1.
    assert left.opportunities[0].gain_total == pytest.approx(0.15 + 0.05)
    assert left.run is not None and left.run.kernels == 3 and left.run.time_s == pytest.approx(10e-3)
    assert left.verdict is not None and left.verdict.kernel == 1


def test_what_is_left_out_twice_counts_once_each() -> None:
    twice = without_excluded(without_excluded(RUN, ["fill"]), ["fill", "^mem"])
    assert twice.excluded == without_excluded(RUN, ["fill", "^mem"]).excluded
    assert twice.run == without_excluded(RUN, ["fill", "^mem"]).run


def test_the_line_stays_where_launches_become_groups() -> None:
    again = hand_made.session(kernel(0, "gemm", 1e-3, 0.2), kernel(1, "fill", 3e-3, 0.6), kernel(2, "gemm", 1e-3, 0.2))
    left = grouped(without_excluded(again, ["fill"]))
    assert len(left.kernels) == 1 and left.verdict is not None
    assert left.verdict.notes[-1] == "1 kernel is excluded (60 % of the time): --exclude fill"


def test_a_launch_of_a_kernel_that_stays_is_counted_by_itself() -> None:
    again = hand_made.session(kernel(0, "gemm", 1e-3, 0.2), kernel(1, "gemm", 3e-3, 0.6), kernel(2, "gemm", 1e-3, 0.2))
    left = without_excluded(again, ["#1", "#2"])
    assert left.excluded is not None and left.excluded.kernels == 2
    assert exclusion_text(left.excluded) == "2 kernels are excluded (80 % of the time): --exclude '#1' --exclude '#2'"


def test_a_missing_time_is_not_zero() -> None:
    run = hand_made.session(kernel(0, "gemm", 1e-3, 0.4), kernel(1, "fill", None, None), kernel(2, "fills", 2e-3, 0.6))
    both, untimed = without_excluded(run, ["fill"]).excluded, without_excluded(run, ["fill$"]).excluded
    assert both is not None and untimed is not None
    assert (untimed.time_s, untimed.time_share) == (None, None)
    assert exclusion_text(untimed) == "1 kernel is excluded (1 launch without a duration): --exclude 'fill$'"
    assert exclusion_text(both).startswith("2 kernels are excluded (60 % of the time and 1 launch without a duration):")


@each_row("pattern", ["fill", r"fill\(float", "^fill$", "#1", "FILL|fil"])
def test_a_pattern_is_matched_as_that_of_kernel(pattern: str) -> None:
    assert labels(without_excluded(RUN, [pattern])) == ["gemm", "memset"]
    assert [item.label for item in select.select_kernels(RUN, [pattern])] == ["fill"]


def test_nothing_changes_where_no_pattern_fits() -> None:
    assert without_excluded(RUN, ["Fill", "#7"]) is RUN
    assert without_excluded(RUN, []) is RUN


def test_a_session_without_any_kernel_left_is_refused() -> None:
    with pytest.raises(UsageError, match="every kernel is excluded"):
        without_excluded(RUN, ["gemm", "fill|memset"])


@each_row("broken", ["(", "[z-a]", "*", "a{3,1}", "(?P<a>x)(?P<a>y)", "x{99999999999}"])
def test_a_broken_expression_is_named(broken: str) -> None:
    with pytest.raises(UsageError, match=r"^--exclude .* is not a regular expression: "):
        without_excluded(RUN, [broken])


def test_an_expression_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    long = hand_made.session(kernel(0, "a" * 60, 1e-3, 1.0))
    monkeypatch.setattr(patience, "LIMIT_S", 0.2)
    with pytest.raises(UsageError, match=r"takes longer than 0\.2 s on the kernels' names"):
        select.kept(long, ["(a+)+$x"])
    with pytest.raises(UsageError, match=r"^--kernel .* takes longer"):
        select.select_kernels(long, ["(a+)+$x"])


def test_the_page_carries_the_line_and_what_is_left_out() -> None:
    html = render_html(without_excluded(RUN, ["fill"]))
    assert "1 kernel is excluded (30 % of the time): --exclude fill" in html.replace("\u00a0", " ")
    again = read_session_html(html.encode(), "page.html")
    assert again.excluded == without_excluded(RUN, ["fill"]).excluded


def test_a_pattern_with_a_private_folder_is_shortened_on_the_page() -> None:
    run = hand_made.session(kernel(0, "gemm", 1e-3, 0.5), kernel(1, "k x.cu", 1e-3, 0.5))
    left = without_excluded(run, ["/home/mia/x.cu|x.cu"])
    assert "/home/mia" not in render_html(left)


def test_names_with_quotes_are_quoted_for_the_shell() -> None:
    left = without_excluded(hand_made.session(kernel(0, "a", 1e-3, 0.5), kernel(1, "it's", 1e-3, 0.5)), ["it's"])
    assert left.excluded is not None
    words = shlex.split(exclusion_text(left.excluded).partition(": ")[2])
    assert words == ["--exclude", "it's"]


def test_many_patterns_are_not_all_told() -> None:
    names = [f"k{number}" for number in range(9)]
    run = hand_made.session(*(kernel(number, name, 1e-3, 0.1) for number, name in enumerate([*names, "last"])))
    left = without_excluded(run, names)
    assert left.excluded is not None and exclusion_text(left.excluded).endswith("--exclude k4 and 4 more")


def test_a_long_pattern_is_cut() -> None:
    left = without_excluded(RUN, [f"fill|{'x' * 500}"])
    assert left.excluded is not None and exclusion_text(left.excluded).endswith(f"--exclude 'fill|{'x' * 75}…'")


# The plan of `run`


def seen(name: str, duration_s: float, symbol: str | None = None) -> Seen:
    return Seen(symbol or name, f"void {name}<float>(float *)", (1, 1, 1), (128, 1, 1), duration_s)


def test_excluded_kernels_are_not_planned_and_their_time_counts() -> None:
    launches = [seen("gemm", 50e-3), seen("fill", 40e-3), seen("relu", 10e-3)]
    plan = make_plan(launches, exclude=name_patterns(["fill"], "--exclude"))
    assert [kernel.symbol for kernel in plan.kernels] == ["gemm", "relu"]
    assert [kernel.symbol for kernel in plan.excluded] == ["fill"]
    # 60 of 100 ms are profiled; of what is left, that is all.
    assert plan.coverage == pytest.approx(0.6) and plan.time_s == pytest.approx(0.1)
    assert "excluded: 1 kernel, 40 % of the time" in list(plan_lines(plan))
    names = plan.filters().kernel_id
    assert names is not None and "fill" not in names


def test_the_coverage_is_of_what_is_not_excluded() -> None:
    launches = [seen("fill", 90e-3), seen("gemm", 9e-3), seen("relu", 1e-3)]
    plan = make_plan(launches, exclude=name_patterns(["fill"], "--exclude"), coverage=0.9)
    assert [kernel.symbol for kernel in plan.kernels] == ["gemm"]


def test_an_excluded_kernel_of_peers_is_told_once_and_never_profiled() -> None:
    nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
    launches = [seen("gemm", 1e-3), seen(nccl, 9e-3)]
    plan = make_plan(launches, exclude=name_patterns(["nccl"], "--exclude"), peers=True)
    assert [kernel.symbol for kernel in plan.kernels] == ["gemm"]
    plan = make_plan(launches, exclude=name_patterns(["nccl"], "--exclude"))
    assert [kernel.symbol for kernel in plan.peers] == [nccl]
    assert not any("--peers" in line for line in plan_lines(plan))


def test_a_number_means_nothing_before_there_is_a_report() -> None:
    with pytest.raises(UsageError, match="--exclude #3 is the number of a kernel in one report"):
        name_patterns(["#3"], "--exclude")
    assert kernel_pattern("#3", "--exclude").number == 3


def test_a_profiled_program_leaves_its_excluded_kernels_alone(bench: Bench, reports: Path) -> None:
    report = str(reports / BASELINE)
    bench.steps({"report": report}, {"report": report})
    done = bench.run("--exclude", "^set_halo", "--coverage", "100")
    assert done.returncode == 0, done.stderr
    assert "excluded: 2 kernels, 0.16 % of the time" in done.stderr
    assert "2 kernels are excluded (0.16 % of the time): --exclude '^set_halo'" in done.stdout
    assert "set_halo" not in value_after(bench.calls[1], "--kernel-id")
    session = json.loads((bench.folder / "out/session.json").read_text())
    # What comes along in the report is left out, too.
    assert not any("set_halo" in kernel["label"] for kernel in session["kernels"])
    assert (session["excluded"]["kernels"], session["run"]["kernels"]) == (2, 5)
    assert "2 kernels are excluded" in (bench.folder / "out/report.html").read_text(encoding="utf-8")


def test_a_program_of_excluded_kernels_alone_is_refused_after_its_survey(bench: Bench, reports: Path) -> None:
    bench.steps({"report": str(reports / BASELINE)})
    done = bench.run("--exclude", ".")
    assert (done.returncode, len(bench.calls)) == (2, 1)
    assert done.stderr.endswith("error: every kernel in the survey is excluded\nhint: exclude fewer with --exclude\n")


@each_row("wrong", ["(", "#3"])
def test_a_wrong_pattern_is_told_before_the_program_runs(bench: Bench, wrong: str) -> None:
    done = bench.run("--exclude", wrong)
    assert (done.returncode, bench.calls, bench.left()) == (2, [], [])
    assert done.stderr.startswith(f"error: --exclude {wrong if wrong[0] == '#' else repr(wrong)} is ")
    assert STANDIN.exists()


def test_launches_by_number_come_as_they_are_counted_and_are_then_left_out(bench: Bench, reports: Path) -> None:
    bench.steps({"report": str(reports / BASELINE)})
    done = bench.run("--launch-count", "5", "--arch", "sm_70", "--exclude", "set_halo")
    assert done.returncode == 0, done.stderr
    assert "--kernel-name" not in bench.calls[0]
    assert HALO in done.stdout


# The commands that read


def test_every_view_of_a_report_says_what_is_left_out(reports: Path, tmp_path: Path) -> None:
    report = reports / BASELINE
    for options, stream in (
        (["show"], "stdout"),
        (["show", "--format", "json"], "stdout"),
        (["show", "--format", "md"], "stdout"),
        (["show", "--format", "csv"], "stderr"),
        (["roofline", "-o", str(tmp_path / "roofline")], "stdout"),
        (["roofline", "--format", "json"], "stderr"),
        (["report", "-o", str(tmp_path / "page.html")], "stdout"),
    ):
        done = gpuprof(*options, report, "--exclude", "set_halo")
        assert done.returncode == 0, done.stderr
        told = getattr(done, stream).replace("\\_", "_")
        assert HALO in told, options
        assert "set_halo_values" not in done.stdout, options


def test_a_pattern_that_names_nothing_is_told(reports: Path) -> None:
    done = gpuprof("show", reports / BASELINE, "--exclude", "set_hallo", "--exclude", "set_halo")
    assert "--exclude 'set_hallo' matches no kernel\n" in done.stderr
    assert "'set_halo' matches" not in done.stderr and HALO in done.stdout


def test_a_kernel_that_is_excluded_cannot_be_picked(reports: Path) -> None:
    done = gpuprof("show", reports / BASELINE, "--exclude", "set_halo", "--kernel", "set_halo")
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "error: no kernel matches 'set_halo'"
    assert done.stderr.rstrip().endswith("; 2 more excluded")
