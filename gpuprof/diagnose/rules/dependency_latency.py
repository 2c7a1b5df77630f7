"""Warps wait for results of their own arithmetic."""

from __future__ import annotations

from gpuprof.diagnose.rule import Rule, TreePlace
from gpuprof.diagnose.thresholds import DOMINANT
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, LATENCY_BOUND, waiting

RULE = Rule(
    "dependency-latency",
    kind="symptom",
    thresholds=(DOMINANT, ISSUES_OFTEN, LATENCY_BOUND),
    check=lambda facts: waiting(facts, ("wait",), DOMINANT, is_fact=LATENCY_BOUND.is_reached(facts.busiest_need)),
    place=TreePlace(("wait",), "issue"),
)
