"""The limits that percentages refer to: rated by the datasheet, at the clock that a kernel ran at, and measured.

`rated` = the datasheet's number. `at-clock` = rate per SM and clock × SMs × clock, the rate from the report's own
`peak_sustained` where it has it, else from the architecture's spec. `measured` = what micro-kernels reached on a GPU of
this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.hardware.certificates import Certificate, trust
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import (
    LEVELS,
    ArchSpec,
    ComputeKey,
    Fact,
    GpuSpec,
    compute_rates,
    is_geforce_rtx,
    rates_without_spec,
)
from gpuprof.hardware.trust import Trust
from gpuprof.model.field_types import CeilingOrigin
from gpuprof.model.l2_slices import ATTRIBUTE, L2_PEAK, counted_slices, write_rate, written_share
from gpuprof.model.quantities import Clocks, first_counted
from gpuprof.model.recorded import MetricTable
from gpuprof.model.session import Ceiling
from gpuprof.model.sm_clocks import LaunchClock, sm_clock
from gpuprof.units import SECTOR_BYTES

_CLOCK_MARGIN = 1.1
"""A recorded DRAM clock passes the highest one by up to 2 % in real reports; far above, it counts something else."""


_MEMORY = ("memory_bus", "memory_rate")


class Limit(NamedTuple):
    """One ceiling in FLOP/s, OP/s or bytes/s, and where its number comes from.

    `of_reads` is the ceiling of reads alone, if the kernel's writes make its own lower.
    """

    value: float
    clock_hz: float | None
    source: str
    of_reads: Limit | None = None


def ceiling_of(device: int, origin: CeilingOrigin, target: str, limit: Limit) -> Ceiling:
    """Return the ceiling of a compute path or a memory level of a GPU as a session has it: that of reads, if known."""
    limit = limit.of_reads or limit
    level = next((level for level in LEVELS if level == target), None)
    return Ceiling(
        device=device,
        id=f"{origin}/{target}",
        path=target if level is None else None,
        level=level,
        value=limit.value,
        clock_hz=limit.clock_hz,
        origin=origin,
        source=limit.source,
    )


class MeasuredLimits(Protocol):
    """What was measured on a GPU of the kind: bytes/s of a memory level, FLOP/s (OP/s for integers) of a path."""

    def bandwidth(self, level: str) -> Limit | None:
        """Return the bandwidth of a level; None if it was not measured."""

    def compute(self, path: str, split: Mapping[ComputeKey, float] | None = None) -> Limit | None:
        """Return the rate of a path, for the accumulator and instruction that do most of the work in `split`."""


class Hardware(Struct, frozen=True):
    """What is known of the GPU that a launch ran on."""

    arch: ArchSpec
    gpu: GpuSpec | None
    device: RecordedDevice
    rates: Mapping[ComputeKey, Fact]
    measured: MeasuredLimits | None = None
    certificates: tuple[Certificate, ...] = ()
    release: str | None = None
    """The release of ncu that recorded the launch, such as "2025.3"."""
    names: frozenset[str] | None = None
    """Every name of a metric that its report can have; None where the report does not list them."""
    absent: frozenset[str] = frozenset()
    """The quantities that its report is known to have no metrics of."""
    held_clock_hz: float | None = None
    """The SM clock that the driver saw in all samples of the run that the launch was profiled in."""
    siblings: Callable[[], tuple[GpuSpec, ...]] = tuple
    """Returns the products of the same architecture, which takes long."""

    @classmethod
    def of(
        cls,
        arch: ArchSpec,
        gpu: GpuSpec | None,
        device: RecordedDevice,
        measured: MeasuredLimits | None = None,
        certificates: tuple[Certificate, ...] = (),
    ) -> Hardware:
        """Combine an architecture with its product's exceptions, what was measured on it, what vouches for counters."""
        rates = compute_rates(arch, gpu) if gpu is not None else rates_without_spec(arch, device.name)
        return cls(arch, gpu, device, rates=rates, measured=measured, certificates=certificates)

    def trust(self, quantity: str, metrics: Iterable[str]) -> Trust:
        """Return how far metrics are trusted as a quantity: "certified", "checked" or "none"."""
        return trust(self.certificates, quantity, metrics, self.release)

    @property
    def is_known(self) -> bool:
        """Whether all rates of this product are known: it has a spec, or shares them with all GeForce RTX cards."""
        return self.gpu is not None or is_geforce_rtx(self.device.name or "")

    def sm_count(self) -> int | None:
        """Return the number of SMs: as recorded, else as the product has."""
        if self.device.sm_count is not None:
            return self.device.sm_count
        specified = self.gpu.number("sm_count") if self.gpu is not None else None
        return round(specified) if specified is not None else None

    def dram_reached(self, peak: Limit | None) -> float:
        """Return the fraction of DRAM's peak that a kernel can reach: as measured on a GPU of the kind, else published.

        All of it where neither is known.
        """
        measured = self.measured.bandwidth("dram") if self.measured is not None else None
        if measured is not None and peak is not None and 0 < measured.value < peak.value:
            return measured.value / peak.value
        published = self.arch.limits.get("dram_reached")
        return published.value / 100 if published is not None else 1.0

    def sm_clock(self, counted_hz: float | None, gpc_hz: float | None, duration_s: float | None) -> LaunchClock:
        """Return the SM clock of a launch of so long by what its counters say of SMs and GPCs."""
        highest = self.gpu.number("highest_clock") if self.gpu is not None else None
        recorded = self.device.max_sm_clock_hz or 0.0
        most = max(highest, recorded) if highest else None
        return sm_clock(counted_hz, gpc_hz, self.held_clock_hz, most, duration_s)

    def fewest_sms(self) -> int | None:
        """Return the SMs of the smallest product of the same architecture, with a spec or not; None if unknown."""
        counts = [count for gpu in self.siblings() if (count := gpu.number("sm_count")) is not None]
        limit = self.arch.limits.get("fewest_sms")
        if limit is not None:
            counts.append(limit.value)
        return round(min(counts)) if counts else None


def compute_at_clock(
    path: str,
    split: Mapping[ComputeKey, float] | None,
    metrics: MetricTable,
    hardware: Hardware,
    clocks: Clocks,
) -> Limit | None:
    """Return what the SMs can do of a path at this kernel's SM clock, in FLOP/s; None if rate or clock is unknown."""
    chain = hardware.arch.counters.get(f"peak.{path}")
    if chain is not None and clocks.sm_hz is not None:
        reported = first_counted(chain, f"peak.{path}", metrics, Clocks(duration_s=1.0, sm_hz=clocks.sm_hz))
        if reported is not None and reported.value > 0:
            return Limit(reported.value, clocks.sm_hz, f"report: {' + '.join(reported.metrics)}")
    sms = hardware.sm_count()
    rate = blended_rate(path, split, hardware.rates)
    if sms is None or rate is None or clocks.sm_hz is None:
        return None
    source = _of_all_sms(rate.value, "", rate.source, sms)
    return Limit(rate.value * sms * clocks.sm_hz, clocks.sm_hz, source)


@lru_cache(maxsize=1024)
def _of_all_sms(value: float, unit: str, source: str, sms: int) -> str:
    """Write where a rate of all SMs comes from: launches at other clocks share the text."""
    return f"{value:g}{unit} per SM and clock ({source}) × {sms} SMs × SM clock"


def blended_rate(path: str, split: Mapping[ComputeKey, float] | None, rates: Mapping[ComputeKey, Fact]) -> Fact | None:
    """Return the FLOP per clock and SM of a path.

    A kernel that mixes accumulators or instruction families gets their harmonic mean, weighted by its work; one whose
    mix is unknown gets the path's fastest rate, with FP32 accumulation where that exists.
    """
    used = {key: flop for key, flop in (split or {}).items() if flop > 0}
    if used:
        facts = {key: rates.get(key) for key in used}
        if any(fact is None for fact in facts.values()):
            return None
        clocks = sum(flop / fact.value for key, flop in used.items() if (fact := facts[key]) is not None)
        main = facts[max(used, key=lambda key: used[key])]
        return _with_value(main, sum(used.values()) / clocks) if main is not None else None
    return fastest(fact_by_key for fact_by_key in rates.items() if fact_by_key[0].path == path)


def fastest(candidates: Iterable[tuple[ComputeKey, Fact]]) -> Fact | None:
    """Return the fastest of a path's rates, preferring FP32 accumulation; None of none."""
    ranked = sorted(candidates, key=lambda item: (item[0].accumulator != "fp16", item[1].value))
    return ranked[-1][1] if ranked else None


def _with_value(fact: Fact, value: float) -> Fact:
    return replace(fact, value=value, clock_hz=None, values=())


def bandwidth_at_clock(level: str, metrics: MetricTable, hardware: Hardware, clocks: Clocks) -> Limit | None:
    """Return what a memory level can move at this kernel's clocks, in bytes/s; None if rate or clock is unknown."""
    if level == "dram":
        return _dram_at_clock(metrics, hardware, clocks)
    if level == "l2":
        clock = l2_clock(hardware, clocks)
        if clock is None and clocks.sm_hz is not None:
            # The SM clock is close to L2's, and often above it.
            clock = L2Clock(clocks.sm_hz, "SM clock (L2's was not recorded)", certain=False)
        chip = _l2_slices(metrics, hardware, clock) or _l2_from_spec(hardware, clock) if clock is not None else None
        if chip is not None:
            return _with_writes(chip, metrics, hardware.arch)
    return _all_ports(level, hardware, clocks)


class L2Clock(NamedTuple):
    """A clock to take L2 at, what it is, and whether it can be trusted to be L2's."""

    hz: float
    name: str
    certain: bool


def l2_clock(hardware: Hardware, clocks: Clocks) -> L2Clock | None:
    """Return L2's clock as counted, else as the product's spec has it from reports; None without either."""
    if clocks.own_l2_hz is not None:
        return L2Clock(clocks.own_l2_hz, "L2 clock", certain=True)
    fact = hardware.gpu.facts.get("l2_clock") if hardware.gpu is not None else None
    return L2Clock(fact.value, "L2 clock of the spec", certain=fact.confirmed) if fact is not None else None


def _dram_at_clock(metrics: MetricTable, hardware: Hardware, clocks: Clocks) -> Limit | None:
    chain = hardware.arch.counters.get("peak.dram")
    if chain is not None:
        reported = first_counted(chain, "peak.dram", metrics, clocks)
        if reported is not None and reported.value > 0:
            return Limit(reported.value, clocks.dram_hz, f"report: {' + '.join(reported.metrics)} × DRAM clock")
    if metrics.number("device__attribute_integrated"):
        return _dram_of_spec(hardware)
    device = hardware.device
    bus_bits = device.memory_bus_bits or (hardware.gpu.number("memory_bus") if hardware.gpu is not None else None)
    if bus_bits is None:
        return None
    # Both edges of the clock carry data; of GDDR, counter and attribute both count the clock that this holds for.
    per_cycle, most = 2 * bus_bits / 8, device.max_memory_clock_hz
    if clocks.dram_hz is not None and (most is None or clocks.dram_hz <= _CLOCK_MARGIN * most):
        return Limit(per_cycle * clocks.dram_hz, clocks.dram_hz, "2 × bus width ÷ 8 × DRAM clock of the report")
    if most is not None:
        return Limit(per_cycle * most, most, "device attributes: 2 × bus width ÷ 8 × highest memory clock")
    return None


def _dram_of_spec(hardware: Hardware) -> Limit | None:
    """Return the spec's bandwidth of memory that a GPU shares with a processor: the device attributes are wrong there.

    On a Jetson Orin NX, whose memory has 128 bit, the CUDA runtime gives 64 bit and the clock of the GPU.
    """
    bus, rate = (hardware.gpu.facts.get(name) if hardware.gpu is not None else None for name in _MEMORY)
    if bus is None or rate is None:
        return None
    return Limit(bus.value * rate.value / 8, rate.value / 2, f"bus width × data rate ÷ 8 ({rate.source})")


def _all_ports(level: str, hardware: Hardware, clocks: Clocks) -> Limit | None:
    """Every SM's read port to a level, all at once."""
    fact, sms = hardware.arch.bandwidth.get(level), hardware.sm_count()
    if fact is None or sms is None or clocks.sm_hz is None:
        return None
    source = _of_all_sms(fact.value, " B", fact.source, sms)
    return Limit(fact.value * sms * clocks.sm_hz, clocks.sm_hz, source)


def _l2_slices(metrics: MetricTable, hardware: Hardware, clock: L2Clock) -> Limit | None:
    """All L2 slices at the sectors per cycle that the report gives as their peak for accesses of the SMs.

    Where no counter tells how many slices there are, the device's attribute does, unless the product has fewer.
    """
    each = metrics.number(L2_PEAK)
    if not each:
        return None
    slices = counted_slices(metrics)
    if slices is None:
        slices = round(metrics.number(ATTRIBUTE) or 0.0)
        specified = hardware.gpu.number("l2_bandwidth") if hardware.gpu is not None else None
        if not slices or (specified is not None and specified < each * slices * SECTOR_BYTES):
            return None
    source = f"report: {L2_PEAK} × {slices} slices × {SECTOR_BYTES} B × {clock.name}"
    return Limit(each * slices * SECTOR_BYTES * clock.hz, clock.hz, source)


def _l2_from_spec(hardware: Hardware, clock: L2Clock) -> Limit | None:
    fact = hardware.gpu.facts.get("l2_bandwidth") if hardware.gpu is not None else None
    if fact is None:
        return None
    source = f"{fact.value:g} B per clock ({fact.source}) × {clock.name}"
    return Limit(fact.value * clock.hz, clock.hz, source)


def _with_writes(limit: Limit, metrics: MetricTable, arch: ArchSpec) -> Limit:
    """Return the ceiling of a kernel's mix of reads and writes.

    NVIDIA's peaks of a slice on 8.0 and 9.0 are two sectors a cycle for reads, one for writes and two for both
    together. So writes lower the ceiling where they are more than half: the time is that of the writes alone.
    """
    written, rate = written_share(metrics), write_rate(arch)
    if written is None or rate is None or written <= rate:
        return limit
    source = f"{limit.source} × {rate:g} (writes against reads) ÷ {written:.3g} (share of writes)"
    return Limit(limit.value * rate / written, limit.clock_hz, source, of_reads=limit)


def rated_compute(path: str, split: Mapping[ComputeKey, float] | None, gpu: GpuSpec | None) -> Limit | None:
    """Return the datasheet's peak of a path in FLOP/s, for the accumulator that does most of the kernel's work."""
    if gpu is None:
        return None
    used = {key: flop for key, flop in (split or {}).items() if flop > 0 and key.path == path}
    accumulator = max(used, key=lambda key: used[key]).accumulator if used else None
    exact = gpu.rated.get(ComputeKey(path, accumulator)) if accumulator else None
    fact = exact or fastest((key, fact) for key, fact in gpu.rated.items() if key.path == path)
    if fact is None or (accumulator and exact is None):
        return None
    return Limit(fact.value, fact.clock_hz, fact.source)


def rated_bandwidth(level: str, gpu: GpuSpec | None) -> Limit | None:
    """Return the datasheet's DRAM bandwidth in bytes/s; datasheets rate no other level."""
    fact = gpu.rated.get(ComputeKey("dram")) if gpu is not None and level == "dram" else None
    return Limit(fact.value, None, fact.source) if fact is not None else None
