"""The rule on coalescing: excess sectors of global accesses, and the fix for each access shape."""

from __future__ import annotations

from typing import NamedTuple

from gpuprof.annotated.counts import ALL_SECTORS, EXCESS_SECTORS
from gpuprof.annotated.excess_accesses import ExcessCause, cause_of_excess, launched_code
from gpuprof.diagnose.access_shape import LINE, MOST, SHIFTED, WIDE, cases_of_shape, shape_evidence
from gpuprof.diagnose.bounds import NO_ADDRESSES, Saving, at_work, capped, explained, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.traffic import (
    GLOBAL_REQUESTS,
    GLOBAL_SECTORS,
    SECTORS_PER_REQUEST,
)
from gpuprof.diagnose.facts.unit_names import MEMORY
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.rule import AT_MEMORY, Findings, Rule, amounts_of, certainty, counts_case, finding
from gpuprof.diagnose.thresholds import BUSY, LOW, MANY_WAVEFRONTS, MEDIUM, NEAR_ROOF, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, CaseName, Cases
from gpuprof.model.session import Evidence, Location
from gpuprof.units import SECTOR_BYTES

EXCESS = percent("excess", 1.0)

_PER_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"

_MANY_SECTORS = 16.5
"""Sectors of a coalesced request of 16 bytes per thread, with a margin for edges."""

_FEW_SECTORS = 4.0
"""Sectors of a coalesced request of 4 bytes per thread."""

_NO_MORE_PASSES = "no-more-l1-wavefronts"

_LEVELS = ("l2", "dram")

_KINDS = {"ld": "load", "st": "store"}

_OPCODES = {"ld": ("LDG.", "LDGSTS.", "LD."), "st": ("STG.", "ST.")}

_MORE_THAN_SECTORS = frozenset({"wide", "neighbours", "structure", "atomics"})
"""Actions that also remove instructions: wider accesses, or sums on the chip instead of atomics."""


class _Excess(NamedTuple):
    """The excess share of sectors, the headline's cases and amounts, and the default reason.

    `may_be_single_words`: requests for a single word, which need one sector each, can look the
    same.
    `assumes`: the assumption under which no more than this fraction goes.
    """

    fraction: float
    headline: tuple[CaseName, ...]
    amounts: tuple[Amount, ...]
    evidence: tuple[Evidence, ...]
    confidence: Confidence = "inferred"
    may_be_single_words: bool = False
    why: CaseName = "not-adjacent"
    assumes: str = "same-l1-wavefronts-per-sector"


def _uncoalesced(facts: KernelFacts) -> Findings:
    excess = _excess(facts)
    if excess is None:
        return
    saving, shape = _saving(facts, excess), None
    if saving.fraction >= LOW and not facts.excess_is_of_atomics:
        shape = _shape(facts)
    cases = _cases(facts, shape, excess)
    confidence, evidence = excess.confidence, excess.evidence
    place = facts.code.place_of(EXCESS_SECTORS, ALL_SECTORS) or _only_line(facts)
    if shape is not None:
        evidence += shape_evidence(shape)
        place = shape.place or place
        if excess.may_be_single_words:
            confidence = "inferred"
    if not _MORE_THAN_SECTORS.isdisjoint(cases.action):
        saving = _without_instructions(facts).or_less(saving, *(saving.assumes or ("same-instructions",)))
    yield finding(
        facts,
        cases,
        amounts=excess.amounts,
        subject="global",
        confidence=certainty(facts, confidence),
        saving=saving,
        evidence=evidence,
        place=place,
        # All that is left is the rest to DRAM's roof, which does not see the excess.
        is_fact=not facts.excess_reaches("dram") and NEAR_ROOF.is_reached(facts.need("dram")),
    )


def _excess(facts: KernelFacts) -> _Excess | None:
    """Return the excess by exact counts, else by other counters. If exact counts show none, there is none."""
    counts = facts.counted_sectors
    if counts is None:
        return _uncounted_excess(facts) or _many_wavefronts(facts)
    fraction = min(1.0, counts.excess / counts.total) if counts.total else 0.0
    if not EXCESS.is_reached(fraction):
        return None
    return _Excess(
        fraction,
        ("sectors", counts_case(counts.total)),
        amounts_of(excess_share=fraction) + amounts_of("", excess=counts.excess, total=counts.total),
        (*counts.evidence, EXCESS.evidence(100 * fraction, "excess-share")),
        "measured",
    )


def _saving(facts: KernelFacts, excess: _Excess) -> Saving:
    """Bound the gain of coalescing: by the most that can go, or by what the counts show.

    Scattered words take a pass through L1 each but share 32-byte sectors: if L1 is full, the larger
    waste counts, unless the passes may be those of shared memory.
    """
    passes, most = facts.wavefronts_per_request, 1.0
    if facts.counted_sectors is not None and passes is not None:
        most = excess.fraction
        if passes >= MANY_WAVEFRONTS.value:
            most = max(most, 1.0 - 1.0 / passes)
    shown = max(excess.fraction, _excess_passes(facts))
    assumes = excess.assumes if shown == excess.fraction else _NO_MORE_PASSES
    saving = _coalesced(facts, shown)
    return _coalesced(facts, most).if_held(saving.fraction, *saving.assumes, assumes)


def _excess_passes(facts: KernelFacts) -> float:
    """Return the share of the passes through L1 beyond one per request if they are many and L1 is full, else 0."""
    if not facts.passes or not facts.is_scattered or not facts.is_l1_full:
        return 0.0
    return 1.0 - 1.0 / facts.passes


def _shape(facts: KernelFacts) -> ExcessCause | None:
    """Return the accesses that cause most of the excess, by counts or else by the code alone."""
    launch = launched_code(facts.code, facts.arch.name, facts.kernel.block, facts.kernel.grid)
    if launch is None:
        return None
    unused = {}
    for what, share in _unused_shares(facts).items():
        if EXCESS.is_reached(share):
            unused[_KINDS[what]] = share * (facts.number(GLOBAL_SECTORS.format(what)) or 0.0)
    return cause_of_excess(facts.code, launch, unused)


def _only_line(facts: KernelFacts) -> Location | None:
    """Return the line of all loads and stores of a kind that has an excess; None if they are on several."""
    if facts.code.has_sass and not all(facts.code.sass):
        # An instruction without a text may be an access, too.
        return None
    opcodes: list[str] = []
    for what, share in _unused_shares(facts).items():
        if EXCESS.is_reached(share):
            opcodes += _OPCODES[what]
    place = facts.code.place_of_opcode(*opcodes)
    return place if place is not None and place.share == 1.0 else None


def _cases(facts: KernelFacts, shape: ExcessCause | None, excess: _Excess) -> Cases:
    """Return the cases for the shape of the accesses, or for the possible causes without one."""
    # L2 moves no more than the global accesses need.
    stays = () if facts.excess_reaches("l2") else ("stays-in-l1",)
    why = (excess.why, *stays)
    advice: tuple[str, ...] = ("consecutive", "wide")
    if facts.excess_is_of_atomics:
        why = advice = ("atomics",)
    elif shape is not None:
        why, advice = (shape.lanes.name, *stays), cases_of_shape(shape.lanes.name).advice
    elif not SHIFTED.is_reached(excess.fraction):
        why, advice = ("small-excess",), ("align", "single-lines", "consecutive")
    elif stays:
        advice = ("wide", "otherwise", "consecutive")
    if excess.may_be_single_words and shape is None:
        why += ("or-single-words",)
    return Cases(headline=excess.headline, why=why, action=advice[:1], advice=advice)


def _keeps(facts: KernelFacts, fraction: float, *, same_data: bool) -> dict[str, float]:
    """Return the part of each memory level's need that stays after coalescing.

    Shared memory and the needed bytes stay in L1. An access may use the same part of its fetched
    data as of its sectors. Less goes if other accesses use the rest (`same_data`): then a level
    only loses what none of them needs.
    """
    keeps = {"l1": max(facts.l1_keeps(), facts.l1_keeps_bytes, 1.0 - facts.most_of_l1_by_global)}
    counts, ideal = facts.counted_sectors, facts.ideal_bytes or 0.0
    for level in _LEVELS:
        moved = facts.bytes_of(level)
        keeps[level] = 1.0 - fraction
        if counts is None or not moved:
            continue
        fetched = SECTOR_BYTES * counts.excess
        if same_data:
            keeps[level] = 1.0 - min(fetched, max(0.0, moved - ideal)) / moved
        elif moved > SECTOR_BYTES * counts.total:
            # Lines are fetched again, or around the requested sectors: that can go as well.
            keeps[level] = ideal / moved
        else:
            keeps[level] = 1.0 - min(fraction, fetched / moved)
    return keeps


def _coalesced(facts: KernelFacts, fraction: float) -> Saving:
    """Bound the gain of coalescing: arithmetic, instructions and the needed traffic stay."""
    weight = explained(facts, facts.busy_by_global)
    keeps = _keeps(facts, fraction, same_data=False)
    share = max(fraction, 1.0 - keeps["l2"], 1.0 - keeps["dram"])
    bound = capped(facts, speedup_bound(facts, keeps), share, weight)
    return bound.or_less(_with_same_data(facts, fraction, weight), "same-data-through-l2-and-dram")


def _with_same_data(facts: KernelFacts, fraction: float, weight: float) -> Saving:
    """Return the saving if other accesses use the rest of the data that an access fetches.

    L1 saves no more than its part of its busy time and of the waits for its queue. If L2 or DRAM is
    surely the limit, warps wait for that level, which loses its own part of the bytes; the other
    one saves its part of its busy time. If the excess takes little time of any level, waits for memory are
    latencies, which requests with fewer sectors hardly shorten.
    """
    keeps = _keeps(facts, fraction, same_data=True)
    stays_in_l1 = not facts.excess_reaches("l2")
    if stays_in_l1:
        keeps |= dict.fromkeys(_LEVELS, 1.0)
    saving = capped(facts, speedup_bound(facts, keeps), fraction, weight)
    needs = {level: facts.needs.get(level, 1.0) for level in MEMORY}
    needs["l1"] *= facts.most_of_l1_by_global
    limit = max(MEMORY, key=lambda level: needs[level])
    is_sure = limit != "l1" and BUSY.is_reached(facts.needs.get(limit)) and bool(facts.bytes_of(limit))
    is_little = fraction * (facts.while_active(needs[limit]) or needs[limit]) < MEDIUM
    if not (stays_in_l1 or is_sure or is_little):
        return saving
    most = fraction * at_work(facts, needs["l1"], facts.stall_at_most("lg_throttle"))
    for level in _LEVELS:
        waits = facts.waits_behind(*MEMORY_STALLS) if is_sure and level == limit else 0.0
        most = max(most, (1.0 - keeps[level]) * at_work(facts, needs[level], waits))
    return saving.no_more_than(facts.working_share * most)


def _without_instructions(facts: KernelFacts) -> Saving:
    """Bound the gain of wider accesses, or of sums on the chip, which also remove instructions.

    Instructions of shared memory and its part of L1 stay, and with wider accesses the needed bytes.
    """
    keeps = dict.fromkeys(("lsu", *MEMORY), 0.0) | NO_ADDRESSES
    if not facts.excess_is_of_atomics:
        keeps |= _keeps(facts, 1.0, same_data=False)
        keeps["l1"] = max(facts.l1_keeps_bytes, 1.0 - facts.most_of_l1_by_global)
        keeps["lsu"] = 1.0 - facts.most_of_lsu_by_global
    return speedup_bound(facts, keeps)


def _uncounted_excess(facts: KernelFacts) -> _Excess | None:
    """Return the excess by the unused shares of the sectors of loads and stores."""
    shares = _unused_shares(facts)
    if not shares:
        return None
    counted = {what: count for what in shares if (count := facts.number(GLOBAL_SECTORS.format(what)))}
    sectors = counted or dict.fromkeys(shares, 1.0)
    unused = {what: shares[what] * count for what, count in sectors.items()}
    fraction = sum(unused.values()) / sum(sectors.values())
    if not EXCESS.is_reached(fraction):
        return None
    worst = max(unused, key=lambda what: unused[what])
    kind = _KINDS[worst]
    used, ratio = facts.number(_PER_SECTOR.format(worst)), facts.request_sectors(worst)
    evidence = facts.metric(GLOBAL_SECTORS.format(worst), f"{kind}-sectors", "sector")
    evidence += facts.metric(_PER_SECTOR.format(worst), f"bytes-used-by-{kind}s", "B/sector", SECTOR_BYTES)
    if not used:
        metric = SECTORS_PER_REQUEST.format(worst) if facts.counted_request_sectors(worst) is None else ""
        role = f"sectors-per-{kind}-request"
        evidence += (Evidence(metric, ratio or 0.0, "sector/request", _MANY_SECTORS, role=role),)
        amounts = amounts_of("sector", per_request=ratio)
        return _Excess(fraction, (role,), amounts, evidence, assumes="four-bytes-per-thread")
    confidence: Confidence = "measured"
    if ratio is None:
        # Without counts of requests, single words look the same, but hardly keep L2 or DRAM busy.
        is_busy = BUSY.is_reached(max(map(facts.need, _LEVELS)))
        confidence = "inferred" if is_busy else "guess"
    amounts = amounts_of("B", used=min(used, SECTOR_BYTES))
    return _Excess(fraction, (f"bytes-of-{kind}s",), amounts, evidence, confidence, ratio is None)


def _unused_shares(facts: KernelFacts) -> dict[str, float]:
    """Return the unused share of the sectors of loads and stores, as far as known.

    It is that of the bytes of a sector, but a request needs at least one sector, even if all threads
    read the same word. Without these bytes it is known of more sectors per request than any
    coalesced access has.
    """
    shares = {}
    for what in _KINDS:
        used, ratio = facts.number(_PER_SECTOR.format(what)), facts.request_sectors(what) or 0.0
        if used:
            most = 1.0 - 1.0 / ratio if ratio else 1.0
            shares[what] = min(most, max(0.0, 1.0 - used / SECTOR_BYTES))
        elif ratio >= _MANY_SECTORS:
            shares[what] = 1.0 - _FEW_SECTORS / ratio
    return shares


def _many_wavefronts(facts: KernelFacts) -> _Excess | None:
    """Return the excess by the basic set: L1 is busy, and requests take many passes."""
    fraction, passes = _excess_passes(facts), facts.passes or 0.0
    if not fraction:
        return None
    least = "least-" if facts.wavefronts_per_request is None else ""
    return _Excess(
        fraction,
        (f"{least}wavefronts-per-request",),
        amounts_of("wavefront", per_request=passes),
        (*facts.l1_evidence(), MANY_WAVEFRONTS.evidence(passes)),
        why="many-wavefronts",
        assumes=_NO_MORE_PASSES,
    )


RULE = Rule(
    "uncoalesced-global",
    thresholds=(EXCESS, MANY_WAVEFRONTS, SHIFTED, WIDE, LINE, MOST),
    check=_uncoalesced,
    metrics=tuple(name.format(what) for name in (_PER_SECTOR, GLOBAL_SECTORS, GLOBAL_REQUESTS) for what in _KINDS),
    place=AT_MEMORY,
)
