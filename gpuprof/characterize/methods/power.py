"""Power: what a GPU draws when nothing runs, and under the kernel of another probe, once it has settled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.regime import settled, throttling
from gpuprof.characterize.judge.verdict import VerdictCheck, judge, not_applicable
from gpuprof.characterize.measure.effort import Effort
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.forecast import Cost, Where
from gpuprof.characterize.measure.points import (
    PointUnmeasured,
    keep,
    passed,
    step_points,
    unless_unmeasured,
    variant_of,
    with_code,
)
from gpuprof.characterize.measure.sampling import iterations
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.methods.method import Method, Phase
from gpuprof.characterize.on_gpu.launcher import Ready
from gpuprof.characterize.record.configurations import Configuration, series_work
from gpuprof.characterize.record.gpu import Stopped, Telemetry
from gpuprof.characterize.record.reduction import nvml_clock, reasons_of
from gpuprof.characterize.record.series import Observed, Sample, Series, SeriesConfig
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.judging import NO_CLOCK, NO_CODE, Judging, shown
from gpuprof.characterize.results.names import series_name
from gpuprof.characterize.sheet.measured import MeasuredValue

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_EVERY_S = 0.1
_LAST_S = 2.0
_WINDOW_S = 20e-3
_OVER_LIMIT = 1.1
"""Power overshoots its limit for moments, and NVML's is right within 5 %."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """What the driver said at a time, and how many iterations the kernel had done."""

    time_s: float
    telemetry: Telemetry
    iterations: int


def measure(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Run the load, or nothing, for some seconds, and read the driver ten times a second."""
    yield from unless_unmeasured(step, None, partial(_power, context, step))


def _power(context: MeasurementContext, step: Step) -> None:
    probe = step.probe
    load = _load(context, step) if probe.load is not None or probe.kernel is not None else None
    configuration = _best_configuration(context, step, load) if load is not None else None
    config = SeriesConfig(values={}, data=step.data, regime=step.regime)
    if configuration is not None:
        config = configuration.config
    if context.store.find(probe.id, config, FINAL) is not None:
        return
    ready = None
    if load is not None and configuration is not None:
        ready = context.launcher.ready(variant_of(context, load, configuration), configuration)
    samples, readings = _run(context, ready, min(step.seconds, context.effort.power_s))
    watts = [reading.telemetry.power_w for reading in _last(readings) if reading.telemetry.power_w is not None]
    if not watts:
        raise PointUnmeasured("the driver does not report the power")
    seen = _seen(ready.seen if ready is not None else Observed(), readings, median(watts))
    context.telemetry += [reading.telemetry for reading in readings]
    series = Series(probe=probe.id, config=config, seen=seen, round=FINAL, samples=tuple(samples))
    keep(context, probe, series, median(watts))


def _load(context: MeasurementContext, step: Step) -> Probe:
    """Return the probe whose kernel runs. Raises PointUnmeasured where it may not be timed."""
    name = step.probe.load or step.probe.id
    load = next((checked.variant.probe for checked in context.checked.get(name, ())), None)
    if load is None or not passed(context, load):
        raise PointUnmeasured(f"the kernel of {name} did not pass its gate here")
    return load


def _best_configuration(context: MeasurementContext, step: Step, load: Probe) -> Configuration:
    """Return the best configuration that the samples have of a kernel, else the first. Raises PointUnmeasured."""
    points = step_points(context, replace(step, probe=load))
    compiled = [
        with_code(context, load, configuration) for point in points for configuration in point.configurations
    ]  # fmt: skip
    if not compiled:
        raise PointUnmeasured("no configuration fits this GPU")
    best = (configuration for configuration in compiled if _was_best(context, load.id, configuration))
    return next(best, compiled[0])


def _was_best(context: MeasurementContext, probe: str, configuration: Configuration) -> bool:
    """Tell whether a configuration won the sweep of its own probe, in any regime."""
    return any(
        context.store.find(probe, replace(configuration, regime=regime).config, FINAL) is not None
        for regime in ("sustained", "short")
    )


def _run(context: MeasurementContext, ready: Ready | None, seconds: float) -> tuple[list[Sample], list[_Reading]]:
    """Keep the GPU busy with launches of some milliseconds, or leave it alone, and read the driver meanwhile."""
    gpu, done = context.gpu, 0
    count = iterations(ready, _WINDOW_S) if ready is not None else 0
    samples: list[Sample] = []
    readings: list[_Reading] = []
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
            readings.append(_Reading(gpu.now() - began, telemetry, done))
            if ready is None:
                samples.append(Sample(0, _EVERY_S, sm_clock_hz=telemetry.sm_clock_hz, reasons=telemetry.reasons))
    return samples, readings


def _last(readings: Sequence[_Reading]) -> list[_Reading]:
    """Return the readings of the last seconds, and no more than the later half."""
    end, half = readings[-1].time_s, readings[-1].time_s / 2
    return [reading for reading in readings if reading.time_s >= max(end - _LAST_S, half)]


def _seen(ran: Observed, readings: Sequence[_Reading], watts: float) -> Observed:
    """Return what is kept besides the samples: power, temperature, energy per iteration, whether the clock settled."""
    last = _last(readings)
    heat = [reading.telemetry.temperature_c for reading in last if reading.telemetry.temperature_c is not None]
    clocks = [(reading.time_s, hz) for reading in readings if (hz := reading.telemetry.sm_clock_hz)]
    return replace(
        ran,
        power_w=watts,
        temperature_c=median(heat) if heat else None,
        joule_per_iteration=_joule_per_iteration(last, watts),
        settled=settled(clocks).settled if clocks else None,
    )


def _joule_per_iteration(last: Sequence[_Reading], watts: float) -> float | None:
    """Return the energy of an iteration: from the driver's energy counter where it has one, else from the power."""
    first, end = last[0], last[-1]
    done = end.iterations - first.iterations
    if done <= 0:
        return None
    if first.telemetry.energy_j is not None and end.telemetry.energy_j is not None:
        return (end.telemetry.energy_j - first.telemetry.energy_j) / done
    return watts * (end.time_s - first.time_s) / done


def reduce(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the power, and beside it clock, temperature, and energy for each unit of the load's work."""
    for taken in series:
        watts = taken.seen.power_w
        if watts is None:
            continue
        power = _reading(probe, taken, watts, unit=probe.unit, limit=_power_limit(judging, watts))
        yield Result(series_name(probe, taken), power)
        clock = nvml_clock([taken])
        if clock is not None:
            yield Result(series_name(probe, taken, "clock"), _reading(probe, taken, clock, unit="Hz"))
        heat = taken.seen.temperature_c
        if heat is not None:
            yield Result(series_name(probe, taken, "temperature"), _reading(probe, taken, heat, unit="°C"))
        energy = _energy(probe, taken, judging)
        if energy is not None:
            joule, unit = energy
            yield Result(series_name(probe, taken, "energy"), _reading(probe, taken, joule, unit=unit))


def _power_limit(judging: Judging, watts: float) -> VerdictCheck:
    limit = judging.power_limit_w
    if limit is None:
        return VerdictCheck("limit", "missing", "the driver does not report the power limit")
    if watts <= limit * _OVER_LIMIT:
        return VerdictCheck("limit", "passed", number=watts / limit)
    why = f"{watts:.0f} W is more than the power limit of {limit:.0f} W"
    return VerdictCheck("limit", "failed", why, number=watts / limit)


def _reading(
    probe: Probe, series: Series, value: float, *, unit: str, limit: VerdictCheck | None = None
) -> MeasuredValue:
    """Return what the driver said: power against its limit, the rest at its word. A moving clock is a doubt."""
    limit = limit or VerdictCheck("limit", "missing", "reported by the driver")
    checks = [NO_CODE, not_applicable("scaling", "nothing is timed"), NO_CLOCK, limit]
    if series.seen.settled is False:
        checks.append(VerdictCheck("settled", "missing", "the clock had not settled"))
    verdict, held = judge(checks), throttling(reasons_of([series]))
    return MeasuredValue(
        value=value, unit=unit, verdict=verdict.word, reasons=verdict.reasons, statistic="median",
        samples=len(series.samples), regime="power_limited" if held else series.config.regime, throttling=held,
        method=f"read from the driver; {probe.title[0].lower()}{probe.title[1:]}", configuration=shown(probe, series),
    )  # fmt: skip


def _energy(probe: Probe, series: Series, judging: Judging) -> tuple[float, str] | None:
    """Return joules per FLOP, operation or byte of the load, and their unit."""
    loads, joule = judging.checked.get(probe.load or probe.id, ()), series.seen.joule_per_iteration
    if joule is None or not loads:
        return None
    for what, unit in (("flop", "J/FLOP"), ("op", "J/OP"), ("byte", "J/B")):
        amount = series_work(loads[0].variant.kernel, what, series)
        if amount:
            return joule / amount, unit
    return None


def forecast(_step: Step, _where: Where, effort: Effort) -> Cost:
    """Return the time in which power settles."""
    return Cost(effort.least_power_s, effort.least_power_s, effort.power_s)


def phase(step: Step) -> Phase:
    """Return when a step's turn is: an idle GPU comes before all load."""
    return "idle" if step.probe.kernel is None and step.probe.load is None else "sustained"


METHOD = Method(measure=measure, reduce=reduce, forecast=forecast, phase=phase)
