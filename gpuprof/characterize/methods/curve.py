"""Curves along a parameter: capacities from steps, granules from plateaus, conflicts from lines, saturation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.verdict import CheckState, VerdictCheck
from gpuprof.characterize.maths.change_points import StableBreak, across_allocations, breaks
from gpuprof.characterize.maths.fit import conflict_line
from gpuprof.characterize.maths.statistics import ConfidenceInterval, rounds
from gpuprof.characterize.measure.effort import Effort
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.forecast import Cost, PointPlan, Where, points_cost, walks
from gpuprof.characterize.measure.points import measure_points
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.methods.method import Method
from gpuprof.characterize.methods.saturation import saturation_results
from gpuprof.characterize.record.reduction import middle
from gpuprof.characterize.record.series import FixedValues, Series
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.curve_points import (
    CurvePoint,
    curve_of,
    curve_points,
    joint,
    of_sizes,
    own_value,
    read_off,
    x_of,
    y_unit,
)
from gpuprof.characterize.results.judging import Judging, assignment_of, by_point, no_value, published
from gpuprof.characterize.results.names import series_name

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.configurations import ResultPoint

_COARSE_TO_FINE = (8, 4, 2, 1)
"""A curve is measured at every eighth of its places first, then at every fourth, and so on."""
_FEWEST_SIZES = 12
"""Steps cannot be told from noise on fewer points: an allocation that has fewer does not count."""
_FEWEST_ALLOCATIONS = 3
_SAME = 0.05


def measure(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Measure every point of the curve as a slope, from coarse to fine."""
    return measure_points(context, step, _plan(step.probe, context.effort))


def forecast(step: Step, where: Where, effort: Effort) -> Cost:
    """Return the time of all points."""
    return points_cost(step, where, effort, _plan(step.probe, effort))


def _plan(probe: Probe, effort: Effort) -> PointPlan:
    allocations = effort.allocations if walks(probe) else 1
    return PointPlan(effort.curve, allocations, partial(coarse_to_fine, probe.along or ""))


def coarse_to_fine(along: str, points: Sequence[ResultPoint], seed: int) -> tuple[ResultPoint, ...]:
    """Return the points of each curve from coarse to fine, those of one level in random order."""
    levels: dict[int, list[ResultPoint]] = {}
    measured: dict[FixedValues, int] = {}
    for point in sorted(points, key=lambda point: float(dict(point.fixed)[along])):
        curve = tuple(axis for axis in point.fixed if axis[0] != along)
        place = measured[curve] = measured.get(curve, -1) + 1
        levels.setdefault(next(step for step in _COARSE_TO_FINE if place % step == 0), []).append(point)
    return tuple(
        point for level in sorted(levels, reverse=True)
        for point in next(rounds(levels[level], 1, seed=len(points) + seed))
    )  # fmt: skip


def reduce(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield what a curve shows: a value for each of the probe's series, and what its shape gives besides."""
    if probe.quantity in {"bandwidth", "throughput"} and probe.unit not in {"cycle", "s"}:
        yield from saturation_results(probe, series, judging)
        return
    for of_curve in by_point(probe, [taken for taken in series if taken.round == FINAL]).values():
        points = curve_points(probe, of_curve, judging)
        if not points:
            continue
        if probe.quantity == "capacity":
            yield from _capacity(probe, of_curve, points, judging)
        elif of_sizes(probe):
            yield from _plateau(probe, points, judging)
        else:
            yield from _line(probe, points, judging)


def _capacity(
    probe: Probe, series: Sequence[Series], points: Sequence[CurvePoint], judging: Judging
) -> Iterator[Result]:
    """Yield the sizes at which the curve leaves a plateau, the first as the probe's own value."""
    curve, name, checks = curve_of(probe, points), series_name(probe, series[0]), joint(points)
    steps, measured, why = _steps(probe, series, points)
    if not steps:
        yield Result(name, no_value(probe.unit, why), curve=curve)
        return
    for number, step in enumerate(steps):
        place = min(points, key=lambda point: abs(point.x - step.last_before))
        # What is between the last size before the step and the next one that was measured was not looked at.
        after = min((point.x for point in points if point.good and point.x > step.highest), default=step.highest)
        interval, step_checks = ConfidenceInterval(step.lowest, after), [*checks, _stable(step)]
        value = read_off(
            probe, judging, place, step.last_before, interval, step_checks, unit=probe.unit, method=_step_method(step)
        )
        value = replace(value, allocations=step.allocations, of_allocations=measured)
        if number == 0:
            expected = published(probe, judging, assignment_of(probe, place.series[0]))
            yield Result(name, value, expected, curve=curve)
        else:
            yield Result(series_name(probe, series[0], f"step {number + 1}"), value)


def _steps(
    probe: Probe, series: Sequence[Series], points: Sequence[CurvePoint]
) -> tuple[tuple[StableBreak, ...], int, str]:
    """Return the steps of the curve over its allocations and how many of these there are, or why there are none."""
    sizes = sorted({point.x for point in points if point.good})
    if len(sizes) < _FEWEST_SIZES:
        return (), 0, f"{len(sizes)} sizes were measured; {_FEWEST_SIZES} are needed to see a step"
    by_allocation: dict[int, dict[float, float]] = {}
    for taken in series:
        y, x = middle(probe, y_unit(probe), [taken]), x_of(probe, taken)
        if y is not None and x in sizes:
            by_allocation.setdefault(taken.config.allocation or 0, {})[x] = y
    curves = [sorted(values.items()) for values in by_allocation.values() if len(values) >= _FEWEST_SIZES]
    if not curves:
        most = max(map(len, by_allocation.values()), default=0)
        why = f"{most} sizes were measured on one allocation; {_FEWEST_SIZES} are needed to see a step"
        return (), len(by_allocation), why
    measured = [[x for x, _ in curve] for curve in curves]
    breaks_of_each = [breaks(xs, [y for _, y in curve]) for xs, curve in zip(measured, curves, strict=True)]
    steps = across_allocations(breaks_of_each, measured)
    return steps, len(by_allocation), "" if steps else "the curve has no step"


def _stable(step: StableBreak) -> VerdictCheck:
    if step.stable:
        return VerdictCheck("stable", "passed")
    few = "; three are needed to call it stable" if step.allocations < _FEWEST_ALLOCATIONS else ""
    return VerdictCheck("stable", "missing", f"{step.seen} of {step.allocations} allocations show this step{few}")


def _step_method(step: StableBreak) -> str:
    end = f" to {step.after:.4g}" if step.after is not None else ""
    return f"the last size before it rises from {step.before:.4g}{end}"


def _plateau(probe: Probe, points: Sequence[CurvePoint], judging: Judging) -> Iterator[Result]:
    """Yield the value at the largest size, and beside it the size from which on it stays there."""
    good = [point for point in points if point.good] or list(points)
    last, checks = good[-1], joint(points)
    value = own_value(probe, judging, last, checks, method=f"at {probe.along} {last.x:g}")
    expected = published(probe, judging, assignment_of(probe, last.series[0]))
    yield Result(series_name(probe, last.series[0]), value, expected, curve=curve_of(probe, points))
    reached = next(point for point in good if abs(point.y / last.y - 1) <= _SAME)
    if reached is not good[0] and reached is not last:
        method = f"the smallest {probe.along} within 5 % of the value at {last.x:g}"
        bounds = ConfidenceInterval(reached.x, reached.x)
        size = read_off(probe, judging, reached, reached.x, bounds, checks, unit="B", method=method)
        yield Result(series_name(probe, last.series[0], "granule"), size)


def _line(probe: Probe, points: Sequence[CurvePoint], judging: Judging) -> Iterator[Result]:
    """Yield cycles for each further step along the axis (the slope of a line), and the value at its beginning."""
    good = [point for point in points if point.good] or list(points)
    first, checks, curve = good[0], joint(points), curve_of(probe, points)
    name = series_name(probe, first.series[0])
    fitted = conflict_line([(point.x, point.y) for point in good]) if len(good) >= 3 else None
    if fitted is None or fitted.slope <= 0:
        why = f"it does not grow with {probe.along}" if fitted is not None else f"{len(good)} points do not make a line"
        yield Result(name, no_value(probe.unit, why), curve=curve)
    else:
        state: CheckState = "failed" if fitted.misfit else "passed"
        line = VerdictCheck("line", state, fitted.misfit, number=fitted.r_squared)
        spread = fitted.residual * fitted.slope
        interval = ConfidenceInterval(fitted.slope - spread, fitted.slope + spread)
        method = f"slope of cycles against {probe.along}, R² {fitted.r_squared:.5f}"
        value = read_off(probe, judging, first, fitted.slope, interval, [*checks, line], unit=probe.unit, method=method)
        expected = published(probe, judging, assignment_of(probe, first.series[0]))
        yield Result(name, value, expected, curve=curve)
    at_first = own_value(probe, judging, first, checks, method=f"at {probe.along} {first.x:g}")
    yield Result(series_name(probe, first.series[0], "first"), at_first)


METHOD = Method(measure=measure, reduce=reduce, forecast=forecast)
