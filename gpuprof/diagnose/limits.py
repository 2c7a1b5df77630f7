"""Rules on what a kernel runs into: the bandwidth of a memory level, or traffic over the host link."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpuprof.diagnose.case import MEMORY_STALLS, REQUESTS, WAVEFRONTS, Case
from gpuprof.diagnose.dram_latency import FAR, IDLE, QUEUED, cycles_per_load
from gpuprof.diagnose.far_memory import HOST_FILLS, HOST_MISSES, TAKES_IN, far_memory, shares_memory
from gpuprof.diagnose.l2_parts import FABRIC, FABRIC_FULL, L2Part, busiest_part, fabric_busy
from gpuprof.diagnose.latency import DOMINANT
from gpuprof.diagnose.launch import count_of
from gpuprof.diagnose.needs import ISSUE, LAUNCH, SM, WORK, Saving, saving
from gpuprof.diagnose.rule import AT_MEMORY, AT_SHARED, Cause, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.diagnose.traffic import (
    CONFLICT_SHARE,
    OTHER_WAITS,
    SHARED_ATOMICS,
    SHARED_BUSY,
    SHARED_CONFLICTS,
    SHARED_CONFLICTS_BY_KIND,
    SHARED_PASSES,
    bytes_of,
    copies_ahead,
    excess_reaches,
    explained,
    l1_keeps,
    least_passes,
    local_reaches,
    rate_of,
    request_rate,
    request_sectors,
    wavefronts_per_request,
    while_active,
)
from gpuprof.model.field_types import Confidence
from gpuprof.model.headline import AS_BUSY, TWO_PASSES
from gpuprof.model.session import Evidence, Finding
from gpuprof.units import format_percent, format_si, significant

BUSY = percent(
    "busy", 60.0, "below it nothing is the limit: NVIDIA's speed-of-light rule calls such a kernel latency-bound"
)
NEAR_ROOF = percent("near its ceiling", 80.0, "NVIDIA's speed-of-light rule calls a unit well used from here on")
MANY_WAVEFRONTS = Threshold(
    "wavefronts per request",
    4.5,
    "wavefront",
    reason="a coalesced access takes one at 4 bytes per thread, two at 8 and four at 16",
)
WIDE_PASSES = Threshold(
    "wavefronts per request of wide accesses",
    2.0,
    "wavefront",
    reason="from here on accesses have 8 bytes per thread or more, or are scattered: one of 4 bytes takes one",
)
WIDE_SECTORS = Threshold(
    "sectors per load request of wide accesses",
    8.0,
    "sector",
    reason="a coalesced access takes four at 4 bytes per thread, eight at 8",
)
FROM_L2 = percent(
    "L2 relative to L1",
    10.0,
    "L2 can give an SM two sectors per cycle at most, and a wavefront of a scattered access that misses L1 needs one: "
    "below it most wavefronts fetch nothing",
)
BALANCED = percent(
    "SM above memory",
    10.0,
    "NVIDIA's speed-of-light rule calls SM and memory balanced up to it: beyond, the SM is ahead",
)
AHEAD = percent("SM above L1", 100 * TWO_PASSES, "what one counter can differ by between two passes of ncu")
HOST_SHARE = percent("host share", 10.0, "the host link is about ten times slower than DRAM or more: a tenth matters")
HOST_FILL = percent(
    "L2 filled by the host",
    0.1,
    "PCIe carries about 1 % of what L2 can take in (8 of 730 GB/s at PCIe 3 ×8, 64 of 4600 at PCIe 5): a tenth of it",
)

_NAMES = {"dram": "DRAM", "l2": "L2", "l1": "L1"}
_LEVELS = tuple(_NAMES)

_FEWER_BYTES = (
    "Fuse this kernel with the one that makes or uses its data, keep reused data in shared memory or registers, use a "
    "narrower type (BF16, FP8, INT8), and do not write what can be computed again."
)
_MORE_IN_FLIGHT = "Keep more bytes in flight: more and wider loads before the first use, the next tile ahead ({ahead})."
_ACTIONS = {
    "dram": "Move fewer bytes: fuse kernels, keep reused data on chip, use a narrower type",
    "l2": "Move fewer bytes through L2: larger tiles, reuse in registers, shared memory",
    "l2-once": "Move fewer bytes: fuse kernels, use a narrower type",
    "l2-unknown": "Move fewer bytes through L2: keep what is read again in registers and shared memory, or fuse",
    "l2-requests": "Send fewer requests to L2: coalesced and wide accesses, atomics combined before they are sent",
    "l1": "Make fewer and wider accesses: 16 bytes per thread, values kept in registers",
    "kept": "Check coalescing, and keep values in registers or shared memory: wider accesses do not help",
    "in-flight": "Keep more bytes in flight; at the ceiling move fewer: fuse kernels, reuse data on chip",
    "wide": "Read shared memory with fewer and wider loads: 16 bytes per thread",
    "passes": "Let a warp's threads touch consecutive addresses and different banks",
    "shared": "Compute a larger tile per thread so that each value read feeds more arithmetic",
}
_ON_CHIP = (
    "from L1 and shared memory: larger tiles per block, reuse in registers, and a block order (Triton: grouped program "
    "order) in which neighbours share their inputs."
)
_ADVICE = {
    "dram": f"Move fewer bytes. {_FEWER_BYTES}",
    "l2": f"Serve more {_ON_CHIP}",
    "l2-unknown": (
        f"Where L2 moves more than DRAM does, values are read again: serve more {_ON_CHIP} Where each is used once, "
        "only fewer bytes help: fuse kernels, use a narrower type. To see which it is, profile again with ncu "
        "--section MemoryWorkloadAnalysis."
    ),
    "l2-requests": (
        "Let consecutive threads access consecutive addresses, so that each request of a warp takes few lines and uses "
        "all of each, and stores fill whole sectors of 32 bytes. Combine atomics in registers, by shuffles or in "
        "shared memory before one of them goes to global memory. Keep what is read again in registers or shared memory."
    ),
    "l2-once": f"Most of what L2 moves goes to or comes from DRAM, so that little is read again. {_FEWER_BYTES}",
    "l1": (
        "Use fewer and wider accesses: 16 bytes per thread (float4; in Triton contiguous blocks), values kept in "
        "registers across iterations (register tiling), and loop-invariant loads hoisted out of the loop."
    ),
    "kept": (
        "Check that consecutive threads access consecutive addresses: ncu --set full counts the sectors that are not "
        "needed. Where they do, the accesses are wide already: keep values in registers across iterations (register "
        "tiling), share what the threads of a block read in shared memory, and hoist loop-invariant loads out of the "
        "loop."
    ),
    "wide": (
        "Read shared memory with fewer and wider loads: neighbouring values at 16 bytes per thread (int4, float4, "
        "ld.shared.v4, ldmatrix). What all threads of a warp read one lane can read and pass on by shuffles; what is "
        "read again stays in registers. Where the values feed arithmetic, a larger tile per thread reads each of them "
        "less often."
    ),
    "shared": (
        "Read shared memory less often: compute a larger tile per thread so that each value read feeds more "
        "multiply-adds, use 16-byte loads (ld.shared.v4, ldmatrix), and keep operands in registers between steps."
    ),
}


def _is_busiest(case: Case, level: str) -> bool | None:
    """Tell whether no memory level is busier than this one; None where a level was not collected that could be.

    Every byte of DRAM passes the others: where one is equally busy, DRAM is the limit.
    """
    own, dram = case.needs[level], case.needs.get("dram")
    others = {other: case.at_most(other) for other in _LEVELS if other != level}
    most = own / AS_BUSY if level == "dram" else own
    if any(value is not None and value > most for value in others.values()):
        return False
    if level != "dram" and dram is not None and dram >= AS_BUSY * own:
        return False
    overall = case.utilisation.get("memory")
    known = None not in others.values() or (overall is not None and own >= AS_BUSY * overall)
    return True if known else None


def _sm_is_ahead(case: Case, fraction: float, points: float = BALANCED.value) -> bool:
    sm = case.needs.get(SM)
    return sm is not None and 100 * (sm - fraction) > points


def _busy(case: Case, level: str) -> float | None:
    """Return how busy a level is where that makes it a limit."""
    need = case.needs.get(level)
    return need if need is not None and 100 * need >= BUSY.value else None


def is_l1_full(case: Case, fraction: float) -> bool:
    """Tell whether L1 is a limit: busy for most of the time, or well used while SMs have work, of which many have none.

    `fraction` is its need over all elapsed cycles; the other levels are shared by all SMs. An SM that hardly works has
    an L1 that is three times as busy as can be (an empty kernel on an H100): that tells nothing.
    """
    while_working = while_active(case, fraction)
    is_full = while_working is not None and NEAR_ROOF.value <= 100 * while_working <= _MOST_BUSY
    return 100 * fraction >= BUSY.value or is_full


_MOST_BUSY = 110.0
"""Percent that a unit can seem to be busy for: cycles of two passes differ."""


def _confidence(case: Case, level: str) -> Confidence:
    """What is busier than all other levels is the limit; with DRAM's speed unknown, DRAM can be, and so can the SM."""
    if SM not in case.needs and 100 * case.needs.get(level, 1.0) < NEAR_ROOF.value:
        return "guess"
    return "inferred" if "dram" in case.needs or _is_busiest(case, level) else "guess"


def _reuse(case: Case, fraction: float, *below: str) -> Saving:
    """Return what fewer accesses gain: the arithmetic has to be done, and the launch takes its time.

    `fraction` is how busy the level is: the other time is not its own.
    Less follows while the levels below move the same bytes and the SM does the same beside accesses; the accesses, what
    it does for them and, where only pipes tell of the rest, their addresses go. What keeps values on the chip takes
    bytes from the levels below, too: what these need is no bound.
    """
    gone = {*_LEVELS, *_ACCESS_UNITS} - {*below}
    stays = {unit: need for unit, need in case.least_times.items() if unit not in gone}
    work, others = case.arithmetic_fraction, _beside_accesses(case)
    rest = {LAUNCH: case.needs.get(LAUNCH), WORK: work}
    bound = saving({unit: need for unit, need in rest.items() if need}, {})
    is_told = work or others or stays.keys() - {*_LEVELS, LAUNCH}
    levels = f" and the same bytes through {' and '.join(_NAMES[level] for level in below)}" if below else ""
    same = f"{'the same' if is_told else 'little'} arithmetic{levels}"
    told = bound.if_held(1.0 - max((work, *stays.values())), same)
    beside = 1.0 - max(others.values(), default=0.0)
    told = told.if_held(beside, f"the same other instructions{levels}")
    return told.if_held(fraction, "the rest of its time unchanged")


_ACCESS_UNITS = (SM, ISSUE, "lsu", "adu", "uniform", "cbu", "alu")
"""What also works for accesses and their addresses, and so less where there are fewer."""


def _beside_accesses(case: Case) -> Mapping[str, float]:
    """Return what the issue slots and the SM's busiest part need for more than accesses; empty where nothing tells.

    An access takes a pass of L1 at least: instructions beyond its passes are none. The SM's speed of light counts where
    it is above all that works for accesses: that of memory, which is no less than that of the pipes that issue them,
    and the pipes of addresses. With the issue slots not collected, these may be that part.
    """
    l1, memory = case.needs.get("l1"), case.utilisation.get("memory")
    if l1 is None:
        return {}
    accesses = l1 * min(1.0, request_rate(case) or 1.0) / case.schedulers
    issued, sm = case.needs.get(ISSUE), case.needs.get(SM)
    needs = {ISSUE: issued - accesses} if issued is not None else {}
    others = (case.needs.get(unit, 0.0) for unit in _ACCESS_UNITS if unit != SM)
    if sm is not None and memory is not None and sm > max(memory, *others) + TWO_PASSES:
        needs[SM] = sm if issued is not None else sm - accesses
    return {unit: need for unit, need in needs.items() if need > 0}


def _headline(case: Case, level: str, fraction: float, *, near: bool) -> str:
    rate = rate_of(case, level)
    amount = f"{format_si(rate, 'B/s')}, " if rate is not None else ""
    near_text = "; near its ceiling" if near else ""
    return f"{_NAMES[level]} bandwidth: {amount}{format_percent(fraction)} of peak{near_text}"


def _evidence(case: Case, level: str, fraction: float) -> tuple[Evidence, ...]:
    name, rate = _NAMES[level], rate_of(case, level)
    return (
        Evidence(case.light_metric(level), 100 * fraction, "%", threshold=BUSY.value, meaning=f"{name} busy"),
        *((Evidence("", rate, "B/s", threshold=None, meaning=f"{name} rate"),) if rate is not None else ()),
        *case.stall_evidence("long_scoreboard", None),
    )


def _dram(case: Case) -> Iterator[RuleVerdict]:
    """Near its ceiling DRAM is a fact and no defect; below it, a limit while no other level is busier."""
    fraction = _busy(case, "dram")
    if fraction is None:
        return
    near = 100 * fraction >= NEAR_ROOF.value
    busiest = _is_busiest(case, "dram")
    if not near and (busiest is False or _sm_is_ahead(case, fraction)):
        return
    fewer = case.saving(dict.fromkeys((*_LEVELS, *_ACCESS_UNITS), 0.0))
    waited = cycles_per_load(case)
    is_full = near or (waited is not None and waited >= QUEUED.value)
    yield RuleVerdict(
        headline=_headline(case, "dram", fraction, near=near),
        why=_near_text(case) if near else _dram_text(case, waited),
        action=_ACTIONS["dram" if is_full else "in-flight"],
        advice=_ADVICE["dram"] if is_full else f"{_MORE_IN_FLIGHT.format(ahead=copies_ahead(case))} {_ADVICE['dram']}",
        confidence="measured" if near or busiest else "inferred",
        saving=fewer.if_held(case.saving({}).fraction, "the same bytes"),
        evidence=(*_evidence(case, "dram", fraction), *_waited_evidence(waited)),
        location=case.place_of_stall("long_scoreboard", "lg_throttle"),
        settled=near,
    )


def _near_text(case: Case) -> str:
    return f"With the same bytes only {_left(case)} is left; fewer bytes gain in proportion."


def _left(case: Case) -> str:
    """Name what DRAM can still gain: the gap to the share of its peak that kernels reach, by which the gain counts."""
    reached = case.dram_reached
    return f"the gap to {format_percent(reached)} of peak, the most that reads reach," if reached < 1.0 else "the gap"


def _dram_text(case: Case, waited: float | None) -> str:
    """Say why DRAM is not fuller: the requests queue, or there are too few of them; without stalls nobody knows."""
    alike = [_NAMES[level] for level in ("l1", "l2") if case.needs.get(level, 0.0) >= AS_BUSY * case.needs["dram"]]
    busy = f"DRAM and {' and '.join(alike)} are equally busy" if alike else "DRAM is the busiest memory level"
    if waited is None:
        why = "could carry more: too few bytes may be in flight"
    elif waited < QUEUED.value:
        why = "could carry more: too few bytes are in flight"
    else:
        return (
            f"{busy}, and warps wait {count_of(round(waited), 'cycle')} for a load, so that requests queue: more of "
            f"them gain nothing. Fewer bytes gain in proportion; with the same bytes only {_left(case)} is left, by "
            "an order of accesses that suits DRAM: long rows, fewer arrays at a time."
        )
    return f"{busy} but {why}. With the same bytes only {_left(case)} is left; fewer bytes gain more."


def _waited_evidence(waited: float | None) -> tuple[Evidence, ...]:
    if waited is None:
        return ()
    return (Evidence("", waited, "cycle", threshold=QUEUED.value, meaning="cycles that warps wait for a load"),)


def _l2(case: Case) -> Iterator[RuleVerdict]:
    """Name the part of L2 that limits; only of those that carry bytes does the headline have bytes."""
    full_fabric = _full_fabric(case)
    if full_fabric is not None:
        metric, fraction = full_fabric
        evidence = (Evidence(metric, 100 * fraction, "%", threshold=FABRIC_FULL.value, meaning="fabric of L2 busy"),)
        yield _l2_verdict(case, FABRIC, fraction, f"L2 fabric: {format_percent(fraction)} of peak", evidence)
        return
    fraction_of_parts = _busy(case, "l2")
    if fraction_of_parts is None or _is_busiest(case, "l2") is False or _sm_is_ahead(case, fraction_of_parts):
        return
    part = busiest_part(case)
    if part is not None and part.by_bytes:
        headline = _headline(case, "l2", fraction_of_parts, near=False)
    else:
        name = f"L2 {part.name}" if part is not None else "L2 bandwidth"
        headline = f"{name}: {format_percent(fraction_of_parts)} of peak"
    yield _l2_verdict(case, part, fraction_of_parts, headline, _evidence(case, "l2", fraction_of_parts))


def _full_fabric(case: Case) -> tuple[str, float] | None:
    """Return how busy the fabric of L2 is, and its metric, if it is well used and nothing else in memory is as busy."""
    fabric = fabric_busy(case)
    if fabric is None or 100 * fabric[1] < FABRIC_FULL.value or _sm_is_ahead(case, fabric[1]):
        return None
    levels = [case.needs.get(level, 0.0) for level in _LEVELS]
    return fabric if max(levels) < AS_BUSY * fabric[1] else None


def _l2_verdict(
    case: Case, part: L2Part | None, fraction: float, headline: str, evidence: tuple[Evidence, ...]
) -> RuleVerdict:
    is_read_again = _is_read_again(case)
    kind = "l2" if is_read_again else "l2-once" if is_read_again is False else "l2-unknown"
    if part is not None and not part.by_bytes:
        kind = "l2-requests"
    by_part = f", by its {part.name}. {part.does}" if part is not None else "."
    # Bytes that are not read again are DRAM's as well.
    levels = () if kind == "l2-once" else ("dram",)
    return RuleVerdict(
        headline=headline,
        why=f"L2 is the busiest memory level{by_part}",
        action=_ACTIONS[kind],
        advice=_ADVICE[kind],
        confidence=_confidence(case, "l2"),
        saving=_reuse(case, fraction, *levels),
        evidence=evidence,
        location=case.place_of_stall("long_scoreboard", "lg_throttle"),
    )


def _is_read_again(case: Case) -> bool | None:
    """Tell whether L2 moves more than DRAM does for it, so that most bytes are moved again; None if not collected."""
    l2, dram = bytes_of(case, "l2"), bytes_of(case, "dram")
    return l2 > 2 * dram if l2 is not None and dram is not None else None


def _l1(case: Case) -> Iterator[RuleVerdict]:
    busiest, fraction = case.busiest_of_l1, case.needs.get("l1")
    if busiest is None or fraction is None or not is_l1_full(case, fraction) or _is_busiest(case, "l1") is False:
        return
    if _sm_is_ahead(case, fraction, AHEAD.value):
        # The load/store unit is a part of the SM: where that is busier, another part of it is.
        return
    shared = case.number(SHARED_BUSY)
    if shared is not None and shared >= BUSY.value:
        return
    shares = uses_shared(case)
    per_request = wavefronts_per_request(case)
    at_least = per_request if per_request is not None else least_passes(case) or 0.0
    # A bound instead of a count tells of scattered accesses, unless the kernel uses shared memory in other ways.
    many = at_least >= MANY_WAVEFRONTS.value and (per_request is not None or shares is None)
    if at_least >= MANY_WAVEFRONTS.value and case.kernel.shared_memory_per_block == 0:
        # `uncoalesced-global` says the same and its cause.
        return
    what = "global and shared accesses" if shares else "loads and stores"
    headline = f"L1 bandwidth: {format_percent(fraction)} busy with {what}{_while_working_text(case, fraction)}"
    kind = "passes" if many else _kind_of_shared(case, at_least) if shares else _kind_of_global(case, at_least)
    if per_request is not None or (at_least >= WIDE_PASSES.value and kind in {"passes", "kept"}):
        headline += _passes_text(at_least, counted=per_request is not None)
    if many:
        why, advice = _many_passes(case, uses_shared=bool(shares)), _FEWER_PASSES
    else:
        why, advice = _why_l1(case, kind, per_request), _ADVICE[kind]
        sm = _beside_accesses(case).get(SM, 0.0)
        if 100 * sm >= NEAR_ROOF.value:
            headline += f", and the SM {format_percent(sm)} with other instructions"
            why += " The SM is near what it can do, too: with the same other instructions little can be gained."
    yield RuleVerdict(
        headline=headline,
        why=why,
        action=_ACTIONS[kind],
        advice=advice,
        confidence=_confidence(case, "l1"),
        saving=_fewer_passes(case) if many else _reuse(case, _time_of_l1(case, fraction), "l2", "dram"),
        evidence=(
            Evidence(
                busiest[0], 100 * fraction, "%", threshold=BUSY.value, meaning=_L1_WORDS.get(busiest[0], "L1 busy")
            ),
            *(
                item
                for name, meaning in _L1_WORDS.items()
                if name != busiest[0]
                for item in case.metric(name, meaning, "%")
            ),
            *(case.stall_evidence("mio_throttle", DOMINANT.value) if shares and _is_queue_full(case) else ()),
        ),
        location=case.place_of_stall("lg_throttle", "mio_throttle", "short_scoreboard", "long_scoreboard"),
    )


def uses_shared(case: Case) -> bool | None:
    """Tell whether blocks use shared memory; where their bytes are not known, None if nothing else shows that they do.

    Its conflicts do, and so do most warps that wait for the queue of shared memory, which special functions hardly
    fill while L1 is busy.
    """
    if case.kernel.shared_memory_per_block is not None:
        return case.kernel.shared_memory_per_block > 0
    conflicts = case.total((SHARED_CONFLICTS, *SHARED_CONFLICTS_BY_KIND))
    return True if conflicts or _is_queue_full(case) else None


def _is_queue_full(case: Case) -> bool:
    return 100 * case.stall("mio_throttle") >= DOMINANT.value


def _kind_of_global(case: Case, passes: float) -> str:
    """Return which advice fits accesses of global memory: that wider ones help only where these are narrow."""
    sectors = request_sectors(case, "ld") or 0.0
    return "kept" if passes >= WIDE_PASSES.value or sectors >= WIDE_SECTORS.value else "l1"


def _kind_of_shared(case: Case, passes: float = 0.0) -> str:
    """Return which advice fits reads of shared memory: wider ones where their queue is full and no arithmetic is known.

    A larger tile feeds more arithmetic with each value: a search or a sort has none to feed, nor has a sum of integers.
    """
    feeds = case.arithmetic_fraction or SM in _beside_accesses(case)
    return "wide" if _is_queue_full(case) and not feeds and passes < WIDE_PASSES.value else "shared"


def _why_l1(case: Case, kind: str, per_request: float | None) -> str:
    sectors = request_sectors(case, "ld")
    if kind == "kept":
        loads = f" A load moves {sectors:.3g} sectors per request." if sectors is not None else ""
        return f"L1 is the busiest unit.{loads} Its accesses have 8 or 16 bytes per thread already, or are scattered."
    if per_request is not None:
        return "Each access is efficient, but there are very many of them for the arithmetic that they feed."
    queued = _is_queue_full(case) and uses_shared(case)
    return f"L1 is the busiest unit{', and the queue of shared memory before it is full' if queued else ''}."


def _time_of_l1(case: Case, fraction: float) -> float:
    """Return the share of the time in which L1 is busy: that of the SMs that have work, where only those make it full.

    The kernel lasts as long as they do; that others have none makes it no shorter.
    """
    while_working = while_active(case, fraction)
    if 100 * fraction >= BUSY.value or while_working is None:
        return fraction
    return max(fraction, case.working_share * min(1.0, while_working))


def _while_working_text(case: Case, fraction: float) -> str:
    """Say how busy L1 is where there is work, if only that makes it the limit."""
    while_working = while_active(case, fraction)
    if 100 * fraction >= BUSY.value or while_working is None:
        return ""
    return f", {format_percent(min(1.0, while_working))} while SMs have work"


def _fewer_passes(case: Case) -> Saving:
    """Bound what fewer passes gain: scattered accesses fetch sectors for nothing, which L2 and DRAM carry too."""
    stays = {"l1": l1_keeps(case)}
    bound = case.saving({**stays, "l2": 0.0, "dram": 0.0})
    return bound.if_held(case.saving(stays).fraction, "the same bytes through L2 and DRAM")


_L1_WORDS = {WAVEFRONTS: "L1 data pipe busy", REQUESTS: "L1 requests, of peak"}


def _passes_text(per_request: float, *, counted: bool) -> str:
    if counted and per_request < _ONE_PASS:
        return "; mostly one wavefront per request"
    return f"; {'' if counted else 'at least '}{per_request:.2g} wavefronts per request"


_ONE_PASS = 1.5
_FEWER_PASSES = (
    "Pad or swizzle arrays in shared memory so that the threads of a warp hit different banks, and let consecutive "
    "threads access consecutive addresses in global memory. To see which of them it is, profile again with ncu --set "
    "full, or with the metrics l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum and "
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum."
)


def _many_passes(case: Case, *, uses_shared: bool) -> str:
    """Say what takes so many passes: how idle L2 is tells scattered accesses that miss L1 from the rest."""
    why = "A request of a warp takes one to four L1 wavefronts by its width; more come from "
    l2, l1 = case.at_most("l2"), case.needs["l1"]
    if not uses_shared:
        return f"{why}uncoalesced accesses or bank conflicts."
    if l2 is None or 100 * l2 >= FROM_L2.value * l1:
        return f"{why}uncoalesced accesses or bank conflicts; the metrics of this report do not show which."
    return (
        f"{why}bank conflicts in shared memory or scattered global accesses. L2 is at most {format_percent(l2)} busy, "
        "so most wavefronts fetch nothing from it: they are bank conflicts, or scattered accesses that hit in L1."
    )


def _shared(case: Case) -> Iterator[RuleVerdict]:
    shared = case.number(SHARED_BUSY)
    if shared is None:
        yield from _shared_by_counts(case)
    if shared is None or shared < BUSY.value:
        return
    fraction = min(1.0, shared / 100)
    if any(case.needs.get(level, 0.0) > fraction for level in ("dram", "l2")):
        return
    yield RuleVerdict(
        headline=f"Shared-memory bandwidth: {format_percent(fraction)} of peak",
        why="Shared memory serves one wavefront of 128 bytes per SM and cycle, and warps wait for it.",
        action=_ACTIONS[_kind_of_shared(case)],
        advice=_ADVICE[_kind_of_shared(case)],
        confidence="inferred",
        saving=_reuse(case, fraction, "l2", "dram"),
        evidence=(
            *case.metric(SHARED_BUSY, "shared-memory data pipe busy", "%", BUSY.value),
            *case.stall_evidence("short_scoreboard", None),
            *case.stall_evidence("mio_throttle", None),
        ),
        location=case.place_of("memory_l1_wavefronts_shared"),
    )


_INSTRUCTIONS = "smsp__inst_executed.sum"
_SHARED_ACCESSES = tuple(f"smsp__sass_inst_executed_op_shared_{kind}.sum" for kind in ("ld", "st"))


def _shared_by_counts(case: Case) -> Iterator[RuleVerdict]:
    """Guess it where counts are all that there is: shared memory then needs more cycles than the schedulers."""
    if case.busiest_need is not None or case.stalls or not case.can_have((SHARED_PASSES, *_SHARED_ACCESSES)):
        return
    instructions, passes = case.number(_INSTRUCTIONS), case.number(SHARED_PASSES) or case.total(_SHARED_ACCESSES)
    if not instructions or not passes:
        return
    ratio = case.schedulers * passes / instructions
    if ratio <= 1.0:
        return
    yield RuleVerdict(
        headline=f"Shared-memory bandwidth: {format_percent(passes / instructions)} of instructions access shared "
        "memory",
        why="Shared memory serves one access per SM and cycle, while the schedulers can issue four instructions. How "
        "busy any unit is was not collected.",
        action=_ACTIONS["shared"],
        advice=_ADVICE["shared"],
        confidence="guess",
        saving=None,
        evidence=(
            *case.metric(_INSTRUCTIONS, "instructions", "inst"),
            Evidence("", passes, "inst", threshold=instructions / case.schedulers, meaning="shared-memory accesses"),
        ),
    )


_DEVICE_MISSES = "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum"
_HOST_WRITES = "lts__t_sectors_srcunit_tex_aperture_sysmem_op_write.sum"
_DRAM_WRITES = "dram__sectors_write.sum"
"""L2 takes every write for a hit. What it passes on of the GPU's own memory is what DRAM writes; the host's all is."""
_DEVICE_FILLS = "lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed"
"""In every set: what L2 was filled with. Both peaks are one sector a cycle and slice."""


def _passed_on(case: Case) -> tuple[float, float] | None:
    """Return the sectors that L2 passes on to the host and to DRAM: misses, and writes where both sides counted them.

    None where the misses were not counted.
    """
    host, device = case.number(HOST_MISSES), case.number(_DEVICE_MISSES)
    if host is None or device is None:
        return None
    written, dram = case.number(_HOST_WRITES), case.number(_DRAM_WRITES)
    return (host + written, device + dram) if written is not None and dram is not None else (host, device)


def _filled(case: Case) -> tuple[float, float] | None:
    """Return how much of L2's input came from the host and from DRAM; None where the host's is too little to matter."""
    host, device = case.number(HOST_FILLS), case.number(_DEVICE_FILLS)
    return (host, device) if host is not None and device is not None and host >= HOST_FILL.value else None


def _host(case: Case) -> Iterator[RuleVerdict]:
    counted = _passed_on(case)
    passed = counted or _filled(case)
    yield from _host_by_waits(case)
    if passed is None or sum(passed) <= 0:
        return
    system, device = passed
    if shares_memory(case):
        return
    share = system / (system + device)
    if 100 * share < HOST_SHARE.value:
        return
    where, verb = ("traffic below L2", "goes to") if counted else ("L2 fills", "come from")
    yield RuleVerdict(
        headline=f"Host memory traffic: {format_percent(share)} of {where} {verb} the host",
        why="The host link has a small part of DRAM's bandwidth, and each round trip takes a microsecond or more: the "
        "kernel waits for it.",
        action="Copy or prefetch the data to the GPU before the kernel",
        advice=(
            "Copy the data to the GPU before the kernel (cudaMemcpyAsync, .to('cuda')), or prefetch managed memory "
            "with cudaMemPrefetchAsync; read pinned host memory from a kernel only once and in order."
        ),
        confidence="measured" if counted else "inferred",
        saving=case.saving({}).if_held(explained(case, 0.0, MEMORY_STALLS), OTHER_WAITS),
        evidence=(
            *case.metric(HOST_MISSES, "L2 misses to the host", "sector"),
            *case.metric(_HOST_WRITES, "writes to the host", "sector"),
            *case.metric(_DEVICE_MISSES, "L2 misses to DRAM", "sector"),
            *case.metric(_DRAM_WRITES, "sectors written to DRAM", "sector"),
            *case.metric(HOST_FILLS, "L2 fills from the host, of peak", "%", HOST_FILL.value),
            *case.metric(_DEVICE_FILLS, "L2 fills from DRAM, of peak", "%"),
            Evidence("", 100 * share, "%", threshold=HOST_SHARE.value, meaning=f"host share of {where}"),
        ),
        location=case.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


def _host_by_waits(case: Case) -> Iterator[RuleVerdict]:
    """Guess it where warps wait longer than the GPU's memory takes, and nothing of the host link was collected."""
    far = far_memory(case)
    if far is None:
        return
    yield RuleVerdict(
        headline=f"Host memory or page faults: a warp has {significant(far.cycles)} cycles for each instruction",
        why=f"Neither L2 ({format_percent(far.l2)} busy) nor DRAM ({format_percent(far.dram)}) is that slow, and L2 "
        "takes in more than the SMs ask for. So warps may wait for pages of managed memory that come from the host "
        "while the kernel runs, or for host memory over the link. Atomics on few addresses look alike.",
        action="Bring the data to the GPU before the kernel: cudaMemPrefetchAsync, or cudaMalloc and copies",
        advice="Prefetch managed memory with cudaMemPrefetchAsync before the launch, or allocate with cudaMalloc and "
        "copy (cudaMemcpyAsync); read host memory from a kernel only once and in order. To see whether it is that, "
        f"collect {HOST_FILLS}, {_DEVICE_FILLS} and {HOST_MISSES} with ncu --metrics, atomics with "
        "lts__t_sectors_op_atom.sum and lts__t_sectors_op_red.sum, or page faults with nsys profile "
        "--cuda-um-gpu-page-faults=true.",
        confidence="guess",
        saving=case.saving({}).only_if("the same instructions and bytes"),
        evidence=(
            Evidence(
                "", far.cycles, "cycle", threshold=FAR.value, meaning="cycles per instruction of a warp, at least"
            ),
            Evidence(case.light_metric("l2"), 100 * far.l2, "%", threshold=TAKES_IN.value, meaning="L2 busy"),
            Evidence(case.light_metric("dram"), 100 * far.dram, "%", threshold=IDLE.value, meaning="DRAM busy"),
            *case.issue_evidence(None),
        ),
        location=case.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


_REUSE_GAIN = (
    "With the same arithmetic and the same bytes of the levels below: 1 − the largest of what {below}, the "
    "arithmetic pipes and the floating-point work of its peak need; a bound where that work or the launch needs most. "
    "No more than the level's busy fraction, with the rest of the time unchanged. The load/store unit and the integer "
    "pipe do not count: accesses and their addresses keep them busy, and go. Of the issue slots, with the same other "
    "instructions, what is beyond the passes of L1 counts ((instructions − passes) per cycle ÷ 4), because an access "
    "takes one at least; so does the SM's own speed of light where it is above that of memory, the issue slots and the "
    "pipes of accesses and addresses by more than 2 points. Where nothing tells of the arithmetic it holds with little "
    "of it."
)


def _bandwidth_rule(
    level: str,
    name: str,
    check: Callable[[Case], Iterator[RuleVerdict]],
    looks_at: str,
    gain: str,
    causes: tuple[Cause, ...],
    metrics: tuple[str, ...] = (),
    thresholds: tuple[Threshold, ...] = (),
    silent: str = "",
    place: TreePlace = AT_MEMORY,
) -> Rule:
    return Rule(
        f"{level}-bandwidth",
        f"{name} bandwidth is the limit",
        about="limit",
        looks_at=looks_at,
        thresholds=(BUSY, *thresholds),
        gain=gain,
        silent=silent
        or f"{name.replace('-', ' ')} is under 60 % busy, or another memory level is busier, or it was not collected.",
        check=check,
        metrics=metrics,
        causes=causes,
        place=place,
    )


def _are_mostly_conflicts(finding: Finding) -> bool:
    """Tell whether conflicts are most passes of shared memory and worth a fifth of the time.

    The limit promises what is left without any access, which no repair reaches.
    """
    shares = (item.value for item in finding.evidence if item.meaning == CONFLICT_SHARE)
    return finding.severity == "high" and any(share >= _MOST_PASSES for share in shares)


_MOST_PASSES = 50.0
_SPILL, _ATOMIC = Cause("local-memory-spill"), Cause("atomic-contention")
_CONFLICT = Cause("shared-bank-conflict", most=_are_mostly_conflicts)


def _scattered(level: str) -> Cause:
    return Cause("uncoalesced-global", when=lambda case: excess_reaches(case, level))


def _shared_atomics(case: Case) -> bool:
    """Tell whether atomics are most of what shared memory does."""
    atomics, shared = case.number(SHARED_ATOMICS), case.number(SHARED_BUSY)
    return atomics is not None and shared is not None and 2 * atomics >= shared


def _spilled(level: str) -> Cause:
    return Cause("local-memory-spill", when=lambda case: local_reaches(case, level))


RULES = (
    _bandwidth_rule(
        "dram",
        "DRAM",
        _dram,
        "Speed of light of DRAM against that of L2 and L1. From 80 % on it is reported as a fact (`info`), whatever "
        "else is busy. Below it, cycles that warps wait in Long Scoreboard ÷ loads by opcode, a lower bound of what a "
        "load takes, tell whether requests queue, so that more of them in flight gain nothing.",
        "With the same bytes: 1 − the busiest unit. DRAM counts as a share of the most that reads reach of its peak, "
        "as `characterize` measured, or else as published for the architecture (95 % on H100). Fewer bytes gain more: "
        "1 − the busiest pipe beside those of accesses and their addresses.",
        (_scattered("dram"), _spilled("dram")),
        thresholds=(NEAR_ROOF, BALANCED, QUEUED),
        silent="DRAM is under 60 % busy, or under 80 % and another memory level is busier by more than a twentieth, or "
        "the SM by more than 10 points, or it was not collected.",
    ),
    _bandwidth_rule(
        "l2",
        "L2",
        _l2,
        "The busiest part of L2 (data, tag lookups, crossbar to or from the SMs, atomic unit) against DRAM and L1, or "
        "the fabric between its halves, where that was collected and is at 80 % or more; and its bytes against DRAM's: "
        "twice as many or fewer are hardly read again. It is a guess with DRAM's unknown, and under 80 % with the SM's "
        "unknown.",
        f"{_REUSE_GAIN.format(below='DRAM')} Where L2's bytes are hardly read again, fewer of them are fewer of "
        "DRAM's: what that needs is then no bound, and its bytes are not held.",
        (_scattered("l2"), _spilled("l2"), _ATOMIC),
        thresholds=(BALANCED, FABRIC_FULL),
        silent="L2 is under 60 % busy, or L1 is busier, or DRAM is within a twentieth of it, or the SM is busier by "
        "more than 10 points, or its parts were not collected: L2's own figure counts the fabric between its halves, "
        "too (A100, H100, B200).",
    ),
    _bandwidth_rule(
        "l1",
        "L1",
        _l1,
        "Speed of light of L1 over elapsed cycles, or the busy fraction of its load/store data pipe, and how many "
        "wavefronts a request takes there; where the bytes of shared memory are not known, conflicts in it or the "
        "stalls on its queue tell that it is used. Where it is less busy because many SMs have no work, it is the "
        "limit if it is near its ceiling while SMs have work; its share of the time is then that of those SMs. It is a "
        "guess with DRAM's speed unknown, and under 80 % with the SM's unknown.",
        f"{_REUSE_GAIN.format(below='L2, DRAM')} At 4.5 wavefronts per request or more: 1 − the largest of the needs "
        "with L1 reduced to its requests and the registers that it writes, with the same bytes through L2 and DRAM.",
        (Cause("uncoalesced-global"), _CONFLICT, _SPILL, Cause("narrow-access"), _ATOMIC),
        metrics=(WAVEFRONTS, REQUESTS),
        thresholds=(NEAR_ROOF, MANY_WAVEFRONTS, WIDE_PASSES, WIDE_SECTORS, DOMINANT, FROM_L2),
        silent="L1 is under 60 % busy, and under 80 % while SMs have work, or another memory level is busier, or it "
        "was not collected.",
    ),
    _bandwidth_rule(
        "shared",
        "Shared-memory",
        _shared,
        "Busy fraction of the data pipe by shared-memory wavefronts. Where no busy fraction and no warp state was "
        "collected, shared-memory accesses against instructions: more than a quarter is a guess.",
        _REUSE_GAIN.format(below="L2, DRAM"),
        (_CONFLICT, Cause("atomic-contention", when=_shared_atomics), Cause("reduction-tree")),
        metrics=(SHARED_BUSY,),
        place=AT_SHARED,
    ),
    Rule(
        "host-memory-traffic",
        "The kernel reads or writes host memory",
        about="defect",
        looks_at="Sectors that L2 passes on to the host or to the GPU's own DRAM: misses, and writes where both sides "
        "were counted. Else what fills L2, from either (basic set). Where neither was collected it is a guess by how "
        "long warps wait: achieved warps ÷ instructions issued per cycle, or as many as the SM's speed of light "
        "allows, while DRAM, L1 and the SM are idle and L2 is more than twice as busy as L1.",
        thresholds=(HOST_SHARE, HOST_FILL, FAR, IDLE, TAKES_IN),
        gain="1 − the busiest unit: all of them stay as they are. Where stalls were collected, 1.25 times those on "
        "memory, barriers and fences, with the other stalls unchanged.",
        silent="Under 10 % of them go to the host, neither misses nor fills were collected and warps wait no longer "
        "than for DRAM, or for links to other GPUs, the host fills less than 0.1 % of what L2 can take in, or the GPU "
        "shares the host's memory.",
        check=_host,
        metrics=(HOST_MISSES, _DEVICE_MISSES, _HOST_WRITES, _DRAM_WRITES),
        outlasts=lambda _: True,
        place=AT_MEMORY,
    ),
)
