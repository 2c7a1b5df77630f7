"""The survey: every launch of the program with its time, from a first run that disturbs it little."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuprof.collect.metrics import SHARED
from gpuprof.collect.plan import Seen
from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.report import GpuSamples, Launch, Report
from gpuprof.model.timeline import as_report
from gpuprof.model.trace import Trace

_TIMES = ("gpu__time_duration.sum", "gpu__time_duration")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$.]*", re.ASCII)
"""A name without brackets is that of a C, Fortran or Triton kernel: it is its own mangled name."""


class Survey(NamedTuple):
    """What a survey has recorded: a report of ncu, or timelines, one of each process.

    `seconds` is how long the program ran for it, `samples` are those of the GPUs meanwhile; both only if we ran it.
    """

    recorded: tuple[Report, ...] | tuple[Trace, ...]
    seconds: float | None = None
    samples: tuple[GpuSamples, ...] = ()

    @property
    def device(self) -> RecordedDevice:
        """Return the first GPU that was used."""
        return self.recorded[0].devices[0]

    def launches(self) -> list[Seen]:
        """Return all launches of all processes. Raises InputError if there are none."""
        reports = [as_report(one) if isinstance(one, Trace) else one for one in self.recorded]
        return [launch for report in reports for launch in seen_in(report)]


def seen_in(report: Report) -> list[Seen]:
    """Return the kernel launches of a report of ncu, or of a timeline read as one, in the order in which they ran.

    Raises InputError if it has none.
    """
    launches = list(_launches(launch for launch in report if launch.kind == "kernel"))
    if not launches:
        raise InputError(
            f"{report.file} has no kernel launch to plan by",
            "a survey is a .ncu-rep with gpu__time_duration of the kernels, or a timeline; leave --survey out to "
            "make one",
        )
    return launches


def _symbol(launch: Launch) -> str | None:
    return launch.mangled or (launch.demangled if _SYMBOL.fullmatch(launch.demangled) else None)


def _launches(kernels: Iterable[Launch]) -> Iterator[Seen]:
    for launch in kernels:
        if launch.grid is not None and launch.block is not None:
            times = (launch.metrics.number(metric) for metric in _TIMES)
            duration = next((time for time in times if time is not None), None)
            shared = tuple(launch.metrics.number(metric) for metric in SHARED)
            series = (launch.process, launch.device, shared)
            yield Seen(_symbol(launch), launch.demangled, launch.grid, launch.block, duration, series)
