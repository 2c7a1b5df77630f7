"""Barriers of the whole block that some threads may not reach."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence

from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.divergence import divergent_branches
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.operands import LANE_BY_LANE, named, sources

_OF_ALL_THREADS = ("0x0",)
"""The operands of __syncthreads: barrier 0, without a number of threads."""


def conditional_barriers(facts: CodeFacts) -> Mapping[int, Instruction]:
    """Map the offset of each barrier whose condition differs between threads to the instruction with that condition.

    ptxas puts BSSY and BSYNC around code that threads may take differently; between them lies the jump that skips the
    barrier. A short branch becomes a predicate of the barrier itself: `@!P0 BAR.SYNC`.
    """
    barriers = [item for item in facts.named("BAR") if _is_of_block(item)]
    conditions = {barrier.address: barrier for barrier in barriers if _compares_index(facts, barrier)}
    regions = list(_regions(facts, [barrier.address for barrier in barriers]))
    if regions:
        for branch in divergent_branches(facts.code):
            for barrier in _skipped(branch, barriers):
                if any(start < branch.address and barrier.address < end for start, end in regions):
                    conditions.setdefault(barrier.address, branch)
    return conditions


def _is_of_block(instruction: Instruction) -> bool:
    return instruction.is_a("BAR.SYNC") and instruction.operands == _OF_ALL_THREADS


def _compares_index(facts: CodeFacts, barrier: Instruction) -> bool:
    """Return whether a barrier's predicate is known to compare a sum with the thread's index."""
    if barrier.predicate is None or facts.addresses is None:
        return False
    sums = facts.addresses.sums
    blocks = sums.graph.blocks
    for number, block in enumerate(blocks):
        if barrier not in block:
            continue
        for name in named(barrier.predicate):
            write = sums.read_by(number, block.index(barrier), name)
            if write.at >= 0 and blocks[write.block][write.at].name == "ISETP":
                return _reads_index(sums, write.block, write.at)
    return False


def _reads_index(sums: Solution, block: int, at: int) -> bool:
    """Return whether an instruction reads a sum with the thread's index, or what follows from one lane by lane.

    Addresses do not need the words that only predicates follow from, so those are followed here.
    """
    waiting, seen = [(block, at)], {(block, at)}
    while waiting:
        number, index = waiting.pop()
        instruction = sums.graph.blocks[number][index]
        if any(operand.startswith("SR_TID") for operand in instruction.operands):
            return True
        if instruction.name not in LANE_BY_LANE:
            continue
        for name in (name for operand in sources(instruction) for name in named(operand) if "P" not in name):
            place = sums.read_by(number, index, name)
            value = sums.held(place)
            if not isinstance(value.lanes, int) or any(_is_index(sums, symbol) for symbol, _ in value.terms):
                return True
            if place.at >= 0 and (place.block, place.at) not in seen:
                seen.add((place.block, place.at))
                waiting.append((place.block, place.at))
    return False


def _is_index(sums: Solution, symbol: str) -> bool:
    return symbol.startswith("SR_TID") or sums.symbols.of[symbol].kind == "lanes"


def _regions(facts: CodeFacts, barriers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the offsets of each BSSY with a barrier behind it, and of the end of its code."""
    for item in facts.named("BSSY"):
        if item.target is not None and bisect_left(barriers, item.address) < bisect_left(barriers, item.target):
            yield item.address, item.target


def _skipped(branch: Instruction, barriers: Sequence[Instruction]) -> Sequence[Instruction]:
    """Return the barriers that a forward jump skips, or that a backward jump repeats."""
    target = branch.address if branch.target is None else branch.target
    first, last = sorted((branch.address, target))
    addresses = [barrier.address for barrier in barriers]
    return barriers[bisect_left(addresses, first) : bisect_right(addresses, last - 1)]
