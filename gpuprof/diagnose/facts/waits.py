"""Facts of the waits: shares of warp states by reason."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from gpuprof.annotated.counts import stall_metric
from gpuprof.diagnose.facts.counters import INSTRUCTIONS, Numbers
from gpuprof.diagnose.facts.unit_names import LAUNCH, MEMORY, SM, WORK
from gpuprof.diagnose.facts.units import UnitFacts
from gpuprof.diagnose.thresholds import (
    BARRIERS,
    BUSY,
    COVERED,
    OCCUPANCY_GAP,
    PIPE_BUSY,
    QUEUED,
    SM_PIPE,
    STARVED_ISSUE,
    THROTTLED,
    USED_DRAM,
    WELL_USED,
)
from gpuprof.model.headline import TWO_PASSES, stalls_of
from gpuprof.model.product_names import needs_few_warps_by_name
from gpuprof.model.session import Evidence, Stall

MEMORY_STALLS = ("long_scoreboard", "lg_throttle", "tex_throttle", "drain")
"""Stall reasons of waits for global memory; see `memory_stalls`."""
SHARED_STALLS = ("short_scoreboard", "mio_throttle")
WAITS: Mapping[str, tuple[str, ...]] = {
    "memory": MEMORY_STALLS,
    "shared": SHARED_STALLS,
    "barrier": ("barrier", "membar"),
    "dependency": ("wait", "gmma"),
    "fetch": ("no_instruction", "branch_resolving", "imc_miss"),
    "dispatch": ("dispatch_stall", "math_pipe_throttle"),
}
"""Stall reasons by cause, without those of warps that sleep or have no known cause."""
_NOT_SCALAR = (*MEMORY, SM, LAUNCH, WORK, "lsu", "tex", "tensor")
"""Needs that are not of the issue slots or an arithmetic pipe, which the SM's is a bound of."""
LATENCIES = ("long_scoreboard", "short_scoreboard", "wait", "barrier", "branch_resolving", "membar", "gmma")
"""Stall reasons that other warps can hide; in other states a queue or a pipe is full."""
_ROUNDING = 0.01
"""The most that the printed shares of all reasons can fall short of 1 by rounding."""
_TEXTURE_OPCODES = ("TEX", "TLD", "TMML", "TX", "SU")
"""Opcode prefixes of texture and surface instructions."""
_LOADS = ("LDG", "LDL", "LDGSTS", "LD", "TLD", "TLD4", "TEX", "SULD", "ATOM", "ATOMG")
BULK_LOADS = ("UBLKCP", "UTMALDG")
_HOPPER = 9.0
"""The first compute capability with copies of a whole tile by one thread (CUDA programming guide)."""
_FEW_WARPS = ("HGMMA", "IGMMA", "QGMMA", "BGMMA", "WARPGROUP", "UTC", "USETMAXREG")
"""Opcodes of wgmma (a warp group), tcgen05 (one thread), and of warps that pass on registers."""
GMMA = "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active"
"""Counts wgmma only."""
_OTHER_REASONS = (*SHARED_STALLS, "dispatch_stall", "sleeping", "gmma", "misc")
"""Stall reasons that no other rule reports."""

_HALVES_OF_FMA = ("fmaheavy", "fmalite")
"""Pipes whose mean is the FMA pipe: one of them is always as busy as that or busier."""


class WaitFacts(UnitFacts):
    """Facts of the launch and the units, and of the waits of warps."""

    @cached_property
    def stalls(self) -> Mapping[str, Stall]:
        """The warps' states by reason, counted or else sampled."""
        return {stall.reason: stall for stall in stalls_of(self.kernel)}

    def stall(self, *reasons: str) -> float:
        """Return the share of these reasons together."""
        return sum(self.stalls[reason].share for reason in reasons if reason in self.stalls)

    @cached_property
    def waits(self) -> Numbers:
        """Shares of the warps' states by cause (`WAITS`); "unknown" is the share that was not collected.

        Tex Throttle is a wait for dispatch if no textures can cause it.
        """
        shares = {cause: self.stall(*reasons) for cause, reasons in WAITS.items()}
        if "tex_throttle" not in self.memory_stalls:
            shares["memory"] -= self.stall("tex_throttle")
            shares["dispatch"] += self.stall("tex_throttle")
        unknown = 1.0 - self.stall(*self.stalls)
        shares["unknown"] = unknown if unknown > _ROUNDING else 0.0
        return shares

    def stall_at_most(self, *reasons: str) -> float:
        """Return the share of these reasons; all of the unknown share is theirs if one was not collected."""
        share = self.stall(*reasons)
        if any(reason in self.arch.stalls and reason not in self.stalls for reason in reasons):
            share += self.waits["unknown"]
        return min(1.0, share)

    def waits_behind(self, *reasons: str) -> float:
        """Return the share of these reasons and of the waits at barriers that result from them.

        A block waits at a barrier for its slowest warp. That one waits for these reasons as often as
        other warps do, so barriers count by the reasons' part of all waits that can delay a warp. Return 1
        without stalls.
        """
        counted = [reason for reason in reasons if reason not in MEMORY_STALLS or reason in self.memory_stalls]
        own = self.stall_at_most(*counted)
        others = sum(share for cause, share in self.waits.items() if cause not in ("barrier", "unknown"))
        delays = own - self.stall(*counted) + others
        return min(1.0, own + self.stall_at_most(*WAITS["barrier"]) * min(1.0, own / (delays or 1.0)))

    @property
    def has_bulk_copies(self) -> bool:
        """Whether one thread can copy a whole tile; true if the architecture is unknown."""
        return float(self.arch.compute_capability or _HOPPER) >= _HOPPER

    @cached_property
    def needs_few_warps(self) -> bool | None:
        """Whether few warps are enough by design; None if that is not known.

        A warp group or a thread issues an asynchronous matrix instruction (wgmma, tcgen05), which keeps
        the tensor pipe busy for more than 100 cycles. Others copy tiles, and need few registers. So few used
        issue slots, few warps and many of them at barriers are normal.

        Source: executed opcodes; else Stall GMMA or the pipe of wgmma; else the kernel's name.
        """
        if self.opcodes:
            return self.executed(*_FEW_WARPS) > 0
        if not self.has_bulk_copies:
            return False
        if self.number(GMMA) or self.stall("gmma") or needs_few_warps_by_name(self.kernel.demangled):
            return True
        return None if self.is_busiest("tensor") else False

    @property
    def issue_at_most(self) -> float | None:
        """The used issue slots of active cycles, 0 to 1; if not collected, the SM, which is at least as busy."""
        if self.issue_active is not None:
            return self.issue_active
        return self.while_active(self.utilisation.get(SM))

    @property
    def issues_rarely(self) -> bool:
        """Whether stalls matter: for NVIDIA, if fewer than 80 % of the issue slots are used.

        If these were not collected, use the SM while it works. Hardly a slot is idle, either, if as many
        warps could issue but did not as warps that did: if warps are ready independently of each other, and
        E of them on average, 1 − e^−E of the slots are used, and E is twice that at 80 %.
        """
        if self.issue_active is None and self.stall("not_selected") >= self.stall("selected") > 0:
            return False
        return self.issue_at_most is None or self.issue_at_most < WELL_USED

    @property
    def has_room(self) -> bool:
        """Whether more warps would find idle issue slots: few are used, although many are needed, hardly
        a warp is eligible, no unit is busy.

        If issue slots were not collected, use the SM over the elapsed cycles.
        """
        is_known = self.issue_active is not None or SM in self.utilisation
        if not is_known or self.busiest is None or (self.eligible_warps or 0.0) >= 1.0:
            return False
        used = max(self.issue_active or 0.0, self.busiest, self.busiest_need or 0.0)
        return used < STARVED_ISSUE.value / 100 and not self.needs_few_warps

    @cached_property
    def time_of_instructions(self) -> float | None:
        """The fraction of the elapsed time that issue slots and arithmetic pipes need, else the SM."""
        needs = [need for unit, need in self.needs.items() if unit not in _NOT_SCALAR]
        return max(needs, default=self.needs.get(SM))

    @property
    def waits_beside_instructions(self) -> bool:
        """Whether fewer instructions leave most of the time as it is.

        Issue slots and pipes are not busy, and warps mostly wait for memory or at barriers, or a memory
        level is busy, or barriers are as frequent as in reductions and scans, or warp slots are empty
        between short blocks.
        """
        if BUSY.is_reached(self.time_of_instructions):
            return False
        waits = self.waits["memory"] + self.waits["shared"] + self.waits["barrier"]
        is_in_steps = BARRIERS.is_reached(self.share_of_opcodes("BAR"))
        is_between_blocks = self.has_short_blocks and OCCUPANCY_GAP.is_reached(self.occupancy_shortfall)
        return COVERED.is_reached(waits) or BUSY.is_reached(self.memory_busy) or is_in_steps or is_between_blocks

    @cached_property
    def memory_stalls(self) -> tuple[str, ...]:
        """Stall reasons of waits for global memory; tex_throttle only if textures can cause it."""
        return tuple(reason for reason in MEMORY_STALLS if reason != "tex_throttle" or self._may_use_textures)

    @property
    def _may_use_textures(self) -> bool:
        """Whether warps in tex_throttle can wait for texture or surface instructions.

        FP64 instructions of a narrow pipe queue there, too. If neither opcodes nor the texture pipe
        were collected, they are the cause if the FP64 pipe is the busiest.
        """
        if self.opcodes:
            return self.executed(*_TEXTURE_OPCODES) > 0
        fp64, textures = self.pipe("fp64"), self.pipe("tex")
        if textures is not None:
            return textures > 0
        return not fp64 or fp64 < max(self.pipes.values())

    def stall_evidence(self, *reasons: str, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return the shares of stall reasons as evidence, with their metrics."""
        known = filter(None, map(self.stalls.get, reasons))
        return tuple(
            Evidence(
                stall_metric(stall.reason, stall.family),
                100 * stall.share,
                "%",
                threshold,
                role="stall",
                of=(stall.reason,),
            )
            for stall in known
        )

    @cached_property
    def other_reason(self) -> str:
        """The most frequent stall reason among those that no rule of its own reports."""
        return max(_OTHER_REASONS, key=self.stall)

    @property
    def others_cover(self) -> bool:
        """Whether other warps can hide most stalls; without stalls, if the use of units is known."""
        if self.stalls:
            return COVERED.is_reached(self.stall(*LATENCIES))
        return "sm" in self.utilisation and self.memory_utilisation is not None

    @property
    def more_warps_help(self) -> bool:
        """Whether warps beyond those that fit would find idle issue slots, and hide the stalls of others."""
        return self.has_room and self.is_taken and self.others_cover

    @cached_property
    def cycles_per_load(self) -> float | None:
        """The least cycles that warps wait for a load; None if not counted.

        A warp that waits for several loads at once counts its wait once. No warp waits for loads of the
        TMA engine.
        """
        stall = self.stalls.get("long_scoreboard")
        issued = self.number("smsp__inst_issued.sum", INSTRUCTIONS)
        loads = sum(count for name, count in self.opcode_counts().items() if name in _LOADS)
        if stall is None or stall.cycles_per_issue is None or not issued or not loads or self.executed(*BULK_LOADS):
            return None
        return stall.cycles_per_issue * issued / loads

    @property
    def queues_at_dram(self) -> bool:
        """Whether loads queue at DRAM: they take longer, and DRAM is well used while SMs work.

        Loads of a short kernel can take as long at an idle DRAM, such as first accesses to pages.
        """
        works = self.working_share
        if not works or (self.cycles_per_load or 0.0) < QUEUED.value:
            return False
        return USED_DRAM.is_reached(self.need("dram") / self.dram_reached / works)

    def is_pipe_limit(self, fraction: float) -> bool:
        """Return whether a pipe is busy, or the busiest of a busy SM or if warps wait for pipes."""
        if PIPE_BUSY.is_reached(fraction):
            return True
        sm = self.utilisation.get(SM, 0.0)
        for name, busy in self.pipes.items():
            # Pipes for memory accesses do not keep the SM busy if it is clearly busier than they are.
            keeps_busy = name not in ("lsu", "tex") or busy >= sm - TWO_PASSES
            if keeps_busy and name not in _HALVES_OF_FMA and busy > fraction:
                return False
        return self.waits_for_pipes or self.is_in_busy_sm(fraction)

    @property
    def waits_for_pipes(self) -> bool:
        """Whether many warps wait for a pipe."""
        return THROTTLED.is_reached(self.stall("math_pipe_throttle")) and self.issues_rarely

    def is_in_busy_sm(self, fraction: float) -> bool:
        """Return whether the SM is busy and a pipe with this utilization is a large part of that."""
        return PIPE_BUSY.is_reached(self.utilisation.get("sm")) and SM_PIPE.is_reached(fraction)
