"""Measures the points of a kernel: a sweep over the configurations of each, and the best of them once more."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprof.characterize.maths.statistics import StopRule
from gpuprof.characterize.measure.events import ConfigurationTaken
from gpuprof.characterize.measure.forecast import PointPlan, sized
from gpuprof.characterize.measure.sampling import iterations, settle, sweep, take_samples, warm_up
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.on_gpu.launcher import BrokenRun, Ready
from gpuprof.characterize.on_gpu.result_checks import verify
from gpuprof.characterize.record.configurations import Configuration, ResultPoint, points
from gpuprof.characterize.record.gpu import DeviceError
from gpuprof.characterize.record.reduction import better, middle
from gpuprof.characterize.record.series import Observed, Series, SeriesConfig
from gpuprof.characterize.record.store import FINAL, SWEEP

if TYPE_CHECKING:
    from gpuprof.characterize.gates.check import Checked
    from gpuprof.characterize.probes.probe import Probe

_SETTLING = 0.6
"""The part of a sustained probe's time that the clock may take to settle."""
_HIDDEN = frozenset(
    {"cubin", "allocation", "sms", "result", "settled", "power_w", "temperature_c", "joule_per_iteration"}
)
"""What only tells runs apart."""


class PointUnmeasured(Exception):
    """A point has no value: the reason."""


def measure_points(context: MeasurementContext, step: Step, plan: PointPlan) -> Iterator[StepFailure]:
    """Measure every point of a step, then on other allocations as time allows; yield what failed.

    Time that is short costs allocations and rounds, never a point.
    """
    every = step_points(context, step)
    if not every:
        yield failure(step, None, "no configuration fits this GPU")
        return
    ends = context.gpu.now() + step.seconds
    failed: dict[ResultPoint, str] = {}
    last_s = 0.0
    for allocation in range(plan.allocations):
        began = context.gpu.now()
        if allocation and began + last_s > ends:
            break
        order = [point for point in plan.order(every, allocation) if point not in failed]
        swept_s = 0.0
        for place, point in enumerate(order):
            left = len(order) - place + (plan.allocations - 1 - allocation) * len(order)
            seconds = (ends - context.gpu.now()) / left
            try:
                swept_s += _measure_point(context, step, point, plan.rule, allocation, seconds)
            except PointUnmeasured as error:
                if allocation == 0:
                    failed[point] = str(error)
        last_s = context.gpu.now() - began - swept_s
    for point, why in failed.items():
        yield failure(step, point, why)


def step_points(context: MeasurementContext, step: Step, *, overfull: bool = False) -> tuple[ResultPoint, ...]:
    """Return the points of a step, from the kernels that passed their gate. `overfull`: as `points` has it."""
    probe, kernel = step.probe, step.probe.kernel
    if kernel is None:
        return ()
    usable = [dict(checked.variant.assignment) for checked in passed(context, probe)]
    return points(
        probe,
        kernel,
        usable,
        context.gpu.properties,
        data=step.data,
        regime=step.regime,
        free_bytes=context.gpu.free_bytes(),
        overfull=overfull,
    )


def passed(context: MeasurementContext, probe: Probe) -> list[Checked]:
    """Return the variants that may be timed: their code is what was meant, or nobody could look at it."""
    return [
        checked
        for checked in context.checked.get(probe.id, ())
        if checked.compiled is not None and checked.judgement.gate in {"pass", "emulated", None}
    ]


def failure(step: Step, point: ResultPoint | None, why: str) -> StepFailure:
    """Return what failed of a step: a point, or all of it."""
    fixed = point.fixed if point is not None else None
    return StepFailure(probe=step.probe.id, regime=step.regime, data=step.data, fixed=fixed, why=why)


def unless_unmeasured(step: Step, point: ResultPoint | None, measure: Callable[[], None]) -> Iterator[StepFailure]:
    """Measure a point, or all of a step; yield why it has no value, where that is so. Raises what is fatal."""
    try:
        with unless_fatal():
            measure()
    except PointUnmeasured as error:
        yield failure(step, point, str(error))


def _measure_point(
    context: MeasurementContext, step: Step, point: ResultPoint, rule: StopRule, allocation: int, seconds: float
) -> float:
    """Measure a point on one allocation, unless its samples are there. Return the seconds of the sweep.

    Raises PointUnmeasured.
    """
    candidates = [with_code(context, step.probe, configuration) for configuration in point.configurations]
    known = _winner(context, step.probe, candidates)
    final = replace(known, allocation=allocation) if known is not None else None
    if final is not None and context.store.find(step.probe.id, final.config, FINAL) is not None:
        return 0.0
    began = context.gpu.now()
    try:
        with unless_fatal():
            if final is None:
                final = replace(_sweep(context, step, candidates), allocation=allocation)
            swept_s = context.gpu.now() - began
            _take_final(context, step, final, rule, seconds - swept_s)
    finally:
        if sized(step.probe):
            context.launcher.pool.release()
    return swept_s


def with_code(context: MeasurementContext, probe: Probe, configuration: Configuration) -> Configuration:
    """Return a configuration that names the code of its kernel."""
    compiled = variant_of(context, probe, configuration).compiled
    return replace(configuration, cubin=compiled.sha256 if compiled is not None else "")


def variant_of(context: MeasurementContext, probe: Probe, configuration: Configuration) -> Checked:
    """Return the compiled kernel of a configuration."""
    assignment = configuration.assignment
    return next(checked for checked in passed(context, probe) if checked.variant.assignment == assignment)


def _winner(context: MeasurementContext, probe: Probe, candidates: Sequence[Configuration]) -> Configuration | None:
    """Return the best of a sweep that is in the samples, or the only candidate; None where some were not tried yet."""
    if len(candidates) == 1:
        return candidates[0]
    if _untried(context, probe, candidates):
        return None
    best: tuple[float, Configuration] | None = None
    for configuration in candidates:
        series = context.store.find(probe.id, configuration.config, SWEEP)
        value = middle(probe, probe.unit, [series]) if series is not None else None
        if value is not None and (best is None or better(probe.unit, value, best[0])):
            best = value, configuration
    return best[1] if best is not None else None


def _untried(context: MeasurementContext, probe: Probe, candidates: Sequence[Configuration]) -> list[Configuration]:
    configs = ((configuration, configuration.config) for configuration in candidates)
    return [
        configuration
        for configuration, config in configs
        if context.store.find(probe.id, config, SWEEP) is None and (probe.id, config) not in context.broken
    ]


def _sweep(context: MeasurementContext, step: Step, candidates: Sequence[Configuration]) -> Configuration:
    """Try the candidates for a few short rounds; keep the samples; return the best.

    Raises PointUnmeasured if none works.

    Only the best is brought to the clock that it settles at: that takes seconds.
    """
    ready, counts = [], []
    for configuration in _untried(context, step.probe, candidates):
        try:
            candidate = _ready(context, step.probe, configuration)
            counts.append(iterations(candidate, context.effort.window_s))
            ready.append(candidate)
        except PointUnmeasured as error:
            context.broken[step.probe.id, configuration.config] = str(error)
    if ready:
        warm_up(ready[0], counts[0])
    samples = sweep(ready, counts, context.effort.sweep_rounds, seed=len(candidates))
    for candidate, taken in zip(ready, samples, strict=True):
        _keep_with_value(context, step.probe, candidate.series(step.probe.id, SWEEP, taken))
    best = _winner(context, step.probe, candidates)
    if best is None:
        broken = (context.broken.get((step.probe.id, configuration.config)) for configuration in candidates)
        reasons = [why for why in broken if why]
        raise PointUnmeasured(reasons[0] if reasons else "its time does not grow with the iterations")
    return best


def _ready(context: MeasurementContext, probe: Probe, configuration: Configuration) -> Ready:
    """Return a configuration that runs, with all its blocks at once.

    Raises PointUnmeasured, and what is fatal.
    """
    with unless_fatal():
        ready = context.launcher.ready(variant_of(context, probe, configuration), configuration)
        if not ready.fits():
            blocks = f"{ready.shape.grid} blocks of {configuration.block} threads"
            raise PointUnmeasured(f"{blocks} do not fit on the SMs at once")
        ready.one_wave()
        ready.run(2)
        return ready


@contextmanager
def unless_fatal() -> Iterator[None]:
    """Turn what breaks a single configuration into PointUnmeasured; what breaks the whole context goes on upwards."""
    try:
        yield
    except BrokenRun as error:
        raise PointUnmeasured(error.message) from error
    except DeviceError as error:
        if error.fatal:
            raise
        raise PointUnmeasured(error.message) from error


def _take_final(
    context: MeasurementContext, step: Step, configuration: Configuration, rule: StopRule, seconds: float
) -> None:
    """Measure one configuration until its interval is small or its time is up, and keep the samples."""
    probe, effort, ends = step.probe, context.effort, context.gpu.now() + seconds
    ready = _ready(context, probe, configuration)
    ready.seen = replace(ready.seen, result=verify(probe, ready))
    if step.regime == "sustained":
        count = iterations(ready, effort.sustained_window_s)
        longest_s = min(effort.settle_s, max(effort.least_settle_s, seconds * _SETTLING))
        ready.seen = replace(ready.seen, settled=settle(ready, count, longest_s).settled)
    else:
        count = iterations(ready, effort.window_s)
        warm_up(ready, count)
    left_s = max(0.0, min(rule.longest_s, ends - context.gpu.now()))
    taken = take_samples(
        probe, ready, count, rule._replace(longest_s=left_s), step.regime, seed=1, repeat_s=context.repeat_s
    )
    context.repeat_s -= taken.repeated_s
    _keep_with_value(context, probe, ready.series(probe.id, FINAL, taken.samples))


def _keep_with_value(context: MeasurementContext, probe: Probe, series: Series) -> None:
    keep(context, probe, series, middle(probe, probe.unit, [series]))


def keep(context: MeasurementContext, probe: Probe, series: Series, value: float | None = None) -> None:
    """Keep a series, and tell that it was taken."""
    context.store.add(series)
    configuration, count = label(series.config, series.seen), len(series.samples)
    context.tell(ConfigurationTaken(probe.id, configuration, count, value=value, unit=probe.unit))


def label(config: SeriesConfig, seen: Observed | None = None) -> str:
    """Write a configuration in one line, without what only tells runs apart."""
    settings = config.settings() | (seen.settings() if seen is not None else {})
    return " ".join(f"{name}={value}" for name, value in settings.items() if name not in _HIDDEN)
