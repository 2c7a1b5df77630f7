"""Rules on arithmetic: which pipe is full, and which precision fills it.

Only useful work makes a full pipe a roof: multiply-adds of the type that is needed, and tensor instructions. Integer
instructions, special functions and issue slots are what a program can do without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from gpuprof.diagnose.arithmetic import (
    INTEGER_PIPES,
    SCALAR_PIPES,
    TENSOR_INPUTS,
    fp64_over_fp32,
    fraction_of_peak,
    opcodes_of,
    share_of_opcodes,
)
from gpuprof.diagnose.blocks import leaves_lanes_empty
from gpuprof.diagnose.case import SHARED_STALLS, Case
from gpuprof.diagnose.needs import ISSUE, Saving, pipe_name
from gpuprof.diagnose.rule import AT_MATH, Cause, Rule, RuleVerdict, Threshold, TreePlace, percent
from gpuprof.hardware.specs import ComputeKey
from gpuprof.model.field_types import Confidence
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.product_names import is_product_by_name, multiplies_on_tensor_cores
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.model.session import Evidence
from gpuprof.units import format_percent, format_si

PIPE_BUSY = percent("pipe busy", 60.0, "NVIDIA's rule calls a pipe well used from here on")
PIPE_NEAR_ROOF = percent("near its ceiling", 80.0, "NVIDIA's rule calls a pipe over-utilised from here on")
THROTTLED = percent(
    "Stall Math Pipe Throttle", 30.0, "warps then wait for the busiest pipe although its average is lower"
)
SM_PIPE = percent("busiest pipe of a busy SM", 50.0, "shows what most of a busy SM's instructions are")
ROOF_WORK = percent(
    "FP32 work at the ceiling",
    60.0,
    "a full pipe with less FP32 work is filled with something else than fused instructions",
)
SCALAR_CYCLES = Threshold(
    "SM cycles per instruction",
    8.0,
    "cycle/inst",
    reason="special functions have the fewest lanes, 4 per scheduler: a warp keeps their pipe for 8 cycles",
)
BIT_WORK = percent(
    "bit instructions, of integer instructions",
    50.0,
    "indices take additions, multiply-adds and comparisons: 0 to 11 % change bits in ten recorded stencils and copies, "
    "61 % in one that unpacks INT4",
)
FMA_WORK = percent("FP32 work, of its peak", 30.0, "a kernel with less has another problem first")

_SAME = "the same instructions"
_SAME_OTHERS = "the other instructions unchanged"

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
    "PLOP", "POPC", "FLO", "BREV", "SGXT", "BMSK", "IABS", "ISCADD", "I2IP", "MOV", "UIADD", "UIMAD", "ULOP", "USHF",
    "UISETP", "UPRMT", "ULEA", "USEL", "UMOV", "UPLOP", "R2UR",
)  # fmt: skip
"""How the opcodes of integer, logic and move instructions begin."""
_FMA_ADVICE = (
    "Do less arithmetic: hoist loop invariants, use cheaper functions, or a type with a higher rate (packed FP16 or "
    "BF16; tensor cores for matrix multiplication)."
)
_FMA_ACTION = "Do less FP32 arithmetic, or use a type with a higher rate"
_INTEGER_ADVICE = (
    "Shorten the address arithmetic: 32-bit indices, pointers advanced by a constant, no division or modulo by "
    "a variable (use powers of two or a precomputed reciprocal), wider loads so that one address serves more "
    "bytes."
)
_TENSOR_ADVICE = (
    "Use a narrower type where the result allows (BF16 → FP8), the architecture's newest instruction (wgmma, "
    "tcgen05), or structured sparsity."
)
_TENSOR_ACTION = "Use a narrower type, or the architecture's newest matrix instruction"
_ANY_ACTION = "Execute fewer instructions per result, of whichever kind fills the SM"
_ANY_ADVICE = (
    "Collect which pipe is busy first (ncu --section ComputeWorkloadAnalysis). Fewer instructions per result help in "
    "any case, by wider accesses, work hoisted out of loops and simpler indices; but arithmetic that the result needs "
    "stays."
)
_BITS = ("LOP", "SHF", "SHL", "SHR", "PRMT", "I2IP", "SGXT", "BMSK", "BREV", "POPC", "FLO", "IMNMX", "VIMNMX")
"""How the opcodes of integer instructions begin that change bits or clamp values: indices take few of them."""
_BITS_ACTION = "Unpack, pack or hash fewer values: once each, several in a register, or let the hardware do it"
_BITS_ADVICE = (
    "Do it once for each value and not at each use, work on several narrow values in one register (PRMT, LOP3 with "
    "three inputs, video instructions such as __vadd4), keep them in the form that the next step takes (a sign or a "
    "scale that is folded into it), and let instructions take narrow types themselves: dp4a, IMMA, FP8 conversions."
)
_INTEGER_ACTION = "Cut integer instructions: simpler indices, no variable divisors, wider loads"


NARROWER = dict.fromkeys(("dram", "l2", "l1"), 0.5)
"""What memory levels need at least of what they did when values take half as many bytes."""


class _Full(Struct, frozen=True):
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
    why: str = "Instructions of this kind issue only when their pipe has room."


def _verdict(case: Case, full: _Full) -> RuleVerdict:
    half = f" of the {format_percent(full.roof)} possible with FP32 sums" if full.roof < 1.0 else ""
    at_roof = "; near its ceiling" if full.settled else ""
    busy = format_percent(min(1.0, case.pipe(full.pipe) or 0.0))
    return RuleVerdict(
        headline=f"{full.title}: {pipe_name(full.pipe)} pipe {busy} busy{half}{rate_text(case, full.pipe)}{at_roof}",
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


def is_limit(case: Case, fraction: float) -> bool:
    """Tell whether a pipe is the limit: busy, or the busiest while the SM is, or while warps are throttled by it."""
    if 100 * fraction >= PIPE_BUSY.value:
        return True
    if fraction < max(_rivals(case), default=0.0):
        return False
    return _throttled(case) or _in_busy_sm(case, fraction)


def _rivals(case: Case) -> Iterator[float]:
    """Yield the use of the pipes that can be what keeps the SM busy; accesses are not where it is clearly busier."""
    sm = case.utilisation.get("sm")
    for pipe in case.kernel.pipes:
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
            f"Instruction throughput: SM {format_percent(sm)} busy; {pipe_name(pipe)} is the busiest arithmetic pipe "
            f"at {format_percent(case.pipe(pipe) or 0.0)}"
        ),
        why="No pipe is full, but the schedulers are: every instruction takes an issue slot. More warps do not help.",
        advice=f"Execute fewer instructions of any kind. {advice}",
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
    return case.saving({**gone, **NARROWER}).if_held(min(1.0 - min(1.0, use), case.saving(gone).fraction), _SAME)


def _with_full_sm(case: Case, *pipes: str) -> Saving:
    """Return what the same instructions save once they fill the SM."""
    return case.saving(dict.fromkeys((*pipes, ISSUE), 0.0)).if_held(1.0 - case.utilisation["sm"], _SAME)


def rate_text(case: Case, pipe: str) -> str:
    """Say what a pipe achieves, where its work is counted: ", 12.3 TFLOP/s"."""
    path = {"fma": "fp32", "fp64": "fp64"}.get(pipe)
    rate = next((work.flop_per_s for work in case.kernel.work if work.path == path and work.flop_per_s), None)
    return f", {format_si(rate, 'FLOP/s')}" if rate is not None else ""


def _fp32(case: Case) -> Iterator[RuleVerdict]:
    if _is_integer_work(case):
        return
    work = fraction_of_peak(case, "fp32")
    if (100 * work >= FMA_WORK.value) if work is not None else _is_product_by_name(case):
        yield from _busy_sm(case, "FP32 arithmetic", _FMA_ACTION, _FMA_ADVICE)
    use = case.pipe("fma")
    if use is None or not is_limit(case, use):
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
            why="Instructions of this kind issue only when their pipe has room."
            + (_filled_text(work) if filled and work is not None else ""),
        ),
    )


def _filled_text(work: float) -> str:
    return (
        f" The kernel reaches only {format_percent(work)} of the FP32 peak: unfused FADD and FMUL, and other "
        "instructions of this pipe, take the rest."
    )


def _integer(case: Case) -> Iterator[RuleVerdict]:
    if _is_integer_work(case):
        pipe = "fmaheavy" if case.pipe("fmaheavy") is not None else "fma"
        yield from _integer_verdict(case, pipe, "Integer multiply-adds (IMAD)", "inferred")
    yield from _integer_verdict(case, "alu", "Integer arithmetic", "measured")
    work = _most_work(case)
    if (100 * work < FMA_WORK.value) if work is not None else not _is_product_by_name(case):
        if work is None:
            yield from _busy_sm(case, "Instruction throughput", _ANY_ACTION, _ANY_ADVICE)
        else:
            yield from _busy_sm(case, "Instructions other than floating point", _INTEGER_ACTION, _INTEGER_ADVICE)


def _integer_verdict(case: Case, pipe: str, title: str, confidence: Confidence) -> Iterator[RuleVerdict]:
    use = case.pipe(pipe)
    if use is None or not is_limit(case, use):
        return
    saving, bits = _without_integers(case), _bit_share(case)
    of_bits = 100 * bits > BIT_WORK.value
    action, advice = (_BITS_ACTION, _BITS_ADVICE) if of_bits else (_INTEGER_ACTION, _INTEGER_ADVICE)
    if _is_issue_bound(case, use):
        yield _issue_verdict(case, pipe, action, advice, saving)
        return
    yield _verdict(
        case,
        _Full(
            pipe=pipe,
            title=title,
            action=action,
            advice=advice,
            saving=saving,
            confidence=confidence,
            why="Instructions of this kind issue only when their pipe has room. "
            + (
                f"{format_percent(bits)} of the integer instructions change bits (LOP3, SHF, PRMT): packing, "
                "unpacking, conversion of narrow types or hashing."
                if of_bits
                else "Indices, conditions and moves are overhead and not results: a pipe full of them is not a ceiling."
            ),
        ),
    )


def _bit_share(case: Case) -> float:
    """Return the share of the executed integer instructions that change bits; 0 where opcodes were not counted."""
    integers = share_of_opcodes(case, tuple(name for name in _INTEGER if name != "MOV"))
    return share_of_opcodes(case, _BITS) / integers if integers else 0.0


def _without_integers(case: Case) -> Saving:
    """Bound what goes with integer instructions: memory, floating-point and matrix instructions stay.

    A division by a variable converts and takes a reciprocal on the XU, and wider accesses are fewer: with all of those
    as they are it is less.
    """
    relieved = dict.fromkeys(INTEGER_PIPES, 0.0)
    relieved["fma"] = _floating_part(case)
    relieved[ISSUE] = 1.0 - share_of_opcodes(case, _INTEGER) if opcodes_of(case) else 0.0
    bound = case.saving({**relieved, ISSUE: 0.0, "xu": 0.0, "lsu": 0.0, "l1": 0.0})
    return bound.if_held(case.saving(relieved).fraction, "the same loads, conversions and special functions")


def _floating_part(case: Case) -> float:
    """Return which part of the FMA pipe's time is certainly floating-point work: by opcodes, else by its FLOP."""
    opcodes = opcodes_of(case)
    floating = sum(count for name, count in opcodes.items() if name.startswith(("FFMA", "FMUL", "FADD")))
    integer = sum(count for name, count in opcodes.items() if name.startswith(("IMAD", "IMUL")))
    if floating + integer:
        return floating / (floating + integer)
    work, busy = fraction_of_peak(case, "fp32"), case.pipe("fma")
    return min(1.0, work / busy) if work is not None and busy else 0.0


def _busy_sm(case: Case, what: str, action: str, advice: str) -> Iterator[RuleVerdict]:
    """Say that the SM is the busiest unit where the report has no pipe: what fills it is a guess from the FLOP.

    The load/store unit is part of the SM, too: where memory is as busy as the SM, it is that.
    """
    sm = _sm_without_pipes(case)
    if sm is None or _cycles_an_instruction(case, sm) > SCALAR_CYCLES.value or _has_matrix_name(case):
        # Matrix instructions keep it so: `tensor-compute-bound` says that.
        return
    work = _most_work(case)
    yield RuleVerdict(
        headline=f"{what}: SM {format_percent(sm)} busy; the busiest pipe was not collected",
        why="The SM's instructions are the limit. ncu --section ComputeWorkloadAnalysis shows which kind of them.",
        advice=advice,
        confidence="guess",
        saving=_with_full_sm(case, *SCALAR_PIPES),
        evidence=(
            Evidence(case.light_metric("sm"), 100 * sm, "%", threshold=PIPE_BUSY.value, meaning="SM busy"),
            *(
                (Evidence("", 100 * work, "%", threshold=FMA_WORK.value, meaning="floating-point work, of its peak"),)
                if work is not None
                else ()
            ),
        ),
        action=action,
    )


def _sm_without_pipes(case: Case) -> float | None:
    """Return how busy the SM is where that makes it the limit, memory is less busy, and no pipe was collected."""
    sm, memory = case.utilisation.get("sm"), case.memory_utilisation
    if case.kernel.pipes or sm is None or 100 * sm < PIPE_BUSY.value:
        return None
    return sm if memory is None or sm > memory + TWO_PASSES else None


def _cycles_an_instruction(case: Case, sm: float) -> float:
    """Return how long an issued instruction keeps the SM busy on average; 0 where the issue slots are not known."""
    issued = case.needs.get(ISSUE)
    return sm / issued if issued else 0.0


def _is_product_by_name(case: Case) -> bool:
    """Tell whether a kernel is a matrix product by its name, where no floating-point work was counted to tell by."""
    return _most_work(case) is None and is_product_by_name(case.kernel.demangled)


def _has_matrix_name(case: Case) -> bool:
    """Tell whether a kernel multiplies matrices on the tensor cores by its name."""
    return multiplies_on_tensor_cores(case.kernel.demangled)


def _most_work(case: Case) -> float | None:
    """Return the floating-point work of its peak, of the path closest to it; None where none was counted."""
    paths = {work.path for work in case.kernel.work if "int32" not in work.path}
    fractions = [fraction for path in paths if (fraction := fraction_of_peak(case, path)) is not None]
    return min(1.0, max(fractions)) if fractions else None


def _is_integer_work(case: Case) -> bool:
    """Tell whether integers fill the FMA pipe: by opcodes, else where only the half that multiplies integers is busy.

    Floating-point work takes both halves alike.
    """
    opcodes = opcodes_of(case)
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


def _special(case: Case) -> Iterator[RuleVerdict]:
    use = case.pipe("xu")
    if use is None or not is_limit(case, use):
        return
    advice = (
        "Use fewer exp, log, sin, rsqrt and divisions, or polynomials on the FMA pipe; keep one type through the "
        "loop, because conversions between integer and floating point use the same pipe."
    )
    action = "Use fewer special functions, divisions and type conversions"
    # The instructions around a function go with it.
    saving = case.saving({**dict.fromkeys(SCALAR_PIPES, 0.0), ISSUE: 0.0})
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
        yield from _long_instructions(case)
        return
    roof = _tensor_roof(case)
    use = min(1.0, busy / roof)
    if not (is_limit(case, busy) or 100 * use >= PIPE_BUSY.value):
        return
    if 100 * use < PIPE_BUSY.value and _is_issue_bound(case, busy):
        yield _issue_verdict(case, "tensor", _TENSOR_ACTION, _TENSOR_ADVICE, _with_full_sm(case, "tensor"))
        return
    slower = " The tensor cores of this GPU sum in FP32 at half their rate, and in FP16 at their full rate."
    yield _verdict(
        case,
        _Full(
            pipe="tensor",
            title="Tensor cores",
            action=_TENSOR_ACTION,
            advice=_TENSOR_ADVICE,
            saving=_with_full_pipe(case, use, "tensor"),
            roof=roof,
            settled=100 * use >= PIPE_NEAR_ROOF.value,
            confidence="measured" if roof == 1.0 else "inferred",
            why=f"Instructions of this kind issue only when their pipe has room.{slower if roof < 1.0 else ''}",
        ),
    )


def _long_instructions(case: Case) -> Iterator[RuleVerdict]:
    """Say so where the SM is busy with hardly an instruction issued: only matrix instructions take so long.

    Those of FP64 do, too, on a GPU that has few units for them. Else a name that tells of matrix instructions is all.
    """
    sm = _sm_without_pipes(case)
    cycles = _cycles_an_instruction(case, sm) if sm is not None else 0.0
    has_them = any(key.path.startswith("tensor") for key in case.recorded.hardware.arch.compute)
    are_long, by_name = cycles > SCALAR_CYCLES.value, _has_matrix_name(case)
    if sm is None or not has_them or not (are_long or by_name):
        return
    ratio = fp64_over_fp32(case)
    near = 100 * sm >= PIPE_NEAR_ROOF.value
    what, at = ("Tensor cores", f" at one instruction per {cycles:.0f} cycles") if are_long else (_BY_NAME, "")
    yield RuleVerdict(
        headline=f"{what}: SM {format_percent(sm)} busy{at}{'; near its ceiling' if near else ''}",
        why="Pipes were not collected, but no other kind of instruction keeps the SM busy for so long."
        if are_long
        else "Its name tells of matrix instructions. Pipes were not collected: ncu --section ComputeWorkloadAnalysis "
        "shows how busy the tensor cores are.",
        action=_TENSOR_ACTION,
        advice=_TENSOR_ADVICE,
        confidence="inferred" if are_long and ((ratio or 0.0) >= _FP64_IS_FAST or by_name) else "guess",
        saving=_with_full_sm(case, "tensor"),
        evidence=(
            Evidence(case.light_metric("sm"), 100 * sm, "%", threshold=PIPE_BUSY.value, meaning="SM busy"),
            *case.issue_evidence(None),
            *(
                (Evidence("", cycles, "cycle/inst", threshold=SCALAR_CYCLES.value, meaning=SCALAR_CYCLES.name),)
                if cycles
                else ()
            ),
        ),
        settled=near,
    )


_BY_NAME = "Tensor cores, by its name"
_FP64_IS_FAST = 0.25
"""Of the rate of FP32: FP64 instructions then take 8 cycles at most, as special functions do."""


def _tensor_roof(case: Case) -> float:
    """Return which part of the tensor pipe's cycles the kernel's matrix instructions can fill.

    Where sums in FP32 have half of the rate, the pipe is half busy at the roof. Unknown instructions can fill all.
    """
    flop = slowed = 0.0
    for opcode, count in opcodes_of(case).items():
        matrix = matrix_opcode(opcode)
        if matrix is not None and matrix.flop is not None:
            flop += matrix.flop * count
            slowed += matrix.flop * count / _part_of_fullrate_text(case, matrix.key)
    return flop / slowed if slowed else 1.0


def _part_of_fullrate_text(case: Case, key: ComputeKey) -> float:
    """Return the rate with sums in FP32 over that with sums in FP16, of a type that has both or is as wide."""
    if key.accumulator != "fp32" or key.path not in TENSOR_INPUTS:
        return 1.0
    rates = case.recorded.hardware.rates
    slow = rates.get(ComputeKey("tensor.fp16", "fp32", key.instruction))
    full = rates.get(ComputeKey("tensor.fp16", "fp16", key.instruction))
    return min(1.0, slow.value / full.value) if slow is not None and full is not None and full.value else 1.0


_WITHOUT_PIPES = " Without any pipe: the SM's speed of light, and floating-point work of its peak (a guess)."
_WASTED = (Cause("branch-divergence"), Cause("block-size", leaves_lanes_empty))
"""Warps that are partly filled execute instructions for nothing; matrix instructions take whole warps."""


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
    *,
    of_lanes: bool = True,
) -> Rule:
    return Rule(
        rule_id,
        title,
        about="limit",
        looks_at=f"Busy fraction of the {pipe}, and Stall Math Pipe Throttle.{more}",
        thresholds=(PIPE_BUSY, *thresholds, SM_PIPE, THROTTLED),
        gain=gain,
        silent="The pipe is under 60 % busy and does not throttle the warps.",
        check=check,
        causes=(*causes, *(_WASTED if of_lanes else ())),
        place=place,
    )


RULES = (
    _pipe_rule(
        "fp32-compute-bound",
        "FP32 arithmetic is the limit",
        "FMA pipe",
        _fp32,
        "1 − busy fraction of the pipe, for the same instructions (of a busy SM without a full pipe: 1 − its busy "
        "fraction). From 80 % on, with 60 % of the FP32 peak, it is at its ceiling and reported as a fact (`info`).",
        _WITHOUT_PIPES,
        (PIPE_NEAR_ROOF, ROOF_WORK),
        (Cause("tensor-cores-idle"), Cause("non-fused-fp")),
    ),
    _pipe_rule(
        "integer-bound",
        "Integer arithmetic is the limit",
        "ALU pipe (or of the FMA pipe, by IMAD)",
        _integer,
        "At most 1 − the largest need that remains without integer instructions: of memory, of the FP64, XU, "
        "load/store and tensor pipes, of the FMA pipe for its floating-point part, and of the issue slots for the "
        "other opcodes (none where they are not known). It holds with the same loads, conversions and special "
        "functions, because a division by a variable runs on the XU, too, and wider accesses are fewer. Indices and "
        "conditions are overhead: a pipe full of them is not a ceiling. Without any pipe 1 − the SM's busy fraction, "
        "for the same instructions.",
        f"{_WITHOUT_PIPES} By opcodes, whether most integer instructions change bits (packing, hashing) or compute "
        "indices.",
        (BIT_WORK,),
    ),
    _pipe_rule(
        "special-function-bound",
        "Special functions or conversions are the limit",
        "XU pipe",
        _special,
        "1 − the largest need of any other unit, with the other instructions unchanged. A full XU is not a ceiling: "
        "functions can be cheaper.",
        place=TreePlace(("math_pipe_throttle", *SHARED_STALLS), "unit"),
    ),
    _pipe_rule(
        "tensor-compute-bound",
        "Tensor cores are the limit",
        "tensor pipe",
        _tensor,
        "1 − busy fraction of what the instructions can fill of the pipe, for the same instructions: half of it where "
        "the GPU sums in FP32 at half rate and the opcodes say that it does. From 80 % of that on it is at its "
        "ceiling and reported as a fact (`info`). Without pipes: 1 − busy fraction of the SM.",
        " Where no pipe was collected, an SM that is busy with so few instructions that only matrix instructions take "
        "as long (a guess where FP64 has less than a quarter of the rate of FP32 and the name tells of none), or, as a "
        "guess, an SM that is busy with a kernel whose name tells of them (s1688, tensorop, nvjet, wgmma).",
        thresholds=(PIPE_NEAR_ROOF, SCALAR_CYCLES),
        causes=(Cause("old-architecture"),),
        of_lanes=False,
    ),
)
