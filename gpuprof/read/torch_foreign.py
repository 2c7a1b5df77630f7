"""Traces of PyTorch on accelerators other than NVIDIA's GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpuprof.errors import InputError
from gpuprof.read.torch_events import TraceEvents
from gpuprof.read.torch_json import text_of

_AMD_WARP = 64
_AMD, _INTEL = "an AMD GPU", "an Intel GPU"
_VENDORS = {
    _AMD: re.compile(r"\b(?:AMD|Radeon|Instinct|gfx\d+)", re.IGNORECASE),
    _INTEL: re.compile(r"\bIntel\b"),
}
_CATEGORIES = {
    "mtia_": "an MTIA accelerator",
    "xpu_": _INTEL,
    "hpu_": "an Intel Gaudi accelerator",
    "privateuse1_": "an accelerator that a plug-in of PyTorch supports (PrivateUse1)",
    "glow_": "an accelerator that Glow supports",
}
"""How the categories of events begin that Kineto writes for other accelerators."""
_TOOLS_OF = {_AMD: "AMD's rocprof-compute", _INTEL: "Intel's VTune"}


def refuse_other_accelerators(events: TraceEvents, properties: Mapping[int, Mapping[str, Any]], name: str) -> None:
    """Raise InputError for a trace of another accelerator. `properties` are those of devices by number."""
    used = {event.device for event in events.gpu}
    devices = [device for number, device in properties.items() if number in used]
    kind = _accelerator(events, devices)
    if kind is not None:
        called = next(filter(None, (text_of(device.get("name")) for device in devices or properties.values())), "")
        device = f" ({called:.100})" if called else ""
        raise InputError(
            f"{name} is a trace of {kind}{device}; gpuprof supports NVIDIA GPUs only",
            f"use {_TOOLS_OF.get(kind, 'the profiler of its maker')}, or trace on an NVIDIA GPU",
        )


def _accelerator(events: TraceEvents, devices: Iterable[Mapping[str, Any]]) -> str | None:
    """Return which accelerator other than NVIDIA's a trace is of, by its calls, else by the properties of its GPUs."""
    if any(name.startswith("hip") for name in events.call_names):
        return _AMD
    for start, kind in _CATEGORIES.items():
        if any(category.startswith(start) for category in events.others):
            return kind
    for device in devices:
        if device.get("warpSize") == _AMD_WARP:
            return _AMD
        for kind, vendor in _VENDORS.items():
            if vendor.search(text_of(device.get("name")) or ""):
                return kind
    return None
