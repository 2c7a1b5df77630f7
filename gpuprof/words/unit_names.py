"""Names of units and pipes in sentences."""

from __future__ import annotations

UNIT_WORDS = {
    "dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "the SM", "issue": "the issue slots", "launch": "the launch itself",
    "work": "the arithmetic",
}  # fmt: skip


def pipe_name(name: str) -> str:
    """Return the name of a pipe in capitals (FMA, ALU), except for tensor and uniform."""
    if name in ("tensor", "uniform"):
        return name
    return name.upper()
