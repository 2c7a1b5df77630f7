"""Statistics of timed samples: medians, undisturbed latencies, intervals, stopping, and rounds in random order."""

from __future__ import annotations

import random
from collections import Counter
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.characterize.maths.statistics import (
    StopRule,
    bootstrap,
    clusters,
    estimate,
    half_sample_mode,
    lowest_mode,
    rounds,
    stop_reason,
)
from tests.table import each_row

times = st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=40)


def normal(count: int, seed: int, mean: float = 100.0, spread: float = 1.0) -> list[float]:
    generator = random.Random(seed)
    return [generator.gauss(mean, spread) for _ in range(count)]


def test_interval_contains_the_true_median_in_about_95_of_100_cases() -> None:
    trials = 150
    inside = sum(
        low <= 100.0 <= high for low, high in (bootstrap(normal(25, seed), seed=seed) for seed in range(trials))
    )
    assert 0.9 <= inside / trials <= 0.99


@given(times)
@settings(max_examples=50, deadline=None)
def test_interval_is_the_same_for_the_same_samples_and_lies_within_them(values: list[float]) -> None:
    interval = bootstrap(values, resamples=200)
    assert interval == bootstrap(values, resamples=200)
    assert min(values) <= interval.low <= interval.high <= max(values)


@given(times, st.sampled_from([2.0**-10, 2.0, 2.0**20]))
@settings(max_examples=50, deadline=None)
def test_estimate_scales_with_its_samples(values: list[float], factor: float) -> None:
    own, other = estimate(values), estimate([value * factor for value in values])
    assert other.value == own.value * factor
    assert other.interval.low == pytest.approx(own.interval.low * factor, rel=1e-12)
    assert other.half_width == pytest.approx(own.half_width, rel=1e-9, abs=1e-12)


@each_row("values", [[], [1.0, float("nan")], [float("inf")]])
def test_samples_that_are_none_or_no_numbers_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="sample"):
        estimate(values)


def test_undisturbed_latency_is_the_lowest_frequent_value() -> None:
    # 60 hits at 33 cycles, 35 loads that another warp delayed, 4 refreshes, one reading of a clock that went wrong.
    values = [33.0] * 60 + [47.0] * 35 + [610.0] * 4 + [12.0]
    assert lowest_mode(values) == 33.0
    assert median([*values, *[47.0] * 40]) == 47.0
    assert lowest_mode([*values, *[47.0] * 40]) == 33.0
    assert lowest_mode([260.0] * 15 + [415.0] * 85) == 260.0
    assert lowest_mode([10.0, 20.0, 40.0, 41.5, 80.0]) == pytest.approx(40.75)
    near, far = clusters([205.0, 206.0, 204.5, 399.0, 401.0, 400.0])
    assert (near[0], near[-1], far[0], far[-1]) == (204.5, 206.0, 399.0, 401.0)


def test_mode_of_a_few_values_is_worked_out_by_hand() -> None:
    assert half_sample_mode([5.0]) == 5.0
    assert half_sample_mode([1.0, 2.0]) == 1.5
    assert half_sample_mode([1.0, 2.0, 9.0]) == 1.5
    assert half_sample_mode([1.0, 2.0, 3.0]) == 2.0
    assert half_sample_mode([1.0, 5.0, 5.5, 6.0, 20.0, 30.0]) == 5.5


def test_measuring_goes_on_until_enough_samples_agree_or_the_time_is_up() -> None:
    steady = [100.0, 100.1] * 10
    assert stop_reason(steady[:10], 1.0) is None
    assert stop_reason(steady, 1.0) == "settled"
    assert stop_reason([90.0, 100.0, 110.0] * 5, 1.0) is None
    assert stop_reason([90.0, 110.0], 14.9) is None
    assert stop_reason([90.0, 110.0], 15.0) == "time is up"
    assert stop_reason([90.0, 110.0], 3.0, StopRule(longest_s=2.0)) == "time is up"


def test_rounds_visit_each_configuration_once_in_changing_order() -> None:
    shapes = [f"shape {index}" for index in range(12)]
    told = list(rounds(shapes, 5, seed=3))
    assert all(Counter(own) == Counter(shapes) for own in told)
    assert len(set(told)) == 5
    assert told == list(rounds(shapes, 5, seed=3))
