"""The rule on matrix products that run on the scalar pipes while the tensor cores are idle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.annotated.counts import EXECUTED
from gpuprof.code.patterns.outer_products import outer_products
from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE, MEMORY, WORK
from gpuprof.diagnose.facts.work import SCALAR_PIPES, TENSOR_INPUTS
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import FMA_WORK, PIPE_BUSY, percent
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, Cases
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.product_names import (
    has_inputs_of_8_bits,
    has_inputs_of_16_bits,
    is_only_a_convolution,
    is_product_by_name,
    plain_library_type,
)
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.model.session import Evidence
from gpuprof.units import WARP_THREADS

FUSED_SHARE = percent("fused-share", 80.0)

OUTER_PRODUCTS = percent("outer-products", 80.0)

MULTIPLIES = percent("multiply-adds", 5.0)

FASTER = percent("tensor-rate", 150.0)

SOME_WORK = percent("some-arithmetic", 1.0)

_WITH_TENSOR_CORES = re.compile(r"\bRTX\b|\bT4G?\b")
"""Of compute capability 7.5, only products of these names have tensor cores."""

_HALVED = ("sm_75", "sm_86", "sm_89", "sm_120")
"""Architectures whose GeForce products sum in FP32 at half of the rate of others (NVIDIA's
whitepapers on Turing, GA102, Ada and RTX Blackwell)."""

_IDLE = 0.005

_OPERATIONS_OF_IDP = 8
"""`IDP.4A` multiplies and adds four pairs; it runs at the rate of integer multiply-adds (CUDA
Programming Guide, throughput of arithmetic instructions), each counted as one operation."""


class _Type(Struct, frozen=True):
    """A type of inputs of plain instructions, and the types that the tensor cores take instead.

    `fused` are its multiply-adds, `alone` its additions and multiplications; `is_counted` if
    counters have them, too.
    """

    name: str
    pipes: tuple[str, ...]
    tensor: Mapping[str, str]
    fused: str
    alone: tuple[str, ...] = ()
    is_counted: bool = False


_TYPES = {
    "fp32": _Type("FP32", ("fma",), TENSOR_INPUTS, "FFMA", ("FADD", "FMUL"), is_counted=True),
    "fp64": _Type("FP64", ("fp64",), {"tensor.fp64": "FP64"}, "DFMA", ("DADD", "DMUL"), is_counted=True),
    "fp16": _Type(
        "16-bit", ("fp16", "fma"), {"tensor.fp16": "FP16", "tensor.bf16": "BF16"}, "HFMA2", ("HADD2", "HMUL2")
    ),
    "int8": _Type("INT8", (), {"tensor.int8": "INT8"}, "IDP"),
}

_INT8_IN_FP32 = "int8-in-fp32"

_BY_PATH = {**_TYPES, _INT8_IN_FP32: replace(_TYPES["fp32"], tensor={"tensor.int8": "INT8"})}
"""These types and integers of 8 bits that are converted and multiplied in FP32."""

_CONVOLUTION, _ARITHMETIC = "by-convolution", "by-arithmetic"


class _Product(Struct, frozen=True):
    """A matrix product: its type, the evidence for it, and its arithmetic as far as known.

    `how` is the case of the wording for the evidence. `work` is its arithmetic as a fraction of the
    peak of plain instructions. `use` is `work` or the utilization of their pipe, whichever is more;
    if neither is known, the utilization of the SM, which is no less. `times` is the rate of the
    tensor cores over the plain rate by input type, the least of the architecture if the GPU is not
    known, and `most_times` is the largest. `change` is the case of the wording for the inputs that they
    should take. `outer` is the share of outer products if the code is known.
    """

    path: str
    how: str
    confidence: Confidence
    work: float | None
    use: float | None
    times: Mapping[str, float]
    most_times: float
    change: str
    outer: float | None = None

    @property
    def type(self) -> _Type:
        """The type of the inputs."""
        return _BY_PATH[self.path]

    @property
    def in_tf32(self) -> bool:
        """Return whether FP32 data can stay as they are."""
        return "tensor.tf32" in self.times

    @property
    def speedup(self) -> float:
        """The rate of the tensor cores over the plain rate, in TF32 if it is faster than FP32."""
        return self.times["tensor.tf32"] if self.in_tf32 else max(self.times.values())

    @property
    def fastest_inputs(self) -> tuple[str, ...]:
        """The types of inputs that have this rate."""
        return tuple(name for path, name in self.type.tensor.items() if self.times.get(path) == self.speedup)


def _tensor_idle(facts: KernelFacts) -> Findings:
    """Report a matrix product on the scalar pipes, unless its arithmetic takes hardly any time."""
    if not _may_multiply(facts) or not _tensor_cores_are_idle(facts):
        return
    product = _product(facts)
    if product is None or _hardly_computes(product) or _is_bound_by_bytes(facts, product):
        return
    limit = _limit(facts, product)
    busiest = _busiest_memory(facts)
    yield finding(
        facts,
        Cases(
            headline=_headline(product),
            why=(product.how, "rate" if facts.hardware.is_known else "least-rate", *limit),
            action=(product.change,),
            advice=(product.change,),
        ),
        amounts=(
            *amounts_of(work=product.work, use=product.use, outer=product.outer, busy=facts.needs.get(busiest or "")),
            Amount("times", product.speedup),
        ),
        labels=labels_of(
            type=(product.type.name,), inputs=product.fastest_inputs, unit=(busiest,) if busiest is not None else ()
        ),
        confidence=product.confidence,
        saving=_saving(facts, product),
        evidence=_evidence(facts, product),
        place=facts.place_of_opcode(product.type.fused),
        is_fact=bool(limit),
    )


def _hardly_computes(product: _Product) -> bool:
    """Return whether the counted arithmetic takes hardly any time, as of an outer product of two vectors."""
    return product.work is not None and not SOME_WORK.is_reached(product.work)


def _headline(product: _Product) -> tuple[str, ...]:
    what = "product"
    if product.how in (_CONVOLUTION, _ARITHMETIC):
        what = product.how
    elif product.path == _INT8_IN_FP32:
        what = product.path
    return (what,) if product.work is None else (what, "at-peak")


def _evidence(facts: KernelFacts, product: _Product) -> Iterator[Evidence]:
    kind, work = product.type, product.work
    pipe = next((name for name in kind.pipes if facts.pipe(name) is not None), None)
    yield from facts.pipe_evidence("tensor")
    if work is not None and kind.is_counted:
        yield facts.peak_evidence(kind.name, kind.fused, work, FMA_WORK.value)
    elif work is not None:
        yield FMA_WORK.evidence(100 * work, "work-of-peak", kind.name, metric=WARP_OPCODES)
    elif pipe is not None:
        yield from facts.pipe_evidence(pipe, FMA_WORK.value)
    elif not facts.kernel.pipes and product.use is not None:
        yield PIPE_BUSY.evidence(100 * product.use, "unit-busy", "sm", metric=facts.light_metric("sm"))
    if product.outer is not None:
        yield OUTER_PRODUCTS.evidence(100 * product.outer, "outer-products-in-hot-code", metric=EXECUTED)
    yield FASTER.evidence(100 * max(product.times.values()), "tensor-over-plain", kind.name)


def _may_multiply(facts: KernelFacts) -> bool:
    """Return whether the kernel's kind multiplies matrices and DRAM does not limit it more."""
    kind = kind_named(facts.kernel.kind)
    if kind is None:
        return True
    dram = facts.needs.get("dram")
    limited_by_dram = kind.binds == "dram" and dram is not None and dram >= facts.arithmetic_fraction
    return kind.multiplies and not limited_by_dram


def _tensor_cores_are_idle(facts: KernelFacts) -> bool:
    """Return whether the GPU has unused tensor cores, by the kernel's pipe, opcodes or name."""
    is_unnamed = facts.arch.name == "sm_75" and facts.hardware.gpu is None
    if is_unnamed and not _WITH_TENSOR_CORES.search(facts.hardware.device.name or ""):
        return False
    busy, opcodes = facts.pipe("tensor"), facts.opcodes()
    if any(map(matrix_opcode, opcodes)):
        return False
    if busy is not None:
        return busy <= _IDLE
    return bool(opcodes) or plain_library_type(facts.kernel.demangled) is not None


def _product(facts: KernelFacts) -> _Product | None:
    """Return the kernel's matrix product, by a library's name, its code, its name or counters."""
    name = facts.kernel.demangled
    library = plain_library_type(name)
    if library is not None:
        return _product_of(facts, library, "by-library")
    in_code = outer_products((item.sass, item.counts.get(EXECUTED, 0.0)) for item in facts.code)
    if in_code is not None and OUTER_PRODUCTS.is_reached(in_code.share):
        product = _product_of(facts, in_code.path, "by-code")
        if product is not None:
            product = replace(product, outer=in_code.share)
        return product
    path = _busiest_type(facts)
    fused = _fused_share(facts, path) if path is not None else None
    if path is None or (fused is not None and not FUSED_SHARE.is_reached(fused)):
        return None
    is_by_name = is_product_by_name(name)
    if is_by_name and is_only_a_convolution(name):
        return _product_of(facts, path, _CONVOLUTION, "guess")
    if is_by_name:
        return _product_of(facts, path, "by-name-alone" if fused is None else "by-name")
    is_large = in_code is None and FMA_WORK.is_reached(_work(facts, path))
    return _product_of(facts, path, _ARITHMETIC, "guess") if path == "fp32" and is_large else None


def _product_of(facts: KernelFacts, path: str, how: str, confidence: Confidence = "inferred") -> _Product | None:
    work, busy = _work(facts, path), _busy(facts, path)
    if path == "fp32" and _multiplies_8_bits(facts):
        path = _INT8_IN_FP32
    rates = _times(facts, path)
    may_be_halved = path == "fp32" and not facts.hardware.is_known and facts.arch.name in _HALVED
    least = 0.5 if may_be_halved else 1.0
    times = {name: least * rate for name, rate in rates.items() if FASTER.is_reached(least * rate)}
    if not times:
        return None
    use = None
    if work is not None or busy is not None:
        use = min(1.0, max(work or 0.0, busy or 0.0))
    change = path
    if path == "fp32":
        change = "tf32" if "tensor.tf32" in times else "narrower"
        if has_inputs_of_16_bits(facts.kernel.demangled):
            change = "inputs-of-16-bits"
    return _Product(path, how, confidence, work, use, times, max(rates.values()), change)


def _multiplies_8_bits(facts: KernelFacts) -> bool:
    """Return whether FP32 arithmetic multiplies 8-bit integers, by signature or as most loads are converted."""
    if has_inputs_of_8_bits(facts.kernel.demangled):
        return True
    narrow = facts.executed("LDG.E.S8", "LDG.E.U8")
    return 0 < FUSED_SHARE.value / 100 * facts.executed("LDG") <= narrow <= facts.executed("I2F")


def _busy(facts: KernelFacts, path: str) -> float | None:
    """Return the maximum utilization of the pipe of a type; that of the SM if no pipe is known."""
    if not facts.kernel.pipes:
        return facts.utilisation.get("sm")
    uses = (facts.needs.get(name, facts.pipe(name)) for name in _TYPES[path].pipes)
    return next((use for use in uses if use is not None), None)


def _work(facts: KernelFacts, path: str) -> float | None:
    """Return the arithmetic as a fraction of the plain peak; that of INT8 by its opcodes."""
    if path != "int8":
        return facts.fraction_of_peak(path)
    count, cycles = facts.executed(_TYPES[path].fused), facts.sm_cycles
    rate = facts.hardware.rates.get(ComputeKey("int32"))
    if not count or rate is None or not rate.value or cycles is None:
        return None
    return count * WARP_THREADS / (rate.value * cycles)


def _busiest_type(facts: KernelFacts) -> str | None:
    """Return the type of most of the arithmetic: by opcodes, else by counted work, else by the
    pipes.

    Return None if the busiest pipe belongs to no type: the kernel then does something else.
    """
    if facts.opcodes():
        counts = {path: facts.executed(kind.fused) for path, kind in _TYPES.items()}
        most = max(counts, key=lambda path: counts[path])
        if 100 * counts[most] < MULTIPLIES.value * sum(facts.opcodes().values()):
            return None
        return most
    works = {path: work for path in _TYPES if path != "int8" and (work := facts.fraction_of_peak(path))}
    if works:
        return max(works, key=lambda path: works[path])
    busiest = max(SCALAR_PIPES, key=lambda name: facts.pipe(name) or 0.0)
    return next((path for path, kind in _TYPES.items() if busiest in kind.pipes), None)


def _fused_share(facts: KernelFacts, path: str) -> float | None:
    """Return the share of multiply-adds in the arithmetic of a type; None if it was not counted."""
    kind = _TYPES[path]
    counted = facts.fused_and_alone(kind.fused, *kind.alone) if kind.is_counted else None
    if counted is not None:
        return counted.fused / (counted.all or 1.0)
    fused = facts.executed(kind.fused)
    both = fused + facts.executed(*kind.alone)
    return fused / both if both else None


def _times(facts: KernelFacts, path: str) -> dict[str, float]:
    """Return the relative speed of the tensor cores by path, with sums as exact as now."""
    hardware = facts.hardware
    rates = hardware.rates if hardware.is_known else hardware.arch.compute
    plain = rates.get(ComputeKey({"int8": "int32", _INT8_IN_FP32: "fp32"}.get(path, path)))
    if plain is None or not plain.value:
        return {}
    unit = plain.value * (_OPERATIONS_OF_IDP if path == "int8" else 1)
    fastest: dict[str, float] = {}
    for key, fact in rates.items():
        if key.path in _BY_PATH[path].tensor and (path != "fp32" or key.accumulator == "fp32"):
            fastest[key.path] = max(fastest.get(key.path, 0.0), fact.value / unit)
    return fastest


def _is_bound_by_bytes(facts: KernelFacts, product: _Product) -> bool:
    """Return whether DRAM is the busiest level and busier than the arithmetic, as for a vector."""
    dram = facts.needs.get("dram")
    if dram is None or product.use is None or dram <= product.use + TWO_PASSES:
        return False
    return all(dram > need for level in ("l2", "l1") if (need := facts.needs.get(level)) is not None)


def _limit(facts: KernelFacts, product: _Product) -> tuple[str, ...]:
    """Return the case of the problem to fix first; nothing if the arithmetic is the limit of the
    kernel.

    If memory is as busy as the SM, it alone can keep the SM busy.
    """
    if product.use is None:
        return ("limit-unknown",)
    busiest = _busiest_memory(facts)
    known = product.work is not None or bool(facts.kernel.pipes)
    # L1 and shared memory bring the operands of the arithmetic; tensor cores take them in fewer and
    # wider accesses.
    feeds = busiest == "l1" and product.in_tf32 and known and FMA_WORK.is_reached(product.use)
    margin = TWO_PASSES if known else -TWO_PASSES
    if busiest is not None and not feeds and facts.needs[busiest] > product.use + margin:
        return ("memory-busier",)
    # Arithmetic is only one part of the work of a busy SM.
    is_enough = (FMA_WORK if known else PIPE_BUSY).is_reached(product.use)
    return () if is_enough else ("little-arithmetic",)


def _busiest_memory(facts: KernelFacts) -> str | None:
    return max((level for level in MEMORY if level in facts.needs), key=lambda level: facts.needs[level], default=None)


def _saving(facts: KernelFacts, product: _Product) -> Saving | None:
    """Bound the saving by the tensor cores' time for the same arithmetic, as far as that was
    counted.

    Operands reach tensor cores in fewer and wider accesses, which can relieve L1 and the scalar
    pipes altogether. Larger tiles read operands less often from L2 and DRAM, and inputs of 16 bits
    are half as wide.
    """
    if product.use is None:
        return None
    relieved = dict.fromkeys((*SCALAR_PIPES, WORK, "lsu", ISSUE, "l1"), 0.0)
    bound = speedup_bound(facts, {**relieved, "l2": 0.0, "dram": 0.0})
    if product.work is not None:
        bound = bound.no_more_than(1.0 - product.work / product.most_times)
    stays = 0.5 if product.change == "narrower" else 1.0
    assumes = ["tf32-inputs"] if product.in_tf32 else []
    same_reuse = speedup_bound(facts, {**relieved, "l2": stays, "dram": stays}).fraction
    fraction = min(same_reuse, 1.0 - (product.work or product.use) / product.speedup)
    if not {"dram", "l2"} & facts.needs.keys():
        # Their needs are most of the remaining time: without them, a smaller need would be named in
        # their place.
        bound = replace(bound, remains=())
    return bound.if_held(fraction, *assumes, "same-operand-reuse").only_if("same-multiplications-in-these-types")


RULE = Rule(
    "tensor-cores-idle",
    thresholds=(OUTER_PRODUCTS, MULTIPLIES, FUSED_SHARE, FMA_WORK, PIPE_BUSY, FASTER, SOME_WORK),
    check=_tensor_idle,
    metrics=(WARP_OPCODES,),
    of_timelines=True,
    place=AT_MATH,
)
