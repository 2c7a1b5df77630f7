"""Warps wait at barriers or memory fences."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import BULK_LOADS, WAITS
from gpuprof.diagnose.rule import Findings, Rule, TreePlace
from gpuprof.diagnose.thresholds import NOTABLE, percent
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, SHOWN, waiting
from gpuprof.model.findings import Cases

ALONE = percent("one-block-barrier", 5.0)
_CASES = {"barrier": "main", "membar": "fences"}


def _barrier(facts: KernelFacts) -> Findings:
    """Report the waits; as a guess if some warps may copy tiles for others, which wait by design."""
    reasons = tuple(reason for reason in WAITS["barrier"] if facts.stall(reason) >= SHOWN)
    changes = tuple(_CASES[reason] for reason in reasons)
    why = list(changes)
    threshold = NOTABLE
    theoretical, room = facts.occupancy.theoretical, facts.warps_per_sm
    warps = facts.warps_per_block
    one_block_fits = theoretical is not None and room and warps and theoretical * room < 2 * warps
    has_roles = facts.needs_few_warps is None or facts.executed(*BULK_LOADS) > 0
    if has_roles:
        why.append("roles")
    elif not facts.needs_few_warps and one_block_fits:
        threshold = ALONE
        why.append("one-block")
    cases = Cases(why=tuple(why), action=changes[:1], advice=changes)
    yield from waiting(facts, reasons, threshold, cases, confidence="guess" if has_roles else "measured")


RULE = Rule(
    "barrier-wait",
    kind="symptom",
    thresholds=(NOTABLE, ALONE, ISSUES_OFTEN),
    check=_barrier,
    place=TreePlace(("barrier",), "issue"),
)
