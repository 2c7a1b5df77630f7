"""Results that are no slope of a kernel: launch times, copies, power and its companions, blocks at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from gpuprof.characterize.judge.limits import Bound, NoBound, PcieLink, physical_limit
from gpuprof.characterize.judge.regime import throttling
from gpuprof.characterize.judge.verdict import (
    VerdictCheck,
    agreement_check,
    gate_check,
    judge,
    limit_check,
    not_applicable,
    scaling_check,
)
from gpuprof.characterize.maths.fit import CopyTime, copy_time
from gpuprof.characterize.maths.statistics import estimate
from gpuprof.characterize.measure.events import Result
from gpuprof.characterize.record.configurations import iteration_work
from gpuprof.characterize.record.reduction import estimated, nvml_clock, reasons_of, scaled
from gpuprof.characterize.record.samples import Parameter, Series
from gpuprof.characterize.results.judging import Judging, evidence_of, floor_of, published, shown
from gpuprof.characterize.results.names import value_name
from gpuprof.characterize.sheet.measured import Curve, MeasuredEvidence, MeasuredValue
from gpuprof.model.quantities import Clocks

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Probe

_OVER_LIMIT = 1.1
"""Power overshoots its limit for moments, and NVML's is right within 5 %."""
_NO_CODE = not_applicable("gate", "no kernel is timed")
_NO_CLOCK = not_applicable("clock", "it does not hang on the SM clock")
_NO_LIMIT = not_applicable("limit", "a time has no limit of its own")


def launch_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the time of one launch: the slope over their number."""
    for one in series:
        found = estimated(probe, probe.unit, [one])
        if found is None:
            continue
        checked = judging.variant(one)
        gate = gate_check(checked.judgement if checked is not None else None)
        checks = (gate, scaling_check(scaled([one], probe.unit)), _NO_CLOCK, _NO_LIMIT)
        verdict = judge(checks)
        value = MeasuredValue(
            found.value, probe.unit, verdict.word, verdict.reasons, low=found.interval.low, high=found.interval.high,
            statistic=found.statistic, samples=found.samples,
            method=f"slope over the number of {probe.launched} launches",
            configuration=shown(probe, one), evidence=evidence_of(probe, judging, [one], checks, probe.unit),
        )  # fmt: skip
        yield Result(_name(probe, one.configuration), value, published(probe, judging, {}))


def copy_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the bandwidth of the largest copies, and the latency that the line over all sizes shows."""
    points = sorted((_number(one, "size"), _seconds(one)) for one in series)
    largest = max(series, key=lambda one: _number(one, "size"))
    size = _number(largest, "size")
    rates = [size * sample.iterations / sample.time_s for sample in largest.samples]
    found = estimate(rates)
    fitted = copy_time(points) if len(points) >= 3 else None
    checks = (_NO_CODE, _scaling(fitted), _NO_CLOCK, _copy_limit(probe, judging, largest, found.value))
    verdict, bound = judge(checks), _copy_bound(probe, judging, largest)
    value = MeasuredValue(
        found.value, probe.unit, verdict.word, verdict.reasons, low=found.interval.low, high=found.interval.high,
        statistic="median", samples=found.samples, method=f"copies of {size:.0f} bytes",
        configuration={"size": f"{size:.0f}"},
        evidence=MeasuredEvidence(
            scaling_residual=fitted.residual if fitted is not None else None,
            limit=bound.in_unit(probe.unit) if bound is not None else None,
            limit_name=bound.name if bound is not None else None,
            limit_source=bound.source if bound is not None else None,
            limit_confirmed=bound.confirmed if bound is not None else True,
        ),
    )  # fmt: skip
    curve = Curve("B", "s", tuple(points))
    yield Result(_name(probe, largest.configuration), value, published(probe, judging, {}), curve)
    if fitted is not None and fitted.latency_s > 0 and fitted.misfit is None:
        late = MeasuredValue(
            fitted.latency_s,
            "s",
            "plausible",
            ("it is the intercept of a fit",),
            method="time = latency + bytes ÷ rate",
        )
        yield Result(_name(probe, largest.configuration, "latency"), late)


def _scaling(fitted: CopyTime | None) -> VerdictCheck:
    """Say whether the time grows with the size. Small copies may lie off the line: protocols change with the size."""
    if fitted is None:
        return VerdictCheck("scaling", "missing", "fewer than three sizes were copied")
    if fitted.misfit is None:
        return VerdictCheck("scaling", "passed", None, fitted.residual)
    return VerdictCheck("scaling", "missing", fitted.misfit, fitted.residual)


def _copy_limit(probe: Probe, judging: Judging, series: Series, value: float) -> VerdictCheck:
    limit, bound = probe.limit(judging.target, {}), _copy_bound(probe, judging, series)
    if limit is None or bound is None:
        return VerdictCheck("limit", "missing", "the limit of this link is not known")
    return limit_check(value, probe.unit, bound, floor_of(limit))


def _copy_bound(probe: Probe, judging: Judging, series: Series) -> Bound | None:
    """Return the limit of the link as it ran while this size was copied."""
    limit = probe.limit(judging.target, {})
    if limit is None or limit.bandwidth is None:
        return None
    words = series.configuration
    link = judging.link
    if "pcie_generation" in words and "pcie_width" in words:
        link = PcieLink(int(words["pcie_generation"]), int(words["pcie_width"]))
    clocks = Clocks(dram_hz=judging.memory_clock_hz)
    bound = physical_limit(limit.bandwidth, judging.hardware, clocks, link)
    if isinstance(bound, NoBound) or limit.fraction == 1:
        return bound if isinstance(bound, Bound) else None
    return bound.scaled(limit.fraction, limit.source)


def power_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield the power, and beside it clock, temperature, and energy for each unit of the load's work."""
    for one in series:
        words = one.configuration
        watts = _number(one, "power_w")
        yield Result(_name(probe, words), _reading(probe, one, watts, probe.unit, _power_limit(judging, watts)))
        clock = nvml_clock([one])
        if clock is not None:
            yield Result(_name(probe, words, "clock"), _reading(probe, one, clock, "Hz"))
        if "temperature_c" in words:
            yield Result(_name(probe, words, "temperature"), _reading(probe, one, _number(one, "temperature_c"), "°C"))
        energy = _energy(probe, one, judging)
        if energy is not None:
            yield Result(_name(probe, words, "energy"), _reading(probe, one, energy[0], energy[1]))


def _power_limit(judging: Judging, watts: float) -> VerdictCheck:
    limit = judging.power_limit_w
    if limit is None:
        return VerdictCheck("limit", "missing", "the driver does not tell the power limit")
    if watts <= limit * _OVER_LIMIT:
        return VerdictCheck("limit", "passed", None, watts / limit)
    return VerdictCheck(
        "limit", "failed", f"{watts:.0f} W is more than the power limit of {limit:.0f} W", watts / limit
    )


def _reading(probe: Probe, series: Series, value: float, unit: str, limit: VerdictCheck | None = None) -> MeasuredValue:
    """Return what the driver said: power against its limit, the rest at its word. A moving clock is a doubt."""
    limit = limit or VerdictCheck("limit", "missing", "it is the driver's word")
    checks = [_NO_CODE, not_applicable("scaling", "nothing is timed"), _NO_CLOCK, limit]
    if not series.configuration.get("settled", True):
        checks.append(VerdictCheck("settled", "missing", "the clock had not settled"))
    verdict, held = judge(checks), throttling(reasons_of([series]))
    return MeasuredValue(
        value, unit, verdict.word, verdict.reasons, statistic="median", samples=len(series.samples),
        regime="power_limited" if held else str(series.configuration["regime"]), throttling=held,
        method=f"read from the driver; {probe.title[0].lower()}{probe.title[1:]}", configuration=shown(probe, series),
    )  # fmt: skip


def _energy(probe: Probe, series: Series, judging: Judging) -> tuple[float, str] | None:
    """Return joules per FLOP, operation or byte of the load."""
    loads = judging.checked.get(probe.load or probe.id, ())
    if "joule_per_iteration" not in series.configuration or not loads:
        return None
    names = {name: str(value) for name, value in series.configuration.items()}
    for what, unit in (("flop", "J/FLOP"), ("op", "J/OP"), ("byte", "J/B")):
        grid, block = int(names.get("ran", names["grid"])), int(names["block"])
        amount = iteration_work(loads[0].variant.kernel, what, names, grid, block)
        if amount:
            return _number(series, "joule_per_iteration") / amount, unit
    return None


def resident_results(probe: Probe, series: Sequence[Series], judging: Judging) -> Iterator[Result]:
    """Yield how many blocks were on an SM at once, against what CUDA's calculator says."""
    for one in series:
        words = one.configuration
        seen, calculated = _number(one, "at_once"), _number(one, "calculated")
        checked = judging.variant(one)
        checks = (
            gate_check(checked.judgement if checked is not None else None),
            not_applicable("scaling", "blocks are counted, nothing is timed"), _NO_CLOCK, _NO_LIMIT,
            agreement_check("calculator", seen, calculated, "block", "by CUDA's calculator", 0.0),
        )  # fmt: skip
        verdict = judge(checks)
        value = MeasuredValue(
            seen, probe.unit, verdict.word, verdict.reasons, samples=1,
            method="blocks that overlap by their SM's clock",
            configuration=shown(probe, one), evidence=evidence_of(probe, judging, [one], checks, probe.unit),
        )  # fmt: skip
        fixed = {axis: words[axis] for axis in probe.series}
        yield Result(value_name(probe, fixed, str(words["regime"]), str(words["data"])), value)


def _name(probe: Probe, words: Mapping[str, Parameter], part: str = "") -> str:
    fixed = {axis: words[axis] for axis in probe.series if axis in words}
    return value_name(probe, fixed, str(words["regime"]), str(words["data"]), part)


def _number(series: Series, name: str) -> float:
    return float(series.configuration[name])


def _seconds(series: Series) -> float:
    """Return the seconds of one copy."""
    return median(sample.time_s / sample.iterations for sample in series.samples)
