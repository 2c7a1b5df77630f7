"""Causes of real changes: what an expert wrote down of pairs of recorded kernels, held against what is told."""

from __future__ import annotations

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
from tests.field.folder import folder
from tests.real_sessions import loaded

EXPECTED = yaml.safe_load((Path(__file__).parents[1] / "data" / "expected-changes.yaml").read_text(encoding="utf-8"))
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
    base, new = real_side(folder, expected["base"]), real_side(folder, expected["new"])
    pair = Pair("named", base.kernels, new.kernels)
    time, work = time_change(pair), work_change(pair)
    causes = causes_of(pair, time, work, line_changes(pair))
    return time, causes, kernel_sentence(pair, time, work, causes), pair


@pytest.mark.parametrize("expected", PAIRS, ids=[pair["name"] for pair in PAIRS])
def test_what_is_told_of_a_pair_is_what_an_expert_wrote_down(expected: dict[str, Any]) -> None:
    time, causes, sentence, pair = compared(folder(), expected)
    assert time.ratio == pytest.approx(expected["ratio"], rel=2e-3)
    assert time.verdict in (expected["time"], "unclear", "same")
    explaining = _explaining(causes, expected)
    if explaining or time.verdict not in ("same", "unclear"):
        assert explaining[0].mechanism in expected["first"]
    else:
        assert abs(expected["ratio"] - 1) < 0.05, "what is not clear may go without a cause only where it is small"
    mechanisms = {cause.mechanism for cause in causes}
    assert set(expected["also"]) <= mechanisms
    wrong = [
        cause.mechanism
        for cause in causes
        if cause.mechanism in expected["misleads"]
        and (cause.direction == expected["time"] or (expected["time"] == "same" and cause.direction != "neutral"))
    ]
    assert wrong == []
    rules: dict[str, set[str]] = {}
    for change in finding_changes(pair, time):
        rules.setdefault(change.word, set()).add(change.rule)
    for word, named in expected["findings"].items():
        assert set(named) <= rules.get(word, set())
    assert 8 < len(sentence) <= 260 and "\n" not in sentence
    swapped, backwards, *_ = compared(folder(), {**expected, "base": expected["new"], "new": expected["base"]})
    assert (time.verdict in ("faster", "slower")) == (swapped.verdict in ("faster", "slower"))
    first, last = ([cause for cause in told if cause.direction != "neutral"] for told in (causes, backwards))
    assert [cause.mechanism for cause in first[:1]] == [cause.mechanism for cause in last[:1]]
    assert all(cause.direction == OPPOSITE[first[0].direction] for cause in last[:1])


def _explaining(causes: tuple[ChangeCause, ...], expected: dict[str, Any]) -> list[ChangeCause]:
    """The causes in the direction of the change; what says that there is none counts too."""
    return [
        cause for cause in causes if cause.direction == expected["time"] or cause.mechanism in ("nothing", "launches")
    ]
