"""Flat rows of kernels, findings, groups of time and instructions: CSV files and DataFrames are made of them.

All rows of a table have the same keys, in the order of the columns. None means missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.field_types import THROUGHPUT_UNITS
from gpuprof.model.headline import first_finding, main_point, main_stall, nearest_limit
from gpuprof.model.session import Evidence, Finding, KernelProfile, Session

if TYPE_CHECKING:
    from gpuprof.annotated.listing import ListedInstruction, Listing
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
        rows.append(row | {name: values.get(name) for name in counters})
    return rows


def kernel_columns() -> list[str]:
    """Return the columns of a table of kernels without rows."""
    return list(_kernel_row(None, []))


def _kernel_row(kernel: KernelProfile | None, paths: Iterable[str]) -> Row:
    row = _fields(kernel, _OF_KERNEL)
    row["ranges"] = "/".join(kernel.ranges) if kernel else None
    for which in ("grid", "block"):
        size = getattr(kernel, which, None) or (None, None, None)
        row |= {f"{which}_{axis}": value for axis, value in zip("xyz", size, strict=True)}
    work = {item.path: item for item in kernel.work} if kernel else {}
    for path in paths:
        row |= _fields(work.get(path), ("flop", "flop_per_s"), ending=f"_{path}")
    row["waves"] = kernel.waves if kernel else None
    traffic = {item.level: item for item in kernel.traffic} if kernel else {}
    for level in LEVELS:
        names = ("bytes", "bytes_per_s") if level == "dram" else ("bytes", "bytes_per_s", "hit_rate")
        row |= _fields(traffic.get(level), names, ending=f"_{level}")
    return row | _roofline_cells(kernel) | _limit_cells(kernel) | _finding_cells(kernel)


def _fields(record: Struct | None, names: Iterable[str], beginning: str = "", ending: str = "") -> Row:
    """Return fields of a record, with the beginning and the ending of their columns; empty cells without a record."""
    return {f"{beginning}{name}{ending}": getattr(record, name, None) for name in names}


def _roofline_cells(kernel: KernelProfile | None) -> Row:
    cells: Row = {}
    for ceiling in ("at-clock", "rated"):
        point = main_point(kernel, ceiling=ceiling) if kernel else None
        suffix = ceiling.replace("-", "_")
        cells |= _fields(point, ("path",), "roofline_", f"_{suffix}")
        cells |= _fields(point, ("intensity",), ending=f"_dram_{suffix}")
        cells |= _fields(point, ("fraction_of_roof", "bound"), ending=f"_{suffix}")
    return cells


def _limit_cells(kernel: KernelProfile | None) -> Row:
    units = kernel.throughput if kernel else ()
    throughput = {unit.unit: unit.fraction for unit in units if unit.bound is None}
    limit = nearest_limit(kernel) if kernel else None
    stall = main_stall(kernel) if kernel else None
    cells: Row = {f"throughput_{unit}": throughput.get(unit) for unit in THROUGHPUT_UNITS}
    cells["nearest_limit"] = limit.unit if limit else None
    cells |= _fields(kernel.occupancy if kernel else None, ("theoretical", "achieved"), "occupancy_")
    cells["occupancy_limiters"] = "+".join(kernel.occupancy.limiters) if kernel else None
    cells |= _fields(kernel.scheduler if kernel else None, ("issue_active", "eligible_warps", "active_warps"))
    cells["main_stall"] = stall.reason if stall else None
    return cells | _fields(stall, ("share",), "main_stall_")


def _finding_cells(kernel: KernelProfile | None) -> Row:
    first = first_finding(kernel) if kernel else None
    cells: Row = {
        "findings": len(kernel.findings) if kernel else None,
        "first_finding": first.rule if first else None,
    }
    return cells | _fields(first, _OF_FIRST_FINDING, "first_finding_")


def ranked_findings(session: Session) -> list[tuple[int | None, KernelProfile, Finding]]:
    """Return the findings of recommendations in their order, each with its rank from 1, then the others."""
    ranks: dict[str, int] = {}
    for rank, item in enumerate(session.recommendations, 1):
        ranks.update(dict.fromkeys(item.findings, rank))
    found = []
    for kernel in session.kernels:
        for finding in kernel.findings:
            found.append((ranks.get(finding.id), kernel, finding))
    last = len(session.recommendations) + 1
    return sorted(found, key=lambda ranked: ranked[0] or last)


def finding_rows(session: Session) -> list[Row]:
    """Return a row for every finding, first those of recommendations; `rank` is the place of its recommendation."""
    return [_finding_row(kernel, finding, rank) for rank, kernel, finding in ranked_findings(session)]


def _finding_row(kernel: KernelProfile, finding: Finding, rank: int | None) -> Row:
    row = _fields(finding, FINDING_COLUMNS) | _fields(finding.place, _OF_PLACE, "location_")
    row |= {"kernel": kernel.id, "label": kernel.label, "rank": rank}
    row["evidence"] = "; ".join(map(_evidence_text, finding.evidence))
    return row


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
    return [_instruction_row(listing, instruction) for instruction in listing.instructions]


def _instruction_row(listing: Listing, instruction: ListedInstruction) -> Row:
    source = None
    if instruction.file is not None and instruction.line is not None:
        source = listing.source_lines.get(instruction.file, {}).get(instruction.line)
    function = listing.functions[instruction.function]
    return {
        "kernel": listing.kernel,
        "function": function.symbol or f"0x{function.address:x}",
        **_fields(instruction, ("pc", "offset", "sass", "file", "line")),
        "source": source,
        **_fields(instruction, ("samples", "share")),
        "main_stall": instruction.stall.reason if instruction.stall is not None else None,
        **_fields(instruction.stall, ("share",), "main_stall_"),
        **_fields(instruction, _OF_INSTRUCTION),
        "findings": "; ".join(instruction.findings),
    }
