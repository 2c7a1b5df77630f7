"""The rule that compares a kernel's launches: one configuration does the same work faster."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.diagnose.bounds import Saving, saving
from gpuprof.diagnose.clocks import CLOCKS, difference
from gpuprof.diagnose.configurations import (
    ACTIVE_THREADS,
    FASTER_BY,
    OTHER_LOOPS,
    SAME_THREADS,
    SAME_WORK,
    STORED,
    WARP_INSTRUCTIONS,
    covers_the_same,
    flop_by_path,
    is_rebuilt,
)
from gpuprof.diagnose.facts.kernel import Faster, KernelFacts
from gpuprof.diagnose.rule import AT_KERNEL, Findings, Rule, cases_of, finding, labels_of
from gpuprof.diagnose.thresholds import context
from gpuprof.model.findings import Amount, Label
from gpuprof.model.session import Evidence, KernelProfile

_LOAD, _STORE = (f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{what}.ratio" for what in ("ld", "st"))

_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"

_LEAST_DIFFERENCE = 0.1
"""A counter that differs by less does not explain why the times differ by a tenth or more."""

_MOST_COUNTERS = 3


def _launch_configurations(facts: KernelFacts) -> Findings:
    faster, duration_s = facts.faster, facts.kernel.duration_s
    if faster is None or duration_s is None:
        return
    other = faster.facts
    change = "build" if is_rebuilt(facts, other) and facts.kernel.block == other.kernel.block else "launch"
    is_sure = faster.certainty == "measured" or any(flop_by_path(facts).values())
    gain = 1.0 - faster.duration_s / duration_s
    differing = _differing(facts, other)[:_MOST_COUNTERS]
    amounts = [*_launch_amounts(facts.kernel), *_launch_amounts(other.kernel, "there-")]
    for pair in differing:
        amounts += map(_amount_of, pair)
    why = _why(differing)
    clocks_known = facts.kernel.sm_clock_hz and other.kernel.sm_clock_hz
    with_clocks = bool(clocks_known) and faster.clocks_differ is not False
    if with_clocks:
        why += ["clocks-differ" if faster.clocks_differ else "clocks-may-differ", "smaller-saving"]
    headline = (
        change,
        "clocked" if faster.clocks_differ else "duration",
        *_shape(facts, other),
        "there-clocked" if faster.clocks_differ else "there",
        *(f"there-{name}" for name in _shape(other, facts)),
        "number",
        "same-work" if is_sure else "apparently-same-work",
    )
    yield finding(
        facts,
        cases_of(change, headline, tuple(why)),
        amounts=amounts,
        labels=(
            *labels_of(block=(_block(facts.kernel),), number=(str(other.kernel.id),)),
            Label("there-block", (_block(other.kernel),)),
        ),
        confidence=faster.certainty,
        saving=_saving(faster, duration_s, gain),
        evidence=_evidence(facts, faster, gain, differing, with_clocks=with_clocks),
    )


def _saving(faster: Faster, duration_s: float, gain: float) -> Saving:
    """Return the measured gain, with the needs of the faster launch in this one's time."""
    part = faster.duration_s / duration_s
    needs = {unit: need * part for unit, need in faster.facts.least_times.items()}
    return saving(needs, {}).no_more_than(gain).only_if("fastest-configuration-profiled")


def _shape(facts: KernelFacts, other: KernelFacts) -> tuple[str, ...]:
    """Return the cases for a launch's differences from another: "with 16×16 blocks"."""
    kernel, reference = facts.kernel, other.kernel
    rebuilt = is_rebuilt(facts, other)
    if (kernel.grid, kernel.block) == (reference.grid, reference.block):
        if rebuilt:
            return ("registers",)
        return ("shared-memory",) if kernel.shared_memory_per_block is not None else ()
    if covers_the_same(kernel, reference):
        blocks = "shape"
    elif math.prod(kernel.grid or ()) == 1:
        blocks = "one-block"
    else:
        blocks = "blocks"
    return (blocks, "and-registers") if rebuilt else (blocks,)


def _block(kernel: KernelProfile) -> str:
    """Return the sides of a block without trailing sides of 1: "256", "16×16"."""
    sides = list(kernel.block or ())
    while len(sides) > 1 and sides[-1] == 1:
        sides.pop()
    return "×".join(map(str, sides))


def _launch_amounts(kernel: KernelProfile, prefix: str = "") -> Iterator[Amount]:
    duration_s = kernel.duration_s or 0.0
    yield Amount(f"{prefix}duration", duration_s, "s")
    if kernel.sm_clock_hz:
        yield Amount(f"{prefix}clock", kernel.sm_clock_hz, "Hz")
        yield Amount(f"{prefix}cycles", duration_s * kernel.sm_clock_hz, "cycle")
    yield Amount(f"{prefix}blocks", math.prod(kernel.grid or ()), "block")
    if kernel.registers_per_thread is not None:
        yield Amount(f"{prefix}registers", kernel.registers_per_thread, "register")
    if kernel.shared_memory_per_block is not None:
        yield Amount(f"{prefix}shared-memory", kernel.shared_memory_per_block, "B")


_Differing = tuple[Evidence, Evidence]
"""A counter that differs between two launches: its value here and in the faster launch."""


def _why(differing: Sequence[_Differing]) -> list[str]:
    if not differing:
        return ["unexplained"]
    why = ["counters"]
    for here, _ in differing:
        why += [here.role, "comma"]
    return [*why[:-1], "end"]


def _amount_of(item: Evidence) -> Amount:
    if item.unit == "%":
        item = replace(item, value=item.value / 100, unit="fraction")
    return Amount(item.role, item.value, item.unit)


def _differing(facts: KernelFacts, other: KernelFacts) -> list[_Differing]:
    """Return the counters that differ, largest difference first."""
    there = _counters(other)
    pairs = []
    for role, here in _counters(facts).items():
        if role in there and difference(here.value, there[role].value) > 100 * _LEAST_DIFFERENCE:
            pairs.append((here, replace(there[role], role=f"there-{role}")))
    return sorted(pairs, key=lambda pair: -difference(pair[0].value, pair[1].value))


def _counters(facts: KernelFacts) -> dict[str, Evidence]:
    """Return the counters that can explain why a configuration is slower, by role."""
    occupancy = facts.kernel.occupancy.achieved
    items = (
        facts.metric(_LOAD, "loads", "sector/request")
        + facts.metric(_STORE, "stores", "sector/request")
        + facts.metric(_CONFLICTS, "conflicts", "conflict")
        + facts.metric(WARP_INSTRUCTIONS, "instructions", "instruction")
        + context("occupancy", 100 * occupancy if occupancy is not None else None, "%")
        + context("waves", facts.kernel.waves, "wave")
    )
    return {item.role: item for item in items}


def _evidence(
    facts: KernelFacts, faster: Faster, gain: float, differing: Sequence[_Differing], *, with_clocks: bool
) -> Iterator[Evidence]:
    yield FASTER_BY.evidence(100 * gain)
    for kernel, prefix in ((facts.kernel, ""), (faster.facts.kernel, "there-")):
        yield from context(f"{prefix}duration", kernel.duration_s, "s", metric="gpu__time_duration.sum")
        if with_clocks:
            yield from context(f"{prefix}clock", kernel.sm_clock_hz, "Hz")
    for pair in differing:
        yield from pair


RULE = Rule(
    "launch-configurations",
    thresholds=(FASTER_BY, SAME_WORK, SAME_THREADS, OTHER_LOOPS, CLOCKS),
    check=_launch_configurations,
    metrics=(WARP_INSTRUCTIONS, ACTIVE_THREADS, STORED[0], _LOAD, _STORE, _CONFLICTS),
    place=AT_KERNEL,
    of_launches=True,
)
