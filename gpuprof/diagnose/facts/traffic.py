"""Facts of the traffic: bytes of each memory level, sectors and passes of accesses, and host memory."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from gpuprof.annotated.counts import ALL_SECTORS, EXCESS_SECTORS
from gpuprof.diagnose.facts.counters import Numbers
from gpuprof.diagnose.facts.units import REQUESTS, WAVEFRONTS
from gpuprof.diagnose.facts.waits import BULK_LOADS, WaitFacts
from gpuprof.model.session import Evidence, Traffic
from gpuprof.units import SECTOR_BYTES, WARP_THREADS

IDEAL_SECTORS = "memory_l2_theoretical_sectors_global_ideal"
GLOBAL_SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_{}.sum"
GLOBAL_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_{}.sum"
SECTORS_PER_REQUEST = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{}.ratio"
SHARED_ATOMICS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum.pct_of_peak_sustained_elapsed"
SHARED_CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
SHARED_CONFLICTS_BY_KIND = (
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
)
_AMPERE = 8.0
"""The first compute capability with `cp.async` (CUDA programming guide)."""
_ONE_WAY = "only"
"""Word in the definition of traffic that covers only one direction."""
LOCAL_SECTORS = ("l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum")
_LOCAL_MISSES = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum"
_BLOCKS_WITHOUT_SHARED = 8
"""The smallest carve-out, 8 KB, has the 1 KB that the driver keeps of a block for eight blocks (from Ampere on; before
that it keeps none, and as many fit as an SM can have)."""
_NOTICED = 1.01
"""A larger ratio to the ideal bytes is more than rounding and the kernel's own parameters."""
HOST_MISSES = "lts__t_sectors_srcunit_tex_aperture_sysmem_lookup_miss.sum"
HOST_FILLS = "lts__d_sectors_fill_sysmem.avg.pct_of_peak_sustained_elapsed"
"""Counters of accesses to host memory; the second is in every set of newer versions."""

_L2_PARTS = {
    "lts__t_sectors": "data",
    "lts__d_sectors": "data",
    "lts__lts2xbar_cycles_active": "crossbar-to-sms",
    "lts__xbar2lts_cycles_active": "crossbar-from-sms",
    "lts__t_tag_requests": "tag-lookups",
    "lts__d_atomic_input_cycles_active": "atomic-unit",
}
"""The parts of L2 by their metrics.

NVIDIA's descriptions of the metrics (`ncu --query-metrics`) define the counts. In recorded launches
on V100, A100, A40 and H100 the crossbar from the SMs is busy for a cycle or less per load request,
for one cycle per sector that a store fills, and for two per sector that it fills in part. The
crossbar to the SMs carries one sector per cycle and slice, on A100 and H100 two.
"""


class CountedSectors(NamedTuple):
    """Excess and all sectors of global accesses, and their counters."""

    excess: float
    total: float
    evidence: tuple[Evidence, ...]


class TrafficFacts(WaitFacts):
    """Facts of the launch, units and waits, and of the traffic of memory."""

    @cached_property
    def counted_sectors(self) -> CountedSectors | None:
        """Sectors of global accesses, and the excess beyond those of contiguous bytes."""
        total, excess, ideal = map(self.number, (ALL_SECTORS, EXCESS_SECTORS, IDEAL_SECTORS))
        roles = {EXCESS_SECTORS: "excess-sectors", ALL_SECTORS: "sectors"}
        if excess is None and total is not None and ideal is not None:
            excess = total - ideal
            roles = {ALL_SECTORS: "sectors", IDEAL_SECTORS: "needed-sectors"}
        if total is None or excess is None:
            return None
        return CountedSectors(excess, total, self.metrics_as(roles, "sector"))

    def request_sectors(self, what: str) -> float | None:
        """Return the sectors per request of loads ("ld") or stores ("st")."""
        return self.counted_request_sectors(what) or self.number(SECTORS_PER_REQUEST.format(what))

    def counted_request_sectors(self, what: str) -> float | None:
        """Return the sectors per request from counts of both; None if they were not collected."""
        return self.ratio(GLOBAL_SECTORS.format(what), GLOBAL_REQUESTS.format(what)) or None

    @cached_property
    def ideal_bytes(self) -> float | None:
        """The bytes of contiguous global accesses; None if sectors were not counted."""
        counts = self.counted_sectors
        if counts is None:
            return None
        return SECTOR_BYTES * max(0.0, counts.total - counts.excess)

    def bytes_of(self, level: str) -> float | None:
        """Return the bytes that a level moved; None if a direction was not collected."""
        moved = self._both_ways.get(level)
        return moved.bytes if moved is not None else None

    def bytes_per_s_of(self, level: str) -> float | None:
        """Return the bytes per second that a level moved; None if a direction was not counted.

        A percentage times a rated peak is no count: the actual clock can differ.
        """
        moved = self._both_ways.get(level)
        return moved.bytes_per_s if moved is not None and moved.basis != "estimated" else None

    @property
    def _both_ways(self) -> Mapping[str, Traffic]:
        """The traffic of each level, without a level of which only one direction was counted."""
        return {moved.level: moved for moved in self.kernel.traffic if _ONE_WAY not in moved.definition}

    def excess_reaches(self, level: str) -> bool:
        """Return whether a level moves more than global accesses need; true if unknown."""
        ideal, moved = self.ideal_bytes, self.bytes_of(level)
        return ideal is None or moved is None or moved > _NOTICED * ideal

    def local_share_of(self, level: str) -> float | None:
        """Return the most that local memory can be of a level's bytes, 0 to 1; None if not counted.

        It is all that L1 passes on: loads that miss L1, and stores, which L2 writes back.
        """
        loads, stores = LOCAL_SECTORS
        passed = self.total((self.first_of((_LOCAL_MISSES, loads)), stores), of_all=True)
        moved = self.bytes_of(level)
        if passed is None or self.number(loads) is None or not moved:
            return None
        return min(1.0, SECTOR_BYTES * passed / moved)

    def l1_keeps(self, percent: float = 0.0) -> float:
        """Return the part of L1's need that stays if each request takes as few passes as possible.

        Requests and writes of registers stay, and so does another need, in percent of the elapsed time.
        """
        l1 = self.need("l1")
        writes = self.number("l1tex__lsu_writeback_active.avg.pct_of_peak_sustained_elapsed")
        stays = max(percent, self.number(REQUESTS) or 0.0, writes or 0.0)
        return min(1.0, stays / 100 / l1) if l1 else 0.0

    @cached_property
    def l2_parts(self) -> Numbers:
        """The busy fraction of each part of L2, of the elapsed cycles of an average slice."""
        parts: dict[str, float] = {}
        for metric, part in _L2_PARTS.items():
            busy = self.number(f"{metric}.avg.pct_of_peak_sustained_elapsed")
            if busy is not None:
                parts[part] = max(parts.get(part, 0.0), busy / 100)
        return parts

    @property
    def wavefronts_per_request(self) -> float | None:
        """Passes through L1's data pipe per request; None if they or the GPU's rate of requests
        are not known.

        The pipe's peak is one pass per cycle.
        """
        passes, rate = self.ratio(WAVEFRONTS, REQUESTS), self.request_rate
        return passes / rate if passes is not None and rate is not None else None

    @property
    def request_rate(self) -> float | None:
        """The most requests of an SM per cycle: one with 32 load/store units, half with 16."""
        lanes = self.arch.operations.get("load-store")
        return lanes.value / WARP_THREADS if lanes is not None else None

    @property
    def passes(self) -> float | None:
        """The passes through L1 per request, or a lower bound if they were not counted; None if unknown.

        The pipes that issue accesses take at most one request per cycle, and L1 takes one pass per
        cycle: the ratio of their utilizations is no more than the passes of a request. It stays below
        the four passes of accesses of 16 bytes per thread on every architecture. If the pipes were not
        collected (basic set), use the SM's speed of light, which is that of its busiest part. Bulk
        copies, from Hopper on, reach L1 without those pipes. Their bytes keep L2 busy for longer than
        L1, so L1 serves other accesses in the rest of its time.
        """
        if self.wavefronts_per_request is not None:
            return self.wavefronts_per_request
        busy, issued = self.l1_speed, self.number("sm__memory_throughput.avg.pct_of_peak_sustained_elapsed")
        part = self.needs.get("lsu") if "lsu" in self.pipes else self.utilisation.get("sm")
        if issued is not None:
            part = issued / 100
        copies: float | None = 0.0
        if self.has_bulk_copies and self.uses_shared is not False:
            copies = self.at_most("l2")
        if not busy or not part or copies is None:
            return None
        return max(0.0, busy - copies) / part

    @property
    def uses_shared(self) -> bool | None:
        """Whether blocks use shared memory; None if neither their bytes nor anything else shows it.

        Bank conflicts and opcodes show it, and so do few blocks that fit: every launch gets shared
        memory for what the driver keeps of eight blocks. The queue of shared memory shows nothing:
        shuffles, special functions and matrix loads use it, too.
        """
        if self.kernel.shared_memory_per_block is not None:
            return self.kernel.shared_memory_per_block > 0
        conflicts = self.total((SHARED_CONFLICTS, *SHARED_CONFLICTS_BY_KIND))
        fits = self.number("launch__occupancy_limit_shared_mem")
        are_few = fits is not None and fits < _BLOCKS_WITHOUT_SHARED
        return bool(conflicts or self.executed("LDS", "STS") or are_few) or None

    @cached_property
    def waits_for_memory(self) -> float | None:
        """The share of memory in the warps' states other than barriers and fences, 0 to 1.

        A warp at a barrier waits for one that waits for memory as often as others do. None without
        the stalls on loads, or if the TMA engine may load: warps wait for its bytes in other states.

        Source: stall reasons, and opcodes if they were collected.
        """
        others = 1.0 - self.stall("barrier", "membar")
        bulk = self.executed(*BULK_LOADS) > 0 if self.opcodes else self.has_bulk_copies
        if "long_scoreboard" not in self.stalls or others <= 0.0 or bulk:
            return None
        return min(1.0, self.stall(*self.memory_stalls) / others)

    @property
    def copies_ahead_case(self) -> str:
        """The case of the shared wording on how this GPU fetches the next tile."""
        capability = self.arch.compute_capability
        if not capability:
            return "shared/ahead-on-any-gpu"
        if float(capability) < _AMPERE:
            return "shared/ahead-in-registers"
        return "shared/ahead-by-tma" if self.has_bulk_copies else "shared/ahead-by-cp-async"
