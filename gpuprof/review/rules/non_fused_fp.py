"""The rule on multiplications whose product is only added to something."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rule import amounts_of, labels_of
from gpuprof.diagnose.rules.non_fused_fp import NEVER_FUSED, NON_FUSED, OPERATIONS
from gpuprof.model.findings import Cases
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.unfused import fusible_additions
from gpuprof.review.rules.rule import CodeRule, code_finding

LEAST_PAIRS = 4
"""Fewer can come from a function, or from an intrinsic such as __fmul_rn."""


def _non_fused(facts: CodeFacts) -> Iterator[Finding]:
    of_operations = {address for operation in facts.operations for address in operation.parts}
    for name, (_, fma, add, mul) in OPERATIONS.items():
        if not facts.has_any((mul,)):
            continue
        code = [instruction for instruction in facts.code if instruction.address not in of_operations]
        arithmetic = sum(instruction.name in (fma, add, mul) for instruction in code)
        fused = sum(instruction.name == fma for instruction in code) / max(1, arithmetic)
        if NEVER_FUSED.is_reached(fused):
            continue
        additions = fusible_additions(code, mul, add)
        share = len(additions) / max(1, arithmetic)
        if len(additions) < LEAST_PAIRS or not NON_FUSED.is_reached(share):
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


RULE = CodeRule(id="non-fused-fp", thresholds=(NON_FUSED, NEVER_FUSED), check=_non_fused)
