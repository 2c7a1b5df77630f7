"""What was measured of one GPU, as `NAME.measured.yaml` keeps it: values with verdict and evidence, and the conditions.

The fields declare the file: reading, writing and its reference follow them. Amounts are text with a unit, as in the
spec files. Anything unknown or inconsistent is an error at its file and line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuprof.characterize.judge.regime import REGIMES
from gpuprof.characterize.judge.verdict import LIMIT_MARGIN, WORDS, VerdictWord
from gpuprof.characterize.sheet.forms import (
    FLAG,
    NUMBER,
    NUMBER_BY_NAME,
    OWN_AMOUNT,
    POINTS,
    TEXT,
    TEXT_BY_NAME,
    TEXTS,
    UNIT,
    VALUE,
    WHOLE,
    WHOLE_BY_NAME,
    KeyForm,
    amount_in,
    one_of,
)
from gpuprof.characterize.sheet.keys import key, names_of, optional, read_record, record_of, records_of
from gpuprof.hardware.parse_facts import parse_compute_key
from gpuprof.hardware.yaml_fields import Fields
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode, load_tree

HEAD = {"schema": 1, "kind": "measured"}
"""What a file begins with."""
CEILING_LEVELS = ("dram", "l2", "l1", "shared")
LOWER_IS_BETTER = ("cycle", "s", "W", "J/FLOP", "J/OP", "J/B", "°C")
"""Units of results in which less is better."""
_WITH_VALUE: tuple[VerdictWord, ...] = ("verified", "plausible", "rejected")
_ROUNDED = 1e-4
"""The numbers of a file are written with six digits."""


def _ceiling(entry: Fields, name: str, _: str) -> str:
    node = entry.required(name)
    text = node.text(name)
    return text if text in CEILING_LEVELS else str(parse_compute_key(text, node, instruction=True))


_CEILING = KeyForm(f"{', '.join(f'`{level}`' for level in CEILING_LEVELS)} or a compute path", _ceiling)
_HERTZ, _WATT, _CELSIUS, _BYTES, _BITS = (amount_in(unit) for unit in ("Hz", "W", "°C", "B", "bit"))


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """Which GPU it is. Nothing that tells one card from another of its kind."""

    name: str = field(metadata=key(TEXT, "what the driver calls it"))
    compute_capability: str = field(metadata=key(TEXT, "such as 9.0"))
    sm_count: int = field(metadata=key(WHOLE, "how many SMs it has"))
    pci_id: str | None = optional(TEXT, "PCI ids of vendor and device")
    pci_subsystem: str | None = optional(TEXT, "PCI ids of the board")
    memory_bytes: float | None = optional(_BYTES, "size of its memory", "memory_size")
    memory_bus_bits: float | None = optional(_BITS, "width of the memory bus", "memory_bus")
    l2_bytes: float | None = optional(_BYTES, "size of the L2 cache", "l2_size")


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what it was measured; None where the driver does not say."""

    date: str = field(metadata=key(TEXT, "when it was measured, ISO 8601 in UTC"))
    gpuprof: str = field(metadata=key(TEXT, "the version of gpuprof"))
    driver: str | None = optional(TEXT, "the version of the driver")
    cuda: str | None = optional(TEXT, "the version of CUDA that the driver supports")
    ecc: bool | None = optional(FLAG, "whether ECC was on")
    mig: bool | None = optional(FLAG, "whether MIG was on")
    power_limit_w: float | None = optional(_WATT, "the power limit that was set", "power_limit")
    default_power_limit_w: float | None = optional(_WATT, "the card's own power limit", "default_power_limit")
    max_sm_clock_hz: float | None = optional(_HERTZ, "the highest SM clock allowed", "max_sm_clock")
    memory_clock_hz: float | None = optional(_HERTZ, "the highest memory clock seen", "memory_clock")
    max_memory_clock_hz: float | None = optional(_HERTZ, "the highest memory clock allowed", "max_memory_clock")
    pcie_generation: int | None = optional(WHOLE, "the PCIe generation that was seen")
    pcie_width: int | None = optional(WHOLE, "the PCIe lanes that were seen")
    max_pcie_generation: int | None = optional(WHOLE, "the highest PCIe generation that is possible here")
    max_pcie_width: int | None = optional(WHOLE, "the most PCIe lanes that are possible here")
    highest_temperature_c: float | None = optional(_CELSIUS, "the highest one seen", "highest_temperature")
    other_processes: int | None = optional(WHOLE, "how many other processes were on the GPU")


@dataclass(frozen=True, slots=True)
class MeasuredEvidence:
    """Why a value may be believed. `limit` is in the value's unit; `counters` are counted ÷ claimed.

    `limit_confirmed` False: the limit rests on an assumption or a doubted fact, so that a value above it is no error.
    """

    gate: str | None = optional(TEXT, "what the gate says of the machine code")
    opcodes: Mapping[str, int] = field(
        default_factory=dict, metadata=key(WHOLE_BY_NAME, "how often each opcode stands in what is measured")
    )
    cubin_sha256: str | None = optional(TEXT, "SHA-256 of the machine code")
    scaling_residual: float | None = optional(
        NUMBER, "how far the times are from the law that they must obey, as a fraction"
    )
    clock_hz: float | None = optional(_HERTZ, "the SM clock, from the kernel's own cycles", "clock")
    nvml_clock_hz: float | None = optional(_HERTZ, "the SM clock that NVML reported", "nvml_clock")
    limit: float | None = optional(OWN_AMOUNT, "the physical limit")
    limit_name: str | None = optional(TEXT, "what limits")
    limit_source: str | None = optional(TEXT, "how the limit was computed")
    limit_confirmed: bool = field(
        default=True,
        metadata=key(FLAG, "false: the limit rests on a doubted fact, and a value above it is not an error"),
    )
    counters: Mapping[str, float] = field(
        default_factory=dict, metadata=key(NUMBER_BY_NAME, "what hardware counters counted ÷ what the probe claims")
    )


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """One quantity in base units with its 95 % interval. `value` None: it could not be measured, `reasons` say why.

    `ceiling`: what it is the ceiling of, a level or a compute key such as "tensor.bf16 fp32 wgmma"; None: of nothing.
    `allocations`: on how many separate allocations of memory it rests, of `of_allocations` that were begun, where some
    had too few points to count; None: not recorded, or it needs no memory.
    """

    value: float | None = field(metadata=key(VALUE, "the value; missing where it could not be measured"))
    unit: str = field(metadata=key(UNIT, "the unit that it would have"))
    low: float | None = field(default=None, kw_only=True, metadata=key(OWN_AMOUNT, "lower end of its 95 % interval"))
    high: float | None = field(default=None, kw_only=True, metadata=key(OWN_AMOUNT, "upper end of its 95 % interval"))
    verdict: VerdictWord = field(metadata=key(one_of(WORDS), "whether it may be believed"))
    reasons: tuple[str, ...] = field(default=(), metadata=key(TEXTS, "why it is not verified"))
    ceiling: str | None = optional(_CEILING, "what it is a ceiling of")
    regime: str | None = optional(one_of(REGIMES), "under which load of the GPU")
    throttling: tuple[str, ...] = field(default=(), metadata=key(TEXTS, "what held the clocks back"))
    statistic: str | None = optional(TEXT, "what was taken of the samples")
    samples: int | None = optional(WHOLE, "how many samples")
    allocations: int | None = optional(WHOLE, "on how many allocations of memory it rests")
    of_allocations: int | None = optional(WHOLE, "of how many that were begun")
    method: str | None = optional(TEXT, "how it was measured")
    configuration: Mapping[str, str] = field(
        default_factory=dict, metadata=key(TEXT_BY_NAME, "the parameters of the kernel and its launch")
    )
    evidence: MeasuredEvidence = field(
        default_factory=MeasuredEvidence, metadata=key(record_of(MeasuredEvidence), "why it may be believed")
    )

    @property
    def of_limit(self) -> float | None:
        """Return the value as a fraction of its physical limit."""
        limit = self.evidence.limit
        return self.value / limit if self.value is not None and limit else None

    @property
    def usable(self) -> bool:
        """Tell whether it was measured and not rejected."""
        return self.value is not None and self.verdict in {"verified", "plausible"}

    @property
    def as_ceiling(self) -> tuple[bool, float]:
        """Return what the best of several ways to measure a ceiling is told by: within its limit first, then higher.

        What lies above a limit that is not confirmed may be hits in a nearer memory, or a limit that is wrong.
        """
        return (self.of_limit or 0.0) <= LIMIT_MARGIN, self.value or 0.0


@dataclass(frozen=True, slots=True)
class Curve:
    """What one probe gave along a sweep: x and y in their units."""

    x_unit: str = field(metadata=key(TEXT, "the unit of x"))
    y_unit: str = field(metadata=key(TEXT, "the unit of y"))
    points: tuple[tuple[float, float], ...] = field(default=(), metadata=key(POINTS, "the points, in base units"))


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured file."""

    name: str = field(metadata=key(TEXT, "what the file is called"))
    spec: str | None = field(default=None, kw_only=True, metadata=key(TEXT, "the product that it was recognised as"))
    device: MeasuredDevice = field(metadata=key(record_of(MeasuredDevice), "which GPU it is"))
    conditions: Conditions = field(metadata=key(record_of(Conditions), "under what it was measured"))
    values: Mapping[str, MeasuredValue] = field(
        default_factory=dict, metadata=key(records_of(MeasuredValue, "value"), "what was measured")
    )
    curves: Mapping[str, Curve] = field(
        default_factory=dict, metadata=key(records_of(Curve, "curve"), "what probes gave along a sweep")
    )
    file: str = ""


def plain_name(name: str) -> str:
    """Return the name of a quantity without the parameters that tell several ways to measure it apart.

    "bandwidth/dram-read SCHEDULE=Static sustained" → "bandwidth/dram-read sustained".
    """
    return " ".join(word for word in name.split(" ") if "=" not in word)


def load_measured(path: Path) -> Measured:
    """Read one file. Raises BrokenSpec (a SpecError) with file and line."""
    return parse_measured(load_tree(path))


def parse_measured(tree: YamlNode) -> Measured:
    """Turn a YAML tree into a Measured. Raises BrokenSpec at the first broken rule."""
    top = Fields(tree, "a measured file", {*HEAD, *names_of(Measured)})
    if top.text("kind") != HEAD["kind"]:
        raise BrokenSpec(top.place("kind"), f"kind must be {HEAD['kind']}")
    if top.text("schema") != str(HEAD["schema"]):
        raise BrokenSpec(top.place("schema"), f"schema must be {HEAD['schema']}; this gpuprof reads no other")
    measured = replace(read_record(Measured, top), file=tree.place.file)
    for name, node in top.mapping("values").items():
        _check(measured.values[name], name, node)
    return measured


def _check(value: MeasuredValue, name: str, node: YamlNode) -> None:
    """Refuse what no measurement writes: an interval beside the value, a believed value above its limit."""
    there = value.value is not None
    if (value.verdict in _WITH_VALUE) != there:
        raise BrokenSpec(node.place, f"{name} is {value.verdict} and {'has' if there else 'lacks'} a value")
    if value.value is not None and value.low is not None and value.high is not None:
        slack = _ROUNDED * abs(value.value)
        if not value.low - slack <= value.value <= value.high + slack:
            raise BrokenSpec(node.place, f"{name} lies outside of its own interval")
    if value.usable and value.evidence.limit_confirmed and (value.of_limit or 0) > LIMIT_MARGIN + _ROUNDED:
        raise BrokenSpec(node.place, f"{name} is {value.verdict}, but {value.of_limit:.3f} × its limit")
