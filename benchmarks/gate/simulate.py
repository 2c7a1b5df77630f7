"""Runs of many pairs of sides under a condition, as arrays: what a profiler would have read of each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from benchmarks.gate.conditions import Condition, Order
from benchmarks.gate.launches import LAUNCHES, LEVELS, Kernel, noise_within

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

SHORT_S = 10e-6
CLOCK_HZ = 1.5e9


@dataclass(frozen=True, slots=True)
class Sides:
    """Pairs × runs of both sides, before the clock's step: seconds and SM cycles of each launch, by pair, run, launch.

    Where there are many runs a side, only the median launch of a run is made: the verdict takes no more then.
    """

    base_s: Array
    new_s: Array
    base_cycles: Array | None
    new_cycles: Array | None


def simulate(
    condition: Condition, order: Order, runs: int, pairs: int, kernels: tuple[Kernel, ...], rng: np.random.Generator
) -> Sides:
    """Return pairs of sides that run the same code. Each pair is of a kernel that is drawn among `kernels`."""
    import numpy as np

    own, between = _drawn_from(condition, kernels)
    quantiles = np.array([kernel.quantiles for kernel in own])
    chosen = rng.integers(len(own), size=pairs)
    medians_s = np.array([kernel.median_s for kernel in own])[chosen]
    clock = _clock(condition, runs, pairs, rng)
    effects = _effects(condition, np.array(between)[chosen], runs, rng)
    if not condition.memory:
        effects = effects - clock
    run_s = medians_s[:, None] * np.exp(effects)
    every = run_s[:, :, None] * _launches(quantiles, chosen, runs, rng)
    first, second = _places(order, runs)
    cycles = every * CLOCK_HZ * np.exp(clock)[:, :, None] if condition.clock_known else None
    return Sides(
        base_s=every[:, first],
        new_s=every[:, second],
        base_cycles=None if cycles is None else cycles[:, first],
        new_cycles=None if cycles is None else cycles[:, second],
    )


def slower(sides: Sides, change: float) -> Sides:
    """Return the pairs with a new side that takes longer."""
    cycles = None if sides.new_cycles is None else sides.new_cycles * (1 + change)
    return replace(sides, new_s=sides.new_s * (1 + change), new_cycles=cycles)


@lru_cache(maxsize=64)
def _drawn_from(condition: Condition, kernels: tuple[Kernel, ...]) -> tuple[list[Kernel], list[float]]:
    """Return the kernels that can have the condition's noise, and the part of it that is between runs."""
    own, between = [], []
    for kernel in kernels:
        rest = condition.noise**2 - noise_within(kernel) ** 2
        if (kernel.median_s < SHORT_S) == condition.short and rest >= 0:
            own.append(kernel)
            between.append(math.sqrt(rest))
    return own, between


def _effects(condition: Condition, between: Array, runs: int, rng: np.random.Generator) -> Array:
    """Return what each run's time is off by, as a logarithm, in the order in which runs are made."""
    import numpy as np

    shape = (len(between), 2 * runs)
    noise = rng.standard_t(3, shape) / math.sqrt(3) if condition.heavy else rng.standard_normal(shape)
    effects = between[:, None] * noise + condition.drift * np.linspace(-0.5, 0.5, 2 * runs)
    if condition.gap:
        effects = effects + condition.gap * (rng.random(shape) < condition.share)
    return np.asarray(effects, dtype=np.float64)


def _clock(condition: Condition, runs: int, pairs: int, rng: np.random.Generator) -> Array:
    """Return the logarithm of each run's SM clock over its usual one."""
    import numpy as np

    shape = (pairs, 2 * runs)
    clock = np.zeros(shape) - condition.heat * np.linspace(0.0, 1.0, 2 * runs)
    if condition.jitter:
        clock = clock + condition.jitter * rng.standard_normal(shape)
    if condition.sticky:
        lowered = np.arange(2 * runs) >= rng.integers(2 * runs + 1, size=pairs)[:, None]
        clock = clock + np.log(condition.throttled_to) * lowered
    elif condition.throttled:
        clock = clock + np.log(condition.throttled_to) * (rng.random(shape) < condition.throttled)
    return np.asarray(clock, dtype=np.float64)


def _launches(quantiles: Array, chosen: NDArray[np.int64], runs: int, rng: np.random.Generator) -> Array:
    """Return each launch over the kernel's median, drawn by inverting its quantiles.

    Of many runs it is the run's median launch alone: of the middle of n uniform numbers the distribution is Beta.
    """
    import numpy as np

    middle = (LAUNCHES + 1) / 2
    shape = (len(chosen), 2 * runs, LAUNCHES if _is_few(runs) else 1)
    levels = rng.random(shape) if _is_few(runs) else rng.beta(middle, middle, shape)
    place = levels * (len(LEVELS) - 1)
    below = np.minimum(place.astype(np.int64), len(LEVELS) - 2)
    own = quantiles[chosen]
    rows = np.arange(len(chosen))[:, None, None]
    low, high = own[rows, below], own[rows, below + 1]
    return np.asarray(low + (high - low) * (place - below), dtype=np.float64)


def _is_few(runs: int) -> bool:
    return runs < 5


def _places(order: Order, runs: int) -> tuple[list[int], list[int]]:
    """Return which runs are of the base side and which of the new one."""
    if order == "base, then new":
        return list(range(runs)), list(range(runs, 2 * runs))
    base = [2 * number + number % 2 for number in range(runs)]
    return base, [2 * number + 1 - number % 2 for number in range(runs)]
