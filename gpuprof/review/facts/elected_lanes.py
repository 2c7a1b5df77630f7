"""Instructions that one lane runs for its warp: a comparison with its index, or a vote, chooses it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress
from gpuprof.sass.dataflow.expressions import LANES, lane_mask
from gpuprof.sass.dataflow.reaching_definitions import RegisterPlace
from gpuprof.sass.instruction import JUMPS, Instruction
from gpuprof.sass.operands import named

_AGREEING = ("VOTE", "REDUX", "CREDUX", "MATCH", "ELECT", "FLO", "POPC")
"""Opcodes by which a warp agrees on the lane that acts for it, as ptxas does when it aggregates atomics."""
_TESTS = frozenset({"LOP3", "PLOP3", "R2P"})
_EQUALITY = frozenset({"EQ", "NE"})
_MOST_FOLLOWED = 64
_MOST_OF_VALUES = 16
"""The most places after which values, and not only predicates, are followed."""


def is_of_one_lane(addresses: KernelAddresses, item: LaneAddress) -> bool:
    """Return whether one lane may run an access for its warp, by its predicate or by a branch on the way to it."""
    return any(_elects(addresses, guard) for guard in _guards(addresses, item))


def _guards(addresses: KernelAddresses, item: LaneAddress) -> Iterator[RegisterPlace]:
    """Yield the predicates that decide whether a lane runs an access."""
    sums = addresses.sums
    for name in named(item.instruction.predicate or ""):
        yield sums.read_by(item.block, item.index, name)
    block = item.block
    seen = {block}
    while len(seen) < _MOST_FOLLOWED:
        block = sums.graph.dominators.get(block, block)
        if block in seen:
            return
        seen.add(block)
        end = len(sums.graph.blocks[block]) - 1
        last = sums.graph.blocks[block][end]
        is_jump = last.name in {*JUMPS, "EXIT"}
        if not is_jump or not (last.predicate or len(last.operands) > 1):
            continue
        for operand in (last.predicate or "", *last.operands[:-1]):
            for name in named(operand):
                if "P" in name:
                    yield sums.read_by(block, end, name)


def _elects(addresses: KernelAddresses, guard: RegisterPlace) -> bool:
    """Return whether a predicate follows from a vote, or from an equality test of numbers that differ between lanes."""
    waiting = [guard]
    seen = {guard}
    while waiting and len(seen) < _MOST_FOLLOWED:
        place = waiting.pop()
        instruction = _written_by(addresses, place)
        if instruction is None:
            continue
        if instruction.name.removeprefix("U").startswith(_AGREEING):
            return True
        if "P" in place.name and _tests_lanes(addresses, place, instruction):
            return True
        follows_values = place is guard or len(seen) < _MOST_OF_VALUES
        for read in _reads(addresses, place, instruction):
            if read not in seen and (follows_values or "P" in read.name):
                seen.add(read)
                waiting.append(read)
    return False


def _written_by(addresses: KernelAddresses, place: RegisterPlace) -> Instruction | None:
    block = addresses.sums.graph.blocks[place.block]
    return block[place.at] if 0 <= place.at < len(block) else None


def _reads(addresses: KernelAddresses, place: RegisterPlace, instruction: Instruction) -> list[RegisterPlace]:
    names = dict.fromkeys(name for operand in instruction.operands for name in named(operand) if name != place.name)
    return [addresses.sums.read_by(place.block, place.at, name) for name in names]


def _tests_lanes(addresses: KernelAddresses, place: RegisterPlace, instruction: Instruction) -> bool:
    """Return whether an instruction tests the equality of numbers that differ between lanes and are not loaded.

    If the lanes that pass are known, it must be one lane, or all but one.
    """
    if instruction.name not in _TESTS and _EQUALITY.isdisjoint(instruction.opcode.split(".")):
        return False
    sums = addresses.sums
    passing = lane_mask(sums.symbols.lanes_of(sums.held(place)))
    if passing is not None:
        return passing.bit_count() in (1, LANES - 1)
    values = [sums.held(read) for read in _reads(addresses, place, instruction) if "P" not in read.name]
    if not any(map(sums.symbols.varies, values)):
        return False
    terms = [term for value in values for term, _ in value.terms if addresses.symbol(term).varies]
    kinds = {addresses.symbol(leaf).kind for leaf in addresses.leaves(*terms)} if terms else set()
    return kinds.isdisjoint({"loaded", "shared"})
