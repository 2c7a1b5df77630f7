"""What a kernel's memory instructions touch: sectors and wavefronts of a request, as far as the code tells.

Of addresses that are known but for where they begin, as by a pointer, the beginning is taken to be a multiple of 128
bytes: a row that begins elsewhere takes a sector more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from gpuprof.code.flow.graph import graph_of
from gpuprof.code.lanes.access import (
    Access,
    EveryAccess,
    every_access,
    lane_stride,
    merges,
    needed,
    sectors,
    wavefronts,
)
from gpuprof.code.lanes.constants import PlacedArgument, known_constants, pointers
from gpuprof.code.lanes.operands import ThreadBlock
from gpuprof.code.lanes.warp_dependence import follows_from_warp
from gpuprof.code.lanes.warps import any_warp, warps_of
from gpuprof.code.sass.instruction import Instruction
from gpuprof.code.sass.requests import LaneRequest, Space, requests
from gpuprof.review.code import KernelCode
from gpuprof.review.contract import AccessKind, AccessSpace, CodeAccess
from gpuprof.review.strides import unknown_causes

_MOST_INSTRUCTIONS, _MOST_WALKED, _MOST_ROUNDS = 200_000, 16_000, 24
"""Instructions of a kernel that is walked through at all; instructions of all warps that are looked at each; rounds
through the code. Real kernels settle in ten rounds; more take seconds."""
_MOST_WARPS = 8
_SPACES: Mapping[Space, AccessSpace] = {
    "global": "global", "generic": "global", "shared": "shared", "local": "local"
}  # fmt: skip
_ROWS = {"SR_TID.Y", "SR_TID.Z"}
_KINDS: Mapping[str, AccessKind] = {"load": "load", "store": "store", "atomic": "atomic"}
_BEGINNINGS = "Sectors are counted as if pointers, and other bases that are not known, were aligned to 128 bytes."
_NO_BLOCK = "The block is not known, and which threads share a warp depends on it: --block X,Y,Z."
_WIDE_ROWS = "The block is not known: its rows are taken to be whole warps, or it is one row (--block X,Y,Z)."
_GENERIC = "the address is generic: the code does not say which memory it is in"
_MERGED = "lanes share words: how many wavefronts an atomic, or an access of 8 or 16 bytes, then takes is not known"
_NOT_FOLLOWED = "the address could not be followed through the code"
_COPIED_FROM = "the global addresses that it copies from are not known: each of their cache lines takes a wavefront"


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a request costs, on average over the warps that come to it, and what it would with the lanes side by side.

    None where that is not known. `merged`: because lanes touch the same words.
    """

    passes: float | None
    needed: float | None
    stride: int | None
    merged: bool = False


class _Seen(NamedTuple):
    """An access in one warp, the global side of an LDGSTS beside its shared one, and for how many warps it stands."""

    access: Access
    source: Access | None
    weight: float


class _Walked(NamedTuple):
    """What accesses do in one warp, and for how many warps that stands."""

    known: Mapping[tuple[int, Space], Access]
    weight: float


def accesses_of(code: KernelCode, innermost: Mapping[int, int]) -> tuple[CodeAccess, ...]:
    """Return its memory instructions in order; an LDGSTS twice."""
    asked = [(instruction, request) for instruction in code.code for request in requests(instruction)]
    if not asked:
        return ()
    try:
        walked = _walks(code)
    except (ValueError, IndexError, KeyError, OverflowError):  # code that no compiler wrote
        walked = ()
    costs = [_cost(instruction, request, walked) for instruction, request in asked]
    causes = unknown_causes(code) if any(cost.passes is None for cost in costs) else {}
    return tuple(
        _code_access(code, instruction, request, cost, causes, innermost.get(instruction.address))
        for (instruction, request), cost in zip(asked, costs, strict=True)
    )


def assumptions_of(code: KernelCode) -> tuple[str, ...]:
    """Return what the costs rest on that the code does not say, in sentences."""
    if not any(requests(instruction) for instruction in code.code):
        return ()
    reads = {operand for instruction in code.code for operand in instruction.operands[1:2]}
    if code.kernel.shape.block is not None or code.kernel.kernel.required_block is not None:
        return (_BEGINNINGS,)
    if reads & _ROWS:
        return (_BEGINNINGS, _NO_BLOCK)
    return (_BEGINNINGS, _WIDE_ROWS) if "SR_TID.X" in reads else (_BEGINNINGS,)


def _walks(code: KernelCode) -> tuple[_Walked, ...]:
    """Look at all full warps at once; at some of them each where lanes differ in what they run or touch."""
    graph = graph_of(code.code) if len(code.code) <= _MOST_INSTRUCTIONS else None
    if graph is None:
        return ()
    kernel, shape = code.kernel, code.kernel.shape
    block = shape.block or kernel.kernel.required_block
    block = block if block is not None and min(block) > 0 else None
    constants = _constants(code, block)
    some = any_warp(block, only_x=not _reads_rows(code.code))
    every = every_access(graph, some, constants, _MOST_ROUNDS) if some is not None else None
    whole = (_Walked(every.known, 1.0),) if every is not None else ()
    threads = block[0] * block[1] * block[2] if block is not None else 0
    most = min(_MOST_WARPS, _MOST_WALKED // max(1, len(code.code)))
    if block is None or most == 0 or not (every is None or threads % 32 or _is_open(every)):
        return whole
    if every is not None and threads % 32 == 0 and not follows_from_warp(graph, _unknown(every)):
        return whole
    warps = warps_of(block, most)
    walked: dict[int, EveryAccess | None] = {}
    some_warps = dict.fromkeys(warps[place].number for place in (0, -1))
    for number in (*some_warps, *(warp.number for warp in warps if warp.number not in some_warps)):
        if len(walked) == len(some_warps) and threads % 32 == 0 and _all_touch(whole, walked.values()):
            return whole
        walked[number] = every_access(graph, ThreadBlock(block, number), constants, _MOST_ROUNDS)
        if walked[number] is None:
            return whole
    each = ((walked[warp.number], warp.weight) for warp in warps)
    return tuple(_Walked(accesses.known, weight) for accesses, weight in each if accesses is not None)


def _all_touch(whole: Sequence[_Walked], looked_at: Iterable[EveryAccess | None]) -> bool:
    """Tell whether these warps, the first and the last, do no more and no less than all do."""
    if not whole:
        return False
    known = whole[0].known
    for accesses in looked_at:
        if accesses is None or accesses.known.keys() != known.keys():
            return False
        entry = _Walked(accesses.known, 1.0)
        if any(_shown(access, entry) != _shown(known[at], whole[0]) for at, access in accesses.known.items()):
            return False
    return True


def _shown(access: Access, entry: _Walked) -> object:
    """Return all that is told of an access."""
    seen = _seen(access, entry)._replace(weight=1.0)
    return _cost_of((seen,)), sum(access.active) > 1, merges(access)


def _reads_rows(code: Sequence[Instruction]) -> bool:
    """Tell whether a kernel reads threadIdx.y or threadIdx.z."""
    return any(operand in _ROWS for instruction in code for operand in instruction.operands[1:2])


def _is_open(every: EveryAccess) -> bool:
    return every.undecided or any(access.offsets is None for access in every.known.values())


def _unknown(every: EveryAccess) -> frozenset[int]:
    return frozenset(offset for (offset, _), access in every.known.items() if access.offsets is None)


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


def _cost(instruction: Instruction, request: LaneRequest, walked: Sequence[_Walked]) -> _Cost:
    """Return what a request costs, if it is known of all warps that were looked at and come to it."""
    at = instruction.address, request.space
    seen = tuple(_seen(entry.known[at], entry) for entry in walked if at in entry.known)
    return _Cost(None, None, None) if not seen or request.space == "generic" else _cost_of(seen)


def _seen(access: Access, entry: _Walked) -> _Seen:
    """Return what an access does, wherever it stands."""
    source = None
    if access.kind == "copy" and access.space == "shared":
        source = replace(entry.known.get((access.address, "global"), access), address=0)
    return _Seen(replace(access, address=0), source, entry.weight)


@lru_cache(maxsize=1 << 12)
def _cost_of(seen: tuple[_Seen, ...]) -> _Cost:
    passes = [_passes(entry) for entry in seen]
    known = [number for number in passes if number is not None]
    least = _mean(seen, [needed(entry.access) for entry in seen])
    if len(known) < len(passes):
        return _Cost(None, least, None, merged=any(merges(entry.access) for entry in seen))
    cost = _mean(seen, known)
    strides = {lane_stride(entry.access) for entry in seen if sum(entry.access.active) > 1}
    return _Cost(cost, min(cost, least), strides.pop() if len(strides) == 1 else None)


def _mean(seen: Sequence[_Seen], numbers: Sequence[int]) -> float:
    """Return the mean over the warps that each stands for, to nine decimals: equal numbers are their own mean."""
    weight = sum(entry.weight for entry in seen)
    return round(sum(number * entry.weight for number, entry in zip(numbers, seen, strict=True)) / weight, 9)


def _passes(seen: _Seen) -> int | None:
    access = seen.access
    if access.space != "shared":
        return sectors(access)
    if access.kind != "copy":
        return None if merges(access) else wavefronts(access)
    return wavefronts(access, seen.source)


def _code_access(
    code: KernelCode,
    instruction: Instruction,
    request: LaneRequest,
    cost: _Cost,
    causes: Mapping[tuple[int, str], str],
    loop: int | None,
) -> CodeAccess:
    space = _SPACES[request.space]
    file, line = code.lines.get(instruction.address, (None, None))
    return CodeAccess(
        offset=instruction.address,
        opcode=instruction.opcode,
        space=space,
        kind=_KINDS.get(request.kind, "load" if space == "global" else "store"),
        width_bytes=request.width_bytes,
        sectors_per_request=cost.passes if space != "shared" else None,
        wavefronts_per_request=cost.passes if space == "shared" else None,
        needed_per_request=cost.needed,
        lane_stride_bytes=cost.stride,
        unknown=_why(instruction, request, cost, causes) if cost.passes is None else "",
        loop=loop,
        file=file,
        line=line,
    )


def _why(instruction: Instruction, request: LaneRequest, cost: _Cost, causes: Mapping[tuple[int, str], str]) -> str:
    if request.space == "generic":
        return _GENERIC
    if cost.merged:
        return _MERGED
    told = causes.get((instruction.address, _SPACES[request.space]), "")
    if not told and request.kind == "copy" and request.space == "shared":
        source = causes.get((instruction.address, "global"), "")
        return f"{_COPIED_FROM}; {source}" if source else _COPIED_FROM
    return told or _NOT_FOLLOWED
