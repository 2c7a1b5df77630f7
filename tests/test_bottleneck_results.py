"""The planted bottlenecks on the host's processor: a kernel and its repair compute the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.diagnosis import agree, case_file
from benchmarks.diagnosis.agree import disagreements
from benchmarks.diagnosis.case import Case
from benchmarks.diagnosis.case_file import load_cases, read_case
from tests import kept, kept_code, kept_tools
from tests.table import each_row
from tests.test_diagnosis_score import FILE, SOURCE

CASES = load_cases()
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile for the host")


@needs_compiler
@each_row("case", CASES, ids=[case.name for case in CASES])
def test_both_kernels_compute_the_same(case: Case) -> None:
    assert kept.judged("disagreements", key_of(case), lambda: list(disagreements(case))) == []


def key_of(case: Case) -> str | None:
    """The hash of all that the answer follows from; without it, it is worked out."""
    text = kept_tools.source_key(case.source.read_text(encoding="utf-8"), [case.source.parent])
    if text is None:
        return None
    code = kept_code.code_key(agree.__name__, case_file.__name__)
    return kept.key_of(text, kept.hash_of(case.source.with_suffix(".yaml")), code, kept_tools.gxx_key())


@needs_compiler
def test_results_that_differ_are_found(tmp_path: Path) -> None:
    (tmp_path / "doubles.yaml").write_text(FILE)
    (tmp_path / "doubles.cu").write_text(SOURCE)
    assert any("differs by" in problem for problem in disagreements(read_case(tmp_path / "doubles.yaml")))
