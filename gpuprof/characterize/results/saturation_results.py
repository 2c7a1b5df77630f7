"""Results of curves that saturate: the highest rate, what an SM must have in flight for it, and Little's law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.verdict import VerdictCheck
from gpuprof.characterize.maths.fit import near_peak, saturation
from gpuprof.characterize.maths.statistics import ConfidenceInterval
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.record.configurations import iteration_work, sharers
from gpuprof.characterize.record.reduction import better
from gpuprof.characterize.record.samples import FixedValues, Series
from gpuprof.characterize.results.curve_points import (
    CurvePoint,
    curve_points,
    groups,
    joint,
    own_value,
    point_name,
    read_off,
)
from gpuprof.characterize.results.judging import Judging, assignment_of, checks_of, published
from gpuprof.characterize.results.names import KNEE, NEAR_PEAK
from gpuprof.characterize.sheet.measured import Curve, MeasuredValue

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_LAUNCH_AXES = ("block", "blocks_per_sm", "grid")


def saturation_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the highest rate, and for an axis of the launch what 95 % of it takes, and the knee of Little's law.

    On such an axis all series make one curve, against what an SM has in flight; else each makes its own.
    """
    curves = {
        fixed: found for fixed, ones in groups(probe, series).items() if (found := curve_points(probe, ones, judging))
    }
    if probe.along not in _LAUNCH_AXES:
        for fixed, points in curves.items():
            curve = Curve(probe.along or "x", probe.unit, tuple((point.x, point.y) for point in points))
            yield _highest(probe, fixed, points, curve, judging)
    elif curves:
        yield from _in_flight_results(probe, [point for points in curves.values() for point in points], judging)


def _in_flight_results(probe: Probe, points: Sequence[CurvePoint], judging: Judging) -> Iterator[Result]:
    unit = "B" if _flying(probe) == "byte" else "warp"
    pairs = _by_x([(_in_flight(probe, point), point.y) for point in points if point.good])
    yield _highest(probe, (), points, Curve(unit, probe.unit, tuple(pairs)), judging)
    if len(pairs) >= 3:
        yield _near_peak(probe, _best(probe, points), pairs, unit, judging)
        yield _knee(probe, _best(probe, points), pairs, unit, judging)


def _highest(probe: Probe, fixed: FixedValues, points: Sequence[CurvePoint], curve: Curve, judging: Judging) -> Result:
    """Return the best point. Only it must come near the limit: the others are meant to be slow."""
    best = _best(probe, points)
    checks = list(checks_of(probe, judging, best.series, best.y))
    checks += [check for check in joint(points) if check.name == "points"]
    value = own_value(probe, judging, best, checks, f"the highest along {probe.along}")
    name = point_name(probe, fixed, best.series[0])
    return Result(name, value, published(probe, judging, assignment_of(probe, best.series[0])), curve)


def _best(probe: Probe, points: Sequence[CurvePoint]) -> CurvePoint:
    good = [point for point in points if point.good] or list(points)
    best = good[0]
    for point in good[1:]:
        best = point if better(probe.unit, point.y, best.y) else best
    return best


def _near_peak(
    probe: Probe, best: CurvePoint, pairs: Sequence[tuple[float, float]], unit: str, judging: Judging
) -> Result:
    """Return what one SM should have in flight. The interval is that of the points around it."""
    found, name = near_peak(pairs), point_name(probe, (), best.series[0], NEAR_PEAK)
    if found.x is None or found.low is None or found.high is None:
        return Result(name, MeasuredValue(None, unit, "unsupported", (found.misfit or "it has no plateau",)))
    method = "where the curve, made monotone, reaches 95 % of its highest point, between the points around it"
    interval = ConfidenceInterval(found.low, found.high)
    return Result(name, read_off(probe, judging, best, found.x, interval, best.checks, unit, method))


def _knee(probe: Probe, best: CurvePoint, pairs: Sequence[tuple[float, float]], unit: str, judging: Judging) -> Result:
    """Return where the rise and the plateau meet: what one SM must have in flight for the peak."""
    fitted, name = saturation(pairs), point_name(probe, (), best.series[0], KNEE)
    if fitted.knee is None:
        return Result(name, MeasuredValue(None, unit, "unsupported", (fitted.misfit or "it has no knee",)))
    check = VerdictCheck("saturation", "missing" if fitted.misfit else "passed", fitted.misfit, fitted.residual)
    interval = ConfidenceInterval(fitted.knee * (1 - fitted.residual), fitted.knee * (1 + fitted.residual))
    method = "y = min(peak, x ÷ latency): what one SM has in flight where both meet"
    return Result(name, read_off(probe, judging, best, fitted.knee, interval, [*best.checks, check], unit, method))


def _by_x(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return one point for each x: of several shapes that have the same in flight the best, as the peak is."""
    by_x: dict[float, float] = {}
    for x, y in points:
        by_x[x] = max(y, by_x.get(x, y))
    return sorted(by_x.items())


def _in_flight(probe: Probe, point: CurvePoint) -> float:
    """Return what an SM has in flight: the bytes that its threads ask for in one iteration, else its warps."""
    words = {name: str(value) for name, value in point.series[0].configuration.items()}
    grid, block, sms = int(words.get("ran", words["grid"])), int(words["block"]), int(words.get("sms", "1"))
    what = _flying(probe)
    total = iteration_work(probe.kernel, what, words, grid, block) if probe.kernel is not None and what else None
    return (total if total is not None else sharers("warp", grid, block)) / sms


def _flying(probe: Probe) -> str | None:
    counted = [what for what, _ in probe.kernel.work.iteration] if probe.kernel is not None else []
    return "byte" if "byte" in counted else None
