"""The slope over iterations: the time of a kernel grows with them, and by how much is the probe's value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprof.characterize.maths.statistics import rounds
from gpuprof.characterize.measure.effort import Effort
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.forecast import Cost, PointPlan, Where, points_cost, walks
from gpuprof.characterize.measure.points import measure_points
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.methods.method import Method
from gpuprof.characterize.record.reduction import estimated
from gpuprof.characterize.record.series import Series
from gpuprof.characterize.record.store import FINAL, SWEEP
from gpuprof.characterize.results.judging import (
    Judging,
    assignment_of,
    believed,
    by_point,
    ceiling_of,
    checks_of,
    published,
)
from gpuprof.characterize.results.names import series_name

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.configurations import ResultPoint


def measure(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Measure every point: a sweep over its configurations, then the best again until its interval is small."""
    return measure_points(context, step, _plan(step.probe, context.effort))


def reduce(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the value of each point: over all allocations of its best configuration, measured again."""
    for finals in by_point(probe, [taken for taken in series if taken.round == FINAL]).values():
        estimate = estimated(probe, probe.unit, finals)
        if estimate is None:
            continue
        sweep = [taken for taken in series if taken.round == SWEEP and _same_configuration(taken, finals[0])]
        checks = checks_of(probe, judging, finals, estimate.value, sweep=sweep)
        value = believed(probe, judging, finals, estimate, checks, ceiling=ceiling_of(probe, judging, finals))
        expected = published(probe, judging, assignment_of(probe, finals[0]))
        yield Result(series_name(probe, finals[0]), value, expected)


def forecast(step: Step, where: Where, effort: Effort) -> Cost:
    """Return the time of the sweeps and of the winners, which are measured again on other allocations."""
    return points_cost(step, where, effort, _plan(step.probe, effort))


def _plan(probe: Probe, effort: Effort) -> PointPlan:
    """Plan several allocations where L2 or a walk is measured: both depend on where their memory is."""
    kernel = probe.kernel
    placed = kernel is not None and kernel.buffers and any(limit.level == "l2" for limit in probe.limits)
    return PointPlan(effort.rule, effort.allocations if placed or walks(probe) else 1, in_random_order)


def in_random_order(points: Sequence[ResultPoint], seed: int) -> tuple[ResultPoint, ...]:
    """Return points in random order, so that drift hits all alike."""
    return next(rounds(tuple(points), 1, seed=len(points) + seed))


def _same_configuration(series: Series, other: Series) -> bool:
    """Tell whether two series differ in their allocation of memory alone; clusters may leave room for fewer blocks."""
    return (replace(series.config, allocation=0), series.seen.ran) == (
        replace(other.config, allocation=0), other.seen.ran,
    )  # fmt: skip


METHOD = Method(measure=measure, reduce=reduce, forecast=forecast, ceiling=True, countable=True)
