"""L1 or its load/store unit limits the kernel."""

from __future__ import annotations

import math

from gpuprof.diagnose.bounds import speedup_bound
from gpuprof.diagnose.facts.counters import SHARED_BUSY
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import SM
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
from gpuprof.diagnose.thresholds import BUSY, EMPTY_SLOTS, MANY_WAVEFRONTS, NEAR_ROOF, Threshold
from gpuprof.model.findings import MAIN
from gpuprof.model.headline import AS_BUSY, TWO_PASSES

WIDE_SECTORS = Threshold("wide-sectors", 8.0, "sector")

_AHEAD = 100 * TWO_PASSES
"""Difference of one counter between two passes of ncu, in percent."""

_SAME = 0.001
"""Difference of one number in two rows of a report."""


def _l1(facts: KernelFacts) -> Findings:
    fraction, shared = facts.need("l1"), facts.number(SHARED_BUSY)
    if not facts.is_l1_full or is_busiest_level(facts, "l1") is False:
        return
    # The load/store unit is a part of the SM: if the SM is busier, another part of it is.
    if is_sm_ahead(facts, fraction, _AHEAD) or (shared or 0.0) >= BUSY.value:
        return
    if facts.is_scattered or facts.l1_has_room:
        # `uncoalesced-global` and `small-grid` report the same, with its cause.
        return
    shares = facts.uses_shared
    if shared is not None and 2 * shared < 100 * fraction:
        # Global accesses are most of the load.
        shares = False
    kind = _change(facts, fraction, shares)
    headline = [kind if kind == "instructions" else _ACCESSES[shares]]
    time, while_working = fraction, None
    if not BUSY.is_reached(fraction):
        # The kernel lasts as long as the SMs that have work; idle SMs do not make it shorter.
        while_working = min(1.0, facts.while_active(fraction) or 0.0)
        time = max(fraction, facts.working_share * while_working)
        headline.append("while-working")
    passes = facts.wavefronts_per_request
    if (passes or 0.0) >= WIDE_PASSES.value:
        headline.append("passes")
    saving = bound_of_reuse(facts, time, "l2", "dram")
    if kind == "passes":
        saving = speedup_bound(facts, {"l1": facts.l1_keeps()}).only_if(
            "same-accesses", "same-bytes-through-l2-and-dram"
        )
    yield finding(
        facts,
        cases_of(kind, tuple(headline), _WHY.get(kind, MAIN)),
        amounts=amounts_of(busy=fraction, while_working=while_working) + amounts_of("wavefront", passes=passes),
        subject="l1",
        confidence=confidence_of_level(facts, "l1", fraction),
        saving=saving,
        evidence=facts.l1_evidence() + facts.stall_evidence("mio_throttle", "lg_throttle"),
        place=facts.code.place_of_stall("lg_throttle", "mio_throttle", "short_scoreboard", "long_scoreboard"),
    )


_ACCESSES = {True: "with-shared", False: "main", None: "either"}
"""Cases of the headline, by whether blocks use shared memory."""
_WHY = {
    "passes": ("passes",),
    "reuse": ("main", "reuse"),
    "instructions": ("instructions",),
    "kept": ("main", "kept"),
    "other-part": ("main", "other-part"),
}
"""Cases of the reason, by the change, if it is more than that L1 is busy."""


def _change(facts: KernelFacts, fraction: float, shares: bool | None) -> str:
    """Return the change that relieves L1: wider global accesses help if these are narrow and read new bytes.

    The load/store unit can also be full of instructions, however many bytes they move. The speeds of
    light of the SM and of memory are equal if their busiest part is the same one: the pipe of loads,
    stores and shuffles. That of memory has L1's data pipe and requests in it.
    """
    passes, sm = facts.passes or 0.0, facts.utilisation.get(SM, 0.0)
    memory = facts.utilisation.get("memory", math.inf)
    if passes >= MANY_WAVEFRONTS.value:
        kind = "passes"
    elif shares:
        kind = change_of_shared(facts)
    elif facts.mostly_rereads:
        kind = "reuse"
    elif abs(sm - memory) <= _SAME and sm >= AS_BUSY * fraction:
        kind = "instructions"
    elif shares is None:
        kind = "either"
    elif memory < AS_BUSY * fraction:
        kind = "other-part"
    elif passes >= WIDE_PASSES.value or (facts.request_sectors("ld") or 0.0) >= WIDE_SECTORS.value:
        kind = "kept"
    else:
        kind = "main"
    return kind


RULE = Rule(
    "l1-bandwidth",
    kind="limit",
    thresholds=(BUSY, NEAR_ROOF, MANY_WAVEFRONTS, WIDE_PASSES, WIDE_SECTORS, EMPTY_SLOTS),
    check=_l1,
    metrics=(WAVEFRONTS, REQUESTS),
    place=AT_MEMORY,
)
