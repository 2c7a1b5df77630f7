"""Results of curves that saturate: the highest rate, what an SM must have in flight for it, and Little's law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.verdict import CheckState, VerdictCheck
from gpuprof.characterize.maths.fit import near_peak, saturation
from gpuprof.characterize.maths.statistics import ConfidenceInterval
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.record.configurations import series_work, sharers
from gpuprof.characterize.record.reduction import better
from gpuprof.characterize.record.series import Series
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.curve_points import CurvePoint, curve_points, joint, own_value, read_off
from gpuprof.characterize.results.judging import Judging, assignment_of, by_point, checks_of, no_value, published
from gpuprof.characterize.results.names import KNEE, NEAR_PEAK, series_name, value_name
from gpuprof.characterize.sheet.measured import Curve, MeasuredValue

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_LAUNCH_AXES = ("block", "blocks_per_sm", "grid")


def saturation_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the highest rate, and for an axis of the launch what 95 % of it takes, and the knee of Little's law.

    On such an axis all series make one curve, against what an SM has in flight; else each makes its own.
    """
    finals = by_point(probe, [taken for taken in series if taken.round == FINAL])
    curves = [points for of_curve in finals.values() if (points := curve_points(probe, of_curve, judging))]
    if probe.along not in _LAUNCH_AXES:
        for points in curves:
            curve = Curve(probe.along or "x", probe.unit, tuple((point.x, point.y) for point in points))
            yield _highest(probe, points, curve, judging, series_name(probe, points[0].series[0]))
    elif curves:
        yield from _in_flight_results(probe, [point for points in curves for point in points], judging)


def _in_flight_results(probe: Probe, points: Sequence[CurvePoint], judging: Judging) -> Iterator[Result]:
    unit, best = "B" if _flying(probe) == "byte" else "warp", _best(probe, points)
    pairs = _by_x([(_in_flight(probe, point), point.y) for point in points if point.good])
    name = partial(value_name, probe, (), best.series[0].config.regime, best.series[0].config.data)
    yield _highest(probe, points, Curve(unit, probe.unit, tuple(pairs)), judging, name())
    if len(pairs) >= 3:
        yield Result(name(NEAR_PEAK), _near_peak(probe, best, pairs, unit, judging))
        yield Result(name(KNEE), _knee(probe, best, pairs, unit, judging))


def _highest(probe: Probe, points: Sequence[CurvePoint], curve: Curve, judging: Judging, name: str) -> Result:
    """Return the best point. Only it must come near the limit: the others are meant to be slow."""
    best = _best(probe, points)
    checks = list(checks_of(probe, judging, best.series, best.y))
    checks += [check for check in joint(points) if check.name == "points"]
    value = own_value(probe, judging, best, checks, method=f"the highest along {probe.along}")
    return Result(name, value, published(probe, judging, assignment_of(probe, best.series[0])), curve=curve)


def _best(probe: Probe, points: Sequence[CurvePoint]) -> CurvePoint:
    good = [point for point in points if point.good] or list(points)
    best = good[0]
    for point in good[1:]:
        best = point if better(probe.unit, point.y, best.y) else best
    return best


def _near_peak(
    probe: Probe, best: CurvePoint, pairs: Sequence[tuple[float, float]], unit: str, judging: Judging
) -> MeasuredValue:
    """Return what one SM should have in flight. The interval is that of the points around it."""
    reached = near_peak(pairs)
    if reached.x is None or reached.low is None or reached.high is None:
        return no_value(unit, reached.misfit or "it has no plateau")
    method = "where the curve, made monotone, reaches 95 % of its highest point, between the points around it"
    interval = ConfidenceInterval(reached.low, reached.high)
    return read_off(probe, judging, best, reached.x, interval, best.checks, unit=unit, method=method)


def _knee(
    probe: Probe, best: CurvePoint, pairs: Sequence[tuple[float, float]], unit: str, judging: Judging
) -> MeasuredValue:
    """Return where the rise and the plateau meet: what one SM must have in flight for the peak."""
    fitted = saturation(pairs)
    if fitted.knee is None:
        return no_value(unit, fitted.misfit or "it has no knee")
    state: CheckState = "missing" if fitted.misfit else "passed"
    checks = [*best.checks, VerdictCheck("saturation", state, fitted.misfit, number=fitted.residual)]
    interval = ConfidenceInterval(fitted.knee * (1 - fitted.residual), fitted.knee * (1 + fitted.residual))
    method = "y = min(peak, x ÷ latency): what one SM has in flight where both meet"
    return read_off(probe, judging, best, fitted.knee, interval, checks, unit=unit, method=method)


def _by_x(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return one point for each x: of several shapes that have the same in flight the best, as the peak is."""
    by_x: dict[float, float] = {}
    for x, y in points:
        by_x[x] = max(y, by_x.get(x, y))
    return sorted(by_x.items())


def _in_flight(probe: Probe, point: CurvePoint) -> float:
    """Return what an SM has in flight: the bytes that its threads ask for in one iteration, else its warps."""
    series, what = point.series[0], _flying(probe)
    total = series_work(probe.kernel, what, series) if probe.kernel is not None and what else None
    return (total if total is not None else sharers("warp", series.grid, series.block)) / (series.seen.sms or 1)


def _flying(probe: Probe) -> str | None:
    counted = [what for what, _ in probe.kernel.work.iteration] if probe.kernel is not None else []
    return "byte" if "byte" in counted else None
