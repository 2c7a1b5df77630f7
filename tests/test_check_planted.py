"""The benchmark of what code shows of planted bottlenecks: its expectations, and a few cases that are compiled here."""

from __future__ import annotations

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
from tests.table import each_row

TARGET = "sm_90a"


def test_expectations_are_of_cases_that_there_are() -> None:
    planted = {case.name: case.planted_rule for case in load_cases()}
    for name, outcome in expected().items():
        assert planted[name] in IN_CODE
        assert {*outcome["found"], *outcome["told"]} <= set(TARGETS)


@needs_cuda_wheels
@each_row("name", ["mixture-density", "image-patches"])
def test_a_planted_habit_is_found_in_the_code_and_not_in_its_fixed_twin(name: str) -> None:
    cases = load_cases([name])
    told = list(planted_in_code(cases, TARGET))
    assert {item.entry for item in told} == {SLOW, FIXED}
    assert outcomes(cases, told)[name] == {"found": [TARGET], "told": []}


def test_what_is_found_no_more_is_a_regression_only_where_it_was_looked_for() -> None:
    before = {"case": {"found": ["sm_80", "sm_90a"], "told": []}}
    now = {"case": {"found": ["sm_80"], "told": []}}
    assert list(regressions(now, before, ["sm_80"])) == []
    assert list(regressions(now, before, ["sm_80", "sm_90a"])) == [
        "case: the planted rule is no longer found on sm_90a"
    ]


def test_what_is_told_of_a_fixed_kernel_anew_is_a_regression() -> None:
    before = {"case": {"found": [], "told": ["sm_80"]}}
    assert list(regressions({"case": {"found": [], "told": ["sm_80"]}}, before, ["sm_80"])) == []
    assert len(list(regressions({"case": {"found": [], "told": ["sm_90a"]}}, before, ["sm_90a"]))) == 1


def test_what_was_not_looked_at_stays_expected() -> None:
    before = {"case": {"found": ["sm_80", "sm_90a"], "told": []}, "other": {"found": ["sm_80"], "told": []}}
    kept = merged({"case": {"found": [], "told": ["sm_90a"]}}, before, ["sm_90a"])
    assert kept == {"case": {"found": ["sm_80"], "told": ["sm_90a"]}, "other": {"found": ["sm_80"], "told": []}}


def test_rules_on_launches_and_bandwidth_are_named_as_not_in_the_code() -> None:
    (line,) = unseen(load_cases())
    assert {"small-grid", "dram-bandwidth", "memory-latency"} <= set(line.removeprefix("not in the code: ").split(", "))


def test_only_the_planted_rule_of_a_case_counts() -> None:
    cases = load_cases(["mixture-density"])
    told = [CodeVerdict(case="mixture-density", entry=SLOW, target=TARGET, rules=frozenset({"integer-bound"}))]
    assert outcomes(cases, told)["mixture-density"] == {"found": [], "told": []}
