"""The rule that compares a kernel's launches: one configuration does the same work faster."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.case import Case, Faster
from gpuprof.diagnose.clocks import CLOCKS, clocks_differ, difference
from gpuprof.diagnose.needs import Saving, saving
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, cases_of, context, finding, labels_of, percent
from gpuprof.hardware.specs import THREAD_OPCODES
from gpuprof.model.analyse import Analysis
from gpuprof.model.field_types import CONFIDENCES, Confidence
from gpuprof.model.findings import Amount, Label
from gpuprof.model.groups import middle
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Evidence, KernelProfile
from gpuprof.model.timed import GRAPH_REPLAY

FASTER = percent("faster", 10.0)
SAME_WORK = percent("same-work", 1.0)
SAME_THREADS = percent("same-threads", 10.0)
OTHER_LOOPS = percent("other-loops", 25.0)

_LAUNCH_INSTRUCTIONS = ("smsp__thread_inst_executed.sum", "smsp__thread_inst_executed_pred_on.sum")
_EXECUTED = "smsp__inst_executed.sum"
_THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
_STORED = ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "lts__t_sectors_srcunit_tex_op_write.sum")
_LOADS, _STORES = ("LD", "LDG", "LDGSTS"), ("ST", "STG", "RED", "REDG", "ATOM", "ATOMG")
_LOAD, _STORE = (f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{what}.ratio" for what in ("ld", "st"))
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_INDEX_ARITHMETIC = "int32"
"""Integer work is mostly that of addresses and loops, which depends on the configuration."""
_MOST_CONFIGURATIONS = 16
"""The most configurations of one kernel to compare for one amount of work, fastest first."""
_LEAST_DIFFERENCE = 0.1
"""A counter that differs by less does not explain why the times differ by a tenth or more."""
_MOST_COUNTERS = 3


def faster_launches(analysis: Analysis) -> dict[int, Faster]:
    """Return the configuration, if any, in which each kernel did the same work faster, by id.

    Each launch is compared with the launch of median duration in every other configuration.
    """
    if analysis.session.only_times:
        return {}
    kernels: dict[Hashable, list[Case]] = {}
    for kernel, recorded in zip(analysis.session.kernels, analysis.recorded, strict=True):
        # All graph replays have the same name, whatever they do.
        is_replay = kernel.duration_source == GRAPH_REPLAY
        # If a kernel does not have the median time of its launches, they differ.
        spread = kernel.duration_percentiles_s
        is_median = spread is None or kernel.duration_s == spread.p50
        if is_median and not is_replay and kernel.duration_s and kernel.grid and kernel.block:
            key = (kernel.demangled, kernel.device, kernel.rank, kernel.duration_source)
            kernels.setdefault(key, []).append(Case(kernel, recorded))
    faster: dict[int, Faster] = {}
    for cases in kernels.values():
        if len({_configuration(case) for case in cases}) > 1:
            faster.update(_faster_of_kernel(cases))
    return faster


def _faster_of_kernel(cases: Iterable[Case]) -> Iterator[tuple[int, Faster]]:
    launches: dict[tuple[_Amount, Hashable], list[Case]] = {}
    for case in cases:
        launches.setdefault((_amount(case), _configuration(case)), []).append(case)
    groups = []
    for (amount, _), alike in launches.items():
        median = alike[middle([case.kernel.duration_s for case in alike])]
        groups.append((amount, median, alike))
    by_amount: dict[_Amount, list[Case]] = {}
    for amount, median, _ in sorted(groups, key=lambda group: _duration_s(group[1])):
        by_amount.setdefault(amount, []).append(median)
    for (of, step), median, alike in groups:
        best = None
        for near in (step - 1, step, step + 1):
            for other in by_amount.get((of, near), ())[:_MOST_CONFIGURATIONS]:
                is_best = best is None or _duration_s(other) < _duration_s(best)
                if is_best and _against(median, other) is not None:
                    best = other
        if best is None:
            continue
        for case in alike:
            faster = _against(case, best)
            if faster is not None:
                yield case.kernel.id, faster


def _duration_s(case: Case) -> float:
    return case.kernel.duration_s or 0.0


def _against(case: Case, other: Case) -> Faster | None:
    """Compare a launch with another of its kernel; None if that is not surely faster.

    At the clocks of the case the other launch would take longer by at most the ratio of the clock
    that differs most.
    """
    kernel = case.kernel
    faster = other.kernel
    slowdown = 1.0
    if kernel.sm_clock_hz and faster.sm_clock_hz:
        slowdown = max(slowdown, faster.sm_clock_hz / kernel.sm_clock_hz)
    if kernel.dram_clock_hz and faster.dram_clock_hz:
        slowdown = max(slowdown, faster.dram_clock_hz / kernel.dram_clock_hz)
    duration_s = _duration_s(other) * slowdown
    if duration_s <= 0 or not FASTER.is_reached(1.0 - duration_s / _duration_s(case)):
        return None
    certainty = _same_work(case, other)
    if certainty is None:
        return None
    drift = clocks_differ(kernel, faster)
    if drift is not False or kernel.source != faster.source:
        certainty = _less_sure(certainty, "inferred")
    return Faster(case=other, duration_s=duration_s, certainty=certainty, clocks_differ=drift)


# Whether two launches did the same work.


_Amount = tuple[str, int]
"""A measure of a launch's work, and its amount in steps: equal work is at most one step apart."""


def _amount(case: Case) -> _Amount:
    """Return the work by arithmetic if it was counted, else by stores, else by threads."""
    amounts = (
        ("flop", sum(_flop(case).values()), SAME_WORK),
        ("stores", _accesses(case, _STORES) or 0.0, SAME_WORK),
        ("threads", float(_threads(case.kernel)), SAME_THREADS),
    )
    of, amount, step = next((item for item in amounts if 0 < item[1] < math.inf), amounts[-1])
    return of, round(math.log(max(1.0, amount)) / math.log1p(step.value / 100))


def _flop(case: Case) -> Mapping[str, float]:
    """Return the counted FLOP of each path without index arithmetic."""
    known = (work for work in case.kernel.work if work.path != _INDEX_ARITHMETIC)
    return {work.path: work.flop for work in known if work.flop is not None}


def _accesses(case: Case, opcodes: Iterable[str]) -> float | None:
    """Return how often threads executed these instructions; None if that was not collected."""
    executed = case.metrics.instances(THREAD_OPCODES)
    return sum(executed.get(opcode, 0.0) for opcode in opcodes) if executed else None


def _threads(kernel: KernelProfile) -> int:
    return math.prod(kernel.grid or ()) * math.prod(kernel.block or ())


def _configuration(case: Case) -> tuple[Dim3 | None, Dim3 | None, int | None, float | None]:
    kernel = case.kernel
    return kernel.grid, kernel.block, kernel.registers_per_thread, kernel.shared_memory_per_block


def _same_work(case: Case, other: Case) -> Confidence | None:
    """Return the confidence that two launches did the same work; None if nothing shows it.

    If as many threads cover the same extent, equal arithmetic or equal numbers of instructions
    prove it. If a thread does more in one launch than in the other, both arithmetic (if any) and
    stores must be equal, since products of other shapes can have the same arithmetic. A kernel of
    another build or another report can have changed.
    """
    flop = _flop(case)
    other_flop = _flop(other)
    if flop.keys() != other_flop.keys() or any(_differs(flop[path], other_flop[path]) for path in flop):
        return None
    rebuilt = _rebuilt(case, other)
    counted = any(flop.values())
    if case.kernel.source != other.kernel.source and (rebuilt or case.kernel.registers_per_thread is None):
        return None
    if _covers_the_same(case.kernel, other.kernel):
        if not any(map(_are_unlike, _configuration(case), _configuration(other))):
            return None
        certainty = _by_instructions(case, other, counted=counted)
    elif difference(_threads(case.kernel), _threads(other.kernel)) <= SAME_THREADS.value:
        return None
    else:
        certainty = _by_accesses(case, other, counted=counted)
    if certainty is None or not rebuilt:
        return certainty
    return _less_sure(certainty, "inferred" if counted else "guess")


def _less_sure(certainty: Confidence, other: Confidence) -> Confidence:
    return max(certainty, other, key=CONFIDENCES.index)


def _rebuilt(case: Case, other: Case) -> bool:
    return _are_unlike(case.kernel.registers_per_thread, other.kernel.registers_per_thread)


def _are_unlike(value: object, other: object) -> bool:
    return value is not None and other is not None and value != other


def _differs(value: float, other: float) -> bool:
    return difference(value, other) > SAME_WORK.value


def _covers_the_same(kernel: KernelProfile, other: KernelProfile) -> bool:
    """Return whether both grids fit one extent in each dimension, with about as many threads."""
    if difference(_threads(kernel), _threads(other)) > SAME_THREADS.value:
        return False
    sides = (kernel.grid or (), kernel.block or (), other.grid or (), other.block or ())
    for blocks, threads, other_blocks, other_threads in zip(*sides, strict=True):
        least = max((blocks - 1) * threads, (other_blocks - 1) * other_threads)
        if least >= min(blocks * threads, other_blocks * other_threads):
            return False
    return True


def _by_instructions(case: Case, other: Case, *, counted: bool) -> Confidence | None:
    """Return the confidence by the instructions of as many threads.

    Arithmetic, if `counted`, is equal.
    """
    executed = _thread_instructions(case)
    executed_by_other = _thread_instructions(other)
    if not executed or not executed_by_other:
        return "measured" if counted else "inferred"
    if difference(executed, executed_by_other) > OTHER_LOOPS.value:
        return "inferred" if counted else None
    return "measured" if counted or not _differs(executed, executed_by_other) else "inferred"


def _thread_instructions(case: Case) -> float | None:
    count = case.number(*_LAUNCH_INSTRUCTIONS)
    executed = case.number(_EXECUTED)
    threads = case.number(_THREADS)
    if count is None and executed is not None and threads is not None:
        return executed * threads
    return count


def _by_accesses(case: Case, other: Case, *, counted: bool) -> Confidence | None:
    """Return the confidence by loads and stores if a thread does more in one launch.

    Arithmetic, if any, is equal.
    """
    stored = _accesses(case, _STORES)
    stored_by_other = _accesses(other, _STORES)
    if stored is None or stored_by_other is None:
        for name in _STORED:
            stored = case.number(name)
            stored_by_other = other.number(name)
            if stored is not None and stored_by_other is not None:
                is_same = counted and stored > 0 and not _differs(stored, stored_by_other)
                return "inferred" if is_same else None
        return None
    if stored <= 0 or _differs(stored, stored_by_other):
        return None
    is_same = counted or not _differs(_accesses(case, _LOADS) or 0.0, _accesses(other, _LOADS) or 0.0)
    return "inferred" if is_same else None


# The rule.


def _launch_configurations(case: Case) -> Findings:
    faster, duration_s = case.faster, case.kernel.duration_s
    if faster is None or duration_s is None:
        return
    other = faster.case
    change = "build" if _rebuilt(case, other) and case.kernel.block == other.kernel.block else "launch"
    is_sure = faster.certainty == "measured" or any(_flop(case).values())
    gain = 1.0 - faster.duration_s / duration_s
    differing = _differing(case, other)[:_MOST_COUNTERS]
    amounts = [*_launch_amounts(case.kernel), *_launch_amounts(other.kernel, "there-")]
    for pair in differing:
        amounts += map(_amount_of, pair)
    why = _why(differing)
    clocks_known = case.kernel.sm_clock_hz and other.kernel.sm_clock_hz
    with_clocks = bool(clocks_known) and faster.clocks_differ is not False
    if with_clocks:
        why += ["clocks-differ" if faster.clocks_differ else "clocks-may-differ", "smaller-saving"]
    headline = (
        change,
        "clocked" if faster.clocks_differ else "duration",
        *_shape(case, other),
        "there-clocked" if faster.clocks_differ else "there",
        *(f"there-{name}" for name in _shape(other, case)),
        "number",
        "same-work" if is_sure else "apparently-same-work",
    )
    yield finding(
        case,
        cases_of(change, headline, tuple(why)),
        amounts=amounts,
        labels=(
            *labels_of(block=(_block(case.kernel),), number=(str(other.kernel.id),)),
            Label("there-block", (_block(other.kernel),)),
        ),
        confidence=faster.certainty,
        saving=_saving(faster, duration_s, gain),
        evidence=_evidence(case, faster, gain, differing, with_clocks=with_clocks),
    )


def _saving(faster: Faster, duration_s: float, gain: float) -> Saving:
    """Return the measured gain, with the needs of the faster launch in this one's time."""
    part = faster.duration_s / duration_s
    needs = {unit: need * part for unit, need in faster.case.least_times.items()}
    return saving(needs, {}).no_more_than(gain).only_if("fastest-configuration-profiled")


def _shape(case: Case, other: Case) -> tuple[str, ...]:
    """Return the cases for a launch's differences from another: "with 16×16 blocks"."""
    kernel, reference = case.kernel, other.kernel
    rebuilt = _rebuilt(case, other)
    if (kernel.grid, kernel.block) == (reference.grid, reference.block):
        if rebuilt:
            return ("registers",)
        return ("shared-memory",) if kernel.shared_memory_per_block is not None else ()
    if _covers_the_same(kernel, reference):
        blocks = "shape"
    elif math.prod(kernel.grid or ()) == 1:
        blocks = "one-block"
    else:
        blocks = "blocks"
    return (blocks, "and-registers") if rebuilt else (blocks,)


def _block(kernel: KernelProfile) -> str:
    """Return the sides of a block without trailing sides of 1: "256", "16×16"."""
    sides = list(kernel.block or ())
    while len(sides) > 1 and sides[-1] == 1:
        sides.pop()
    return "×".join(map(str, sides))


def _launch_amounts(kernel: KernelProfile, prefix: str = "") -> Iterator[Amount]:
    duration_s = kernel.duration_s or 0.0
    yield Amount(f"{prefix}duration", duration_s, "s")
    if kernel.sm_clock_hz:
        yield Amount(f"{prefix}clock", kernel.sm_clock_hz, "Hz")
        yield Amount(f"{prefix}cycles", duration_s * kernel.sm_clock_hz, "cycle")
    yield Amount(f"{prefix}blocks", math.prod(kernel.grid or ()), "block")
    if kernel.registers_per_thread is not None:
        yield Amount(f"{prefix}registers", kernel.registers_per_thread, "register")
    if kernel.shared_memory_per_block is not None:
        yield Amount(f"{prefix}shared-memory", kernel.shared_memory_per_block, "B")


_Differing = tuple[Evidence, Evidence]
"""A counter that differs between two launches: its value here and in the faster launch."""


def _why(differing: Sequence[_Differing]) -> list[str]:
    if not differing:
        return ["unexplained"]
    why = ["counters"]
    for here, _ in differing:
        why += [here.role, "comma"]
    return [*why[:-1], "end"]


def _amount_of(item: Evidence) -> Amount:
    if item.unit == "%":
        item = replace(item, value=item.value / 100, unit="fraction")
    return Amount(item.role, item.value, item.unit)


def _differing(case: Case, other: Case) -> list[_Differing]:
    """Return the counters that differ, largest difference first."""
    there = _counters(other)
    pairs = []
    for role, here in _counters(case).items():
        if role in there and difference(here.value, there[role].value) > 100 * _LEAST_DIFFERENCE:
            pairs.append((here, replace(there[role], role=f"there-{role}")))
    return sorted(pairs, key=lambda pair: -difference(pair[0].value, pair[1].value))


def _counters(case: Case) -> dict[str, Evidence]:
    """Return the counters that can explain why a configuration is slower, by role."""
    occupancy = case.kernel.occupancy.achieved
    items = (
        case.metric(_LOAD, "loads", "sector/request")
        + case.metric(_STORE, "stores", "sector/request")
        + case.metric(_CONFLICTS, "conflicts", "conflict")
        + case.metric(_EXECUTED, "instructions", "instruction")
        + context("occupancy", 100 * occupancy if occupancy is not None else None, "%")
        + context("waves", case.kernel.waves, "wave")
    )
    return {item.role: item for item in items}


def _evidence(
    case: Case, faster: Faster, gain: float, differing: Sequence[_Differing], *, with_clocks: bool
) -> Iterator[Evidence]:
    yield FASTER.evidence(100 * gain)
    for kernel, prefix in ((case.kernel, ""), (faster.case.kernel, "there-")):
        yield from context(f"{prefix}duration", kernel.duration_s, "s", metric="gpu__time_duration.sum")
        if with_clocks:
            yield from context(f"{prefix}clock", kernel.sm_clock_hz, "Hz")
    for pair in differing:
        yield from pair


RULES = (
    Rule(
        "launch-configurations",
        thresholds=(FASTER, SAME_WORK, SAME_THREADS, OTHER_LOOPS, CLOCKS),
        check=_launch_configurations,
        metrics=(_EXECUTED, _THREADS, _STORED[0], _LOAD, _STORE, _CONFLICTS),
        place=AT_KERNEL,
        of_launches=True,
    ),
)
