"""The instructions at which warps wait for local memory: its accesses, and the first uses of loaded
values.

It follows the code, which takes time: import it only if local memory is worth it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from gpuprof.code.flow.graph import ControlFlowGraph, graph_of
from gpuprof.code.sass.instruction import Instruction, instruction_of
from gpuprof.code.sass.operands import waits_for, written
from gpuprof.code.sass.writes import may_write
from gpuprof.diagnose.facts.code import SAMPLES
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import stall_metric
from gpuprof.diagnose.line_work import LOCAL_OPCODES

_GENERIC = ("LD", "ST", "LDL", "STL")
"""Accesses whose address may be one of local memory."""
_FOR_LOADS = stall_metric("long_scoreboard", "sampled")


def local_waits(facts: KernelFacts) -> float | None:
    """Return the share of the samples of warps that were at an access of local memory, or waited
    for its result.

    None if the code or the samples are not known, or other instructions may access local memory.
    """
    total = sum(item.counts.get(SAMPLES, 0.0) for item in facts.code)
    if not total or not all(facts.sass):
        return None
    waiting = _places(facts.sass, tuple(item.pc for item in facts.code))
    if waiting is None:
        return None
    waits = 0.0
    for place, is_access in waiting.items():
        counts = facts.code[place].counts
        # A reason with next to no samples is not read by instruction: then count all samples.
        waits += counts.get(SAMPLES if is_access else _FOR_LOADS, counts.get(SAMPLES, 0.0))
    return min(1.0, waits / total)


@lru_cache(maxsize=32)
def _places(sass: tuple[str, ...], pcs: tuple[int, ...]) -> dict[int, bool] | None:
    """Return the indices of local accesses (True) and of the first waits for loads (False)."""
    code = tuple(filter(None, map(instruction_of, sass, pcs)))
    if len(code) < len(sass) or any(item.name in _GENERIC and item.name not in LOCAL_OPCODES for item in code):
        return None
    graph = graph_of(code)
    if graph is None:
        return None
    numbers = {item.address: number for number, item in enumerate(code)}
    places: dict[int, bool] = {}
    for number, block in enumerate(graph.blocks):
        for place, item in enumerate(block):
            if item.name in LOCAL_OPCODES:
                places[numbers[item.address]] = True
                if not written(item):
                    continue
                for waiting in _first_users(graph, number, place):
                    places.setdefault(numbers[waiting.address], False)
    return places


def _first_users(graph: ControlFlowGraph, number: int, place: int) -> Iterator[Instruction]:
    """Yield the first instruction on each path that needs a load's result or registers."""
    load = graph.blocks[number][place]
    seen = set[int]()
    paths = [(number, place + 1)]
    registers = frozenset(written(load))
    while paths:
        number, place = paths.pop()
        needs = (
            item
            for item in graph.blocks[number][place:]
            if waits_for(item, load) or not registers.isdisjoint(may_write(item))
        )
        user = next(needs, None)
        if user is not None:
            yield user
            continue
        following = [*graph.successors[number]]
        called = graph.calls.get(number)
        if called is not None:
            following.append(called)
        paths += [(successor, 0) for successor in following if successor not in seen]
        seen.update(following)
