"""The needs of the units of a GPU as fractions of a kernel's time."""

from __future__ import annotations

from gpuprof.model.session import KernelProfile, Pipe

LAUNCH_S = 1e-6
"""The shortest empty kernel takes about this long on any GPU since Volta."""

LAUNCH_MOST_S = 3e-6
"""Few kernels take longer to start and to end: 1.2 to 2.9 µs without work on any SM, in
kernels of 2.1 to 290 µs on an A100 and an H100. In a long kernel a larger difference comes from the
cycles of two passes, not from the launch.
"""

SM, ISSUE, LAUNCH, WORK = "sm", "issue", "launch", "work"

MEMORY = ("dram", "l2", "l1")

ADDRESS_PIPES = ("alu", "adu", "uniform", "cbu", "fma", "fmaheavy")
"""Pipes that run the arithmetic of addresses."""


def launch_share(duration_s: float, working: float) -> float:
    """Return the share of a kernel's time that its launch takes: no SM works then, whatever is
    changed in the kernel.

    `working` is the share of the elapsed cycles in which SMs work; 1, as if it is not known, gives
    the least share.
    """
    without_work = min(1.0 - working, LAUNCH_MOST_S / duration_s)
    return min(1.0, max(without_work, LAUNCH_S / duration_s))


def needs_of(kernel: KernelProfile, l1: float | None, active: float | None, busiest: float = 1.0) -> dict[str, float]:
    """Return the fraction of the elapsed time that each unit needs, without units that were not
    collected.

    `l1` is the utilization of L1 with the load/store unit before it. `active` is the share of the
    elapsed cycles in which an average SM had work: it scales metrics of active cycles, which are
    left out if it is None. `busiest` is that share of the busiest SM, which only the launch keeps
    from work; 1 if it is not known.
    """
    units = (unit for unit in kernel.throughput if unit.is_exact and unit.unit != "memory")
    needs: dict[str, float | None] = {unit.unit: unit.fraction for unit in units}
    if l1 is not None:
        needs["l1"] = l1
    needs |= {pipe.name: need_of_pipe(pipe, active) for pipe in kernel.pipes}
    scheduler = kernel.scheduler
    if scheduler is not None and scheduler.issue_active is not None and active is not None:
        needs[ISSUE] = scheduler.issue_active * active
    if kernel.duration_s:
        needs[LAUNCH] = launch_share(kernel.duration_s, busiest)
    return {unit: min(1.0, max(0.0, need)) for unit, need in needs.items() if need is not None}


def need_of_pipe(pipe: Pipe, active: float | None) -> float | None:
    """Return the fraction of the elapsed time that a pipe needs; None if `active` is missing."""
    if pipe.metric.endswith("_elapsed"):
        return pipe.fraction
    return pipe.fraction * active if active is not None else None
