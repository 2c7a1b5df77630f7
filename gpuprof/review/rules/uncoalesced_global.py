"""The rule on coalescing: excess sectors of global accesses, and the fix for each shape of access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.access_shape import cases_of_shape, lane_evidence
from gpuprof.diagnose.rule import amounts_of, labels_of
from gpuprof.diagnose.thresholds import MORE_SECTORS
from gpuprof.model.findings import CaseName, Cases
from gpuprof.model.groups import by_key, collected
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.facts.argument_strides import ArgumentAccess, argument_accesses
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.excess_sectors import ExcessAccess, extra_sectors
from gpuprof.review.facts.strides import argument_words
from gpuprof.review.rules.rule import CodeRule, access_counts, code_finding
from gpuprof.sass.dataflow.addresses import LaneAddress
from gpuprof.sass.patterns.lane_shapes import LINE_BYTES, ShapeName, shapes_of

_ID = "uncoalesced-global"


def _uncoalesced(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for each shape of access with excess sectors, and for each argument that may cause them."""
    shapes = by_key((excess.shape.name, excess) for excess in facts.excess.values())
    for name, accesses in shapes.items():
        yield _of_shape(facts, name, accesses)
    large = [of for of in argument_accesses(facts) if of.most_extra >= MORE_SECTORS.value]
    for by_argument in collected((of.arguments, of) for of in large):
        yield _of_argument(facts, by_argument)


def _of_shape(facts: CodeFacts, name: ShapeName, accesses: Sequence[ExcessAccess]) -> Finding:
    worst = max(accesses, key=lambda of: (facts.depth(of.access.offset), extra_sectors(of.access), -of.access.offset))
    access = worst.access
    sectors = access.sectors_per_request or 0.0
    needed = access.needed_per_request or 0.0
    counts, amounts = access_counts(of.access.kind for of in accesses)
    amounts += amounts_of("sector", sectors=sectors, needed=needed)
    stride = access.lane_stride_bytes
    why: tuple[CaseName, ...] = (name,)
    if stride is not None:
        why = ("lane-stride", name)
        amounts += amounts_of("B", stride=abs(stride))
    of_shape = cases_of_shape(name)
    return code_finding(
        facts,
        _ID,
        [facts.at[of.access.offset] for of in accesses],
        Cases(headline=("per-request", counts), why=why, action=of_shape.action, advice=of_shape.advice),
        amounts=amounts,
        evidence=(
            Evidence("", sectors, "sector/request", needed, role="sectors-of-request"),
            *lane_evidence(worst.shape),
        ),
        is_guess=name == "misaligned",
    )


def _of_argument(facts: CodeFacts, accesses: Sequence[ArgumentAccess]) -> Finding:
    """Return the finding for an argument, or a product of them, that may be a large stride."""
    worst = max(accesses, key=lambda of: (facts.depth(of.access.offset), -of.access.offset))
    of_shape = cases_of_shape("neighbours" if _has_neighbours(facts, worst.item) else "stride")
    apart = "times-argument" if worst.bytes_apart else "by-argument"
    cost = "by-value" if worst.large_from > 1 else "any-value"
    is_fine_if_one = worst.if_one - worst.needed < MORE_SECTORS.value
    counts, amounts = access_counts(of.access.kind for of in accesses)
    return code_finding(
        facts,
        _ID,
        [facts.at[of.access.offset] for of in accesses],
        Cases(
            headline=("if-large", counts),
            why=(apart, cost, *of_shape.why),
            action=(*of_shape.action, "unless-one") if is_fine_if_one else of_shape.action,
            advice=(*of_shape.advice, "give-argument"),
        ),
        amounts=amounts
        + amounts_of("sector", few=worst.if_one, sectors=worst.if_large, needed=worst.needed)
        + amounts_of("B", times=worst.bytes_apart)
        + amounts_of("", since=worst.large_from),
        labels=labels_of(argument=(argument_words(worst.arguments),), option=(str(worst.arguments[0]),)),
        evidence=(
            Evidence("", float(worst.if_large), "sector/request", worst.needed, role="sectors-if-large"),
            Evidence("", float(worst.if_one), "sector/request", worst.needed, role="sectors-if-one"),
        ),
        is_guess=True,
    )


def _has_neighbours(facts: CodeFacts, item: LaneAddress) -> bool:
    """Return whether a thread also accesses the adjacent words, in later iterations or in unrolled copies."""
    # A thread that advances by at most a cache line in each iteration does.
    if item.step is not None and abs(item.step) <= LINE_BYTES:
        return True
    shapes = shapes_of(facts.addresses, {}) if facts.addresses is not None else {}
    shape = shapes.get(item.instruction.address)
    return shape is not None and shape.name == "neighbours"


RULE = CodeRule(id=_ID, check=_uncoalesced, thresholds=(MORE_SECTORS,))
