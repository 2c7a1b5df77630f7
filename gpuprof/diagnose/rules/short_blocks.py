"""Blocks are so short that warp slots are often empty between them."""

from __future__ import annotations

from itertools import pairwise

from msgspec.structs import replace

from gpuprof.annotated.counts import EXECUTED
from gpuprof.diagnose.bounds import PER_WARP, bound_of_wait
from gpuprof.diagnose.facts.counters import ELAPSED
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import AVERAGE_SM
from gpuprof.diagnose.facts.units import REQUESTS
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import OCCUPANCY_GAP, SHORT_BLOCK, STARVED_ISSUE, WELL_USED, percent

EXITS = percent("warps-that-exit", 50.0)

_ACCESSES = ("LDG", "LDS", "LDL", "LD.", "ST", "ATOM", "RED", "UTMA", "UBLK", "TEX", "TLD", "SU")
"""Opcodes that access memory, except constants."""


def _short_blocks(facts: KernelFacts) -> Findings:
    empty = facts.occupancy_gap
    if empty is None or not facts.idles_between_blocks:
        return
    saving = bound_of_wait(facts, empty).no_more_than(empty * (facts.active_share or 1.0))
    is_well_used = max(facts.busiest or 0.0, facts.busiest_need or 0.0) >= WELL_USED
    exits = _share_that_exits(facts)
    change = "main"
    evidence = [*facts.gap_evidence(), *facts.active_evidence()]
    if EXITS.is_reached(exits):
        change = "exits"
        evidence.append(EXITS.evidence(100 * exits))
    yield finding(
        facts,
        cases_of(change, (change,), (change, "well-used") if is_well_used else (change,)),
        amounts=amounts_of("cycle", cycles=facts.block_cycles)
        + amounts_of(achieved=facts.occupancy.achieved, theoretical=facts.occupancy.theoretical, exits=exits),
        confidence="inferred" if facts.has_room else "guess",
        saving=replace(saving, assumes=(PER_WARP,)),
        is_fact=is_well_used,
        evidence=evidence,
    )


def _share_that_exits(facts: KernelFacts) -> float:
    """Return the least share of warps that exit without work; 0 if unknown.

    No more warps can access memory than there are accesses, by opcodes or as the most that L1 can
    take. No more go on after an exit of some threads than execute the next instruction.
    """
    warps = facts.warps
    requests, cycles = facts.number(REQUESTS), facts.number(*ELAPSED)
    going_on = [float(warps)]
    if facts.opcodes:
        going_on.append(facts.executed(*_ACCESSES))
    elif requests is not None and cycles is not None and facts.sms:
        going_on.append(requests / 100 * cycles * facts.sms)
    for before, after in pairwise(facts.code.instructions):
        is_conditional = before.sass.startswith("@") and " EXIT" in before.sass
        if is_conditional and 2 * before.counts.get(EXECUTED, 0.0) >= warps:
            going_on.append(after.counts.get(EXECUTED, 0.0))
    return 1.0 - min(going_on) / warps if warps else 0.0


RULE = Rule(
    "short-blocks",
    thresholds=(SHORT_BLOCK, OCCUPANCY_GAP, STARVED_ISSUE, EXITS),
    check=_short_blocks,
    metrics=(AVERAGE_SM,),
    place=AT_WARPS,
)
