"""Traces of PyTorch on accelerators other than NVIDIA's GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gpuprof.errors import InputError
from gpuprof.read.torch_events import TraceEvents
from gpuprof.read.torch_json import text_of

_AMD, _INTEL, _OTHER = "an AMD GPU", "an Intel GPU", "an accelerator that is not NVIDIA's"
_VENDORS = {
    _AMD: re.compile(r"\b(?:AMD|Radeon|Instinct|gfx\d+)", re.IGNORECASE),
    _INTEL: re.compile(r"\bIntel\b"),
    _OTHER: re.compile(r"\b(?:MTT|MetaX|Iluvatar|MLU)"),
}
_CATEGORIES = {
    "mtia": "an MTIA accelerator",
    "xpu": _INTEL,
    "hpu": "an Intel Gaudi accelerator",
    "privateuse1": "an accelerator that a plug-in of PyTorch supports (PrivateUse1)",
    "glow": "an accelerator that Glow supports",
}
"""How the categories of events begin that Kineto writes for other accelerators."""
_CALLS = {"hip": _AMD, "musa": _OTHER, "mc": _OTHER, "cn": _OTHER}
"""How the calls of other makers begin: of AMD, Moore Threads, MetaX and Cambricon."""
_CALL = re.compile(rf"({'|'.join(_CALLS)})[A-Z]")
_WARPS = (None, 32)
_TENSILE = "Cijk_"
"""How the names of AMD's kernels for matrices begin."""
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
    """Return which accelerator other than NVIDIA's a trace is of: by its calls and kernels, else by its GPUs."""
    for name in events.call_names:
        if call := _CALL.match(name):
            return _CALLS[call[1]]
    for category in events.others:
        maker, _, what = category.partition("_")
        if maker in _CATEGORIES or what in ("runtime", "driver"):
            return _CATEGORIES.get(maker, _OTHER)
    if any(event.name.startswith(_TENSILE) for event in events.gpu):
        return _AMD
    for device in devices:
        for kind, vendor in _VENDORS.items():
            if vendor.search(text_of(device.get("name")) or ""):
                return kind
        if device.get("warpSize") not in _WARPS:
            return _OTHER
    return None
