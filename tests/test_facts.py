"""Facts of a kernel, worked out by hand for launches on an A100: 108 SMs, 64 warps each."""

from __future__ import annotations

import pytest

from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.analyse import analyse
from tests import builders
from tests.kernels import Made, busy, issued, lasting, made, pipes, stalls
from tests.table import each_row

ACTIVE, ELAPSED = "sm__cycles_active.avg", "sm__cycles_elapsed.max"
BUSIEST = "sm__cycles_active.max"
OCCUPIED = "sm__warps_active.avg.pct_of_peak_sustained_active"
REGISTERS = "launch__registers_per_thread"
WAVES = "launch__waves_per_multiprocessor"


def facts_of(launch: Made) -> KernelFacts:
    analysis = analyse([builders.report(launch.launch())], builders.hardware_of, "9.9")
    return KernelFacts(analysis.session.kernels[0], analysis.recorded[0])


def test_a_launch_is_counted_in_blocks_warps_and_lanes() -> None:
    # 40 threads are 2 warps of 20 lanes on average.
    facts = facts_of(made(grid=(10, 5, 2), block=(40, 1, 1)))
    assert (facts.blocks, facts.threads_per_block, facts.warps_per_block, facts.warps) == (100, 40, 2, 200)
    assert (facts.lanes_of_block, facts.has_few_lanes, facts.leaves_lanes_empty) == (20, False, True)
    assert (facts.sms, facts.warps_per_sm) == (108, 64)


def test_a_block_lives_for_the_time_in_which_an_sm_holds_it() -> None:
    # An SM runs 2 waves of the 8 blocks of 8 warps that fit, and holds half of them: 1000 cycles × 4 ÷ 16.
    facts = facts_of(made({ACTIVE: 1000.0, OCCUPIED: 50.0, WAVES: 2.0, REGISTERS: 32.0}))
    assert facts.block_cycles == pytest.approx(250)
    assert facts.has_short_blocks


def test_the_time_of_the_launch_is_no_time_of_the_sms() -> None:
    # The busiest SM works for 96 of 100 cycles of 10 µs: 0.4 µs, but an empty kernel takes 1 µs.
    cycles = {ELAPSED: 100.0, BUSIEST: 96.0, ACTIVE: 48.0}
    facts = facts_of(made(cycles, lasting(1e-5)))
    assert (facts.busiest_share, facts.active_share) == (0.96, 0.48)
    assert facts.working_share == pytest.approx(0.9)
    # In 1 ms the same difference is the cycles of two passes: at most 3 µs are the launch's.
    assert facts_of(made(cycles, lasting(1e-3))).working_share == pytest.approx(0.997)


def test_sms_that_never_work_leave_the_launch_its_longest_time() -> None:
    # 3 of 100 µs: no active cycles were counted, which is not the same as active cycles that were not counted.
    never = facts_of(made({ACTIVE: 0.0, ELAPSED: 1000.0, WAVES: 8.0}, lasting(1e-4)))
    assert never.working_share == pytest.approx(0.97)
    assert facts_of(made({ELAPSED: 1000.0, WAVES: 8.0}, lasting(1e-4))).working_share == pytest.approx(0.99)


def test_no_warp_slot_is_taken_if_none_is_known_to_fit() -> None:
    taken = facts_of(made({OCCUPIED: 12.0, REGISTERS: 32.0}, block=(256, 1, 1)))
    assert (taken.occupancy.theoretical, taken.resident_share, taken.is_taken) == (1.0, 0.12, False)
    # A block of 1024 threads of 168 registers does not fit: without waves nothing shows that slots are taken.
    none = facts_of(made({OCCUPIED: 12.0, REGISTERS: 168.0}, block=(1024, 1, 1)))
    assert (none.occupancy.theoretical, none.is_taken) == (0.0, False)


def test_the_last_wave_leaves_sms_idle() -> None:
    facts = facts_of(made({WAVES: 1.5, BUSIEST: 100.0, ACTIVE: 75.0}))
    assert facts.idle_sms == pytest.approx(0.25)
    assert not facts.is_under_a_wave


def test_a_unit_needs_its_busy_part_of_the_elapsed_time() -> None:
    # Pipes of active cycles and issue slots count while an SM works, half of the time.
    of_active = {"sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": 40.0}
    facts = facts_of(
        made(busy(dram=60, l2=30, sm=50), pipes(fma=45), of_active, issued(50), {ELAPSED: 100.0, ACTIVE: 50.0})
    )
    assert {unit: facts.needs[unit] for unit in ("dram", "l2", "fma", "xu", "issue")} == pytest.approx(
        {"dram": 0.6, "l2": 0.3, "fma": 0.45, "xu": 0.2, "issue": 0.25}
    )
    assert facts.busiest_need == pytest.approx(0.6)
    assert facts.least_times["dram"] == pytest.approx(0.6 / facts.dram_reached)
    assert facts.is_busiest("dram") and not facts.is_busiest("fma")


def test_a_busy_sm_of_active_cycles_is_what_the_sm_needs_if_its_speed_of_light_is_missing() -> None:
    sm_busy = {"sm__instruction_throughput.avg.pct_of_peak_sustained_active": 80.0}
    facts = facts_of(made(sm_busy, {ELAPSED: 100.0, ACTIVE: 50.0}))
    assert facts.needs["sm"] == pytest.approx(0.4)
    assert facts.busiest is None, "it is a lower bound: parts of the SM were not collected"
    assert facts_of(made(sm_busy, {ELAPSED: 100.0, ACTIVE: 50.0}, busy(sm=60))).needs["sm"] == 0.6
    assert "sm" not in facts_of(made(sm_busy)).needs


def test_memory_that_neither_l2_nor_dram_explains_is_that_of_l1() -> None:
    # The basic set has no L1 over elapsed cycles.
    assert facts_of(made(busy(memory=80, l2=30, dram=20))).needs.get("l1") == pytest.approx(0.8)
    assert facts_of(made(busy(memory=80, l2=80, dram=20))).needs.get("l1") is None
    assert facts_of(made(busy(memory=80, dram=20))).needs.get("l1") is None, "L2 may be the busy one"


def test_the_parts_of_l2_are_as_busy_as_their_busiest_counter() -> None:
    percent = "{}.avg.pct_of_peak_sustained_elapsed".format
    counters = {"lts__t_sectors": 30.0, "lts__d_sectors": 40.0, "lts__xbar2lts_cycles_active": 90.0}
    facts = facts_of(made({percent(name): value for name, value in counters.items()}))
    assert facts.l2_parts == pytest.approx({"data": 0.4, "crossbar-from-sms": 0.9})
    assert facts_of(made()).l2_parts == {}


def test_waits_are_shares_of_the_states_of_warps() -> None:
    facts = facts_of(made(stalls(long_scoreboard=50, barrier=20, wait=10)))
    assert facts.stall("long_scoreboard", "barrier") == pytest.approx(0.7)
    assert facts.stall("drain") == 0.0
    assert facts.stall(*facts.stalls) == pytest.approx(1.0)


def test_opcodes_are_counted_with_and_without_their_modifiers() -> None:
    facts = facts_of(made(histograms={WARP_OPCODES: {"LDG.E": 10.0, "LDG.E.128": 5.0, "FFMA": 85.0}}))
    assert facts.opcode_counts() == {"LDG": 15.0, "FFMA": 85.0}
    assert facts.executed("LDG.E.128") == 5.0
    assert facts.share_of_opcodes("LDG", "FFMA") == 1.0


NUMBERS = (
    "active_share", "busiest_share", "idle_sms", "block_cycles", "busiest", "busiest_need",
    "memory_busy", "l1_speed", "memory_utilisation", "issue_active", "eligible_warps", "cycles_per_load",
    "counted_sectors", "ideal_bytes", "wavefronts_per_request", "passes", "waves",
)  # fmt: skip


@each_row("name", NUMBERS)
def test_a_fact_of_counters_that_are_not_there_is_missing_and_not_zero(name: str) -> None:
    assert getattr(facts_of(made()), name) is None


def test_a_missing_fact_names_the_metrics_that_it_lacks() -> None:
    facts = facts_of(made({BUSIEST: 100.0}))
    assert facts.why_missing("idle_sms") == (ACTIVE,)
    assert facts_of(made({BUSIEST: 100.0, ACTIVE: 75.0})).why_missing("idle_sms") == ()
    assert "sm__cycles_elapsed.max" in facts_of(made({ACTIVE: 75.0})).why_missing("active_share")
