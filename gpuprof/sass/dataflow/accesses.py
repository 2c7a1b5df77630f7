"""The memory accesses of a warp by the compiled code alone: the addresses of its lanes, and which of them run."""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from gpuprof.sass.dataflow.definition_graph import AskedRequest
from gpuprof.sass.dataflow.expressions import LANES, apart, spread
from gpuprof.sass.dataflow.request_costs import Access
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import LaneRequest, Space

_ALL = (1 << LANES) - 1

Known = dict[tuple[int, Space], Access]
"""Accesses by the address of the instruction and the space."""


def accesses_of(solution: Solution) -> Known:
    """Return the accesses of a warp in all iterations, with the addresses that are known in block 0 alone."""
    known = every_access(solution) or {}
    if solution.reads_block_index and any(access.offsets is None for access in known.values()):
        first = Solution(solution.definitions, solution.warp._replace(first=True), solution.constants)
        for at, access in (every_access(first) or {}).items():
            if access.offsets is not None and known[at].offsets is None:
                known[at] = access
    return known


def every_access(solution: Solution) -> Known | None:
    """Return the accesses of a warp in all iterations; None if the kernel is too long.

    Lanes that diverge are assumed to reconverge as soon as their paths do, and indices not to wrap around between
    lanes. An LDGSTS has two accesses, of its shared and of its global side.
    """
    if not solution.settled:
        return None
    known: Known = {}
    for asked in solution.definitions.asked:
        access = _access(solution, asked)
        if access.runs:
            known[asked.instruction.address, asked.request.space] = access
    return known


def _access(solution: Solution, asked: AskedRequest) -> Access:
    active = solution.running(asked.block, asked.at) & (asked.request.lanes or _ALL)
    where = solution.symbols.lanes_of(solution.address(asked)) if asked.request.lanes and active else None
    access = access_of(asked.instruction, asked.request, active)
    if where is None:
        return access
    alignment = 1 << where.align
    return replace(access, offsets=apart(where.lanes), start=spread(where.lanes)[0] % alignment, alignment=alignment)


def access_of(instruction: Instruction, request: LaneRequest, active: int = _ALL) -> Access:
    """Return an access of these lanes whose addresses are not known."""
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
