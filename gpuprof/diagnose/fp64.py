"""The rule on FP64 arithmetic, of which most GPUs do little, and on divisions in it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.diagnose.arithmetic import (
    OTHER_TIME,
    SCALAR_PIPES,
    fp64_over_fp32,
    fraction_of_peak,
    opcodes_of,
    peak_evidence,
)
from gpuprof.diagnose.case import FP64_SEEDS, Case
from gpuprof.diagnose.compute import NARROWER, PIPE_BUSY, SM_PIPE, THROTTLED, is_limit, rate_text
from gpuprof.diagnose.needs import ISSUE, Saving, pipe_name
from gpuprof.diagnose.rule import AT_MATH, Cause, Rule, RuleVerdict, percent
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.session import Evidence, Location
from gpuprof.units import format_percent

FP64 = percent("FP64 work, of its peak", 15.0, "NVIDIA's roofline rule: FP64 above it while FP32 is under 60 %")

_FP64_PER_DIVISION = 7
"""FP64 instructions that go with one MUFU.RCP64H: 7.4 were saved per reciprocal when a real kernel's divisions became
multiplications (236 of 418 million FP64 instructions for 31.8 million reciprocals)."""
_NOTABLE_SHARE = 0.25
_OF_DIVISIONS = (
    f" Each division or square root becomes about {_FP64_PER_DIVISION} FP64 instructions, as many others and a branch; "
    "where an operand is denormal or its exponent large, it calls a longer function as well."
)
_NO_DIVISION = "Multiply by a reciprocal that is computed once outside the loop instead of dividing. "
_IN_FP32 = (
    "Where FP32 is accurate enough, use it: look for literals without f (1.0 → 1.0f), double constants and functions "
    "(sqrt → sqrtf), and keep FP64 for the accumulation."
)
_SAME_BYTES = "the same bytes"


def _fp64(case: Case) -> Iterator[RuleVerdict]:
    busy, of_peak = case.pipe("fp64"), fraction_of_peak(case, "fp64")
    pipe_full = busy is not None and is_limit(case, busy)
    fp32 = fraction_of_peak(case, "fp32")
    roof = of_peak is not None and 100 * of_peak >= FP64.value and (fp32 is None or fp32 < 0.6)
    if not pipe_full and not roof:
        return
    use = min(1.0, max(value for value in (busy, of_peak) if value is not None))
    ratio = fp64_over_fp32(case)
    divisions = _division_share(case)
    divides = divisions >= _NOTABLE_SHARE
    fp32_text = f" FP32 is {1 / ratio:.3g} times as fast on this GPU." if ratio is not None and ratio < 1 else ""
    what = "FP64 pipe {} busy" if busy is not None else "{} of the FP64 peak"
    rate = f"{what.format(format_percent(use))}{rate_text(case, 'fp64')}"
    headline = f"FP64 arithmetic: {rate}"
    if divides:
        headline = f"FP64 divisions and square roots: about {format_percent(divisions)} of FP64 instructions; {rate}"
    yield RuleVerdict(
        headline=headline,
        why=f"FP64 has fewer units than FP32.{fp32_text}{_busier_pipe(case, busy)}{_OF_DIVISIONS if divides else ''}",
        advice=f"{_NO_DIVISION if divides else ''}{_IN_FP32}",
        confidence="inferred",
        saving=_fp64_saving(case, use, ratio, divisions, pipe_full=pipe_full, narrower=not divides),
        evidence=tuple(_evidence(case, busy, of_peak, divisions)),
        action=(
            "Replace FP64 divisions by multiplications with a reciprocal"
            if divides
            else "Compute in FP32 where it is accurate enough"
        ),
        location=case.place_of_divisions() if divides else _place_of_arithmetic(case),
        settled=not pipe_full,
    )


def _place_of_arithmetic(case: Case) -> Location | None:
    place = case.place_of_opcode("DFMA", "DMUL", "DADD", *FP64_SEEDS, "F2F.F64")
    return place or case.place_of_stall("math_pipe_throttle")


def _evidence(case: Case, busy: float | None, of_peak: float | None, divisions: float) -> Iterator[Evidence]:
    if busy is not None:
        yield case.pipe_evidence("fp64", PIPE_BUSY.value)
    if of_peak is not None:
        yield peak_evidence(case, "FP64", "dfma", of_peak, FP64.value)
    if divisions:
        meaning = "FP64 instructions from divisions, at about 7 each"
        yield Evidence(WARP_OPCODES, 100 * divisions, "%", threshold=None, meaning=meaning)


def _busier_pipe(case: Case, busy: float | None) -> str:
    """Say what else is busy: integer instructions of FP64 functions go with them, others stay."""
    others = [pipe for pipe in case.kernel.pipes if pipe.name != "fp64"]
    rival = max(others, key=lambda pipe: pipe.fraction, default=None)
    if busy is None or rival is None or rival.fraction < busy:
        return ""
    stays = format_percent(max(0.0, 1.0 - rival.fraction))
    return (
        f" The gain assumes that the work on the {pipe_name(rival.name)} pipe ({format_percent(rival.fraction)} "
        f"busy) goes with it; else at most {stays}."
    )


def _fp64_saving(
    case: Case, use: float, ratio: float | None, divisions: float, *, pipe_full: bool, narrower: bool
) -> Saving:
    """Bound it by what moves data and multiplies matrices: other instructions belong to FP64 functions and can go too.

    For the same operations, FP32 takes its time for those that are no divisions. Data in FP32 are half as wide.
    """
    gone = {**dict.fromkeys(SCALAR_PIPES, 0.0), ISSUE: 0.0}
    saving = case.saving(gone)
    if narrower:
        saving = case.saving({**gone, **NARROWER}).if_held(saving.fraction, _SAME_BYTES)
    if not pipe_full:
        saving = saving.if_held(use, OTHER_TIME)
    if ratio is None:
        return saving
    return saving.if_held(1.0 - use * min(1.0, ratio) * (1.0 - divisions), "the same operations, in FP32")


def _division_share(case: Case) -> float:
    """Return the share of FP64 instructions that belong to divisions and square roots; 0 if unknown."""
    opcodes = opcodes_of(case)
    arithmetic = sum(count for name, count in opcodes.items() if name.startswith(("DFMA", "DMUL", "DADD")))
    seeds = sum(count for name, count in opcodes.items() if name in FP64_SEEDS)
    return min(1.0, _FP64_PER_DIVISION * seeds / arithmetic) if arithmetic else 0.0


RULES = (
    Rule(
        "fp64-bound",
        "FP64 arithmetic is the limit",
        about="defect",
        looks_at="Busy fraction of the FP64 pipe and FP64 work of its peak; the share of divisions from the opcode "
        "histogram.",
        thresholds=(PIPE_BUSY, SM_PIPE, FP64, THROTTLED),
        gain="At most 1 − the largest need of DRAM, L2, L1, the load/store and the tensor pipe: the other "
        "instructions belong to FP64 functions and can go with them. Less where FP32 takes longer for the same "
        "operations: 1 − FP64 use · FP64 rate ÷ FP32 rate · (1 − share of divisions). Where the pipe is not full, no "
        "more than its use. It holds where FP32 is accurate enough or the arithmetic can go, and, unless divisions "
        "go, with the same bytes: in FP32 they can be half as many.",
        silent="The FP64 pipe is under 60 % busy and FP64 under 15 % of its peak.",
        check=_fp64,
        metrics=(WARP_OPCODES,),
        causes=(Cause("tensor-cores-idle"),),
        place=AT_MATH,
    ),
)
