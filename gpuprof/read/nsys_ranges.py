"""The NVTX ranges of an export."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuprof.model.torch_ranges import readable_range
from gpuprof.read.nsys_export import Export
from gpuprof.read.step_ranges import ProgramRange

_PUSH_POP, _START_END = 59, 60
"""Types of NVTX events."""


def nvtx_ranges(export: Export) -> Iterator[ProgramRange]:
    """Yield the NVTX ranges that ended and have a name."""
    known: dict[Any, Any] = {}
    for start, end, row in export.spans(("NVTX_EVENTS",), "eventType", "text", "textId", "globalTid"):
        kind = row["eventType"]
        text = export.string(row["text"]) or export.string(row["textId"])
        if kind not in (_PUSH_POP, _START_END, None) or not text:
            continue
        name = readable_range(text)
        thread = row["globalTid"]
        yield ProgramRange(
            known.setdefault(name, name), known.setdefault(thread, thread), start, end, nested=kind != _START_END
        )
