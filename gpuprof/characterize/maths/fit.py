"""Fits of times to the laws that they must obey: each returns its parameters, its residual, and why it does not fit."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median, pstdev

from gpuprof.characterize.maths.statistics import ConfidenceInterval

SCALING_TOLERANCE = 0.01
"""Times at N, 2N and 4N lie on one line within 1 %, and so do the slopes between them."""
_GROWTH = 1.5
"""Four times the work takes at least that much longer, else the overhead is what was measured."""
_NEGATIVE_OVERHEAD = 0.05
"""An overhead so far below zero, as a fraction of the shortest time, is no noise: 1 % of the times make 4 % of it."""
SATURATION_TOLERANCE = 0.03
NEAR_PEAK = 0.95
"""The share of its peak at which a curve that saturates counts as saturated."""
CONFLICT_R_SQUARED = 0.999
COPY_TOLERANCE = 0.05
"""PCIe copies change their protocol with the size, so that small ones lie off the line by a few percent."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class LineFit:
    """y = intercept + slope·x. `residual` is the largest relative distance of a point; `misfit` None: it fits."""

    intercept: float
    slope: float
    residual: float
    r_squared: float
    misfit: str | None = None


@dataclass(frozen=True, slots=True)
class Scaling:
    """Time against iterations: seconds (or cycles) per iteration, and the overhead of a launch.

    `slope_change` is the largest relative difference between the slopes of neighbouring steps and that of the first.
    """

    per_iteration: float
    overhead: float
    residual: float
    slope_change: float
    misfit: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """y = min(peak, x ÷ latency). `knee` = peak × latency. None where the points show only one of the branches.

    `residual` is the root mean square of ln(y ÷ model).
    """

    residual: float
    peak: float | None = None
    latency: float | None = None
    knee: float | None = None
    misfit: str | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """The x at which a curve reaches a share of its highest point, with the points around it. None: it does not."""

    x: float | None = None
    low: float | None = None
    high: float | None = None
    misfit: str | None = None


@dataclass(frozen=True, slots=True)
class CopyTime:
    """T = latency + bytes ÷ bandwidth, in seconds and bytes/s. Half of the bandwidth is reached at `half_size`."""

    latency_s: float
    bandwidth: float
    half_size: float
    residual: float
    misfit: str | None


def scaling(points: Points, tolerance: float = SCALING_TOLERANCE) -> Scaling:
    """Fit time against iterations at N, 2N, 4N. The slope is the result; launch and loop entry are in the overhead.

    Raises ValueError for fewer than three numbers of iterations.
    """
    points = _distinct(points, 3)
    fitted = line(points)
    steps = [(y1 - y0) / (x1 - x0) for (x0, y0), (x1, y1) in itertools.pairwise(points)]
    change = max(abs(step / steps[0] - 1) for step in steps) if steps[0] else math.inf
    return Scaling(
        per_iteration=fitted.slope, overhead=fitted.intercept, residual=fitted.residual, slope_change=change,
        misfit=_scaling_misfit(points, fitted, change, tolerance),
    )  # fmt: skip


def _scaling_misfit(points: Points, fitted: LineFit, change: float, tolerance: float) -> str | None:
    (first_n, first_time), (last_n, last_time) = points[0], points[-1]
    if last_time < _GROWTH * first_time:
        return f"{last_n / first_n:g} times the iterations take {last_time / first_time:.3g} times as long"
    if fitted.residual > tolerance:
        return f"the times deviate from a line by {fitted.residual:.1%}, more than {tolerance:.0%}"
    if change > tolerance:
        return f"the time per iteration changes with their number by {change:.1%}, more than {tolerance:.0%}"
    if fitted.intercept < -_NEGATIVE_OVERHEAD * first_time:
        return f"zero iterations would take {fitted.intercept / first_time:.0%} of the time of {first_n:g}"
    return None


def slope_interval(
    samples: Mapping[float, Sequence[float]], *, confidence: float = 0.95, resamples: int = 2000, seed: int = 0
) -> ConfidenceInterval:
    """Return the bootstrap interval of the time per iteration: the line through medians of samples drawn anew."""
    import numpy as np

    generator = np.random.default_rng(seed)
    counts = np.array(sorted(samples), dtype=float)
    medians = np.stack(
        [
            np.median(
                generator.choice(np.asarray(samples[count], dtype=float), (resamples, len(samples[count]))), axis=1
            )
            for count in counts.tolist()
        ]
    )
    centred = counts - counts.mean()
    slopes = centred @ medians / (centred @ centred)
    low, high = np.quantile(slopes, ((1 - confidence) / 2, (1 + confidence) / 2))
    return ConfidenceInterval(float(low), float(high))


def medians(samples: Mapping[float, Sequence[float]]) -> tuple[tuple[float, float], ...]:
    """Return the median of each number of iterations, in their order: the points of a fit."""
    return tuple((count, median(samples[count])) for count in sorted(samples))


def line(points: Points, *, relative: bool = False) -> LineFit:
    """Return the least-squares line; with `relative`, of distances as fractions of y, for points over many decades.

    Raises ValueError for fewer than two different x.
    """
    points = _distinct(points, 2)
    weights = [1 / y**2 if relative else 1.0 for _, y in points]
    total = math.fsum(weights)
    mean_x = math.fsum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = math.fsum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    spread = math.fsum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    slope = math.fsum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True)) / spread
    intercept = mean_y - slope * mean_x
    errors = [y - intercept - slope * x for x, y in points]
    left = math.fsum(w * error**2 for w, error in zip(weights, errors, strict=True))
    all_ = math.fsum(w * (y - mean_y) ** 2 for w, (_, y) in zip(weights, points, strict=True))
    residual = max(abs(error) / y for error, (_, y) in zip(errors, points, strict=True))
    r_squared = 1 - left / all_ if all_ else 0.0
    return LineFit(intercept=intercept, slope=slope, residual=residual, r_squared=r_squared)


def conflict_line(points: Points) -> LineFit:
    """Fit cycles against the degree of a bank conflict: T = t0 + c·degree. N ways are N wavefronts, so it is a line."""
    fitted = line(_distinct(points, 3))
    if fitted.r_squared > CONFLICT_R_SQUARED:
        return fitted
    return replace(fitted, misfit=f"cycles over degree do not form a line: R² is {fitted.r_squared:.4f}")


def copy_time(points: Points) -> CopyTime:
    """Fit seconds against bytes of copies or launches that move them: T = a + b·bytes."""
    fitted = line(_distinct(points, 3), relative=True)
    bandwidth = 1 / fitted.slope if fitted.slope > 0 else math.inf
    misfit = None
    if fitted.slope <= 0:
        misfit = "the time does not grow with the size"
    elif fitted.residual > COPY_TOLERANCE:
        misfit = f"a size deviates from the line by {fitted.residual:.1%}, more than {COPY_TOLERANCE:.0%}"
    elif fitted.intercept < 0:
        misfit = "copying nothing would take negative time"
    return CopyTime(
        latency_s=fitted.intercept, bandwidth=bandwidth, half_size=fitted.intercept * bandwidth,
        residual=fitted.residual, misfit=misfit,
    )  # fmt: skip


def saturation(points: Points) -> Saturation:
    """Fit y = min(peak, x ÷ latency).

    Little's law: x bytes in flight, y bytes/s, latency in seconds. Latency hiding: x warps × independent instructions,
    y results per clock, latency in cycles. Raises ValueError for fewer than three different x.
    """
    ordered = _distinct(points, 3)
    logs = [(math.log(x), math.log(y)) for x, y in ordered]
    # A plateau of one point is none: it may be the last of the rise.
    fits = [_saturating(logs, rising) for rising in range(len(logs) + 1) if rising != len(logs) - 1]
    best = min(fits, key=lambda fit: fit.residual)
    if best.peak is None:
        return replace(best, misfit="it still rises at the largest value: the peak was not reached")
    if best.latency is None or ordered[0][1] >= NEAR_PEAK * best.peak:
        # A rise of one point that lies on the plateau is noise of the plateau.
        misfit = "the smallest value saturates already: the latency does not show"
        return Saturation(peak=best.peak, residual=best.residual, misfit=misfit)
    if best.residual > SATURATION_TOLERANCE:
        return replace(
            best, misfit=f"min(peak, x ÷ latency) is off by {best.residual:.1%}, more than {SATURATION_TOLERANCE:.0%}"
        )
    return best


def near_peak(points: Points, share: float = NEAR_PEAK) -> Reached:
    """Return the x at which a curve reaches `share` of its highest point.

    Real curves are round where min(peak, x ÷ latency) has its knee, and lie below their peak there. The curve is made
    monotone (no point lies below one before it) and is interpolated between the points around, against log x where the
    points are spaced by factors, else against x. Raises ValueError for fewer than three different x.
    """
    ordered = _distinct(points, 3)
    wanted = share * max(y for _, y in ordered)
    index = next(index for index, (_, y) in enumerate(ordered) if y >= wanted)
    if index == 0:
        return Reached(misfit=f"the smallest value reaches {100 * share:.0f} % of the peak already")
    if index == len(ordered) - 1:
        return Reached(misfit="it still rises at the largest value: the peak was not reached")
    (high, upper), low = ordered[index], ordered[index - 1][0]
    lower = max(y for _, y in ordered[:index])
    part = (wanted - lower) / (upper - lower)
    xs = [x for x, _ in ordered]
    x = low * (high / low) ** part if _by_factors(xs) else low + part * (high - low)
    return Reached(min(max(x, low), high), low, high)


def _by_factors(xs: Sequence[float]) -> bool:
    """Tell whether numbers that rise are spaced by factors rather than by differences: which of both vary less."""
    if xs[0] <= 0:
        return False
    steps, factors = ([f(after) - f(before) for before, after in itertools.pairwise(xs)] for f in (float, math.log))
    return pstdev(factors) / fmean(factors) < pstdev(steps) / fmean(steps)


def _saturating(logs: Points, rising: int) -> Saturation:
    """Fit with the first `rising` points on the rise and the others on the plateau."""
    latency = fmean(x - y for x, y in logs[:rising]) if rising else None
    peak = fmean(y for _, y in logs[rising:]) if rising < len(logs) else None
    errors = [y - min(_or(peak), x - latency if latency is not None else math.inf) for x, y in logs]
    return Saturation(
        peak=math.exp(peak) if peak is not None else None,
        latency=math.exp(latency) if latency is not None else None,
        knee=math.exp(peak + latency) if peak is not None and latency is not None else None,
        residual=math.sqrt(fmean(error**2 for error in errors)),
    )


def _or(value: float | None) -> float:
    return value if value is not None else math.inf


def _distinct(points: Points, least: int) -> Points:
    """Return the points sorted by x. Raises ValueError where they cannot determine what is asked of them."""
    ordered = sorted(points)
    if len({x for x, _ in ordered}) < least:
        raise ValueError(f"{least} different x are needed, not {len({x for x, _ in ordered})}")
    if not all(math.isfinite(x) and math.isfinite(y) and y > 0 for x, y in ordered):
        raise ValueError("a point is not finite, or not above zero")
    return ordered
