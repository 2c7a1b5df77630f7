"""Rules on how memory is accessed: bank conflicts, spills, width, atomics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gpuprof.diagnose.case import (
    EXECUTED,
    MEMORY_STALLS,
    WAVEFRONTS,
    WELL_USED,
    Case,
    opcode_of,
)
from gpuprof.diagnose.coalescing import asks_for_wide_accesses
from gpuprof.diagnose.needs import ADDRESS_PIPES, ISSUE, LAUNCH, Saving
from gpuprof.diagnose.rule import AT_MEMORY, AT_SHARED, LOW, Cause, Rule, Threshold, finding, percent
from gpuprof.diagnose.traffic import (
    CONFLICT_SHARE,
    GLOBAL_SECTORS,
    LOCAL_SECTORS,
    OTHER_WAITS,
    SHARED_ATOMICS,
    SHARED_BUSY,
    SHARED_CONFLICTS,
    SHARED_CONFLICTS_BY_KIND,
    SHARED_PASSES,
    at_work,
    bytes_of,
    capped,
    counts_case,
    cycles_of_passes,
    explained,
    l1_keeps,
    l1_speed,
    local_bytes_past_l1,
    memory_busy,
    while_active,
)  # fmt: skip
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, CaseName, Cases
from gpuprof.model.session import Evidence, Finding

if TYPE_CHECKING:
    from gpuprof.diagnose.by_code import ConflictPlace

CONFLICTS = percent("conflicts", 5.0)
CONFLICTS_A_WARP = Threshold("conflicts-per-warp", 1.0, "wavefront/warp")
SPILL = percent("local-share", 1.0)
NARROW = percent("narrow-share", 50.0)
NARROW_PRESSURE = percent("queue-pressure", 10.0)
ATOMICS = percent("atomic-units-busy", 30.0)

_WAVES = "memory_l1_wavefronts_shared"
_WAVES_EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
_WAVES_IDEAL = "memory_l1_wavefronts_shared_ideal"
_PASSES_BY_KIND = tuple(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{kind}.sum" for kind in ("ld", "st"))
_KINDS = ("load", "store")
_SASS_UNITS = ("sm", "smsp")
_SASS_CONFLICTS = "{}__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared{}.sum"
_SASS_PASSES = "{}__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared.sum"
_SASS_KINDS = ("ld", "ldsm", "ldgsts", "st", "stsm", "atom", "red")
_COUNTED_BY = (
    ((SHARED_CONFLICTS,), (SHARED_PASSES,)),
    (SHARED_CONFLICTS_BY_KIND, _PASSES_BY_KIND),
    *(
        (names, (_SASS_PASSES.format(unit),))
        for unit in _SASS_UNITS
        for names in (
            (_SASS_CONFLICTS.format(unit, ""),),
            tuple(_SASS_CONFLICTS.format(unit, f"_op_{kind}") for kind in _SASS_KINDS),
        )
    ),
)
"""Counters of conflicts and of all passes, in order of preference."""
_WAVE_ROLES = {
    _WAVES_EXCESS: "conflict-wavefronts",
    _WAVES_IDEAL: "ideal-wavefronts",
    _WAVES: "wavefronts",
    SHARED_CONFLICTS: "conflict-wavefronts-by-hardware",
    SHARED_PASSES: "wavefronts",
    **{name: f"{kind}-conflict-wavefronts" for name, kind in zip(SHARED_CONFLICTS_BY_KIND, _KINDS, strict=True)},
    **{name: f"{kind}-wavefronts" for name, kind in zip(_PASSES_BY_KIND, _KINDS, strict=True)},
    **{
        _SASS_CONFLICTS.format(unit, f"_op_{kind}"): f"conflict-wavefronts-{kind}"
        for unit in _SASS_UNITS
        for kind in _SASS_KINDS
    },
    **{_SASS_CONFLICTS.format(unit, ""): "conflict-wavefronts" for unit in _SASS_UNITS},
    **{_SASS_PASSES.format(unit): "wavefronts" for unit in _SASS_UNITS},
}


class _Conflicts(Struct, frozen=True):
    """Wavefronts that come from conflicts, of all if those were counted, the counters, and the case that names them."""

    excess: float
    total: float | None
    evidence: tuple[Evidence, ...]
    kind: CaseName = "wavefronts"


def _counted_conflicts(case: Case) -> tuple[_Conflicts, Confidence] | None:
    """Return what instrumentation counts, else what the hardware counts, whose conflicts can have other causes, too."""
    total, excess, ideal = case.number(_WAVES), case.number(_WAVES_EXCESS), case.number(_WAVES_IDEAL)
    if excess is None and total is not None and ideal is not None:
        excess = total - ideal
    if total is not None and excess is not None:
        return _Conflicts(excess, total, _waves(case, _WAVES_EXCESS, _WAVES_IDEAL, _WAVES)), "measured"
    for conflicts, passes in _COUNTED_BY:
        if not case.can_have(conflicts):
            continue
        excess = case.total(conflicts)
        if not excess:
            # Some leave out what others count, such as matrix loads.
            continue
        # Passes of loads alone are not those of all accesses whose conflicts were counted.
        total = case.total(passes) if None not in map(case.number, passes) else case.number(SHARED_PASSES)
        one_way = _conflicts_one_way(case) if total is None and conflicts == SHARED_CONFLICTS_BY_KIND else None
        return one_way or _Conflicts(excess, total, _waves(case, *conflicts, *passes)), "inferred"
    return None


def _conflicts_one_way(case: Case) -> _Conflicts | None:
    """Return the conflicts of loads or of stores, of whose wavefronts both were counted, where any are conflicts."""
    for kind, *names in zip(_KINDS, SHARED_CONFLICTS_BY_KIND, _PASSES_BY_KIND, strict=True):
        excess, total = map(case.number, names)
        if excess and total and excess <= total:
            return _Conflicts(excess, total, _waves(case, *names), kind=f"{kind}-wavefronts")
    return None


def _waves(case: Case, *names: str) -> tuple[Evidence, ...]:
    return tuple(item for name in names for item in case.metric(name, _WAVE_ROLES[name], "wavefront"))


def _place_by_code(case: Case, saving: Saving | None) -> ConflictPlace | None:
    """Return the line of the conflicts by the code, where they are worth it and no instruction's were counted."""
    conflicts = case.number(SHARED_CONFLICTS)
    if not conflicts or saving is None or saving.fraction < LOW:
        return None
    if any(name in item.counts for item in case.code for name in (_WAVES_EXCESS, _WAVES)):
        return None
    from gpuprof.diagnose.by_code import conflicts_by_code

    return conflicts_by_code(case, conflicts)


def _bank_conflicts(case: Case) -> Iterator[Finding]:
    counted = _counted_conflicts(case)
    if counted is None:
        return
    conflicts, confidence = counted
    excess, total = conflicts.excess, conflicts.total
    warps = case.warps
    if total is None and warps and excess / warps >= CONFLICTS_A_WARP.value:
        yield _conflicts_per_warp(case, conflicts, warps, confidence)
    if not total or not excess or 100 * excess / total < CONFLICTS.value:
        return
    fraction = min(1.0, excess / total)
    times = (Amount("times", total / (total - excess)),) if total > excess else ()
    yield _conflict_finding(
        case,
        Cases(headline=(conflicts.kind, counts_case(total)), why=("times" if times else "main",)),
        (Amount("share", fraction, "fraction"), Amount("excess", excess), Amount("total", total), *times),
        confidence,
        _without_conflicts(case, fraction, excess),
        (*conflicts.evidence, Evidence("", 100 * fraction, "%", threshold=CONFLICTS.value, role=CONFLICT_SHARE)),
    )


def _conflicts_per_warp(case: Case, conflicts: _Conflicts, warps: float, confidence: Confidence) -> Finding:
    """Return the conflicts of a warp, those of loads and of stores apart if both have some."""
    per_warp = conflicts.excess / warps
    loads, stores = (case.number(name) or 0.0 for name in SHARED_CONFLICTS_BY_KIND)
    kinds = (Amount("loads", loads / warps), Amount("stores", stores / warps))
    is_of_both = bool(loads and stores) and loads + stores == conflicts.excess
    limit = CONFLICTS_A_WARP
    return _conflict_finding(
        case,
        Cases(headline=("per-warp", "by-kind", "no-total") if is_of_both else ("per-warp", "no-total")),
        (Amount("per_warp", per_warp), *(kinds if is_of_both else ())),
        confidence,
        None,
        (*conflicts.evidence, Evidence("", per_warp, limit.unit, threshold=limit.value, role=limit.name)),
    )


def _conflict_finding(
    case: Case,
    cases: Cases,
    amounts: tuple[Amount, ...],
    confidence: Confidence,
    saving: Saving | None,
    evidence: tuple[Evidence, ...],
) -> Finding:
    by_code = _place_by_code(case, saving)
    return finding(
        case,
        cases,
        amounts=amounts,
        subject="shared",
        confidence=confidence,
        saving=saving,
        evidence=(
            *evidence,
            *case.stall_evidence("short_scoreboard", None),
            *case.stall_evidence("mio_throttle", None),
            *((by_code.evidence,) if by_code is not None else ()),
        ),
        place=by_code.location if by_code is not None else case.place_of(_WAVES_EXCESS) or case.place_of(_WAVES),
    )


def _without_conflicts(case: Case, conflicts: float, excess: float) -> Saving:
    """Bound what goes with the conflicts: of L1's passes theirs, and no more time than they keep its data pipe busy.

    A pass holds others up for the cycle that it takes, so that all that waits for conflicts waits while the pipe works.
    How busy it is by them the number of passes tells, too.
    """
    shared, passes = case.number(SHARED_BUSY), case.number(WAVEFRONTS)
    stays = None
    if shared is not None:
        stays = (max(passes, shared) if passes is not None else shared) - conflicts * shared
    busy = while_active(case, shared / 100 if shared is not None else l1_speed(case))
    held_up = conflicts * (min(1.0, busy / WELL_USED) if busy is not None else 1.0)
    counted = while_active(case, cycles_of_passes(case, excess)) if shared is None else None
    if counted is not None:
        held_up = min(held_up, counted / WELL_USED)
    return case.saving({"l1": l1_keeps(case, stays)}).no_more_than(held_up)


_LEVELS = ("l2", "dram")
_GLOBAL = tuple(map(GLOBAL_SECTORS.format, ("ld", "st")))
_LOCAL_INSTRUCTIONS = ("sass__inst_executed_local_loads", "sass__inst_executed_local_stores")
_GLOBAL_INSTRUCTIONS = ("sass__inst_executed_global_loads", "sass__inst_executed_global_stores")
_EXECUTED = "smsp__inst_executed.sum"
_ALL_REGISTERS = 255
_MOST_WARPS = 32
"""Of a block, on every architecture."""


def _spill(case: Case) -> Iterator[Finding]:
    local = _local_share(case)
    if local is None or 100 * local.share < SPILL.value:
        return
    registers = case.kernel.registers_per_thread
    ceiling = _register_ceiling(case)
    threads = case.threads_per_block if ceiling < _ALL_REGISTERS else None
    full = registers is not None and registers >= ceiling
    amounts = {"registers": registers, "most_registers": ceiling, "threads": threads}
    yield finding(
        case,
        Cases(
            headline=(local.what,),
            why=("all-registers" if full else "local-arrays", "through-l1"),
            action=(_spill_action(ceiling) if full else "keep-arrays",),
            advice=("smaller-blocks" if threads is not None else "raise-cap", "shorter-ranges"),
        ),
        amounts=(
            Amount("share", local.share, "fraction"),
            *(Amount(name, value) for name, value in amounts.items() if value is not None),
        ),
        subject="local",
        # A share of accesses is no cost if neither busy units nor stalls are known.
        confidence="guess" if case.busiest_need is None and not case.stalls else "measured",
        saving=_without_local(case, local),
        evidence=(
            *local.evidence,
            Evidence("", 100 * local.share, "%", threshold=SPILL.value, role=f"share-of-{local.what}"),
            *case.metric("launch__registers_per_thread", "registers-per-thread", "register"),
        ),
        place=case.place_of("memory_l2_theoretical_sectors_local") or case.place_of_opcode("LDL", "STL"),
    )


def _spill_action(ceiling: float) -> CaseName:
    return "smaller-blocks" if ceiling < _ALL_REGISTERS else "lower-pressure"


def _without_local(case: Case, local: _Local) -> Saving:
    """Bound what goes with local memory: all of it may be what reaches L2 and DRAM, up to its own bytes.

    Its instructions go too, and with them what the load/store unit and L1 do for it. A level may be what the kernel
    waits for though its counters were not collected. Where bytes are not known, its share of the accesses tells what
    goes if it is found in the caches as often as other data.
    """
    reach = local_bytes_past_l1(case)
    known = {level: moved for level in _LEVELS if (moved := bytes_of(case, level))} if reach is not None else {}
    shares = {level: min(1.0, (reach or 0.0) / moved) for level, moved in known.items()}
    executed, mine = case.number(_EXECUTED), [case.number(name) for name in _LOCAL_INSTRUCTIONS]
    counted = sum(count for count in mine if count is not None) if None not in mine else None
    issued = 1.0 - min(1.0, counted / executed) if executed and counted is not None else 0.0
    freed = {"l1": 0.0, "lsu": 0.0, ISSUE: issued}
    weight = explained(case, memory_busy(case), MEMORY_STALLS)

    def without(unknown: float, accesses: float) -> Saving:
        goes = {level: shares.get(level, unknown) for level in _LEVELS}
        keeps = {**freed, **{level: 1.0 - share for level, share in goes.items()}}
        largest = max(accesses, *goes.values())
        return capped(case, case.saving(keeps), largest, weight)

    bound = without(1.0, local.share if local.whole else 1.0)
    saving = bound.if_held(
        without(local.share, local.share).fraction,
        "same-hit-rates" if local.whole else "same-local-share",
    )
    work = {"l1": local.share, **shares, ISSUE: 1.0 - issued}
    return saving if saving.fraction < LOW else _by_waits(case, saving, work)


def _by_waits(case: Case, saving: Saving, work: Mapping[str, float]) -> Saving:
    """Bound what goes with local memory by the samples at its accesses and at what waits for them, where those tell.

    `work` is its share of what units do, which it can hold others up by: of all levels, or nothing follows. All other
    warps of a block may wait at a barrier for one that waits.
    """
    from gpuprof.diagnose.local_waits import local_waits

    waits = local_waits(case) if memory_busy(case) is not None and set(_LEVELS) <= set(work) else None
    if waits is None:
        return saving
    unknown = case.memory_utilisation or 0.0
    busy = max(share * case.needs.get(unit, unknown) for unit, share in work.items())
    others = min(case.stall_at_most("barrier", "membar"), waits * ((case.warps_per_block or _MOST_WARPS) - 1))
    return saving.if_held(case.working_share * at_work(case, busy, waits + others, work["l1"]), OTHER_WAITS)


class _Local(Struct, frozen=True):
    """The local share of loads and stores, of what it is a share, the counters, and whether both were counted."""

    share: float
    what: str
    evidence: tuple[Evidence, ...]
    whole: bool


def _local_share(case: Case) -> _Local | None:
    """Return the local share of load and store sectors, else of instructions, of those of which both sides are known.

    Where loads or stores were not counted, nothing is known of them.
    """
    for local_metrics, global_metrics, what, unit in (
        (LOCAL_SECTORS, _GLOBAL, "sectors", "sector"),
        (_LOCAL_INSTRUCTIONS, _GLOBAL_INSTRUCTIONS, "instructions", "instruction"),
    ):
        if not case.can_have(local_metrics):
            continue
        pairs = {
            local: (mine, rest)
            for local, other in zip(local_metrics, global_metrics, strict=True)
            if (mine := case.number(local)) is not None and (rest := case.number(other)) is not None
        }
        mine, every = sum(local for local, _ in pairs.values()), sum(map(sum, pairs.values()))
        if every > 0:
            evidence = tuple(item for name in pairs for item in case.metric(name, _local_role(name), unit))
            whole = len(pairs) == len(local_metrics)
            return _Local(share=mine / every, what=what, evidence=evidence, whole=whole)
    return None


def _local_role(name: str) -> str:
    return "local-loads" if "ld" in name or "load" in name else "local-stores"


def _register_ceiling(case: Case) -> float:
    """Return the most registers that a thread of this block size can have: the ISA's limit, or the block's share."""
    limits = case.recorded.hardware.arch.limits
    block = case.kernel.block
    if block is None or "registers_per_sm" not in limits:
        return _ALL_REGISTERS
    threads = block[0] * block[1] * block[2]
    share = limits["registers_per_sm"].value / max(1, threads) // 8 * 8
    return min(_ALL_REGISTERS, share) if share >= 16 else _ALL_REGISTERS


_WIDTHS = {".U8": 1, ".S8": 1, ".U16": 2, ".S16": 2, ".64": 8, ".128": 16, ".256": 32}
_NARROW_BYTES = 2


_GLOBAL_ACCESS = ("LDG.", "STG.", "LDGSTS.", "LD.", "ST.")


def global_widths(histogram: Mapping[str | int, float]) -> dict[int, float]:
    """Return warp instructions of global loads and stores by bytes a thread, from an opcode histogram."""
    widths: dict[int, float] = {}
    for opcode, count in histogram.items():
        width = width_of(str(opcode))
        if width:
            widths[width] = widths.get(width, 0.0) + count
    return widths


def width_of(sass: str) -> int:
    """Return the bytes a thread that a global load or store moves; 0 for other instructions."""
    name = f"{opcode_of(sass)}."
    if not name.startswith(_GLOBAL_ACCESS):
        return 0
    return next((size for mark, size in _WIDTHS.items() if mark in name), 4)


def _narrow(case: Case) -> Iterator[Finding]:
    widths = global_widths(case.recorded.launch.metrics.instances(WARP_OPCODES) or {})
    total = sum(widths.values())
    if not total:
        return
    narrow = sum(count for size, count in widths.items() if size <= _NARROW_BYTES) / total
    four_bytes = sum(count for size, count in widths.items() if size <= 4) / total
    throttled = case.stall("lg_throttle")
    pressed = 100 * throttled >= NARROW_PRESSURE.value
    if 100 * narrow < NARROW.value and not (100 * four_bytes >= NARROW.value and pressed):
        return
    size = _NARROW_BYTES if 100 * narrow >= NARROW.value else 4
    share = narrow if size == _NARROW_BYTES else four_bytes
    pipe = case.pipe("lsu")
    yield finding(
        case,
        amounts=(Amount("share", share, "fraction"), Amount("size", size, "B")),
        subject="global",
        confidence="inferred",
        saving=_widened(case, _spared(widths, size)) if case.stalls or pipe is not None else None,
        evidence=(
            Evidence(WARP_OPCODES, 100 * share, "%", threshold=NARROW.value, role=f"at-most-{size}-bytes"),
            *case.stall_evidence("lg_throttle", NARROW_PRESSURE.value),
            *((case.pipe_evidence("lsu"),) if pipe is not None else ()),
        ),
        place=case.place(
            lambda instruction: instruction.counts.get(EXECUTED, 0.0),
            [place for place, opcode in enumerate(case.opcode_names) if 0 < width_of(opcode) <= size],
        ),
    )


def _widened(case: Case, gone: float) -> Saving:
    """Bound what wide accesses gain. `gone` is the share of the access instructions that they make needless.

    The address arithmetic of those goes too; nothing tells how much of the integer pipes and the issue slots that is.
    With it as it is, the gain is that of the accesses.
    """
    keeps = {"l1": 1.0 - gone, "lsu": 1.0 - gone}
    bound = case.saving({**keeps, **dict.fromkeys((*ADDRESS_PIPES, ISSUE), 0.0)})
    accesses = case.saving({**keeps, ISSUE: 0.0}).fraction
    most = gone * explained(case, l1_speed(case), MEMORY_STALLS)
    return bound.if_held(min(accesses, most), "same-address-arithmetic")


def _spared(widths: Mapping[int, float], size: int) -> float:
    """Return the share of the accesses that 16 bytes a thread spare of those of `size` bytes and less."""
    return sum(count * (1 - width / 16) for width, count in widths.items() if width <= size) / sum(widths.values())


_L2_ATOMICS = (
    "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed",
    "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
"""One hot address loads one slice of L2, which only the maximum over the slices shows."""
_SHARED_ATOMICS = (SHARED_ATOMICS,)


def _atomics(case: Case) -> Iterator[Finding]:
    for names, unit, starts in (
        (_L2_ATOMICS, "l2", ("ATOMG", "RED.", "REDG", "ATOM.")),
        (_SHARED_ATOMICS, "shared", ("ATOMS",)),
    ):
        name = next((name for name in names if case.number(name) is not None), None)
        busy = case.number(name) if name is not None else None
        if name is None or busy is None or busy < ATOMICS.value:
            continue
        fraction = min(1.0, busy / 100)
        yield finding(
            case,
            Cases(headline=(unit,)),
            amounts=(Amount("busy", fraction, "fraction"),),
            subject=unit,
            confidence="measured",
            saving=_without_atomics(case, fraction),
            evidence=(
                *case.metric(name, f"{unit}-busy", "%", ATOMICS.value),
                *(item for reason in _ATOMIC_STALLS for item in case.stall_evidence(reason, None)),
            ),
            place=case.place_of_opcode(*starts),
        )


_ATOMIC_STALLS = ("long_scoreboard", "lg_throttle", "short_scoreboard", "mio_throttle", "drain")


def _without_atomics(case: Case, busy: float) -> Saving:
    """Bound what goes with the atomics: every wait for them, in the queues before L1 too, and their part of L1 and L2.

    A loop of compare-and-swap does its arithmetic again under contention, so that this goes as well. Where waits were
    not collected, the busy time of the unit is what is known to go.
    """
    opcodes = case.recorded.launch.metrics.instances(WARP_OPCODES)
    loops = not opcodes or any(".CAS" in str(opcode) for opcode in opcodes)
    gone = [unit for unit in case.needs if unit not in ("dram", LAUNCH)] if loops else ["l2", "l1", "lsu"]
    bound, waits = case.saving(dict.fromkeys(gone, 0.0)), explained(case, busy, _ATOMIC_STALLS)
    if not case.stalls:
        return bound.if_held(busy, "all-other-stalls-unchanged")
    return bound.if_held(waits, "same-retries-per-atomic" if loops else OTHER_WAITS)


RULES = (
    Rule(
        "shared-bank-conflict",
        kind="defect",
        thresholds=(CONFLICTS, CONFLICTS_A_WARP),
        check=_bank_conflicts,
        metrics=(SHARED_PASSES, SHARED_CONFLICTS),
        causes=(Cause("reduction-tree"),),
        place=AT_SHARED,
    ),
    Rule(
        "local-memory-spill",
        kind="defect",
        thresholds=(SPILL,),
        check=_spill,
        metrics=(*LOCAL_SECTORS, *_GLOBAL),
        place=AT_MEMORY,
    ),
    Rule(
        "narrow-access",
        kind="defect",
        thresholds=(NARROW, NARROW_PRESSURE),
        check=_narrow,
        causes=(Cause("uncoalesced-global", what=asks_for_wide_accesses),),
        metrics=(WARP_OPCODES,),
        place=AT_MEMORY,
    ),
    Rule(
        "atomic-contention",
        kind="defect",
        thresholds=(ATOMICS,),
        check=_atomics,
        metrics=(*_L2_ATOMICS, *_SHARED_ATOMICS),
        place=AT_MEMORY,
    ),
)
