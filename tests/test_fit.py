"""Fits recover the parameters of synthetic curves, and say when the law does not hold."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.characterize.maths.fit import (
    conflict_line,
    copy_time,
    line,
    medians,
    near_peak,
    saturation,
    scaling,
    slope_interval,
)
from tests.table import each_row

positive = st.floats(1e-9, 1e9)


@given(st.floats(1e-9, 1e-3), st.floats(0, 10), st.integers(1, 10_000))
def test_scaling_recovers_time_per_iteration_and_overhead(per_iteration: float, share: float, first: int) -> None:
    overhead = share * per_iteration * first
    times = [(n * first, overhead + per_iteration * n * first) for n in (1, 2, 4)]
    found = scaling(times)
    assert found.per_iteration == pytest.approx(per_iteration, rel=1e-6)
    assert found.overhead == pytest.approx(overhead, rel=1e-6, abs=1e-6 * per_iteration * first)
    assert found.residual < 1e-9
    # Times that hardly grow are mostly overhead: 4N must take 1.5 times as long.
    assert (found.misfit is None) == (times[2][1] >= 1.5 * times[0][1])


@given(positive, st.sampled_from([2.0**-20, 2.0, 2.0**30]))
def test_scaling_residual_does_not_depend_on_the_unit_of_time(base: float, unit: float) -> None:
    times = [(1.0, base), (2.0, 2.03 * base), (4.0, 3.9 * base)]
    one, other = scaling(times), scaling([(n, time * unit) for n, time in times])
    assert other.residual == pytest.approx(one.residual, rel=1e-9)
    assert other.misfit == one.misfit


def test_time_that_does_not_grow_is_dead_code() -> None:
    found = scaling([(1000, 5.00e-6), (2000, 5.01e-6), (4000, 5.02e-6)])
    assert found.misfit == "4 times the iterations take 1 times as long"


def test_time_that_grows_faster_than_the_iterations_does_not_scale() -> None:
    # Iterations 1 to N hit the cache, the others miss it.
    found = scaling([(1000, 33e-6), (2000, 66e-6), (4000, 33e-6 * 2 + 2000 * 260e-9)])
    assert found.misfit is not None
    assert "deviate from a line" in found.misfit


def test_slopes_that_differ_by_more_than_a_percent_do_not_scale() -> None:
    # 2 % more time per iteration in the second step; every time within 1 % of the line.
    found = scaling([(1000, 1.0), (2000, 2.0), (4000, 4.04)])
    assert found.residual < 0.01
    assert found.slope_change == pytest.approx(0.02)
    assert found.misfit == "the time per iteration changes with their number by 2.0%, more than 1%"


def test_negative_overhead_is_no_overhead() -> None:
    found = scaling([(1000, 0.9), (2000, 1.9), (4000, 3.9)])
    assert found.residual < 1e-9
    assert found.misfit == "zero iterations would take -11% of the time of 1000"


def test_half_a_percent_of_noise_still_scales() -> None:
    assert scaling([(1000, 1.0 * 1.001), (2000, 2.0 * 0.999), (4000, 4.0 * 1.001)]).misfit is None


def test_scaling_needs_three_numbers_of_iterations() -> None:
    with pytest.raises(ValueError, match="3 different x"):
        scaling([(1000, 1.0), (1000, 1.1), (2000, 2.0)])


def test_interval_of_the_slope_contains_the_true_one_in_about_95_of_100_cases() -> None:
    inside = 0
    for seed in range(200):
        generator = random.Random(seed)
        samples = {float(n): [(2.0 + 0.5 * n) * generator.gauss(1, 0.01) for _ in range(15)] for n in (100, 200, 400)}
        low, high = slope_interval(samples, seed=seed, resamples=500)
        inside += low <= 0.5 <= high
    assert 0.90 <= inside / 200 <= 0.99


def test_points_of_a_fit_are_medians_in_order_of_iterations() -> None:
    assert medians({400: [9.0, 1.0, 4.0], 100: [1.0]}) == ((100, 1.0), (400, 4.0))


@given(st.floats(-1e3, 1e3), st.floats(0.02, 1e3))
def test_line_recovers_its_parameters(intercept: float, slope: float) -> None:
    points = [(x, intercept + slope * x) for x in (1e5, 2e5, 5e5)]
    for relative in (False, True):
        found = line(points, relative=relative)
        assert found.slope == pytest.approx(slope, rel=1e-6)
        assert found.intercept == pytest.approx(intercept, rel=1e-4, abs=1e-4 * slope)


def test_line_worked_out_by_hand() -> None:
    # Means 2 and 10/3; Σdx·dy = 3, Σdx² = 2; residuals 1/6, -1/3, 1/6; of Σdy² = 42/9 the line leaves 1/6.
    found = line([(1, 2), (2, 3), (3, 5)])
    assert found.slope == pytest.approx(1.5)
    assert found.intercept == pytest.approx(1 / 3)
    assert found.residual == pytest.approx((1 / 3) / 3)
    assert found.r_squared == pytest.approx(1 - (1 / 6) / (42 / 9))


def test_bank_conflicts_of_one_wavefront_a_way_are_a_line() -> None:
    found = conflict_line([(degree, 22 + degree) for degree in (1, 2, 4, 8, 16, 32)])
    assert found.misfit is None
    assert found.slope == pytest.approx(1.0)
    assert found.intercept == pytest.approx(22.0)
    assert found.r_squared > 0.999


def test_conflicts_that_saturate_are_no_line() -> None:
    # The divisors of the bandwidth that a B300 catalogue published: its first value was bound by issue.
    found = conflict_line([(2, 1.4), (4, 2.0), (8, 3.5), (16, 6.7), (32, 13.0)])
    assert found.misfit is None  # a line, but
    assert found.slope < 0.42  # of 0.4 wavefronts a way, which no bank conflict is
    assert conflict_line([(1, 23), (2, 24), (4, 26), (8, 30), (16, 30), (32, 30)]).misfit is not None


@given(st.floats(1e-6, 1e-4), st.floats(1e9, 1e12))
def test_copy_time_recovers_latency_and_bandwidth(latency: float, bandwidth: float) -> None:
    sizes = [4096 * 4**step for step in range(10)]
    found = copy_time([(size, latency + size / bandwidth) for size in sizes])
    assert found.misfit is None
    assert found.latency_s == pytest.approx(latency, rel=1e-6)
    assert found.bandwidth == pytest.approx(bandwidth, rel=1e-6)
    assert found.half_size == pytest.approx(latency * bandwidth, rel=1e-6)


def test_copy_that_changes_its_way_does_not_fit() -> None:
    found = copy_time([(2**12, 3e-6), (2**16, 8e-6), (2**20, 2.5e-5), (2**24, 3.1e-4), (2**28, 9.9e-3)])
    assert found.misfit is not None
    assert "deviates from the line" in found.misfit


def test_time_that_falls_with_the_size_is_no_copy() -> None:
    assert copy_time([(1, 3.0), (2, 2.0), (3, 1.0)]).misfit == "the time does not grow with the size"


@given(positive, positive, st.integers(2, 6), st.integers(3, 6))
def test_saturation_recovers_peak_latency_and_knee(peak: float, latency: float, rising: int, flat: int) -> None:
    knee = peak * latency
    xs = [knee * 2.0**step / 1.5 for step in range(-rising + 1, flat)]
    found = saturation([(x, min(peak, x / latency)) for x in xs])
    assert found.misfit is None
    assert found.peak == pytest.approx(peak, rel=1e-6)
    assert found.latency == pytest.approx(latency, rel=1e-6)
    assert found.knee == pytest.approx(knee, rel=1e-6)
    assert found.residual < 1e-6


@given(st.sampled_from([2.0**-30, 2.0**10]), st.sampled_from([2.0**-20, 2.0**15]))
def test_saturation_is_invariant_to_units(x_unit: float, y_unit: float) -> None:
    points = [(1.0, 1.02), (2.0, 1.97), (4.0, 4.1), (8.0, 5.9), (16.0, 6.1), (32.0, 6.0)]
    one = saturation(points)
    other = saturation([(x * x_unit, y * y_unit) for x, y in points])
    assert one.peak is not None and other.peak is not None and one.knee is not None and other.knee is not None
    assert other.peak == pytest.approx(one.peak * y_unit)
    assert other.knee == pytest.approx(one.knee * x_unit)
    assert other.residual == pytest.approx(one.residual)


def test_littles_law_worked_out_by_hand() -> None:
    # 600 ns at 4 TB/s: 2.4 MB in flight saturate; half of that gives half of the bandwidth.
    points = [(0.6e6, 1e12), (1.2e6, 2e12), (4.8e6, 4e12), (9.6e6, 4e12)]
    found = saturation(points)
    assert found.peak == pytest.approx(4e12)
    assert found.latency == pytest.approx(600e-9)
    assert found.knee == pytest.approx(2.4e6)


def test_latency_hiding_needs_latency_times_peak_warps() -> None:
    # FFMA: 4 cycles, 4 warp instructions a clock: 16 warps × ILP.
    points = [(n, min(4.0, n / 4)) for n in (1, 2, 4, 8, 16, 32, 64)]
    found = saturation(points)
    assert found.latency == pytest.approx(4.0)
    assert found.knee == pytest.approx(16.0)


def test_bandwidth_that_still_rises_has_no_peak() -> None:
    found = saturation([(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)])
    assert (found.peak, found.knee) == (None, None)
    assert found.latency == pytest.approx(1.0)
    assert found.misfit == "it still rises at the largest value: the peak was not reached"


def test_bandwidth_that_is_flat_from_the_start_shows_no_latency() -> None:
    found = saturation([(1.0, 5.0), (2.0, 5.0), (4.0, 5.0)])
    assert found.peak == pytest.approx(5.0)
    assert found.latency is None
    assert found.misfit == "the smallest value saturates already: the latency does not show"


@each_row("first", [0.951, 0.97, 0.999, 1.0, 1.03])
def test_rise_of_one_point_within_the_noise_of_the_plateau_is_none(first: float) -> None:
    found = saturation([(512.0, 5.0 * first), (1024.0, 5.001), (2048.0, 4.999), (4096.0, 5.002), (8192.0, 5.0)])
    assert (found.latency, found.knee) == (None, None)
    assert found.misfit == "the smallest value saturates already: the latency does not show"


def test_rise_of_one_point_below_the_plateau_shows_the_latency() -> None:
    found = saturation([(1.0, 4.0), (2.0, 5.0), (4.0, 5.0)])
    assert found.latency == pytest.approx(0.25)
    assert found.knee == pytest.approx(1.25)
    assert found.misfit is None


def test_smooth_saturation_is_not_the_law() -> None:
    found = saturation([(x, 8 * x / (x + 4)) for x in (1, 2, 4, 8, 16, 32, 64)])
    assert found.residual > 0.03
    assert found.misfit is not None


# Where a curve is saturated, worked out by hand


def test_sharp_curve_is_saturated_just_below_its_knee() -> None:
    # The peak is 6, 95 % of it 5.7: 0.85 of the way from 4 to 6, and by factors 4 × 2 ** 0.85. The knee is at 6.
    found = near_peak([(1, 1), (2, 2), (4, 4), (8, 6), (16, 6), (32, 6)])
    assert found.x == pytest.approx(4 * 2**0.85)
    assert (found.low, found.high, found.misfit) == (4, 8, None)


def test_round_curve_of_the_same_peak_and_latency_is_saturated_later() -> None:
    # 5.7 is 0.875 of the way from 5.0 to 5.8.
    found = near_peak([(1, 1), (2, 1.9), (4, 3.4), (8, 5.0), (16, 5.8), (32, 6.0)])
    assert found.x == pytest.approx(8 * 2**0.875)
    assert (found.low, found.high) == (8, 16)


def test_counts_are_interpolated_by_differences() -> None:
    # 95 % of 8 is 7.6, which is 0.8 of the way from 6 to 8: 3.8 warps.
    found = near_peak([(1, 2), (2, 4), (3, 6), (4, 8), (5, 8), (6, 8)])
    assert found.x == pytest.approx(3.8)


def test_dip_before_the_peak_moves_nothing_but_the_point_that_it_is_at() -> None:
    # The curve made monotone has 4 at 8, too: 95 % of 6 is 0.85 of the way from 4 to 6.
    found = near_peak([(1, 1), (2, 2), (4, 4), (8, 3), (16, 6), (32, 6)])
    assert found.x == pytest.approx(8 * 2**0.85)


def test_peak_that_is_lost_again_was_reached() -> None:
    found = near_peak([(1, 1), (2, 2), (4, 4), (8, 3), (16, 2)])
    assert found.x == pytest.approx(2 * 2**0.9)


def test_curve_that_still_rises_or_starts_at_its_peak_says_so() -> None:
    assert near_peak([(1, 1), (2, 2), (4, 4)]).misfit == "it still rises at the largest value: the peak was not reached"
    assert near_peak([(1, 5), (2, 5), (4, 5)]).misfit == "the smallest value reaches 95 % of the peak already"
    assert near_peak([(1, 1), (2, 2), (4, 4)]).x is None


def rounded(p: float) -> list[tuple[float, float]]:
    """A curve of peak 1 and knee 1, the rounder the smaller p."""
    return [(x, (x**-p + 1) ** (-1 / p)) for x in (2.0 ** (step / 4) for step in range(-16, 41))]


@given(st.floats(0.8, 12), st.floats(0.8, 12))
def test_rounder_curve_is_saturated_no_earlier(one: float, other: float) -> None:
    sharp, rounder = (near_peak(rounded(p)).x for p in (max(one, other), min(one, other)))
    assert sharp is not None and rounder is not None
    assert rounder >= sharp * (1 - 1e-9)
    assert sharp > 0.9


@given(st.floats(0.8, 12), positive, positive)
def test_saturation_scales_with_its_units(p: float, x_unit: float, y_unit: float) -> None:
    one, other = near_peak(rounded(p)), near_peak([(x * x_unit, y * y_unit) for x, y in rounded(p)])
    assert one.x is not None and other.x is not None
    assert other.x == pytest.approx(one.x * x_unit)


@given(st.lists(st.tuples(positive, positive), min_size=3, max_size=12, unique_by=lambda point: point[0]))
def test_saturation_lies_between_the_points_around_it(points: list[tuple[float, float]]) -> None:
    found = near_peak(points)
    if found.x is None:
        assert found.misfit
    else:
        assert found.low is not None and found.high is not None
        assert found.low <= found.x <= found.high
        wanted = 0.95 * max(y for _, y in points)
        assert max(y for x, y in points if x <= found.low) < wanted <= dict(points)[found.high]


@each_row("points", [[(1.0, 1.0)] * 5, [(1.0, 1.0), (2.0, -1.0), (3.0, 3.0)], [(1, 1), (2, float("nan")), (3, 3)]])
def test_points_that_determine_nothing_are_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match=r"x are needed|not above zero"):
        saturation(points)
    with pytest.raises(ValueError, match=r"x are needed|not above zero"):
        near_peak(points)
