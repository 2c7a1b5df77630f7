"""The rule on coalescing: excess sectors of global accesses, and the fix for each shape of access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct
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
from gpuprof.diagnose.blocks import has_few_lanes
from gpuprof.diagnose.case import EXECUTED, MEMORY_STALLS, WELL_USED, Case
from gpuprof.diagnose.limits import BUSY, MANY_WAVEFRONTS, is_l1_full, l1_evidence, uses_shared
from gpuprof.diagnose.needs import ADDRESS_PIPES, ISSUE, MEMORY, Saving
from gpuprof.diagnose.rule import AT_MEMORY, LOW, Cause, Rule, amounts_of, finding, percent
from gpuprof.diagnose.traffic import (
    ALL_SECTORS,
    EXCESS_SECTORS,
    GLOBAL_REQUESTS,
    GLOBAL_SECTORS,
    SECTORS_PER_REQUEST,
    SHARED_BUSY,
    CountedSectors,
    at_work,
    bytes_of,
    capped,
    counted_request_sectors,
    counted_sectors,
    counts_case,
    excess_reaches,
    explained,
    ideal_bytes,
    l1_keeps,
    least_passes,
    memory_busy,
    rate_of,
    request_sectors,
    wavefronts_per_request,
)  # fmt: skip
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
_ASKS_FOR_WIDE = frozenset({"wide", "neighbours"})
"""Actions that are wider accesses."""


class _Excess(Struct, frozen=True):
    """The excess share of the sectors, the cases and amounts of the headline, and the reason if no shape is known.

    `may_be_single_words`: requests for a single word, which need one sector each, can look the same.
    `in_l1_alone`: the counts are of requests at L1; it is unknown whether the excess reaches L2 and DRAM.
    """

    fraction: float
    headline: tuple[CaseName, ...]
    amounts: tuple[Amount, ...]
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    may_be_single_words: bool = False
    in_l1_alone: bool = False
    why: CaseName = "not-adjacent"


def _uncoalesced(case: Case) -> Iterator[Finding]:
    counts, passes = counted_sectors(case), _passes_at_most(case)
    if counts is None:
        excess = _unused_bytes(case) or _sectors_per_request(case) or _many_wavefronts(case)
    else:
        excess = _counted_excess(counts)
    if excess is None:
        return
    most = replace(excess, fraction=max(excess.fraction, passes))
    if counts is not None and case.kernel.shared_memory_per_block == 0:
        # Scattered words of 4 bytes cost a pass each but share sectors of 32 bytes. The larger waste is the bound.
        excess = most
    saving = _coalesced(case, most).if_held(_coalesced(case, excess).fraction, "same-l1-wavefronts-per-sector")
    is_notable = saving.fraction >= LOW
    shape = _shape(case) if is_notable else None
    cases = _cases(case, shape, excess)
    is_open = excess.may_be_single_words and shape is None
    if not _MAY_BE_WIDER.isdisjoint(cases.action):
        saving = _widened(case, excess).if_held(saving.fraction, *(saving.assumes or (_SAME_INSTRUCTIONS,)))
    yield finding(
        case,
        replace(cases, headline=excess.headline, why=(*cases.why, "or-single-words") if is_open else cases.why),
        amounts=excess.amounts,
        subject="global",
        confidence=excess.confidence if is_open or not excess.may_be_single_words else "inferred",
        saving=saving,
        evidence=(*excess.evidence, *(shape.evidence if shape is not None else _worst_request(case))),
        place=(shape.location if shape is not None else None)
        or case.place_of(EXCESS_SECTORS, ALL_SECTORS)
        or (_place_without_text(case) if is_notable else None),
    )


def _worst_request(case: Case) -> tuple[Evidence, ...]:
    """Return the sectors per request of the instruction with most excess, if its counts are known."""
    counted = [item for item in case.code if item.counts.get(EXCESS_SECTORS) and item.counts.get(EXECUTED)]
    return (request_evidence(worst_of(counted)),) if counted else ()


def asks_for_wide_accesses(found: Finding) -> bool:
    """Return whether the fix of this rule's finding is wider accesses, as for narrow ones."""
    return not _ASKS_FOR_WIDE.isdisjoint(found.cases.action)


def _shape(case: Case) -> FoundShape | None:
    """Return the shape of the accesses with most excess, by counts of instructions or if the code allows no other."""
    from gpuprof.diagnose.by_code import shape_by_code
    from gpuprof.diagnose.lane_shapes import shape_of_excess

    if any(name in item.counts for item in case.code for name in (EXCESS_SECTORS, ALL_SECTORS)):
        return shape_of_excess(case)
    unused = _unused_sectors(case)
    return shape_by_code(case, unused) if unused else None


def _place_without_text(case: Case) -> Location | None:
    """Return the only line that can cause most of the excess if the report has no SASS text."""
    if not case.code or case.has_sass:
        return None
    from gpuprof.diagnose.by_code import only_line

    return only_line(case, _unused_sectors(case))


def _unused_sectors(case: Case) -> dict[str, float | None]:
    """Return the excess sectors of loads and stores, if they have any; None if only their share is known."""
    unused: dict[str, float | None] = {}
    for what, kind in _KINDS.items():
        sectors = case.number(GLOBAL_SECTORS.format(what))
        requests = case.number(GLOBAL_REQUESTS.format(what))
        used = _used_bytes(case, what)
        ratio = request_sectors(case, what)
        fraction = 0.0
        if used is not None:
            fraction = 1.0 - used.value / SECTOR_BYTES
            fraction = min(fraction, 1.0 - requests / sectors) if sectors and requests else fraction
        elif ratio is not None and ratio >= _MANY_SECTORS:
            fraction = 1.0 - _FEW_SECTORS / ratio
        if EXCESS.is_reached(fraction):
            unused[kind] = fraction * sectors if sectors else None
    return unused


def _cases(case: Case, shape: FoundShape | None, excess: _Excess) -> Cases:
    """Return the cases for the shape of the accesses, or without one for the causes that counters leave possible."""
    if shape is not None:
        cases = cases_of_shape(shape.name)
        return replace(cases, why=(*cases.why, *_past_l1(case)))
    if not SHIFTED.is_reached(excess.fraction):
        return _SMALL_EXCESS
    why = (excess.why, *_past_l1(case))
    if _stays_in_l1(case):
        return replace(_CAUGHT, why=why)
    if bytes_of(case, "l2") is None and case.hit_rates.get("l1", -1.0) >= excess.fraction:
        return replace(_CAUGHT, why=(*why, "hits-in-l1"))
    cases = replace(_SCATTERED, why=why)
    if (case.number(_L2_HITS) or 0.0) < IN_L2.value:
        return cases
    return replace(cases, action=(*cases.action, "or-table"), advice=(*cases.advice, "table"))


def _past_l1(case: Case) -> tuple[CaseName, ...]:
    """Return which levels below L1 move more than the global accesses need, by counts; nothing if that is not known."""
    if _stays_in_l1(case):
        return ("stays-in-l1",)
    if ideal_bytes(case) is None:
        return ()
    counted = (level for level in _LEVELS if rate_of(case, level) is not None)
    levels = [level for level in counted if excess_reaches(case, level)]
    return (f"moved-by-{'-and-'.join(levels)}",) if levels else ()


def _stays_in_l1(case: Case) -> bool:
    """Return whether L2 is known to move no more than the global accesses need."""
    return bytes_of(case, "l2") is not None and not excess_reaches(case, "l2")


class _Levels(NamedTuple):
    """The part of each memory level's need that stays, and the largest share that goes at any level.

    `keeps_of_same_data` is the part that stays if other accesses use the rest of the fetched data.
    """

    keeps: Mapping[str, float]
    keeps_of_same_data: Mapping[str, float]
    share: float


def _levels(case: Case, excess: _Excess) -> _Levels:
    """Return the part of each memory level's need that stays after coalescing.

    An access may use the same part of its fetched data as of its sectors. Less goes if other accesses use the rest:
    then a level only loses what none of them needs. If the excess was seen in L1 alone and a level was not measured,
    nothing is assumed to stay there, because its need may stay whole or go with the excess.
    """
    share = excess.fraction
    keeps = {"l1": l1_keeps(case, case.number(SHARED_BUSY)), **dict.fromkeys(_LEVELS, 1.0 - share)}
    if excess.in_l1_alone:
        keeps.update((level, 0.0) for level in _LEVELS if bytes_of(case, level) is None)
    keeps_of_same_data = dict(keeps)
    counts, ideal = counted_sectors(case), ideal_bytes(case)
    for level in _LEVELS:
        moved = bytes_of(case, level)
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


def _coalesced(case: Case, excess: _Excess) -> Saving:
    """Bound the gain of coalescing: arithmetic, instructions and the needed part of each memory level stay."""
    keeps, keeps_of_same_data, share = _levels(case, excess)
    weight = explained(case, memory_busy(case), MEMORY_STALLS)
    same_data = capped(case, case.saving(keeps_of_same_data), excess.fraction, weight)
    if _stays_in_l1(case):
        l1 = max(case.needs.get("l1", 1.0), case.stall("lg_throttle"))
        same_data = capped(case, case.saving({"l1": keeps["l1"]}), excess.fraction, min(weight, l1 / WELL_USED))
    most = min(same_data.fraction, case.working_share * _at_limit(case, excess, keeps_of_same_data))
    return capped(case, case.saving(keeps), share, weight).if_held(most, _SAME_DATA)


def _at_limit(case: Case, excess: _Excess, keeps: Mapping[str, float]) -> float:
    """Return the most that can be saved with the same data if L2 or DRAM is surely the limit; else 1.

    Warps then wait for that level, which loses its own part of the bytes. The other levels save no more than their
    part of their busy time, and L1 no more than its part of the waits for its queue.
    """
    levels = {level: need for level in MEMORY if (need := case.needs.get(level)) is not None}
    limit = max(levels, key=lambda level: levels[level], default="l1")
    if len(levels) < len(MEMORY) or limit == "l1" or not BUSY.is_reached(levels[limit]) or not bytes_of(case, limit):
        return 1.0
    goes = {level: 1.0 - keeps[level] for level in _LEVELS} | {"l1": excess.fraction}
    waits = {limit: case.stall_at_most(*MEMORY_STALLS, "barrier", "membar"), "l1": case.stall_at_most("lg_throttle")}
    return max(goes[level] * at_work(case, need, waits.get(level, 0.0)) for level, need in levels.items())


def _widened(case: Case, excess: _Excess) -> Saving:
    """Bound the gain of wider accesses that replace several: instructions and address arithmetic go, too."""
    return case.saving({**_levels(case, excess).keeps, **dict.fromkeys(("l1", "lsu", ISSUE, *ADDRESS_PIPES), 0.0)})


def _counted_excess(counts: CountedSectors) -> _Excess | None:
    """Return the excess by exact counts. If they show none, there is none."""
    fraction = min(1.0, counts.excess / counts.total) if counts.total else 0.0
    if not EXCESS.is_reached(fraction):
        return None
    return _Excess(
        fraction,
        ("sectors", counts_case(counts.total)),
        (*amounts_of(excess_share=fraction), *amounts_of("", excess=counts.excess, total=counts.total)),
        "measured",
        evidence=(*counts.evidence, EXCESS.evidence(100 * fraction, "excess-share")),
    )


def _unused_bytes(case: Case) -> _Excess | None:
    """Return the excess by the bytes of each 32-byte sector that threads use.

    A request needs at least one sector, so a sector of which all threads read the same word is no excess.
    """
    known = {what: used for what in _KINDS if (used := _used_bytes(case, what)) is not None}
    if not known:
        return None
    sectors = {what: case.number(GLOBAL_SECTORS.format(what)) for what in known}
    weights = {what: count for what, count in sectors.items() if count} or dict.fromkeys(known, 1.0)
    whole = sum(weights.values())
    mean = sum(known[what].value * weight for what, weight in weights.items()) / whole
    fraction = 1.0 - mean / SECTOR_BYTES
    per_request = {what: request_sectors(case, what) or 0.0 for what in weights}
    if all(per_request.values()):
        fraction = min(fraction, 1.0 - sum(weights[what] / count for what, count in per_request.items()) / whole)
    if not EXCESS.is_reached(fraction):
        return None
    # Without counts of requests, single words look the same, but they hardly keep L2 or DRAM busy.
    is_open = any(known[what].value < SECTOR_BYTES for what, count in per_request.items() if not count)
    is_below = any(BUSY.is_reached(case.needs.get(level)) for level in _LEVELS)
    wasteful = [what for what in weights if EXCESS.is_reached(1.0 - known[what].value / SECTOR_BYTES)]
    if len(wasteful) == 1 and len(weights) > 1:
        headline, mean = f"bytes-of-{_KINDS[wasteful[0]]}s", known[wasteful[0]].value
    else:
        headline = "bytes-per-sector"
    confidence: Confidence = "inferred" if is_below else "guess"
    return _Excess(
        fraction,
        (headline,),
        amounts_of("B", used=mean),
        confidence if is_open else "measured",
        evidence=tuple(item for used in known.values() for item in used.evidence),
        may_be_single_words=is_open,
    )


class _Used(NamedTuple):
    """The used bytes of a sector, and their counter as evidence."""

    value: float
    evidence: tuple[Evidence, ...]


def _used_bytes(case: Case, what: str) -> _Used | None:
    """Return the bytes of a sector that loads or stores use; None if there are none or they were not collected."""
    name, percent_name = _PER_SECTOR.format(what), _PERCENT_PER_SECTOR.format(what)
    role = f"bytes-used-by-{_KINDS[what]}s"
    value, of_sector = case.number(name), case.number(percent_name)
    if value:
        return _Used(min(value, SECTOR_BYTES), case.metric(name, role, "B/sector", SECTOR_BYTES))
    if value is None and of_sector:
        return _Used(min(of_sector / 100, 1.0) * SECTOR_BYTES, case.metric(percent_name, role, "%", 100.0))
    return None


def _sectors_per_request(case: Case) -> _Excess | None:
    """Return the excess by a number of sectors per request that no coalesced access has."""
    for what, kind in _KINDS.items():
        name, sectors = SECTORS_PER_REQUEST.format(what), GLOBAL_SECTORS.format(what)
        ratio = request_sectors(case, what)
        if ratio is None or case.number(ALL_SECTORS) is not None or ratio < _MANY_SECTORS:
            continue
        role = f"sectors-per-{kind}-request"
        metric = name if counted_request_sectors(case, what) is None else ""
        evidence = Evidence(metric, ratio, "sector/request", threshold=_MANY_SECTORS, role=role)
        return _Excess(
            1.0 - _FEW_SECTORS / ratio,
            (role,),
            amounts_of("sector", per_request=ratio),
            "inferred",
            evidence=(*case.metric(sectors, f"{kind}-sectors", "sector"), evidence),
            in_l1_alone=True,
        )
    return None


def _passes_at_most(case: Case) -> float:
    """Return the share of passes through L1 beyond one per request, including shared memory's; 0 if unknown."""
    ratio = wavefronts_per_request(case)
    return 1.0 - 1.0 / ratio if ratio is not None and ratio >= MANY_WAVEFRONTS.value else 0.0


def _many_wavefronts(case: Case) -> _Excess | None:
    """Return the excess by the basic set: L1 is busy, requests take many passes, and no shared memory explains it."""
    counted = wavefronts_per_request(case)
    ratio = counted if counted is not None else least_passes(case)
    if ratio is None or ratio < MANY_WAVEFRONTS.value or not is_l1_full(case):
        return None
    if uses_shared(case):
        return None
    confidence: Confidence = "inferred" if case.kernel.shared_memory_per_block is not None else "guess"
    return _Excess(
        1.0 - 1.0 / ratio,
        ("wavefronts-per-request" if counted is not None else "least-wavefronts-per-request",),
        amounts_of("wavefront", per_request=ratio),
        confidence,
        evidence=(*l1_evidence(case), MANY_WAVEFRONTS.evidence(ratio)),
        in_l1_alone=True,
        why="many-wavefronts",
    )


def _are_few_lanes_side_by_side(case: Case) -> bool:
    """Return whether the few lanes of a block can explain all excess: no request takes more than adjacent lanes need.

    Adjacent lanes take at most 16 bytes each, and one sector more if the first address is not aligned to a sector.
    """
    most = _LANE_BYTES * (case.threads_per_block or 0) / SECTOR_BYTES + 1
    ratios = (counted_request_sectors(case, what) or 0.0 for what in _KINDS)
    return has_few_lanes(case) and all(ratio <= most for ratio in ratios)


RULES = (
    Rule(
        "uncoalesced-global",
        kind="defect",
        thresholds=(EXCESS, MANY_WAVEFRONTS, SHIFTED, WIDE, LINE, MOST, IN_L2),
        check=_uncoalesced,
        metrics=tuple(name.format(what) for name in (_PER_SECTOR, GLOBAL_SECTORS, GLOBAL_REQUESTS) for what in _KINDS),
        causes=(Cause("block-size", _are_few_lanes_side_by_side),),
        place=AT_MEMORY,
    ),
)
