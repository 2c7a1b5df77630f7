"""Compute paths as engineers call them, and the unit of their work."""

from __future__ import annotations


def path_name(path: str) -> str:
    """Write a compute path: "fp64" → "FP64", "tensor.bf16" → "tensor BF16"."""
    head, _, kind = path.rpartition(".")
    return f"{head} {kind.upper()}".strip()


def work_unit(path: str, per_second: bool = True) -> str:
    """Return FLOP or OP, per second or not: integer work is counted in operations."""
    unit = "OP" if "int" in path else "FLOP"
    return f"{unit}/s" if per_second else unit
