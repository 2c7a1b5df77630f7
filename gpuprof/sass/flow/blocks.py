"""The basic blocks of a kernel, and their successors."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from gpuprof.sass.instruction import JUMPS, Instruction

BasicBlock = tuple[Instruction, ...]

ENDS = {"EXIT", "RET", "KILL"}
ANYWHERE = {"BRX", "BRXU", "JMX", "JMXU"}
"""Jumps to an address in a register."""
_NEVER_GO_ON = ENDS | ANYWHERE
_LEAVES = JUMPS | _NEVER_GO_ON | {"BSYNC", "CALL"}


def blocks_of(code: Sequence[Instruction]) -> tuple[BasicBlock, ...]:
    """Return the basic blocks: one begins at the start, at each target of a jump, and behind each that leaves."""
    starts = {0, len(code)}
    targets: set[int] = set()
    for behind, instruction in enumerate(code, 1):
        if instruction.target is not None:
            targets.add(instruction.target)
        if instruction.name in _LEAVES:
            starts.add(behind)
    addresses = [instruction.address for instruction in code] if targets else []
    starts.update(bisect_left(addresses, target) for target in targets)
    return tuple(tuple(code[start:end]) for start, end in pairwise(sorted(starts)))


class FoundBlocks:
    """The basic blocks of a kernel, in order, and what they lead to.

    `jumps` are the addresses of the calls that are jumps.
    """

    def __init__(self, code: Sequence[Instruction]) -> None:
        self.blocks = blocks_of(code)
        self._numbers = {block[0].address: number for number, block in enumerate(self.blocks)}
        self._regions = self._beginning_regions()
        self.jumps = self._jumping_calls()

    def calls(self) -> dict[int, int | None]:
        """Return for each block that ends with a call the block that it calls; None: it is elsewhere.

        An absolute address is none of this code: it is 0 as long as the code is not linked.
        """
        ends = ((number, block[-1]) for number, block in enumerate(self.blocks))
        return {
            number: None if last.target is None or ".ABS" in last.opcode else self._numbers.get(last.target)
            for number, last in ends
            if last.name == "CALL" and last.address not in self.jumps
        }

    def successors(self) -> tuple[tuple[int, ...], ...]:
        """Return for each block those that can follow it."""
        successors = [set(self._following(number, self.jumps)) for number in range(len(self.blocks))]
        self._add_reconvergence(successors)
        return tuple(tuple(sorted(targets)) for targets in successors)

    def _following(self, number: int, jumps: frozenset[int]) -> Iterator[int]:
        """Yield the blocks that can follow one by its last instruction; those of BSYNC are where lanes reconverge.

        `BRA.U !UP0, 0x110` has its condition among the operands.
        """
        last = self.blocks[number][-1]
        jumping = last.name in JUMPS or last.address in jumps
        if jumping and last.target in self._numbers:
            yield self._numbers[last.target]
        conditional = last.predicate is not None or (jumping and len(last.operands) > 1)
        goes_on = conditional or not (jumping or last.name in _NEVER_GO_ON or last.name == "BSYNC")
        if goes_on and number + 1 < len(self.blocks):
            yield number + 1

    # Reconvergence

    def _beginning_regions(self) -> Mapping[int, Mapping[str, int]]:
        """Return of each block with a BSSY the blocks in which lanes reconverge, by their barriers."""
        regions: dict[int, dict[str, int]] = {}
        for number, block in enumerate(self.blocks):
            for instruction in block:
                if instruction.name == "BSSY" and instruction.target in self._numbers:
                    regions.setdefault(number, {})[instruction.operands[0]] = self._numbers[instruction.target]
        return regions

    def _add_reconvergence(self, successors: list[set[int]]) -> None:
        """Let each `BSYNC Bn` be followed by what the last `BSSY Bn` before it names, on every way to it."""
        opened: list[dict[str, set[int]]] = [{} for _ in self.blocks]
        waiting = set(self._regions)
        while waiting:
            number = waiting.pop()
            now = opened[number] | {name: {block} for name, block in self._regions.get(number, {}).items()}
            last = self.blocks[number][-1]
            if last.name == "BSYNC":
                successors[number] |= now.get("".join(last.operands[:1]), set())
            for successor in successors[number]:
                known = opened[successor]
                merged = {name: known.get(name, set()) | targets for name, targets in now.items()}
                if any(merged[name] != known.get(name) for name in merged):
                    known.update(merged)
                    waiting.add(successor)
        for number, block in enumerate(self.blocks[:-1]):
            if block[-1].name == "BSYNC" and not successors[number]:
                successors[number] = {number + 1}

    # Calls that are jumps

    def _jumping_calls(self) -> frozenset[int]:
        """Return the addresses of calls that are jumps: ptxas leaves a long loop by `@P0 CALL.REL.NOINC`.

        From the target of such a call no RET is reached.
        """
        near = [block[-1] for block in self.blocks if block[-1].is_a("CALL.REL.NOINC")]
        led = [(call.address, self._numbers[call.target]) for call in near if call.target in self._numbers]
        returning = self._returning() if led else set()
        return frozenset(address for address, target in led if target not in returning)

    def _returning(self) -> set[int]:
        """Return the blocks from which a RET may be reached, calls taken to come back, and lanes to reconverge."""
        before: dict[int, list[int]] = {}
        for number, block in enumerate(self.blocks):
            following = {*self._following(number, frozenset()), *self._regions.get(number, {}).values()}
            if block[-1].name == "BSYNC" or block[-1].name in ANYWHERE:
                following.add(number + 1)
            for target in following:
                before.setdefault(target, []).append(number)
        returning: set[int] = set()
        waiting = [number for number, block in enumerate(self.blocks) if block[-1].name == "RET"]
        while waiting:
            number = waiting.pop()
            if number not in returning:
                returning.add(number)
                waiting += before.get(number, ())
        return returning
