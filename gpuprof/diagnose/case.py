"""The input of the rules for one kernel: its profile, metrics, code and bounds of gains."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TypeVar

from msgspec import Struct

from gpuprof.code.binary.elf import INSTRUCTION_BYTES
from gpuprof.code.binary.encodings import is_padding, opcodes_of
from gpuprof.diagnose.kernel_code import KernelCode, SeenCode
from gpuprof.diagnose.needs import LAUNCH, SM, WORK, Saving, launch_share, need_of_pipe, needs_of, saving
from gpuprof.errors import DamagedInput
from gpuprof.hardware.specs import WARP_OPCODES, ArchSpec
from gpuprof.model.analyse import Recorded
from gpuprof.model.ceilings import Hardware
from gpuprof.model.field_types import Confidence
from gpuprof.model.headline import AS_BUSY, stalls_of
from gpuprof.model.occupancy import blocks_at_once
from gpuprof.model.recorded import MetricTable, ProfiledInstruction
from gpuprof.model.roofline import is_possible
from gpuprof.model.session import (
    Communication,
    Copies,
    DeviceTimeline,
    Evidence,
    KernelProfile,
    Location,
    Occupancy,
    Pipe,
    Wait,
)
from gpuprof.units import WARP_THREADS

_Key = TypeVar("_Key", bound=Hashable)

MEMORY_STALLS = ("long_scoreboard", "lg_throttle", "tex_throttle", "drain")
"""Stall reasons of waits for global memory; see `Case.memory_stalls`."""
SHARED_STALLS = ("short_scoreboard", "mio_throttle")
SAMPLES = "smsp__pcsamp_sample_count"
EXECUTED = "inst_executed"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
FP64_SEEDS = ("MUFU.RCP64H", "MUFU.RSQ64H")
"""The first instructions of FP64 divisions and square roots."""
AT_LEAST_OF_RATED = 0.9
"""A margin for clocks above the one that a peak is rated at. A kernel needs at least this part of
its fraction of a rated peak."""
WELL_USED = 0.8
"""NVIDIA's speed-of-light rule calls a unit well used from this fraction on."""
COUNTS = (
    SAMPLES, EXECUTED,
    "derived__memory_l2_theoretical_sectors_global_excessive", "memory_l2_theoretical_sectors_global",
    "derived__memory_l1_wavefronts_shared_excessive", "memory_l1_wavefronts_shared",
    "memory_l2_theoretical_sectors_local", "smsp__branch_targets_threads_divergent",
)  # fmt: skip
"""Counts by instruction that weigh a kernel's code, beside the samples of each stall reason."""

_ROUNDING = 0.01
"""The most that the printed shares of all reasons can fall short of 1 by rounding."""
_LEAST_STALL = 0.01
"""Samples of a stall reason with a smaller share are not located in the code."""
_ISSUED_BEFORE = {"barrier": ("BAR", "UBAR"), "membar": ("MEMBAR", "ERRBAR", "CCTL", "FENCE"), "drain": ("EXIT",)}
"""Opcodes that a warp has issued before it waits for these reasons."""
_STORES = frozenset(
    {"ST", "STG", "STL", "RED", "REDG", "ATOM", "ATOMG", "SUST", "SURED", "UTMASTG", "UTMAREDG", "UBLKRED"}
)
"""Instructions whose writes to memory can still be in flight after an exit."""
_LEAST_WAVES = 0.05
"""Text exports round waves to two digits; for fewer waves the error is more than a tenth."""
_BEHIND = 16
"""The most instructions behind a barrier at which reports sampled its warps, and a few more."""
_TEXTURE_OPCODES = ("TEX", "TLD", "TMML", "TXA", "TXD", "TXQ", "SUATOM", "SULD", "SUQUERY", "SURED", "SUST")
_SAMPLED_NAMES = {"no_instruction": "no_instructions"}


class Pauses(Struct, frozen=True):
    """The pauses of the GPU that is idle longest in a timeline, and the activity that ends most.

    `idle_share` is the idle time of all GPUs of the run over their spans. `gpus` is their number,
    in `files` files. `rank` is that of the GPU's file. `ends` is the number of kernels and kinds of
    copies that end pauses. `most_s` is the idle time before the one that ends most. `rival_s` is
    the idle time before another kernel, if `wait` is for one.
    """

    device: DeviceTimeline
    wait: Wait
    idle_share: float
    gpus: int
    files: int
    rank: int | None
    ends: int
    most_s: float
    rival_s: float


class Exposed(Struct, frozen=True):
    """Copies (of one kind) or communication not overlapped by any kernel, for the worst GPU.

    `time_s` is that time, and `share` that of all GPUs of the run over their spans. The other
    fields are as in `Pauses`. If it waits for other ranks, `awaited` is the rank with the longest
    waits and its share of all waits.
    """

    device: DeviceTimeline
    done: Copies | Communication
    time_s: float
    share: float
    gpus: int
    files: int
    rank: int | None
    awaited: tuple[int, float] | None = None


class Faster(Struct, frozen=True):
    """The fastest configuration in which the kernel of a case did the same work.

    `case` is its launch of median duration. `duration_s` is the longest that this launch can take
    at the clocks of the slower case. `certainty` is the confidence that the work is the same.
    `clocks_differ` is None if a clock is not known well enough.
    """

    case: Case
    duration_s: float
    certainty: Confidence
    clocks_differ: bool | None


@dataclass
class Case:
    """One kernel under diagnosis. Fractions are of 1; a value that was not collected is None.

    `timed_only`: the kernel is of a timeline, without counters. `pauses` and `exposed` are those of
    the timeline, if this kernel reports them. `faster` is a configuration in which this kernel was
    faster for the same work. `run_share` is the share of its launches in the run: with a timeline,
    in the time that the GPUs were traced. `seen` is shared by the cases of a run.
    """

    kernel: KernelProfile
    recorded: Recorded
    pauses: Pauses | None = None
    exposed: tuple[Exposed, ...] = ()
    faster: Faster | None = None
    timed_only: bool = False
    run_share: float | None = None
    seen: SeenCode = field(default_factory=SeenCode)
    code_error: str | None = field(default=None, init=False)
    _opcodes: dict[str, Mapping[str, float]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def metrics(self) -> MetricTable:
        """The metrics of the launch."""
        return self.recorded.launch.metrics

    @property
    def hardware(self) -> Hardware:
        """The known facts of the GPU."""
        return self.recorded.hardware

    @property
    def arch(self) -> ArchSpec:
        """The known facts of the GPU's architecture."""
        return self.hardware.arch

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

    def number(self, *names: str) -> float | None:
        """Return the value of the first of these metrics that has a number in the report."""
        for name in names:
            value = self.metrics.number(name)
            if value is not None:
                return value
        return None

    def first_of(self, names: Iterable[str]) -> str:
        """Return the first of these metrics that has a number in the report; empty if none has."""
        for name in names:
            if self.metrics.number(name) is not None:
                return name
        return ""

    def ratio(self, metric: str, *over: str) -> float | None:
        """Return a metric over the first known one of others; None if unknown or divided by 0."""
        value, whole = self.number(metric), self.number(*over)
        if value is None or not whole:
            return None
        return value / whole

    def total(self, names: Iterable[str], *, of_all: bool = False) -> float | None:
        """Return the sum of these metrics as far as known; None without any, or all if `of_all`."""
        values = [*map(self.number, names)]
        known = [value for value in values if value is not None]
        if not known or (of_all and None in values):
            return None
        return sum(known)

    @cached_property
    def utilisation(self) -> Mapping[str, float]:
        """Speed of light of each unit over all elapsed cycles, at most 1."""
        return {unit.unit: min(1.0, unit.fraction) for unit in self.kernel.throughput if unit.is_exact}

    @cached_property
    def busiest(self) -> float | None:
        """The highest speed of light of any unit. A fix of anything else gains at most the rest."""
        return max(self.utilisation.values(), default=None)

    def at_most(self, unit: str) -> float | None:
        """Return the most that a unit needs; None if that is not known."""
        return self.needs.get(unit, self._bounded.get(unit))

    @cached_property
    def _bounded(self) -> Mapping[str, float]:
        """Speed of light of each unit, or its upper bound."""
        return {
            known.unit: known.fraction for known in self.kernel.throughput if known.is_exact or known.bound == "at-most"
        }

    def light_metric(self, unit: str) -> str:
        """Return the name of the metric behind a unit's speed of light; empty if it has none.

        If the unit is known by its parts, return the metric of the busiest part.
        """
        for link in self.arch.counters.get(f"throughput.{unit}", ()):
            known = [(value, name) for name, _ in link.terms if (value := self.number(name)) is not None]
            if known and len(known) == len(link.terms):
                _, name = max(known) if link.how == "largest" else known[0]
                return name
        if unit == SM:
            return self._busiest_part()
        return ""

    def _counters(self, quantity: str) -> tuple[str, ...]:
        return tuple(name for link in self.arch.counters.get(quantity, ()) for name, _ in link.terms)

    def _busiest_part(self) -> str:
        """Return the metric of the busiest part of an SM: of its issue slots, or of a pipe."""
        parts = [(pipe.fraction, pipe.metric) for pipe in self.kernel.pipes]
        for name in self._counters("scheduler.issue-slots"):
            value = self.number(name)
            if value is not None:
                parts.append((value / 100, name))
        return max(parts, default=(0.0, ""))[1]

    def busiest_evidence(self, role: str, threshold: float | None, *leave_out: str) -> tuple[Evidence, ...]:
        """Return the busiest unit's speed of light as evidence; nothing if none was collected."""
        units = [unit for unit in self.utilisation if unit not in leave_out]
        if not units:
            return ()
        unit = max(units, key=lambda name: self.utilisation[name])
        return (Evidence(self.light_metric(unit), 100 * self.utilisation[unit], "%", threshold, role=role),)

    @cached_property
    def needs(self) -> Mapping[str, float]:
        """The fraction of the elapsed time that each unit needs, as far as it was collected."""
        # An SM can also be empty between two waves, which other blocks change. Only a single wave
        # gives a bound.
        is_one_round = self.waves is not None and self.waves <= 1.0
        busiest = self.busiest_share if is_one_round else None
        needs = needs_of(self.kernel, self.l1_busy, self.active_share, busiest)
        for unit in self.kernel.throughput:
            if unit.bound == "at-least":
                needs.setdefault(unit.unit, unit.fraction)
        if self.timed_only and self.asked_work:
            # If two paths are possible, take the faster one.
            needs[WORK] = AT_LEAST_OF_RATED * min(self.asked_work.values())
        return needs

    def is_busiest(self, unit: str) -> bool:
        """Return whether a unit needs more than any other, except the whole SM and the launch."""
        others = (need for other, need in self.needs.items() if other not in (unit, SM, LAUNCH))
        return self.need(unit) > max(others, default=0.0)

    def need(self, unit: str) -> float:
        """Return the fraction of the elapsed time that a unit needs; 0 if it was not collected."""
        return self.needs.get(unit, 0.0)

    @cached_property
    def least_times(self) -> Mapping[str, float]:
        """The least fraction of the time that each unit needs.

        DRAM needs more than its fraction of peak, because no kernel reaches the peak.
        """
        least = {**self.needs}
        if "dram" in least:
            least["dram"] = min(1.0, least["dram"] / self.dram_reached)
        return least

    @cached_property
    def dram_reached(self) -> float:
        """The fraction of DRAM's peak that kernels reach."""
        return self.hardware.dram_reached(self.recorded.at_clock.get("dram"))

    def saving(self, relieved: Mapping[str, float]) -> Saving:
        """Bound the saving of a fix that leaves these parts of the units' needs (0: none)."""
        return saving(self.least_times, relieved)

    def saving_beside(self, units: Iterable[str], stays: float) -> Saving:
        """Bound the saving of a fix that leaves this part of the needs of all but these units."""
        return self.saving({unit: stays for unit in self.needs if unit not in units})

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

    @property
    def l1_busy(self) -> float | None:
        """The utilization of L1 and its load/store unit over all elapsed cycles."""
        return self.busiest_of_l1[1] if self.busiest_of_l1 is not None else None

    @cached_property
    def busiest_of_l1(self) -> tuple[str, float] | None:
        """The metric that shows L1 or its load/store unit busiest (empty if no single metric does),
        and the fraction.

        The basic set has no elapsed L1 throughput. Memory throughput that neither L2 nor DRAM
        explains is L1's.
        """
        known = [(self.utilisation["l1"], self.light_metric("l1"))] if "l1" in self.utilisation else []
        known += [(busy / 100, name) for name in (WAVEFRONTS, REQUESTS) if (busy := self.number(name)) is not None]
        if "lsu" in self.pipes:
            lsu = self.pipes["lsu"]
            need = need_of_pipe(lsu, self.active_share)
            if need is not None:
                known.append((need, lsu.metric))
        if known:
            busy, name = max(known, key=lambda item: item[0])
            return name, min(1.0, busy)
        memory = self.utilisation.get("memory")
        dram = self._bounded.get("dram")
        l2 = self._bounded.get("l2")
        if memory is None or dram is None or l2 is None or AS_BUSY * memory <= max(dram, l2):
            return None
        return self.light_metric("memory"), memory

    @cached_property
    def hit_rates(self) -> Mapping[str, float]:
        """The hit rate of sectors by memory level. That of L1 includes stores, hit or not."""
        return {moved.level: moved.hit_rate for moved in self.kernel.traffic if moved.hit_rate is not None}

    @cached_property
    def memory_utilisation(self) -> float | None:
        """The highest speed of light of the memory units."""
        return max((value for unit, value in self.utilisation.items() if unit != SM), default=None)

    @cached_property
    def stalls(self) -> Mapping[str, float]:
        """Shares of the warps' states by reason."""
        return {stall.reason: stall.share for stall in stalls_of(self.kernel)}

    def stall(self, *reasons: str) -> float:
        """Return the share of these reasons together."""
        return sum(self.stalls.get(reason, 0.0) for reason in reasons)

    def stall_at_most(self, *reasons: str) -> float:
        """Return the share of these reasons plus that of reasons that were not collected."""
        share = self.stall(*reasons)
        unknown = 1.0 - sum(self.stalls.values())
        if unknown > _ROUNDING:
            share += unknown
        return min(1.0, share)

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
        if self.opcodes():
            return any(count > 0 and name.startswith(_TEXTURE_OPCODES) for name, count in self.opcodes().items())
        fp64, textures = self.pipe("fp64"), self.pipe("tex")
        if textures is not None:
            return textures > 0
        return not fp64 or fp64 < max(pipe.fraction for pipe in self.kernel.pipes)

    def saving_of_wait(self, share: float) -> Saving:
        """Return the saving if warps no longer wait for something: the share of the wait, limited
        by idle issue slots.

        Both are shares of the time in which SMs have work. It is no bound, because a fix of a wait
        often also removes instructions or bytes.
        """
        most = self.working_share * min(share, 1.0 - (self.issue_active or 0.0))
        return self.saving({}).no_more_than(most).only_if("same-instructions-and-stalls")

    @cached_property
    def busiest_need(self) -> float | None:
        """The largest fraction of the time that a unit, pipe or the issue slots need."""
        return max((need for unit, need in self.needs.items() if unit != LAUNCH), default=None)

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

    @property
    def issue_active(self) -> float | None:
        """Fraction of the active cycles in which a scheduler issued an instruction."""
        return self.kernel.scheduler.issue_active if self.kernel.scheduler is not None else None

    @property
    def issues_rarely(self) -> bool:
        """Whether stalls matter: for NVIDIA, if fewer than 80 % of the issue slots are used."""
        return self.issue_active is None or self.issue_active < 0.8

    @cached_property
    def pipes(self) -> Mapping[str, Pipe]:
        """The execution pipes whose use was collected, by name."""
        return {pipe.name: pipe for pipe in self.kernel.pipes}

    def pipe(self, name: str) -> float | None:
        """Return the busy fraction of an execution pipe."""
        if name not in self.pipes:
            return None
        return self.pipes[name].fraction

    def pipe_evidence(self, name: str, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return a pipe's busy fraction as evidence; nothing if it was not collected."""
        if name not in self.pipes:
            return ()
        pipe = self.pipes[name]
        return (Evidence(pipe.metric, 100 * pipe.fraction, "%", threshold, role="pipe-busy", of=(name,)),)

    @cached_property
    def asked_work(self) -> Mapping[str, float]:
        """The operator's FLOP by its shapes over the rated peak of each path that it may run on."""
        asked = self.kernel.operator_flop
        parts = asked.utilisation if asked is not None and asked.exact else ()
        return {part.ceiling_path: min(1.0, part.fraction) for part in parts}

    @cached_property
    def arithmetic_fraction(self) -> float:
        """The largest fraction of a peak at this clock that floating-point work reaches, or 0."""
        most = 0.0
        for work in self.kernel.work:
            limit = self.recorded.at_clock.get(work.path)
            if not work.flop_per_s or "int32" in work.path or limit is None or limit.value <= 0:
                continue
            fraction = work.flop_per_s / limit.value
            if is_possible(fraction):
                most = max(most, fraction)
        return min(1.0, most)

    def metric(self, name: str, role: str, unit: str, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return a recorded metric as evidence; nothing if it was not recorded."""
        value = self.number(name)
        if value is None:
            return ()
        return (Evidence(name, value, unit, threshold, role=role),)

    def metrics_as(self, roles: Mapping[str, str], unit: str) -> tuple[Evidence, ...]:
        """Return the recorded ones of these metrics as evidence, with their roles."""
        return tuple(item for name, role in roles.items() for item in self.metric(name, role, unit))

    def stall_evidence(self, *reasons: str, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return the shares of stall reasons as evidence, with their metrics."""
        known = {stall.reason: stall for stall in stalls_of(self.kernel)}
        evidence: list[Evidence] = []
        for reason in reasons:
            if reason in known:
                metric = stall_metric(reason, known[reason].family)
                evidence.append(Evidence(metric, 100 * known[reason].share, "%", threshold, role="stall", of=(reason,)))
        return tuple(evidence)

    def issue_evidence(self, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return the used issue slots as evidence."""
        if self.issue_active is None:
            return ()
        name = self.first_of(self._counters("scheduler.issue-active"))
        return (Evidence(name, 100 * self.issue_active, "%", threshold, role="issue-slots"),)

    @cached_property
    def code(self) -> tuple[ProfiledInstruction, ...]:
        """The kernel's instructions with their counts, as far as the report has them."""
        return self.kernel_code.instructions

    @cached_property
    def kernel_code(self) -> KernelCode:
        """Those instructions, with the facts derived from them alone."""
        metrics = self.metrics
        if not metrics.instances(SAMPLES) and not metrics.instances(EXECUTED):
            return KernelCode()
        names = dict.fromkeys(COUNTS)
        for stall in self.kernel.stalls:
            if stall.family == "sampled" and stall.share >= _LEAST_STALL and stall.reason != "selected":
                names[stall_metric(stall.reason, stall.family)] = None
        try:
            return self.seen.of(self.recorded.launch, tuple(names))
        except DamagedInput as error:
            self.code_error = str(error)
            return KernelCode()

    @property
    def sass(self) -> tuple[str, ...]:
        """The texts of those instructions."""
        return self.kernel_code.sass

    @property
    def has_sass(self) -> bool:
        """Whether the text of any of those instructions is known."""
        return self.kernel_code.has_sass

    def opcodes(self, histogram: str = WARP_OPCODES) -> Mapping[str, float]:
        """Return how often each opcode was executed, with its modifiers; empty if not collected.

        The histogram decides whether it counts executions by warps or by threads.
        """
        if histogram not in self._opcodes:
            counted = self.metrics.instances(histogram) or {}
            self._opcodes[histogram] = summed((opcode_of(str(name)), count) for name, count in counted.items())
        return self._opcodes[histogram]

    @property
    def code_by_line(self) -> Mapping[tuple[str, int], list[ProfiledInstruction]]:
        """The instructions by source line (file and number), as far as they have one."""
        return self.kernel_code.by_line

    @cached_property
    def source_texts(self) -> Mapping[str, str] | None:
        """The embedded source texts by file; None, with `code_error` set, if they are damaged."""
        try:
            return self.recorded.launch.details.source_files()
        except DamagedInput as error:
            self.code_error = str(error)
            return None

    @cached_property
    def machine_code(self) -> bytes:
        """The kernel's machine code, counted or not; empty if the report embeds none."""
        return self.recorded.launch.details.machine_code()

    def place(
        self, weight: Callable[[ProfiledInstruction], float], among: Iterable[int] | None = None
    ) -> Location | None:
        """Return the source line with most weight, with its heaviest instruction; None if no
        instruction has weight.

        `among` limits the instructions by index. Of lines with equal weight, the first one counts.
        """
        numbers = range(len(self.code)) if among is None else among
        return self._place({number: heavy for number in numbers if (heavy := weight(self.code[number]))})

    def _place(self, weights: Mapping[int, float]) -> Location | None:
        """Return the same from the weights of instructions by index."""
        total = sum(weights.values())
        if total <= 0:
            return None
        line_of = self.kernel_code.first_of_line
        lines = summed((line_of[number], heavy) for number, heavy in weights.items())
        hottest = min(lines, key=lambda line: (-lines[line], line))
        on_line = (number for number in weights if line_of[number] == hottest)
        top = self.code[max(on_line, key=lambda number: weights[number])]
        return Location(file=top.file, line=top.line, pc=top.pc, sass=top.sass or None, share=lines[hottest] / total)

    def place_of(self, *names: str) -> Location | None:
        """Return the line with the most of the first of these counts that any instruction has."""
        for name in names:
            place = self._place(self.kernel_code.counted(name))
            if place is not None:
                return place
        return None

    def place_of_stall(self, *reasons: str) -> Location | None:
        """Return the line with most samples of these reasons, at its barrier, fence or store."""
        samples: dict[int, float] = {}
        for reason in reasons:
            for index, count in self.kernel_code.counted(stall_metric(reason, "sampled")).items():
                at = self._waited_at(index, reason)
                samples[at] = samples.get(at, 0.0) + count
        return self._place({at: samples[at] for at in sorted(samples)})

    def _waited_at(self, index: int, reason: str) -> int:
        """Return the index of the barrier, fence or store before a sample; else its own index.

        A warp that waits at a barrier has issued it, so the sample is at the next instruction of
        the warp, or a few later. A warp that drains has exited, and waits for the stores before its
        exit.
        """
        named, opcodes = self.opcode_names, _ISSUED_BEFORE.get(reason, ())
        before = range(index, max(-1, index - _BEHIND), -1)
        at = next((at for at in before if named[at].startswith(opcodes)), index)
        if reason != "drain" or named[at] != "EXIT":
            return at
        stores = (back for back in range(at, -1, -1) if named[back].partition(".")[0] in _STORES)
        return next(stores, index)

    def place_of_opcode(self, *starts: str) -> Location | None:
        """Return the line that executes most instructions with these opcode prefixes."""
        return self.place(_executed, _places_of(self.opcode_names, starts))

    def place_of_divisions(self) -> Location | None:
        """Return the line that executes most FP64 divisions and roots, by their first instructions.

        Their slow paths have another one, in shared functions without lines.
        """
        seeds = _places_of(self.opcode_names, FP64_SEEDS)
        return self.place(_executed, [at for at in seeds if self.code[at].line is not None] or seeds)

    @cached_property
    def opcode_names(self) -> tuple[str, ...]:
        """The opcodes of the instructions, from their text or machine code; empty if unknown."""
        start = None if self.has_sass else self._own_code
        if start is None:
            return tuple(map(opcode_of, self.sass))
        names = opcodes_of(self.machine_code)
        places = [(instruction.pc - start) // INSTRUCTION_BYTES for instruction in self.code]
        return tuple(names[place] if 0 <= place < len(names) else "" for place in places)

    @property
    def _own_code(self) -> int | None:
        """The address of the kernel's machine code. Instructions of functions elsewhere have other
        runs of addresses.

        The machine code is as long as its run, without padding. None unless exactly one run fits.
        """
        ends: dict[int, int] = {}
        start = None
        for instruction in self.code:
            if start is None or instruction.pc != ends[start]:
                start = instruction.pc
            ends[start] = instruction.pc + INSTRUCTION_BYTES
        code, fitting = self.machine_code, []
        for start, end in ends.items():
            if end - start <= len(code) and is_padding(code[end - start :]):
                fitting.append(start)
        if len(fitting) != 1:
            return None
        return fitting[0]


def _executed(instruction: ProfiledInstruction) -> float:
    """Return how often an instruction was executed; if that is 0, a tiny weight by its samples."""
    return instruction.counts.get(EXECUTED, 0.0) or 1e-9 * instruction.counts.get(SAMPLES, 0.0)


def stall_metric(reason: str, family: str) -> str:
    """Return the name of the metric behind a stall reason of a family."""
    if family == "counter":
        return f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"
    name = f"smsp__pcsamp_warps_issue_stalled_{_SAMPLED_NAMES.get(reason, reason)}"
    return f"{name}_not_issued" if family == "sampled-not-issued" else name


@lru_cache(maxsize=1 << 14)
def opcode_of(sass: str) -> str:
    """Return an instruction's opcode without its guard: `@!P0 LDG.E R2, …` → `LDG.E`."""
    tokens = sass.split()
    if tokens and tokens[0].startswith("@"):
        tokens = tokens[1:]
    if not tokens:
        return ""
    return tokens[0].rstrip(";")


@lru_cache(maxsize=512)
def _places_of(opcodes: tuple[str, ...], starts: tuple[str, ...]) -> tuple[int, ...]:
    """Return the indices of opcodes that have one of these prefixes with a dot appended."""
    return tuple(number for number, opcode in enumerate(opcodes) if f"{opcode}.".startswith(starts))


def summed(items: Iterable[tuple[_Key, float]]) -> dict[_Key, float]:
    """Return the sums of the numbers by key."""
    sums: dict[_Key, float] = {}
    for key, value in items:
        sums[key] = sums.get(key, 0.0) + value
    return sums
