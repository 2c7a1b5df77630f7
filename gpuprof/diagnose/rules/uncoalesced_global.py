"""The rule on coalescing: excess sectors of global accesses, and the fix for each access shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.diagnose.access_shape import (
    LINE,
    MOST,
    SHIFTED,
    WIDE,
    FoundShape,
    cases_of_shape,
    request_evidence,
    worst_of,
)
from gpuprof.diagnose.bounds import Saving, at_work, capped, explained, speedup_bound
from gpuprof.diagnose.facts.code import EXECUTED
from gpuprof.diagnose.facts.counters import SHARED_BUSY
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ADDRESS_PIPES, ISSUE, MEMORY
from gpuprof.diagnose.facts.traffic import (
    ALL_SECTORS,
    EXCESS_SECTORS,
    GLOBAL_REQUESTS,
    GLOBAL_SECTORS,
    SECTORS_PER_REQUEST,
    CountedSectors,
)
from gpuprof.diagnose.facts.waits import MEMORY_STALLS
from gpuprof.diagnose.rule import AT_MEMORY, Rule, amounts_of, counts_case, finding
from gpuprof.diagnose.thresholds import BUSY, LOW, MANY_WAVEFRONTS, WELL_USED, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, CaseName, Cases
from gpuprof.model.session import Evidence, Finding, Location
from gpuprof.units import SECTOR_BYTES

EXCESS = percent("excess", 1.0)

IN_L2 = percent("in-l2", 90.0)

_PER_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"

_PERCENT_PER_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.pct"

_MANY_SECTORS = 16.5
"""Sectors of a coalesced request of 16 bytes per thread, with a margin for edges."""

_FEW_SECTORS = 4.0
"""Sectors of a coalesced request of 4 bytes per thread."""

_LANE_BYTES = 16
"""The most bytes that a thread accesses at once."""

_LEVELS = ("l2", "dram")

_L2_HITS = "lts__t_sector_hit_rate.pct"

_KINDS = {"ld": "load", "st": "store"}

_SAME_DATA = "same-data-through-l2-and-dram"

_SAME_INSTRUCTIONS = "same-instructions"

_SMALL_EXCESS = Cases(why=("small-excess",), action=("align",), advice=("align", "single-lines", "consecutive"))

_CAUGHT = Cases(action=("wide",), advice=("wide", "otherwise", "consecutive"))

_SCATTERED = Cases(action=("consecutive",), advice=("consecutive", "wide"))

_MAY_BE_WIDER = frozenset({"wide", "neighbours", "structure"})
"""Actions that may be wider accesses, which also remove instructions."""


class _Excess(NamedTuple):
    """The excess share of sectors, the headline's cases and amounts, and the default reason.

    `may_be_single_words`: requests for a single word, which need one sector each, can look the
    same.
    `in_l1_alone`: the counts are of requests at L1; it is unknown whether the excess reaches L2 and
    DRAM.
    """

    fraction: float
    headline: tuple[CaseName, ...]
    amounts: tuple[Amount, ...]
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    may_be_single_words: bool = False
    in_l1_alone: bool = False
    why: CaseName = "not-adjacent"


def _uncoalesced(facts: KernelFacts) -> Iterator[Finding]:
    counts = facts.counted_sectors
    if counts is None:
        excess = _unused_bytes(facts) or _sectors_per_request(facts) or _many_wavefronts(facts)
    else:
        excess = _counted_excess(counts)
    if excess is None:
        return
    most = excess
    passes = facts.wavefronts_per_request
    if passes is not None and passes >= MANY_WAVEFRONTS.value:
        # Passes beyond one per request, including those of shared memory.
        most = excess._replace(fraction=max(excess.fraction, 1.0 - 1.0 / passes))
    if counts is not None and facts.kernel.shared_memory_per_block == 0:
        # Scattered words cost a pass each but share 32-byte sectors: the larger waste counts.
        excess = most
    saving = _coalesced(facts, most)
    saving = saving.if_held(_coalesced(facts, excess).fraction, "same-l1-wavefronts-per-sector")
    shape = None
    place = facts.place_of(EXCESS_SECTORS, ALL_SECTORS)
    if saving.fraction >= LOW:
        shape = _shape(facts)
        place = place or _place_without_text(facts)
    cases = replace(_cases(facts, shape, excess), headline=excess.headline)
    if not _MAY_BE_WIDER.isdisjoint(cases.action):
        assumes = saving.assumes or (_SAME_INSTRUCTIONS,)
        saving = _widened(facts, excess).if_held(saving.fraction, *assumes)
    confidence = excess.confidence
    if shape is not None:
        evidence = shape.evidence
        place = shape.location or place
        if excess.may_be_single_words:
            confidence = "inferred"
    else:
        evidence = _worst_request(facts)
        if excess.may_be_single_words:
            cases = replace(cases, why=(*cases.why, "or-single-words"))
    yield finding(
        facts,
        cases,
        amounts=excess.amounts,
        subject="global",
        confidence=confidence,
        saving=saving,
        evidence=excess.evidence + evidence,
        place=place,
    )


def _worst_request(facts: KernelFacts) -> tuple[Evidence, ...]:
    """Return the sectors per request of the instruction with most excess, if counted."""
    counted = [item for item in facts.code if item.counts.get(EXCESS_SECTORS) and item.counts.get(EXECUTED)]
    return (request_evidence(worst_of(counted)),) if counted else ()


def _shape(facts: KernelFacts) -> FoundShape | None:
    """Return the shape of the accesses with most excess, by counts or else by the code alone."""
    from gpuprof.diagnose.by_code import shape_by_code
    from gpuprof.diagnose.excess_shape import shape_of_excess

    if any(name in item.counts for item in facts.code for name in (EXCESS_SECTORS, ALL_SECTORS)):
        return shape_of_excess(facts)
    unused = _unused_sectors(facts)
    return shape_by_code(facts, unused) if unused else None


def _place_without_text(facts: KernelFacts) -> Location | None:
    """Return the only line that can cause most of the excess if the report has no SASS text."""
    if not facts.code or facts.has_sass:
        return None
    from gpuprof.diagnose.by_code import only_line

    return only_line(facts, _unused_sectors(facts))


def _unused_sectors(facts: KernelFacts) -> dict[str, float | None]:
    """Return the excess sectors of loads and stores, if they have any.

    None if only their share is known.
    """
    unused: dict[str, float | None] = {}
    for what, kind in _KINDS.items():
        sectors = facts.number(GLOBAL_SECTORS.format(what))
        requests = facts.number(GLOBAL_REQUESTS.format(what))
        used = _used_bytes(facts, what)
        ratio = facts.request_sectors(what)
        fraction = 0.0
        if used is not None:
            fraction = 1.0 - used.value / SECTOR_BYTES
            if sectors and requests:
                fraction = min(fraction, 1.0 - requests / sectors)
        elif ratio is not None and ratio >= _MANY_SECTORS:
            fraction = 1.0 - _FEW_SECTORS / ratio
        if EXCESS.is_reached(fraction):
            unused[kind] = fraction * sectors if sectors else None
    return unused


def _cases(facts: KernelFacts, shape: FoundShape | None, excess: _Excess) -> Cases:
    """Return the cases for the shape of the accesses, or for the possible causes without one."""
    if shape is not None:
        cases = cases_of_shape(shape.name)
        return replace(cases, why=cases.why + _past_l1(facts))
    if not SHIFTED.is_reached(excess.fraction):
        return _SMALL_EXCESS
    why = (excess.why, *_past_l1(facts))
    if _stays_in_l1(facts):
        return replace(_CAUGHT, why=why)
    if facts.bytes_of("l2") is None and facts.hit_rates.get("l1", -1.0) >= excess.fraction:
        return replace(_CAUGHT, why=(*why, "hits-in-l1"))
    cases = replace(_SCATTERED, why=why)
    if (facts.number(_L2_HITS) or 0.0) < IN_L2.value:
        return cases
    return replace(cases, action=(*cases.action, "or-table"), advice=(*cases.advice, "table"))


def _past_l1(facts: KernelFacts) -> tuple[CaseName, ...]:
    """Return which levels below L1 move more than the global accesses need, by counts.

    Nothing if that is not known.
    """
    if _stays_in_l1(facts):
        return ("stays-in-l1",)
    if facts.ideal_bytes is None:
        return ()
    levels = [level for level in _LEVELS if facts.bytes_per_s_of(level) is not None and facts.excess_reaches(level)]
    return (f"moved-by-{'-and-'.join(levels)}",) if levels else ()


def _stays_in_l1(facts: KernelFacts) -> bool:
    """Return whether L2 is known to move no more than the global accesses need."""
    return facts.bytes_of("l2") is not None and not facts.excess_reaches("l2")


class _Levels(NamedTuple):
    """The part of each memory level's need that stays, and the largest share that goes.

    `keeps_of_same_data` is the part that stays if other accesses use the rest of the fetched data.
    """

    keeps: Mapping[str, float]
    keeps_of_same_data: Mapping[str, float]
    share: float


def _levels(facts: KernelFacts, excess: _Excess) -> _Levels:
    """Return the part of each memory level's need that stays after coalescing.

    An access may use the same part of its fetched data as of its sectors. Less goes if other
    accesses use the rest: then a level only loses what none of them needs. If the excess was seen
    in L1 alone and a level was not measured, nothing is assumed to stay there, because its need may
    stay whole or go with the excess.
    """
    share = excess.fraction
    keeps = {"l1": facts.l1_keeps(facts.number(SHARED_BUSY)), **dict.fromkeys(_LEVELS, 1.0 - share)}
    keeps_of_same_data = dict(keeps)
    counts = facts.counted_sectors
    ideal = facts.ideal_bytes
    for level in _LEVELS:
        moved = facts.bytes_of(level)
        if excess.in_l1_alone and moved is None:
            keeps[level] = keeps_of_same_data[level] = 0.0
        if counts is None or ideal is None or not moved:
            continue
        fetched = SECTOR_BYTES * max(0.0, counts.excess)
        keeps[level] = 1.0 - min(excess.fraction, fetched / moved)
        keeps_of_same_data[level] = 1.0 - min(fetched, max(0.0, moved - ideal)) / moved
        if moved > SECTOR_BYTES * counts.total:
            # Lines are fetched again, or around the requested sectors: that can go as well.
            keeps[level] = ideal / moved
            share = max(share, 1.0 - ideal / moved)
    return _Levels(keeps, keeps_of_same_data, share)


def _coalesced(facts: KernelFacts, excess: _Excess) -> Saving:
    """Bound the gain of coalescing: arithmetic, instructions and the needed traffic stay."""
    keeps, keeps_of_same_data, share = _levels(facts, excess)
    weight = explained(facts, facts.memory_busy, MEMORY_STALLS)
    same_data = capped(facts, speedup_bound(facts, keeps_of_same_data), excess.fraction, weight)
    if _stays_in_l1(facts):
        l1 = max(facts.needs.get("l1", 1.0), facts.stall("lg_throttle"))
        same_data = capped(
            facts, speedup_bound(facts, {"l1": keeps["l1"]}), excess.fraction, min(weight, l1 / WELL_USED)
        )
    most = min(same_data.fraction, facts.working_share * _at_limit(facts, excess, keeps_of_same_data))
    return capped(facts, speedup_bound(facts, keeps), share, weight).if_held(most, _SAME_DATA)


def _at_limit(facts: KernelFacts, excess: _Excess, keeps: Mapping[str, float]) -> float:
    """Return the maximum saving with the same data if L2 or DRAM is surely the limit; else 1.

    Warps then wait for that level, which loses its own part of the bytes. The other levels save no
    more than their part of their busy time, and L1 no more than its part of the waits for its
    queue.
    """
    needs = facts.needs
    if not needs.keys() >= set(MEMORY):
        return 1.0
    limit = max(MEMORY, key=lambda level: needs[level])
    if limit == "l1" or not BUSY.is_reached(needs[limit]) or not facts.bytes_of(limit):
        return 1.0
    most = excess.fraction * at_work(facts, needs["l1"], facts.stall_at_most("lg_throttle"))
    for level in _LEVELS:
        waits = 0.0
        if level == limit:
            waits = facts.stall_at_most(*MEMORY_STALLS, "barrier", "membar")
        most = max(most, (1.0 - keeps[level]) * at_work(facts, needs[level], waits))
    return most


def _widened(facts: KernelFacts, excess: _Excess) -> Saving:
    """Bound the gain of wider accesses, which also remove instructions and address arithmetic."""
    spared = dict.fromkeys(("l1", "lsu", ISSUE, *ADDRESS_PIPES), 0.0)
    return speedup_bound(facts, {**_levels(facts, excess).keeps, **spared})


def _counted_excess(counts: CountedSectors) -> _Excess | None:
    """Return the excess by exact counts. If they show none, there is none."""
    if not counts.total or not EXCESS.is_reached(counts.excess / counts.total):
        return None
    fraction = min(1.0, counts.excess / counts.total)
    return _Excess(
        fraction,
        ("sectors", counts_case(counts.total)),
        amounts_of(excess_share=fraction) + amounts_of("", excess=counts.excess, total=counts.total),
        "measured",
        evidence=(*counts.evidence, EXCESS.evidence(100 * fraction, "excess-share")),
    )


def _unused_bytes(facts: KernelFacts) -> _Excess | None:
    """Return the excess by the bytes of each 32-byte sector that threads use.

    A request needs at least one sector, so a sector of which all threads read the same word is no
    excess.
    """
    known: dict[str, float] = {}
    counted: dict[str, float] = {}
    evidence: tuple[Evidence, ...] = ()
    for what in _KINDS:
        used = _used_bytes(facts, what)
        if used is None:
            continue
        known[what] = used.value
        evidence += used.evidence
        count = facts.number(GLOBAL_SECTORS.format(what))
        if count:
            counted[what] = count
    if not known:
        return None
    weights = counted or dict.fromkeys(known, 1.0)
    every = used_bytes = requests = 0.0
    wasteful = []
    has_requests = True
    may_be_single_words = False
    for what, weight in weights.items():
        every += weight
        used_bytes += known[what] * weight
        per_request = facts.request_sectors(what)
        if per_request:
            requests += weight / per_request
        else:
            has_requests = False
            may_be_single_words |= known[what] < SECTOR_BYTES
        if EXCESS.is_reached(1.0 - known[what] / SECTOR_BYTES):
            wasteful.append(what)
    mean = used_bytes / every
    fraction = 1.0 - mean / SECTOR_BYTES
    if has_requests:
        fraction = min(fraction, 1.0 - requests / every)
    if not EXCESS.is_reached(fraction):
        return None
    headline = "bytes-per-sector"
    if len(wasteful) == 1 and len(weights) > 1:
        headline = f"bytes-of-{_KINDS[wasteful[0]]}s"
        mean = known[wasteful[0]]
    confidence: Confidence = "measured"
    if may_be_single_words:
        # Without counts of requests, single words look the same, but hardly keep L2 or DRAM busy.
        is_busy = any(BUSY.is_reached(facts.needs.get(level)) for level in _LEVELS)
        confidence = "inferred" if is_busy else "guess"
    return _Excess(fraction, (headline,), amounts_of("B", used=mean), confidence, evidence, may_be_single_words)


class _Used(NamedTuple):
    """The used bytes of a sector, and their counter as evidence."""

    value: float
    evidence: tuple[Evidence, ...]


def _used_bytes(facts: KernelFacts, what: str) -> _Used | None:
    """Return the bytes of a sector that loads or stores use.

    None if there are none or they were not collected.
    """
    name, percent_name = _PER_SECTOR.format(what), _PERCENT_PER_SECTOR.format(what)
    role = f"bytes-used-by-{_KINDS[what]}s"
    value, of_sector = facts.number(name), facts.number(percent_name)
    if value:
        return _Used(min(value, SECTOR_BYTES), facts.metric(name, role, "B/sector", SECTOR_BYTES))
    if value is None and of_sector:
        return _Used(min(of_sector / 100, 1.0) * SECTOR_BYTES, facts.metric(percent_name, role, "%", 100.0))
    return None


def _sectors_per_request(facts: KernelFacts) -> _Excess | None:
    """Return the excess by a number of sectors per request that no coalesced access has."""
    if facts.number(ALL_SECTORS) is not None:
        return None
    for what, kind in _KINDS.items():
        ratio = facts.request_sectors(what)
        if ratio is None or ratio < _MANY_SECTORS:
            continue
        metric = SECTORS_PER_REQUEST.format(what) if facts.counted_request_sectors(what) is None else ""
        role = f"sectors-per-{kind}-request"
        sectors = facts.metric(GLOBAL_SECTORS.format(what), f"{kind}-sectors", "sector")
        return _Excess(
            1.0 - _FEW_SECTORS / ratio,
            (role,),
            amounts_of("sector", per_request=ratio),
            "inferred",
            evidence=(*sectors, Evidence(metric, ratio, "sector/request", _MANY_SECTORS, role=role)),
            in_l1_alone=True,
        )
    return None


def _many_wavefronts(facts: KernelFacts) -> _Excess | None:
    """Return the excess by the basic set: L1 is busy, and requests take many passes."""
    headline = "wavefronts-per-request"
    ratio = facts.wavefronts_per_request
    if ratio is None:
        headline = "least-wavefronts-per-request"
        ratio = facts.least_passes
    if ratio is None or ratio < MANY_WAVEFRONTS.value or not facts.is_l1_full or facts.uses_shared:
        return None
    return _Excess(
        1.0 - 1.0 / ratio,
        (headline,),
        amounts_of("wavefront", per_request=ratio),
        "inferred" if facts.kernel.shared_memory_per_block is not None else "guess",
        evidence=(*facts.l1_evidence(), MANY_WAVEFRONTS.evidence(ratio)),
        in_l1_alone=True,
        why="many-wavefronts",
    )


RULE = Rule(
    "uncoalesced-global",
    kind="defect",
    thresholds=(EXCESS, MANY_WAVEFRONTS, SHIFTED, WIDE, LINE, MOST, IN_L2),
    check=_uncoalesced,
    metrics=tuple(name.format(what) for name in (_PER_SECTOR, GLOBAL_SECTORS, GLOBAL_REQUESTS) for what in _KINDS),
    place=AT_MEMORY,
)
