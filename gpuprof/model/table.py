"""One flat row per kernel: what CSV export and DataFrames are made of."""

from __future__ import annotations

from gpuprof.hardware.specs import LEVELS, PATHS
from gpuprof.model.session import KernelProfile, Session
from gpuprof.model.summary import main_point, main_stall, nearest_limit

Cell = str | int | float | None

_PLAIN = (
    "id", "label", "name", "demangled", "source", "device", "process", "stream", "registers_per_thread",
    "shared_memory_per_block", "launches", "duration_s", "time_total_s", "time_share", "sm_clock_hz",
)  # fmt: skip


def rows(session: Session) -> list[dict[str, Cell]]:
    """Return a row for every kernel, in the session's order; all rows have the same keys, None means missing."""
    paths = [path for path in PATHS if any(work.path == path for kernel in session.kernels for work in kernel.work)]
    return [_row(kernel, paths) for kernel in session.kernels]


def _row(kernel: KernelProfile, paths: list[str]) -> dict[str, Cell]:
    row: dict[str, Cell] = {name: getattr(kernel, name) for name in _PLAIN}
    row["ranges"] = "/".join(kernel.ranges)
    for which, size in (("grid", kernel.grid), ("block", kernel.block)):
        for axis, value in zip("xyz", size or (None, None, None), strict=True):
            row[f"{which}_{axis}"] = value
    work = {item.path: item for item in kernel.work}
    for path in paths:
        done = work.get(path)
        row[f"flop_{path}"] = done.flop if done else None
        row[f"flop_per_s_{path}"] = done.flop_per_s if done else None
    traffic = {item.level: item for item in kernel.traffic}
    for level in LEVELS:
        moved = traffic.get(level)
        row[f"bytes_{level}"] = moved.bytes if moved else None
        row[f"bytes_per_s_{level}"] = moved.bytes_per_s if moved else None
    return row | _roofline_cells(kernel) | _limit_cells(kernel)


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
    throughput = {unit.unit: unit.fraction for unit in kernel.throughput}
    limit, stall = nearest_limit(kernel), main_stall(kernel)
    cells: dict[str, Cell] = {
        f"throughput_{unit}": throughput.get(unit) for unit in ("sm", "memory", "dram", "l2", "l1")
    }
    return cells | {
        "nearest_limit": limit.unit if limit else None,
        "occupancy_theoretical": kernel.occupancy.theoretical,
        "occupancy_achieved": kernel.occupancy.achieved,
        "occupancy_limiters": "+".join(kernel.occupancy.limiters),
        "main_stall": stall.reason if stall else None,
        "main_stall_share": stall.share if stall else None,
    }
