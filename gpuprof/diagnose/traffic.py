"""What moves through the memory levels: sectors beyond need, bytes of each level, and the time that a unit explains."""

from __future__ import annotations

from typing import NamedTuple

from gpuprof.diagnose.case import REQUESTS, WAVEFRONTS, WELL_USED, Case
from gpuprof.diagnose.needs import LAUNCH, Saving
from gpuprof.model.findings import CaseName
from gpuprof.model.session import Evidence, Traffic
from gpuprof.units import SECTOR_BYTES, WARP_THREADS

EXCESS_SECTORS = "derived__memory_l2_theoretical_sectors_global_excessive"
ALL_SECTORS = "memory_l2_theoretical_sectors_global"
GLOBAL_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
SHARED_BUSY = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed"
SHARED_ATOMICS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum.pct_of_peak_sustained_elapsed"
SHARED_PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum"
SHARED_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
SHARED_CONFLICTS_BY_KIND = {
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "load-conflict-wavefronts",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "store-conflict-wavefronts",
}
"""Counters of conflicts, and the roles of their evidence."""
GLOBAL_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
SECTORS_PER_REQUEST = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{}.ratio"
CONFLICT_SHARE = "conflict-share"
"""The role of evidence of bank conflicts: their share of the wavefronts."""
OTHER_WAITS = "other-stalls-unchanged"
_ELAPSED = ("sm__cycles_elapsed.avg", "sm__cycles_elapsed.max")
IDEAL_SECTORS = "memory_l2_theoretical_sectors_global_ideal"
_WRITEBACK = "l1tex__lsu_writeback_active.avg.pct_of_peak_sustained_elapsed"
_ISSUED = "sm__memory_throughput.avg.pct_of_peak_sustained_elapsed"
_AMPERE, _HOPPER = 8.0, 9.0
"""The first with `cp.async`, and the first with copies of a whole tile by one thread (CUDA programming guide)."""
_ONE_WAY = "only"
"""How the definition of traffic says that it is of one direction."""
LOCAL_SECTORS = tuple(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{what}.sum" for what in ("ld", "st"))
_LOCAL_MISSES = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum"
_RAMP = 0.1
"""Less idle time of SMs is the ramp at the start and the end of a kernel."""
_FELT = 0.1
"""What is less than a tenth of a level's bytes does not make it the limit."""
_MANY = 1e6
"""Counts from here on are written with a prefix."""
_NOTICED = 1.01
"""So much more than the ideal bytes is more than rounding and the kernel's own parameters."""


class CountedSectors(NamedTuple):
    """Excess and all sectors of global accesses, and the counters that tell them."""

    excess: float
    total: float
    evidence: tuple[Evidence, ...]


def counted_sectors(case: Case) -> CountedSectors | None:
    """What NVIDIA's instrumentation counts: sectors beyond those that the same bytes would need if contiguous."""
    total, excess, ideal = case.number(ALL_SECTORS), case.number(EXCESS_SECTORS), case.number(IDEAL_SECTORS)
    every = case.metric(ALL_SECTORS, "sectors", "sector")
    if total is not None and excess is not None:
        return CountedSectors(excess, total, (*case.metric(EXCESS_SECTORS, "excess-sectors", "sector"), *every))
    if total is not None and ideal is not None:
        needed = case.metric(IDEAL_SECTORS, "needed-sectors", "sector")
        return CountedSectors(total - ideal, total, (*every, *needed))
    return None


def request_sectors(case: Case, what: str) -> float | None:
    """Return the sectors of a request of loads ("ld") or stores ("st")."""
    counted = counted_request_sectors(case, what)
    return counted if counted is not None else case.number(SECTORS_PER_REQUEST.format(what))


def counted_request_sectors(case: Case, what: str) -> float | None:
    """Return them where sectors and requests were counted."""
    return case.ratio(GLOBAL_SECTORS.format(what), GLOBAL_REQUESTS.format(what)) or None


def counts_case(total: float) -> CaseName:
    """Return the case of a headline that writes counts of so many: "120 of 2 000", "28.4 M of 31.9 M"."""
    return "shared/counts" if total < _MANY else "shared/large-counts"


def ideal_bytes(case: Case) -> float | None:
    """Return the bytes that global accesses would move if each were contiguous; None where sectors were not counted."""
    counts = counted_sectors(case)
    return SECTOR_BYTES * max(0.0, counts.total - counts.excess) if counts is not None else None


def bytes_of(case: Case, level: str) -> float | None:
    """Return the bytes that a level moved; None where that or one of the directions was not collected."""
    moved = _both_ways(case, level)
    return moved.bytes if moved is not None else None


def rate_of(case: Case, level: str) -> float | None:
    """Return the bytes a second that a level moved; None where one of the directions was not counted, or none was.

    What is only a percentage times a rated peak is no count: the clock in it can be another one.
    """
    moved = _both_ways(case, level)
    return moved.bytes_per_s if moved is not None and moved.basis != "estimated" else None


def _both_ways(case: Case, level: str) -> Traffic | None:
    return next((item for item in case.kernel.traffic if item.level == level and _ONE_WAY not in item.definition), None)


def excess_reaches(case: Case, level: str) -> bool:
    """Tell whether a level moves more than the global accesses need; true where that is not known."""
    ideal, moved = ideal_bytes(case), bytes_of(case, level)
    return ideal is None or moved is None or moved > _NOTICED * ideal


def local_bytes_past_l1(case: Case) -> float | None:
    """Return the bytes of local memory that L1 passes on at most: loads that miss it, and stores."""
    loads, stores = LOCAL_SECTORS
    passed = case.total((case.first_of((_LOCAL_MISSES, loads)), stores), of_all=True)
    return SECTOR_BYTES * passed if passed is not None and case.number(loads) is not None else None


def local_reaches(case: Case, level: str) -> bool:
    """Tell whether local memory can be a tenth or more of what a level moves; true where that is not known."""
    passed, moved = local_bytes_past_l1(case), bytes_of(case, level)
    return passed is None or moved is None or passed >= _FELT * moved


def explained(case: Case, busy: float | None, reasons: tuple[str, ...]) -> float:
    """Return how much of the time a unit can explain: while it is busy, or warps wait for it or for each other.

    No unit reaches its peak in practice, so that one counts as all of the time from where it counts as well used. A
    unit that is idle may still be waited for: where either was not collected, it can explain everything. So it can of
    the time in which SMs have ended and others work: few warps are left then, and their waits are a small share.
    """
    if busy is None:
        return 1.0
    return at_work(case, busy, case.stall_at_most(*reasons, "barrier", "membar"))


def at_work(case: Case, busy: float, waits: float, late: float = 1.0) -> float:
    """Return how much of the time follows from a busy unit and the warps' waits, with a part of what only few see."""
    return min(1.0, max(busy, waits) / WELL_USED + late * late_share(case))


def capped(case: Case, bound: Saving, share: float, weight: float) -> Saving:
    """Bound what goes by its share of a unit's work, and by how much of the time the unit explains.

    Both are of the time that the launch leaves. Waits tell that only while the others stay: those that come behind one
    of them can go with it.
    """
    most = bound.no_more_than(share * (1.0 - case.needs.get(LAUNCH, 0.0)))
    return most if weight >= 1.0 else most.if_held(share * weight * case.working_share, OTHER_WAITS)


def late_share(case: Case) -> float:
    """Return the share of the time that an average SM with a block has ended before the last; 0 where not known."""
    if case.active_share is None:
        return 0.0
    blocks, sms = case.blocks, _sms(case)
    with_block = min(1.0, blocks / sms) if blocks and sms else 1.0
    late = case.working_share - min(1.0, case.active_share / with_block)
    return late if late >= _RAMP else 0.0


def memory_busy(case: Case) -> float | None:
    """Return the need of the busiest memory level; None where one that could be was not collected."""
    overall = case.utilisation.get("memory")
    levels = (case.needs.get("dram"), case.needs.get("l2"), l1_speed(case))
    known = [level for level in (*levels, overall) if level is not None]
    return max(known) if overall is not None or None not in levels else None


def l1_speed(case: Case) -> float | None:
    """Return the need of L1, None where only the load/store unit's part or a lower bound of it is known."""
    l1 = next((unit for unit in case.kernel.throughput if unit.unit == "l1"), None)
    is_bound = l1 is not None and l1.bound == "at-least" and "memory" not in case.utilisation
    whole = (l1 is not None and not is_bound) or case.number(WAVEFRONTS) is not None
    return case.needs.get("l1") if whole else None


def has_bulk_copies(case: Case) -> bool:
    """Tell whether one thread can start the copy of a whole tile; true of an architecture that is not known."""
    return _is_of(case, _HOPPER)


def copies_ahead_case(case: Case) -> str:
    """Return the case of the shared wording that says by what a program for this GPU fetches its next tile."""
    if not _is_of(case, _AMPERE):
        return "shared/ahead-in-registers"
    return "shared/ahead-by-tma" if has_bulk_copies(case) else "shared/ahead-by-cp-async"


def _is_of(case: Case, first: float) -> bool:
    capability = case.arch.compute_capability
    return not capability or float(capability) >= first


def while_active(case: Case, busy: float | None) -> float | None:
    """Return how busy a part of the SM is while its SM works; None where that is not known.

    Where active cycles were not collected, SMs without a block are those that do not work.
    """
    if busy is None:
        return None
    if case.active_share:
        return busy / case.active_share
    blocks, sms = case.blocks, _sms(case)
    if not blocks or not sms:
        return None
    return busy * sms / min(sms, blocks)


def cycles_of_passes(case: Case, passes: float) -> float | None:
    """Return the share of the elapsed cycles that passes through L1 take at most; None where that is not known.

    A pass of 32 words takes a cycle with 32 load/store units in an SM, and two at most with 16.
    """
    sms, cycles, rate = _sms(case), case.number(*_ELAPSED, "gpc__cycles_elapsed.max"), request_rate(case)
    return passes / (sms * cycles) / min(1.0, rate) if sms and cycles and rate else None


def _sms(case: Case) -> float | None:
    """Return the number of SMs; of an unknown GPU, by a count of all of them and its share of what they could do."""
    known = case.hardware.sm_count()
    if known is not None:
        return known
    passes, percent, cycles = case.number(SHARED_PASSES), case.number(SHARED_BUSY), case.number(*_ELAPSED)
    return passes / (percent / 100 * cycles) if passes and percent and cycles else None


def l1_keeps(case: Case, *percent: float | None) -> float:
    """Return the part of L1's need that stays once each request takes as few passes as it can.

    The requests stay, the registers that are written, and what else is given, in percent of the elapsed time.
    """
    l1 = case.needs.get("l1")
    stays = [part for part in (case.number(REQUESTS), case.number(_WRITEBACK), *percent) if part is not None]
    return min(1.0, max(stays) / 100 / l1) if l1 and stays else 0.0


def wavefronts_per_request(case: Case) -> float | None:
    """Return passes through L1's data pipe per request; None where they or the GPU's rate of requests are not known.

    The pipe's peak is a pass a cycle.
    """
    passes, rate = case.ratio(WAVEFRONTS, REQUESTS), request_rate(case)
    return passes / rate if passes is not None and rate is not None else None


def request_rate(case: Case) -> float | None:
    """Return how many requests an SM can take per cycle: one with 32 load/store units, half with 16."""
    lanes = case.arch.operations.get("load-store")
    return lanes.value / WARP_THREADS if lanes is not None else None


def least_passes(case: Case) -> float | None:
    """Return how many passes through L1 a request takes at least, where they and the requests were not counted.

    The use of the pipes that issue accesses is a request a cycle at most, that of L1 a pass a cycle: their ratio is no
    more than the passes of a request. Four of 16 bytes a thread stay below it on every architecture. Where the pipes
    were not collected, the SM's speed of light stands for them, which is that of its busiest part (basic set). Bulk
    copies from Hopper on reach L1 beside those pipes; they need shared memory.
    """
    l1, issued = l1_speed(case), case.number(_ISSUED)
    if issued is not None:
        part: float | None = issued / 100
    else:
        of_pipe = case.needs.get("lsu") if "lsu" in case.pipes else None
        can_copy = case.kernel.shared_memory_per_block != 0 and has_bulk_copies(case)
        part = of_pipe if of_pipe is not None or can_copy else case.utilisation.get("sm")
    return l1 / part if l1 and part else None
