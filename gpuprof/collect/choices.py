"""The words that options of profiling can have, for types, checks and the command line; defaults without an owner."""

from __future__ import annotations

from typing import Literal

SESSION_FILE = "session.json"
DRY_ARCH = "sm_90"
"""The chip whose counters a dry run names, unless the user names one."""

CounterSetName = Literal["times", "roofline", "diagnose", "full"]
ClockControl = Literal["none", "base"]
CacheControl = Literal["all", "none"]
ReplayMode = Literal["kernel", "application"]
KernelBase = Literal["demangled", "function"]
"""What of a kernel's name is compared: all of it, or the function's own name."""
GraphProfiling = Literal["node", "graph"]
OutputTo = Literal["inherit", "stderr", "discard"]
"""Where what the program prints goes: to our stdout and stderr, both to our stderr, or nowhere."""
