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
    fit = scaling(times)
    assert fit.per_iteration == pytest.approx(per_iteration, rel=1e-6)
    assert fit.overhead == pytest.approx(overhead, rel=1e-6, abs=1e-6 * per_iteration * first)
    assert fit.residual < 1e-9
    # Times that hardly grow are mostly overhead: 4N must take 1.5 times as long.
    assert (fit.misfit is None) == (times[2][1] >= 1.5 * times[0][1])


@each_row(
    ("times", "residual", "slope_change", "named"),
    [
        ((5.00e-6, 5.01e-6, 5.02e-6), None, None, "take 1 times"),  # dead code
        # Iterations 1 to N hit the cache, the others miss it.
        ((33e-6, 66e-6, 33e-6 * 2 + 2000 * 260e-9), None, None, "deviate"),
        # 2 % more time per iteration in the second step; every time within 1 % of the line.
        ((1.0, 2.0, 4.04), 0.01, 0.02, "2.0%, more than 1%"),
        ((0.9, 1.9, 3.9), 1e-9, None, "-11%"),  # zero iterations would take less than no time
        ((1.0 * 1.001, 2.0 * 0.999, 4.0 * 1.001), None, None, None),  # half a percent of noise
    ],
)
def test_times_that_do_not_scale_are_told(
    times: tuple[float, ...], residual: float | None, slope_change: float | None, named: str | None
) -> None:
    fit = scaling(list(zip((1000, 2000, 4000), times, strict=True)))
    assert residual is None or fit.residual < residual
    assert slope_change is None or fit.slope_change == pytest.approx(slope_change)
    assert (fit.misfit is None) == (named is None)
    assert (named or "") in (fit.misfit or "")


def test_scaling_takes_medians_of_three_numbers_of_iterations() -> None:
    assert medians({400: [9.0, 1.0, 4.0], 100: [1.0]}) == ((100, 1.0), (400, 4.0))
    with pytest.raises(ValueError, match="3 different x"):
        scaling([(1000, 1.0), (1000, 1.1), (2000, 2.0)])


def test_interval_of_the_slope_contains_the_true_one_in_about_95_of_100_cases() -> None:
    inside = 0
    for seed in range(60):
        generator = random.Random(seed)
        samples = {float(n): [(2.0 + 0.5 * n) * generator.gauss(1, 0.01) for _ in range(15)] for n in (100, 200, 400)}
        low, high = slope_interval(samples, seed=seed, resamples=500)
        inside += low <= 0.5 <= high
    assert 0.90 <= inside / 60 <= 0.99


def test_line_worked_out_by_hand() -> None:
    # Means 2 and 10/3; Σdx·dy = 3, Σdx² = 2; residuals 1/6, -1/3, 1/6; of Σdy² = 42/9 the line leaves 1/6.
    fit = line([(1, 2), (2, 3), (3, 5)])
    assert fit.slope == pytest.approx(1.5)
    assert fit.intercept == pytest.approx(1 / 3)
    assert fit.residual == pytest.approx((1 / 3) / 3)
    assert fit.r_squared == pytest.approx(1 - (1 / 6) / (42 / 9))


def test_bank_conflicts_of_one_wavefront_a_way_are_a_line() -> None:
    fit = conflict_line([(degree, 22 + degree) for degree in (1, 2, 4, 8, 16, 32)])
    assert fit.misfit is None
    assert (fit.slope, fit.intercept) == pytest.approx((1.0, 22.0))
    assert fit.r_squared > 0.999
    # The divisors of the bandwidth that a B300 catalogue published: its first value was bound by issue.
    published = conflict_line([(2, 1.4), (4, 2.0), (8, 3.5), (16, 6.7), (32, 13.0)])
    assert published.misfit is None and published.slope < 0.42  # 0.4 wavefronts a way, which no bank conflict is
    assert conflict_line([(1, 23), (2, 24), (4, 26), (8, 30), (16, 30), (32, 30)]).misfit is not None


@given(st.floats(1e-6, 1e-4), st.floats(1e9, 1e12))
def test_copy_time_recovers_latency_and_bandwidth(latency: float, bandwidth: float) -> None:
    sizes = [4096 * 4**step for step in range(10)]
    fit = copy_time([(size, latency + size / bandwidth) for size in sizes])
    assert fit.misfit is None
    assert fit.latency_s == pytest.approx(latency, rel=1e-6)
    assert fit.bandwidth == pytest.approx(bandwidth, rel=1e-6)
    assert fit.half_size == pytest.approx(latency * bandwidth, rel=1e-6)


@given(positive, positive, st.integers(2, 6), st.integers(3, 6))
def test_saturation_recovers_peak_latency_and_knee(peak: float, latency: float, rising: int, flat: int) -> None:
    knee = peak * latency
    xs = [knee * 2.0**step / 1.5 for step in range(-rising + 1, flat)]
    fit = saturation([(x, min(peak, x / latency)) for x in xs])
    assert fit.misfit is None
    assert fit.peak == pytest.approx(peak, rel=1e-6)
    assert fit.latency == pytest.approx(latency, rel=1e-6)
    assert fit.knee == pytest.approx(knee, rel=1e-6)
    assert fit.residual < 1e-6


@each_row(
    ("points", "peak", "latency", "knee", "fits"),
    [
        # 600 ns at 4 TB/s: 2.4 MB in flight saturate; half of that gives half of the bandwidth.
        ([(0.6e6, 1e12), (1.2e6, 2e12), (4.8e6, 4e12), (9.6e6, 4e12)], 4e12, 600e-9, 2.4e6, True),
        # FFMA: 4 cycles, 4 warp instructions a clock: 16 warps × ILP.
        ([(n, min(4.0, n / 4)) for n in (1, 2, 4, 8, 16, 32, 64)], 4.0, 4.0, 16.0, True),
        ([(1.0, 4.0), (2.0, 5.0), (4.0, 5.0)], 5.0, 0.25, 1.25, True),
        ([(1.0, 1.0), (2.0, 2.0), (4.0, 4.0)], None, 1.0, None, False),  # it still rises
        ([(1.0, 5.0), (2.0, 5.0), (4.0, 5.0)], 5.0, None, None, False),  # flat from the start
        # A rise of first point within the noise of the plateau is none.
        ([(512.0, 4.85), (1024.0, 5.001), (2048.0, 4.999), (4096.0, 5.002), (8192.0, 5.0)], 5.0, None, None, False),
    ],
)  # fmt: skip
def test_littles_law_worked_out_by_hand(
    points: list[tuple[float, float]], peak: float | None, latency: float | None, knee: float | None, fits: bool
) -> None:
    fit = saturation(points)
    for number, expected in ((fit.peak, peak), (fit.latency, latency), (fit.knee, knee)):
        assert number == (None if expected is None else pytest.approx(expected, rel=7e-3))
    assert (fit.misfit is None) == fits


def test_smooth_saturation_is_not_the_law() -> None:
    fit = saturation([(x, 8 * x / (x + 4)) for x in (1, 2, 4, 8, 16, 32, 64)])
    assert fit.residual > 0.03
    assert fit.misfit is not None


# Where a curve is saturated, worked out by hand


@each_row(
    ("points", "x", "low", "high"),
    [
        # The peak is 6, 95 % of it 5.7: 0.85 of the way from 4 to 6, and by factors 4 × 2 ** 0.85. The knee is at 6.
        ([(1, 1), (2, 2), (4, 4), (8, 6), (16, 6), (32, 6)], 4 * 2**0.85, 4, 8),
        # A rounder curve of the same peak and latency: 5.7 is 0.875 of the way from 5.0 to 5.8.
        ([(1, 1), (2, 1.9), (4, 3.4), (8, 5.0), (16, 5.8), (32, 6.0)], 8 * 2**0.875, 8, 16),
        # Counts are interpolated by differences: 95 % of 8 is 7.6, 0.8 of the way from 6 to 8: 3.8 warps.
        ([(1, 2), (2, 4), (3, 6), (4, 8), (5, 8), (6, 8)], 3.8, 3, 4),
        # The curve made monotone has 4 at 8, too: 95 % of 6 is 0.85 of the way from 4 to 6.
        ([(1, 1), (2, 2), (4, 4), (8, 3), (16, 6), (32, 6)], 8 * 2**0.85, 8, 16),
        # A peak that is lost again was reached.
        ([(1, 1), (2, 2), (4, 4), (8, 3), (16, 2)], 2 * 2**0.9, 2, 4),
        ([(1, 1), (2, 2), (4, 4)], None, None, None),  # it still rises
        ([(1, 5), (2, 5), (4, 5)], None, None, None),  # it starts at its peak
    ],
)
def test_where_95_percent_of_the_peak_are_reached(
    points: list[tuple[float, float]], x: float | None, low: float | None, high: float | None
) -> None:
    fit = near_peak(points)
    assert fit.x == (None if x is None else pytest.approx(x))
    assert (fit.misfit is None) == (x is not None)
    if x is not None:
        assert (fit.low, fit.high) == (low, high)


@given(st.lists(st.tuples(positive, positive), min_size=3, max_size=12, unique_by=lambda point: point[0]))
def test_saturation_lies_between_the_points_around_it(points: list[tuple[float, float]]) -> None:
    fit = near_peak(points)
    if fit.x is None:
        assert fit.misfit
    else:
        assert fit.low is not None and fit.high is not None
        assert fit.low <= fit.x <= fit.high
        wanted = 0.95 * max(y for _, y in points)
        assert max(y for x, y in points if x <= fit.low) < wanted <= dict(points)[fit.high]


@each_row("points", [[(1.0, 1.0)] * 5, [(1.0, 1.0), (2.0, -1.0), (3.0, 3.0)], [(1, 1), (2, float("nan")), (3, 3)]])
def test_points_that_determine_nothing_are_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(ValueError, match=r"x are needed|not above zero"):
        saturation(points)
    with pytest.raises(ValueError, match=r"x are needed|not above zero"):
        near_peak(points)
