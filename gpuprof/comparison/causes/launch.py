"""Reasons around the code: occupancy and what limits it, the launch configuration, clocks, launches of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import prod

from msgspec.structs import replace

from gpuprof.comparison.causes.time_model import Parts, Reason
from gpuprof.comparison.contract import ValueChange
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.values import Values, values_of
from gpuprof.model.session import KernelProfile

_CLOCK_MOVED = 0.005
"""Clocks that differ by less are alike: what locking them leaves."""
_OCCUPANCY_MOVED = 0.03
"""Achieved occupancy that differs by less is the same; if nothing of the launch changed, by a tenth."""
_DRIFT = 0.1
_LAUNCHES_MOVED = 0.005


def launch_reasons(base: KernelProfile, new: KernelProfile, parts: Parts) -> Iterator[Reason]:
    """Yield what the launch and the clocks make of the time."""
    yield from _clocks(base, new, parts)
    waves = values_of(base.waves, new.waves)
    if waves is not None and min(waves) <= 0:
        waves = None
    achieved = values_of(base.occupancy.achieved, new.occupancy.achieved)
    grid = _grid(base, new, parts, waves, achieved)
    if grid is not None:
        yield grid
    yield from _occupancy(base, new, parts, waves, achieved, grid.effect if grid is not None else 0.0)


def launches_reason(pair: Pair) -> Reason | None:
    """Return that the kernel runs more or less often: it changes the time of the run, and none of a launch."""
    if not pair.base or not pair.new:
        return None
    values = pair.launches
    if values.base <= 0 or values.new <= 0 or abs(values.log_ratio) < _LAUNCHES_MOVED:
        return None
    return Reason("launches", (values.named("launches"),), always=True)


def _clocks(base: KernelProfile, new: KernelProfile, parts: Parts) -> Iterator[Reason]:
    if base.sm_clock_hz and new.sm_clock_hz and parts.cycles is not None:
        values = Values(base.sm_clock_hz, new.sm_clock_hz)
        if abs(values.log_ratio) > _CLOCK_MOVED:
            same = abs(parts.cycles) < _CLOCK_MOVED
            cycles = ValueChange(name="cycles", unit="cycle", ratio=math.exp(parts.cycles), same=same)
            yield Reason("clock", (values.named("sm-clock", "Hz"), cycles), parts.clock)
    if base.dram_clock_hz and new.dram_clock_hz and parts.binds("dram"):
        values = Values(base.dram_clock_hz, new.dram_clock_hz)
        if abs(values.log_ratio) > _CLOCK_MOVED:
            yield Reason("dram-clock", (values.named("dram-clock", "Hz"),), -values.log_ratio)


def _grid(
    base: KernelProfile, new: KernelProfile, parts: Parts, waves: Values | None, achieved: Values | None
) -> Reason | None:
    """Return what the number of blocks makes of the time: by the warps that the GPU has if one grid is less than a
    wave, else by how much of its waves a grid fills."""
    if base.grid is None or new.grid is None or waves is None:
        return None
    blocks = Values(prod(base.grid), prod(new.grid))
    if blocks.base == blocks.new:
        return None
    is_small = min(waves) < 1
    filled = Values(*(number / math.ceil(number) for number in waves))
    more = parts.warps if is_small else filled.log_ratio
    effect = _supply(-more, parts) if more is not None else 0.0
    values = [blocks.named("grid-blocks"), waves.named("waves")]
    if is_small and achieved is not None and achieved.log_ratio * effect < 0:
        values.append(achieved.named("achieved-occupancy", "fraction"))
    return Reason("launch-configuration", tuple(values), effect, "inferred")


def _supply(effect: float, parts: Parts) -> float:
    """Limit what more or fewer warps make of the time to what a change of the busy fraction leaves to explain."""
    if not parts.bound or parts.fill is None:
        return effect
    if effect * parts.fill <= 0:
        return 0.0
    return math.copysign(min(abs(effect), abs(parts.fill)), effect)


def _occupancy(
    base: KernelProfile,
    new: KernelProfile,
    parts: Parts,
    waves: Values | None,
    achieved: Values | None,
    grid: float,
) -> Iterator[Reason]:
    theoretical = values_of(base.occupancy.theoretical, new.occupancy.theoretical)
    changed = _resources(base, new)
    same = theoretical is not None and theoretical.base == theoretical.new and not changed and not grid
    if same and (achieved is None or abs(achieved.log_ratio) < _DRIFT):
        return
    moved, effect = _more_warps(parts, waves, theoretical, achieved), 0.0
    is_small = waves is not None and min(waves) < 1
    moves = moved is not None and abs(moved) >= _OCCUPANCY_MOVED
    if moved is not None and moves and not (grid and is_small):
        effect = _supply(-moved, parts)
    values = [*changed, *_occupancies(theoretical, achieved if effect or not grid else None, changed, moved=moves)]
    if not values:
        return
    limited = theoretical is not None and theoretical.base != theoretical.new
    yield Reason(
        "occupancy" if limited or effect else "registers",
        tuple(values),
        effect,
        "inferred" if effect else "counted",
        limiters=new.occupancy.limiters if limited else (),
    )


def _more_warps(
    parts: Parts, waves: Values | None, theoretical: Values | None, achieved: Values | None
) -> float | None:
    """Return the logarithm of how many more warps are resident: as achieved, else as both grids imply."""
    if parts.warps is not None and (achieved is None or achieved.log_ratio * parts.warps > 0):
        return parts.warps
    if achieved is None and theoretical is not None and waves is not None and min(waves) >= 1:
        return theoretical.log_ratio
    return 0.0 if achieved is not None else None


def _occupancies(
    theoretical: Values | None, achieved: Values | None, changed: Sequence[ValueChange], *, moved: bool
) -> Iterator[ValueChange]:
    """Yield theoretical and achieved occupancy as far as one moved, or stayed the same although a resource changed."""
    if theoretical is not None and theoretical.base != theoretical.new:
        yield theoretical.named("occupancy", "fraction")
        if achieved is not None:
            yield replace(achieved.named("achieved-occupancy", "fraction"), same=not moved)
    elif moved and achieved is not None:
        yield achieved.named("achieved-occupancy", "fraction")
    elif changed:
        yield ValueChange(name="occupancy" if achieved is None else "achieved-occupancy", unit="fraction", same=True)


def _resources(base: KernelProfile, new: KernelProfile) -> list[ValueChange]:
    """Return registers, shared memory and block size, as far as they changed."""
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
