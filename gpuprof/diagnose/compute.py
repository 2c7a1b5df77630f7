"""Rules on arithmetic: which pipe is full, which precision fills it, and whether the tensor cores could do the work."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpuprof.diagnose import nvidia_messages
from gpuprof.diagnose.case import SHARED_STALLS, Case, opcode_of
from gpuprof.diagnose.rule import AT_MATH, Rule, RuleVerdict, TreePlace, percent
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, ComputeKey
from gpuprof.model.ceilings import fastest
from gpuprof.model.field_types import Confidence
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent, format_si

PIPE_BUSY = percent("pipe busy", 60.0, "NVIDIA's rule calls a pipe well used from here on")
PIPE_NEAR_ROOF = percent("near its roof", 80.0, "NVIDIA's rule calls a pipe over-utilised from here on")
THROTTLED = percent(
    "math pipe throttle", 30.0, "the warps then wait for the busiest pipe although its average is lower"
)
SM_PIPE = percent("busiest pipe of a busy SM", 50.0, "tells what most of a busy SM's instructions are")
FP64 = percent("FP64 of its peak", 15.0, "NVIDIA's roofline rule: FP64 above it while FP32 is under 60 %")
NON_FUSED = percent("gain of fusing", 10.0, "half of the share of additions and multiplications that stand alone")
FMA_WORK = percent("FP32 of its peak", 30.0, "a kernel that does less has another problem first")
FUSED_SHARE = percent("fused share", 80.0, "matrix products are nearly all multiply-adds; few other kernels are")

_FP64_PER_DIVISION = 7
"""FP64 instructions that go with one MUFU.RCP64H: 7.4 were saved per reciprocal when a real kernel's divisions became
multiplications (236 of 418 million FP64 instructions for 31.8 million reciprocals)."""
_NOTABLE_SHARE = 0.25

_OPCODES = {
    "fma": ("FFMA", "FMUL", "FADD"),
    "fmaheavy": ("IMAD", "IMUL"),
    "alu": ("LOP3", "IADD3", "SHF", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "PLOP3"),
    "xu": ("MUFU", "I2F", "F2I", "F2F"),
    "tensor": ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "UTC"),
}
"""The instructions that a pipe executes most: where to look."""

_MATRIX_NAME = re.compile(r"gemm|matmul|conv|attention|mma|_bmm|_dot", re.IGNORECASE)

_FMA_ADVICE = (
    "Do less arithmetic: hoist what does not change out of the loop, use cheaper functions, or a type with a higher "
    "rate (packed FP16 or BF16; tensor cores for matrix products)."
)


def _pipe_verdict(
    case: Case, pipe: str, title: str, advice: str, confidence: Confidence = "measured"
) -> Iterator[RuleVerdict]:
    """Say that a pipe is the limit: busy from 60 % on, or the busiest one while warps are throttled by math pipes."""
    fraction = case.pipe(pipe)
    if fraction is None or not _is_limit(case, fraction):
        return
    fraction = min(1.0, fraction)
    if _is_issue_bound(case, fraction):
        yield _issue_verdict(case, pipe, advice)
        return
    near = 100 * fraction >= PIPE_NEAR_ROOF.value
    roof = "; it is near its roof" if near else ""
    yield RuleVerdict(
        headline=f"{title}: its pipe is {format_percent(fraction)} busy{_rate(case, pipe)}{roof}",
        why="An instruction of this kind issues only when the pipe has room. The bound is for the same instructions.",
        advice=advice,
        confidence=confidence,
        gain=min(1.0 - fraction, case.headroom),
        evidence=(case.pipe_evidence(pipe, PIPE_BUSY.value), *case.stall_evidence("math_pipe_throttle")),
        location=case.place_of_opcode(*_OPCODES[pipe]) or case.place_of_stall("math_pipe_throttle"),
        settled=near,
    )


def _is_limit(case: Case, fraction: float) -> bool:
    """Tell whether a pipe is the limit: busy, or the busiest while the SM is, or while warps are throttled by it."""
    if 100 * fraction >= PIPE_BUSY.value:
        return True
    if fraction < max((item.fraction for item in case.kernel.pipes), default=0.0):
        return False
    throttled = 100 * case.stall("math_pipe_throttle") >= THROTTLED.value and case.issues_rarely
    return throttled or (100 * fraction >= SM_PIPE.value and 100 * case.utilisation.get("sm", 0.0) >= PIPE_BUSY.value)


def _is_issue_bound(case: Case, fraction: float) -> bool:
    """Tell whether it is the SM that is busy, with this pipe only the busiest of it."""
    throttled = 100 * case.stall("math_pipe_throttle") >= THROTTLED.value and case.issues_rarely
    return 100 * fraction < PIPE_BUSY.value and not throttled


def _issue_verdict(case: Case, pipe: str, advice: str) -> RuleVerdict:
    sm = case.utilisation["sm"]
    return RuleVerdict(
        headline=(
            f"Instructions: the SM is {format_percent(sm)} busy issuing; {pipe.upper()} is the busiest pipe with "
            f"{format_percent(case.pipe(pipe) or 0.0)}"
        ),
        why="No pipe is full, but the schedulers are: every instruction takes an issue slot. More warps do not help.",
        advice=f"Use fewer instructions of any kind. {advice}",
        confidence="inferred",
        gain=1.0 - sm,
        evidence=(
            Evidence(case.light_metric("sm"), 100 * sm, "%", threshold=PIPE_BUSY.value, meaning="SM busy"),
            case.pipe_evidence(pipe, SM_PIPE.value),
        ),
        location=case.place_of_opcode(*_OPCODES[pipe]),
        settled=100 * sm >= PIPE_NEAR_ROOF.value,
    )


def _rate(case: Case, pipe: str) -> str:
    """Say what a pipe achieves, where its work is counted: ", 12.3 TFLOP/s"."""
    path = {"fma": "fp32", "fp64": "fp64"}.get(pipe)
    rate = next((work.flop_per_s for work in case.kernel.work if work.path == path and work.flop_per_s), None)
    return f", {format_si(rate, 'FLOP/s')}" if rate is not None else ""


def _fp32(case: Case) -> Iterator[RuleVerdict]:
    if _integer_share(case) > 0.5:
        return
    if case.arithmetic_fraction >= FMA_WORK.value / 100:
        yield from _busy_sm(case, "FP32 arithmetic", _FMA_ADVICE)
    yield from _pipe_verdict(case, "fma", "FP32 arithmetic", _FMA_ADVICE)


def _integer(case: Case) -> Iterator[RuleVerdict]:
    advice = (
        "Shorten the address arithmetic: 32-bit indices, pointers advanced by a constant, no division or modulo by "
        "a variable (use powers of two or a precomputed reciprocal), wider loads so that one address serves more "
        "bytes."
    )
    if _integer_share(case) > 0.5:
        pipe = "fmaheavy" if case.pipe("fmaheavy") is not None else "fma"
        yield from _pipe_verdict(case, pipe, "Integer multiply-adds (IMAD) fill the FMA pipe", advice, "inferred")
    yield from _pipe_verdict(case, "alu", "Integer and logic arithmetic", advice)
    if case.arithmetic_fraction < FMA_WORK.value / 100:
        yield from _busy_sm(case, "Instructions other than floating point", advice)


def _busy_sm(case: Case, what: str, advice: str) -> Iterator[RuleVerdict]:
    """Say that the SM is the busiest unit where the report has no pipe: what fills it is a guess from the FLOP."""
    sm = case.utilisation.get("sm")
    if case.kernel.pipes or sm is None or 100 * sm < PIPE_BUSY.value or sm < (case.busiest or 0.0):
        return
    yield RuleVerdict(
        headline=f"{what}: the SM is {format_percent(sm)} busy, and which pipe was not collected",
        why="The SM's instructions are the limit. ncu --section ComputeWorkloadAnalysis tells which kind of them.",
        advice=advice,
        confidence="guess",
        gain=1.0 - sm,
        evidence=(
            Evidence(case.light_metric("sm"), 100 * sm, "%", threshold=PIPE_BUSY.value, meaning="SM busy"),
            Evidence(
                "",
                100 * case.arithmetic_fraction,
                "%",
                threshold=FMA_WORK.value,
                meaning="floating-point work of its peak",
            ),
        ),
    )


def _integer_share(case: Case) -> float:
    """Return the IMAD share of what the FMA pipe executed; 0 where the opcodes are not known."""
    histogram = _opcodes(case)
    moves = ("IMAD.MOV", "IMAD.SHL")
    integer = sum(
        count for name, count in histogram.items() if name.startswith(("IMAD", "IMUL")) and not name.startswith(moves)
    )
    floating = sum(count for name, count in histogram.items() if name.startswith(("FFMA", "FMUL", "FADD")))
    return integer / (integer + floating) if integer + floating else 0.0


def _opcodes(case: Case) -> Mapping[str, float]:
    histogram = case.recorded.launch.metrics.instances(WARP_OPCODES) or {}
    sums: dict[str, float] = {}
    for opcode, count in histogram.items():
        name = opcode_of(str(opcode))
        sums[name] = sums.get(name, 0.0) + count
    return sums


def _special(case: Case) -> Iterator[RuleVerdict]:
    yield from _pipe_verdict(
        case,
        "xu",
        "Special functions and conversions",
        "Use fewer exp, log, sin, rsqrt and divisions, or their polynomial forms on the FMA pipe; keep one type "
        "through the loop, because conversions between integer and floating point use the same pipe.",
    )


def _tensor(case: Case) -> Iterator[RuleVerdict]:
    yield from _pipe_verdict(
        case,
        "tensor",
        "Tensor cores",
        "Use a narrower type where the result allows (BF16 → FP8), the newest instruction of the architecture "
        "(wgmma, tcgen05), or structured sparsity.",
    )


def _fp64(case: Case) -> Iterator[RuleVerdict]:
    busy, of_peak = case.pipe("fp64"), _fraction_of_peak(case, "fp64")
    pipe_full = busy is not None and _is_limit(case, busy)
    roof = of_peak is not None and 100 * of_peak >= FP64.value and (_fraction_of_peak(case, "fp32") or 0.0) < 0.6
    if not pipe_full and not roof:
        return
    use = max(value for value in (busy, of_peak) if value is not None)
    ratio = _rate_ratio(case)
    divisions = _division_share(case)
    fp32_text = f" This GPU does FP32 {1 / ratio:.3g} times as fast." if ratio is not None and ratio < 1 else ""
    what = "its pipe is {} busy" if busy is not None else "its work is {} of its peak"
    headline = f"FP64 arithmetic: {what.format(format_percent(min(1.0, use)))}{_rate(case, 'fp64')}"
    if divisions >= _NOTABLE_SHARE:
        headline += f"; about {format_percent(divisions)} of it are divisions or square roots"
    yield RuleVerdict(
        headline=headline,
        why=(
            f"FP64 has few units.{fp32_text}{_busier_pipe(case, busy)}"
            + (
                f" Each division or square root becomes about {_FP64_PER_DIVISION} FP64 instructions and a branch."
                if divisions >= _NOTABLE_SHARE
                else ""
            )
        ),
        advice=(
            (
                "Multiply by a reciprocal that is computed once outside the loop, instead of dividing. "
                if divisions >= _NOTABLE_SHARE
                else ""
            )
            + "Where FP32 is exact enough, use it: look for literals without f (1.0 → 1.0f), double constants and "
            "functions (sqrt → sqrtf), and keep FP64 for the accumulation."
        ),
        confidence="inferred",
        gain=_fp64_gain(case, use, ratio) if pipe_full else min(use, _fp64_gain(case, use, ratio)),
        evidence=(
            *((case.pipe_evidence("fp64", PIPE_BUSY.value),) if busy is not None else ()),
            *((_peak_evidence(case, "FP64", "dfma", of_peak, FP64.value),) if of_peak is not None else ()),
            *(
                (
                    Evidence(
                        WARP_OPCODES,
                        100 * divisions,
                        "%",
                        threshold=None,
                        meaning="FP64 instructions of divisions, at about 7 each",
                    ),
                )
                if divisions
                else ()
            ),
        ),
        location=case.place_of_opcode("DFMA", "DMUL", "DADD", "MUFU.RCP64H", "MUFU.RSQ64H", "F2F.F64")
        or case.place_of_stall("math_pipe_throttle"),
        settled=not pipe_full,
    )


def _busier_pipe(case: Case, busy: float | None) -> str:
    """Say what else is busy: integer instructions of FP64 functions go with them, others stay."""
    rival = max(
        (pipe for pipe in case.kernel.pipes if pipe.name != "fp64"), key=lambda pipe: pipe.fraction, default=None
    )
    if busy is None or rival is None or rival.fraction < busy:
        return ""
    stays = format_percent(max(0.0, 1.0 - rival.fraction))
    return (
        f" The bound holds if the work on the {rival.name.upper()} pipe ({format_percent(rival.fraction)} busy) goes "
        f"with it; else at most {stays}."
    )


def _fp64_gain(case: Case, use: float, ratio: float | None) -> float:
    """Bound it by the memory units, which stay as busy, and by FP32 doing the same work; integers may go with it."""
    rest = max(case.memory_utilisation or 0.0, use * ratio if ratio is not None else 0.0)
    return max(0.0, 1.0 - rest)


def _fraction_of_peak(case: Case, path: str) -> float | None:
    limit = case.recorded.at_clock.get(path)
    rate = next((work.flop_per_s for work in case.kernel.work if work.path == path), None)
    return rate / limit.value if limit is not None and rate is not None and limit.value > 0 else None


def _peak_evidence(case: Case, name: str, operation: str, fraction: float, threshold: float) -> Evidence:
    """Return work of its peak as evidence, with the counter of its multiply-adds."""
    recorded = case.recorded.launch.metrics
    prefixes = (f"{unit}__sass_thread_inst_executed_op_{operation}_pred_on.sum" for unit in ("smsp", "sm"))
    names = (f"{prefix}{suffix}" for prefix in prefixes for suffix in ("", ".per_cycle_elapsed"))
    metric = next((counter for counter in names if recorded.number(counter) is not None), "")
    if not metric and recorded.instances(THREAD_OPCODES):
        metric = THREAD_OPCODES
    return Evidence(metric, 100 * fraction, "%", threshold=threshold, meaning=f"{name} of its peak")


def _rate_ratio(case: Case) -> float | None:
    """Return the GPU's FP64 rate over its FP32 rate."""
    rates = case.recorded.hardware.rates
    fp64, fp32 = rates.get(ComputeKey("fp64")), rates.get(ComputeKey("fp32"))
    return fp64.value / fp32.value if fp64 is not None and fp32 is not None and fp32.value else None


def _division_share(case: Case) -> float:
    """Return the share of FP64 instructions that belong to divisions and square roots; 0 if unknown."""
    opcodes = _opcodes(case)
    arithmetic = sum(count for name, count in opcodes.items() if name.startswith(("DFMA", "DMUL", "DADD")))
    seeds = sum(count for name, count in opcodes.items() if name in ("MUFU.RCP64H", "MUFU.RSQ64H"))
    return min(1.0, _FP64_PER_DIVISION * seeds / arithmetic) if arithmetic else 0.0


_OPERATIONS = {
    "FP32": ("ffma", "fadd", "fmul", "fma"),
    "FP64": ("dfma", "dadd", "dmul", "fp64"),
}


def _non_fused(case: Case) -> Iterator[RuleVerdict]:
    for name, (fused_op, add_op, mul_op, pipe) in _OPERATIONS.items():
        counted = _fused_and_alone(case, name, fused_op, (add_op, mul_op))
        if counted is None or counted.fused + counted.alone <= 0:
            continue
        share = counted.alone / (counted.fused + counted.alone)
        if 100 * share / 2 < NON_FUSED.value:
            continue
        busy = _pipe_use(case, pipe, name.lower())
        yield RuleVerdict(
            headline=(
                f"Non-fused {name}: {format_percent(share)} of its arithmetic are additions and multiplications that "
                "stand alone"
            ),
            why="An addition or a multiplication takes the same slot as a fused multiply-add, which does both.",
            advice=(
                "Write a·b + c so that the compiler may fuse it (fmaf; -fmad=true is the default), and reassociate "
                "sums of products. Additions and multiplications that do not belong together cannot be fused."
            ),
            confidence="inferred" if busy is None or busy >= (case.memory_utilisation or 0.0) else "guess",
            gain=_fusing_gain(case, counted, busy),
            evidence=(
                Evidence(counted.fused_metric, counted.fused, counted.unit, threshold=None, meaning=f"fused {name}"),
                Evidence(
                    counted.alone_metric, counted.alone, counted.unit, threshold=None, meaning=f"not fused {name}"
                ),
                Evidence(
                    "", 50 * share, "%", threshold=NON_FUSED.value, meaning=f"fewer {name} instructions if all paired"
                ),
                *(
                    (
                        Evidence(
                            "",
                            100 * counted.pairs / counted.all,
                            "%",
                            threshold=None,
                            meaning="fewer by the scarcer of both",
                        ),
                    )
                    if counted.pairs is not None
                    else ()
                ),
                *((case.pipe_evidence(pipe),) if case.pipe(pipe) is not None else ()),
            ),
            location=case.place_of_opcode(add_op.upper(), mul_op.upper()),
        )


@dataclass(frozen=True, slots=True)
class _FloatingPoint:
    """Fused and other instructions of a type, in one unit, and the metrics that they come from.

    `pairs` are those that have a partner: a fused multiply-add replaces one addition and one multiplication.
    """

    fused: float
    alone: float
    pairs: float | None
    unit: str
    fused_metric: str
    alone_metric: str

    @property
    def all(self) -> float:
        """All instructions of the type."""
        return self.fused + self.alone


def _fusing_gain(case: Case, counted: _FloatingPoint, busy: float | None) -> float | None:
    """Bound it by the instructions that have a partner, and by the pipe or the dependent chain that they fill."""
    pairs = counted.pairs if counted.pairs is not None else counted.alone / 2
    if busy is None:
        return None if pairs else 0.0
    return pairs / counted.all * max(busy, case.latency_gain(case.stall("wait")))


def _fused_and_alone(case: Case, name: str, fused: str, unfused: tuple[str, str]) -> _FloatingPoint | None:
    """Return the instructions of a type from the counters, else from NVIDIA's rule; None if unknown."""
    for suffix, unit in ((".sum", "instruction"), (".sum.per_cycle_elapsed", "instruction/cycle")):
        for prefix in ("smsp", "sm"):
            names = [f"{prefix}__sass_thread_inst_executed_op_{op}_pred_on{suffix}" for op in (fused, *unfused)]
            values = [value for value in map(case.number, names) if value is not None]
            if len(values) == len(names):
                metrics = {"fused_metric": names[0], "alone_metric": f"{names[1]} + {names[2]}"}
                return _FloatingPoint(values[0], sum(values[1:]), min(values[1:]), unit=unit, **metrics)
    told = nvidia_messages.fused_instructions(case.messages, name)
    if told is None:
        return None
    metrics = dict.fromkeys(("fused_metric", "alone_metric"), "rule FPInstructions")
    return _FloatingPoint(told.fused, told.alone, None, unit="instruction", **metrics)


def _pipe_use(case: Case, pipe: str, path: str) -> float | None:
    """Return how busy a pipe is at most: as recorded, else twice its FLOP of peak, as if nothing were fused."""
    busy = case.pipe(pipe)
    if busy is not None:
        return min(1.0, busy)
    work = _fraction_of_peak(case, path)
    return min(1.0, 2 * work) if work is not None else None


def _tensor_idle(case: Case) -> Iterator[RuleVerdict]:
    """A matrix product on the FP32 pipe: nearly all fused multiply-adds, well used, tensor cores at rest."""
    tensor, fp32 = case.pipe("tensor"), _fraction_of_peak(case, "fp32")
    rates = case.recorded.hardware.rates
    best = fastest(
        (key, fact) for key, fact in rates.items() if key.path in ("tensor.tf32", "tensor.bf16", "tensor.fp16")
    )
    plain = rates.get(ComputeKey("fp32"))
    if tensor is None or tensor > 0.005 or fp32 is None or 100 * fp32 < FMA_WORK.value or best is None or plain is None:
        return
    counted = _fused_and_alone(case, "FP32", "ffma", ("fadd", "fmul"))
    if counted is None or counted.fused < FUSED_SHARE.value / 100 * (counted.fused + counted.alone):
        return
    rest = max(case.memory_utilisation or 0.0, fp32 * plain.value / best.value)
    yield RuleVerdict(
        headline=(
            f"Tensor cores idle: {format_percent(fp32)} of the FP32 peak, nearly all multiply-adds, and no tensor "
            "instruction"
        ),
        why=f"It looks like a matrix product; tensor cores do {best.value / plain.value:.2g} times as much a cycle.",
        advice=(
            "If TF32, BF16 or FP16 inputs are exact enough: torch.set_float32_matmul_precision('high'), autocast, "
            "tl.dot with input_precision='tf32', or CUTLASS and mma/wgmma in CUDA. Sums stay in FP32."
        ),
        confidence="inferred" if _MATRIX_NAME.search(case.kernel.demangled) else "guess",
        gain=max(0.0, 1.0 - rest),
        evidence=(
            case.pipe_evidence("tensor"),
            _peak_evidence(case, "FP32", "ffma", fp32, FMA_WORK.value),
        ),
        location=case.place_of_opcode("FFMA"),
    )


_WITHOUT_PIPES = " Without any pipe: the SM's speed of light, and floating-point work of its peak (a guess)."


def _pipe_rule(
    rule_id: str,
    title: str,
    pipe: str,
    check: Callable[[Case], Iterator[RuleVerdict]],
    more: str = "",
    place: TreePlace = AT_MATH,
) -> Rule:
    return Rule(
        rule_id,
        title,
        about="limit",
        looks_at=f"Busy fraction of the {pipe} pipe, and the stall reason math pipe throttle.{more}",
        thresholds=(PIPE_BUSY, PIPE_NEAR_ROOF, SM_PIPE, THROTTLED),
        gain="1 − busy fraction of the pipe: at most until it is full. From 80 % on it is told as a fact (`info`).",
        silent="The pipe is under 60 % busy and the warps are not throttled by it.",
        check=check,
        place=place,
    )


RULES = (
    Rule(
        "fp64-bound",
        "Double precision is the limit",
        about="defect",
        looks_at="Busy fraction of the FP64 pipe and FP64 work of its peak; the share of divisions from the opcode "
        "histogram.",
        thresholds=(PIPE_BUSY, SM_PIPE, FP64, THROTTLED),
        gain="1 − the larger of the busiest memory unit and what FP32 would take for the same work. It holds where "
        "FP32 is exact enough or the arithmetic can go.",
        silent="The FP64 pipe is under 60 % busy and FP64 under 15 % of its peak.",
        check=_fp64,
        metrics=(WARP_OPCODES,),
        place=AT_MATH,
    ),
    _pipe_rule("fp32-compute-bound", "FP32 arithmetic is the limit", "FMA", _fp32, _WITHOUT_PIPES),
    _pipe_rule(
        "integer-bound", "Integer arithmetic is the limit", "ALU (or the FMA pipe, by IMAD)", _integer, _WITHOUT_PIPES
    ),
    _pipe_rule(
        "special-function-bound",
        "Special functions or conversions are the limit",
        "XU",
        _special,
        place=TreePlace(("math_pipe_throttle", *SHARED_STALLS), "unit"),
    ),
    _pipe_rule("tensor-compute-bound", "Tensor cores are the limit", "tensor", _tensor),
    Rule(
        "tensor-cores-idle",
        "A matrix product runs without tensor cores",
        about="defect",
        looks_at="FP32 work of its peak, how much of it is fused multiply-adds, and the tensor pipe.",
        thresholds=(FMA_WORK, FUSED_SHARE),
        gain="1 − the larger of the busiest memory unit and the time tensor cores would take. It holds where their "
        "input types are exact enough.",
        silent="Tensor instructions ran, or the GPU has none, or FP32 work is under 30 % of its peak or under 80 % "
        "fused.",
        check=_tensor_idle,
        place=AT_MATH,
    ),
    Rule(
        "non-fused-fp",
        "Additions and multiplications are not fused",
        about="defect",
        looks_at="FP32 and FP64 additions and multiplications against fused multiply-adds.",
        thresholds=(NON_FUSED,),
        gain="The instructions that have a partner (the scarcer of additions and multiplications), of all, times the "
        "busy fraction of the pipe or the share of dependent waits; a guess where a memory unit is busier than the "
        "pipe.",
        silent="Fusing all of them would save under 10 % of the instructions, or they were not counted.",
        check=_non_fused,
        place=TreePlace(("math_pipe_throttle", "wait", "dispatch_stall"), "unit"),
    ),
)
