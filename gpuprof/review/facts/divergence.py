"""Which predicates of a kernel differ between the threads of a block: by the thread's index, or by what it loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.sass.flow.graph import ControlFlowGraph, graph_of
from gpuprof.sass.instruction import JUMPS, Instruction
from gpuprof.sass.operands import named, sources, written

_INDEX = ("SR_TID", "SR_LANE", "SR_EQMASK", "SR_LTMASK", "SR_LEMASK", "SR_GTMASK", "SR_GEMASK", "SR_VIRTID")
_MOST_VISITS = 24
"""So often a block is gone through at most, on average; compiled kernels take three."""

DivergentRegisters = frozenset[str]


def divergent_branches(code: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """Return the conditional jumps whose condition depends on the thread; none if jumps cannot be followed."""
    graph = graph_of(code)
    if graph is None:
        return ()
    begins = _learn(graph)
    return tuple(_branches(graph, begins)) if begins is not None else ()


def _learn(graph: ControlFlowGraph) -> dict[int, DivergentRegisters] | None:
    """Return which registers may differ between threads at the beginning of each block; None if that takes too long."""
    begins: dict[int, DivergentRegisters] = dict.fromkeys(graph.entries, frozenset())
    waiting = list(graph.entries)
    left = _MOST_VISITS * len(graph.blocks)
    while waiting:
        number = waiting.pop()
        left -= 1
        if left < 0:
            return None
        end = _end(graph, number, begins[number])
        for successor in graph.successors[number]:
            known = begins.get(successor)
            merged = end if known is None else known | end
            if merged != known:
                begins[successor] = merged
                waiting.append(successor)
    return begins


def _end(graph: ControlFlowGraph, number: int, begin: DivergentRegisters) -> DivergentRegisters:
    held = set(begin)
    for instruction in graph.blocks[number]:
        _execute(instruction, held)
    return frozenset(held)


def _execute(instruction: Instruction, held: set[str]) -> None:
    """Note the results of an instruction: they differ between threads if something that it reads does."""
    names = written(instruction)
    if differs(instruction, held):
        held.update(names)
    elif instruction.predicate is None:
        held.difference_update(names)


def differs(instruction: Instruction, held: set[str] | DivergentRegisters) -> bool:
    """Return whether the result of an instruction may differ between threads."""
    name = instruction.name
    if name in {"S2R", "CS2R"}:
        return any(operand.startswith(_INDEX) for operand in instruction.operands)
    if name.startswith("U") or name in {"R2UR", "S2UR", "VOTE", "REDUX", "CREDUX"}:
        return False
    if name.startswith("ATOM") or name == "SHFL":
        return True
    operands = (*sources(instruction), instruction.predicate or "")
    return any(register in held for operand in operands for register in named(operand))


def _branches(graph: ControlFlowGraph, begins: dict[int, DivergentRegisters]) -> Iterator[Instruction]:
    for number, block in enumerate(graph.blocks):
        last = block[-1]
        if number not in begins or last.name not in JUMPS or last.target is None:
            continue
        held = set(begins[number])
        for instruction in block[:-1]:
            _execute(instruction, held)
        conditions = (last.predicate or "", *last.operands[:-1])
        if any(name in held for condition in conditions for name in named(condition)):
            yield last
