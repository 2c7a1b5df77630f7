"""Measures the points of a kernel: slopes and curves, by a sweep over configurations and the winner once more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.regime import Settled
from gpuprof.characterize.maths.statistics import rounds
from gpuprof.characterize.measure.events import Taken
from gpuprof.characterize.measure.sampling import iterations, measure, settle, sweep, warm_up
from gpuprof.characterize.measure.step import Bench, Failure, Fixed, Step
from gpuprof.characterize.on_gpu.launcher import BrokenRun, Ready
from gpuprof.characterize.on_gpu.result_checks import verify
from gpuprof.characterize.record.configurations import Configuration, Point, points
from gpuprof.characterize.record.gpu import DeviceError
from gpuprof.characterize.record.reduction import better, middle
from gpuprof.characterize.record.samples import Parameter, Sample, Series
from gpuprof.characterize.record.store import FINAL, SWEEP

if TYPE_CHECKING:
    from gpuprof.characterize.gates.check import Checked
    from gpuprof.characterize.probes.probe import Probe

_SETTLING = 0.6
"""The part of a sustained probe's time that the clock may take to settle."""
_LEAST_S = 0.05
"""A point that has less time left is not begun."""


class Unmeasured(Exception):
    """A point has no value: the reason."""


def measure_points(bench: Bench, step: Step) -> Iterator[Failure]:
    """Measure every point of a step, in random order, on one allocation after the other; yield what failed."""
    found = step_points(bench, step)
    if not found:
        yield failure(step, None, "no configuration fits this GPU")
        return
    ends, passes = bench.gpu.now() + step.seconds, _allocations(bench, step.probe)
    order = [
        (allocation, found[index])
        for allocation, indices in enumerate(rounds(range(len(found)), passes, seed=len(found)))
        for index in indices
    ]
    failed: dict[Point, str] = {}
    for place, (allocation, point) in enumerate(order):
        if point in failed:
            continue
        share = (ends - bench.gpu.now()) / (len(order) - place)
        try:
            _measure_point(bench, step, point, allocation, share)
        except Unmeasured as error:
            if allocation == 0:
                failed[point] = str(error)
    for point, why in failed.items():
        yield failure(step, point, why)


def step_points(bench: Bench, step: Step) -> tuple[Point, ...]:
    """Return the points of a step, from the kernels that passed their gate."""
    probe, kernel = step.probe, step.probe.kernel
    if kernel is None:
        return ()
    usable = [dict(one.variant.assignment) for one in passed(bench, probe)]
    return points(
        probe,
        kernel,
        usable,
        bench.gpu.properties,
        data=step.data,
        regime=step.regime,
        free_bytes=bench.gpu.free_bytes(),
    )


def passed(bench: Bench, probe: Probe) -> list[Checked]:
    """Return the variants that may be timed: their code is what was meant, or nobody could look at it."""
    return [
        one
        for one in bench.checked.get(probe.id, ())
        if one.compiled is not None and one.judgement.gate in {"pass", "emulated", None}
    ]


def failure(step: Step, point: Point | None, why: str) -> Failure:
    """Return what failed of a step: a point, or all of it."""
    fixed = point.fixed if point is not None else None
    return Failure(step.probe.id, step.regime, step.data, fixed, "unsupported", why)


def _allocations(bench: Bench, probe: Probe) -> int:
    """Return on how many allocations a probe is measured: L2 and latencies depend on where their memory is."""
    kernel = probe.kernel
    if kernel is None or not kernel.buffers:
        return 1
    walks = any(buffer.fill == "chase" for buffer in kernel.buffers.values())
    cached = any(limit.bandwidth == "l2" for limit in probe.limits) and probe.method == "slope"
    return bench.effort.allocations if walks or cached else 1


def _measure_point(bench: Bench, step: Step, point: Point, allocation: int, seconds: float) -> None:
    """Measure a point on one allocation, unless the samples are there. Raises Unmeasured."""
    candidates = [_with_cubin(bench, step.probe, one) for one in point.configurations]
    known = _winner(bench, step.probe, candidates)
    final = replace(known, allocation=allocation) if known is not None else None
    if final is not None and bench.store.find(step.probe.id, final.words(), FINAL) is not None:
        return
    if seconds < _LEAST_S:
        raise Unmeasured("its time was up")
    began = bench.gpu.now()
    try:
        with unless_fatal():
            if final is None:
                final = replace(_sweep(bench, step, candidates), allocation=allocation)
            _take_final(bench, step, final, max(_LEAST_S, seconds - (bench.gpu.now() - began)))
    finally:
        if _sized(step.probe):
            bench.launcher.pool.release()


def _sized(probe: Probe) -> bool:
    """Tell whether the points of a probe have memory of their own: it is given back after each."""
    return probe.kernel is not None and any(
        buffer.sweep is not None or buffer.fill == "chase" for buffer in probe.kernel.buffers.values()
    )


def _with_cubin(bench: Bench, probe: Probe, one: Configuration) -> Configuration:
    compiled = variant_of(bench, probe, one).compiled
    return replace(one, cubin=compiled.sha256 if compiled is not None else "")


def variant_of(bench: Bench, probe: Probe, one: Configuration) -> Checked:
    """Return the compiled kernel of a configuration."""
    return next(checked for checked in passed(bench, probe) if checked.variant.assignment == one.assignment)


def _winner(bench: Bench, probe: Probe, candidates: Sequence[Configuration]) -> Configuration | None:
    """Return the best of a sweep that is in the samples, or the only candidate; None where some were not tried yet."""
    if len(candidates) == 1:
        return candidates[0]
    if _untried(bench, probe, candidates):
        return None
    best: tuple[float, Configuration] | None = None
    for one in candidates:
        series = bench.store.find(probe.id, one.words(), SWEEP)
        found = middle(probe, probe.unit, [series]) if series is not None else None
        if found is not None and (best is None or better(probe.unit, found, best[0])):
            best = found, one
    return best[1] if best is not None else None


def _untried(bench: Bench, probe: Probe, candidates: Sequence[Configuration]) -> list[Configuration]:
    return [
        one
        for one in candidates
        if bench.store.find(probe.id, one.words(), SWEEP) is None and _key(probe, one) not in bench.broken
    ]


def _key(probe: Probe, one: Configuration) -> tuple[str, Fixed]:
    return probe.id, tuple(one.words().items())


def _sweep(bench: Bench, step: Step, candidates: Sequence[Configuration]) -> Configuration:
    """Try the candidates for a few rounds; keep the samples; return the best. Raises Unmeasured if none works."""
    ready, counts = [], []
    for one in _untried(bench, step.probe, candidates):
        try:
            taking = _ready(bench, step.probe, one)
            counts.append(iterations(taking, _window(bench, step)))
            ready.append(taking)
        except Unmeasured as error:
            bench.broken[_key(step.probe, one)] = str(error)
    if ready:
        _warm(step, ready[0], counts[0], bench.effort.settle_s / 2)
    samples = sweep(ready, counts, bench.effort.sweep_rounds, seed=len(candidates))
    for taking, taken in zip(ready, samples, strict=True):
        _keep(bench, step.probe, taking.words(), SWEEP, taken)
    best = _winner(bench, step.probe, candidates)
    if best is None:
        reasons = [why for one in candidates if (why := bench.broken.get(_key(step.probe, one)))]
        raise Unmeasured(reasons[0] if reasons else "its time does not grow with the iterations")
    return best


def _window(bench: Bench, step: Step) -> float:
    return bench.effort.sustained_window_s if step.regime == "sustained" else bench.effort.window_s


def _ready(bench: Bench, probe: Probe, one: Configuration) -> Ready:
    """Return a configuration that runs, with all its blocks at once. Raises Unmeasured; what it loses is fatal."""
    with unless_fatal():
        found = bench.launcher.ready(variant_of(bench, probe, one), one)
        if not found.fits():
            raise Unmeasured(f"{found.shape.grid} blocks of {one.block} threads do not fit on the SMs at once")
        found.one_wave()
        found.run(2)
        return found


@contextmanager
def unless_fatal() -> Iterator[None]:
    """Turn what breaks a single configuration into Unmeasured; what breaks the whole context goes on upwards."""
    try:
        yield
    except BrokenRun as error:
        raise Unmeasured(error.message) from error
    except DeviceError as error:
        if error.fatal:
            raise
        raise Unmeasured(error.message) from error


def _take_final(bench: Bench, step: Step, one: Configuration, seconds: float) -> None:
    """Measure one configuration until its interval is small or its time is up, and keep the samples."""
    probe, effort = step.probe, bench.effort
    rule = effort.curve if probe.method == "curve" else effort.rule
    taking = _ready(bench, probe, one)
    outcome = verify(probe, taking)
    if outcome is not None:
        taking.note("result", outcome)
    count = iterations(taking, _window(bench, step))
    settling = min(effort.settle_s, seconds * _SETTLING)
    clock = _warm(step, taking, count, settling)
    if clock is not None:
        taking.note("settled", clock.settled)
        seconds -= settling
    taken = measure(probe, taking, count, rule._replace(longest_s=min(rule.longest_s, seconds)), step.regime, seed=1)
    _keep(bench, probe, taking.words(), FINAL, taken.samples)


def _warm(step: Step, ready: Ready, count: int, seconds: float) -> Settled | None:
    """Bring the GPU to the state that is to be measured: under load until it has settled, or just awake."""
    if step.regime == "sustained":
        return settle(ready, count, seconds)
    warm_up(ready, count)
    return None


def _keep(bench: Bench, probe: Probe, words: dict[str, Parameter], number: int, samples: Sequence[Sample]) -> None:
    series = Series(probe.id, words, number, tuple(samples))
    bench.store.add(series)
    bench.tell(Taken(probe.id, label(words), len(samples), middle(probe, probe.unit, [series]), probe.unit))


def label(words: dict[str, Parameter]) -> str:
    """Write a configuration in one line, without what only tells runs apart."""
    hidden = {"cubin", "allocation", "sms", "result", "settled"}
    return " ".join(f"{name}={value}" for name, value in words.items() if name not in hidden)
