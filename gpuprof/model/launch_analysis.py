"""One launch: from its metrics to work, traffic, roofline points, occupancy and stalls; what is missing has a reason.

Pure: the hardware comes in as a value. Nothing here reads files but through the launch's own lazy tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache

from msgspec import Struct, field, structs
from msgspec.structs import replace

from gpuprof.hardware.specs import LEVELS, PATHS, PIPES, THREAD_OPCODES, WARP_OPCODES, Basis, ComputeKey
from gpuprof.hardware.trust import CERTIFIED, CHECKED, NONE, Trust
from gpuprof.model.ceilings import (
    Hardware,
    Limit,
    bandwidth_at_clock,
    compute_at_clock,
    rated_bandwidth,
    rated_compute,
)
from gpuprof.model.collected import other_counters
from gpuprof.model.counts import launch_counts
from gpuprof.model.field_types import THROUGHPUT_UNITS, CeilingOrigin, ThroughputUnit
from gpuprof.model.groups import Resources
from gpuprof.model.headline import TWO_PASSES
from gpuprof.model.occupancy import (
    blocks_at_once,
    launch_resources,
    reached_occupancy,
    reported_limiters,
    shared_of_block,
    theoretical_occupancy,
)
from gpuprof.model.path_names import work_unit
from gpuprof.model.quantities import (
    COLLECT,
    NO_CLOCKS,
    Clocks,
    Counted,
    constant_moves,
    evaluate,
    first_counted,
    no_value,
    tensor_split,
)
from gpuprof.model.recorded import Launch, Missing, integer, printed_rounding
from gpuprof.model.roofline import Roof, is_possible, roofline_point
from gpuprof.model.session import (
    KernelProfile,
    Occupancy,
    Pipe,
    RooflinePoint,
    Scheduler,
    Stall,
    Throughput,
    Traffic,
    Work,
)
from gpuprof.model.stalls import LEAST_SAMPLES, stall_breakdown
from gpuprof.units import format_si

_FLOP_PER_HFMA2 = 4
"""What the FP16 counters see in one HFMA2 thread instruction: two lanes, multiply and add."""

_FULL = 100.0
_FABRIC = "fabric.l2"
_HALVES = ("fmaheavy", "fmalite")
"""Parts of a pipe, which count with it."""
_SAME_OCCUPANCY = 0.5
"""Percent by which two theoretical occupancies may differ: printed ones are rounded, and a warp of 64 is 1.6."""
_DURATION = "gpu__time_duration.sum"
_WAVES = "launch__waves_per_multiprocessor"
_PROFILE_AGAIN = "ncu recorded no numbers for this launch: profile it again"

CHECK_CEILING = "profile it again; if that changes nothing, name the GPU's spec with --spec"
"""What to do about counters that cannot be."""

_RATES = ("per-second", "per-sm-cycle", "percent-of-peak")
"""Links whose metrics are rates already: they tell FLOP/s and bytes/s even where the duration was not recorded."""

_HISTOGRAMS = (THREAD_OPCODES, WARP_OPCODES)

Split = Mapping[ComputeKey, float]


class LaunchProfile(Struct, frozen=True):
    """A launch's profile, not yet placed among the others, and the ceilings that it was held against."""

    profile: KernelProfile
    at_clock: Mapping[str, Limit]
    rated: Mapping[str, Limit]
    measured: Mapping[str, Limit]


def profile_launch(
    launch: Launch, source: int, device: int, hardware: Hardware, remedy: str = COLLECT, *, rank: int | None = None
) -> LaunchProfile:
    """Compute everything that the metrics of one launch allow; `remedy` says how to get what they lack."""
    return _LaunchAnalysis(launch, hardware, remedy).result(source, device, rank)


def launch_duration(launch: Launch, hardware: Hardware) -> float | None:
    """Return a launch's duration in seconds, None where it was not recorded or is zero."""
    return _positive(launch, hardware, "duration")


def launch_clock(launch: Launch, hardware: Hardware) -> float | None:
    """Return the average SM clock of a launch in Hz, None where its report does not tell."""
    sm_hz, gpc_hz = (_positive(launch, hardware, what) for what in ("sm-clock", "gpc-clock"))
    return hardware.sm_clock(sm_hz, gpc_hz, launch_duration(launch, hardware)).hz


def _positive(launch: Launch, hardware: Hardware, what: str) -> float | None:
    chain = hardware.arch.counters.get(what)
    counted = first_counted(chain, what, launch.metrics, NO_CLOCKS) if chain else None
    return counted.value if counted is not None and counted.value > 0 else None


def resources_of(launch: Launch, hardware: Hardware) -> Resources:
    """Return what a launch takes of an SM beside its threads, as its profile has it."""
    registers = integer(launch.metrics, "launch__registers_per_thread")
    return Resources(registers, shared_of_block(launch.metrics, hardware.arch))


class _Amount(Struct, frozen=True):
    """A quantity of one launch: its total, its rate per second, or both."""

    total: float | None
    per_second: float | None
    basis: Basis
    definition: str
    certificate: Trust = NONE


class _LaunchAnalysis(Struct):
    """The values that the steps of one launch's analysis share."""

    launch: Launch
    hardware: Hardware
    remedy: str
    missing: list[Missing] = field(default_factory=list)
    clocks: Clocks = NO_CLOCKS
    sm_clock_source: str | None = None
    split: Split | None = None
    at_clock: dict[str, Limit] = field(default_factory=dict)
    rated: dict[str, Limit] = field(default_factory=dict)
    measured: dict[str, Limit] = field(default_factory=dict)
    above_ceiling: frozenset[str] = frozenset()
    known: set[str] = field(default_factory=set)

    def result(self, source: int, device: int, rank: int | None) -> LaunchProfile:
        """Run the steps in the order in which they need each other, and in which `missing` lists what they lack."""
        launch, resources = self.launch, resources_of(self.launch, self.hardware)
        self.clocks = self._read_clocks()
        self.split = self._read_split()
        work = tuple(self._work())
        traffic = tuple(self._traffic())
        self.above_ceiling = frozenset(self._above_ceiling(work, traffic))
        busy = (unit for unit in self._throughput(traffic) if self._can_be(f"throughput.{unit.unit}", unit.fraction))
        throughput = with_l2_bounded(tuple(busy))
        scheduler = self._scheduler()
        occupancy = self._occupancy(scheduler)
        stalls = self._stalls()
        pipes = tuple(pipe for pipe in self._pipes() if self._can_be(f"pipe.{pipe.name}", pipe.fraction))
        duration_s = self.clocks.duration_s
        counters = self.hardware.arch.counters
        collected, collected_total = other_counters(
            launch.metrics,
            (counters[what] for what in self.known),
            stalls=bool(stalls),
            units=bool(throughput),
        )
        profile = KernelProfile(
            id=0,
            source=source,
            device=device,
            rank=rank,
            process=launch.process,
            stream=launch.stream,
            name=launch.name,
            demangled=launch.demangled,
            label=launch.name,
            ranges=launch.ranges,
            grid=launch.grid,
            block=launch.block,
            registers_per_thread=resources.registers_per_thread,
            shared_memory_per_block=resources.shared_memory_per_block,
            launches=1,
            duration_s=duration_s,
            duration_percentiles_s=None,
            duration_source="counters" if duration_s is not None else None,
            time_total_s=duration_s,
            time_share=None,
            sm_clock_hz=self.clocks.sm_hz,
            dram_clock_hz=self.clocks.dram_hz,
            throttled=None,
            work=work,
            traffic=traffic,
            roofline=tuple(self._points(work, traffic)),
            throughput=throughput,
            occupancy=occupancy,
            stalls=stalls,
            findings=(),
            waves=self._waves(),
            scheduler=scheduler,
            pipes=pipes,
            missing=_grouped(tuple(self.missing)),
            counts=launch_counts(launch.metrics, self.hardware.arch, self.hardware.absent),
            sm_clock_source=self.sm_clock_source,
            sm_cycles_per_s=self.clocks.sm_cycles_per_s,
            grid_size=integer(launch.metrics, "launch__grid_size") if launch.grid is None else None,
            block_size=integer(launch.metrics, "launch__block_size") if launch.block is None else None,
            shared_memory_of_driver=self._shared_of_driver(),
            collected=collected,
            collected_total=collected_total,
        )
        return LaunchProfile(profile, self.at_clock, self.rated, measured=self.measured)

    def _shared_of_driver(self) -> int | None:
        """Return the shared memory that the driver reserves for a block; None if the block's own is not known."""
        needs = launch_resources(self.launch.metrics, self.launch.block, self.hardware.arch)
        return needs.reserved_shared_bytes if needs is not None else None

    def _read_clocks(self) -> Clocks:
        duration = self._quantity("duration", NO_CLOCKS)
        if duration is None and self.launch.metrics.has(_DURATION) and not self.launch.metrics.is_strange(_DURATION):
            self.remedy = _PROFILE_AGAIN
            self.missing = [structs.replace(gap, how=_PROFILE_AGAIN) for gap in self.missing]
            recorded = self.launch.metrics.get(_DURATION)
            if recorded is not None and isinstance(recorded.value, float) and not math.isnan(recorded.value):
                why = f"{recorded.value:g} s was recorded, which no launch takes"
                self.missing = [
                    structs.replace(gap, why=why) if gap.what == "duration" else gap for gap in self.missing
                ]
        duration_s = duration.value if duration is not None and duration.value > 0 else None
        sm_hz, gpc_hz = self._positive("sm-clock"), self._positive("gpc-clock", quiet=True)
        clock = self.hardware.sm_clock(sm_hz, gpc_hz, duration_s)
        self.sm_clock_source = clock.source
        clocks = Clocks(
            duration_s=duration_s,
            sm_hz=clock.hz,
            sm_cycles_per_s=clock.counted_hz,
            dram_hz=self._positive("dram-clock", quiet=True),
            own_l2_hz=self._positive("l2-clock", quiet=True),
        )
        dram = bandwidth_at_clock("dram", self.launch.metrics, self.hardware, clocks)
        return replace(clocks, dram_peak_bytes_per_s=dram.value if dram is not None else None)

    def _positive(self, what: str, *, quiet: bool = False) -> float | None:
        counted = self._quantity(what, NO_CLOCKS, quiet=quiet)
        return counted.value if counted is not None and counted.value > 0 else None

    def _quantity(self, what: str, clocks: Clocks, *, quiet: bool = False) -> Counted | None:
        """Evaluate a chain of the architecture; note the reason where it has no value (unless `quiet`)."""
        chain = self.hardware.arch.counters.get(what)
        if chain is None:
            return None
        if what in self.hardware.absent:
            if not quiet:
                self.missing.append(no_value(chain, what, self.remedy))
            return None
        if quiet:
            counted: Counted | Missing | None = first_counted(chain, what, self.launch.metrics, clocks)
        else:
            counted = evaluate(chain, what, self.launch.metrics, clocks, self.remedy)
        if isinstance(counted, Missing):
            self.missing.append(counted)
            return None
        if counted is not None:
            self.known.add(what)
        return counted

    def _read_split(self) -> Split | None:
        """Return the tensor work by accumulator and instruction, as far as the opcodes tell their shape."""
        split = tensor_split(self.launch.metrics)
        return {key: flop for key, flop in split.items() if flop is not None} if split is not None else None

    def _amount(self, what: str, *, quiet: bool = False) -> _Amount | None:
        """Return a quantity as total and rate; without a duration only the rate, from the counters that are rates."""
        duration_s = self.clocks.duration_s
        if duration_s is not None:
            total = self._quantity(what, self.clocks, quiet=quiet)
            return self._counted(what, total, total.value, total.value / duration_s) if total is not None else None
        rates = tuple(link for link in self.hardware.arch.counters.get(what, ()) if link.how in _RATES)
        rate = first_counted(rates, what, self.launch.metrics, replace(self.clocks, duration_s=1.0)) if rates else None
        if rate is not None:
            return self._counted(what, rate, None, rate.value)
        total = self._quantity(what, self.clocks, quiet=quiet)
        return self._counted(what, total, total.value, None) if total is not None else None

    def _counted(self, what: str, counted: Counted, total: float | None, per_second: float | None) -> _Amount:
        trust = self._trust(what, counted)
        return _Amount(total, per_second, counted.basis, definition=counted.definition, certificate=trust)

    def _trust(self, what: str, counted: Counted) -> Trust:
        """Return the certificate of an amount: of an estimate none; certified only what is a sum of events.

        Kernels of known work certify sums; rate × clock × duration adds what the clock and the duration are off.
        """
        if counted.basis == "estimated":
            return NONE
        trust = self.hardware.trust(what, counted.metrics)
        return CHECKED if trust == CERTIFIED and not all(map(_counts_events, counted.metrics)) else trust

    def _work(self) -> Iterator[Work]:
        tensor_idle = self._tensor_idle()
        for path in PATHS:
            idle = tensor_idle and path in self._tensor_paths()
            amount = self._amount(f"work.{path}", quiet=idle)
            if amount is None and idle:
                amount = _Amount(0.0, 0.0, "counted", definition="the tensor pipe was idle")
            if amount is None:
                continue
            if path == "fp16" and amount.total:
                amount = self._without_constant_moves(amount, amount.total)
            yield Work(path, amount.total, amount.per_second, basis=amount.basis, certificate=amount.certificate)
            if amount.total or amount.per_second:
                self._compute_limits(path)

    def _tensor_idle(self) -> bool:
        """Tell whether the report proves that no tensor instruction ran."""
        active = self._quantity("idle.tensor", self.clocks, quiet=True)
        return active is not None and active.value == 0

    def _tensor_paths(self) -> frozenset[str]:
        """Return the tensor paths that the architecture has."""
        return _paths_with_counters(tuple(self.hardware.arch.counters))

    def _without_constant_moves(self, amount: _Amount, flop: float) -> _Amount:
        """Take out `HFMA2.MMA R, -RZ, RZ, …`, which loads constants; an estimate where the program is not there."""
        moves = constant_moves(self.launch.metrics, self.launch.details)
        if moves is None:
            return replace(amount, basis="estimated", certificate=NONE)
        kept = max(0.0, flop - _FLOP_PER_HFMA2 * moves)
        rate = kept / self.clocks.duration_s if self.clocks.duration_s else None
        return replace(amount, total=kept, per_second=rate)

    def _compute_limits(self, path: str) -> None:
        split = {key: flop for key, flop in (self.split or {}).items() if key.path == path}
        limit = compute_at_clock(path, split, self.launch.metrics, self.hardware, self.clocks)
        if limit is not None:
            self.at_clock[path] = limit
        else:
            self.missing.append(self._no_peak(path, split))
        rated = rated_compute(path, split, self.hardware.gpu)
        if rated is not None:
            self.rated[path] = rated
        measured = self.hardware.measured.compute(path, split) if self.hardware.measured is not None else None
        if measured is not None:
            self.measured[path] = measured

    def _no_peak(self, path: str, split: Split) -> Missing:
        kinds = ", ".join(str(key) for key in split) or path
        if self.clocks.sm_hz is None:
            return Missing(f"peak.{path}", "the report has no SM clock", "collect with ncu --set full")
        arch = self.hardware.arch
        if self.hardware.gpu is None and arch.compute_capability:
            gpu = f"this GPU, which has no spec: products of {arch.name} can differ in it"
        else:
            gpu = arch.name if arch.compute_capability else "this GPU, whose architecture is not known"
        why = f"no rate of {kinds} is known for {gpu}"
        return Missing(f"peak.{path}", why, "measure it, or give it in a spec with --spec FILE")

    def _traffic(self) -> Iterator[Traffic]:
        for level in LEVELS:
            amount = self._amount(f"traffic.{level}")
            limit = bandwidth_at_clock(level, self.launch.metrics, self.hardware, self.clocks)
            if limit is not None:
                self.at_clock[level] = limit
            rated = rated_bandwidth(level, self.hardware.gpu)
            if rated is not None:
                self.rated[level] = rated
            measured = self.hardware.measured.bandwidth(level) if self.hardware.measured is not None else None
            if measured is not None:
                self.measured[level] = measured
            if amount is not None:
                # If nothing was accessed, ncu gives the hit rate of other accesses, such as of the launch's constants.
                is_used = amount.total or amount.per_second
                hits = self._quantity(f"hit-rate.{level}", self.clocks, quiet=True) if is_used else None
                yield Traffic(
                    level,
                    amount.total,
                    amount.per_second,
                    definition=amount.definition,
                    basis=amount.basis,
                    # Hits and lookups are counted in different passes, so that a rate can be above 1.
                    hit_rate=min(1.0, hits.value) if hits is not None else None,
                    certificate=amount.certificate,
                )

    def _above_ceiling(self, work: tuple[Work, ...], traffic: tuple[Traffic, ...]) -> Iterator[str]:
        """Yield the paths and levels whose rate is above the ceiling, that at the kernel's clock or else the rated."""
        rates = [(done.path, done.flop_per_s, work_unit(done.path)) for done in work]
        rates += [(moved.level, moved.bytes_per_s, "B/s") for moved in traffic]
        for target, rate, unit in rates:
            limit = self.at_clock.get(target) or self.rated.get(target)
            if not rate or limit is None or limit.value <= 0:
                continue
            counted, ceiling = f"{format_si(rate, unit)} are", format_si(limit.value, unit)
            if not self._can_be(f"roofline.{target}", rate / limit.value, counted, ceiling):
                yield target

    def _can_be(self, what: str, fraction: float, counted: str = "it is", ceiling: str = "its peak") -> bool:
        """Return whether a fraction of a ceiling is possible; if it is not, say so in place of the fraction."""
        if is_possible(fraction):
            return True
        why = f"{counted} {fraction:.3g} times {ceiling}, so the counters or the ceiling are wrong"
        self.missing.append(Missing(what, why, CHECK_CEILING))
        return False

    def _points(self, work: tuple[Work, ...], traffic: tuple[Traffic, ...]) -> Iterator[RooflinePoint]:
        """Place every path at every level under the at-clock roof, and under the rated and the measured one if any."""
        for done in work:
            for moved in traffic:
                if not self.above_ceiling.isdisjoint((done.path, moved.level)):
                    continue
                for origin, limits in self._roofs():
                    compute, bandwidth = limits.get(done.path), limits.get(moved.level)
                    if compute is None or bandwidth is None:
                        continue
                    roof = Roof(origin, compute.value, bandwidth.value)
                    point = roofline_point(done, moved, roof)
                    if point is not None:
                        yield point

    def _roofs(self) -> tuple[tuple[CeilingOrigin, Mapping[str, Limit]], ...]:
        return ("at-clock", self.at_clock), ("rated", self.rated), ("measured", self.measured)

    def _throughput(self, traffic: tuple[Traffic, ...]) -> Iterator[Throughput]:
        for unit in THROUGHPUT_UNITS:
            moved = self._dram_fraction(traffic) if unit == "dram" else None
            by_parts = self._sm_by_parts() if unit == "sm" else None
            is_known = moved is not None or by_parts is not None
            busy = self._quantity(f"throughput.{unit}", self.clocks, quiet=is_known)
            if busy is not None:
                counts_fabric = unit == "l2" and len(busy.metrics) == 1 and self._may_have_fabric()
                if counts_fabric:
                    yield Throughput(unit, busy.value / 100, bound="at-most")
                elif busy.basis == "estimated":
                    yield Throughput(unit, busy.value / 100, bound="at-least")
                else:
                    yield Throughput(unit, busy.value / 100, busy.definition if busy.basis == "derived" else None)
            elif moved is not None:
                yield Throughput(unit, moved)
            elif by_parts is not None:
                yield by_parts

    def _may_have_fabric(self) -> bool:
        """Return whether L2 is divided, so that its own figure counts the fabric between its halves, or may be."""
        return _FABRIC in self.hardware.arch.counters or not self.hardware.arch.compute_capability

    def _sm_by_parts(self) -> Throughput | None:
        """Return how busy the SM is by its busiest part, issue slots or a pipe; no less if a part was not collected."""
        names = (f"pipe.{name}" for name in PIPES if name not in _HALVES)
        pipes = [self._quantity(name, self.clocks, quiet=True) for name in names if name in self.hardware.arch.counters]
        issue = self._quantity("scheduler.issue-slots", self.clocks, quiet=True)
        known = [pipe.value for pipe in pipes if pipe is not None and pipe.basis == "counted"]
        if issue is None or not known:
            return None
        is_whole = len(known) == len(pipes)
        return Throughput("sm", max(issue.value / 100, *known), bound=None if is_whole else "at-least")

    def _dram_fraction(self, traffic: tuple[Traffic, ...]) -> float | None:
        """Return the counted bytes of DRAM over what it can move: its throughput, where no counter tells that."""
        limit = self.at_clock.get("dram")
        moved = next((level.bytes_per_s for level in traffic if level.level == "dram"), None)
        return moved / limit.value if moved is not None and limit is not None else None

    def _pipes(self) -> Iterator[Pipe]:
        known = 0
        for name in PIPES:
            busy = self._quantity(f"pipe.{name}", self.clocks, quiet=True)
            if busy is not None and (busy.value or busy.basis != "estimated"):
                known += 1
                yield Pipe(name, max(0.0, busy.value), busy.metrics[0] if len(busy.metrics) == 1 else busy.definition)
        if not known:
            why = "the report has no pipe utilisation (sm__pipe_…, sm__inst_executed_pipe_…)"
            self.missing.append(Missing("pipes", why, "collect with ncu --section ComputeWorkloadAnalysis"))

    def _scheduler(self) -> Scheduler | None:
        """Return issue slots, eligible and active warps; None if none of them was collected."""
        counted = (
            self._quantity(f"scheduler.{what}", self.clocks, quiet=True)
            for what in ("issue-active", "eligible-warps", "active-warps")
        )
        issue, eligible, active = (quantity.value if quantity is not None else None for quantity in counted)
        if issue is not None and not self._can_be("scheduler.issue-active", issue):
            issue = None
        if issue is None and eligible is None and active is None:
            return None
        limits = self.hardware.arch.limits
        slots = limits["warps_per_sm"].value / limits["sub_partitions"].value if "warps_per_sm" in limits else None
        return Scheduler(
            issue_active=issue,
            eligible_warps=eligible,
            active_warps=active,
            warp_slots=slots,
        )

    def _stalls(self) -> tuple[Stall, ...]:
        told = stall_breakdown(self.launch.metrics, self.hardware.arch, self.hardware.names)
        if not told.stalls:
            why = "the report has no warp states (smsp__average_warps_issue_stalled_…)"
            self.missing.append(Missing("stalls", why, "collect with ncu --section WarpStateStats"))
        for family, samples in told.too_few.items():
            why = f"{samples} samples are too few: below {LEAST_SAMPLES}, a share can be off by 7 points or more"
            self.missing.append(Missing(f"stalls.{family}", why, "sample more often: ncu --sampling-interval 0"))
        return told.stalls

    def _waves(self) -> float | None:
        """Return how often the grid fills the GPU: as recorded, else of the blocks that are resident at once.

        Blocks of a cluster are placed together, so that fewer may fit: their waves are only known as recorded. Where
        those were printed with less digits, and are the same but for that, the blocks tell them exactly.
        """
        recorded = self.launch.metrics.number(_WAVES)
        exact = self._waves_of_blocks()
        if recorded is None or exact is None:
            return exact if recorded is None else recorded
        rounding = printed_rounding(recorded, self.launch.metrics.digits(_WAVES))
        return exact if abs(exact - recorded) <= rounding * recorded else recorded

    def _waves_of_blocks(self) -> float | None:
        metrics = self.launch.metrics
        blocks = math.prod(self.launch.grid) if self.launch.grid is not None else metrics.number("launch__grid_size")
        resident, sms = blocks_at_once(metrics, self.launch.block, self.hardware.arch), self.hardware.sm_count()
        if not blocks or not resident or not sms or (metrics.number("launch__cluster_size") or 0) > 1:
            return None
        return blocks / (resident * sms)

    def _occupancy(self, scheduler: Scheduler | None) -> Occupancy:
        """Compute the theoretical occupancy; where that is not known or the report has another, take the report's own.

        The achieved one also follows from the active warps of a scheduler and its slots.
        """
        metrics = self.launch.metrics
        achieved = metrics.number("sm__warps_active.avg.pct_of_peak_sustained_active")
        if achieved is None:
            achieved = metrics.number("smsp__warps_active.avg.pct_of_peak_sustained_active")
        if achieved is None and scheduler is not None and scheduler.active_warps is not None and scheduler.warp_slots:
            achieved = _FULL * scheduler.active_warps / scheduler.warp_slots
        if achieved is None:
            self.missing.append(
                Missing(
                    "occupancy.achieved",
                    "the report has no sm__warps_active.avg.pct_of_peak_sustained_active",
                    "collect with ncu --section Occupancy",
                )
            )
        resources = launch_resources(metrics, self.launch.block, self.hardware.arch)
        computed = theoretical_occupancy(resources, self.hardware.arch) if resources is not None else None
        achieved_fraction = achieved / 100 if achieved is not None else None
        reported = metrics.number("sm__maximum_warps_per_active_cycle_pct")
        if computed is not None and (reported is None or abs(_FULL * computed.fraction - reported) <= _SAME_OCCUPANCY):
            return Occupancy(computed.fraction, achieved_fraction, computed.limiters)
        if reported is None:
            return self._reached(achieved_fraction)
        return Occupancy(
            reported / 100,
            achieved_fraction,
            reported_limiters(metrics, self.hardware.arch) if reported < _FULL else (),
        )

    def _reached(self, achieved: float | None) -> Occupancy:
        """Return the occupancy where neither the report's own nor the shared memory of a block is known."""
        arch = self.hardware.arch
        reached = reached_occupancy(self.launch.metrics, self.launch.block, arch, achieved) if achieved else None
        return Occupancy(reached.fraction, achieved, reached.limiters) if reached else Occupancy(None, achieved, ())


def with_l2_bounded(throughput: tuple[Throughput, ...]) -> tuple[Throughput, ...]:
    """Return the units with L2 no busier than memory as a whole, and as busy as that if no other level is.

    Only an L2 of which an upper bound is known changes: that whose own figure also counts the fabric between the halves
    of a divided cache. `lts__throughput` is the largest of the parts of L2 that `gpu__compute_memory_throughput` counts
    too, and of `lts__ltcfabric2ltc_cycles_active`, which that leaves out. So L2 is no busier than either figure.
    """
    units = {unit.unit: unit for unit in throughput}
    l2, memory = units.get("l2"), units.get("memory")
    if l2 is None or memory is None or l2.bound != "at-most":
        return throughput
    if _is_alone(units, memory) and memory.fraction <= l2.fraction + TWO_PASSES:
        bounded = Throughput("l2", memory.fraction)
    else:
        bounded = Throughput("l2", min(l2.fraction, memory.fraction), bound="at-most")
    return tuple(bounded if unit is l2 else unit for unit in throughput)


def _is_alone(units: Mapping[ThroughputUnit, Throughput], memory: Throughput) -> bool:
    """Return whether neither DRAM nor L1 is as busy as memory as a whole, as far as both are known."""
    dram, l1 = units.get("dram"), units.get("l1")
    if dram is None or l1 is None or not dram.is_exact or not l1.is_exact:
        return False
    return max(dram.fraction, l1.fraction) + TWO_PASSES < memory.fraction


def _counts_events(metric: str) -> bool:
    """Tell whether a metric is a sum of events over the kernel: not a rate, and not a share of a peak."""
    return metric.endswith(".sum") or metric in _HISTOGRAMS


@lru_cache(maxsize=64)
def _paths_with_counters(quantities: tuple[str, ...]) -> frozenset[str]:
    return frozenset(what.removeprefix("work.") for what in quantities if what.startswith("work.tensor."))


@lru_cache(maxsize=256)
def _grouped(missing: tuple[Missing, ...]) -> tuple[Missing, ...]:
    """Join what is missing for one reason into one entry; launches that lack the same share them."""
    groups: dict[tuple[str, str], list[str]] = {}
    for item in missing:
        groups.setdefault((item.why, item.how), []).append(item.what)
    return tuple(Missing(", ".join(dict.fromkeys(whats)), why, how) for (why, how), whats in groups.items())
