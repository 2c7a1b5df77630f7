"""The benchmark of what code shows of planted bottlenecks: its expectations, and a few cases that are compiled here."""

from __future__ import annotations

import pytest

from benchmarks.check_planted import (
    CodeVerdict,
    outcomes,
    planted_in_code,
)
from benchmarks.diagnosis.case import FIXED, SLOW
from benchmarks.diagnosis.case_file import load_cases
from tests.cuda_tools import needs_cuda_wheels

TARGET = "sm_90a"


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
