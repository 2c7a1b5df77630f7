"""Reasons from the busy time of units, and from the time of a warp per instruction."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from gpuprof.comparison.causes.time_model import BOUND, Counts, Reason, TimeFactors, busiest
from gpuprof.comparison.contract import ValueChange
from gpuprof.comparison.values import Values, known, values_of
from gpuprof.model.session import KernelProfile
from gpuprof.model.stalls import NOT_STALLED

_SAME = 0.05
"""A unit whose busy time differs by less does the same: busy fractions of short kernels scatter that much."""
_ISSUES_MOVED = 0.01
"""Instructions that follow from the issue rate move if they differ by more."""
_COMPARABLE = 0.5
"""Work of a unit grows with the time if it grows by this share of the logarithm of the time's growth, or more."""
_COUNTS = {
    "dram": ("dram-bytes",),
    "l2": ("l2-bytes", "l2-sectors"),
    "l1": ("l1-bytes", "global-load-sectors"),
}
"""Counts of the work of a memory level; instructions count that of all other units."""
_CYCLES = "cycles-per-instruction"
_STALL_SHARE = 0.4
"""Share of a warp's change of cycles per instruction from which a stall reason is named alone."""


def unit_reasons(base: KernelProfile, new: KernelProfile, factors: TimeFactors, counts: Counts) -> Iterator[Reason]:
    """Yield the work of the busiest unit, unless counted, and the time of a warp per instruction."""
    if factors.bound:
        yield from _busy_time(factors)
        yield from _passes(factors)
    else:
        if "instructions" not in counts:
            yield from _issued(factors)
        yield from _work_below_bound(base, new, factors, counts)
    yield from _waiting(base, new, factors)


def _busy_time(factors: TimeFactors) -> Iterator[Reason]:
    """Yield how long the unit that binds the slower side was busy, before and after."""
    unit = factors.unit
    times = factors.busy_times(unit)
    fractions = factors.busy_fractions(unit)
    busy = factors.busy
    if unit is None or times is None or fractions is None or busy is None or abs(busy) < _ISSUES_MOVED:
        return
    values = _busy_values(unit, times, fractions)
    after = factors.sides[1]
    binds = busiest(after)
    if factors.total < 0 and binds is not None and after[binds] > max(BOUND, fractions.new + _SAME):
        values += (ValueChange(name=binds, unit="fraction", new=after[binds]),)
    yield Reason("unit-time", values, busy if times.log_ratio * busy > 0 else 0.0, first=True)


def _work_below_bound(
    base: KernelProfile, new: KernelProfile, factors: TimeFactors, counts: Counts
) -> Iterator[Reason]:
    """Yield the work of the slower side's busiest unit, unless it binds or its work was counted.

    Its busy cycles are that work, whatever its clock; those of DRAM are bytes. The work of a unit
    other than DRAM is the instructions, if they are known, and the cycles of a warp for each.
    """
    unit = factors.unit
    times = factors.busy_times(unit)
    fractions = factors.busy_fractions(unit)
    if unit is None or times is None or fractions is None:
        return
    if any(known(counts.get(name)) is not None for name in _COUNTS.get(unit, ("instructions",))):
        return
    work = times.log_ratio
    values = _busy_values(unit, times, fractions)
    if unit != "dram":
        if factors.instructions is not None:
            return
        work -= factors.clock
    else:
        clocks = values_of(base.dram_clock_hz, new.dram_clock_hz)
        if clocks is not None:
            work += clocks.log_ratio
            values += (ValueChange(name="dram-bytes", unit="B", ratio=math.exp(work)),)
    weight = factors.weight(unit)
    grows_along = work * factors.total > 0 and abs(work) >= max(_SAME, _COMPARABLE * abs(factors.total))
    if grows_along and weight >= _COMPARABLE:
        yield Reason("unit-time", values, weight * work, "inferred", first=True)


def _busy_values(unit: str, times: Values, fractions: Values) -> tuple[ValueChange, ...]:
    return times.named(unit, "s"), fractions.named(unit, "fraction")


def _passes(factors: TimeFactors) -> Iterator[Reason]:
    """Yield that L1 takes more or fewer passes for the same loads and stores."""
    requests = factors.busy_times("lsu")
    passes = factors.busy_times("l1")
    if factors.unit != "l1" or requests is None or passes is None:
        return
    if abs(requests.log_ratio) <= _SAME <= abs(passes.log_ratio):
        values = passes.named("l1", "s"), requests.named("lsu", "s")
        yield Reason("coalescing", values, passes.log_ratio, "inferred", kind="passes")


def _issued(factors: TimeFactors) -> Iterator[Reason]:
    """Yield the change of the instructions that the issue rate implies."""
    if factors.instructions is None or abs(factors.instructions) < _ISSUES_MOVED:
        return
    issued = ValueChange(name="issued-instructions", ratio=math.exp(factors.instructions))
    yield Reason("instructions", (issued,), factors.instructions, "inferred")


def _waiting(base: KernelProfile, new: KernelProfile, factors: TimeFactors) -> Iterator[Reason]:
    """Yield the cycles of a warp per instruction, by the stall reason that moved most."""
    latency = factors.latency
    if latency is None or abs(latency) < _SAME:
        return
    effect = latency
    if factors.bound:
        if factors.fill is None or latency * factors.fill <= 0:
            return
        effect = math.copysign(min(abs(latency), abs(factors.fill)), latency)
    stall = _stall(base, new)
    if stall is not None:
        yield Reason("stalls", stall, effect, "inferred")
        return
    cycles = ValueChange(name=_CYCLES, unit="cycle", ratio=math.exp(latency))
    taken = values_of(_per_instruction(base), _per_instruction(new))
    if taken is not None:
        cycles = replace(cycles, base=taken.base, new=taken.new)
    yield Reason("latency", (cycles,), effect, "inferred")


def _stall(base: KernelProfile, new: KernelProfile) -> tuple[ValueChange, ...] | None:
    """Return the stall reason that makes up most of the change of a warp's cycles per instruction, and their sum."""
    before = _stalls(base)
    after = _stalls(new)
    if not before or not after:
        return None
    cycles = Values(sum(before.values()), sum(after.values()))
    whole = cycles.new - cycles.base
    moves: dict[str, float] = {}
    for reason in (*before, *after):
        if reason not in NOT_STALLED:
            moves[reason] = after.get(reason, 0.0) - before.get(reason, 0.0)
    most = max(moves, key=lambda reason: moves[reason] * whole, default=None)
    if most is None or moves[most] * whole <= 0 or abs(moves[most]) < _STALL_SHARE * abs(whole):
        return None
    stall = Values(before.get(most, 0.0), after.get(most, 0.0))
    return stall.named(most, "cycle"), cycles.named(_CYCLES, "cycle")


def _stalls(kernel: KernelProfile) -> dict[str, float]:
    stalls = {}
    for stall in kernel.stalls:
        if stall.cycles_per_issue is not None and math.isfinite(stall.cycles_per_issue):
            stalls[stall.reason] = stall.cycles_per_issue
    return stalls


def _per_instruction(kernel: KernelProfile) -> float | None:
    """Return warps of a scheduler ÷ instructions that it issues in a cycle (Little's law)."""
    scheduler = kernel.scheduler
    if scheduler is None or scheduler.active_warps is None or not scheduler.issue_active:
        return None
    return scheduler.active_warps / scheduler.issue_active
