"""The rule on loops that multiply matrices without the tensor cores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpuprof.diagnose.rule import amounts_of, cases_of, labels_of
from gpuprof.diagnose.rules.tensor_cores_idle import (
    FASTER,
    FUSED_SHARE,
    MULTIPLIES,
    OUTER_PRODUCTS,
    PRODUCT_TYPES,
    tensor_product,
)
from gpuprof.model.product_names import is_only_a_convolution, is_product_by_name
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.rules.rule import CodeRule, code_finding
from gpuprof.sass.instruction import Instruction
from gpuprof.sass.patterns.outer_products import MULTIPLY_ADDS, outer_products

LEAST_MULTIPLIES = 4
"""The smallest product has two values times two others."""
_LONGEST_LOOP = 20_000
"""Limit on the instructions of loops that are searched; unrolled products have some thousand."""
_ONLY_SOME_PRODUCTS = "sm_75"


class _Product(NamedTuple):
    """The type of a matrix product, its multiply-adds, and the case and the value of the evidence for it."""

    path: str
    multiplies: Sequence[Instruction]
    how: str
    evidence: Evidence


def _idle(facts: CodeFacts) -> Iterator[Finding]:
    arch = facts.arch
    if arch is None or facts.matrix or not facts.has_any(MULTIPLY_ADDS):
        return
    for product in _products(facts):
        faster = tensor_product(product.path, facts.kernel.name, arch)
        if faster is None:
            continue
        why = [product.how, "least-rate"]
        if arch.name == _ONLY_SOME_PRODUCTS:
            why.append("some-products")
        yield code_finding(
            facts,
            "tensor-cores-idle",
            [item for item in product.multiplies if MULTIPLY_ADDS[item.name] == product.path],
            cases_of(faster.change, ("product",), tuple(why)),
            amounts=amounts_of("", times=faster.speedup) + amounts_of(share=product.evidence.value / 100),
            labels=labels_of(type=(faster.type.name,), inputs=faster.inputs),
            evidence=(product.evidence,),
            is_guess=product.how == "by-name",
        )
        return


def _products(facts: CodeFacts) -> Iterator[_Product]:
    """Yield the matrix products in innermost loops, the deepest first."""
    outer_loops = {loop.parent for loop in facts.loops}
    for loop in sorted(facts.loops, key=lambda loop: -loop.depth):
        if loop.id in outer_loops or loop.instructions > _LONGEST_LOOP:
            continue
        code = [item for item in facts.between(loop.start, loop.end) if facts.innermost.get(item.address) == loop.id]
        multiplies = [item for item in code if item.name in MULTIPLY_ADDS]
        if len(multiplies) < LEAST_MULTIPLIES or not MULTIPLIES.is_reached(len(multiplies) / len(code)):
            continue
        outer = outer_products((item, 1.0) for item in code)
        if outer is not None and OUTER_PRODUCTS.is_reached(outer.share):
            evidence = OUTER_PRODUCTS.evidence(100 * outer.share, "outer-products-in-loop")
            yield _Product(outer.path, multiplies, "by-loop", evidence)
            continue
        path = MULTIPLY_ADDS[Counter(item.name for item in multiplies).most_common(1)[0][0]]
        fused = _fused_share(code, path)
        name = facts.kernel.name
        if is_product_by_name(name) and not is_only_a_convolution(name) and FUSED_SHARE.is_reached(fused):
            yield _Product(path, multiplies, "by-name", FUSED_SHARE.evidence(100 * fused, "fused-in-loop"))


def _fused_share(code: Sequence[Instruction], path: str) -> float:
    """Return the share of multiply-adds in the arithmetic of a type; there is at least one."""
    kind = PRODUCT_TYPES[path]
    count = Counter(item.name for item in code)
    return count[kind.fused] / sum(count[name] for name in (kind.fused, *kind.alone))


RULE = CodeRule(id="tensor-cores-idle", thresholds=(OUTER_PRODUCTS, MULTIPLIES, FUSED_SHARE, FASTER), check=_idle)
