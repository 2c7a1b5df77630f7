"""The launches of a recorded run: what each computes, its grid and block, and its position.

A launch is identified by the operator that launched it with its shapes, if they were recorded; then by function, grid
and block. Its position counts all launches of its process, as ncu does, those of autotuners among them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from gpuprof.model.recorded import Dim3, Launch, Report
from gpuprof.model.torch_ranges import innermost_operator
from gpuprof.timeline.trace import KERNEL, TRY, Activity, Trace

_TIMES = ("gpu__time_duration.sum", "gpu__time_duration")
_SHARED = ("launch__shared_mem_per_block_static", "launch__shared_mem_per_block_dynamic")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$.]*", re.ASCII)
"""A name without brackets is that of a C, Fortran or Triton kernel: it is its own mangled name."""


class LaunchShape(NamedTuple):
    """What equal launches share. `name` is the symbol; without a symbol it is the demangled name.

    `operator` is what launched them, with its shapes; empty if it is not known.
    """

    name: str
    grid: Dim3
    block: Dim3
    operator: str = ""

    @property
    def counted(self) -> Hashable:
        """Return the part of this by which ncu counts invocations. It knows no operators."""
        return self.name, self.grid, self.block


@dataclass(frozen=True, slots=True)
class Seen:
    """A launch of a recording. `symbol` is its mangled name, if known.

    `counted_by` is what else separates ncu's invocation numbers, beside name, grid and block: process, GPU, shared
    memory, and the stream, which only some releases look at. `ranges` were open at the launch, the operator among them.
    `source` is the place of its recording among those of the run. `position` counts the launches of its process from 0.
    `launched_s` is None if only the order is known.
    """

    symbol: str | None
    demangled: str
    grid: Dim3
    block: Dim3
    duration_s: float | None
    counted_by: Hashable = None
    ranges: tuple[str, ...] = ()
    source: int = 0
    process: Hashable = None
    position: int = 0
    launched_s: float | None = None
    in_graph: bool = False

    @property
    def operator(self) -> str:
        """Return the operator that launched it, with its shapes; empty if it is not known."""
        return _operator_of(self.ranges)

    @property
    def shape(self) -> LaunchShape:
        """Return what it shares with equal launches."""
        return LaunchShape(self.symbol or self.demangled, self.grid, self.block, self.operator)


@lru_cache(maxsize=4096)
def _operator_of(ranges: tuple[str, ...]) -> str:
    """Return the innermost operator; a long program has few ranges, each again and again."""
    return innermost_operator(ranges)


def launches_of(recorded: Report | Trace, source: int = 0) -> list[Seen]:
    """Return the kernel launches of a recording in the order in which each process made them; tries are left out."""
    return list(_of_trace(recorded, source) if isinstance(recorded, Trace) else _of_report(recorded, source))


def _of_trace(trace: Trace, source: int) -> Iterator[Seen]:
    kernels = [activity for activity in trace.activities if activity.kind in (KERNEL, TRY)]
    # Calls that launch may have been lost: on one stream kernels start in the order in which they were launched. Where
    # none was recorded, as by CUPTI, kernels have at least their numbers.
    are_known = all(activity.launched_s is not None for activity in kernels)
    are_numbered = all(activity.launched_s is None and activity.call is not None for activity in kernels)
    processes = {activity.process for activity in kernels} - {None}
    counted: Counter[Hashable] = Counter()

    def launched_s(activity: Activity) -> float:
        return activity.launched_s if are_known and activity.launched_s is not None else activity.start_s

    def order(activity: Activity) -> float:
        return activity.call if are_numbered and activity.call is not None else launched_s(activity)

    for activity in sorted(kernels, key=order):
        process = (source, activity.process if len(processes) > 1 else None)
        position = counted[process]
        counted[process] += 1
        if activity.is_kernel and activity.grid is not None and activity.block is not None:
            yield Seen(
                symbol=activity.mangled or _own_symbol(activity.name),
                demangled=activity.name,
                grid=activity.grid,
                block=activity.block,
                duration_s=activity.duration_s,
                counted_by=(process, activity.device, activity.stream, activity.shared_bytes),
                ranges=activity.ranges if activity.operator is None else (*activity.ranges, activity.operator),
                source=source,
                process=process,
                position=position,
                launched_s=None if are_numbered else launched_s(activity),
                in_graph=activity.graph_launch is not None,
            )


def _of_report(report: Report, source: int) -> Iterator[Seen]:
    counted: Counter[Hashable] = Counter()
    for launch in report:
        if launch.kind != "kernel":
            continue
        process = (source, launch.process)
        position = counted[process]
        counted[process] += 1
        if launch.grid is not None and launch.block is not None:
            yield Seen(
                symbol=launch.mangled or _own_symbol(launch.demangled),
                demangled=launch.demangled,
                grid=launch.grid,
                block=launch.block,
                duration_s=_duration_s(launch),
                counted_by=(process, launch.device, launch.stream, tuple(map(launch.metrics.number, _SHARED))),
                ranges=launch.ranges,
                source=source,
                process=process,
                position=position,
            )


def _duration_s(launch: Launch) -> float | None:
    times = (launch.metrics.number(metric) for metric in _TIMES)
    return next((time for time in times if time is not None), None)


def _own_symbol(demangled: str) -> str | None:
    return demangled if _SYMBOL.fullmatch(demangled) else None
