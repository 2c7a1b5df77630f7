"""The rule on matrix products that run on the scalar pipes while the tensor cores are idle."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from gpuprof.annotated.counts import EXECUTED
from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE, MEMORY, WORK
from gpuprof.diagnose.facts.work import SCALAR_PIPES, TENSOR_INPUTS
from gpuprof.diagnose.pipe_limits import LONGEST_PRODUCTS
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import FMA_WORK, PIPE_BUSY, percent
from gpuprof.hardware.specs import WARP_OPCODES, ArchSpec, ComputeKey, Fact
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.product_names import (
    has_inputs_of_8_bits,
    has_inputs_of_16_bits,
    is_only_a_convolution,
    is_product_by_name,
    multiplies_complex_numbers,
    names_bf16,
    plain_library_type,
)
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.model.torch_ranges import product_size
from gpuprof.sass.instruction import instruction_of
from gpuprof.sass.patterns.outer_products import outer_products

FUSED_SHARE = percent("fused-share", 80.0)
OUTER_PRODUCTS = percent("outer-products", 80.0)
MULTIPLIES = percent("multiply-adds", 5.0)
FASTER = percent("tensor-rate", 150.0)
SOME_WORK = percent("some-arithmetic", 1.0)

_WITH_TENSOR_CORES = re.compile(r"\bRTX\b|\bT4G?\b")
"""Of compute capability 7.5, only products of these names have tensor cores."""

_IDLE = 0.005
_NARROW = "inputs-of-16-bits"
_ELEMENTS = 8
"""Of 16 bits in 16 bytes."""


class ProductType(Struct, frozen=True):
    """A type of inputs of plain instructions: their pipes, their multiply-adds, additions and multiplications.

    `tensor` are the types that the tensor cores take instead. An operation of the path `plain` in the
    spec is one of `operations` of a multiply-add.
    """

    name: str
    plain: str
    pipes: tuple[str, ...]
    tensor: Mapping[str, str]
    fused: str
    alone: tuple[str, ...] = ()
    operations: int = 1


PRODUCT_TYPES = {
    "fp32": ProductType("FP32", "fp32", ("fma",), TENSOR_INPUTS, "FFMA", ("FADD", "FMUL")),
    "fp64": ProductType("FP64", "fp64", ("fp64",), {"tensor.fp64": "FP64"}, "DFMA", ("DADD", "DMUL")),
    "fp16": ProductType(
        "16-bit", "fp16", ("fp16", "fma"), {"tensor.fp16": "FP16", "tensor.bf16": "BF16"}, "HFMA2", ("HADD2", "HMUL2")
    ),
    # IDP.4A multiplies and adds four pairs, at the rate of integer multiply-adds (CUDA Programming Guide).
    "int8": ProductType("INT8", "int32", (), {"tensor.int8": "INT8"}, "IDP", operations=8),
    # Integers of 8 bits that are converted and multiplied in FP32.
    "int8-in-fp32": ProductType("INT8", "fp32", ("fma",), {"tensor.int8": "INT8"}, "FFMA", ("FADD", "FMUL")),
}


class TensorProduct(Struct, frozen=True):
    """A matrix product as the tensor cores can do it: its type now, and the case for the inputs that they should take.

    `times` is the rate of the tensor cores over the plain rate by input type.
    """

    type: ProductType
    times: Mapping[str, float]
    change: str

    @property
    def speedup(self) -> float:
        """The rate of the tensor cores over the plain rate, in TF32 if it is faster than FP32."""
        return self.times.get("tensor.tf32") or max(self.times.values())

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the input types at that rate."""
        return tuple(name for path, name in self.type.tensor.items() if self.times.get(path) == self.speedup)


class _Product(TensorProduct, frozen=True):
    """A matrix product with the case of the evidence for it, and its arithmetic as far as known.

    `work` is its arithmetic as a fraction of the plain peak. `use` is `work` or the utilization of
    its pipe, whichever is more; if neither is known, that of the SM, which is no less.
    """

    how: str
    work: float | None
    use: float | None
    is_use_of_sm: bool


def _tensor_idle(facts: KernelFacts) -> Findings:
    """Report a matrix product on the scalar pipes, unless its arithmetic takes hardly any time."""
    kind = kind_named(facts.kernel.kind)
    if (kind is not None and not kind.multiplies) or not _tensor_cores_are_idle(facts):
        return
    product = _product(facts)
    # Without much arithmetic it is an outer product of two vectors.
    if product is None or (product.work is not None and not SOME_WORK.is_reached(product.work)):
        return
    busiest = max(MEMORY, key=facts.need)
    if busiest == "dram" and product.use is not None and facts.need("dram") > product.use + TWO_PASSES:
        # A product with a vector or few rows.
        return
    limit = _limit(facts, product, busiest)
    is_by_name_alone = facts.timed_only and product.use is None
    scalar = product.type
    plain = scalar.plain.upper()
    is_guess = product.how in ("by-convolution", "by-arithmetic") or is_by_name_alone
    headline = [product.how if product.how in ("by-convolution", "by-arithmetic") else "product"]
    rate = ("rate",) if facts.hardware.is_known else ("least-rate", "no-spec")
    faster = FASTER.evidence(100 * max(product.times.values()), "tensor-over-plain", scalar.name)
    evidence = [*facts.pipe_evidence("tensor"), faster]
    change, why = product.change, (product.how, *rate, *limit)
    unaligned = _unaligned(facts, product)
    if unaligned:
        change, why = f"unaligned-product/pad-{_ELEMENTS}", (*why, "unaligned")
    if product.work is not None:
        headline.append("at-peak")
        evidence.append(facts.peak_evidence(plain, scalar.fused, product.work, FMA_WORK.value))
    yield finding(
        facts,
        cases_of(change, tuple(headline), why),
        amounts=amounts_of(work=product.work, use=product.use, busy=facts.needs.get(busiest))
        + amounts_of("", times=product.speedup),
        labels=labels_of(
            type=(scalar.name,),
            plain=(plain,),
            inputs=product.inputs,
            unit=(busiest,),
            sizes=unaligned,
        ),
        confidence="guess" if is_guess else "inferred",
        saving=_saving(facts, product, is_limit=not limit),
        evidence=evidence,
        place=facts.code.place_of_opcode(scalar.fused),
        is_fact=bool(limit) and not is_by_name_alone,
    )


def _unaligned(facts: KernelFacts, product: _Product) -> tuple[str, ...]:
    """Return the sizes that keep a library from the tensor cores with inputs of 16 bits."""
    if product.how != "by-library" or product.change != _NARROW:
        return ()
    sizes = dict.fromkeys(product_size(facts.kernel.ranges) or ())
    return tuple(str(size) for size in sizes if size % _ELEMENTS)


def _tensor_cores_are_idle(facts: KernelFacts) -> bool:
    """Return whether the GPU has unused tensor cores, by the kernel's pipe, opcodes or name."""
    is_unnamed = facts.arch.name == "sm_75" and facts.hardware.gpu is None
    if is_unnamed and not _WITH_TENSOR_CORES.search(facts.hardware.device.name or ""):
        return False
    busy, opcodes = facts.pipe("tensor"), facts.opcodes
    if any(map(matrix_opcode, opcodes)):
        return False
    if busy is not None:
        return busy <= _IDLE
    return bool(opcodes) or plain_library_type(facts.kernel.demangled) is not None


def _product(facts: KernelFacts) -> _Product | None:
    """Return the kernel's matrix product if the tensor cores are faster at it."""
    path, how = _path_and_evidence(facts)
    if path is None:
        return None
    rates = facts.hardware.rates if facts.hardware.is_known else None
    faster = tensor_product(path, facts.kernel.demangled, facts.arch, rates)
    if faster is None:
        return None
    kind = faster.type
    # Other integers than IDP are indices.
    work = facts.fraction_of_peak(kind.plain) if kind.alone else None
    if work is not None:
        work = min(1.0, work)
    known = [work, *(facts.needs.get(pipe, facts.pipe(pipe)) for pipe in kind.pipes)]
    uses = [min(1.0, value) for value in known if value is not None]
    return _Product(
        kind, faster.times, faster.change, how, work, max(uses, default=facts.utilisation.get("sm")), not uses
    )


def _path_and_evidence(facts: KernelFacts) -> tuple[str | None, str]:
    """Return the type that the kernel multiplies, by a library's name, its code, its name or counters."""
    name = facts.kernel.demangled
    library = plain_library_type(name)
    if library is not None:
        return library, "by-library"
    code = facts.code.instructions
    in_code = outer_products((instruction_of(item.sass), item.counts.get(EXECUTED, 0.0)) for item in code)
    if in_code is not None and OUTER_PRODUCTS.is_reached(in_code.share):
        return in_code.path, "by-code"
    path = _busiest_type(facts)
    if path is not None and _is_mostly_fused(facts, PRODUCT_TYPES[path]):
        if is_product_by_name(name):
            return path, "by-convolution" if is_only_a_convolution(name) else "by-name"
        if path == "fp32" and in_code is None and FMA_WORK.is_reached(facts.fraction_of_peak(path)):
            return path, "by-arithmetic"
    return None, ""


def _busiest_type(facts: KernelFacts) -> str | None:
    """Return the type of most of the arithmetic: by opcodes, else by counted work, else by the pipes.

    Return None if most instructions or the busiest pipe belong to no type: the kernel does something else.
    """
    if facts.opcodes:
        most = max(PRODUCT_TYPES, key=lambda path: facts.executed(PRODUCT_TYPES[path].fused))
        return most if MULTIPLIES.is_reached(facts.share_of_opcodes(PRODUCT_TYPES[most].fused)) else None
    works = {path: facts.fraction_of_peak(kind.plain) or 0.0 for path, kind in PRODUCT_TYPES.items() if kind.alone}
    if any(works.values()):
        return max(works, key=lambda path: works[path])
    busiest = max(SCALAR_PIPES, key=lambda name: facts.pipe(name) or 0.0)
    return next((path for path, kind in PRODUCT_TYPES.items() if busiest in kind.pipes), None)


def _is_mostly_fused(facts: KernelFacts, kind: ProductType) -> bool:
    """Return whether most of the arithmetic of a type is multiply-adds, or nothing shows that it is not."""
    fused = facts.executed(kind.fused)
    total = fused + facts.executed(*kind.alone)
    counted = facts.fused_and_alone(kind.fused, *kind.alone) if kind.alone else None
    if counted is not None:
        fused, total = counted.fused, counted.all
    return not total or FUSED_SHARE.is_reached(fused / total)


def tensor_product(
    path: str, name: str, arch: ArchSpec, rates: Mapping[ComputeKey, Fact] | None = None
) -> TensorProduct | None:
    """Return a product of a type as the tensor cores can do it, if they are faster.

    The name of the kernel can have its inputs. Without the `rates` of the GPU, the least of its architecture count.
    """
    if path == "fp32" and has_inputs_of_8_bits(name):
        path = "int8-in-fp32"
    kind = PRODUCT_TYPES[path]
    times, is_complex = _times(kind, arch, rates), multiplies_complex_numbers(name)
    if is_complex and path == "fp32":
        # No library multiplies complex numbers of 16 bits.
        times = {tensor: ratio for tensor, ratio in times.items() if tensor == "tensor.tf32"}
    if not times:
        return None
    change = path
    if path == "fp32":
        change = "tf32" if "tensor.tf32" in times else "narrower"
        if has_inputs_of_16_bits(name):
            change = _NARROW
            if names_bf16(name) and "tensor.bf16" not in times:
                return None
        elif is_complex:
            change = "complex"
    return TensorProduct(kind, times, change)


def _times(kind: ProductType, arch: ArchSpec, rates: Mapping[ComputeKey, Fact] | None) -> dict[str, float]:
    """Return the relative speed of the tensor cores by path, with sums as exact as now, if they are faster."""
    known = arch.compute if rates is None else rates
    plain = known.get(ComputeKey(kind.plain))
    if plain is None:
        return {}
    unit = plain.value * kind.operations
    in_fp32 = kind.tensor is TENSOR_INPUTS
    if in_fp32 and rates is None and arch.name in LONGEST_PRODUCTS:
        unit *= 2.0
    times: dict[str, float] = {}
    for key, fact in known.items():
        is_exact = key.accumulator == "fp32" or not in_fp32
        ratio = fact.value / unit
        if key.path in kind.tensor and is_exact and FASTER.is_reached(ratio):
            times[key.path] = max(times.get(key.path, 0.0), ratio)
    return times


def _limit(facts: KernelFacts, product: _Product, busiest: str) -> tuple[str, ...]:
    """Return the case of the problem to fix first; nothing if the arithmetic is the limit.

    If memory is as busy as the SM, it alone can keep the SM busy.
    """
    if product.use is None:
        return ("limit-unknown",)
    enough, margin = FMA_WORK, TWO_PASSES
    if product.is_use_of_sm:
        # Arithmetic is only one part of the work of a busy SM.
        enough, margin = PIPE_BUSY, -TWO_PASSES
    is_enough = enough.is_reached(product.use)
    # L1 and shared memory bring the operands of the arithmetic; tensor cores take them in fewer and
    # wider accesses.
    is_fed_by_l1 = busiest == "l1" and "tensor.tf32" in product.times
    feeds = is_fed_by_l1 and is_enough and not product.is_use_of_sm
    if busiest in facts.needs and not feeds and facts.need(busiest) > product.use + margin:
        return ("memory-busier",)
    return () if is_enough else ("little-arithmetic",)


def _saving(facts: KernelFacts, product: _Product, *, is_limit: bool) -> Saving | None:
    """Bound the saving by the tensor cores' time for the same arithmetic, as far as that was counted.

    Larger tiles read operands less often from all memory levels, and inputs of 16 bits are half as wide. If
    arithmetic is the limit, its operands can reach tensor cores in fewer and wider accesses to L1.
    """
    if product.use is None:
        return Saving(1.0 - 1.0 / product.speedup, assumes=("limit-by-arithmetic",)) if facts.timed_only else None
    relieved = dict.fromkeys((*SCALAR_PIPES, *MEMORY, WORK, "lsu", ISSUE), 0.0)
    bound = speedup_bound(facts, relieved)
    stays = 0.5 if product.change == "narrower" else 1.0
    levels = dict.fromkeys(("dram", "l2") if is_limit else MEMORY, stays)
    same_reuse = speedup_bound(facts, relieved | levels).fraction
    fraction = min(same_reuse, 1.0 - (product.work or product.use) / product.speedup)
    is_wider = is_limit and stays * facts.need("l1") > 1.0 - fraction
    reuse = "same-operand-reuse-in-wider-accesses" if is_wider else "same-operand-reuse"
    assumes = ["tf32-inputs"] if "tensor.tf32" in product.times else []
    return bound.if_held(fraction, *assumes, reuse).only_if("same-multiplications-in-these-types")


RULE = Rule(
    "tensor-cores-idle",
    thresholds=(OUTER_PRODUCTS, MULTIPLIES, FUSED_SHARE, FMA_WORK, PIPE_BUSY, FASTER, SOME_WORK),
    check=_tensor_idle,
    metrics=(WARP_OPCODES,),
    of_timelines=True,
    place=AT_MATH,
)
