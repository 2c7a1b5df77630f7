"""A measured file as YAML text, in a fixed order, with six digits."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from gpuprof.characterize.sheet.measured import SCHEMA, Conditions, Curve, Measured, MeasuredEvidence, MeasuredValue
from gpuprof.units import format_binary, format_si, parse_quantity

_DIGITS = 6
_SCALED = ("FLOP/s", "OP/s", "B/s", "bit/s", "Hz", "W", "s")
_WIDTH = 120
_MAP, _LIST = "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"
_HEAD = "# What gpuprof's micro-kernels reached on this GPU. Not a datasheet; `evidence` says why to believe it.\n"


class _InLine(dict[str, object]):
    """A mapping that is written in one line."""


class _Dumper(yaml.SafeDumper):
    """Writes lists in one line, and equal parts twice: the reader refuses aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002
        return True


_Dumper.add_representer(_InLine, lambda dumper, data: dumper.represent_mapping(_MAP, data, flow_style=True))
_Dumper.add_representer(list, lambda dumper, data: dumper.represent_sequence(_LIST, data, flow_style=True))


def measured_text(measured: Measured) -> str:
    """Return the YAML of a measured file; `parse_measured` reads it back."""
    content = {
        "schema": int(SCHEMA),
        "kind": "measured",
        "name": measured.name,
        "spec": measured.spec,
        "device": _device(measured),
        "conditions": _conditions(measured.conditions),
        "values": {name: _value(value) for name, value in measured.values.items()},
        "curves": {name: _curve(curve) for name, curve in measured.curves.items()},
    }
    body = yaml.dump(
        _given(content), Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=_WIDTH
    )
    return _HEAD + body


def quantity_text(value: float, unit: str) -> str:
    """Write an amount so that `read_quantity` reads it back, with six digits: 4.51e12, "B/s" → "4.51 TB/s"."""
    if unit == "B":
        return _bytes_text(value)
    if unit in _SCALED:
        number, _, scaled = format_si(value, unit, _DIGITS).partition(" ")
        return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {scaled}"
    return f"{value:.{_DIGITS}g} {unit}".rstrip()


def _bytes_text(value: float) -> str:
    """Write whole KiB, MiB and GiB as such, anything else in bytes."""
    binary = format_binary(value, digits=_DIGITS)
    if parse_quantity(binary).value == value:
        return binary
    return f"{value:.0f} B" if value == round(value) else f"{value:.{_DIGITS}g} B"


def _device(measured: Measured) -> dict[str, object]:
    device = measured.device
    return {
        "name": device.name,
        "compute_capability": device.compute_capability,
        "sm_count": device.sm_count,
        "pci_id": device.pci_id,
        "pci_subsystem": device.pci_subsystem,
        "memory_size": _amount(device.memory_bytes, "B"),
        "memory_bus": _amount(device.memory_bus_bits, "bit"),
        "l2_size": _amount(device.l2_bytes, "B"),
    }


def _conditions(conditions: Conditions) -> dict[str, object]:
    return {
        "date": conditions.date,
        "gpuprof": conditions.gpuprof,
        "driver": conditions.driver,
        "cuda": conditions.cuda,
        "ecc": conditions.ecc,
        "mig": conditions.mig,
        "power_limit": _amount(conditions.power_limit_w, "W"),
        "default_power_limit": _amount(conditions.default_power_limit_w, "W"),
        "max_sm_clock": _amount(conditions.max_sm_clock_hz, "Hz"),
        "memory_clock": _amount(conditions.memory_clock_hz, "Hz"),
        "max_memory_clock": _amount(conditions.max_memory_clock_hz, "Hz"),
        "pcie_generation": conditions.pcie_generation,
        "pcie_width": conditions.pcie_width,
        "max_pcie_generation": conditions.max_pcie_generation,
        "max_pcie_width": conditions.max_pcie_width,
        "highest_temperature": _amount(conditions.highest_temperature_c, "°C"),
        "other_processes": conditions.other_processes,
    }


def _value(value: MeasuredValue) -> dict[str, object]:
    return {
        "value": _amount(value.value, value.unit),
        "unit": value.unit if value.value is None else None,
        "low": _amount(value.low, value.unit),
        "high": _amount(value.high, value.unit),
        "verdict": value.verdict,
        "reasons": list(value.reasons),
        "ceiling": value.ceiling,
        "regime": value.regime,
        "throttling": list(value.throttling),
        "statistic": value.statistic,
        "samples": value.samples,
        "allocations": value.allocations,
        "of_allocations": value.of_allocations,
        "method": value.method,
        "configuration": _InLine(value.configuration),
        "evidence": _evidence(value.evidence, value.unit),
    }


def _evidence(evidence: MeasuredEvidence, unit: str) -> dict[str, object]:
    return {
        "gate": evidence.gate,
        "opcodes": _InLine(evidence.opcodes),
        "cubin_sha256": evidence.cubin_sha256,
        "scaling_residual": _rounded(evidence.scaling_residual),
        "clock": _amount(evidence.clock_hz, "Hz"),
        "nvml_clock": _amount(evidence.nvml_clock_hz, "Hz"),
        "limit": _amount(evidence.limit, unit),
        "limit_name": evidence.limit_name,
        "limit_source": evidence.limit_source,
        "limit_confirmed": None if evidence.limit_confirmed else False,
        "counters": _InLine((name, _rounded(ratio)) for name, ratio in evidence.counters.items()),
    }


def _curve(curve: Curve) -> dict[str, object]:
    points = [f"{x:.{_DIGITS + 4}g} {y:.{_DIGITS}g}" for x, y in curve.points]
    return {"x_unit": curve.x_unit, "y_unit": curve.y_unit, "points": points}


def _amount(value: float | None, unit: str) -> str | None:
    return quantity_text(value, unit) if value is not None else None


def _rounded(value: float | None) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if value is not None else None


def _given(content: object) -> object:
    """Leave out what is not known and what is empty."""
    if not isinstance(content, Mapping) or isinstance(content, _InLine):
        return content
    kept = {key: _given(value) for key, value in content.items()}
    return {key: value for key, value in kept.items() if value is not None and value not in ({}, [])}
