"""Rules on what warps wait for: memory, arithmetic, barriers, instructions, constants, divergence."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.case import MEMORY_STALLS, Case
from gpuprof.diagnose.rule import AT_MEMORY, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.model.field_types import Confidence
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent

DOMINANT = percent("share of warp states", 30.0, "NVIDIA's stall rule names a reason from here on")
NOTABLE = percent("share of warp states", 20.0, "a cause with a direct remedy is worth telling before it dominates")
ALONE = percent("barrier with one block an SM", 5.0, "then nothing covers the wait: a smaller share is felt")
ISSUE = percent("issue slots used", 80.0, "stalls cost nothing while a scheduler issues nearly every cycle")
THREADS = Threshold(
    "active threads an instruction", 24.0, "thread", reason="three of four threads of a warp; NVIDIA's rule uses it"
)
LATENCY_BOUND = percent("busiest unit", 60.0, "NVIDIA's speed-of-light rule calls a kernel below it latency-bound")

_MEMORY_WORDS = {
    "long_scoreboard": "wait for data from global or local memory",
    "lg_throttle": "wait for room in the queue of global and local accesses",
    "tex_throttle": "wait for room in the texture queue",
    "drain": "have ended and wait for their stores",
}
_MEMORY_ADVICE = {
    "long_scoreboard": (
        "Put more loads in flight before the first use: unroll, load 16 bytes a thread, prefetch the next tile "
        "(cp.async, TMA; num_stages in Triton). Keep what is used again in shared memory or registers."
    ),
    "lg_throttle": (
        "Issue fewer and wider accesses (16 bytes a thread), keep values in registers, and mix arithmetic between them."
    ),
    "tex_throttle": "Issue fewer texture accesses, or read through plain global loads.",
    "drain": (
        "The kernel ends in a burst of stores. Store 16 bytes a thread, contiguous over the warp, and let a thread "
        "handle several elements so that stores overlap with other work."
    ),
}


def _memory_latency(case: Case) -> Iterator[RuleVerdict]:
    shares = {reason: case.stall(reason) for reason in MEMORY_STALLS}
    reason = max(shares, key=lambda name: shares[name])
    if not case.stalls or not case.issues_rarely or 100 * shares[reason] < DOMINANT.value:
        return
    share = sum(shares.values())
    full = 100 * (case.memory_utilisation or 0.0) >= LATENCY_BOUND.value
    yield RuleVerdict(
        headline=f"Memory latency: in {format_percent(shares[reason])} of their time warps {_MEMORY_WORDS[reason]}",
        why=(
            f"{_hits(case)}A memory unit is {format_percent(case.memory_utilisation or 0.0)} busy: bandwidth "
            "explains the wait."
            if full
            else f"{_hits(case)}Too few requests are in flight to cover the time that one takes."
        ),
        advice=_MEMORY_ADVICE[reason],
        confidence="inferred",
        gain=case.latency_gain(share),
        evidence=(
            *(item for name in MEMORY_STALLS if shares[name] >= 0.05 for item in case.stall_evidence(name)),
            *case.issue_evidence(),
            *case.metric("l1tex__t_sector_hit_rate.pct", "L1 hit rate", "%"),
            *case.metric("lts__t_sector_hit_rate.pct", "L2 hit rate", "%"),
            *case.busiest_evidence("busiest memory unit", None, "sm"),
        ),
        location=case.place_of_stall(reason),
        settled=full,
    )


def _hits(case: Case) -> str:
    """Say how far a load travels, from the hit rates."""
    rates = {moved.level: moved.hit_rate for moved in case.kernel.traffic if moved.hit_rate is not None}
    if not {"l1", "l2"} <= rates.keys():
        return ""
    l1, l2 = rates["l1"] or 0.0, rates["l2"] or 0.0
    return f"{format_percent(l1)} of the accesses hit L1, {format_percent(l2)} of the rest hit L2. "


def _wait_verdict(
    case: Case,
    reasons: tuple[str, ...],
    title: str,
    why: str,
    advice: str,
    threshold: Threshold,
    confidence: Confidence,
    *,
    settled: bool = False,
) -> Iterator[RuleVerdict]:
    """Say that warps wait for these reasons, if their share reaches the threshold while issue slots are idle."""
    share = case.stall(*reasons)
    if not case.stalls or not case.issues_rarely or 100 * share < threshold.value:
        return
    shown = (reason for reason in reasons if case.stall(reason) > 0)
    yield RuleVerdict(
        headline=f"{title}: {format_percent(share)} of warp time",
        why=why,
        advice=advice,
        confidence=confidence,
        gain=case.latency_gain(share),
        evidence=(
            *(item for reason in shown for item in case.stall_evidence(reason, threshold.value)),
            *case.issue_evidence(),
        ),
        location=case.place_of_stall(*reasons),
        settled=settled,
    )


def _dependency(case: Case) -> Iterator[RuleVerdict]:
    yield from _wait_verdict(
        case,
        ("wait",),
        "Fixed latency: warps wait for the distance to their next instruction",
        "After an instruction the compiler keeps a warp for a few cycles (its result is needed, or its pipe takes "
        "several), and too few other warps fill them.",
        "Give a thread independent work: several accumulators, an unrolled loop, two rows at once. Or run more warps.",
        DOMINANT,
        "inferred",
        settled=100 * (case.busiest or 0.0) >= LATENCY_BOUND.value,
    )


def _barrier(case: Case) -> Iterator[RuleVerdict]:
    block = case.kernel.block
    threads = block[0] * block[1] * block[2] if block is not None else None
    size = f" A block has {threads} threads, and all wait for the slowest." if threads is not None else ""
    reasons = ("barrier", "membar") if case.stall("membar") >= 0.05 else ("barrier",)
    alone = _one_block_fits(case)
    if alone:
        size += " Only one block fits an SM, so no other block runs meanwhile."
    yield from _wait_verdict(
        case,
        reasons,
        "Barriers: warps wait for the others of their block",
        f"The warps of a block do not reach the barrier together.{size}",
        (
            "Use smaller blocks so that other blocks run meanwhile, balance the work before __syncthreads, put "
            "loads before the barrier, double-buffer so that one barrier a step is enough, or synchronise only "
            "warps (__syncwarp)."
        ),
        ALONE if alone else NOTABLE,
        "measured",
    )


def _one_block_fits(case: Case) -> bool:
    """Tell whether an SM can hold no second block."""
    theoretical, block = case.kernel.occupancy.theoretical, case.kernel.block
    limits = case.recorded.hardware.arch.limits
    if theoretical is None or block is None or "warps_per_sm" not in limits:
        return False
    warps = -(-block[0] * block[1] * block[2] // 32)
    return warps > 0 and theoretical * limits["warps_per_sm"].value < 2 * warps


def _instruction_fetch(case: Case) -> Iterator[RuleVerdict]:
    yield from _wait_verdict(
        case,
        ("no_instruction", "branch_resolving"),
        "Instruction fetch: warps wait for their next instruction",
        "Long unrolled code or jumps miss the instruction cache, and a short kernel starts with it empty.",
        "Shrink the hot loop (less unrolling, no inlined slow paths such as divisions), and branch less often.",
        NOTABLE,
        "inferred",
    )


def _constant(case: Case) -> Iterator[RuleVerdict]:
    yield from _wait_verdict(
        case,
        ("imc_miss",),
        "Constants: warps wait for the immediate constant cache",
        "Kernel parameters and constants are read through a small cache that is empty at the start of each launch.",
        (
            "In a short kernel this is its start: fuse or batch launches. Else read fewer distinct constants, and "
            "index constant memory by the same value in all threads of a warp."
        ),
        NOTABLE,
        "inferred",
    )


_THREADS = (
    "smsp__thread_inst_executed_per_inst_executed.ratio",
    "derived__avg_thread_executed",
)
_UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"


def _divergence(case: Case) -> Iterator[RuleVerdict]:
    name = next((metric for metric in _THREADS if case.number(metric) is not None), None)
    threads = case.number(name) if name is not None else None
    if name is None or threads is None or not 0 < threads < THREADS.value:
        return
    memory = case.memory_utilisation or 0.0
    block = case.kernel.block
    size = block[0] * block[1] * block[2] if block is not None else 32
    by_block = size / -(-size // 32) if size > 0 else 32.0
    partial = by_block < THREADS.value and threads > by_block - 1.0
    yield RuleVerdict(
        headline=(
            f"Partly filled warps: blocks of {size} threads leave {by_block:.3g} of 32 threads a warp"
            if partial
            else f"Branch divergence: {threads:.3g} of 32 threads are active in an average instruction"
        ),
        why=(
            "A block takes whole warps; the threads that its last warp lacks do nothing."
            if partial
            else "Threads of a warp take different branches, so the warp runs all of them one after the other."
        ),
        advice=(
            "Choose a block size that is a multiple of 32."
            if partial
            else "Let whole warps decide alike: sort or bin the data by branch, move the condition to the block, or "
            "replace a short branch by a select. Choose a block size that is a multiple of 32."
        ),
        confidence="inferred",
        gain=min(1.0 - threads / 32, 1.0 - memory),
        evidence=(
            Evidence(name, threads, "thread", threshold=THREADS.value, meaning="active threads an instruction"),
            *case.metric(_UNIFORM, "uniform branches", "%"),
        ),
        location=case.place_of("smsp__branch_targets_threads_divergent"),
    )


_FULL_OF_WARPS = 0.9
_OTHER_REASONS = {
    "short_scoreboard": "wait for shared memory or special functions",
    "mio_throttle": "wait for room in the queue of shared memory and special functions",
    "dispatch_stall": "wait for the dispatcher",
    "sleeping": "sleep",
    "membar": "wait for a memory fence",
    "branch_resolving": "wait for a branch",
    "gmma": "wait for warp-group matrix operations",
    "misc": "wait for other reasons",
}


def _latency_bound(case: Case) -> Iterator[RuleVerdict]:
    """Nothing is busy. Name the main stall where there is one, else say what would tell it."""
    busiest = case.busiest
    if busiest is None or 100 * busiest >= LATENCY_BOUND.value:
        return
    reasons = {reason: case.stall(reason) for reason in _OTHER_REASONS}
    reason = max(reasons, key=lambda name: reasons[name])
    named = 100 * reasons[reason] >= DOMINANT.value and case.issues_rarely
    told = f": in {format_percent(reasons[reason])} of their time warps {_OTHER_REASONS[reason]}" if named else ""
    full = (case.kernel.occupancy.achieved or 0.0) >= _FULL_OF_WARPS
    warps = "all places for warps are taken" if full else "too few of them are there to hide it"
    unknown = (
        ""
        if case.stalls
        else " What they wait for was not collected: run ncu with --set full, or --section WarpStateStats."
    )
    yield RuleVerdict(
        headline=f"Latency-bound: no unit is more than {format_percent(busiest)} busy{told}",
        why=f"The warps wait more than they work, and {warps}.{unknown}",
        advice=(
            f"Put more independent work in flight: {'' if full else 'more warps (occupancy), '}more instructions a "
            "thread (unrolling, several accumulators), loads well before their use, fewer dependent steps."
        ),
        confidence="inferred",
        gain=case.headroom,
        evidence=(
            *case.busiest_evidence("busiest unit", LATENCY_BOUND.value),
            *(case.stall_evidence(reason) if named else ()),
            *case.issue_evidence(),
        ),
        location=case.place_of_stall(reason) if named else None,
    )


_STALL_GAIN = "The share of the warps' time, but no more than the idle issue slots and until the busiest unit is full."
_STALL_SILENT = "80 % of the issue slots are used, or the share is smaller, or warp states were not collected."

RULES = (
    Rule(
        "memory-latency",
        "Warps wait for global memory",
        about="symptom",
        looks_at="Stall reasons long scoreboard, LG throttle, texture throttle and drain; hit rates of L1 and L2 as "
        "context. Where a memory unit is 60 % busy or more it is told as a fact (`info`): bandwidth explains the wait "
        "then.",
        thresholds=(DOMINANT, ISSUE, LATENCY_BOUND),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_memory_latency,
        place=AT_MEMORY,
    ),
    Rule(
        "dependency-latency",
        "Warps wait for their own last result",
        about="symptom",
        looks_at="Stall reason wait: the fixed latency of arithmetic.",
        thresholds=(DOMINANT, ISSUE),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_dependency,
        place=TreePlace(("wait",), "issue"),
    ),
    Rule(
        "barrier-wait",
        "Warps wait at barriers",
        about="defect",
        looks_at="Stall reason barrier, and membar (fences) where it is 5 % or more; whether an SM can hold a second "
        "block.",
        thresholds=(NOTABLE, ALONE, ISSUE),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_barrier,
        place=TreePlace(("barrier",), "issue"),
    ),
    Rule(
        "instruction-fetch",
        "Warps wait for instructions",
        about="symptom",
        looks_at="Stall reasons no instruction and branch resolving.",
        thresholds=(NOTABLE, ISSUE),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_instruction_fetch,
        place=TreePlace(("no_instruction",), "issue"),
    ),
    Rule(
        "constant-miss",
        "Warps wait for constants",
        about="symptom",
        looks_at="Stall reason IMC miss (immediate constant cache; up to compute capability 9.0).",
        thresholds=(NOTABLE, ISSUE),
        gain=_STALL_GAIN,
        silent=_STALL_SILENT,
        check=_constant,
        place=TreePlace(("imc_miss",), "issue"),
    ),
    Rule(
        "branch-divergence",
        "Threads of a warp take different branches",
        about="defect",
        looks_at="Active threads per executed warp instruction.",
        thresholds=(THREADS,),
        gain="The idle share of threads, but no more than what the busiest memory unit leaves.",
        silent="24 threads or more are active on average, or it was not collected.",
        check=_divergence,
        metrics=(_THREADS[0], _UNIFORM),
        place=TreePlace(("branch_resolving",), "issue"),
    ),
    Rule(
        "latency-bound",
        "Nothing is busy",
        about="symptom",
        looks_at="Speed of light of all units; the main stall reason where it belongs to no other rule.",
        thresholds=(LATENCY_BOUND,),
        gain="1 − the busiest unit's fraction.",
        silent="A unit is 60 % busy or more, or another finding of this kernel can gain a tenth or more of its time.",
        check=_latency_bound,
        place=TreePlace((), "issue"),
    ),
)
