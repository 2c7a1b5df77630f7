"""The rule that compares a kernel's launches: one configuration does the same work faster."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpuprof.diagnose.bounds import saving
from gpuprof.diagnose.configurations import FASTER_BY, OTHER_LOOPS, SAME_THREADS, SAME_WORK
from gpuprof.diagnose.facts.counters import INSTRUCTIONS
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, cases_of, finding
from gpuprof.diagnose.thresholds import context, percent
from gpuprof.model.clocks_apart import CLOCKS_DIFFER
from gpuprof.model.findings import Amount, Label
from gpuprof.model.session import KernelProfile

CLOCKS = percent("sm-clocks", CLOCKS_DIFFER)


def _launch_configurations(facts: KernelFacts) -> Findings:
    """Report the fastest configuration with both durations."""
    faster, kernel = facts.faster, facts.kernel
    if faster is None or kernel.duration_s is None:
        return
    there = faster.facts.kernel
    change = shape = "launch"
    if (kernel.grid, kernel.block) == (there.grid, there.block):
        shape = "shared-memory"
        if kernel.shared_memory_per_block == there.shared_memory_per_block:
            change = shape = "build"
    part = faster.duration_s / kernel.duration_s
    # What remains are the needs of the faster launch in this one's time.
    needs = {unit: need * part for unit, need in faster.facts.least_times.items()}
    yield finding(
        facts,
        cases_of(change, (shape, f"work-{faster.certainty}")),
        amounts=(*_amounts(kernel, ""), *_amounts(there, "there-")),
        labels=(
            Label("number", (str(there.id),)),
            Label("block", (_block(kernel),)),
            Label("there-block", (_block(there),)),
        ),
        confidence=faster.certainty,
        saving=saving(needs, {}).no_more_than(1.0 - part).only_if("fastest-configuration-profiled"),
        evidence=(
            FASTER_BY.evidence(100 * (1.0 - part)),
            *context("duration", kernel.duration_s, "s", metric="gpu__time_duration.sum"),
            *context("there-duration", there.duration_s, "s", metric="gpu__time_duration.sum"),
        ),
    )


def _amounts(kernel: KernelProfile, prefix: str) -> Iterator[Amount]:
    yield Amount(f"{prefix}duration", kernel.duration_s or 0.0, "s")
    yield Amount(f"{prefix}blocks", float(math.prod(kernel.grid or ())), "block")
    yield Amount(f"{prefix}registers", float(kernel.registers_per_thread or 0), "register")
    yield Amount(f"{prefix}shared-memory", kernel.shared_memory_per_block or 0.0, "B")


def _block(kernel: KernelProfile) -> str:
    """Return the sides of a block without trailing sides of 1: "256", "16×16"."""
    return "×".join(map(str, kernel.block or ())).removesuffix("×1").removesuffix("×1")


RULE = Rule(
    "launch-configurations",
    thresholds=(FASTER_BY, SAME_WORK, SAME_THREADS, OTHER_LOOPS, CLOCKS),
    check=_launch_configurations,
    metrics=(INSTRUCTIONS,),
    place=AT_KERNEL,
    of_launches=True,
)
