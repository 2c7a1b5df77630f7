"""The rule on integer divisions by a variable."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rule import cases_of
from gpuprof.model.session import Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.facts.costly_operations import IN_KERNEL, IN_LOOP, CostlyOperations, costly_operations
from gpuprof.review.rules.rule import CodeRule

_KINDS = {"division": ("integer-32", "integer-16"), "wide-division": ("integer-64",)}


def _integer(facts: CodeFacts) -> Iterator[Finding]:
    for case, kinds in _KINDS.items():
        costly = costly_operations(facts, kinds)
        if costly is None:
            continue
        change = "warp-size" if _is_by_warp_size(costly) else case
        yield costly.finding("integer-bound", cases_of(change, (change, costly.location), (case,)))


def _is_by_warp_size(costly: CostlyOperations) -> bool:
    """Return whether all divisors are warpSize: ptxas replaces it by 32 only after it has expanded the division."""
    for operation in costly.operations:
        if operation.kind != "integer-32" or operation.at.operands[-1:] != ("0x20",):
            return False
    return True


RULE = CodeRule(id="integer-bound", thresholds=(IN_LOOP, IN_KERNEL), check=_integer)
