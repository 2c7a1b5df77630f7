"""Copies between kinds of memory: the bandwidth of the largest, and the latency that the line over all sizes shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, get_args

from gpuprof.characterize.judge.limits import Bound, NoBound, PcieLink, physical_limit
from gpuprof.characterize.judge.verdict import VerdictCheck, judge, limit_check
from gpuprof.characterize.maths.fit import CopyTime, copy_time
from gpuprof.characterize.maths.statistics import estimate
from gpuprof.characterize.measure.effort import Effort
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.measure.forecast import Cost, Where
from gpuprof.characterize.measure.points import failure, keep, unless_unmeasured
from gpuprof.characterize.measure.step import MeasurementContext, Step, StepFailure
from gpuprof.characterize.methods.method import Method
from gpuprof.characterize.record.configurations import sweep_values
from gpuprof.characterize.record.gpu import MemoryKind, Stopped
from gpuprof.characterize.record.series import Observed, Sample, Series, SeriesConfig
from gpuprof.characterize.record.store import FINAL
from gpuprof.characterize.results.judging import NO_CLOCK, NO_CODE, Judging, floor_of, published
from gpuprof.characterize.results.names import series_name
from gpuprof.characterize.sheet.measured import Curve, MeasuredEvidence, MeasuredValue
from gpuprof.model.quantities import Clocks

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe, Transfer

_SIZE = "size"
"""The run-time variable of every probe of copies, and what their series choose."""
_ROW_S = 2e-3
_MOST_COPIES, _MOST_SAMPLES = 64, 50
_POINT_S = 0.012
_PAGEABLE_BYTES_PER_S, _PINNED_BYTES_PER_S = 3e9, 10e9
_COPIES = 6


def measure(context: MeasurementContext, step: Step) -> Iterator[StepFailure]:
    """Time copies of each size, several in a row where they are short; small sizes first."""
    transfer = step.probe.transfer
    if transfer is None:
        return
    if "peer" in {transfer.source, transfer.destination} and not context.gpu.properties.peers:
        yield failure(step, None, "no other GPU is reachable from this one")
        return
    try:
        yield from unless_unmeasured(step, None, partial(_all_sizes, context, step, transfer))
    finally:
        context.gpu.end_copies()


def _all_sizes(context: MeasurementContext, step: Step, transfer: Transfer) -> None:
    sizes = sorted(set(_sizes(step.probe, context.gpu.properties.l2_bytes, context.gpu.free_bytes() / 4)))
    for place, size in enumerate(sizes):
        _copies(context, step, transfer, int(size), step.seconds * (place + 1) / len(sizes))


def _sizes(probe: Probe, l2_bytes: float, free_bytes: float) -> Iterator[float]:
    for sweep in probe.sweeps.values():
        yield from sweep_values(sweep, l2_bytes, free_bytes)


def _copies(context: MeasurementContext, step: Step, transfer: Transfer, size: int, seconds: float) -> None:
    probe, gpu = step.probe, context.gpu
    config = SeriesConfig(values={_SIZE: size}, data=step.data, regime=step.regime)
    if context.store.find(probe.id, config, FINAL) is not None:
        return
    source, target = _kind(transfer.source), _kind(transfer.destination)
    once_s = gpu.copies(source, target, size, 1)
    count = max(1, min(_MOST_COPIES, int(_ROW_S / max(once_s, 1e-9))))
    link = gpu.telemetry()
    samples: list[Sample] = []
    ends = gpu.now() + min(seconds / 8, context.effort.curve.longest_s)
    while len(samples) < context.effort.curve.least or (len(samples) < _MOST_SAMPLES and gpu.now() < ends):
        if context.stop():
            raise Stopped
        samples.append(Sample(count, gpu.copies(source, target, size, count)))
    seen = Observed()
    if link.pcie_generation is not None and link.pcie_width is not None:
        seen = Observed(pcie_generation=link.pcie_generation, pcie_width=link.pcie_width)
    keep(context, probe, Series(probe=probe.id, config=config, seen=seen, round=FINAL, samples=tuple(samples)))


def _kind(name: str) -> MemoryKind:
    return next(kind for kind in get_args(MemoryKind) if kind == name)


def reduce(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the bandwidth of the largest copies, and the latency that the line over all sizes shows."""
    points = sorted((_size(taken), _seconds(taken)) for taken in series)
    largest = max(series, key=_size)
    fitted = copy_time(points) if len(points) >= 3 else None
    curve = Curve("B", "s", tuple(points))
    value = _bandwidth(probe, judging, largest, fitted)
    yield Result(series_name(probe, largest), value, published(probe, judging, {}), curve=curve)
    if fitted is not None and fitted.latency_s > 0 and fitted.misfit is None:
        latency = MeasuredValue(
            value=fitted.latency_s, unit="s", verdict="plausible", reasons=("it is the intercept of a fit",),
            method="time = latency + bytes ÷ rate",
        )  # fmt: skip
        yield Result(series_name(probe, largest, "latency"), latency)


def _bandwidth(probe: Probe, judging: Judging, largest: Series, fitted: CopyTime | None) -> MeasuredValue:
    size = _size(largest)
    rate = estimate([size * sample.iterations / sample.time_s for sample in largest.samples])
    bound = _bound(probe, judging, largest)
    verdict = judge((NO_CODE, _scaling(fitted), NO_CLOCK, _limit(probe, judging, bound, rate.value)))
    return MeasuredValue(
        value=rate.value,
        unit=probe.unit,
        verdict=verdict.word,
        reasons=verdict.reasons,
        low=rate.interval.low,
        high=rate.interval.high,
        statistic="median",
        samples=rate.samples,
        method=f"copies of {size:.0f} bytes",
        configuration={_SIZE: f"{size:.0f}"},
        evidence=MeasuredEvidence(
            scaling_residual=fitted.residual if fitted is not None else None,
            limit=bound.in_unit(probe.unit) if bound is not None else None,
            limit_name=bound.name if bound is not None else None,
            limit_source=bound.source if bound is not None else None,
            limit_confirmed=bound.confirmed if bound is not None else True,
        ),
    )


def _size(series: Series) -> float:
    ((_, size),) = series.config.fixed([_SIZE])
    return float(size)


def _seconds(series: Series) -> float:
    """Return the seconds of one copy."""
    return median(sample.time_s / sample.iterations for sample in series.samples)


def _scaling(fitted: CopyTime | None) -> VerdictCheck:
    """Say whether the time grows with the size. Small copies may lie off the line: protocols change with the size."""
    if fitted is None:
        return VerdictCheck("scaling", "missing", "fewer than three sizes were copied")
    return VerdictCheck("scaling", "missing" if fitted.misfit else "passed", fitted.misfit, number=fitted.residual)


def _limit(probe: Probe, judging: Judging, bound: Bound | None, value: float) -> VerdictCheck:
    limit = probe.limit(judging.target, {})
    if limit is None or bound is None:
        return VerdictCheck("limit", "missing", "the limit of this link is not known")
    return limit_check(value, probe.unit, bound, floor_of(limit))


def _bound(probe: Probe, judging: Judging, series: Series) -> Bound | None:
    """Return the limit of the link as it ran while this size was copied."""
    limit = probe.limit(judging.target, {})
    if limit is None or limit.bandwidth is None:
        return None
    link, seen = judging.link, series.seen
    if seen.pcie_generation is not None and seen.pcie_width is not None:
        link = PcieLink(seen.pcie_generation, seen.pcie_width)
    bound = physical_limit(limit.bandwidth, judging.hardware, Clocks(dram_hz=judging.memory_clock_hz), link)
    if isinstance(bound, NoBound):
        return None
    return bound if limit.fraction == 1 else bound.scaled(limit.fraction, limit.source)


def forecast(step: Step, where: Where, _effort: Effort) -> Cost:
    """Return the time of all sizes."""
    transfer = step.probe.transfer
    kinds = {transfer.source, transfer.destination} if transfer is not None else set()
    rate = _PAGEABLE_BYTES_PER_S if "pageable" in kinds else _PINNED_BYTES_PER_S
    sizes = _sizes(step.probe, where.properties.l2_bytes, where.free_bytes)
    least_s = sum(_POINT_S + _COPIES * size / rate for size in sizes)
    return Cost(least_s, least_s, 2 * least_s)


METHOD = Method(measure=measure, reduce=reduce, forecast=forecast)
