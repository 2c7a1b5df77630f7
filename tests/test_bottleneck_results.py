"""The planted bottlenecks on the host's processor: a kernel and its fix compute the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.diagnosis import agree
from benchmarks.diagnosis.agree import disagreements
from benchmarks.diagnosis.case_file import load_cases, read_case
from benchmarks.diagnosis.host_run import compile_case
from tests.cuda_tools import ALL_VARIANTS
from tests.test_diagnosis_score import FILE, SOURCE

pytestmark = pytest.mark.compilers
CASES = load_cases()[:: 1 if ALL_VARIANTS else 2]
PARTS = 4
"""So many tests share the cases, and so many processes can."""
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ to compile for the host")


@pytest.fixture(scope="module", autouse=True)
def compiled_in_one_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What all cases run on is compiled once."""
    folder = tmp_path_factory.mktemp("host")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(agree, "compile_case", lambda source, _folder: compile_case(source, folder))
        yield


@needs_compiler
@pytest.mark.parametrize("part", range(PARTS))
def test_both_kernels_compute_the_same(part: int) -> None:
    differing = {case.name: disagreements(case) for case in CASES[part::PARTS]}
    assert not any(differing.values()), differing


@needs_compiler
def test_results_that_differ_are_found(tmp_path: Path) -> None:
    (tmp_path / "doubles.yaml").write_text(FILE)
    (tmp_path / "doubles.cu").write_text(SOURCE)
    assert "out" in "".join(disagreements(read_case(tmp_path / "doubles.yaml")))
