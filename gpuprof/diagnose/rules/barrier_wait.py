"""Warps wait at barriers or memory fences."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import WAITS
from gpuprof.diagnose.rule import Findings, Rule, TreePlace
from gpuprof.diagnose.thresholds import NOTABLE, percent
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, SHOWN, waiting
from gpuprof.model.findings import Cases

ALONE = percent("one-block-barrier", 5.0)


def _barrier(facts: KernelFacts) -> Findings:
    why, advice, threshold = [], [], NOTABLE
    reasons = tuple(reason for reason in WAITS["barrier"] if facts.stall(reason) >= SHOWN)
    if "barrier" in reasons:
        why.append("main")
        advice.append("main")
        if _one_block_fits(facts):
            why.append("one-block")
            threshold = ALONE
    if "membar" in reasons:
        why.append("fences")
        advice.append("fences")
    cases = Cases(why=tuple(why), action=tuple(advice[:1]), advice=tuple(advice))
    yield from waiting(facts, reasons, threshold, cases, confidence="measured")


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
