"""The latency of a load without a queue at DRAM, and the cycles that warps wait for a load.

All thresholds that depend on this latency are here, to keep them consistent: on cycles of a load,
on cycles of an instruction, and on the issue slots of an SM that is full of warps.
"""

from __future__ import annotations

import re

from gpuprof.diagnose.case import Case
from gpuprof.diagnose.rule import Threshold, percent

QUEUED = Threshold("queued-loads", 1500.0, "cycle")
FAR = Threshold("far-memory", 1000.0, "cycle")
IDLE = percent("idle-dram", 5.0)
SLOWER_THAN_LOADS = percent("slower-than-loads", 5.0)

_LOADS = re.compile(r"(?:LDG|LDL|LDGSTS|LD|TLD4?|TEX|SULD|ATOMG?)(?:\.|$)")
_BULK_LOADS = ("UBLKCP", "UTMALDG")


def cycles_per_load(case: Case) -> float | None:
    """Return the least cycles that warps wait for a load; None if not counted.

    A warp that waits for several loads at once counts its wait once. No warp waits for loads of the
    TMA engine.
    """
    stalls = {stall.reason: stall.cycles_per_issue for stall in case.kernel.stalls if stall.family == "counter"}
    waited, opcodes = stalls.get("long_scoreboard"), case.opcodes()
    issued = case.number("smsp__inst_issued.sum", "smsp__inst_executed.sum")
    loads = sum(count for name, count in opcodes.items() if _LOADS.match(name))
    if waited is None or not issued or not loads or any(name.startswith(_BULK_LOADS) for name in opcodes):
        return None
    return waited * issued / loads


def queues_at_dram(case: Case) -> bool:
    """Return whether loads queue at DRAM: they take longer, and DRAM is not idle."""
    waited = cycles_per_load(case)
    return waited is not None and waited >= QUEUED.value and IDLE.is_reached(case.needs.get("dram"))
