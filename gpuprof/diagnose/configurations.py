"""Launches of a kernel that do the same work in other configurations."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping

from gpuprof.diagnose.clocks import clocks_differ, difference
from gpuprof.diagnose.facts.kernel import Faster, KernelFacts
from gpuprof.diagnose.thresholds import percent
from gpuprof.hardware.specs import THREAD_OPCODES
from gpuprof.model.analyse import Analysis
from gpuprof.model.field_types import CONFIDENCES, Confidence
from gpuprof.model.groups import middle
from gpuprof.model.session import KernelProfile
from gpuprof.model.timed import GRAPH_REPLAY

FASTER_BY = percent("faster", 10.0)

SAME_WORK = percent("same-work", 1.0)

SAME_THREADS = percent("same-threads", 10.0)

OTHER_LOOPS = percent("other-loops", 25.0)

_LAUNCH_INSTRUCTIONS = ("smsp__thread_inst_executed.sum", "smsp__thread_inst_executed_pred_on.sum")

WARP_INSTRUCTIONS = "smsp__inst_executed.sum"

ACTIVE_THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"

_LOADS, _STORES = ("LD", "LDG", "LDGSTS"), ("ST", "STG", "RED", "REDG", "ATOM", "ATOMG")

_INDEX_ARITHMETIC = "int32"
"""Integer work is mostly that of addresses and loops, which depends on the configuration."""

_MOST_CONFIGURATIONS = 16
"""The most configurations of one kernel to compare for one amount of work, fastest first."""


def faster_launches(analysis: Analysis) -> dict[int, Faster]:
    """Return the configuration, if any, in which each kernel did the same work faster, by id.

    Each launch is compared with the launch of median duration in every other configuration.
    """
    if analysis.session.only_times:
        return {}
    kernels: dict[Hashable, list[KernelFacts]] = {}
    for kernel, recorded in zip(analysis.session.kernels, analysis.recorded, strict=True):
        # All graph replays have the same name, whatever they do. A group is represented by its median.
        spread = kernel.duration_percentiles_s
        is_median = spread is None or kernel.duration_s == spread.p50
        if is_median and kernel.duration_source != GRAPH_REPLAY and kernel.duration_s and kernel.grid and kernel.block:
            key = (kernel.demangled, kernel.device, kernel.rank, kernel.duration_source)
            kernels.setdefault(key, []).append(KernelFacts(kernel, recorded))
    faster: dict[int, Faster] = {}
    for cases in kernels.values():
        if len({_configuration(facts) for facts in cases}) > 1:
            faster.update(_faster_of_kernel(cases))
    return faster


def _faster_of_kernel(cases: Iterable[KernelFacts]) -> Iterator[tuple[int, Faster]]:
    launches: dict[tuple[_Amount, Hashable], list[KernelFacts]] = {}
    for facts in sorted(cases, key=_duration_s):
        launches.setdefault((_amount(facts), _configuration(facts)), []).append(facts)
    medians = {key: alike[middle([_duration_s(facts) for facts in alike])] for key, alike in launches.items()}
    by_amount: dict[_Amount, list[KernelFacts]] = {}
    for (amount, _), median in sorted(medians.items(), key=lambda item: _duration_s(item[1])):
        by_amount.setdefault(amount, []).append(median)
    for ((of, step), configuration), alike in launches.items():
        others: list[KernelFacts] = []
        for near in (step - 1, step, step + 1):
            others += by_amount.get((of, near), ())[:_MOST_CONFIGURATIONS]
        median = medians[(of, step), configuration]
        fastest = sorted((other for other in others if _against(median, other) is not None), key=_duration_s)[:1]
        for other in fastest:
            for facts in alike:
                faster = _against(facts, other)
                if faster is not None:
                    yield facts.kernel.id, faster


def _duration_s(facts: KernelFacts) -> float:
    return facts.kernel.duration_s or 0.0


def _against(facts: KernelFacts, other: KernelFacts) -> Faster | None:
    """Compare a launch with another of its kernel; None if that is not surely faster.

    At the clocks of the case the other launch would take longer by at most the ratio of the clock
    that differs most.
    """
    kernel = facts.kernel
    faster = other.kernel
    slowdown = 1.0
    if kernel.sm_clock_hz and faster.sm_clock_hz:
        slowdown = max(slowdown, faster.sm_clock_hz / kernel.sm_clock_hz)
    if kernel.dram_clock_hz and faster.dram_clock_hz:
        slowdown = max(slowdown, faster.dram_clock_hz / kernel.dram_clock_hz)
    duration_s = _duration_s(other) * slowdown
    if duration_s <= 0 or not FASTER_BY.is_reached(1.0 - duration_s / _duration_s(facts)):
        return None
    certainty = _same_work(facts, other)
    if certainty is None:
        return None
    drift = clocks_differ(kernel, faster)
    if drift is not False or kernel.source != faster.source:
        certainty = _less_sure(certainty, "inferred")
    return Faster(facts=other, duration_s=duration_s, certainty=certainty, clocks_differ=drift)


_Amount = tuple[str, int]
"""A measure of a launch's work, and its amount in steps: equal work is at most one step apart."""


def _amount(facts: KernelFacts) -> _Amount:
    """Return the work by arithmetic if it was counted, else by stores, else by threads."""
    amounts = (
        ("flop", sum(flop_by_path(facts).values()), SAME_WORK),
        ("stores", _accesses(facts, _STORES) or 0.0, SAME_WORK),
        ("threads", float(_threads(facts.kernel)), SAME_THREADS),
    )
    of, amount, step = next((item for item in amounts if 0 < item[1] < math.inf), amounts[-1])
    return of, round(math.log(max(1.0, amount)) / math.log1p(step.value / 100))


def flop_by_path(facts: KernelFacts) -> Mapping[str, float]:
    """Return the counted FLOP of each path without index arithmetic."""
    known = (work for work in facts.kernel.work if work.path != _INDEX_ARITHMETIC)
    return {work.path: work.flop for work in known if work.flop is not None}


def _accesses(facts: KernelFacts, opcodes: Iterable[str]) -> float | None:
    """Return how often threads executed these instructions; None if that was not collected."""
    executed = facts.metrics.instances(THREAD_OPCODES)
    return sum(executed.get(opcode, 0.0) for opcode in opcodes) if executed else None


def _threads(kernel: KernelProfile) -> int:
    return math.prod(kernel.grid or ()) * math.prod(kernel.block or ())


def _configuration(facts: KernelFacts) -> tuple[Hashable, ...]:
    kernel = facts.kernel
    return kernel.grid, kernel.block, kernel.registers_per_thread, kernel.shared_memory_per_block


def _same_work(facts: KernelFacts, other: KernelFacts) -> Confidence | None:
    """Return the confidence that two launches did the same work; None if nothing shows it.

    If as many threads cover the same extent, equal arithmetic or equal numbers of instructions
    prove it. If a thread does more in one launch than in the other, both arithmetic (if any) and
    stores must be equal, since products of other shapes can have the same arithmetic. A kernel of
    another build or another report can have changed.
    """
    flop = flop_by_path(facts)
    other_flop = flop_by_path(other)
    if flop.keys() != other_flop.keys() or any(_differs(flop[path], other_flop[path]) for path in flop):
        return None
    rebuilt = is_rebuilt(facts, other)
    counted = any(flop.values())
    if facts.kernel.source != other.kernel.source and (rebuilt or facts.kernel.registers_per_thread is None):
        return None
    certainty: Confidence | None = None
    if covers_the_same(facts.kernel, other.kernel):
        if any(map(_are_unlike, _configuration(facts), _configuration(other))):
            certainty = _by_instructions(facts, other, counted=counted)
    elif difference(_threads(facts.kernel), _threads(other.kernel)) > SAME_THREADS.value:
        certainty = _by_accesses(facts, other, counted=counted)
    if certainty is None or not rebuilt:
        return certainty
    return _less_sure(certainty, "inferred" if counted else "guess")


def _less_sure(certainty: Confidence, other: Confidence) -> Confidence:
    return max(certainty, other, key=CONFIDENCES.index)


def is_rebuilt(facts: KernelFacts, other: KernelFacts) -> bool:
    """Return whether two launches ran different builds of a kernel, by its registers."""
    return _are_unlike(facts.kernel.registers_per_thread, other.kernel.registers_per_thread)


def _are_unlike(value: object, other: object) -> bool:
    return value is not None and other is not None and value != other


def _differs(value: float, other: float) -> bool:
    return difference(value, other) > SAME_WORK.value


def covers_the_same(kernel: KernelProfile, other: KernelProfile) -> bool:
    """Return whether both grids fit one extent in each dimension, with about as many threads."""
    if difference(_threads(kernel), _threads(other)) > SAME_THREADS.value:
        return False
    sides = (kernel.grid or (), kernel.block or (), other.grid or (), other.block or ())
    for blocks, threads, other_blocks, other_threads in zip(*sides, strict=True):
        least = max((blocks - 1) * threads, (other_blocks - 1) * other_threads)
        if least >= min(blocks * threads, other_blocks * other_threads):
            return False
    return True


def _by_instructions(facts: KernelFacts, other: KernelFacts, *, counted: bool) -> Confidence | None:
    """Return the confidence by the instructions of as many threads.

    Arithmetic, if `counted`, is equal.
    """
    executed = _thread_instructions(facts)
    executed_by_other = _thread_instructions(other)
    if not executed or not executed_by_other:
        return "measured" if counted else "inferred"
    if difference(executed, executed_by_other) > OTHER_LOOPS.value:
        return "inferred" if counted else None
    return "measured" if counted or not _differs(executed, executed_by_other) else "inferred"


def _thread_instructions(facts: KernelFacts) -> float | None:
    count = facts.number(*_LAUNCH_INSTRUCTIONS)
    executed = facts.number(WARP_INSTRUCTIONS)
    threads = facts.number(ACTIVE_THREADS)
    if count is None and executed is not None and threads is not None:
        return executed * threads
    return count


def _by_accesses(facts: KernelFacts, other: KernelFacts, *, counted: bool) -> Confidence | None:
    """Return the confidence by loads and stores if a thread does more in one launch.

    Arithmetic, if any, is equal.
    """
    stored, stored_by_other = _accesses(facts, _STORES), _accesses(other, _STORES)
    if not stored or stored_by_other is None or _differs(stored, stored_by_other):
        return None
    is_same = counted or not _differs(_accesses(facts, _LOADS) or 0.0, _accesses(other, _LOADS) or 0.0)
    return "inferred" if is_same else None
