"""How long a load takes while DRAM has no queue, what takes longer than that, and how long warps wait for a load.

All that judges by it is here, so that it is one range: thresholds on cycles of a load, of an instruction, and of the
issue slots of an SM that is full of warps.
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
    """Return the cycles that warps wait for a load at least; None where stalls or opcodes were not counted.

    A warp that waits for several loads at once counts its wait once. Loads of the TMA engine have no warp that waits.
    """
    told = {stall.reason: stall.cycles_per_issue for stall in case.kernel.stalls if stall.family == "counter"}
    waited, opcodes = told.get("long_scoreboard"), case.opcodes()
    issued = case.number("smsp__inst_issued.sum", "smsp__inst_executed.sum")
    loads = sum(count for name, count in opcodes.items() if _LOADS.match(name))
    if waited is None or not issued or not loads or any(name.startswith(_BULK_LOADS) for name in opcodes):
        return None
    return waited * issued / loads


def queues_at_dram(case: Case) -> bool:
    """Tell whether loads wait in a queue: for longer than a DRAM without one takes, and it is not idle."""
    waited = cycles_per_load(case)
    return waited is not None and waited >= QUEUED.value and IDLE.is_reached(case.needs.get("dram"))
