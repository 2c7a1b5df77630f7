"""Facts of the units: how busy each is, and the part of the time that it needs.

All are fractions of the elapsed time, unless they say otherwise:

- `utilisation`: each unit's speed of light, as NVIDIA counts it; `busiest`: the highest;
  `memory_utilisation`: the highest of the memory units.
- `needs`: `utilisation`, and with it pipes, issue slots, L1 with its load/store unit, and the launch;
  what was not collected may be a lower bound. `busiest_need`: the highest, without the launch.
- `least_times`: `needs`, but DRAM against the rate that it reaches. Bounds rest on these.
- `at_most`: the need of a unit, or an upper bound of it.
- `memory_busy`, `l1_speed`: None if a part that may be busier was not collected.
- `pipe`: as its metric counts it, of elapsed or of active cycles. `issue_active`: of active cycles.
- `while_active`: a part of the SM over the time in which its SM works.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property

from gpuprof.diagnose.facts.counters import Numbers
from gpuprof.diagnose.facts.launch import LaunchFacts
from gpuprof.diagnose.facts.unit_names import ISSUE, LAUNCH, SM, WORK
from gpuprof.diagnose.thresholds import BUSY, NEAR_ROOF, WELL_USED
from gpuprof.model.ceilings import rated_bandwidth
from gpuprof.model.headline import AS_BUSY
from gpuprof.model.session import Evidence, Pipe
from gpuprof.units import SECTOR_BYTES

AT_LEAST_OF_RATED = 0.9
"""A margin for clocks above the one that a peak is rated at. A kernel needs at least this part of
its fraction of a rated peak."""
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed"
REQUESTS = "l1tex__lsuin_requests.avg.pct_of_peak_sustained_elapsed"
_CACHES = "gpu__compute_memory_access_throughput.avg.pct_of_peak_sustained_elapsed"
"""Mem Busy: what caches and DRAM do inside, without what they send and receive."""
_NO_REUSE = 10.0
"""Below this hit rate in percent, L2 sends few more bytes than it gets from DRAM, which is slower."""
_MISSES = (
    "lts__t_sectors_srcunit_tex_aperture_device_lookup_miss.sum",
    "lts__t_sectors_srcunit_tex_lookup_miss.sum",
    "lts__t_sectors_lookup_miss.sum",
)
_MOST_BUSY = 110.0
"""Maximum utilization in percent that is plausible: cycles of two passes differ."""

NOT_OF_LANES = ("dram", "l2", "tensor", LAUNCH)
"""Units that empty lanes cost nothing. Bytes do not depend on the threads that ask, and matrix
instructions use all lanes."""


class UnitFacts(LaunchFacts):
    """Facts of the launch, and of the units of the GPU."""

    @cached_property
    def throughput(self) -> Numbers:
        """Speed of light of each unit, exact or a bound."""
        return {known.unit: known.fraction for known in self.kernel.throughput}

    @cached_property
    def utilisation(self) -> Numbers:
        """Speed of light of each unit over all elapsed cycles, at most 1."""
        return {known.unit: min(1.0, known.fraction) for known in self.kernel.throughput if known.is_exact}

    @cached_property
    def busiest(self) -> float | None:
        """The highest speed of light of any unit. A fix of anything else gains at most the rest."""
        return max(self.utilisation.values(), default=None)

    def at_most(self, unit: str) -> float | None:
        """Return the most that a unit needs; None if that is not known, as of DRAM by its bytes alone."""
        if unit != "dram" and unit in self.needs:
            return self.needs[unit]
        return self._bounded.get(unit)

    @cached_property
    def _bounded(self) -> Numbers:
        """Speed of light of each unit, or its upper bound."""
        known = self.kernel.throughput
        return {unit.unit: unit.fraction for unit in known if unit.is_exact or unit.bound == "at-most"}

    def light_metric(self, unit: str) -> str:
        """Return the metric whose value is a unit's speed of light; empty if it is computed from others."""
        names = self.counters_of(f"throughput.{unit}")
        if unit == SM:
            names += self.counters_of("scheduler.issue-slots") + tuple(pipe.metric for pipe in self.kernel.pipes)
        return self._metric_with(names, self.throughput[unit]) if unit in self.throughput else ""

    def _metric_with(self, names: Iterable[str], fraction: float) -> str:
        """Return the first of these metrics whose value is this fraction, maybe in percent; empty if none is."""
        for name in names:
            scale = 100.0 if ".pct_of_peak" in name else 1.0
            value = self.number(name)
            if value is not None and math.isclose(value, scale * fraction, abs_tol=1e-12):
                return name
        return ""

    def busiest_evidence(self, role: str, threshold: float | None, *leave_out: str) -> tuple[Evidence, ...]:
        """Return the busiest unit's speed of light as evidence; nothing if none was collected."""
        known = [(busy, unit) for unit, busy in self.utilisation.items() if unit not in leave_out]
        if not known:
            return ()
        busy, unit = max(known)
        return (Evidence(self.light_metric(unit), 100 * busy, "%", threshold, role=role),)

    @cached_property
    def needs(self) -> Numbers:
        """The fraction of the elapsed time that each unit needs, as far as it was collected."""
        collected: dict[str, float | None] = {**self.utilisation, "l1": self._busiest_of_l1[0]}
        collected.pop("memory", None)
        collected |= {pipe.name: self._need_of_pipe(pipe) for pipe in self.kernel.pipes}
        collected[ISSUE] = self._of_all_cycles(self.issue_active)
        # An SM can also be empty between two waves, which other blocks change. Only a single wave
        # gives a bound.
        is_one_round = self.waves is not None and self.waves <= 1.0
        collected[LAUNCH] = self.launch_share(self.busiest_share if is_one_round else None)
        needs = {unit: min(1.0, max(0.0, need)) for unit, need in collected.items() if need is not None}
        for unit in self.kernel.throughput:
            if unit.bound == "at-least":
                needs.setdefault(unit.unit, unit.fraction)
        if "dram" not in needs and self.dram_at_least is not None:
            needs["dram"] = self.dram_at_least
        sm_busy = self.number("sm__instruction_throughput.avg.pct_of_peak_sustained_active")
        if sm_busy is not None and self.active_share is not None:
            needs.setdefault(SM, sm_busy / 100 * self.active_share)
        if self.timed_only and self.asked_work:
            # If two paths are possible, take the faster one.
            needs[WORK] = AT_LEAST_OF_RATED * min(self.asked_work.values())
        return needs

    def _need_of_pipe(self, pipe: Pipe) -> float | None:
        """Return the fraction of the elapsed time that a pipe needs; None if it is not known."""
        return pipe.fraction if pipe.metric.endswith("_elapsed") else self._of_all_cycles(pipe.fraction)

    def _of_all_cycles(self, of_active: float | None) -> float | None:
        """Return a fraction of the active cycles as one of the elapsed cycles; None if it is not known."""
        if of_active is None or self.active_share is None:
            return None
        return of_active * self.active_share

    def is_busiest(self, unit: str) -> bool:
        """Return whether a unit needs more than any other, except the whole SM and the launch."""
        others = (need for other, need in self.needs.items() if other not in (unit, SM, LAUNCH))
        return self.need(unit) > max(others, default=0.0)

    def need(self, unit: str) -> float:
        """Return the fraction of the elapsed time that a unit needs; 0 if it was not collected."""
        return self.needs.get(unit, 0.0)

    @cached_property
    def busiest_need(self) -> float | None:
        """The largest fraction of the time that a unit, pipe or the issue slots need."""
        return max((need for unit, need in self.needs.items() if unit != LAUNCH), default=None)

    @cached_property
    def least_times(self) -> Numbers:
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

    @cached_property
    def dram_at_least(self) -> float | None:
        """The least share of DRAM's peak that the kernel needs, if its own was not collected, 0 to 1.

        Memory's share if neither the caches nor reuse in L2 explain it. Else DRAM's bytes or L2's
        misses of 32 bytes per second over DRAM's peak: at the kernel's clock, as rated, or if the GPU
        is unknown, the largest of its architecture.

        Source: Max Bandwidth, Mem Busy and L2's hit rate; dram__bytes…, lts__t_sectors…_lookup_miss.sum.
        """
        memory, caches = self.utilisation.get("memory", 0.0), self.number(_CACHES)
        hits = self.number("lts__t_sector_hit_rate.pct")
        if caches is not None and caches < 100 * AS_BUSY * memory and hits is not None and hits < _NO_REUSE:
            return memory
        rate, peak = self._dram_rate, self._dram_peak
        if rate is None or not peak:
            return None
        return min(self.utilisation.get("memory", 1.0), rate / peak)

    @property
    def _dram_rate(self) -> float | None:
        """The least bytes per second of DRAM.

        By L2's misses they are reads alone. These are no count on GPUs with two halves of L2: a miss in
        one of them can be a hit in the other.
        """
        for moved in self.kernel.traffic:
            if moved.level == "dram" and moved.basis == "counted":
                return moved.bytes_per_s
        misses, duration = self.number(*_MISSES), self.kernel.duration_s
        if misses is None or not duration or "fabric.l2" in self.arch.counters:
            return None
        return misses * SECTOR_BYTES / duration

    @property
    def _dram_peak(self) -> float:
        """The most bytes per second of DRAM; 0 if neither the GPU nor its architecture is known."""
        limits = [self.recorded.at_clock.get("dram") or rated_bandwidth("dram", self.hardware.gpu)]
        if limits == [None]:
            limits = [rated_bandwidth("dram", gpu) for gpu in self.hardware.siblings()]
        return max((limit.value for limit in limits if limit is not None), default=0.0)

    @cached_property
    def _busiest_of_l1(self) -> tuple[float | None, str]:
        """The fraction of all elapsed cycles in which L1 or its load/store unit is busy, whichever is
        busiest, and the metric that shows it (empty if it is computed from others).

        The basic set has no elapsed L1 throughput. Memory throughput that neither L2 nor DRAM
        explains is L1's.
        """
        known = [(busy / 100, name) for name in (WAVEFRONTS, REQUESTS) if (busy := self.number(name)) is not None]
        if "l1" in self.utilisation:
            known.insert(0, (self.utilisation["l1"], self.light_metric("l1")))
        for pipe in self.kernel.pipes:
            need = self._need_of_pipe(pipe)
            if pipe.name == "lsu" and need is not None:
                known.append((need, self._metric_with((pipe.metric,), need)))
        memory = self.utilisation.get("memory", 0.0)
        if not known and AS_BUSY * memory > max(self._bounded.get(level, 1.0) for level in ("dram", "l2")):
            known.append((memory, self.light_metric("memory")))
        if not known:
            return None, ""
        busy, name = max(known, key=lambda item: item[0])
        return min(1.0, busy), name

    @cached_property
    def memory_utilisation(self) -> float | None:
        """The highest speed of light of the memory units."""
        return max((value for unit, value in self.utilisation.items() if unit != SM), default=None)

    @property
    def issue_active(self) -> float | None:
        """Fraction of the active cycles in which a scheduler issued an instruction."""
        return self.kernel.scheduler.issue_active if self.kernel.scheduler is not None else None

    @cached_property
    def pipes(self) -> Numbers:
        """The busy fractions of execution pipes by name, as far as they were collected."""
        return {pipe.name: pipe.fraction for pipe in self.kernel.pipes}

    def pipe(self, name: str) -> float | None:
        """Return the busy fraction of an execution pipe."""
        return self.pipes.get(name)

    def pipe_evidence(self, name: str, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return a pipe's busy fraction as evidence; nothing if it was not collected."""
        return tuple(
            Evidence(pipe.metric, 100 * pipe.fraction, "%", threshold, role="pipe-busy", of=(name,))
            for pipe in self.kernel.pipes
            if pipe.name == name
        )

    def issue_evidence(self, threshold: float | None = None) -> tuple[Evidence, ...]:
        """Return the used issue slots as evidence."""
        if self.issue_active is None:
            return ()
        name = self._metric_with(self.counters_of("scheduler.issue-active"), self.issue_active)
        return (Evidence(name, 100 * self.issue_active, "%", threshold, role="issue-slots"),)

    @cached_property
    def asked_work(self) -> Numbers:
        """The operator's FLOP by its shapes over the rated peak of each path that it may run on."""
        asked = self.kernel.operator_flop
        parts = asked.utilisation if asked is not None and asked.exact else ()
        return {part.ceiling_path: min(1.0, part.fraction) for part in parts}

    @cached_property
    def memory_busy(self) -> float | None:
        """The need of the busiest memory level; None if that may not be collected."""
        levels = (self.utilisation.get("dram"), self.needs.get("l2"), self.l1_speed)
        overall = self.utilisation.get("memory")
        if overall is None and None in levels:
            return None
        return max(level or 0.0 for level in (*levels, overall))

    @cached_property
    def l1_speed(self) -> float | None:
        """The need of L1; None if only a part or a lower bound of it is known."""
        is_whole = "l1" in self.throughput or self.number(WAVEFRONTS) is not None
        return self.needs.get("l1") if is_whole else None

    def while_active(self, busy: float | None) -> float | None:
        """Return the utilization of a part of the SM while its SM works; None if that is not known.

        If active cycles were not collected, only SMs without a block count as idle.
        """
        works = self.active_share or self.with_block
        return busy / works if busy is not None and works else None

    @property
    def is_l1_full(self) -> bool:
        """Whether L1 is a limit: busy for most of the time, or well used while SMs work if many
        have no work.

        All SMs share the other levels. If an SM hardly works, its L1 can seem three times as busy as
        possible (an empty kernel on an H100), which shows nothing.
        """
        while_working = self.while_active(self.need("l1")) or 0.0
        return BUSY.is_reached(self.need("l1")) or NEAR_ROOF.value <= 100 * while_working <= _MOST_BUSY

    def l1_evidence(self) -> tuple[Evidence, ...]:
        """Return the utilization of L1 or its load/store unit, if busier, and of that unit's parts."""
        roles = {WAVEFRONTS: "l1-data-pipe", REQUESTS: "l1-requests"}
        name = self._busiest_of_l1[1]
        role = roles.pop(name, "unit-busy") if name else "unit-busy-of-elapsed"
        busiest = BUSY.evidence(100 * self.need("l1"), role, "l1", metric=name)
        return (busiest, *self.metrics_as(roles, "%"))

    @cached_property
    def eligible_warps(self) -> float | None:
        """The warps per scheduler that could issue in an average cycle."""
        scheduler = self.kernel.scheduler
        return scheduler.eligible_warps if scheduler is not None else None

    @property
    def moves_bytes_well(self) -> bool:
        """Whether L2 or DRAM is well used, however many lanes ask for the bytes."""
        return max(self.need("dram"), self.need("l2")) >= WELL_USED
