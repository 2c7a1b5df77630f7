"""One flat row per kernel, and one per finding: what CSV export and DataFrames are made of."""

from __future__ import annotations

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
    """Return a row for every kernel, in the session's order; all rows have the same keys, None means missing."""
    paths = [path for path in PATHS if any(work.path == path for kernel in session.kernels for work in kernel.work)]
    return [_row(kernel, paths) for kernel in session.kernels]


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
    row: dict[str, Cell] = {name: getattr(kernel, name) for name in _PLAIN}
    row["ranges"] = "/".join(kernel.ranges)
    for which, size in (("grid", kernel.grid), ("block", kernel.block)):
        for axis, value in zip("xyz", size or (None, None, None), strict=True):
            row[f"{which}_{axis}"] = value
    by_path = {item.path: item for item in kernel.work}
    for path in paths:
        work = by_path.get(path)
        row[f"flop_{path}"] = work.flop if work else None
        row[f"flop_per_s_{path}"] = work.flop_per_s if work else None
    row["waves"] = kernel.waves
    by_level = {item.level: item for item in kernel.traffic}
    for level in LEVELS:
        traffic = by_level.get(level)
        row[f"bytes_{level}"] = traffic.bytes if traffic else None
        row[f"bytes_per_s_{level}"] = traffic.bytes_per_s if traffic else None
        if level != "dram":
            row[f"hit_rate_{level}"] = traffic.hit_rate if traffic else None
    return row | _roofline_cells(kernel) | _limit_cells(kernel) | _finding_cells(kernel)


def _roofline_cells(kernel: KernelProfile) -> dict[str, Cell]:
    cells: dict[str, Cell] = {}
    for ceiling in ("at-clock", "rated"):
        point = main_point(kernel, ceiling=ceiling)
        suffix = ceiling.replace("-", "_")
        cells[f"roofline_path_{suffix}"] = point.path if point else None
        cells[f"intensity_dram_{suffix}"] = point.intensity if point else None
        cells[f"fraction_of_roof_{suffix}"] = point.fraction_of_roof if point else None
        cells[f"bound_{suffix}"] = point.bound if point else None
    return cells


def _limit_cells(kernel: KernelProfile) -> dict[str, Cell]:
    throughput = {unit.unit: unit.fraction for unit in kernel.throughput if unit.bound is None}
    limit, stall, scheduler = nearest_limit(kernel), main_stall(kernel), kernel.scheduler
    cells: dict[str, Cell] = {f"throughput_{unit}": throughput.get(unit) for unit in THROUGHPUT_UNITS}
    return cells | {
        "nearest_limit": limit.unit if limit else None,
        "occupancy_theoretical": kernel.occupancy.theoretical,
        "occupancy_achieved": kernel.occupancy.achieved,
        "occupancy_limiters": "+".join(kernel.occupancy.limiters),
        "issue_active": scheduler.issue_active if scheduler else None,
        "eligible_warps": scheduler.eligible_warps if scheduler else None,
        "active_warps": scheduler.active_warps if scheduler else None,
        "main_stall": stall.reason if stall else None,
        "main_stall_share": stall.share if stall else None,
    }


def _finding_cells(kernel: KernelProfile) -> dict[str, Cell]:
    first = first_finding(kernel)
    return {
        "findings": len(kernel.findings),
        "first_finding": first.rule if first else None,
        "first_finding_severity": first.severity if first else None,
        "first_finding_gain_kernel": first.gain_kernel if first else None,
        "first_finding_gain_total": first.gain_total if first else None,
        "first_finding_gain_kind": first.gain_kind if first else None,
        "first_finding_action": first.action if first else None,
        "first_finding_headline": first.headline if first else None,
    }


FINDING_COLUMNS = (
    "kernel", "label", "id", "rank", "rule", "severity", "confidence", "headline", "why", "evidence", "action",
    "advice", "location_file", "location_line", "location_pc", "location_sass", "location_share", "gain_kernel",
    "gain_total", "gain_kind", "held", "cause",
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
    place = finding.place
    cells: tuple[Cell, ...] = (
        kernel.id, kernel.label, finding.id, rank, finding.rule, finding.severity, finding.confidence, finding.headline,
        finding.why, "; ".join(map(_evidence_text, finding.evidence)), finding.action, finding.advice,
        place.file if place else None, place.line if place else None, place.pc if place else None,
        place.sass if place else None, place.share if place else None, finding.gain_kernel, finding.gain_total,
        finding.gain_kind, finding.held, finding.cause,
    )  # fmt: skip
    return dict(zip(FINDING_COLUMNS, cells, strict=True))


def _evidence_text(item: Evidence) -> str:
    """Write a piece of evidence so that a program can take it apart: `metric = 12.5 % (threshold 30)`."""
    held = f" (threshold {item.threshold:g})" if item.threshold is not None else ""
    return f"{item.metric} = {item.value:.6g}{f' {item.unit}' if item.unit else ''}{held}"
