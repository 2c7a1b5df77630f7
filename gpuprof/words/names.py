"""The names of units of the GPU, as sentences have them."""

from __future__ import annotations

from gpuprof.diagnose.needs import pipe_name
from gpuprof.model.stalls import stall_name

_UNITS = {"dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "SM"}


def unit_name(unit: str) -> str:
    """Return the name of a memory level, of the SM, or else of a pipe."""
    return _UNITS.get(unit) or pipe_name(unit)


def stall_state_name(reason: str) -> str:
    """Return the name of a stall reason as it follows "in": "Stall" before one word, as in "Stall Wait"."""
    name = stall_name(reason)
    return name if " " in name else f"Stall {name}"
