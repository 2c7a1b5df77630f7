"""The launches of a report as NVIDIA's reader gives them, for a report that has what gpuprof does not know."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gpuprof.model.recorded import Launch
from gpuprof.read.launches import DISPLAY_NAME, Devices, dimensions, integer
from gpuprof.read.native_report import NativeReport, nvtx_names
from gpuprof.read.ncu_code import CodeReader
from gpuprof.read.ncu_details import EmbeddedPrograms, NcuDetails, SharedCode
from gpuprof.read.ncu_metrics import NcuMetrics

_KINDS = {0: "kernel", 1: "range", 2: "command list", 3: "graph", 4: "subgrid schedule"}


def native_launches(
    path: Path, native: NativeReport, devices: Devices, processes: Sequence[int | None]
) -> list[Launch]:
    """Return all launches, and note their GPUs; `processes` are theirs, where they are as many.

    Raises DamagedInput where the reader does not survive the file.
    """
    programs, code, shared = EmbeddedPrograms(b"", ()), CodeReader(path, native.actions), SharedCode()
    known = processes if len(processes) == len(native.actions) else [None] * len(native.actions)

    def launch(number: int) -> Launch:
        metrics = NcuMetrics(native, number)
        made = _launch(native.actions[number], metrics, devices, known[number])
        details = NcuDetails(
            metrics=metrics,
            programs=programs,
            code=code,
            shared=shared,
            rules=partial(native.rules, number),
            process=made.process,
            mangled=made.mangled or made.name,
            reference=None,
        )
        return replace(made, details=details)

    return [launch(number) for number in range(len(native.actions))]


def _launch(action: Any, metrics: NcuMetrics, devices: Devices, process: int | None) -> Launch:
    name = _text(action.name(action.NameBase_FUNCTION))
    mangled = _text(action.name(action.NameBase_MANGLED)) or name
    return Launch(
        name=name,
        demangled=_text(action.name(action.NameBase_DEMANGLED)) or name,
        device=devices.place(metrics, (integer(metrics, "launch__device_id") or 0, metrics.text(DISPLAY_NAME))),
        kind=_KINDS.get(int(action.workload_type()), "kernel"),
        process=process,
        context=integer(metrics, "launch__context_id"),
        stream=integer(metrics, "launch__stream_id"),
        grid=dimensions(metrics, "grid"),
        block=dimensions(metrics, "block"),
        ranges=nvtx_names(action),
        metrics=metrics,
        mangled=mangled,
    )


def _text(name: Any) -> str:
    return name if isinstance(name, str) else ""
