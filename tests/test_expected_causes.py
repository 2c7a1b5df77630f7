"""What an expert expects of real reports: how it is judged, by hand-made findings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.verdicts.__main__ import main
from benchmarks.verdicts.expected import NOTHING, SET_UP, Expected, Pair, Table, read_table
from benchmarks.verdicts.judge import Judgement, judged
from benchmarks.verdicts.pairs import Outcome, median_looseness, outcomes
from benchmarks.verdicts.report import markdown, text
from benchmarks.verdicts.told import Headline, ReportTold, Told, told_before
from benchmarks.verdicts.totals import AIMS, BROKEN, FIRST, SET_UP_HEADLINE, Score, lost, number_of, scored
from gpuprof.diagnose.registry import RULES
from tests.table import each_row

TAIL, GRID = Told("tail-effect", "high", 0.3), Told("small-grid", "high", 0.5)


LATENCY, OCCUPANCY = Told("memory-latency", "medium", 0.3), Told("low-occupancy", "info", 0.0)

TO_COME = {"clock-drift"}
"""Causes that experts name, of rules that are not all there."""


def expected(*causes: str, misleads: tuple[str, ...] = (), launches: tuple[int, ...] = (0,)) -> Expected:
    return Expected(
        report="a.ncu-rep",
        kernel="kernel",
        launches=launches,
        causes=causes,
        also=(),
        misleads=misleads,
        state="DRAM at 90 %",
        reason="It streams.",
        certainty="sure",
    )


def told(
    *launches: tuple[Told, ...], set_up: frozenset[int] = frozenset(), headline: Headline | None = None
) -> ReportTold:
    return ReportTold(launches=launches, set_up=set_up, headline=headline)


def judgement(expectation: Expected, *findings: Told, set_up: bool = False) -> Judgement:
    """What is said of a kernel of one launch, judged."""
    return judged(expectation, told(findings, set_up=frozenset({0} if set_up else ())))


@each_row(
    ("expectation", "findings", "right"),
    [
        (expected("l1-bandwidth", "shared-bandwidth"), (Told("shared-bandwidth", "high", 0.3),), True),
        (expected("small-grid"), (TAIL, Told("barrier-wait", "medium", 0.2), Told("small-grid", "low", 0.05)), False),
        # Without a cause anything claimed is wrong, and facts are right.
        (expected(), (), True),
        (expected(), (OCCUPANCY,), True),
        (expected(), (Told("low-occupancy", "low", 0.3, "guess"),), False),
        # Nothing to repair is right without an alarm; what another finding explains is none.
        (expected(NOTHING), (Told("memory-latency", "low", 0.3),), True),
        (expected(NOTHING), (LATENCY,), False),
        (expected(NOTHING), (replace(LATENCY, explained=True),), True),
        (expected(SET_UP), (LATENCY,), False),
    ],
)
def test_a_kernel_is_right_by_its_first_finding(expectation: Expected, findings: tuple[Told, ...], right: bool) -> None:
    assert judgement(expectation, *findings).right == right
    # A kernel that is told as set-up is right only if it is one.
    assert judgement(expectation, TAIL, set_up=True).right == (expectation.causes == (SET_UP,))


PAIR = Pair("a.ncu-rep", 0, kernel="before", after="after", repairs=("l1-bandwidth", "shared-bandwidth"), gain=0.4)


def outcome(*findings: Told, pair: Pair = PAIR) -> Outcome:
    (item,) = outcomes([pair], {"a.ncu-rep": told(findings)})
    return item


@each_row(("gain", "broken"), [(0.3, True), (0.389, True), (0.391, False), (0.9, False), (None, False)])
def test_a_bound_is_broken_by_a_gain_above_it(gain: float | None, broken: bool) -> None:
    assert outcome(Told("l1-bandwidth", "high", gain)).is_broken == broken


def test_the_gain_of_a_repair_is_that_of_its_first_finding() -> None:
    item = outcome(GRID, Told("shared-bandwidth", "high", 0.6), Told("l1-bandwidth", "low", 0.1))
    assert item.told is not None and item.told.rule == "shared-bandwidth"
    # 0.6 told of 0.4.
    assert not item.is_first and item.looseness == pytest.approx(1.5)
    unnamed = outcome(GRID)
    assert (unnamed.told, unnamed.is_broken, unnamed.looseness) == (None, False, None)
    # What holds for the same work is no bound, and small gains are not asked how close it is.
    fixed = outcome(Told("l1-bandwidth", "high", 0.1, bound=False))
    assert (fixed.is_broken, fixed.looseness) == (False, None)
    assert outcome(Told("l1-bandwidth", "high", 0.5), pair=replace(PAIR, gain=0.09)).looseness is None
    # 0.6, 0.8 and 1.0 of 0.4; what names no repair is left out.
    items = [outcome(Told("l1-bandwidth", "high", gain)) for gain in (0.8, 0.6, 1.0)]
    assert median_looseness([*items, outcome()]) == pytest.approx(2.0)
    assert median_looseness([outcome()]) is None


SET_UP_FIRST = Table((expected(SET_UP), replace(expected("small-grid"), launches=(1,))), (PAIR,))
"""A kernel that makes data, and one that works."""


def score_of(*launches: tuple[Told, ...], headline: Headline | None = None) -> Score:
    return scored(SET_UP_FIRST, {"a.ncu-rep": told(*launches, headline=headline)})


def test_the_numbers_are_shares_of_kernels_and_counts(tmp_path: Path) -> None:
    # Of two kernels the first is right, as nothing is said of it; the repair of its launch gained 40 % of told 10 %.
    score = score_of((Told("l1-bandwidth", "low", 0.1),), ())
    assert (number_of(FIRST, score), number_of(BROKEN, score), number_of(SET_UP_HEADLINE, score)) == (0.5, 1, 0)
    guessed = score_of((), (), headline=Headline(1, is_guess=True))
    assert guessed.guessed_headlines == ("a.ncu-rep",) and score_of((), ()).guessed_headlines == ()
    assert {aim.name for aim in lost(guessed)} == {aim.name for aim in AIMS if aim.reached and not aim.holds(guessed)}
    score = score_of((), (TAIL,))
    for lines in (list(text(score, score)), list(markdown(score, score))):
        assert any("tail-effect" in line and "30 %" in line for line in lines)
    # Reports that are not there count nowhere.
    nothing = scored(SET_UP_FIRST, {})
    assert (nothing.judgements, nothing.repairs) == ((), ())
    assert main([str(tmp_path)]) == 2


def test_the_table_names_rules_and_reports_that_0_1_0_was_recorded_of() -> None:
    table, before = read_table(), told_before()
    known = {rule.id for rule in RULES} | TO_COME | {NOTHING, SET_UP}
    for item in table.kernels:
        assert known >= {*item.causes, *item.also, *item.misleads}, item.where
        assert not {*item.causes} & {*item.misleads}, item.where
        assert item.launches and max(item.launches) < len(before[item.report].launches)
    assert set(table.reports) == set(before)
    launches = [(item.report, launch) for item in table.kernels for launch in item.launches]
    assert len(launches) == len(set(launches)) == sum(len(report.launches) for report in before.values())
    for pair in table.pairs:
        assert known >= set(pair.repairs) and pair.launch < len(before[pair.report].launches)
