"""The physical limit of a result by name, at the clocks it was measured at: rate per SM and clock × SMs × clock.

A name is a key of the spec files: `dram`, `shared`, `l1`, `l2`, `l2_write`, `fp32`, `tensor.bf16 fp32 wgmma`,
`shuffle`. `issue` is one warp instruction a clock and scheduler, `pcie` the link's rate per direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from gpuprof.hardware.parse import BANDWIDTHS, OPERATIONS
from gpuprof.hardware.specs import PATHS, ComputeKey, Fact
from gpuprof.model.ceilings import Hardware, L2Clock, l2_clock
from gpuprof.model.l2_slices import write_rate
from gpuprof.model.quantities import Clocks
from gpuprof.model.sass_opcodes import matrix_opcode

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import PhysicalLimit

_TRANSFERS_PER_CLOCK = 2
"""Both edges of the memory clock carry data; NVML's memory clock already counts the quad rate of GDDR."""
_PCIE_BIT_PER_S = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
_WIDEST_GDDR = 512
"""Drivers round the width of HBM's bus, which is thousands of bits; that of other memory they give as it is."""
_RATING_ROUNDED = 1.05
"""Two digits are rounded by up to 5 %: where the bus is in doubt, a rating rejects only what is above it by more."""
_PCIE_CODING = {1: 8 / 10, 2: 8 / 10}
"""8b/10b coding on the first two generations; 128b/130b since, flits on the sixth. PCI Express Base Specification."""


class PcieLink(NamedTuple):
    """The PCIe link as it runs during a transfer: an idle one may show generation 1."""

    generation: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What no measurement can exceed. `rate` is per SM and clock, where there is one.

    `exact` False: a bound from something else (the fastest instruction of the path, the issue rate), perhaps far above
    what the instruction in question can do. `confirmed` False: it rests on an assumption or on a fact that its spec
    doubts, so that it may be wrong; `behind` is then a higher limit that is certain, where there is one.
    """

    name: str
    value: float
    unit: str
    source: str
    rate: float | None = None
    rate_unit: str | None = None
    clock_hz: float | None = None
    exact: bool = True
    confirmed: bool = True
    behind: Bound | None = None

    def scaled(self, factor: float, why: str | None) -> Bound:
        """Return a multiple of this limit and of the one behind it, with the reason for the factor."""
        return replace(
            self,
            value=self.value * factor,
            rate=self.rate * factor if self.rate is not None else None,
            source=f"{factor:.3g} × {self.source} ({why})",
            behind=self.behind.scaled(factor, why) if self.behind is not None else None,
        )

    def in_unit(self, unit: str) -> float | None:
        """Return the limit in the unit of a result, or None if it cannot be told in that unit."""
        if unit == self.unit:
            return self.value
        return self.rate if unit == self.rate_unit else None


class NoBound(NamedTuple):
    """A limit that is not known, and why."""

    name: str
    why: str


def physical_limit(name: str, hardware: Hardware, clocks: Clocks, link: PcieLink | None = None) -> Bound | NoBound:
    """Return the limit called `name` on this GPU at these clocks, or why it is not known."""
    if name == "pcie":
        return _pcie(link, hardware)
    if name in ("l2", "l2_write"):
        return _l2(name, hardware, clocks)
    special = {"dram": _dram, "issue": _issue}.get(name)
    if special is not None:
        return special(hardware, clocks)
    if name.partition(" ")[0] in PATHS:
        return _compute(name, hardware, clocks)
    arch = hardware.arch
    for what, names, facts in (("bandwidth", BANDWIDTHS, arch.bandwidth), ("operation", OPERATIONS, arch.operations)):
        if name in names:
            return _per_sm(name, facts.get(name), what, hardware, clocks)
    return NoBound(name, f"no limit named {name!r}")


def probe_limit(limit: PhysicalLimit, hardware: Hardware, clocks: Clocks, unit: str) -> Bound | NoBound:
    """Return the limit that a probe names; a probe may name a fraction of it, or give a rate with its source."""
    if limit.rate is not None:
        source = limit.source or "the probe"
        return Bound(name="rate", value=limit.rate, unit=unit, source=source, rate=limit.rate, rate_unit=unit)
    name = str(limit.compute) if limit.compute is not None else limit.bandwidth or limit.operation or ""
    bound = physical_limit(name, hardware, clocks)
    return bound if isinstance(bound, NoBound) or limit.fraction == 1 else bound.scaled(limit.fraction, limit.source)


def executed_name(name: str, opcodes: Mapping[str, int]) -> str:
    """Return the limit of the matrix instructions that really ran.

    FP8 `mma.sync` on Hopper becomes HMMA of FP16, which is bound by the rate of that.
    """
    if not name.startswith("tensor."):
        return name
    matrices = {opcode: matrix for opcode in opcodes if (matrix := matrix_opcode(opcode)) is not None}
    path = name.partition(" ")[0]
    if not matrices or any(matrix.key.path == path for matrix in matrices.values()):
        return name
    return str(matrices[max(matrices, key=lambda opcode: opcodes[opcode])].key)


def _dram(hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    """From the memory clock and the bus that the spec gives (drivers round it), else the spec's rate or rating."""
    fact = hardware.gpu.facts.get("memory_bus") if hardware.gpu is not None else None
    bus = fact.value if fact is not None else hardware.device.memory_bus_bits
    clock = clocks.dram_hz or hardware.device.max_memory_clock_hz
    rated = _rated_dram(hardware, fact)
    if not bus or not clock:
        return rated or NoBound("dram", "neither the memory clock and bus width nor a rated bandwidth is known")
    confirmed = fact.confirmed if fact is not None else bus <= _WIDEST_GDDR
    source = f"memory clock {clock / 1e6:.0f} MHz × 2 × {bus:.0f} bit ÷ 8"
    value = clock * _TRANSFERS_PER_CLOCK * bus / 8
    behind = rated.behind if rated is not None and not confirmed else None
    if behind is not None and behind.value <= value:
        behind = None
    return Bound(
        name="dram", value=value, unit="B/s", source=source, clock_hz=clock, confirmed=confirmed, behind=behind
    )


def _rated_dram(hardware: Hardware, bus: Fact | None) -> Bound | None:
    """Return the rating, no more certain than the bus it is made from; behind it lies what no rounding explains."""
    rated = hardware.gpu.rated.get(ComputeKey("dram")) if hardware.gpu is not None else None
    if rated is None:
        return None
    source = f"rated: {rated.source}"
    bound = Bound(name="dram", value=rated.value, unit="B/s", source=source, confirmed=rated.confirmed)
    beyond = replace(bound, value=rated.value * _RATING_ROUNDED, source=f"5 % above {source}")
    doubted = not rated.confirmed or (bus is not None and not bus.confirmed)
    return replace(bound, confirmed=not doubted, behind=beyond if rated.confirmed else None)


def _l2(name: str, hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    """The smaller of all SMs' ports and all slices at L2's clock."""
    ports, slices = _l2_ports(name, hardware, clocks), _l2_slices(name, hardware)
    clock = l2_clock(hardware, clocks) or _no_lower_clock(hardware, clocks)
    if slices is None or clock is None:
        return ports
    value, certain = slices.value * clock.hz, slices.confirmed and clock.certain
    source = f"{slices.value:g} B/clk ({slices.source}) × {clock.name} {clock.hz / 1e6:.0f} MHz"
    if isinstance(ports, NoBound):
        return Bound(
            name=name, value=value, unit="B/s", source=source, rate=slices.value, rate_unit="B/clk", clock_hz=clock.hz,
            confirmed=certain,
        )  # fmt: skip
    if value >= ports.value:
        return ports
    behind = None if certain else ports if ports.confirmed else ports.behind
    return replace(
        ports,
        value=value,
        rate=ports.rate * value / ports.value if ports.rate is not None else None,
        clock_hz=clock.hz,
        source=source,
        confirmed=certain,
        behind=behind,
    )


def _l2_ports(name: str, hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    """Return the ports of all SMs; behind those that are in doubt what L1 can deliver, through which all of it goes."""
    bandwidth = hardware.arch.bandwidth
    ports = _per_sm(name, bandwidth.get(name) or bandwidth.get("l2"), "bandwidth", hardware, clocks)
    l1 = _per_sm("l1", bandwidth.get("l1"), "bandwidth", hardware, clocks)
    if isinstance(ports, NoBound) or ports.confirmed:
        return ports
    if isinstance(l1, NoBound) or not l1.confirmed or l1.value <= ports.value:
        return ports
    return replace(ports, behind=replace(l1, name=name, source=f"all of it goes through L1: {l1.source}", exact=False))


def _l2_slices(name: str, hardware: Hardware) -> Fact | None:
    """Return the bytes that all slices give in a cycle, or take: the same, unless the spec has a rate of its own."""
    reads = hardware.gpu.facts.get("l2_bandwidth") if hardware.gpu is not None else None
    rate = write_rate(hardware.arch)
    if reads is None or rate is None or name == "l2":
        return reads
    return structs.replace(reads, value=rate * reads.value, source=f"{rate:g} of what is read; {reads.source}")


def _no_lower_clock(hardware: Hardware, clocks: Clocks) -> L2Clock | None:
    """Return the highest clock of the SMs in place of L2's, which NVML does not tell.

    In reports that tell both, L2's was below that: V100 1.22 of 1.53 GHz, A100 1.02 of 1.41, A40 1.23 of 1.74, A10G
    1.25 of 1.71, RTX 2060 Max-Q 0.93 of 1.19. But SMs ran at their base clocks there, and L2's follows theirs, unlike
    on 9.0. So this is an assumption and rejects nothing.
    """
    boost = hardware.gpu.number("boost_clock") if hardware.gpu is not None else None
    highest = max(filter(None, (hardware.device.max_sm_clock_hz, boost, clocks.sm_hz)), default=None)
    name = "highest SM clock (the L2 clock is unknown and assumed not to exceed it):"
    return L2Clock(highest, name, certain=False) if highest is not None else None


def _issue(hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    limits = hardware.arch.limits
    if not {"sub_partitions", "threads_per_warp"} <= limits.keys():
        return NoBound("issue", f"the spec of {hardware.arch.name} gives no schedulers per SM")
    schedulers, lanes = limits["sub_partitions"], limits["threads_per_warp"]
    fact = structs.replace(
        schedulers,
        value=schedulers.value * lanes.value,
        unit="result/clk/SM",
        confirmed=schedulers.confirmed and lanes.confirmed,
        source=f"a warp instruction a clock and scheduler; {schedulers.source}",
    )
    bound = _per_sm("issue", fact, "limit", hardware, clocks)
    return bound if isinstance(bound, NoBound) else replace(bound, exact=False)


def _pcie(link: PcieLink | None, hardware: Hardware) -> Bound | NoBound:
    """The link as it runs; where the spec has another way to the host's memory, that: NVML names PCIe even so."""
    own = hardware.gpu.facts.get("host_link") if hardware.gpu is not None else None
    if own is not None:
        source = f"{own.source}, one direction"
        return Bound(name="host link", value=own.value, unit="B/s", source=source, confirmed=own.confirmed)
    if link is None:
        return NoBound("pcie", "the generation and width of the PCIe link were not read")
    if link.generation not in _PCIE_BIT_PER_S:
        return NoBound("pcie", f"no rate of PCIe generation {link.generation} is known")
    coding = _PCIE_CODING.get(link.generation, 128 / 130)
    value = _PCIE_BIT_PER_S[link.generation] * link.width * coding / 8
    source = f"PCIe {link.generation} × {link.width}, one direction"
    return Bound(name="pcie", value=value, unit="B/s", source=source)


def _compute(name: str, hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    """The rate of the very instruction; where the spec has none, the fastest of the path, which no other exceeds."""
    key = ComputeKey(*name.split(" ")[:3])
    fact, exact = hardware.rates.get(key), True
    if fact is None:
        fact, exact = _fastest(fact for other, fact in hardware.rates.items() if other.path == key.path), False
        fact = fact and structs.replace(fact, source=f"the fastest of {key.path} on this chip; {fact.source}")
    arch = hardware.arch
    if fact is None and any(other.path == key.path for other in arch.compute):
        return NoBound(name, f"this GPU has no spec, and products of {arch.name} can differ in {key.path}")
    bound = _per_sm(name, fact, "rate", hardware, clocks)
    return bound if isinstance(bound, NoBound) else replace(bound, exact=exact)


def _fastest(facts: Iterable[Fact]) -> Fact | None:
    return max(facts, key=lambda fact: fact.value, default=None)


def _per_sm(name: str, fact: Fact | None, what: str, hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    if fact is None:
        return NoBound(name, f"the spec of {hardware.arch.name} gives no {what} of {name}")
    sms = hardware.sm_count()
    if sms is None:
        return NoBound(name, "the number of SMs is not known")
    if clocks.sm_hz is None:
        return NoBound(name, "the SM clock was not measured")
    source = f"{fact.value:g} {fact.unit} ({fact.source}) × {sms} SMs × {clocks.sm_hz / 1e6:.0f} MHz"
    unit = fact.unit.removesuffix("/clk/SM") + "/s"
    value, confirmed = fact.value * sms * clocks.sm_hz, fact.confirmed and _sms_confirmed(hardware)
    return Bound(
        name=name, value=value, unit=unit, source=source, rate=fact.value, rate_unit=fact.unit, clock_hz=clocks.sm_hz,
        confirmed=confirmed,
    )  # fmt: skip


def _sms_confirmed(hardware: Hardware) -> bool:
    """Tell whether the number of SMs is certain: the device said it, or its spec does not doubt it."""
    fact = hardware.gpu.facts.get("sm_count") if hardware.gpu is not None else None
    return hardware.device.sm_count is not None or fact is None or fact.confirmed
