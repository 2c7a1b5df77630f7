"""The points of a curve, what is checked of all of them together, and a value that is read off it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.verdict import VerdictCheck, named
from gpuprof.characterize.maths.statistics import ConfidenceInterval, Estimate
from gpuprof.characterize.record.reduction import estimated, middle, rounds_of
from gpuprof.characterize.record.series import Series
from gpuprof.characterize.results.judging import Judging, believed, checks_of
from gpuprof.characterize.sheet.measured import Curve, MeasuredValue

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_MOST_REJECTED = 0.2
"""A curve that lost more of its points is not believed."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One place on a curve: all allocations of its best configuration, the middle of its rounds, its checks."""

    x: float
    series: tuple[Series, ...]
    y: float
    checks: tuple[VerdictCheck, ...]

    @property
    def good(self) -> bool:
        """Tell whether no check rejects it."""
        return all(check.state != "failed" for check in self.checks)


def curve_points(probe: Probe, series: Sequence[Series], judging: Judging) -> list[CurvePoint]:
    """Return the points of one curve in the order of their x. One that is meant to be slow is not too slow."""
    unit, by_x = y_unit(probe), dict[float, list[Series]]()
    for taken in series:
        by_x.setdefault(x_of(probe, taken), []).append(taken)
    points = []
    for x, at_x in sorted(by_x.items()):
        y = middle(probe, unit, at_x)
        if y is not None:
            checks = checks_of(probe, judging, at_x, y, unit=unit, floor=0.0)
            points.append(CurvePoint(x=x, series=tuple(at_x), y=y, checks=checks))
    return points


def y_unit(probe: Probe) -> str:
    """Return the unit of a curve: capacities are read off a curve of latencies, or of a rate."""
    if probe.quantity != "capacity":
        return probe.unit
    counted = [what for what, _ in probe.kernel.work.iteration] if probe.kernel is not None else []
    return "cycle" if "result" in counted else "B/clk/SM"


def x_of(probe: Probe, series: Series) -> float:
    """Return where a series is on the horizontal axis."""
    ((_, value),) = series.config.fixed([probe.along or ""])
    return float(value)


def of_sizes(probe: Probe) -> bool:
    """Tell whether the horizontal axis is in bytes: the size of a buffer or the distance of its nodes."""
    kernel = probe.kernel
    return kernel is not None and any(
        probe.along in {buffer.sweep, buffer.stride} for buffer in kernel.buffers.values()
    )


def joint(points: Sequence[CurvePoint]) -> list[VerdictCheck]:
    """Return the checks of a curve: the worst of each among its believed points, and whether there are enough."""
    good = [point for point in points if point.good]
    checks = []
    for name in {check.name: None for point in good for check in point.checks}:
        same = [check for point in good if (check := named(point.checks, name)) is not None]
        order = ("missing", "not_applicable", "passed")
        checks.append(min(same, key=lambda check: (order.index(check.state), -abs(check.number or 0.0))))
    lost = [point for point in points if not point.good]
    if lost:
        why = next(check.why for check in lost[0].checks if check.state == "failed")
        many = len(lost) > _MOST_REJECTED * len(points)
        text = f"{len(lost)} of {len(points)} points were rejected: {why}"
        checks.append(VerdictCheck("points", "failed" if many else "passed", text))
    return checks


def read_off(
    probe: Probe,
    judging: Judging,
    point: CurvePoint,
    value: float,
    interval: ConfidenceInterval,
    checks: Sequence[VerdictCheck],
    *,
    unit: str,
    method: str,
) -> MeasuredValue:
    """Return a value read off a curve: the evidence is that of the point it is from, the checks those of all."""
    bounds = ConfidenceInterval(max(0.0, min(value, interval.low)), max(value, interval.high))
    samples = sum(len(rounds_of(taken.samples)) for taken in point.series)
    estimate = Estimate(value, bounds, samples, statistic="mode" if probe.statistic == "mode" else "median")
    return believed(probe, judging, point.series, estimate, checks, unit=unit, method=method)


def own_value(
    probe: Probe, judging: Judging, point: CurvePoint, checks: Sequence[VerdictCheck], *, method: str
) -> MeasuredValue:
    """Return the value of a point itself, with its interval."""
    estimate = estimated(probe, y_unit(probe), point.series)
    interval = estimate.interval if estimate is not None else ConfidenceInterval(point.y, point.y)
    return read_off(probe, judging, point, point.y, interval, checks, unit=probe.unit, method=method)


def curve_of(probe: Probe, points: Sequence[CurvePoint]) -> Curve:
    """Return the believed points."""
    x_unit = "B" if of_sizes(probe) or probe.quantity == "capacity" else (probe.along or "x")
    return Curve(x_unit, y_unit(probe), tuple((point.x, point.y) for point in points if point.good))
