"""The rule on FP64 arithmetic, which is slow on most GPUs, and on its divisions."""

from __future__ import annotations

from gpuprof.diagnose.arithmetic import (
    SCALAR_PIPES,
    executed,
    fp64_over_fp32,
    fraction_of_peak,
    peak_evidence,
    rate_of,
)
from gpuprof.diagnose.case import FP64_SEEDS, Case
from gpuprof.diagnose.compute import NARROWER, PIPE_BUSY, SM_PIPE, THROTTLED, is_limit
from gpuprof.diagnose.needs import ISSUE, Saving
from gpuprof.diagnose.rule import AT_MATH, Cause, Findings, Rule, amounts_of, context, finding, labels_of, percent
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.session import Pipe

FP64 = percent("fp64-work", 15.0)

_FP64_PER_DIVISION = 7
"""FP64 instructions per MUFU.RCP64H. 7.4 were saved per reciprocal when multiplications replaced a
real kernel's divisions (236 of 418 million FP64 instructions for 31.8 million reciprocals)."""
_NOTABLE_SHARE = 0.25


def _fp64(case: Case) -> Findings:
    busy, of_peak = case.pipe("fp64"), fraction_of_peak(case, "fp64")
    pipe_full = busy is not None and is_limit(case, busy)
    fp32 = fraction_of_peak(case, "fp32")
    roof = FP64.is_reached(of_peak) and (fp32 is None or fp32 < 0.6)
    if not pipe_full and not roof:
        return
    use = min(1.0, max(busy or 0.0, of_peak or 0.0))
    divisions = _division_share(case)
    amounts = [*amounts_of(use=use, divisions=divisions)]
    divides = divisions >= _NOTABLE_SHARE
    headline = ["peak" if busy is None else "pipe"]
    why = ["main"]
    change: tuple[str, ...] = MAIN
    if divides:
        headline = ["divisions", f"divisions-{headline[0]}"]
        change = ("divisions", *MAIN)
    ratio = fp64_over_fp32(case)
    if ratio is not None and ratio < 1:
        why.append("fp32-faster")
    busier = _busier_pipe(case, busy)
    labels = labels_of()
    if busier is not None:
        why.append("busier-pipe")
        amounts += amounts_of(busier_use=busier.fraction, beside_busier=max(0.0, 1.0 - busier.fraction))
        labels = labels_of(busier=(busier.name,))
    if divides:
        why.append("divisions")
        place = case.place_of_divisions()
    else:
        place = case.place_of_opcode("DFMA", "DMUL", "DADD", *FP64_SEEDS, "F2F.F64")
        place = place or case.place_of_stall("math_pipe_throttle")
    if ratio:
        amounts += amounts_of("", fp32_speed=1 / ratio)
    amounts += amounts_of("", division_instructions=_FP64_PER_DIVISION)
    rate = rate_of(case, "fp64")
    if rate:
        headline.append("shared/rate")
        amounts += amounts_of("FLOP/s", rate=rate)
    evidence = [*case.pipe_evidence("fp64", PIPE_BUSY.value)]
    if of_peak is not None:
        evidence.append(peak_evidence(case, "FP64", "DFMA", of_peak, FP64.value))
    evidence += context("divisions", 100 * divisions or None, "%", metric=WARP_OPCODES)
    yield finding(
        case,
        Cases(headline=tuple(headline), why=tuple(why), action=change[:1], advice=change),
        subject="fp64",
        amounts=amounts,
        labels=labels,
        confidence="inferred",
        saving=_fp64_saving(case, use, ratio, divisions, pipe_full=pipe_full, narrower=not divides),
        is_fact=not pipe_full,
        evidence=evidence,
        place=place,
    )


def _busier_pipe(case: Case, busy: float | None) -> Pipe | None:
    """Return another pipe that is as busy; integer instructions of FP64 functions go with these."""
    if busy is None:
        return None
    others = [pipe for pipe in case.kernel.pipes if pipe.name != "fp64" and pipe.fraction >= busy]
    return max(others, key=lambda pipe: pipe.fraction, default=None)


def _fp64_saving(
    case: Case, use: float, ratio: float | None, divisions: float, *, pipe_full: bool, narrower: bool
) -> Saving:
    """Bound the gain by data movement and matrix products; FP64 functions may use the rest.

    With the same operations, FP32 still takes its time for all but divisions. FP32 values are half
    as wide.
    """
    gone = {**dict.fromkeys(SCALAR_PIPES, 0.0), ISSUE: 0.0}
    saving = case.saving(gone)
    if narrower:
        saving = case.saving({**gone, **NARROWER}).if_held(saving.fraction, "same-bytes")
    if not pipe_full:
        saving = saving.if_held(use, "everything-else-unchanged")
    if ratio is None:
        return saving
    return saving.if_held(1.0 - use * min(1.0, ratio) * (1.0 - divisions), "same-operations-in-fp32")


def _division_share(case: Case) -> float:
    """Return the share of FP64 instructions of divisions and square roots; 0 if unknown."""
    arithmetic = executed(case, "DFMA", "DMUL", "DADD")
    if not arithmetic:
        return 0.0
    return min(1.0, _FP64_PER_DIVISION * executed(case, *FP64_SEEDS) / arithmetic)


RULES = (
    Rule(
        "fp64-bound",
        thresholds=(PIPE_BUSY, SM_PIPE, FP64, THROTTLED),
        check=_fp64,
        metrics=(WARP_OPCODES,),
        causes=(Cause("tensor-cores-idle"),),
        place=AT_MATH,
    ),
)
