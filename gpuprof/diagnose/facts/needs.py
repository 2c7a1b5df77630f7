"""Names of what a kernel needs beside its pipes, and the time of a launch."""

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
