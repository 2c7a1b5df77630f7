"""Rules on what warps wait for: memory, arithmetic, barriers, instructions, constants, divergence."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from gpuprof.diagnose.blocks import (
    MORE_WORK_A_BLOCK,
    OCCUPANCY_GAP,
    SHORT_BLOCK,
    has_few_warps,
    is_between_blocks,
)
from gpuprof.diagnose.case import SHARED_STALLS, Case
from gpuprof.diagnose.dram_latency import SLOWER_THAN_LOADS
from gpuprof.diagnose.far_memory import far_memory
from gpuprof.diagnose.needs import ISSUE as ISSUE_SLOTS
from gpuprof.diagnose.needs import LAUNCH, SM, Saving
from gpuprof.diagnose.rule import AT_MEMORY, Cause, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.diagnose.traffic import copies_ahead, late_share, memory_busy
from gpuprof.model.field_types import Confidence
from gpuprof.model.session import Evidence
from gpuprof.model.stalls import stall_name
from gpuprof.units import format_percent

DOMINANT = percent("share of warp states", 30.0, "NVIDIA's stall rule names a reason from here on")
NOTABLE = percent("share of warp states", 20.0, "a cause with a direct remedy is worth telling before it dominates")
ALONE = percent("Stall Barrier with one block per SM", 5.0, "nothing covers the wait then: a smaller share matters")
ISSUE = percent("issue slots used", 80.0, "stalls cost nothing while a scheduler issues nearly every cycle")
LATENCY_BOUND = percent("busiest unit", 60.0, "NVIDIA's speed-of-light rule calls a kernel below it latency-bound")
MANY_WAVES = Threshold("waves", 8.0, "wave", reason="warps are not missing then, neither at first nor in the last wave")
START_UP = Threshold(
    "stall time of a warp in the first wave",
    3e-6,
    "s",
    reason="instruction and constant caches are empty at each launch: first misses took 0.8 to 2.4 µs in recorded "
    "reports of kernels of 3 to 14 µs",
)

_MEMORY_WORDS = {
    "long_scoreboard": "global or local memory",
    "lg_throttle": "load/store queue full",
    "tex_throttle": "texture queue full",
    "drain": "stores pending at exit",
}
_MEMORY_ACTION = {
    "long_scoreboard": "Issue more independent loads before their first use",
    "lg_throttle": "Issue fewer and wider global accesses",
    "tex_throttle": "Issue fewer texture accesses",
    "drain": "Spread the stores over the kernel: several elements per thread",
}
_MEMORY_ADVICE = {
    "long_scoreboard": (
        "Put more loads in flight before the first use: unroll, load 16 bytes per thread, prefetch the next tile "
        "({ahead}). Keep reused data in shared memory or registers."
    ),
    "lg_throttle": (
        "Issue fewer and wider accesses (16 bytes per thread), keep values in registers, and mix arithmetic between "
        "them."
    ),
    "tex_throttle": "Issue fewer texture accesses, or use plain global loads.",
    "drain": (
        "The kernel ends in a burst of stores. Store 16 bytes per thread, contiguous over the warp, and let a thread "
        "handle several elements so that stores overlap with other work."
    ),
}


def _memory_latency(case: Case) -> Iterator[RuleVerdict]:
    if not case.stalls or not case.issues_rarely:
        return
    shares = {reason: case.stall(reason) for reason in case.memory_stalls}
    reason = max(shares, key=lambda name: shares[name])
    if 100 * shares[reason] < DOMINANT.value:
        return
    busy = max((need for need in (case.memory_utilisation, case.l1_busy) if need is not None), default=None)
    full = busy is not None and 100 * busy >= LATENCY_BOUND.value
    if not full and memory_busy(case) is None:
        busy = None  # the level that was not collected can be the busy one
    title = "Memory latency or bandwidth" if busy is None else "Memory latency"
    yield RuleVerdict(
        headline=f"{title}: {_of_warp_time(shares[reason], reason)} ({_MEMORY_WORDS[reason]})",
        why=f"{_hits(case)}{_why_waiting(busy)}",
        action=_MEMORY_ACTION[reason],
        advice=_MEMORY_ADVICE[reason].format(ahead=copies_ahead(case)),
        confidence="inferred",
        saving=case.saving_of_wait(sum(shares.values())),
        evidence=(
            *(item for name in case.memory_stalls if shares[name] >= 0.05 for item in case.stall_evidence(name)),
            *case.issue_evidence(),
            *case.metric("l1tex__t_sector_hit_rate.pct", "L1 hit rate", "%"),
            *case.metric("lts__t_sector_hit_rate.pct", "L2 hit rate", "%"),
            *case.busiest_evidence("busiest memory unit", None, "sm"),
        ),
        location=case.place_of_stall(reason),
        settled=full,
    )


def _of_warp_time(share: float, *reasons: str) -> str:
    """Write how much of the warps' time goes to stall reasons: "32 % of warp time in Long Scoreboard"."""
    names = [name if " " in name else f"Stall {name}" for name in map(stall_name, reasons)]
    return f"{format_percent(share)} of warp time in {' and '.join(names)}"


def _why_waiting(busy: float | None) -> str:
    if busy is None:
        return "Too few requests are in flight, or memory is full; how busy all of it is was not collected."
    if 100 * busy >= LATENCY_BOUND.value:
        return f"A memory unit is {format_percent(busy)} busy: bandwidth explains the stalls."
    return "Too few requests are in flight to hide the latency of one."


def _hits(case: Case) -> str:
    """Write the hit rates of the caches, in which stores count, too: these go on to L2 whether they hit or not."""
    rates = {moved.level: moved.hit_rate for moved in case.kernel.traffic if moved.hit_rate is not None}
    if not {"l1", "l2"} <= rates.keys():
        return ""
    l1, l2 = rates["l1"] or 0.0, rates["l2"] or 0.0
    return f"Of accesses to L1 {format_percent(l1)} hit, of those to L2 {format_percent(l2)}. "


class _Wait(Struct, frozen=True):
    """What a rule says of some stall reasons from a share of the warps' time on."""

    reasons: tuple[str, ...]
    title: str
    why: str
    action: str
    advice: str
    threshold: Threshold
    confidence: Confidence


def _wait_verdict(case: Case, wait: _Wait, *, settled: bool = False) -> Iterator[RuleVerdict]:
    """Say that warps wait for these reasons, if their share reaches the threshold while issue slots are idle."""
    share = case.stall(*wait.reasons)
    if not case.stalls or not case.issues_rarely or 100 * share < wait.threshold.value:
        return
    shown = [reason for reason in wait.reasons if case.stall(reason) > 0]
    yield RuleVerdict(
        headline=f"{wait.title}: {_of_warp_time(share, *shown)}",
        why=wait.why,
        action=wait.action,
        advice=wait.advice,
        confidence=wait.confidence,
        saving=case.saving_of_wait(share),
        evidence=(
            *(item for reason in shown for item in case.stall_evidence(reason, wait.threshold.value)),
            *case.issue_evidence(),
        ),
        location=case.place_of_stall(*wait.reasons),
        settled=settled,
    )


def _dependency(case: Case) -> Iterator[RuleVerdict]:
    if not case.stalls:
        return
    wait = _Wait(
        reasons=("wait",),
        title="Fixed-latency dependency",
        why="An instruction waits a fixed number of cycles for the one before (for its result, or for its pipe), and "
        "too few other warps fill them.",
        action="Give each thread independent work, such as several accumulators",
        advice="Give each thread independent work: several accumulators, an unrolled loop, two rows at once. Or run "
        "more warps.",
        threshold=DOMINANT,
        confidence="inferred",
    )
    need = case.busiest_need
    yield from _wait_verdict(case, wait, settled=need is not None and 100 * need >= LATENCY_BOUND.value)


def _barrier(case: Case) -> Iterator[RuleVerdict]:
    if not case.stalls:
        return
    block = case.kernel.block
    size = f" A block has {math.prod(block)} threads, and all wait for the slowest." if block is not None else ""
    alone = _one_block_fits(case)
    if alone:
        size += " Only one block fits on an SM, so no other block runs meanwhile."
    wait = _Wait(
        reasons=("barrier", "membar") if case.stall("membar") >= 0.05 else ("barrier",),
        title="Barriers",
        why=f"The warps of a block do not reach the barrier together.{size}",
        action="Balance the work before barriers, and use fewer barriers or smaller blocks",
        advice="Use smaller blocks so that other blocks run meanwhile, balance the work before __syncthreads, put "
        "loads before the barrier, double-buffer so that one barrier per step is enough, or synchronise only warps "
        "(__syncwarp).",
        threshold=ALONE if alone else NOTABLE,
        confidence="measured",
    )
    yield from _wait_verdict(case, wait)


def _one_block_fits(case: Case) -> bool:
    """Tell whether an SM can hold no second block."""
    theoretical, warps = case.kernel.occupancy.theoretical, case.warps_per_block
    limits = case.recorded.hardware.arch.limits
    if theoretical is None or not warps or "warps_per_sm" not in limits:
        return False
    return theoretical * limits["warps_per_sm"].value < 2 * warps


_FIRST_MISSES = "Run fewer and longer kernels: fuse or batch launches"
_LOADED_ANEW = " The kernel is so short that the first misses of its warps explain the stalls, at each launch."


def _instruction_fetch(case: Case) -> Iterator[RuleVerdict]:
    if not case.stalls:
        return
    reasons = ("no_instruction", "branch_resolving")
    first = _is_start_up(case, case.stall("no_instruction")) and 100 * case.stall("branch_resolving") < NOTABLE.value
    wait = _Wait(
        reasons=reasons,
        title="Instruction fetch",
        why="Long unrolled code or jumps miss the instruction cache, and a short kernel starts with it "
        f"empty.{_LOADED_ANEW if first else ''}",
        action=_FIRST_MISSES if first else "Shrink the hot loop and branch less often",
        advice="Fuse this kernel with its neighbours, or give each launch more to do."
        if first
        else "Shrink the hot loop (less unrolling, no inlined slow paths such as divisions), and branch less often.",
        threshold=NOTABLE,
        confidence="inferred",
    )
    yield from _wait_verdict(case, wait, settled=first)


def _constant(case: Case) -> Iterator[RuleVerdict]:
    if not case.stalls:
        return
    first = _is_start_up(case, case.stall("imc_miss"))
    wait = _Wait(
        reasons=("imc_miss",),
        title="Constant cache misses",
        why="Kernel parameters and constants are read through a small cache that is empty at the start of each "
        f"launch.{_LOADED_ANEW if first else ''}",
        action=_FIRST_MISSES if first else "Read fewer distinct constants, the same in all threads of a warp",
        advice="Fuse this kernel with its neighbours, or give each launch more to do."
        if first
        else "Read fewer distinct constants, and index constant memory with the same value in all threads of a warp; "
        "values that differ belong in global or shared memory.",
        threshold=NOTABLE,
        confidence="inferred",
    )
    yield from _wait_verdict(case, wait, settled=first)


def _is_start_up(case: Case, share: float) -> bool:
    """Tell whether the first misses of a launch can be all of a wait: those of the warps that start with empty caches.

    The first wave of warps waits for `share` of the time of all warps: so long for each that it is a few misses.
    """
    duration = case.kernel.duration_s
    if duration is None:
        return False
    occupancy, waves = case.kernel.occupancy, case.kernel.waves
    each = 1.0
    if occupancy.achieved is not None and occupancy.theoretical and waves:
        each = min(1.0, occupancy.achieved / (occupancy.theoretical * min(1.0, waves)))
    return share * duration * each <= START_UP.value


_FULL_OF_WARPS = 0.9
_OTHER_REASONS = {
    "short_scoreboard": "shared memory or special functions",
    "mio_throttle": "queue of shared memory and special functions full",
    "dispatch_stall": "held back by the dispatcher",
    "sleeping": "sleeping or yielded",
    "membar": "memory fence",
    "branch_resolving": "branch target",
    "gmma": "warp-group matrix instructions",
    "misc": "other reasons",
}


_MORE_AT_ONCE = (
    "Put more independent work in flight per thread",
    "Put more independent work in flight: more instructions per thread (unrolling, several accumulators), loads well "
    "before their use, fewer dependent steps.",
)
_LONGER_BLOCKS = (
    MORE_WORK_A_BLOCK,
    "Give each block more work, so that fewer are started: several elements per thread, or a grid-stride loop.",
)
_FEWER_INSTRUCTIONS = (
    "Execute fewer instructions: uniform branches, work moved out of loops; or more independent work per thread",
    "All warp slots are taken and the issue slots are the busiest unit: execute fewer instructions (let whole warps "
    "skip what they do not need, move work out of loops, cheaper indices), or put more independent work in flight "
    "per thread (unrolling, several accumulators).",
)


def _latency_bound(case: Case) -> Iterator[RuleVerdict]:
    """Nothing is busy. Name the main stall or short blocks where they are seen, else say what would tell.

    A unit that was not collected may be busy, unless a roofline has the work and the bytes.
    """
    is_known = bool({SM, ISSUE_SLOTS} & case.needs.keys()) and memory_busy(case) is not None
    if case.busiest is None or not (is_known or case.kernel.roofline):
        return
    busiest = max(case.busiest, case.busiest_need or 0.0)
    if 100 * busiest >= LATENCY_BOUND.value or far_memory(case) is not None:
        # `host-memory-traffic` says what warps wait for.
        return
    reasons = {reason: case.stall(reason) for reason in _OTHER_REASONS}
    reason = max(reasons, key=lambda name: reasons[name])
    named = 100 * reasons[reason] >= DOMINANT.value and case.issues_rarely
    told = f"; {_of_warp_time(reasons[reason], reason)} ({_OTHER_REASONS[reason]})" if named else ""
    short = is_between_blocks(case)
    if not short and not named and _waits_in_line(case, busiest):
        yield _in_line(case, busiest, is_known=is_known)
        return
    action, advice = _MORE_AT_ONCE
    if short:
        action, advice = _LONGER_BLOCKS
    elif not named and _is_full_and_issues(case):
        action, advice = _FEWER_INSTRUCTIONS
    yield RuleVerdict(
        headline=_nothing_busy(busiest, is_known=is_known) + told,
        why=f"Warps wait more than they issue{_how_many(case)}.{_what_is_unknown(case)}",
        action=action,
        advice=advice,
        confidence="inferred" if case.stalls else "guess",
        saving=case.saving_of_wait(reasons[reason]) if named else _same_work(case),
        evidence=(
            *case.busiest_evidence("busiest unit", LATENCY_BOUND.value),
            *(case.stall_evidence(reason) if named else ()),
            *case.issue_evidence(),
        ),
        location=case.place_of_stall(reason) if named else None,
        settled=short,
    )


def _nothing_busy(busiest: float, *, is_known: bool) -> str:
    collected = "" if is_known else "that was collected "
    return f"Latency-bound: no unit {collected}is more than {format_percent(busiest)} busy"


def issues_most(case: Case) -> bool:
    """Tell whether no other unit is as busy as the issue slots, which are a part of the SM's speed of light."""
    issued = case.needs.get(ISSUE_SLOTS)
    others = (need for unit, need in case.needs.items() if unit not in (ISSUE_SLOTS, SM, LAUNCH))
    return issued is not None and issued > max(others, default=0.0)


def _is_full_and_issues(case: Case) -> bool:
    """Tell whether instructions are what takes most, and no more warps can hide what they wait for."""
    return issues_most(case) and (case.kernel.occupancy.achieved or 0.0) >= _FULL_OF_WARPS


def _waits_in_line(case: Case, busiest: float) -> bool:
    """Tell whether the grid fills the GPU many times, and still nothing works: more in flight is not what lacks."""
    waves = _least_waves(case)
    return 100 * busiest < SLOWER_THAN_LOADS.value and waves is not None and waves >= MANY_WAVES.value


def _least_waves(case: Case) -> float | None:
    """Return how often the grid fills the GPU, at least: with as many SMs as any GPU of its architecture has."""
    if case.kernel.waves is not None:
        return case.kernel.waves
    most, slots = case.most_sms, case.recorded.hardware.arch.limits.get("warps_per_sm")
    if most is None or slots is None or not case.blocks or not case.warps_per_block:
        return None
    return case.blocks * case.warps_per_block / (most * slots.value)


def _in_line(case: Case, busiest: float, *, is_known: bool) -> RuleVerdict:
    """Guess that warps wait for each other, which more of them or more work of each makes worse."""
    return RuleVerdict(
        headline=f"{_nothing_busy(busiest, is_known=is_known)} although the grid fills the GPU many times",
        why="Warps wait longer than memory takes: in line for the same few addresses (atomics), for a lock, for a flag "
        f"that they poll, or for a few warps that run very long.{_what_is_unknown(case)}",
        action="Look for what warps wait in line for: atomics on few addresses, locks, polling, very long warps",
        advice="Sum in the warp and the block first, so that one atomic per block is left, or spread it over several "
        "addresses; replace locks and polling by atomics or a second kernel; divide the work of very long warps. To "
        "see which of them it is, collect stall reasons and atomics: ncu --set full, or the metrics "
        "lts__t_sectors_op_atom.sum, lts__t_sectors_op_red.sum and lts__d_atomic_input_cycles_active.avg."
        "pct_of_peak_sustained_elapsed, and sm__warps_active.avg.pct_of_peak_sustained_active for few long warps.",
        confidence="guess",
        saving=_same_work(case),
        evidence=(
            *case.busiest_evidence("busiest unit", SLOWER_THAN_LOADS.value),
            Evidence("", _least_waves(case) or 0.0, "wave", threshold=MANY_WAVES.value, meaning="waves, at least"),
            *case.issue_evidence(),
        ),
    )


def _how_many(case: Case) -> str:
    """Say whether warps are missing, as far as it is known."""
    cycles = case.block_cycles
    if cycles is not None and is_between_blocks(case):
        return f": a block lives for {cycles:.0f} cycles, and its slots stay empty until the next one starts"
    achieved, theoretical = case.kernel.occupancy.achieved, case.kernel.occupancy.theoretical
    if achieved is None:
        return ""
    if achieved >= _FULL_OF_WARPS:
        return ", although all warp slots are taken"
    if theoretical is not None and achieved >= _FULL_OF_WARPS * theoretical:
        return f", and the launch allows no more than {format_percent(theoretical)} of the warp slots"
    return f", and only {format_percent(achieved)} of the warp slots are taken"


def _what_is_unknown(case: Case) -> str:
    if case.stalls:
        return ""
    return " Stall reasons were not collected: run ncu with --set full, or --section WarpStateStats."


def _same_work(case: Case) -> Saving:
    """Return what is left until the busiest unit is full, which a repair that takes work away can exceed.

    While SMs have no work no unit can be full, and more in flight does not change that: as long as they work, the unit
    is busier than over all of the time.
    """
    bound, late = case.saving({}), late_share(case)
    most = case.working_share - late
    left = case.working_share * (1.0 - (case.busiest_need or 0.0) / most) if late and most > 0 else 1.0
    saving = Saving(bound.fraction, "fixed-work", bound.remains, held="the same instructions and bytes")
    return saving.no_more_than(left)


def _behind_loads(case: Case) -> bool:
    """Tell whether warps wait for memory at least as much as at barriers: the slowest is then behind a load."""
    return case.stall(*case.memory_stalls) >= case.stall("barrier")


def _drains(case: Case) -> bool:
    """Tell whether ended warps that wait for their stores are most of what waits for memory."""
    return 2 * case.stall("drain") >= case.stall(*case.memory_stalls)


def _behind_shared(case: Case) -> bool:
    return case.stall(*SHARED_STALLS) >= case.stall("barrier")


def _waits_for_shared(case: Case) -> bool:
    """Tell whether the queue of shared memory and special functions is what most warps of `latency-bound` wait for."""
    share = {reason: case.stall(reason) for reason in _OTHER_REASONS}
    return max(share, key=lambda name: share[name]) in SHARED_STALLS


def _branches(case: Case) -> bool:
    return case.stall("branch_resolving") >= case.stall("no_instruction")


_OF_MEMORY = (
    "uncoalesced-global", "local-memory-spill", "host-memory-traffic", "narrow-access", "atomic-contention",
    "dram-bandwidth", "l2-bandwidth", "l1-bandwidth",
)  # fmt: skip
_OF_SHARED = ("shared-bank-conflict", "shared-bandwidth", "special-function-bound", "atomic-contention")
_FEW_WARPS = (
    Cause("low-occupancy"), Cause("small-grid"), Cause("short-kernel"), Cause("block-size", has_few_warps),
)  # fmt: skip
_NEW_BLOCKS = (Cause("short-blocks"),)
"""Each block starts and ends anew: it reads its parameters, fetches its code, and drains its stores."""

_STALL_GAIN = (
    "min(share × working time, (1 − issue slots used) × working time, 1 − largest need of a unit), with the same "
    "instructions and other stalls: the share of the warps' time that goes, no more than idle issue slots can take up "
    "and until a unit is full. Issue slots that were not collected bound nothing."
)
_STALL_SILENT = "80 % of the issue slots are used, or the share is smaller, or warp states were not collected."
_START_UP_TEXT = (
    " It is reported as a fact (`info`) where the first misses of a launch can be all of it: share × duration × "
    "achieved ÷ (theoretical occupancy × min(1, waves)), the stall time of each warp in the first wave, is 3 µs or "
    "less."
)

RULES = (
    Rule(
        "memory-latency",
        "Warps wait for global memory",
        about="symptom",
        looks_at="Stalls Long Scoreboard, LG Throttle, Tex Throttle and Drain; hit rates of L1 and L2 as context. Tex "
        "Throttle counts only where texture instructions can be its cause: FP64 instructions of chips with few FP64 "
        "units wait there, too. Where a memory unit is 60 % busy or more it is reported as a fact (`info`): bandwidth "
        "then explains the stalls.",
        thresholds=(DOMINANT, ISSUE, LATENCY_BOUND),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_memory_latency,
        causes=(*map(Cause, _OF_MEMORY), *_FEW_WARPS, Cause("short-blocks", _drains)),
        place=AT_MEMORY,
    ),
    Rule(
        "dependency-latency",
        "Warps wait for fixed-latency dependencies",
        about="symptom",
        looks_at="Stall Wait: the fixed latency of arithmetic. Where a unit is 60 % busy or more it is reported as a "
        "fact (`info`).",
        thresholds=(DOMINANT, ISSUE, LATENCY_BOUND),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_dependency,
        causes=_FEW_WARPS,
        place=TreePlace(("wait",), "issue"),
    ),
    Rule(
        "barrier-wait",
        "Warps wait at barriers",
        about="symptom",
        looks_at="Stall Barrier, and Membar (fences) where it is 5 % or more; whether an SM can hold a second block.",
        thresholds=(NOTABLE, ALONE, ISSUE),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_barrier,
        causes=(
            *(Cause(rule, _behind_loads) for rule in ("memory-latency", *_OF_MEMORY)),
            *(Cause(rule, _behind_shared) for rule in _OF_SHARED),
            Cause("reduction-tree"),
            Cause("branch-divergence"),
            Cause("load-imbalance"),
            *_FEW_WARPS,
        ),
        place=TreePlace(("barrier",), "issue"),
    ),
    Rule(
        "instruction-fetch",
        "Warps wait for instructions",
        about="symptom",
        looks_at=f"Stalls No Instruction and Branch Resolving.{_START_UP_TEXT}",
        thresholds=(NOTABLE, ISSUE, START_UP),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_instruction_fetch,
        causes=(Cause("branch-divergence", _branches), *_FEW_WARPS, *_NEW_BLOCKS),
        place=TreePlace(("no_instruction",), "issue"),
    ),
    Rule(
        "constant-miss",
        "Warps wait for constants",
        about="symptom",
        looks_at=f"Stall IMC Miss (immediate constant cache; up to compute capability 9.0).{_START_UP_TEXT}",
        thresholds=(NOTABLE, ISSUE, START_UP),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_constant,
        causes=(*_FEW_WARPS, *_NEW_BLOCKS),
        place=TreePlace(("imc_miss",), "issue"),
    ),
    Rule(
        "latency-bound",
        "No unit is busy",
        about="symptom",
        looks_at="What all units need of the time; the main stall reason where it belongs to no other rule; the block "
        "lifetime. Without warp states it is a guess: that no unit is busy is sure, but not why. Where slots are "
        "empty between blocks that live for under 2 000 cycles it is a fact (`info`): what they cost is not counted. "
        "Where units are hardly busy although the grid fills the GPU many times, it guesses that warps wait in line.",
        thresholds=(LATENCY_BOUND, DOMINANT, SHORT_BLOCK, OCCUPANCY_GAP, SLOWER_THAN_LOADS, MANY_WAVES),
        gain="1 − largest need of a unit, with the same instructions and bytes: a fix that takes work away can gain "
        "more. Where an average SM is idle beyond its launch, the need is of the time in which it works, and the gain "
        "working time × (1 − that). Where a stall reason is named: min(share × working time, (1 − issue slots used) × "
        "working time, 1 − largest need), with the same instructions and other stalls.",
        silent="A unit is 60 % busy or more, or how busy the SM or a memory level is was not collected and no "
        "roofline tells it, or another finding of this kernel can gain a tenth or more of its time.",
        check=_latency_bound,
        causes=(
            *_FEW_WARPS,
            Cause("tail-effect"),
            Cause("load-imbalance"),
            *_NEW_BLOCKS,
            Cause("reduction-tree"),
            *(Cause(rule, _waits_for_shared) for rule in _OF_SHARED),
        ),
        place=TreePlace((), "issue"),
    ),
)
