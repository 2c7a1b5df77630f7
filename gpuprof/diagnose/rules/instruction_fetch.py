"""Warps wait for instructions."""

from __future__ import annotations

from gpuprof.diagnose.rule import Rule, TreePlace
from gpuprof.diagnose.thresholds import NOTABLE
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, START_UP, misses

RULE = Rule(
    "instruction-fetch",
    kind="symptom",
    thresholds=(NOTABLE, ISSUES_OFTEN, START_UP),
    check=lambda facts: misses(facts, "no_instruction", "branch_resolving"),
    place=TreePlace(("no_instruction",), "issue"),
)
