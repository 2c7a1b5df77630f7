"""The rule on matrix products that run on the pipes for scalars while the tensor cores are at rest."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.diagnose.arithmetic import (
    SCALAR_PIPES,
    TENSOR_INPUTS,
    FloatingPoint,
    fraction_of_peak,
    fused_and_alone,
    opcodes_of,
    peak_evidence,
)
from gpuprof.diagnose.case import EXECUTED, Case
from gpuprof.diagnose.compute import FMA_WORK, PIPE_BUSY
from gpuprof.diagnose.needs import ISSUE, MEMORY, UNIT_WORDS, WORK, Saving
from gpuprof.diagnose.products import outer_products
from gpuprof.diagnose.rule import AT_MATH, Rule, RuleVerdict, percent
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey
from gpuprof.model.field_types import Confidence
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
from gpuprof.units import WARP_THREADS, format_percent

FUSED_SHARE = percent("fused share", 80.0, "matrix multiplications are nearly all multiply-adds; few other kernels are")
OUTER_PRODUCTS = percent(
    "outer products",
    80.0,
    "the inner loop of a matrix multiplication does nothing else; scaling and sums around it are rare",
)
MULTIPLIES = percent(
    "multiply-adds among instructions",
    5.0,
    "without tiles, each comes with two loads and a dozen instructions for addresses and the loop; where there are "
    "fewer, they scale results or move constants",
)
FASTER = percent("tensor rate over the plain rate", 150.0, "less is lost again to moving operands into place")

_WITH_TENSOR_CORES = re.compile(r"\bRTX\b|\bT4G?\b")
"""Of compute capability 7.5, only products of these names have tensor cores."""
_HALVED = ("sm_75", "sm_86", "sm_89", "sm_120")
"""Architectures whose GeForce products sum in FP32 at half of the rate of others (NVIDIA's whitepapers on Turing,
GA102, Ada and RTX Blackwell)."""
_AT_REST = 0.005
_OPERATIONS_OF_IDP = 8
"""`IDP.4A` multiplies and adds four pairs; it runs at the rate of integer multiply-adds (CUDA Programming Guide,
throughput of arithmetic instructions), each counted as one operation."""


class _Type(Struct, frozen=True):
    """A type of inputs as plain instructions multiply it, and what the tensor cores take instead.

    `counters` are its multiply-adds, additions and multiplications in names of metrics; `opcodes` the same in SASS.
    """

    name: str
    pipes: tuple[str, ...]
    tensor: Mapping[str, str]
    opcodes: tuple[str, str]
    counters: tuple[str, str, str] | None = None


_TYPES = {
    "fp32": _Type("FP32", ("fma",), TENSOR_INPUTS, opcodes=("FFMA", "FADD FMUL"), counters=("ffma", "fadd", "fmul")),
    "fp64": _Type(
        "FP64", ("fp64",), {"tensor.fp64": "FP64"}, opcodes=("DFMA", "DADD DMUL"), counters=("dfma", "dadd", "dmul")
    ),
    "fp16": _Type(
        "16-bit", ("fp16", "fma"), {"tensor.fp16": "FP16", "tensor.bf16": "BF16"}, opcodes=("HFMA2", "HADD2 HMUL2")
    ),
    "int8": _Type("INT8", (), {"tensor.int8": "INT8"}, opcodes=("IDP", "")),
}
_INT8_IN_FP32 = "int8 in fp32"
_BY_PATH = {**_TYPES, _INT8_IN_FP32: replace(_TYPES["fp32"], tensor={"tensor.int8": "INT8"})}
"""Those and integers of 8 bits that are converted and multiplied in FP32."""
_BYTE = frozenset({"S8", "U8"})
_MEMORY_WORDS = {"l1": "L1 or shared memory"}


class _Product(Struct, frozen=True):
    """A matrix product: its type, what says that it is one, and what is known of its arithmetic.

    `work` is its arithmetic of the peak of plain instructions, `use` the same or how busy their pipe is, whichever is
    more; where neither is known, how busy the SM is, which is no less. `times` is the rate of the tensor cores over the
    plain one, by what they take: the least and the most that a GPU of the architecture has, where it is not known which
    one it is. `outer` is the share of outer products, where the code told.
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
        """What is multiplied."""
        return _BY_PATH[self.path]

    @property
    def in_tf32(self) -> bool:
        """Tell whether FP32 data can stay as they are."""
        return "tensor.tf32" in self.times


def _tensor_idle(case: Case) -> Iterator[RuleVerdict]:
    product = _product(case) if _may_multiply(case) and _tensor_cores_rest(case) else None
    if product is None or _is_bound_by_bytes(case, product):
        return
    holds = _what_holds(case, product)
    yield RuleVerdict(
        headline=_headline(product),
        why=f"{product.how} The tensor cores of this GPU do {_rates_text(case, product)}.{holds}",
        advice=_advice(case, product),
        confidence=product.confidence,
        saving=_saving(case, product),
        evidence=tuple(_evidence(case, product)),
        action=_action(case, product),
        location=case.place_of_opcode(product.type.opcodes[0]),
        settled=bool(holds),
    )


def _evidence(case: Case, product: _Product) -> Iterator[Evidence]:
    if case.pipe("tensor") is not None:
        yield case.pipe_evidence("tensor")
    pipe = next((name for name in product.type.pipes if case.pipe(name) is not None), None)
    if product.work is not None:
        yield _work_evidence(case, product)
    elif pipe is not None:
        yield case.pipe_evidence(pipe, FMA_WORK.value)
    elif not case.kernel.pipes and product.use is not None:
        metric = case.light_metric("sm")
        yield Evidence(metric, 100 * product.use, "%", threshold=PIPE_BUSY.value, meaning="SM busy")
    if product.outer is not None:
        threshold = OUTER_PRODUCTS.value
        yield Evidence(
            EXECUTED, 100 * product.outer, "%", threshold=threshold, meaning="outer products in the hot code"
        )
    times = 100 * max(product.times.values())
    yield Evidence("", times, "%", threshold=FASTER.value, meaning=f"tensor rate over the {product.type.name} rate")


def _may_multiply(case: Case) -> bool:
    """Tell whether the kernel's kind multiplies matrices, and is not held up by DRAM more than by its arithmetic."""
    kind = kind_named(case.kernel.kind)
    if kind is None:
        return True
    dram = case.needs.get("dram")
    held_up = kind.binds == "dram" and dram is not None and dram >= case.arithmetic_fraction
    return kind.multiplies and not held_up


def _tensor_cores_rest(case: Case) -> bool:
    """Tell whether the GPU has tensor cores and the kernel no instruction for them: by its pipe, opcodes or name."""
    hardware = case.recorded.hardware
    unnamed = hardware.arch.name == "sm_75" and hardware.gpu is None
    if unnamed and _WITH_TENSOR_CORES.search(hardware.device.name or "") is None:
        return False
    busy, opcodes = case.pipe("tensor"), opcodes_of(case)
    if any(matrix_opcode(opcode) is not None for opcode in opcodes):
        return False
    if busy is not None:
        return busy <= _AT_REST
    return bool(opcodes) or plain_library_type(case.kernel.demangled) is not None


def _product(case: Case) -> _Product | None:
    """Return what the kernel multiplies: by the name of a library's kernel, its own name, its code or its counters."""
    name = case.kernel.demangled
    library = plain_library_type(name)
    if library is not None:
        return _of(case, library, "By its name it is a library's matrix multiplication without tensor cores.")
    in_code = outer_products(case.code)
    if in_code is not None and 100 * in_code.share >= OUTER_PRODUCTS.value:
        how = (
            f"{format_percent(in_code.share)} of the arithmetic in its hot code is outer products: a matrix "
            "multiplication."
        )
        product = _of(case, in_code.path, how)
        return replace(product, outer=in_code.share) if product is not None else None
    path = _busiest_type(case)
    if path is None or not _is_fused(case, path):
        return None
    if is_product_by_name(name) and is_only_a_convolution(name):
        how = "By its name it is a convolution, which is a matrix multiplication if it has many channels."
        return _of(case, path, how, "guess")
    if is_product_by_name(name):
        return _of(case, path, "By its name it is a matrix multiplication, and its arithmetic is multiply-adds.")
    product = _of(
        case, path, "It looks like a matrix multiplication: nearly all of its arithmetic is multiply-adds.", "guess"
    )
    is_large = product is not None and product.work is not None and 100 * product.work >= FMA_WORK.value
    return product if path == "fp32" and in_code is None and is_large else None


def _of(case: Case, path: str, how: str, confidence: Confidence = "inferred") -> _Product | None:
    work, busy = _work(case, path), _busy(case, path)
    if path == "fp32" and _multiplies_8_bits(case):
        path = _INT8_IN_FP32
    rates = _times(case, path)
    least = 0.5 if _may_be_halved(case, path) else 1.0
    times = {name: least * rate for name, rate in rates.items() if 100 * least * rate >= FASTER.value}
    if not times:
        return None
    known = [value for value in (work, busy) if value is not None]
    use = min(1.0, max(known)) if known else None
    most = max(rates.values())
    return _Product(path, how=how, confidence=confidence, work=work, use=use, times=times, most_times=most)


def _multiplies_8_bits(case: Case) -> bool:
    """Tell whether FP32 arithmetic multiplies integers of 8 bits: by the signature, else by loads and conversions."""
    if has_inputs_of_8_bits(case.kernel.demangled):
        return True
    loads = {name: count for name, count in opcodes_of(case).items() if name.startswith("LDG.")}
    bytes_loaded = sum(count for name, count in loads.items() if not _BYTE.isdisjoint(name.split(".")))
    most = 100 * bytes_loaded >= FUSED_SHARE.value * sum(loads.values())
    return most and 0 < bytes_loaded <= _executed(case, "I2F")


def _may_be_halved(case: Case, path: str) -> bool:
    """Tell whether the product is unknown and may sum in FP32 at half of the rate."""
    hardware = case.recorded.hardware
    return path == "fp32" and not hardware.is_known and hardware.arch.name in _HALVED


def _busy(case: Case, path: str) -> float | None:
    """Return how busy the pipe of a type is at most: the SM is as busy as its busiest part, where no pipe is known."""
    if not case.kernel.pipes:
        return case.utilisation.get("sm")
    pipe = next((name for name in _TYPES[path].pipes if case.pipe(name) is not None), "")
    return case.needs.get(pipe, case.pipe(pipe))


def _work(case: Case, path: str) -> float | None:
    """Return the arithmetic of the peak of plain instructions; of INT8 by its opcodes."""
    if path != "int8":
        return fraction_of_peak(case, path)
    count = _executed(case, _TYPES[path].opcodes[0])
    rate, sms = case.recorded.hardware.rates.get(ComputeKey("int32")), case.recorded.hardware.sm_count()
    duration, clock = case.kernel.duration_s, case.kernel.sm_clock_hz
    if not count or rate is None or not rate.value or not sms or not duration or not clock:
        return None
    return count * WARP_THREADS / (rate.value * sms * duration * clock)


def _executed(case: Case, starts: str) -> float:
    names = tuple(starts.split())
    return sum(count for name, count in opcodes_of(case).items() if name.startswith(names)) if names else 0.0


def _busiest_type(case: Case) -> str | None:
    """Return the type that most of the arithmetic is of: by opcodes, else by counted work, else by the pipes.

    Where another pipe than those of a type is busier, the kernel is about something else.
    """
    if opcodes_of(case):
        counts = {path: _executed(case, kind.opcodes[0]) for path, kind in _TYPES.items()}
        most = max(counts, key=lambda path: counts[path])
        return most if 100 * counts[most] >= MULTIPLIES.value * sum(opcodes_of(case).values()) else None
    works = {path: work for path in _TYPES if path != "int8" and (work := fraction_of_peak(case, path))}
    if works:
        return max(works, key=lambda path: works[path])
    pipes = {name: busy for name in SCALAR_PIPES if (busy := case.pipe(name))}
    busiest = max(pipes, key=lambda name: pipes[name], default=None)
    return next((path for path, kind in _TYPES.items() if busiest in kind.pipes), None)


def _is_fused(case: Case, path: str) -> bool:
    """Tell whether the arithmetic is multiply-adds, as far as it was counted: its pipe is the busiest in any case."""
    counted = _counted(case, path)
    if counted is not None:
        return counted.all > 0 and 100 * counted.fused >= FUSED_SHARE.value * counted.all
    if not opcodes_of(case):
        return True
    fused, alone = (_executed(case, starts) for starts in _TYPES[path].opcodes)
    return 100 * fused >= FUSED_SHARE.value * (fused + alone)


def _counted(case: Case, path: str) -> FloatingPoint | None:
    names = _TYPES[path].counters
    return fused_and_alone(case, names[0], names[1:]) if names is not None else None


def _times(case: Case, path: str) -> dict[str, float]:
    """Return by tensor path how many times as fast as plain instructions the tensor cores are.

    Sums are as exact as now.
    """
    hardware = case.recorded.hardware
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


def _is_bound_by_bytes(case: Case, product: _Product) -> bool:
    """Tell whether DRAM is the busiest memory level and busier than the arithmetic: few rows, or a vector."""
    dram = case.needs.get("dram")
    if dram is None or product.use is None or dram <= product.use + TWO_PASSES:
        return False
    return all(dram > need for level in ("l2", "l1") if (need := case.needs.get(level)) is not None)


def _what_holds(case: Case, product: _Product) -> str:
    """Say what has to be repaired first; empty where the arithmetic is what the kernel runs into.

    Memory that is as busy as the SM can be all that keeps the SM busy.
    """
    if product.use is None:
        return " What limits the kernel now was not collected."
    after = " Arithmetic is not the limit now:"
    levels = {level: case.needs[level] for level in MEMORY if level in case.needs}
    busiest = max(levels, key=lambda level: levels[level], default=None)
    known = product.work is not None or bool(case.kernel.pipes)
    # L1 and shared memory bring the operands of the arithmetic, which tensor cores take in fewer and wider accesses.
    feeds = busiest == "l1" and product.in_tf32 and known and 100 * product.use >= FMA_WORK.value
    if busiest is not None and not feeds and levels[busiest] > product.use + (TWO_PASSES if known else -TWO_PASSES):
        unit = _MEMORY_WORDS.get(busiest, UNIT_WORDS[busiest])
        busy, at_most = format_percent(levels[busiest]), format_percent(product.use)
        return f"{after} {unit} is {busy} busy, arithmetic at most {at_most}."
    # Of a busy SM, arithmetic is one part of several.
    if 100 * product.use < (FMA_WORK if known else PIPE_BUSY).value:
        return f"{after} it is at most {format_percent(product.use)} of the peak."
    return ""


def _saving(case: Case, product: _Product) -> Saving | None:
    """Bound it by the tensor cores' time for the same arithmetic, as far as that was counted.

    Operands reach tensor cores in fewer and wider accesses, so that L1 and the scalar pipes can be relieved altogether.
    Larger tiles read operands less often from L2 and DRAM, and inputs of 16 bits are half as wide.
    """
    if product.use is None:
        return None
    relieved = dict.fromkeys((*SCALAR_PIPES, WORK, "lsu", ISSUE, "l1"), 0.0)
    bound = case.saving({**relieved, "l2": 0.0, "dram": 0.0})
    if product.work is not None:
        bound = bound.no_more_than(1.0 - product.work / product.most_times)
    narrower = product.path == "fp32" and not product.in_tf32 and not has_inputs_of_16_bits(case.kernel.demangled)
    stays = 0.5 if narrower else 1.0
    told = product.times["tensor.tf32"] if product.in_tf32 else max(product.times.values())
    fraction = min(
        case.saving({**relieved, "l2": stays, "dram": stays}).fraction, 1.0 - (product.work or product.use) / told
    )
    reuse = "the same operand reuse"
    told_with = f"inputs in TF32 and {reuse}" if product.in_tf32 else reuse
    if not {"dram", "l2"} & case.needs.keys():
        # What they need is most of what is left: anything smaller would be named in their place.
        bound = replace(bound, remains=())
    return bound.if_held(fraction, told_with).only_if("the same multiplications in these types")


def _headline(product: _Product) -> str:
    name = product.type.name
    of_peak = f"{format_percent(product.work)} of the {name} peak" if product.work is not None else ""
    if product.confidence == "guess":
        return f"Tensor cores idle: {of_peak or f'{name} arithmetic'}, nearly all multiply-adds"
    if product.path == _INT8_IN_FP32:
        name = f"INT8 matrix multiplication in {name}"
        return f"Tensor cores idle: {name}{f', {of_peak}' if of_peak else ''}"
    return f"Tensor cores idle: {name} matrix multiplication {f'at {of_peak}' if of_peak else 'without them'}"


def _rates_text(case: Case, product: _Product) -> str:
    """Write how much more each input type does: "8 times as much per cycle in TF32, 16 times in BF16 or FP16"."""
    names, times = product.type.tensor, product.times
    types: dict[float, list[str]] = {}
    for path in sorted(times, key=lambda name: (times[name], list(names).index(name))):
        types.setdefault(times[path], []).append(names[path])
    parts = [f"{rate:.2g} times {{}}in {' or '.join(inputs)}" for rate, inputs in types.items()]
    text = ", ".join(part.format("as much per cycle " if not place else "") for place, part in enumerate(parts))
    if _may_be_halved(case, product.path):
        return f"at least {text}, or twice that: this product has no spec"
    if case.recorded.hardware.is_known:
        return text
    return f"{text} on other products of its architecture; this one has no spec"


def _work_evidence(case: Case, product: _Product) -> Evidence:
    kind, percent_of_peak = product.type, 100 * (product.work or 0.0)
    if kind.counters is not None:
        return peak_evidence(case, kind.name, kind.counters[0], percent_of_peak / 100, FMA_WORK.value)
    metric = WARP_OPCODES if product.path == "int8" else ""
    return Evidence(metric, percent_of_peak, "%", threshold=FMA_WORK.value, meaning=f"{kind.name} work, of its peak")


def _action(case: Case, product: _Product) -> str:
    if product.path == _INT8_IN_FP32:
        return "Run the matrix multiplication on the tensor cores with its 8-bit inputs as they are"
    if product.path != "fp32":
        return f"Run the {product.type.name} matrix multiplication on the tensor cores"
    if has_inputs_of_16_bits(case.kernel.demangled):
        return "Run the matrix multiplication on the tensor cores with its 16-bit inputs as is"
    if product.in_tf32:
        return "Run the matrix multiplication on the tensor cores, in TF32 or 16 bits"
    return "Run the matrix multiplication on the tensor cores, with 16-bit inputs"


_ADVICE = {
    "fp64": (
        "The tensor cores multiply FP64 as accurately as DFMA does: cuBLAS (cublasDgemm), CUTLASS with "
        "OpClassTensorOp, or mma.sync.m8n8k4 with .f64 in CUDA."
    ),
    "fp16": (
        "The inputs stay as they are, and sums in FP32 are more accurate than now: {torch.matmul on the same "
        "tensors, }tl.dot, cublasGemmEx with CUBLAS_COMPUTE_32F, CUTLASS with OpClassTensorOp, mma or wgmma in CUDA."
    ),
    "int8": (
        "The sums are the same, exact in 32 bits: {torch._int_mm, }cublasGemmEx with CUDA_R_8I and CUBLAS_COMPUTE_32I, "
        "CUTLASS with OpClassTensorOp, tl.dot on int8, mma or wgmma in CUDA."
    ),
    _INT8_IN_FP32: (
        "Products and sums of 8-bit integers are exact in INT32, without conversions: {torch._int_mm, }cublasGemmEx "
        "with CUDA_R_8I and CUBLAS_COMPUTE_32I, CUTLASS with OpClassTensorOp, tl.dot on int8, mma or wgmma in CUDA; "
        "__dp4a where tiles are too small for them. Sums in FP32 are exact up to 2^24 alone."
    ),
}
_IN_16_BITS = (
    "Products of 16-bit inputs are exact on the tensor cores, and sums stay in FP32; only their order and rounding "
    "differ from those of FFMA. Use {torch.matmul on the 16-bit tensors, }tl.dot, cublasGemmEx with "
    "CUBLAS_COMPUTE_32F, CUTLASS, mma or wgmma in CUDA."
)
_OF_TORCH = re.compile(r"\{([^{}]*)\}")
_MANTISSA = {"BF16": "7 bits of mantissa", "FP16": "10 bits and a small range"}


def _advice(case: Case, product: _Product) -> str:
    """Write it without what is between braces where nothing tells that PyTorch launched the kernel."""
    return _OF_TORCH.sub(r"\1" if _may_be_torchs(case) else "", _advice_for_all(case, product))


def _may_be_torchs(case: Case) -> bool:
    """Tell whether PyTorch launched a kernel, or may have: a library's kernels do not tell who calls it."""
    name, ranges = case.kernel.demangled, case.kernel.ranges
    if case.kernel.operator_flop is not None or operator_name(ranges) or "." in innermost_module(ranges):
        return True
    return plain_library_type(name) is not None or is_torchs(name)


def _advice_for_all(case: Case, product: _Product) -> str:
    if product.path != "fp32":
        return _ADVICE[product.path]
    if has_inputs_of_16_bits(case.kernel.demangled):
        return _IN_16_BITS
    if not product.in_tf32:
        inputs = [TENSOR_INPUTS[path] for path in TENSOR_INPUTS if path in product.times]
        kept = " or ".join(f"{name} ({_MANTISSA[name]})" for name in inputs)
        where = "on every GPU of this architecture" if _may_be_halved(case, product.path) else "here"
        has_tf32 = ComputeKey("tensor.tf32", "fp32", "mma.sync") in case.recorded.hardware.rates
        tf32 = f"; TF32 is not faster than FP32 {where}" if has_tf32 else ""
        return (
            f"If {kept} is accurate enough for the inputs instead of FP32's 23 bits: {{torch.autocast, or }}CUTLASS "
            f"and mma in CUDA. Sums stay in FP32{tf32}."
        )
    emulated = (
        ", or on this GPU nine products in BF16 (CUBLAS_COMPUTE_32F_EMULATED_16BFX9, from CUDA 12.9 on)"
        if case.recorded.hardware.arch.name.startswith("sm_10")
        else ""
    )
    return (
        "TF32 rounds the inputs to 10 bits of mantissa instead of 23, with FP32's range and sums. Where that is "
        "accurate enough: {torch.set_float32_matmul_precision('high') or torch.backends.cuda.matmul.allow_tf32 = True "
        "(for convolutions torch.backends.cudnn.allow_tf32), }CUBLAS_COMPUTE_32F_FAST_TF32 in cuBLAS, tl.dot with "
        "input_precision='tf32', CUTLASS, mma or wgmma in CUDA. {torch.autocast to }BF16 (7 bits) or FP16 is faster "
        f"still. Where FP32 has to stay: three products in TF32 (3xTF32 in CUTLASS, 'tf32x3' in Triton){emulated}."
    )


RULES = (
    Rule(
        "tensor-cores-idle",
        "Matrix multiplication without tensor cores",
        about="defect",
        looks_at="The tensor pipe or the opcodes; the name, outer products in the hot code, or work of the FP32 peak "
        "and how much of it is fused multiply-adds; the GPU's rates for FP32, FP16, FP64 or INT8 inputs.",
        thresholds=(OUTER_PRODUCTS, MULTIPLIES, FUSED_SHARE, FMA_WORK, PIPE_BUSY, FASTER),
        gain="1 − the largest of: arithmetic of the non-tensor peak ÷ (tensor rate ÷ non-tensor rate), with TF32's "
        "rate where it is faster than FP32; and what DRAM and L2 need (half of it where inputs become 16 bits wide). "
        "It holds with the same operand reuse, because larger tiles need less of DRAM and L2. Where L2 or DRAM are "
        "busier than the arithmetic, or that is under 30 % of its peak (where no pipe is known: the SM under 60 %, or "
        "L1 busier), arithmetic is not the limit yet and it is reported as a fact (`info`). In a trace the arithmetic "
        "is what the operator asks for by the shapes of its inputs. A guess where neither the name nor "
        "the code says a matrix multiplication, or the name says no more than a convolution: with one channel it is "
        "none.",
        silent="Tensor instructions ran, or nothing tells that none did; the tensor cores are not faster; DRAM is the "
        "busiest memory and busier than the arithmetic (a product with a vector or few rows); under 80 % of the "
        "arithmetic is fused, or under 5 % of the instructions are multiply-adds. Without a name or code that tells: "
        "FP32 work under 30 % of its peak.",
        check=_tensor_idle,
        metrics=(WARP_OPCODES,),
        of_timelines=True,
        place=AT_MATH,
    ),
)
