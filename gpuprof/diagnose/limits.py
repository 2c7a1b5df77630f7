"""Rules on what a kernel runs into: the bandwidth of a memory level, or traffic over the host link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuprof.diagnose.case import MEMORY_STALLS, REQUESTS, SHARED_STALLS, WAVEFRONTS, Case
from gpuprof.diagnose.dram_latency import FAR, IDLE, QUEUED, cycles_per_load
from gpuprof.diagnose.far_memory import HOST_FILLS, HOST_MISSES, TAKES_IN, far_memory, shares_memory
from gpuprof.diagnose.latency import DOMINANT
from gpuprof.diagnose.needs import ISSUE, LAUNCH, SM, WORK, Saving, saving
from gpuprof.diagnose.rule import (
    AT_MEMORY,
    AT_SHARED,
    Cause,
    Rule,
    Threshold,
    amounts_of,
    cases_named,
    cases_of,
    context,
    finding,
    labels_of,
    percent,
)
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
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.headline import AS_BUSY, TWO_PASSES
from gpuprof.model.session import Evidence, Finding

BUSY = percent("busy", 60.0)
NEAR_ROOF = percent("near-ceiling", 80.0)
MANY_WAVEFRONTS = Threshold("wavefronts-per-request", 4.5, "wavefront/request")
WIDE_PASSES = Threshold("wide-passes", 2.0, "wavefront")
WIDE_SECTORS = Threshold("wide-sectors", 8.0, "sector")
FABRIC_FULL = percent("full-fabric", 80.0)
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
    own = case.needs[level]
    others = {other: case.at_most(other) for other in _LEVELS if other != level}
    most = own / AS_BUSY if level == "dram" else own
    if any(value is not None and value > most for value in others.values()):
        return False
    if level != "dram" and case.needs.get("dram", 0.0) >= AS_BUSY * own:
        return False
    overall = case.utilisation.get("memory")
    known = None not in others.values() or (overall is not None and own >= AS_BUSY * overall)
    return True if known else None


def _sm_is_ahead(case: Case, fraction: float, points: float = BALANCED.value) -> bool:
    return 100 * (case.needs.get(SM, 0.0) - fraction) > points


def is_l1_full(case: Case) -> bool:
    """Tell whether L1 is a limit: busy for most of the time, or well used while SMs have work, of which many have none.

    The other levels are shared by all SMs. An SM that hardly works has an L1 that is three times as busy as can be (an
    empty kernel on an H100): that tells nothing.
    """
    while_working = while_active(case, case.l1_busy) or 0.0
    return BUSY.is_reached(case.l1_busy) or NEAR_ROOF.value <= 100 * while_working <= _MOST_BUSY


_MOST_BUSY = 110.0
"""Percent that a unit can seem to be busy for: cycles of two passes differ."""


def _confidence(case: Case, level: str) -> Confidence:
    """What is busier than all other levels is the limit; with DRAM's speed unknown, DRAM can be, and so can the SM."""
    if SM not in case.needs and not NEAR_ROOF.is_reached(case.needs.get(level, 1.0)):
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


def _unit_busy(case: Case, level: str, threshold: Threshold = BUSY) -> Evidence:
    return threshold.evidence(100 * case.needs[level], "unit-busy", level, metric=case.light_metric(level))


def _evidence(case: Case, level: str) -> tuple[Evidence, ...]:
    rate = context("rate", rate_of(case, level), "B/s")
    return (_unit_busy(case, level), *rate, *case.stall_evidence("long_scoreboard"))


def _dram(case: Case) -> Iterator[Finding]:
    """Near its ceiling DRAM is a fact and no defect; below it, a limit while no other level is busier."""
    fraction = case.needs.get("dram")
    if fraction is None or not BUSY.is_reached(fraction):
        return
    near, busiest = NEAR_ROOF.is_reached(fraction), _is_busiest(case, "dram")
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
        amounts=(
            *amounts_of(busy=fraction, reached=case.dram_reached),
            *amounts_of("B/s", rate=rate),
            *amounts_of("cycle", waited=waited),
        ),
        labels=labels_of(alike=alike),
        subject="dram",
        confidence="measured" if near or busiest else "inferred",
        saving=fewer.if_held(case.saving({}).fraction, "same-bytes"),
        evidence=(
            *_evidence(case, "dram"),
            *((QUEUED.evidence(waited),) if waited is not None else ()),
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
    fabric, fraction = _full_fabric(case), case.needs.get("l2")
    if fabric is not None:
        metric, full = fabric
        yield _l2_finding(case, "fabric", full, (FABRIC_FULL.evidence(100 * full, "fabric-busy", metric=metric),))
        return
    if fraction is None or not BUSY.is_reached(fraction):
        return
    if _is_busiest(case, "l2") is not False and not _sm_is_ahead(case, fraction):
        yield _l2_finding(case, _busiest_part(case, fraction), fraction, _evidence(case, "l2"))


_ELAPSED = ".avg.pct_of_peak_sustained_elapsed"
_PARTS = {
    "lts__t_sectors": "data",
    "lts__d_sectors": "data",
    "lts__lts2xbar_cycles_active": "crossbar-to-sms",
    "lts__xbar2lts_cycles_active": "crossbar-from-sms",
    "lts__t_tag_requests": "tag-lookups",
    "lts__d_atomic_input_cycles_active": "atomic-unit",
}
"""The parts of L2, of which the busiest one limits.

What each counts is in NVIDIA's descriptions of the metrics (`ncu --query-metrics`). In recorded launches on V100, A100,
A40 and H100 the crossbar from the SMs is busy for a cycle or less per load request, for one per sector that a store
fills, and for two per sector of which it fills a part. The crossbar to the SMs carries one sector per cycle and slice,
on A100 and H100 two.
"""
_CARRY_ALL_BYTES = ("data", "crossbar-to-sms")
_RELIEVED_BY_BYTES = (None, "fabric", *_CARRY_ALL_BYTES)


def _busiest_part(case: Case, fraction: float) -> str | None:
    """Return the busiest part of L2; None where no part that was collected is as busy as L2."""
    known = {name: busy for name in _PARTS if (busy := case.number(f"{name}{_ELAPSED}")) is not None}
    name = max(known, key=lambda part: known[part], default=None)
    return _PARTS[name] if name is not None and known[name] >= AS_BUSY * 100 * fraction else None


def _full_fabric(case: Case) -> tuple[str, float] | None:
    """Return how busy the fabric between the halves of L2 is if it is well used and nothing else in memory is as busy,
    and its metric.
    """
    counters = (counter for link in case.arch.counters.get("fabric.l2", ()) for counter in link.terms)
    known = ((name, factor * busy) for name, factor in counters if (busy := case.number(name)) is not None)
    name, fabric = next(known, ("", 0.0))
    if not FABRIC_FULL.is_reached(fabric) or _sm_is_ahead(case, fabric):
        return None
    levels = [case.needs.get(level, 0.0) for level in _LEVELS]
    return (name, fabric) if max(levels) < AS_BUSY * fabric else None


def _l2_finding(case: Case, part: str | None, fraction: float, evidence: tuple[Evidence, ...]) -> Finding:
    rate = rate_of(case, "l2") if part in _CARRY_ALL_BYTES else None
    subject, headline = "l2", "main" if rate is None else "counted"
    if part is not None and part not in _CARRY_ALL_BYTES:
        subject, headline = f"l2-{part}", part
    change = _change_of_l2(case, part)
    # Bytes that are not read again are DRAM's as well.
    levels = () if change == "once" else ("dram",)
    return finding(
        case,
        Cases(
            headline=(headline,),
            why=("part", part) if part is not None else MAIN,
            action=(change,),
            advice=_L2_ADVICE[change],
        ),
        amounts=(*amounts_of(busy=fraction), *amounts_of("B/s", rate=rate)),
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


def _change_of_l2(case: Case, part: str | None) -> str:
    """Return which change helps: fewer requests if these fill the part; else by whether L2 moves most bytes again."""
    l2, dram = bytes_of(case, "l2"), bytes_of(case, "dram")
    if part not in _RELIEVED_BY_BYTES:
        return "requests"
    if l2 is None or dram is None:
        return "unknown"
    return "main" if l2 > 2 * dram else "once"


def _l1(case: Case) -> Iterator[Finding]:
    fraction = case.l1_busy
    if fraction is None or not is_l1_full(case) or _is_busiest(case, "l1") is False:
        return
    if _sm_is_ahead(case, fraction, _AHEAD):
        # The load/store unit is a part of the SM: where that is busier, another part of it is.
        return
    if (case.number(SHARED_BUSY) or 0.0) >= BUSY.value:
        return
    shares, per_request = uses_shared(case), wavefronts_per_request(case)
    at_least = per_request if per_request is not None else least_passes(case) or 0.0
    is_scattered = at_least >= MANY_WAVEFRONTS.value
    if is_scattered and case.kernel.shared_memory_per_block == 0:
        # `uncoalesced-global` says the same and its cause.
        return
    # A bound instead of a count tells of scattered accesses, unless the kernel uses shared memory in other ways.
    many = is_scattered and (per_request is not None or shares is None)
    if many:
        kind, why = "passes", _why_many_passes(case, uses_shared=bool(shares))
    else:
        kind = _kind_of_shared(case, at_least) if shares else _kind_of_global(case, at_least)
        why = _why_l1(case, kind, per_request)
    headline = ["with-shared" if shares else "main"]
    sm = _beside_accesses(case).get(SM)
    time, while_working = fraction, None if BUSY.is_reached(fraction) else while_active(case, fraction)
    if while_working is not None:
        # The kernel lasts as long as the SMs that have work; that others have none makes it no shorter.
        while_working = min(1.0, while_working)
        time = max(fraction, case.working_share * while_working)
        headline.append("while-working")
    if per_request is not None:
        headline.append("one-pass" if per_request < _ONE_PASS else "passes")
    elif at_least >= WIDE_PASSES.value and (many or not shares):
        headline.append("passes-at-least")
    if not many and NEAR_ROOF.is_reached(sm):
        headline.append("full-sm")
        why = (*why, "full-sm")
    yield finding(
        case,
        cases_of(kind, tuple(headline), why),
        amounts=(
            *amounts_of(busy=fraction, while_working=while_working, l2=case.at_most("l2"), sm=sm),
            *amounts_of("wavefront", passes=at_least or None),
            *amounts_of("sector", sectors=request_sectors(case, "ld")),
        ),
        subject="l1",
        confidence=_confidence(case, "l1"),
        saving=_fewer_passes(case) if many else _reuse(case, time, "l2", "dram"),
        evidence=(
            *l1_evidence(case),
            *(case.stall_evidence("mio_throttle", threshold=DOMINANT.value) if shares and _is_queue_full(case) else ()),
        ),
        place=case.place_of_stall("lg_throttle", "mio_throttle", "short_scoreboard", "long_scoreboard"),
    )


def l1_evidence(case: Case) -> Iterator[Evidence]:
    """Yield how busy L1 is, or its load/store unit, whichever is known busiest; and the parts of that unit."""
    roles = {WAVEFRONTS: "l1-data-pipe", REQUESTS: "l1-requests"}
    if case.busiest_of_l1 is not None:
        name, fraction = case.busiest_of_l1
        yield BUSY.evidence(100 * fraction, roles.pop(name, "unit-busy"), "l1", metric=name)
    yield from case.metrics_as(roles, "%")


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
    return DOMINANT.is_reached(case.stall("mio_throttle"))


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
        return
    if shared < BUSY.value:
        return
    fraction = min(1.0, shared / 100)
    if any(case.needs.get(level, 0.0) > fraction for level in ("dram", "l2")):
        return
    kind = _kind_of_shared(case)
    yield finding(
        case,
        cases_of(kind),
        amounts=amounts_of(busy=fraction),
        subject="shared",
        confidence="inferred",
        saving=_reuse(case, fraction, "l2", "dram"),
        evidence=(
            *case.metric(SHARED_BUSY, "data-pipe", "%", BUSY.value),
            *case.stall_evidence(*SHARED_STALLS),
        ),
        place=case.place_of("memory_l1_wavefronts_shared"),
    )


_INSTRUCTIONS = "smsp__inst_executed.sum"
_SHARED_ACCESSES = tuple(f"smsp__sass_inst_executed_op_shared_{kind}.sum" for kind in ("ld", "st"))


def _shared_by_counts(case: Case) -> Iterator[Finding]:
    """Guess it where counts are all that there is: shared memory then needs more cycles than the schedulers."""
    instructions, passes = case.number(_INSTRUCTIONS), case.number(SHARED_PASSES) or case.total(_SHARED_ACCESSES)
    if case.busiest_need is not None or case.stalls or not instructions or not passes:
        return
    if case.schedulers * passes <= instructions:
        return
    yield finding(
        case,
        cases_of("larger-tile", ("by-counts",), ("by-counts",)),
        amounts=amounts_of(of_instructions=passes / instructions),
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
_BELOW_L2 = (
    ("traffic", (HOST_MISSES, _HOST_WRITES), (_DEVICE_MISSES, _DRAM_WRITES)),
    ("traffic", (HOST_MISSES,), (_DEVICE_MISSES,)),
    ("fills", (HOST_FILLS,), (_DEVICE_FILLS,)),
)
_HOST_ROLES = {
    HOST_MISSES: "misses-to-host",
    _HOST_WRITES: "writes-to-host",
    _DEVICE_MISSES: "misses-to-dram",
    _DRAM_WRITES: "writes-to-dram",
}


def _below_l2(case: Case) -> tuple[str, float, float] | None:
    """Return the sectors that L2 passes on to the host and to DRAM, else how much of its input came from either."""
    for kind, of_host, of_device in _BELOW_L2:
        host, device = case.total(of_host, of_all=True), case.total(of_device, of_all=True)
        if host is not None and device is not None:
            return kind, host, device
    return None


def _host(case: Case) -> Iterator[Finding]:
    yield from _host_by_waits(case)
    passed = _below_l2(case)
    if passed is None or shares_memory(case):
        return
    kind, host, device = passed
    share = host / (host + device) if host + device else 0.0
    if not HOST_SHARE.is_reached(share) or (kind == "fills" and host < HOST_FILL.value):
        return
    yield finding(
        case,
        Cases(headline=(kind,)),
        amounts=amounts_of(share=share),
        confidence="measured" if kind == "traffic" else "inferred",
        saving=case.saving({}).if_held(explained(case, 0.0, MEMORY_STALLS), OTHER_WAITS),
        evidence=(
            *case.metrics_as(_HOST_ROLES, "sector"),
            *case.metric(HOST_FILLS, "fills-from-host", "%", HOST_FILL.value),
            *case.metric(_DEVICE_FILLS, "fills-from-dram", "%"),
            HOST_SHARE.evidence(100 * share, f"host-share-of-{kind}"),
        ),
        place=case.place_of_stall("long_scoreboard", "lg_throttle", "drain"),
    )


def _host_by_waits(case: Case) -> Iterator[Finding]:
    """Guess it if warps wait longer than the GPU's memory takes, and nothing of the host link was collected."""
    cycles = far_memory(case)
    if cycles is None:
        return
    yield finding(
        case,
        cases_named("waits"),
        amounts=(
            *amounts_of("cycle", cycles=cycles),
            *amounts_of(l2=case.needs["l2"], dram=case.needs["dram"]),
        ),
        confidence="guess",
        saving=case.saving({}).only_if("same-instructions-and-bytes"),
        evidence=(
            FAR.evidence(cycles, "least-cycles"),
            _unit_busy(case, "l2", TAKES_IN),
            _unit_busy(case, "dram", IDLE),
            *case.issue_evidence(),
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


def _shared_atomics(case: Case) -> bool:
    """Tell whether atomics are most of what shared memory does."""
    atomics, shared = case.number(SHARED_ATOMICS), case.number(SHARED_BUSY)
    return atomics is not None and shared is not None and 2 * atomics >= shared


def _past_l1(level: str) -> tuple[Cause, Cause]:
    """Return what makes more bytes pass L1, as causes of a full level, if they can be a part of what it moves."""
    scattered = Cause("uncoalesced-global", when=lambda case: excess_reaches(case, level))
    return scattered, Cause("local-memory-spill", when=lambda case: local_reaches(case, level))


RULES = (
    Rule(
        "dram-bandwidth",
        kind="limit",
        thresholds=(BUSY, NEAR_ROOF, BALANCED, QUEUED),
        check=_dram,
        causes=_past_l1("dram"),
        place=AT_MEMORY,
    ),
    Rule(
        "l2-bandwidth",
        kind="limit",
        thresholds=(BUSY, BALANCED, FABRIC_FULL),
        check=_l2,
        causes=(*_past_l1("l2"), _ATOMIC),
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
