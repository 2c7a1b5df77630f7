"""Names of what a kernel needs, beside its pipes, and the need of its launch, as a fraction of its time."""

from __future__ import annotations

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
