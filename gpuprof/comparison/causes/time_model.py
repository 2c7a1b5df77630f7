"""What a change of time consists of: the clock, what the busiest unit has to do, and how well it is kept busy.

Of a kernel that a unit keeps busy, time = busy time of that unit ÷ its busy fraction. Of one that waits,
cycles = instructions × cycles that a warp takes per instruction ÷ resident warps (Little's law). Each is an identity,
so that the logarithms of the factors add up to that of the ratio of times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod

from msgspec import Struct

from gpuprof.comparison.contract import Certainty, ChangeCause, CountChange, Direction, ValueChange
from gpuprof.comparison.values import Values, known, values_of
from gpuprof.diagnose.needs import ISSUE, LAUNCH, SM, needs_of
from gpuprof.model.session import KernelProfile

Counts = Mapping[str, CountChange]
BOUND = 0.6
"""A unit that is busy for so much of the time binds a kernel; under it ncu's rule SOLBottleneck says latency."""
_MOST = 1e30
"""No quantity comes near it, and no ratio of two."""
_ALIKE = 0.02
"""Units whose busy fractions differ by no more are the same thing seen twice: L1 and the pipe before it."""


class Reason(Struct, frozen=True):
    """A candidate cause. `effect` is the logarithm of the ratio of times that follows: above zero slower, zero: none.

    `first`: ranked before reasons of the same effect, because it is the work of the busiest unit. `always`: listed
    even if its effect is small. `early`: listed right behind the first cause.
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


class Parts(Struct, frozen=True):
    """Logarithms of new ÷ base: of the `times`, and of what they consist of; None if a side lacks it.

    `busy` is the time in which the busiest unit is busy, `fill` what its busy fraction adds. `sides` are the busy
    fractions of units on each side. `unit` is the busiest one of the slower side, and `needs` are the busy fractions
    there; `bound` says whether it binds.
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
    needs: Mapping[str, float] = {}
    sides: tuple[Mapping[str, float], Mapping[str, float]] = ({}, {})

    def busy_fractions(self, unit: str | None) -> Values | None:
        """Return the fraction of the time in which a unit was busy; None if a side lacks it."""
        return values_of(*(side.get(unit) for side in self.sides)) if unit is not None else None

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
        """Return how much of the slower side's time hangs on a unit, from 0 to 1; one half if that is not known."""
        if not self.needs:
            return 0.5
        return min(1.0, self.needs.get(unit, 0.0) / max(BOUND, *self.needs.values()))


def parts_of(base: KernelProfile, new: KernelProfile, counts: Counts, times: Values | None = None) -> Parts | None:
    """Return what the change of a kernel's time consists of; None if a duration is missing.

    `times` are those that the counts are of, if that is not one launch.
    """
    if times is None and base.duration_s is not None and new.duration_s is not None:
        times = Values(base.duration_s, new.duration_s)
    total = _log(times.new, times.base) if times is not None else None
    if times is None or total is None:
        return None
    sides = _busy_fractions(base), _busy_fractions(new)
    slower = sides[1] if total > 0 else sides[0]
    unit = busiest(slower)
    bound = unit is not None and slower[unit] >= BOUND
    clocks = _log(new.sm_clock_hz, base.sm_clock_hz)
    cycles = total + clocks if clocks is not None else None
    clock = total - cycles if cycles is not None and not (bound and unit == "dram") else 0.0
    tops = [max(side.values(), default=0.0) for side in sides]
    fill = _log(tops[0], tops[1])
    warps = _warps(base, new)
    instructions = _instructions(base, new, counts, cycles)
    own = total - clock
    latency = own + warps - instructions if warps is not None and instructions is not None else None
    return Parts(
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
        needs=_weights(base if total <= 0 else new, slower),
        sides=sides,
    )


def parts_of_times(times: Values) -> Parts | None:
    """Return a change of time of which nothing else is known than how large it is."""
    total = _log(times.new, times.base)
    return Parts(total, times) if total is not None else None


def _busy_fractions(kernel: KernelProfile) -> dict[str, float]:
    """Return what fraction of the elapsed time each unit was busy, as far as that is known.

    What ncu calls memory is the busiest of L1, L2, DRAM and the links between them: if L2 and DRAM are clearly less
    busy, it is L1. What it calls the SM is the busiest of its pipes and the issue slots.
    """
    needs = {unit: need for unit, need in needs_of(kernel, None, None).items() if unit != LAUNCH}
    known_units = {unit.unit: unit.fraction for unit in kernel.throughput if unit.is_exact}
    memory = known_units.get("memory")
    others = max(known_units.get("dram", 1.0), known_units.get("l2", 1.0))
    if "l1" not in needs and memory is not None and memory > others + _ALIKE:
        needs["l1"] = min(1.0, memory)
    needs = {unit: need for unit, need in needs.items() if math.isfinite(need)}
    sm = needs.get(SM)
    if sm is not None:
        issue = kernel.scheduler.issue_active if kernel.scheduler is not None else None
        if issue is not None and abs(issue - sm) <= _ALIKE:
            needs[ISSUE] = sm
        if any(abs(need - sm) <= _ALIKE for unit, need in needs.items() if unit != SM):
            del needs[SM]
    return needs


def busiest(needs: Mapping[str, float]) -> str | None:
    """Return the busiest unit; of two that are the same thing seen twice, the one that says more."""
    if not needs:
        return None
    most = max(needs.values())
    if most <= 0:
        return None
    near = [unit for unit, need in needs.items() if need >= most - _ALIKE]
    return min(near, key=lambda unit: (unit in (SM, "l1"), -needs[unit]))


def _weights(kernel: KernelProfile, needs: Mapping[str, float]) -> dict[str, float]:
    """Return busy fractions to weigh by: those of active cycles if no others are known."""
    weights: dict[str, float] = {unit.unit: unit.fraction for unit in kernel.throughput if unit.unit != "memory"}
    if kernel.scheduler is not None and kernel.scheduler.issue_active is not None:
        weights[ISSUE] = kernel.scheduler.issue_active
    return {**{unit: weight for unit, weight in weights.items() if math.isfinite(weight)}, **needs}


def _instructions(base: KernelProfile, new: KernelProfile, counts: Counts, cycles: float | None) -> float | None:
    """Return by how much the instructions changed: as counted, else as the issue rate and the cycles imply."""
    counted = known(counts.get("instructions"))
    if counted is not None:
        return counted.log_ratio
    rates = [kernel.scheduler.issue_active if kernel.scheduler is not None else None for kernel in (new, base)]
    rate = _log(*rates)
    return rate + cycles if rate is not None and cycles is not None else None


def _warps(base: KernelProfile, new: KernelProfile) -> float | None:
    """Return the log ratio of resident warps, on average: that of the achieved occupancies if the grids fill the GPU.

    A grid of less than a wave has all of its threads resident at once, on as many SMs as it has blocks for. A larger
    one has a wave of them, as far as its theoretical occupancy was achieved.
    """
    if not any(kernel.waves is not None and 0 < kernel.waves < 1 for kernel in (base, new)):
        return _log(new.occupancy.achieved, base.occupancy.achieved)
    return _log(_threads(new), _threads(base))


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
