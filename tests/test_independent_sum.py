"""Window, busy time and the time of kernels of recorded timelines, against a second reader of some forty lines.

It reads the traces in this repository and, if GPUPROF_FIELD_REPORTS names a folder, those in it and beside it.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gpuprof.errors import GpuprofError
from tests.field.folder import REPORTS
from tests.readings import session_of
from tests.test_timeline import TRANSFORMER

_KINDS = {"kernel": True, "Kernel": True, "gpu_memcpy": False, "Memcpy": False, "gpu_memset": False, "Memset": False}
_CALLS = ("cuda_runtime", "cuda_driver", "Runtime")
_FOLDERS = [REPORTS / "traces", REPORTS.parent / "traces"] if REPORTS is not None else []
FILES = [TRANSFORMER, *(file for folder in _FOLDERS for file in sorted(folder.glob("*")) if "trace" in file.name),
         *(file for folder in _FOLDERS for file in sorted(folder.glob("*.sqlite")))]  # fmt: skip


class Done(NamedTuple):
    """What a GPU did: times in nanoseconds."""

    start: int
    end: int
    launch: int
    is_kernel: bool


def of_json(file: Path) -> tuple[list[Done], list[tuple[int, int]]]:
    """Read what GPUs did, and the steps, from a trace of PyTorch."""
    data = file.read_bytes()
    text = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    events: list[dict[str, Any]] = json.loads(text, parse_float=Decimal, strict=False)["traceEvents"]
    events = [event for event in events if event.get("ph") == "X"]
    spans = [(int(event["ts"] * 1000), int((event["ts"] + event["dur"]) * 1000), event) for event in events]
    calls = [event for _, _, event in spans if event.get("cat") in _CALLS and "correlation" in event["args"]]
    launches = {event["args"]["correlation"]: int(event["ts"] * 1000) for event in calls}
    first = min(launches, default=0)
    done = []
    for start, end, event in spans:
        if event.get("cat") in _KINDS:
            number = event["args"].get("correlation", first)
            # Work with a lower number than all calls was launched before the recording.
            launch = launches.get(number, start if number >= first else 0)
            done.append(Done(start, end, launch, _KINDS[event["cat"]]))
    on_cpu = [(start, end, str(event["name"])) for start, end, event in spans if event.get("cat") not in (
        *_KINDS, "gpu_user_annotation")]  # fmt: skip
    steps = [(start, end) for start, end, name in on_cpu if name.startswith("ProfilerStep#")]
    if not steps:
        ends = sorted(end for _, end, name in on_cpu if name.startswith("Optimizer.step#"))
        steps = list(pairwise(ends))
    return sorted(done), steps


def of_sqlite(file: Path) -> tuple[list[Done], list[tuple[int, int]]]:
    """Read what GPUs did from an export of nsys."""
    done = []
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as base:
        for table in ("KERNEL", "MEMCPY", "MEMSET"):
            for start, end in base.execute(f"SELECT start, end FROM CUPTI_ACTIVITY_KIND_{table}"):
                done.append(Done(start, end, start, table == "KERNEL"))
    return sorted(done), []


def busy_between(done: list[Done], start: int, end: int) -> int:
    """Return the time in which anything went on, one moment after the other."""
    busy, reached = 0, start
    for one in done:
        until = min(one.end, end)
        if one.start < end and until > reached:
            busy += until - max(one.start, reached)
            reached = until
    return busy


def window(done: list[Done], steps: list[tuple[int, int]]) -> tuple[int, int]:
    """Return from when to when a GPU worked for the steps, with its pauses at both ends."""
    begin, end = min(start for start, _ in steps), max(end for _, end in steps)
    own = [one for one in done if begin <= one.launch < end]
    first = own[0].start
    free = max((one.end for one in done if one.start < first), default=begin)
    return min(first, max(begin, free)), max(end, *(one.end for one in own))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_window_busy_time_and_kernels_agree_with_an_independent_sum(file: Path) -> None:
    try:
        found = session_of(file)
    except GpuprofError as error:
        pytest.skip(error.message)
    assert found.timeline is not None
    (gpu,) = found.timeline.devices
    done, steps = of_sqlite(file) if file.suffix == ".sqlite" else of_json(file)
    if steps:
        start, end = window(done, steps)
    else:
        left_out_s = gpu.start_up.time_s if gpu.start_up is not None else 0.0
        start, end = done[0].start + round(left_out_s * 1e9), max(one.end for one in done)
    kernels = [one for one in done if one.is_kernel and start <= one.start <= end]
    assert gpu.span_s * 1e9 == pytest.approx(end - start, abs=2)
    assert gpu.busy_s * 1e9 == pytest.approx(busy_between(done, start, end), abs=2)
    assert gpu.gaps is None or gpu.gaps.total_s + gpu.busy_s + gpu.gaps.profiler_s == pytest.approx(gpu.span_s)
    assert sum(one.launches for one in found.kernels) == len(kernels)
    total = sum(one.time_total_s or 0.0 for one in found.kernels)
    assert total * 1e9 == pytest.approx(sum(one.end - one.start for one in kernels), abs=len(kernels))
