"""The survey: every launch of the program with its time, from a first run that disturbs it little."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.collect.plan import Seen
from gpuprof.errors import InputError
from gpuprof.model.report import Report

_TIMES = ("gpu__time_duration.sum", "gpu__time_duration")


def seen_in(report: Report) -> list[Seen]:
    """Return the kernel launches of a report of ncu, in the order in which they ran.

    Raises InputError if they have no names or shapes by which a second run could be told to take them.
    """
    launches = list(_launches(report))
    if not launches:
        raise InputError(
            f"{report.file} has no kernel launch to plan by",
            "a survey is a .ncu-rep with gpu__time_duration of the kernels; leave --survey out to make one",
        )
    return launches


def _launches(report: Report) -> Iterator[Seen]:
    for launch in report:
        if launch.kind == "kernel" and launch.mangled and launch.grid is not None and launch.block is not None:
            times = (launch.metrics.number(name) for name in _TIMES)
            duration = next((time for time in times if time is not None), None)
            yield Seen(launch.mangled, launch.demangled, launch.grid, launch.block, duration)
