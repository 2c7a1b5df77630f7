"""All rules: what a kernel runs into, what is wrong with it, and what is told only where nothing else explains it."""

from __future__ import annotations

from gpuprof.diagnose import access, compute, gaps, latency, launch, limits
from gpuprof.diagnose.rule import Rule

RULES: tuple[Rule, ...] = (*limits.RULES, *access.RULES, *compute.RULES, *launch.RULES, *latency.RULES, *gaps.RULES)

_BY_ID = {rule.id: rule for rule in RULES}


def rule_named(rule_id: str) -> Rule | None:
    """Return the rule of that id; None for one that this version does not know."""
    return _BY_ID.get(rule_id)
