"""The rule on coalescing: sectors that global accesses move for nothing, and what repairs each shape of access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.access_shape import (
    LINE,
    MOST,
    SHIFTED,
    WIDE,
    CodeShape,
    ExcessShape,
    ShapeName,
    worst_request,
)
from gpuprof.diagnose.blocks import has_few_lanes
from gpuprof.diagnose.case import MEMORY_STALLS, REQUESTS, WAVEFRONTS, WELL_USED, Case
from gpuprof.diagnose.limits import BUSY, MANY_WAVEFRONTS, is_l1_full, uses_shared
from gpuprof.diagnose.needs import ADDRESS_PIPES, ISSUE, MEMORY, Saving
from gpuprof.diagnose.rule import AT_MEMORY, LOW, Cause, Rule, RuleVerdict, percent
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
    excess_reaches,
    explained,
    ideal_bytes,
    l1_keeps,
    least_passes,
    memory_busy,
    part_text,
    request_sectors,
    wavefronts_per_request,
)  # fmt: skip
from gpuprof.model.field_types import Confidence
from gpuprof.model.session import Evidence, Finding, Location
from gpuprof.units import SECTOR_BYTES, format_percent

EXCESS = percent("excess sectors", 1.0, "less is an edge of the data, not a pattern")
IN_L2 = percent("L2 hit rate", 90.0, "what the accesses read is small and read again: it may be a table")

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
_ACCESSES = {what: f"{kind}s" for what, kind in _DIRECTIONS}
_SAME_DATA = "the same data through L2 and DRAM"
_SAME_INSTRUCTIONS = "the same instructions"


class _Advice(NamedTuple):
    """Why accesses of a shape move too much, what to change, and how."""

    why: str
    action: str
    advice: str


_COALESCE = (
    "Let consecutive threads (Triton: consecutive offsets of the innermost dimension) access consecutive addresses: "
    "swap the index that threadIdx.x goes into, transpose through shared memory, or use a structure of arrays in place "
    "of an array of structures."
)
_WIDEN = (
    "Where a thread walks through neighbouring words one at a time, swapping the index is wrong: read 16 bytes at "
    "once, or interleave the index over the threads."
)
_SCATTERED = _Advice(
    "The threads of a warp access addresses that are not adjacent, so each request moves sectors of which only a part "
    "is used. L1, L2 and DRAM carry the rest for nothing.",
    "Let consecutive threads access consecutive addresses",
    f"{_COALESCE} {_WIDEN}",
)
_SEEN_IN_L1 = _SCATTERED._replace(
    why="The threads of a warp access addresses that are not adjacent, so each request takes more of L1 than it needs. "
    "Nothing tells whether L2 and DRAM carry the excess, too: that was counted in L1 alone."
)
_TABLE = (
    " L2 has nearly all that is read, so it is small. If it is a table that is looked up in any order, no thread index "
    "makes the addresses consecutive: copy the table, or its hot part, into shared memory when a block starts, and "
    "keep what is looked up together in one aligned piece. Constant memory is for words that all lanes read at once."
)
_OR_SINGLE_WORDS = (
    " It may be none: a word that all threads of a warp read (a broadcast), or that one of them writes, uses 4 of 32 "
    "bytes as well and moves no sector for nothing. Sectors per request, which would tell, were not collected."
)
_IN_L1 = "The excess stays in L1: L2 moves no more than these accesses need, so it only costs L1 wavefronts."
_CAUGHT = _Advice(
    f"The threads of a warp access addresses that are not adjacent. {_IN_L1}",
    "Read a thread's neighbouring words in one wide access, or interleave its index",
    f"{_WIDEN} {_COALESCE}",
)
_CAUGHT_BY_RATE = _Advice(
    "The threads of a warp access addresses that are not adjacent. At least as many sectors hit in L1 as are excess: "
    "threads seem to come back for the words beside the first.",
    *_CAUGHT[1:],
)
_ALIGN = (
    "Start rows at a multiple of 32 bytes (pad the leading dimension, cudaMallocPitch); the shifted loads of a "
    "stencil cannot avoid it, and L1 mostly has that sector already."
)
_SHIFTED = _Advice(
    "So small an excess comes from accesses that start inside a 32-byte sector and move one sector more, or from a "
    "few scattered accesses.",
    "Start rows at a multiple of 32 bytes",
    f"{_ALIGN} For single lines that stand out: {_COALESCE}",
)
ADVICE: Mapping[ShapeName, _Advice] = MappingProxyType(
    {
        "neighbours": _Advice(
            "A thread walks through neighbouring words one at a time, and the lanes of a warp are far apart: each "
            "request moves a sector per lane and uses one word of it. The other words are there for the next "
            "requests, as long as L1 keeps them.",
            _CAUGHT.action,
            "Swapping the index is wrong here. Read 16 bytes at once (float4, uint4, on 16-byte boundaries), or "
            "interleave the index over the threads: a warp takes a row together, lane i its words i, i + 32 and so "
            "on, and adds them up with shuffles. A block that needs many rows loads them along the rows into shared "
            "memory.",
        ),
        "structure": _Advice(
            "The lanes of a warp are one structure apart: each request for a member moves a sector per lane and uses "
            "one word of it.",
            "Store an array per member (SoA), or move whole structures in 16-byte accesses",
            "Store an array per member (structure of arrays), so that neighbouring threads access neighbouring words. "
            "Where the layout is given, move whole structures in 16-byte accesses (float4 members, alignas(16)), or "
            "copy them through shared memory, a warp along consecutive bytes. If a thread's words are elements of one "
            "array, interleave them over the threads.",
        ),
        "stride": _Advice(
            "The lanes of a warp are far apart, and a thread uses one word of each sector: each request moves a "
            "sector per lane, and L1, L2 and DRAM carry the rest for nothing.",
            _SCATTERED.action,
            f"{_COALESCE} Reading more bytes per thread does not help: the adjacent words belong to other threads.",
        ),
        "scatter": _Advice(
            "The addresses are looked up: each lane follows a loaded index or pointer, and moves a sector for the "
            "word that it uses.",
            "Order indices or data so that the lanes of a warp look up nearby addresses",
            "Sort or bin the indices, or renumber the data in the order of its use. Keep what is looked up together "
            "in 16 or 32 aligned bytes and read it at once; a narrower type puts more of it into a sector. A small "
            "table belongs in shared memory. Swapping the thread index changes nothing.",
        ),
        "misaligned": _Advice(
            "Consecutive lanes access consecutive addresses, but start inside a 32-byte sector: each request moves "
            "one sector more than it needs.",
            _SHIFTED.action,
            _ALIGN,
        ),
        "partial": _Advice(
            "A warp covers several short rows, each of which starts and ends inside a 32-byte sector or fills only a "
            "part of one.",
            "Give a warp whole rows: at least 32 threads in x, rows padded to 32 bytes",
            "Make the block at least 32 threads wide in x, or let one index run over the rows; pad the rows to a "
            "multiple of 32 bytes, or keep the tile of a warp contiguous.",
        ),
    }
)
_WIDENING = frozenset({ADVICE["neighbours"].action, ADVICE["structure"].action})
"""Repairs that may be wider accesses, which take instructions along."""


class _Excess(Struct, frozen=True):
    """The share of the sectors that is moved for nothing.

    `may_be_single_words` says that requests for one word, which move the least that there is, can look the same.
    `in_l1_alone`: what was counted are requests at L1, and nothing tells whether L2 and DRAM carry the excess, too.
    """

    fraction: float
    text: str
    confidence: Confidence
    evidence: tuple[Evidence, ...]
    may_be_single_words: bool = False
    in_l1_alone: bool = False


def _uncoalesced(case: Case) -> Iterator[RuleVerdict]:
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
    saving = _coalesced(case, most).if_held(_coalesced(case, excess).fraction, "the same L1 wavefronts per sector")
    is_notable = saving.fraction >= LOW
    shape = _shape(case) if is_notable else None
    told = _advice(case, shape, excess)
    is_open = excess.may_be_single_words and shape is None
    if told.action in _WIDENING:
        saving = _widened(case, excess).if_held(saving.fraction, saving.held or _SAME_INSTRUCTIONS)
    yield RuleVerdict(
        headline=f"Uncoalesced global access: {excess.text}",
        why=told.why + (_OR_SINGLE_WORDS if is_open else ""),
        action=told.action,
        advice=told.advice,
        confidence=excess.confidence if is_open or not excess.may_be_single_words else "inferred",
        saving=saving,
        evidence=(*excess.evidence, *(shape.evidence if shape is not None else worst_request(case))),
        location=(shape.location if shape is not None else None)
        or case.place_of(EXCESS_SECTORS, ALL_SECTORS)
        or (_place_without_text(case) if is_notable else None),
    )


def asks_for_wide_accesses(finding: Finding) -> bool:
    """Tell whether a finding of this rule is repaired by wide accesses, as narrow ones are."""
    return finding.action == ADVICE["neighbours"].action


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


def _advice(case: Case, shape: ExcessShape | CodeShape | None, excess: _Excess) -> _Advice:
    """Return what to say: by the code, where it tells the shape of the accesses, else by what counters leave open."""
    if shape is not None:
        told = ADVICE[shape.lanes.name]
        return told._replace(why=f"{told.why} {_IN_L1}") if _stays_in_l1(case) else told
    if excess.fraction < SHIFTED.value / 100:
        return _SHIFTED
    if _stays_in_l1(case):
        return _CAUGHT
    if _caught(case, excess.fraction):
        return _CAUGHT_BY_RATE
    unknown = excess.in_l1_alone and all(bytes_of(case, level) is None for level in _LEVELS)
    told = _SEEN_IN_L1 if unknown else _SCATTERED
    if (case.number(_L2_HITS) or 0.0) < IN_L2.value:
        return told
    return told._replace(
        action=f"{told.action}, or keep a table that is looked up in shared memory", advice=told.advice + _TABLE
    )


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
    text = f"{format_percent(fraction)} of sectors are not needed ({part_text(counts.excess, counts.total)})"
    share = Evidence("", 100 * fraction, "%", threshold=EXCESS.value, meaning="excess share")
    return _Excess(fraction, text, "measured", evidence=(*counts.evidence, share))


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
    return _Excess(
        fraction,
        _used_text({what: known[what].value for what in weights}, mean),
        _beside_single_words(case) if is_open else "measured",
        evidence=tuple(item.evidence for item in known.values()),
        may_be_single_words=is_open,
    )


def _used_text(used: Mapping[str, float], mean: float) -> str:
    """Write how much of a sector is used: of loads or of stores alone where the others use all of theirs."""
    wasteful = {what: value for what, value in used.items() if 100 * (1.0 - value / SECTOR_BYTES) >= EXCESS.value}
    if len(wasteful) == len(used):
        return f"{mean:.3g} of 32 bytes per sector are used"
    return " and ".join(f"{_ACCESSES[what]} use {value:.3g} of 32 bytes" for what, value in wasteful.items())


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
    meaning = f"bytes used per sector by {_ACCESSES[what]}"
    value, of_sector = case.number(name), case.number(percent_name)
    if value:
        return _Used(min(value, SECTOR_BYTES), Evidence(name, value, "B/sector", threshold=32.0, meaning=meaning))
    if value is None and of_sector:
        evidence = Evidence(percent_name, of_sector, "%", threshold=100.0, meaning=meaning)
        return _Used(min(of_sector / 100, 1.0) * SECTOR_BYTES, evidence)
    return None


def _sectors_per_request(case: Case) -> _Excess | None:
    """More sectors a request than any coalesced access has."""
    for what, word in (("ld", "load"), ("st", "store")):
        name = SECTORS_PER_REQUEST.format(what)
        if not case.can_have((name, GLOBAL_SECTORS.format(what))):
            continue
        ratio, counted = request_sectors(case, what), counted_request_sectors(case, what)
        if ratio is None or case.number(ALL_SECTORS) is not None or ratio < _MANY_SECTORS:
            continue
        evidence = (
            *case.metric(GLOBAL_SECTORS.format(what), f"{word} sectors", "sector"),
            Evidence(
                name if counted is None else "",
                ratio,
                "sector/request",
                threshold=_MANY_SECTORS,
                meaning=f"sectors per {word} request",
            ),
        )
        text = f"{ratio:.3g} sectors per {word} request"
        return _Excess(1.0 - _FEW_SECTORS / ratio, text, "inferred", evidence=evidence, in_l1_alone=True)
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
    meanings = {WAVEFRONTS: "L1 data pipe busy", REQUESTS: "L1 requests, of peak"}
    evidence = (
        Evidence(name, 100 * fraction, "%", threshold=BUSY.value, meaning=meanings.get(name, "L1 busy")),
        *(item for other in meanings if other != name for item in case.metric(other, meanings[other], "%")),
        Evidence("", ratio, "wavefront/request", threshold=MANY_WAVEFRONTS.value, meaning="L1 wavefronts per request"),
    )
    at_least = "" if counted is not None else "at least "
    text = f"{at_least}{ratio:.2g} L1 wavefronts per request"
    confidence: Confidence = "inferred" if case.kernel.shared_memory_per_block is not None else "guess"
    return _Excess(1.0 - 1.0 / ratio, text, confidence, evidence=evidence, in_l1_alone=True)


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
        "Uncoalesced global accesses",
        about="defect",
        looks_at="Sectors that global accesses move beyond what the same bytes would need if contiguous; where the "
        "report does not count them, bytes used per sector, sectors per request, or L1 wavefronts per request (basic "
        "set). Where it has the code, how the addresses of the accesses with most excess are made up: that decides "
        "the advice. Where no excess was counted by instruction, these are the accesses that, by the code, alone can "
        "cause most of what was counted of all.",
        thresholds=(EXCESS, MANY_WAVEFRONTS, SHIFTED, WIDE, LINE, MOST, IN_L2),
        gain="1 − the largest need that remains: arithmetic, issue slots and SM as they are, L1 reduced to its "
        "requests, the registers that it writes and shared memory, L2 and DRAM without the excess share, or the "
        "excess bytes where their own are known; where requests at L1 alone were counted, a level whose bytes are "
        "not known is left out. No more than the excess share × working time × 1.25 times the larger "
        "of the busiest memory level and the stalls on memory and barriers. With the same data through L2 and DRAM it "
        "is less: "
        "they lose no more than what they move beyond the ideal sectors × 32 B, and where L2 moves no more, the gain "
        "is no more than the excess share × 1.25 times the larger of L1 and the stalls on its queue. Where L2 or DRAM "
        "is the busiest level and 60 % busy, it is no more than that level's part × 1.25 times the larger of its use "
        "and the stalls, or the part of L1 or the other × 1.25 times what that is busy or throttles warps for. Where "
        "shared memory can hide the wavefronts that a request takes, it holds with the same L1 wavefronts per sector. "
        "Time in which most SMs have ended may be all of the stalls of the others. Where wider accesses may be the "
        "fix, the bound leaves out L1, the load/store unit, the pipes of address arithmetic and the issue slots, and "
        "the rest holds with the same instructions.",
        silent="Under 1 % excess, or a sector per request, as words have that all threads read. Where bytes per sector "
        "are known and sectors per request are not, it is a guess unless L2 or DRAM is busy. With the basic set also "
        "where the block uses shared memory, because its bank conflicts look the same.",
        check=_uncoalesced,
        metrics=tuple(
            name.format(what) for name in (_PER_SECTOR, GLOBAL_SECTORS, GLOBAL_REQUESTS) for what in ("ld", "st")
        ),
        causes=(Cause("block-size", _are_few_lanes_side_by_side),),
        place=AT_MEMORY,
    ),
)
