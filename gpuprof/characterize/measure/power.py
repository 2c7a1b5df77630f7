"""Measures power: what a GPU draws when nothing runs, and under the kernel of another probe, once it has settled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.judge.regime import settled
from gpuprof.characterize.measure.events import ConfigurationTaken
from gpuprof.characterize.measure.kernel_steps import (
    PointUnmeasured,
    failure,
    label,
    passed,
    step_points,
    unless_fatal,
    variant_of,
)
from gpuprof.characterize.measure.sampling import iterations
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.on_gpu.launcher import Ready
from gpuprof.characterize.record.configurations import Configuration
from gpuprof.characterize.record.gpu import Stopped, Telemetry
from gpuprof.characterize.record.samples import Parameter, Sample, Series
from gpuprof.characterize.record.store import FINAL

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_EVERY_S = 0.1
_LAST_S = 2.0
_WINDOW_S = 20e-3


class Reading(NamedTuple):
    """What the driver said at a time, and how many iterations the kernel had done."""

    time_s: float
    telemetry: Telemetry
    iterations: int


def measure_power(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Run the load, or nothing, for some seconds, and read the driver ten times a second."""
    try:
        with unless_fatal():
            _power(context, step)
    except PointUnmeasured as error:
        yield failure(step, None, str(error))


def _power(context: MeasurementContext, step: Step) -> None:
    one = _load(context, step)
    words: dict[str, Parameter] = {"data": step.data, "regime": step.regime}
    if one is not None:
        words = one.words() | words
    if context.store.find(step.probe.id, words, FINAL) is not None:
        return
    ready = _ready(context, step, one) if one is not None else None
    samples, readings = _run(context, ready, min(step.seconds, context.effort.power_s))
    watts = [reading.telemetry.power_w for reading in _last(readings) if reading.telemetry.power_w is not None]
    if not watts:
        raise PointUnmeasured("the driver does not tell the power")
    words |= (ready.words() if ready is not None else {}) | {"data": step.data, "regime": step.regime}
    context.store.add(Series(step.probe.id, words | _seen(readings, median(watts)), FINAL, tuple(samples)))
    context.telemetry += [reading.telemetry for reading in readings]
    context.tell(ConfigurationTaken(step.probe.id, label(words), len(samples), median(watts), step.probe.unit))


def _load(context: MeasurementContext, step: Step) -> Configuration | None:
    """Return the configuration of the kernel that runs: the best that the samples have of it, else the first."""
    probe = step.probe
    if probe.load is None and probe.kernel is None:
        return None
    loaded = next((one.variant.probe for one in context.checked.get(probe.load or probe.id, ())), None)
    if loaded is None or not passed(context, loaded):
        raise PointUnmeasured(f"the kernel of {probe.load or probe.id} did not pass its gate here")
    found = step_points(context, Step(loaded, step.regime, step.data, 0.0))
    every = [one for point in found for one in point.configurations]
    if not every:
        raise PointUnmeasured("no configuration fits this GPU")
    compiled = [replace(one, cubin=_sha(context, step, one)) for one in every]
    return next((one for one in compiled if _was_best(context, loaded.id, one)), compiled[0])


def _was_best(context: MeasurementContext, probe: str, one: Configuration) -> bool:
    """Tell whether a configuration won the sweep of its own probe, in any regime."""
    return any(
        context.store.find(probe, replace(one, regime=regime).words(), FINAL) is not None
        for regime in ("sustained", "short")
    )


def _sha(context: MeasurementContext, step: Step, one: Configuration) -> str:
    compiled = variant_of(context, _loaded(context, step), one).compiled
    return compiled.sha256 if compiled is not None else ""


def _loaded(context: MeasurementContext, step: Step) -> Probe:
    return context.checked[step.probe.load or step.probe.id][0].variant.probe


def _ready(context: MeasurementContext, step: Step, one: Configuration) -> Ready:
    return context.launcher.ready(variant_of(context, _loaded(context, step), one), one)


def _run(context: MeasurementContext, ready: Ready | None, seconds: float) -> tuple[list[Sample], list[Reading]]:
    """Keep the GPU busy with launches of some milliseconds, or leave it alone, and read the driver meanwhile."""
    gpu, done = context.gpu, 0
    count = iterations(ready, _WINDOW_S) if ready is not None else 0
    samples: list[Sample] = []
    readings: list[Reading] = []
    began = gpu.now()
    while (elapsed := gpu.now() - began) < seconds or not readings:
        if context.stop():
            raise Stopped
        if ready is not None:
            samples.append(ready.run(count, watched=True))
            done += count
        else:
            gpu.wait(_EVERY_S)
        if not readings or elapsed - readings[-1].time_s >= _EVERY_S or ready is None:
            telemetry = gpu.telemetry()
            readings.append(Reading(gpu.now() - began, telemetry, done))
            if ready is None:
                samples.append(Sample(0, _EVERY_S, None, telemetry.sm_clock_hz, telemetry.reasons))
    return samples, readings


def _last(readings: Sequence[Reading]) -> list[Reading]:
    """Return the readings of the last seconds, and no more than the later half."""
    end, half = readings[-1].time_s, readings[-1].time_s / 2
    return [reading for reading in readings if reading.time_s >= max(end - _LAST_S, half)]


def _seen(readings: Sequence[Reading], watts: float) -> dict[str, Parameter]:
    """Return what is kept besides the samples: power, temperature, energy per iteration, whether the clock settled."""
    last = _last(readings)
    seen: dict[str, Parameter] = {"power_w": watts}
    heat = [reading.telemetry.temperature_c for reading in last if reading.telemetry.temperature_c is not None]
    if heat:
        seen["temperature_c"] = median(heat)
    energy = _energy(last, watts)
    if energy is not None:
        seen["joule_per_iteration"] = energy
    clocks = [(one.time_s, one.telemetry.sm_clock_hz) for one in readings if one.telemetry.sm_clock_hz]
    if clocks:
        seen["settled"] = settled([(time, hz or 0.0) for time, hz in clocks]).settled
    return seen


def _energy(last: Sequence[Reading], watts: float) -> float | None:
    """Return joules per iteration: from the driver's energy counter where it has one, else from the power."""
    first, end = last[0], last[-1]
    done = end.iterations - first.iterations
    if done <= 0:
        return None
    if first.telemetry.energy_j is not None and end.telemetry.energy_j is not None:
        return (end.telemetry.energy_j - first.telemetry.energy_j) / done
    return watts * (end.time_s - first.time_s) / done
