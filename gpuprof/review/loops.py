"""The loops of a kernel: nesting, trip counts that are constants, the loop around each instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.code.binary.elf import INSTRUCTION_BYTES
from gpuprof.code.flow.loops import Loop, find_loops
from gpuprof.code.formulas.trips import trip_counts
from gpuprof.code.sass.instruction import Instruction
from gpuprof.review.code import KernelCode
from gpuprof.review.constants import constants_of
from gpuprof.review.contract import CodeLoop


class _Nest(NamedTuple):
    """Loops by the offsets of their headers, of each the index of that around it, and of instructions the innermost."""

    loops: tuple[Loop, ...]
    parents: tuple[int | None, ...]
    innermost: Mapping[int, int]


def loops_of(code: KernelCode) -> tuple[CodeLoop, ...]:
    """Return the loops by the offsets of their headers; the id of each is its index."""
    nest = _nest(code.code)
    if not nest.loops:
        return ()
    trips = trip_counts(code.code, constants_of(code))
    depths = _depths(nest.parents)
    return tuple(
        _code_loop(code, number, loop, parent=nest.parents[number], depth=depths[number], trips=trips.get(loop.header))
        for number, loop in enumerate(nest.loops)
    )


def innermost_loops(code: KernelCode) -> Mapping[int, int]:
    """Return the id of the innermost loop around each instruction that is in one, by offset."""
    return _nest(code.code).innermost


@lru_cache(maxsize=2)
def _nest(code: tuple[Instruction, ...]) -> _Nest:
    """Find the loops, from the smallest on, so that the first around something is the innermost."""
    smallest_first = find_loops(code)
    loops = tuple(sorted(smallest_first, key=lambda loop: loop.header))
    number_of = {loop.header: number for number, loop in enumerate(loops)}
    parents: list[int | None] = [None] * len(loops)
    innermost: dict[int, int] = {}
    alone: set[int] = set()
    for loop in smallest_first:
        number = number_of[loop.header]
        for instruction in loop.instructions:
            innermost.setdefault(instruction.address, number)
            if instruction.address in alone:
                alone.remove(instruction.address)
                parents[number_of[instruction.address]] = number
        alone.add(loop.header)
    return _Nest(loops, tuple(parents), innermost)


def _depths(parents: Sequence[int | None]) -> list[int]:
    """Return how many loops there are around each and with it."""
    depths: list[int] = []
    for number in range(len(parents)):
        depth, around = 1, parents[number]
        while around is not None:
            depth, around = depth + 1, parents[around]
        depths.append(depth)
    return depths


def _code_loop(
    code: KernelCode, number: int, loop: Loop, *, parent: int | None, depth: int, trips: int | None
) -> CodeLoop:
    file, line = code.lines.get(loop.header, (None, None))
    addresses = [instruction.address for instruction in loop.instructions]
    return CodeLoop(
        id=number,
        parent=parent,
        depth=depth,
        start=min(addresses),
        end=max(addresses) + INSTRUCTION_BYTES,
        instructions=len(addresses),
        trips=trips,
        file=file,
        line=line,
    )
