"""All rules: limits, defects, and symptoms that are reported only if nothing else explains them."""

from __future__ import annotations

from gpuprof.diagnose import (
    access,
    blocks,
    build,
    coalescing,
    compute,
    configuration_rules,
    effects,
    fp64,
    fusing,
    gaps,
    idle_lanes,
    latency,
    launch,
    limits,
    matrix,
    overlap_rules,
    reduction,
)
from gpuprof.diagnose.rule import Rule
from gpuprof.model.session import Finding

_MODULES = (
    effects, build, limits, coalescing, access, fp64, compute, fusing, matrix, blocks, launch,
    configuration_rules,
    idle_lanes, latency, reduction, gaps, overlap_rules,
)  # fmt: skip
RULES: tuple[Rule, ...] = tuple(rule for module in _MODULES for rule in module.RULES)

_BY_ID = {rule.id: rule for rule in RULES}


def rule_named(rule_id: str) -> Rule | None:
    """Return the rule of that id; None for one that this version does not know."""
    return _BY_ID.get(rule_id)


def is_of_run(finding: Finding) -> bool:
    """Return whether a finding is about the run on a timeline, not about the kernel that has it."""
    rule = rule_named(finding.rule)
    return rule is not None and rule.of_run
