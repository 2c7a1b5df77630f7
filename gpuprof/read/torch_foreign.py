"""Traces in the format of PyTorch's that gpuprof does not read: of other accelerators and of other tools."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

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
_PROFILE = "profile the program on an NVIDIA GPU: gpuprof run -- PROGRAM"
_NSYS = "a timeline: nsys profile --trace cuda,nvtx, then nsys export --type sqlite; counters: gpuprof run -- PROGRAM"


class _Tool(NamedTuple):
    """A tool that writes traces in this format: what they are called, what to do, and how to know them."""

    description: str
    hint: str
    fits: Callable[[TraceEvents, Mapping[str, Any]], bool]


def _named(*starts: str) -> Callable[[TraceEvents, Mapping[str, Any]], bool]:
    """Return what knows a trace by the beginning of a process's name."""
    return lambda events, _: any(mark.startswith(starts) for mark in events.marks)


_TOOLS = (
    _Tool(
        'of torch.autograd.profiler without Kineto ("CPU functions"), which has no kernels',
        "record it with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) of PyTorch "
        "1.8.1 or newer",
        _named("CUDA functions", "CPU functions"),
    ),
    _Tool("of a TPU; gpuprof supports NVIDIA GPUs only", _PROFILE, _named("/device:TPU")),
    _Tool("of JAX, XLA or TensorFlow, which is not read", _NSYS, _named("/device:", "/host:", "/job:")),
    _Tool("of an Ascend NPU; gpuprof supports NVIDIA GPUs only", _PROFILE, _named("Ascend Hardware")),
    _Tool("of AMD's rocprof; gpuprof supports NVIDIA GPUs only", _PROFILE, _named("CPU HIP API", "CPU HSA API")),
    _Tool(
        "of PaddlePaddle's profiler, which is not read", _NSYS,
        lambda _, fields: isinstance(fields.get("schemaVersion"), str),
    ),
    _Tool("of Triton's Proton, which is not read", _NSYS, lambda events, _: events.of_proton),
    _Tool(
        "of VizTracer, which records Python and no GPU", _NSYS, lambda _, fields: "viztracer_metadata" in fields,
    ),
)  # fmt: skip


def refuse_other_producers(
    events: TraceEvents,
    fields: Mapping[str, Any],
    properties: Mapping[int, Mapping[str, Any]],
    name: str,
) -> None:
    """Raise InputError for a trace of another accelerator or tool. `properties` are those of devices by number."""
    used = {event.device for event in events.gpu}
    devices = [device for number, device in properties.items() if number in used]
    kind = _accelerator(events, devices)
    if kind is not None:
        called = next(filter(None, (text_of(device.get("name")) for device in devices or properties.values())), None)
        device = f" ({called:.100})" if called is not None else ""
        raise InputError(
            f"{name} is a trace of {kind}{device}; gpuprof supports NVIDIA GPUs only",
            f"use {_TOOLS_OF.get(kind, 'the profiler of its maker')}, or trace on an NVIDIA GPU",
        )
    for tool in _TOOLS:
        if tool.fits(events, fields):
            raise InputError(f"{name} is a trace {tool.description}", tool.hint)


def _accelerator(events: TraceEvents, devices: Iterable[Mapping[str, Any]]) -> str | None:
    """Return which accelerator other than NVIDIA's a trace is of, by its calls, else by the properties of its GPUs."""
    if events.hip:
        return _AMD
    for start, kind in _CATEGORIES.items():
        if any(mark.startswith(start) for mark in events.marks):
            return kind
    for device in devices:
        if device.get("warpSize") == _AMD_WARP:
            return _AMD
        for kind, vendor in _VENDORS.items():
            if vendor.search(text_of(device.get("name")) or ""):
                return kind
    return None
