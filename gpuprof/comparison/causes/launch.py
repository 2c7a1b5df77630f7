"""Reasons around the code: occupancy and what limits it, the launch configuration, clocks, launches of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import prod

from msgspec.structs import replace

from gpuprof.comparison.causes.time_model import Reason, TimeFactors
from gpuprof.comparison.contract import ValueChange
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.values import Values, values_of
from gpuprof.model.session import KernelProfile

_CLOCK_MOVED = 0.005
"""Clocks that differ by less are alike: locked clocks vary by so much."""
_OCCUPANCY_MOVED = 0.03
"""Achieved occupancy is the same if it differs by less; by a tenth in an unchanged launch."""
_DRIFT = 0.1
_LAUNCHES_MOVED = 0.005


def launch_reasons(base: KernelProfile, new: KernelProfile, factors: TimeFactors) -> Iterator[Reason]:
    """Yield the effects of launch and clocks on the time."""
    yield from _clocks(base, new, factors)
    waves = values_of(base.waves, new.waves)
    if waves is not None and min(waves) <= 0:
        waves = None
    achieved = values_of(base.occupancy.achieved, new.occupancy.achieved)
    effect = 0.0
    grid = _grid(base, new, factors, waves, achieved)
    if grid is not None:
        effect = grid.effect
        yield grid
    yield from _occupancy(base, new, factors, waves, achieved, effect)


def launches_reason(pair: Pair) -> Reason | None:
    """Return that the kernel runs more or less often, which changes the time of the run only."""
    values = pair.launches
    if values.base <= 0 or values.new <= 0 or abs(values.log_ratio) < _LAUNCHES_MOVED:
        return None
    return Reason("launches", (values.named("launches"),), always=True)


def _clocks(base: KernelProfile, new: KernelProfile, factors: TimeFactors) -> Iterator[Reason]:
    if base.sm_clock_hz and new.sm_clock_hz and factors.cycles is not None:
        values = Values(base.sm_clock_hz, new.sm_clock_hz)
        if abs(values.log_ratio) > _CLOCK_MOVED:
            same = abs(factors.cycles) < _CLOCK_MOVED
            cycles = ValueChange(name="cycles", unit="cycle", ratio=math.exp(factors.cycles), same=same)
            yield Reason("clock", (values.named("sm-clock", "Hz"), cycles), factors.clock)
    if base.dram_clock_hz and new.dram_clock_hz and factors.binds("dram"):
        values = Values(base.dram_clock_hz, new.dram_clock_hz)
        if abs(values.log_ratio) > _CLOCK_MOVED:
            yield Reason("dram-clock", (values.named("dram-clock", "Hz"),), -values.log_ratio)


def _grid(
    base: KernelProfile,
    new: KernelProfile,
    factors: TimeFactors,
    waves: Values | None,
    achieved: Values | None,
) -> Reason | None:
    """Return the effect of the number of blocks on the time.

    It follows from the resident warps if one grid is less than a wave, else from how full the waves
    are.
    """
    if base.grid is None or new.grid is None or waves is None:
        return None
    blocks = Values(prod(base.grid), prod(new.grid))
    if blocks.base == blocks.new:
        return None
    is_small = min(waves) < 1
    more = factors.warps
    if not is_small:
        more = Values(waves.base / math.ceil(waves.base), waves.new / math.ceil(waves.new)).log_ratio
    effect = _limited(-more, factors) if more is not None else 0.0
    values = [blocks.named("grid-blocks"), waves.named("waves")]
    if is_small and achieved is not None and achieved.log_ratio * effect < 0:
        values.append(achieved.named("achieved-occupancy", "fraction"))
    return Reason("launch-configuration", tuple(values), effect, "inferred")


def _limited(effect: float, factors: TimeFactors) -> float:
    """Limit the effect of more or fewer warps to the change of the busy fraction."""
    if not factors.bound or factors.fill is None:
        return effect
    if effect * factors.fill <= 0:
        return 0.0
    return math.copysign(min(abs(effect), abs(factors.fill)), effect)


def _occupancy(
    base: KernelProfile,
    new: KernelProfile,
    factors: TimeFactors,
    waves: Values | None,
    achieved: Values | None,
    grid: float,
) -> Iterator[Reason]:
    theoretical = values_of(base.occupancy.theoretical, new.occupancy.theoretical)
    limited = theoretical is not None and theoretical.base != theoretical.new
    changed = _resources(base, new)
    same = theoretical is not None and not (limited or changed or grid)
    if same and (achieved is None or abs(achieved.log_ratio) < _DRIFT):
        return
    more = _more_warps(factors, waves, theoretical, achieved)
    moved = more is not None and abs(more) >= _OCCUPANCY_MOVED
    effect = 0.0
    if more is not None and moved and not (grid and waves is not None and min(waves) < 1):
        effect = _limited(-more, factors)
    if grid and not effect:
        achieved = None
    values = [*changed, *_occupancies(theoretical, achieved, changed, moved=moved)]
    if not values:
        return
    yield Reason(
        "occupancy" if limited or effect else "registers",
        tuple(values),
        effect,
        "inferred" if effect else "counted",
        limiters=new.occupancy.limiters if limited else (),
    )


def _more_warps(
    factors: TimeFactors, waves: Values | None, theoretical: Values | None, achieved: Values | None
) -> float | None:
    """Return the log ratio of resident warps: as achieved, else as both grids imply."""
    if factors.warps is not None and (achieved is None or achieved.log_ratio * factors.warps > 0):
        return factors.warps
    if achieved is None and theoretical is not None and waves is not None and min(waves) >= 1:
        return theoretical.log_ratio
    return 0.0 if achieved is not None else None


def _occupancies(
    theoretical: Values | None,
    achieved: Values | None,
    changed: Sequence[ValueChange],
    *,
    moved: bool,
) -> Iterator[ValueChange]:
    """Yield theoretical and achieved occupancy if one moved, or stayed the same although a resource changed."""
    if theoretical is not None and theoretical.base != theoretical.new:
        yield theoretical.named("occupancy", "fraction")
        if achieved is not None:
            yield replace(achieved.named("achieved-occupancy", "fraction"), same=not moved)
    elif moved and achieved is not None:
        yield achieved.named("achieved-occupancy", "fraction")
    elif changed:
        yield ValueChange(
            name="occupancy" if achieved is None else "achieved-occupancy",
            unit="fraction",
            same=True,
        )


def _resources(base: KernelProfile, new: KernelProfile) -> list[ValueChange]:
    """Return those of registers, shared memory and block size that changed."""
    resources = [
        ("registers", "", base.registers_per_thread, new.registers_per_thread),
        ("shared-memory", "B", base.shared_memory_per_block, new.shared_memory_per_block),
    ]
    if base.block is not None and new.block is not None:
        resources.append(("block-threads", "", prod(base.block), prod(new.block)))
    changed = []
    for name, unit, before, after in resources:
        values = values_of(before, after)
        if values is not None and values.base != values.new:
            changed.append(values.named(name, unit))
    return changed
