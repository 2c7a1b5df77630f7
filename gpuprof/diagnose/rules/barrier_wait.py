"""Warps wait at barriers or memory fences."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import WAITS
from gpuprof.diagnose.rule import Findings, Rule, TreePlace
from gpuprof.diagnose.thresholds import NOTABLE, percent
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, SHOWN, waiting
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases

ALONE = percent("one-block-barrier", 5.0)


def _barrier(facts: KernelFacts) -> Findings:
    """Report the waits; as a guess if warps with different roles wait for each other by design."""
    changes, threshold = [], NOTABLE
    confidence: Confidence = "measured"
    reasons = tuple(reason for reason in WAITS["barrier"] if facts.stall(reason) >= SHOWN)
    if "barrier" in reasons:
        changes.append("main")
    if "membar" in reasons:
        changes.append("fences")
    why = list(changes)
    if _one_block_fits(facts):
        threshold = ALONE
        why.append("one-block")
    if _have_roles(facts):
        confidence = "guess"
        why.append("roles")
    cases = Cases(why=tuple(why), action=tuple(changes[:1]), advice=tuple(changes))
    yield from waiting(facts, reasons, threshold, cases, confidence=confidence)


def _have_roles(facts: KernelFacts) -> bool:
    """Return whether some warps copy tiles for others: bulk copies by one thread, or a busy tensor
    pipe on a GPU that has them if the opcodes are not known."""
    if facts.opcodes():
        return facts.executed("UBLKCP", "UTMALDG") > 0
    return facts.has_bulk_copies and facts.is_busiest("tensor")


def _one_block_fits(facts: KernelFacts) -> bool:
    """Return whether only one block fits in an SM."""
    theoretical, warps, room = facts.occupancy.theoretical, facts.warps_per_block, facts.warps_per_sm
    if theoretical is None or room is None or not warps:
        return False
    return theoretical * room < 2 * warps


RULE = Rule(
    "barrier-wait",
    kind="symptom",
    thresholds=(NOTABLE, ALONE, ISSUES_OFTEN),
    check=_barrier,
    place=TreePlace(("barrier",), "issue"),
)
