"""What gpuprof says about others' reports, compared with the part of the golden corpus that their licences allow."""

from __future__ import annotations

import pytest

from benchmarks.golden.__main__ import GOLDEN, ROOT
from benchmarks.golden.differences import differences
from benchmarks.golden.inputs import GoldenInput, permissive_inputs
from benchmarks.golden.write import answer
from gpuprof.sass.tools.disassemble import find_disassemblers
from tests.field.folder import folder
from tests.test_golden import expected


@pytest.mark.parametrize("question", list(permissive_inputs(ROOT, folder())), ids=lambda item: item.name)
def test_others_reports_say_what_the_corpus_holds(question: GoldenInput) -> None:
    if question.kind == "check" and not find_disassemblers():
        pytest.skip("nvdisasm is missing")
    assert differences(expected(question, GOLDEN / "field"), answer(question)) == []


def test_the_corpus_has_one_file_for_each_question() -> None:
    names = sorted(item.name for item in permissive_inputs(ROOT, folder()))
    assert sorted(path.stem for path in (GOLDEN / "field").glob("*.json")) == names
