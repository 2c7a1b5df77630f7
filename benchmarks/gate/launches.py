"""How launches of one kernel differ within a run: quantiles from recorded traces, and how they are written and read."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gpuprof.read.files import read_file
from gpuprof.timeline.trace import Trace

LAUNCHES = 11
"""Launches of a kernel in a simulated run."""
TABLE = Path(__file__).parent / "launches.csv"
LEVELS = tuple(number / 20 for number in range(21))
"""The quantiles that are kept, from the shortest launch to the longest."""
TRACES = ("miniweather-gp100.nsys.sqlite", "rank0-v100.pt.trace.json.gz")
"""Traces in nanoseconds in which kernels are launched often enough."""
_FEWEST = 20
_OTHER_WORK = 0.1
"""A launch configuration whose 5 % and 95 % quantiles are farther apart does different work under one name."""


class Kernel(NamedTuple):
    """A kernel's median launch, and its launches' durations over that at each of LEVELS."""

    trace: str
    median_s: float
    launches: int
    quantiles: tuple[float, ...]


def kernels_of(folder: Path) -> Iterator[Kernel]:
    """Yield the kernels of the traces in a folder that were launched often enough with one configuration."""
    for name in TRACES:
        trace = read_file(str(folder / name))
        if isinstance(trace, Trace):
            yield from _kernels(name, trace)


def read_kernels() -> tuple[Kernel, ...]:
    """Return the kernels as they are kept in the repository."""
    with TABLE.open(encoding="utf-8", newline="") as rows:
        return tuple(
            Kernel(
                trace=row["trace"],
                median_s=float(row["median_s"]),
                launches=int(row["launches"]),
                quantiles=_quantiles(row),
            )
            for row in csv.DictReader(rows)
        )


def write_kernels(folder: Path) -> int:
    """Write them from the traces; return how many there are."""
    kernels = list(kernels_of(folder))
    with TABLE.open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["trace", "median_s", "launches", *(f"q{level * 100:.0f}" for level in LEVELS)])
        for kernel in kernels:
            quantiles = (f"{value:.5f}" for value in kernel.quantiles)
            writer.writerow([kernel.trace, f"{kernel.median_s:.6g}", kernel.launches, *quantiles])
    return len(kernels)


def noise_within(kernel: Kernel) -> float:
    """Return the standard deviation of a run's median launch that comes from its launches alone.

    Of n uniform numbers the middle one has a Beta distribution; the kernel's quantiles turn it into a duration.
    """
    import numpy as np

    levels = (np.arange(4000) + 0.5) / 4000
    weights = (levels * (1 - levels)) ** ((LAUNCHES - 1) / 2)
    logs = np.log(np.interp(levels, LEVELS, kernel.quantiles))
    return float(np.sqrt(np.cov(logs, aweights=weights, ddof=0)))


def _kernels(name: str, trace: Trace) -> Iterator[Kernel]:
    import numpy as np

    groups: defaultdict[tuple[object, ...], list[float]] = defaultdict(list)
    for activity in trace.activities:
        if activity.kind == "kernel" and activity.duration_s:
            key = (activity.name, activity.grid, activity.block, activity.operator, activity.ranges)
            groups[key].append(activity.duration_s)
    for durations in groups.values():
        if len(durations) < _FEWEST:
            continue
        quantiles = np.quantile(durations, LEVELS)
        median_s = float(quantiles[len(LEVELS) // 2])
        if quantiles[-2] / quantiles[1] < 1 + _OTHER_WORK:
            relative = tuple(float(value / median_s) for value in quantiles)
            yield Kernel(trace=name, median_s=median_s, launches=len(durations), quantiles=relative)


def _quantiles(row: dict[str, str]) -> tuple[float, ...]:
    return tuple(float(row[f"q{level * 100:.0f}"]) for level in LEVELS)
