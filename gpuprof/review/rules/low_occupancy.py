"""The rule on occupancy: no block fits on an SM, or its schedulers have few warps and no other work in flight."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rule import amounts_of, labels_of
from gpuprof.diagnose.rules.low_occupancy import changes_of
from gpuprof.diagnose.thresholds import Threshold, context
from gpuprof.model.findings import MAIN, Amount, CaseName, Cases
from gpuprof.model.session import Finding
from gpuprof.review.contract import CodeOccupancy
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.occupancy_steps import step_wording, together
from gpuprof.review.facts.resources import is_upper_bound
from gpuprof.review.rules.rule import CodeRule, code_finding

_ID = "low-occupancy"
FEW_WARPS = Threshold("warps-per-scheduler", 4.0, "warp")
_ASYNCHRONOUS_COPIES = ("LDGSTS", "UBLKCP", "UTMALDG")


def _occupancy(facts: CodeFacts) -> Iterator[Finding]:
    occupancy = facts.occupancy
    arch = facts.arch
    if occupancy is None or arch is None or not occupancy.limiters:
        return
    per_scheduler = occupancy.warps_per_sm / arch.limit("sub_partitions")
    fits = occupancy.blocks_per_sm > 0
    # Asynchronous copies and tensor instructions go on without more warps.
    has_work_in_flight = facts.has_any(_ASYNCHRONOUS_COPIES) or facts.matrix
    if fits and (per_scheduler >= FEW_WARPS.value or has_work_in_flight):
        return
    headline = MAIN if fits else ("no-block-fits",)
    if fits and is_upper_bound(facts, facts.resources):
        headline = ("at-most",)
    change, of_step = _change(occupancy)
    resources = facts.resources
    shared = (resources.static_shared_bytes or 0) + (resources.dynamic_shared_bytes or 0)
    advice = tuple(changes_of(occupancy.limiters))
    yield code_finding(
        facts,
        _ID,
        (),
        Cases(
            headline=headline,
            why=("few-resident", "few-by-code") if fits else ("launch-fails",),
            action=("main" if fits else "fit-block", change),
            advice=(*advice, "in-flight") if fits else advice,
        ),
        amounts=of_step
        + amounts_of(theoretical=occupancy.fraction)
        + amounts_of("warp", warps=occupancy.warps_per_sm, per_scheduler=per_scheduler),
        labels=labels_of(limiters=occupancy.limiters),
        evidence=(
            FEW_WARPS.evidence(per_scheduler),
            *context("theoretical-occupancy", 100 * occupancy.fraction, "%"),
            *context("registers", resources.registers, "register"),
            *context("shared-of-block", shared or None, "B"),
            *context("threads", facts.threads_per_block, "thread"),
        ),
        is_guess=fits,
    )


def _change(occupancy: CodeOccupancy) -> tuple[CaseName, tuple[Amount, ...]]:
    """Return the first change that raises occupancy, with its numbers if they are known."""
    if not occupancy.steps:
        return changes_of(occupancy.limiters)[0], ()
    steps = together(occupancy.steps)
    changes = {step.resource: step.to for step in steps}
    return step_wording(changes, steps[0].blocks_per_sm, steps[0].fraction)


RULE = CodeRule(id=_ID, check=_occupancy, thresholds=(FEW_WARPS,))
