"""The memory accesses of a warp by the compiled code alone: the addresses of its lanes, and which of them run."""

from __future__ import annotations

from collections.abc import Sequence, Set
from functools import lru_cache

from msgspec.structs import replace

from gpuprof.sass.dataflow.definition_graph import AskedRequest
from gpuprof.sass.dataflow.evaluation import has_rule
from gpuprof.sass.dataflow.expressions import LANES, LinearExpr, apart, spread
from gpuprof.sass.dataflow.request_costs import Access
from gpuprof.sass.dataflow.solution import Solution
from gpuprof.sass.dataflow.warps import THREAD_INDICES
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import LaneRequest, Space

_ALL = (1 << LANES) - 1

_COMPARES = {"ISETP", "UISETP", "IMNMX", "VIMNMX"}
"""Opcodes whose results are known if their sources are exact."""

_FIXED = {"constant", "launch", "loaded", "shared"}

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


def may_differ(solution: Solution, known: Known) -> bool:
    """Return whether unknown addresses or predicates of any warp may be known in a single one.

    They may not if they follow from values that no warp knows: loaded from addresses with known distances between
    lanes, or results of opcodes without a rule.
    """
    unknown = {at for (at, _), access in known.items() if access.offsets is None}
    items = [flag for flag in solution.guards() if _is_undecided(solution, flag)]
    asked = (item for item in solution.definitions.asked if item.instruction.address in unknown)
    items += [where for where in map(solution.address, asked) if where is not None]
    never = _never_known(solution, items, unknown)
    for item in items:
        terms = _varying(solution, item)
        if terms and never.isdisjoint(terms):
            return True
    return False


def _never_known(solution: Solution, items: Sequence[LinearExpr], unknown: Set[int]) -> set[str]:
    """Return the symbols that values follow from and that are not known in single warps, either."""
    waiting = [name for item in items for name in _varying(solution, item)]
    users: dict[str, list[str]] = {name: [] for name in waiting}
    never = []
    while waiting:
        name = waiting.pop()
        reads = _reads(solution, name, unknown)
        if reads is None:
            never.append(name)
        for read in reads or ():
            if read not in users:
                users[read] = []
                waiting.append(read)
            users[read].append(name)
    seen = set(never)
    while never:
        new = [user for user in users[never.pop()] if user not in seen]
        seen.update(new)
        never += new
    return seen


def _reads(solution: Solution, name: str, unknown: Set[int]) -> list[str] | None:
    """Return the varying symbols that one follows from; None if it is never known."""
    symbol = solution.symbols.of[name]
    if symbol.kind == "start" or (symbol.kind in {"loaded", "shared"} and symbol.address not in unknown):
        return None
    place, compares = symbol.place, False
    if symbol.kind == "result" and place is not None:
        instruction = solution.graph.blocks[place.block][place.at]
        compares = instruction.name in _COMPARES
        if not has_rule(instruction):
            return None
    reads = list(symbol.factors)
    for source in symbol.reads:
        held = solution.held(source)
        if any(not isinstance(factor, int) or (compares and _is_fixed(solution, part)) for part, factor in held.terms):
            return None
        reads += _varying(solution, held)
    return reads


def _is_fixed(solution: Solution, name: str) -> bool:
    """Return whether a symbol is as unknown in each warp as in all."""
    return name not in THREAD_INDICES and solution.symbols.of[name].kind in _FIXED


def _varying(solution: Solution, held: LinearExpr) -> list[str]:
    return [name for name, _ in held.terms if solution.symbols.of[name].varies]


def _is_undecided(solution: Solution, flag: LinearExpr) -> bool:
    view = solution.symbols.lanes_of(flag)
    return view is None or not (view.exact or isinstance(view.lanes, int))


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
