"""Findings and bounds of the rules on full pipes."""

from __future__ import annotations

import math

from msgspec.structs import replace

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.diagnose.facts.work import SCALAR_PIPES
from gpuprof.diagnose.rule import Findings, amounts_of, finding, labels_of
from gpuprof.diagnose.thresholds import FMA_WORK, PIPE_BUSY, PIPE_NEAR_ROOF, SM_PIPE, THROTTLED, Threshold
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount, Cases
from gpuprof.model.product_names import is_product_by_name, multiplies_on_tensor_cores
from gpuprof.model.session import Evidence

SCALAR_CYCLES = Threshold("cycles-per-instruction", 8.0, "cycle/inst")

PIPE_OPCODES = {
    "fma": ("FFMA", "FMUL", "FADD"),
    "fmaheavy": ("IMAD", "IMUL"),
    "alu": ("LOP3", "IADD3", "SHF.", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "PLOP3"),
    "xu": ("MUFU", "I2F", "F2I", "F2F"),
    "tensor": ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "UTC"),
}
"""The most frequent instructions of a pipe, to find its place in the code."""

LONGEST_PRODUCTS = {"sm_75": 16.0, "sm_86": 32.0, "sm_89": 32.0, "sm_120": 32.0}
"""Cycles of a scheduler for the longest mma.sync on architectures with few FP64 units, whose GeForce
products sum in FP32 at half of the rate of others.

They are the FLOP of m16n8k8 on Turing, else of m16n8k16, over 128 FLOP per cycle: GeForce products
with FP32 sums (NVIDIA's whitepapers on Turing, GA102, Ada and RTX Blackwell)."""

NO_ARITHMETIC = dict.fromkeys((*SCALAR_PIPES, ISSUE), 0.0)
"""The needs that stay without instructions on scalar pipes: none of these pipes, nor issue slots."""

NARROWER = dict.fromkeys(("dram", "l2", "l1"), 0.5)
"""The least part of each memory level's need that stays with values of half the size."""


def full_pipe(
    facts: KernelFacts,
    pipe: str,
    saving: Saving | None = None,
    cases: Cases = Cases(why=()),  # noqa: B008
    *,
    amounts: tuple[Amount, ...] = (),
    roof: float = 1.0,
    nears_peak: bool = False,
    is_fact: bool = False,
    confidence: Confidence = "measured",
) -> Findings:
    """Yield a finding if a pipe is the limit; on the SM if that is busy as a whole.

    `saving` is that of the same instructions if it is not given. `cases` are the caller's own, without
    the reason. `roof` is the part of the pipe that its work can fill. `nears_peak`: a pipe that is nearly
    full is near the peak of its arithmetic. `confidence` is that of a pipe that is a limit by itself.
    """
    busy = facts.pipe(pipe)
    if busy is None:
        return
    reached = busy / roof
    if not PIPE_BUSY.is_reached(reached) and not facts.is_pipe_limit(busy):
        return
    is_near = nears_peak and PIPE_NEAR_ROOF.is_reached(reached)
    if saving is None:
        saving = _same_work(facts, reached, pipe)
    reason = "shared/pipe-full"
    evidence = facts.pipe_evidence(pipe, roof * PIPE_BUSY.value)
    if roof < 1.0:
        cases = replace(cases, why=("half-rate",))
        confidence = "inferred"
    if not facts.is_known_limit(reached):
        reason = "shared/pipes-missing"
        confidence = "guess"
    elif not _is_alone(facts, reached):
        reached = facts.utilisation["sm"]
        reason = "shared/issue-bound"
        cases = replace(cases, headline=(reason,), advice=("shared/fewer-instructions", *cases.advice))
        evidence = sm_evidence(facts, reached) + facts.pipe_evidence(pipe, SM_PIPE.value)
        confidence = "inferred"
    elif roof < 1.0:
        cases = replace(cases, headline=(*cases.headline, "half-rate"))
    rate = facts.flop_per_s_of("fp32") if pipe == "fma" else None
    more = ["shared/rate"] if rate else []
    if is_near:
        more.append("shared/near-ceiling")
    yield finding(
        facts,
        replace(cases, headline=(*cases.headline, *more), why=(reason, *cases.why)),
        amounts=amounts_of(busy=min(1.0, busy), possible=roof, sm=facts.utilisation.get("sm"))
        + amounts
        + amounts_of("FLOP/s", rate=rate or None)
        + of_ceiling(reached),
        labels=labels_of(pipe=(pipe,)),
        subject=pipe,
        confidence=confidence,
        saving=saving,
        is_fact=is_near or is_fact,
        evidence=evidence + facts.stall_evidence("math_pipe_throttle", threshold=THROTTLED.value),
        place=facts.code.place_of_opcode(*PIPE_OPCODES[pipe]) or facts.code.place_of_stall("math_pipe_throttle"),
    )


def of_ceiling(fraction: float) -> tuple[Amount, ...]:
    """Return the reached part of a pipe's ceiling as an amount."""
    return (Amount("of-ceiling", min(1.0, fraction), "fraction"),)


def sm_evidence(facts: KernelFacts, sm: float) -> tuple[Evidence, ...]:
    """Return the utilization of the SM as evidence."""
    return (PIPE_BUSY.evidence(100 * sm, "unit-busy", "sm", metric=facts.light_metric("sm")),)


def _is_alone(facts: KernelFacts, use: float) -> bool:
    """Return whether a pipe is a limit by itself; else it is only the busiest one of a busy SM."""
    return PIPE_BUSY.is_reached(use) or facts.waits_for_pipes


def _same_work(facts: KernelFacts, use: float, pipe: str) -> Saving:
    """Return the saving if the same instructions fill their pipe or the SM; fewer can save more."""
    if not _is_alone(facts, use):
        return same_instructions(facts, facts.utilisation["sm"], pipe)
    gone = {pipe: 0.0, ISSUE: 0.0}
    same = speedup_bound(facts, gone).no_more_than(1.0 - use)
    return speedup_bound(facts, gone | NARROWER).if_held(same.fraction, "same-instructions")


def same_instructions(facts: KernelFacts, used: float, *pipes: str) -> Saving:
    """Return the saving if the same instructions of these pipes keep the used part of the SM busy all the time."""
    return speedup_bound(facts, dict.fromkeys((*pipes, ISSUE), 0.0)).if_held(1.0 - used, "same-instructions")


def is_fp32_by_work(facts: KernelFacts) -> bool:
    """Return whether counted work, or else the name of a matrix multiplication, shows FP32 arithmetic."""
    work = facts.arithmetic_fraction
    return FMA_WORK.is_reached(work) if work else is_product_by_name(facts.kernel.demangled)


def busy_sm(facts: KernelFacts, headline: str, *advice: str) -> Findings:
    """Yield a finding if the SM is the busiest unit and no part of it was collected that is as busy."""
    sm = facts.sm_without_parts
    if (
        sm is None
        or multiplies_on_tensor_cores(facts.kernel.demangled)
        or cycles_per_instruction(facts) > SCALAR_CYCLES.value
    ):
        # Matrix instructions keep it busy, which `tensor-compute-bound` reports.
        return
    yield finding(
        facts,
        Cases(headline=(headline, "shared/no-pipe"), why=("shared/no-pipe",), action=advice[:1], advice=advice),
        amounts=amounts_of(sm=sm) + of_ceiling(sm),
        subject="sm",
        confidence="guess",
        saving=same_instructions(facts, sm, *SCALAR_PIPES),
        evidence=sm_evidence(facts, sm),
    )


def cycles_per_instruction(facts: KernelFacts) -> float:
    """Return the average cycles per issued instruction of an SM whose busy part is unknown; else 0."""
    sm, issued = facts.sm_without_parts, facts.need(ISSUE)
    return sm / issued if sm and issued else 0.0


def only_fp64_cycles(facts: KernelFacts) -> float:
    """Return the SM's cycles per instruction if only FP64 takes so long, whose pipe was not collected; else 0."""
    cycles = cycles_per_instruction(facts)
    is_longer = cycles > LONGEST_PRODUCTS.get(facts.arch.name, math.inf)
    if not is_longer or facts.pipe("fp64") is not None or multiplies_on_tensor_cores(facts.kernel.demangled):
        return 0.0
    return cycles


def is_integer_work(facts: KernelFacts) -> bool:
    """Return whether integers fill the FMA pipe, by opcodes."""
    # Moves and shifts by IMAD go to whichever pipe is free.
    integer = facts.executed(*PIPE_OPCODES["fmaheavy"]) - facts.executed("IMAD.MOV", "IMAD.SHL")
    return integer > facts.executed(*PIPE_OPCODES["fma"])
