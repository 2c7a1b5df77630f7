"""The rule on matrix products that run on the scalar pipes while the tensor cores are idle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.code.patterns.outer_products import outer_products
from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.code import EXECUTED
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE, MEMORY, WORK
from gpuprof.diagnose.facts.work import SCALAR_PIPES, TENSOR_INPUTS
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import FMA_WORK, PIPE_BUSY, percent
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, Cases, Label
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.product_names import (
    has_inputs_of_8_bits,
    has_inputs_of_16_bits,
    is_only_a_convolution,
    is_product_by_name,
    is_torchs,
    plain_library_type,
)
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.model.session import Evidence
from gpuprof.model.torch_ranges import innermost_module, operator_name
from gpuprof.units import WARP_THREADS

FUSED_SHARE = percent("fused-share", 80.0)

OUTER_PRODUCTS = percent("outer-products", 80.0)

MULTIPLIES = percent("multiply-adds", 5.0)

FASTER = percent("tensor-rate", 150.0)

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

_BYTE = frozenset({"S8", "U8"})

_CONVOLUTION, _ARITHMETIC = "by-convolution", "by-arithmetic"

_PLACES = ("first", "second", "third")
"""Names of the types of inputs in the wording, the slowest first."""


class _Product(Struct, frozen=True):
    """A matrix product: its type, the evidence for it, and its arithmetic as far as known.

    `how` is the case of the wording for the evidence. `work` is its arithmetic as a fraction of the
    peak of plain instructions. `use` is `work` or the utilization of their pipe, whichever is more;
    if neither is known, the utilization of the SM, which is no less. `times` is the rate of the
    tensor cores over the plain rate by input type, the least of the architecture if the GPU is not
    known, and `most_times` is the largest. `outer` is the share of outer products if the code is
    known.
    """

    path: str
    how: str
    confidence: Confidence
    work: float | None
    use: float | None
    times: Mapping[str, float]
    most_times: float
    outer: float | None = None

    @property
    def type(self) -> _Type:
        """The type of the inputs."""
        return _BY_PATH[self.path]

    @property
    def in_tf32(self) -> bool:
        """Return whether FP32 data can stay as they are."""
        return "tensor.tf32" in self.times


def _tensor_idle(facts: KernelFacts) -> Findings:
    if not _may_multiply(facts) or not _tensor_cores_are_idle(facts):
        return
    product = _product(facts)
    if product is None or _is_bound_by_bytes(facts, product):
        return
    limit = _limit(facts, product)
    rates = _rates(product)
    change = _change(facts, product)
    amounts = [*amounts_of(work=product.work, use=product.use, outer=product.outer)]
    labels = [Label("type", (product.type.name,))]
    for place, (inputs, times) in zip(_PLACES, rates, strict=False):
        amounts.append(Amount(f"{place}_times", times))
        labels.append(Label(place, (inputs,)))
    busiest = _busiest_memory(facts)
    if busiest is not None:
        amounts += amounts_of(busy=facts.needs[busiest])
        labels += labels_of(unit=(busiest,))
    yield finding(
        facts,
        Cases(
            headline=_headline(product),
            why=(product.how, *_rate_cases(facts, product, rates), *limit),
            action=(change,),
            advice=tuple(_advice(facts, product, change)),
        ),
        amounts=amounts,
        labels=labels,
        confidence=product.confidence,
        saving=_saving(facts, product, change),
        evidence=_evidence(facts, product),
        place=facts.place_of_opcode(product.type.fused),
        is_fact=bool(limit),
    )


def _evidence(facts: KernelFacts, product: _Product) -> Iterator[Evidence]:
    kind, work = product.type, product.work
    pipe = _pipe(facts, kind)
    yield from facts.pipe_evidence("tensor")
    if work is not None and kind.is_counted:
        yield facts.peak_evidence(kind.name, kind.fused, work, FMA_WORK.value)
    elif work is not None:
        metric = WARP_OPCODES if product.path == "int8" else ""
        yield FMA_WORK.evidence(100 * work, "work-of-peak", kind.name, metric=metric)
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
    least = 0.5 if _may_be_halved(facts, path) else 1.0
    times = {name: least * rate for name, rate in rates.items() if FASTER.is_reached(least * rate)}
    if not times:
        return None
    use = None
    if work is not None or busy is not None:
        use = min(1.0, max(work or 0.0, busy or 0.0))
    return _Product(path, how, confidence, work, use, times, max(rates.values()))


def _multiplies_8_bits(facts: KernelFacts) -> bool:
    """Return whether FP32 arithmetic multiplies 8-bit integers, by signature or opcodes."""
    if has_inputs_of_8_bits(facts.kernel.demangled):
        return True
    loads = {name: count for name, count in facts.opcodes().items() if name.startswith("LDG.")}
    bytes_loaded = sum(count for name, count in loads.items() if not _BYTE.isdisjoint(name.split(".")))
    most = 100 * bytes_loaded >= FUSED_SHARE.value * sum(loads.values())
    return most and 0 < bytes_loaded <= facts.executed("I2F")


def _may_be_halved(facts: KernelFacts, path: str) -> bool:
    """Return whether the GPU product is unknown and may sum in FP32 at half of the rate."""
    return path == "fp32" and not facts.hardware.is_known and facts.arch.name in _HALVED


def _busy(facts: KernelFacts, path: str) -> float | None:
    """Return the maximum utilization of the pipe of a type; that of the SM if no pipe is known."""
    if not facts.kernel.pipes:
        return facts.utilisation.get("sm")
    pipe = _pipe(facts, _TYPES[path]) or ""
    return facts.needs.get(pipe, facts.pipe(pipe))


def _pipe(facts: KernelFacts, kind: _Type) -> str | None:
    return next((name for name in kind.pipes if facts.pipe(name) is not None), None)


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
        of_memory = "l1" if busiest == "l1" else "memory"
        return (f"{of_memory}-busier" if known else f"{of_memory}-as-busy",)
    # Arithmetic is only one part of the work of a busy SM.
    is_enough = (FMA_WORK if known else PIPE_BUSY).is_reached(product.use)
    return () if is_enough else ("little-arithmetic",)


def _busiest_memory(facts: KernelFacts) -> str | None:
    return max((level for level in MEMORY if level in facts.needs), key=lambda level: facts.needs[level], default=None)


def _saving(facts: KernelFacts, product: _Product, change: str) -> Saving | None:
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
    stays = 0.5 if change == "narrower" else 1.0
    speedup, assumes = max(product.times.values()), ["same-operand-reuse"]
    if product.in_tf32:
        speedup = product.times["tensor.tf32"]
        assumes.insert(0, "tf32-inputs")
    same_reuse = speedup_bound(facts, {**relieved, "l2": stays, "dram": stays}).fraction
    fraction = min(same_reuse, 1.0 - (product.work or product.use) / speedup)
    if not {"dram", "l2"} & facts.needs.keys():
        # Their needs are most of the remaining time: without them, a smaller need would be named in
        # their place.
        bound = replace(bound, remains=())
    return bound.if_held(fraction, *assumes).only_if("same-multiplications-in-these-types")


def _headline(product: _Product) -> tuple[str, ...]:
    if product.how == _ARITHMETIC:
        return ("multiply-adds-of-peak",)
    work = "without" if product.work is None else "at-peak"
    if product.how == _CONVOLUTION:
        return ("convolution", work)
    if product.path != _INT8_IN_FP32:
        return ("product", work)
    if product.work is None:
        return (product.path,)
    return (product.path, "of-peak")


def _rates(product: _Product) -> list[tuple[str, float]]:
    """Return the types of tensor-core inputs with their relative speeds, the slowest first."""
    inputs = product.type.tensor.items()
    rates = [(name, product.times[path]) for path, name in inputs if path in product.times]
    return sorted(rates, key=lambda rate: rate[1])


def _rate_cases(facts: KernelFacts, product: _Product, rates: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Yield the cases of "8 times as much per cycle in TF32, 16 times in BF16 or FP16"."""
    may_be_twice = _may_be_halved(facts, product.path)
    is_known = facts.hardware.is_known or may_be_twice
    yield "rates" if is_known else "rates-of-others"
    before = None
    for place, (_, times) in zip(_PLACES, rates, strict=False):
        yield f"or-{place}" if times == before else place
        before = times
    if may_be_twice:
        yield "or-twice"
    else:
        yield "of-product" if is_known else "without-spec"


def _change(facts: KernelFacts, product: _Product) -> str:
    """Return the case of the wording for the inputs that the tensor cores should take."""
    if product.path != "fp32":
        return product.path
    if has_inputs_of_16_bits(facts.kernel.demangled):
        return "inputs-of-16-bits"
    return "tf32" if product.in_tf32 else "narrower"


def _advice(facts: KernelFacts, product: _Product, change: str) -> Iterator[str]:
    """Yield the cases of the advice, those on PyTorch only if it may have launched the kernel."""
    is_pytorch = _may_be_pytorch(facts)
    if change == "narrower":
        inputs = [name for name in ("bf16", "fp16") if f"tensor.{name}" in product.times]
        yield from (f"{before}-{name}" for before, name in zip(("if", "or"), inputs, strict=False))
    yield change
    if change == "fp64":
        return
    if is_pytorch:
        yield f"{change}-torch"
    yield f"{change}-libraries"
    if change == "narrower":
        has_tf32 = ComputeKey("tensor.tf32", "fp32", "mma.sync") in facts.hardware.rates
        yield "no-faster-tf32" if has_tf32 else "sums-in-fp32"
    if change == "tf32":
        if is_pytorch:
            yield "torch-autocast"
        yield "faster-still"
        can_emulate = facts.arch.name.startswith("sm_10")
        yield "in-fp32-or-emulated" if can_emulate else "in-fp32"


def _may_be_pytorch(facts: KernelFacts) -> bool:
    """Return whether PyTorch may have launched a kernel; a library's do not show their caller."""
    name, ranges = facts.kernel.demangled, facts.kernel.ranges
    if facts.kernel.operator_flop is not None or operator_name(ranges) or "." in innermost_module(ranges):
        return True
    return plain_library_type(name) is not None or is_torchs(name)


RULE = Rule(
    "tensor-cores-idle",
    thresholds=(OUTER_PRODUCTS, MULTIPLIES, FUSED_SHARE, FMA_WORK, PIPE_BUSY, FASTER),
    check=_tensor_idle,
    metrics=(WARP_OPCODES,),
    of_timelines=True,
    place=AT_MATH,
)
