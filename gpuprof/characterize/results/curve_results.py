"""Results of curves and maps: capacities from steps, granules from plateaus, conflicts from lines, near and far SMs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.verdict import VerdictCheck
from gpuprof.characterize.maths.change_points import StableBreak, across_allocations, breaks
from gpuprof.characterize.maths.fit import conflict_line
from gpuprof.characterize.maths.statistics import ConfidenceInterval
from gpuprof.characterize.maths.two_groups import two_groups
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.record.reduction import middle
from gpuprof.characterize.record.samples import FixedValues, Series
from gpuprof.characterize.results.curve_points import (
    CurvePoint,
    curve_of,
    curve_points,
    groups,
    joint,
    of_sizes,
    own_value,
    point_name,
    read_off,
    x_of,
    y_unit,
)
from gpuprof.characterize.results.judging import Judging, assignment_of, checks_of, published
from gpuprof.characterize.results.saturation_results import saturation_results
from gpuprof.characterize.sheet.measured import Curve, MeasuredValue

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_FEWEST_SIZES = 12
"""Steps cannot be told from noise on fewer points: an allocation that has fewer does not count."""
_FEWEST_ALLOCATIONS = 3
_SAME = 0.05


def curve_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield what a curve shows: a value for each of the probe's series, and what its shape gives besides."""
    if probe.quantity in {"bandwidth", "throughput"} and probe.unit not in {"cycle", "s"}:
        yield from saturation_results(probe, series, judging)
        return
    for fixed, ones in groups(probe, series).items():
        found = curve_points(probe, ones, judging)
        if not found:
            continue
        if probe.quantity == "capacity":
            yield from _capacity(probe, fixed, ones, found, judging)
        elif of_sizes(probe):
            yield from _plateau(probe, fixed, found, judging)
        else:
            yield from _line(probe, fixed, found, judging)


def _capacity(
    probe: Probe, fixed: FixedValues, series: Sequence[Series], points: Sequence[CurvePoint], judging: Judging
) -> Iterator[Result]:
    """Yield the sizes at which the curve leaves a plateau, the first as the probe's own value."""
    curve, name, checks = curve_of(probe, points), point_name(probe, fixed, series[0]), joint(points)
    steps, measured, why = _steps(probe, series, points)
    if not steps:
        yield Result(name, MeasuredValue(None, probe.unit, "unsupported", (why,)), None, curve)
        return
    for number, step in enumerate(steps):
        place = min(points, key=lambda point: abs(point.x - step.last_before))
        # What is between the last size before the step and the next one that was measured was not looked at.
        after = min((point.x for point in points if point.good and point.x > step.highest), default=step.highest)
        value = read_off(
            probe, judging, place, step.last_before, ConfidenceInterval(step.lowest, after), [*checks, _stable(step)],
            probe.unit, _step_method(step),
        )  # fmt: skip
        value = replace(value, allocations=step.allocations, of_allocations=measured)
        if number == 0:
            expected = published(probe, judging, assignment_of(probe, place.series[0]))
            yield Result(name, value, expected, curve)
        else:
            yield Result(point_name(probe, fixed, series[0], f"step {number + 1}"), value)


def _steps(
    probe: Probe, series: Sequence[Series], points: Sequence[CurvePoint]
) -> tuple[tuple[StableBreak, ...], int, str]:
    """Return the steps of the curve over its allocations and how many of these there are, or why there are none."""
    sizes = sorted({point.x for point in points if point.good})
    if len(sizes) < _FEWEST_SIZES:
        return (), 0, f"{len(sizes)} sizes were measured; {_FEWEST_SIZES} are needed to see a step"
    by_allocation: dict[int, dict[float, float]] = {}
    for one in series:
        found, x = middle(probe, y_unit(probe), [one]), x_of(probe, one)
        if found is not None and x in sizes:
            by_allocation.setdefault(int(one.configuration.get("allocation", 0)), {})[x] = found
    curves = [sorted(values.items()) for values in by_allocation.values() if len(values) >= _FEWEST_SIZES]
    if not curves:
        most = max(map(len, by_allocation.values()), default=0)
        why = f"{most} sizes were measured on one allocation; {_FEWEST_SIZES} are needed to see a step"
        return (), len(by_allocation), why
    measured = [[x for x, _ in curve] for curve in curves]
    found_breaks = [breaks(xs, [y for _, y in curve]) for xs, curve in zip(measured, curves, strict=True)]
    steps = across_allocations(found_breaks, measured)
    return steps, len(by_allocation), "" if steps else "the curve has no step"


def _stable(step: StableBreak) -> VerdictCheck:
    if step.stable:
        return VerdictCheck("stable", "passed")
    few = "; three are needed to call it stable" if step.allocations < _FEWEST_ALLOCATIONS else ""
    return VerdictCheck("stable", "missing", f"{step.seen} of {step.allocations} allocations show this step{few}")


def _step_method(step: StableBreak) -> str:
    end = f" to {step.after:.4g}" if step.after is not None else ""
    return f"the last size before it rises from {step.before:.4g}{end}"


def _plateau(probe: Probe, fixed: FixedValues, points: Sequence[CurvePoint], judging: Judging) -> Iterator[Result]:
    """Yield the value at the largest size, and beside it the size from which on it stays there."""
    good = [point for point in points if point.good] or list(points)
    last, checks = good[-1], joint(points)
    value = own_value(probe, judging, last, checks, f"at {probe.along} {last.x:g}")
    expected = published(probe, judging, assignment_of(probe, last.series[0]))
    yield Result(point_name(probe, fixed, last.series[0]), value, expected, curve_of(probe, points))
    reached = next(point for point in good if abs(point.y / last.y - 1) <= _SAME)
    if reached is not good[0] and reached is not last:
        method = f"the smallest {probe.along} within 5 % of the value at {last.x:g}"
        size = read_off(
            probe, judging, reached, reached.x, ConfidenceInterval(reached.x, reached.x), checks, "B", method
        )
        yield Result(point_name(probe, fixed, last.series[0], "granule"), size)


def _line(probe: Probe, fixed: FixedValues, points: Sequence[CurvePoint], judging: Judging) -> Iterator[Result]:
    """Yield cycles for each further step along the axis (the slope of a line), and the value at its beginning."""
    good = [point for point in points if point.good] or list(points)
    first, checks, curve = good[0], joint(points), curve_of(probe, points)
    name = point_name(probe, fixed, first.series[0])
    fitted = conflict_line([(point.x, point.y) for point in good]) if len(good) >= 3 else None
    if fitted is None or fitted.slope <= 0:
        why = f"it does not grow along {probe.along}" if fitted is not None else f"{len(good)} points are no line"
        yield Result(name, MeasuredValue(None, probe.unit, "unsupported", (why,)), None, curve)
    else:
        line = VerdictCheck("line", "failed" if fitted.misfit else "passed", fitted.misfit, fitted.r_squared)
        spread = fitted.residual * fitted.slope
        interval = ConfidenceInterval(fitted.slope - spread, fitted.slope + spread)
        method = f"slope of cycles against {probe.along}, R² {fitted.r_squared:.5f}"
        value = read_off(probe, judging, first, fitted.slope, interval, [*checks, line], probe.unit, method)
        yield Result(name, value, published(probe, judging, assignment_of(probe, first.series[0])), curve)
    at_first = own_value(probe, judging, first, checks, f"at {probe.along} {first.x:g}")
    yield Result(point_name(probe, fixed, first.series[0], "first"), at_first)


def map_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the latency of the near and the far group of SMs and lines, and the middle of each SM."""
    by_sm: dict[int, list[float]] = {}
    for one in series:
        found = middle(probe, probe.unit, [one])
        if found is not None:
            by_sm.setdefault(int(one.configuration.get("sm", 0)), []).append(found)
    every = [value for values in by_sm.values() for value in values]
    if not every:
        return
    checks = checks_of(probe, judging, series, median(every))
    point = CurvePoint(0.0, tuple(series), median(every), checks)
    curve = Curve("SM", probe.unit, tuple((float(sm), median(values)) for sm, values in sorted(by_sm.items())))
    near, far = two_groups(every)
    for part, group in (("", near), ("far", far)):
        if group:
            bounds, what = ConfidenceInterval(min(group), max(group)), " ".join(probe.series) or "place"
            method = f"middle of {len(group)} of {len(every)} pairs of SM and {what}"
            value = read_off(probe, judging, point, median(group), bounds, checks, probe.unit, method)
            name = point_name(probe, (), series[0], part)
            yield Result(name, value, published(probe, judging, {}), curve if not part else None)
