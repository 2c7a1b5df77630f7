"""Comparisons of what was recorded on GPUs: steps of one SGEMM, programs of our own, and two machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import Comparison
from gpuprof.comparison.pair import NamedMatch
from gpuprof.comparison.sides import Run
from gpuprof.recordings import recordings
from tests.conftest import OWN_REPORTS
from tests.readings import session_of, unpacked

RECORDED = {recording.name: recording for recording in recordings()}
LAUNCHES = OWN_REPORTS[0].parents[2] / "run-launches" / "run" / "profile.ncu-rep"


def compared(base: Path, new: Path, *matches: NamedMatch) -> Comparison:
    """Compare two reports."""
    sides = [[Run(path.name, session_of(path))] for path in (base, new)]
    return compare(sides[0], sides[1], "0", matches).comparison


@pytest.mark.parametrize(
    ("base", "new", "ratio", "mechanism"),
    [("basic", "gmem_coalesce", 0.1297, "coalescing"), ("gmem_coalesce", "smem_blocking", 0.7204, "unit-time")],
)
def test_each_step_of_an_sgemm_is_faster_and_says_why(base: str, new: str, ratio: float, mechanism: str) -> None:
    report = unpacked(RECORDED["a10g-sgemm"])
    comparison = compared(report, report, NamedMatch(base, new))
    (change,) = [change for change in comparison.kernels if change.match == "named"]
    assert (change.time.verdict, change.time.base_runs, change.work.verdict) == ("faster", 1, "unknown")
    assert change.time.ratio == pytest.approx(ratio, abs=1e-4)
    assert change.time.cycles_ratio == pytest.approx(ratio, rel=0.02)
    assert mechanism in [cause.mechanism for cause in change.causes if cause.direction == "faster"]
    others = [other for other in comparison.kernels if other.match != "named"]
    assert {(other.match, other.time.verdict) for other in others} == {("exact", "same")}
    # The other way round it is slower, by the same factor.
    back = compared(report, report, NamedMatch(new, base)).kernels
    (slower,) = [other.time for other in back if other.match == "named"]
    assert slower.verdict == "slower" and slower.ratio == pytest.approx(1 / ratio, rel=1e-3)


def test_the_same_code_profiled_twice_does_the_same_work_and_one_run_does_not_tell_a_small_change() -> None:
    comparison = compared(OWN_REPORTS[0], LAUNCHES)
    told = {change.label: (change.match, change.time.verdict, change.work.verdict) for change in comparison.kernels}
    assert told == {
        "saxpy": ("exact", "unclear", "same"), "transpose": ("new", "new", "new"), "empty": ("new", "new", "new")
    }  # fmt: skip
    assert comparison.conditions == () and comparison.alike
    (saxpy,) = [change for change in comparison.kernels if change.label == "saxpy"]
    assert saxpy.time.ratio == pytest.approx(0.9975, abs=1e-3) and saxpy.time.runs_needed is not None
    itself = compared(LAUNCHES, unpacked(RECORDED["h100-transpose"]))
    assert {change.time.verdict for change in itself.kernels} == {"same"}
    assert [condition.name for condition in itself.conditions] == ["file"]


def test_reports_of_two_machines_have_no_verdict() -> None:
    comparison = compared(unpacked(RECORDED["a10g-sgemm"]), unpacked(RECORDED["a100-gemm"]))
    assert {change.match for change in comparison.kernels} == {"gone", "new"}
    assert [(item.name, item.affects) for item in comparison.conditions] == [
        ("compute-capability", "both"), ("gpu", "time"), ("ncu", None), ("driver", None),
    ]  # fmt: skip
    assert not comparison.alike
