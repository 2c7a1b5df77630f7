"""Names of the counts by instruction, and the opcode of an instruction."""

from __future__ import annotations

from functools import lru_cache

SAMPLES = "smsp__pcsamp_sample_count"
EXECUTED = "inst_executed"
EXCESS_SECTORS = "derived__memory_l2_theoretical_sectors_global_excessive"
ALL_SECTORS = "memory_l2_theoretical_sectors_global"
"""Sectors of global accesses that contiguous bytes would not need, and all of them."""
_SAMPLED_NAMES = {"no_instruction": "no_instructions"}


def stall_metric(reason: str, family: str) -> str:
    """Return the name of the metric behind a stall reason of a family."""
    if family == "counter":
        return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    name = f"smsp__pcsamp_warps_issue_stalled_{_SAMPLED_NAMES.get(reason, reason)}"
    return f"{name}_not_issued" if family == "sampled-not-issued" else name


@lru_cache(maxsize=1 << 14)
def opcode_of(sass: str) -> str:
    """Return an instruction's opcode without its guard: `@!P0 LDG.E R2, …` → `LDG.E`."""
    tokens = sass.split()
    if tokens and tokens[0].startswith("@"):
        tokens = tokens[1:]
    if not tokens:
        return ""
    return tokens[0].rstrip(";")
