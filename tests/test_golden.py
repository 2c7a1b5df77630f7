"""What gpuprof says about recorded files, compared with the golden corpus; `make golden` rewrites it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.golden.__main__ import GOLDEN, ROOT
from benchmarks.golden.differences import differences
from benchmarks.golden.inputs import GoldenInput, own_inputs
from benchmarks.golden.write import answer, file_of

QUESTIONS = list(own_inputs(ROOT))


def expected(question: GoldenInput, folder: Path = GOLDEN) -> dict[str, object]:
    facts: dict[str, object] = json.loads(file_of(folder, question.name).read_text(encoding="utf-8"))
    return facts


@pytest.mark.parametrize("question", [item for item in QUESTIONS if item.kind != "check"], ids=lambda item: item.name)
def test_reports_and_comparisons_say_what_the_corpus_holds(question: GoldenInput) -> None:
    assert differences(expected(question), answer(question)) == []


@pytest.mark.compilers
@pytest.mark.parametrize("question", [item for item in QUESTIONS if item.kind == "check"], ids=lambda item: item.name)
def test_reviews_of_compiled_code_say_what_the_corpus_holds(question: GoldenInput) -> None:
    assert differences(expected(question), answer(question)) == []


def test_the_corpus_has_one_file_for_each_question() -> None:
    assert sorted(path.stem for path in GOLDEN.glob("*.json")) == sorted(item.name for item in QUESTIONS)


def test_differences_are_listed_by_kernel_and_field() -> None:
    base = {"verdict": {"state": "limited"}, "kernels": [{"id": 0, "label": "add", "time": 2.0, "grid": [1, 2]}]}
    new = {"verdict": {"state": "open"}, "kernels": [{"id": 0, "label": "add", "time": 2.1, "grid": [1, 2]}]}
    assert differences(base, new) == ["verdict state: limited → open", "kernels [0 add] time: 2.0 → 2.1"]
    assert differences(base, base) == []
    near = {**base, "kernels": [{"id": 0, "label": "add", "time": 2.000001, "grid": [1, 2]}]}
    assert differences(base, near) == []


def test_lost_entries_and_changed_orders_are_differences() -> None:
    first, second = {"rule": "low-occupancy", "gain": 0.1}, {"rule": "tail-effect", "gain": None}
    assert differences({"findings": [first, second]}, {"findings": [second]}) == [
        "findings [low-occupancy]: {'rule': 'low-occupancy', 'gain': 0.1} → (none)"
    ]
    assert len(differences({"findings": [first, second]}, {"findings": [second, first]})) == 1
    assert differences({"gain": None}, {"gain": 0.0}) == ["gain: None → 0.0"]
