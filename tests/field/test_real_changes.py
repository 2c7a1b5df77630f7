"""Causes of real changes: what an expert wrote down of pairs of recorded kernels, held against what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from gpuprof.comparison.causes.causes import causes_of
from gpuprof.comparison.compare import compare
from gpuprof.comparison.contract import ChangeCause, KernelChange
from gpuprof.comparison.finding_changes import finding_changes
from gpuprof.comparison.lines import line_changes
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import Run, Side, side_of
from gpuprof.comparison.timing.verdict import time_change
from gpuprof.comparison.work.verdict import work_change
from gpuprof.words.comparison import with_sentences
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


def compared(folder: Path, expected: dict[str, Any]) -> tuple[KernelChange, Pair]:
    base, new = real_side(folder, expected["base"]), real_side(folder, expected["new"])
    pair = Pair("named", base.kernels, new.kernels)
    time, work, lines = time_change(pair), work_change(pair), line_changes(pair)
    comparison = compare(base.runs, new.runs, "0", [NamedMatch(".", ".")]).comparison
    (change,) = comparison.kernels
    change = replace(change, time=time, work=work, lines=lines, causes=causes_of(pair, time, work, lines))
    (change,) = with_sentences(replace(comparison, kernels=(change,))).kernels
    return change, pair


@pytest.mark.parametrize("expected", PAIRS, ids=[pair["name"] for pair in PAIRS])
def test_what_is_told_of_a_pair_is_what_an_expert_wrote_down(expected: dict[str, Any]) -> None:
    change, pair = compared(folder(), expected)
    time, causes = change.time, change.causes
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
    for finding in finding_changes(pair, time):
        rules.setdefault(finding.word, set()).add(finding.rule)
    for word, named in expected["findings"].items():
        assert set(named) <= rules.get(word, set())
    assert 8 < len(change.sentence) <= 260 and "\n" not in change.sentence
    back, _ = compared(folder(), {**expected, "base": expected["new"], "new": expected["base"]})
    swapped, backwards = back.time, back.causes
    assert (time.verdict in ("faster", "slower")) == (swapped.verdict in ("faster", "slower"))
    first, last = ([cause for cause in told if cause.direction != "neutral"] for told in (causes, backwards))
    assert [cause.mechanism for cause in first[:1]] == [cause.mechanism for cause in last[:1]]
    assert all(cause.direction == OPPOSITE[first[0].direction] for cause in last[:1])


def _explaining(causes: tuple[ChangeCause, ...], expected: dict[str, Any]) -> list[ChangeCause]:
    """The causes in the direction of the change; what says that there is none counts too."""
    return [
        cause for cause in causes if cause.direction == expected["time"] or cause.mechanism in ("nothing", "launches")
    ]
