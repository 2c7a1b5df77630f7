"""No fix gains more than its bound: kernels before and after it, on a GPU whose units overlap perfectly.

A kernel is the cycles of work of each unit: of DRAM and L2, and of each part of an SM, for all SMs and for one that may
have more. It takes as long as the slowest unit, and as much longer as it waits; after its fix it waits in proportion or
not at all. A fix takes away what it can by the hardware, whatever the rules believe. What the report of the slow kernel
counts follows from the same work. Gains on assumptions are not judged: the fix may break them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpuprof.hardware.specs import WARP_OPCODES
from tests.kernels import REGISTERS, Made, Values, busy, issued, made, pipes, stalls
from tests.rule_examples import (
    CONFLICTS,
    EXCESS,
    L2_ATOMICS,
    LOAD_SECTORS,
    LOCAL_LOADS,
    LOCAL_STORES,
    NO_SHARED,
    SECTORS_OF_LOADS,
    SHARED_PASSES,
    STORE_SECTORS,
    TOTAL,
    moving,
)
from tests.table import each_row

EXACT = 1e-6
SMS = 108
CYCLES = 1e6
"""Work of a unit that is busy for the whole time if nothing waits and none has more."""
ALL_HIT = {"l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_miss.sum": 0.0}

Opcodes = dict[str | int, float]

parts = st.floats(0, 1)


@dataclass(frozen=True, slots=True)
class Work:
    """The cycles of work of each unit: of the GPU, of an average SM, and what one SM has more."""

    of_gpu: Mapping[str, float]
    of_sm: Mapping[str, float]
    more: Mapping[str, float]

    def busiest(self, average: bool = False) -> float:
        """The cycles of the busiest SM, or of one of the others."""
        extra = {} if average else self.more
        return max(cycles + extra.get(unit, 0.0) for unit, cycles in self.of_sm.items())

    def time(self) -> float:
        return max(self.busiest(), *self.of_gpu.values())

    def average(self, unit: str) -> float:
        return self.of_sm[unit] + self.more.get(unit, 0.0) / SMS

    def filling(self, unit: str) -> Work:
        """The work with this part of an SM busy for the whole time."""
        return replace(self, of_sm={**self.of_sm, unit: CYCLES}, more={})

    def keeping(self, **shares: float) -> Work:
        """The work after a fix that leaves these shares of units' work."""

        def kept(cycles: Mapping[str, float]) -> dict[str, float]:
            return {unit: value * shares.get(unit, 1.0) for unit, value in cycles.items()}

        return Work(kept(self.of_gpu), kept(self.of_sm), kept(self.more))


@dataclass(frozen=True, slots=True)
class Fixed:
    """The work of a launch before and after its fix, what else is counted, and whether it waits in proportion then."""

    before: Work
    after: Work
    values: Values
    opcodes: Opcodes
    waits_still: bool = False


Fix = Callable[[st.DrawFn, Work], Fixed]


def accesses_side_by_side(draw: st.DrawFn, work: Work) -> Fixed:
    """Lanes then access neighbours: a sector for 32 B, a pass of L1 for 128 B. Before, each sector takes a pass."""
    size = draw(st.sampled_from([1, 2, 4, 8, 16]))
    sectors = draw(st.floats(size, 32))
    kept, requests = size / sectors, SMS * work.average("l1") / sectors
    after = work.keeping(l1=max(1.0, size / 4) / sectors, l2=kept, dram=kept)
    counted: Values = {TOTAL: requests * sectors, EXCESS: requests * (sectors - size)}
    if draw(st.booleans()):
        counted = {SECTORS_OF_LOADS: sectors}
    if draw(st.booleans()):
        counted = counted | NO_SHARED
    return Fixed(work, after, counted, {}, waits_still=True)


def no_conflicts(draw: st.DrawFn, work: Work) -> Fixed:
    """One SM has all bank conflicts, and L1 serves nothing but shared memory."""
    work = replace(work, more={**work.more, "l1": draw(st.floats(0, CYCLES))})
    passes = SMS * work.average("l1")
    after = replace(work, more={**work.more, "l1": 0.0})
    return Fixed(work, after, {SHARED_PASSES: passes, CONFLICTS: work.more["l1"]}, {}, waits_still=True)


def values_made_where_they_are_used(draw: st.DrawFn, work: Work) -> Fixed:
    """Integers that make values are left out, or so are most passes of a sort: with them go the bytes."""
    work, kept = work.filling("alu"), draw(parts)
    opcodes: Opcodes = {"LOP3.LUT": 1.0, "IADD3": 1.0, "SHF.L": draw(parts)}
    return Fixed(work, work.keeping(alu=kept, issue=kept, dram=kept, l2=kept, l1=kept), {}, opcodes)


def arrays_unrolled(draw: st.DrawFn, work: Work) -> Fixed:
    """An array gets into registers: no access, no index and no loop is left."""
    work, kept = work.filling("l1"), draw(parts)
    values = {LOCAL_LOADS: 1e6, LOCAL_STORES: 1e6, LOAD_SECTORS: 0.0, STORE_SECTORS: 0.0, REGISTERS: 40.0, **ALL_HIT}
    return Fixed(work, work.keeping(l1=0, alu=kept, issue=kept), values | moving(1e6, 1e6), {})


def sums_in_shared_memory(draw: st.DrawFn, work: Work) -> Fixed:
    """Hardly an atomic is left, and neither its address nor its miss in L2."""
    kept = draw(parts)
    return Fixed(
        work,
        work.keeping(l1=kept, l2=kept, issue=kept, alu=kept, dram=kept),
        {L2_ATOMICS: draw(st.floats(30, 100))},
        {"RED.E.ADD": 1.0, "IADD3": draw(parts), "FADD": draw(parts)},
    )


def values_kept_in_registers(draw: st.DrawFn, work: Work) -> Fixed:
    """A larger tile reads each value less often: fewer accesses, addresses and bytes."""
    work, kept = work.filling("l1"), draw(parts)
    return Fixed(work, work.keeping(l1=kept, issue=kept, alu=kept, l2=kept, dram=kept), NO_SHARED, {})


@st.composite
def works(draw: st.DrawFn) -> Work:
    cycles = st.one_of(st.just(0.0), st.floats(0, CYCLES))
    more = {"issue": draw(cycles), "alu": draw(cycles)} if draw(st.booleans()) else {}
    return Work(
        {unit: draw(cycles) + 1.0 for unit in ("dram", "l2")},
        {unit: draw(cycles) + 1.0 for unit in ("l1", "issue", "alu", "fp64")},
        more,
    )


@st.composite
def reports(draw: st.DrawFn, fix: Fix) -> tuple[Made, float]:
    """A launch before its fix, and what the fix gains of its time."""
    fixed = fix(draw, draw(works()))
    work = fixed.before
    longer = draw(st.one_of(st.just(1.0), st.floats(1, 4)))
    time = work.time() * longer
    fixed_time = fixed.after.time() * (longer if fixed.waits_still else 1)

    def percent(cycles: float, of: float = time) -> float:
        return min(100.0, 100 * cycles / of)

    of_memory = {"l1": work.average("l1"), **work.of_gpu}
    levels = {level: percent(cycles) for level, cycles in of_memory.items()}
    of_sm = {unit: percent(work.average(unit)) for unit in ("issue", "alu", "fp64")}
    waits = draw(st.floats(0, 90))
    busiest = draw(st.floats(work.busiest() / time, 1)) * time
    average = busiest * work.busiest(average=True) / work.busiest()
    groups: tuple[Values, ...] = (
        busy(**levels),
        busy(memory=max(levels.values())),
        busy(sm=max(of_sm.values())),
        pipes(alu=of_sm["alu"], fp64=of_sm["fp64"]),
        issued(percent(work.average("issue"), average)),
        {"sm__cycles_elapsed.max": time, "sm__cycles_active.max": busiest, "sm__cycles_active.avg": average},
        stalls(long_scoreboard=waits, drain=90 - waits),
    )
    kept = [group for group in groups if draw(st.integers(0, 3))]
    histograms = {WARP_OPCODES: fixed.opcodes} if fixed.opcodes else {}
    return made(*kept, fixed.values, histograms=histograms), 1 - fixed_time / time


@each_row(
    ("rule", "fix"),
    [
        ("uncoalesced-global", accesses_side_by_side),
        ("shared-bank-conflict", no_conflicts),
        ("integer-bound", values_made_where_they_are_used),
        ("local-memory-spill", arrays_unrolled),
        ("atomic-contention", sums_in_shared_memory),
        ("l1-bandwidth", values_kept_in_registers),
    ],
)
def test_no_fix_gains_more_than_its_bound(rule: str, fix: Fix) -> None:
    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(reports(fix))
    def judge(drawn: tuple[Made, float]) -> None:
        launch, gained = drawn
        for finding in launch.findings(rule):
            if finding.gain_kind == "bound":
                assert finding.gain_kernel is not None and gained <= finding.gain_kernel + EXACT

    judge()
