"""Rules on what a kernel runs into: the bandwidth of a memory level, or traffic over the host link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.diagnose.case import MEMORY_STALLS, REQUESTS, WAVEFRONTS, Case
from gpuprof.diagnose.dram_latency import FAR, IDLE, QUEUED, cycles_per_load
from gpuprof.diagnose.far_memory import HOST_FILLS, HOST_MISSES, TAKES_IN, far_memory, shares_memory
from gpuprof.diagnose.l2_parts import FABRIC, FABRIC_FULL, L2Part, busiest_part, fabric_busy
from gpuprof.diagnose.latency import DOMINANT
from gpuprof.diagnose.needs import ISSUE, LAUNCH, SM, WORK, Saving, saving
from gpuprof.diagnose.rule import AT_MEMORY, AT_SHARED, Cause, Rule, Threshold, finding, percent
from gpuprof.diagnose.traffic import (
    CONFLICT_SHARE,
    OTHER_WAITS,
    SHARED_ATOMICS,
    SHARED_BUSY,
    SHARED_CONFLICTS,
    SHARED_CONFLICTS_BY_KIND,
    SHARED_PASSES,
    bytes_of,
    copies_ahead_case,
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
from gpuprof.model.findings import Amount, Cases, Label
from gpuprof.model.headline import AS_BUSY, TWO_PASSES
from gpuprof.model.session import Evidence, Finding

BUSY = percent("busy", 60.0)
NEAR_ROOF = percent("near-ceiling", 80.0)
MANY_WAVEFRONTS = Threshold("wavefronts-per-request", 4.5, "wavefront")
WIDE_PASSES = Threshold("wide-passes", 2.0, "wavefront")
WIDE_SECTORS = Threshold("wide-sectors", 8.0, "sector")
FROM_L2 = percent("l2-relative-to-l1", 10.0)
BALANCED = percent("sm-above-memory", 10.0)
HOST_SHARE = percent("host-share", 10.0)
HOST_FILL = percent("host-fills", 0.1)

_LEVELS = ("dram", "l2", "l1")
_AHEAD = 100 * TWO_PASSES
"""What one counter can differ by between two passes of ncu, in percent."""


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
    arithmetic = "same-arithmetic" if is_told else "little-arithmetic"
    same_bytes = (f"same-bytes-through-{'-and-'.join(below)}",) if below else ()
    told = bound.if_held(1.0 - max((work, *stays.values())), arithmetic, *same_bytes)
    beside = 1.0 - max(others.values(), default=0.0)
    told = told.if_held(beside, "same-other-instructions", *same_bytes)
    return told.if_held(fraction, "rest-of-its-time-unchanged")


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


def _collected(*amounts: tuple[str, float | None, str]) -> tuple[Amount, ...]:
    return tuple(Amount(name, value, unit) for name, value, unit in amounts if value is not None)


def _evidence(case: Case, level: str, fraction: float) -> tuple[Evidence, ...]:
    rate = rate_of(case, level)
    metric = case.light_metric(level)
    return (
        Evidence(metric, 100 * fraction, "%", threshold=BUSY.value, role="unit-busy", of=(level,)),
        *((Evidence("", rate, "B/s", threshold=None, role="rate"),) if rate is not None else ()),
        *case.stall_evidence("long_scoreboard", None),
    )


def _dram(case: Case) -> Iterator[Finding]:
    """Near its ceiling DRAM is a fact and no defect; below it, a limit while no other level is busier."""
    fraction = _busy(case, "dram")
    if fraction is None:
        return
    near = 100 * fraction >= NEAR_ROOF.value
    busiest = _is_busiest(case, "dram")
    if not near and (busiest is False or _sm_is_ahead(case, fraction)):
        return
    fewer = case.saving(dict.fromkeys((*_LEVELS, *_ACCESS_UNITS), 0.0))
    rate, waited = rate_of(case, "dram"), cycles_per_load(case)
    alike = tuple(level for level in ("l1", "l2") if case.needs.get(level, 0.0) >= AS_BUSY * fraction)
    headline = "main" if rate is None else "counted"
    is_full = near or (waited is not None and waited >= QUEUED.value)
    fewer_bytes = ("main", "fewer-bytes")
    yield finding(
        case,
        Cases(
            headline=(headline, "near") if near else (headline,),
            why=_why_dram(case, waited, near=near, is_alone=not alike),
            action=("main" if is_full else "in-flight",),
            advice=fewer_bytes if is_full else ("in-flight", copies_ahead_case(case), *fewer_bytes),
        ),
        amounts=_collected(
            ("busy", fraction, "fraction"),
            ("rate", rate, "B/s"),
            ("reached", case.dram_reached, "fraction"),
            ("waited", waited, "cycle"),
        ),
        labels=(Label("alike", alike),) if alike else (),
        subject="dram",
        confidence="measured" if near or busiest else "inferred",
        saving=fewer.if_held(case.saving({}).fraction, "same-bytes"),
        evidence=(
            *_evidence(case, "dram", fraction),
            *((Evidence("", waited, "cycle", threshold=QUEUED.value, role=QUEUED.name),) if waited is not None else ()),
        ),
        place=case.place_of_stall("long_scoreboard", "lg_throttle"),
        severity="info" if near else None,
    )


def _why_dram(case: Case, waited: float | None, *, near: bool, is_alone: bool) -> tuple[str, ...]:
    """Return why DRAM is not fuller: the requests queue, or there are too few of them; without stalls it is unknown.

    What it can still gain is the gap to the share of its peak that kernels reach.
    """
    gap = "gap-to-reached" if case.dram_reached < 1.0 else "gap"
    if near:
        return ("same-bytes", gap, "in-proportion")
    busy = "main" if is_alone else "alike"
    if waited is None:
        return (busy, "perhaps-few-in-flight", "same-bytes", gap, "gain-more")
    if waited < QUEUED.value:
        return (busy, "few-in-flight", "same-bytes", gap, "gain-more")
    return (busy, "queue", gap, "other-order")


def _l2(case: Case) -> Iterator[Finding]:
    """Name the part of L2 that limits; only of those that carry bytes does the headline have bytes."""
    full_fabric = _full_fabric(case)
    if full_fabric is not None:
        metric, fraction = full_fabric
        busy = Evidence(metric, 100 * fraction, "%", threshold=FABRIC_FULL.value, role="fabric-busy")
        yield _l2_finding(case, FABRIC, fraction, (busy,))
        return
    fraction_of_parts = _busy(case, "l2")
    if fraction_of_parts is None or _is_busiest(case, "l2") is False or _sm_is_ahead(case, fraction_of_parts):
        return
    yield _l2_finding(case, busiest_part(case), fraction_of_parts, _evidence(case, "l2", fraction_of_parts))


def _full_fabric(case: Case) -> tuple[str, float] | None:
    """Return how busy the fabric of L2 is, and its metric, if it is well used and nothing else in memory is as busy."""
    fabric = fabric_busy(case)
    if fabric is None or 100 * fabric[1] < FABRIC_FULL.value or _sm_is_ahead(case, fabric[1]):
        return None
    levels = [case.needs.get(level, 0.0) for level in _LEVELS]
    return fabric if max(levels) < AS_BUSY * fabric[1] else None


def _l2_finding(case: Case, part: L2Part | None, fraction: float, evidence: tuple[Evidence, ...]) -> Finding:
    rate, subject, headline = None, "l2", "main"
    if part is not None and part.is_level:
        rate = rate_of(case, "l2")
        headline = "main" if rate is None else "counted"
    elif part is not None:
        subject, headline = f"l2-{part.name}", part.name
    change = _change_of_l2(case, part)
    # Bytes that are not read again are DRAM's as well.
    levels = () if change == "once" else ("dram",)
    return finding(
        case,
        Cases(
            headline=(headline,),
            why=("part", part.name) if part is not None else ("main",),
            action=(change,),
            advice=_L2_ADVICE[change],
        ),
        amounts=_collected(("busy", fraction, "fraction"), ("rate", rate, "B/s")),
        subject=subject,
        confidence=_confidence(case, "l2"),
        saving=_reuse(case, fraction, *levels),
        evidence=evidence,
        place=case.place_of_stall("long_scoreboard", "lg_throttle"),
    )


_L2_ADVICE = {
    "main": ("main", "on-chip"),
    "once": ("once", "dram-bandwidth/fewer-bytes"),
    "unknown": ("if-read-again", "on-chip", "unknown"),
    "requests": ("requests",),
}


def _change_of_l2(case: Case, part: L2Part | None) -> str:
    """Return which change helps: fewer requests if these fill the part; else by whether L2 moves most bytes again."""
    l2, dram = bytes_of(case, "l2"), bytes_of(case, "dram")
    if part is not None and not part.by_bytes:
        return "requests"
    if l2 is None or dram is None:
        return "unknown"
    return "main" if l2 > 2 * dram else "once"


def _l1(case: Case) -> Iterator[Finding]:
    busiest, fraction = case.busiest_of_l1, case.needs.get("l1")
    if busiest is None or fraction is None or not is_l1_full(case, fraction) or _is_busiest(case, "l1") is False:
        return
    if _sm_is_ahead(case, fraction, _AHEAD):
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
    if many:
        kind, why = "passes", _why_many_passes(case, uses_shared=bool(shares))
    else:
        kind = _kind_of_shared(case, at_least) if shares else _kind_of_global(case, at_least)
        why = _why_l1(case, kind, per_request)
    headline = ["with-shared" if shares else "main"]
    while_working, sm = _while_working(case, fraction), _beside_accesses(case).get(SM, 0.0)
    if while_working is not None:
        headline.append("while-working")
    if per_request is not None:
        headline.append("one-pass" if per_request < _ONE_PASS else "passes")
    elif at_least >= WIDE_PASSES.value and kind in {"passes", "kept"}:
        headline.append("passes-at-least")
    if not many and 100 * sm >= NEAR_ROOF.value:
        headline.append("full-sm")
        why = (*why, "full-sm")
    name, value = busiest[0], 100 * fraction
    queue = case.stall_evidence("mio_throttle", DOMINANT.value) if shares and _is_queue_full(case) else ()
    yield finding(
        case,
        Cases(headline=tuple(headline), why=why, action=(kind,), advice=(kind,)),
        amounts=_collected(
            ("busy", fraction, "fraction"),
            ("while-working", while_working, "fraction"),
            ("passes", at_least or None, "wavefront"),
            ("sectors", request_sectors(case, "ld"), "sector"),
            ("l2", case.at_most("l2"), "fraction"),
            ("sm", sm or None, "fraction"),
        ),
        subject="l1",
        confidence=_confidence(case, "l1"),
        saving=_fewer_passes(case) if many else _reuse(case, _time_of_l1(case, fraction), "l2", "dram"),
        evidence=(
            Evidence(name, value, "%", threshold=BUSY.value, role=_L1_ROLES.get(name, "unit-busy"), of=("l1",)),
            *(item for other in _L1_ROLES if other != name for item in case.metric(other, _L1_ROLES[other], "%")),
            *queue,
        ),
        place=case.place_of_stall("lg_throttle", "mio_throttle", "short_scoreboard", "long_scoreboard"),
    )


_L1_ROLES = {WAVEFRONTS: "l1-data-pipe", REQUESTS: "l1-requests"}
_ONE_PASS = 1.5


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
    """Return which change fits accesses of global memory: wider ones help only if these are narrow."""
    sectors = request_sectors(case, "ld") or 0.0
    return "kept" if passes >= WIDE_PASSES.value or sectors >= WIDE_SECTORS.value else "main"


def _kind_of_shared(case: Case, passes: float = 0.0) -> str:
    """Return which change fits reads of shared memory: wider ones if their queue is full and no arithmetic is known.

    A larger tile feeds more arithmetic with each value: a search or a sort has none to feed, nor has a sum of integers.
    """
    feeds = case.arithmetic_fraction or SM in _beside_accesses(case)
    if feeds or passes >= WIDE_PASSES.value or not _is_queue_full(case):
        return "shared-bandwidth/larger-tile"
    return "shared-bandwidth/wide"


def _why_l1(case: Case, kind: str, per_request: float | None) -> tuple[str, ...]:
    if kind == "kept":
        loads = () if request_sectors(case, "ld") is None else ("load-sectors",)
        return ("main", *loads, "kept")
    if per_request is not None:
        return ("many-accesses",)
    return ("full-queue",) if _is_queue_full(case) and uses_shared(case) else ("main",)


def _time_of_l1(case: Case, fraction: float) -> float:
    """Return the share of the time in which L1 is busy: that of the SMs that have work, where only those make it full.

    The kernel lasts as long as they do; that others have none makes it no shorter.
    """
    while_working = _while_working(case, fraction)
    return fraction if while_working is None else max(fraction, case.working_share * while_working)


def _while_working(case: Case, fraction: float) -> float | None:
    """Return how busy L1 is while SMs have work, if only that makes it the limit."""
    while_working = while_active(case, fraction)
    return min(1.0, while_working) if while_working is not None and 100 * fraction < BUSY.value else None


def _fewer_passes(case: Case) -> Saving:
    """Bound what fewer passes gain: scattered accesses fetch sectors for nothing, which L2 and DRAM carry too."""
    stays = {"l1": l1_keeps(case)}
    bound = case.saving({**stays, "l2": 0.0, "dram": 0.0})
    return bound.if_held(case.saving(stays).fraction, "same-bytes-through-l2-and-dram")


def _why_many_passes(case: Case, *, uses_shared: bool) -> tuple[str, ...]:
    """Return what takes so many passes: how idle L2 is tells scattered accesses that miss L1 from the rest."""
    if not uses_shared:
        return ("many-passes", "either")
    l2 = case.at_most("l2")
    is_idle = l2 is not None and 100 * l2 < FROM_L2.value * case.needs["l1"]
    return ("many-passes", "idle-l2" if is_idle else "either-unknown")


def _shared(case: Case) -> Iterator[Finding]:
    shared = case.number(SHARED_BUSY)
    if shared is None:
        yield from _shared_by_counts(case)
    if shared is None or shared < BUSY.value:
        return
    fraction = min(1.0, shared / 100)
    if any(case.needs.get(level, 0.0) > fraction for level in ("dram", "l2")):
        return
    kind = _kind_of_shared(case)
    yield finding(
        case,
        Cases(action=(kind,), advice=(kind,)),
        amounts=(Amount("busy", fraction, "fraction"),),
        subject="shared",
        confidence="inferred",
        saving=_reuse(case, fraction, "l2", "dram"),
        evidence=(
            *case.metric(SHARED_BUSY, "data-pipe", "%", BUSY.value),
            *case.stall_evidence("short_scoreboard", None),
            *case.stall_evidence("mio_throttle", None),
        ),
        place=case.place_of("memory_l1_wavefronts_shared"),
    )


_INSTRUCTIONS = "smsp__inst_executed.sum"
_SHARED_ACCESSES = tuple(f"smsp__sass_inst_executed_op_shared_{kind}.sum" for kind in ("ld", "st"))


def _shared_by_counts(case: Case) -> Iterator[Finding]:
    """Guess it where counts are all that there is: shared memory then needs more cycles than the schedulers."""
    if case.busiest_need is not None or case.stalls or not case.can_have((SHARED_PASSES, *_SHARED_ACCESSES)):
        return
    instructions, passes = case.number(_INSTRUCTIONS), case.number(SHARED_PASSES) or case.total(_SHARED_ACCESSES)
    if not instructions or not passes:
        return
    if case.schedulers * passes <= instructions:
        return
    yield finding(
        case,
        Cases(headline=("by-counts",), why=("by-counts",), action=("larger-tile",), advice=("larger-tile",)),
        amounts=(Amount("of-instructions", passes / instructions, "fraction"),),
        subject="shared",
        confidence="guess",
        evidence=(
            *case.metric(_INSTRUCTIONS, "instructions", "inst"),
            Evidence("", passes, "inst", threshold=instructions / case.schedulers, role="accesses"),
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


def _host(case: Case) -> Iterator[Finding]:
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
    kind = "traffic" if counted else "fills"
    yield finding(
        case,
        Cases(headline=(kind,)),
        amounts=(Amount("share", share, "fraction"),),
        confidence="measured" if counted else "inferred",
        saving=case.saving({}).if_held(explained(case, 0.0, MEMORY_STALLS), OTHER_WAITS),
        evidence=(
            *case.metric(HOST_MISSES, "misses-to-host", "sector"),
            *case.metric(_HOST_WRITES, "writes-to-host", "sector"),
            *case.metric(_DEVICE_MISSES, "misses-to-dram", "sector"),
            *case.metric(_DRAM_WRITES, "writes-to-dram", "sector"),
            *case.metric(HOST_FILLS, "fills-from-host", "%", HOST_FILL.value),
            *case.metric(_DEVICE_FILLS, "fills-from-dram", "%"),
            Evidence("", 100 * share, "%", threshold=HOST_SHARE.value, role=f"host-share-of-{kind}"),
        ),
        place=case.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


def _host_by_waits(case: Case) -> Iterator[Finding]:
    """Guess it if warps wait longer than the GPU's memory takes, and nothing of the host link was collected."""
    far = far_memory(case)
    if far is None:
        return
    l2, dram = 100 * far.l2, 100 * far.dram
    yield finding(
        case,
        Cases(headline=("waits",), why=("waits",), action=("waits",), advice=("waits",)),
        amounts=(
            Amount("cycles", far.cycles, "cycle"),
            Amount("l2", far.l2, "fraction"),
            Amount("dram", far.dram, "fraction"),
        ),
        confidence="guess",
        saving=case.saving({}).only_if("same-instructions-and-bytes"),
        evidence=(
            Evidence("", far.cycles, "cycle", threshold=FAR.value, role="least-cycles"),
            Evidence(case.light_metric("l2"), l2, "%", threshold=TAKES_IN.value, role="unit-busy", of=("l2",)),
            Evidence(case.light_metric("dram"), dram, "%", threshold=IDLE.value, role="unit-busy", of=("dram",)),
            *case.issue_evidence(None),
        ),
        place=case.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


def _are_mostly_conflicts(found: Finding) -> bool:
    """Tell whether conflicts are most passes of shared memory and worth a fifth of the time.

    The limit promises what is left without any access, which no repair reaches.
    """
    shares = (item.value for item in found.evidence if item.role == CONFLICT_SHARE)
    return found.severity == "high" and any(share >= _MOST_PASSES for share in shares)


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
    Rule(
        "dram-bandwidth",
        kind="limit",
        thresholds=(BUSY, NEAR_ROOF, BALANCED, QUEUED),
        check=_dram,
        causes=(_scattered("dram"), _spilled("dram")),
        place=AT_MEMORY,
    ),
    Rule(
        "l2-bandwidth",
        kind="limit",
        thresholds=(BUSY, BALANCED, FABRIC_FULL),
        check=_l2,
        causes=(_scattered("l2"), _spilled("l2"), _ATOMIC),
        place=AT_MEMORY,
    ),
    Rule(
        "l1-bandwidth",
        kind="limit",
        thresholds=(BUSY, NEAR_ROOF, MANY_WAVEFRONTS, WIDE_PASSES, WIDE_SECTORS, DOMINANT, FROM_L2),
        check=_l1,
        metrics=(WAVEFRONTS, REQUESTS),
        causes=(Cause("uncoalesced-global"), _CONFLICT, _SPILL, Cause("narrow-access"), _ATOMIC),
        place=AT_MEMORY,
    ),
    Rule(
        "shared-bandwidth",
        kind="limit",
        thresholds=(BUSY,),
        check=_shared,
        metrics=(SHARED_BUSY,),
        causes=(_CONFLICT, Cause("atomic-contention", when=_shared_atomics), Cause("reduction-tree")),
        place=AT_SHARED,
    ),
    Rule(
        "host-memory-traffic",
        kind="defect",
        thresholds=(HOST_SHARE, HOST_FILL, FAR, IDLE, TAKES_IN),
        check=_host,
        metrics=(HOST_MISSES, _DEVICE_MISSES, _HOST_WRITES, _DRAM_WRITES),
        survives_code_change=lambda _: True,
        place=AT_MEMORY,
    ),
)
