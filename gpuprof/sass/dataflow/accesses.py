"""The memory accesses of a warp by the compiled code alone: the addresses of its lanes, and which of them run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.sass.dataflow.expressions import LANES, WORD, LinearExpr, signed, spread
from gpuprof.sass.dataflow.request_costs import Access, Holds
from gpuprof.sass.dataflow.solver import AskedRequest, FirstIteration, Solution, definition_graph
from gpuprof.sass.dataflow.warps import ThreadBlock
from gpuprof.sass.flow.graph import graph_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import LaneRequest, Space, requests

_ALL = (1 << LANES) - 1
_SCOPES: tuple[tuple[bool, Holds, Holds], ...] = (
    (False, "always", "first turn"),
    (True, "block 0", "first turn of block 0"),
)

Known = dict[tuple[int, Space], Access]
"""Accesses by the address of the instruction and the space."""


class EveryAccess(NamedTuple):
    """The memory accesses of one warp in all iterations. `undecided`: it is open which lanes run some of them."""

    known: Mapping[tuple[int, Space], Access]
    undecided: bool


def accesses(
    code: Sequence[Instruction], block: tuple[int, int, int], constants: Mapping[int, int], warp: int = 0
) -> tuple[Access, ...]:
    """Return the accesses of each memory instruction of a kernel by one warp of a block of threads.

    `constants` are the known bytes of constant bank 0 by their offset: `launch_constants.constants_for`. Other
    constants and values read from memory are not known. Lanes that diverge are assumed to reconverge as soon as their
    paths do, and indices not to wrap around between lanes. An LDGSTS has two entries, its shared and its global side.
    """
    asked = [(instruction, request) for instruction in code for request in requests(instruction)]
    known: Known = {}
    graph = graph_of(code) if asked else None
    for first, every, once in _SCOPES:
        if graph is not None and (not first or any(access.offsets is None for access in known.values())):
            solution = Solution(definition_graph(graph), ThreadBlock(block, warp, first), constants)
            if not solution.settled:
                break
            _note(every, known, solution)
            if graph.loops:
                _note(once, known, FirstIteration(solution))
    return tuple(
        known.get((instruction.address, request.space), _unknown(instruction, request, 0 if graph else _ALL))
        for instruction, request in asked
    )


def _note(holds: Holds, known: Known, solution: Solution) -> None:
    """Add the accesses that the warp comes to, and the addresses of those that are not known yet."""
    for asked in solution.definitions.asked:
        key = asked.instruction.address, asked.request.space
        old = known.get(key)
        if old is None or old.offsets is None:
            access = _access(solution, asked, holds)
            if access.runs and (old is None or access.offsets is not None):
                known[key] = access


def every_access(solution: Solution) -> EveryAccess | None:
    """Return the accesses of a warp; None if the kernel is too long."""
    if not solution.settled:
        return None
    known: Known = {}
    for asked in solution.definitions.asked:
        access = _access(solution, asked, "always")
        if access.runs:
            known[asked.instruction.address, asked.request.space] = access
    return EveryAccess(known, any(_is_open(flag) for flag in solution.guards()))


def _is_open(flag: LinearExpr | None) -> bool:
    return flag is None or not (flag.exact or isinstance(flag.lanes, int))


def _access(solution: Solution, asked: AskedRequest, holds: Holds) -> Access:
    active = solution.running(asked.block, asked.at) & (asked.request.lanes or _ALL)
    unknown = _unknown(asked.instruction, asked.request, active)
    where = solution.symbols.lanes_of(solution.address(asked)) if asked.request.lanes and active else None
    if where is None:
        return unknown
    first, *_ = lanes = spread(where.lanes)
    return replace(
        unknown,
        offsets=tuple([signed((lane - first) % WORD) for lane in lanes]),
        start=first % (1 << where.align),
        alignment=1 << where.align,
        holds=holds,
    )


def _unknown(instruction: Instruction, request: LaneRequest, active: int) -> Access:
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
