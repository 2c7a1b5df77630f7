"""The benchmark of what code shows of planted bottlenecks: its expectations, and a few cases that are compiled here."""

from __future__ import annotations

import pytest

from benchmarks.check_planted import (
    IN_CODE,
    CodeVerdict,
    expected,
    merged,
    outcomes,
    planted_in_code,
    regressions,
    unseen,
)
from benchmarks.diagnosis.case import FIXED, SLOW, TARGETS
from benchmarks.diagnosis.case_file import load_cases
from tests.cuda_tools import needs_cuda_wheels

TARGET = "sm_90a"


def test_expectations_are_of_cases_that_there_are() -> None:
    planted = {case.name: case.planted_rule for case in load_cases()}
    for name, outcome in expected().items():
        assert planted[name] in IN_CODE
        assert {*outcome["found"], *outcome["told"]} <= set(TARGETS)


@pytest.mark.compilers
@needs_cuda_wheels
def test_a_planted_habit_is_found_in_the_code_and_not_in_its_fixed_twin() -> None:
    cases = load_cases(["mixture-density", "image-patches"])
    told = list(planted_in_code(cases, TARGET))
    assert {item.entry for item in told} == {SLOW, FIXED}
    assert outcomes(cases, told) == {case.name: {"found": [TARGET], "told": []} for case in cases}
    # Only the planted rule of a case counts.
    other = [CodeVerdict(case="mixture-density", entry=SLOW, target=TARGET, rules=frozenset({"integer-bound"}))]
    assert outcomes(cases[:1], other)["mixture-density"] == {"found": [], "told": []}


def test_what_is_found_no_more_or_told_anew_is_a_regression_where_it_was_looked_for() -> None:
    before = {"case": {"found": ["sm_80", "sm_90a"], "told": []}}
    now = {"case": {"found": ["sm_80"], "told": []}}
    assert list(regressions(now, before, ["sm_80"])) == []
    assert len(list(regressions(now, before, ["sm_80", "sm_90a"]))) == 1
    before = {"case": {"found": [], "told": ["sm_80"]}}
    assert list(regressions({"case": {"found": [], "told": ["sm_80"]}}, before, ["sm_80"])) == []
    assert len(list(regressions({"case": {"found": [], "told": ["sm_90a"]}}, before, ["sm_90a"]))) == 1
    before = {"case": {"found": ["sm_80", "sm_90a"], "told": []}, "other": {"found": ["sm_80"], "told": []}}
    kept = merged({"case": {"found": [], "told": ["sm_90a"]}}, before, ["sm_90a"])
    assert kept == {"case": {"found": ["sm_80"], "told": ["sm_90a"]}, "other": {"found": ["sm_80"], "told": []}}
    (line,) = unseen(load_cases())
    assert {"small-grid", "dram-bandwidth", "memory-latency"} <= set(line.rpartition(": ")[2].split(", "))
