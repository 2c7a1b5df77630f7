"""Accesses of shared memory limit the kernel."""

from __future__ import annotations

from gpuprof.diagnose.facts.counters import SHARED_BUSY
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.facts.waits import SHARED_STALLS
from gpuprof.diagnose.level_limits import bound_of_reuse, change_of_shared
from gpuprof.diagnose.rule import AT_SHARED, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import BUSY


def _shared(facts: KernelFacts) -> Findings:
    shared = facts.number(SHARED_BUSY) or 0.0
    fraction = min(1.0, shared / 100)
    if shared < BUSY.value or max(facts.need("dram"), facts.need("l2")) > fraction:
        return
    yield finding(
        facts,
        cases_of(change_of_shared(facts)),
        amounts=amounts_of(busy=fraction),
        subject="shared",
        confidence="inferred",
        saving=bound_of_reuse(facts, fraction, "l2", "dram"),
        evidence=facts.metric(SHARED_BUSY, "data-pipe", "%", BUSY.value) + facts.stall_evidence(*SHARED_STALLS),
        place=facts.code.place_of("memory_l1_wavefronts_shared"),
    )


RULE = Rule(
    "shared-bandwidth",
    kind="limit",
    thresholds=(BUSY,),
    check=_shared,
    metrics=(SHARED_BUSY,),
    place=AT_SHARED,
)
