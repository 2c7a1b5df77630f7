"""The costs of the requests of a kernel's memory instructions: sectors and wavefronts.

Unknown bases of addresses, such as pointers, are assumed to be multiples of 128 bytes. Rows that start inside a sector
take one more.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuprof.review.code import KernelCode
from gpuprof.review.contract import AccessKind, AccessSpace, CodeAccess
from gpuprof.review.facts.mean_costs import RequestCost, cost_of
from gpuprof.review.facts.solutions import MOST_INSTRUCTIONS, block_of, reads_rows
from gpuprof.review.facts.strides import unknown_causes
from gpuprof.review.facts.warp_accesses import warp_accesses
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.requests import LaneRequest, Space, requests

_SPACES: Mapping[Space, AccessSpace] = {
    "global": "global", "generic": "global", "shared": "shared", "local": "local"
}  # fmt: skip
_KINDS: Mapping[str, AccessKind] = {"load": "load", "store": "store", "atomic": "atomic"}
_BEGINNINGS = "Pointers and other unknown bases of addresses are assumed to be aligned to 128 bytes."
_NO_BLOCK = "The block size is not known. It decides which threads share a warp: --block X,Y,Z."
_WIDE_ROWS = "The block size is not known. Its rows are assumed to be whole warps, or it is one row: --block X,Y,Z."
_GENERIC = "the address is generic: the code does not show its memory space"
_MERGED = "lanes share words: the wavefronts of such atomics, and of accesses of 8 or 16 bytes, are not known"
_TOO_LONG = f"the kernel has more than {MOST_INSTRUCTIONS:,} instructions: its addresses are not followed"
_NOT_FOLLOWED = "the address could not be derived from the code"
_COPIED_FROM = "its global addresses are not known, and each of their cache lines takes a wavefront"


def accesses_of(code: KernelCode, innermost: Mapping[int, int]) -> tuple[CodeAccess, ...]:
    """Return the memory instructions of a kernel in order; an LDGSTS has two entries."""
    all_requests = [(instruction, request) for instruction in code.code for request in requests(instruction)]
    if not all_requests:
        return ()
    analysed = warp_accesses(code).warps
    costs = [cost_of((instruction.address, request.space), analysed) for instruction, request in all_requests]
    followed = len(code.code) <= MOST_INSTRUCTIONS
    causes = unknown_causes(code) if followed and any(cost.passes is None for cost in costs) else {}
    return tuple(
        _code_access(code, instruction, request, cost, causes, innermost.get(instruction.address))
        for (instruction, request), cost in zip(all_requests, costs, strict=True)
    )


def assumptions_of(code: KernelCode) -> tuple[str, ...]:
    """Return the assumptions behind the costs, in sentences."""
    if not any(requests(instruction) for instruction in code.code):
        return ()
    if block_of(code) is not None:
        return (_BEGINNINGS, *_limits(code))
    if reads_rows(code):
        return (_BEGINNINGS, _NO_BLOCK)
    reads = any("SR_TID.X" in instruction.operands[1:2] for instruction in code.code)
    return (_BEGINNINGS, _WIDE_ROWS) if reads else (_BEGINNINGS,)


def _limits(code: KernelCode) -> tuple[str, ...]:
    """Return the limits of the analysis of long kernels, in sentences."""
    limit = warp_accesses(code).limit
    if limit is None:
        return ()
    if not limit.analysed:
        return ("Whether the warps of a block all do the same was not checked: the kernel is long.",)
    return (f"Only {limit.analysed} of {limit.warps} warps of a block were checked: the kernel is long.",)


def _code_access(
    code: KernelCode,
    instruction: Instruction,
    request: LaneRequest,
    cost: RequestCost,
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
        unknown=_why(code, instruction, request, cost=cost, causes=causes) if cost.passes is None else "",
        loop=loop,
        file=file,
        line=line,
    )


def _why(
    code: KernelCode,
    instruction: Instruction,
    request: LaneRequest,
    *,
    cost: RequestCost,
    causes: Mapping[tuple[int, str], str],
) -> str:
    """Return the reason for the unknown cost of a request."""
    if len(code.code) > MOST_INSTRUCTIONS:
        return _TOO_LONG
    if request.space == "generic":
        return _GENERIC
    if cost.merged:
        return _MERGED
    cause = causes.get((instruction.address, _SPACES[request.space]), "")
    if not cause and request.kind == "copy" and request.space == "shared":
        source = causes.get((instruction.address, "global"), "")
        return f"{_COPIED_FROM}; {source}" if source else _COPIED_FROM
    return cause or _NOT_FOLLOWED
