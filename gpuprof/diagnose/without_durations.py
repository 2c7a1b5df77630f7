"""What speaks where durations are not known: the kernel that does most work, and of several alike what was counted.

The shape of a launch tells how much of the GPU it leaves empty, and not for how long: that of a small kernel beside a
large one says nothing of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuprof.diagnose.ranking import is_counted
from gpuprof.model.session import Finding, KernelProfile

_OF_LAUNCH = ("launch__", "sm__maximum_warps_per_active_cycle_pct")
"""How the names of metrics begin that follow from the launch alone."""
_FAR_FEWER = 0.1
"""A kernel with so little of the work of the largest one is seldom what a run waits for."""


def is_of_launch_alone(finding: Finding) -> bool:
    """Tell whether a finding rests on the shape of the launch, and on nothing that was counted while it ran."""
    metrics = [item.metric for item in finding.evidence if item.metric]
    return bool(metrics) and all(metric.startswith(_OF_LAUNCH) for metric in metrics)


def small_and_untimed(kernels: Sequence[KernelProfile]) -> frozenset[int]:
    """Return the ids of kernels of unknown time that do little beside others: their shape tells little of the run."""
    amounts = _amounts(kernels)
    least = _FAR_FEWER * max(amounts, default=0.0)
    return frozenset(
        kernel.id
        for kernel, amount in zip(kernels, amounts, strict=True)
        if kernel.time_total_s is None and amount <= least
    )


def most_telling(kernels: Sequence[KernelProfile]) -> KernelProfile | None:
    """Return the kernel with most work, of several with comparable work one that something counted speaks of."""
    amounts = _amounts(kernels)
    least = _FAR_FEWER * max(amounts, default=0.0)
    large = [(kernel, amount) for kernel, amount in zip(kernels, amounts, strict=True) if amount >= least]
    spoken = [(kernel, amount) for kernel, amount in large if any(map(_is_told, kernel.findings))]
    return max(spoken or large, key=lambda pair: pair[1], default=(None, 0.0))[0]


def _is_told(finding: Finding) -> bool:
    """Tell whether counters show something to change, or a count whose cost is not known."""
    if finding.confidence == "guess" or finding.cause is not None or is_of_launch_alone(finding):
        return False
    return finding.severity != "info" or is_counted(finding)


def _amounts(kernels: Sequence[KernelProfile]) -> list[float]:
    """Return how much each kernel does, by the first measure that all of them have: closest to its time first."""
    for column in zip(*map(_measures, kernels), strict=True):
        amounts = [
            amount * kernel.launches for kernel, amount in zip(kernels, column, strict=True) if amount is not None
        ]
        if len(amounts) == len(kernels):
            return amounts
    return []


def _measures(kernel: KernelProfile) -> tuple[float | None, ...]:
    """Return the instructions, the bytes at each level and the threads of a launch."""
    instructions = next((count.value for count in kernel.counts if count.name == "instructions"), None)
    moved = {item.level: item.bytes for item in kernel.traffic}
    threads = float(math.prod(kernel.grid or ()) * math.prod(kernel.block or ()))
    return instructions, moved.get("dram"), moved.get("l2"), moved.get("l1"), threads
