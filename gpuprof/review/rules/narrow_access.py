"""The rule on narrow accesses: adjacent words that a thread accesses one at a time, lanes that access a byte or two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.diagnose.rule import amounts_of
from gpuprof.diagnose.thresholds import NARROW, context
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.adjacent_words import AdjacentWords, adjacent_words, wide_accesses, widest_bytes
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.rules.rule import CodeRule, code_finding
from gpuprof.sass.dataflow.addresses import LaneAddress
from gpuprof.sass.patterns.lane_shapes import WIDE_BYTES

_ID = "narrow-access"
_NARROW_BYTES = 2
_SAME_FIX = ("neighbours", "structure")
"""Shapes of uncoalesced accesses that wider accesses fix."""


def _narrow(facts: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for adjacent words, and one for bytes."""
    is_narrow = any(access.space == "global" and access.width_bytes < WIDE_BYTES for access in facts.accesses)
    addresses = facts.addresses if is_narrow else None
    if addresses is None:
        return
    items = [
        item
        for (_, space), item in addresses.by_request.items()
        if space == "global" and item.request.kind in {"load", "store"} and not item.instruction.idle
    ]
    fixed = {address for address, excess in facts.excess.items() if excess.shape.name in _SAME_FIX}
    may_be_wider = [item for item in items if item.request.width_bytes < WIDE_BYTES]
    runs = adjacent_words(item for item in may_be_wider if item.instruction.address not in fixed)
    if runs:
        yield _adjacent(facts, runs)
    yield from _bytes(facts, items)


def _adjacent(facts: CodeFacts, runs: Sequence[AdjacentWords]) -> Finding:
    worst = max(runs, key=lambda run: (facts.depth(run[0].instruction.address), len(run), -run[0].instruction.address))
    request = worst[0].request
    wide = widest_bytes(worst)
    is_aligned = all(run[0].aligned >= widest_bytes(run) for run in runs)
    headline = f"adjacent-{request.kind}s"
    return code_finding(
        facts,
        _ID,
        [item.instruction for run in runs for item in run],
        Cases(
            headline=(headline,) if is_aligned else (headline, "if-aligned"),
            action=MAIN if wide == WIDE_BYTES else (f"bytes-{wide}",),
            advice=(*MAIN, "alignment"),
        ),
        amounts=amounts_of("", words=len(worst), fewer=wide_accesses(worst))
        + amounts_of("B", width=request.width_bytes, wide=wide),
        evidence=context("adjacent-words", len(worst), "word")
        + context("access-bytes", request.width_bytes, "B")
        + context("adjacent-accesses", sum(map(len, runs)), "instruction"),
        is_guess=not is_aligned,
    )


def _bytes(facts: CodeFacts, items: Sequence[LaneAddress]) -> Iterator[Finding]:
    """Yield a finding if most accesses in the deepest loops are of adjacent lanes with one or two bytes each."""
    deepest = max((facts.depth(item.instruction.address) for item in items), default=0)
    inner = [item for item in items if facts.depth(item.instruction.address) == deepest]
    narrow = [item for item in inner if abs(item.stride or 0) == item.request.width_bytes <= _NARROW_BYTES]
    share = len(narrow) / max(1, len(inner))
    if not NARROW.is_reached(share):
        return
    size = max(item.request.width_bytes for item in narrow)
    headline = ["only" if len(inner) == 1 else "counted"]
    if deepest:
        headline.append("in-loop")
    headline.append("one-of-bytes" if len(narrow) == 1 else "of-bytes")
    yield code_finding(
        facts,
        _ID,
        [item.instruction for item in narrow],
        Cases(headline=tuple(headline)),
        amounts=amounts_of("", narrow=len(narrow), accesses=len(inner)) + amounts_of("byte", size=size),
        evidence=(NARROW.evidence(100 * share, "share-of-two-bytes"), *context("access-bytes", size, "B")),
    )


RULE = CodeRule(id=_ID, check=_narrow, thresholds=(NARROW,))
