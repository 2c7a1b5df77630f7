"""Launches of a kernel that do the same work in other configurations."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping

from gpuprof.diagnose.facts.counters import INSTRUCTIONS
from gpuprof.diagnose.facts.kernel import Faster, KernelFacts
from gpuprof.diagnose.thresholds import percent
from gpuprof.hardware.specs import THREAD_OPCODES
from gpuprof.model.analyse import Analysis
from gpuprof.model.clocks_apart import clocks_differ, difference
from gpuprof.model.field_types import Confidence
from gpuprof.model.session import KernelProfile
from gpuprof.model.timed import GRAPH_REPLAY

FASTER_BY = percent("faster", 10.0)
SAME_WORK = percent("same-work", 1.0)
SAME_THREADS = percent("same-threads", 10.0)
OTHER_LOOPS = percent("other-loops", 25.0)

_STORES = ("ST", "STG", "RED", "REDG", "ATOM", "ATOMG")

_INDEX_ARITHMETIC = "int32"
"""Integer work is mostly that of addresses and loops, which depends on the configuration."""

_MOST_CONFIGURATIONS = 100
"""A kernel with more of them was called with many sizes of its data."""


def faster_launches(analysis: Analysis) -> dict[int, Faster]:
    """Return the configuration, if any, in which each kernel did the same work faster, by id.

    Each configuration is compared with the launch of median duration in every other one.
    """
    if analysis.session.only_times:
        return {}
    kernels: dict[Hashable, dict[Hashable, list[KernelFacts]]] = {}
    for kernel, recorded in zip(analysis.session.kernels, analysis.recorded, strict=True):
        # All graph replays have the same name, whatever they do. A group is represented by its median.
        spread = kernel.duration_percentiles_s
        is_median = spread is None or kernel.duration_s == spread.p50
        if is_median and kernel.duration_source != GRAPH_REPLAY and kernel.duration_s and kernel.grid and kernel.block:
            key = (kernel.demangled, kernel.device, kernel.rank, kernel.source, kernel.duration_source)
            facts = KernelFacts(kernel, recorded)
            kernels.setdefault(key, {}).setdefault(_configuration(facts), []).append(facts)
    faster: dict[int, Faster] = {}
    for launches in kernels.values():
        if len(launches) <= _MOST_CONFIGURATIONS:
            faster.update(_faster_of_kernel(launches.values()))
    return faster


def _configuration(facts: KernelFacts) -> tuple[Hashable, ...]:
    """Return the configuration of a launch and its FLOP to three digits."""
    return *_shape(facts.kernel), f"{sum(_flop_by_path(facts).values()):.2e}"


def _shape(kernel: KernelProfile) -> tuple[Hashable, ...]:
    return kernel.grid, kernel.block, kernel.registers_per_thread, kernel.shared_memory_per_block


def _faster_of_kernel(launches: Iterable[list[KernelFacts]]) -> Iterator[tuple[int, Faster]]:
    groups = [sorted(alike, key=_duration_s) for alike in launches]
    medians = sorted((alike[(len(alike) - 1) // 2] for alike in groups), key=_duration_s)
    for alike in groups:
        median = alike[(len(alike) - 1) // 2]
        fastest = next((other for other in medians if _against(median, other) is not None), None)
        if fastest is None:
            continue
        for facts in alike:
            faster = _against(facts, fastest)
            if faster is not None:
                yield facts.kernel.id, faster


def _duration_s(facts: KernelFacts) -> float:
    return facts.kernel.duration_s or 0.0


def _against(facts: KernelFacts, other: KernelFacts) -> Faster | None:
    """Compare a launch with another of its kernel; None if that is not surely faster.

    At the clocks of the case the other launch would take longer by at most the ratio of the clock
    that differs most.
    """
    kernel, faster = facts.kernel, other.kernel
    clocks = (faster.sm_clock_hz, kernel.sm_clock_hz), (faster.dram_clock_hz, kernel.dram_clock_hz)
    slowdown = max([1.0, *(fast / slow for fast, slow in clocks if fast and slow)])
    duration_s = _duration_s(other) * slowdown
    if not FASTER_BY.is_reached(1.0 - duration_s / _duration_s(facts)):
        return None
    certainty = _same_work(facts, other)
    if certainty is None:
        return None
    if clocks_differ(kernel, faster) is not False:
        certainty = "inferred"
    return Faster(facts=other, duration_s=duration_s, certainty=certainty)


def _same_work(facts: KernelFacts, other: KernelFacts) -> Confidence | None:
    """Return the confidence that launches in two configurations did the same work; None if nothing shows it.

    Arithmetic and what threads store must be equal, as far as they were counted. Equal arithmetic of
    as many threads over the same extent proves it; about as many instructions suggest it. If a thread
    does more in one launch than in the other, only what threads store shows it: products of other
    shapes can have the same arithmetic.
    """
    flop, other_flop = _flop_by_path(facts), _flop_by_path(other)
    stored, stored_by_other = _stores(facts), _stores(other)
    is_counted = any(flop.values())
    is_rebuilt = facts.kernel.registers_per_thread != other.kernel.registers_per_thread
    if (
        flop.keys() != other_flop.keys()
        or any(_differ(flop[path], other_flop[path]) for path in flop)
        or _differ(stored, stored_by_other)
        or _shape(facts.kernel) == _shape(other.kernel)
        # Another build can do something else.
        or (is_rebuilt and not is_counted)
    ):
        return None
    if difference(_threads(facts.kernel), _threads(other.kernel)) > SAME_THREADS.value:
        return "inferred" if stored else None
    executed, executed_by_other = (each.number(INSTRUCTIONS) or 0.0 for each in (facts, other))
    is_alike = is_counted or difference(executed, executed_by_other) <= OTHER_LOOPS.value
    if not is_alike or not _cover_the_same(facts.kernel, other.kernel):
        return None
    return "measured" if is_counted and not is_rebuilt else "inferred"


def _flop_by_path(facts: KernelFacts) -> Mapping[str, float]:
    """Return the counted FLOP of each path without index arithmetic."""
    known = (work for work in facts.kernel.work if work.path != _INDEX_ARITHMETIC)
    return {work.path: work.flop for work in known if work.flop is not None}


def _differ(value: float, other: float) -> bool:
    return difference(value, other) > SAME_WORK.value


def _threads(kernel: KernelProfile) -> int:
    return math.prod(kernel.grid or ()) * math.prod(kernel.block or ())


def _stores(facts: KernelFacts) -> float:
    """Return how often threads executed instructions that store; 0 if not counted."""
    executed = facts.opcode_counts(THREAD_OPCODES)
    return sum(executed.get(name, 0.0) for name in _STORES)


def _cover_the_same(kernel: KernelProfile, other: KernelProfile) -> bool:
    """Return whether both grids fit one extent in each dimension."""
    sides = (kernel.grid or (), kernel.block or (), other.grid or (), other.block or ())
    for blocks, threads, other_blocks, other_threads in zip(*sides, strict=True):
        least = max((blocks - 1) * threads, (other_blocks - 1) * other_threads)
        if least >= min(blocks * threads, other_blocks * other_threads):
            return False
    return True
