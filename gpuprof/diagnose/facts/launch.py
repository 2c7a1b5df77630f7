"""Facts of the launch: grid, waves, block size and time, occupancy, and how evenly SMs are busy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

from msgspec import Struct

from gpuprof.diagnose.facts.counters import ELAPSED, SHARED_BUSY, SHARED_PASSES, Counters
from gpuprof.diagnose.facts.needs import launch_share
from gpuprof.diagnose.thresholds import (
    EMPTY_LANES,
    FULL_WAVE,
    OCCUPANCY_GAP,
    SHORT,
    SHORT_BLOCK,
    TAIL_SHARE,
    TAIL_SLACK,
    TAKEN,
    context,
)
from gpuprof.model.occupancy import blocks_at_once
from gpuprof.model.session import Evidence, Occupancy
from gpuprof.units import WARP_THREADS

BUSIEST_SM, AVERAGE_SM = "sm__cycles_active.max", "sm__cycles_active.avg"
WAVES = "launch__waves_per_multiprocessor"
FULL_OF = 0.9999
"""A larger fraction differs from 1 only by rounding."""
_LEAST_WAVES = 0.05
"""Text exports round waves to two digits; for fewer waves the error is more than a tenth."""
_RAMP = 0.1
"""Less idle time of SMs is the ramp at the start and the end of a kernel."""
LANES = ("smsp__thread_inst_executed_per_inst_executed.ratio", "derived__avg_thread_executed")
"""Active threads of an executed warp instruction."""


class OccupancyGap(Struct, frozen=True):
    """Warp slots that are empty despite enough blocks, beyond those of a partial last wave."""

    achieved: float
    theoretical: float
    expected: float

    @property
    def empty(self) -> float:
        """The empty share of the warp slots that blocks could fill while an SM has work."""
        return 1.0 - self.achieved / self.expected


class LaunchFacts(Counters):
    """The counters, and the facts of the launch."""

    @property
    def occupancy(self) -> Occupancy:
        """The theoretical and the achieved occupancy."""
        return self.kernel.occupancy

    @property
    def waves(self) -> float | None:
        """The waves of blocks on the GPU."""
        return self.kernel.waves

    @property
    def sms(self) -> int | None:
        """The SMs of the GPU."""
        return self.hardware.sm_count()

    @property
    def warps_per_sm(self) -> float | None:
        """The most resident warps of an SM."""
        limit = self.arch.limits.get("warps_per_sm")
        return limit.value if limit is not None else None

    @property
    def most_sms(self) -> float | None:
        """The SMs of the GPU, else the most of any GPU of its architecture; None if unknown."""
        siblings = (gpu.number("sm_count") or 0.0 for gpu in self.hardware.siblings())
        return self.sms or max(siblings, default=0.0) or None

    @property
    def blocks(self) -> int | None:
        """The blocks of the grid."""
        if self.kernel.grid is not None:
            return math.prod(self.kernel.grid)
        linear = self.number("launch__grid_size")
        return round(linear) if linear is not None else None

    @property
    def threads_per_block(self) -> int | None:
        """The threads of a block."""
        return math.prod(self.kernel.block) if self.kernel.block is not None else None

    @property
    def warps_per_block(self) -> int | None:
        """The warps of a block, the last one not always full."""
        threads = self.threads_per_block
        return -(-threads // WARP_THREADS) if threads is not None else None

    @property
    def warps(self) -> int | None:
        """The warps of the launch; None if its grid or block is not known."""
        blocks, of_block = self.blocks, self.warps_per_block
        if blocks is None or of_block is None:
            return None
        return blocks * of_block

    @property
    def schedulers(self) -> int:
        """The warp schedulers of an SM. Each issues at most one instruction per cycle."""
        return self.arch.limit("sub_partitions")

    @cached_property
    def active_share(self) -> float | None:
        """The average share of the elapsed cycles in which an SM had work."""
        return self._of_elapsed("sm__cycles_active.avg", "gpc__cycles_elapsed.max")

    @cached_property
    def busiest_share(self) -> float | None:
        """The share of the elapsed cycles in which the busiest SM had work."""
        return self._of_elapsed("sm__cycles_active.max")

    def _of_elapsed(self, cycles: str, *otherwise: str) -> float | None:
        share = self.ratio(cycles, "sm__cycles_elapsed.max", "sm__cycles_elapsed.avg", *otherwise)
        return min(1.0, share) if share is not None else None

    @cached_property
    def working_share(self) -> float:
        """The share of the elapsed time in which SMs have work, without the time of the launch.

        Waits and empty warp slots are parts of this time. If the busiest SM is not known, assume
        that it works as long as an average one of the SMs that have a block.
        """
        duration, working = self.kernel.duration_s, self.busiest_share
        if not duration:
            return 1.0
        with_block = self._with_block
        if working is None and self.active_share is not None and with_block:
            working = min(1.0, self.active_share / with_block)
        return 1.0 - launch_share(duration, working)

    @property
    def _with_block(self) -> float | None:
        """The share of the SMs that have a block; None if that is not known."""
        blocks, sms, waves = self.blocks, self.sms, self.waves
        if waves is not None and waves >= 1.0:
            return 1.0
        if blocks and sms:
            return min(1.0, blocks / sms)
        if blocks and self.most_sms and blocks >= self.most_sms:
            return 1.0
        per_sm = blocks_at_once(self.metrics, self.kernel.block, self.arch)
        if waves is None or waves < _LEAST_WAVES or not per_sm:
            return None
        return min(1.0, waves * per_sm)

    @cached_property
    def block_cycles(self) -> float | None:
        """The average lifetime of a block: active cycles of an SM × its resident blocks ÷ the
        blocks that it runs.

        If the number of SMs is not known, waves are the blocks that an SM runs over the blocks that
        fit in it.
        """
        kernel, occupancy, sms = self.kernel, self.occupancy, self.sms
        blocks, warps, room = self.blocks, self.warps_per_block, self.warps_per_sm
        cycles = self.number("sm__cycles_active.avg")
        if cycles is None and kernel.duration_s is not None and kernel.sm_clock_hz is not None:
            cycles = kernel.duration_s * kernel.sm_clock_hz
        if cycles is None or occupancy.achieved is None:
            return None
        if sms is None and kernel.waves and occupancy.theoretical:
            return cycles * min(1.0, occupancy.achieved / occupancy.theoretical) / kernel.waves
        if not blocks or not warps or not sms or room is None:
            return None
        return cycles * min(1.0, occupancy.achieved) * room / warps / (blocks / sms)

    @cached_property
    def idle_sms(self) -> float | None:
        """The idle share of an average SM while the busiest works; None if not plausible."""
        busiest, average = self.number(BUSIEST_SM), self.number(AVERAGE_SM)
        if not busiest or not average:
            return None
        idle = 1.0 - average / busiest
        return idle if idle < 1.0 else None

    @cached_property
    def filled_share(self) -> float | None:
        """The filled share of the warp slots over the kernel, or of the SMs if occupancy is not
        known.

        An SM with one block of the last round has work, and most of its warp slots are empty.
        """
        active = self.active_share
        theoretical, achieved = self.occupancy.theoretical, self.occupancy.achieved
        if active is None or not theoretical or achieved is None:
            return active
        return active * min(1.0, achieved / theoretical)

    @cached_property
    def late_share(self) -> float:
        """The share of the time from the end of an average SM with a block to the last."""
        if self.active_share is None:
            return 0.0
        blocks, sms = self.blocks, self.sms_or_implied
        with_block = min(1.0, blocks / sms) if blocks and sms else 1.0
        late = self.working_share - min(1.0, self.active_share / with_block)
        if late < _RAMP:
            return 0.0
        return late

    @property
    def is_under_a_wave(self) -> bool:
        """Whether SMs are idle because there are no blocks for them."""
        waves, blocks, sms = self.waves, self.blocks, self.sms
        if waves is not None:
            return waves < FULL_WAVE.value
        return blocks is not None and sms is not None and blocks < sms

    @property
    def is_held_by_blocks(self) -> bool:
        """Whether the maximum number of blocks per SM is the only limit on its warps."""
        occupancy = self.occupancy
        return (
            occupancy.limiters == ("blocks",) and occupancy.theoretical is not None and occupancy.theoretical < FULL_OF
        )

    @property
    def is_taken(self) -> bool:
        """Whether the available warp slots are taken."""
        occupancy = self.occupancy
        if occupancy.achieved is not None and occupancy.theoretical:
            return TAKEN.is_reached(occupancy.achieved / occupancy.theoretical)
        return self.waves is not None

    @property
    def is_short(self) -> bool:
        """Whether the launch takes about as long as the kernel, so that no gain is sure."""
        return self.kernel.duration_s is not None and self.kernel.duration_s < SHORT.value

    @property
    def lanes_of_block(self) -> float:
        """The average lanes of a warp that the threads of a block fill; all if unknown."""
        threads, warps = self.threads_per_block, self.warps_per_block
        if not threads or not warps:
            return WARP_THREADS
        return threads / warps

    @property
    def has_few_lanes(self) -> bool:
        """Whether no warp of a block can be full, so that only a few lanes access memory."""
        threads = self.threads_per_block
        return threads is not None and threads < WARP_THREADS

    @property
    def has_few_warps(self) -> bool:
        """Whether an SM full of such blocks still has free warp slots or empty lanes."""
        return self.has_few_lanes or self.is_held_by_blocks

    @property
    def filled_lanes(self) -> float:
        """The share of lanes with a thread, over the executed instructions; 1 if unknown.

        If the last warp executes less than the others, more lanes are active than a block fills on
        average.
        """
        return min(1.0, max(self.lanes_of_block, self.number(*LANES) or 0.0) / WARP_THREADS)

    @property
    def leaves_lanes_empty(self) -> bool:
        """Whether warps execute instructions for lanes that no thread fills."""
        return EMPTY_LANES.is_reached(1.0 - self.filled_lanes)

    @property
    def has_short_blocks(self) -> bool:
        """Whether blocks are so short that warp slots are often empty between them."""
        return self.block_cycles is not None and self.block_cycles < SHORT_BLOCK.value

    @property
    def is_between_blocks(self) -> bool:
        """Whether short blocks leave so many warp slots empty that occupancy has a gap."""
        achieved, theoretical = self.occupancy.achieved, self.occupancy.theoretical
        if achieved is None or theoretical is None or not self.has_short_blocks:
            return False
        return OCCUPANCY_GAP.is_reached(theoretical - achieved)

    @cached_property
    def sms_or_implied(self) -> float | None:
        """The number of SMs; for an unknown GPU, from a count and its percentage of peak."""
        if self.sms is not None:
            return self.sms
        passes, percent, cycles = self.number(SHARED_PASSES), self.number(SHARED_BUSY), self.number(*ELAPSED)
        if not passes or not percent or not cycles:
            return None
        return passes / (percent / 100 * cycles)

    @property
    def ends_together(self) -> bool:
        """Whether no SM works longer than the average one by more than a short block and the
        start of the next.

        If one does, a few blocks are long, however short the average block is.
        """
        busiest, average = self.number(BUSIEST_SM), self.number(AVERAGE_SM)
        return busiest is None or average is None or busiest - average <= 2 * SHORT_BLOCK.value

    @cached_property
    def occupancy_gap(self) -> OccupancyGap | None:
        """The gap of occupancy; None if it is small, or a small grid or a tail explains it."""
        waves, idle = self.waves, self.idle_sms
        achieved, theoretical = self.occupancy.achieved, self.occupancy.theoretical
        if waves is None or self.is_under_a_wave or not theoretical or achieved is None:
            # Without waves a small grid looks the same.
            return None
        if idle is not None and is_tail(waves, idle):
            return None
        expected = theoretical
        if has_tail(waves):
            expected *= 1.0 - tail_share(waves)
        if not OCCUPANCY_GAP.is_reached(expected - achieved):
            return None
        return OccupancyGap(achieved, theoretical, expected)

    def gap_evidence(self, gap: OccupancyGap) -> Iterator[Evidence]:
        """Yield the lifetime of a block and the gap of occupancy as evidence."""
        if self.block_cycles is not None:
            yield SHORT_BLOCK.evidence(self.block_cycles, "block-lifetime")
        yield from context(
            "achieved-occupancy", 100 * gap.achieved, "%", metric="sm__warps_active.avg.pct_of_peak_sustained_active"
        )
        yield from self.theoretical_evidence()
        role = "occupancy-below-beyond-tail" if gap.expected != gap.theoretical else "occupancy-below"
        yield OCCUPANCY_GAP.evidence(100 * (gap.expected - gap.achieved), role)

    def active_evidence(self) -> tuple[Evidence, ...]:
        """Return as evidence the share of the time in which an average SM had work."""
        if self.active_share is None:
            return ()
        return context("sms-with-work", 100 * self.active_share, "%", metric=AVERAGE_SM)

    def theoretical_evidence(self, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return theoretical occupancy as evidence; nothing if it is not known."""
        theoretical = self.occupancy.theoretical
        if theoretical is None:
            return ()
        metric = "sm__maximum_warps_per_active_cycle_pct"
        return (Evidence(metric, 100 * theoretical, "%", threshold, role="theoretical-occupancy"),)


def has_tail(waves: float) -> bool:
    """Return whether the last round of blocks is partial and takes a fifth of the time or more."""
    rounds = math.ceil(waves - 1e-6)
    return waves > 1 and rounds - waves >= 1e-6 and TAIL_SHARE.is_reached(1 / rounds)


def tail_share(waves: float) -> float:
    """Return the empty part of the last round as a fraction of all rounds."""
    return 1.0 - waves / math.ceil(waves - 1e-6)


def is_tail(waves: float, idle: float) -> bool:
    """Return whether the partial last round explains SMs that are idle for this share.

    The idle share can also be smaller if an SM runs several blocks, but then a long block would
    look the same.
    """
    return has_tail(waves) and 100 * abs(idle - tail_share(waves)) <= TAIL_SLACK.value
