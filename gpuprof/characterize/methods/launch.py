"""Launches of a kernel that does nothing: the slope of time over how many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, get_args

from gpuprof.characterize.judge.verdict import gate_check, judge, scaling_check
from gpuprof.characterize.maths.statistics import rounds
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.forecast import each_point_cost
from gpuprof.characterize.measure.points import keep, step_points, unless_unmeasured, variant_of, with_code
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.methods.method import Method
from gpuprof.characterize.record.gpu import Way
from gpuprof.characterize.record.reduction import MULTIPLES, estimated, scaled
from gpuprof.characterize.record.series import Sample, Series
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.judging import NO_CLOCK, NO_LIMIT, Judging, evidence_of, published, shown
from gpuprof.characterize.results.names import series_name
from gpuprof.characterize.sheet.measured import MeasuredValue

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.configurations import ResultPoint

_LAUNCHES = 60
"""Four times as many fit into the queue of the driver."""
_MOST_ROUNDS = 200


def measure(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Time N, 2N and 4N launches."""
    for point in step_points(context, step):
        yield from unless_unmeasured(step, point, partial(_launches, context, step, point))


def _launches(context: MeasurementContext, step: Step, point: ResultPoint) -> None:
    probe, configuration = step.probe, with_code(context, step.probe, point.configurations[0])
    way = next(way for way in get_args(Way) if way == probe.launched)
    if context.store.find(probe.id, configuration.config, FINAL) is not None:
        return
    ready = context.launcher.ready(variant_of(context, probe, configuration), configuration)
    samples, ends = [], context.gpu.now() + min(step.seconds, context.effort.rule.longest_s)
    for (order,) in (tuple(rounds(MULTIPLES, 1, seed)) for seed in range(_MOST_ROUNDS)):
        for multiple in order:
            count = multiple * _LAUNCHES
            samples.append(Sample(count, ready.launches(count, way)))
        if context.gpu.now() >= ends and len(samples) >= 3 * len(MULTIPLES):
            break
    keep(context, probe, ready.series(probe.id, FINAL, samples))


def reduce(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the time of one launch."""
    for taken in series:
        estimate = estimated(probe, probe.unit, [taken])
        if estimate is None:
            continue
        checked = judging.variant(taken)
        gate = gate_check(checked.judgement if checked is not None else None)
        checks = (gate, scaling_check(scaled([taken], probe.unit)), NO_CLOCK, NO_LIMIT)
        verdict = judge(checks)
        value = MeasuredValue(
            value=estimate.value, unit=probe.unit, verdict=verdict.word, reasons=verdict.reasons,
            low=estimate.interval.low, high=estimate.interval.high, statistic=estimate.statistic,
            samples=estimate.samples, method=f"slope over the number of {probe.launched} launches",
            configuration=shown(probe, taken), evidence=evidence_of(probe, judging, [taken], checks, probe.unit),
        )  # fmt: skip
        yield Result(series_name(probe, taken), value, published(probe, judging, {}))


METHOD = Method(measure=measure, reduce=reduce, forecast=partial(each_point_cost, point_s=0.3))
