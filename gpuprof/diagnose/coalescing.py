"""The rule on coalescing: sectors that global accesses move for nothing, and what repairs each shape of access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.access_shape import (
    CASES_OF_SHAPES,
    LINE,
    MOST,
    SHIFTED,
    WIDE,
    CodeShape,
    ExcessShape,
    worst_request,
)
from gpuprof.diagnose.blocks import has_few_lanes
from gpuprof.diagnose.case import MEMORY_STALLS, REQUESTS, WAVEFRONTS, WELL_USED, Case
from gpuprof.diagnose.limits import BUSY, MANY_WAVEFRONTS, is_l1_full, uses_shared
from gpuprof.diagnose.needs import ADDRESS_PIPES, ISSUE, MEMORY, Saving
from gpuprof.diagnose.rule import AT_MEMORY, LOW, Cause, Rule, finding, percent
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
"""Sectors that a request of 16 bytes a thread needs when it is coalesced, and a margin for edges."""
_FEW_SECTORS = 4.0
"""Sectors that a request of 4 bytes a thread needs when it is coalesced."""

_LANE_BYTES = 16
"""The most that a thread accesses at once."""
_LEVELS = ("l2", "dram")
_L2_HITS = "lts__t_sector_hit_rate.pct"
_DIRECTIONS = (("ld", "load"), ("st", "store"))
_ACCESSES = {"ld": "loads", "st": "stores"}
_SAME_DATA = "same-data-through-l2-and-dram"
_SAME_INSTRUCTIONS = "same-instructions"

_SMALL_EXCESS = Cases(why=("small-excess",), action=("align",), advice=("align", "single-lines", "consecutive"))
_CAUGHT = Cases(why=("not-adjacent", "stays-in-l1"), action=("wide",), advice=("wide", "consecutive"))
_CAUGHT_BY_RATE = replace(_CAUGHT, why=("not-adjacent", "hits-in-l1"))
_SCATTERED = Cases(why=("any-level",), action=("consecutive",), advice=("consecutive", "wide"))
_SEEN_IN_L1 = replace(_SCATTERED, why=("seen-in-l1",))
_MAY_BE_WIDER = frozenset({"wide", "structure"})
"""Actions that may be wider accesses, which take instructions along."""
_ASKS_FOR_WIDE = frozenset({"neighbours", "not-adjacent"})
"""Reasons whose action is wider accesses."""


class _Excess(Struct, frozen=True):
    """The share of the sectors that is moved for nothing, and the cases of the headline with their amounts.

    `may_be_single_words` says that requests for one word, which move the least that there is, can look the same.
    `in_l1_alone`: what was counted are requests at L1, and nothing tells whether L2 and DRAM carry the excess, too.
    """

    fraction: float
    headline: tuple[CaseName, ...]
    amounts: tuple[Amount, ...]
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    may_be_single_words: bool = False
    in_l1_alone: bool = False


def _uncoalesced(case: Case) -> Iterator[Finding]:
    counts = counted_sectors(case)
    if counts is not None:
        excess = _counted_excess(counts)
        passes = _excess_passes(case)
        if excess is not None and passes is not None:
            # Scattered words of 4 bytes cost a pass each but share sectors of 32: the larger waste bounds.
            excess = replace(excess, fraction=max(excess.fraction, passes))
    else:
        excess = _unused_bytes(case) or _sectors_per_request(case) or _many_wavefronts(case)
    if excess is None:
        return
    most = replace(excess, fraction=max(excess.fraction, _passes_at_most(case)))
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
        evidence=(*excess.evidence, *(shape.evidence if shape is not None else worst_request(case))),
        place=(shape.location if shape is not None else None)
        or case.place_of(EXCESS_SECTORS, ALL_SECTORS)
        or (_place_without_text(case) if is_notable else None),
    )


def asks_for_wide_accesses(found: Finding) -> bool:
    """Return whether wide accesses repair what this rule found, as they do narrow ones."""
    return found.cases.why[0] in _ASKS_FOR_WIDE


def _shape(case: Case) -> ExcessShape | CodeShape | None:
    """Return the shape of what causes most excess: as counted by instruction, else where the code leaves no other."""
    from gpuprof.diagnose.by_code import shape_by_code
    from gpuprof.diagnose.lane_shapes import shape_of_excess

    if any(name in item.counts for item in case.code for name in (EXCESS_SECTORS, ALL_SECTORS)):
        return shape_of_excess(case)
    unused = _unused_sectors(case)
    return shape_by_code(case, unused) if unused else None


def _place_without_text(case: Case) -> Location | None:
    """Return the only line that can cause most of the excess if the report has no SASS text."""
    unused = _unused_sectors(case) if case.code and not case.has_sass else {}
    if not unused:
        return None
    from gpuprof.diagnose.by_code import only_line

    return only_line(case, unused)


def _unused_sectors(case: Case) -> dict[str, float | None]:
    """Return the sectors that loads and stores move for nothing, of those that do; None: only their share is known."""
    unused: dict[str, float | None] = {}
    for what, kind in _DIRECTIONS:
        sectors, requests = case.number(GLOBAL_SECTORS.format(what)), case.number(GLOBAL_REQUESTS.format(what))
        used, ratio = _used_bytes(case, what), request_sectors(case, what)
        fraction = 0.0
        if used is not None:
            fraction = 1.0 - used.value / SECTOR_BYTES
            fraction = min(fraction, 1.0 - requests / sectors) if sectors and requests else fraction
        elif ratio is not None and ratio >= _MANY_SECTORS:
            fraction = 1.0 - _FEW_SECTORS / ratio
        if 100 * fraction >= EXCESS.value:
            unused[kind] = fraction * sectors if sectors else None
    return unused


def _cases(case: Case, shape: ExcessShape | CodeShape | None, excess: _Excess) -> Cases:
    """Return what to say: by the code if it shows the shape of the accesses, else by what counters leave open."""
    if shape is not None:
        cases = CASES_OF_SHAPES[shape.lanes.name]
        return replace(cases, why=(*cases.why, "stays-in-l1")) if _stays_in_l1(case) else cases
    if excess.fraction < SHIFTED.value / 100:
        return _SMALL_EXCESS
    if _stays_in_l1(case):
        return _CAUGHT
    if _caught(case, excess.fraction):
        return _CAUGHT_BY_RATE
    unknown = excess.in_l1_alone and all(bytes_of(case, level) is None for level in _LEVELS)
    cases = _SEEN_IN_L1 if unknown else _SCATTERED
    if (case.number(_L2_HITS) or 0.0) < IN_L2.value:
        return cases
    return replace(cases, action=(*cases.action, "or-table"), advice=(*cases.advice, "table"))


def _stays_in_l1(case: Case) -> bool:
    """Tell whether L2 is known to move no more than the global accesses need."""
    return bytes_of(case, "l2") is not None and not excess_reaches(case, "l2")


def _caught(case: Case, excess: float) -> bool:
    """Tell whether, where L2's bytes are unknown, L1 has as many of the sectors that it is asked for as are excess."""
    rates = [moved.hit_rate for moved in case.kernel.traffic if moved.level == "l1" and moved.hit_rate is not None]
    return bytes_of(case, "l2") is None and rates != [] and max(rates) >= excess


class _Levels(NamedTuple):
    """What stays of each memory level's need, the same where no other access uses the rest; the most that goes."""

    keeps: Mapping[str, float]
    keeps_of_same_data: Mapping[str, float]
    share: float


def _levels(case: Case, excess: _Excess) -> _Levels:
    """Say what coalescing leaves of each memory level.

    Of data that an access fetches it may use the same part as of its sectors. Less goes where other accesses use the
    rest, so that a level moves no more than what all of them need. Of a level of which nothing is known where the
    excess was seen in L1 alone, nothing is said to stay: its need may stay whole, or go with the excess.
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
            # Lines are fetched again, or around the sectors that are asked for: that can go as well.
            keeps[level] = ideal / moved
            share = max(share, 1.0 - ideal / moved)
    return _Levels(keeps, keeps_of_same_data, share)


def _coalesced(case: Case, excess: _Excess) -> Saving:
    """Bound what coalescing gains: arithmetic and instructions stay, and of each memory level what is needed."""
    keeps, keeps_of_same_data, share = _levels(case, excess)
    weight = explained(case, memory_busy(case), MEMORY_STALLS)
    same_data = capped(case, case.saving(keeps_of_same_data), excess.fraction, weight)
    if _stays_in_l1(case):
        l1 = max(case.needs.get("l1", 1.0), case.stall("lg_throttle"))
        same_data = capped(case, case.saving({"l1": keeps["l1"]}), excess.fraction, min(weight, l1 / WELL_USED))
    most = min(same_data.fraction, case.working_share * _at_limit(case, excess, keeps_of_same_data))
    return capped(case, case.saving(keeps), share, weight).if_held(most, _SAME_DATA)


def _at_limit(case: Case, excess: _Excess, keeps: Mapping[str, float]) -> float:
    """Return the most that goes with the same data where L2 or DRAM is the limit; all where neither is, for sure.

    Warps then wait for that level, which loses its own part of the bytes. Others gain no more than their part of what
    they are busy for, and L1 of what its queue holds warps up for.
    """
    levels = {level: need for level in MEMORY if (need := case.needs.get(level)) is not None}
    limit = max(levels, key=lambda level: levels[level], default="l1")
    if len(levels) < len(MEMORY) or limit == "l1" or 100 * levels[limit] < BUSY.value or not bytes_of(case, limit):
        return 1.0
    goes = {level: 1.0 - keeps[level] for level in _LEVELS} | {"l1": excess.fraction}
    waits = {limit: case.stall_at_most(*MEMORY_STALLS, "barrier", "membar"), "l1": case.stall_at_most("lg_throttle")}
    return max(goes[level] * at_work(case, need, waits.get(level, 0.0)) for level, need in levels.items())


def _widened(case: Case, excess: _Excess) -> Saving:
    """Bound what goes where wider accesses may replace several: their instructions and address arithmetic go, too."""
    return case.saving({**_levels(case, excess).keeps, **dict.fromkeys(("l1", "lsu", ISSUE, *ADDRESS_PIPES), 0.0)})


def _counted_excess(counts: CountedSectors) -> _Excess | None:
    """Judge what was counted exactly: where that shows no excess, nothing else does."""
    if not counts.total or 100 * counts.excess / counts.total < EXCESS.value:
        return None
    fraction = min(1.0, counts.excess / counts.total)
    share = Evidence("", 100 * fraction, "%", threshold=EXCESS.value, role="excess-share")
    return _Excess(
        fraction,
        ("sectors", counts_case(counts.total)),
        (
            Amount("excess_share", fraction, "fraction"),
            Amount("excess", counts.excess),
            Amount("total", counts.total),
        ),
        "measured",
        evidence=(*counts.evidence, share),
    )


def _unused_bytes(case: Case) -> _Excess | None:
    """Bytes of each 32-byte sector that the threads asked for.

    A request needs one sector at least: one that all threads read the same word of is no excess.
    """
    used = {what: _used_bytes(case, what) for what in ("ld", "st")}
    known = {what: item for what, item in used.items() if item is not None}
    if not known:
        return None
    sectors = {what: case.number(GLOBAL_SECTORS.format(what)) for what in known}
    weights = {what: count for what, count in sectors.items() if count} or dict.fromkeys(known, 1.0)
    mean = sum(known[what].value * weights.get(what, 0.0) for what in known) / sum(weights.values())
    fraction = 1.0 - mean / SECTOR_BYTES
    open_requests = {what for what in weights if not request_sectors(case, what)}
    if not open_requests:
        requests = sum(count / (request_sectors(case, what) or 1.0) for what, count in weights.items())
        fraction = min(fraction, 1.0 - requests / sum(weights.values()))
    if 100 * fraction < EXCESS.value:
        return None
    is_open = any(known[what].value < SECTOR_BYTES for what in open_requests)
    wasteful = {what: known[what].value for what in weights if _is_wasteful(known[what].value)}
    alone = next(iter(wasteful), None) if len(wasteful) < len(weights) else None
    return _Excess(
        fraction,
        (f"bytes-of-{_ACCESSES[alone]}" if alone is not None else "bytes-per-sector",),
        (Amount("used", wasteful[alone] if alone is not None else mean, "B"),),
        _beside_single_words(case) if is_open else "measured",
        evidence=tuple(item.evidence for item in known.values()),
        may_be_single_words=is_open,
    )


def _is_wasteful(used: float) -> bool:
    return 100 * (1.0 - used / SECTOR_BYTES) >= EXCESS.value


def _beside_single_words(case: Case) -> Confidence:
    """Tell how sure unused bytes are where single words look the same: those hardly keep L2 or DRAM busy."""
    is_below = any(100 * case.needs.get(level, 0.0) >= BUSY.value for level in _LEVELS)
    return "inferred" if is_below else "guess"


class _Used(NamedTuple):
    """Bytes of a sector that are used, and the counter that tells them."""

    value: float
    evidence: Evidence


def _used_bytes(case: Case, what: str) -> _Used | None:
    """Return the bytes of a sector that loads or stores use; None where there are none, or it was not collected."""
    name, percent_name = _PER_SECTOR.format(what), _PERCENT_PER_SECTOR.format(what)
    if not case.can_have((name, percent_name)):
        return None
    role = f"bytes-used-by-{_ACCESSES[what]}"
    value, of_sector = case.number(name), case.number(percent_name)
    if value:
        return _Used(min(value, SECTOR_BYTES), Evidence(name, value, "B/sector", threshold=32.0, role=role))
    if value is None and of_sector:
        evidence = Evidence(percent_name, of_sector, "%", threshold=100.0, role=role)
        return _Used(min(of_sector / 100, 1.0) * SECTOR_BYTES, evidence)
    return None


def _sectors_per_request(case: Case) -> _Excess | None:
    """More sectors a request than any coalesced access has."""
    for what, kind in _DIRECTIONS:
        name = SECTORS_PER_REQUEST.format(what)
        if not case.can_have((name, GLOBAL_SECTORS.format(what))):
            continue
        ratio, counted = request_sectors(case, what), counted_request_sectors(case, what)
        if ratio is None or case.number(ALL_SECTORS) is not None or ratio < _MANY_SECTORS:
            continue
        role = f"sectors-per-{kind}-request"
        evidence = (
            *case.metric(GLOBAL_SECTORS.format(what), f"{kind}-sectors", "sector"),
            Evidence(name if counted is None else "", ratio, "sector/request", threshold=_MANY_SECTORS, role=role),
        )
        return _Excess(
            1.0 - _FEW_SECTORS / ratio,
            (role,),
            (Amount("per_request", ratio, "sector"),),
            "inferred",
            evidence=evidence,
            in_l1_alone=True,
        )
    return None


def _excess_passes(case: Case) -> float | None:
    """Return the share of passes through L1 beyond one a request; None where shared memory may cause them."""
    return _passes_at_most(case) or None if case.kernel.shared_memory_per_block == 0 else None


def _passes_at_most(case: Case) -> float:
    """Return the share of passes through L1 beyond one a request, those of shared memory among them; 0 if unknown."""
    ratio = wavefronts_per_request(case)
    return 1.0 - 1.0 / ratio if ratio is not None and ratio >= MANY_WAVEFRONTS.value else 0.0


def _many_wavefronts(case: Case) -> _Excess | None:
    """The basic set: L1 is busy and each request passes it many times, with no shared memory to blame."""
    if uses_shared(case):
        return None
    busiest, counted = case.busiest_of_l1, wavefronts_per_request(case)
    ratio = counted if counted is not None else least_passes(case)
    if busiest is None or ratio is None:
        return None
    name, fraction = busiest[0], min(1.0, busiest[1])
    if not is_l1_full(case, fraction) or ratio < MANY_WAVEFRONTS.value:
        return None
    roles = {WAVEFRONTS: "l1-data-pipe-busy", REQUESTS: "l1-requests"}
    evidence = (
        Evidence(name, 100 * fraction, "%", threshold=BUSY.value, role=roles.get(name, "l1-busy")),
        *(item for other in roles if other != name for item in case.metric(other, roles[other], "%")),
        Evidence("", ratio, "wavefront/request", threshold=MANY_WAVEFRONTS.value, role="wavefronts-per-request"),
    )
    confidence: Confidence = "inferred" if case.kernel.shared_memory_per_block is not None else "guess"
    return _Excess(
        1.0 - 1.0 / ratio,
        ("wavefronts-per-request" if counted is not None else "least-wavefronts-per-request",),
        (Amount("per_request", ratio, "wavefront"),),
        confidence,
        evidence=evidence,
        in_l1_alone=True,
    )


def _are_few_lanes_side_by_side(case: Case) -> bool:
    """Tell whether the few lanes of a block can be all of the excess: none of their requests reach further than that.

    Lanes side by side take 16 bytes each at most, and one sector more where they begin inside of one.
    """
    most = _LANE_BYTES * (case.threads_per_block or 0) / SECTOR_BYTES + 1
    pairs = (
        (case.number(GLOBAL_SECTORS.format(what)), case.number(GLOBAL_REQUESTS.format(what))) for what in ("ld", "st")
    )
    return has_few_lanes(case) and all(
        sectors <= most * requests for sectors, requests in pairs if sectors and requests
    )


RULES = (
    Rule(
        "uncoalesced-global",
        kind="defect",
        thresholds=(EXCESS, MANY_WAVEFRONTS, SHIFTED, WIDE, LINE, MOST, IN_L2),
        check=_uncoalesced,
        metrics=tuple(
            name.format(what) for name in (_PER_SECTOR, GLOBAL_SECTORS, GLOBAL_REQUESTS) for what in ("ld", "st")
        ),
        causes=(Cause("block-size", _are_few_lanes_side_by_side),),
        place=AT_MEMORY,
    ),
)
