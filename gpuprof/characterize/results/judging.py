"""Whether the result of a series is believed: its checks, verdict and evidence, and the range that was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.characterize.judge.limits import Bound, NoBound, PcieLink, executed_name, physical_limit, probe_limit
from gpuprof.characterize.judge.regime import NoClock, throttling
from gpuprof.characterize.judge.verdict import (
    CEILING_FLOOR,
    REPEAT_TOLERANCE,
    VerdictCheck,
    clock_check,
    counter_check,
    gate_check,
    judge,
    limit_check,
    named,
    not_applicable,
    scaling_check,
)
from gpuprof.characterize.maths.statistics import Estimate
from gpuprof.characterize.on_gpu.result_checks import CORRECT
from gpuprof.characterize.record.reduction import kernel_clock, nvml_clock, reasons_of, results, scaled
from gpuprof.characterize.record.series import FixedValues, Series
from gpuprof.characterize.sheet.measured import CEILING_LEVELS, MeasuredEvidence, MeasuredValue
from gpuprof.characterize.sheet.normal import Published
from gpuprof.hardware.specs import ComputeKey
from gpuprof.model.ceilings import Hardware
from gpuprof.model.quantities import Clocks
from gpuprof.units import format_percent

if TYPE_CHECKING:
    from gpuprof.characterize.gates.check import Checked
    from gpuprof.characterize.probes.probe import PhysicalLimit, Probe

_RARE = 10
NO_CODE = not_applicable("gate", "no kernel is timed")
NO_CLOCK = not_applicable("clock", "it does not depend on the SM clock")
NO_LIMIT = not_applicable("limit", "a time has no limit of its own")


class CountedAndClaimed(NamedTuple):
    """What ncu counted and what the probe claims, by quantity, for the same launches.

    `each` has what every way of the fallback chain counted, by quantity and the names of its counters.
    """

    claimed: Mapping[str, float]
    counted: Mapping[str, float] | None
    each: Mapping[tuple[str, frozenset[str]], float] = {}


@dataclass(frozen=True)
class Judging:
    """What results are judged by: the hardware's limits, the compiled kernels, clocks and link while it ran."""

    hardware: Hardware
    target: str
    checked: Mapping[str, tuple[Checked, ...]] = field(default_factory=dict)
    memory_clock_hz: float | None = None
    link: PcieLink | None = None
    product: str | None = None
    power_limit_w: float | None = None
    counters: Mapping[str, CountedAndClaimed] = field(default_factory=dict)

    def variant(self, series: Series) -> Checked | None:
        """Return the compiled kernel that a series is of."""
        cubin = series.config.cubin
        return next(
            (
                checked
                for checked in self.checked.get(series.probe, ())
                if checked.compiled is not None and cubin and checked.compiled.sha256.startswith(cubin)
            ),
            None,
        )


def by_point(probe: Probe, series: Sequence[Series]) -> dict[FixedValues, list[Series]]:
    """Return the series of each result: those with the same values of the probe's series."""
    points: dict[FixedValues, list[Series]] = {}
    for taken in series:
        points.setdefault(taken.config.fixed(probe.series), []).append(taken)
    return points


def assignment_of(probe: Probe, series: Series) -> dict[str, str]:
    """Return the parameter values of a series."""
    parameters = probe.kernel.parameters if probe.kernel is not None else ()
    return {name: str(series.config.values[name]) for name, _ in parameters if name in series.config.values}


def checks_of(
    probe: Probe,
    judging: Judging,
    series: Sequence[Series],
    value: float,
    *,
    unit: str | None = None,
    floor: float | None = None,
    sweep: Sequence[Series] = (),
) -> tuple[VerdictCheck, ...]:
    """Return every check of the result of a kernel's series, and against its sweep where it won one.

    `floor`: the least fraction of the limit, 0 for none; None: the probe's.
    """
    unit = unit or probe.unit
    checked = judging.variant(series[0])
    held = throttling(reasons_of(series))
    checks = [
        gate_check(checked.judgement if checked is not None else None),
        scaling_check(scaled(series, unit)),
        clock_check(kernel_clock(series), nvml_clock(series), held, _clock_range(series)),
        _limit(probe, judging, series, value, unit, floor),
        *_result(probe, series),
        *_settled(series),
        *_repeat(probe, series, sweep),
    ]
    counted = judging.counters.get(probe.id)
    if counted is not None:
        checks.append(counter_check(counted.claimed, counted.counted))
    return tuple(checks)


def _clock_range(series: Sequence[Series]) -> tuple[float, float] | None:
    """Return the lowest and the highest SM clock that NVML gave, but for a tenth on each side; None where it gave none.

    The kernel's clock is the middle of its windows, which the rarest readings say nothing of: one from before the clock
    has risen from idle would let any clock pass.
    """
    clocks = sorted(sample.sm_clock_hz for taken in series for sample in taken.samples if sample.sm_clock_hz)
    rare = len(clocks) // _RARE
    return (clocks[rare], clocks[-1 - rare]) if clocks else None


def _limit(
    probe: Probe, judging: Judging, series: Sequence[Series], value: float, unit: str, floor: float | None
) -> VerdictCheck:
    if unit in {"cycle", "s", "B", "block"}:
        return not_applicable("limit", "a time or a size has no limit of its own")
    limit = probe.limit(judging.target, assignment_of(probe, series[0]))
    if limit is None:
        return VerdictCheck("limit", "missing", "the probe names no physical limit")
    return limit_check(value, unit, bound_of(probe, judging, series, unit), floor_of(limit) if floor is None else floor)


def floor_of(limit: PhysicalLimit) -> float:
    """Return the least fraction of a limit that is believed of a ceiling."""
    return limit.floor if limit.floor is not None else CEILING_FLOOR


def bound_of(probe: Probe, judging: Judging, series: Sequence[Series], unit: str) -> Bound | NoBound:
    """Return the physical limit at the clock that the kernel ran at."""
    limit = probe.limit(judging.target, assignment_of(probe, series[0]))
    if limit is None:
        return NoBound(probe.id, "the probe names no physical limit")
    clock = kernel_clock(series)
    sm_hz = nvml_clock(series) if isinstance(clock, NoClock) else clock.median_hz
    clocks = Clocks(sm_hz=sm_hz, dram_hz=judging.memory_clock_hz)
    if limit.bandwidth == "pcie":
        return physical_limit("pcie", judging.hardware, clocks, judging.link)
    checked = judging.variant(series[0])
    if limit.compute is not None and checked is not None and checked.judgement.gate == "emulated":
        executed = executed_name(str(limit.compute), checked.judgement.opcodes)
        if executed != str(limit.compute):
            return physical_limit(executed, judging.hardware, clocks)
    return probe_limit(limit, judging.hardware, clocks, unit)


def _result(probe: Probe, series: Sequence[Series]) -> list[VerdictCheck]:
    """Say whether the kernel did what it was meant to do, where the probe has the host look."""
    if probe.check is None:
        return []
    outcomes = [taken.seen.result for taken in series]
    wrong = next((str(outcome) for outcome in outcomes if outcome not in {None, CORRECT}), None)
    if wrong is not None:
        return [VerdictCheck("result", "failed", f"the kernel's result is wrong: {wrong}")]
    if None in outcomes:
        return [VerdictCheck("result", "missing", "the host did not check the kernel's result")]
    return [VerdictCheck("result", "passed")]


def _settled(series: Sequence[Series]) -> list[VerdictCheck]:
    """Say whether the clock had settled where sustained load is what was wanted."""
    if any(taken.seen.settled is False for taken in series):
        return [VerdictCheck("settled", "missing", "the clock had not settled when it was measured")]
    return []


def _repeat(probe: Probe, series: Sequence[Series], sweep: Sequence[Series]) -> list[VerdictCheck]:
    """Compare the winner of a sweep with itself, measured again. A difference leaves a doubt, no more.

    Under sustained load there is nothing to compare: the sweep was short, and only the winner's clock has settled.
    """
    if series[0].config.regime == "sustained":
        return []
    before = [value for taken in sweep for value in results(probe, probe.unit, taken)]
    again = [value for taken in series for value in results(probe, probe.unit, taken)]
    if not before or not again:
        return []
    change = median(again) / median(before) - 1
    if abs(change) <= REPEAT_TOLERANCE:
        return [VerdictCheck("repeat", "passed", number=change)]
    why = f"measured again, it differed from the sweep by {format_percent(abs(change))}"
    return [VerdictCheck("repeat", "missing", why, number=change)]


def believed(
    probe: Probe,
    judging: Judging,
    series: Sequence[Series],
    estimate: Estimate,
    checks: Sequence[VerdictCheck],
    *,
    unit: str | None = None,
    method: str | None = None,
    ceiling: str | None = None,
) -> MeasuredValue:
    """Return a value with its verdict and evidence."""
    unit = unit or probe.unit
    verdict, held = judge(checks), throttling(reasons_of(series))
    return MeasuredValue(
        value=estimate.value,
        unit=unit,
        verdict=verdict.word,
        reasons=verdict.reasons,
        low=estimate.interval.low,
        high=estimate.interval.high,
        ceiling=ceiling,
        regime="power_limited" if held else series[0].config.regime,
        throttling=held,
        statistic=estimate.statistic,
        samples=estimate.samples,
        allocations=_allocations(probe, series),
        method=method or _method(probe, series),
        configuration=shown(probe, series[0]),
        evidence=evidence_of(probe, judging, series, checks, unit),
    )


def no_value(unit: str, why: str) -> MeasuredValue:
    """Return what a result is that could not be had."""
    return MeasuredValue(None, unit, verdict="unsupported", reasons=(why,))


def _allocations(probe: Probe, series: Sequence[Series]) -> int | None:
    """Return on how many allocations it was measured; None where the kernel has no memory of its own."""
    if probe.kernel is None or not probe.kernel.buffers:
        return None
    return len({taken.config.allocation for taken in series})


def _method(probe: Probe, series: Sequence[Series]) -> str:
    counts = sorted({sample.iterations for taken in series for sample in taken.samples})
    if not counts:
        return probe.title
    return f"slope over {counts[0]} to {counts[-1]} iterations; {probe.title[0].lower()}{probe.title[1:]}"


def shown(probe: Probe, series: Series) -> dict[str, str]:
    """Return the configuration as a reader wants to see it: parameters, run-time variables, launch shape."""
    parameters = [name for name, _ in probe.kernel.parameters] if probe.kernel is not None else []
    config, wanted = series.config, {*parameters, *probe.sweeps}
    shape = {"block": config.block, "grid": config.grid, "blocks_per_sm": config.blocks_per_sm, "ran": series.seen.ran}
    settings = {name: value for name, value in config.values.items() if name in wanted} | shape
    return {name: str(value) for name, value in settings.items() if value is not None}


def ceiling_of(probe: Probe, judging: Judging, series: Sequence[Series]) -> str | None:
    """Return what the value is the ceiling of: a level or a compute path that the probe has as its whole limit."""
    limit = probe.limit(judging.target, assignment_of(probe, series[0]))
    if limit is None or limit.fraction != 1:
        return None
    if limit.bandwidth in CEILING_LEVELS:
        return limit.bandwidth
    return str(limit.compute) if isinstance(limit.compute, ComputeKey) else None


def evidence_of(
    probe: Probe, judging: Judging, series: Sequence[Series], checks: Sequence[VerdictCheck], unit: str
) -> MeasuredEvidence:
    """Return why a value may be believed."""
    checked = judging.variant(series[0])
    clock, scaling = kernel_clock(series), named(checks, "scaling")
    bound = bound_of(probe, judging, series, unit) if _limited(checks) else None
    exact = bound if isinstance(bound, Bound) else None
    counted = judging.counters.get(probe.id)
    ratios = {
        name: counted.counted[name] / value
        for name, value in (counted.claimed.items() if counted is not None else ())
        if value and counted is not None and counted.counted is not None and name in counted.counted
    }
    return MeasuredEvidence(
        gate=checked.judgement.gate if checked is not None else None,
        opcodes=dict(checked.judgement.opcodes) if checked is not None else {},
        cubin_sha256=checked.compiled.sha256 if checked is not None and checked.compiled is not None else None,
        scaling_residual=scaling.number if scaling is not None else None,
        clock_hz=None if isinstance(clock, NoClock) else clock.median_hz,
        nvml_clock_hz=nvml_clock(series),
        limit=exact.in_unit(unit) if exact is not None else None,
        limit_name=exact.name if exact is not None else None,
        limit_source=exact.source if exact is not None else None,
        limit_confirmed=exact.confirmed if exact is not None else True,
        counters=ratios,
    )


def _limited(checks: Sequence[VerdictCheck]) -> bool:
    """Tell whether the value was held against its limit, with whatever outcome."""
    limit = named(checks, "limit")
    return limit is not None and limit.number is not None


def published(probe: Probe, judging: Judging, assignment: Mapping[str, str]) -> Published | None:
    """Return the published range that fits: the first for this target, product and parameter values."""
    for expected in probe.expected:
        fits = not expected.products or judging.product in expected.products
        if fits and expected.condition.holds(judging.target, assignment):
            return Published(expected.low, expected.high, expected.source, of_limit=expected.of_limit)
    return None
