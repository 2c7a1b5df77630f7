"""Finds the loops of a kernel: natural loops of the control flow that its jumps make."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from gpuprof.code.sass import JUMPS, Instruction

_ENDS = {"EXIT", "RET", "KILL", "BRX", "BRXU", "JMX", "JMXU"}

Successors = Sequence[Sequence[int]]
"""For each basic block, the blocks that can follow it. Block 0 is the entry."""


class Loop(NamedTuple):
    """A loop: every instruction from which a jump back to the header is reached without passing the header."""

    header: int
    instructions: tuple[Instruction, ...]


def find_loops(code: Sequence[Instruction]) -> tuple[Loop, ...]:
    """Return the loops of a kernel, the smallest first."""
    if not code:
        return ()
    starts = _block_starts(code)
    ends = (*starts[1:], len(code))
    loops = []
    for header, body in natural_loops(_successors(code, starts)).items():
        instructions = (instruction for block in sorted(body) for instruction in code[starts[block] : ends[block]])
        loops.append(Loop(code[starts[header]].address, tuple(instructions)))
    return tuple(sorted(loops, key=lambda loop: len(loop.instructions)))


def jumping_calls(code: Sequence[Instruction]) -> frozenset[int]:
    """Return the addresses of calls that are jumps: ptxas leaves a long loop by `@P0 CALL.REL.NOINC`, without a RET."""
    if not code or any(instruction.name == "RET" for instruction in code):
        return frozenset()
    first, last = code[0].address, code[-1].address
    return frozenset(
        instruction.address
        for instruction in code
        if instruction.is_a("CALL.REL.NOINC") and instruction.target is not None and first <= instruction.target <= last
    )


def _block_starts(code: Sequence[Instruction]) -> list[int]:
    """Return the indices at which basic blocks begin: the first, jump targets, and what follows a jump."""
    addresses = [instruction.address for instruction in code]
    starts = {0}
    for index, instruction in enumerate(code):
        if instruction.target is not None:
            starts.add(bisect_left(addresses, instruction.target))
        if instruction.name in JUMPS | _ENDS | {"BSYNC", "CALL"}:
            starts.add(index + 1)
    return sorted(start for start in starts if start < len(code))


def _successors(code: Sequence[Instruction], starts: Sequence[int]) -> list[tuple[int, ...]]:
    blocks = {code[start].address: block for block, start in enumerate(starts)}
    jumps = jumping_calls(code)
    graph = []
    for block, end in enumerate((*starts[1:], len(code))):
        last = code[end - 1]
        jumping = last.name in JUMPS or last.address in jumps
        target = _reconvergence(code, end - 1) if last.name == "BSYNC" else last.target if jumping else None
        following = {blocks[target]} if target in blocks else set()
        if _goes_on(last, target, jumping=jumping) and block + 1 < len(starts):
            following.add(block + 1)
        graph.append(tuple(following))
    return graph


def _reconvergence(code: Sequence[Instruction], index: int) -> int | None:
    """Return where threads go on after `BSYNC Bn`: the address in the last `BSSY Bn` before it."""
    register = code[index].operands[:1]
    for before in reversed(code[:index]):
        if before.name == "BSSY" and before.operands[:1] == register:
            return before.target
    return None


def _goes_on(last: Instruction, target: int | None, *, jumping: bool) -> bool:
    """Tell whether control can pass to the next instruction. `BRA.U !UP0, 0x110` has its condition among operands."""
    if last.name in _ENDS or jumping:
        return last.predicate is not None or (jumping and len(last.operands) > 1)
    return last.name != "BSYNC" or target is None


def natural_loops(graph: Successors) -> dict[int, set[int]]:
    """Return header → body of each loop: the target of a jump back, and what reaches that jump without passing it.

    A jump back leads to a block that lies on every way to it (Aho, Sethi, Ullman: Compilers, 10.4). Jumps that share
    a header make one loop; what cannot be reached makes none.
    """
    reached = _reach(set(), [0] if graph else [], graph)
    before = _predecessors(graph, reached)
    dominators = _dominators(reached, before)
    loops: dict[int, set[int]] = {}
    for block, following in enumerate(graph):
        for header in following:
            if header in dominators.get(block, ()):
                loops.setdefault(header, set()).update(_reach({header}, [block], before))
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


def _dominators(reached: set[int], before: Successors) -> dict[int, set[int]]:
    """Return for each block that can be reached those that lie on every way to it."""
    dominators = {block: set(reached) for block in reached} | {0: {0}}
    changed = True
    while changed:
        changed = False
        for block in sorted(reached - {0}):
            new = set.intersection(*(dominators[predecessor] for predecessor in before[block])) | {block}
            if new != dominators[block]:
                dominators[block], changed = new, True
    return dominators
