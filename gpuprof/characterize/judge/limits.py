"""The physical limit of a result by name, at the clocks it was measured at: rate per SM and clock × SMs × clock.

A name is a key of the spec files: `dram`, `shared`, `l1`, `l2`, `fp32`, `tensor.bf16 fp32 wgmma`, `shuffle`; a tensor
key may end in `sparse`. `issue` is one warp instruction a clock and scheduler, `pcie` the link's rate per direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from gpuprof.hardware.parse import BANDWIDTHS, OPERATIONS
from gpuprof.hardware.specs import PATHS, ComputeKey, Fact
from gpuprof.model.ceilings import Hardware
from gpuprof.model.quantities import Clocks
from gpuprof.model.sass_opcodes import matrix_opcode

if TYPE_CHECKING:
    from gpuprof.characterize.probes.probe import Limit

_SPARSE = "sparse"
_TRANSFERS_PER_CLOCK = 2
"""Both edges of the memory clock carry data; NVML's memory clock already counts the quad rate of GDDR."""
_PCIE_BIT_PER_S = {1: 2.5e9, 2: 5e9, 3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
_PCIE_CODING = {1: 8 / 10, 2: 8 / 10}
"""8b/10b coding on the first two generations; 128b/130b since, flits on the sixth. PCI Express Base Specification."""


class Link(NamedTuple):
    """The PCIe link as it runs during a transfer: an idle one may show generation 1."""

    generation: int
    width: int


class Bound(NamedTuple):
    """What no measurement can exceed. `rate` is per SM and clock (for L2's slices per clock), where there is one.

    `exact` False: a bound from something else (the fastest instruction of the path, the issue rate), perhaps far above
    what the instruction in question can do.
    """

    name: str
    value: float
    unit: str
    rate: float | None
    rate_unit: str | None
    clock_hz: float | None
    source: str
    exact: bool = True

    def in_unit(self, unit: str) -> float | None:
        """Return the limit in the unit of a result, or None if it cannot be told in that unit."""
        if unit == self.unit:
            return self.value
        return self.rate if unit == self.rate_unit else None


class NoBound(NamedTuple):
    """A limit that is not known, and why."""

    name: str
    why: str


def physical_limit(name: str, hardware: Hardware, clocks: Clocks, link: Link | None = None) -> Bound | NoBound:
    """Return the limit called `name` on this GPU at these clocks, or why it is not known."""
    if name == "pcie":
        return _pcie(link)
    special = {"dram": _dram, "l2": _l2, "issue": _issue}.get(name)
    if special is not None:
        return special(hardware, clocks)
    if name.partition(" ")[0] in PATHS:
        return _compute(name, hardware, clocks)
    if name in BANDWIDTHS:
        return _per_sm(name, hardware.arch.bandwidth.get(name), "bandwidth", hardware, clocks)
    if name in OPERATIONS:
        return _per_sm(name, hardware.arch.operations.get(name), "operation", hardware, clocks)
    return NoBound(name, f"no limit is called {name!r}")


def probe_limit(limit: Limit, hardware: Hardware, clocks: Clocks, unit: str) -> Bound | NoBound:
    """Return the limit that a probe names; a probe may name a fraction of it, or give a rate with its source."""
    if limit.rate is not None:
        source = limit.source or "the probe"
        return Bound("rate", limit.rate, unit, limit.rate, unit, None, source)
    name = str(limit.compute) if limit.compute is not None else limit.bandwidth or limit.operation or ""
    found = physical_limit(name, hardware, clocks)
    if isinstance(found, NoBound) or limit.fraction == 1:
        return found
    source = f"{limit.fraction:.3g} × {found.source} ({limit.source})"
    rate = found.rate * limit.fraction if found.rate is not None else None
    return found._replace(value=found.value * limit.fraction, rate=rate, source=source)


def executed_name(name: str, opcodes: Mapping[str, int]) -> str:
    """Return the limit of the matrix instructions that really ran.

    FP8 `mma.sync` on Hopper becomes HMMA of FP16, which is bound by the rate of that.
    """
    if not name.startswith("tensor."):
        return name
    matrices = {opcode: found for opcode in opcodes if (found := matrix_opcode(opcode)) is not None}
    wanted = name.removesuffix(f" {_SPARSE}").split(" ")
    if not matrices or any(found.key.path == wanted[0] for found in matrices.values()):
        return name
    main = matrices[max(matrices, key=lambda opcode: opcodes[opcode])]
    return str(main.key) + (f" {_SPARSE}" if main.sparse else "")


def _dram(hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    """From the memory clock and the bus that the spec gives (drivers round it up), else the spec's rate or rating."""
    specified = hardware.gpu.number("memory_bus") if hardware.gpu is not None else None
    bus, clock = specified or hardware.device.memory_bus_bits, clocks.dram_hz or hardware.device.max_memory_clock_hz
    if bus and clock:
        source = f"memory clock {clock / 1e6:.0f} MHz × 2 × {bus:.0f} bit ÷ 8"
        return Bound("dram", clock * _TRANSFERS_PER_CLOCK * bus / 8, "B/s", None, None, clock, source)
    rated = hardware.gpu.rated.get(ComputeKey("dram")) if hardware.gpu is not None else None
    if rated is not None:
        return Bound("dram", rated.value, "B/s", None, None, None, f"rated: {rated.source}")
    return NoBound("dram", "neither the memory clock and bus width nor a rated bandwidth is known")


def _l2(hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    """The smaller of all SMs' read ports and all slices; these at L2's own clock, which can be above the SMs'."""
    ports = _per_sm("l2", hardware.arch.bandwidth.get("l2"), "bandwidth", hardware, clocks)
    slices = hardware.gpu.facts.get("l2_bandwidth") if hardware.gpu is not None else None
    if slices is None or clocks.own_l2_hz is None:
        return ports
    source = f"{slices.value:g} B/clk ({slices.source}) × L2 clock {clocks.own_l2_hz / 1e6:.0f} MHz"
    chip = Bound("l2", slices.value * clocks.own_l2_hz, "B/s", slices.value, "B/clk", clocks.own_l2_hz, source)
    return chip if isinstance(ports, NoBound) or chip.value <= ports.value else ports


def _issue(hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    limits = hardware.arch.limits
    if not {"sub_partitions", "threads_per_warp"} <= limits.keys():
        return NoBound("issue", f"{hardware.arch.name} gives no schedulers per SM")
    lanes = limits["sub_partitions"].value * limits["threads_per_warp"].value
    fact = limits["sub_partitions"]._replace(
        value=lanes,
        unit="result/clk/SM",
        source=f"a warp instruction a clock and scheduler; {limits['sub_partitions'].source}",
    )
    found = _per_sm("issue", fact, "limit", hardware, clocks)
    return found if isinstance(found, NoBound) else found._replace(exact=False)


def _pcie(link: Link | None) -> Bound | NoBound:
    if link is None:
        return NoBound("pcie", "the generation and width of the PCIe link were not read")
    if link.generation not in _PCIE_BIT_PER_S:
        return NoBound("pcie", f"no rate of PCIe generation {link.generation} is known")
    coding = _PCIE_CODING.get(link.generation, 128 / 130)
    value = _PCIE_BIT_PER_S[link.generation] * link.width * coding / 8
    return Bound("pcie", value, "B/s", None, None, None, f"PCIe {link.generation} × {link.width}, one direction")


def _compute(name: str, hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    """The rate of the very instruction; where the spec has none, the fastest of the path, which no other exceeds."""
    sparse = name.endswith(f" {_SPARSE}")
    key = ComputeKey(*name.removesuffix(f" {_SPARSE}").split(" ")[:3])
    fact, exact = hardware.rates.get(key), True
    if fact is None:
        fact, exact = _fastest(fact for other, fact in hardware.rates.items() if other.path == key.path), False
        fact = fact and fact._replace(source=f"the fastest of {key.path} on this chip; {fact.source}")
    if fact is not None and sparse:
        fact = fact._replace(value=2 * fact.value, source=f"twice the dense rate; {fact.source}")
    found = _per_sm(name, fact, "rate", hardware, clocks)
    return found if isinstance(found, NoBound) else found._replace(exact=exact)


def _fastest(facts: Iterable[Fact]) -> Fact | None:
    return max(facts, key=lambda fact: fact.value, default=None)


def _per_sm(name: str, fact: Fact | None, what: str, hardware: Hardware, clocks: Clocks) -> Bound | NoBound:
    if fact is None:
        return NoBound(name, f"{hardware.arch.name} gives no {what} of {name}")
    sms = hardware.sm_count()
    if sms is None:
        return NoBound(name, "the number of SMs is not known")
    if clocks.sm_hz is None:
        return NoBound(name, "the SM clock was not measured")
    source = f"{fact.value:g} {fact.unit} ({fact.source}) × {sms} SMs × {clocks.sm_hz / 1e6:.0f} MHz"
    unit = fact.unit.removesuffix("/clk/SM") + "/s"
    return Bound(name, fact.value * sms * clocks.sm_hz, unit, fact.value, fact.unit, clocks.sm_hz, source)
