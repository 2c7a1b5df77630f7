"""One flat row per kernel, and one per finding: what CSV export and DataFrames are made of."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.field_types import THROUGHPUT_UNITS
from gpuprof.model.headline import first_finding, main_point, main_stall, nearest_limit
from gpuprof.model.session import Evidence, Finding, KernelProfile, Session

Cell = str | int | float | None

_PLAIN = (
    "id", "label", "name", "demangled", "source", "device", "process", "stream", "registers_per_thread",
    "shared_memory_per_block", "launches", "duration_s", "time_total_s", "time_share", "sm_clock_hz",
)  # fmt: skip


def rows(session: Session) -> list[dict[str, Cell]]:
    """Return a row for every kernel, in the session's order; all rows have the same keys, None means missing.

    Behind the columns of every table come the answers of few counters, and counters that no column is made of.
    """
    kernels = session.kernels
    paths = [path for path in PATHS if any(work.path == path for kernel in kernels for work in kernel.work)]
    counters = sorted({counter.name for kernel in kernels for counter in kernel.collected})
    table = []
    for kernel in kernels:
        row = _row(kernel, paths)
        if any(other.answers for other in kernels):
            row["answers"] = "; ".join(answer.text for answer in kernel.answers)
        values: dict[str, Cell] = {counter.name: counter.value for counter in kernel.collected}
        table.append(row | {name: values.get(name) for name in counters})
    return table


_BEHIND = (
    "roofline_path_at_clock", "intensity_dram_at_clock", "fraction_of_roof_at_clock", "bound_at_clock",
    "roofline_path_rated", "intensity_dram_rated", "fraction_of_roof_rated", "bound_rated",
    *(f"throughput_{unit}" for unit in THROUGHPUT_UNITS), "nearest_limit", "occupancy_theoretical",
    "occupancy_achieved", "occupancy_limiters", "issue_active", "eligible_warps", "active_warps", "main_stall",
    "main_stall_share", "findings", "first_finding", "first_finding_severity", "first_finding_gain_kernel",
    "first_finding_gain_total", "first_finding_gain_kind", "first_finding_action", "first_finding_headline",
)  # fmt: skip


def columns_without_kernels() -> list[str]:
    """Return the columns of a table that has no row: those of `rows`, without the paths that kernels compute on."""
    axes = [f"{which}_{axis}" for which in ("grid", "block") for axis in "xyz"]
    traffic = [
        name
        for level in LEVELS
        for name in (f"bytes_{level}", f"bytes_per_s_{level}", f"hit_rate_{level}")
        if name != "hit_rate_dram"
    ]
    return [*_PLAIN, "ranges", *axes, "waves", *traffic, *_BEHIND]


def _row(kernel: KernelProfile, paths: list[str]) -> dict[str, Cell]:
    row = fields_of(kernel, _PLAIN)
    row["ranges"] = "/".join(kernel.ranges)
    for which, size in (("grid", kernel.grid), ("block", kernel.block)):
        for axis, value in zip("xyz", size or (None, None, None), strict=True):
            row[f"{which}_{axis}"] = value
    by_path = {item.path: item for item in kernel.work}
    for path in paths:
        row |= fields_of(by_path.get(path), ("flop", "flop_per_s"), ending=f"_{path}")
    row["waves"] = kernel.waves
    by_level = {item.level: item for item in kernel.traffic}
    for level in LEVELS:
        names = ("bytes", "bytes_per_s") if level == "dram" else ("bytes", "bytes_per_s", "hit_rate")
        row |= fields_of(by_level.get(level), names, ending=f"_{level}")
    return row | _roofline_cells(kernel) | _limit_cells(kernel) | _finding_cells(kernel)


def fields_of(record: Struct | None, names: Iterable[str], beginning: str = "", ending: str = "") -> dict[str, Cell]:
    """Return fields of a record with what their columns begin and end with; empty cells if there is no record."""
    return {f"{beginning}{name}{ending}": getattr(record, name, None) for name in names}


def _roofline_cells(kernel: KernelProfile) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for ceiling in ("at-clock", "rated"):
        point, suffix = main_point(kernel, ceiling=ceiling), ceiling.replace("-", "_")
        cells |= fields_of(point, ("path",), "roofline_", f"_{suffix}")
        cells |= fields_of(point, ("intensity",), ending=f"_dram_{suffix}")
        cells |= fields_of(point, ("fraction_of_roof", "bound"), ending=f"_{suffix}")
    return cells


def _limit_cells(kernel: KernelProfile) -> dict[str, Cell]:
    throughput = {unit.unit: unit.fraction for unit in kernel.throughput if unit.bound is None}
    limit, stall, occupancy = nearest_limit(kernel), main_stall(kernel), kernel.occupancy
    cells: dict[str, Cell] = {f"throughput_{unit}": throughput.get(unit) for unit in THROUGHPUT_UNITS}
    cells["nearest_limit"] = limit.unit if limit else None
    cells |= fields_of(occupancy, ("theoretical", "achieved"), "occupancy_")
    cells["occupancy_limiters"] = "+".join(occupancy.limiters)
    cells |= fields_of(kernel.scheduler, ("issue_active", "eligible_warps", "active_warps"))
    cells["main_stall"] = stall.reason if stall else None
    return cells | fields_of(stall, ("share",), "main_stall_")


def _finding_cells(kernel: KernelProfile) -> dict[str, Cell]:
    first = first_finding(kernel)
    named = {"findings": len(kernel.findings), "first_finding": first.rule if first else None}
    names = ("severity", "gain_kernel", "gain_total", "gain_kind", "action", "headline")
    return named | fields_of(first, names, "first_finding_")


_LOCATION = ("file", "line", "pc", "sass", "share")
FINDING_COLUMNS = (
    "kernel", "label", "id", "rank", "rule", "severity", "confidence", "headline", "why", "evidence", "action",
    "advice", *(f"location_{name}" for name in _LOCATION), "gain_kernel", "gain_total", "gain_kind", "held", "cause",
)  # fmt: skip
"""The contract's columns of a finding; `rank` is the place of its recommendation among those of all kernels, from 1."""


def finding_rows(session: Session) -> list[dict[str, Cell]]:
    """Return a row for every finding: those of recommendations in their order, then the others."""
    places = {name: place for place, item in enumerate(session.recommendations, 1) for name in item.findings}
    rows = [
        _finding_row(kernel, finding, places.get(finding.id))
        for kernel in session.kernels
        for finding in kernel.findings
    ]
    return sorted(
        rows, key=lambda row: row["rank"] if isinstance(row["rank"], int) else len(session.recommendations) + 1
    )


def _finding_row(kernel: KernelProfile, finding: Finding, rank: int | None) -> dict[str, Cell]:
    row = fields_of(finding, FINDING_COLUMNS) | fields_of(finding.place, _LOCATION, "location_")
    row |= {"kernel": kernel.id, "label": kernel.label, "rank": rank}
    row["evidence"] = "; ".join(map(_evidence_text, finding.evidence))
    return row


def _evidence_text(item: Evidence) -> str:
    """Write a piece of evidence so that a program can take it apart: `metric = 12.5 % (threshold 30)`."""
    held = f" (threshold {item.threshold:g})" if item.threshold is not None else ""
    return f"{item.metric} = {item.value:.6g}{f' {item.unit}' if item.unit else ''}{held}"
