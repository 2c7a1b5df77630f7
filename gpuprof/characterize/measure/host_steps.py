"""Measures what is no slope of one kernel: launches, copies, power, maps over SMs, blocks at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from gpuprof.characterize.maths.statistics import rounds
from gpuprof.characterize.measure.effort import LEAST_ROUNDS
from gpuprof.characterize.measure.events import ConfigurationTaken
from gpuprof.characterize.measure.kernel_steps import (
    PointUnmeasured,
    failure,
    label,
    step_points,
    unless_fatal,
    variant_of,
)
from gpuprof.characterize.measure.sampling import iterations
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.record.configurations import Configuration, ResultPoint, sweep_values
from gpuprof.characterize.record.gpu import MemoryKind, Stopped, Way
from gpuprof.characterize.record.reduction import MULTIPLES
from gpuprof.characterize.record.samples import Parameter, Sample, Series
from gpuprof.characterize.record.store import FINAL

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_LAUNCHES = 60
"""Four times as many fit into the queue of the driver."""
_COPY_S = 2e-3
_MOST_COPIES = 64
_LONGEST_MAP = 5


def measure_launches(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Time N, 2N and 4N launches of a kernel that does nothing."""
    for point in step_points(context, step):
        try:
            with unless_fatal():
                _launches(context, step, point)
        except PointUnmeasured as error:
            yield failure(step, point, str(error))


def _launches(context: MeasurementContext, step: Step, point: ResultPoint) -> None:
    probe, one = step.probe, _first(context, step.probe, point)
    way = next(found for found in get_args(Way) if found == probe.launched)
    if context.store.find(probe.id, one.words(), FINAL) is not None:
        return
    ready = context.launcher.ready(variant_of(context, probe, one), one)
    samples, ends = [], context.gpu.now() + min(step.seconds, context.effort.rule.longest_s)
    for (order,) in (tuple(rounds(MULTIPLES, 1, seed)) for seed in range(200)):
        for multiple in order:
            count = multiple * _LAUNCHES
            samples.append(Sample(count, ready.launches(count, way)))
        if context.gpu.now() >= ends and len(samples) >= 3 * len(MULTIPLES):
            break
    _keep(context, probe, ready.words(), samples)


def measure_copies(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Time copies of each size, several in a row where they are short; small sizes first."""
    probe, transfer = step.probe, step.probe.transfer
    if transfer is None:
        return
    source, target = (
        next(place for place in get_args(MemoryKind) if place == name)
        for name in (transfer.source, transfer.destination)
    )
    if "peer" in {source, target} and not context.gpu.properties.peers:
        yield failure(step, None, "no other GPU can be reached from this one")
        return
    l2_bytes, free = context.gpu.properties.l2_bytes, context.gpu.free_bytes() / 4
    sizes = sorted({size for sweep in probe.sweeps.values() for size in sweep_values(sweep, l2_bytes, free)})
    try:
        with unless_fatal():
            for place, size in enumerate(sizes):
                _copies(context, step, (source, target), int(size), step.seconds * (place + 1) / len(sizes))
    except PointUnmeasured as error:
        yield failure(step, None, str(error))
    finally:
        context.gpu.end_copies()


def _copies(
    context: MeasurementContext, step: Step, places: tuple[MemoryKind, MemoryKind], size: int, seconds: float
) -> None:
    probe = step.probe
    words: dict[str, Parameter] = {"size": size, "data": step.data, "regime": step.regime}
    if context.store.find(probe.id, words, FINAL) is not None:
        return
    gpu, (source, target) = context.gpu, places
    once = gpu.copies(source, target, size, 1)
    count = max(1, min(_MOST_COPIES, int(_COPY_S / max(once, 1e-9))))
    link = gpu.telemetry()
    samples: list[Sample] = []
    ends = gpu.now() + min(seconds / 8, context.effort.curve.longest_s)
    while len(samples) < context.effort.curve.least or (len(samples) < 50 and gpu.now() < ends):
        if context.stop():
            raise Stopped
        samples.append(Sample(count, gpu.copies(source, target, size, count)))
    seen: dict[str, Parameter] = {}
    if link.pcie_generation is not None and link.pcie_width is not None:
        seen = {"pcie_generation": link.pcie_generation, "pcie_width": link.pcie_width}
    _keep(context, probe, words | seen, samples)


def measure_map(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Time every SM by itself: one block on each, N, 2N and 4N iterations, a series for each SM."""
    found = step_points(context, step)
    ends = context.gpu.now() + step.seconds
    for place, point in enumerate(found):
        try:
            with unless_fatal():
                _map(context, step, point, (ends - context.gpu.now()) / (len(found) - place))
        except PointUnmeasured as error:
            yield failure(step, point, str(error))


def _map(context: MeasurementContext, step: Step, point: ResultPoint, seconds: float) -> None:
    ends = context.gpu.now() + seconds
    probe, one = step.probe, _first(context, step.probe, point)
    sms = context.gpu.properties.sm_count
    if all(context.store.find(probe.id, one.words() | {"sm": sm}, FINAL) for sm in range(sms)):
        return
    ready = context.launcher.ready(variant_of(context, probe, one), one)
    count = iterations(ready, context.effort.window_s)
    by_sm: dict[int, list[Sample]] = {}
    for number, order in enumerate(rounds(MULTIPLES, min(context.effort.rule.least, _LONGEST_MAP), seed=1)):
        if number >= LEAST_ROUNDS and context.gpu.now() > ends:
            break
        for multiple in order:
            sample, cycles = ready.run_by_sm(multiple * count)
            for sm, one_sm in cycles.items():
                by_sm.setdefault(sm, []).append(sample._replace(cycles=float(one_sm)))
    for sm, samples in sorted(by_sm.items()):
        if context.store.find(probe.id, one.words() | {"sm": sm}, FINAL) is None:
            context.store.add(Series(probe.id, ready.words() | {"sm": sm}, FINAL, tuple(samples)))
    context.tell(ConfigurationTaken(probe.id, label(one.words()), sum(map(len, by_sm.values())), None, probe.unit))


def measure_resident(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Launch one block per SM more than should fit, and look how many really were on an SM at once."""
    for point in step_points(context, step):
        try:
            with unless_fatal():
                _resident(context, step, point)
        except PointUnmeasured as error:
            yield failure(step, point, str(error))


def _resident(context: MeasurementContext, step: Step, point: ResultPoint) -> None:
    probe = step.probe
    most = max(point.configurations, key=lambda one: (one.blocks or 0, one.block))
    one = _first(context, probe, ResultPoint(point.fixed, (most,)))
    if context.store.find(probe.id, one.words(), FINAL) is not None:
        return
    ready = context.launcher.ready(variant_of(context, probe, one), one)
    count = iterations(ready, context.effort.window_s)
    sample, at_once = ready.run_at_once(count)
    ready.note("at_once", at_once)
    ready.note("calculated", context.gpu.blocks_at_once(ready.function, one.block, ready.shape.shared_bytes))
    _keep(context, probe, ready.words(), [sample])


def _first(context: MeasurementContext, probe: Probe, point: ResultPoint) -> Configuration:
    one = point.configurations[0]
    compiled = variant_of(context, probe, one).compiled
    return replace(one, cubin=compiled.sha256 if compiled is not None else "")


def _keep(context: MeasurementContext, probe: Probe, words: dict[str, Parameter], samples: list[Sample]) -> None:
    context.store.add(Series(probe.id, words, FINAL, tuple(samples)))
    context.tell(ConfigurationTaken(probe.id, label(words), len(samples), None, probe.unit))
