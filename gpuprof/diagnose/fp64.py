"""The rule on FP64 arithmetic, which is slow on most GPUs, and on its divisions."""

from __future__ import annotations

from collections.abc import Iterator

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
from gpuprof.model.session import Evidence, Location, Pipe

FP64 = percent("fp64-work", 15.0)

_FP64_PER_DIVISION = 7
"""FP64 instructions per MUFU.RCP64H. 7.4 were saved per reciprocal when multiplications replaced a real kernel's
divisions (236 of 418 million FP64 instructions for 31.8 million reciprocals)."""
_NOTABLE_SHARE = 0.25


def _fp64(case: Case) -> Findings:
    busy, of_peak = case.pipe("fp64"), fraction_of_peak(case, "fp64")
    pipe_full = busy is not None and is_limit(case, busy)
    fp32 = fraction_of_peak(case, "fp32")
    roof = FP64.is_reached(of_peak) and (fp32 is None or fp32 < 0.6)
    if not pipe_full and not roof:
        return
    use = min(1.0, max(value for value in (busy, of_peak) if value is not None))
    ratio = fp64_over_fp32(case)
    divisions = _division_share(case)
    divides = divisions >= _NOTABLE_SHARE
    seen = "pipe" if busy is not None else "peak"
    headline = ["divisions", f"divisions-{seen}"] if divides else [seen]
    why = ["main"]
    rate = rate_of(case, "fp64") or None
    if rate is not None:
        headline.append("shared/rate")
    if ratio is not None and ratio < 1:
        why.append("fp32-faster")
    busier = _busier_pipe(case, busy)
    if busier is not None:
        why.append("busier-pipe")
    if divides:
        why.append("divisions")
    yield finding(
        case,
        Cases(
            headline=tuple(headline),
            why=tuple(why),
            action=("divisions",) if divides else MAIN,
            advice=("divisions", *MAIN) if divides else MAIN,
        ),
        subject="fp64",
        amounts=(
            *amounts_of(use=use, divisions=divisions, busier_use=busier.fraction if busier is not None else None),
            *amounts_of(beside_busier=max(0.0, 1.0 - busier.fraction) if busier is not None else None),
            *amounts_of("", fp32_speed=1 / ratio if ratio else None, division_instructions=_FP64_PER_DIVISION),
            *amounts_of("FLOP/s", rate=rate),
        ),
        labels=labels_of(busier=(busier.name,) if busier is not None else ()),
        confidence="inferred",
        saving=_fp64_saving(case, use, ratio, divisions, pipe_full=pipe_full, narrower=not divides),
        severity=None if pipe_full else "info",
        evidence=_evidence(case, of_peak, divisions),
        place=case.place_of_divisions() if divides else _place_of_arithmetic(case),
    )


def _place_of_arithmetic(case: Case) -> Location | None:
    place = case.place_of_opcode("DFMA", "DMUL", "DADD", *FP64_SEEDS, "F2F.F64")
    return place or case.place_of_stall("math_pipe_throttle")


def _evidence(case: Case, of_peak: float | None, divisions: float) -> Iterator[Evidence]:
    yield from case.pipe_evidence("fp64", PIPE_BUSY.value)
    if of_peak is not None:
        yield peak_evidence(case, "FP64", "DFMA", of_peak, FP64.value)
    yield from context("divisions", 100 * divisions or None, "%", metric=WARP_OPCODES)


def _busier_pipe(case: Case, busy: float | None) -> Pipe | None:
    """Return another pipe that is as busy: integer instructions of FP64 functions go with these, others stay."""
    others = [pipe for pipe in case.kernel.pipes if pipe.name != "fp64"]
    rival = max(others, key=lambda pipe: pipe.fraction, default=None)
    return rival if busy is not None and rival is not None and rival.fraction >= busy else None


def _fp64_saving(
    case: Case, use: float, ratio: float | None, divisions: float, *, pipe_full: bool, narrower: bool
) -> Saving:
    """Bound the gain by data movement and matrix products; all other instructions may belong to FP64 functions.

    With the same operations, FP32 still takes its time for all but divisions. FP32 values are half as wide.
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
    """Return the share of FP64 instructions that belong to divisions and square roots; 0 if unknown."""
    arithmetic = executed(case, "DFMA", "DMUL", "DADD")
    return min(1.0, _FP64_PER_DIVISION * executed(case, *FP64_SEEDS) / arithmetic) if arithmetic else 0.0


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
