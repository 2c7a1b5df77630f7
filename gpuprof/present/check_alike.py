"""What of a review is shown once: findings of a line, accesses that are alike, memory as on another architecture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.model.session import Finding
from gpuprof.present.check_blocks import Block, BlockFinding
from gpuprof.present.check_text import access_cost, is_costly, where_text
from gpuprof.review.contract import CodeAccess, Review, ReviewedKernel

_BY_PLACE = ("offset", "opcode", "start", "end", "instructions", "id", "parent")
"""Fields of loops and accesses that differ between architectures although the line is the same."""


class PlacedFinding(Struct, frozen=True):
    """A finding at a line, with the kernels that have it; none where it is on the files as a whole."""

    finding: Finding
    owners: tuple[tuple[Block, BlockFinding], ...]


class AlikeAccesses(Struct, frozen=True, kw_only=True):
    """Accesses that are alike: the first of them, and how many there are."""

    access: CodeAccess
    number: int


def placed_findings(review: Review, blocks: Sequence[Block]) -> list[PlacedFinding]:
    """Return each finding once, that in the deepest loops first: instances of a template share their lines."""
    told: dict[tuple[object, ...], tuple[Finding, list[tuple[Block, BlockFinding]]]] = {}
    for finding in review.findings:
        told[(finding.rule, finding.headline, where_text(finding))] = (finding, [])
    for block in blocks:
        for item in block.findings:
            key = (item.finding.rule, item.finding.headline, where_text(item.finding) or block.kernel.id)
            told.setdefault(key, (item.finding, []))[1].append((block, item))
    placed = [PlacedFinding(finding, tuple(owners)) for finding, owners in told.values()]
    return sorted(placed, key=lambda item: -item.finding.loops)


def alike_accesses(accesses: Sequence[CodeAccess], *, by_opcode: bool) -> list[AlikeAccesses]:
    """Return the accesses in the order of the code, those that are alike once.

    Where line information tells the place, its offset does not count, nor does its opcode unless `by_opcode`.
    """
    keys = [_key(access, by_opcode=by_opcode) for access in accesses]
    number = Counter(keys)
    first: dict[CodeAccess, CodeAccess] = {}
    for key, access in zip(keys, accesses, strict=True):
        if key not in first or access.offset < first[key].offset:
            first[key] = access
    rows = [AlikeAccesses(access=access, number=number[key]) for key, access in first.items()]
    return sorted(rows, key=lambda row: row.access.offset)


def most_worth(rows: Sequence[AlikeAccesses], most: int) -> list[AlikeAccesses]:
    """Return so many rows in their order: what costs more than it needs, what is not known, then the rest."""
    if len(rows) <= most:
        return list(rows)
    kept = sorted(range(len(rows)), key=lambda index: _worth(rows[index].access))[:most]
    return [rows[index] for index in sorted(kept)]


def same_memory(kernel: ReviewedKernel, other: ReviewedKernel) -> bool:
    """Tell whether loops and accesses of two kernels are shown alike."""
    return memory_key(kernel) == memory_key(other)


def memory_key(kernel: ReviewedKernel) -> tuple[object, ...]:
    """Return what is shown of loops and accesses: kernels that have it in common are told once."""
    return (tuple(map(_plain, kernel.loops)), tuple(map(_plain, kernel.accesses)))


def _key(access: CodeAccess, *, by_opcode: bool) -> CodeAccess:
    if access.file is None:
        return access
    return replace(access, offset=0) if by_opcode else replace(access, offset=0, opcode="")


def _worth(access: CodeAccess) -> tuple[int, float]:
    cost = access_cost(access)
    if is_costly(access):
        return 0, -(cost or 0.0)
    return (1, 0.0) if cost is None else (2, -cost)


def _plain(item: object) -> tuple[object, ...]:
    """Return what is shown of a loop or an access, which has its place by its line and not by an offset."""
    fields: tuple[str, ...] = getattr(item, "__struct_fields__", ())
    return tuple(getattr(item, name) for name in fields if name not in _BY_PLACE)
