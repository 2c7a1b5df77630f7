"""What an expert expects of real reports: how it is judged, by hand-made findings, and what the real ones reach."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.verdicts.__main__ import main, told_of
from benchmarks.verdicts.expected import NOTHING, SET_UP, Expected, Pair, Table, read_table, spans
from benchmarks.verdicts.judge import Judgement, judged
from benchmarks.verdicts.pairs import Outcome, median_looseness, outcomes
from benchmarks.verdicts.report import markdown, text
from benchmarks.verdicts.told import Headline, ReportTold, Told, told_before
from benchmarks.verdicts.totals import AIMS, BROKEN, FIRST, GUESS, SET_UP_HEADLINE, Score, lost, number_of, scored
from gpuprof.diagnose.registry import RULES
from tests.table import each_row

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


# One kernel.


def test_any_of_the_causes_is_right_as_the_first_finding() -> None:
    for rule in ("l1-bandwidth", "shared-bandwidth"):
        item = judgement(expected("l1-bandwidth", "shared-bandwidth"), Told(rule, "high", 0.3))
        assert (item.right, item.among_three, item.misleads, item.silent) == (True, True, False, False)


def test_a_cause_that_comes_third_is_among_three_and_not_right() -> None:
    others = (Told("tail-effect", "high", 0.3), Told("barrier-wait", "medium", 0.2))
    item = judgement(expected("small-grid"), *others, Told("small-grid", "low", 0.05))
    assert (item.right, item.among_three) == (False, True)
    item = judgement(expected("small-grid"), *others, Told("fp64-bound", "low", 0.04), Told("small-grid", "low", 0.03))
    assert (item.right, item.among_three) == (False, False)


def test_without_a_cause_anything_claimed_is_wrong_and_facts_are_right() -> None:
    assert judgement(expected()).right
    assert judgement(expected(), Told("low-occupancy", "info", 0.0)).right
    assert not judgement(expected(), Told("low-occupancy", "low", 0.3, "guess")).right


@each_row(("severity", "right"), [("info", True), ("low", True), ("medium", False), ("high", False)])
def test_nothing_to_repair_is_right_without_an_alarm(severity: str, right: bool) -> None:
    assert judgement(expected(NOTHING), Told("memory-latency", severity, 0.3)).right == right
    assert judgement(expected(SET_UP), Told("memory-latency", severity, 0.3)).right == right


def test_what_another_finding_explains_is_no_alarm() -> None:
    assert judgement(expected(NOTHING), Told("memory-latency", "medium", 0.3, explained=True)).right


def test_a_kernel_that_is_told_as_set_up_is_right_and_misleads_nobody() -> None:
    expectation = expected(SET_UP, misleads=("tail-effect",))
    item = judgement(expectation, Told("tail-effect", "high", 0.3), set_up=True)
    assert (item.right, item.misleads) == (True, False)
    item = judgement(expectation, Told("tail-effect", "high", 0.3))
    assert (item.right, item.misleads) == (False, True)


def test_a_working_kernel_is_not_right_for_being_taken_for_set_up() -> None:
    assert not judgement(expected("small-grid"), Told("tail-effect", "high", 0.3), set_up=True).right


def test_what_misleads_does_so_first_or_as_an_alarm() -> None:
    expectation = expected("small-grid", misleads=("tail-effect",))
    right = Told("small-grid", "high", 0.5)
    assert judgement(expectation, Told("tail-effect", "low", 0.05)).misleads
    assert judgement(expectation, right, Told("tail-effect", "medium", 0.1)).misleads
    assert not judgement(expectation, right, Told("tail-effect", "low", 0.05)).misleads
    assert not judgement(expectation, right, Told("tail-effect", "medium", 0.1, explained=True)).misleads


def test_a_defect_that_costs_nothing_misleads_nobody_and_a_roof_does() -> None:
    expectation = expected("small-grid", misleads=("low-occupancy", "dram-bandwidth"))
    assert not judgement(expectation, Told("low-occupancy", "info", 0.0)).misleads
    assert judgement(expectation, Told("dram-bandwidth", "info", 0.1)).misled_by == ("dram-bandwidth",)


def test_no_claim_and_that_nothing_is_busy_are_silent_where_a_cause_is_expected() -> None:
    expectation = expected("host-memory-traffic")
    assert judgement(expectation).silent
    assert judgement(expectation, Told("non-fused-fp", "info", None)).silent
    assert judgement(expectation, Told("latency-bound", "medium", 0.6)).silent
    assert not judgement(expectation, Told("tail-effect", "medium", 0.1)).silent
    assert not judgement(expected("latency-bound"), Told("latency-bound", "medium", 0.6)).silent


def test_equal_launches_are_right_together_and_shown_by_the_worst() -> None:
    right, wrong = Told("small-grid", "high", 0.5), Told("tail-effect", "high", 0.5)
    item = judged(expected("small-grid", launches=(0, 2)), told((right,), (), (wrong,)))
    assert (item.right, item.first) == (False, wrong)
    assert judged(expected("small-grid", launches=(0, 2)), told((right,), (wrong,), (right,))).right


# Repairs.


PAIR = Pair("a.ncu-rep", 0, kernel="before", after="after", repairs=("l1-bandwidth", "shared-bandwidth"), gain=0.4)


def outcome(*findings: Told, pair: Pair = PAIR) -> Outcome:
    (item,) = outcomes([pair], {"a.ncu-rep": told(findings)})
    return item


@each_row(("gain", "broken"), [(0.3, True), (0.389, True), (0.391, False), (0.9, False), (None, False)])
def test_a_bound_is_broken_by_a_gain_above_it(gain: float | None, broken: bool) -> None:
    assert outcome(Told("l1-bandwidth", "high", gain)).is_broken == broken


def test_what_holds_for_the_same_work_is_no_bound_that_could_break() -> None:
    item = outcome(Told("l1-bandwidth", "high", 0.1, bound=False))
    assert (item.is_broken, item.looseness) == (False, None)


def test_the_gain_of_a_repair_is_that_of_its_first_finding() -> None:
    item = outcome(
        Told("small-grid", "high", 0.7), Told("shared-bandwidth", "high", 0.6), Told("l1-bandwidth", "low", 0.1)
    )
    assert item.told is not None and item.told.rule == "shared-bandwidth"
    # 0.6 told of 0.4.
    assert not item.is_first and item.looseness == pytest.approx(1.5)


def test_a_repair_that_nothing_names_has_no_bound() -> None:
    item = outcome(Told("small-grid", "high", 0.7))
    assert (item.told, item.is_broken, item.looseness) == (None, False, None)


def test_small_gains_and_unchanged_kernels_are_not_asked_how_close_the_bound_is() -> None:
    assert outcome(Told("l1-bandwidth", "high", 0.5), pair=replace(PAIR, gain=0.09)).looseness is None
    assert outcomes([replace(PAIR, repairs=())], {"a.ncu-rep": told(())}) == []


def test_the_median_is_over_bounds() -> None:
    # 0.6, 0.8 and 1.0 of 0.4; what names no repair is left out.
    items = [outcome(Told("l1-bandwidth", "high", gain)) for gain in (0.8, 0.6, 1.0)]
    assert median_looseness([*items, outcome()]) == pytest.approx(2.0)
    assert median_looseness([outcome()]) is None


# Totals.


SET_UP_FIRST = Table((expected(SET_UP), replace(expected("small-grid"), launches=(1,))), (PAIR,))
"""A kernel that makes data, and one that works."""


def score_of(*launches: tuple[Told, ...], headline: Headline | None = None) -> Score:
    return scored(SET_UP_FIRST, {"a.ncu-rep": told(*launches, headline=headline)})


def test_a_headline_of_a_set_up_kernel_counts_only_where_others_work() -> None:
    both = score_of((), (), headline=Headline(0, is_guess=False))
    assert both.set_up_headlines == ("a.ncu-rep",)
    assert score_of((), (), headline=Headline(1, is_guess=False)).set_up_headlines == ()
    alone = scored(Table((expected(SET_UP),), ()), {"a.ncu-rep": told((), headline=Headline(0, is_guess=False))})
    assert alone.set_up_headlines == ()


def test_a_headline_that_is_a_guess_is_counted() -> None:
    assert score_of((), (), headline=Headline(1, is_guess=True)).guessed_headlines == ("a.ncu-rep",)
    assert score_of((), ()).guessed_headlines == ()


def test_reports_that_are_not_there_count_nowhere() -> None:
    nothing = scored(SET_UP_FIRST, {})
    assert (nothing.judgements, nothing.repairs) == ((), ())


def test_the_numbers_are_shares_of_kernels_and_counts() -> None:
    # Of two kernels the first is right, as nothing is said of it; the repair of its launch gained 40 % of told 10 %.
    score = score_of((Told("l1-bandwidth", "low", 0.1),), ())
    assert number_of(FIRST, score) == 0.5
    assert number_of(BROKEN, score) == 1
    assert number_of(SET_UP_HEADLINE, score) == 0


def test_an_aim_is_lost_only_where_it_was_reached() -> None:
    reached = {aim.name for aim in AIMS if aim.reached}
    guessed = score_of((), (), headline=Headline(1, is_guess=True))
    assert {aim.name for aim in lost(guessed)} == reached & {aim.name for aim in AIMS if not aim.holds(guessed)}
    assert (GUESS in {aim.name for aim in lost(guessed)}) == (GUESS in reached)


def test_the_report_lists_each_disagreement_with_its_reason() -> None:
    score = score_of((), (Told("tail-effect", "high", 0.3),))
    for lines in (list(text(score, score)), list(markdown(score, score))):
        printed = "\n".join(lines)
        assert "tail-effect ≤ 30 %" in printed and "DRAM at 90 %" in printed and "1 of 2 (50.0 %)" in printed
    assert "It streams." in "\n".join(text(score, score))


# The table itself, and the real reports.


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


def test_numbers_are_written_as_runs() -> None:
    assert spans((0, 1, 2, 5, 7, 8)) == "0–2, 5, 7–8"


def test_no_aim_that_real_reports_reached_is_lost(reports: Path) -> None:
    table = read_table()
    missing = [name for name in table.reports if not any(reports.rglob(name))]
    if missing:
        pytest.skip(f"{', '.join(missing)} are not among the real reports")
    score = scored(table, told_of(reports, table.reports))
    assert [aim.name for aim in lost(score)] == []


def test_a_folder_without_reports_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "gpu_workshop-MW_Baseline.ncu-rep is not in" in capsys.readouterr().err
