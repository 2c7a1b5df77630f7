"""Reasons that follow from the time of units and of warps: how long a unit was busy, how long a warp takes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from gpuprof.comparison.causes.time_model import BOUND, Counts, Parts, Reason, busiest
from gpuprof.comparison.contract import ValueChange
from gpuprof.comparison.values import Values, known, values_of
from gpuprof.model.session import KernelProfile
from gpuprof.model.stalls import NOT_STALLED

_SAME = 0.05
"""A unit whose busy time differs by less does the same: fractions of short kernels scatter by so much."""
_ISSUES_MOVED = 0.01
"""Instructions that follow from the issue rate move if they differ by more."""
_COMPARABLE = 0.5
"""Work of a unit that grows by so much of the logarithm of the time's growth, or more, grows with the time."""
_COUNTS = {"dram": ("dram-bytes",), "l2": ("l2-bytes", "l2-sectors"), "l1": ("l1-bytes", "global-load-sectors")}
"""What counts the work of a memory level; instructions count that of all others."""
_CYCLES = "cycles-per-instruction"
_STALL_SHARE = 0.4
"""A stall reason is named alone if it makes up so much of what a warp takes more or less per instruction."""


def unit_reasons(base: KernelProfile, new: KernelProfile, parts: Parts, counts: Counts) -> Iterator[Reason]:
    """Yield the work of the busiest unit, unless it was counted, and the time of a warp per instruction."""
    if parts.bound:
        yield from _busy_time(parts)
        yield from _passes(parts)
    else:
        if "instructions" not in counts:
            yield from _issued(parts)
        yield from _work_below_bound(base, new, parts, counts)
    yield from _waiting(base, new, parts)


def _busy_time(parts: Parts) -> Iterator[Reason]:
    """Yield how long the unit that binds the slower side was busy, before and after."""
    times, fractions, busy = parts.busy_times(parts.unit), parts.busy_fractions(parts.unit), parts.busy
    if times is None or fractions is None or busy is None or abs(busy) < _ISSUES_MOVED:
        return
    values = _busy_values(parts.unit, times, fractions)
    after = parts.sides[1]
    binds = busiest(after)
    if parts.total < 0 and binds is not None and after[binds] > max(BOUND, fractions.new + _SAME):
        values += (ValueChange(name=binds, unit="fraction", new=after[binds]),)
    yield Reason("unit-time", values, busy if times.log_ratio * busy > 0 else 0.0, first=True)


def _work_below_bound(base: KernelProfile, new: KernelProfile, parts: Parts, counts: Counts) -> Iterator[Reason]:
    """Yield what the busiest unit of the slower side had to do, if it does not bind and its work was not counted.

    Cycles in which it is busy are that work, whatever its clock; those of DRAM are bytes. Of another unit the
    instructions are that work, if they are known, and what a warp takes for each.
    """
    unit = parts.unit
    times, fractions = parts.busy_times(unit), parts.busy_fractions(unit)
    if unit is None or times is None or fractions is None:
        return
    told = any(known(counts.get(name)) is not None for name in _COUNTS.get(unit, ("instructions",)))
    if told or (unit != "dram" and parts.instructions is not None):
        return
    clocks = values_of(base.dram_clock_hz, new.dram_clock_hz) if unit == "dram" else None
    work, weight = times.log_ratio, parts.weight(unit)
    if clocks is not None:
        work += clocks.log_ratio
    elif unit != "dram":
        work -= parts.clock
    grows_along = work * parts.total > 0 and abs(work) >= max(_SAME, _COMPARABLE * abs(parts.total))
    if not grows_along or weight < _COMPARABLE:
        return
    values = _busy_values(unit, times, fractions)
    if clocks is not None:
        values += (ValueChange(name="dram-bytes", unit="B", ratio=math.exp(work)),)
    yield Reason("unit-time", values, weight * work, "inferred", first=True)


def _busy_values(unit: str | None, times: Values, fractions: Values) -> tuple[ValueChange, ...]:
    return times.named(unit or "", "s"), fractions.named(unit or "", "fraction")


def _passes(parts: Parts) -> Iterator[Reason]:
    """Yield that L1 takes more or fewer passes for the same loads and stores, as the pipe before it shows."""
    requests, passes = parts.busy_times("lsu"), parts.busy_times("l1")
    if parts.unit != "l1" or requests is None or passes is None:
        return
    if abs(requests.log_ratio) <= _SAME <= abs(passes.log_ratio):
        values = passes.named("l1", "s"), requests.named("lsu", "s")
        yield Reason("coalescing", values, passes.log_ratio, "inferred", kind="passes")


def _issued(parts: Parts) -> Iterator[Reason]:
    """Yield the change of the instructions that the issue rate implies."""
    if parts.instructions is None or abs(parts.instructions) < _ISSUES_MOVED:
        return
    issued = ValueChange(name="issued-instructions", ratio=math.exp(parts.instructions))
    yield Reason("instructions", (issued,), parts.instructions, "inferred")


def _waiting(base: KernelProfile, new: KernelProfile, parts: Parts) -> Iterator[Reason]:
    """Yield what a warp takes per instruction, by the stall reason that moved most, if one did."""
    latency = parts.latency
    if latency is None or abs(latency) < _SAME:
        return
    effect = latency
    if parts.bound:
        if parts.fill is None or latency * parts.fill <= 0:
            return
        effect = math.copysign(min(abs(latency), abs(parts.fill)), latency)
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
    """Return the stall reason that most of the change of a warp's cycles per instruction is, and all of these."""
    before, after = _stalls(base), _stalls(new)
    if not before or not after:
        return None
    cycles = Values(sum(before.values()), sum(after.values()))
    whole = cycles.new - cycles.base
    moves = {
        reason: Values(before.get(reason, 0.0), after.get(reason, 0.0))
        for reason in dict.fromkeys((*before, *after))
        if reason not in NOT_STALLED
    }
    most = max(moves, key=lambda reason: (moves[reason].new - moves[reason].base) * whole, default=None)
    if most is None:
        return None
    change = moves[most].new - moves[most].base
    if change * whole <= 0 or abs(change) < _STALL_SHARE * abs(whole):
        return None
    return moves[most].named(most, "cycle"), cycles.named(_CYCLES, "cycle")


def _stalls(kernel: KernelProfile) -> dict[str, float]:
    told = ((stall.reason, stall.cycles_per_issue) for stall in kernel.stalls)
    return {reason: cycles for reason, cycles in told if cycles is not None and math.isfinite(cycles)}


def _per_instruction(kernel: KernelProfile) -> float | None:
    """Return the warps of a scheduler over the instructions that it issues in a cycle (Little's law)."""
    scheduler = kernel.scheduler
    if scheduler is None or scheduler.active_warps is None or not scheduler.issue_active:
        return None
    return scheduler.active_warps / scheduler.issue_active
