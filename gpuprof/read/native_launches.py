"""The launches of a report as NVIDIA's reader gives them, for a report that has what gpuprof does not know."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from gpuprof.model.recorded import Launch
from gpuprof.read.launches import DISPLAY_NAME, Devices, dimensions, integer
from gpuprof.read.native_report import NativeReport, nvtx_names
from gpuprof.read.ncu_code import CodeReader
from gpuprof.read.ncu_details import EmbeddedPrograms, NcuDetails
from gpuprof.read.ncu_metrics import NcuMetrics

_KINDS = {0: "kernel", 1: "range", 2: "command list", 3: "graph", 4: "subgrid schedule"}


def native_launches(path: Path, native: NativeReport, devices: Devices) -> list[Launch]:
    """Return all launches, and note their GPUs. Raises DamagedInput where the reader does not survive the file."""
    programs, code = EmbeddedPrograms(b"", ()), CodeReader(path, native.actions)
    return [_launch(native, number, programs, code, devices) for number in range(len(native.actions))]


def _launch(
    native: NativeReport, number: int, programs: EmbeddedPrograms, code: CodeReader, devices: Devices
) -> Launch:
    action = native.actions[number]
    metrics = NcuMetrics(native, number)
    name = _text(action.name(action.NameBase_FUNCTION))
    mangled = _text(action.name(action.NameBase_MANGLED)) or name
    return Launch(
        name=name,
        demangled=_text(action.name(action.NameBase_DEMANGLED)) or name,
        device=devices.place(metrics, (integer(metrics, "launch__device_id") or 0, metrics.text(DISPLAY_NAME))),
        kind=_KINDS.get(int(action.workload_type()), "kernel"),
        context=integer(metrics, "launch__context_id"),
        stream=integer(metrics, "launch__stream_id"),
        grid=dimensions(metrics, "grid"),
        block=dimensions(metrics, "block"),
        ranges=nvtx_names(action),
        metrics=metrics,
        details=NcuDetails(
            metrics=metrics,
            programs=programs,
            code=code,
            shared={},
            rules=partial(native.rules, number),
            process=None,
            mangled=mangled,
            reference=None,
        ),
        mangled=mangled,
    )


def _text(name: Any) -> str:
    return name if isinstance(name, str) else ""
