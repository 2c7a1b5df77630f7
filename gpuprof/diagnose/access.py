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
from gpuprof.diagnose.rule import AT_MEMORY, AT_SHARED, LOW, Cause, Rule, RuleVerdict, Threshold, percent
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
    cycles_of_passes,
    explained,
    l1_keeps,
    l1_speed,
    local_bytes_past_l1,
    memory_busy,
    part_text,
    while_active,
)  # fmt: skip
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.field_types import Confidence
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent, significant

if TYPE_CHECKING:
    from gpuprof.diagnose.by_code import ConflictPlace

CONFLICTS = percent("wavefronts from bank conflicts", 5.0, "half of the 10 % from which NVIDIA's rule fires")
CONFLICTS_A_WARP = Threshold(
    "conflicts per warp",
    1.0,
    "wavefront/warp",
    reason="less than one extra wavefront in the life of a warp costs it nothing",
)
SPILL = percent("local sectors", 1.0, "less is a rare path, such as an error branch")
NARROW = percent("narrow accesses", 50.0, "most accesses must be narrow for width to matter")
NARROW_PRESSURE = percent("Stall LG Throttle", 10.0, "below it the load/store queue has room, and width costs nothing")
ATOMICS = percent("atomic units busy", 30.0, "below it another unit limits the kernel")

_WAVES = "memory_l1_wavefronts_shared"
_WAVES_EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
_WAVES_IDEAL = "memory_l1_wavefronts_shared_ideal"
_PASSES_BY_KIND = tuple(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{kind}.sum" for kind in ("ld", "st"))
_KINDS = ("load", "store")
_SASS_UNITS = ("sm", "smsp")
_SASS_CONFLICTS = "{}__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared{}.sum"
_SASS_PASSES = "{}__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared.sum"
_SASS_KINDS = {
    "ld": "loads", "ldsm": "matrix loads", "ldgsts": "asynchronous copies", "st": "stores", "stsm": "matrix stores",
    "atom": "atomics", "red": "reductions",
}  # fmt: skip
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
_WAVE_WORDS = {
    _WAVES_EXCESS: "wavefronts from bank conflicts",
    _WAVES_IDEAL: "wavefronts without conflicts",
    _WAVES: "shared-memory wavefronts",
    SHARED_CONFLICTS: "wavefronts from bank conflicts, counted by the hardware",
    SHARED_PASSES: "shared-memory wavefronts",
    **{
        name: f"{what} wavefronts from bank conflicts"
        for name, what in zip(SHARED_CONFLICTS_BY_KIND, _KINDS, strict=True)
    },
    **{name: f"shared-memory {what} wavefronts" for name, what in zip(_PASSES_BY_KIND, _KINDS, strict=True)},
    **{
        _SASS_CONFLICTS.format(unit, f"_op_{kind}"): f"wavefronts from bank conflicts of {accesses}"
        for unit in _SASS_UNITS
        for kind, accesses in _SASS_KINDS.items()
    },
    **{_SASS_CONFLICTS.format(unit, ""): "wavefronts from bank conflicts" for unit in _SASS_UNITS},
    **{_SASS_PASSES.format(unit): "shared-memory wavefronts" for unit in _SASS_UNITS},
}


class _Conflicts(Struct, frozen=True):
    """Wavefronts that come from conflicts, of all where those were counted; the counters that tell; which they are."""

    excess: float
    total: float | None
    evidence: tuple[Evidence, ...]
    kind: str = "wavefronts"


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
            return _Conflicts(excess, total, _waves(case, *names), kind=f"{kind} wavefronts")
    return None


def _waves(case: Case, *names: str) -> tuple[Evidence, ...]:
    return tuple(item for name in names for item in case.metric(name, _WAVE_WORDS[name], "wavefront"))


def _place_by_code(case: Case, saving: Saving | None) -> ConflictPlace | None:
    """Return the line of the conflicts by the code, where they are worth it and no instruction's were counted."""
    conflicts = case.number(SHARED_CONFLICTS)
    if not conflicts or saving is None or saving.fraction < LOW:
        return None
    if any(name in item.counts for item in case.code for name in (_WAVES_EXCESS, _WAVES)):
        return None
    from gpuprof.diagnose.by_code import conflicts_by_code

    return conflicts_by_code(case, conflicts)


def _bank_conflicts(case: Case) -> Iterator[RuleVerdict]:
    counted = _counted_conflicts(case)
    if counted is None:
        return
    conflicts, confidence = counted
    excess, total, evidence = conflicts.excess, conflicts.total, conflicts.evidence
    warps = case.warps
    if total is None and warps and excess / warps >= CONFLICTS_A_WARP.value:
        yield _conflict_verdict(
            case,
            f"{_by_warp_text(case, conflicts, warps)}; the total was not collected",
            "",
            confidence,
            None,
            (
                *evidence,
                Evidence(
                    "", excess / warps, "wavefront/warp", threshold=CONFLICTS_A_WARP.value, meaning="conflicts per warp"
                ),
            ),
        )
    if not total or not excess or 100 * excess / total < CONFLICTS.value:
        return
    fraction = min(1.0, excess / total)
    yield _conflict_verdict(
        case,
        f"{format_percent(fraction)} of {conflicts.kind} ({part_text(excess, total)})",
        f", {total / (total - excess):.3g} times as many as needed" if total > excess else "",
        confidence,
        _without_conflicts(case, fraction, excess),
        (*evidence, Evidence("", 100 * fraction, "%", threshold=CONFLICTS.value, meaning=CONFLICT_SHARE)),
    )


def _by_warp_text(case: Case, conflicts: _Conflicts, warps: float) -> str:
    """Write the conflicts of a warp, those of loads and of stores apart where both have some."""
    text = f"{significant(conflicts.excess / warps)} extra wavefronts per warp"
    by_kind = [case.number(name) for name in SHARED_CONFLICTS_BY_KIND]
    if sum(count or 0.0 for count in by_kind) != conflicts.excess or not all(by_kind):
        return text
    kinds = (f"{significant((count or 0.0) / warps)} of {kind}s" for count, kind in zip(by_kind, _KINDS, strict=True))
    return f"{text} ({', '.join(kinds)})"


def _conflict_verdict(
    case: Case, what: str, times: str, confidence: Confidence, saving: Saving | None, evidence: tuple[Evidence, ...]
) -> RuleVerdict:
    by_code = _place_by_code(case, saving)
    return RuleVerdict(
        headline=f"Shared-memory bank conflicts: {what}",
        why="Threads of a warp hit different words of one bank, so the access is split into several "
        f"wavefronts{times}.",
        action="Pad or swizzle the shared array so that a warp's threads hit different banks",
        advice=(
            "Pad the rows of the shared array (for example [32][33]), or swizzle the column index with the row (XOR). "
            "In Triton, transpose with tl.trans or change num_warps to get another layout."
        ),
        confidence=confidence,
        saving=saving,
        evidence=(
            *evidence,
            *case.stall_evidence("short_scoreboard", None),
            *case.stall_evidence("mio_throttle", None),
            *((by_code.evidence,) if by_code is not None else ()),
        ),
        location=by_code.location if by_code is not None else case.place_of(_WAVES_EXCESS) or case.place_of(_WAVES),
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


def _spill(case: Case) -> Iterator[RuleVerdict]:
    local = _local_share(case)
    if local is None or 100 * local.share < SPILL.value:
        return
    share = local.share
    registers = case.kernel.registers_per_thread
    full = registers is not None and registers >= _register_ceiling(case)
    cause = (
        f"All {registers} registers available to a thread are in use, so the compiler spills."
        if full
        else "Arrays that are indexed at run time, and values beyond a register cap, live in local memory."
    )
    yield RuleVerdict(
        headline=f"Local memory: {format_percent(share)} of {local.what} are spills or local arrays",
        why=f"{cause} Every access goes through L1; what L1 cannot keep goes to L2 and DRAM.",
        action=_spill_action(case, full=full),
        advice=(
            f"{_more_registers(case)} Split the kernel or shorten live ranges; unroll loops over local arrays so that "
            "every index is a constant."
        ),
        # A share of accesses is no cost if neither busy units nor stalls are known.
        confidence="guess" if case.busiest_need is None and not case.stalls else "measured",
        saving=_without_local(case, local),
        evidence=(
            *local.evidence,
            Evidence("", 100 * share, "%", threshold=SPILL.value, meaning=f"local share of {local.what}"),
            *case.metric("launch__registers_per_thread", "registers per thread", "register"),
        ),
        location=case.place_of("memory_l2_theoretical_sectors_local") or case.place_of_opcode("LDL", "STL"),
    )


def _spill_action(case: Case, *, full: bool) -> str:
    if not full:
        return "Keep local arrays in registers: unroll their loops and raise the register cap"
    if _register_ceiling(case) < _ALL_REGISTERS:
        return "Use smaller blocks, which allow more registers per thread"
    return "Lower register pressure: smaller tiles, shorter live ranges or a split kernel"


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
        "the same hit rates for local and other data"
        if local.whole
        else "the same local-memory share in the accesses that were not counted",
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


def _more_registers(case: Case) -> str:
    """Say what gives a thread more registers: a higher cap, or where the block's size is the cap, smaller blocks."""
    ceiling, block = _register_ceiling(case), case.kernel.block
    if ceiling < _ALL_REGISTERS and block is not None:
        threads = block[0] * block[1] * block[2]
        return f"Use smaller blocks: in one of {threads} threads, a thread gets at most {ceiling:.0f} registers."
    return "Raise the register cap (__launch_bounds__ with fewer blocks, -maxrregcount; fewer num_warps in Triton)."


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
        (LOCAL_SECTORS, _GLOBAL, "load and store sectors", "sector"),
        (_LOCAL_INSTRUCTIONS, _GLOBAL_INSTRUCTIONS, "load and store instructions", "instruction"),
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
            evidence = tuple(item for name in pairs for item in case.metric(name, _local_words(name), unit))
            whole = len(pairs) == len(local_metrics)
            return _Local(share=mine / every, what=what, evidence=evidence, whole=whole)
    return None


def _local_words(name: str) -> str:
    return "local loads" if "ld" in name or "load" in name else "local stores"


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


def _narrow(case: Case) -> Iterator[RuleVerdict]:
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
    yield RuleVerdict(
        headline=f"Narrow accesses: {format_percent(share)} of global accesses move at most {size} bytes per thread",
        why=(
            "An instruction takes one issue slot and one entry in the load/store unit's queue, for 1 byte per thread "
            "as for 16. Narrow accesses take up to 16 times as many instructions for the same bytes, and address "
            "arithmetic for each."
        ),
        action="Load and store 16 bytes per thread at once (float4, uint4)",
        advice=(
            "Load 16 bytes per thread at once (float4, uint4, __nv_bfloat162 pairs; reinterpret int8 as int4) and let "
            "each thread process neighbouring elements. In Triton, give each thread more elements and hint alignment "
            "with tl.multiple_of and tl.max_contiguous."
        ),
        confidence="inferred",
        saving=_widened(case, _spared(widths, size)) if case.stalls or pipe is not None else None,
        evidence=(
            Evidence(
                WARP_OPCODES,
                100 * share,
                "%",
                threshold=NARROW.value,
                meaning=f"global accesses of at most {size} bytes per thread",
            ),
            *case.stall_evidence("lg_throttle", NARROW_PRESSURE.value),
            *((case.pipe_evidence("lsu"),) if pipe is not None else ()),
        ),
        location=case.place(
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
    return bound.if_held(min(accesses, most), "the same address arithmetic")


def _spared(widths: Mapping[int, float], size: int) -> float:
    """Return the share of the accesses that 16 bytes a thread spare of those of `size` bytes and less."""
    return sum(count * (1 - width / 16) for width, count in widths.items() if width <= size) / sum(widths.values())


_L2_ATOMICS = (
    "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed",
    "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
"""One hot address loads one slice of L2, which only the maximum over the slices shows."""
_SHARED_ATOMICS = (SHARED_ATOMICS,)


def _atomics(case: Case) -> Iterator[RuleVerdict]:
    for names, where, starts in (
        (_L2_ATOMICS, "L2 atomic units", ("ATOMG", "RED.", "REDG", "ATOM.")),
        (_SHARED_ATOMICS, "shared-memory atomic unit", ("ATOMS",)),
    ):
        name = next((name for name in names if case.number(name) is not None), None)
        busy = case.number(name) if name is not None else None
        if name is None or busy is None or busy < ATOMICS.value:
            continue
        fraction = min(1.0, busy / 100)
        yield RuleVerdict(
            headline=f"Atomic contention: {where} {format_percent(fraction)} busy",
            why="Atomics on one address run one after the other, and warps queue behind them.",
            action="Reduce within the warp and the block first, then issue one atomic per block",
            advice=(
                "Reduce first and add once: within the warp (__reduce_add_sync, warp shuffles), then within the block "
                "in shared memory, then with one atomic per block. Spread counters over several addresses "
                "(privatisation)."
            ),
            confidence="measured",
            saving=_without_atomics(case, fraction),
            evidence=(
                *case.metric(name, f"{where} busy", "%", ATOMICS.value),
                *(item for reason in _ATOMIC_STALLS for item in case.stall_evidence(reason, None)),
            ),
            location=case.place_of_opcode(*starts),
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
        return bound.if_held(busy, "all other stalls unchanged")
    return bound.if_held(waits, "the same number of retries per atomic") if loops else bound.if_held(waits, OTHER_WAITS)


RULES = (
    Rule(
        "shared-bank-conflict",
        "Shared-memory bank conflicts",
        about="defect",
        looks_at="Wavefronts of shared-memory accesses beyond the ideal number; where that was not collected, bank "
        "conflicts as counted by the hardware. Where the wavefronts of loads or of stores alone were counted, the "
        "conflicts of those; where none were, conflicts per warp. Where they were not counted by instruction, the line "
        "is the one that, by the code, alone can cause most of them.",
        thresholds=(CONFLICTS, CONFLICTS_A_WARP),
        gain="1 − the largest need that remains, with L1 reduced to the wavefronts that are no conflicts. No more "
        "than the share of conflict wavefronts × 1.25 times the busy fraction of shared memory's data pipe over the "
        "time that an SM works: a wavefront holds others up for the one cycle that it takes. Where that fraction was "
        "not collected, L1's, and no more than 1.25 times the cycles of the conflict wavefronts: one each with 32 "
        "load/store units in an SM, two with 16.",
        silent="Under 5 % of the wavefronts, or shared memory is not used.",
        check=_bank_conflicts,
        metrics=(SHARED_PASSES, SHARED_CONFLICTS),
        causes=(Cause("reduction-tree"),),
        place=AT_SHARED,
    ),
    Rule(
        "local-memory-spill",
        "Register spills or local arrays in memory",
        about="defect",
        looks_at="Local-memory sectors in L1 as a share of all load and store sectors; else of instructions.",
        thresholds=(SPILL,),
        gain="1 − the largest need that remains without local memory: L1 and the load/store unit free, the issue "
        "slots without its instructions, L2 and DRAM without its bytes (loads that miss L1, and stores), as far as "
        "counted. No more than its largest share of a level × working time × 1.25 times the larger of the busiest "
        "memory level and the stalls on memory and barriers. Where code and samples tell which instructions access "
        "local memory and which wait for it, no more than 1.25 times the larger of their share of the samples, with as "
        "many warps at barriers as that can hold up, and its share of the time of any unit, and its share of what "
        "follows when most SMs have ended. Where bytes are not known, its share of the accesses "
        "stands for them, and the gain holds with the same hit rates.",
        silent="Under 1 %, or local accesses were not counted.",
        check=_spill,
        metrics=(*LOCAL_SECTORS, *_GLOBAL),
        place=AT_MEMORY,
    ),
    Rule(
        "narrow-access",
        "Narrow global accesses",
        about="defect",
        looks_at="Width of global loads and stores in the opcode histogram, and whether their queue or pipe is under "
        "pressure.",
        thresholds=(NARROW, NARROW_PRESSURE),
        gain="1 − the largest need that remains: L1 and the load/store unit without the instructions that 16-byte "
        "accesses save, the issue slots free. No more than the share of those instructions × 1.25 times the larger of "
        "both units and the stalls on memory and barriers, with the same address arithmetic: a bound where the needs "
        "that remain without that are as large. Unknown without stalls and the pipe.",
        silent="The report has no opcode histogram, most accesses are wide, or 4-byte accesses cause no LG Throttle.",
        check=_narrow,
        causes=(Cause("uncoalesced-global", what=asks_for_wide_accesses),),
        metrics=(WARP_OPCODES,),
        place=AT_MEMORY,
    ),
    Rule(
        "atomic-contention",
        "Atomic contention",
        about="defect",
        looks_at="Busy fraction of the L2 atomic units and of the shared-memory atomic unit.",
        thresholds=(ATOMICS,),
        gain="1 − the largest need that remains without L1, L2 and the load/store unit; of DRAM and the launch alone "
        "where compare-and-swap loops run or the opcodes are unknown. No more than 1.25 times the larger of the "
        "atomic unit's busy fraction and the stalls on L1, its queues and barriers; where loops run or may run, with "
        "the same number of retries per atomic. Without stalls: the busy fraction.",
        silent="Under 30 % busy, or not collected. Where a report has only the average over the L2 slices, a single "
        "hot address stays hidden.",
        check=_atomics,
        metrics=(*_L2_ATOMICS, *_SHARED_ATOMICS),
        place=AT_MEMORY,
    ),
)
