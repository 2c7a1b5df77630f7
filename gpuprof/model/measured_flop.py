"""Floating-point operations of a run as counters saw them."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.hardware.specs import PATHS
from gpuprof.model.groups import by_key
from gpuprof.model.session import KernelProfile, MeasuredFlop


def measured_flop(kernels: Sequence[KernelProfile]) -> tuple[MeasuredFlop, ...]:
    """Return the floating-point operations that counters saw in all launches of these kernels, by path.

    Each is the sum over the kernels that it was counted for of a launch's work × the time of all launches ÷ its own, or
    × launches where times are not known; their share of the time of all kernels stands beside it. The others may have
    done more.
    """
    total_s = sum(kernel.time_total_s or 0.0 for kernel in kernels)
    work_of = by_key(
        (work.path, (work.flop * _times(kernel), kernel.time_total_s or 0.0))
        for kernel in kernels
        for work in kernel.work
        if work.flop is not None and "int" not in work.path
    )
    return tuple(
        MeasuredFlop(path, sum(flop for flop, _ in sums), sum(time for _, time in sums) / total_s if total_s else None)
        for path in PATHS
        if (sums := work_of.get(path))
    )


def _times(kernel: KernelProfile) -> float:
    """Return how often the launch that speaks for a kernel makes up the work of all: sizes differ as times do."""
    spread = kernel.duration_percentiles_s
    if kernel.time_total_s is None or not kernel.duration_s or spread is None:
        return kernel.launches
    return kernel.launches * kernel.time_total_s / spread.count / kernel.duration_s
