"""What the launches of a kernel show together: a configuration that is faster for the same work."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuprof.diagnose.case import Case, Faster
from gpuprof.diagnose.clocks import CLOCKS, clocks_differ, difference
from gpuprof.diagnose.needs import Saving, saving
from gpuprof.diagnose.rule import AT_KERNEL, Rule, RuleVerdict, percent
from gpuprof.hardware.specs import THREAD_OPCODES
from gpuprof.model.analyse import Analysis
from gpuprof.model.field_types import CONFIDENCES, Confidence
from gpuprof.model.groups import middle
from gpuprof.model.recorded import Dim3
from gpuprof.model.session import Evidence, KernelProfile
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.units import format_percent, format_si, significant, spaced

FASTER = percent(
    "time saved by the faster configuration",
    10.0,
    "launches of equal work in one configuration varied by up to 9 % from their median in recorded reports",
)
SAME_WORK = percent(
    "difference in counters",
    1.0,
    "counts of equal work repeat exactly, except for what partly empty blocks at an edge add",
)
SAME_THREADS = percent(
    "difference in threads",
    10.0,
    "blocks at an edge are partly empty: 1000 × 1000 elements take 3 % more threads in blocks of 32 × 32 than of 16 × "
    "16",
)
OTHER_LOOPS = percent(
    "difference in thread instructions",
    25.0,
    "a tile as large as the block changes how often a loop and its barriers run; different work changes more",
)

_LAUNCH_INSTRUCTIONS = ("smsp__thread_inst_executed.sum", "smsp__thread_inst_executed_pred_on.sum")
_EXECUTED, _THREADS = "smsp__inst_executed.sum", "smsp__thread_inst_executed_per_inst_executed.ratio"
_STORED = ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "lts__t_sectors_srcunit_tex_op_write.sum")
_LOADS, _STORES = ("LD", "LDG", "LDGSTS"), ("ST", "STG", "RED", "REDG", "ATOM", "ATOMG")
_LOAD, _STORE = (f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{what}.ratio" for what in ("ld", "st"))
_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
_INDEX_ARITHMETIC = "int32"
"""Integer work is mostly that of addresses and loops, which goes with the configuration."""
_MOST = 16
"""Configurations of one kernel for one amount of work that are looked at, the fastest."""
_TELLING = 0.1
"""A counter that differs by less does not tell why the times differ by a tenth and more."""
_MOST_TOLD = 3
_HELD = "the fastest configuration profiled"


def faster_launches(analysis: Analysis) -> dict[int, Faster]:
    """Return, by the number of a kernel, the configuration in which it did the same work in less time, where one did.

    Launches are held against the launch of median duration in every other configuration.
    """
    if analysis.session.only_times:
        return {}
    kernels: dict[Hashable, list[Case]] = {}
    for kernel, recorded in zip(analysis.session.kernels, analysis.recorded, strict=True):
        if kernel.duration_source == GRAPH_REPLAY:  # all have one name, whatever they do
            continue
        if kernel.duration_s and kernel.grid is not None and kernel.block is not None and _is_median(kernel):
            key = (kernel.demangled, kernel.device, kernel.rank, kernel.duration_source)
            kernels.setdefault(key, []).append(Case(kernel, recorded))
    faster: dict[int, Faster] = {}
    for cases in kernels.values():
        if len({_configuration(case) for case in cases}) > 1:
            faster.update(_faster_of_kernel(cases))
    return faster


def _is_median(kernel: KernelProfile) -> bool:
    """Tell whether a kernel has the median time of its launches: where another speaks for them, they differ."""
    spread = kernel.duration_percentiles_s
    return spread is None or kernel.duration_s == spread.p50


def _faster_of_kernel(cases: Iterable[Case]) -> Iterator[tuple[int, Faster]]:
    launches: dict[tuple[_Amount, Hashable], list[Case]] = {}
    for case in cases:
        launches.setdefault((_amount(case), _configuration(case)), []).append(case)
    median = {key: alike[middle([case.kernel.duration_s for case in alike])] for key, alike in launches.items()}
    by_amount: dict[_Amount, list[Case]] = {}
    for (amount, _), case in sorted(median.items(), key=lambda item: item[1].kernel.duration_s or 0.0):
        by_amount.setdefault(amount, []).append(case)
    for (amount, configuration), alike in launches.items():
        near = [case for step in (-1, 0, 1) for case in by_amount.get(amount.next(step), ())[:_MOST]]
        best = _best(median[amount, configuration], near)
        if best is None:
            continue
        for case in alike:
            faster = _against(case, best)
            if faster is not None:
                yield case.kernel.id, faster


def _best(case: Case, others: Sequence[Case]) -> Case | None:
    """Return the fastest other launch that did the same work in clearly less time."""
    faster = [other for other in others if _saves(case, other.kernel.duration_s)]
    faster.sort(key=lambda other: other.kernel.duration_s or 0.0)
    return next((other for other in faster if _against(case, other) is not None), None)


def _saves(case: Case, duration_s: float | None) -> bool:
    own_s = case.kernel.duration_s
    return bool(own_s) and bool(duration_s) and 100 * (1.0 - (duration_s or 0.0) / (own_s or 1.0)) >= FASTER.value


def _against(case: Case, other: Case) -> Faster | None:
    """Hold a launch against another one of its kernel: None where that was not faster, or its work may differ.

    At the clocks of the case the other would take longer by no more than the ratio of the clock that differs most.
    """
    duration_s = (other.kernel.duration_s or 0.0) * max(_clock_ratios(case.kernel, other.kernel))
    certainty = _same_work(case, other) if _saves(case, duration_s) else None
    if certainty is None:
        return None
    drift = clocks_differ(case.kernel, other.kernel)
    surest: Confidence = "measured" if drift is False and case.kernel.source == other.kernel.source else "inferred"
    return Faster(case=other, duration_s=duration_s, certainty=_less_sure(certainty, surest), clocks_differ=drift)


def _clock_ratios(kernel: KernelProfile, other: KernelProfile) -> tuple[float, ...]:
    pairs = ((kernel.sm_clock_hz, other.sm_clock_hz), (kernel.dram_clock_hz, other.dram_clock_hz))
    return (1.0, *(its / mine for mine, its in pairs if mine and its))


# Whether two launches did the same work.


class _Amount(NamedTuple):
    """About how much a launch did, in steps of a tolerance: launches of equal work lie at most one step apart."""

    of: str
    step: int

    def next(self, steps: int) -> _Amount:
        return _Amount(self.of, self.step + steps)


def _amount(case: Case) -> _Amount:
    """Arithmetic where it was counted, else what threads stored, else the threads."""
    amounts = (
        ("flop", sum(_flop(case).values()), SAME_WORK),
        ("stores", _accesses(case, _STORES) or 0.0, SAME_WORK),
        ("threads", float(_threads(case.kernel)), SAME_THREADS),
    )
    of, amount, step = next((item for item in amounts if 0 < item[1] < math.inf), amounts[-1])
    return _Amount(of, round(math.log(max(1.0, amount)) / math.log1p(step.value / 100)))


def _flop(case: Case) -> Mapping[str, float]:
    """Return what was counted of each path but that of addresses."""
    return {
        work.path: work.flop for work in case.kernel.work if work.flop is not None and work.path != _INDEX_ARITHMETIC
    }


def _accesses(case: Case, opcodes: Iterable[str]) -> float | None:
    """Return how often threads executed these instructions; None where that was not collected."""
    executed = case.recorded.launch.metrics.instances(THREAD_OPCODES)
    return sum(executed.get(opcode, 0.0) for opcode in opcodes) if executed else None


def _threads(kernel: KernelProfile) -> int:
    return math.prod(kernel.grid or ()) * math.prod(kernel.block or ())


def _configuration(case: Case) -> tuple[Dim3 | None, Dim3 | None, int | None, float | None]:
    kernel = case.kernel
    return kernel.grid, kernel.block, kernel.registers_per_thread, kernel.shared_memory_per_block


def _same_work(case: Case, other: Case) -> Confidence | None:
    """Tell how sure it is that two launches of a kernel did the same work; None where nothing says so.

    Where as many threads cover the same extent, equal arithmetic or equally many instructions prove it. Where a thread
    does more in one than in the other, arithmetic (if any) and what threads store have to be equal: products of other
    shapes can have the same arithmetic. A kernel that was built otherwise, or is in another report, can have been
    changed.
    """
    flop, its_flop = _flop(case), _flop(other)
    if flop.keys() != its_flop.keys() or any(_differs(flop[path], its_flop[path]) for path in flop):
        return None
    rebuilt, counted = _rebuilt(case, other), any(flop.values())
    if case.kernel.source != other.kernel.source and (rebuilt or case.kernel.registers_per_thread is None):
        return None
    if _covers_the_same(case.kernel, other.kernel):
        certainty = _by_instructions(case, other, counted=counted) if _configured_apart(case, other) else None
    elif difference(_threads(case.kernel), _threads(other.kernel)) <= SAME_THREADS.value:
        certainty = None
    else:
        certainty = _by_accesses(case, other, counted=counted)
    if certainty is None or not rebuilt:
        return certainty
    return _less_sure(certainty, "inferred" if counted else "guess")


def _less_sure(certainty: Confidence, other: Confidence) -> Confidence:
    return max(certainty, other, key=CONFIDENCES.index)


def _rebuilt(case: Case, other: Case) -> bool:
    registers, others = case.kernel.registers_per_thread, other.kernel.registers_per_thread
    return registers is not None and others is not None and registers != others


def _configured_apart(case: Case, other: Case) -> bool:
    """Tell whether two launches differ in what is known of both: their shape, their build or their shared memory."""
    kernel, its = case.kernel, other.kernel
    if (kernel.grid, kernel.block) != (its.grid, its.block) or _rebuilt(case, other):
        return True
    shared, others = kernel.shared_memory_per_block, its.shared_memory_per_block
    return shared is not None and others is not None and shared != others


def _differs(value: float, other: float) -> bool:
    return difference(value, other) > SAME_WORK.value


def _covers_the_same(kernel: KernelProfile, other: KernelProfile) -> bool:
    """Tell whether there is an extent that both grids are made for, in each dimension, with about as many threads."""
    grids, blocks = (kernel.grid or (), other.grid or ()), (kernel.block or (), other.block or ())
    if difference(_threads(kernel), _threads(other)) > SAME_THREADS.value:
        return False
    sides = zip(*grids, *blocks, strict=True)
    return all(
        max((grid - 1) * block, (its_grid - 1) * its_block) < min(grid * block, its_grid * its_block)
        for grid, its_grid, block, its_block in sides
    )


def _by_instructions(case: Case, other: Case, *, counted: bool) -> Confidence | None:
    """Tell what the instructions of as many threads say of two launches, whose arithmetic is equal where counted."""
    executed, others = _thread_instructions(case), _thread_instructions(other)
    known = bool(executed and others)
    if known and difference(executed or 0.0, others or 0.0) > OTHER_LOOPS.value:
        return "inferred" if counted else None
    return "measured" if counted or (known and not _differs(executed or 0.0, others or 0.0)) else "inferred"


def _thread_instructions(case: Case) -> float | None:
    for name in _LAUNCH_INSTRUCTIONS:
        if (count := case.number(name)) is not None:
            return count
    executed, threads = case.number(_EXECUTED), case.number(_THREADS)
    return executed * threads if executed is not None and threads is not None else None


def _by_accesses(case: Case, other: Case, *, counted: bool) -> Confidence | None:
    """Tell what loads and stores say of launches in which a thread does more or less, with equal arithmetic if any."""
    stored, its = _accesses(case, _STORES), _accesses(other, _STORES)
    if stored is None or its is None:
        pairs = ((case.number(name), other.number(name)) for name in _STORED)
        known = next(((mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None), None)
        return "inferred" if counted and known is not None and known[0] > 0 and not _differs(*known) else None
    if stored <= 0 or _differs(stored, its):
        return None
    return "inferred" if counted or not _differs(*(_accesses(at, _LOADS) or 0.0 for at in (case, other))) else None


# The rule.


def _launch_configurations(case: Case) -> Iterator[RuleVerdict]:
    faster, duration_s = case.faster, case.kernel.duration_s
    if faster is None or duration_s is None:
        return
    other = faster.case
    rebuilt = _rebuilt(case, other) and case.kernel.block == other.kernel.block
    gain = 1.0 - faster.duration_s / duration_s
    here = f"{_took(case.kernel, faster)}{_shape(case, other)}"
    there = f"{_took(other.kernel, faster)}{_shape(other, case)} (#{other.kernel.id})"
    work = "same work" if faster.certainty == "measured" or any(_flop(case).values()) else "apparently the same work"
    yield RuleVerdict(
        headline=f"{'Build' if rebuilt else 'Launch configuration'}: {here}, {there}; {work}",
        why=" ".join((_why(case, other), *_drift(case.kernel, faster))),
        action=(
            "Build this kernel like its fastest launch"
            if rebuilt
            else "Use the fastest launch configuration that was profiled"
        ),
        advice=(
            "Use the compiler options, launch bounds or source of the faster launch, and measure again."
            if rebuilt
            else "Use the grid, block and shared memory of the faster launch wherever the work is the same; try sizes "
            "between and beyond, too."
        ),
        confidence=faster.certainty,
        saving=_saving(faster, duration_s, gain),
        evidence=tuple(_evidence(case, faster, gain)),
    )


def _saving(faster: Faster, duration_s: float, gain: float) -> Saving:
    """Return the gain that was shown, and what the units need of the time of this launch in the faster one."""
    part = faster.duration_s / duration_s
    left = {unit: need * part for unit, need in faster.case.least_times.items()}
    return saving(left, {}).no_more_than(gain).only_if(_HELD)


def _took(kernel: KernelProfile, faster: Faster) -> str:
    text = format_si(kernel.duration_s or 0.0, "s")
    return f"{text} at {format_si(kernel.sm_clock_hz or 0.0, 'Hz')}" if faster.clocks_differ else text


def _shape(case: Case, other: Case) -> str:
    """Write what of a launch differs from another one: " with 16×16 blocks", " with 64 blocks of 256"."""
    kernel, its = case.kernel, other.kernel
    block = "×".join(map(str, _sides(kernel.block)))
    registers = f" and {kernel.registers_per_thread} registers" if _rebuilt(case, other) else ""
    if (kernel.grid, kernel.block) == (its.grid, its.block):
        shared = kernel.shared_memory_per_block
        memory = f"{format_si(shared, 'B')} of shared memory" if shared is not None and not registers else ""
        what = memory or registers.removeprefix(" and ")
        return f" with {what}" if what else ""
    blocks = math.prod(kernel.grid or ())
    if _covers_the_same(kernel, its):
        return f" with {block} blocks{registers}"
    return f" with {blocks} block{'s' if blocks != 1 else ''} of {block}{registers}"


def _sides(size: Dim3 | None) -> Dim3 | tuple[int, ...]:
    size = size or (1, 1, 1)
    return size if size[2] != 1 else size[:2] if size[1] != 1 else size[:1]


class _Compared(NamedTuple):
    """A counter that differs between two launches: what it is, its value here and in the faster launch."""

    meaning: str
    here: Evidence
    there: Evidence


def _why(case: Case, other: Case) -> str:
    """Say which counters differ, those that differ most first."""
    told = [
        f"{item.meaning} {_value_text(item.here)} instead of {_value_text(item.there)}"
        for item in _compared(case, other)[:_MOST_TOLD]
    ]
    if not told:
        return "No counter that both launches have explains it."
    return f"Counters that differ: {', '.join(told)}."


def _value_text(item: Evidence) -> str:
    if item.unit == "%":
        return format_percent(item.value / 100)
    return spaced(item.value) if item.value >= 1000 else significant(item.value, strip=True)


def _compared(case: Case, other: Case) -> list[_Compared]:
    mine, its = _counters(case), _counters(other)
    pairs = [
        _Compared(name, mine[name], its[name])
        for name in mine
        if name in its and difference(mine[name].value, its[name].value) > 100 * _TELLING
    ]
    return sorted(pairs, key=lambda pair: -difference(pair.here.value, pair.there.value))


def _counters(case: Case) -> dict[str, Evidence]:
    """Return what can tell why a configuration is slower, by name."""
    occupancy, waves = case.kernel.occupancy.achieved, case.kernel.waves
    items = [
        *case.metric(_LOAD, "sectors per global load", "sector/request"),
        *case.metric(_STORE, "sectors per global store", "sector/request"),
        *case.metric(_CONFLICTS, "shared-memory bank conflicts", "conflict"),
        *case.metric(_EXECUTED, "warp instructions", "instruction"),
    ]
    if occupancy is not None:
        items.append(Evidence("", 100 * occupancy, "%", threshold=None, meaning="achieved occupancy"))
    if waves is not None:
        items.append(Evidence("", waves, "wave", threshold=None, meaning="waves of blocks"))
    return {item.meaning: item for item in items}


def _drift(kernel: KernelProfile, faster: Faster) -> Iterator[str]:
    if _seem_apart(kernel, faster):
        differ = "differ" if faster.clocks_differ else "may differ"
        yield (
            f"The clocks {differ}, so the gain is the smaller of the savings in seconds and in cycles "
            f"({_cycles_text(kernel)} here, {_cycles_text(faster.case.kernel)} there)."
        )


def _seem_apart(kernel: KernelProfile, faster: Faster) -> bool:
    """Tell whether two clocks are known that differ, or that may: how far each can be off leaves that open."""
    known = kernel.sm_clock_hz and faster.case.kernel.sm_clock_hz
    return bool(known) and faster.clocks_differ is not False


def _cycles_text(kernel: KernelProfile) -> str:
    return spaced((kernel.duration_s or 0.0) * (kernel.sm_clock_hz or 0.0))


def _evidence(case: Case, faster: Faster, gain: float) -> Iterator[Evidence]:
    other = faster.case
    yield Evidence("", 100 * gain, "%", threshold=FASTER.value, meaning=FASTER.name)
    for kernel, where in ((case.kernel, ""), (other.kernel, " in the faster configuration")):
        yield Evidence(
            "gpu__time_duration.sum", kernel.duration_s or 0.0, "s", threshold=None, meaning=f"duration{where}"
        )
        if _seem_apart(case.kernel, faster):
            yield Evidence("", kernel.sm_clock_hz or 0.0, "Hz", threshold=None, meaning=f"SM clock{where}")
    for item in _compared(case, other)[:_MOST_TOLD]:
        yield item.here
        yield Evidence(
            item.there.metric,
            item.there.value,
            item.there.unit,
            threshold=None,
            meaning=f"{item.meaning} in the faster configuration",
        )


RULES = (
    Rule(
        "launch-configurations",
        "Another launch configuration is faster for the same work",
        about="defect",
        looks_at="Launches of one kernel (same function and template arguments, same kind of GPU) that did the same "
        "work with another grid or block, with other shared memory or other registers. The launch of median duration "
        "stands for its configuration. The work is the same where about as many threads cover the same extent and "
        "arithmetic (with thread instructions within a quarter) or thread instructions are equal (measured), or "
        "either is not too different (inferred), or where a thread does more but arithmetic and what threads store "
        "are equal, or without arithmetic what they load and store (inferred). Other registers mean another build: "
        "inferred where arithmetic is equal, else a guess. Where a clock is not known or differs, or the launches are "
        "in two reports, it is inferred.",
        thresholds=(FASTER, SAME_WORK, SAME_THREADS, OTHER_LOOPS, CLOCKS),
        gain="1 − duration of the fastest configuration ÷ duration of this launch: a gain that was shown, and no "
        "bound, because another configuration can be faster still. The duration of the faster one is multiplied by "
        "the ratio of its clock to that of this launch, of the SMs or of DRAM, whichever is larger, if it is above 1. "
        "What remains are the needs of the faster launch times the ratio of the durations.",
        silent="Grid, block or duration is not known, or nothing shows that the work is the same. Of a group of "
        "launches, another one than that of median duration speaks for them. The counted "
        "arithmetic differs, or as many threads cover another extent: a matrix multiplication of another shape.",
        check=_launch_configurations,
        metrics=(_EXECUTED, _THREADS, _STORED[0], _LOAD, _STORE, _CONFLICTS),
        place=AT_KERNEL,
        of_launches=True,
    ),
)
