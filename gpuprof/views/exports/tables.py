"""Flat rows of kernels, findings, groups of time and instructions: CSV files and DataFrames are made of them.

All rows of a table have the same keys, in the order of the columns. None means missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.field_types import THROUGHPUT_UNITS
from gpuprof.model.headline import first_finding, main_point, main_stall, nearest_limit
from gpuprof.model.session import Evidence, Finding, KernelProfile, Occupancy, Session

if TYPE_CHECKING:
    from gpuprof.annotated.listing import Listing
    from gpuprof.model.time_by import TimeBy

Cell = str | int | float | None
Row = dict[str, Cell]

_OF_KERNEL = (
    "id", "label", "name", "demangled", "source", "device", "process", "stream", "registers_per_thread",
    "shared_memory_per_block", "launches", "duration_s", "time_total_s", "time_share", "sm_clock_hz",
)  # fmt: skip
_OF_FIRST_FINDING = ("severity", "gain_kernel", "gain_total", "gain_kind", "action", "headline")
_OF_PLACE = ("file", "line", "pc", "sass", "share")
FINDING_COLUMNS = (
    "kernel", "label", "id", "rank", "rule", "severity", "confidence", "headline", "why", "evidence", "action",
    "advice", *(f"location_{name}" for name in _OF_PLACE), "gain_kernel", "gain_total", "gain_kind", "held", "cause",
)  # fmt: skip
_OF_GROUP = (
    "name", "kind", "kernels", "launches", "untimed_launches", "time_s", "time_share", "share_of_step", "flop",
    "flop_bound",
)  # fmt: skip
_OF_INSTRUCTION = (
    "executed", "threads", "sectors", "sectors_ideal", "sectors_local", "wavefronts", "wavefronts_ideal",
)  # fmt: skip


def kernel_rows(session: Session) -> list[Row]:
    """Return a row for every kernel, in the session's order.

    Behind the columns of every table come the answers of few counters, and counters that no column is made of.
    """
    kernels = session.kernels
    paths = [path for path in PATHS if any(work.path == path for kernel in kernels for work in kernel.work)]
    counters = sorted({counter.name for kernel in kernels for counter in kernel.collected})
    has_answers = any(kernel.answers for kernel in kernels)
    rows = []
    for kernel in kernels:
        row = _kernel_row(kernel, paths)
        if has_answers:
            row["answers"] = "; ".join(answer.text for answer in kernel.answers)
        values = {counter.name: counter.value for counter in kernel.collected}
        for name in counters:
            row.setdefault(name, values.get(name))
        rows.append(row)
    return rows


def kernel_columns() -> list[str]:
    """Return the columns of a table of kernels without rows."""
    unknown: dict[str, Any] = dict.fromkeys(KernelProfile.__struct_fields__, ())
    unknown["occupancy"] = Occupancy(theoretical=None, achieved=None, limiters=())
    return list(_kernel_row(KernelProfile(**unknown), []))


def _kernel_row(kernel: KernelProfile, paths: Iterable[str]) -> Row:
    row = _fields(kernel, _OF_KERNEL)
    row["ranges"] = "/".join(kernel.ranges)
    for which, size in (("grid", kernel.grid), ("block", kernel.block)):
        for axis, count in zip("xyz", size or (None, None, None), strict=True):
            row[f"{which}_{axis}"] = count
    work = {item.path: item for item in kernel.work}
    for path in paths:
        row |= _fields(work.get(path), ("flop", "flop_per_s"), ending=f"_{path}")
    row["waves"] = kernel.waves
    traffic = {item.level: item for item in kernel.traffic}
    for level in LEVELS:
        names = ("bytes", "bytes_per_s") if level == "dram" else ("bytes", "bytes_per_s", "hit_rate")
        row |= _fields(traffic.get(level), names, ending=f"_{level}")
    for ceiling in ("at-clock", "rated"):
        point = main_point(kernel, ceiling=ceiling)
        suffix = ceiling.replace("-", "_")
        row |= _fields(point, ("path",), "roofline_", f"_{suffix}")
        row |= _fields(point, ("intensity",), ending=f"_dram_{suffix}")
        row |= _fields(point, ("fraction_of_roof", "bound"), ending=f"_{suffix}")
    row |= _limit_cells(kernel)
    first = first_finding(kernel)
    row["findings"] = len(kernel.findings)
    row["first_finding"] = getattr(first, "rule", None)
    return row | _fields(first, _OF_FIRST_FINDING, "first_finding_")


def _fields(record: Struct | None, names: Iterable[str], beginning: str = "", ending: str = "") -> Row:
    """Return fields of a record, with the beginning and the ending of their columns; empty cells without a record."""
    return {f"{beginning}{name}{ending}": getattr(record, name, None) for name in names}


def _limit_cells(kernel: KernelProfile) -> Row:
    throughput = {unit.unit: unit.fraction for unit in kernel.throughput if unit.bound is None}
    cells: Row = {f"throughput_{unit}": throughput.get(unit) for unit in THROUGHPUT_UNITS}
    cells["nearest_limit"] = getattr(nearest_limit(kernel), "unit", None)
    cells |= _fields(kernel.occupancy, ("theoretical", "achieved"), "occupancy_")
    cells["occupancy_limiters"] = "+".join(kernel.occupancy.limiters)
    cells |= _fields(kernel.scheduler, ("issue_active", "eligible_warps", "active_warps"))
    return cells | _stall_cells(main_stall(kernel))


def _stall_cells(stall: Struct | None) -> Row:
    return {"main_stall": getattr(stall, "reason", None), "main_stall_share": getattr(stall, "share", None)}


def ranked_findings(session: Session) -> list[tuple[int | None, KernelProfile, Finding]]:
    """Return the findings of recommendations in their order, each with its rank from 1, then the others."""
    ranks: dict[str, int] = {}
    for rank, item in enumerate(session.recommendations, 1):
        ranks |= dict.fromkeys(item.findings, rank)
    found = []
    for kernel in session.kernels:
        for finding in kernel.findings:
            found.append((ranks.get(finding.id), kernel, finding))
    return sorted(found, key=lambda ranked: ranked[0] or math.inf)


def finding_rows(session: Session) -> list[Row]:
    """Return a row for every finding, first those of recommendations; `rank` is the place of its recommendation."""
    rows = []
    for rank, kernel, finding in ranked_findings(session):
        row = _fields(finding, FINDING_COLUMNS) | _fields(finding.place, _OF_PLACE, "location_")
        row |= {"kernel": kernel.id, "label": kernel.label, "rank": rank}
        row["evidence"] = "; ".join(map(_evidence_text, finding.evidence))
        rows.append(row)
    return rows


def _evidence_text(item: Evidence) -> str:
    """Write a piece of evidence so that a program can parse it: `metric = 12.5 % (threshold 30)`."""
    text = f"{item.metric} = {item.value:.6g} {item.unit}".rstrip()
    return text if item.threshold is None else f"{text} (threshold {item.threshold:g})"


def time_rows(times: TimeBy) -> list[Row]:
    """Return a row for each group of kernels."""
    return [
        _fields(group, _OF_GROUP)
        | _fields(group.of_peak, ("of", "least", "most", "bound"), "peak_")
        | _fields(group, ("fraction_of_roof",))
        | _fields(group.longest, ("id", "label", "demangled", "launches", "time_s"), "longest_")
        for group in times.groups
    ]


def instruction_rows(listing: Listing) -> list[Row]:
    """Return a row for each instruction of a kernel."""
    rows = []
    for instruction in listing.instructions:
        function = listing.functions[instruction.function]
        row: Row = {"kernel": listing.kernel, "function": function.symbol or f"0x{function.address:x}"}
        row |= _fields(instruction, ("pc", "offset", "sass", "file", "line"))
        row["source"] = listing.source_lines.get(instruction.file or "", {}).get(instruction.line or 0)
        row |= _fields(instruction, ("samples", "share")) | _stall_cells(instruction.stall)
        row |= _fields(instruction, _OF_INSTRUCTION)
        row["findings"] = "; ".join(instruction.findings)
        rows.append(row)
    return rows
