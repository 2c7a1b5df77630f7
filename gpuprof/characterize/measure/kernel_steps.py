"""Measures the points of a kernel: slopes and curves, by a sweep over configurations and the winner once more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprof.characterize.maths.statistics import rounds
from gpuprof.characterize.measure.events import ConfigurationTaken
from gpuprof.characterize.measure.forecast import allocations, sized
from gpuprof.characterize.measure.sampling import iterations, measure, settle, sweep, warm_up
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.on_gpu.launcher import BrokenRun, Ready
from gpuprof.characterize.on_gpu.result_checks import verify
from gpuprof.characterize.record.configurations import Configuration, ResultPoint, points
from gpuprof.characterize.record.gpu import DeviceError
from gpuprof.characterize.record.reduction import better, middle
from gpuprof.characterize.record.samples import FixedValues, Parameter, Sample, Series
from gpuprof.characterize.record.store import FINAL, SWEEP

if TYPE_CHECKING:
    from gpuprof.characterize.gates.check import Checked
    from gpuprof.characterize.probes.probe import Probe

_SETTLING = 0.6
"""The part of a sustained probe's time that the clock may take to settle."""
_COARSE_TO_FINE = (8, 4, 2, 1)
"""A curve is measured at every eighth of its places first, then at every fourth, and so on."""


class PointUnmeasured(Exception):
    """A point has no value: the reason."""


def measure_points(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Measure every point of a step, then on other allocations as time allows; yield what failed.

    Time that is short costs allocations and rounds, never a point.
    """
    found = step_points(context, step)
    if not found:
        yield failure(step, None, "no configuration fits this GPU")
        return
    ends, passes = context.gpu.now() + step.seconds, allocations(step.probe, context.effort)
    failed: dict[ResultPoint, str] = {}
    last_s = 0.0
    for allocation in range(passes):
        began = context.gpu.now()
        if allocation and began + last_s > ends:
            break
        order = [point for point in in_order(step.probe, found, allocation) if point not in failed]
        swept_s = 0.0
        for place, point in enumerate(order):
            left = len(order) - place + (passes - 1 - allocation) * len(order)
            try:
                swept_s += _measure_point(context, step, point, allocation, (ends - context.gpu.now()) / left)
            except PointUnmeasured as error:
                if allocation == 0:
                    failed[point] = str(error)
        last_s = context.gpu.now() - began - swept_s
    for point, why in failed.items():
        yield failure(step, point, why)


def in_order(probe: Probe, found: Sequence[ResultPoint], seed: int) -> tuple[ResultPoint, ...]:
    """Return points in random order, so that drift hits all alike; those of a curve from coarse to fine."""
    if probe.method != "curve" or probe.along is None:
        return next(rounds(tuple(found), 1, seed=len(found) + seed))
    levels: dict[int, list[ResultPoint]] = {}
    along: dict[FixedValues, int] = {}
    for point in sorted(found, key=lambda point: float(dict(point.fixed)[probe.along or ""])):
        curve = tuple(word for word in point.fixed if word[0] != probe.along)
        place = along[curve] = along.get(curve, -1) + 1
        levels.setdefault(next(step for step in _COARSE_TO_FINE if place % step == 0), []).append(point)
    return tuple(
        point for level in sorted(levels, reverse=True)
        for point in next(rounds(levels[level], 1, seed=len(found) + seed))
    )  # fmt: skip


def step_points(context: MeasurementContext, step: Step) -> tuple[ResultPoint, ...]:
    """Return the points of a step, from the kernels that passed their gate."""
    probe, kernel = step.probe, step.probe.kernel
    if kernel is None:
        return ()
    usable = [dict(one.variant.assignment) for one in passed(context, probe)]
    return points(
        probe,
        kernel,
        usable,
        context.gpu.properties,
        data=step.data,
        regime=step.regime,
        free_bytes=context.gpu.free_bytes(),
    )


def passed(context: MeasurementContext, probe: Probe) -> list[Checked]:
    """Return the variants that may be timed: their code is what was meant, or nobody could look at it."""
    return [
        one
        for one in context.checked.get(probe.id, ())
        if one.compiled is not None and one.judgement.gate in {"pass", "emulated", None}
    ]


def failure(step: Step, point: ResultPoint | None, why: str) -> StepFailure:
    """Return what failed of a step: a point, or all of it."""
    fixed = point.fixed if point is not None else None
    return StepFailure(step.probe.id, step.regime, step.data, fixed, "unsupported", why)


def _measure_point(
    context: MeasurementContext, step: Step, point: ResultPoint, allocation: int, seconds: float
) -> float:
    """Measure a point on one allocation, unless its samples are there. Return the seconds of the sweep.

    Raises Unmeasured.
    """
    candidates = [_with_cubin(context, step.probe, one) for one in point.configurations]
    known = _winner(context, step.probe, candidates)
    final = replace(known, allocation=allocation) if known is not None else None
    if final is not None and context.store.find(step.probe.id, final.words(), FINAL) is not None:
        return 0.0
    began = context.gpu.now()
    try:
        with unless_fatal():
            if final is None:
                final = replace(_sweep(context, step, candidates), allocation=allocation)
            swept_s = context.gpu.now() - began
            _take_final(context, step, final, seconds - swept_s)
    finally:
        if sized(step.probe):
            context.launcher.pool.release()
    return swept_s


def _with_cubin(context: MeasurementContext, probe: Probe, one: Configuration) -> Configuration:
    compiled = variant_of(context, probe, one).compiled
    return replace(one, cubin=compiled.sha256 if compiled is not None else "")


def variant_of(context: MeasurementContext, probe: Probe, one: Configuration) -> Checked:
    """Return the compiled kernel of a configuration."""
    return next(checked for checked in passed(context, probe) if checked.variant.assignment == one.assignment)


def _winner(context: MeasurementContext, probe: Probe, candidates: Sequence[Configuration]) -> Configuration | None:
    """Return the best of a sweep that is in the samples, or the only candidate; None where some were not tried yet."""
    if len(candidates) == 1:
        return candidates[0]
    if _untried(context, probe, candidates):
        return None
    best: tuple[float, Configuration] | None = None
    for one in candidates:
        series = context.store.find(probe.id, one.words(), SWEEP)
        found = middle(probe, probe.unit, [series]) if series is not None else None
        if found is not None and (best is None or better(probe.unit, found, best[0])):
            best = found, one
    return best[1] if best is not None else None


def _untried(context: MeasurementContext, probe: Probe, candidates: Sequence[Configuration]) -> list[Configuration]:
    return [
        one
        for one in candidates
        if context.store.find(probe.id, one.words(), SWEEP) is None and _key(probe, one) not in context.broken
    ]


def _key(probe: Probe, one: Configuration) -> tuple[str, FixedValues]:
    return probe.id, tuple(one.words().items())


def _sweep(context: MeasurementContext, step: Step, candidates: Sequence[Configuration]) -> Configuration:
    """Try the candidates for a few short rounds; keep the samples; return the best. Raises Unmeasured if none works.

    Only the best is brought to the clock that it settles at: that takes seconds.
    """
    ready, counts = [], []
    for one in _untried(context, step.probe, candidates):
        try:
            taking = _ready(context, step.probe, one)
            counts.append(iterations(taking, context.effort.window_s))
            ready.append(taking)
        except PointUnmeasured as error:
            context.broken[_key(step.probe, one)] = str(error)
    if ready:
        warm_up(ready[0], counts[0])
    samples = sweep(ready, counts, context.effort.sweep_rounds, seed=len(candidates))
    for taking, taken in zip(ready, samples, strict=True):
        _keep(context, step.probe, taking.words(), SWEEP, taken)
    best = _winner(context, step.probe, candidates)
    if best is None:
        reasons = [why for one in candidates if (why := context.broken.get(_key(step.probe, one)))]
        raise PointUnmeasured(reasons[0] if reasons else "its time does not grow with the iterations")
    return best


def _ready(context: MeasurementContext, probe: Probe, one: Configuration) -> Ready:
    """Return a configuration that runs, with all its blocks at once. Raises Unmeasured; what it loses is fatal."""
    with unless_fatal():
        found = context.launcher.ready(variant_of(context, probe, one), one)
        if not found.fits():
            raise PointUnmeasured(f"{found.shape.grid} blocks of {one.block} threads do not fit on the SMs at once")
        found.one_wave()
        found.run(2)
        return found


@contextmanager
def unless_fatal() -> Iterator[None]:
    """Turn what breaks a single configuration into Unmeasured; what breaks the whole context goes on upwards."""
    try:
        yield
    except BrokenRun as error:
        raise PointUnmeasured(error.message) from error
    except DeviceError as error:
        if error.fatal:
            raise
        raise PointUnmeasured(error.message) from error


def _take_final(context: MeasurementContext, step: Step, one: Configuration, seconds: float) -> None:
    """Measure one configuration until its interval is small or its time is up, and keep the samples."""
    probe, effort, ends = step.probe, context.effort, context.gpu.now() + seconds
    rule = effort.curve if probe.method == "curve" else effort.rule
    taking = _ready(context, probe, one)
    outcome = verify(probe, taking)
    if outcome is not None:
        taking.note("result", outcome)
    if step.regime == "sustained":
        count = iterations(taking, effort.sustained_window_s)
        longest_s = min(effort.settle_s, max(effort.least_settle_s, seconds * _SETTLING))
        taking.note("settled", settle(taking, count, longest_s).settled)
    else:
        count = iterations(taking, effort.window_s)
        warm_up(taking, count)
    left_s = max(0.0, min(rule.longest_s, ends - context.gpu.now()))
    rule = rule._replace(longest_s=left_s)
    taken = measure(probe, taking, count, rule, step.regime, seed=1, repeat_s=context.repeat_s)
    context.repeat_s -= taken.repeated_s
    _keep(context, probe, taking.words(), FINAL, taken.samples)


def _keep(
    context: MeasurementContext, probe: Probe, words: dict[str, Parameter], number: int, samples: Sequence[Sample]
) -> None:
    series = Series(probe.id, words, number, tuple(samples))
    context.store.add(series)
    context.tell(
        ConfigurationTaken(probe.id, label(words), len(samples), middle(probe, probe.unit, [series]), probe.unit)
    )


def label(words: dict[str, Parameter]) -> str:
    """Write a configuration in one line, without what only tells runs apart."""
    hidden = {"cubin", "allocation", "sms", "result", "settled"}
    return " ".join(f"{name}={value}" for name, value in words.items() if name not in hidden)
