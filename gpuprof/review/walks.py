"""The walks through a kernel: of all full warps of a block at once, and of some of them each where they differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gpuprof.review.code import KernelCode
from gpuprof.review.request_costs import WalkedWarp, all_told_of
from gpuprof.sass.dataflow.accesses import EveryAccess, every_access
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.dataflow.launch_constants import PlacedArgument, known_constants, pointers
from gpuprof.sass.dataflow.request_costs import Access
from gpuprof.sass.dataflow.solver import Solution, definition_graph
from gpuprof.sass.dataflow.warps import ThreadBlock, any_warp, warps_of
from gpuprof.sass.flow.graph import ControlFlowGraph, graph_of
from gpuprof.sass.instruction import Instruction
from gpuprof.units import SECTOR_BYTES

MOST_INSTRUCTIONS = 200_000
"""Instructions of a kernel that is walked through at all."""
_MOST_WALKED, _MOST_ROUNDS = 16_000, 24
"""Instructions of all warps that are looked at each; rounds through the code. Real kernels settle in ten rounds; more
take seconds."""
_MOST_WARPS = 8
_LINE_BYTES, _WORD_BYTES = 128, 4
ROWS = {"SR_TID.Y", "SR_TID.Z"}


class WarpLimit(NamedTuple):
    """How many warps of a block were looked at each, and how many it has."""

    looked_at: int
    warps: int


class KernelWalks(NamedTuple):
    """What accesses do in the warps that were looked at. `limit`: others may do something else, for all that is known.

    That is so where warps differ, or may, and the kernel is too long for as many walks as else.
    """

    warps: tuple[WalkedWarp, ...] = ()
    limit: WarpLimit | None = None


@lru_cache(maxsize=2)
def walks_of(code: KernelCode) -> KernelWalks:
    """Look at all full warps at once; at some of them each where lanes differ in what they run or touch."""
    graph = graph_of(code.code) if len(code.code) <= MOST_INSTRUCTIONS else None
    if graph is None:
        return KernelWalks()
    block = _block(code)
    walks = _Walks(graph, _constants(code, block))
    some = any_warp(block, only_x=not _reads_rows(code.code))
    every = walks.every(some) if some is not None else None
    whole = KernelWalks((WalkedWarp(every.known),) if every is not None else ())
    if block is None:
        return whole
    full = (block[0] * block[1] * block[2]) % LANES == 0
    if full and every is not None and not _is_open(every):
        return whole
    most, limit = _most_warps(code), _limit(code, block)
    if most == 0:
        return whole._replace(limit=limit)
    ends = [ThreadBlock(block, warps_of(block, max(2, most))[place].number) for place in (0, -1)]
    if full and every is not None and _are_alike(walks, every, ends):
        return whole
    each = [(walks.every(ThreadBlock(block, warp.number)), warp.weight) for warp in warps_of(block, most)]
    walked = tuple(WalkedWarp(accesses.known, weight) for accesses, weight in each if accesses is not None)
    return KernelWalks(walked, limit) if len(walked) == len(each) else whole


def _limit(code: KernelCode, block: tuple[int, int, int]) -> WarpLimit | None:
    """Return how many warps are looked at where the kernel is too long for as many as else; None where it is not."""
    most, warps = _most_warps(code), -(-block[0] * block[1] * block[2] // LANES)
    return WarpLimit(most, warps) if most < min(warps, _MOST_WARPS) else None


def _most_warps(code: KernelCode) -> int:
    """Return how many warps are looked at each at most."""
    return min(_MOST_WARPS, _MOST_WALKED // max(1, len(code.code)))


def _block(code: KernelCode) -> tuple[int, int, int] | None:
    """Return the block of a kernel, as it is given or as the kernel asks for it, if it has threads."""
    block = code.kernel.shape.block or code.kernel.kernel.required_block
    return block if block is not None and min(block) > 0 else None


def _are_alike(walks: _Walks, every: EveryAccess, warps: Sequence[ThreadBlock]) -> bool:
    """Tell whether these warps, the first and the last, do no more and no less than all do."""
    followed = frozenset(offset for (offset, _), access in every.known.items() if _may_cost_else(access))
    return any(
        all((known := walks.every(warp, addresses)) and _touch_alike(every, known, addresses) for warp in warps)
        for addresses in (followed, None)
    )


class _Walks:
    """Walks through a kernel, each made once."""

    def __init__(self, graph: ControlFlowGraph, constants: Mapping[int, int]) -> None:
        self._graph, self._constants = graph, constants
        self._known: dict[tuple[ThreadBlock, frozenset[int] | None], EveryAccess | None] = {}

    def every(self, block: ThreadBlock, addresses: frozenset[int] | None = None) -> EveryAccess | None:
        """Return what memory instructions do in a warp; only `addresses` are followed, if they are given."""
        key = block, addresses
        if key not in self._known:
            self._known[key] = every_access(Solution(definition_graph(self._graph), block, self._constants))
        return self._known[key]


def _may_cost_else(access: Access) -> bool:
    """Tell whether a request may cost something else in another warp whose lanes lie as far apart."""
    if access.offsets is None:
        return True
    boundary = _LINE_BYTES if access.kind == "copy" else SECTOR_BYTES if access.space == "global" else _WORD_BYTES
    return access.alignment % boundary != 0


def _touch_alike(every: EveryAccess, other: EveryAccess, addresses: Collection[int] | None = None) -> bool:
    """Tell whether what is known of one warp is no more and no less than of all; `addresses` were followed, or all."""
    if every.known.keys() != other.known.keys():
        return False
    for at, access in other.known.items():
        if addresses is not None and at[0] not in addresses:
            if access.active != every.known[at].active:
                return False
        elif all_told_of(access, WalkedWarp(other.known)) != all_told_of(every.known[at], WalkedWarp(every.known)):
            return False
    return True


def _reads_rows(code: Sequence[Instruction]) -> bool:
    """Tell whether a kernel reads threadIdx.y or threadIdx.z."""
    return any(operand in ROWS for instruction in code for operand in instruction.operands[1:2])


def _is_open(every: EveryAccess) -> bool:
    return every.undecided or any(access.offsets is None for access in every.known.values())


def _constants(code: KernelCode, block: tuple[int, int, int] | None) -> dict[int, int]:
    """Return what is known of constant bank 0: the launch configuration, arguments that are given, pointers."""
    kernel, shape = code.kernel.kernel, code.kernel.shape
    eight = {place.offset for place in kernel.parameters if place.size_bytes == 8}
    given = [
        PlacedArgument(place.offset, place.size_bytes, shape.arguments.get(place.ordinal))
        for place in kernel.parameters
    ]
    return known_constants(
        code.kernel.target,
        block,
        shape.grid,
        given,
        begin=kernel.parameters_offset,
        aligned=lambda begin: pointers(code.code, {begin + offset for offset in eight}) if eight else frozenset(),
    )
