"""Traffic of the memory levels: excess sectors, bytes, and the time that a unit explains."""

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
"""The first compute capability with `cp.async`, and the first with copies of a whole tile by one
thread (CUDA programming guide)."""
_ONE_WAY = "only"
"""Word in the definition of traffic that covers only one direction."""
LOCAL_SECTORS = tuple(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{what}.sum" for what in ("ld", "st"))
_LOCAL_MISSES = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum"
_RAMP = 0.1
"""Less idle time of SMs is the ramp at the start and the end of a kernel."""
_FELT = 0.1
"""Less than a tenth of a level's bytes does not make it the limit."""
_MANY = 1e6
"""Counts from here on are written with a prefix."""
_NOTICED = 1.01
"""A larger ratio to the ideal bytes is more than rounding and the kernel's own parameters."""


class CountedSectors(NamedTuple):
    """Excess and all sectors of global accesses, and their counters."""

    excess: float
    total: float
    evidence: tuple[Evidence, ...]


def counted_sectors(case: Case) -> CountedSectors | None:
    """Return sectors of global accesses, and the excess beyond those of contiguous bytes."""
    total, excess, ideal = map(case.number, (ALL_SECTORS, EXCESS_SECTORS, IDEAL_SECTORS))
    if total is None:
        return None
    if excess is not None:
        roles = {EXCESS_SECTORS: "excess-sectors", ALL_SECTORS: "sectors"}
    elif ideal is not None:
        excess = total - ideal
        roles = {ALL_SECTORS: "sectors", IDEAL_SECTORS: "needed-sectors"}
    else:
        return None
    return CountedSectors(excess, total, case.metrics_as(roles, "sector"))


def request_sectors(case: Case, what: str) -> float | None:
    """Return the sectors per request of loads ("ld") or stores ("st")."""
    return counted_request_sectors(case, what) or case.number(SECTORS_PER_REQUEST.format(what))


def counted_request_sectors(case: Case, what: str) -> float | None:
    """Return the sectors per request from counts of both; None if they were not collected."""
    return case.ratio(GLOBAL_SECTORS.format(what), GLOBAL_REQUESTS.format(what)) or None


def counts_case(total: float) -> CaseName:
    """Return the case of a headline for counts: "120 of 2 000" or "28.4 M of 31.9 M"."""
    return "shared/counts" if total < _MANY else "shared/large-counts"


def ideal_bytes(case: Case) -> float | None:
    """Return the bytes of contiguous global accesses; None if sectors were not counted."""
    counts = counted_sectors(case)
    if counts is None:
        return None
    return SECTOR_BYTES * max(0.0, counts.total - counts.excess)


def bytes_of(case: Case, level: str) -> float | None:
    """Return the bytes that a level moved; None if a direction was not collected."""
    moved = _both_ways(case, level)
    return moved.bytes if moved is not None else None


def rate_of(case: Case, level: str) -> float | None:
    """Return the bytes per second that a level moved; None if a direction was not counted.

    A percentage times a rated peak is no count: the actual clock can differ.
    """
    moved = _both_ways(case, level)
    if moved is None or moved.basis == "estimated":
        return None
    return moved.bytes_per_s


def _both_ways(case: Case, level: str) -> Traffic | None:
    return next((item for item in case.kernel.traffic if item.level == level and _ONE_WAY not in item.definition), None)


def excess_reaches(case: Case, level: str) -> bool:
    """Return whether a level moves more than global accesses need; true if unknown."""
    ideal, moved = ideal_bytes(case), bytes_of(case, level)
    return ideal is None or moved is None or moved > _NOTICED * ideal


def local_bytes_past_l1(case: Case) -> float | None:
    """Return the maximum bytes of local memory that L1 passes on: missing loads, and stores."""
    loads, stores = LOCAL_SECTORS
    passed = case.total((case.first_of((_LOCAL_MISSES, loads)), stores), of_all=True)
    if passed is None or case.number(loads) is None:
        return None
    return SECTOR_BYTES * passed


def local_reaches(case: Case, level: str) -> bool:
    """Return whether local memory can be a tenth of a level's bytes; true if unknown."""
    passed, moved = local_bytes_past_l1(case), bytes_of(case, level)
    return passed is None or moved is None or passed >= _FELT * moved


def explained(case: Case, busy: float | None, reasons: tuple[str, ...]) -> float:
    """Return the share of the time that a unit can explain: while it is busy, or warps wait for it
    or for each other.

    No unit reaches its peak in practice, so a unit that counts as well used explains all of the
    time. Warps can also wait for an idle unit: if its utilization or the stalls were not collected,
    it can explain everything. It can also explain all of the time in which some SMs have ended and
    others work: few warps are left then, and their waits are a small share.
    """
    if busy is None:
        return 1.0
    return at_work(case, busy, case.stall_at_most(*reasons, "barrier", "membar"))


def at_work(case: Case, busy: float, waits: float, late: float = 1.0) -> float:
    """Return the share of the time that a busy unit, waits and a part of the late share explain."""
    return min(1.0, max(busy, waits) / WELL_USED + late * late_share(case))


def capped(case: Case, bound: Saving, share: float, weight: float) -> Saving:
    """Bound a saving by its share of a unit's work, and by the share of the time that the unit
    explains.

    Both are shares of the time without the launch. The bound by waits assumes that the other waits
    stay: some of them can also go, if they result from these.
    """
    most = bound.no_more_than(share * (1.0 - case.need(LAUNCH)))
    if weight >= 1.0:
        return most
    return most.if_held(share * weight * case.working_share, OTHER_WAITS)


def late_share(case: Case) -> float:
    """Return the share of the time from the end of an average SM with a block to the last."""
    if case.active_share is None:
        return 0.0
    blocks, sms = case.blocks, _sms(case)
    with_block = min(1.0, blocks / sms) if blocks and sms else 1.0
    late = case.working_share - min(1.0, case.active_share / with_block)
    if late < _RAMP:
        return 0.0
    return late


def memory_busy(case: Case) -> float | None:
    """Return the need of the busiest memory level; None if that may not be collected."""
    overall = case.utilisation.get("memory")
    levels = (case.needs.get("dram"), case.needs.get("l2"), l1_speed(case))
    if overall is None and None in levels:
        return None
    return max(level or 0.0 for level in (*levels, overall))


def l1_speed(case: Case) -> float | None:
    """Return the need of L1; None if only a part or a lower bound of it is known."""
    l1 = next((unit for unit in case.kernel.throughput if unit.unit == "l1"), None)
    is_bound = l1 is not None and l1.bound == "at-least" and "memory" not in case.utilisation
    whole = (l1 is not None and not is_bound) or case.number(WAVEFRONTS) is not None
    return case.needs.get("l1") if whole else None


def has_bulk_copies(case: Case) -> bool:
    """Return whether one thread can copy a whole tile; true if the architecture is unknown."""
    capability = case.arch.compute_capability
    return not capability or float(capability) >= _HOPPER


def copies_ahead_case(case: Case) -> str:
    """Return the case of the shared wording on how this GPU fetches the next tile."""
    capability = case.arch.compute_capability
    if not capability:
        return "shared/ahead-on-any-gpu"
    if float(capability) < _AMPERE:
        return "shared/ahead-in-registers"
    return "shared/ahead-by-tma" if has_bulk_copies(case) else "shared/ahead-by-cp-async"


def while_active(case: Case, busy: float | None) -> float | None:
    """Return the utilization of a part of the SM while its SM works; None if that is not known.

    If active cycles were not collected, only SMs without a block count as idle.
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
    """Return the maximum share of the elapsed cycles that passes through L1 take, if known.

    A pass of 32 words takes a cycle with 32 load/store units in an SM, and at most two with 16.
    """
    sms, rate = _sms(case), request_rate(case)
    cycles = case.number(*_ELAPSED, "gpc__cycles_elapsed.max")
    if not sms or not cycles or not rate:
        return None
    return passes / (sms * cycles) / min(1.0, rate)


def _sms(case: Case) -> float | None:
    """Return the number of SMs; for an unknown GPU, from a count and its percentage of peak."""
    if case.sms is not None:
        return case.sms
    passes, percent, cycles = case.number(SHARED_PASSES), case.number(SHARED_BUSY), case.number(*_ELAPSED)
    if not passes or not percent or not cycles:
        return None
    return passes / (percent / 100 * cycles)


def l1_keeps(case: Case, *percent: float | None) -> float:
    """Return the part of L1's need that stays if each request takes as few passes as possible.

    Requests and writes of registers stay, and so do the other given needs, in percent of the
    elapsed time.
    """
    l1 = case.need("l1")
    if not l1:
        return 0.0
    stays = max(part or 0.0 for part in (case.number(REQUESTS), case.number(_WRITEBACK), *percent))
    return min(1.0, stays / 100 / l1)


def wavefronts_per_request(case: Case) -> float | None:
    """Return passes through L1's data pipe per request; None if they or the GPU's rate of requests
    are not known.

    The pipe's peak is one pass per cycle.
    """
    passes, rate = case.ratio(WAVEFRONTS, REQUESTS), request_rate(case)
    if passes is None or rate is None:
        return None
    return passes / rate


def request_rate(case: Case) -> float | None:
    """Return the most requests of an SM per cycle: one with 32 load/store units, half with 16."""
    lanes = case.arch.operations.get("load-store")
    if lanes is None:
        return None
    return lanes.value / WARP_THREADS


def least_passes(case: Case) -> float | None:
    """Return a lower bound of the passes through L1 per request, if passes and requests were not
    counted.

    The pipes that issue accesses take at most one request per cycle, and L1 takes one pass per
    cycle: the ratio of their utilizations is no more than the passes of a request. It stays below
    the four passes of accesses of 16 bytes per thread on every architecture. If the pipes were not
    collected (basic set), use the SM's speed of light, which is that of its busiest part. Bulk
    copies, from Hopper on, reach L1 without those pipes; they need shared memory.
    """
    l1, issued = l1_speed(case), case.number(_ISSUED)
    part = case.needs.get("lsu") if "lsu" in case.pipes else None
    if issued is not None:
        part = issued / 100
    elif part is None and (case.kernel.shared_memory_per_block == 0 or not has_bulk_copies(case)):
        part = case.utilisation.get("sm")
    return l1 / part if l1 and part else None
