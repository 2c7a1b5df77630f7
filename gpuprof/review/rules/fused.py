"""Multiplications whose product is only added to something: the compiler was told not to fuse them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from gpuprof.diagnose.rules.non_fused_fp import NEVER_FUSED, NON_FUSED
from gpuprof.model.session import Finding
from gpuprof.review.facts import CodeFacts
from gpuprof.review.rules.rule import code_evidence, finding_at
from gpuprof.sass.instruction import JUMPS, Instruction
from gpuprof.sass.operands import named, sources, written
from gpuprof.units import counted, format_percent

_TYPES = (("FP32", "FMUL", "FADD", "FFMA"), ("FP64", "DMUL", "DADD", "DFMA"))
_PLAIN = re.compile(r"^[-|]*(R\d+)(?:\.reuse)?\|?$")
_ENDS = JUMPS | {"EXIT", "RET", "CALL", "BSYNC", "BAR"}
LEAST_PAIRS = 4
"""Fewer may be what a function or an intrinsic such as __fmul_rn asks for."""


class _Pair(NamedTuple):
    product: Instruction
    addition: Instruction


def unfused(case: CodeFacts) -> Iterator[Finding]:
    """Yield a finding for each type whose multiplications and additions are not fused though they could be."""
    own = {address for operation in case.operations for address in operation.parts}
    for name, multiply, add, fused in _TYPES:
        counts = {opcode: _count(case, opcode, own) for opcode in (multiply, add, fused)}
        arithmetic = sum(counts.values())
        if counts[multiply] < LEAST_PAIRS or not _may_be_told(counts[fused], arithmetic):
            continue
        code = [instruction for instruction in case.code if instruction.address not in own]
        pairs = list(_pairs(code, multiply, add))
        share = len(pairs) / arithmetic
        if len(pairs) >= LEAST_PAIRS and 100 * share >= NON_FUSED.value:
            yield _finding(case, name, pairs, (multiply, add, fused), counts[fused] / arithmetic, share)


def _count(case: CodeFacts, name: str, own: Collection[int]) -> int:
    """Return how many instructions have a name and are no part of operations."""
    return sum(item.address not in own for item in case.known.named(name))


def _may_be_told(fused: int, arithmetic: int) -> bool:
    """Tell whether the compiler fused next to nothing: where it fused some, the rest mostly cannot be."""
    return arithmetic > 0 and 100 * fused / arithmetic < NEVER_FUSED.value


def _pairs(code: Sequence[Instruction], multiply: str, add: str) -> Iterator[_Pair]:
    """Yield the products that one addition reads, and nothing else, in straight code."""
    products: dict[str, Instruction] = {}
    readers: dict[str, list[Instruction]] = {}

    def ended(register: str) -> Iterator[_Pair]:
        product, read = products.pop(register, None), readers.pop(register, [])
        if product is not None and len(read) == 1 and read[0].name == add:
            yield _Pair(product, read[0])

    for instruction in code:
        for register in {name for operand in sources(instruction) for name in named(operand)} & products.keys():
            readers[register].append(instruction)
        for register in written(instruction):
            yield from ended(register)
        match = _PLAIN.match(instruction.operands[0]) if instruction.operands else None
        if instruction.name == multiply and match is not None and instruction.predicate is None:
            products[match[1]], readers[match[1]] = instruction, []
        if instruction.name in _ENDS:
            for register in tuple(products):
                yield from ended(register)


def _finding(
    case: CodeFacts, name: str, pairs: Sequence[_Pair], opcodes: tuple[str, str, str], fused: float, share: float
) -> Finding:
    multiply, add, both = opcodes
    return finding_at(
        case,
        "non-fused-fp",
        [pair.addition for pair in pairs],
        headline=f"Unfused {add}/{multiply}: {counted(len(pairs), 'pair')}, {format_percent(2 * share)} of {name} "
        "arithmetic instructions",
        why=f"{add} and {multiply} each take the same slot as {both}, which does both. The compiler fuses by default: "
        "this code was compiled with -fmad=false, or asks for separate roundings (__fmul_rn, __fadd_rn).",
        action="Let the compiler fuse multiplications and additions into multiply-adds",
        advice="Leave out -fmad=false (--fmad=false; in Numba fastmath, in NVRTC -fmad), or write fmaf(a, b, c) and "
        "fma where results need not be rounded twice.",
        evidence=(
            code_evidence(100 * share, "%", f"{name} instructions saved by fusing", threshold=NON_FUSED.value),
            code_evidence(100 * fused, "%", "fused by the compiler", threshold=NEVER_FUSED.value),
        ),
    )
