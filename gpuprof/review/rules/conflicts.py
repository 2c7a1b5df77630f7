"""The rule on bank conflicts: requests to shared memory that take more wavefronts than their width needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.review.case import CodeCase
from gpuprof.review.contract import CodeAccess, CodeFinding
from gpuprof.review.rules.rule import code_evidence, finding_at
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.dataflow.request_costs import Access, wavefronts
from gpuprof.units import counted

_BANK_BYTES = 4
_MOST_PAD_BYTES = 32
_MATRICES = ("LDSM", "STSM")
_COPY = "LDGSTS"


def bank_conflicts(case: CodeCase) -> Iterator[CodeFinding]:
    """Yield a finding for each stride, or number of wavefronts, of requests that conflict."""
    groups: defaultdict[tuple[float, int | None], list[CodeAccess]] = defaultdict(list)
    conflicting = [
        access
        for access in case.accesses
        if access.space == "shared" and access.kind != "atomic" and _more(access) >= 1.0
    ]
    for access in _without_lines(case, conflicting):
        groups[round(_ways(access), 2), access.lane_stride_bytes].append(access)
    for (_, stride), accesses in groups.items():
        yield _finding(case, stride, accesses)


def _without_lines(case: CodeCase, accesses: Sequence[CodeAccess]) -> Iterator[CodeAccess]:
    """Yield accesses with the wavefronts that the banks alone take.

    An LDGSTS also takes one for each cache line that it copies from, which no padding of the shared array changes.
    """
    copies = any(access.opcode.startswith(_COPY) for access in accesses)
    addresses = case.addresses if copies else None
    for access in accesses:
        if not access.opcode.startswith(_COPY):
            yield access
            continue
        item = addresses.of.get((access.offset, "shared")) if addresses is not None else None
        passes = wavefronts(_at(access, item.apart)) if item is not None and item.known else None
        told = replace(access, wavefronts_per_request=float(passes)) if passes is not None else None
        if told is not None and _more(told) >= 1.0:
            yield told


def _at(access: CodeAccess, offsets: tuple[int, ...]) -> Access:
    """Return a request of a full warp whose lanes lie so far behind its first."""
    return Access(
        address=access.offset,
        opcode=access.opcode,
        space="shared",
        kind="load",
        width_bytes=access.width_bytes,
        offsets=offsets,
    )


def _more(access: CodeAccess) -> float:
    return access.wavefronts_per_request - _least(access) if access.wavefronts_per_request is not None else 0.0


def _least(access: CodeAccess) -> float:
    """Return the wavefronts that a request needs: of 8 and 16 bytes a lane 2 and 4, even if lanes share words."""
    needed = access.needed_per_request or 1.0
    if access.opcode.startswith(_MATRICES):
        return needed
    return max(1.0, needed, access.width_bytes / _BANK_BYTES)


def _ways(access: CodeAccess) -> float:
    return (access.wavefronts_per_request or 0.0) / _least(access)


def _finding(case: CodeCase, stride: int | None, accesses: Sequence[CodeAccess]) -> CodeFinding:
    worst = max(accesses, key=lambda access: (case.depth(access.offset), _more(access), -access.offset))
    passes, needed = worst.wavefronts_per_request or 0.0, _least(worst)
    pad = _padding(worst, stride, unit=_widest(case))
    apart = f" Lanes are {abs(stride)} B apart." if stride is not None else ""
    padded = (
        f"Rows of {abs(stride) + pad} B, {pad} B longer, would take {counted(round(needed), 'wavefront')} per request. "
        if pad and stride
        else ""
    )
    return finding_at(
        case,
        "shared-bank-conflict",
        [case.at[access.offset] for access in accesses if access.offset in case.at],
        headline=f"Shared-memory bank conflicts: {passes:.3g} wavefronts per request, {needed:.3g} needed "
        f"({_ways(worst):.3g}-way){_kinds(accesses)}",
        why="Threads of a warp hit different words of one bank, so the access is split into several wavefronts, "
        f"{_ways(worst):.3g} times as many as needed.{apart}",
        action="Pad or swizzle the shared array so that a warp's threads hit different banks",
        advice=f"{padded}Pad the rows of the shared array (for example [32][33]), or swizzle the column index with "
        "the row (XOR). In Triton, transpose with tl.trans or change num_warps to get another layout.",
        evidence=(
            code_evidence(
                passes, "wavefront/request", "wavefronts per request, against those needed", threshold=needed
            ),
            code_evidence(worst.width_bytes, "B", "bytes per thread in one access"),
            *((code_evidence(stride, "B", "stride from lane to lane"),) if stride is not None else ()),
        ),
    )


def _kinds(accesses: Sequence[CodeAccess]) -> str:
    kinds = [(kind, sum(access.kind == kind for access in accesses)) for kind in ("load", "store")]
    told = [f"{count} {kind}s" if count > 1 else f"a {kind}" for kind, count in kinds if count]
    return f": {' and '.join(told)}"


def _widest(case: CodeCase) -> int:
    """Return the bytes of the widest access to shared memory: rows have to begin at a multiple of it."""
    return max(_BANK_BYTES, *(access.width_bytes for access in case.accesses if access.space == "shared"))


def _padding(access: CodeAccess, stride: int | None, *, unit: int) -> int | None:
    """Return by how many bytes lanes have to lie further apart, so that they hit different banks; None: by none."""
    if stride is None or abs(stride) < 2 * access.width_bytes:
        return None
    for pad in range(unit, _MOST_PAD_BYTES + 1, unit):
        moved = _at(access, tuple((abs(stride) + pad) * lane for lane in range(LANES)))
        passes = wavefronts(moved)
        if passes is not None and passes <= _least(access):
            return pad
    return None
