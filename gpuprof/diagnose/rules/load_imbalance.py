"""SMs or warps have unequal work."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.bounds import PER_WARP, bound_of_wait, without_idle
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.launch import AVERAGE_SM, BUSIEST_SM, LAUNCH_S
from gpuprof.diagnose.rule import AT_WARPS, Findings, Rule, amounts_of, cases_named, finding
from gpuprof.diagnose.thresholds import (
    IMBALANCE,
    OCCUPANCY_GAP,
    SHORT,
    SHORT_BLOCK,
    TAIL_SLACK,
    WELL_USED,
    Threshold,
    percent,
)
from gpuprof.model.findings import Cases

RAMP = Threshold("idle-time", LAUNCH_S, "s")

UNEVEN_BLOCKS = percent("idle-sms-with-block", 50.0)


def _imbalance(facts: KernelFacts) -> Findings:
    """Yield the clearest finding on uneven blocks: idle SMs by counters, else empty warp slots."""
    idle, empty = facts.idle_sms, facts.occupancy_gap
    if facts.is_under_a_wave:
        yield from _uneven_few_blocks(facts)
    elif facts.busiest_share is None and _is_idle_late(facts):
        # Only the busiest SM would show the cause.
        yield finding(
            facts,
            cases_named("average-sm"),
            amounts=amounts_of(idle=1.0 - (facts.active_share or 0.0)),
            confidence="inferred",
            saving=without_idle(facts, facts.late_share),
            evidence=(*facts.active_evidence(), IMBALANCE.evidence(100 * facts.late_share, "idle-beyond-launch")),
        )
    elif idle is not None and not facts.is_tail_measured and not _is_expected(facts, idle):
        yield finding(
            facts,
            Cases(headline=("busiest-sm",)),
            amounts=amounts_of(longer=idle / (1 - idle)),
            # A small grid leaves SMs idle, too, if it is not known how many it can fill.
            confidence="guess" if facts.with_block is None else "measured",
            saving=without_idle(facts, facts.working_share * idle),
            evidence=(
                *facts.metrics_as({BUSIEST_SM: "busiest-sm", AVERAGE_SM: "average-sm"}, "cycle"),
                IMBALANCE.evidence(100 * idle, "idle-average-sm"),
            ),
        )
    elif empty is not None and not facts.has_short_blocks:
        # Occupancy is low although blocks are long: warps or blocks end at different times.
        yield finding(
            facts,
            Cases(headline=("occupancy",), why=("occupancy",)),
            amounts=amounts_of(achieved=facts.occupancy.achieved, theoretical=facts.occupancy.theoretical),
            confidence="guess",
            saving=replace(bound_of_wait(facts, empty), assumes=(PER_WARP,)),
            is_fact=(facts.busiest or 0.0) >= WELL_USED,
            evidence=facts.gap_evidence(),
        )


def _uneven_few_blocks(facts: KernelFacts) -> Findings:
    """Yield a finding if SMs with a block are idle early although all blocks start at once.

    If all SMs have a block, only the busiest one shows that the time is not that of the launch.
    """
    active, busiest, duration = facts.active_with_block, facts.busiest_share, facts.kernel.duration_s
    if active is None or duration is None or (busiest is None and facts.with_block == 1.0):
        return
    working = min(1.0, active / (busiest or 1.0))
    idle = 1.0 - working
    if not UNEVEN_BLOCKS.is_reached(idle) or idle * duration < SHORT.value:
        return
    yield finding(
        facts,
        Cases(headline=("few-blocks",), why=("few-blocks",)),
        amounts=amounts_of(working=working),
        confidence="inferred",
        saving=without_idle(facts, facts.late_share, PER_WARP),
        evidence=(
            *facts.active_evidence(),
            UNEVEN_BLOCKS.evidence(100 * idle, "idle-with-block"),
        ),
    )


def _is_idle_late(facts: KernelFacts) -> bool:
    """Return whether an average SM idles longer than the launch and a partial last wave take, with
    blocks for all SMs."""
    late, is_counted = facts.late_share, facts.waves or facts.sms_or_implied
    if facts.kernel.duration_s is None or not is_counted or facts.with_block != 1.0 or _is_expected(facts, late):
        return False
    return 100 * (late - (facts.tail or 0.0)) > TAIL_SLACK.value


def _is_expected(facts: KernelFacts, idle: float) -> bool:
    """Return whether SMs idle this long with equal blocks: shortly, or between short blocks."""
    if not IMBALANCE.is_reached(idle) or facts.idles_between_blocks:
        return True
    return facts.kernel.duration_s is not None and idle * facts.kernel.duration_s < RAMP.value


RULE = Rule(
    "load-imbalance",
    thresholds=(IMBALANCE, RAMP, UNEVEN_BLOCKS, SHORT_BLOCK, TAIL_SLACK, OCCUPANCY_GAP),
    check=_imbalance,
    metrics=(BUSIEST_SM, AVERAGE_SM),
    place=AT_WARPS,
)
