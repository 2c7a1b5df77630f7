"""Rules on the limits of memory: the bandwidth of a level, or traffic over the host link."""

from __future__ import annotations

from gpuprof.diagnose.case import MEMORY_STALLS, REQUESTS, SHARED_STALLS, WAVEFRONTS, Case
from gpuprof.diagnose.dram_latency import FAR, IDLE, QUEUED, cycles_per_load
from gpuprof.diagnose.far_memory import HOST_FILLS, HOST_MISSES, TAKES_IN, far_memory, shares_memory
from gpuprof.diagnose.latency import DOMINANT
from gpuprof.diagnose.needs import ISSUE, LAUNCH, MEMORY, SM, WORK, Saving, saving
from gpuprof.diagnose.rule import (
    AT_MEMORY,
    AT_SHARED,
    Cause,
    Findings,
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

_AHEAD = 100 * TWO_PASSES
"""Difference of one counter between two passes of ncu, in percent."""


def _is_busiest(case: Case, level: str) -> bool | None:
    """Return whether no memory level is busier than this one; None if a level that could be was not
    collected.

    Every byte of DRAM passes the other levels: if one of them is equally busy, DRAM is the limit.
    """
    own = case.needs[level]
    most = own
    if level == "dram":
        most = own / AS_BUSY
    elif case.need("dram") >= AS_BUSY * own:
        return False
    others = [case.at_most(other) for other in MEMORY if other != level]
    if any(value is not None and value > most for value in others):
        return False
    overall = case.utilisation.get("memory")
    if None in others and (overall is None or own < AS_BUSY * overall):
        return None
    return True


def _sm_is_ahead(case: Case, fraction: float, points: float = BALANCED.value) -> bool:
    return 100 * (case.need(SM) - fraction) > points


def is_l1_full(case: Case) -> bool:
    """Return whether L1 is a limit: busy for most of the time, or well used while SMs work if many
    have no work.

    All SMs share the other levels. If an SM hardly works, its L1 can seem three times as busy as
    possible (an empty kernel on an H100), which shows nothing.
    """
    while_working = while_active(case, case.l1_busy) or 0.0
    return BUSY.is_reached(case.l1_busy) or NEAR_ROOF.value <= 100 * while_working <= _MOST_BUSY


_MOST_BUSY = 110.0
"""Maximum utilization in percent that is plausible: cycles of two passes differ."""


def _confidence(case: Case, level: str) -> Confidence:
    """Return "inferred" for the busiest level; "guess" if DRAM or the SM is unknown."""
    if SM not in case.needs and not NEAR_ROOF.is_reached(case.needs.get(level, 1.0)):
        return "guess"
    return "inferred" if "dram" in case.needs or _is_busiest(case, level) else "guess"


def _reuse(case: Case, fraction: float, *below: str) -> Saving:
    """Bound the gain of fewer accesses: the arithmetic and the launch remain.

    `fraction` is the utilization of the level; the rest of the time is not its own. The saving is
    smaller if the levels below move the same bytes and the SM does the same beside accesses. The
    accesses and the SM's work for them go, and so do their addresses if only pipes show the other
    work. A change that keeps values on the chip takes bytes from the levels below, too: their needs
    are no bound.
    """
    gone = {*MEMORY, *_ACCESS_UNITS} - {*below}
    stays = {unit: need for unit, need in case.least_times.items() if unit not in gone}
    work, others = case.arithmetic_fraction, _beside_accesses(case)
    bound = saving({LAUNCH: case.need(LAUNCH), WORK: work}, {})
    is_known = work or others or stays.keys() - {*MEMORY, LAUNCH}
    arithmetic = "same-arithmetic" if is_known else "little-arithmetic"
    same_bytes = [f"same-bytes-through-{'-and-'.join(below)}"] if below else []
    reuse = bound.if_held(1.0 - max((work, *stays.values())), arithmetic, *same_bytes)
    beside = 1.0 - max(others.values(), default=0.0)
    reuse = reuse.if_held(beside, "same-other-instructions", *same_bytes)
    return reuse.if_held(fraction, "rest-of-its-time-unchanged")


_ACCESS_UNITS = (SM, ISSUE, "lsu", "adu", "uniform", "cbu", "alu")
"""Units that also work for accesses and their addresses, and do less if there are fewer."""


def _beside_accesses(case: Case) -> dict[str, float]:
    """Return the needs of the issue slots and of the SM's busiest part beside accesses; empty if
    they are not known.

    An access takes at least one pass of L1, so instructions beyond L1's passes are no accesses. The
    SM's speed of light counts if it is above all units that work for accesses: memory, which is no
    less busy than the pipes that issue accesses, and the pipes of addresses. If issue slots were
    not collected, they may be the SM's busiest part.
    """
    l1, memory = case.needs.get("l1"), case.utilisation.get("memory")
    if l1 is None:
        return {}
    accesses = l1 * min(1.0, request_rate(case) or 1.0) / case.schedulers
    issued, sm = case.needs.get(ISSUE), case.needs.get(SM)
    needs: dict[str, float] = {}
    if issued is not None:
        needs[ISSUE] = issued - accesses
    others = (case.need(unit) for unit in _ACCESS_UNITS if unit != SM)
    if sm is not None and memory is not None and sm > max(memory, *others) + TWO_PASSES:
        needs[SM] = sm
        if issued is None:
            needs[SM] -= accesses
    return {unit: need for unit, need in needs.items() if need > 0}


def _unit_busy(case: Case, level: str, threshold: Threshold = BUSY) -> Evidence:
    return threshold.evidence(100 * case.needs[level], "unit-busy", level, metric=case.light_metric(level))


def _evidence(case: Case, level: str) -> tuple[Evidence, ...]:
    return (
        _unit_busy(case, level),
        *context("rate", rate_of(case, level), "B/s"),
        *case.stall_evidence("long_scoreboard"),
    )


def _dram(case: Case) -> Findings:
    """Report DRAM as a fact near its ceiling; below it as a limit, if no other level is busier."""
    fraction = case.needs.get("dram")
    if fraction is None or not BUSY.is_reached(fraction):
        return
    near, busiest = NEAR_ROOF.is_reached(fraction), _is_busiest(case, "dram")
    if not near and (busiest is False or _sm_is_ahead(case, fraction)):
        return
    rate, waited = rate_of(case, "dram"), cycles_per_load(case)
    alike = tuple(level for level in ("l1", "l2") if case.need(level) >= AS_BUSY * fraction)
    waits = case.stall(*case.memory_stalls, "barrier", "membar") if case.stalls else None
    delay = _delay_at_dram(waited, waits)
    headline = ["main" if rate is None else "counted"]
    busy = "alike" if alike else "main"
    gap = "gap-to-reached" if case.dram_reached < 1.0 else "gap"
    why: tuple[str, ...] = (busy, delay, "same-bytes", gap, "gain-more")
    if near:
        headline.append("near")
        why = ("same-bytes", gap, "in-proportion")
    elif delay == "queue":
        why = (busy, delay, gap, "other-order")
    action, advice = "main", ["fewer-bytes"]
    if not near and delay not in ("queue", "few-waits"):
        action = "in-flight"
        advice = [action, copies_ahead_case(case), *advice]
    fewer = case.saving(dict.fromkeys((*MEMORY, *_ACCESS_UNITS), 0.0))
    yield finding(
        case,
        Cases(headline=tuple(headline), why=why, action=(action,), advice=tuple(advice)),
        amounts=(
            *amounts_of(busy=fraction, reached=case.dram_reached, waits=waits),
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
        is_fact=near,
    )


def _delay_at_dram(waited: float | None, waits: float | None) -> str:
    """Return why DRAM is not fuller: the requests queue, or there are too few of them; without
    stalls it is unknown.

    If warps spend a small share of their time (`waits`) on memory and at barriers, other work
    delays the requests.
    """
    if waited is not None and waited >= QUEUED.value:
        return "queue"
    if waits is not None and not DOMINANT.is_reached(waits):
        return "few-waits"
    return "perhaps-few-in-flight" if waited is None else "few-in-flight"


def _l2(case: Case) -> Findings:
    """Report the part of L2 that limits; the headline has bytes only for parts that carry them."""
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
"""The parts of L2; the busiest one limits.

NVIDIA's descriptions of the metrics (`ncu --query-metrics`) define the counts. In recorded launches
on V100, A100, A40 and H100 the crossbar from the SMs is busy for a cycle or less per load request,
for one cycle per sector that a store fills, and for two per sector that it fills in part. The
crossbar to the SMs carries one sector per cycle and slice, on A100 and H100 two.
"""
_CARRY_ALL_BYTES = ("data", "crossbar-to-sms")
_RELIEVED_BY_BYTES = (None, "fabric", *_CARRY_ALL_BYTES)


def _busiest_part(case: Case, fraction: float) -> str | None:
    """Return the busiest part of L2; None if no collected part is as busy as L2."""
    known = {name: case.number(f"{name}{_ELAPSED}") or 0.0 for name in _PARTS}
    name = max(known, key=lambda part: known[part])
    return _PARTS[name] if known[name] >= AS_BUSY * 100 * fraction else None


def _full_fabric(case: Case) -> tuple[str, float] | None:
    """Return the metric and utilization of the fabric between the halves of L2.

    None if it is not well used, or another part of memory is as busy.
    """
    for link in case.arch.counters.get("fabric.l2", ()):
        for name, factor in link.terms:
            busy = case.number(name)
            if busy is None:
                continue
            fabric = factor * busy
            is_busiest = all(case.need(level) < AS_BUSY * fabric for level in MEMORY)
            is_limit = is_busiest and FABRIC_FULL.is_reached(fabric) and not _sm_is_ahead(case, fabric)
            return (name, fabric) if is_limit else None
    return None


def _l2_finding(case: Case, part: str | None, fraction: float, evidence: tuple[Evidence, ...]) -> Finding:
    rate, subject, headline = None, "l2", "main"
    why: tuple[str, ...] = MAIN
    if part is not None:
        why = ("part", part)
    if part in _CARRY_ALL_BYTES:
        rate = rate_of(case, "l2")
        headline = "main" if rate is None else "counted"
    elif part is not None:
        subject, headline = f"l2-{part}", part
    change = _change_of_l2(case, part)
    # Bytes without reuse also come from DRAM.
    levels = () if change == "once" else ("dram",)
    return finding(
        case,
        Cases(headline=(headline,), why=why, action=(change,), advice=_L2_ADVICE[change]),
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
    """Return the change that helps: fewer requests, else by whether L2 reuses most bytes."""
    if part not in _RELIEVED_BY_BYTES:
        return "requests"
    l2, dram = bytes_of(case, "l2"), bytes_of(case, "dram")
    if l2 is None or dram is None:
        return "unknown"
    return "main" if l2 > 2 * dram else "once"


def _l1(case: Case) -> Findings:
    fraction = case.l1_busy
    if fraction is None or not is_l1_full(case) or _is_busiest(case, "l1") is False:
        return
    # The load/store unit is a part of the SM: if the SM is busier, another part of it is.
    if _sm_is_ahead(case, fraction, _AHEAD) or (case.number(SHARED_BUSY) or 0.0) >= BUSY.value:
        return
    shares, per_request = uses_shared(case), wavefronts_per_request(case)
    at_least = per_request if per_request is not None else least_passes(case) or 0.0
    is_scattered = at_least >= MANY_WAVEFRONTS.value
    if is_scattered and case.kernel.shared_memory_per_block == 0:
        # `uncoalesced-global` reports the same, with its cause.
        return
    # Without a count, a bound shows scattered accesses, unless the kernel may use shared memory.
    many = is_scattered and (per_request is not None or shares is None)
    headline, evidence = ["main"], [*l1_evidence(case)]
    kind = _kind_of_global(case, at_least)
    if shares:
        headline = ["with-shared"]
        kind = _kind_of_shared(case, at_least)
        if _is_queue_full(case):
            evidence += case.stall_evidence("mio_throttle", threshold=DOMINANT.value)
    why = _why_l1(case, kind, per_request)
    if many:
        kind, why = "passes", _why_many_passes(case, shares)
    sm = _beside_accesses(case).get(SM)
    time, while_working = fraction, None
    if not BUSY.is_reached(fraction):
        while_working = while_active(case, fraction)
    if while_working is not None:
        # The kernel lasts as long as the SMs that have work; idle SMs do not make it shorter.
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
        evidence=evidence,
        place=case.place_of_stall("lg_throttle", "mio_throttle", "short_scoreboard", "long_scoreboard"),
    )


def l1_evidence(case: Case) -> tuple[Evidence, ...]:
    """Return the utilization of L1 or its load/store unit, if busier, and of that unit's parts."""
    roles = {WAVEFRONTS: "l1-data-pipe", REQUESTS: "l1-requests"}
    if case.busiest_of_l1 is None:
        return case.metrics_as(roles, "%")
    name, fraction = case.busiest_of_l1
    busiest = BUSY.evidence(100 * fraction, roles.pop(name, "unit-busy"), "l1", metric=name)
    return (busiest, *case.metrics_as(roles, "%"))


_ONE_PASS = 1.5


def uses_shared(case: Case) -> bool | None:
    """Return whether blocks use shared memory; None if neither their bytes nor anything else shows
    it.

    Bank conflicts show it. So do many warps that wait for the queue of shared memory: special
    functions use it, too, but hardly fill it while L1 is busy.
    """
    if case.kernel.shared_memory_per_block is not None:
        return case.kernel.shared_memory_per_block > 0
    conflicts = case.total((SHARED_CONFLICTS, *SHARED_CONFLICTS_BY_KIND))
    return True if conflicts or _is_queue_full(case) else None


def _is_queue_full(case: Case) -> bool:
    return DOMINANT.is_reached(case.stall("mio_throttle"))


def _kind_of_global(case: Case, passes: float) -> str:
    """Return the change for accesses of global memory: wider ones help only if these are narrow."""
    sectors = request_sectors(case, "ld") or 0.0
    return "kept" if passes >= WIDE_PASSES.value or sectors >= WIDE_SECTORS.value else "main"


def _kind_of_shared(case: Case, passes: float = 0.0) -> str:
    """Return the change that fits reads of shared memory: wider ones if their queue is full and no
    arithmetic is known.

    A larger tile uses each value in more arithmetic. A search, a sort or a sum of integers has no
    such arithmetic.
    """
    feeds = case.arithmetic_fraction or SM in _beside_accesses(case)
    if feeds or passes >= WIDE_PASSES.value or not _is_queue_full(case):
        return "shared-bandwidth/larger-tile"
    return "shared-bandwidth/wide"


def _why_l1(case: Case, kind: str, per_request: float | None) -> tuple[str, ...]:
    if kind == "kept":
        if request_sectors(case, "ld") is None:
            return ("main", "kept")
        return ("main", "load-sectors", "kept")
    if per_request is not None and per_request < _ONE_PASS:
        return ("many-accesses",)
    if _is_queue_full(case) and uses_shared(case):
        return ("full-queue",)
    return MAIN


def _fewer_passes(case: Case) -> Saving:
    """Bound the gain of fewer passes, with fewer unused sectors from L2 and DRAM."""
    stays = {"l1": l1_keeps(case)}
    bound = case.saving({**stays, "l2": 0.0, "dram": 0.0})
    return bound.if_held(case.saving(stays).fraction, "same-bytes-through-l2-and-dram")


def _why_many_passes(case: Case, shares: bool | None) -> tuple[str, ...]:
    """Return the cause of many passes: if L2 is idle, no scattered accesses miss L1."""
    if not shares:
        return ("many-passes", "either")
    l2 = case.at_most("l2")
    if l2 is not None and 100 * l2 < FROM_L2.value * case.needs["l1"]:
        return ("many-passes", "idle-l2")
    return ("many-passes", "either-unknown")


def _shared(case: Case) -> Findings:
    shared = case.number(SHARED_BUSY)
    if shared is None:
        yield from _shared_by_counts(case)
        return
    if shared < BUSY.value:
        return
    fraction = min(1.0, shared / 100)
    if any(case.need(level) > fraction for level in ("dram", "l2")):
        return
    yield finding(
        case,
        cases_of(_kind_of_shared(case)),
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


def _shared_by_counts(case: Case) -> Findings:
    """Guess by counts alone that shared memory needs more cycles than the schedulers."""
    instructions = case.number(_INSTRUCTIONS)
    passes = case.number(SHARED_PASSES) or case.total(_SHARED_ACCESSES)
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
"""L2 counts every write as a hit. The GPU's own memory gets the writes that DRAM counts, the
host gets all of its."""
_DEVICE_FILLS = "lts__d_sectors_fill_device.avg.pct_of_peak_sustained_elapsed"
"""Fills of L2; every set of metrics has them. Both peaks are one sector a cycle and slice."""
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
    """Return the sectors that L2 passes on to the host and to DRAM, else the fills from either."""
    for kind, of_host, of_device in _BELOW_L2:
        host, device = case.total(of_host, of_all=True), case.total(of_device, of_all=True)
        if host is not None and device is not None:
            return kind, host, device
    return None


def _host(case: Case) -> Findings:
    yield from _host_by_waits(case)
    passed = _below_l2(case)
    if passed is None or shares_memory(case):
        return
    kind, host, device = passed
    share = host / ((host + device) or 1.0)
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


def _host_by_waits(case: Case) -> Findings:
    """Guess host traffic if warps wait longer than the GPU's memory takes, without a counter."""
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
    """Return whether conflicts are most passes of shared memory and worth a fifth of the time.

    The gain of the limit assumes no access at all, which no fix reaches.
    """
    are_most = any(item.role == CONFLICT_SHARE and item.value >= _MOST_PASSES for item in found.evidence)
    return found.severity == "high" and are_most


_MOST_PASSES = 50.0
_SPILL, _ATOMIC = Cause("local-memory-spill"), Cause("atomic-contention")
_CONFLICT = Cause("shared-bank-conflict", most=_are_mostly_conflicts)


def _shared_atomics(case: Case) -> bool:
    """Return whether atomics are most of the work of shared memory."""
    atomics, shared = case.number(SHARED_ATOMICS), case.number(SHARED_BUSY)
    return atomics is not None and shared is not None and 2 * atomics >= shared


def _past_l1(level: str) -> tuple[Cause, Cause]:
    """Return causes of a full level that let more bytes pass L1, if the level can carry them."""
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
