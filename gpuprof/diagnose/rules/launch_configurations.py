"""The rule that compares a kernel's launches: one configuration does the same work faster."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from gpuprof.diagnose.bounds import saving
from gpuprof.diagnose.clocks import CLOCKS, difference
from gpuprof.diagnose.configurations import FASTER_BY, SAME_THREADS, SAME_WORK
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, amounts_of, cases_of, finding
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Amount, Label
from gpuprof.model.session import KernelProfile

_LOAD = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"

_INSTRUCTIONS = "smsp__inst_executed.sum"

_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"

_LEAST_DIFFERENCE = 10.0
"""A counter that differs by less in percent does not explain why the times differ by a tenth or more."""


def _launch_configurations(facts: KernelFacts) -> Findings:
    """Report the fastest configuration with both durations, and the counter that differs most."""
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
    differing = _most_different(facts, faster.facts)
    # What remains are the needs of the faster launch in this one's time.
    needs = {unit: need * part for unit, need in faster.facts.least_times.items()}
    yield finding(
        facts,
        cases_of(change, (shape, f"work-{faster.certainty}"), (differing[0].name if differing else "unexplained",)),
        amounts=(*_amounts(kernel, ""), *_amounts(there, "there-"), *differing),
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
    yield Amount(f"{prefix}blocks", math.prod(kernel.grid or ()), "block")
    yield Amount(f"{prefix}registers", kernel.registers_per_thread or 0, "register")
    yield Amount(f"{prefix}shared-memory", kernel.shared_memory_per_block or 0.0, "B")


def _block(kernel: KernelProfile) -> str:
    """Return the sides of a block without trailing sides of 1: "256", "16×16"."""
    return "×".join(map(str, kernel.block or ())).removesuffix("×1").removesuffix("×1")


def _most_different(facts: KernelFacts, other: KernelFacts) -> tuple[Amount, ...]:
    """Return the counter that differs most from the faster launch, with both values; nothing if none does."""
    there = {amount.name: amount for amount in _counters(other)}
    both = [amount for amount in _counters(facts) if amount.name in there]
    most = max(both, key=lambda amount: difference(amount.value, there[amount.name].value), default=None)
    if most is None or difference(most.value, there[most.name].value) <= _LEAST_DIFFERENCE:
        return ()
    return most, replace(there[most.name], name=f"there-{most.name}")


def _counters(facts: KernelFacts) -> tuple[Amount, ...]:
    """Return the counters that can explain why a configuration is slower."""
    return (
        *amounts_of("sector/request", loads=facts.number(_LOAD)),
        *amounts_of("conflict", conflicts=facts.number(_CONFLICTS)),
        *amounts_of("instruction", instructions=facts.number(_INSTRUCTIONS)),
        *amounts_of(occupancy=facts.kernel.occupancy.achieved),
    )


RULE = Rule(
    "launch-configurations",
    thresholds=(FASTER_BY, SAME_WORK, SAME_THREADS, CLOCKS),
    check=_launch_configurations,
    metrics=(_INSTRUCTIONS, _LOAD, _CONFLICTS),
    place=AT_KERNEL,
    of_launches=True,
)
