"""The survey: every launch of the program with its time, from a first run that disturbs it little."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuprof.collect.counter_sets import SHARED
from gpuprof.collect.plan import Seen
from gpuprof.errors import InputError
from gpuprof.model.report import Launch, Report

_TIMES = ("gpu__time_duration.sum", "gpu__time_duration")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$.]*", re.ASCII)
"""A name without brackets is that of a C, Fortran or Triton kernel: it is its own mangled name."""


def seen_in(report: Report) -> list[Seen]:
    """Return the kernel launches of a report of ncu, or of a timeline read as one, in the order in which they ran.

    Raises InputError if it has none, or not the names by which a second run could be told to take them.
    """
    kernels = [launch for launch in report if launch.kind == "kernel"]
    if any(_symbol(launch) is None for launch in kernels):
        raise InputError(
            f"{report.file} has no mangled kernel names, by which ncu is told what to profile",
            "PyTorch traces and text exports lack them: name a .ncu-rep or an nsys export, or leave --survey out",
        )
    launches = list(_launches(kernels))
    if not launches:
        raise InputError(
            f"{report.file} has no kernel launch to plan by",
            "a survey is a .ncu-rep with gpu__time_duration of the kernels; leave --survey out to make one",
        )
    return launches


def _symbol(launch: Launch) -> str | None:
    return launch.mangled or (launch.demangled if _SYMBOL.fullmatch(launch.demangled) else None)


def _launches(kernels: list[Launch]) -> Iterator[Seen]:
    for launch in kernels:
        name = _symbol(launch)
        if name is not None and launch.grid is not None and launch.block is not None:
            times = (launch.metrics.number(metric) for metric in _TIMES)
            duration = next((time for time in times if time is not None), None)
            shared = tuple(launch.metrics.number(metric) for metric in SHARED)
            series = (launch.process, launch.device, shared)
            yield Seen(name, launch.demangled, launch.grid, launch.block, duration, series)
