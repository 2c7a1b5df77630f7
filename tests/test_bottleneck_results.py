"""The planted bottlenecks on the host's processor: a kernel and its repair compute the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.diagnosis.agree import disagreements
from benchmarks.diagnosis.case import Case
from benchmarks.diagnosis.case_file import load_cases, read_case
from tests.test_diagnosis_score import FILE, SOURCE

CASES = load_cases()
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile for the host")


@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_both_kernels_compute_the_same(case: Case) -> None:
    assert disagreements(case) == ()


@needs_compiler
def test_results_that_differ_are_found(tmp_path: Path) -> None:
    (tmp_path / "doubles.yaml").write_text(FILE)
    (tmp_path / "doubles.cu").write_text(SOURCE)
    assert any("differs by" in problem for problem in disagreements(read_case(tmp_path / "doubles.yaml")))
