"""A map over SMs: the latency that each SM has by itself, and the near and the far group of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from gpuprof.characterize.maths.statistics import ConfidenceInterval, rounds
from gpuprof.characterize.maths.two_groups import two_groups
from gpuprof.characterize.measure.effort import LEAST_ROUNDS
from gpuprof.characterize.measure.events import ConfigurationTaken, Result
from gpuprof.characterize.measure.forecast import each_point_cost
from gpuprof.characterize.measure.points import label, step_points, unless_unmeasured, variant_of, with_code
from gpuprof.characterize.measure.sampling import iterations
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.methods.method import Method
from gpuprof.characterize.record.reduction import MULTIPLES, middle
from gpuprof.characterize.record.series import Sample, Series
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.curve_points import CurvePoint, read_off
from gpuprof.characterize.results.judging import Judging, checks_of, published
from gpuprof.characterize.results.names import value_name
from gpuprof.characterize.sheet.measured import Curve

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe
    from gpuprof.characterize.record.configurations import ResultPoint

_MOST_ROUNDS = 5


def measure(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Time every SM by itself: one block on each, N, 2N and 4N iterations, a series for each SM."""
    points = step_points(context, step)
    ends = context.gpu.now() + step.seconds
    for place, point in enumerate(points):
        seconds = (ends - context.gpu.now()) / (len(points) - place)
        yield from unless_unmeasured(step, point, partial(_map, context, step, point, seconds))


def _map(context: MeasurementContext, step: Step, point: ResultPoint, seconds: float) -> None:
    ends = context.gpu.now() + seconds
    probe, configuration = step.probe, with_code(context, step.probe, point.configurations[0])
    config, sms = configuration.config, context.gpu.properties.sm_count
    if all(context.store.find(probe.id, replace(config, sm=sm), FINAL) for sm in range(sms)):
        return
    ready = context.launcher.ready(variant_of(context, probe, configuration), configuration)
    count = iterations(ready, context.effort.window_s)
    by_sm: dict[int, list[Sample]] = {}
    for number, order in enumerate(rounds(MULTIPLES, min(context.effort.rule.least, _MOST_ROUNDS), seed=1)):
        if number >= LEAST_ROUNDS and context.gpu.now() > ends:
            break
        for multiple in order:
            sample, cycles_by_sm = ready.run_by_sm(multiple * count)
            for sm, cycles in cycles_by_sm.items():
                by_sm.setdefault(sm, []).append(sample._replace(cycles=float(cycles)))
    for sm, samples in sorted(by_sm.items()):
        series = replace(ready.series(probe.id, FINAL, samples), config=replace(config, sm=sm))
        if context.store.find(probe.id, series.config, FINAL) is None:
            context.store.add(series)
    taken = sum(map(len, by_sm.values()))
    context.tell(ConfigurationTaken(probe.id, label(config), taken, value=None, unit=probe.unit))


def reduce(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the latency of the near and the far group of SMs and lines, and the middle of each SM."""
    by_sm: dict[int, list[float]] = {}
    for taken in series:
        cycles = middle(probe, probe.unit, [taken])
        if cycles is not None:
            by_sm.setdefault(taken.config.sm or 0, []).append(cycles)
    every = [value for values in by_sm.values() for value in values]
    if not every:
        return
    checks = checks_of(probe, judging, series, median(every))
    point = CurvePoint(x=0.0, series=tuple(series), y=median(every), checks=checks)
    curve = Curve("SM", probe.unit, tuple((float(sm), median(values)) for sm, values in sorted(by_sm.items())))
    near, far = two_groups(every)
    for part, group in (("", near), ("far", far)):
        if group:
            bounds, what = ConfidenceInterval(min(group), max(group)), " ".join(probe.series) or "place"
            method = f"middle of {len(group)} of {len(every)} pairs of SM and {what}"
            value = read_off(probe, judging, point, median(group), bounds, checks, unit=probe.unit, method=method)
            name = value_name(probe, (), series[0].config.regime, series[0].config.data, part)
            expected = published(probe, judging, {})
            yield Result(name, value, expected, curve=curve if not part else None)


METHOD = Method(measure=measure, reduce=reduce, forecast=partial(each_point_cost, point_s=0.15), only_full=True)
