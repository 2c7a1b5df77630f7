"""Every method of measuring by its name, and the results of a step by its method."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.points import failure
from gpuprof.characterize.measure.step import Step, StepFailure
from gpuprof.characterize.methods import copy, curve, launch, power, resident, slope, sm_map
from gpuprof.characterize.methods.method import Method
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.series import Series
from gpuprof.characterize.results.judging import Judging, no_value
from gpuprof.characterize.results.names import value_name

METHODS: dict[str, Method] = {
    "slope": slope.METHOD,
    "curve": curve.METHOD,
    "map": sm_map.METHOD,
    "resident": resident.METHOD,
    "launch": launch.METHOD,
    "copy": copy.METHOD,
    "power": power.METHOD,
}
"""Every method that a probe's file can name (`probes.probe.METHODS`)."""


def method_of(probe: Probe) -> Method:
    """Return how a probe is run."""
    return METHODS[probe.method]


def results_of(
    step: Step, series: Sequence[Series], failures: Sequence[StepFailure], judging: Judging
) -> tuple[Result, ...]:
    """Return the results of one step, and for each point that failed why it has none.

    Samples that make no sense, of a damaged file, say, cost no other step its results.
    """
    of_step = [taken for taken in series if _belongs(taken, step)]
    try:
        results = tuple(method_of(step.probe).reduce(step.probe, of_step, judging)) if of_step else ()
    except (ValueError, ArithmeticError) as error:
        results, failures = (), (failure(step, None, f"its samples cannot be evaluated: {error}"),)
    named = {result.name for result in results}
    lost = (_lost(step.probe, failed) for failed in failures if _same_step(failed, step))
    return results + tuple(result for result in lost if result.name not in named)


def _belongs(series: Series, step: Step) -> bool:
    config = series.config
    return (series.probe, config.regime, config.data) == (step.probe.id, step.regime, step.data)


def _same_step(failure: StepFailure, step: Step) -> bool:
    return (failure.probe, failure.regime, failure.data) == (step.probe.id, step.regime, step.data)


def _lost(probe: Probe, failure: StepFailure) -> Result:
    name = value_name(probe, failure.fixed or (), failure.regime, failure.data)
    return Result(name, no_value(probe.unit, failure.why))
