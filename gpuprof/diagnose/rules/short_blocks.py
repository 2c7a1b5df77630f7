"""Blocks are so short that warp slots are often empty between them."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.bounds import PER_WARP, bound_of_wait
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import AVERAGE_SM
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import OCCUPANCY_GAP, SHORT_BLOCK, STARVED_ISSUE, WELL_USED
from gpuprof.model.findings import MAIN, Cases


def _short_blocks(facts: KernelFacts) -> Findings:
    gap, cycles = facts.occupancy_gap, facts.block_cycles
    if gap is None or cycles is None or not facts.has_short_blocks or not facts.ends_together:
        return
    saving = bound_of_wait(facts, gap.empty)
    if facts.active_share is not None:
        saving = saving.no_more_than(gap.empty * facts.active_share)
    is_well_used = max(facts.busiest or 0.0, facts.busiest_need or 0.0) >= WELL_USED
    yield finding(
        facts,
        Cases(why=("main", "well-used") if is_well_used else MAIN),
        amounts=(
            *amounts_of("cycle", cycles=cycles),
            *amounts_of(achieved=gap.achieved, theoretical=gap.theoretical),
        ),
        confidence="inferred" if facts.has_room else "guess",
        saving=replace(saving, assumes=(PER_WARP,)),
        is_fact=is_well_used,
        evidence=(*facts.gap_evidence(gap), *facts.active_evidence()),
    )


RULE = Rule(
    "short-blocks",
    thresholds=(SHORT_BLOCK, OCCUPANCY_GAP, STARVED_ISSUE),
    check=_short_blocks,
    metrics=(AVERAGE_SM,),
    place=AT_WARPS,
)
