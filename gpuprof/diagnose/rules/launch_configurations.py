"""The rule that compares a kernel's launches: one configuration does the same work faster."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from gpuprof.diagnose.bounds import saving
from gpuprof.diagnose.clocks import CLOCKS, difference
from gpuprof.diagnose.configurations import FASTER_BY, OTHER_LOOPS, SAME_THREADS, SAME_WORK, WARP_INSTRUCTIONS
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, cases_of, finding
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Amount, Label
from gpuprof.model.session import Evidence, KernelProfile

_LOAD, _STORE = (f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{what}.ratio" for what in ("ld", "st"))

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
    why = [differing[0].role if differing else "unexplained"]
    if faster.clocks_differ:
        why.append("clocks")
    # What remains are the needs of the faster launch in this one's time.
    needs = {unit: need * part for unit, need in faster.facts.least_times.items()}
    yield finding(
        facts,
        cases_of(change, (shape, f"work-{faster.certainty}"), tuple(why)),
        amounts=(*_amounts(kernel, ""), *_amounts(there, "there-"), *map(_amount_of, differing)),
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
            *differing,
        ),
    )


def _amounts(kernel: KernelProfile, prefix: str) -> Iterator[Amount]:
    yield Amount(f"{prefix}duration", kernel.duration_s or 0.0, "s")
    yield Amount(f"{prefix}clock", kernel.sm_clock_hz or 0.0, "Hz")
    yield Amount(f"{prefix}blocks", math.prod(kernel.grid or ()), "block")
    yield Amount(f"{prefix}registers", kernel.registers_per_thread or 0, "register")
    yield Amount(f"{prefix}shared-memory", kernel.shared_memory_per_block or 0.0, "B")


def _block(kernel: KernelProfile) -> str:
    """Return the sides of a block without trailing sides of 1: "256", "16×16"."""
    sides = list(kernel.block or ())
    while len(sides) > 1 and sides[-1] == 1:
        sides.pop()
    return "×".join(map(str, sides))


def _most_different(facts: KernelFacts, other: KernelFacts) -> tuple[Evidence, ...]:
    """Return the counter that differs most from the faster launch, with both values; nothing if none does."""
    there = {item.role: item for item in _counters(other)}
    apart = {item: difference(item.value, there[item.role].value) for item in _counters(facts) if item.role in there}
    most = max(apart, key=lambda item: apart[item], default=None)
    if most is None or apart[most] <= _LEAST_DIFFERENCE:
        return ()
    return most, replace(there[most.role], role=f"there-{most.role}")


def _counters(facts: KernelFacts) -> tuple[Evidence, ...]:
    """Return the counters that can explain why a configuration is slower."""
    occupancy = facts.kernel.occupancy.achieved
    return (
        *facts.metric(_LOAD, "loads", "sector/request"),
        *facts.metric(_STORE, "stores", "sector/request"),
        *facts.metric(_CONFLICTS, "conflicts", "conflict"),
        *facts.metric(WARP_INSTRUCTIONS, "instructions", "instruction"),
        *context("occupancy", 100 * occupancy if occupancy is not None else None, "%"),
        *context("waves", facts.kernel.waves, "wave"),
    )


def _amount_of(item: Evidence) -> Amount:
    if item.unit == "%":
        return Amount(item.role, item.value / 100, "fraction")
    return Amount(item.role, item.value, item.unit)


RULE = Rule(
    "launch-configurations",
    thresholds=(FASTER_BY, SAME_WORK, SAME_THREADS, OTHER_LOOPS, CLOCKS),
    check=_launch_configurations,
    metrics=(WARP_INSTRUCTIONS, _LOAD, _STORE, _CONFLICTS),
    place=AT_KERNEL,
    of_launches=True,
)
