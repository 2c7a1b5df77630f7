"""Warps wait at barriers or memory fences."""

from __future__ import annotations

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import Findings, Rule, TreePlace, amounts_of
from gpuprof.diagnose.thresholds import NOTABLE, percent
from gpuprof.diagnose.wait_findings import ISSUES_OFTEN, SHOWN, waiting
from gpuprof.model.findings import Cases

ALONE = percent("one-block-barrier", 5.0)


def _barrier(facts: KernelFacts) -> Findings:
    reasons, why, advice, threshold = ["barrier"], ["main"], ["main"], NOTABLE
    if facts.threads_per_block is not None:
        why.append("threads")
    if _one_block_fits(facts):
        why.append("one-block")
        threshold = ALONE
    if facts.stall("membar") >= SHOWN:
        reasons.append("membar")
        why.append("fences")
        advice.append("fences")
    cases = Cases(why=tuple(why), advice=tuple(advice))
    if "membar" in reasons and facts.stall("barrier") < SHOWN:
        fences = ("fences",)
        cases = Cases(why=fences, action=fences, advice=fences)
    amounts = amounts_of("thread", threads=facts.threads_per_block)
    yield from waiting(facts, tuple(reasons), threshold, cases, amounts=amounts, confidence="measured")


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
