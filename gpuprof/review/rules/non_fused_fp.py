"""The rule on multiplications whose product is only added to something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gpuprof.diagnose.rule import amounts_of, labels_of
from gpuprof.diagnose.rules.non_fused_fp import NEVER_FUSED, NON_FUSED, OPERATIONS
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.definitions import definitions_of
from gpuprof.review.rules.rule import CodeRule, code_finding
from gpuprof.sass.instruction import Instruction

_LEAST_PAIRS = 4
"""Fewer pairs may come from a library function, or from an intrinsic such as __fmul_rn."""


def _non_fused(facts: CodeFacts) -> Iterator[Finding]:
    of_operations = {address for operation in facts.operations for address in operation.parts}
    for name, (_, fma, add, mul) in OPERATIONS.items():
        if not facts.has_any((mul,)):
            continue
        arithmetic = [item for item in facts.named(fma, add, mul) if item.address not in of_operations]
        fused = sum(item.name == fma for item in arithmetic) / max(1, len(arithmetic))
        if NEVER_FUSED.is_reached(fused):
            continue
        additions = _fusible_additions(facts, [item for item in arithmetic if item.name == add], mul)
        share = len(additions) / max(1, len(arithmetic))
        if len(additions) < _LEAST_PAIRS or not NON_FUSED.is_reached(share):
            continue
        yield code_finding(
            facts,
            "non-fused-fp",
            additions,
            Cases(headline=("pairs",), why=("main", "by-flag")),
            amounts=amounts_of("pair", pairs=len(additions)) + amounts_of(unfused=2 * share),
            labels=labels_of(add=(add,), mul=(mul,), fma=(fma,), type=(name,)),
            evidence=(NON_FUSED.evidence(100 * share, "saved-by-pairs", name), NEVER_FUSED.evidence(100 * fused)),
        )


def _fusible_additions(facts: CodeFacts, additions: Sequence[Instruction], multiply: str) -> Sequence[Instruction]:
    """Return the additions that are the only readers of a product; none if too few additions read one."""
    definitions = definitions_of(facts)
    products = {item.address for item in facts.named(multiply) if item.predicate is None}
    read = {item: {origin.address for origin in definitions.origins(item)} & products for item in additions}
    if sum(map(bool, read.values())) < _LEAST_PAIRS:
        return ()
    readers: Counter[int] = Counter()
    for item in facts.code:
        readers.update({origin.address for origin in definitions.origins(item)})
    return [item for item, those in read.items() if any(readers[product] == 1 for product in those)]


RULE = CodeRule(id="non-fused-fp", thresholds=(NON_FUSED, NEVER_FUSED), check=_non_fused)
