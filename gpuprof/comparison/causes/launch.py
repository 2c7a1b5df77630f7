"""Reasons around the code: occupancy and what limits it, the launch configuration, clocks, launches of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from math import prod

from gpuprof.comparison.causes.reason import Reason
from gpuprof.comparison.causes.time_model import Parts
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.words import Values, both_text, values_of
from gpuprof.diagnose.needs import pipe_name
from gpuprof.model.session import KernelProfile
from gpuprof.units import ARROW, format_change, format_waves

_CLOCK_MOVED = 0.005
"""Clocks that differ by less are alike: what locking them leaves."""
_OCCUPANCY_MOVED = 0.03
"""Achieved occupancy that differs by less is the same; where nothing of the launch changed, by a tenth."""
_DRIFT = 0.1
_LAUNCHES_MOVED = 0.005


def launch_reasons(base: KernelProfile, new: KernelProfile, parts: Parts) -> Iterator[Reason]:
    """Yield what the launch and the clocks make of the time."""
    yield from _clocks(base, new, parts)
    grid = _grid_effect(base, new, parts)
    yield from _grid(base, new, grid)
    yield from _occupancy(base, new, parts, grid)


def launches_reason(pair: Pair) -> Reason | None:
    """Return that the kernel runs more or less often: it changes the time of the run, and none of a launch."""
    if not pair.base or not pair.new:
        return None
    values = pair.launches
    if values.base <= 0 or values.new <= 0 or abs(values.log_ratio) < _LAUNCHES_MOVED:
        return None
    text = f"launches per run {both_text(*values)}"
    return Reason("launches", text, effect=0.0, certainty="counted", always=True)


def _clocks(base: KernelProfile, new: KernelProfile, parts: Parts) -> Iterator[Reason]:
    if base.sm_clock_hz and new.sm_clock_hz and parts.cycles is not None:
        values = Values(base.sm_clock_hz, new.sm_clock_hz)
        if abs(values.log_ratio) > _CLOCK_MOVED:
            cycles = (
                "the same cycles"
                if abs(parts.cycles) < _CLOCK_MOVED
                else f"cycles {format_change(math.exp(parts.cycles))}"
            )
            text = f"SM clock {both_text(*values, 'Hz')} ({cycles})"
            yield Reason("clock", text, effect=parts.clock, certainty="counted")
    if base.dram_clock_hz and new.dram_clock_hz and parts.bound and parts.unit == "dram":
        values = Values(base.dram_clock_hz, new.dram_clock_hz)
        if abs(values.log_ratio) > _CLOCK_MOVED:
            text = f"DRAM clock {both_text(*values, 'Hz')}"
            yield Reason("dram-clock", text, effect=-values.log_ratio, certainty="counted")


def _grid_effect(base: KernelProfile, new: KernelProfile, parts: Parts) -> float:
    """Return what the number of blocks makes of the time: by the warps that the GPU holds where one grid is less than a
    wave, else by how much of its waves a grid fills."""
    waves = _waves(base, new)
    if base.grid is None or new.grid is None or waves is None:
        return 0.0
    if prod(base.grid) == prod(new.grid):
        return 0.0
    if min(waves) < 1:
        return _supply(-parts.warps, parts) if parts.warps is not None else 0.0
    filled = Values(*(number / math.ceil(number) for number in waves))
    return _supply(-filled.log_ratio, parts)


def _waves(base: KernelProfile, new: KernelProfile) -> Values | None:
    """Return the waves of both grids; None where one is not known."""
    waves = values_of(base.waves, new.waves)
    return waves if waves is not None and min(waves) > 0 else None


def _supply(effect: float, parts: Parts) -> float:
    """Limit what more or fewer warps make of the time to what a change of the busy fraction leaves to explain."""
    if not parts.bound or parts.fill is None:
        return effect
    if effect * parts.fill <= 0:
        return 0.0
    return math.copysign(min(abs(effect), abs(parts.fill)), effect)


def _grid(base: KernelProfile, new: KernelProfile, effect: float) -> Iterator[Reason]:
    waves = _waves(base, new)
    if base.grid is None or new.grid is None or waves is None:
        return
    blocks = Values(prod(base.grid), prod(new.grid))
    if blocks.base == blocks.new:
        return
    before = format_waves(waves.base).partition(" wave")[0]
    text = f"grid {both_text(*blocks)} blocks ({before} {ARROW} {format_waves(waves.new)})"
    achieved = values_of(base.occupancy.achieved, new.occupancy.achieved)
    if achieved is not None and achieved.log_ratio * effect < 0 and min(waves) < 1:
        text += f", achieved occupancy {both_text(*achieved, 'fraction')}"
    yield Reason("launch-configuration", text, effect=effect, certainty="inferred")


def _occupancy(base: KernelProfile, new: KernelProfile, parts: Parts, grid: float) -> Iterator[Reason]:
    theoretical = values_of(base.occupancy.theoretical, new.occupancy.theoretical)
    achieved = values_of(base.occupancy.achieved, new.occupancy.achieved)
    changed = _resources(base, new)
    same = theoretical is not None and theoretical.base == theoretical.new and not changed and not grid
    if same and (achieved is None or abs(achieved.log_ratio) < _DRIFT):
        return
    moved, effect = _more_warps(base, new, parts, theoretical, achieved), 0.0
    moves = moved is not None and abs(moved) >= _OCCUPANCY_MOVED
    if moved is not None and moves and not (grid and _is_small(base, new)):
        effect = _supply(-moved, parts)
    text = _occupancy_text(new, theoretical, achieved if effect or not grid else None, changed, moved=moves)
    if not text:
        return
    told = theoretical is not None and theoretical.base != theoretical.new
    mechanism = "occupancy" if told or effect else "registers"
    yield Reason(mechanism, text, effect=effect, certainty="inferred" if effect else "counted")


def _is_small(base: KernelProfile, new: KernelProfile) -> bool:
    """Tell whether a side has less than a wave, so that its blocks, and no limit, decide how many warps there are."""
    waves = _waves(base, new)
    return waves is not None and min(waves) < 1


def _more_warps(
    base: KernelProfile, new: KernelProfile, parts: Parts, theoretical: Values | None, achieved: Values | None
) -> float | None:
    """Return the logarithm of how many more warps are resident: as achieved, else as both grids imply."""
    if parts.warps is not None and (achieved is None or achieved.log_ratio * parts.warps > 0):
        return parts.warps
    waves = _waves(base, new)
    if achieved is None and theoretical is not None and waves is not None and min(waves) >= 1:
        return theoretical.log_ratio
    return 0.0 if achieved is not None else None


def _occupancy_text(
    new: KernelProfile, theoretical: Values | None, achieved: Values | None, changed: str, *, moved: bool
) -> str:
    """Write "registers 40 → 72, occupancy 75 % → 50 % (limited by registers)", and what of it was achieved."""
    texts = [changed] if changed else []
    if theoretical is not None and theoretical.base != theoretical.new:
        limits = " and ".join(new.occupancy.limiters)
        texts.append(f"occupancy {both_text(*theoretical, 'fraction')}{f' (limited by {limits})' if limits else ''}")
        if achieved is not None:
            texts.append(f"achieved {both_text(*achieved, 'fraction') if moved else 'unchanged'}")
    elif moved and achieved is not None:
        texts.append(f"achieved occupancy {both_text(*achieved, 'fraction')}")
    elif changed:
        texts.append("occupancy unchanged" if achieved is not None else "theoretical occupancy unchanged")
    return ", ".join(texts)


def _resources(base: KernelProfile, new: KernelProfile) -> str:
    """Write what of registers, shared memory and block size changed."""
    texts = []
    registers = values_of(base.registers_per_thread, new.registers_per_thread)
    if registers is not None and registers.base != registers.new:
        texts.append(f"registers {both_text(*registers)}")
    shared = values_of(base.shared_memory_per_block, new.shared_memory_per_block)
    if shared is not None and shared.base != shared.new:
        texts.append(f"shared memory per block {both_text(*shared, name='shared-memory')}")
    if base.block is not None and new.block is not None and prod(base.block) != prod(new.block):
        texts.append(f"block {both_text(prod(base.block), prod(new.block))} threads")
    return ", ".join(texts)


def unit_name(unit: str) -> str:
    """Write a unit: "l1" → "L1", "fp64" → "FP64 pipe", "issue" → "issue slots"."""
    names = {"dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "SM", "issue": "issue slots"}
    return names.get(unit, f"{pipe_name(unit)} pipe")
