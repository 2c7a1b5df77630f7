"""What was measured of one GPU, as `NAME.measured.yaml` keeps it: values with verdict and evidence, and the conditions.

Amounts are text with a unit, as in the spec files. Anything unknown or inconsistent is an error at its file and line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from gpuprof.characterize.judge.regime import REGIMES
from gpuprof.characterize.judge.verdict import LIMIT_MARGIN, WORDS, VerdictWord
from gpuprof.hardware.parse_facts import parse_compute_key
from gpuprof.hardware.yaml_fields import Fields, amount, number
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode, load_tree
from gpuprof.units import Quantity, parse_quantity

SCHEMA = "1"
CEILING_LEVELS = ("dram", "l2", "l1", "shared")
OWN_UNITS = ("cycle", "result/s", "lane/s", "op/s", "J/FLOP", "J/OP", "J/B", "°C")
LOWER_IS_BETTER = ("cycle", "s", "W", "J/FLOP", "J/OP", "J/B", "°C")
"""Units of results that take no prefix and occur in no spec."""
_WITH_VALUE: tuple[VerdictWord, ...] = ("verified", "plausible", "rejected")
_MOST_DIGITS = 15
_ROUNDED = 1e-4
"""The numbers of a file are written with six digits."""


@dataclass(frozen=True, slots=True)
class MeasuredDevice:
    """Which GPU it is. Nothing that tells one card from another of its kind."""

    name: str
    compute_capability: str
    sm_count: int
    pci_id: str | None = None
    pci_subsystem: str | None = None
    memory_bytes: float | None = None
    memory_bus_bits: float | None = None
    l2_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under what it was measured; None where the driver does not say. `date` is ISO 8601 in UTC."""

    date: str
    gpuprof: str
    driver: str | None = None
    cuda: str | None = None
    ecc: bool | None = None
    mig: bool | None = None
    power_limit_w: float | None = None
    default_power_limit_w: float | None = None
    max_sm_clock_hz: float | None = None
    memory_clock_hz: float | None = None
    max_memory_clock_hz: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    max_pcie_generation: int | None = None
    max_pcie_width: int | None = None
    highest_temperature_c: float | None = None
    other_processes: int | None = None


@dataclass(frozen=True, slots=True)
class MeasuredEvidence:
    """Why a value may be believed. `limit` is in the value's unit; `counters` are counted ÷ claimed.

    `limit_confirmed` False: the limit rests on an assumption or a doubted fact, so that a value above it is no error.
    """

    gate: str | None = None
    opcodes: Mapping[str, int] = field(default_factory=dict)
    cubin_sha256: str | None = None
    scaling_residual: float | None = None
    clock_hz: float | None = None
    nvml_clock_hz: float | None = None
    limit: float | None = None
    limit_name: str | None = None
    limit_source: str | None = None
    limit_confirmed: bool = True
    counters: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasuredValue:
    """One quantity in base units with its 95 % interval. `value` None: it could not be measured, `reasons` say why.

    `ceiling`: what it is the ceiling of, a level or a compute key such as "tensor.bf16 fp32 wgmma"; None: of nothing.
    `allocations`: on how many separate allocations of memory it rests, of `of_allocations` that were begun, where some
    had too few points to count; None: not recorded, or it needs no memory.
    """

    value: float | None
    unit: str
    verdict: VerdictWord
    reasons: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    ceiling: str | None = None
    regime: str | None = None
    throttling: tuple[str, ...] = ()
    statistic: str | None = None
    samples: int | None = None
    allocations: int | None = None
    of_allocations: int | None = None
    method: str | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    evidence: MeasuredEvidence = field(default_factory=MeasuredEvidence)

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


class Curve(NamedTuple):
    """What one probe gave along a sweep: x and y in their units."""

    x_unit: str
    y_unit: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A measured file. `spec`: the product that the GPU was recognised as."""

    name: str
    device: MeasuredDevice
    conditions: Conditions
    values: Mapping[str, MeasuredValue]
    curves: Mapping[str, Curve] = field(default_factory=dict)
    spec: str | None = None
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
    known = {"schema", "kind", "name", "spec", "device", "conditions", "values", "curves"}
    top = Fields(tree, "a measured file", known)
    if top.text("kind") != "measured":
        raise BrokenSpec(top.place("kind"), "kind must be measured")
    if top.text("schema") != SCHEMA:
        raise BrokenSpec(top.place("schema"), f"schema must be {SCHEMA}; this gpuprof reads no other")
    return Measured(
        name=top.text("name"),
        spec=_optional_text(top, "spec"),
        device=_device(top.required("device")),
        conditions=_conditions(top.required("conditions")),
        values={name: _value(node, name) for name, node in top.mapping("values").items()},
        curves={name: _curve(node, name) for name, node in top.mapping("curves").items()},
        file=tree.place.file,
    )


def _device(node: YamlNode) -> MeasuredDevice:
    known = {
        "name", "compute_capability", "sm_count", "pci_id", "pci_subsystem", "memory_size", "memory_bus", "l2_size",
    }  # fmt: skip
    entry = Fields(node, "device", known)
    return MeasuredDevice(
        name=entry.text("name"),
        compute_capability=entry.text("compute_capability"),
        sm_count=_whole(entry.required("sm_count"), "sm_count"),
        pci_id=_optional_text(entry, "pci_id"),
        pci_subsystem=_optional_text(entry, "pci_subsystem"),
        memory_bytes=_optional_amount(entry, "memory_size", "B"),
        memory_bus_bits=_optional_amount(entry, "memory_bus", "bit"),
        l2_bytes=_optional_amount(entry, "l2_size", "B"),
    )


_CONDITIONS = {
    "date", "gpuprof", "driver", "cuda", "ecc", "mig", "power_limit", "default_power_limit", "max_sm_clock",
    "memory_clock", "max_memory_clock", "pcie_generation", "pcie_width", "max_pcie_generation", "max_pcie_width",
    "highest_temperature", "other_processes",
}  # fmt: skip


def _conditions(node: YamlNode) -> Conditions:
    entry = Fields(node, "conditions", _CONDITIONS)
    return Conditions(
        date=entry.text("date"),
        gpuprof=entry.text("gpuprof"),
        driver=_optional_text(entry, "driver"),
        cuda=_optional_text(entry, "cuda"),
        ecc=_optional_flag(entry, "ecc"),
        mig=_optional_flag(entry, "mig"),
        power_limit_w=_optional_amount(entry, "power_limit", "W"),
        default_power_limit_w=_optional_amount(entry, "default_power_limit", "W"),
        max_sm_clock_hz=_optional_amount(entry, "max_sm_clock", "Hz"),
        memory_clock_hz=_optional_amount(entry, "memory_clock", "Hz"),
        max_memory_clock_hz=_optional_amount(entry, "max_memory_clock", "Hz"),
        pcie_generation=_optional_whole(entry, "pcie_generation"),
        pcie_width=_optional_whole(entry, "pcie_width"),
        max_pcie_generation=_optional_whole(entry, "max_pcie_generation"),
        max_pcie_width=_optional_whole(entry, "max_pcie_width"),
        highest_temperature_c=_optional_in(entry, "highest_temperature", "°C"),
        other_processes=_optional_whole(entry, "other_processes"),
    )


_VALUE = {
    "value", "low", "high", "unit", "verdict", "reasons", "ceiling", "regime", "throttling", "statistic", "samples",
    "allocations", "of_allocations", "method", "configuration", "evidence",
}  # fmt: skip


def _value(node: YamlNode, name: str) -> MeasuredValue:
    entry = Fields(node, f"value {name}", _VALUE)
    verdict = next(word for word in WORDS if word == entry.choice("verdict", WORDS))
    if (verdict in _WITH_VALUE) != ("value" in entry):
        raise BrokenSpec(node.place, f"{name} is {verdict} and {'has' if 'value' in entry else 'lacks'} a value")
    value, unit = (
        read_quantity(entry.required("value"), "value") if "value" in entry else Quantity(math.nan, entry.text("unit"))
    )
    found = MeasuredValue(
        value=value if "value" in entry else None,
        unit=unit,
        verdict=verdict,
        reasons=entry.texts("reasons") or (),
        low=_optional_in(entry, "low", unit),
        high=_optional_in(entry, "high", unit),
        ceiling=_ceiling(entry),
        regime=entry.choice("regime", REGIMES) if "regime" in entry else None,
        throttling=entry.texts("throttling") or (),
        statistic=_optional_text(entry, "statistic"),
        samples=_optional_whole(entry, "samples"),
        allocations=_optional_whole(entry, "allocations"),
        of_allocations=_optional_whole(entry, "of_allocations"),
        method=_optional_text(entry, "method"),
        configuration={key: item.text(key) for key, item in entry.mapping("configuration").items()},
        evidence=_evidence(entry, unit),
    )
    _check(found, name, node)
    return found


def _check(value: MeasuredValue, name: str, node: YamlNode) -> None:
    """Refuse what no measurement writes: an interval beside the value, a believed value above its limit."""
    if value.value is not None and value.low is not None and value.high is not None:
        slack = _ROUNDED * abs(value.value)
        if not value.low - slack <= value.value <= value.high + slack:
            raise BrokenSpec(node.place, f"{name} lies outside of its own interval")
    if value.usable and value.evidence.limit_confirmed and (value.of_limit or 0) > LIMIT_MARGIN + _ROUNDED:
        raise BrokenSpec(node.place, f"{name} is {value.verdict}, but {value.of_limit:.3f} × its limit")


def _ceiling(entry: Fields) -> str | None:
    node = entry.node("ceiling")
    if node is None:
        return None
    text = node.text("ceiling")
    return text if text in CEILING_LEVELS else str(parse_compute_key(text, node, instruction=True))


def _evidence(parent: Fields, unit: str) -> MeasuredEvidence:
    node = parent.node("evidence")
    if node is None:
        return MeasuredEvidence()
    known = {
        "gate", "opcodes", "cubin_sha256", "scaling_residual", "clock", "nvml_clock", "limit", "limit_name",
        "limit_source", "limit_confirmed", "counters",
    }  # fmt: skip
    entry = Fields(node, "evidence", known)
    return MeasuredEvidence(
        gate=_optional_text(entry, "gate"),
        opcodes={opcode: _whole(item, opcode) for opcode, item in entry.mapping("opcodes").items()},
        cubin_sha256=_optional_text(entry, "cubin_sha256"),
        scaling_residual=_optional_number(entry, "scaling_residual"),
        clock_hz=_optional_amount(entry, "clock", "Hz"),
        nvml_clock_hz=_optional_amount(entry, "nvml_clock", "Hz"),
        limit=_optional_in(entry, "limit", unit),
        limit_name=_optional_text(entry, "limit_name"),
        limit_source=_optional_text(entry, "limit_source"),
        limit_confirmed=entry.flag("limit_confirmed") if "limit_confirmed" in entry else True,
        counters={name: number(item, name) for name, item in entry.mapping("counters").items()},
    )


def _curve(node: YamlNode, name: str) -> Curve:
    entry = Fields(node, f"curve {name}", {"x_unit", "y_unit", "points"})
    return Curve(entry.text("x_unit"), entry.text("y_unit"), tuple(_point(item) for item in entry.items("points")))


def _point(node: YamlNode) -> tuple[float, float]:
    """Read "4096 33.1"."""
    parts = node.text("a point").split()
    if len(parts) != 2:
        raise BrokenSpec(node.place, "a point is two numbers, x and y")
    x, y = (number(YamlNode(part, node.place), "a point") for part in parts)
    return x, y


def read_quantity(node: YamlNode, what: str) -> Quantity:
    """Read an amount that is not negative, in any unit: "4.51 TB/s", "33.1 cycle"."""
    text = node.text(what)
    own = next((unit for unit in OWN_UNITS if text.endswith(f" {unit}")), None)
    if own is not None:
        found = Quantity(number(YamlNode(text.removesuffix(own).strip(), node.place), what), own)
    else:
        try:
            found = parse_quantity(text)
        except ValueError as error:
            raise BrokenSpec(node.place, f"{what}: {error}") from error
    if found.value < 0:
        raise BrokenSpec(node.place, f"{what} is negative")
    return found


def _optional_in(entry: Fields, key: str, unit: str) -> float | None:
    node = entry.node(key)
    if node is None:
        return None
    found = read_quantity(node, key)
    if found.unit != unit:
        raise BrokenSpec(node.place, f"{key} is in {found.unit or 'no unit'}; expected {unit or 'none'}")
    return found.value


def _optional_text(entry: Fields, key: str) -> str | None:
    return entry.text(key) if key in entry else None


def _optional_flag(entry: Fields, key: str) -> bool | None:
    return entry.flag(key) if key in entry else None


def _optional_amount(entry: Fields, key: str, unit: str) -> float | None:
    return amount(entry.required(key), key, unit) if key in entry else None


def _optional_whole(entry: Fields, key: str) -> int | None:
    return _whole(entry.required(key), key) if key in entry else None


def _whole(node: YamlNode, what: str) -> int:
    """Read a whole number, zero included."""
    text = node.text(what)
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise BrokenSpec(node.place, f"{what}: {text[:40]!r} is not a whole number")
    return int(text)


def _optional_number(entry: Fields, key: str) -> float | None:
    return number(entry.required(key), key) if key in entry else None
