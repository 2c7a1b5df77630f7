"""Rules on arithmetic: what takes many instructions, FP64 that was not meant, sums that were not fused."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.rules.non_fused_fp import NEVER_FUSED, NON_FUSED
from gpuprof.diagnose.rules.tensor_cores_idle import FASTER, FUSED_SHARE, MULTIPLIES, OUTER_PRODUCTS
from gpuprof.model.session import Finding
from gpuprof.review.facts import CodeFacts
from gpuprof.review.rules.fused import unfused
from gpuprof.review.rules.matrix import without_tensor_cores
from gpuprof.review.rules.operations import IN_FP64, IN_KERNEL, IN_LOOP, INTEGER, SPECIAL, operations_found
from gpuprof.review.rules.rule import CodeRule
from gpuprof.review.rules.widened import widened


def _fp64(case: CodeFacts) -> Iterator[Finding]:
    yield from widened(case)
    yield from operations_found(case, "fp64-bound", IN_FP64)


def _special(case: CodeFacts) -> Iterator[Finding]:
    return operations_found(case, "special-function-bound", SPECIAL)


def _integer(case: CodeFacts) -> Iterator[Finding]:
    return operations_found(case, "integer-bound", INTEGER)


_SMALL_PART = "They are under 5 % of the instructions of their loop, or outside of loops under a third of the kernel's."

RULES: tuple[CodeRule, ...] = (
    CodeRule(
        id="fp64-bound",
        title="FP64 arithmetic between FP32 values, and FP64 divisions",
        looks_at="FP64 instructions whose values are converted from FP32 (F2F.F64.F32), meet a constant, and are "
        "converted back; FP64 divisions, reciprocals and roots (MUFU.RCP64H, MUFU.RSQ64H) and calls of FP64 functions.",
        silent="FP64 values are loaded, stored, arguments, or summed over the iterations of a loop: then FP64 is "
        f"meant. Of divisions and functions: {_SMALL_PART[0].lower()}{_SMALL_PART[1:]}",
        thresholds=(IN_LOOP, IN_KERNEL),
        check=_fp64,
    ),
    CodeRule(
        id="special-function-bound",
        title="Divisions, square roots and functions that take many instructions",
        looks_at="What ptxas writes for FP32 divisions (FCHK), reciprocals and square roots that are rounded "
        "correctly, and the slow paths of sinf, cosf, tanf, powf and fmodf.",
        silent=_SMALL_PART,
        thresholds=(IN_LOOP, IN_KERNEL),
        check=_special,
    ),
    CodeRule(
        id="integer-bound",
        title="Integer divisions by a variable",
        looks_at="What ptxas writes for a division or modulo by a value that it does not know (I2F.RP, MUFU.RCP, F2I), "
        "and calls of the functions for 64 and 16 bits.",
        silent=f"The divisor is a constant. {_SMALL_PART}",
        thresholds=(IN_LOOP, IN_KERNEL),
        check=_integer,
    ),
    CodeRule(
        id="non-fused-fp",
        title="Unfused additions and multiplications",
        looks_at="Products (FMUL, DMUL) that one addition of the same straight code reads, and nothing else.",
        silent="The compiler fused a tenth of the arithmetic or more: what is left mostly cannot be fused. Fewer than "
        "four pairs, or under a tenth of the type's arithmetic.",
        thresholds=(NON_FUSED, NEVER_FUSED),
        check=unfused,
    ),
    CodeRule(
        id="tensor-cores-idle",
        title="Matrix multiplication without tensor cores",
        looks_at="Outer products of loaded values in innermost loops; else the name and the share of "
        "multiply-adds in the loop, which is a guess. The architecture's rates of tensor cores and plain instructions.",
        silent="The kernel has tensor instructions, the architecture has none that are faster, or under 80 % of the "
        "loop's arithmetic is outer products and the name says nothing.",
        thresholds=(OUTER_PRODUCTS, MULTIPLIES, FUSED_SHARE, FASTER),
        check=without_tensor_cores,
    ),
)
