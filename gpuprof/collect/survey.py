"""The survey: every launch of the program with its time, from a first run that disturbs it little."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from gpuprof.collect.metrics import SHARED
from gpuprof.collect.plan import Seen
from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.autotuning import Tries, without_tries
from gpuprof.model.recorded import GpuSamples, Launch, Report
from gpuprof.model.timeline import as_report
from gpuprof.model.trace import Trace

_TIMES = ("gpu__time_duration.sum", "gpu__time_duration")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$.]*", re.ASCII)
"""A name without brackets is that of a C, Fortran or Triton kernel: it is its own mangled name."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a survey has recorded: a report of ncu, or timelines, one of each process.

    `seconds` is how long the program ran for it, `samples` are those of the GPUs meanwhile; both only if we ran it.
    `tries` is what autotuners launched and is not counted.
    """

    recorded: tuple[Report, ...] | tuple[Trace, ...]
    seconds: float | None = None
    samples: tuple[GpuSamples, ...] = ()
    tries: Tries = field(default_factory=lambda: Tries(0, 0.0))

    @property
    def device(self) -> RecordedDevice:
        """Return the first GPU that was used."""
        return self.recorded[0].devices[0]

    def own_work(self) -> Survey:
        """Return it without what autotuners tried."""
        own = [without_tries(recording) for recording in self.recorded]
        tries = Tries(sum(some.launches for _, some in own), sum(some.time_s for _, some in own))
        return replace(self, recorded=of_one_kind(recording for recording, _ in own), tries=tries)

    def launches(self) -> list[Seen]:
        """Return all launches of all processes. Raises InputError if there are none."""
        reports = [as_report(source) if isinstance(source, Trace) else source for source in self.recorded]
        return [launch for report in reports for launch in _seen_in(report)]


def of_one_kind(recorded: Iterable[Report | Trace]) -> tuple[Report, ...] | tuple[Trace, ...]:
    """Return recordings of which all are timelines, or all reports; of both only the timelines."""
    every = tuple(recorded)
    traces = tuple(recording for recording in every if isinstance(recording, Trace))
    return traces or tuple(recording for recording in every if isinstance(recording, Report))


def launches_in(report: Report) -> list[Seen]:
    """Return the kernel launches of a report of ncu, or of a timeline read as one, in the order in which they ran."""
    return list(_launches(launch for launch in report if launch.kind == "kernel"))


def _seen_in(report: Report) -> list[Seen]:
    """Return the same. Raises InputError if there is none."""
    launches = launches_in(report)
    if not launches:
        raise InputError(
            f"{report.file} has no kernel launches to plan by",
            "a survey is a timeline, or a .ncu-rep with gpu__time_duration of kernels; leave out --survey to make one",
        )
    return launches


def _symbol(launch: Launch) -> str | None:
    return launch.mangled or (launch.demangled if _SYMBOL.fullmatch(launch.demangled) else None)


def _launches(kernels: Iterable[Launch]) -> Iterator[Seen]:
    for launch in kernels:
        if launch.grid is not None and launch.block is not None:
            times = (launch.metrics.number(metric) for metric in _TIMES)
            shared = tuple(launch.metrics.number(metric) for metric in SHARED)
            yield Seen(
                symbol=_symbol(launch),
                demangled=launch.demangled,
                grid=launch.grid,
                block=launch.block,
                duration_s=next((time for time in times if time is not None), None),
                counted_by=(launch.process, launch.device, launch.stream, shared),
            )
