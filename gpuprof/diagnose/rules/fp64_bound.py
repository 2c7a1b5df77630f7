"""The rule on FP64 arithmetic, which is slow on most GPUs, and on its divisions."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.code import FP64_SEEDS
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE
from gpuprof.diagnose.facts.work import SCALAR_PIPES
from gpuprof.diagnose.pipe_limits import NARROWER
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import PIPE_BUSY, SM_PIPE, THROTTLED, context, percent
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.findings import MAIN, Cases
from gpuprof.model.session import Pipe

FP64 = percent("fp64-work", 15.0)

_FP64_PER_DIVISION = 7
"""FP64 instructions per MUFU.RCP64H. 7.4 were saved per reciprocal when multiplications replaced a
real kernel's divisions (236 of 418 million FP64 instructions for 31.8 million reciprocals)."""

_NOTABLE_SHARE = 0.25


def _fp64(facts: KernelFacts) -> Findings:
    busy, of_peak = facts.pipe("fp64"), facts.fraction_of_peak("fp64")
    pipe_full = busy is not None and facts.is_pipe_limit(busy)
    fp32 = facts.fraction_of_peak("fp32")
    roof = FP64.is_reached(of_peak) and (fp32 is None or fp32 < 0.6)
    if not pipe_full and not roof:
        return
    use = min(1.0, max(busy or 0.0, of_peak or 0.0))
    divisions = _division_share(facts)
    amounts = [*amounts_of(use=use, divisions=divisions)]
    divides = divisions >= _NOTABLE_SHARE
    headline = ["peak" if busy is None else "pipe"]
    why = ["main"]
    change: tuple[str, ...] = MAIN
    if divides:
        headline = ["divisions", f"divisions-{headline[0]}"]
        change = ("divisions", *MAIN)
    ratio = facts.fp64_over_fp32
    if ratio is not None and ratio < 1:
        why.append("fp32-faster")
    busier = _busier_pipe(facts, busy)
    labels = labels_of()
    if busier is not None:
        why.append("busier-pipe")
        amounts += amounts_of(busier_use=busier.fraction, beside_busier=max(0.0, 1.0 - busier.fraction))
        labels = labels_of(busier=(busier.name,))
    if divides:
        why.append("divisions")
        place = facts.place_of_divisions()
    else:
        place = facts.place_of_opcode("DFMA", "DMUL", "DADD", *FP64_SEEDS, "F2F.F64")
        place = place or facts.place_of_stall("math_pipe_throttle")
    if ratio:
        amounts += amounts_of("", fp32_speed=1 / ratio)
    amounts += amounts_of("", division_instructions=_FP64_PER_DIVISION)
    rate = facts.flop_per_s_of("fp64")
    if rate:
        headline.append("shared/rate")
        amounts += amounts_of("FLOP/s", rate=rate)
    evidence = [*facts.pipe_evidence("fp64", PIPE_BUSY.value)]
    if of_peak is not None:
        evidence.append(facts.peak_evidence("FP64", "DFMA", of_peak, FP64.value))
    evidence += context("divisions", 100 * divisions or None, "%", metric=WARP_OPCODES)
    yield finding(
        facts,
        Cases(headline=tuple(headline), why=tuple(why), action=change[:1], advice=change),
        subject="fp64",
        amounts=amounts,
        labels=labels,
        confidence="inferred",
        saving=_fp64_saving(facts, use, ratio, divisions, pipe_full=pipe_full, narrower=not divides),
        is_fact=not pipe_full,
        evidence=evidence,
        place=place,
    )


def _busier_pipe(facts: KernelFacts, busy: float | None) -> Pipe | None:
    """Return another pipe that is as busy; integer instructions of FP64 functions go with these."""
    if busy is None:
        return None
    others = [pipe for pipe in facts.kernel.pipes if pipe.name != "fp64" and pipe.fraction >= busy]
    return max(others, key=lambda pipe: pipe.fraction, default=None)


def _fp64_saving(
    facts: KernelFacts, use: float, ratio: float | None, divisions: float, *, pipe_full: bool, narrower: bool
) -> Saving:
    """Bound the gain by data movement and matrix products; FP64 functions may use the rest.

    With the same operations, FP32 still takes its time for all but divisions. FP32 values are half
    as wide.
    """
    gone = {**dict.fromkeys(SCALAR_PIPES, 0.0), ISSUE: 0.0}
    saving = speedup_bound(facts, gone)
    if narrower:
        saving = speedup_bound(facts, {**gone, **NARROWER}).if_held(saving.fraction, "same-bytes")
    if not pipe_full:
        saving = saving.if_held(use, "everything-else-unchanged")
    if ratio is None:
        return saving
    return saving.if_held(1.0 - use * min(1.0, ratio) * (1.0 - divisions), "same-operations-in-fp32")


def _division_share(facts: KernelFacts) -> float:
    """Return the share of FP64 instructions of divisions and square roots; 0 if unknown."""
    arithmetic = facts.executed("DFMA", "DMUL", "DADD")
    if not arithmetic:
        return 0.0
    return min(1.0, _FP64_PER_DIVISION * facts.executed(*FP64_SEEDS) / arithmetic)


RULE = Rule(
    "fp64-bound",
    thresholds=(PIPE_BUSY, SM_PIPE, FP64, THROTTLED),
    check=_fp64,
    metrics=(WARP_OPCODES,),
    place=AT_MATH,
)
