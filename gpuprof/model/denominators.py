"""Whether the peaks that percentages refer to are those of the GPU: what a report implies, against what the spec says.

Each fact of a spec that a percentage can rest on is held against a peak that the report gives without the spec. What
gpuprof itself takes from the report (an at-clock ceiling of `peak_sustained`) cannot disagree with it and is no check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.hardware.specs import ComputeKey, Fact, GpuSpec, compute_rates
from gpuprof.model.ceilings import Hardware
from gpuprof.model.field_types import Disagreement
from gpuprof.model.implied import DRAM_CLOCK_DRIFT, Implied, ImpliedPeaks
from gpuprof.model.l2_slices import ATTRIBUTE
from gpuprof.model.recorded import plausible
from gpuprof.model.session import Denominator
from gpuprof.units import format_binary, format_si

TOLERANCE = 0.02
"""Datasheets round to two or three digits, and `specs check` lets their numbers differ by as much."""
_MEMORY_TOLERANCE = 0.12
"""A GPU reports less memory than its name says, and GB against GiB differ by 7 %."""
_SPARSITY = 2.0
"""Structured sparsity doubles the rate of a matrix instruction."""
_OTHER_CLOCK = "the spec has another clock than this GPU"
_MOST_NAMED = 3


class _Check(Struct, frozen=True):
    """A fact of the spec beside what the report implies of it. `clock_hz` is the clock that the spec gives it at."""

    unit: str
    fact: str
    implied: Implied
    specified: float
    measure: str
    said_by: Fact
    clock_hz: float | None = None
    of_kernels: bool = False
    """It was read from kernels, and not from the device: its clock varies, and its highest one can be above."""

    @property
    def ratio(self) -> float:
        """What is implied over what is specified."""
        return self.implied.value / self.specified

    @property
    def tolerance(self) -> float:
        """What the two may differ by. A clock of kernels varies, but not above the highest there is."""
        varies = self.of_kernels and self.ratio < 1
        return (DRAM_CLOCK_DRIFT if varies else TOLERANCE) + self.implied.rounding

    @property
    def agrees(self) -> bool:
        """Tell whether they differ by no more than that."""
        return _alike(self.ratio, 1.0, self.tolerance)


def audited(device: int, peaks: ImpliedPeaks, hardware: Hardware) -> tuple[Denominator, ...]:
    """Return every peak of the spec that the report can be held against, with the likely reason where they differ."""
    checks = (check for check in _checks(peaks, hardware) if plausible(check.implied.value) and check.specified > 0)
    return tuple(_denominator(device, check, peaks, hardware) for check in checks)


def amount(value: float, measure: str) -> str:
    """Write a peak with as many digits as it takes to see 2 %; a count as it is."""
    return format_si(value, measure, 4) if measure else f"{value:g}"


def _denominator(device: int, check: _Check, peaks: ImpliedPeaks, hardware: Hardware) -> Denominator:
    kind, reason = (None, None) if check.agrees else _reason(check, peaks, hardware)
    return Denominator(
        device=device,
        unit=check.unit,
        fact=check.fact,
        implied=check.implied.value,
        specified=check.specified,
        measure=check.measure,
        tolerance=check.tolerance,
        implied_by=check.implied.source,
        specified_by=f"the spec {_spec_name(check, hardware)} ({check.fact})",
        disagreement=kind,
        reason=reason,
    )


def _spec_name(check: _Check, hardware: Hardware) -> str:
    own = hardware.gpu is not None and check.said_by.place.file == hardware.gpu.file
    return hardware.gpu.name if own and hardware.gpu is not None else hardware.arch.name


def _alike(ratio: float, wanted: float, tolerance: float) -> bool:
    return abs(ratio / wanted - 1) <= tolerance


# What is held against what


def _checks(peaks: ImpliedPeaks, hardware: Hardware) -> Iterator[_Check]:
    """Yield each fact of the spec that the report implies a value of."""
    gpu = hardware.gpu
    if gpu is not None:
        yield from _of_fact("SMs", "sm_count", peaks.sm_count, gpu, "")
        yield from _of_fact("highest SM clock", "boost_clock", peaks.sm_clock_hz, gpu, "Hz")
        yield from _dram(peaks, gpu)
        yield from _l2(peaks, gpu)
    port = hardware.arch.bandwidth.get("l2")
    if port is not None and peaks.l2_port_bytes_per_cycle is not None:
        yield _check("L2 to one SM per cycle", "bandwidth l2", peaks.l2_port_bytes_per_cycle, port, "B")
    yield from _vector(peaks, hardware)
    yield from _matrix(peaks, hardware)


def _check(unit: str, fact: str, implied: Implied, said_by: Fact, measure: str) -> _Check:
    return _Check(
        unit=unit, fact=fact, implied=implied, specified=said_by.value, measure=measure, said_by=said_by,
    )  # fmt: skip


def _of_fact(unit: str, name: str, implied: Implied | None, gpu: GpuSpec, measure: str) -> Iterator[_Check]:
    fact = gpu.facts.get(name)
    if fact is not None and implied is not None and fact.value > 0:
        yield _check(unit, name, implied, fact, measure)


def _l2(peaks: ImpliedPeaks, gpu: GpuSpec) -> Iterator[_Check]:
    """Yield what all slices give, unless only an attribute tells how many there are, and the product has fewer."""
    for check in _of_fact("L2 per cycle", "l2_bandwidth", peaks.l2_bytes_per_cycle, gpu, "B"):
        if ATTRIBUTE not in check.implied.source or check.ratio < 1 or check.agrees:
            yield check


def _dram(peaks: ImpliedPeaks, gpu: GpuSpec) -> Iterator[_Check]:
    """Yield the bus by bytes a cycle, the data rate by the highest clock, the rated bandwidth by both."""
    bus, rate, rated = gpu.facts.get("memory_bus"), gpu.facts.get("memory_rate"), gpu.rated.get(ComputeKey("dram"))
    per_cycle, clock = peaks.dram_bytes_per_cycle, peaks.dram_clock_hz
    if bus is not None and per_cycle is not None:
        # Both edges of the clock carry data.
        yield replace(_check("DRAM per cycle", "memory_bus", per_cycle, bus, "B"), specified=2 * bus.value / 8)
    if rate is not None and clock is not None:
        # The data rate is that of both edges.
        check = _check("highest DRAM clock", "memory_rate", clock, rate, "Hz")
        yield replace(check, specified=rate.value / 2, of_kernels=peaks.dram_clock_is_of_kernels)
    if rated is not None and per_cycle is not None and clock is not None:
        check = _check("DRAM bandwidth", "rated dram", _times(per_cycle, clock), rated, "B/s")
        yield replace(check, of_kernels=peaks.dram_clock_is_of_kernels)
    if bus is not None and rate is not None and per_cycle is None and peaks.dram_bytes_per_s is not None:
        check = _check("DRAM bandwidth", "memory_bus × memory_rate", peaks.dram_bytes_per_s, rate, "B/s")
        yield replace(check, specified=bus.value / 8 * rate.value, of_kernels=True)


def _times(left: Implied, right: Implied) -> Implied:
    return Implied(
        left.value * right.value, left.rounding + right.rounding, source=f"{left.source} × {right.source}"
    )  # fmt: skip


def _vector(peaks: ImpliedPeaks, hardware: Hardware) -> Iterator[_Check]:
    """Yield the rates of the CUDA cores, of all SMs that the spec has, and what is rated of them."""
    sms = _specified_sms(hardware)
    for path, implied in peaks.compute.items():
        key = ComputeKey(path)
        rate = hardware.rates.get(key)
        if rate is not None and sms is not None:
            yield replace(_check(f"{path} per cycle", path, implied, rate, _measure(key)), specified=rate.value * sms)
        yield from _rated(key, implied, hardware)


def _matrix(peaks: ImpliedPeaks, hardware: Hardware) -> Iterator[_Check]:
    """Yield the rates of the tensor pipe, and what is rated of them: a product can reach less than its pipe has."""
    for key, implied in peaks.tensor.items():
        pipe, own = hardware.arch.compute.get(key), hardware.rates.get(key)
        if pipe is None:
            continue
        yield _check(f"{key.path} per cycle of one SM", str(key), implied, pipe, _measure(key))
        sms = hardware.sm_count()
        # The fastest instruction is what is rated.
        fastest = max((fact.value for other, fact in hardware.rates.items() if other[:2] == key[:2]), default=0.0)
        if own is not None and sms is not None and own.value == fastest:
            reached = replace(implied, value=implied.value * sms * own.value / pipe.value)
            yield from _rated(ComputeKey(key.path, key.accumulator), reached, hardware)


def _rated(key: ComputeKey, per_cycle: Implied, hardware: Hardware) -> Iterator[_Check]:
    """Yield what is rated of a path, at the clock that it is rated at."""
    rated = hardware.gpu.rated.get(key) if hardware.gpu is not None else None
    if rated is None or not rated.clock_hz:
        return
    at_clock = replace(per_cycle, value=per_cycle.value * rated.clock_hz, source=f"{per_cycle.source} × rated clock")
    check = _check(f"{key.path} peak", f"rated {key}", at_clock, rated, f"{_measure(key)}/s")
    yield replace(check, clock_hz=rated.clock_hz)


def _measure(key: ComputeKey) -> str:
    return "OP" if "int" in key.path else "FLOP"


def _specified_sms(hardware: Hardware) -> float | None:
    """Return the SMs of the product's spec; without one those of the device."""
    return hardware.gpu.number("sm_count") if hardware.gpu is not None else hardware.sm_count()


# Why they differ


def _reason(check: _Check, peaks: ImpliedPeaks, hardware: Hardware) -> tuple[Disagreement, str]:
    """Return the likely reason: the first of those that explain the ratio, else that the spec is wrong."""
    if check.fact.removeprefix("rated ").startswith("tensor.") and _alike(check.ratio, 1 / _SPARSITY, check.tolerance):
        return "sparse", "twice the rate of the pipe: the spec's number is with sparsity"
    others = _products_that_fit(check, peaks, hardware)
    if others:
        return "product", f"the report fits {' or '.join(others)} better"
    return (
        _fewer_units(check, hardware) or _other_clock(check, peaks, hardware) or ("spec", _unexplained(check, hardware))
    )


def _unexplained(check: _Check, hardware: Hardware) -> str:
    """Say what implies another number, and which attributes of the device agree with the spec all the same."""
    device, gpu = hardware.device, hardware.gpu
    attributes = [("SM count", device.sm_count, "sm_count")]
    if check.unit.startswith("DRAM"):
        attributes = [("bus width", device.memory_bus_bits, "memory_bus")]
    elif check.unit.startswith("L2"):
        attributes.append(("L2 size", device.l2_bytes, "l2_size"))
    agreeing = []
    for name, recorded, fact in attributes:
        specified = gpu.number(fact) if gpu is not None else None
        if recorded and specified and _alike(recorded / specified, 1, TOLERANCE):
            agreeing.append(name)
    verb = "agrees" if len(agreeing) == 1 else "agree"
    attribute = f"the device's {' and '.join(agreeing)} {verb} with the spec; " if agreeing else ""
    return f"{attribute}{check.implied.source} implies another number, and no other product, clock or slice explains it"


def _products_that_fit(check: _Check, peaks: ImpliedPeaks, hardware: Hardware) -> list[str]:
    """Return the products of the same architecture that agree with all that the report implies, this fact included."""
    fitting = []
    for gpu in hardware.siblings():
        if hardware.gpu is None or gpu.name == hardware.gpu.name:
            continue
        theirs = list(_checks(peaks, replace(hardware, gpu=gpu, rates=compute_rates(hardware.arch, gpu))))
        says_it = any(other.fact == check.fact for other in theirs)
        if says_it and all(other.agrees for other in theirs) and _same_memory(gpu, hardware):
            fitting.append(gpu.name)
    return fitting[:_MOST_NAMED]


def _same_memory(gpu: GpuSpec, hardware: Hardware) -> bool:
    """Tell whether a product has the memory that the report names, as far as both are known."""
    named, own = gpu.number("memory_size"), hardware.device.memory_bytes
    return not named or not own or _alike(own / named, 1.0, _MEMORY_TOLERANCE)


def _fewer_units(check: _Check, hardware: Hardware) -> tuple[Disagreement, str] | None:
    """Explain a ratio by a part of the GPU: as many of its SMs, of its L2 or of its memory."""
    gpu, device = hardware.gpu, hardware.device
    if gpu is None:
        return None
    parts: tuple[tuple[str, str, float | None, float], ...]
    parts = (
        ("SMs", "sm_count", device.sm_count, check.tolerance),
        ("L2", "l2_size", device.l2_bytes, check.tolerance),
        ("memory", "memory_size", device.memory_bytes, _MEMORY_TOLERANCE),
    )
    for name, fact, present, tolerance in parts:
        whole = gpu.number(fact)
        if not present or not whole or _alike(present / whole, 1.0, max(tolerance, TOLERANCE)):
            continue
        if _is_part_of(name, check) and _alike(check.ratio, present / whole, tolerance):
            return "units", _other_size(name, present, whole)
    return None


def _other_size(name: str, present: float, whole: float) -> str:
    """Say how much of a part the GPU and its spec have; only a GPU with less can be a slice."""
    ours, theirs = _size(name, present), _size(name, whole)
    if present < whole:
        return f"the GPU has {ours} of the spec's {theirs} {name}: a slice (MIG), or another product"
    return f"the GPU has {ours} {name}, the spec {theirs}: another product"


def _size(name: str, value: float) -> str:
    if name == "SMs":
        return f"{value:g}"
    return format_binary(value) if name == "L2" else format_si(value, "B")


def _is_part_of(name: str, check: _Check) -> bool:
    """Tell whether a peak is that of such units: compute of the SMs, bandwidth of L2 or memory."""
    memory = check.unit.startswith(("DRAM", "L2"))
    return (name == "SMs" and not memory) or (name != "SMs" and memory)


def _other_clock(check: _Check, peaks: ImpliedPeaks, hardware: Hardware) -> tuple[Disagreement, str] | None:
    """Explain a ratio by a clock: the fact is a clock, or its number is that of another clock."""
    gpu = hardware.gpu
    if gpu is None:
        return None
    if check.of_kernels and check.ratio < 1:
        return "clock", "DRAM ran below the spec's clock: it was lowered or locked"
    if check.fact == "boost_clock":
        base = gpu.number("base_clock")
        is_base = base is not None and _alike(check.specified, base, TOLERANCE)
        why = "the spec has its base clock there" if is_base else f"{_OTHER_CLOCK}: boards and versions differ"
        return "clock", why
    if check.fact == "memory_rate" or (check.fact == "rated dram" and _is_of_memory_clock(check, peaks, gpu)):
        return "clock", _OTHER_CLOCK
    return _other_sm_clock(check, peaks, gpu)


def _is_of_memory_clock(check: _Check, peaks: ImpliedPeaks, gpu: GpuSpec) -> bool:
    """Tell whether DRAM's bandwidth differs as its clock does."""
    rate, clock = gpu.number("memory_rate"), peaks.dram_clock_hz
    if not rate or clock is None:
        return False
    ratio = 2 * clock.value / rate
    return not _alike(ratio, 1.0, TOLERANCE) and _alike(check.ratio, ratio, check.tolerance)


def _other_sm_clock(check: _Check, peaks: ImpliedPeaks, gpu: GpuSpec) -> tuple[Disagreement, str] | None:
    """Explain a ratio by a number that is right at another clock than the one that the spec names."""
    for name, clock_hz in _clocks(peaks, gpu).items() if check.clock_hz else ():
        ratio = (check.clock_hz or clock_hz) / clock_hz
        if not _alike(ratio, 1.0, TOLERANCE) and _alike(check.ratio, ratio, check.tolerance):
            return "clock", f"it is right at {amount(clock_hz, 'Hz')}, {name}, and not at the clock that it names"
    return None


def _clocks(peaks: ImpliedPeaks, gpu: GpuSpec) -> Mapping[str, float]:
    """Return the SM clocks that a peak can have been given at, by name."""
    highest = peaks.sm_clock_hz.value if peaks.sm_clock_hz is not None else None
    base, boost = gpu.number("base_clock"), gpu.number("boost_clock")
    named = {"the spec's base clock": base, "the spec's boost clock": boost, "the highest of this GPU": highest}
    return {name: clock_hz for name, clock_hz in named.items() if clock_hz}
