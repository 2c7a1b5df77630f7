"""Rules on arithmetic: which pipe is full, which precision fills it, and whether the tensor cores could do the work.

Only useful work makes a full pipe a roof: multiply-adds of the type that is needed, and tensor instructions. Integer
instructions, special functions and issue slots are what a program can do without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gpuprof.diagnose import nvidia_messages
from gpuprof.diagnose.case import SHARED_STALLS, Case, opcode_of
from gpuprof.diagnose.needs import ISSUE, Saving
from gpuprof.diagnose.rule import AT_MATH, Cause, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES, ComputeKey
from gpuprof.model.field_types import Confidence
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent, format_si

PIPE_BUSY = percent("pipe busy", 60.0, "NVIDIA's rule calls a pipe well used from here on")
PIPE_NEAR_ROOF = percent("near its roof", 80.0, "NVIDIA's rule calls a pipe over-utilised from here on")
THROTTLED = percent(
    "math pipe throttle", 30.0, "the warps then wait for the busiest pipe although its average is lower"
)
SM_PIPE = percent("busiest pipe of a busy SM", 50.0, "tells what most of a busy SM's instructions are")
ROOF_WORK = percent(
    "FP32 work of a roof", 60.0, "a full pipe that does less of its peak is filled with something else than fused work"
)
FP64 = percent("FP64 of its peak", 15.0, "NVIDIA's roofline rule: FP64 above it while FP32 is under 60 %")
NON_FUSED = percent("gain of fusing", 10.0, "half of the share of additions and multiplications that stand alone")
NEVER_FUSED = percent(
    "fused by the compiler", 10.0, "it fuses by default what it may: where it fused some, the rest mostly cannot be"
)
FMA_WORK = percent("FP32 of its peak", 30.0, "a kernel that does less has another problem first")
FUSED_SHARE = percent("fused share", 80.0, "matrix products are nearly all multiply-adds; few other kernels are")
FASTER = percent("tensor rate over FP32's", 150.0, "less is lost again to moving operands to where they are needed")

_FP64_PER_DIVISION = 7
"""FP64 instructions that go with one MUFU.RCP64H: 7.4 were saved per reciprocal when a real kernel's divisions became
multiplications (236 of 418 million FP64 instructions for 31.8 million reciprocals)."""
_NOTABLE_SHARE = 0.25
_SAME = "the same instructions"
_SAME_BYTES = "the same bytes"
_SAME_OTHERS = "the other instructions"
_OTHER_TIME = "the time of everything else"

_OPCODES = {
    "fma": ("FFMA", "FMUL", "FADD"),
    "fmaheavy": ("IMAD", "IMUL"),
    "alu": ("LOP3", "IADD3", "SHF", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "PLOP3"),
    "xu": ("MUFU", "I2F", "F2I", "F2F"),
    "tensor": ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "UTC"),
}
"""The instructions that a pipe executes most: where to look."""
_INTEGER = (
    "IADD", "IMAD", "IMUL", "LOP", "SHF", "SHL", "SHR", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "VIMNMX",
    "PLOP", "POPC", "FLO", "BREV", "SGXT", "BMSK", "IABS", "ISCADD", "MOV", "UIADD", "UIMAD", "ULOP", "USHF",
    "UISETP", "UPRMT", "ULEA", "USEL", "UMOV", "UPLOP", "R2UR",
)  # fmt: skip
"""How the opcodes of integer, logic and move instructions begin."""
_INTEGER_PIPES = ("alu", "uniform", "adu", "cbu", "fmaheavy")
_SCALAR_PIPES = (*_INTEGER_PIPES, "fma", "fmalite", "fp16", "fp64", "xu")
"""The pipes that neither move data nor multiply matrices."""

_MATRIX_NAME = re.compile(r"gemm|matmul|conv|attention|mma|_bmm|_dot", re.IGNORECASE)
_WITH_TENSOR_CORES = re.compile(r"\bRTX\b|\bT4G?\b")
"""Of compute capability 7.5, only products of these names have tensor cores."""
_TENSOR_INPUTS = {"tensor.tf32": "TF32", "tensor.bf16": "BF16", "tensor.fp16": "FP16"}

_FMA_ADVICE = (
    "Do less arithmetic: hoist what does not change out of the loop, use cheaper functions, or a type with a higher "
    "rate (packed FP16 or BF16; tensor cores for matrix products)."
)
_FMA_ACTION = "Do less FP32 arithmetic, or do it in a type with a higher rate"
_INTEGER_ADVICE = (
    "Shorten the address arithmetic: 32-bit indices, pointers advanced by a constant, no division or modulo by "
    "a variable (use powers of two or a precomputed reciprocal), wider loads so that one address serves more "
    "bytes."
)
_INTEGER_ACTION = "Remove integer instructions: simpler indices, no division by variables, wider loads"


_NARROWER = dict.fromkeys(("dram", "l2", "l1"), 0.5)
"""What memory levels need at least of what they did when values take half as many bytes."""


@dataclass(frozen=True, slots=True)
class _Full:
    """A pipe that is the limit: what is said of it, and what its instructions are worth.

    `roof` is the part of it that its instructions can fill.
    """

    pipe: str
    title: str
    action: str
    advice: str
    saving: Saving
    roof: float = 1.0
    settled: bool = False
    confidence: Confidence = "measured"
    why: str = "An instruction of this kind issues only when its pipe has room."


def _verdict(case: Case, full: _Full) -> RuleVerdict:
    half = f" of the {format_percent(full.roof)} that FP32 sums leave of it" if full.roof < 1.0 else ""
    at_roof = "; it is near its roof" if full.settled else ""
    busy = format_percent(min(1.0, case.pipe(full.pipe) or 0.0))
    return RuleVerdict(
        headline=f"{full.title}: its pipe is {busy} busy{half}{_rate(case, full.pipe)}{at_roof}",
        why=full.why,
        advice=full.advice,
        confidence=full.confidence,
        saving=full.saving,
        evidence=(
            case.pipe_evidence(full.pipe, full.roof * PIPE_BUSY.value),
            *case.stall_evidence("math_pipe_throttle"),
        ),
        action=full.action,
        location=case.place_of_opcode(*_OPCODES[full.pipe]) or case.place_of_stall("math_pipe_throttle"),
        settled=full.settled,
    )


def _is_limit(case: Case, fraction: float) -> bool:
    """Tell whether a pipe is the limit: busy, or the busiest while the SM is, or while warps are throttled by it."""
    if 100 * fraction >= PIPE_BUSY.value:
        return True
    if fraction < max(_rivals(case), default=0.0):
        return False
    return _throttled(case) or _in_busy_sm(case, fraction)


def _rivals(case: Case) -> Iterator[float]:
    """Yield the use of the pipes that can be what keeps the SM busy; accesses are not where it is clearly busier."""
    sm = case.utilisation.get("sm")
    for pipe in case.pipes:
        if pipe.name not in ("lsu", "tex") or sm is None or pipe.fraction >= sm - TWO_PASSES:
            yield pipe.fraction


def _is_issue_bound(case: Case, fraction: float) -> bool:
    """Tell whether it is the SM that is busy, with this pipe only the busiest of it."""
    return 100 * fraction < PIPE_BUSY.value and not _throttled(case) and _in_busy_sm(case, fraction)


def _throttled(case: Case) -> bool:
    return 100 * case.stall("math_pipe_throttle") >= THROTTLED.value and case.issues_rarely


def _in_busy_sm(case: Case, fraction: float) -> bool:
    sm = case.utilisation.get("sm")
    return sm is not None and 100 * sm >= PIPE_BUSY.value and 100 * fraction >= SM_PIPE.value


def _issue_verdict(case: Case, pipe: str, action: str, advice: str, saving: Saving) -> RuleVerdict:
    sm = case.utilisation["sm"]
    return RuleVerdict(
        headline=(
            f"Instructions: the SM is {format_percent(sm)} busy issuing; {pipe.upper()} is the busiest arithmetic pipe "
            f"with {format_percent(case.pipe(pipe) or 0.0)}"
        ),
        why="No pipe is full, but the schedulers are: every instruction takes an issue slot. More warps do not help.",
        advice=f"Use fewer instructions of any kind. {advice}",
        confidence="inferred",
        saving=saving,
        evidence=(
            Evidence(case.light_metric("sm"), 100 * sm, "%", threshold=PIPE_BUSY.value, meaning="SM busy"),
            case.pipe_evidence(pipe, SM_PIPE.value),
        ),
        action=action,
        location=case.place_of_opcode(*_OPCODES[pipe]),
    )


def _with_full_pipe(case: Case, use: float, pipe: str) -> Saving:
    """Return what the same instructions save once they fill their pipe; fewer or narrower ones can save more."""
    gone = {pipe: 0.0, ISSUE: 0.0}
    return case.saving({**gone, **_NARROWER}).if_held(min(1.0 - min(1.0, use), case.saving(gone).fraction), _SAME)


def _with_full_sm(case: Case, *pipes: str) -> Saving:
    """Return what the same instructions save once they fill the SM."""
    return case.saving(dict.fromkeys((*pipes, ISSUE), 0.0)).if_held(1.0 - case.utilisation["sm"], _SAME)


def _rate(case: Case, pipe: str) -> str:
    """Say what a pipe achieves, where its work is counted: ", 12.3 TFLOP/s"."""
    path = {"fma": "fp32", "fp64": "fp64"}.get(pipe)
    rate = next((work.flop_per_s for work in case.kernel.work if work.path == path and work.flop_per_s), None)
    return f", {format_si(rate, 'FLOP/s')}" if rate is not None else ""


def _fp32(case: Case) -> Iterator[RuleVerdict]:
    if _is_integer_work(case):
        return
    work = _fraction_of_peak(case, "fp32")
    if (100 * work >= FMA_WORK.value) if work is not None else _is_product_by_name(case):
        yield from _busy_sm(case, "FP32 arithmetic", _FMA_ACTION, _FMA_ADVICE)
    use = case.pipe("fma")
    if use is None or not _is_limit(case, use):
        return
    if _is_issue_bound(case, use):
        yield _issue_verdict(case, "fma", _FMA_ACTION, _FMA_ADVICE, _with_full_sm(case, "fma"))
        return
    near = 100 * use >= PIPE_NEAR_ROOF.value
    settled = near and work is not None and 100 * work >= ROOF_WORK.value
    filled = near and work is not None and not settled
    yield _verdict(
        case,
        _Full(
            pipe="fma",
            title="FP32 arithmetic",
            action=_FMA_ACTION,
            advice=_FMA_ADVICE,
            saving=_with_full_pipe(case, use, "fma"),
            settled=settled,
            why="An instruction of this kind issues only when its pipe has room."
            + (_filled_text(work) if filled and work is not None else ""),
        ),
    )


def _filled_text(work: float) -> str:
    return (
        f" It does {format_percent(work)} of the FP32 peak only: additions and multiplications that are not fused, and "
        "other instructions of this pipe, take the rest."
    )


def _integer(case: Case) -> Iterator[RuleVerdict]:
    if _is_integer_work(case):
        pipe = "fmaheavy" if case.pipe("fmaheavy") is not None else "fma"
        yield from _integer_verdict(case, pipe, "Integer multiply-adds (IMAD) fill the FMA pipe", "inferred")
    yield from _integer_verdict(case, "alu", "Integer and logic arithmetic", "measured")
    work = _most_work(case)
    if (100 * work < FMA_WORK.value) if work is not None else not _is_product_by_name(case):
        what = "Instructions" if work is None else "Instructions other than floating point"
        yield from _busy_sm(case, what, _INTEGER_ACTION, _INTEGER_ADVICE)


def _integer_verdict(case: Case, pipe: str, title: str, confidence: Confidence) -> Iterator[RuleVerdict]:
    use = case.pipe(pipe)
    if use is None or not _is_limit(case, use):
        return
    saving = _without_integers(case)
    if _is_issue_bound(case, use):
        yield _issue_verdict(case, pipe, _INTEGER_ACTION, _INTEGER_ADVICE, saving)
        return
    yield _verdict(
        case,
        _Full(
            pipe=pipe,
            title=title,
            action=_INTEGER_ACTION,
            advice=_INTEGER_ADVICE,
            saving=saving,
            confidence=confidence,
            why="An instruction of this kind issues only when its pipe has room. Indices, conditions and moves are no "
            "result: a full pipe of them is no roof.",
        ),
    )


def _without_integers(case: Case) -> Saving:
    """Bound what goes with integer instructions: memory, floating-point and matrix instructions stay.

    A division by a variable converts and takes a reciprocal on the XU, and wider accesses are fewer: with all of those
    as they are it is less.
    """
    relieved = dict.fromkeys(_INTEGER_PIPES, 0.0)
    relieved["fma"] = _floating_part(case)
    relieved[ISSUE] = 1.0 - _share_of_opcodes(case, _INTEGER) if _opcodes(case) else 0.0
    bound = case.saving({**relieved, ISSUE: 0.0, "xu": 0.0, "lsu": 0.0, "l1": 0.0})
    return bound.if_held(case.saving(relieved).fraction, "the same loads, conversions and special functions")


def _floating_part(case: Case) -> float:
    """Return which part of the FMA pipe's time is certainly floating-point work: by opcodes, else by its FLOP."""
    opcodes = _opcodes(case)
    floating = sum(count for name, count in opcodes.items() if name.startswith(("FFMA", "FMUL", "FADD")))
    integer = sum(count for name, count in opcodes.items() if name.startswith(("IMAD", "IMUL")))
    if floating + integer:
        return floating / (floating + integer)
    work, busy = _fraction_of_peak(case, "fp32"), case.pipe("fma")
    return min(1.0, work / busy) if work is not None and busy else 0.0


def _share_of_opcodes(case: Case, starts: tuple[str, ...]) -> float:
    opcodes = _opcodes(case)
    total = sum(opcodes.values())
    return sum(count for name, count in opcodes.items() if name.startswith(starts)) / total if total else 0.0


def _busy_sm(case: Case, what: str, action: str, advice: str) -> Iterator[RuleVerdict]:
    """Say that the SM is the busiest unit where the report has no pipe: what fills it is a guess from the FLOP.

    The load/store unit is part of the SM, too: where memory is as busy as the SM, it is that.
    """
    sm = case.utilisation.get("sm")
    memory = case.memory_utilisation
    if case.pipes or sm is None or 100 * sm < PIPE_BUSY.value:
        return
    if memory is not None and sm <= memory + TWO_PASSES:
        return
    work = _most_work(case)
    yield RuleVerdict(
        headline=f"{what}: the SM is {format_percent(sm)} busy, and which pipe was not collected",
        why="The SM's instructions are the limit. ncu --section ComputeWorkloadAnalysis tells which kind of them.",
        advice=advice,
        confidence="guess",
        saving=_with_full_sm(case, *_SCALAR_PIPES),
        evidence=(
            Evidence(case.light_metric("sm"), 100 * sm, "%", threshold=PIPE_BUSY.value, meaning="SM busy"),
            *(
                (Evidence("", 100 * work, "%", threshold=FMA_WORK.value, meaning="floating-point work of its peak"),)
                if work is not None
                else ()
            ),
        ),
        action=action,
    )


def _is_product_by_name(case: Case) -> bool:
    """Tell whether a kernel is a matrix product by its name, where no floating-point work was counted to tell by."""
    return _most_work(case) is None and bool(_MATRIX_NAME.search(case.kernel.demangled))


def _most_work(case: Case) -> float | None:
    """Return the floating-point work of its peak, of the path closest to it; None where none was counted."""
    paths = {work.path for work in case.kernel.work if "int32" not in work.path}
    fractions = [fraction for path in paths if (fraction := _fraction_of_peak(case, path)) is not None]
    return min(1.0, max(fractions)) if fractions else None


def _is_integer_work(case: Case) -> bool:
    """Tell whether integers fill the FMA pipe: by opcodes, else where only the half that multiplies integers is busy.

    Floating-point work takes both halves alike.
    """
    opcodes = _opcodes(case)
    if opcodes:
        return _integer_share(opcodes) > 0.5
    heavy, lite = case.pipe("fmaheavy"), _fma_lite(case)
    return heavy is not None and lite is not None and 100 * heavy >= PIPE_BUSY.value and lite < heavy / 2


def _fma_lite(case: Case) -> float | None:
    """Return how busy the half of the FMA pipe is that has no integers; the pipe's own figure is the mean of both."""
    recorded, both, heavy = case.pipe("fmalite"), case.pipe("fma"), case.pipe("fmaheavy")
    if recorded is not None:
        return recorded
    return max(0.0, 2.0 * both - heavy) if both is not None and heavy is not None else None


def _integer_share(histogram: Mapping[str, float]) -> float:
    """Return the IMAD share of what the FMA pipe executed; moves and shifts by IMAD go to whichever pipe is free."""
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
    use = case.pipe("xu")
    if use is None or not _is_limit(case, use):
        return
    advice = (
        "Use fewer exp, log, sin, rsqrt and divisions, or their polynomial forms on the FMA pipe; keep one type "
        "through the loop, because conversions between integer and floating point use the same pipe."
    )
    action = "Use fewer special functions, divisions and conversions of type"
    # The instructions around a function go with it.
    saving = case.saving({**dict.fromkeys(_SCALAR_PIPES, 0.0), ISSUE: 0.0})
    saving = saving.if_held(case.saving({"xu": 0.0}).fraction, _SAME_OTHERS)
    if _is_issue_bound(case, use):
        yield _issue_verdict(case, "xu", action, advice, saving)
        return
    yield _verdict(
        case,
        _Full(
            pipe="xu",
            title="Special functions and conversions",
            action=action,
            advice=advice,
            saving=saving,
        ),
    )


def _tensor(case: Case) -> Iterator[RuleVerdict]:
    busy = case.pipe("tensor")
    if busy is None:
        return
    roof = _tensor_roof(case)
    use = min(1.0, busy / roof)
    if not (_is_limit(case, busy) or 100 * use >= PIPE_BUSY.value):
        return
    advice = (
        "Use a narrower type where the result allows (BF16 → FP8), the newest instruction of the architecture "
        "(wgmma, tcgen05), or structured sparsity."
    )
    action = "Use a narrower type on the tensor cores, or the architecture's newest matrix instruction"
    if 100 * use < PIPE_BUSY.value and _is_issue_bound(case, busy):
        yield _issue_verdict(case, "tensor", action, advice, _with_full_sm(case, "tensor"))
        return
    slower = " This GPU adds up in FP32 at half of the tensor cores' rate; sums in FP16 have all of it."
    yield _verdict(
        case,
        _Full(
            pipe="tensor",
            title="Tensor cores",
            action=action,
            advice=advice,
            saving=_with_full_pipe(case, use, "tensor"),
            roof=roof,
            settled=100 * use >= PIPE_NEAR_ROOF.value,
            confidence="measured" if roof == 1.0 else "inferred",
            why=f"An instruction of this kind issues only when its pipe has room.{slower if roof < 1.0 else ''}",
        ),
    )


def _tensor_roof(case: Case) -> float:
    """Return which part of the tensor pipe's cycles the kernel's matrix instructions can fill.

    Where sums in FP32 have half of the rate, the pipe is half busy at the roof. Unknown instructions can fill all.
    """
    flop = slowed = 0.0
    for opcode, count in _opcodes(case).items():
        matrix = matrix_opcode(opcode)
        if matrix is not None and matrix.flop is not None:
            flop += matrix.flop * count
            slowed += matrix.flop * count / _part_of_full_rate(case, matrix.key)
    return flop / slowed if slowed else 1.0


def _part_of_full_rate(case: Case, key: ComputeKey) -> float:
    """Return the rate with sums in FP32 over that with sums in FP16, of a type that has both or is as wide."""
    if key.accumulator != "fp32" or key.path not in _TENSOR_INPUTS:
        return 1.0
    rates = case.recorded.hardware.rates
    slow = rates.get(ComputeKey("tensor.fp16", "fp32", key.instruction))
    full = rates.get(ComputeKey("tensor.fp16", "fp16", key.instruction))
    return min(1.0, slow.value / full.value) if slow is not None and full is not None and full.value else 1.0


def _fp64(case: Case) -> Iterator[RuleVerdict]:
    busy, of_peak = case.pipe("fp64"), _fraction_of_peak(case, "fp64")
    pipe_full = busy is not None and _is_limit(case, busy)
    fp32 = _fraction_of_peak(case, "fp32")
    roof = of_peak is not None and 100 * of_peak >= FP64.value and (fp32 is None or fp32 < 0.6)
    if not pipe_full and not roof:
        return
    use = min(1.0, max(value for value in (busy, of_peak) if value is not None))
    ratio = _rate_ratio(case)
    divisions = _division_share(case)
    divides = divisions >= _NOTABLE_SHARE
    fp32_text = f" This GPU does FP32 {1 / ratio:.3g} times as fast." if ratio is not None and ratio < 1 else ""
    what = "its pipe is {} busy" if busy is not None else "its work is {} of its peak"
    headline = f"FP64 arithmetic: {what.format(format_percent(use))}{_rate(case, 'fp64')}"
    if divides:
        headline += f"; about {format_percent(divisions)} of it are divisions or square roots"
    yield RuleVerdict(
        headline=headline,
        why=(
            f"FP64 has few units.{fp32_text}{_busier_pipe(case, busy)}"
            + (
                f" Each division or square root becomes about {_FP64_PER_DIVISION} FP64 instructions and a branch."
                if divides
                else ""
            )
        ),
        advice=(
            (
                "Multiply by a reciprocal that is computed once outside the loop, instead of dividing. "
                if divides
                else ""
            )
            + "Where FP32 is exact enough, use it: look for literals without f (1.0 → 1.0f), double constants and "
            "functions (sqrt → sqrtf), and keep FP64 for the accumulation."
        ),
        confidence="inferred",
        saving=_fp64_saving(case, use, ratio, divisions, pipe_full=pipe_full, narrower=not divides),
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
        action=(
            "Replace FP64 divisions by multiplications with a reciprocal"
            if divides
            else "Compute in FP32 where it is exact enough"
        ),
        location=case.place_of_opcode("DFMA", "DMUL", "DADD", "MUFU.RCP64H", "MUFU.RSQ64H", "F2F.F64")
        or case.place_of_stall("math_pipe_throttle"),
        settled=not pipe_full,
    )


def _busier_pipe(case: Case, busy: float | None) -> str:
    """Say what else is busy: integer instructions of FP64 functions go with them, others stay."""
    rival = max((pipe for pipe in case.pipes if pipe.name != "fp64"), key=lambda pipe: pipe.fraction, default=None)
    if busy is None or rival is None or rival.fraction < busy:
        return ""
    stays = format_percent(max(0.0, 1.0 - rival.fraction))
    return (
        f" The bound holds if the work on the {rival.name.upper()} pipe ({format_percent(rival.fraction)} busy) goes "
        f"with it; else at most {stays}."
    )


def _fp64_saving(
    case: Case, use: float, ratio: float | None, divisions: float, *, pipe_full: bool, narrower: bool
) -> Saving:
    """Bound it by what moves data and multiplies matrices: other instructions belong to FP64 functions and can go too.

    For the same operations, FP32 takes its time for those that are no divisions. Data in FP32 are half as wide.
    """
    gone = {**dict.fromkeys(_SCALAR_PIPES, 0.0), ISSUE: 0.0}
    saving = case.saving(gone)
    if narrower:
        saving = case.saving({**gone, **_NARROWER}).if_held(saving.fraction, _SAME_BYTES)
    if not pipe_full:
        saving = saving.if_held(use, _OTHER_TIME)
    if ratio is None:
        return saving
    return saving.if_held(1.0 - use * min(1.0, ratio) * (1.0 - divisions), "the same operations, in FP32")


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


_PIPE_OPCODES = {
    "fma": ("FFMA", "FADD", "FMUL", "IMAD", "IMUL", "HFMA2", "HADD2", "HMUL2"),
    "fp64": ("DFMA", "DADD", "DMUL"),
}
"""What the pipes of both types execute; packed FP16 shares the FMA pipe from GA10x on."""


def _non_fused(case: Case) -> Iterator[RuleVerdict]:
    for name, (fused_op, add_op, mul_op, pipe) in _OPERATIONS.items():
        counted = _fused_and_alone(case, name, fused_op, (add_op, mul_op))
        if counted is None or counted.all <= 0:
            continue
        share = counted.alone / counted.all
        if 100 * share / 2 < NON_FUSED.value:
            continue
        fused = counted.fused / counted.all
        why = "An addition or a multiplication takes the same slot as a fused multiply-add, which does both."
        if 100 * fused >= NEVER_FUSED.value:
            why += " The compiler has fused some: what is left may have no partner."
        yield RuleVerdict(
            headline=(
                f"Non-fused {name}: {format_percent(share)} of its arithmetic are additions and multiplications that "
                "stand alone"
            ),
            why=why,
            advice=(
                "Write a·b + c so that the compiler may fuse it (fmaf; -fmad=true is the default), and reassociate "
                "sums of products. Additions and multiplications that do not belong together cannot be fused."
            ),
            confidence="inferred" if 100 * fused < NEVER_FUSED.value else "guess",
            saving=_fusing_saving(case, counted, pipe, _pipe_use(case, pipe, name.lower()), (fused_op, add_op, mul_op)),
            evidence=(
                Evidence(counted.fused_metric, counted.fused, counted.unit, threshold=None, meaning=f"fused {name}"),
                Evidence(
                    counted.alone_metric, counted.alone, counted.unit, threshold=None, meaning=f"not fused {name}"
                ),
                Evidence(
                    "", 50 * share, "%", threshold=NON_FUSED.value, meaning=f"fewer {name} instructions if all paired"
                ),
                Evidence("", 100 * fused, "%", threshold=NEVER_FUSED.value, meaning="fused by the compiler"),
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
            action="Let the compiler fuse multiplications with the additions of their products",
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


def _fusing_saving(
    case: Case, counted: _FloatingPoint, pipe: str, busy: float | None, operations: tuple[str, ...]
) -> Saving | None:
    """Bound it by what stays of the pipe, and by the pipe's time or the dependent chain that the pairs take now."""
    pairs = (counted.pairs if counted.pairs is not None else counted.alone / 2) / counted.all
    if busy is None and pairs:
        return None
    stays = dict.fromkeys((pipe, "fmaheavy", "fmalite", ISSUE), 1.0 - pairs)
    if counted.pairs is None:
        # Which of them stand alone is not known: no more than a half goes, but of all units' needs.
        stays = dict.fromkeys(stays, 0.5)
    waits = case.saving_of_wait(case.stall("wait")).fraction
    # The pipe and the waits are of other instructions, too, where the opcodes tell so.
    own = _share_of_opcodes(case, tuple(operation.upper() for operation in operations))
    share = own / (_share_of_opcodes(case, _PIPE_OPCODES[pipe]) or 1.0) if _opcodes(case) else 1.0
    taken = max((busy or 0.0) * min(1.0, share), waits * (own if _opcodes(case) else 1.0))
    return case.saving(stays).if_held(pairs * taken, _OTHER_TIME)


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
    fp32 = _fraction_of_peak(case, "fp32")
    if fp32 is None or 100 * fp32 < FMA_WORK.value or not _tensor_cores_rest(case):
        return
    counted = _fused_and_alone(case, "FP32", "ffma", ("fadd", "fmul"))
    if counted is None or counted.fused < FUSED_SHARE.value / 100 * counted.all:
        return
    rates = _tensor_rates(case)
    path = max(rates, key=lambda name: rates[name], default=None)
    if path is None:
        return
    as_fp32 = "tensor.tf32" in rates
    yield RuleVerdict(
        headline=(
            f"Tensor cores idle: {format_percent(fp32)} of the FP32 peak, nearly all multiply-adds, and no tensor "
            "instruction"
        ),
        why=f"It looks like a matrix product; the tensor cores of this GPU do {_rates_text(rates)}.",
        advice=(
            "If TF32 or 16-bit inputs are exact enough: torch.set_float32_matmul_precision('high'), autocast, "
            "tl.dot with input_precision='tf32', or CUTLASS and mma/wgmma in CUDA. Sums stay in FP32."
            if as_fp32
            else "If BF16 or FP16 inputs are exact enough: autocast, or CUTLASS and mma in CUDA. Sums stay in FP32; "
            "TF32 is not faster than FP32 here."
        ),
        confidence="inferred" if as_fp32 and _MATRIX_NAME.search(case.kernel.demangled) else "guess",
        saving=_tensor_saving(case, fp32 / rates[path]),
        evidence=(
            *((case.pipe_evidence("tensor"),) if case.pipe("tensor") is not None else ()),
            _peak_evidence(case, "FP32", "ffma", fp32, FMA_WORK.value),
            Evidence("", 100 * rates[path], "%", threshold=FASTER.value, meaning="tensor rate over FP32's"),
        ),
        action=(
            "Run the matrix product on the tensor cores, in TF32 or 16 bits"
            if as_fp32
            else "Run the matrix product on the tensor cores, with 16-bit inputs"
        ),
        location=case.place_of_opcode("FFMA"),
    )


def _tensor_cores_rest(case: Case) -> bool:
    """Tell whether the GPU has tensor cores and the kernel no instruction for them, by its pipe or its opcodes."""
    hardware = case.recorded.hardware
    unnamed = hardware.arch.name == "sm_75" and hardware.gpu is None
    if unnamed and _WITH_TENSOR_CORES.search(hardware.device.name or "") is None:
        return False
    busy, opcodes = case.pipe("tensor"), _opcodes(case)
    if any(matrix_opcode(opcode) is not None for opcode in opcodes):
        return False
    return busy <= 0.005 if busy is not None else bool(opcodes)


def _tensor_rates(case: Case) -> dict[str, float]:
    """Return by path how many times as fast as FP32 the tensor cores are with sums in FP32, where that is worth it."""
    rates = case.recorded.hardware.rates
    plain = rates.get(ComputeKey("fp32"))
    if plain is None or not plain.value:
        return {}
    fastest: dict[str, float] = {}
    for key, fact in rates.items():
        if key.path in _TENSOR_INPUTS and key.accumulator == "fp32":
            fastest[key.path] = max(fastest.get(key.path, 0.0), fact.value / plain.value)
    return {path: times for path, times in fastest.items() if 100 * times >= FASTER.value}


def _rates_text(rates: Mapping[str, float]) -> str:
    """Write how much more each input type does: "8 times as much a cycle in TF32, 16 times in BF16 or FP16"."""
    types: dict[float, list[str]] = {}
    for path in sorted(rates, key=lambda name: (rates[name], list(_TENSOR_INPUTS).index(name))):
        types.setdefault(rates[path], []).append(_TENSOR_INPUTS[path])
    parts = [f"{times:.2g} times {{}}in {' or '.join(names)}" for times, names in types.items()]
    return ", ".join(part.format("as much a cycle " if not place else "") for place, part in enumerate(parts))


def _tensor_saving(case: Case, tensor_time: float) -> Saving:
    """Bound it by the tensor cores' time for the same FLOP. With tiles as they are, half of the bytes stay at least.

    Operands reach tensor cores in fewer and wider accesses, so that L1 and the scalar pipes can be relieved altogether.
    Larger tiles read operands less often from L2 and DRAM.
    """
    relieved = dict.fromkeys((*_SCALAR_PIPES, "lsu", ISSUE, "l1"), 0.0)
    bound = case.saving({**relieved, "l2": 0.0, "dram": 0.0}).no_more_than(1.0 - tensor_time)
    return bound.if_held(case.saving({**relieved, "l2": 0.5, "dram": 0.5}).fraction, "the same reuse of operands")


_WITHOUT_PIPES = " Without any pipe: the SM's speed of light, and floating-point work of its peak (a guess)."
_WASTED = (Cause("branch-divergence"),)
"""Warps that are partly filled execute instructions for nothing."""


def _pipe_rule(
    rule_id: str,
    title: str,
    pipe: str,
    check: Callable[[Case], Iterator[RuleVerdict]],
    gain: str,
    more: str = "",
    thresholds: tuple[Threshold, ...] = (),
    causes: tuple[Cause, ...] = (),
    place: TreePlace = AT_MATH,
) -> Rule:
    return Rule(
        rule_id,
        title,
        about="limit",
        looks_at=f"Busy fraction of the {pipe} pipe, and the stall reason math pipe throttle.{more}",
        thresholds=(PIPE_BUSY, *thresholds, SM_PIPE, THROTTLED),
        gain=gain,
        silent="The pipe is under 60 % busy and the warps are not throttled by it.",
        check=check,
        causes=(*causes, *_WASTED),
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
        gain="At most 1 − the largest need of DRAM, L2, L1, the load/store and the tensor pipe: the other instructions "
        "belong to FP64 functions and can go with them. Less where FP32 takes longer for the same operations: 1 − FP64 "
        "use · FP64 rate ÷ FP32 rate · (1 − share of divisions). Where the pipe is not full, no more than its use. It "
        "holds where FP32 is exact enough or the arithmetic can go, and, unless divisions go, with the same bytes: "
        "in FP32 they can be half as many.",
        silent="The FP64 pipe is under 60 % busy and FP64 under 15 % of its peak.",
        check=_fp64,
        metrics=(WARP_OPCODES,),
        place=AT_MATH,
    ),
    _pipe_rule(
        "fp32-compute-bound",
        "FP32 arithmetic is the limit",
        "FMA",
        _fp32,
        "1 − busy fraction of the pipe, for the same instructions (of a busy SM without a full pipe: 1 − its busy "
        "fraction). From 80 % on, with 60 % of the FP32 peak, it is a roof and told as a fact (`info`).",
        _WITHOUT_PIPES,
        (PIPE_NEAR_ROOF, ROOF_WORK),
        (Cause("tensor-cores-idle"), Cause("non-fused-fp")),
    ),
    _pipe_rule(
        "integer-bound",
        "Integer arithmetic is the limit",
        "ALU (or the FMA pipe, by IMAD)",
        _integer,
        "At most 1 − the largest need that remains without integer instructions: of memory, of the FP64, XU, "
        "load/store and tensor pipes, of the FMA pipe for its floating-point part, and of the issue slots for the "
        "other opcodes (none where they are not known). It holds with the same loads, conversions and special "
        "functions, because a division by a variable runs on the XU, too, and wider accesses are fewer. Indices and "
        "conditions are no result, so a full pipe of them is no roof. "
        "Without any pipe 1 − the SM's busy fraction, for the same instructions.",
        _WITHOUT_PIPES,
    ),
    _pipe_rule(
        "special-function-bound",
        "Special functions or conversions are the limit",
        "XU",
        _special,
        "1 − the largest need of any other unit, for the other instructions as they are. A full XU is no roof: "
        "functions can be cheaper.",
        place=TreePlace(("math_pipe_throttle", *SHARED_STALLS), "unit"),
    ),
    _pipe_rule(
        "tensor-compute-bound",
        "Tensor cores are the limit",
        "tensor",
        _tensor,
        "1 − busy fraction of what the instructions can fill of the pipe, for the same instructions: half of it where "
        "the GPU sums in FP32 at half rate and the opcodes say that it does. From 80 % of that on it is a roof and "
        "told as a fact (`info`).",
        thresholds=(PIPE_NEAR_ROOF,),
    ),
    Rule(
        "tensor-cores-idle",
        "A matrix product runs without tensor cores",
        about="defect",
        looks_at="FP32 work of its peak, how much of it is fused multiply-adds, the tensor pipe or the opcodes, and "
        "the GPU's rates.",
        thresholds=(FMA_WORK, FUSED_SHARE, FASTER),
        gain="1 − the largest of the tensor cores' time for the same FLOP, and half of what DRAM and L2 need: inputs "
        "can be half as wide. A bound where the former is larger, because larger tiles need less of DRAM and L2. "
        "It holds where their input types are exact enough: a guess unless the name says a product and TF32, which "
        "keeps FP32 data, is faster.",
        silent="Tensor instructions ran, or the GPU has no tensor cores that are faster than FP32, or FP32 work is "
        "under 30 % of its peak or under 80 % fused.",
        check=_tensor_idle,
        metrics=(WARP_OPCODES,),
        place=AT_MATH,
    ),
    Rule(
        "non-fused-fp",
        "Additions and multiplications are not fused",
        about="defect",
        looks_at="FP32 and FP64 additions and multiplications against fused multiply-adds.",
        thresholds=(NON_FUSED, NEVER_FUSED),
        gain="The instructions that have a partner (the scarcer of additions and multiplications), of all, times the "
        "busy fraction of the pipe or the share of dependent waits (of these instructions, where the opcodes tell), "
        "with everything else as it is; no more than 1 − the largest need that then remains. A guess where the "
        "compiler has fused some.",
        silent="Fusing all of them would save under 10 % of the instructions, or they were not counted.",
        check=_non_fused,
        place=TreePlace(("math_pipe_throttle", "wait", "dispatch_stall"), "unit"),
    ),
)
