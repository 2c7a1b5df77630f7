"""Causes of real changes: what an expert wrote down of pairs of recorded kernels, held against what is told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from gpuprof.comparison.causes.causes import causes_of
from gpuprof.comparison.contract import ChangeCause, TimeChange
from gpuprof.comparison.finding_changes import finding_changes
from gpuprof.comparison.lines import line_changes
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sentences import kernel_sentence
from gpuprof.comparison.sides import Run, Side, side_of
from gpuprof.comparison.timing.verdict import time_change
from gpuprof.comparison.work.verdict import work_change
from tests.real_sessions import loaded

EXPECTED = yaml.safe_load((Path(__file__).parent / "data" / "expected-changes.yaml").read_text(encoding="utf-8"))
_SAME = re.compile("unchanged|the same|on both sides")
PAIRS: list[dict[str, Any]] = EXPECTED["pairs"]
OPPOSITE = {"slower": "faster", "faster": "slower", "same": ""}


def real_side(folder: Path, which: dict[str, Any]) -> Side:
    """The kernels of a recorded report that an expectation names."""
    session = loaded(folder / which["report"])
    kernels = [kernel for kernel in session.kernels if which["kernel"] in kernel.demangled]
    if "launch" in which:
        kernels = [kernels[which["launch"]]]
    return side_of([Run(which["report"], replace(session, kernels=tuple(kernels)))])


def compared(folder: Path, expected: dict[str, Any]) -> tuple[TimeChange, tuple[ChangeCause, ...], str, Pair]:
    """What is told of a pair: verdict on time, causes, sentence."""
    base, new = real_side(folder, expected["base"]), real_side(folder, expected["new"])
    pair = Pair("named", base.kernels, new.kernels)
    time, work = time_change(pair), work_change(pair)
    causes = causes_of(pair, time, work, line_changes(pair))
    return time, causes, kernel_sentence(pair, time, work, causes), pair


@pytest.fixture(params=PAIRS, ids=[pair["name"] for pair in PAIRS])
def expected(request: pytest.FixtureRequest) -> dict[str, Any]:
    """One pair after the other."""
    pair: dict[str, Any] = request.param
    return pair


def test_the_time_is_never_told_the_other_way_round(reports: Path, expected: dict[str, Any]) -> None:
    time, *_ = compared(reports, expected)
    assert time.ratio == pytest.approx(expected["ratio"], rel=2e-3)
    assert time.verdict in (expected["time"], "unclear", "same")


def test_the_first_cause_is_one_that_an_expert_would_name(reports: Path, expected: dict[str, Any]) -> None:
    time, causes, *_ = compared(reports, expected)
    explaining = _explaining(causes, expected)
    if time.verdict in ("same", "unclear") and not explaining:
        assert abs(expected["ratio"] - 1) < 0.05, "what is not clear may go without a cause only where it is small"
        return
    assert explaining[0].mechanism in expected["first"]
    text = " ".join(cause.sentence for cause in explaining)
    assert not expected["says"] or any(word in text for word in expected["says"])


def test_nothing_is_told_that_sends_the_reader_the_wrong_way(reports: Path, expected: dict[str, Any]) -> None:
    _, causes, *_ = compared(reports, expected)
    wrong = [
        cause.mechanism
        for cause in causes
        if cause.mechanism in expected["misleads"]
        and (cause.direction == expected["time"] or (expected["time"] == "same" and cause.direction != "neutral"))
    ]
    assert wrong == []


def test_what_belongs_to_the_story_is_told(reports: Path, expected: dict[str, Any]) -> None:
    _, causes, *_ = compared(reports, expected)
    missing = set(expected["also"]) - {cause.mechanism for cause in causes}
    assert missing == set()


def test_what_did_not_change_and_rules_something_out_is_told(reports: Path, expected: dict[str, Any]) -> None:
    _, causes, sentence, _ = compared(reports, expected)
    told = [text for text in (*(cause.sentence for cause in causes), sentence) if _SAME.search(text)]
    told += ["instructions"] if "the same work" in sentence else []
    assert [word for word in expected["unchanged"] if not any(word in text for text in told)] == []


def test_findings_go_come_and_stay_as_the_counters_say(reports: Path, expected: dict[str, Any]) -> None:
    time, _, _, pair = compared(reports, expected)
    told: dict[str, set[str]] = {}
    for change in finding_changes(pair, time):
        told.setdefault(change.word, set()).add(change.rule)
    for word, rules in expected["findings"].items():
        assert set(rules) <= told.get(word, set())


def test_sentences_fit_a_review(reports: Path, expected: dict[str, Any]) -> None:
    *_, sentence, _ = compared(reports, expected)
    assert 8 < len(sentence) <= 260
    assert "\n" not in sentence


def test_swapped_sides_tell_the_same_story_backwards(reports: Path, expected: dict[str, Any]) -> None:
    time, causes, *_ = compared(reports, expected)
    swapped, backwards, *_ = compared(reports, {**expected, "base": expected["new"], "new": expected["base"]})
    assert (time.verdict in ("faster", "slower")) == (swapped.verdict in ("faster", "slower"))
    first, last = ([cause for cause in told if cause.direction != "neutral"] for told in (causes, backwards))
    assert [cause.mechanism for cause in first[:1]] == [cause.mechanism for cause in last[:1]]
    assert all(cause.direction == OPPOSITE[first[0].direction] for cause in last[:1])


def _explaining(causes: tuple[ChangeCause, ...], expected: dict[str, Any]) -> list[ChangeCause]:
    """The causes in the direction of the change; what says that there is none counts too."""
    return [
        cause for cause in causes if cause.direction == expected["time"] or cause.mechanism in ("nothing", "launches")
    ]
