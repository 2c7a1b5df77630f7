"""From the samples of a run to its results: one value with verdict and evidence for every point of every probe."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.step import Failure, Step
from gpuprof.characterize.record.reduction import estimated
from gpuprof.characterize.record.samples import Parameter, Series
from gpuprof.characterize.record.store import FINAL, SWEEP
from gpuprof.characterize.results.curve_results import curve_results, map_results
from gpuprof.characterize.results.host_results import copy_results, launch_results, power_results, resident_results
from gpuprof.characterize.results.judging import Judging, assignment_of, believed, checks_of, published
from gpuprof.characterize.results.names import value_name
from gpuprof.characterize.sheet.measured import MeasuredValue

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe


def results_of(
    step: Step, series: Sequence[Series], failures: Sequence[Failure], judging: Judging
) -> tuple[Result, ...]:
    """Return the results of one step, and for each point that failed why it has none."""
    mine = [one for one in series if _belongs(one, step)]
    found = tuple(_BY_METHOD[step.probe.method](step.probe, mine, judging)) if mine else ()
    named = {one.name for one in found}
    lost = (_lost(step.probe, one) for one in failures if _same_step(one, step))
    return found + tuple(one for one in lost if one.name not in named)


def _belongs(series: Series, step: Step) -> bool:
    words = series.configuration
    return series.probe == step.probe.id and (words.get("regime"), words.get("data")) == (step.regime, step.data)


def _same_step(failure: Failure, step: Step) -> bool:
    return (failure.probe, failure.regime, failure.data) == (step.probe.id, step.regime, step.data)


def _lost(probe: Probe, failure: Failure) -> Result:
    fixed = dict(failure.fixed or ())
    name = value_name(probe, fixed, failure.regime, failure.data)
    return Result(name, MeasuredValue(None, probe.unit, failure.word, (failure.why,)))


def slope_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the value of each point: over all allocations of its best configuration, measured again."""
    for fixed, finals in _by_point(probe, [one for one in series if one.round == FINAL]).items():
        found = estimated(probe, probe.unit, finals)
        words = finals[0].configuration
        if found is None:
            continue
        sweep = [one for one in series if one.round == SWEEP and _same_configuration(one.configuration, words)]
        checks = checks_of(probe, judging, finals, found.value, sweep=sweep)
        value = believed(probe, judging, finals, found, checks)
        name = value_name(probe, dict(fixed), str(words["regime"]), str(words["data"]))
        yield Result(name, value, published(probe, judging, assignment_of(probe, finals[0])))


def _by_point(probe: Probe, series: Sequence[Series]) -> dict[tuple[tuple[str, Parameter], ...], list[Series]]:
    groups: dict[tuple[tuple[str, Parameter], ...], list[Series]] = {}
    for one in series:
        groups.setdefault(tuple((axis, one.configuration[axis]) for axis in probe.series), []).append(one)
    return groups


def _same_configuration(one: Mapping[str, Parameter], other: Mapping[str, Parameter]) -> bool:
    ignored = {"allocation", "sms", "result", "settled"}
    return {name: value for name, value in one.items() if name not in ignored} == {
        name: value for name, value in other.items() if name not in ignored
    }


_BY_METHOD = {
    "slope": slope_results,
    "curve": curve_results,
    "map": map_results,
    "launch": launch_results,
    "copy": copy_results,
    "power": power_results,
    "resident": resident_results,
}
