"""Finds the loops of a kernel: natural loops of the control flow that its jumps make."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from gpuprof.code.flow.calls import jumping_calls
from gpuprof.code.flow.dominators import DominatorTree, Successors
from gpuprof.code.sass.instruction import HAVE_TARGET, JUMPS, Instruction

_ENDS = {"EXIT", "RET", "KILL", "BRX", "BRXU", "JMX", "JMXU"}

_END_BLOCKS = JUMPS | _ENDS | {"BSYNC", "CALL"}
_MOST_IN_LOOPS = 2_000_000
"""Blocks of all loops together, each as often as it is in one: thousands of loops within loops are no compiler's."""


class Loop(NamedTuple):
    """A loop: every instruction from which a jump back to the header is reached without passing the header."""

    header: int
    instructions: tuple[Instruction, ...]


def find_loops(code: Sequence[Instruction]) -> tuple[Loop, ...]:
    """Return the loops of a kernel, the smallest first."""
    if not code:
        return ()
    starts = block_starts(code)
    ends = (*starts[1:], len(code))
    loops = []
    for header, body in natural_loops(successors_of(code, starts)).items():
        instructions = (instruction for block in sorted(body) for instruction in code[starts[block] : ends[block]])
        loops.append(Loop(code[starts[header]].address, tuple(instructions)))
    return tuple(sorted(loops, key=lambda loop: len(loop.instructions)))


def block_starts(code: Sequence[Instruction]) -> list[int]:
    """Return the indices at which basic blocks begin: the first, jump targets, and what follows a jump."""
    addresses = [instruction.address for instruction in code]
    starts = {0}
    for index, instruction in enumerate(code):
        name = instruction.name
        if name in HAVE_TARGET:
            target = instruction.target
            if target is not None:
                starts.add(bisect_left(addresses, target))
        if name in _END_BLOCKS:
            starts.add(index + 1)
    return sorted(start for start in starts if start < len(code))


def successors_of(code: Sequence[Instruction], starts: Sequence[int]) -> list[tuple[int, ...]]:
    """Return for each basic block those that can follow it."""
    blocks = {code[start].address: block for block, start in enumerate(starts)}
    jumps = jumping_calls(code)
    reconvergence: dict[str, int | None] = {}
    graph = []
    for block, (start, end) in enumerate(pairwise((*starts, len(code)))):
        for instruction in code[start:end]:
            if instruction.name == "BSSY":
                reconvergence["".join(instruction.operands[:1])] = instruction.target
        last = code[end - 1]
        jumping = last.name in JUMPS or last.address in jumps
        target = last.target if jumping else None
        if last.name == "BSYNC":
            target = reconvergence.get("".join(last.operands[:1]))
        following = {blocks[target]} if target in blocks else set()
        if _goes_on(last, target, jumping=jumping) and block + 1 < len(starts):
            following.add(block + 1)
        graph.append(tuple(following))
    return graph


def _goes_on(last: Instruction, target: int | None, *, jumping: bool) -> bool:
    """Tell whether control can pass to the next instruction. `BRA.U !UP0, 0x110` has its condition among operands."""
    if last.name in _ENDS or jumping:
        return last.predicate is not None or (jumping and len(last.operands) > 1)
    return last.name != "BSYNC" or target is None


def natural_loops(graph: Successors) -> dict[int, set[int]]:
    """Return header → body of each loop: the target of a jump back, and what reaches that jump without passing it.

    A jump back leads to a block that lies on every way to it (Aho, Sethi, Ullman: Compilers, 10.4). Jumps that share
    a header make one loop; what cannot be reached makes none. Block 0 is the entry.
    """
    if not graph:
        return {}
    tree = DominatorTree(graph, 0)
    reached = _reach(set(), [0], graph)
    before = _predecessors(graph, reached)
    loops: dict[int, set[int]] = {}
    room = _MOST_IN_LOOPS
    for block, following in enumerate(graph):
        for header in following:
            if tree.dominates(header, block):
                body = loops.setdefault(header, {header})
                size = len(body)
                _reach(body, [block], before)
                room -= len(body) - size
        if room < 0:
            return {}
    return loops


def _reach(seen: set[int], waiting: list[int], graph: Successors) -> set[int]:
    """Return what has been seen, and all blocks that the waiting ones lead to without passing it."""
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            waiting += graph[block]
    return seen


def _predecessors(graph: Successors, reached: set[int]) -> list[list[int]]:
    before: list[list[int]] = [[] for _ in graph]
    for block in sorted(reached):
        for successor in graph[block]:
            before[successor].append(block)
    return before
