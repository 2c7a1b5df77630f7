"""Warps wait for results of their own arithmetic."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of
from gpuprof.diagnose.thresholds import DOMINANT
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, LATENCY_BOUND, waiting
from gpuprof.model.findings import MAIN, Cases


def _dependencies(facts: KernelFacts) -> Findings:
    """Report the waits; as a fact if a unit is so busy that it is the limit."""
    is_fact = LATENCY_BOUND.is_reached(facts.busiest_need)
    yield from waiting(
        facts,
        ("wait",),
        DOMINANT,
        Cases(why=("main", "unit-busy") if is_fact else MAIN),
        amounts=amounts_of(busy=facts.busiest_need),
        is_fact=is_fact,
    )


RULE = Rule(
    "dependency-latency",
    kind="symptom",
    thresholds=(DOMINANT, ISSUES_OFTEN, LATENCY_BOUND),
    check=_dependencies,
    place=TreePlace(("wait",), "issue"),
)
