"""Instructions that one lane runs for its warp, elected by a comparison with its index or by a vote."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.sass.dataflow.addresses import KernelAddresses, LaneAddress
from gpuprof.sass.dataflow.expressions import LANES, lane_mask
from gpuprof.sass.dataflow.reaching_definitions import Definition
from gpuprof.sass.operands import named

_AGREEING = ("VOTE", "REDUX", "CREDUX", "MATCH", "ELECT", "FLO", "POPC")
"""Opcodes by which a warp elects a lane, as ptxas does to aggregate atomics."""
_TESTS = frozenset({"LOP3", "PLOP3", "R2P"})
_EQUALITY = frozenset({"EQ", "NE"})
_MOST_FOLLOWED = 64


def is_of_one_lane(addresses: KernelAddresses, item: LaneAddress) -> bool:
    """Return whether an access may be run by one elected lane, by its predicate or by a branch before it."""
    return any(_elects(addresses, guard) for guard in _guards(addresses, item))


def _guards(addresses: KernelAddresses, item: LaneAddress) -> Iterator[Definition]:
    """Yield the predicates that decide whether a lane runs an access."""
    definitions = addresses.solution.definitions
    yield from definitions.read_in(item.block, item.index, named(item.instruction.predicate or ""))
    dominators = addresses.solution.graph.dominators
    block = item.block
    for _ in range(_MOST_FOLLOWED):
        above = dominators.get(block, block)
        if above == block:
            return
        block = above
        end = len(addresses.solution.graph.blocks[block]) - 1
        yield from definitions.read_in(block, end, definitions.conditions(block))


def _elects(addresses: KernelAddresses, guard: Definition) -> bool:
    """Return whether a predicate depends on a vote, or on an equality test of numbers that differ between lanes."""
    definitions = addresses.solution.definitions
    waiting = [guard]
    seen = {guard}
    while waiting and len(seen) < _MOST_FOLLOWED:
        place = waiting.pop()
        if place.at >= 0 and place.unguarded:
            instruction = definitions.graph.blocks[place.block][place.at]
            if instruction.name.removeprefix("U").startswith(_AGREEING):
                return True
            if "P" in place.name and _tests_lanes(addresses, place):
                return True
        new = [read for read in definitions.reaching.sources(place) if read not in seen]
        seen.update(new)
        waiting += new
    return False


def _tests_lanes(addresses: KernelAddresses, place: Definition) -> bool:
    """Return whether an instruction tests the equality of numbers that differ between lanes and are not loaded.

    If the lanes in which it is true are known, they have to be one lane, or all but one.
    """
    solution = addresses.solution
    instruction = solution.graph.blocks[place.block][place.at]
    if instruction.name not in _TESTS and _EQUALITY.isdisjoint(instruction.opcode.split(".")):
        return False
    passing = lane_mask(solution.symbols.lanes_of(solution.value_of(place)))
    if passing is not None:
        return passing.bit_count() in (1, LANES - 1)
    values = [solution.value_of(read) for read in solution.definitions.reaching.sources(place) if "P" not in read.name]
    if not any(map(solution.symbols.varies, values)):
        return False
    terms = [term for value in values for term, _ in value.terms if addresses.symbol(term).varies]
    kinds = {addresses.symbol(leaf).kind for leaf in addresses.leaves(*terms)} if terms else set()
    return kinds.isdisjoint({"loaded", "shared"})
