"""The memory accesses of a warp, from compiled code alone: the addresses of its lanes, and its active lanes."""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from gpuprof.sass.dataflow.definition_graph import PlacedRequest
from gpuprof.sass.dataflow.expressions import LANES, apart, spread
from gpuprof.sass.dataflow.request_costs import Access
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import LaneRequest, Space

_ALL = (1 << LANES) - 1

Accesses = dict[tuple[int, Space], Access]
"""Accesses by the address of the instruction and the space."""


def accesses_of(solution: Solution) -> Accesses:
    """Return the accesses of a warp. An address that is known in block 0 alone is that of block 0."""
    known = accesses_in_all_blocks(solution) or {}
    if solution.reads_block_index and any(access.offsets is None for access in known.values()):
        first = Solution(solution.definitions, solution.warp._replace(first=True), solution.constants)
        for at, access in (accesses_in_all_blocks(first) or {}).items():
            if access.offsets is not None and known[at].offsets is None:
                known[at] = access
    return known


def accesses_in_all_blocks(solution: Solution) -> Accesses | None:
    """Return the accesses of a warp that are valid in all blocks and iterations; None if the kernel is too long.

    Assumptions: lanes reconverge as soon as their paths meet, and indices do not wrap around between lanes. An LDGSTS
    has two accesses, one for shared and one for global memory.
    """
    if not solution.settled:
        return None
    known: Accesses = {}
    for placed in solution.definitions.requests:
        access = _access(solution, placed)
        if access.runs:
            known[placed.instruction.address, placed.request.space] = access
    return known


def _access(solution: Solution, placed: PlacedRequest) -> Access:
    active = solution.running(placed.block, placed.at) & (placed.request.lanes or _ALL)
    where = solution.symbols.lanes_of(solution.address(placed)) if placed.request.lanes and active else None
    access = access_of(placed.instruction, placed.request, active)
    if where is None:
        return access
    alignment = 1 << where.align
    return replace(access, offsets=apart(where.lanes), start=spread(where.lanes)[0] % alignment, alignment=alignment)


def access_of(instruction: Instruction, request: LaneRequest, active: int = _ALL) -> Access:
    """Return an access by these lanes with unknown addresses."""
    return Access(
        address=instruction.address,
        opcode=instruction.opcode,
        space=request.space,
        kind=request.kind,
        width_bytes=request.width_bytes,
        active=_lanes_of(active),
    )


@lru_cache(maxsize=1 << 8)
def _lanes_of(mask: int) -> tuple[bool, ...]:
    return tuple(bool(mask >> lane & 1) for lane in range(LANES))
