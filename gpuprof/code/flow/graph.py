"""The control flow of a kernel: basic blocks, and where lanes that diverge reconverge."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import NamedTuple

from gpuprof.code.flow.calls import jumping_calls
from gpuprof.code.flow.dominators import immediate_dominators
from gpuprof.code.flow.loops import natural_loops
from gpuprof.code.sass.instruction import JUMPS, Instruction
from gpuprof.code.sass.writes import may_write

ENDS = {"EXIT", "RET", "KILL"}
_ANYWHERE = {"BRX", "BRXU", "JMX", "JMXU"}
_LEAVES = JUMPS | ENDS | {"BSYNC", "CALL"}
_SCRATCH = frozenset(
    [f"R{number}" for number in range(4, 16)]
    + [f"UR{number}" for number in range(63)]
    + [f"{kind}{number}" for kind in ("P", "UP") for number in range(7)]
)
"""What a function that lies elsewhere is taken to write: it returns in R4 and the next, and keeps what is read after
it and is none of these."""


@dataclass(frozen=True, eq=False)
class ControlFlowGraph:
    """The basic blocks of a kernel, by number; the first begins it.

    `successors`: the blocks that can come next. `entries`: those that begin the kernel and functions that it calls.
    `called`: of blocks that end with a call, the registers and predicates that it may write; None: any. `loops`: the
    header of each loop, and its blocks.
    """

    blocks: tuple[tuple[Instruction, ...], ...]
    successors: tuple[tuple[int, ...], ...]
    entries: tuple[int, ...]
    called: Mapping[int, frozenset[str] | None]
    loops: Mapping[int, frozenset[int]]

    def predecessors(self) -> list[list[int]]:
        """Return the predecessors of each block."""
        return self._predecessors

    @cached_property
    def _predecessors(self) -> list[list[int]]:
        predecessors: list[list[int]] = [[] for _ in self.blocks]
        for block, successors in enumerate(self.successors):
            for successor in successors:
                predecessors[successor].append(block)
        return predecessors

    @cached_property
    def loops_around(self) -> Mapping[int, tuple[int, ...]]:
        """Return the headers of the loops that each block is in; none for those that are in no loop."""
        around: dict[int, list[int]] = {}
        for header, body in self.loops.items():
            for block in body:
                around.setdefault(block, []).append(header)
        return {block: tuple(headers) for block, headers in around.items()}

    @cached_property
    def written(self) -> tuple[frozenset[str] | None, ...]:
        """Return what each block may write, with the function that it calls; None: any register."""
        written = [frozenset(_may_write(block)) for block in self.blocks]
        called = [self.called.get(number, frozenset()) for number in range(len(written))]
        return tuple(None if more is None else names | more for names, more in zip(written, called, strict=True))

    @cached_property
    def common_ends(self) -> Mapping[int, int]:
        """Return for blocks the first block that lies on every way from them to the end; none where there is none."""
        return _common_ends(self.successors, self._predecessors)

    def order(self) -> list[int]:
        """Return the blocks that can be reached, each after those that it comes after, but for loops."""
        seen: set[int] = set()
        order: list[int] = []
        for entry in self.entries:
            waiting = [(entry, iter(self.successors[entry]))] if entry not in seen else []
            seen.add(entry)
            while waiting:
                successor = next((successor for successor in waiting[-1][1] if successor not in seen), None)
                if successor is None:
                    order.append(waiting.pop()[0])
                else:
                    seen.add(successor)
                    waiting.append((successor, iter(self.successors[successor])))
        return order[::-1]


class Reconvergence(NamedTuple):
    """Where lanes that diverge at a branch reconverge, and what they may have written since; None: anything."""

    blocks: frozenset[int]
    written: frozenset[str] | None


def graph_of(code: Sequence[Instruction]) -> ControlFlowGraph | None:
    """Return the graph of a kernel; None where jumps have targets that are not in the code.

    That of the last kernels is kept: what follows addresses, walks and trip counts all ask for it.
    """
    return _graph_of(tuple(code))


@lru_cache(maxsize=2)
def _graph_of(code: tuple[Instruction, ...]) -> ControlFlowGraph | None:
    if not code or any(instruction.name in _ANYWHERE for instruction in code):
        return None
    jumps = jumping_calls(code)
    blocks = _blocks(code)
    numbers = {block[0].address: number for number, block in enumerate(blocks)}
    successors = [set(_following(block[-1], number, numbers, jumps)) for number, block in enumerate(blocks)]
    successors[-1].discard(len(blocks))
    _add_reconvergence(blocks, successors, numbers)
    called = _called(blocks, numbers, jumps)
    graph = tuple(tuple(sorted(targets)) for targets in successors)
    return ControlFlowGraph(
        blocks=blocks,
        successors=graph,
        entries=tuple(dict.fromkeys((0, *(target for target in called.values() if target is not None)))),
        called={number: _written(target, blocks, graph, called) for number, target in called.items()},
        loops={header: frozenset(body) for header, body in natural_loops(graph).items()},
    )


def _blocks(code: Sequence[Instruction]) -> tuple[tuple[Instruction, ...], ...]:
    addresses = [instruction.address for instruction in code]
    starts = {0, len(code)}
    for index, instruction in enumerate(code):
        if instruction.target is not None:
            starts.add(bisect_left(addresses, instruction.target))
        if instruction.name in _LEAVES:
            starts.add(index + 1)
    return tuple(tuple(code[start:end]) for start, end in pairwise(sorted(starts)))


def _following(last: Instruction, number: int, numbers: Mapping[int, int], jumps: frozenset[int]) -> Iterator[int]:
    """Yield what can follow a block by its last instruction, but for BSYNC, which goes on where lanes reconverge."""
    jumping = last.name in JUMPS or last.address in jumps
    if jumping and last.target is not None and last.target in numbers:
        yield numbers[last.target]
    conditional = last.predicate is not None or (jumping and len(last.operands) > 1)
    if conditional or not (jumping or last.name in ENDS or last.name == "BSYNC"):
        yield number + 1


def _add_reconvergence(
    blocks: Sequence[Sequence[Instruction]], successors: list[set[int]], numbers: Mapping[int, int]
) -> None:
    """Let each `BSYNC Bn` be followed by what the last `BSSY Bn` before it names, on every way to it."""
    opened: list[dict[str, set[int]]] = [{} for _ in blocks]
    waiting = set(range(len(blocks)))
    while waiting:
        number = waiting.pop()
        now = dict(opened[number])
        for instruction in blocks[number]:
            if instruction.name == "BSSY" and instruction.target is not None and instruction.target in numbers:
                now[instruction.operands[0]] = {numbers[instruction.target]}
        last = blocks[number][-1]
        if last.name == "BSYNC":
            successors[number] |= now.get(last.operands[0], set())
        for successor in successors[number]:
            known = opened[successor]
            merged = {name: known.get(name, set()) | targets for name, targets in now.items()}
            if any(merged[name] != known.get(name) for name in merged):
                known.update(merged)
                waiting.add(successor)
    for number, block in enumerate(blocks[:-1]):
        if block[-1].name == "BSYNC" and not successors[number]:
            successors[number] = {number + 1}


def _called(
    blocks: Sequence[Sequence[Instruction]], numbers: Mapping[int, int], jumps: frozenset[int]
) -> dict[int, int | None]:
    """Return for each block that ends with a call the block that it calls; None: it is elsewhere.

    An absolute address is none of this code: it is 0 as long as the code is not linked.
    """
    ends = {number: block[-1] for number, block in enumerate(blocks)}
    return {
        number: None if last.target is None or ".ABS" in last.opcode else numbers.get(last.target)
        for number, last in ends.items()
        if last.name == "CALL" and last.address not in jumps
    }


def _written(
    target: int | None,
    blocks: Sequence[Sequence[Instruction]],
    successors: Sequence[Sequence[int]],
    called: Mapping[int, int | None],
) -> frozenset[str] | None:
    """Return what a function may write, with those that it calls."""
    names: set[str] = set()
    seen: set[int] = set()
    waiting = [target]
    while waiting:
        block = waiting.pop()
        if block is None:
            names |= _SCRATCH
        elif block not in seen:
            seen.add(block)
            names.update(_may_write(blocks[block]))
            waiting += [*successors[block], *([called[block]] if block in called else [])]
    return frozenset(names)


def _may_write(instructions: Iterable[Instruction]) -> Iterator[str]:
    return (name for instruction in instructions for name in may_write(instruction))


def reconvergence(graph: ControlFlowGraph, number: int) -> Reconvergence:
    """Return where lanes that diverge at the end of a block reconverge.

    That is in the block that all ways from there lead to, if there is one; in blocks before it that both ways lead to;
    and behind a loop that they leave after different numbers of iterations.
    """
    end = graph.common_ends.get(number)
    sides = [_reached(graph, successor, end) for successor in graph.successors[number]]
    both = frozenset.intersection(*sides)
    inside = frozenset.union(*sides, {number}) - {end}
    loops = [graph.loops[header] for header in graph.loops_around.get(number, ())]
    before = graph.predecessors()
    blocks = {
        block
        for block in both
        if block == end
        or len(inside.intersection(before[block])) > 1
        or any(block not in loop and loop.intersection(before[block]) for loop in loops)
    }
    return Reconvergence(frozenset(blocks), _all_written(graph, frozenset.union(*sides) - {end}))


def _all_written(graph: ControlFlowGraph, blocks: Iterable[int]) -> frozenset[str] | None:
    names: set[str] = set()
    for block in blocks:
        written = graph.written[block]
        if written is None:
            return None
        names |= written
    return frozenset(names)


def _reached(graph: ControlFlowGraph, first: int, end: int | None) -> frozenset[int]:
    """Return the blocks that are reached from one, that itself and the end included."""
    seen: set[int] = set()
    waiting = [first]
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            waiting += graph.successors[block] if block != end else ()
    return frozenset(seen)


def _common_ends(successors: Sequence[Sequence[int]], before: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return the immediate postdominator of blocks; ways that never come to an end are left out.

    Of blocks from which there is no way to an end, it is the first other block that they lead to.
    """
    whole = len(successors)
    last = [block for block, targets in enumerate(successors) if not targets]
    backwards = [*before, last]
    ends = {block: end for block, end in immediate_dominators(backwards, whole).items() if end != whole}
    ending = {*immediate_dominators(backwards, whole)}
    for block in range(whole):
        if block not in ending:
            others = _reached_by(successors, block) - {block}
            if others:
                ends[block] = min(others)
    return ends


def _reached_by(successors: Sequence[Sequence[int]], first: int) -> set[int]:
    seen: set[int] = set()
    waiting = [first]
    while waiting:
        block = waiting.pop()
        if block not in seen:
            seen.add(block)
            waiting += successors[block]
    return seen
