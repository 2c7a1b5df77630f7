"""From the raw samples of one series to numbers: time and cycles per iteration, clocks, and the result of each round.

A round is one launch each at N, 2N and 4N iterations; its result is the slope over them, so that what a launch costs
besides its iterations drops out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.judge.regime import NoClock, SmClock, sm_clock
from gpuprof.characterize.maths.fit import Scaling, line, medians, scaling, slope_interval
from gpuprof.characterize.maths.statistics import Estimate, estimate, lowest_mode
from gpuprof.characterize.probes.probe_file import UNITS
from gpuprof.characterize.record.configurations import series_work
from gpuprof.characterize.record.series import Sample, Series

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

MULTIPLES = (1, 2, 4)
COARSEST_STEP_NS = 1024
"""The coarsest step of globaltimer that is known."""
LOWER_IS_BETTER = ("cycle", "s")


@dataclass(frozen=True, slots=True)
class Slopes:
    """One round: seconds and SM cycles per iteration, and the window that they are from."""

    seconds: float
    cycles: float | None = None
    window_cycles: float = 0.0
    window_ns: float = 0.0


def rounds_of(samples: Sequence[Sample]) -> list[list[Sample]]:
    """Return the samples of each round: the first of every number of iterations, the second, and so on.

    Fewer numbers of iterations than three are no rounds.
    """
    by_count: dict[int, list[Sample]] = {}
    for sample in samples:
        by_count.setdefault(sample.iterations, []).append(sample)
    complete = min(map(len, by_count.values())) if len(by_count) >= len(MULTIPLES) else 0
    return [[by_count[count][index] for count in sorted(by_count)] for index in range(complete)]


def slopes(samples: Sequence[Sample]) -> list[Slopes]:
    """Return the slopes of each round."""
    return [_slopes(round_) for round_ in rounds_of(samples)]


def _slopes(round_: Sequence[Sample]) -> Slopes:
    first, last = round_[0], round_[-1]
    seconds = line([(sample.iterations, sample.time_s) for sample in round_]).slope
    counted = [(sample.iterations, sample.cycles) for sample in round_ if sample.cycles]
    if len(counted) < len(round_):
        return Slopes(seconds=seconds)
    return Slopes(
        seconds=seconds, cycles=line([(count, cycles or 0.0) for count, cycles in counted]).slope,
        window_cycles=(last.cycles or 0.0) - (first.cycles or 0.0), window_ns=(last.time_s - first.time_s) * 1e9,
    )  # fmt: skip


def per_clock(unit: str) -> bool:
    """Tell whether a result in this unit is made of cycles; the others are made of seconds."""
    return "/clk" in unit or unit == "cycle"


def needs(unit: str) -> str | None:
    """Return the work that a result in this unit needs counted."""
    return UNITS.get(unit)


class ResultScale(NamedTuple):
    """What turns cycles or seconds per iteration into a result: `factor` ÷ slope, or slope ÷ `factor`."""

    factor: float
    inverse: bool

    def of(self, slope: float) -> float:
        """Return the result. Raises ValueError for a slope that is no time."""
        if slope <= 0:
            raise ValueError("the time does not grow with the iterations")
        return slope / self.factor if self.inverse else self.factor / slope


def scale(probe: Probe, unit: str, series: Series) -> ResultScale | None:
    """Return how slopes of a series become results in a unit; None where the probe does not count that work."""
    kernel, what = probe.kernel, needs(unit)
    if kernel is None:
        return ResultScale(1.0, unit in LOWER_IS_BETTER)
    if unit in LOWER_IS_BETTER:
        each = kernel.work.amount("result", series.config.names())
        return ResultScale(float(each), inverse=True) if each is not None else ResultScale(1.0, inverse=True)
    amount = series_work(kernel, what, series) if what is not None else None
    if amount is None:
        return None
    return ResultScale(amount / (series.seen.sms or 1) if unit.endswith("/SM") else amount, inverse=False)


def results(probe: Probe, unit: str, series: Series) -> list[float]:
    """Return the result of each round in a unit; none where a round's time does not grow with its iterations."""
    factor = scale(probe, unit, series)
    if factor is None:
        return []
    per_iteration = [slope.cycles if per_clock(unit) else slope.seconds for slope in slopes(series.samples)]
    try:
        return [factor.of(slope) for slope in per_iteration if slope is not None]
    except ValueError:
        return []


def middle(probe: Probe, unit: str, series: Sequence[Series]) -> float | None:
    """Return the probe's statistic without its interval, which takes a hundred times as long; None without rounds."""
    values = [value for taken in series for value in results(probe, unit, taken)]
    if not values:
        return None
    return lowest_mode(values) if probe.statistic == "mode" else median(values)


def estimated(probe: Probe, unit: str, series: Sequence[Series]) -> Estimate | None:
    """Return the probe's statistic over the rounds of several series of one configuration; None without any."""
    values = [value for taken in series for value in results(probe, unit, taken)]
    if not values:
        return None
    if probe.statistic == "slope":
        return _by_slope(probe, unit, series)
    return estimate(values, "mode" if probe.statistic == "mode" else "median")


def _by_slope(probe: Probe, unit: str, series: Sequence[Series]) -> Estimate | None:
    """Return the line through the medians, with the interval of its slope."""
    factor = scale(probe, unit, series[0])
    times = _by_count([sample for taken in series for sample in taken.samples], cycles=per_clock(unit))
    if factor is None or len(times) < len(MULTIPLES):
        return None
    value = factor.of(scaling(medians(times)).per_iteration)
    bounds = sorted(factor.of(slope) for slope in slope_interval(times))
    interval = estimate([value]).interval._replace(low=min(bounds[0], value), high=max(bounds[1], value))
    return Estimate(value, interval, sum(map(len, times.values())), statistic="median")


def scaled(series: Sequence[Series], unit: str) -> Scaling | None:
    """Return how time (or cycles) grows with the iterations, over several series; None without N, 2N and 4N.

    Series differ in their numbers of iterations: the worst of them counts.
    """
    scalings = []
    for taken in series:
        times = _by_count(taken.samples, cycles=per_clock(unit))
        if len(times) < len(MULTIPLES):
            return None
        scalings.append(scaling(medians(times)))
    bad = [fitted for fitted in scalings if fitted.misfit]
    return max(bad or scalings, key=lambda fitted: max(fitted.residual, fitted.slope_change), default=None)


def _by_count(samples: Sequence[Sample], *, cycles: bool) -> dict[float, list[float]]:
    times: dict[float, list[float]] = {}
    for sample in samples:
        time = sample.cycles if cycles else sample.time_s
        if time:
            times.setdefault(float(sample.iterations), []).append(time)
    return times


def kernel_clock(series: Sequence[Series]) -> SmClock | NoClock:
    """Return the SM clock in the timed windows: what clock64 counted between N and 4N over what globaltimer did."""
    windows = [
        (round(slope.window_cycles), round(slope.window_ns))
        for part in series
        for slope in slopes(part.samples)
        if slope.cycles is not None
    ]
    if not windows:
        return NoClock("the kernel records no clocks")
    return sm_clock(windows, COARSEST_STEP_NS)


def nvml_clock(series: Sequence[Series]) -> float | None:
    """Return the SM clock that NVML gave while the kernels ran."""
    clocks = [sample.sm_clock_hz for taken in series for sample in taken.samples if sample.sm_clock_hz]
    return median(clocks) if clocks else None


def reasons_of(series: Sequence[Series]) -> int | None:
    """Return all bits of throttle reasons that were seen; None where NVML gives none."""
    masks = [sample.reasons for taken in series for sample in taken.samples if sample.reasons is not None]
    total = 0
    for mask in masks:
        total |= mask
    return total if masks else None


def better(unit: str, value: float, other: float) -> bool:
    """Tell whether a result is better than another: lower for times, higher for rates."""
    return value < other if unit in LOWER_IS_BETTER else value > other
