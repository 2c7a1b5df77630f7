"""The rule on coalescing: excess sectors of global accesses, and the fix for each shape of access."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from gpuprof.diagnose.access_shape import cases_of_shape, lane_evidence
from gpuprof.diagnose.rule import amounts_of, labels_of
from gpuprof.diagnose.thresholds import MORE_SECTORS
from gpuprof.model.findings import Cases
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.contract import CodeAccess
from gpuprof.review.excess_sectors import ExcessAccess, extra_sectors, is_global, shares_words
from gpuprof.review.facts import CodeFacts
from gpuprof.review.kernel import ArgumentPart
from gpuprof.review.rules.rule import CodeRule, access_counts, code_finding
from gpuprof.review.strides import argument_words, costs_of_values, stride_arguments
from gpuprof.sass.formulas.addresses import LaneAddress, stride_of
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.lanes.values import LANES
from gpuprof.sass.patterns.lane_shapes import ShapeName
from gpuprof.units import SECTOR_BYTES

_ID = "uncoalesced-global"
_WALKED_BYTES = 128
"""A thread that moves on by at most a cache line in each iteration comes back for the words beside the first."""


def _uncoalesced(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for each shape of access with excess sectors, and for each argument that may cause them."""
    groups: defaultdict[ShapeName, list[ExcessAccess]] = defaultdict(list)
    for excess in facts.excess.values():
        if not excess.by_lanes:
            groups[excess.shape.name].append(excess)
    for name, accesses in groups.items():
        yield _of_shape(facts, name, accesses)
    yield from _by_argument(facts)


def _of_shape(facts: CodeFacts, name: ShapeName, accesses: Sequence[ExcessAccess]) -> Finding:
    worst = max(accesses, key=lambda of: (facts.depth(of.access.offset), extra_sectors(of.access), -of.access.offset))
    access = worst.access
    sectors = access.sectors_per_request or 0.0
    needed = access.needed_per_request or 0.0
    counts, amounts = access_counts(of.access.kind for of in accesses)
    stride = access.lane_stride_bytes
    why = (name,) if stride is None else ("lane-stride", name)
    of_shape = cases_of_shape(name)
    return code_finding(
        facts,
        _ID,
        _instructions(facts, (of.access for of in accesses)),
        Cases(headline=("per-request", counts), why=why, action=of_shape.action, advice=of_shape.advice),
        amounts=(
            *amounts,
            *amounts_of("sector", sectors=sectors, needed=needed),
            *amounts_of("B", stride=abs(stride) if stride is not None else None),
        ),
        evidence=(
            Evidence("", sectors, "sector/request", needed, role="sectors-of-request"),
            *lane_evidence(worst.shape),
        ),
        is_guess=name == "misaligned",
    )


class _OpenAccess(NamedTuple):
    """An access whose stride is a product with arguments, the sectors of a request by their value, and those needed."""

    access: CodeAccess
    item: LaneAddress
    sectors: Mapping[int, int]
    needed: float


def _by_argument(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for each argument, or product of them, that may be a large stride."""
    unknown = [access for access in facts.accesses if is_global(access) and access.sectors_per_request is None]
    addresses = facts.addresses if unknown else None
    if addresses is None:
        return
    groups: defaultdict[tuple[ArgumentPart, ...], list[_OpenAccess]] = defaultdict(list)
    for access in unknown:
        item = addresses.of.get((access.offset, "global"))
        arguments = tuple(sorted(stride_arguments(facts.known, item))) if item is not None else ()
        if item is None or not arguments:
            continue
        needed = access.needed_per_request or float(-(-LANES * access.width_bytes // SECTOR_BYTES))
        of_values = _OpenAccess(access, item, costs_of_values(item), needed)
        if _may_cost_more(of_values):
            groups[arguments].append(of_values)
    for arguments, accesses in groups.items():
        yield _of_argument(facts, arguments, accesses)


def _may_cost_more(of: _OpenAccess) -> bool:
    if not of.sectors:
        return False
    worst = max(of.sectors, key=lambda value: of.sectors[value])
    most = of.sectors[worst]
    lanes = of.item.lanes(worst)
    if lanes is not None and shares_words(of.access, lanes, most):
        return False
    return most - of.needed >= MORE_SECTORS.value


def _of_argument(facts: CodeFacts, arguments: Sequence[ArgumentPart], accesses: Sequence[_OpenAccess]) -> Finding:
    worst = max(accesses, key=lambda of: (facts.depth(of.access.offset), -of.access.offset))
    few, large = worst.sectors[1], worst.sectors[max(worst.sectors)]
    step = worst.item.step
    is_walked = step is not None and abs(step) <= _WALKED_BYTES
    of_shape = cases_of_shape("neighbours" if is_walked else "stride")
    since = _since(worst.sectors)
    times = stride_of(next(iter(worst.item.times.values())))
    counts, amounts = access_counts(of.access.kind for of in accesses)
    return code_finding(
        facts,
        _ID,
        _instructions(facts, (of.access for of in accesses)),
        Cases(
            headline=("if-large", counts),
            why=("times-argument" if times else "by-argument", "by-value" if since > 1 else "any-value", *of_shape.why),
            action=(*of_shape.action, "unless-one") if few - worst.needed < MORE_SECTORS.value else of_shape.action,
            advice=(*of_shape.advice, "give-argument"),
        ),
        amounts=(
            *amounts,
            *amounts_of("sector", few=few, sectors=large, needed=worst.needed),
            *amounts_of("B", times=times),
            *amounts_of("", since=since),
        ),
        labels=labels_of(argument=(argument_words(arguments),), option=(str(arguments[0]),)),
        evidence=(
            Evidence("", float(large), "sector/request", worst.needed, role="sectors-if-large"),
            Evidence("", float(few), "sector/request", worst.needed, role="sectors-if-one"),
        ),
        is_guess=True,
    )


def _since(sectors: Mapping[int, int]) -> int:
    """Return the value from which a request takes as many sectors as with the largest."""
    large = sectors[max(sectors)]
    others = [value for value in sectors if sectors[value] != large]
    return min(value for value in sectors if value > max(others, default=0))


def _instructions(facts: CodeFacts, accesses: Iterable[CodeAccess]) -> list[Instruction]:
    return [facts.at[access.offset] for access in accesses if access.offset in facts.at]


RULE = CodeRule(id=_ID, check=_uncoalesced, thresholds=(MORE_SECTORS,))
