"""The columns of a table of kernels as text, alike in every view that has no need to leave any out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpuprof.model.headline import first_finding
from gpuprof.model.session import KernelProfile, Session
from gpuprof.units import spaced
from gpuprof.words.flop import of_peak_text
from gpuprof.words.profile_values import (
    duration_text,
    limit_text,
    percent_text,
    roof_text,
    share_text,
    stall_text,
    time_text,
)
from gpuprof.words.source_names import in_source

Cell = Callable[[KernelProfile], str]
NO_FINDING = "–"


def kernel_columns(session: Session, kernels: Sequence[KernelProfile]) -> Mapping[str, Cell]:
    """Return what writes the cells of each column, by its head: of counters, or of launches if there are only times."""
    columns: dict[str, Cell] = {
        "kernel": lambda kernel: kernel.label + in_source(session, kernel),
        "launches": launches_text,
        "time": time_text,
        "share": share_text,
    }
    if session.only_times:
        columns |= {"of peak": peak_text} if any(map(peak_text, kernels)) else {}
        columns |= SPREAD_COLUMNS
    else:
        columns |= {
            "busiest": limit_text,
            "DRAM roofline": roof_text,
            "occupancy": lambda kernel: percent_text(kernel.occupancy.achieved),
            "main stall": stall_text,
        }
    return columns | {"first finding": rule_text}


def launches_text(kernel: KernelProfile) -> str:
    """Write how many launches a kernel stands for."""
    return spaced(kernel.launches)


def peak_text(kernel: KernelProfile) -> str:
    """Write what a kernel's operator asks for of a rated peak; empty if that is not known."""
    return of_peak_text(kernel.own_flop, kernel.operator_bytes)


def rule_text(kernel: KernelProfile) -> str:
    """Write the rule of the finding to look at first."""
    finding = first_finding(kernel)
    return finding.rule if finding is not None else NO_FINDING


def _percentile(name: str) -> Cell:
    """Return what writes a percentile of the durations of a kernel's launches; of one launch it is its duration."""

    def text(kernel: KernelProfile) -> str:
        known = kernel.duration_s if kernel.averages is None else None
        return duration_text(getattr(kernel.duration_percentiles_s, name, known))

    return text


SPREAD_COLUMNS: Mapping[str, Cell] = {
    "median": _percentile("p50"),
    "p95": _percentile("p95"),
    "p99": _percentile("p99"),
}
