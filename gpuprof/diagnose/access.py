"""Rules on how memory is accessed: coalescing, bank conflicts, spills, width, atomics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuprof.diagnose import nvidia_messages
from gpuprof.diagnose.case import EXECUTED, MEMORY_STALLS, Case, opcode_of
from gpuprof.diagnose.limits import BUSY, MANY_WAVEFRONTS, REQUESTS, l1_fraction, wavefronts_per_request
from gpuprof.diagnose.rule import AT_MEMORY, AT_SHARED, Rule, RuleVerdict, percent
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.field_types import Confidence
from gpuprof.model.session import Evidence, Location
from gpuprof.units import format_percent

EXCESS = percent("excess sectors", 1.0, "less than 1 % of the sectors is an edge of the data, not a pattern")
CONFLICTS = percent("conflict wavefronts", 5.0, "half of the 10 % from which NVIDIA's rule speaks")
SPILL = percent("local sectors", 1.0, "less is a rare path, such as an error branch")
NARROW = percent("narrow accesses", 50.0, "most accesses must be narrow for width to matter")
NARROW_PRESSURE = percent(
    "load/store pressure", 10.0, "share of warps throttled by the load/store queue below which width costs nothing"
)
ATOMICS = percent("atomic units busy", 30.0, "below it another unit limits the kernel")

_EXCESS = "derived__memory_l2_theoretical_sectors_global_excessive"
_TOTAL = "memory_l2_theoretical_sectors_global"
_IDEAL = "memory_l2_theoretical_sectors_global_ideal"
_TOLD = "rule UncoalescedGlobalAccess"
_PER_SECTOR = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{}.ratio"
_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
_SECTOR_BYTES = 32
_MANY_SECTORS = 16.5
"""Sectors that a request of 16 bytes a thread needs when it is coalesced, and a margin for edges."""
_FEW_SECTORS = 4.0
"""Sectors that a request of 4 bytes a thread needs when it is coalesced."""

_COALESCE = (
    "Let consecutive threads (Triton: consecutive offsets of the innermost dimension) touch consecutive addresses: "
    "swap the index that the thread number goes into, transpose through shared memory, or store arrays of fields "
    "rather than an array of structures."
)


_SCATTERED = 0.2
"""A row of 4-byte words that starts inside a sector moves one sector in five for nothing; more is scattered."""
_WHY_SCATTERED = (
    "The threads of a warp touch addresses that are not next to each other, so each request moves sectors of which "
    "only a part is used. L1, L2 and DRAM carry the rest for nothing."
)
_WHY_SHIFTED = (
    "So small an excess comes from accesses that start inside a 32-byte sector, which move one sector more, or from "
    "a few scattered accesses."
)
_ALIGN = (
    "Start rows at a multiple of 32 bytes (pad the leading dimension, cudaMallocPitch); shifted loads of a stencil "
    "cannot avoid it, and L1 mostly has that sector already. For single lines that stand out:"
)


@dataclass(frozen=True, slots=True)
class _Excess:
    fraction: float
    text: str
    confidence: Confidence
    evidence: tuple[Evidence, ...]


def _uncoalesced(case: Case) -> Iterator[RuleVerdict]:
    counts = _counted_sectors(case)
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
    place = case.place_of(_EXCESS) or _place_of_excess(case)
    yield RuleVerdict(
        headline=f"Uncoalesced global access: {excess.text}",
        why=_WHY_SCATTERED if excess.fraction >= _SCATTERED else _WHY_SHIFTED,
        advice=_COALESCE if excess.fraction >= _SCATTERED else f"{_ALIGN} {_COALESCE}",
        confidence=excess.confidence,
        gain=excess.fraction * case.memory_weight(),
        evidence=excess.evidence,
        location=place,
    )


class _Sectors(NamedTuple):
    """Excess and all sectors of global accesses, and the counters that tell them."""

    excess: float
    total: float
    evidence: tuple[Evidence, ...]


def _counted_sectors(case: Case) -> _Sectors | None:
    """What NVIDIA's instrumentation counts: sectors beyond those that the same bytes would need if contiguous."""
    total, excess, ideal = case.number(_TOTAL), case.number(_EXCESS), case.number(_IDEAL)
    all_of_them = case.metric(_TOTAL, "sectors of global accesses", "sector")
    if total is not None and excess is not None:
        return _Sectors(excess, total, (*case.metric(_EXCESS, "excess sectors", "sector"), *all_of_them))
    if total is not None and ideal is not None:
        return _Sectors(total - ideal, total, (*all_of_them, *case.metric(_IDEAL, "of which are needed", "sector")))
    told = nvidia_messages.excess_sectors(case.messages)
    if told is None:
        return None
    evidence = (
        Evidence(_TOLD, told.excess, "sector", threshold=None, meaning="excess sectors"),
        Evidence(_TOLD, told.total, "sector", threshold=None, meaning="sectors of global accesses"),
    )
    return _Sectors(told.excess, told.total, evidence)


def _counted_excess(counts: _Sectors) -> _Excess | None:
    """Judge what was counted exactly: where that shows no excess, nothing else does."""
    if not counts.total or 100 * counts.excess / counts.total < EXCESS.value:
        return None
    fraction = min(1.0, counts.excess / counts.total)
    text = f"{format_percent(fraction)} of {_count(counts.total)} sectors are excess"
    share = Evidence("", 100 * fraction, "%", threshold=EXCESS.value, meaning="excess share")
    return _Excess(fraction, text, "measured", evidence=(*counts.evidence, share))


def _unused_bytes(case: Case) -> _Excess | None:
    """Bytes of each 32-byte sector that the threads asked for."""
    used = {what: case.number(_PER_SECTOR.format(what)) for what in ("ld", "st")}
    known = {what: min(value, _SECTOR_BYTES) for what, value in used.items() if value}
    if not known:
        return None
    sectors = {what: case.number(_SECTORS.format(what)) for what in known}
    weights = {what: count for what, count in sectors.items() if count} or dict.fromkeys(known, 1.0)
    mean = sum(known[what] * weights.get(what, 0.0) for what in known) / sum(weights.values())
    fraction = 1.0 - mean / _SECTOR_BYTES
    if 100 * fraction < EXCESS.value:
        return None
    operations = {"ld": "loads", "st": "stores"}
    evidence = tuple(
        Evidence(
            _PER_SECTOR.format(what),
            value,
            "B/sector",
            threshold=32.0,
            meaning=f"bytes used of a sector by {operations[what]}",
        )
        for what, value in known.items()
    )
    return _Excess(fraction, f"of 32 bytes of a sector {mean:.3g} are used", "measured", evidence=evidence)


def _sectors_per_request(case: Case) -> _Excess | None:
    """More sectors a request than any coalesced access has."""
    for what, word in (("ld", "load"), ("st", "store")):
        sectors, requests = case.number(_SECTORS.format(what)), case.number(_REQUESTS.format(what))
        if not sectors or not requests or case.number(_TOTAL) is not None or sectors / requests < _MANY_SECTORS:
            continue
        ratio = sectors / requests
        evidence = (
            Evidence(_SECTORS.format(what), sectors, "sector", threshold=None, meaning=f"{word} sectors"),
            Evidence("", ratio, "sector/request", threshold=_MANY_SECTORS, meaning=f"sectors a {word} request"),
        )
        return _Excess(
            1.0 - _FEW_SECTORS / ratio, f"{ratio:.3g} sectors a {word} request", "inferred", evidence=evidence
        )
    return None


def _excess_passes(case: Case) -> float | None:
    """Return the share of passes through L1 beyond one a request; None where shared memory may cause them."""
    ratio = wavefronts_per_request(case)
    if ratio is None or ratio < MANY_WAVEFRONTS.value or case.kernel.shared_memory_per_block != 0:
        return None
    return 1.0 - 1.0 / ratio


def _many_wavefronts(case: Case) -> _Excess | None:
    """The basic set: L1's data pipe is busy and each request passes it many times, with no shared memory to blame."""
    fraction, ratio = l1_fraction(case), wavefronts_per_request(case)
    if fraction is None or ratio is None or case.kernel.shared_memory_per_block:
        return None
    if 100 * fraction < BUSY.value or ratio < MANY_WAVEFRONTS.value:
        return None
    evidence = (
        *case.metric(
            "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed", "L1 data pipe busy", "%", BUSY.value
        ),
        *case.metric(REQUESTS, "L1 requests, of their peak", "%"),
        Evidence(
            "", ratio, "wavefront/request", threshold=MANY_WAVEFRONTS.value, meaning="passes through L1 per request"
        ),
    )
    text = f"a request takes {ratio:.2g} passes through L1, which is {format_percent(fraction)} busy"
    confidence: Confidence = "inferred" if case.kernel.shared_memory_per_block is not None else "guess"
    return _Excess(1.0 - 1.0 / ratio, text, confidence, evidence=evidence)


def _place_of_excess(case: Case) -> Location | None:
    """Where a report counts sectors by instruction but no excess, the instruction with most sectors."""
    return case.place_of(_TOTAL)


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\u202f")


_WAVES = "memory_l1_wavefronts_shared"
_WAVES_EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
_WAVES_IDEAL = "memory_l1_wavefronts_shared_ideal"
_HARDWARE_WAVES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
_HARDWARE_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_WAVE_WORDS = {
    _WAVES_EXCESS: "conflict wavefronts",
    _WAVES_IDEAL: "wavefronts that are needed",
    _WAVES: "shared-memory wavefronts",
    _HARDWARE_CONFLICTS: "conflict wavefronts, as the hardware counts them",
    _HARDWARE_WAVES: "shared-memory wavefronts",
}


def _bank_conflicts(case: Case) -> Iterator[RuleVerdict]:
    confidence: Confidence = "measured"
    total, excess = case.number(_WAVES), case.number(_WAVES_EXCESS)
    ideal = case.number(_WAVES_IDEAL)
    if excess is None and total is not None and ideal is not None:
        excess = total - ideal
    names: tuple[str, ...] = (_WAVES_EXCESS, _WAVES_IDEAL, _WAVES)
    if total is None or excess is None:
        total, excess, confidence = case.number(_HARDWARE_WAVES), case.number(_HARDWARE_CONFLICTS), "inferred"
        names = (_HARDWARE_CONFLICTS, _HARDWARE_WAVES)
    if not total or not excess or 100 * excess / total < CONFLICTS.value:
        return
    fraction = min(1.0, excess / total)
    yield RuleVerdict(
        headline=(
            f"Shared-memory bank conflicts: {format_percent(fraction)} of {_count(total)} wavefronts come from "
            "conflicts"
        ),
        why=(
            "Threads of a warp hit different words of one bank, so the access is split into several passes: "
            f"{total / (total - excess):.3g} times the passes that are needed."
            if total > excess
            else "Threads of a warp hit different words of one bank, so the access is split into several passes."
        ),
        advice=(
            "Pad the rows of the shared array (for example [32][33]), or swizzle the column index with the row "
            "(XOR). In Triton, transposing through tl.trans or another num_warps changes the layout."
        ),
        confidence=confidence,
        gain=fraction * case.shared_weight(),
        evidence=(
            *(item for name in names for item in case.metric(name, _WAVE_WORDS[name], "wavefront")),
            Evidence("", 100 * fraction, "%", threshold=CONFLICTS.value, meaning="conflict share"),
            *case.stall_evidence("short_scoreboard", None),
            *case.stall_evidence("mio_throttle", None),
        ),
        location=case.place_of(_WAVES_EXCESS) or case.place_of(_WAVES),
    )


_LOCAL = tuple(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{what}.sum" for what in ("ld", "st"))
_GLOBAL = tuple(map(_SECTORS.format, ("ld", "st")))
_LOCAL_INSTRUCTIONS = ("sass__inst_executed_local_loads", "sass__inst_executed_local_stores")
_GLOBAL_INSTRUCTIONS = ("sass__inst_executed_global_loads", "sass__inst_executed_global_stores")
_ALL_REGISTERS = 255


def _spill(case: Case) -> Iterator[RuleVerdict]:
    local = _local_share(case)
    if local is None or 100 * local.share < SPILL.value:
        return
    share = local.share
    registers = case.kernel.registers_per_thread
    full = registers is not None and registers >= _register_ceiling(case)
    cause = (
        f"All {registers} registers that a thread may have are in use: the compiler spills."
        if full
        else "A thread's local array is indexed at run time, or registers are capped: such data lives in memory."
    )
    yield RuleVerdict(
        headline=f"Local memory: {format_percent(share)} of the {local.what} are spills or local arrays",
        why=f"{cause} Every access to it goes through L1, and what L1 cannot keep goes to L2 and DRAM.",
        advice=(
            f"{_more_registers(case)} Split the kernel or shorten the live ranges; unroll loops over local arrays so "
            "that every index is a constant."
        ),
        confidence="measured",
        gain=share * case.memory_weight(),
        evidence=(
            *local.evidence,
            Evidence("", 100 * share, "%", threshold=SPILL.value, meaning=f"local share of {local.what}"),
            *case.metric("launch__registers_per_thread", "registers a thread", "register"),
        ),
        location=case.place_of("memory_l2_theoretical_sectors_local") or case.place_of_opcode("LDL", "STL"),
    )


def _more_registers(case: Case) -> str:
    """Say what gives a thread more registers: a higher cap, or where the block's size is the cap, smaller blocks."""
    ceiling, block = _register_ceiling(case), case.kernel.block
    if ceiling < _ALL_REGISTERS and block is not None:
        threads = block[0] * block[1] * block[2]
        return f"Use smaller blocks: one of {threads} threads leaves {ceiling:.0f} registers a thread."
    return "Raise the cap (__launch_bounds__ with fewer blocks, -maxrregcount; fewer num_warps in Triton)."


class _Local(NamedTuple):
    """The local share of loads and stores, of what it is a share, and the counters."""

    share: float
    what: str
    evidence: tuple[Evidence, ...]


def _local_share(case: Case) -> _Local | None:
    """Return the local share of load and store sectors, else of instructions; None where one side is not known."""
    for local_metrics, global_metrics, what, unit in (
        (_LOCAL, _GLOBAL, "load and store sectors", "sector"),
        (_LOCAL_INSTRUCTIONS, _GLOBAL_INSTRUCTIONS, "load and store instructions", "instruction"),
    ):
        mine, rest = case.total(local_metrics), case.total(global_metrics)
        if mine is not None and rest is not None and mine + rest > 0:
            evidence = tuple(item for name in local_metrics for item in case.metric(name, _local_words(name), unit))
            return _Local(mine / (mine + rest), what, evidence)
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
    waits = case.latency_gain(case.stall(*MEMORY_STALLS))
    pressure = max(throttled, pipe or 0.0, waits) if case.stalls or pipe is not None else None
    yield RuleVerdict(
        headline=f"Narrow accesses: {format_percent(share)} of the global accesses move {size} bytes a thread or less",
        why=(
            "A load instruction costs the load/store unit the same at 1 and at 16 bytes a thread. Narrow ones need "
            "up to sixteen times as many, fill its queue and make the address arithmetic dominate."
        ),
        advice=(
            "Load 16 bytes a thread at once (float4, uint4, __nv_bfloat162 pairs; reinterpret int8 as int4) and let "
            "each thread handle neighbouring elements. In Triton raise the elements a thread owns and hint "
            "alignment with tl.multiple_of and tl.max_contiguous."
        ),
        confidence="inferred",
        gain=min(share * (1 - size / 16) * pressure, 1.0) if pressure is not None else None,
        evidence=(
            Evidence(
                WARP_OPCODES,
                100 * share,
                "%",
                threshold=NARROW.value,
                meaning=f"global accesses of at most {size} bytes a thread",
            ),
            *case.stall_evidence("lg_throttle", NARROW_PRESSURE.value),
            *((case.pipe_evidence("lsu"),) if pipe is not None else ()),
        ),
        location=case.place(
            lambda instruction: instruction.counts.get(EXECUTED, 0.0) if 0 < width_of(instruction.sass) <= size else 0.0
        ),
    )


_L2_ATOMICS = (
    "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed",
    "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed",
)
"""One hot address loads one slice of L2, which only the maximum over the slices shows."""
_SHARED_ATOMICS = ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum.pct_of_peak_sustained_elapsed",)


def _atomics(case: Case) -> Iterator[RuleVerdict]:
    for names, where, starts in (
        (_L2_ATOMICS, "L2's atomic units", ("ATOMG", "RED.", "REDG", "ATOM.")),
        (_SHARED_ATOMICS, "shared memory's atomic path", ("ATOMS",)),
    ):
        name = next((name for name in names if case.number(name) is not None), None)
        busy = case.number(name) if name is not None else None
        if name is None or busy is None or busy < ATOMICS.value:
            continue
        fraction = min(1.0, busy / 100)
        yield RuleVerdict(
            headline=f"Atomics: {where} are {format_percent(fraction)} busy",
            why="Atomic operations on one address run one after the other; the warps queue behind them.",
            advice=(
                "Reduce first and add once: within the warp (__reduce_add_sync, warp shuffles), then within the "
                "block in shared memory, then one atomic a block. Spread counters over several addresses "
                "(privatise)."
            ),
            confidence="measured",
            gain=max(fraction, case.latency_gain(case.stall(*MEMORY_STALLS))),
            evidence=case.metric(name, f"{where} busy", "%", ATOMICS.value),
            location=case.place_of_opcode(*starts),
        )


RULES = (
    Rule(
        "uncoalesced-global",
        "Global accesses are not coalesced",
        about="defect",
        looks_at="Sectors that global accesses move beyond what the same bytes would need if contiguous; where the "
        "report does not count them, used bytes per sector, sectors per request, or passes through L1 per request "
        "(basic set).",
        thresholds=(EXCESS, MANY_WAVEFRONTS),
        gain="The excess share of the sectors times the share of time that global memory can explain: its busiest "
        "unit, or the warps that wait for it.",
        silent="Under 1 % excess. With the basic set also where the block uses shared memory, because its conflicts "
        "look the same.",
        check=_uncoalesced,
        metrics=tuple(name.format(what) for name in (_PER_SECTOR, _SECTORS, _REQUESTS) for what in ("ld", "st")),
        place=AT_MEMORY,
    ),
    Rule(
        "shared-bank-conflict",
        "Shared-memory accesses conflict",
        about="defect",
        looks_at="Wavefronts of shared-memory accesses beyond the ideal number; where that was not collected, bank "
        "conflicts as the hardware counts them.",
        thresholds=(CONFLICTS,),
        gain="The share of conflict wavefronts times the share of time that shared memory can explain.",
        silent="Under 5 % of the wavefronts, or shared memory is not used.",
        check=_bank_conflicts,
        metrics=(_HARDWARE_WAVES, _HARDWARE_CONFLICTS),
        place=AT_SHARED,
    ),
    Rule(
        "local-memory-spill",
        "Registers spill, or local arrays live in memory",
        about="defect",
        looks_at="Local-memory sectors in L1 as a share of all load and store sectors; else instructions.",
        thresholds=(SPILL,),
        gain="The local share times the share of time that memory can explain.",
        silent="Under 1 %, or local accesses were not counted.",
        check=_spill,
        metrics=(*_LOCAL, *_GLOBAL),
        place=AT_MEMORY,
    ),
    Rule(
        "narrow-access",
        "Global accesses are narrow",
        about="defect",
        looks_at="Width of global loads and stores in the opcode histogram, and whether their queue or pipe is under "
        "pressure.",
        thresholds=(NARROW, NARROW_PRESSURE),
        gain="Share of narrow accesses × what 16-byte accesses would save of them × pressure on the load/store unit.",
        silent="The report has no opcode histogram, or most accesses are wide, or 4-byte accesses throttle nobody.",
        check=_narrow,
        metrics=(WARP_OPCODES,),
        place=AT_MEMORY,
    ),
    Rule(
        "atomic-contention",
        "Atomics contend",
        about="defect",
        looks_at="Busy fraction of L2's atomic units and of shared memory's atomic path.",
        thresholds=(ATOMICS,),
        gain="The busy fraction of the busiest atomic unit, or the warps' wait for memory, whichever is larger.",
        silent="Under 30 % busy, or not collected. Where a report has only the average over L2's slices, one hot "
        "address hides.",
        check=_atomics,
        metrics=(*_L2_ATOMICS, *_SHARED_ATOMICS),
        place=AT_MEMORY,
    ),
)
