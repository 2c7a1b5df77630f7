"""Reasons that follow from the time of units and of warps: how long a unit was busy, how long a warp takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from gpuprof.comparison.causes.reason import Reason
from gpuprof.comparison.causes.time_model import BOUND, Parts, busiest, busy_fractions
from gpuprof.comparison.contract import CountChange, ValueChange
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
_STALL_SHARE = 0.4
"""A stall reason is named alone if it makes up so much of what a warp takes more or less per instruction."""


def unit_reasons(
    base: KernelProfile, new: KernelProfile, parts: Parts, counts: Mapping[str, CountChange]
) -> Iterator[Reason]:
    """Yield the work of the busiest unit, unless it was counted, and the time of a warp per instruction."""
    if parts.bound:
        yield from _busy_time(base, new, parts)
        yield from _passes(base, new, parts)
    else:
        if "instructions" not in counts:
            yield from _issued(parts)
        yield from _work_below_bound(base, new, parts, counts)
    yield from _waiting(base, new, parts)


def _busy_time(base: KernelProfile, new: KernelProfile, parts: Parts) -> Iterator[Reason]:
    """Yield how long the unit that binds the slower side was busy, before and after."""
    unit, sides = parts.unit, (busy_fractions(base), busy_fractions(new))
    if unit is None or parts.busy is None or unit not in sides[0] or unit not in sides[1]:
        return
    times = _busy(sides, unit, parts)
    values = _busy_values(sides, unit, times)
    binds = busiest(sides[1])
    if parts.total < 0 and binds is not None and sides[1][binds] > max(BOUND, sides[1][unit] + _SAME):
        values += (ValueChange(name=binds, unit="fraction", new=sides[1][binds]),)
    if abs(parts.busy) < _ISSUES_MOVED:
        return
    effect = parts.busy if times.log_ratio * parts.busy > 0 else 0.0
    yield Reason("unit-time", values, effect=effect, certainty="counted", first=True)


def _work_below_bound(
    base: KernelProfile, new: KernelProfile, parts: Parts, counts: Mapping[str, CountChange]
) -> Iterator[Reason]:
    """Yield what the busiest unit of the slower side had to do, if it does not bind and its work was not counted.

    Cycles in which it is busy are that work, whatever its clock; those of DRAM are bytes. Of another unit the
    instructions are that work, if they are known, and what a warp takes for each.
    """
    unit, sides = parts.unit, (busy_fractions(base), busy_fractions(new))
    if unit is None or unit not in sides[0] or unit not in sides[1]:
        return
    told = any(known(counts.get(name)) is not None for name in _COUNTS.get(unit, ("instructions",)))
    if told or (unit != "dram" and parts.instructions is not None):
        return
    times, weight = _busy(sides, unit, parts), parts.weight(unit)
    clocks = values_of(base.dram_clock_hz, new.dram_clock_hz) if unit == "dram" else None
    work = times.log_ratio + (clocks.log_ratio if clocks is not None else 0.0 if unit == "dram" else -parts.clock)
    grows_along = work * parts.total > 0 and abs(work) >= max(_SAME, _COMPARABLE * abs(parts.total))
    if not grows_along or weight < _COMPARABLE:
        return
    values = _busy_values(sides, unit, times)
    if unit == "dram" and clocks is not None:
        values += (ValueChange(name="dram-bytes", unit="B", ratio=math.exp(work)),)
    yield Reason("unit-time", values, effect=weight * work, certainty="inferred", first=True)


def _passes(base: KernelProfile, new: KernelProfile, parts: Parts) -> Iterator[Reason]:
    """Yield that L1 takes more or fewer passes for the same loads and stores, as the pipe before it shows."""
    if parts.unit != "l1":
        return
    sides = busy_fractions(base), busy_fractions(new)
    if any("lsu" not in side or "l1" not in side for side in sides):
        return
    requests, passes = _busy(sides, "lsu", parts), _busy(sides, "l1", parts)
    if abs(requests.log_ratio) > _SAME or abs(passes.log_ratio) < _SAME:
        return
    yield Reason(
        "coalescing",
        (passes.named("l1", "s"), requests.named("lsu", "s")),
        effect=passes.log_ratio,
        certainty="inferred",
        kind="passes",
    )


def _busy_values(sides: tuple[dict[str, float], dict[str, float]], unit: str, times: Values) -> tuple[ValueChange, ...]:
    """Return how long a unit was busy, and that as a fraction of the time."""
    return times.named(unit, "s"), Values(sides[0][unit], sides[1][unit]).named(unit, "fraction")


def _busy(sides: tuple[dict[str, float], dict[str, float]], unit: str, parts: Parts) -> Values:
    return Values(sides[0][unit] * parts.times.base, sides[1][unit] * parts.times.new)


def _issued(parts: Parts) -> Iterator[Reason]:
    """Yield the change of the instructions that the issue rate implies."""
    if parts.instructions is None or abs(parts.instructions) < _ISSUES_MOVED:
        return
    issued = ValueChange(name="issued-instructions", ratio=math.exp(parts.instructions))
    yield Reason("instructions", (issued,), effect=parts.instructions, certainty="inferred")


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
        yield Reason("stalls", stall, effect=effect, certainty="inferred")
        return
    taken = values_of(_per_instruction(base), _per_instruction(new))
    cycles = ValueChange(name="cycles-per-instruction", unit="cycle", ratio=math.exp(latency))
    if taken is not None:
        cycles = replace(cycles, base=taken.base, new=taken.new)
    yield Reason("latency", (cycles,), effect=effect, certainty="inferred")


def _stall(base: KernelProfile, new: KernelProfile) -> tuple[ValueChange, ...] | None:
    """Return the stall reason that most of the change of a warp's cycles per instruction is, and all of these."""
    sides = _stalls(base), _stalls(new)
    if not sides[0] or not sides[1]:
        return None
    change = {
        reason: sides[1].get(reason, 0.0) - sides[0].get(reason, 0.0)
        for reason in {*sides[0], *sides[1]}
        if reason not in NOT_STALLED
    }
    whole = sum(sides[1].values()) - sum(sides[0].values())
    most = max(change, key=lambda reason: change[reason] * whole, default=None)
    if most is None or change[most] * whole <= 0 or abs(change[most]) < _STALL_SHARE * abs(whole):
        return None
    values = Values(sides[0].get(most, 0.0), sides[1].get(most, 0.0))
    cycles = Values(sum(sides[0].values()), sum(sides[1].values()))
    return values.named(most, "cycle"), cycles.named("cycles-per-instruction", "cycle")


def _stalls(kernel: KernelProfile) -> dict[str, float]:
    told = ((stall.reason, stall.cycles_per_issue) for stall in kernel.stalls)
    return {reason: cycles for reason, cycles in told if cycles is not None and math.isfinite(cycles)}


def _per_instruction(kernel: KernelProfile) -> float | None:
    """Return the warps of a scheduler over the instructions that it issues in a cycle (Little's law)."""
    scheduler = kernel.scheduler
    if scheduler is None or scheduler.active_warps is None or not scheduler.issue_active:
        return None
    return scheduler.active_warps / scheduler.issue_active
