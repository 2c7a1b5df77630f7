"""The rule on bank conflicts: requests to shared memory that take more wavefronts than their width needs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.rule import amounts_of
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Amount, Cases
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.contract import CodeAccess
from gpuprof.review.facts import CodeFacts
from gpuprof.review.rules.rule import code_finding
from gpuprof.sass.lanes.access import Access, wavefronts
from gpuprof.sass.lanes.values import LANES

_BANK_BYTES = 4
_MOST_PAD_BYTES = 32
_MATRICES = ("LDSM", "STSM")
_COPY = "LDGSTS"


def bank_conflicts(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for each stride, or number of wavefronts, of requests that conflict."""
    groups: defaultdict[tuple[float, int | None], list[CodeAccess]] = defaultdict(list)
    conflicting = [
        access
        for access in facts.accesses
        if access.space == "shared" and access.kind != "atomic" and _more(access) >= 1.0
    ]
    for access in _without_lines(facts, conflicting):
        groups[round(_ways(access), 2), access.lane_stride_bytes].append(access)
    for (_, stride), accesses in groups.items():
        yield _finding(facts, stride, accesses)


def _without_lines(facts: CodeFacts, accesses: Sequence[CodeAccess]) -> Iterator[CodeAccess]:
    """Yield accesses with the wavefronts that the banks alone take.

    An LDGSTS also takes one for each cache line that it copies from, which no padding of the shared array changes.
    """
    copies = any(access.opcode.startswith(_COPY) for access in accesses)
    addresses = facts.addresses if copies else None
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


def _finding(facts: CodeFacts, stride: int | None, accesses: Sequence[CodeAccess]) -> Finding:
    worst = max(accesses, key=lambda access: (facts.depth(access.offset), _more(access), -access.offset))
    passes = worst.wavefronts_per_request or 0.0
    needed = _least(worst)
    kinds = Counter(access.kind for access in accesses)
    amounts = list(amounts_of("wavefront", passes=passes, needed=needed))
    amounts += amounts_of("", ways=_ways(worst))
    amounts += [Amount(f"{kind}s", float(count), kind) for kind, count in kinds.items()]
    why = ["split"]
    advice = ["pad-or-swizzle"]
    if stride is not None:
        why.append("stride")
        amounts += amounts_of("B", stride=abs(stride))
        pad = _padding(worst, stride, unit=_widest(facts))
        if pad is not None:
            advice.insert(0, "pad-by")
            amounts += amounts_of("B", pad=pad, row=abs(stride) + pad)
    of_kinds = "-and-".join(f"{kind}s" for kind in sorted(kinds))
    return code_finding(
        facts,
        "shared-bank-conflict",
        [facts.at[access.offset] for access in accesses if access.offset in facts.at],
        Cases(headline=("per-request", of_kinds), why=tuple(why), advice=tuple(advice)),
        amounts=amounts,
        evidence=(
            Evidence("", passes, "wavefront/request", needed, role="wavefronts-of-request"),
            *context("access-bytes", worst.width_bytes, "B"),
            *context("lane-stride", stride, "B"),
        ),
    )


def _widest(facts: CodeFacts) -> int:
    """Return the bytes of the widest access to shared memory: rows have to begin at a multiple of it."""
    return max(_BANK_BYTES, *(access.width_bytes for access in facts.accesses if access.space == "shared"))


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
