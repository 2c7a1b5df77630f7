"""Findings and bounds of the rules on full pipes."""

from __future__ import annotations

from msgspec.structs import replace

from gpuprof.diagnose.bounds import Saving, speedup_bound
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.needs import ISSUE
from gpuprof.diagnose.facts.work import SCALAR_PIPES
from gpuprof.diagnose.rule import Findings, amounts_of, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import FMA_WORK, PIPE_BUSY, SM_PIPE, THROTTLED, Threshold
from gpuprof.model.field_types import Confidence
from gpuprof.model.findings import Amount
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.product_names import multiplies_on_tensor_cores
from gpuprof.model.session import Evidence, Finding

SCALAR_CYCLES = Threshold("cycles-per-instruction", 8.0, "cycle/inst")

PIPE_OPCODES = {
    "fma": ("FFMA", "FMUL", "FADD"),
    "fmaheavy": ("IMAD", "IMUL"),
    "alu": ("LOP3", "IADD3", "SHF", "ISETP", "PRMT", "LEA", "SEL", "IMNMX", "VIADD", "PLOP3"),
    "xu": ("MUFU", "I2F", "F2I", "F2F"),
    "tensor": ("HMMA", "IMMA", "DMMA", "BMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "UTC"),
}
"""The most frequent instructions of a pipe, to find its place in the code."""

NARROWER = dict.fromkeys(("dram", "l2", "l1"), 0.5)
"""The least part of each memory level's need that stays with values of half the size."""


def pipe_limit(
    facts: KernelFacts,
    pipe: str,
    saving: Saving,
    *,
    headline: str = "main",
    why: tuple[str, ...] = (),
    change: str = "main",
    amounts: tuple[Amount, ...] = (),
    roof: float = 1.0,
    is_near: bool = False,
    confidence: Confidence = "measured",
) -> Finding:
    """Return a finding on a pipe that is the limit, or on the SM if that is busy as a whole.

    `change` is the case of the action. `roof` is the part of the pipe that its work can fill.
    """
    busy = facts.pipe(pipe) or 0.0
    if is_issue_bound(facts, busy / roof):
        return _issue_bound(facts, pipe, change, saving)
    parts = [headline]
    if roof < 1.0:
        parts.append("half-rate")
    rate = facts.flop_per_s_of("fp32") if pipe == "fma" else None
    if rate:
        parts.append("shared/rate")
    if is_near:
        parts.append("shared/near-ceiling")
    return finding(
        facts,
        cases_of(change, tuple(parts), ("shared/pipe-full", *why)),
        amounts=(
            *amounts_of(busy=min(1.0, busy), possible=roof),
            *amounts,
            *amounts_of("FLOP/s", rate=rate or None),
            of_ceiling(busy / roof),
        ),
        labels=labels_of(pipe=(pipe,)),
        subject=pipe,
        confidence=confidence,
        saving=saving,
        is_fact=is_near,
        evidence=(
            *facts.pipe_evidence(pipe, roof * PIPE_BUSY.value),
            *facts.stall_evidence("math_pipe_throttle", threshold=THROTTLED.value),
        ),
        place=facts.place_of_opcode(*PIPE_OPCODES[pipe]) or facts.place_of_stall("math_pipe_throttle"),
    )


def of_ceiling(fraction: float) -> Amount:
    """Return the reached part of a pipe's ceiling as an amount."""
    return Amount("of-ceiling", min(1.0, fraction), "fraction")


def is_issue_bound(facts: KernelFacts, fraction: float) -> bool:
    """Return whether the SM is busy as a whole, and this pipe is only its busiest one."""
    return not PIPE_BUSY.is_reached(fraction) and not facts.waits_for_pipes and facts.is_in_busy_sm(fraction)


def _issue_bound(facts: KernelFacts, pipe: str, change: str, saving: Saving) -> Finding:
    sm, issue_bound = facts.utilisation["sm"], ("shared/issue-bound",)
    cases = cases_of(change, issue_bound, issue_bound)
    return finding(
        facts,
        replace(cases, advice=("shared/fewer-instructions", change)),
        amounts=(*amounts_of(sm=sm, busy=facts.pipe(pipe)), of_ceiling(sm)),
        labels=labels_of(pipe=(pipe,)),
        subject=pipe,
        confidence="inferred",
        saving=saving,
        evidence=(sm_evidence(facts, sm), *facts.pipe_evidence(pipe, SM_PIPE.value)),
        place=facts.place_of_opcode(*PIPE_OPCODES[pipe]),
    )


def sm_evidence(facts: KernelFacts, sm: float) -> Evidence:
    """Return the utilization of the SM as evidence."""
    return PIPE_BUSY.evidence(100 * sm, "unit-busy", "sm", metric=facts.light_metric("sm"))


def bound_of_full_pipe(facts: KernelFacts, use: float, pipe: str) -> Saving:
    """Return the saving if the same instructions fill their pipe or the SM; fewer can save more."""
    if is_issue_bound(facts, use):
        return bound_of_full_sm(facts, pipe)
    gone = {pipe: 0.0, ISSUE: 0.0}
    same = min(1.0 - min(1.0, use), speedup_bound(facts, gone).fraction)
    return speedup_bound(facts, {**gone, **NARROWER}).if_held(same, "same-instructions")


def bound_of_full_sm(facts: KernelFacts, *pipes: str) -> Saving:
    """Return the saving if the same instructions fill the SM."""
    return speedup_bound(facts, dict.fromkeys((*pipes, ISSUE), 0.0)).if_held(
        1.0 - facts.utilisation["sm"], "same-instructions"
    )


def busy_sm(facts: KernelFacts, headline: str, change: str) -> Findings:
    """Yield a finding if the SM is the busiest unit and the report has no pipes.

    The load/store unit is part of the SM, too. If memory is as busy as the SM, that unit is the
    reason.
    """
    sm = sm_without_pipes(facts)
    if (
        sm is None
        or multiplies_on_tensor_cores(facts.kernel.demangled)
        or cycles_per_instruction(facts, sm) > SCALAR_CYCLES.value
    ):
        # Matrix instructions keep it busy, which `tensor-compute-bound` reports.
        return
    evidence = [sm_evidence(facts, sm)]
    work = facts.most_work
    if work is not None:
        evidence.append(FMA_WORK.evidence(100 * work, "floating-point-work"))
    yield finding(
        facts,
        cases_of(change, (headline, "shared/no-pipe"), ("shared/no-pipe",)),
        amounts=(*amounts_of(sm=sm), of_ceiling(sm)),
        subject="sm",
        confidence="guess",
        saving=bound_of_full_sm(facts, *SCALAR_PIPES),
        evidence=evidence,
    )


def sm_without_pipes(facts: KernelFacts) -> float | None:
    """Return the SM's utilization if it is busier than memory and no pipe was collected."""
    sm, memory = facts.utilisation.get("sm"), facts.memory_utilisation
    if facts.kernel.pipes or not PIPE_BUSY.is_reached(sm):
        return None
    if sm is not None and memory is not None and sm <= memory + TWO_PASSES:
        return None
    return sm


def cycles_per_instruction(facts: KernelFacts, sm: float) -> float:
    """Return the average cycles of the SM per issued instruction; 0 if unknown."""
    issued = facts.need(ISSUE)
    return sm / issued if issued else 0.0


def is_integer_work(facts: KernelFacts) -> bool:
    """Return whether integers fill the FMA pipe: by opcodes, or if only the half that multiplies
    integers is busy.

    Floating-point work uses both halves alike.
    """
    if facts.opcodes():
        # Moves and shifts by IMAD go to whichever pipe is free.
        integer = facts.executed(*PIPE_OPCODES["fmaheavy"]) - facts.executed("IMAD.MOV", "IMAD.SHL")
        return integer > facts.executed(*PIPE_OPCODES["fma"])
    both, heavy, lite = map(facts.pipe, ("fma", "fmaheavy", "fmalite"))
    if heavy is None or not PIPE_BUSY.is_reached(heavy):
        return False
    if lite is None and both is not None:
        # The utilization of the whole pipe is the mean of its halves.
        lite = 2.0 * both - heavy
    return lite is not None and lite < heavy / 2
