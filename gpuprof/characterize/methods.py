"""How probes are run, by the name of the method: what measures one, and what makes results of its samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.host_steps import measure_copies, measure_launches, measure_map, measure_resident
from gpuprof.characterize.measure.kernel_steps import measure_points
from gpuprof.characterize.measure.power import measure_power
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.samples import Series
from gpuprof.characterize.results.curve_results import curve_results, map_results
from gpuprof.characterize.results.host_results import copy_results, launch_results, power_results, resident_results
from gpuprof.characterize.results.judging import Judging
from gpuprof.characterize.results.names import value_name
from gpuprof.characterize.results.slope_results import slope_results
from gpuprof.characterize.sheet.measured import MeasuredValue


class Method(NamedTuple):
    """Measures a step, yielding what failed of it; and yields a result with its verdict for each point of a probe."""

    measure: Callable[[MeasurementContext, Step], Iterator[StepFailure]]
    results: Callable[[Probe, Sequence[Series], Judging], Iterator[Result]]


METHODS: dict[str, Method] = {
    "slope": Method(measure_points, slope_results),
    "curve": Method(measure_points, curve_results),
    "map": Method(measure_map, map_results),
    "resident": Method(measure_resident, resident_results),
    "launch": Method(measure_launches, launch_results),
    "copy": Method(measure_copies, copy_results),
    "power": Method(measure_power, power_results),
}
"""Every method that a probe's file can name (`probes.probe.METHODS`)."""


def results_of(
    step: Step, series: Sequence[Series], failures: Sequence[StepFailure], judging: Judging
) -> tuple[Result, ...]:
    """Return the results of one step, and for each point that failed why it has none."""
    mine = [one for one in series if _belongs(one, step)]
    found = tuple(METHODS[step.probe.method].results(step.probe, mine, judging)) if mine else ()
    named = {one.name for one in found}
    lost = (_lost(step.probe, one) for one in failures if _same_step(one, step))
    return found + tuple(one for one in lost if one.name not in named)


def _belongs(series: Series, step: Step) -> bool:
    words = series.configuration
    return series.probe == step.probe.id and (words.get("regime"), words.get("data")) == (step.regime, step.data)


def _same_step(failure: StepFailure, step: Step) -> bool:
    return (failure.probe, failure.regime, failure.data) == (step.probe.id, step.regime, step.data)


def _lost(probe: Probe, failure: StepFailure) -> Result:
    fixed = dict(failure.fixed or ())
    name = value_name(probe, fixed, failure.regime, failure.data)
    return Result(name, MeasuredValue(None, probe.unit, failure.word, (failure.why,)))
