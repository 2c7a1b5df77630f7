"""Facts of the load of L1: what global accesses, shared memory and matrix fragments cause of it."""

from __future__ import annotations

from functools import cached_property

from gpuprof.annotated.counts import EXCESS_SECTORS
from gpuprof.diagnose.facts.code import CodeFacts
from gpuprof.diagnose.facts.counters import ELAPSED, SHARED_BUSY, SHARED_PASSES
from gpuprof.diagnose.facts.traffic import GLOBAL_REQUESTS, GLOBAL_SECTORS, LOCAL_SECTORS
from gpuprof.diagnose.facts.units import REQUESTS, WAVEFRONTS
from gpuprof.diagnose.thresholds import EMPTY_SLOTS, MANY_WAVEFRONTS, NEAR_ROOF
from gpuprof.model.headline import AS_BUSY
from gpuprof.model.kernel_kinds import kind_named
from gpuprof.model.product_names import is_product_by_name, multiplies_on_tensor_cores
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.units import SECTOR_BYTES

_SECTORS_OF_PASS = 4
"""L1's data pipe moves at most 128 bytes in a pass, one a cycle."""
_ATOMICS = frozenset({"ATOM", "ATOMG", "RED", "REDG"})
_GLOBAL = frozenset({"LDG", "LD", "STG", "ST", "LDGSTS"}) | _ATOMICS
_SHARED = ("LDS", "STS", "ATOMS")
_BESIDE_GLOBAL = (*_SHARED, "LDL", "STL", "SHFL")
"""Opcodes of the load/store unit by memory: names of global accesses, prefixes of others, such as LDS of
LDSM. A generic access counts as global."""
_REREAD = 4.0
"""Global accesses that ask for this many times the bytes that L2 moves mostly read bytes that L1 has."""
_LITTLE_OF_L2 = 0.1
"""L2 gives an SM two sectors per cycle: with a tenth of L1's use it serves one load of five at most."""
_MOST_CONFLICTS = 16.5
"""Passes per request if a conflict of all 32 lanes follows each access of one pass."""
_LEAST_MULTIPLY_ADDS = 0.05
"""A matrix product without tiles has two loads and a dozen other instructions for each multiply-add."""


class L1Facts(CodeFacts):
    """Facts from counters and code, and of the load of L1."""

    @cached_property
    def l1_of_shared(self) -> float | None:
        """The least fraction of the elapsed time in which L1's data pipe works for shared memory.

        Source: its wavefronts, one a cycle; else at least one for each instruction. 0 if blocks use no
        shared memory: wavefronts counted as its own are of stores and shuffles then.
        """
        if self.uses_shared is False:
            return 0.0
        busy, passes = self.number(SHARED_BUSY), self.number(SHARED_PASSES)
        if busy is not None:
            return min(1.0, busy / 100)
        if passes is None and self.opcodes:
            passes = self.executed(*_SHARED)
        return self.of_passes(passes)

    @cached_property
    def l1_beside_global(self) -> float:
        """The least fraction of the elapsed time in which L1's data pipe works for shared and local
        memory, as far as they were counted.

        A pass moves at most four sectors of local memory.
        """
        local = self.of_passes((self.total(LOCAL_SECTORS) or 0.0) / _SECTORS_OF_PASS)
        return min(1.0, (self.l1_of_shared or 0.0) + (local or 0.0))

    @property
    def l1_keeps_bytes(self) -> float:
        """The least part of L1's need for shared and local memory and the bytes of contiguous global
        accesses, in passes of four sectors, as far as they were counted.

        Wider accesses do not remove these passes: only reuse does.
        """
        l1 = self.need("l1")
        needed = self.of_passes((self.ideal_bytes or 0.0) / SECTOR_BYTES / _SECTORS_OF_PASS)
        return min(1.0, (self.l1_beside_global + (needed or 0.0)) / l1) if l1 else 0.0

    def of_passes(self, passes: float | None) -> float | None:
        """Return the share of the elapsed cycles that passes through L1 take at one a cycle, if known."""
        cycles, sms = self.number(*ELAPSED), self.sms_or_implied
        if passes is None or not cycles or not sms:
            return None
        return min(1.0, passes / (sms * cycles))

    @cached_property
    def most_of_lsu_by_global(self) -> float:
        """The largest share of the load/store unit's instructions that are global accesses; 1 if unknown.

        Source: the opcode histogram.
        """
        accesses = sum(count for name, count in self.opcode_counts().items() if name in _GLOBAL)
        every = accesses + self.executed(*_BESIDE_GLOBAL)
        return accesses / every if every else 1.0

    @cached_property
    def most_of_l1_by_global(self) -> float:
        """The largest share of L1's need that global accesses cause; 1 if unknown.

        Shared memory keeps only the data pipe and the requests busy. If neither they nor the load/store
        unit are as busy as L1, another part of it is, which shared memory does not use.
        """
        l1, others = self.l1_speed, self.l1_beside_global
        if not l1 or self.l1_of_shared is None:
            return 1.0
        passes = (self.number(WAVEFRONTS) or 0.0) / 100
        if others >= AS_BUSY * l1:
            passes = max(passes, l1)
        issued = max((self.number(REQUESTS) or 0.0) / 100, self.need("lsu"))
        if max(passes, issued) < AS_BUSY * l1:
            return 1.0
        return min(1.0, max(passes - others, issued * self.most_of_lsu_by_global) / l1)

    @property
    def busy_by_global(self) -> float | None:
        """The need of the busiest memory level, of L1 only what global accesses cause; None if unknown."""
        if self.most_of_l1_by_global == 1.0 or not self.needs.keys() >= {"dram", "l2"}:
            return self.memory_busy
        return max(self.need("dram"), self.need("l2"), self.most_of_l1_by_global * self.need("l1"))

    @property
    def l1_has_room(self) -> bool:
        """Whether more blocks could use L1 better: no unit is busier, it is not well used while SMs
        work, and half of the warp slots or more have no block."""
        l1 = self.need("l1")
        is_small = self.waves is not None and EMPTY_SLOTS.is_reached(1.0 - self.waves)
        is_busiest = 0.0 < l1 == self.busiest_need and l1 >= (self.issue_active or 0.0)
        return is_small and is_busiest and not NEAR_ROOF.is_reached(self.while_active(l1) or l1)

    @property
    def mostly_hits_l1(self) -> bool | None:
        """Whether three of four sectors of global and local accesses hit in L1; None if not counted."""
        hits = self.number("l1tex__t_sector_hit_rate.pct")
        return hits >= 100 - 100 / _REREAD if hits is not None else None

    @cached_property
    def is_scattered(self) -> bool:
        """Whether global accesses cause many passes through L1 per request; false if bank conflicts may.

        Without shared memory they do. If shared memory is unknown: global accesses that mostly hit in L1
        are no copies into shared memory, and copies keep the mean of conflicts below half of 32 passes.
        """
        passes = self.passes or 0.0
        if passes < MANY_WAVEFRONTS.value:
            return False
        if self.uses_shared is not None:
            return not self.uses_shared
        return passes >= _MOST_CONFLICTS or bool(self.mostly_hits_l1)

    @cached_property
    def mostly_rereads(self) -> bool:
        """Whether global accesses mostly read bytes that L1 already has; false if unknown.

        Source: the bytes that they need over those of L2. Without counts of sectors, if requests are not
        scattered, L1's hit rate, or without shared memory how little L2 does beside L1.
        """
        moved = self.bytes_of("l2")
        if self.ideal_bytes is not None and moved:
            return self.ideal_bytes >= _REREAD * moved
        if self.passes is None or self.passes >= MANY_WAVEFRONTS.value:
            return False
        if self.mostly_hits_l1 is not None:
            return self.mostly_hits_l1
        l2 = self.at_most("l2")
        return self.uses_shared is False and l2 is not None and l2 < _LITTLE_OF_L2 * self.need("l1")

    @cached_property
    def multiplies(self) -> bool:
        """Whether the kernel multiplies matrices by its name or kind, or many of its instructions are
        multiply-adds; false if unknown."""
        kind = kind_named(self.kernel.kind)
        if kind is not None:
            return kind.multiplies
        has_many = self.share_of_opcodes("FFMA", "HFMA2", "DFMA") >= _LEAST_MULTIPLY_ADDS
        return has_many or is_product_by_name(self.kernel.demangled)

    @cached_property
    def uses_fragments(self) -> bool:
        """Whether operands are matrix fragments, by opcodes, else the tensor pipe, else the kernel's name."""
        if self.opcodes:
            return any(map(matrix_opcode, self.opcodes))
        tensor = self.pipe("tensor")
        return multiplies_on_tensor_cores(self.kernel.demangled) if tensor is None else tensor > 0.0

    @cached_property
    def excess_is_of_atomics(self) -> bool:
        """Whether atomics and reductions cause most excess sectors; false if unknown.

        Source: the sectors of each instruction; else those that loads and stores cannot cause.
        """
        excess, names = self.code.counted(EXCESS_SECTORS), self.code.opcode_names
        if excess:
            of_atomics = sum(count for at, count in excess.items() if names[at].partition(".")[0] in _ATOMICS)
            return 2 * of_atomics >= sum(excess.values())
        kinds = ("ld", "st")
        sectors = self.total(map(GLOBAL_SECTORS.format, kinds), of_all=True)
        requests = self.total(map(GLOBAL_REQUESTS.format, kinds), of_all=True)
        counts = self.counted_sectors
        if counts is None or sectors is None or requests is None:
            return False
        return 2 * (sectors - requests) < counts.excess
