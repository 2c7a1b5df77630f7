"""Steps of synthetic latency curves whose capacities are known: noise, outliers, one to four levels, ramps, nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.characterize.maths.change_points import Break, across_allocations, breaks
from tests.table import each_row

KIB, MIB = 2**10, 2**20
SIZES = [4 * KIB * 2 ** (step / 8) for step in range(137)]
"""4 KiB to 512 MiB, eight a doubling."""

LEVELS: dict[str, list[tuple[float, float]]] = {
    "none": [(math.inf, 33.0)],
    "one": [(192 * KIB, 33.0), (math.inf, 265.0)],
    "two": [(192 * KIB, 33.0), (20 * MIB, 205.0), (math.inf, 560.0)],
    "three": [(192 * KIB, 33.0), (20 * MIB, 205.0), (45 * MIB, 400.0), (math.inf, 560.0)],
    "four": [(16 * KIB, 33.0), (192 * KIB, 120.0), (20 * MIB, 205.0), (45 * MIB, 400.0), (math.inf, 560.0)],
}
"""Latencies up to a capacity, in the range of an A100."""


def staircase(levels: list[tuple[float, float]], noise: float = 0.0, seed: int = 0) -> list[float]:
    generator = random.Random(seed)
    level = [next(latency for capacity, latency in levels if size <= capacity) for size in SIZES]
    return [latency * generator.gauss(1, noise) for latency in level]


def capacities(levels: list[tuple[float, float]]) -> list[float]:
    return [max(size for size in SIZES if size <= capacity) for capacity, _ in levels[:-1]]


def places(told: tuple[Break, ...]) -> list[float]:
    return [each.last_before for each in told]


@each_row("name", LEVELS)
def test_every_level_of_a_clean_staircase_is_found(name: str) -> None:
    told = breaks(SIZES, staircase(LEVELS[name]))
    assert places(told) == capacities(LEVELS[name])
    latencies = [latency for _, latency in LEVELS[name]]
    assert [own.before for own in told] == pytest.approx(latencies[:-1])
    assert [own.after for own in told] == pytest.approx(latencies[1:])
    assert all(own.kind == "step" and own.p < 0.01 for own in told)


@each_row("name", ["two", "four"])
def test_one_percent_of_noise_moves_hardly_a_break(name: str) -> None:
    exact = 0
    for seed in range(2):
        told = breaks(SIZES, staircase(LEVELS[name], 0.01, seed), permutations=199)
        exact += places(told) == capacities(LEVELS[name])
    assert exact == 2


def test_noise_without_a_step_has_hardly_ever_a_break() -> None:
    false = sum(bool(breaks(SIZES, staircase(LEVELS["none"], 0.05, seed), permutations=199)) for seed in range(8))
    assert false <= 1


def test_outliers_at_single_sizes_are_no_breaks() -> None:
    curve = staircase(LEVELS["two"], 0.01, 1)
    for index in (3, 20, 60, 61 + 19, 130):
        curve[index] *= 5
    assert places(breaks(SIZES, curve)) == capacities(LEVELS["two"])


def ramp(total: float) -> Callable[[int], float]:
    return lambda index: 100 * (1 + total * index / len(SIZES))


@each_row("total", [0.03, 3.0])
@each_row("noise", [0.01])
def test_slow_ramp_has_no_step(total: float, noise: float) -> None:
    generator = random.Random(5)
    curve = [ramp(total)(index) * generator.gauss(1, noise) for index in range(len(SIZES))]
    assert breaks(SIZES, curve, permutations=199) == ()


def test_ramp_between_two_plateaus_is_one_break_with_begin_and_end() -> None:
    # 200 cycles up to point 50, 600 from point 90 on: as a set-associative cache with a random policy fills up.
    curve = [200.0 if index < 50 else 200 + 10 * (index - 50) if index < 90 else 600.0 for index in range(len(SIZES))]
    (told,) = breaks(SIZES, curve)
    assert told.kind == "ramp"
    assert [told.before, told.after] == pytest.approx([200.0, 600.0])
    assert told.first_after is not None
    assert abs(SIZES.index(told.last_before) - 50) <= 3
    assert abs(SIZES.index(told.first_after) - 90) <= 3  # within a twentieth of the step


@given(st.lists(st.floats(1e-3, 1e6), min_size=0, max_size=30))
@settings(max_examples=25, deadline=None)
def test_any_curve_gives_breaks_in_order_and_within_it(latencies: list[float]) -> None:
    sizes = [float(2**index) for index in range(len(latencies))]
    told = breaks(sizes, latencies, permutations=99, alpha=0.05)
    assert places(told) == sorted(places(told))
    assert all(own.last_before in sizes and (own.first_after is None or own.first_after in sizes) for own in told)
    assert all(own.first_after is None or own.first_after > own.last_before for own in told)


@each_row(
    ("sizes", "latencies", "why"),
    [([1.0, 2.0], [1.0], "2 sizes, but 1 latencies"), ([2.0, 1.0], [1.0, 1.0], "sizes must rise"),
     ([1.0, 2.0], [1.0, 0.0], "above zero"), ([1.0, 2.0], [1.0, float("nan")], "finite")],
)  # fmt: skip
def test_curves_that_are_none_are_refused(sizes: list[float], latencies: list[float], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        breaks(sizes, latencies)


def of(sizes: list[float], levels: list[tuple[float, float]], seed: int) -> tuple[Break, ...]:
    whole = dict(zip(SIZES, staircase(levels, 0.002, seed), strict=True))
    return breaks(sizes, [whole[size] for size in sizes], permutations=199)


COARSE = SIZES[::4]
"""Two a doubling."""


FAR = [(1 * MIB, 33.0), (math.inf, 265.0)]
STEP = SIZES.index(capacities(LEVELS["one"])[0])


def at(index: int) -> list[tuple[float, float]]:
    return [(SIZES[index], 33.0), (math.inf, 265.0)]


@each_row(
    ("levels", "measured", "places_", "seen"),
    [
        # A break that three allocations show at the same place is stable.
        ([LEVELS["two"]] * 3, [SIZES] * 3, [*capacities(LEVELS["two"])], [(3, 3, True)] * 2),
        # One that moves with the allocation is not.
        ([at(STEP - 5), at(STEP), at(STEP - 2)], [SIZES] * 3, None, [(1, 3, False)] * 3),
        # One that lacks it speaks against it.
        ([LEVELS["one"], LEVELS["one"], LEVELS["none"]], [SIZES] * 3, [SIZES[STEP]], [(2, 3, False)]),
        # A coarse allocation whose step is elsewhere is no agreement.
        ([LEVELS["one"], LEVELS["one"], FAR], [SIZES, COARSE, COARSE], None, [(2, 3, False), (1, 3, False)]),
    ],
)
def test_a_break_is_stable_that_three_allocations_show_where_they_were_measured(
    levels: list[list[tuple[float, float]]], measured: list[list[float]], places_: list[float] | None,
    seen: list[tuple[int, int, bool]],
) -> None:  # fmt: skip
    shown = [of(sizes, own, seed) for seed, (sizes, own) in enumerate(zip(measured, levels, strict=True))]
    told = across_allocations(shown, measured)
    assert [(each.seen, each.allocations, each.stable) for each in told] == seen
    if places_ is not None:
        assert [each.last_before for each in told] == places_
