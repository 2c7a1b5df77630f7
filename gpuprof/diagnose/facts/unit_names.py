"""Names of the units of a GPU and of other needs of a kernel; pipes have the names of the specs."""

from __future__ import annotations

SM, ISSUE, LAUNCH, WORK = "sm", "issue", "launch", "work"

MEMORY = ("dram", "l2", "l1")

ADDRESS_PIPES = ("alu", "adu", "uniform", "cbu", "fma", "fmaheavy")
"""Pipes that run the arithmetic of addresses."""
