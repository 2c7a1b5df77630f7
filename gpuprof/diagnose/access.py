"""Rules on how memory is accessed: bank conflicts, spills, width, atomics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuprof.diagnose.case import (
    EXECUTED,
    MEMORY_STALLS,
    SHARED_STALLS,
    WAVEFRONTS,
    WELL_USED,
    Case,
    summed,
)
from gpuprof.diagnose.coalescing import asks_for_wide_accesses
from gpuprof.diagnose.needs import ADDRESS_PIPES, ISSUE, LAUNCH, Saving
from gpuprof.diagnose.rule import AT_MEMORY, AT_SHARED, LOW, Cause, Rule, Threshold, amounts_of, finding, percent
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
from gpuprof.model.findings import MAIN, CaseName, Cases
from gpuprof.model.session import Evidence, Finding

CONFLICTS = percent("conflicts", 5.0)
CONFLICTS_A_WARP = Threshold("conflicts-per-warp", 1.0, "wavefront/warp")
SPILL = percent("local-share", 1.0)
NARROW = percent("narrow-share", 50.0)
NARROW_PRESSURE = percent("queue-pressure", 10.0)
ATOMICS = percent("atomic-units-busy", 30.0)

_WAVES = "memory_l1_wavefronts_shared"
_WAVES_EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
_WAVES_IDEAL = "memory_l1_wavefronts_shared_ideal"
_PASSES_OF_KINDS = {
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "load-wavefronts",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": "store-wavefronts",
}
_SASS_CONFLICTS = "{}__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared{}.sum"
_SASS_PASSES = "{}__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared.sum"
_SASS_KINDS = ("ld", "ldsm", "ldgsts", "st", "stsm", "atom", "red")
_COUNTED_BY: tuple[tuple[Mapping[str, str], Mapping[str, str]], ...] = (
    ({SHARED_CONFLICTS: "conflict-wavefronts-by-hardware"}, {SHARED_PASSES: "wavefronts"}),
    (SHARED_CONFLICTS_BY_KIND, _PASSES_OF_KINDS),
    *(
        (roles, {_SASS_PASSES.format(unit): "wavefronts"})
        for unit in ("sm", "smsp")
        for roles in (
            {_SASS_CONFLICTS.format(unit, ""): "conflict-wavefronts"},
            {_SASS_CONFLICTS.format(unit, f"_op_{kind}"): f"conflict-wavefronts-{kind}" for kind in _SASS_KINDS},
        )
    ),
)
"""Counters of conflicts and of all passes with their roles, in order of preference."""


class _Conflicts(NamedTuple):
    """Wavefronts caused by conflicts, all wavefronts (None if not counted), and the evidence.

    `kind` is the case of the headline.
    """

    excess: float
    total: float | None
    evidence: tuple[Evidence, ...]
    confidence: Confidence = "inferred"
    kind: CaseName = "wavefronts"


def _counted_conflicts(case: Case) -> _Conflicts | None:
    """Return the counts of instrumentation, else of the hardware, which include other conflicts."""
    total = case.number(_WAVES)
    excess = case.number(_WAVES_EXCESS)
    ideal = case.number(_WAVES_IDEAL)
    if total is not None:
        if excess is None and ideal is not None:
            excess = total - ideal
        if excess is not None:
            roles = {_WAVES_EXCESS: "conflict-wavefronts", _WAVES_IDEAL: "ideal-wavefronts", _WAVES: "wavefronts"}
            return _Conflicts(excess, total, case.metrics_as(roles, "wavefront"), "measured")
    for conflicts, passes in _COUNTED_BY:
        excess = case.total(conflicts)
        if not excess:
            # Some counters leave out accesses that others count, such as matrix loads.
            continue
        # The conflicts are of all accesses, so the passes of loads alone are no total for them.
        total = case.total(passes, of_all=True) or case.number(SHARED_PASSES)
        found = _Conflicts(excess, total, case.metrics_as({**conflicts, **passes}, "wavefront"))
        if total is None and conflicts is SHARED_CONFLICTS_BY_KIND:
            return _conflicts_one_way(case) or found
        return found
    return None


def _conflicts_one_way(case: Case) -> _Conflicts | None:
    """Return the conflicts of loads or of stores if both conflicts and wavefronts were counted."""
    for (conflicts, role), (passes, kind) in zip(
        SHARED_CONFLICTS_BY_KIND.items(), _PASSES_OF_KINDS.items(), strict=True
    ):
        excess, total = case.number(conflicts), case.number(passes)
        if excess and total and excess <= total:
            return _Conflicts(excess, total, case.metrics_as({conflicts: role, passes: kind}, "wavefront"), kind=kind)
    return None


def _bank_conflicts(case: Case) -> Iterator[Finding]:
    conflicts = _counted_conflicts(case)
    if conflicts is None:
        return
    excess = conflicts.excess
    total = conflicts.total
    why = MAIN
    saving = None
    if total is None:
        if not case.warps or excess / case.warps < CONFLICTS_A_WARP.value:
            return
        headline: tuple[CaseName, ...] = ("per-warp", "no-total")
        amounts = amounts_of("", per_warp=excess / case.warps)
        loads, stores = map(case.number, SHARED_CONFLICTS_BY_KIND)
        if loads and stores and loads + stores == excess:
            headline = ("per-warp", "by-kind", "no-total")
            amounts += amounts_of("", loads=loads / case.warps, stores=stores / case.warps)
        evidence = CONFLICTS_A_WARP.evidence(excess / case.warps)
    else:
        if not total or not CONFLICTS.is_reached(excess / total):
            return
        fraction = min(1.0, excess / total)
        headline = (conflicts.kind, counts_case(total))
        amounts = amounts_of(share=fraction) + amounts_of("", excess=excess, total=total)
        if total > excess:
            why = ("times",)
            amounts += amounts_of("", times=total / (total - excess))
        evidence = CONFLICTS.evidence(100 * fraction, CONFLICT_SHARE)
        saving = _without_conflicts(case, fraction, excess)
    place = case.place_of(_WAVES_EXCESS, _WAVES)
    by_code: tuple[Evidence, ...] = ()
    by_hardware = case.number(SHARED_CONFLICTS)
    if place is None and by_hardware and saving is not None and saving.fraction >= LOW:
        from gpuprof.diagnose.by_code import conflicts_by_code

        place, by_code = conflicts_by_code(case, by_hardware)
    yield finding(
        case,
        Cases(headline=headline, why=why),
        amounts=amounts,
        subject="shared",
        confidence=conflicts.confidence,
        saving=saving,
        evidence=(*conflicts.evidence, evidence, *case.stall_evidence(*SHARED_STALLS), *by_code),
        place=place,
    )


def _without_conflicts(case: Case, conflicts: float, excess: float) -> Saving:
    """Bound the gain without conflicts by their share of L1's passes and its busy time.

    A pass delays others for the one cycle that it takes. Whatever waits for conflicts therefore
    waits while the pipe works. The number of passes also bounds how long conflicts keep the pipe
    busy.
    """
    shared = case.number(SHARED_BUSY)
    delayed = conflicts
    if shared is not None:
        keeps = l1_keeps(case, max(case.number(WAVEFRONTS) or 0.0, shared) - conflicts * shared)
        busy = while_active(case, shared / 100)
    else:
        keeps = l1_keeps(case)
        busy = while_active(case, l1_speed(case))
        counted = while_active(case, cycles_of_passes(case, excess))
        if counted is not None:
            delayed = min(delayed, counted / WELL_USED)
    if busy is not None:
        delayed = min(delayed, conflicts * (busy / WELL_USED))
    return case.saving({"l1": keeps}).no_more_than(delayed)


_LEVELS = ("l2", "dram")
_GLOBAL = tuple(map(GLOBAL_SECTORS.format, ("ld", "st")))
_LOCAL_INSTRUCTIONS = ("sass__inst_executed_local_loads", "sass__inst_executed_local_stores")
_GLOBAL_INSTRUCTIONS = ("sass__inst_executed_global_loads", "sass__inst_executed_global_stores")
_ALL_REGISTERS = 255
_MOST_WARPS = 32
"""The most warps of a block, on every architecture."""


def _spill(case: Case) -> Iterator[Finding]:
    local = _local_share(case)
    if local is None or not SPILL.is_reached(local.share):
        return
    registers = case.kernel.registers_per_thread
    ceiling = _register_ceiling(case)
    threads = case.threads_per_block if ceiling < _ALL_REGISTERS else None
    reason = "all-registers"
    advice: tuple[str, ...] = ("shorter-ranges",)
    if registers is None or registers < ceiling:
        reason = "local-arrays"
        action = "keep-arrays"
        advice = ("raise-cap", *advice)
    elif threads is not None:
        action = "smaller-blocks"
        advice = (action, *advice)
    else:
        # No instruction can address more registers, so there is no cap to raise.
        action = "lower-pressure"
    yield finding(
        case,
        Cases(headline=(local.counted,), why=(reason, "through-l1"), action=(action,), advice=advice),
        amounts=(
            amounts_of(share=local.share) + amounts_of("", registers=registers, most_registers=ceiling, threads=threads)
        ),
        subject="local",
        # Without busy units or stalls, a share of accesses does not show a cost.
        confidence="guess" if case.busiest_need is None and not case.stalls else "measured",
        saving=_without_local(case, local),
        evidence=(
            *local.evidence,
            SPILL.evidence(100 * local.share, f"share-of-{local.counted}"),
            *case.metric("launch__registers_per_thread", "registers-per-thread", "register"),
        ),
        place=case.place_of("memory_l2_theoretical_sectors_local") or case.place_of_opcode("LDL", "STL"),
    )


def _without_local(case: Case, local: _Local) -> Saving:
    """Bound the gain without local memory, which may be all of the traffic of L2 and DRAM.

    Of each level at most its own bytes go. Its instructions go too, and with them the work of the
    load/store unit and L1. The kernel may wait for a level whose counters were not collected. If
    bytes are not known, the share of the accesses that are local estimates the gain. That assumes
    the same hit rates as for other data.
    """
    past_l1 = local_bytes_past_l1(case)
    shares: dict[str, float] = {}
    for level in _LEVELS:
        moved = bytes_of(case, level)
        if moved and past_l1 is not None:
            shares[level] = min(1.0, past_l1 / moved)
    executed = case.number("smsp__inst_executed.sum")
    counted = case.total(_LOCAL_INSTRUCTIONS, of_all=True)
    issued = 0.0
    if executed and counted is not None:
        issued = max(0.0, 1.0 - counted / executed)
    weight = explained(case, memory_busy(case), MEMORY_STALLS)

    def without(unknown: float, accesses: float) -> Saving:
        keeps = {"l1": 0.0, "lsu": 0.0, ISSUE: issued}
        goes = dict.fromkeys(_LEVELS, unknown) | shares
        for level, share in goes.items():
            keeps[level] = 1.0 - share
        return capped(case, case.saving(keeps), max(accesses, *goes.values()), weight)

    estimate = without(local.share, local.share).fraction
    if local.whole:
        saving = without(1.0, local.share).if_held(estimate, "same-hit-rates")
    else:
        saving = without(1.0, 1.0).if_held(estimate, "same-local-share")
    if saving.fraction < LOW:
        return saving
    return _by_waits(case, saving, {"l1": local.share, **shares, ISSUE: 1.0 - issued})


def _by_waits(case: Case, saving: Saving, work: Mapping[str, float]) -> Saving:
    """Bound the gain without local memory by the samples of its accesses and of waits for them.

    `work` is its share of each unit's work, with which it can delay others. Unless that is known
    for all levels, the saving stays as it is. All other warps of a block may wait at a barrier for
    one that waits.
    """
    from gpuprof.diagnose.local_waits import local_waits

    if memory_busy(case) is None or not work.keys() >= set(_LEVELS):
        return saving
    waits = local_waits(case)
    if waits is None:
        return saving
    unknown = case.memory_utilisation or 0.0
    busy = max(share * case.needs.get(unit, unknown) for unit, share in work.items())
    others = min(case.stall_at_most("barrier", "membar"), waits * ((case.warps_per_block or _MOST_WARPS) - 1))
    return saving.if_held(case.working_share * at_work(case, busy, waits + others, work["l1"]), OTHER_WAITS)


class _Local(NamedTuple):
    """The local share of loads and stores, and the evidence.

    `counted` names the accesses: sectors or instructions. `whole`: both loads and stores were
    counted.
    """

    share: float
    counted: str
    evidence: tuple[Evidence, ...]
    whole: bool


def _local_share(case: Case) -> _Local | None:
    """Return the local share of load and store sectors, else of instructions.

    Loads or stores count only if both their local and their global accesses are known.
    """
    for counted, local_metrics, global_metrics in (
        ("sector", LOCAL_SECTORS, _GLOBAL),
        ("instruction", _LOCAL_INSTRUCTIONS, _GLOBAL_INSTRUCTIONS),
    ):
        local = every = 0.0
        evidence: list[Evidence] = []
        for kind, of_local, of_global in zip(("loads", "stores"), local_metrics, global_metrics, strict=True):
            both = case.total((of_local, of_global), of_all=True)
            if both is not None:
                local += case.number(of_local) or 0.0
                every += both
                evidence += case.metric(of_local, f"local-{kind}", counted)
        if every > 0:
            return _Local(local / every, f"{counted}s", tuple(evidence), whole=len(evidence) == len(local_metrics))
    return None


def _register_ceiling(case: Case) -> float:
    """Return the most registers of a thread at this block size, by the ISA or the register file."""
    registers = case.arch.limits.get("registers_per_sm")
    if not case.threads_per_block or registers is None:
        return _ALL_REGISTERS
    share = registers.value / case.threads_per_block // 8 * 8
    return min(_ALL_REGISTERS, share) if share >= 16 else _ALL_REGISTERS


_WIDTHS = {".U8": 1, ".S8": 1, ".U16": 2, ".S16": 2, ".64": 8, ".128": 16, ".256": 32}
_GLOBAL_ACCESS = ("LDG.", "STG.", "LDGSTS.", "LD.", "ST.")


def global_widths(opcodes: Mapping[str, float]) -> dict[int, float]:
    """Return warp instructions of global loads and stores by bytes per thread, from opcodes."""
    widths = summed((width_of(opcode), count) for opcode, count in opcodes.items())
    widths.pop(0, None)
    return widths


def width_of(opcode: str) -> int:
    """Return the bytes per thread that a global load or store moves; 0 for other instructions."""
    name = f"{opcode}."
    if not name.startswith(_GLOBAL_ACCESS):
        return 0
    return next((size for mark, size in _WIDTHS.items() if mark in name), 4)


def _narrow(case: Case) -> Iterator[Finding]:
    widths = global_widths(case.opcodes())
    total = sum(widths.values())
    if not total:
        return
    for size in (2, 4):
        narrow = {width: count for width, count in widths.items() if width <= size}
        share = sum(narrow.values()) / total
        if NARROW.is_reached(share):
            break
    else:
        return
    if size == 4 and not NARROW_PRESSURE.is_reached(case.stall("lg_throttle")):
        return
    saving = None
    if case.stalls or case.pipe("lsu") is not None:
        # Accesses of 16 bytes per thread replace most of the narrow ones.
        spared = sum(count * (1 - width / 16) for width, count in narrow.items()) / total
        saving = _widened(case, spared)
    yield finding(
        case,
        amounts=amounts_of(share=share) + amounts_of("B", size=size),
        subject="global",
        confidence="inferred",
        saving=saving,
        evidence=(
            NARROW.evidence(100 * share, f"at-most-{size}-bytes", metric=WARP_OPCODES),
            *case.stall_evidence("lg_throttle", threshold=NARROW_PRESSURE.value),
            *case.pipe_evidence("lsu"),
        ),
        place=case.place(
            lambda instruction: instruction.counts.get(EXECUTED, 0.0),
            [place for place, opcode in enumerate(case.opcode_names) if 0 < width_of(opcode) <= size],
        ),
    )


def _widened(case: Case, gone: float) -> Saving:
    """Bound the gain of wide accesses, which replace the share `gone` of the accesses.

    Their address arithmetic goes too, but its share of the integer pipes and the issue slots is
    unknown. If it stays, only the accesses are saved.
    """
    keeps = {"l1": 1.0 - gone, "lsu": 1.0 - gone}
    bound = case.saving(keeps | dict.fromkeys((*ADDRESS_PIPES, ISSUE), 0.0))
    accesses = case.saving(keeps | {ISSUE: 0.0}).fraction
    most = gone * explained(case, l1_speed(case), MEMORY_STALLS)
    return bound.if_held(min(accesses, most), "same-address-arithmetic")


_L2_ATOMICS = (
    "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed",
    "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
"""One hot address keeps one slice of L2 busy, which only the maximum over the slices shows."""


def _atomics(case: Case) -> Iterator[Finding]:
    for unit, names, opcodes in (
        ("l2", _L2_ATOMICS, ("ATOMG", "RED.", "REDG", "ATOM.")),
        ("shared", (SHARED_ATOMICS,), ("ATOMS",)),
    ):
        busy = case.number(*names)
        if busy is None or busy < ATOMICS.value:
            continue
        fraction = min(1.0, busy / 100)
        evidence = ATOMICS.evidence(busy, f"{unit}-busy", metric=case.first_of(names))
        yield finding(
            case,
            Cases(headline=(unit,)),
            amounts=amounts_of(busy=fraction),
            subject=unit,
            confidence="measured",
            saving=_without_atomics(case, fraction),
            evidence=(evidence, *case.stall_evidence(*_ATOMIC_STALLS)),
            place=case.place_of_opcode(*opcodes),
        )


_ATOMIC_STALLS = ("long_scoreboard", "lg_throttle", "short_scoreboard", "mio_throttle", "drain")


def _without_atomics(case: Case, busy: float) -> Saving:
    """Bound the gain without atomics: their part of L1 and L2, and all waits for them.

    A loop of compare-and-swap repeats its arithmetic under contention, so that goes as well. If
    waits were not collected, only the busy time of the unit is known to go.
    """
    opcodes = case.opcodes()
    loops = not opcodes or any(".CAS" in opcode for opcode in opcodes)
    gone = {"l2", "l1", "lsu"}
    condition = OTHER_WAITS
    if loops:
        gone = case.needs.keys() - {"dram", LAUNCH}
        condition = "same-retries-per-atomic"
    bound = case.saving(dict.fromkeys(gone, 0.0))
    if not case.stalls:
        return bound.if_held(busy, "all-other-stalls-unchanged")
    return bound.if_held(explained(case, busy, _ATOMIC_STALLS), condition)


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
        metrics=LOCAL_SECTORS + _GLOBAL,
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
        metrics=(*_L2_ATOMICS, SHARED_ATOMICS),
        place=AT_MEMORY,
    ),
)
