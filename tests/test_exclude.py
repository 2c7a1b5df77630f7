"""`--exclude`: kernels that the user does not want to hear of go, and their time stays known."""

from __future__ import annotations

import json

import pytest

from gpuprof.cli import patience, select
from gpuprof.collect.launches import Seen
from gpuprof.collect.plan import make_plan
from gpuprof.collect.selection import by_names
from gpuprof.errors import UsageError
from gpuprof.model.kernel_match import name_patterns
from gpuprof.model.session import KernelProfile, Session
from gpuprof.recordings import recordings
from gpuprof.store.page import read_session_html
from gpuprof.views.profile import session_page
from gpuprof.words.exclusion import exclusion_text
from gpuprof.words.plan import plan_lines
from tests import hand_made
from tests.readings import unpacked
from tests.table import each_row
from tests.test_run import Bench, bench, value_after
from tests.worded import without_excluded

assert bench  # a fixture

RECORDED = unpacked(next(recording for recording in recordings() if recording.name == "a10g-sgemm"))
"""Of 13.18 ms `basic` takes 10.78, `gmem_coalesce` 1.40 and `smem_blocking` 1.01."""


def told(left: Session) -> str:
    assert left.excluded is not None
    return exclusion_text(left.excluded)


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
    assert [item.kernels for item in left.recommendations] == [(0,)]
    assert left.excluded is not None
    assert (left.excluded.kernels, left.excluded.launches, left.excluded.untimed) == (2, 2, 0)
    assert (left.excluded.time_s, left.excluded.time_share) == pytest.approx((4e-3, 0.4))
    assert left.verdict is not None
    assert left.verdict.notes[-1] == told(left)
    assert "40 %" in told(left) and told(left).endswith(": --exclude fill --exclude memset")
    # Nothing changes if no pattern matches.
    assert without_excluded(RUN, ["Fill", "#7"]) == RUN and without_excluded(RUN, []) == RUN
    # The page carries what is left out, without a private folder.
    page = session_page(without_excluded(RUN, ["fill", "/home/mia/x.cu|fill"]))
    again = read_session_html(page.encode(), "page.html").excluded
    assert again is not None and (again.kernels, again.time_share) == (1, 0.3) and "/home/mia" not in page


def test_shares_and_gains_stay_those_of_the_whole_run() -> None:
    left = without_excluded(RUN, ["gemm"])
    assert [item.time_share for item in left.kernels] == [0.3, 0.1]
    # 0.3 of a kernel that takes half of the run is 0.15; here its share is 0.3 + 0.1.
    assert left.recommendations[0].gain_total == pytest.approx(0.15 + 0.05)
    assert left.run is not None and left.run.kernels == 3 and left.run.time_s == pytest.approx(10e-3)
    assert left.verdict is not None and left.verdict.kernel == 1


def test_a_missing_time_is_not_zero() -> None:
    run = hand_made.session(kernel(0, "gemm", 1e-3, 0.4), kernel(1, "fill", None, None), kernel(2, "fills", 2e-3, 0.6))
    both, untimed = without_excluded(run, ["fill"]).excluded, without_excluded(run, ["fill$"]).excluded
    assert both is not None and untimed is not None
    assert (untimed.time_s, untimed.time_share, untimed.untimed) == (None, None, 1)
    assert both.time_share == pytest.approx(0.6) and both.untimed == 1
    assert "60 %" in exclusion_text(both) and "%" not in exclusion_text(untimed)


@each_row("pattern", ["fill", r"fill\(float", "^fill$", "#1", "FILL|fil"])
def test_a_pattern_is_matched_as_that_of_kernel(pattern: str) -> None:
    assert labels(without_excluded(RUN, [pattern])) == ["gemm", "memset"]
    assert [item.label for item in select.select_kernels(RUN, [pattern])] == ["fill"]


@each_row(
    "broken", [["("], ["[z-a]"], ["*"], ["a{3,1}"], ["(?P<a>x)(?P<a>y)"], ["x{99999999999}"], ["gemm", "fill|memset"]]
)
def test_a_broken_expression_and_one_that_leaves_nothing_are_refused(broken: list[str]) -> None:
    with pytest.raises(UsageError):
        without_excluded(RUN, broken)


def test_an_expression_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    long = hand_made.session(kernel(0, "a" * 60, 1e-3, 1.0))
    monkeypatch.setattr(patience, "LIMIT_S", 0.2)
    for option, choose in (("--exclude", select.kept), ("--kernel", select.select_kernels)):
        with pytest.raises(UsageError, match=rf"{option} .*0\.2 s"):
            choose(long, ["(a+)+$x"])


def seen(name: str, duration_s: float, symbol: str | None = None) -> Seen:
    return Seen(symbol or name, f"void {name}<float>(float *)", (1, 1, 1), (128, 1, 1), duration_s)


def test_excluded_kernels_are_not_planned_and_their_time_counts() -> None:
    launches = [seen("gemm", 50e-3), seen("fill", 40e-3), seen("relu", 10e-3)]
    plan = make_plan(launches, exclude=name_patterns(["fill"], "--exclude"))
    assert [kernel.symbol for kernel in plan.kernels] == ["gemm", "relu"]
    assert [kernel.symbol for kernel in plan.excluded] == ["fill"]
    # 60 of 100 ms are profiled; of what is left, that is all.
    assert plan.coverage == pytest.approx(0.6) and plan.time_s == pytest.approx(0.1)
    assert any("1 kernel, 40 %" in line for line in plan_lines(plan, by_names(plan, plan.kernels)))
    names = plan.filters().kernel_id
    assert names is not None and "fill" not in names
    # The coverage is of what is not excluded.
    launches = [seen("fill", 90e-3), seen("gemm", 9e-3), seen("relu", 1e-3)]
    plan = make_plan(launches, exclude=name_patterns(["fill"], "--exclude"), coverage=0.9)
    assert [kernel.symbol for kernel in plan.kernels] == ["gemm"]


def test_a_profiled_program_leaves_its_excluded_kernels_alone(bench: Bench) -> None:
    bench.steps({"report": str(RECORDED)}, {"report": str(RECORDED)})
    done = bench.run("--exclude", "^smem", "--coverage", "100")
    assert done.returncode == 0, done.stderr
    assert "1 kernel, 7.6 %" in done.stderr and "--exclude '^smem'" in done.stdout
    # It is launched last, behind the two others.
    assert value_after(bench.calls[1], "--launch-count") == "2" and "--launch-skip-before-match" not in bench.calls[1]
    session = json.loads((bench.folder / "out/session.json").read_text())
    # What comes along in the report is left out, too.
    assert {kernel["name"] for kernel in session["kernels"]} == {"basic", "gmem_coalesce"}
    assert (session["excluded"]["kernels"], session["run"]["kernels"]) == (1, 3)


def test_a_wrong_pattern_and_one_of_all_kernels_are_refused(bench: Bench) -> None:
    for wrong in ("(", "#3"):
        done = bench.run("--exclude", wrong)
        assert (done.returncode, bench.calls, bench.left()) == (2, [], [])
        assert "--exclude" in done.stderr
    bench.steps({"report": str(RECORDED)})
    done = bench.run("--exclude", ".")
    assert (done.returncode, len(bench.calls)) == (2, 1)
