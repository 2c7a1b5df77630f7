"""The rule on bank conflicts: requests to shared memory that take more wavefronts than their width needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.rule import amounts_of
from gpuprof.diagnose.thresholds import Threshold, context
from gpuprof.model.findings import Cases
from gpuprof.model.groups import collected
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.contract import CodeAccess
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.rules.rule import CodeRule, access_counts, code_finding
from gpuprof.sass.dataflow.expressions import LANES
from gpuprof.sass.dataflow.request_costs import Access, wavefronts

_ID = "shared-bank-conflict"
MORE_WAVEFRONTS = Threshold("more-wavefronts", 1.0, "wavefront/request")
_BANK_BYTES = 4
_MOST_PAD_BYTES = 32
_MATRICES = ("LDSM", "STSM")
_COPY = "LDGSTS"


def _bank_conflicts(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for each stride, or number of wavefronts, of requests that conflict."""
    shared = [access for access in facts.accesses if access.space == "shared" and access.kind != "atomic"]
    of_banks = [_without_lines(facts, access) for access in shared if _conflicts(access)]
    alike = collected(
        ((round(_ways(access), 2), access.lane_stride_bytes), access) for access in of_banks if _conflicts(access)
    )
    for accesses in alike:
        yield _conflict(facts, accesses)


def _conflicts(access: CodeAccess) -> bool:
    return _more(access) >= MORE_WAVEFRONTS.value


def _more(access: CodeAccess) -> float:
    return access.wavefronts_per_request - _least(access) if access.wavefronts_per_request is not None else 0.0


def _ways(access: CodeAccess) -> float:
    return (access.wavefronts_per_request or 0.0) / _least(access)


def _least(access: CodeAccess) -> float:
    """Return the wavefronts that a request needs: of 8 and 16 bytes per lane 2 and 4, even if lanes share words."""
    needed = access.needed_per_request or 1.0
    if access.opcode.startswith(_MATRICES):
        return needed
    return max(1.0, needed, access.width_bytes / _BANK_BYTES)


def _without_lines(facts: CodeFacts, access: CodeAccess) -> CodeAccess:
    """Return an access with the wavefronts that the banks alone take, as far as they are known.

    An LDGSTS also takes one for each cache line that it copies from, which no padding of the shared array changes.
    """
    if not access.opcode.startswith(_COPY):
        return access
    addresses = facts.addresses
    item = addresses.of.get((access.offset, "shared")) if addresses is not None else None
    passes = wavefronts(_request(access, item.apart)) if item is not None and item.known else None
    return replace(access, wavefronts_per_request=float(passes) if passes is not None else None)


def _request(access: CodeAccess, lanes: tuple[int, ...]) -> Access:
    """Return a request of a full warp by the distances of its lanes from the first."""
    return Access(
        address=access.offset,
        opcode=access.opcode,
        space="shared",
        kind="load",
        width_bytes=access.width_bytes,
        offsets=lanes,
    )


def _conflict(facts: CodeFacts, accesses: Sequence[CodeAccess]) -> Finding:
    stride = accesses[0].lane_stride_bytes
    worst = max(accesses, key=lambda access: (facts.depth(access.offset), _more(access), -access.offset))
    passes = worst.wavefronts_per_request or 0.0
    needed = _least(worst)
    counts, amounts = access_counts(access.kind for access in accesses)
    amounts += amounts_of("wavefront", passes=passes, needed=needed) + amounts_of("", ways=_ways(worst))
    why = ["split"]
    advice = ["pad-or-swizzle"]
    if stride is not None:
        why.append("stride")
        amounts += amounts_of("B", stride=abs(stride))
        pad = _padding(facts, worst, abs(stride))
        if pad is not None:
            advice.insert(0, "pad-by")
            amounts += amounts_of("B", pad=pad, row=abs(stride) + pad)
    return code_finding(
        facts,
        _ID,
        [facts.at[access.offset] for access in accesses],
        Cases(headline=("per-request", counts), why=tuple(why), advice=tuple(advice)),
        amounts=amounts,
        evidence=(
            Evidence("", passes, "wavefront/request", needed, role="wavefronts-of-request"),
            *context("access-bytes", worst.width_bytes, "B"),
            *context("lane-stride", stride, "B"),
        ),
    )


def _padding(facts: CodeFacts, access: CodeAccess, stride: int) -> int | None:
    """Return the bytes by which lanes have to lie further apart to hit different banks; None if none would do."""
    if stride < 2 * access.width_bytes:
        return None
    # Rows have to begin at a multiple of the widest access to shared memory.
    unit = max(_BANK_BYTES, *(other.width_bytes for other in facts.accesses if other.space == "shared"))
    for pad in range(unit, _MOST_PAD_BYTES + 1, unit):
        passes = wavefronts(_request(access, tuple((stride + pad) * lane for lane in range(LANES))))
        if passes is not None and passes <= _least(access):
            return pad
    return None


RULE = CodeRule(id=_ID, check=_bank_conflicts, thresholds=(MORE_WAVEFRONTS,))
