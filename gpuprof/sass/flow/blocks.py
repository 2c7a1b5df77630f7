"""The basic blocks of a kernel, and the edges between them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpuprof.sass.flow.digraph import Digraph, reached
from gpuprof.sass.instruction import ENDS, JUMPS, JUMPS_ANYWHERE, Instruction

BasicBlock = tuple[Instruction, ...]

_NEVER_GO_ON = ENDS | JUMPS_ANYWHERE
_MAY_RETURN = JUMPS_ANYWHERE | {"RET"}
_LEAVES = JUMPS | _NEVER_GO_ON | {"BSYNC", "CALL"}
_MOST_STEPS = 4_000_000
"""Open regions that are passed from block to block: code of a compiler has a few for each block."""


def blocks_of(code: Sequence[Instruction]) -> tuple[BasicBlock, ...]:
    """Return the basic blocks. They begin at the start of the code, at jump targets and after control instructions."""
    starts = {0, len(code)}
    targets: set[int] = set()
    for after, instruction in enumerate(code, 1):
        if instruction.target is not None:
            targets.add(instruction.target)
        if instruction.name in _LEAVES:
            starts.add(after)
    addresses = [instruction.address for instruction in code] if targets else []
    starts.update(bisect_left(addresses, target) for target in targets)
    return tuple(tuple(code[start:end]) for start, end in pairwise(sorted(starts)))


def without_padding(code: tuple[Instruction, ...]) -> tuple[Instruction, ...]:
    """Return code without the padding at its end: NOPs, and an unreachable branch to itself before them."""
    end = len(code)
    while end and code[end - 1].name == "NOP":
        end -= 1
    if end < 2:
        return code[:end]
    before, last = code[end - 2 : end]
    waits_forever = last.name in JUMPS and last.predicate is None and last.target == last.address
    is_reached = _is_conditional(before) or before.name not in JUMPS | _NEVER_GO_ON
    return code[: end - 1] if waits_forever and not is_reached else code[:end]


def _is_conditional(last: Instruction) -> bool:
    """Return whether control may fall through: `BRA.U !UP0, 0x110` has its condition as an operand."""
    has_condition = last.name in JUMPS and (len(last.operands) > 1 or last.branches_on_divergence)
    return last.predicate is not None or has_condition


class BlockEdges:
    """The edges between the basic blocks of a kernel."""

    def __init__(self, blocks: Sequence[BasicBlock]) -> None:
        self._blocks = blocks
        self._numbers = {block[0].address: number for number, block in enumerate(blocks)}

    def jumping_calls(self) -> frozenset[int]:
        """Return the addresses of calls that are jumps: ptxas leaves a long loop by `@P0 CALL.REL.NOINC`.

        No RET is reachable from the target of such a call.
        """
        last = [block[-1] for block in self._blocks]
        calls = [item for item in last if item.is_a("CALL.REL.NOINC") and item.target in self._numbers]
        if not calls:
            return frozenset()
        every = range(len(self._blocks))
        sources = Digraph(self.successors(frozenset()), every).predecessors
        may_return = reached(sources, [number for number in every if last[number].name in _MAY_RETURN])
        return frozenset(call.address for call in calls if self._target(call) not in may_return)

    def calls(self, jumps: frozenset[int]) -> dict[int, int | None]:
        """Map each block that ends with a call to the called block, or to None if that is not in this code.

        An absolute address is never in this code: it is 0 until the code is linked.
        """
        calls = {}
        for number, block in enumerate(self._blocks):
            last = block[-1]
            if last.name == "CALL" and last.address not in jumps:
                calls[number] = None if ".ABS" in last.opcode else self._target(last)
        return calls

    def successors(self, jumps: frozenset[int]) -> tuple[tuple[int, ...], ...]:
        """Return the successors of each block."""
        successors = [set(self._following(number, jumps)) for number in range(len(self._blocks))]
        self._add_reconvergence(successors)
        return tuple(tuple(sorted(targets)) for targets in successors)

    def _target(self, instruction: Instruction) -> int | None:
        return self._numbers.get(instruction.target) if instruction.target is not None else None

    def _following(self, number: int, jumps: frozenset[int]) -> Iterator[int]:
        """Yield the successors of a block by its last instruction; `_add_reconvergence` adds those of BSYNC."""
        last = self._blocks[number][-1]
        jumping = last.name in JUMPS or last.address in jumps
        target = self._target(last)
        if jumping and target is not None:
            yield target
        goes_on = _is_conditional(last) or not (jumping or last.name in _NEVER_GO_ON or last.name == "BSYNC")
        if goes_on and number + 1 < len(self._blocks):
            yield number + 1

    def _add_reconvergence(self, successors: list[set[int]]) -> None:
        """Add edges from each `BSYNC Bn` to the target of the last `BSSY Bn` on every path to it."""
        opened_in = [self._regions(number) for number in range(len(self._blocks))]
        reaching: list[set[tuple[str, int]]] = [set() for _ in self._blocks]
        waiting = {number for number, regions in enumerate(opened_in) if regions}
        left = _MOST_STEPS
        while waiting and left > 0:
            number = waiting.pop()
            own = opened_in[number]
            open_regions = {(name, target) for name, target in reaching[number] if name not in own}
            open_regions.update(own.items())
            last = self._blocks[number][-1]
            if last.name == "BSYNC":
                successors[number] |= {target for name, target in open_regions if (name,) == last.operands[:1]}
            for successor in successors[number]:
                if not open_regions <= reaching[successor]:
                    reaching[successor] |= open_regions
                    left -= len(open_regions)
                    waiting.add(successor)
        for number, block in enumerate(self._blocks[:-1]):
            if block[-1].name == "BSYNC" and not successors[number]:
                successors[number] = {number + 1}

    def _regions(self, number: int) -> dict[str, int]:
        """Map the barrier of each BSSY in a block to the block in which its lanes reconverge."""
        regions = {}
        for instruction in self._blocks[number]:
            target = self._target(instruction) if instruction.name == "BSSY" else None
            if target is not None:
                regions[instruction.operands[0]] = target
        return regions
