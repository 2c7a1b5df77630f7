"""Warps wait for constants."""

from __future__ import annotations

from gpuprof.diagnose.rule import Rule, TreePlace
from gpuprof.diagnose.thresholds import NOTABLE
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, START_UP, misses

RULE = Rule(
    "constant-miss",
    kind="symptom",
    thresholds=(NOTABLE, ISSUES_OFTEN, START_UP),
    check=lambda facts: misses(facts, "imc_miss"),
    place=TreePlace(("imc_miss",), "issue"),
)
