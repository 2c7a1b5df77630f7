"""The rule on bank conflicts: requests to shared memory that take more wavefronts than their width needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

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


class _Conflict(NamedTuple):
    """An access, the wavefronts of a request, and the wavefronts that it needs."""

    access: CodeAccess
    passes: float
    needed: float

    @property
    def more(self) -> float:
        """Return the excess wavefronts of a request."""
        return self.passes - self.needed

    @property
    def ways(self) -> float:
        """Return the wavefronts ÷ those that it needs."""
        return self.passes / self.needed


def _bank_conflicts(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for each stride, or number of wavefronts, of requests that conflict."""
    found = [conflict for conflict in _conflicts(facts) if conflict.more >= MORE_WAVEFRONTS.value]
    for alike in collected(((round(item.ways, 2), item.access.lane_stride_bytes), item) for item in found):
        yield _finding(facts, alike)


def _conflicts(facts: CodeFacts) -> Iterator[_Conflict]:
    """Yield the accesses to shared memory with the wavefronts that bank conflicts explain, if known.

    An LDGSTS also takes a wavefront for each cache line that it copies from. These are left out: padding of the shared
    array does not change them.
    """
    for access in facts.accesses:
        passes: float | None = access.wavefronts_per_request
        if access.space != "shared" or access.kind == "atomic" or passes is None:
            continue
        if access.opcode.startswith(_COPY) and passes - _least(access) >= MORE_WAVEFRONTS.value:
            item = facts.addresses.by_request.get((access.offset, "shared")) if facts.addresses is not None else None
            passes = wavefronts(_request(access, item.apart)) if item is not None and item.known else None
        if passes is not None:
            yield _Conflict(access, passes, _least(access))


def _least(access: CodeAccess) -> float:
    """Return the wavefronts that a request needs: 2 for 8 bytes per lane and 4 for 16, even if lanes share words."""
    needed = access.needed_per_request or 1.0
    if access.opcode.startswith(_MATRICES):
        return needed
    return max(1.0, needed, access.width_bytes / _BANK_BYTES)


def _request(access: CodeAccess, lanes: tuple[int, ...]) -> Access:
    """Return a request of a full warp with these distances of its lanes from the first."""
    return Access(
        address=access.offset,
        opcode=access.opcode,
        space="shared",
        kind="load",
        width_bytes=access.width_bytes,
        offsets=lanes,
    )


def _finding(facts: CodeFacts, conflicts: Sequence[_Conflict]) -> Finding:
    worst = max(conflicts, key=lambda item: (facts.depth(item.access.offset), item.more, -item.access.offset))
    stride = worst.access.lane_stride_bytes
    counts, amounts = access_counts(item.access.kind for item in conflicts)
    amounts += amounts_of("wavefront", passes=worst.passes, needed=worst.needed) + amounts_of("", ways=worst.ways)
    why = ["split"]
    advice = ["pad-or-swizzle"]
    if stride is not None:
        why.append("stride")
        amounts += amounts_of("B", stride=abs(stride))
        pad = _padding(facts, worst.access, abs(stride))
        if pad is not None:
            advice.insert(0, "pad-by")
            amounts += amounts_of("B", pad=pad, row=abs(stride) + pad)
    return code_finding(
        facts,
        _ID,
        [facts.at[item.access.offset] for item in conflicts],
        Cases(headline=("per-request", counts), why=tuple(why), advice=tuple(advice)),
        amounts=amounts,
        evidence=(
            Evidence("", worst.passes, "wavefront/request", worst.needed, role="wavefronts-of-request"),
            *context("access-bytes", worst.access.width_bytes, "B"),
            *context("lane-stride", stride, "B"),
        ),
    )


def _padding(facts: CodeFacts, access: CodeAccess, stride: int) -> int | None:
    """Return the least padding, in bytes per lane, that avoids the conflicts; None if there is none."""
    if stride < 2 * access.width_bytes:
        return None
    # Rows have to start at multiples of the widest access to shared memory.
    unit = max(_BANK_BYTES, *(other.width_bytes for other in facts.accesses if other.space == "shared"))
    for pad in range(unit, _MOST_PAD_BYTES + 1, unit):
        passes = wavefronts(_request(access, tuple((stride + pad) * lane for lane in range(LANES))))
        if passes is not None and passes <= _least(access):
            return pad
    return None


RULE = CodeRule(id=_ID, check=_bank_conflicts, thresholds=(MORE_WAVEFRONTS,))
