"""The rule on FP64 arithmetic, which is slow on most GPUs, and on its divisions."""

from __future__ import annotations

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.code import FP64_SEEDS
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.pipe_limits import NARROWER, NO_ARITHMETIC, only_fp64_cycles, sm_evidence
from gpuprof.diagnose.rule import AT_MATH, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import PIPE_BUSY, SM_PIPE, THROTTLED, context, percent
from gpuprof.hardware.specs import WARP_OPCODES

FP64 = percent("fp64-work", 15.0)
BESIDE_FP32 = percent("fp64-beside-fp32", 25.0)

_FP64_PER_DIVISION = 7
"""FP64 instructions per MUFU.RCP64H. 7.4 were saved per reciprocal when multiplications replaced a
real kernel's divisions (236 of 418 million FP64 instructions for 31.8 million reciprocals)."""
_MANY_DIVISIONS = 0.25
_MUCH_FP32 = 0.6


def _fp64(facts: KernelFacts) -> Findings:
    """Report FP64 that fills its pipe, that an FP32 kernel also does, or that is much of its peak."""
    of_peak, cycles = facts.fraction_of_peak("fp64"), only_fp64_cycles(facts)
    busy = facts.sm_without_parts if cycles else facts.pipe("fp64")
    is_full = busy is not None and facts.is_pipe_limit(busy)
    is_beside = not is_full and facts.has_slow_fp64_beside_fp32 and BESIDE_FP32.is_reached(busy)
    is_much = FP64.is_reached(of_peak) and (facts.fraction_of_peak("fp32") or 0.0) < _MUCH_FP32
    is_limit = is_full or is_beside
    if not is_limit and not is_much:
        return
    use = min(1.0, max(busy or 0.0, of_peak or 0.0))
    seen = "pipe" if busy is not None else "peak"
    why = ["main"]
    evidence = facts.pipe_evidence("fp64", BESIDE_FP32.value if is_beside else PIPE_BUSY.value)
    if cycles:
        seen = "long-instructions"
        why = [seen]
        evidence += sm_evidence(facts, use) + facts.issue_evidence()
    if of_peak is not None:
        evidence += (facts.peak_evidence("FP64", "DFMA", of_peak, FP64.value),)
    # The share of FP64 instructions of divisions and square roots; 0 if unknown.
    arithmetic, seeds = facts.executed("DFMA", "DMUL", "DADD"), facts.executed(*FP64_SEEDS)
    divisions = min(1.0, _FP64_PER_DIVISION * seeds / arithmetic) if arithmetic else 0.0
    ratio, rate = facts.fp64_over_fp32, facts.flop_per_s_of("fp64")
    if (ratio or 1.0) < 1.0:
        why.append("fp32-faster")
    kind = change = "main"
    place = facts.code.place_of_opcode("DFMA", "DMUL", "DADD", *FP64_SEEDS, "F2F.F64")
    if divisions >= _MANY_DIVISIONS:
        kind = change = "divisions"
        place = facts.code.place_of_opcode(*FP64_SEEDS, with_line=True)
        why.append(kind)
    elif is_beside:
        kind = "beside-fp32"
        why.append(kind)
    yield finding(
        facts,
        cases_of(change, (kind, seen, "shared/rate") if rate else (kind, seen), tuple(why)),
        subject="fp64",
        amounts=amounts_of(use=use, divisions=divisions)
        + amounts_of("", fp32_speed=1 / ratio if ratio else None, cycles=cycles or None)
        + amounts_of("FLOP/s", rate=rate or None),
        confidence="guess" if is_full and not facts.is_known_limit(use) else "inferred",
        saving=_saving(facts, use, divisions, is_full=is_full),
        is_fact=not is_limit,
        evidence=evidence + context("divisions", 100 * divisions or None, "%", metric=WARP_OPCODES),
        place=place or facts.code.place_of_stall("math_pipe_throttle"),
    )


def _saving(facts: KernelFacts, use: float, divisions: float, *, is_full: bool) -> Saving:
    """Bound the gain by data movement and matrix products; FP64 functions may use the rest.

    With the same operations, FP32 still takes its time for all but divisions. FP32 values are half as
    wide. Other instructions stay if FP64 does not fill its pipe.
    """
    saving = speedup_bound(facts, NO_ARITHMETIC)
    if divisions < _MANY_DIVISIONS:
        saving = speedup_bound(facts, NO_ARITHMETIC | NARROWER).if_held(saving.fraction, "same-bytes")
    if not is_full:
        others_stay = speedup_bound(facts, dict.fromkeys(("fp64", "xu", ISSUE), 0.0)).no_more_than(use)
        saving = saving.if_held(others_stay.fraction, "everything-else-unchanged")
    in_fp32 = use * min(1.0, facts.fp64_over_fp32 or 0.0) * (1.0 - divisions)
    return saving.if_held(1.0 - in_fp32, "same-operations-in-fp32")


RULE = Rule(
    "fp64-bound",
    thresholds=(PIPE_BUSY, SM_PIPE, FP64, BESIDE_FP32, THROTTLED),
    check=_fp64,
    metrics=(WARP_OPCODES,),
    place=AT_MATH,
)
