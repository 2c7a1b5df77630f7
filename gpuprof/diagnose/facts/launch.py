"""Facts of the launch: grid, waves, block size and time, occupancy, and how evenly SMs are busy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

from gpuprof.diagnose.facts.counters import ELAPSED, SHARED_BUSY, SHARED_PASSES, Counters
from gpuprof.diagnose.thresholds import (
    EMPTY_LANES,
    FULL,
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
_LEAST_WAVES = 0.1
"""Text exports round waves to two digits; for fewer waves the error is more than a twentieth."""
_LEAST_PERCENT = 0.2
"""Text exports round percentages to two digits, too."""
_RAMP = 0.1
"""Less idle time of SMs is the ramp at the start and the end of a kernel."""
LAUNCH_S = 1e-6
"""The shortest empty kernel takes about this long on any GPU since Volta."""

LAUNCH_MOST_S = 3e-6
"""Few kernels take longer to start and to end: 1.2 to 2.9 µs without work on any SM, in
kernels of 2.1 to 290 µs on an A100 and an H100. In a long kernel a larger difference comes from the
cycles of two passes, not from the launch.
"""
LANES = ("smsp__thread_inst_executed_per_inst_executed.ratio", "derived__avg_thread_executed")
"""Active threads of an executed warp instruction."""
UNIFORM_BRANCHES = "smsp__sass_average_branch_targets_threads_uniform.pct"


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

    @cached_property
    def waves_at_least(self) -> float:
        """The waves of blocks; if unknown, the fewest: warps ÷ warp slots of the architecture's largest GPU, or 0."""
        if self.waves is not None:
            return self.waves
        slots = self._most_sms * (self.warps_per_sm or 0.0)
        return self.warps / slots if slots else 0.0

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
    def blocks(self) -> int | None:
        """The blocks of the grid."""
        return math.prod(self.kernel.grid) if self.kernel.grid is not None else self.kernel.grid_size

    @property
    def threads_per_block(self) -> int | None:
        """The threads of a block."""
        return math.prod(self.kernel.block) if self.kernel.block is not None else self.kernel.block_size

    @property
    def warps_per_block(self) -> int:
        """The warps of a block, the last one not always full; 0 if its size is not known."""
        return math.ceil((self.threads_per_block or 0) / WARP_THREADS)

    @property
    def warps(self) -> int:
        """The warps of the launch; 0 if its grid or block is not known."""
        return (self.blocks or 0) * self.warps_per_block

    @cached_property
    def active_share(self) -> float | None:
        """The average share of the elapsed cycles in which an SM had work."""
        return self._of_elapsed(AVERAGE_SM, "gpc__cycles_elapsed.max")

    @cached_property
    def busiest_share(self) -> float | None:
        """The share of the elapsed cycles in which the busiest SM had work."""
        return self._of_elapsed(BUSIEST_SM)

    def _of_elapsed(self, cycles: str, *otherwise: str) -> float | None:
        share = self.ratio(cycles, "sm__cycles_elapsed.max", "sm__cycles_elapsed.avg", *otherwise)
        of_all = self.ratio(cycles, "sm__cycles_elapsed.sum")
        if share is None and of_all is not None and self.sms is not None:
            share = of_all * self.sms
        return min(1.0, share) if share is not None else None

    @cached_property
    def working_share(self) -> float:
        """The share of the elapsed time in which SMs have work, without the time of the launch.

        Waits and empty warp slots are parts of this time. If the busiest SM is not known, assume
        that it works as long as an average one of the SMs that have a block.
        """
        working = self.active_with_block if self.busiest_share is None else self.busiest_share
        return 1.0 - (self.launch_share(working) or 0.0)

    def launch_share(self, working: float | None) -> float | None:
        """Return the share of the time that the launch takes: no SM works then, whatever is changed in
        the kernel. None without a duration.

        `working` is the share of the elapsed cycles in which SMs work; if it is None, return the least
        share.
        """
        duration = self.kernel.duration_s
        if not duration:
            return None
        idle = 0.0 if working is None else 1.0 - working
        without_work = min(idle, LAUNCH_MOST_S / duration)
        return min(1.0, max(without_work, LAUNCH_S / duration))

    @cached_property
    def with_block(self) -> float | None:
        """The share of the SMs that have a block; None if that is not known.

        Each has one if there are more blocks than any GPU of the architecture has SMs.
        """
        if (self.waves or 0.0) >= 1.0:
            return 1.0
        if not self.blocks:
            return None
        if self.sms_or_implied:
            return min(1.0, self.blocks / self.sms_or_implied)
        return 1.0 if 0 < self._most_sms <= self.blocks else None

    @property
    def _most_sms(self) -> float:
        """The number of SMs; for an unknown GPU, the most of its architecture, or 0."""
        return self.sms or max((gpu.number("sm_count") or 0.0 for gpu in self.hardware.siblings()), default=0.0)

    @cached_property
    def sms_at_most(self) -> float:
        """The most SMs that the GPU can have if their number is not known; infinite without a bound.

        A GPU of the architecture has no more. An SM with a block works for at most the whole time, so
        SMs are at most blocks ÷ the share of the time in which an average SM works.
        """
        by_activity = (self.blocks or math.inf) / self.active_share if self.active_share else math.inf
        return min(self._most_sms or math.inf, by_activity)

    @cached_property
    def active_with_block(self) -> float | None:
        """The share of the elapsed cycles in which an average SM with a block had work."""
        if self.active_share is None or not self.with_block:
            return None
        return min(1.0, self.active_share / self.with_block)

    @property
    def resident_share(self) -> float:
        """The share of the warps that fit in an SM that are resident: achieved ÷ theoretical occupancy.

        1 if one of these is not known: no more warps fit.
        """
        theoretical, achieved = self.occupancy.theoretical, self.occupancy.achieved
        if not theoretical or achieved is None:
            return 1.0
        return min(1.0, achieved / theoretical)

    @cached_property
    def block_cycles(self) -> float | None:
        """The average lifetime of a block in active cycles of its SM: cycles × resident blocks ÷
        blocks that an SM runs.

        Waves are the blocks that an SM runs over those that fit. Without achieved occupancy assume
        that all that fit are resident: no block lives longer on average.
        """
        kernel = self.kernel
        cycles = self.number(AVERAGE_SM)
        if cycles is None and kernel.duration_s is not None and kernel.sm_clock_hz is not None:
            cycles = kernel.duration_s * kernel.sm_clock_hz
        if cycles is None or not self.waves or not self.occupancy.theoretical:
            return None
        return cycles * self.resident_share / self.waves

    @cached_property
    def idle_sms(self) -> float | None:
        """The idle share of an average SM while the busiest works.

        In two passes the average can exceed the busiest: then none is idle.
        """
        busy = self.ratio(AVERAGE_SM, BUSIEST_SM)
        return max(0.0, 1.0 - busy) if busy else None

    @cached_property
    def tail(self) -> float | None:
        """The empty part of a partial last round of blocks, of the time of all rounds; None if it
        takes less than a fifth of the time."""
        waves = self.waves or 0.0
        if waves <= 1.0:
            return None
        rounds = math.ceil(waves - 1e-6)
        if rounds - waves < 1e-6 or not TAIL_SHARE.is_reached(1 / rounds):
            return None
        return 1.0 - waves / rounds

    @property
    def is_tail_measured(self) -> bool:
        """Whether the average SM idles for the empty part of the last round.

        It can also idle for less if an SM runs several blocks, but then a long block would look the
        same.
        """
        if self.tail is None or self.idle_sms is None:
            return False
        return 100 * abs(self.idle_sms - self.tail) <= TAIL_SLACK.value

    @cached_property
    def late_share(self) -> float:
        """The share of the time from the end of an average SM with a block to the last."""
        if self.active_share is None:
            return 0.0
        late = self.working_share - (self.active_with_block or self.active_share)
        return late if late >= _RAMP else 0.0

    @property
    def is_under_a_wave(self) -> bool:
        """Whether SMs are idle because there are no blocks for them."""
        filled = self.waves if self.waves is not None else self.with_block
        return filled is not None and filled < FULL_WAVE.value

    @property
    def is_held_by_blocks(self) -> bool:
        """Whether the maximum number of blocks per SM is the only limit on its warps."""
        return self.occupancy.limiters == ("blocks",) and (self.occupancy.theoretical or 1.0) < FULL_OF

    @property
    def is_taken(self) -> bool:
        """Whether the available warp slots are taken."""
        theoretical, achieved = self.occupancy.theoretical, self.occupancy.achieved
        if achieved is None or not theoretical:
            return self.waves is not None
        return TAKEN.is_reached(achieved / theoretical)

    @property
    def is_short(self) -> bool:
        """Whether the launch takes about as long as the kernel, so that no gain is sure."""
        return self.kernel.duration_s is not None and self.kernel.duration_s < SHORT.value

    @property
    def lanes_of_block(self) -> float:
        """The average lanes of a warp that the threads of a block fill; all if unknown."""
        return (self.threads_per_block or WARP_THREADS) / (self.warps_per_block or 1)

    @property
    def has_few_lanes(self) -> bool:
        """Whether no warp of a block can be full, so that only a few lanes access memory."""
        return (self.threads_per_block or WARP_THREADS) < WARP_THREADS

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
    def occupancy_shortfall(self) -> float:
        """Theoretical minus achieved occupancy; 0 if one of them is not known."""
        theoretical, achieved = self.occupancy.theoretical, self.occupancy.achieved
        return theoretical - achieved if theoretical is not None and achieved is not None else 0.0

    @cached_property
    def sms_or_implied(self) -> float | None:
        """The number of SMs; for an unknown GPU, blocks ÷ waves ÷ blocks that fit in an SM, else by a
        count and its percentage of peak."""
        if self.sms is not None:
            return self.sms
        per_sm = blocks_at_once(self.metrics, self.kernel.block, self.arch)
        waves, percent = self.waves or 0.0, self.number(SHARED_BUSY) or 0.0
        if self.blocks and per_sm and waves >= _LEAST_WAVES:
            return self.blocks / waves / per_sm
        passes, cycles = self.number(SHARED_PASSES), self.number(*ELAPSED)
        if not passes or not cycles or percent < _LEAST_PERCENT:
            return None
        return passes / (percent / 100 * cycles)

    @property
    def idles_between_blocks(self) -> bool:
        """Whether SMs without work wait for the next short block, not for a long one of another SM.

        Then no SM works longer than the average one by more than a short block and the start of the
        next. Or blocks end about as fast as they start: an SM with work is not half full, and SMs
        have work for most of the time.
        """
        if not self.has_short_blocks:
            return False
        busiest, average = self.number(BUSIEST_SM), self.number(AVERAGE_SM)
        if busiest is None or average is None or busiest - average <= 2 * SHORT_BLOCK.value:
            return True
        return self.resident_share < 0.5 and average > busiest / 2

    @cached_property
    def occupancy_gap(self) -> float | None:
        """The empty share of the warp slots that blocks could fill while an SM has work, beyond
        those of a partial last wave; None if it is small, or if a small grid or a tail explains it.
        """
        achieved, theoretical = self.occupancy.achieved, self.occupancy.theoretical
        if self.waves is None or self.is_under_a_wave or not theoretical or achieved is None or self.is_tail_measured:
            # Without waves a small grid looks the same.
            return None
        expected = theoretical * (1.0 - (self.tail or 0.0))
        if not OCCUPANCY_GAP.is_reached(expected - achieved):
            return None
        return 1.0 - achieved / expected

    def gap_evidence(self) -> Iterator[Evidence]:
        """Yield the lifetime of a block and the gap of occupancy as evidence."""
        if self.block_cycles is not None:
            yield SHORT_BLOCK.evidence(self.block_cycles, "block-lifetime")
        if self.occupancy.achieved is None:
            return
        metric = "sm__warps_active.avg.pct_of_peak_sustained_active"
        yield from context("achieved-occupancy", 100 * self.occupancy.achieved, "%", metric=metric)
        yield OCCUPANCY_GAP.evidence(100 * self.occupancy_shortfall, "occupancy-below")

    def active_evidence(self) -> tuple[Evidence, ...]:
        """Return as evidence the share of the time in which an average SM had work."""
        share = None if self.active_share is None else 100 * self.active_share
        return context("sms-with-work", share, "%", metric=AVERAGE_SM)

    def theoretical_evidence(self) -> tuple[Evidence, ...]:
        """Return theoretical occupancy as evidence; nothing if it is not known."""
        theoretical = self.occupancy.theoretical
        if theoretical is None:
            return ()
        metric = "sm__maximum_warps_per_active_cycle_pct"
        return (FULL.evidence(100 * theoretical, "theoretical-occupancy", metric=metric),)
