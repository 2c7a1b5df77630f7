"""Detect by the waits of warps that they access host memory, whose latency is far above that of the
GPU's memory.

This uses no counter of the host link, which few metric sets have. If such a counter is known, it
decides nothing.
"""

from __future__ import annotations

from gpuprof.diagnose.case import Case
from gpuprof.diagnose.dram_latency import FAR, IDLE
from gpuprof.diagnose.needs import ISSUE, SM
from gpuprof.diagnose.rule import percent
from gpuprof.model.kernel_kinds import kind_named

TAKES_IN = percent("l2-of-host-waits", 5.0)
HOST_MISSES = "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum"
HOST_FILLS = "lts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed"
"""Counters of accesses to host memory; the second is in every set of newer versions."""
_FULL = 0.6
"""From this utilization on, L2 itself can have a queue."""
_ASKED = 2.0
"""L1 requests at most four sectors per cycle, and L2 gives an SM two. Requests of SMs make L2 at
most twice as busy as L1."""
_WAITING = 0.3
"""The least share of the stalls on memory, if stalls are known."""


def shares_memory(case: Case) -> bool:
    """Return whether the GPU has no memory of its own and uses the host's."""
    return bool(case.number("device__attribute_integrated"))


def far_memory(case: Case) -> float | None:
    """Return the least cycles of a warp per instruction if they are too many for the GPU's own
    memory, else None.

    Instructions are those issued, or as many as the SM's speed of light allows. Return None, too,
    if accesses to the host were counted, the GPU has no other memory, or the kernel waits for links
    to other GPUs.
    """
    kind = kind_named(case.kernel.kind)
    if case.number(HOST_MISSES, HOST_FILLS) is not None or shares_memory(case):
        return None
    if kind is not None and kind.binds == "links":
        return None
    achieved, room = case.occupancy.achieved, case.warps_per_sm
    issued = case.needs.get(ISSUE, case.needs.get(SM))
    dram, l2, l1 = map(case.needs.get, ("dram", "l2", "l1"))
    if dram is None or l2 is None or l1 is None or not issued or achieved is None or room is None:
        return None
    cycles = min(1.0, achieved) * room / (case.schedulers * issued)
    is_memory = not case.stalls or case.stall(*case.memory_stalls) >= _WAITING
    is_idle = not IDLE.is_reached(max(dram, issued, l1))
    takes_in = TAKES_IN.is_reached(l2) and _ASKED * l1 < l2 < _FULL
    return cycles if cycles >= FAR.value and is_memory and is_idle and takes_in else None
