"""Accesses of shared memory limit the kernel."""

from __future__ import annotations

from gpuprof.diagnose.facts.counters import SHARED_BUSY, SHARED_PASSES
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.level_limits import bound_of_reuse, change_of_shared
from gpuprof.diagnose.rule import AT_SHARED, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import BUSY
from gpuprof.model.session import Evidence


def _shared(facts: KernelFacts) -> Findings:
    shared = facts.number(SHARED_BUSY)
    if shared is None:
        yield from _shared_by_counts(facts)
        return
    if shared < BUSY.value:
        return
    fraction = min(1.0, shared / 100)
    if any(facts.need(level) > fraction for level in ("dram", "l2")):
        return
    yield finding(
        facts,
        cases_of(change_of_shared(facts)),
        amounts=amounts_of(busy=fraction),
        subject="shared",
        confidence="inferred",
        saving=bound_of_reuse(facts, fraction, "l2", "dram"),
        evidence=(
            *facts.metric(SHARED_BUSY, "data-pipe", "%", BUSY.value),
            *facts.stall_evidence(*SHARED_STALLS),
        ),
        place=facts.place_of("memory_l1_wavefronts_shared"),
    )


_INSTRUCTIONS = "smsp__inst_executed.sum"

_SHARED_ACCESSES = tuple(f"smsp__sass_inst_executed_op_shared_{kind}.sum" for kind in ("ld", "st"))


def _shared_by_counts(facts: KernelFacts) -> Findings:
    """Guess by counts alone that shared memory needs more cycles than the schedulers."""
    instructions = facts.number(_INSTRUCTIONS)
    passes = facts.number(SHARED_PASSES) or facts.total(_SHARED_ACCESSES)
    if facts.busiest_need is not None or facts.stalls or not instructions or not passes:
        return
    if facts.schedulers * passes <= instructions:
        return
    yield finding(
        facts,
        cases_of("larger-tile", ("by-counts",), ("by-counts",)),
        amounts=amounts_of(of_instructions=passes / instructions),
        subject="shared",
        confidence="guess",
        evidence=(
            *facts.metric(_INSTRUCTIONS, "instructions", "inst"),
            Evidence("", passes, "inst", threshold=instructions / facts.schedulers, role="accesses"),
        ),
    )


RULE = Rule(
    "shared-bandwidth",
    kind="limit",
    thresholds=(BUSY,),
    check=_shared,
    metrics=(SHARED_BUSY,),
    place=AT_SHARED,
)
