"""Whether a GPU is normal: each value beside the rating, its limit and the published range, with a likely cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from gpuprof.characterize.sheet.ceilings import per_second
from gpuprof.characterize.sheet.measured import LOWER_IS_BETTER, Measured, MeasuredValue, plain_name
from gpuprof.hardware.specs import ComputeKey, Fact, GpuSpec
from gpuprof.units import format_percent, format_si

NormalWord = Literal["normal", "low", "high", "no range", "not measured"]

_SLACK = 0.03
"""Published ranges come from single cards and rounded numbers."""
_CLOCK_SLACK = 0.02
_HBM_BITS = 2048
"""HBM has buses of thousands of bits, GDDR of at most 512. ECC costs bandwidth on GDDR only: HBM has bits for it."""
UNEXPLAINED = "no recorded condition explains it"


@dataclass(frozen=True, slots=True)
class Published:
    """A published range in the unit of the value, or as fractions of the limit, and where it is from."""

    low: float
    high: float
    source: str
    of_limit: bool = False


@dataclass(frozen=True, slots=True)
class Assessment:
    """One value in context. Ratios are fractions: of the datasheet's peak and of the limit at the measured clock.

    Where a probe measures one ceiling in several ways, the best is `chosen_over` the others; `of_best` is this one's
    value as a fraction of that of the best, `passed_over_for`.
    """

    name: str
    value: float | None
    unit: str
    word: NormalWord
    of_rated: float | None
    of_limit: float | None
    expected: Published | None
    causes: tuple[str, ...]
    chosen_over: tuple[str, ...] = ()
    passed_over_for: str | None = None
    of_best: float | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    value: MeasuredValue
    measured: Measured
    gpu: GpuSpec | None
    rated: Fact | None
    word: NormalWord


def assess(
    measured: Measured, published: Mapping[str, Published], gpu: GpuSpec | None = None
) -> tuple[Assessment, ...]:
    """Set every value beside what it should be. `published` has ranges by quantity, `gpu` the ratings.

    A range is of a ceiling: of several ways to measure it the best is held against the range, and the others are not
    low for being slower.
    """
    won_by = _won_by(measured, published)
    assessments = []
    for name, value in measured.values.items():
        assessment = _assess(name, value, measured, published.get(name), gpu)
        winner = won_by.get(name)
        if winner is not None and assessment.word == "low":
            assessment = replace(assessment, word="no range", expected=None, causes=())
        over = tuple(other for other, best in won_by.items() if best == name)
        best = measured.values[winner].value if winner is not None else None
        of_best = value.value / best if value.value is not None and best else None
        assessments.append(replace(assessment, chosen_over=over, passed_over_for=winner, of_best=of_best))
    return tuple(assessments)


def _won_by(measured: Measured, published: Mapping[str, Published]) -> dict[str, str]:
    """Return the best way to measure a ceiling for each other one: same probe, regime, data, ceiling and range."""
    groups: dict[object, list[str]] = {}
    for name, value in measured.values.items():
        if value.usable and value.ceiling is not None and plain_name(name) != name:
            key = (plain_name(name), value.ceiling, value.unit, published.get(name))
            groups.setdefault(key, []).append(name)
    won_by = {}
    for names in groups.values():
        best = max(names, key=lambda name: measured.values[name].as_ceiling)
        won_by.update({name: best for name in names if name != best})
    return won_by


def _assess(
    name: str, value: MeasuredValue, measured: Measured, published: Published | None, gpu: GpuSpec | None
) -> Assessment:
    expected = _in_unit(published, value)
    word = _word(value, expected)
    rated = _rated(value, gpu)
    rate = per_second(value, measured.device.sm_count)
    causes = (
        tuple(_causes(_Case(value=value, measured=measured, gpu=gpu, rated=rated, word=word)))
        if word in {"low", "high"}
        else ()
    )
    return Assessment(
        name=name,
        value=value.value,
        unit=value.unit,
        word=word,
        of_rated=rate / rated.value if rate is not None and rated is not None else None,
        of_limit=value.of_limit,
        expected=expected,
        causes=causes,
    )


def _in_unit(published: Published | None, value: MeasuredValue) -> Published | None:
    """Return the range in the value's unit; None where it is a fraction of a limit that is not known."""
    if published is None or not published.of_limit:
        return published
    limit = value.evidence.limit
    if limit is None:
        return None
    return replace(published, low=published.low * limit, high=published.high * limit, of_limit=False)


def _word(value: MeasuredValue, expected: Published | None) -> NormalWord:
    if not value.usable or value.value is None:
        return "not measured"
    if expected is None:
        return "no range"
    if value.value < expected.low * (1 - _SLACK):
        return "low"
    return "high" if value.value > expected.high * (1 + _SLACK) else "normal"


def _rated(value: MeasuredValue, gpu: GpuSpec | None) -> Fact | None:
    """Return the datasheet's peak of what the value is the ceiling of."""
    if gpu is None or value.ceiling is None:
        return None
    return gpu.rated.get(ComputeKey(*value.ceiling.split(" ")[:2]))


def _causes(case: _Case) -> Iterator[str]:
    """Yield what in the recorded conditions explains an outlier, or that nothing does."""
    slow = (case.word == "low") != (case.value.unit in LOWER_IS_BETTER)
    causes = [cause for rule in (_SLOWING if slow else _QUICKENING) for cause in rule(case)]
    yield from causes or [UNEXPLAINED]


def _resource(case: _Case) -> str:
    """Return what the value hangs on: the memory, the PCIe link, or the SMs and their clock."""
    name = case.value.evidence.limit_name or case.value.ceiling
    return name if name in {"dram", "pcie"} else "sm"


def _throttled(case: _Case) -> Iterator[str]:
    if case.value.throttling:
        clock = case.value.evidence.clock_hz
        at = f" to {format_si(clock, 'Hz', 4)}" if clock is not None else ""
        yield f"the clocks were held back{at}: {', '.join(case.value.throttling)}"


def _power_limit(case: _Case) -> Iterator[str]:
    limit, usual = case.measured.conditions.power_limit_w, case.measured.conditions.default_power_limit_w
    usual = usual or (case.gpu.number("power_limit") if case.gpu is not None else None)
    if limit is not None and usual is not None and limit < usual and _resource(case) != "pcie":
        yield f"the power limit is {limit:.0f} W, {usual:.0f} W by default"


def _low_clock(case: _Case) -> Iterator[str]:
    clock, full = case.value.evidence.clock_hz, _full_clock(case)
    if clock is None or full is None or _resource(case) != "sm" or case.value.unit == "cycle":
        return
    if clock < full * (1 - _CLOCK_SLACK):
        yield f"the SMs ran at {format_si(clock, 'Hz', 4)} of {format_si(full, 'Hz', 4)}"


def _full_clock(case: _Case) -> float | None:
    """Return the clock that the rating implies, else the product's boost clock."""
    if case.rated is not None and case.rated.clock_hz is not None:
        return case.rated.clock_hz
    return case.gpu.number("boost_clock") if case.gpu is not None else None


def _low_memory_clock(case: _Case) -> Iterator[str]:
    clock, full = case.measured.conditions.memory_clock_hz, case.measured.conditions.max_memory_clock_hz
    if _resource(case) == "dram" and clock is not None and full is not None and clock < full * (1 - _CLOCK_SLACK):
        yield f"the memory ran at {format_si(clock, 'Hz', 4)} of {format_si(full, 'Hz', 4)}"


def _ecc(case: _Case) -> Iterator[str]:
    bus = case.measured.device.memory_bus_bits
    if _resource(case) == "dram" and case.measured.conditions.ecc and bus is not None and bus < _HBM_BITS:
        yield "ECC is on, which takes bandwidth from GDDR memory"


def _mig(case: _Case) -> Iterator[str]:
    if case.measured.conditions.mig and _resource(case) != "pcie":
        yield "MIG is on: this is a slice of the GPU"


def _fewer_sms(case: _Case) -> Iterator[str]:
    full = case.gpu.number("sm_count") if case.gpu is not None else None
    here = case.measured.device.sm_count
    if full is not None and here < full and _resource(case) == "sm":
        yield f"{here} of the product's {full:.0f} SMs are present"


def _narrow_link(case: _Case) -> Iterator[str]:
    here = case.measured.conditions
    if _resource(case) != "pcie" or None in {here.pcie_generation, here.pcie_width}:
        return
    best = (here.max_pcie_generation or here.pcie_generation, here.max_pcie_width or here.pcie_width)
    if (here.pcie_generation, here.pcie_width) != best:
        yield f"the link ran at PCIe {here.pcie_generation} × {here.pcie_width} of {best[0]} × {best[1]}"


def _busy(case: _Case) -> Iterator[str]:
    if case.measured.conditions.other_processes:
        yield f"{case.measured.conditions.other_processes} other processes were on the GPU"


def _high_clock(case: _Case) -> Iterator[str]:
    clock, full = case.value.evidence.clock_hz, _full_clock(case)
    if _resource(case) == "sm" and clock is not None and full is not None and clock > full * (1 + _CLOCK_SLACK):
        at, of = format_si(clock, "Hz", 4), format_si(full, "Hz", 4)
        yield f"the SMs ran at {at}, above the rated {of}"


def _more_than_product(case: _Case) -> Iterator[str]:
    full = case.gpu.number("sm_count") if case.gpu is not None else None
    if case.gpu is not None and full is not None and case.measured.device.sm_count > full:
        yield f"it has {case.measured.device.sm_count} SMs, more than a {case.gpu.title}, so it is another product"


def _near_limit(case: _Case) -> Iterator[str]:
    if case.value.of_limit is not None and not list(_high_clock(case)):
        yield f"it is {format_percent(case.value.of_limit)} of its limit: the published range may be of a weaker test"


_Rule = Callable[[_Case], Iterator[str]]
_SLOWING: tuple[_Rule, ...] = (
    _throttled, _power_limit, _low_clock, _low_memory_clock, _ecc, _mig, _fewer_sms, _narrow_link, _busy,
)  # fmt: skip
_QUICKENING: tuple[_Rule, ...] = (_high_clock, _more_than_product, _near_limit)
