"""Accesses of local memory in the code of a kernel, and the first uses of what they load."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from gpuprof.sass.flow.graph import ControlFlowGraph, graph_of
from gpuprof.sass.instruction import Instruction, instruction_of
from gpuprof.sass.operands import waits_for, written

LOCAL_OPCODES = ("LDL", "STL")
"""Opcodes that access local memory, without modifiers."""
_GENERIC = ("LD", "ST")
"""Accesses whose address may be one of local memory."""


@lru_cache(maxsize=32)
def local_accesses(sass: tuple[str, ...], pcs: tuple[int, ...]) -> dict[int, bool] | None:
    """Return the indices of local accesses (True) and of the first waits for loads (False).

    None if the code cannot be followed, or if other instructions may access local memory.
    """
    code = tuple(filter(None, map(instruction_of, sass, pcs)))
    if len(code) < len(sass) or any(item.name in _GENERIC for item in code):
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
            if waits_for(item, load) or not registers.isdisjoint(written(item))
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
