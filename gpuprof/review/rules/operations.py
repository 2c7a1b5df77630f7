"""Divisions, square roots and functions that take many instructions, where they are much of a loop or of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuprof.diagnose.thresholds import percent
from gpuprof.model.session import Evidence, Finding
from gpuprof.review.facts import CodeFacts
from gpuprof.review.rules.rule import code_evidence, finding_at
from gpuprof.review.sequences import LongOperation
from gpuprof.sass.instruction import Instruction

IN_LOOP = percent(
    "instructions of a loop that they take",
    5.0,
    "a twentieth: below it, such as a division per tile of a matrix product, the rest of the loop is what counts",
)
IN_KERNEL = percent(
    "instructions of the kernel that they take, outside of loops",
    33.0,
    "a third: a thread runs them once, beside its accesses; a fixed kernel that divides twice for twelve results "
    "has 31 %",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Costly:
    """What is said of a group of operations. `each`, `why` and `slow` may hold {cost} and {slow}, in instructions.

    `outside` is what to change where none is in a loop, if that is something else.
    """

    kinds: tuple[str, ...]
    title: str
    each: str
    why: str
    slow: str
    action: str
    advice: str
    outside: str = ""


_DIVISION = Costly(
    kinds=("division-fp32", "reciprocal-fp32"),
    title="FP32 division",
    each="{cost} instructions each",
    why="No instruction divides: a reciprocal (MUFU.RCP) is refined by multiply-adds and checked.",
    slow=" Operands near the ends of the range take a function of {slow} instructions more.",
    action="Multiply by a reciprocal that is computed outside the loop, or use an approximate division",
    advice="Where the divisor does not change in the loop, compute 1.0f / d before it and multiply. Where an error "
    "of 2 ulp is acceptable: __fdividef(a, b), or -prec-div=false for a file.",
    outside="Use an approximate division where that will do, or multiply by a reciprocal that the host computes",
)
_ROOT = Costly(
    kinds=("root-fp32",),
    title="FP32 square root",
    each="{cost} instructions each",
    why="No instruction takes a correctly rounded square root: MUFU.RSQ is multiplied, refined and checked.",
    slow=" Operands near the ends of the range take a function of {slow} instructions more.",
    action="Compare squares, use rsqrtf, or use an approximate square root",
    advice="Distances can be compared as squares; 1.0f / sqrtf(x) is rsqrtf(x). Where an error of 1 ulp is "
    "acceptable: -prec-sqrt=false for a file.",
)
_TRIGONOMETRY = Costly(
    kinds=("trigonometry-fp32",),
    title="FP32 sine, cosine or tangent",
    each="{slow} instructions of it for large arguments",
    why="For |x| ≥ 105,615 x is reduced by many digits of 2/π. That code stands at each call, and one such lane "
    "makes its whole warp run it.",
    slow="",
    action="Use sinpif or cospif, or the fast functions where they are accurate enough",
    advice="sinpif(x), cospif(x) and sincospif(x) take multiples of π and need no such reduction. Where an absolute "
    "error of 2^-21 within [−π, π] will do: __sinf and __cosf, or -use_fast_math for a file.",
)
_POWER = Costly(
    kinds=("power-fp32",),
    title="powf",
    each="{cost} floating-point instructions or more each",
    why="It is a logarithm, a product and an exponential, with more digits than FP32 has.",
    slow="",
    action="Multiply for whole exponents, or use __powf",
    advice="Write x * x for x², sqrtf for 0.5, exp2f or exp10f where the base is 2 or 10; where it is accurate enough, "
    "__powf(x, y), which is exp2f(y * __log2f(x)).",
)
_REMAINDER = Costly(
    kinds=("remainder-fp32",),
    title="fmodf",
    each="{cost} instructions with a loop for large quotients",
    why="It is exact: where the quotient is large, a loop takes off some digits of it at a time.",
    slow="",
    action="Use x − y·floorf(x / y) where the quotient is small",
    advice="Where the quotient stays far below 2^24: fmaf(-y, truncf(x / y), x), or floorf for a result with the sign "
    "of y. For angles in multiples of π use sinpif and cospif instead.",
)
_NARROW = Costly(
    kinds=("integer-32", "integer-16"),
    title="Integer division or modulo by a variable",
    each="about {cost} instructions each",
    why="No instruction divides integers: the divisor is converted to FP32 (I2F), its reciprocal (MUFU.RCP) converted "
    "back (F2I) and corrected twice. Both conversions and the reciprocal run on the XU pipe.",
    slow="",
    action="Divide by a constant or a power of two, or by a precomputed multiplier",
    advice="Make the divisor a template parameter or a constant, or a power of two (shift and mask). Where only the "
    "host knows it: compute a multiplier and a shift there (FastDivmod of CUTLASS). Count rows and columns up instead "
    "of dividing an index. warpSize is a variable: write 32.",
)
_WIDE = Costly(
    kinds=("integer-64",),
    title="64-bit integer division or modulo by a variable",
    each="a function of {slow} instructions",
    why="Operands of more than 32 bits call a function of {slow} instructions; where both fit into 32 bits, the code "
    "may take a shorter way.",
    slow="",
    action="Divide in 32 bits, by a constant or by a power of two",
    advice="Use unsigned or int for indices that fit (size_t, int64_t and long are 64 bits wide), a constant or a "
    "power of two as divisor, or a multiplier that the host computes (FastDivmod of CUTLASS).",
)
_FP64 = Costly(
    kinds=("division-fp64", "reciprocal-fp64", "root-fp64"),
    title="FP64 division or square root",
    each="{cost} instructions each",
    why="A seed (MUFU.RCP64H or MUFU.RSQ64H) is refined by FP64 multiply-adds, each from the one before.",
    slow=" Other operands take a function of {slow} instructions more.",
    action="Replace FP64 divisions by multiplications with a reciprocal",
    advice="Multiply by a reciprocal that is computed once outside the loop instead of dividing; rsqrt(x) is less than "
    "1.0 / sqrt(x). Where FP32 is accurate enough, use it: look for literals without f and functions without f.",
)
_FUNCTIONS_FP64 = Costly(
    kinds=("trigonometry-fp64", "power-fp64"),
    title="FP64 sine, cosine, tangent or pow",
    each="with a function of {slow} instructions",
    why="pow calls that function always; sine, cosine and tangent for large arguments, and keep a local array for it.",
    slow="",
    action="Use the FP32 functions where they are accurate enough",
    advice="sinf, cosf and powf where FP32 is accurate enough; sinpi and cospi for multiples of π need no long "
    "reduction; write x * x for whole exponents.",
)
_BY_WARP_SIZE = "Integer division or modulo by warpSize"
_WRITE_32 = "Write 32 instead of warpSize, which is a variable to the compiler"
SPECIAL = (_DIVISION, _ROOT, _TRIGONOMETRY, _POWER, _REMAINDER)
INTEGER = (_NARROW, _WIDE)
IN_FP64 = (_FP64, _FUNCTIONS_FP64)


def operations_found(case: CodeFacts, rule: str, groups: Sequence[Costly]) -> Iterator[Finding]:
    """Yield a finding for each group of operations that are much of a loop, or of a kernel outside of loops."""
    for group in groups:
        own = [operation for operation in case.operations if operation.kind in group.kinds]
        if not own:
            continue
        shares = _shares(case, own)
        loud = {loop for loop, share in shares.items() if 100 * share >= _threshold(loop)}
        chosen = [operation for operation in own if not loud.isdisjoint(_loops(case, operation))]
        if chosen:
            yield _finding(case, rule, group, chosen, {loop: shares[loop] for loop in loud})


def _threshold(loop: int | None) -> float:
    return (IN_KERNEL if loop is None else IN_LOOP).value


def _shares(case: CodeFacts, own: Sequence[LongOperation]) -> dict[int | None, float]:
    """Return which share of the instructions of each loop the operations are; None: of the kernel, outside of loops."""
    costs: dict[int | None, float] = {}
    for operation in own:
        loops = _loops(case, operation)
        for loop in loops:
            costs[loop] = costs.get(loop, 0.0) + operation.cost / len(loops)
    sizes = {loop: case.loops[loop].instructions if loop is not None else len(case.code) for loop in costs}
    return {loop: min(1.0, cost / sizes[loop]) for loop, cost in costs.items() if sizes[loop]}


def _loops(case: CodeFacts, operation: LongOperation) -> list[int | None]:
    """Return the loop of each part: the reciprocal of a divisor that does not change may stand outside of the loop."""
    return [case.innermost.get(address) for address in operation.parts]


def _place(case: CodeFacts, operation: LongOperation) -> Instruction:
    """Return the sign of the operation, or the first product with its reciprocal in a deeper loop."""
    products = [case.at[address] for address in operation.parts if case.at[address].is_a("IMAD.HI")]
    deepest = max(products, key=lambda item: (case.depth(item.address), -item.address), default=operation.at)
    return deepest if case.depth(deepest.address) > case.depth(operation.at.address) else operation.at


def _finding(
    case: CodeFacts, rule: str, group: Costly, chosen: Sequence[LongOperation], shares: dict[int | None, float]
) -> Finding:
    at = [_place(case, operation) for operation in chosen]
    total = sum(item.times for item in chosen)
    inside = sum(item.times for item, place in zip(chosen, at, strict=True) if case.depth(place.address))
    where = f"{inside} in loops" if inside == total else f"{total}, {inside} of them in loops"
    costs = [item.cost // item.times for item in chosen]
    numbers = {"cost": _middle(costs), "slow": max(item.slow for item in chosen)}
    slow = group.slow if numbers["slow"] else ""
    each = group.each if numbers["slow"] or "{slow}" not in group.each else "many instructions"
    if total == 1:
        where, each = "one in a loop" if inside else "one", each.removesuffix(" each")
    title = _BY_WARP_SIZE if all(map(_is_by_warp_size, chosen)) else group.title
    return finding_at(
        case,
        rule,
        at,
        headline=f"{title}: {where if inside or total == 1 else total}, {each.format(**numbers)}",
        why=f"{group.why}{slow}".format(**numbers),
        action=_WRITE_32 if title is _BY_WARP_SIZE else group.action if inside else group.outside or group.action,
        advice=group.advice,
        evidence=tuple(_evidence(chosen, total, shares)),
    )


def _is_by_warp_size(operation: LongOperation) -> bool:
    """Tell whether the divisor is the number 32: ptxas puts it in for warpSize after it wrote the division."""
    return operation.kind == "integer-32" and operation.at.operands[-1:] == ("0x20",)


def _evidence(chosen: Sequence[LongOperation], total: int, shares: dict[int | None, float]) -> Iterator[Evidence]:
    yield code_evidence(total, "", "operations")
    if not any(operation.is_call for operation in chosen):
        most = max(shares, key=lambda loop: (loop is not None, shares[loop]))
        what = "the kernel's" if most is None else "the loop's"
        meaning = f"{what} instructions that they take"
        yield code_evidence(100 * shares[most], "%", meaning, threshold=_threshold(most))


def _middle(costs: Sequence[int]) -> int:
    return sorted(costs)[len(costs) // 2]
