"""The rules on blocks: what they explain, what they leave to others, and where they keep silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gpuprof
from gpuprof.hardware.device import RecordedDevice
from tests.kernels import (
    REGISTERS,
    WAVES,
    Made,
    Values,
    busy,
    issued,
    lasting,
    made,
    pipes,
    stalls,
)
from tests.table import each_row

THREADS = "smsp__thread_inst_executed_per_inst_executed.ratio"
ACTIVE = "sm__warps_active.avg.pct_of_peak_sustained_active"
ELIGIBLE = "smsp__warps_eligible.avg.per_cycle_active"
BUSIEST_SM, AVERAGE_SM, ELAPSED = "sm__cycles_active.max", "sm__cycles_active.avg", "sm__cycles_elapsed.max"
USED_LOAD = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
IDLE = {**busy(sm=20, dram=20), **issued(20)}


def of_block(threads: int, *parts: Values) -> Made:
    return made(*parts, block=(threads, 1, 1))


def cause_of(launch: Made, rule: str) -> str | None:
    return launch.finding(rule).cause


# Lanes.


@each_row(("threads", "gain"), [(1, 31 / 32), (31, 1 / 32), (33, 31 / 64), (96 + 24, 8 / 128)])
def test_the_lanes_that_a_block_leaves_empty_are_the_gain(threads: int, gain: float) -> None:
    found = of_block(threads, busy(sm=20)).finding("block-size")
    assert found.gain_kernel == pytest.approx(gain)
    assert (found.gain_kind, found.held) == ("fixed-work", "the same speed per warp")


@each_row("threads", [32, 64, 256, 1000, 1024])
def test_whole_warps_and_the_last_one_of_a_large_block_are_no_defect(threads: int) -> None:
    # 1000 threads leave 24 of 1024 lanes empty: 2.3 %.
    assert of_block(threads, IDLE).findings("block-size") == []


def test_a_block_of_two_dimensions_is_filled_by_their_product() -> None:
    # 8 × 4 are one warp, 10 × 10 are 100 of 128 lanes.
    assert made(IDLE, block=(8, 4, 1)).findings("block-size") == []
    assert made(IDLE, block=(10, 10, 1)).finding("block-size").gain_kernel == pytest.approx(28 / 128)


@each_row("block", [None, (0, 1, 1)])
def test_a_block_of_unknown_size_is_not_judged(block: tuple[int, int, int] | None) -> None:
    assert made(IDLE, {THREADS: 4.0}, block=block).findings("block-size") == []


def test_last_warps_that_execute_nothing_cost_nothing() -> None:
    # 33 threads, and the last thread's warp leaves at once.
    assert of_block(33, IDLE, {THREADS: 31.9}).findings("block-size") == []


def test_empty_lanes_cost_issue_slots_and_pipes_and_no_bytes() -> None:
    # 16 of 32 lanes: of a pipe that is 90 % busy 45 % remain, of DRAM's 80 % all.
    found = of_block(16, busy(dram=80, sm=90), pipes(fma=90)).finding("block-size")
    assert {item.unit: pytest.approx(item.fraction) for item in found.remains} == {"dram": 0.8, "fma": 0.45}
    assert found.gain_kernel == pytest.approx(0.2)
    assert (found.gain_kind, found.held) == ("fixed-work", "the same bytes through L2 and DRAM")


def test_a_full_dram_makes_empty_lanes_a_fact() -> None:
    assert of_block(16, busy(dram=98)).finding("block-size").severity == "info"


def test_empty_lanes_of_which_no_unit_tells_what_they_cost_are_a_guess() -> None:
    assert of_block(16).finding("block-size").confidence == "guess"
    assert of_block(16, IDLE).finding("block-size").confidence == "measured"


def test_a_helper_of_one_thread_is_as_short_as_its_launch() -> None:
    launch = replace(of_block(1, IDLE, lasting(2e-6)), grid=(1, 1, 1))
    assert launch.profile().findings[0].rule == "short-kernel"
    assert launch.finding("block-size").severity == "low"


def test_one_thread_on_the_whole_gpu_lacks_blocks_first_and_lanes_then() -> None:
    # 107 of 108 SMs have no work, and 31 of 32 lanes.
    alone = replace(of_block(1, busy(sm=0.1), lasting(1e-2)), grid=(1, 1, 1))
    assert [finding.rule for finding in alone.profile().findings[:2]] == ["small-grid", "block-size"]


# What is left to divergence.


def test_lanes_without_a_thread_do_not_diverge() -> None:
    # 20 of 32 lanes have a thread, and all of them are active; then half of them.
    assert of_block(20, IDLE, {THREADS: 20.0}).findings("branch-divergence") == []
    both = of_block(20, IDLE, {THREADS: 10.0})
    assert both.finding("branch-divergence").gain_kernel == pytest.approx(0.5)
    assert "10 of 20 threads" in both.finding("branch-divergence").headline
    assert both.finding("block-size").gain_kernel == pytest.approx(12 / 32)


# Blocks of few warps.

FEW_WARPS = of_block(32, {REGISTERS: 32.0, WAVES: 8.0, ACTIVE: 48.0}, IDLE, stalls(long_scoreboard=70))
"""An SM of the A100 takes 32 blocks: 32 of 64 warps."""


def test_a_limit_of_blocks_that_keeps_warps_away_explains_occupancy_and_waits() -> None:
    found = FEW_WARPS.finding("block-size")
    assert found.severity == "high" and found.gain_kernel == pytest.approx(0.5)
    for rule in ("low-occupancy", "memory-latency"):
        assert cause_of(FEW_WARPS, rule) == found.id


def test_larger_blocks_of_as_many_registers_reach_no_more_than_those_allow() -> None:
    # 48 registers: 1536 of 16384 a quarter's warp, so 10 warps in each, 40 in all; 32 blocks are 32 of 40.
    found = FEW_WARPS.plus({REGISTERS: 48.0}).finding("block-size")
    assert found.gain_kernel == pytest.approx(1 - 32 / 40)


def test_larger_blocks_of_as_much_shared_memory_a_warp_reach_no_more_than_it_allows() -> None:
    # 3 KiB a warp, and 1 KiB of the driver for each block: two blocks of 27 warps need 164 KiB, all that there is.
    shared = {"launch__shared_mem_per_block_static": 3072.0, "launch__shared_mem_per_block_dynamic": 0.0}
    assert FEW_WARPS.plus(shared).finding("block-size").gain_kernel == pytest.approx(1 - 32 / 54)


@each_row(
    "launch",
    [
        pytest.param(FEW_WARPS.plus({REGISTERS: 128.0}), id="registers allow fewer warps than the blocks are"),
        pytest.param(FEW_WARPS.plus({ACTIVE: 20.0}), id="the places are not taken"),
        pytest.param(replace(FEW_WARPS.plus({WAVES: 0.5}), grid=(1728, 1, 1)), id="the grid is under a wave"),
        pytest.param(FEW_WARPS.plus(busy(dram=70)), id="DRAM is busy"),
        pytest.param(FEW_WARPS.plus(stalls(math_pipe_throttle=60, long_scoreboard=20)), id="a pipe's queue is full"),
        pytest.param(replace(FEW_WARPS, block=(64, 1, 1)), id="two warps a block fill the SM"),
        pytest.param(FEW_WARPS.without(REGISTERS), id="what limits the warps is not known"),
        pytest.param(FEW_WARPS.without(*busy(sm=0, dram=0)), id="no unit was collected"),
    ],
)
def test_few_warps_a_block_are_no_defect_where_they_cost_nothing(launch: Made) -> None:
    assert launch.findings("block-size") == []


def test_the_sm_bounds_issue_slots_that_were_not_collected() -> None:
    # The basic set: no schedulers, no warp states.
    basic = of_block(32, {REGISTERS: 32.0, WAVES: 8.0, ACTIVE: 48.0}, busy(sm=20, dram=55, memory=55))
    found = basic.finding("block-size")
    assert found.confidence == "inferred" and found.gain_kernel == pytest.approx(0.45)
    assert basic.plus(busy(sm=65)).findings("block-size") == []


# What empty lanes explain.


def test_a_pipe_that_executes_for_empty_lanes_is_explained_by_them() -> None:
    partly = of_block(8, busy(sm=75), pipes(alu=75, fma=10))
    assert cause_of(partly, "integer-bound") == partly.finding("block-size").id
    # A sixteenth of the lanes is no reason for a pipe that could save four times as much.
    assert cause_of(of_block(120, busy(sm=75), pipes(alu=75, fma=10)), "integer-bound") is None


def test_a_lone_lane_cannot_use_a_sector() -> None:
    scattered = {USED_LOAD: 4.0, **busy(l1=60, dram=30), **stalls(long_scoreboard=60), **issued(20)}
    lone = of_block(1, scattered)
    assert cause_of(lone, "uncoalesced-global") == lone.finding("block-size").id
    assert cause_of(of_block(40, scattered), "uncoalesced-global") is None


def test_idle_sms_under_an_unknown_grid_are_a_guess() -> None:
    launch = made(lasting(), busy(sm=1), {BUSIEST_SM: 1e6, AVERAGE_SM: 1e4})
    assert launch.finding("load-imbalance").confidence == "measured"
    assert replace(launch, grid=None).finding("load-imbalance").confidence == "guess"


def test_few_lanes_are_no_excuse_for_lanes_that_lie_apart() -> None:
    # 16 lanes side by side take 9 sectors at most, and 16 where each goes elsewhere.
    name = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
    launch = of_block(16, {USED_LOAD: 4.0, name.format("requests"): 1e6}, busy(l1=60, dram=30))
    near = launch.plus({name.format("sectors"): 9e6})
    assert cause_of(near, "uncoalesced-global") == near.finding("block-size").id
    apart = launch.plus({name.format("sectors"): 16e6}).profile().findings[0]
    assert (apart.rule, apart.severity, apart.cause) == ("uncoalesced-global", "high", None)


def test_empty_lanes_of_a_kernel_that_moves_its_bytes_well_are_a_fact() -> None:
    assert of_block(200, busy(dram=79)).finding("block-size").severity == "medium"
    assert of_block(200, busy(dram=85)).finding("block-size").severity == "info"
    # A lane alone uses a part of each sector that L2 moves.
    assert of_block(1, busy(l2=85)).finding("block-size").severity == "medium"


def test_waits_of_full_warps_are_not_the_fault_of_a_last_warp() -> None:
    # 40 threads: 37.5 % against waits of 60 %.
    launch = of_block(40, IDLE, stalls(long_scoreboard=60))
    assert cause_of(launch, "memory-latency") is None
    lone = of_block(4, IDLE, stalls(long_scoreboard=60))
    assert cause_of(lone, "memory-latency") == lone.finding("block-size").id


# Short blocks.

SHORT = made({REGISTERS: 32.0, ACTIVE: 50.0, WAVES: 8.0, AVERAGE_SM: 1e4}, busy(sm=20), grid=(6912, 1, 1))
"""An SM runs 64 blocks of 8 warps, 4 at a time, in 10 000 cycles: one lives for 625."""


def test_places_between_short_blocks_are_no_imbalance() -> None:
    assert SHORT.finding("short-blocks").gain_kernel == pytest.approx(0.5)
    assert SHORT.findings("load-imbalance") == []
    long = SHORT.plus({AVERAGE_SM: 1e5})
    assert long.findings("short-blocks") == [] and long.finding("load-imbalance").gain_kernel == pytest.approx(0.5)


def test_blocks_that_start_and_end_with_their_grid_save_the_time_in_which_sms_work() -> None:
    # Half of the places in 60 % of the time.
    ramp = SHORT.plus({ELAPSED: 1e4 / 0.6})
    assert ramp.finding("short-blocks").gain_kernel == pytest.approx(0.3)


def test_waves_tell_how_long_blocks_live_where_the_sms_are_not_known() -> None:
    # 8 rounds in 10 000 cycles, half of whose places are filled: 625 cycles. Ten times the cycles are no short blocks.
    unknown = replace(SHORT, device=RecordedDevice(compute_capability="8.0"))
    assert unknown.finding("short-blocks").headline.startswith("Short blocks: 625 cycles each")
    assert unknown.findings("load-imbalance") == []
    long = unknown.plus({AVERAGE_SM: 1e5})
    assert long.findings("short-blocks") == [] and long.finding("load-imbalance").confidence == "guess"
    assert unknown.without(WAVES).findings("short-blocks") == []


SHORT_LAUNCH = made(
    {REGISTERS: 32.0, ACTIVE: 70.0, WAVES: 6.0, AVERAGE_SM: 1.4e4, ELAPSED: 2e4}, busy(sm=20), lasting(10e-6, 2e9),
    grid=(5184, 1, 1),
)  # fmt: skip
"""An SM works for 7 of 10 µs, so long as any launch may take less; its 6 rounds take 2333 cycles each."""


def test_sms_that_are_idle_while_a_short_kernel_starts_and_ends_need_more_work_a_launch() -> None:
    found = SHORT_LAUNCH.finding("load-imbalance")
    assert found.headline == "Idle SMs: an average SM has no work for 30 % of 10.0 µs"
    assert found.gain_kernel == pytest.approx(0.3) and found.held == "the same work in another launch"
    assert found.action.startswith("Do more in each launch") and found.confidence == "inferred"


@each_row(
    "launch",
    [
        pytest.param(SHORT_LAUNCH.plus(lasting(1e-3, 2e9)), id="no launch takes 0.3 ms"),
        pytest.param(SHORT_LAUNCH.plus({AVERAGE_SM: 1.9e4}), id="a twentieth is idle"),
        pytest.param(SHORT_LAUNCH.plus(lasting(4e-6, 5e9)), id="as short as its launch"),
        pytest.param(SHORT_LAUNCH.plus({BUSIEST_SM: 1.41e4}), id="the busiest SM tells it"),
        pytest.param(SHORT_LAUNCH.plus(stalls(long_scoreboard=60)), id="warp states are known"),
        pytest.param(SHORT_LAUNCH.plus({WAVES: 0.7}), id="no blocks for them"),
        pytest.param(SHORT_LAUNCH.plus({WAVES: 1.25}), id="the last of two rounds can leave them idle"),
    ],
)
def test_idle_sms_that_are_not_the_launch(launch: Made) -> None:
    assert not [found for found in launch.findings("load-imbalance") if found.action.startswith("Do more in each")]


@each_row(("more", "gain"), [(busy(dram=55), 0.45), (issued(58), 0.42), ({}, 0.5)])
def test_filled_places_gain_no_more_than_slots_and_units_leave(more: Values, gain: float) -> None:
    found = SHORT.plus(more).finding("short-blocks")
    assert found.gain_kernel == pytest.approx(gain) and found.confidence == "inferred"


@each_row(
    ("more", "severity", "confidence"),
    [
        (busy(l1=70), "low", "guess"),
        (busy(dram=92), "info", "guess"),
        (issued(70), "low", "guess"),
        ({ELIGIBLE: 1.5, **issued(40)}, "low", "guess"),
    ],
)
def test_where_more_warps_may_find_no_room_short_blocks_are_a_guess(
    more: Values, severity: str, confidence: str
) -> None:
    found = SHORT.plus(more).finding("short-blocks")
    assert (found.severity, found.confidence) == (severity, confidence)


@each_row(
    "launch",
    [
        pytest.param(SHORT.plus({ACTIVE: 95.0}), id="the places are filled"),
        pytest.param(SHORT.plus({WAVES: 0.5}), id="the grid is under a wave"),
        pytest.param(SHORT.plus({BUSIEST_SM: 8e4}), id="a few blocks are long"),
        pytest.param(replace(SHORT.plus({WAVES: 1.5}), grid=(1296, 1, 1)).plus({ACTIVE: 70.0}), id="a last round"),
        pytest.param(SHORT.without(ACTIVE), id="achieved occupancy is not known"),
        pytest.param(SHORT.without(AVERAGE_SM), id="nor how long a block lives"),
    ],
)
def test_no_short_blocks(launch: Made) -> None:
    assert launch.findings("short-blocks") == []


def test_what_each_block_waits_for_at_its_start_and_end_is_explained_by_their_number() -> None:
    for reason, rule in (
        ("imc_miss", "constant-miss"),
        ("no_instruction", "instruction-fetch"),
        ("drain", "memory-latency"),
    ):
        launch = SHORT.plus(stalls(**{reason: 45}), issued(20))
        assert cause_of(launch, rule) == launch.finding("short-blocks").id
    loads = SHORT.plus(stalls(long_scoreboard=45), issued(20))
    assert cause_of(loads, "memory-latency") is None


# Real reports.


def test_a_fill_by_blocks_of_some_hundred_cycles_is_told_so(reports: Path) -> None:
    path = reports / "indexspaces.jl-profile.ncu-rep"
    if not path.is_file():
        pytest.skip(f"{path.name} is not among the real reports")
    full, *fills = gpuprof.load(path).kernels[:4]
    # 5397 blocks of one store a thread: 39 % of the places are filled, and SMs work for 67 % of the time: 61 % of 67 %.
    first = fills[0].findings[0]
    assert first.rule == "short-blocks" and first.gain_kernel == pytest.approx(0.41, abs=0.01)
    assert {kernel.findings[0].rule for kernel in fills} == {"short-blocks"}
    # The same fill of a larger array keeps DRAM 91 % busy.
    assert [finding.rule for finding in full.findings[:2]] == ["dram-bandwidth", "short-blocks"]
    assert full.findings[1].severity == "info"
