"""All rules, in the order of design: limits first, then defects, then what is only told where nothing else is."""

from __future__ import annotations

from gpuprof.diagnose.rule import Rule

RULES: tuple[Rule, ...] = ()


def rule_named(rule_id: str) -> Rule:
    """Return the rule of that id. Raises KeyError for an unknown one."""
    return next(rule for rule in RULES if rule.id == rule_id)
