"""The value of a probe that is timed against its iterations, with verdict and evidence, for each of its points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.record.reduction import estimated
from gpuprof.characterize.record.samples import Parameter, Series
from gpuprof.characterize.record.store import FINAL, SWEEP
from gpuprof.characterize.results.judging import Judging, assignment_of, believed, checks_of, published
from gpuprof.characterize.results.names import value_name

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe


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
