"""Factors of a change of time: the clock, the busy time of the busiest unit, and its utilization.

Of a kernel that a unit keeps busy, time = busy time of that unit ÷ its busy fraction. Of one that
waits, cycles = instructions × cycles that a warp takes per instruction ÷ resident warps (Little's
law). Each is an identity: the logarithms of the factors add up to that of the ratio of times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod

from msgspec import Struct

from gpuprof.comparison.contract import Certainty, ChangeCause, CountChange, Direction, ValueChange
from gpuprof.comparison.values import Values, known, values_of
from gpuprof.diagnose.facts.unit_names import ISSUE, SM
from gpuprof.model.session import KernelProfile

Counts = Mapping[str, CountChange]
BOUND = 0.6
"""A unit that is busy for so much of the time binds a kernel. Below it ncu's rule SOLBottleneck reports latency."""
_MOST = 1e30
"""No quantity comes near it, and no ratio of two."""
_ALIKE = 0.02
"""Units with closer busy fractions are the same thing seen twice: L1 and the pipe before it."""


class Reason(Struct, frozen=True):
    """A candidate cause.

    `effect` is the logarithm of the resulting ratio of times: positive if slower, zero if none.
    `first`: ranked before reasons of the same effect, because it is the work of the busiest unit.
    `always`: listed even if its effect is small. `early`: listed right behind the first cause.
    """

    mechanism: str
    values: tuple[ValueChange, ...]
    effect: float = 0.0
    certainty: Certainty = "counted"
    kind: str = ""
    limiters: tuple[str, ...] = ()
    first: bool = False
    always: bool = False
    early: bool = False

    def cause(self, direction: Direction) -> ChangeCause:
        """Return it as a cause of the contract."""
        return ChangeCause(
            mechanism=self.mechanism,
            direction=direction,
            certainty=self.certainty,
            values=self.values,
            kind=self.kind,
            limiters=self.limiters,
        )


class TimeFactors(Struct, frozen=True):
    """Logarithms of new ÷ base: of the `times`, and of their factors; None if a side lacks one.

    `busy` is the time in which the busiest unit is busy, `fill` the contribution of its busy
    fraction. `sides` are the busy fractions of units on each side. `unit` is the busiest one of the
    slower side, `utilization` are the busy fractions there, and `bound` is whether it binds.
    """

    total: float
    times: Values
    clock: float = 0.0
    cycles: float | None = None
    unit: str | None = None
    bound: bool = False
    busy: float | None = None
    fill: float | None = None
    instructions: float | None = None
    warps: float | None = None
    latency: float | None = None
    utilization: Mapping[str, float] = {}
    sides: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {})

    def busy_fractions(self, unit: str | None) -> Values | None:
        """Return the fraction of the time in which a unit was busy; None if a side lacks it."""
        if unit is None:
            return None
        base, new = self.sides
        return values_of(base.get(unit), new.get(unit))

    def busy_times(self, unit: str | None) -> Values | None:
        """Return for how long a unit was busy; None if a side lacks it."""
        fractions = self.busy_fractions(unit)
        if fractions is None:
            return None
        return Values(fractions.base * self.times.base, fractions.new * self.times.new)

    def binds(self, unit: str) -> bool:
        """Return whether a unit binds the slower side."""
        return self.bound and unit == self.unit

    def weight(self, unit: str) -> float:
        """Return the share of the slower side's time that depends on a unit, from 0 to 1; 0.5 if that is not known."""
        if not self.utilization:
            return 0.5
        return min(1.0, self.utilization.get(unit, 0.0) / max(BOUND, *self.utilization.values()))


def factors_of(
    base: KernelProfile, new: KernelProfile, counts: Counts, times: Values | None = None
) -> TimeFactors | None:
    """Return the factors of the change of a kernel's time; None if a duration is missing.

    `times` are those that the counts are of, if that is not one launch.
    """
    if times is None and base.duration_s is not None and new.duration_s is not None:
        times = Values(base.duration_s, new.duration_s)
    if times is None:
        return None
    total = _log(times.new, times.base)
    if total is None:
        return None
    before = _busy_fractions(base)
    after = _busy_fractions(new)
    slower, utilization = (new, after) if total > 0 else (base, before)
    unit = busiest(utilization)
    bound = unit is not None and utilization[unit] >= BOUND
    clock = 0.0
    cycles = None
    clocks = _log(new.sm_clock_hz, base.sm_clock_hz)
    if clocks is not None:
        cycles = total + clocks
        if not (bound and unit == "dram"):
            clock = total - cycles
    fill = _log(max(before.values(), default=0.0), max(after.values(), default=0.0))
    warps = _warps(base, new)
    instructions = _instructions(base, new, counts, cycles)
    own = total - clock
    latency = None
    if warps is not None and instructions is not None:
        latency = own + warps - instructions
    return TimeFactors(
        total=total,
        times=times,
        clock=clock,
        cycles=cycles,
        unit=unit,
        bound=bound,
        busy=own - fill if fill is not None else None,
        fill=fill,
        instructions=instructions,
        warps=warps,
        latency=latency,
        utilization=_weights(slower, utilization),
        sides=(before, after),
    )


def factors_of_times(times: Values) -> TimeFactors | None:
    """Return a change of time of which only the size is known."""
    total = _log(times.new, times.base)
    return TimeFactors(total, times) if total is not None else None


def _busy_fractions(kernel: KernelProfile) -> dict[str, float]:
    """Return the fraction of the elapsed time that each unit was busy, if known.

    ncu's memory is the busiest of L1, L2, DRAM and the links between them: if L2 and DRAM are
    clearly less busy, it is L1. Its SM is the busiest of the pipes and the issue slots.
    """
    exact: dict[str, float] = {unit.unit: unit.fraction for unit in kernel.throughput if unit.is_exact}
    memory = exact.pop("memory", None)
    pipes = {pipe.name: pipe.fraction for pipe in kernel.pipes if pipe.metric.endswith("_elapsed")}
    busy = {unit: min(1.0, max(0.0, fraction)) for unit, fraction in (exact | pipes).items()}
    others = max(exact.get("dram", 1.0), exact.get("l2", 1.0))
    if "l1" not in busy and memory is not None and memory > others + _ALIKE:
        busy["l1"] = min(1.0, memory)
    busy = _finite(busy)
    sm = busy.get(SM)
    if sm is not None:
        issue = _issue_active(kernel)
        if issue is not None and abs(issue - sm) <= _ALIKE:
            busy[ISSUE] = sm
        if any(abs(need - sm) <= _ALIKE for unit, need in busy.items() if unit != SM):
            del busy[SM]
    return busy


def _finite(fractions: Mapping[str, float]) -> dict[str, float]:
    return {unit: fraction for unit, fraction in fractions.items() if math.isfinite(fraction)}


def _issue_active(kernel: KernelProfile) -> float | None:
    return kernel.scheduler.issue_active if kernel.scheduler is not None else None


def busiest(utilization: Mapping[str, float]) -> str | None:
    """Return the busiest unit; of two that are the same thing seen twice, the more specific one."""
    most = max(utilization.values(), default=0.0)
    if most <= 0:
        return None
    near = [unit for unit, fraction in utilization.items() if fraction >= most - _ALIKE]
    return min(near, key=lambda unit: (unit in (SM, "l1"), -utilization[unit]))


def _weights(kernel: KernelProfile, utilization: Mapping[str, float]) -> dict[str, float]:
    """Return busy fractions to weigh by: those of active cycles if no others are known."""
    weights: dict[str, float] = {unit.unit: unit.fraction for unit in kernel.throughput if unit.unit != "memory"}
    issue = _issue_active(kernel)
    if issue is not None:
        weights[ISSUE] = issue
    return {**_finite(weights), **utilization}


def _instructions(base: KernelProfile, new: KernelProfile, counts: Counts, cycles: float | None) -> float | None:
    """Return the log ratio of the instructions: counted, else from issue rate and cycles."""
    counted = known(counts.get("instructions"))
    if counted is not None:
        return counted.log_ratio
    rate = _log(_issue_active(new), _issue_active(base))
    if rate is None or cycles is None:
        return None
    return rate + cycles


def _warps(base: KernelProfile, new: KernelProfile) -> float | None:
    """Return the log ratio of resident warps: of achieved occupancies if the grids fill the GPU.

    A grid of less than a wave has all of its threads resident at once, on as many SMs as it has
    blocks for. A larger one has a wave of them, scaled by achieved over theoretical occupancy.
    """
    if any(kernel.waves is not None and 0 < kernel.waves < 1 for kernel in (base, new)):
        return _log(_threads(new), _threads(base))
    return _log(new.occupancy.achieved, base.occupancy.achieved)


def _threads(kernel: KernelProfile) -> float | None:
    """Return the threads that are resident at once."""
    if kernel.grid is None or kernel.block is None or not kernel.waves:
        return None
    threads = float(prod(kernel.grid)) * prod(kernel.block)
    if kernel.waves < 1:
        return threads
    occupancy = kernel.occupancy
    if occupancy.achieved is None or not occupancy.theoretical:
        return None
    return threads / kernel.waves * occupancy.achieved / occupancy.theoretical


def _log(above: float | None, below: float | None) -> float | None:
    """Return the logarithm of a ratio; None if one is missing, zero or not finite."""
    if above is None or below is None or above <= 0 or below <= 0:
        return None
    ratio = above / below
    return math.log(ratio) if 1 / _MOST < ratio < _MOST else None
