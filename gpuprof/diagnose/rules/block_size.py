"""Blocks leave lanes or warp slots empty."""

from __future__ import annotations

from gpuprof.diagnose.bounds import PER_WARP, bound_beside
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import LANES
from gpuprof.diagnose.facts.units import NOT_OF_LANES
from gpuprof.diagnose.facts.waits import LATENCIES
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, finding
from gpuprof.diagnose.thresholds import COVERED, EMPTY_LANES, STARVED_ISSUE, TAKEN, context
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Cases

_MOST_WARPS = 32
"""Of a block: 1024 threads on every architecture (CUDA programming guide)."""


def _block_size(facts: KernelFacts) -> Findings:
    threads, filled = facts.threads_per_block, facts.filled_lanes
    parts: list[str] = []
    missing = 0.0
    confidence: Confidence = "guess" if facts.busiest_need is None else "measured"
    if facts.leaves_lanes_empty:
        parts.append("lanes")
    # Larger blocks help in the slots that small ones leave empty if all other slots are taken and no
    # unit is busy: a queue can only be full if a unit is busy. If warp states are known, they must be
    # waits that other warps cover.
    has_free_slots = facts.is_held_by_blocks and not facts.is_under_a_wave
    if has_free_slots and facts.more_warps_help:
        parts.append("slots")
        confidence = "inferred"
        # The saving of blocks with more warps, up to full occupancy.
        empty = 1.0 - (facts.occupancy.theoretical or 0.0)
        missing = min(empty, 1.0 - (facts.issue_active or 0.0), facts.stall_at_most(*LATENCIES))
    if not threads or not parts:
        return
    advice: tuple[str, ...] = ("multiple-of-32",)
    if facts.has_few_lanes or missing:
        advice = ("share" if facts.blocks == 1 else "full-warps", "one-warp")
    kept = filled * (1.0 - missing)
    if facts.has_few_lanes and facts.blocks == 1:
        kept /= _MOST_WARPS
    saving = bound_beside(facts, NOT_OF_LANES, filled).if_held(facts.working_share * (1.0 - kept), PER_WARP)
    yield finding(
        facts,
        Cases(headline=("main", *parts), why=tuple(parts), action=advice[:1], advice=advice),
        amounts=amounts_of("thread", threads=threads)
        + amounts_of("lane", lanes=facts.lanes_of_block)
        + amounts_of(occupancy=facts.occupancy.theoretical),
        confidence=confidence,
        saving=saving.only_if("same-bytes-through-l2-and-dram"),
        is_fact=facts.moves_bytes_well and not facts.has_few_lanes,
        evidence=(
            *context("threads", threads, "thread", metric="launch__block_size"),
            EMPTY_LANES.evidence(100 * (1.0 - filled)),
            *facts.theoretical_evidence(),
        ),
    )


RULE = Rule(
    "block-size",
    thresholds=(EMPTY_LANES, STARVED_ISSUE, TAKEN, COVERED),
    check=_block_size,
    survives_code_change=lambda facts: facts.leaves_lanes_empty,
    metrics=(LANES[0],),
    place=AT_WARPS,
)
