"""What an expert expects of real reports: how it is judged, by hand-made findings."""

from __future__ import annotations

from benchmarks.verdicts.expected import NOTHING, SET_UP, read_table
from benchmarks.verdicts.told import told_before
from gpuprof.diagnose.registry import RULES

TO_COME = {"clock-drift"}
"""Causes that experts name, of rules that are not all there."""


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
        assert known >= set(pair.fixes) and pair.launch < len(before[pair.report].launches)
