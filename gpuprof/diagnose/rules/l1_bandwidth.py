"""L1 or its load/store unit limits the kernel."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.counters import SHARED_BUSY
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.units import REQUESTS, WAVEFRONTS
from gpuprof.diagnose.level_limits import (
    WIDE_PASSES,
    bound_of_reuse,
    change_of_shared,
    confidence_of_level,
    is_busiest_level,
    is_sm_ahead,
)
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import BUSY, MANY_WAVEFRONTS, NEAR_ROOF, Threshold, percent
from gpuprof.model.findings import MAIN
from gpuprof.model.headline import TWO_PASSES

WIDE_SECTORS = Threshold("wide-sectors", 8.0, "sector")

FROM_L2 = percent("l2-relative-to-l1", 10.0)

_AHEAD = 100 * TWO_PASSES
"""Difference of one counter between two passes of ncu, in percent."""

_ONE_PASS = 1.5


def _l1(facts: KernelFacts) -> Findings:
    fraction = facts.l1_busy
    if fraction is None or not facts.is_l1_full or is_busiest_level(facts, "l1") is False:
        return
    shared = facts.number(SHARED_BUSY)
    # The load/store unit is a part of the SM: if the SM is busier, another part of it is.
    if is_sm_ahead(facts, fraction, _AHEAD) or (shared or 0.0) >= BUSY.value:
        return
    per_request, least = facts.wavefronts_per_request, facts.least_passes
    passes = per_request if per_request is not None else least or 0.0
    is_scattered = passes >= MANY_WAVEFRONTS.value
    if is_scattered and facts.kernel.shared_memory_per_block == 0:
        # `uncoalesced-global` reports the same, with its cause.
        return
    shares = facts.uses_shared
    if shared is not None and 2 * shared < 100 * fraction:
        # Global accesses are most of the load.
        shares = False
    # Without a count, a bound shows scattered accesses, unless the kernel may use shared memory.
    many = is_scattered and (per_request is not None or shares is None)
    if many:
        kind, why = "passes", _why_many_passes(facts, shares)
    elif shares:
        kind, why = change_of_shared(facts, passes), MAIN
    else:
        kind, why = _change_of_global(facts, passes)
    headline = ["with-shared" if shares else "main"]
    time, while_working = fraction, None
    if not BUSY.is_reached(fraction):
        while_working = facts.while_active(fraction)
    if while_working is not None:
        # The kernel lasts as long as the SMs that have work; idle SMs do not make it shorter.
        while_working = min(1.0, while_working)
        time = max(fraction, facts.working_share * while_working)
        headline.append("while-working")
    if per_request is not None:
        headline.append("one-pass" if per_request < _ONE_PASS else "passes")
    yield finding(
        facts,
        cases_of(kind, tuple(headline), why),
        amounts=(
            *amounts_of(busy=fraction, while_working=while_working, l2=facts.at_most("l2")),
            *amounts_of("wavefront", passes=passes or None),
        ),
        subject="l1",
        confidence=confidence_of_level(facts, "l1"),
        saving=_fewer_passes(facts) if many else bound_of_reuse(facts, time, "l2", "dram"),
        evidence=facts.l1_evidence() + facts.stall_evidence("mio_throttle", "lg_throttle"),
        place=facts.place_of_stall("lg_throttle", "mio_throttle", "short_scoreboard", "long_scoreboard"),
    )


def _change_of_global(facts: KernelFacts, passes: float) -> tuple[str, tuple[str, ...]]:
    """Return the change for accesses of global memory and its reason: wider ones help if these are
    narrow and read new bytes."""
    if facts.mostly_rereads:
        return "reuse", ("main", "reuse")
    sectors = facts.request_sectors("ld") or 0.0
    if passes >= WIDE_PASSES.value or sectors >= WIDE_SECTORS.value:
        return "kept", ("main", "kept")
    return "main", MAIN


def _why_many_passes(facts: KernelFacts, shares: bool | None) -> tuple[str, ...]:
    """Return the cause of many passes: if L2 is idle, no scattered accesses miss L1."""
    l2 = facts.at_most("l2")
    if shares and l2 is not None and 100 * l2 < FROM_L2.value * facts.needs["l1"]:
        return ("many-passes", "idle-l2")
    return ("many-passes", "either")


def _fewer_passes(facts: KernelFacts) -> Saving:
    """Bound the gain of fewer passes, with fewer unused sectors from L2 and DRAM."""
    stays = {"l1": facts.l1_keeps()}
    bound = speedup_bound(facts, {**stays, "l2": 0.0, "dram": 0.0})
    return bound.or_less(speedup_bound(facts, stays), "same-bytes-through-l2-and-dram")


RULE = Rule(
    "l1-bandwidth",
    kind="limit",
    thresholds=(BUSY, NEAR_ROOF, MANY_WAVEFRONTS, WIDE_PASSES, WIDE_SECTORS, FROM_L2),
    check=_l1,
    metrics=(WAVEFRONTS, REQUESTS),
    place=AT_MEMORY,
)
