"""How long a load takes while DRAM has no queue, what takes longer than that, and how long warps wait for a load.

All that judges by it is here, so that it is one range: thresholds on cycles of a load, of an instruction, and of the
issue slots of an SM that is full of warps.
"""

from __future__ import annotations

import re

from gpuprof.diagnose.arithmetic import opcodes_of
from gpuprof.diagnose.case import Case
from gpuprof.diagnose.rule import Threshold, percent

_NO_QUEUE = "300 to 800 cycles"
QUEUED = Threshold(
    "cycles that warps wait for a load",
    1500.0,
    "cycle",
    reason=f"an idle DRAM answers a load within {_NO_QUEUE}: about twice as long is a queue, which more requests only "
    "make longer",
)
FAR = Threshold(
    "cycles per instruction of a warp",
    1000.0,
    "cycle",
    reason=f"DRAM that is idle answers a load within {_NO_QUEUE}: warps of which every instruction waits for one issue "
    "more often",
)
IDLE = percent("DRAM of warps that wait for more than it", 5.0, "it has no queue then that could make its loads wait")
SLOWER_THAN_LOADS = percent(
    "busiest unit of a full GPU",
    5.0,
    f"a scheduler with all its warps, each of which waits {_NO_QUEUE} for one load at a time, issues in 2 to 5 % of "
    "its cycles: below it they wait longer than for memory",
)

_LOADS = re.compile(r"(?:LDG|LDL|LDGSTS|LD|TLD4?|TEX|SULD|ATOMG?)(?:\.|$)")
_BULK_LOADS = ("UBLKCP", "UTMALDG")


def cycles_per_load(case: Case) -> float | None:
    """Return the cycles that warps wait for a load at least; None where stalls or opcodes were not counted.

    A warp that waits for several loads at once counts its wait once. Loads of the TMA engine have no warp that waits.
    """
    told = {stall.reason: stall.cycles_per_issue for stall in case.kernel.stalls if stall.family == "counter"}
    waited, opcodes = told.get("long_scoreboard"), opcodes_of(case)
    issued = case.number("smsp__inst_issued.sum", "smsp__inst_executed.sum")
    loads = sum(count for name, count in opcodes.items() if _LOADS.match(name))
    if waited is None or not issued or not loads or any(name.startswith(_BULK_LOADS) for name in opcodes):
        return None
    return waited * issued / loads


def queues_at_dram(case: Case) -> bool:
    """Tell whether loads wait in a queue: for longer than a DRAM without one takes, and it is not idle."""
    waited, dram = cycles_per_load(case), case.needs.get("dram")
    return waited is not None and waited >= QUEUED.value and dram is not None and 100 * dram >= IDLE.value
