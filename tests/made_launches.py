"""Makes the launches of a program for `standin_ncu.py`, which profiles those of them that ncu would."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuprof.model.recorded import Dim3
from gpuprof.read.printed_launch import short_name
from tests.ncu_bytes import A100, block, launch, nvtx_state, report, session_details


class MadeLaunch(NamedTuple):
    """A launch: its names, shape, the ranges around it, outermost first, the step it is in, and its metrics.

    `stopped`: the program has called cudaProfilerStop before.

    Without a `demangled` name it is that of a function whose name is not mangled, or does not matter.
    """

    name: str
    demangled: str = ""
    grid: Dim3 = (1, 1, 1)
    block: Dim3 = (32, 1, 1)
    ranges: tuple[str, ...] = ()
    step: int = 0
    stream: int = 7
    process: int = 7
    stopped: bool = False
    values: Mapping[str, float | str] = {"gpu__time_duration.sum": 1000.0}


def launches_step(launches: Sequence[MadeLaunch], device: Mapping[str, float | str] = A100) -> dict[str, object]:
    """Return a step of the stand-in whose program has these launches, on a GPU with these metrics."""
    head = report(block([], session=session_details()))
    return {"head": _text(head), "launches": [_launch(made, device) for made in launches]}


def _launch(made: MadeLaunch, device: Mapping[str, float | str]) -> dict[str, object]:
    demangled = made.demangled or made.name
    values = {**device, "launch__stream_id": float(made.stream), **made.values}
    numbered = dict(enumerate(values.values()))
    result = launch(made.name, numbered, made.grid, made.block, nvtx_state(made.ranges), demangled)
    return {
        "name": made.name, "mangled": made.name, "function": short_name(demangled), "demangled": demangled,
        "grid": made.grid, "block": made.block, "ranges": made.ranges, "step": made.step, "stream": made.stream,
        "process": made.process, "stopped": made.stopped,
        "bytes": _text(block([result], list(values), process=made.process)),
    }  # fmt: skip


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
