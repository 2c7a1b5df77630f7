"""The choice of kernels and findings without durations: most work and counters first.

The shape of a launch shows which part of the GPU it leaves empty, but not for how long: the shape
of a small kernel beside a large one shows nothing about the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuprof.diagnose.ranking import is_counted
from gpuprof.model.session import Finding, KernelProfile

_OF_LAUNCH = ("launch__", "sm__maximum_warps_per_active_cycle_pct")
"""Prefixes of metrics that follow from the launch alone."""
_FAR_FEWER = 0.1
"""A run seldom waits for a kernel with a smaller fraction of the work of the largest one."""


def is_of_launch_alone(finding: Finding) -> bool:
    """Return whether a finding rests only on the shape of the launch, and not on counters."""
    metrics = [item.metric for item in finding.evidence if item.metric]
    return bool(metrics) and all(metric.startswith(_OF_LAUNCH) for metric in metrics)


def small_and_untimed(kernels: Sequence[KernelProfile]) -> frozenset[int]:
    """Return the ids of untimed kernels with little work, whose shape shows little."""
    amounts = _amounts(kernels)
    most_small = _FAR_FEWER * max(amounts, default=0.0)
    pairs = zip(kernels, amounts, strict=True)
    return frozenset(kernel.id for kernel, amount in pairs if kernel.time_total_s is None and amount <= most_small)


def largest_untimed(kernels: Sequence[KernelProfile]) -> KernelProfile | None:
    """Return the kernel with most work.

    Of several with comparable work, prefer one with a finding from counters.
    """
    amounts = _amounts(kernels)
    least = _FAR_FEWER * max(amounts, default=0.0)
    large = [pair for pair in zip(kernels, amounts, strict=True) if pair[1] >= least]
    large.sort(key=lambda pair: (any(map(_is_from_counters, pair[0].findings)), pair[1]), reverse=True)
    return large[0][0] if large else None


def _is_from_counters(finding: Finding) -> bool:
    """Return whether a finding from counters has a change, or a count of unknown cost."""
    if finding.confidence == "guess" or finding.cause is not None or is_of_launch_alone(finding):
        return False
    return finding.severity != "info" or is_counted(finding)


def _amounts(kernels: Sequence[KernelProfile]) -> list[float]:
    """Return the work of each kernel by the first measure that all have.

    Measures closest to time come first.
    """
    for column in zip(*map(_measures, kernels), strict=True):
        if None not in column:
            return [amount * kernel.launches for kernel, amount in zip(kernels, column, strict=True)]
    return []


def _measures(kernel: KernelProfile) -> tuple[float | None, ...]:
    """Return the instructions and the threads of a launch."""
    instructions = next((count.value for count in kernel.counts if count.name == "instructions"), None)
    threads = float(math.prod(kernel.grid or ()) * math.prod(kernel.block or ()))
    return instructions, threads
