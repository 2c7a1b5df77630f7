"""Accesses to local memory, and the instructions that first wait for their loads."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.sass.flow.graph import ControlFlowGraph, graph_of
from gpuprof.sass.instruction import Instruction, instruction_of
from gpuprof.sass.operands import waits_for, written

LOCAL_OPCODES = ("LDL", "STL")
"""Opcodes that access local memory, without modifiers."""
_GENERIC = ("LD", "ST")
"""Accesses whose address may be one of local memory."""


def local_accesses(sass: tuple[str, ...], pcs: tuple[int, ...]) -> dict[int, bool] | None:
    """Map the index of each local access to True, and of each first wait for a local load to False.

    Return None if a jump target is unknown, or if other instructions may access local memory.
    """
    code = tuple(filter(None, map(instruction_of, sass, pcs)))
    if len(code) < len(sass) or any(item.name in _GENERIC for item in code):
        return None
    graph = graph_of(code)
    if graph is None:
        return None
    indices = {item.address: index for index, item in enumerate(code)}
    places = {index: True for index, item in enumerate(code) if item.name in LOCAL_OPCODES}
    for number, block in enumerate(graph.blocks):
        for at, item in enumerate(block):
            if item.name in LOCAL_OPCODES and written(item):
                for waiting in _first_users(graph, number, at):
                    places.setdefault(indices[waiting.address], False)
    return places


def _first_users(graph: ControlFlowGraph, number: int, at: int) -> Iterator[Instruction]:
    """Yield the first instruction on each path that needs a load's result or registers."""
    load = graph.blocks[number][at]
    results = set(written(load))
    seen = set[int]()
    paths = [(number, at + 1)]
    while paths:
        number, at = paths.pop()
        rest = graph.blocks[number][at:]
        user = next((item for item in rest if waits_for(item, load) or not results.isdisjoint(written(item))), None)
        if user is not None:
            yield user
            continue
        following = graph.with_calls[number]
        paths += [(successor, 0) for successor in following if successor not in seen]
        seen.update(following)
