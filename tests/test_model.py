"""The formulas, on numbers worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey
from gpuprof.model.analyse import analyse
from gpuprof.model.ceilings import Hardware, blended_rate
from gpuprof.model.headline import main_point, main_stall, nearest_limit
from gpuprof.model.launch_analysis import profile_launch
from gpuprof.model.occupancy import LaunchResources, theoretical_occupancy
from gpuprof.model.quantities import Clocks, Counted, evaluate, is_constant_move
from gpuprof.model.recorded import Missing
from gpuprof.model.roofline import Roof, roofline_point
from gpuprof.model.sass_opcodes import matrix_opcode
from gpuprof.model.session import KernelProfile, RooflinePoint, Traffic, Work
from gpuprof.notebook import LoadedSession
from gpuprof.views.exports.tables import kernel_rows
from tests import builders
from tests.table import each_row

A100 = builders.a100()


def test_work_of_a_path_is_counted_by_whichever_counters_there_are() -> None:
    # FP32 operations are adds plus multiplies plus twice the fused.
    whole = Work("fp32", 1.3e7, 1.3e13, basis="counted", certificate="none")
    assert work_of("fp32", builders.FLOP_1) == whole
    of_sm = {name.replace("smsp__sass", "sm__sass"): value for name, value in builders.FLOP_1.items()}
    assert work_of("fp32", of_sm) == whole
    # Counters per cycle are scaled by the SM clock and the duration.
    per_cycle = {
        "gpu__time_duration.sum": 2e-3,
        "smsp__cycles_elapsed.avg.per_second": 1.5e9,
        "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum.per_cycle_elapsed": 10.0,
        "smsp__sass_thread_inst_executed_op_fmul_pred_on.sum.per_cycle_elapsed": 20.0,
        "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": 35.0,
    }
    work = work_of("fp32", per_cycle)
    assert work is not None and work.flop == pytest.approx(100 * 1.5e9 * 2e-3)
    # The opcode histogram, if counters are missing.
    second = {"gpu__time_duration.sum": 1.0}
    opcodes: dict[str | int, float] = {"FADD": 32.0, "FFMA": 64.0, "DFMA": 3.0, "LDG": 7.0}
    by_opcode = work_of("fp32", second, sass__thread_inst_executed_true_per_opcode=opcodes)
    assert by_opcode == Work("fp32", 160.0, 160.0, basis="counted", certificate="none")
    # Packed half instructions count both lanes; without the program, constant moves look like arithmetic.
    packed = {builders.ADD.format("hadd"): 1.0, builders.ADD.format("hmul"): 10.0, builders.ADD.format("hfma"): 100.0}
    work = work_of("fp16", {**second, **packed})
    assert work is not None and (work.flop, work.basis) == (2 + 20 + 400, "estimated")
    # An idle tensor pipe proves that there was no tensor work.
    tensor_pipe = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
    idle = work_of("tensor.bf16", {**second, tensor_pipe: 0.0})
    assert idle == Work("tensor.bf16", 0.0, 0.0, basis="counted", certificate="none")
    assert work_of("tensor.bf16", {**second, tensor_pipe: 0.1}) is None
    # 13,824 IMMA.16832 do 2 · 384³ operations; an opcode that hides its shape makes the path missing.
    work = work_of("tensor.int8", second, **{WARP_OPCODES: {"IMMA.16832.S8.S8.SAT": 13824.0, "LDSM.16.M88.4": 5.0}})
    assert work is not None and work.flop == 2 * 384**3
    assert work_of("tensor.fp16", second, **{WARP_OPCODES: {"UTCHMMA.gdesc": 10.0}}) is None


def profiled(
    values: Mapping[str, float | str],
    instances: Mapping[str, dict[str | int, float]] | None = None,
    hardware: Hardware | None = None,
    **shape: Any,
) -> KernelProfile:
    """The profile of a launch with these counters, on an A100 unless other hardware is given."""
    launch = builders.launch(dict(values), dict(instances or {}), **shape)
    return profile_launch(launch, 0, 0, hardware or builders.a100()).profile


def work_of(path: str, values: Mapping[str, float | str], **instances: Any) -> Work | None:
    return next((work for work in profiled(values, instances).work if work.path == path), None)


@each_row(("word", "expected"), [
    (0x000FE200000001FF_00000000FF057435, True),  # HFMA2.MMA R5, -RZ, RZ, 0, 0
    (0x000FE200000001FF_00000000FF057431, True),  # HFMA2 R5, -RZ, RZ, 0, 0
    (0x000FC6000040081D_8000001C021D7231, False),  # HFMA2 R29, R2.H0_H0, -R28.H0_NH1, R29
    (0x000FE200078E00FF_00000A00FF017624, False),  # IMAD.MOV.U32 R1, RZ, RZ, c[0x0][0x28]
])  # fmt: skip
def test_constant_loads_are_told_by_their_encoding(word: int, expected: bool) -> None:
    assert is_constant_move(word) is expected


def test_missing_work_is_missing_with_a_reason_and_never_zero() -> None:
    profile = profiled({"gpu__time_duration.sum": 1e-6})
    assert profile.work == ()
    assert profile.roofline == ()
    entry = next(entry for entry in profile.missing if "work.fp32" in entry.what.split(", "))
    assert "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum" in entry.why
    assert "--set full" in entry.how


@each_row(("opcode", "path", "accumulator", "instruction", "flop"), [
    ("HMMA.16816.F32", "tensor.fp16", "fp32", "mma.sync", 4096),
    ("HMMA.16816.F16", "tensor.fp16", "fp16", "mma.sync", 4096),
    ("HMMA.1688.F32.BF16", "tensor.bf16", "fp32", "mma.sync", 2048),
    ("HMMA.1688.F32.TF32", "tensor.tf32", "fp32", "mma.sync", 2048),
    ("HMMA.884.F32.F32.STEP0", "tensor.fp16", "fp32", "mma.sync", 512),
    ("HMMA.SP.16832.F32", "tensor.fp16", "fp32", "mma.sync", 4096),
    ("IMMA.16832.S8.S8.SAT", "tensor.int8", "int32", "mma.sync", 8192),
    ("IMMA.16864.S4.S4", "tensor.int4", "int32", "mma.sync", 16384),
    ("DMMA.884", "tensor.fp64", "fp64", "mma.sync", 512),
    ("BMMA.168256.XOR.POPC", "tensor.int1", "int32", "mma.sync", 65536),
    ("HGMMA.64x256x16.F32.BF16", "tensor.bf16", "fp32", "wgmma", 524288),
    ("QGMMA.64x128x32.F32.E4M3.E4M3", "tensor.fp8", "fp32", "wgmma", 524288),
    ("QMMA.16832.F32.E2M1.E2M1", "tensor.fp4", "fp32", "mma.sync", 8192),
])  # fmt: skip
def test_a_matrix_opcode_carries_path_shape_and_flop(
    opcode: str, path: str, accumulator: str, instruction: str, flop: float
) -> None:
    found = matrix_opcode(opcode)
    assert found is not None
    assert (found.key, found.flop) == (ComputeKey(path, accumulator, instruction), flop)
    for other in ("HFMA2.MMA", "IMAD.WIDE", "FFMA", "WARPGROUP.ARRIVE", ""):
        assert matrix_opcode(other) is None


def point_at(flop: float, moved: float, time_s: float, roof: Roof) -> RooflinePoint | None:
    """The point of a kernel that does so many operations and moves so many bytes in this time."""
    work = Work("fp32", flop, flop / time_s, basis="counted")
    return roofline_point(work, Traffic("dram", moved, moved / time_s, definition="", basis="counted"), roof)


def test_a_point_is_bound_by_memory_under_the_slope_and_by_compute_right_of_the_ridge() -> None:
    roof = Roof("at-clock", flop_per_s=100.0, bytes_per_s=10.0)
    assert roof.ridge() == 10.0
    point = point_at(40.0, 20.0, 4.0, roof)
    assert point is not None
    assert (point.intensity, point.flop_per_s, point.roof_flop_per_s) == (2.0, 10.0, 20.0)
    assert (point.fraction_of_roof, point.bound) == (0.5, "memory")
    point = point_at(400.0, 20.0, 8.0, roof)
    assert point is not None
    assert (point.roof_flop_per_s, point.fraction_of_roof, point.bound) == (100.0, 0.5, "compute")
    assert point_at(0.0, 20.0, 1.0, roof) is None and point_at(9.0, 0.0, 1.0, roof) is None


@given(
    flop=st.floats(1, 1e18), moved=st.floats(1, 1e15), time_s=st.floats(1e-9, 1e3),
    compute=st.floats(1e6, 1e16), bandwidth=st.floats(1e3, 1e14),
)  # fmt: skip
def test_a_roofline_fraction_is_the_larger_of_both_utilisations(
    flop: float, moved: float, time_s: float, compute: float, bandwidth: float
) -> None:
    point = point_at(flop, moved, time_s, Roof("measured", compute, bandwidth))
    assert point is not None
    expected = max(flop / time_s / compute, moved / time_s / bandwidth)
    assert point.fraction_of_roof == pytest.approx(expected, rel=1e-9)


def test_rates_place_a_kernel_whose_duration_was_not_recorded() -> None:
    fadd = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    values = {fadd.format("fadd"): 100.0, fadd.format("fmul"): 0.0, fadd.format("ffma"): 450.0}
    values |= {"sm__cycles_elapsed.avg.per_second": 1e9, "dram__bytes.sum.per_second": 5e11}
    profile = profiled(values)
    assert profile.duration_s is None
    assert next(work for work in profile.work if work.path == "fp32") == Work(
        "fp32", None, 1e12, basis="counted", certificate="none"
    )
    point = main_point(profile, ceiling="rated")
    assert point is not None and point.intensity == pytest.approx(2.0)


@each_row(
    ("metric", "factor", "refused"),
    [
        # 13.0 of 13.8 TFLOP/s, and 1.3 of 1.92 TB/s.
        ("gpu__time_duration.sum", 1, ()),
        ("gpu__time_duration.sum", 1 / 1.1, ()),
        ("gpu__time_duration.sum", 1 / 1.2, ("fp32",)),
        ("dram__bytes.sum", 1.5, ()),
        ("dram__bytes.sum", 1.6, ("dram",)),
        ("gpu__time_duration.sum", 1 / 100, ("fp32", "dram")),
    ],
)
def test_a_rate_above_its_ceiling_is_told_and_has_no_point(
    metric: str, factor: float, refused: tuple[str, ...]
) -> None:
    found = profile_launch(builders.launch(builders.FLOP_1 | {metric: builders.FLOP_1[metric] * factor}), 0, 0, A100)
    gaps = {gap.what: gap.why for gap in found.profile.missing if gap.what.startswith("roofline.")}
    assert gaps.keys() == {f"roofline.{target}" for target in refused}
    assert bool(found.profile.roofline) == (not refused)
    assert {"fp32", "dram"} <= found.at_clock.keys(), "the ceilings may be right: other kernels are held to them"
    assert [unit.fraction for unit in found.profile.throughput if unit.fraction > 1.05] == []
    if factor == 1 / 100:
        assert gaps["roofline.fp32"].startswith("1.30 PFLOP/s are 94 times 13.8 TFLOP/s")


def test_a_figure_above_its_peak_is_told_and_not_shown() -> None:
    light = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
    pipe, issue = (
        "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "smsp__issue_active.avg.per_cycle_active",
    )
    for factor, there in ((1.0, True), (1.04, True), (1.06, False)):
        profile = profiled({light: 100 * factor, pipe: 100 * factor, issue: factor})
        assert [bool(profile.throughput), bool(profile.pipes), profile.scheduler is not None] == [there] * 3
        gaps = {what for gap in profile.missing for what in gap.what.split(", ") if "wrong" in gap.why}
        assert gaps == (set() if there else {"throughput.dram", "pipe.fma", "scheduler.issue-active"})


def test_at_clock_ceilings_come_from_the_report_and_else_from_the_spec() -> None:
    launch = builders.launch(builders.FLOP_1)
    found = profile_launch(launch, 0, 0, builders.a100())
    assert found.at_clock["dram"].value == 1280 * 1.5e9
    assert found.at_clock["fp32"].value == 128 * 108 * 1e9
    assert "sm_80" not in found.at_clock["fp32"].source and "108 SMs" in found.at_clock["fp32"].source
    assert found.rated["fp32"].value == 19.5e12
    assert found.rated["dram"].value == 1935e9
    point = main_point(found.profile)
    assert point is not None
    assert point.intensity == pytest.approx(10.0)
    assert point.fraction_of_roof == pytest.approx(1.3e13 / min(128 * 108 * 1e9, 10 * 1280 * 1.5e9))


def test_a_kernel_of_two_instruction_kinds_gets_their_harmonic_mean() -> None:
    rates = builders.a100().rates
    int8, fp16 = ComputeKey("tensor.int8", "int32", "mma.sync"), ComputeKey("tensor.fp16", "fp32", "mma.sync")
    blended = blended_rate("tensor.int8", {int8: 100.0, fp16: 100.0}, rates)
    assert blended is not None
    assert blended.value == pytest.approx(200 / (100 / 4096 + 100 / 2048))
    assert blended_rate("tensor.fp16", {ComputeKey("tensor.fp16", "fp32", "wgmma"): 1.0}, rates) is None


def test_an_estimate_from_percent_of_peak_says_so() -> None:
    counters = builders.a100().arch.counters
    table = builders.metrics({"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 25.0})
    found = evaluate(counters["traffic.dram"], "traffic.dram", table, Clocks(2.0, dram_peak_bytes_per_s=1e12))
    assert isinstance(found, Counted)
    assert (found.value, found.basis) == (0.25 * 1e12 * 2.0, "estimated")
    assert isinstance(evaluate(counters["traffic.dram"], "traffic.dram", table, Clocks(duration_s=2.0)), Missing)


@each_row(("resources", "fraction", "limiters"), [
    # 256 threads, 32 registers: 8 blocks of 8 warps fill 64 warps.
    (LaunchResources(256, 32, 1024), 1.0, ()),
    # 255 registers round to 256: 8192 a warp, 2 warps a sub-partition, 8 an SM: one block of 8 warps.
    (LaunchResources(256, 255, 1024), 8 / 64, ("registers",)),
    # 96 registers: 3072 a warp, 5 warps a sub-partition, 20 an SM: two blocks of 8.
    (LaunchResources(256, 96, 1024), 16 / 64, ("registers",)),
    # 49 KiB + 1 KiB reserved: three blocks fit into 164 KiB.
    (LaunchResources(128, 32, 50 * 1024), 12 / 64, ("shared memory",)),
    # One warp a block: 32 blocks an SM.
    (LaunchResources(32, 16, 1024), 32 / 64, ("blocks",)),
    # 33 registers are allocated as 40, 1,280 for a warp: 12 warps in each of four parts, so 6 blocks of 8 warps.
    (LaunchResources(256, 33, 1024), 48 / 64, ("registers",)),
    # 1024 threads: two blocks.
    (LaunchResources(1024, 32, 1024), 1.0, ()),
    # 768 threads: two blocks of 24 warps leave 16 warps unused.
    (LaunchResources(768, 32, 1024), 48 / 64, ("registers", "block size")),
    # The carve-out that the driver chose has room for one block; the largest for 8, the registers for 16.
    (LaunchResources(128, 32, 20 * 1024, 32 * 1024), 4 / 64, ("carve-out",)),
    # A carve-out with room for as many blocks as the registers allow is no limit: the largest has room for 16.
    (LaunchResources(256, 96, 10 * 1024, 20 * 1024), 16 / 64, ("registers",)),
    # The largest has room for no more blocks than the registers allow.
    (LaunchResources(256, 96, 80 * 1024, 164 * 1024), 16 / 64, ("registers", "shared memory")),
    # Blocks without shared memory, but for the driver's KiB, of which the chosen carve-out holds 8 of 32.
    (LaunchResources(64, 16, 1024, 8 * 1024, reserved_shared_bytes=1024), 16 / 64, ("carve-out",)),
    # The same in the largest: 64 threads, 32 blocks fill the SM.
    (LaunchResources(64, 16, 1024, None, reserved_shared_bytes=1024), 1.0, ()),
])  # fmt: skip
def test_occupancy_by_hand(resources: LaunchResources, fraction: float, limiters: tuple[str, ...]) -> None:
    found = theoretical_occupancy(resources, builders.a100().arch)
    assert found is not None
    assert found.fraction == pytest.approx(fraction)
    assert found.limiters == limiters


@given(
    threads=st.integers(1, 1024), registers=st.integers(0, 255), shared=st.integers(0, 163 * 1024),
)  # fmt: skip
def test_occupancy_never_exceeds_one_and_more_resources_never_raise_it(
    threads: int, registers: int, shared: int
) -> None:
    arch = builders.a100().arch
    found = theoretical_occupancy(LaunchResources(threads, registers, shared), arch)
    hungrier = theoretical_occupancy(LaunchResources(threads, min(255, registers + 8), shared + 1024), arch)
    assert found is not None and hungrier is not None
    assert 0 <= found.fraction <= 1
    assert hungrier.blocks_per_sm <= found.blocks_per_sm


def test_stall_shares_of_each_family_sum_to_one() -> None:
    pattern = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    profile = profiled(
        {
            pattern.format("long_scoreboard"): 6.0,
            pattern.format("selected"): 1.0,
            pattern.format("wait"): 3.0,
            "smsp__pcsamp_warps_issue_stalled_no_instructions": 15.0,
            "smsp__pcsamp_warps_issue_stalled_wait": 45.0,
            "smsp__pcsamp_warps_issue_stalled_selected": 0.0,
        }
    )
    counter = {stall.reason: stall for stall in profile.stalls if stall.family == "counter"}
    sampled = {stall.reason: stall for stall in profile.stalls if stall.family == "sampled"}
    assert counter["long_scoreboard"].share == pytest.approx(0.6)
    assert counter["long_scoreboard"].cycles_per_issue == 6.0
    assert sampled["no_instruction"].share == pytest.approx(0.25)
    assert sampled["no_instruction"].cycles_per_issue is None
    stall = main_stall(profile)
    assert stall is not None and stall.reason == "long_scoreboard"
    assert main_stall(profiled({pattern.format("selected"): 1.0})) is None
    # Stalls that are all there are shares of their sum, whatever the counter of all says.
    reasons = builders.a100().arch.stalls
    values = {pattern.format(reason): 1.0 for reason in reasons}
    stalls = profiled({**values, "smsp__average_warp_latency_per_inst_issued.ratio": 2.0 * len(reasons)}).stalls
    assert sum(stall.share for stall in stalls) == pytest.approx(1.0)


def test_too_few_samples_give_no_shares_and_say_so() -> None:
    # 0.5 ÷ √52 is 6.9 points, 0.5 ÷ √51 is 7.0014.
    name = "smsp__pcsamp_warps_issue_stalled_wait"
    every = {f"smsp__pcsamp_warps_issue_stalled_{reason}": 0.0 for reason in builders.a100().arch.stalls}
    idle = {f"{state}_not_issued": 0.0 for state in every}
    enough = profiled({**every, name: 52.0, **idle, f"{name}_not_issued": 51.0})
    assert [(stall.family, stall.share) for stall in enough.stalls if stall.share] == [("sampled", 1.0)]
    (gap,) = (gap for gap in enough.missing if gap.what.startswith("stalls"))
    assert gap.what == "stalls.sampled-not-issued" and gap.why.startswith("51 samples")
    few = profiled({**every, name: 1.0})
    assert few.stalls == ()
    assert {"stalls", "stalls.sampled"} <= {gap.what for gap in few.missing}
    assert "stalls" not in str(profiled({**every, name: 52.0}).missing)


def test_samples_of_a_few_states_are_shares_of_all_samples_or_of_nothing() -> None:
    picked = {"smsp__pcsamp_warps_issue_stalled_barrier": 90.0, "smsp__pcsamp_warps_issue_stalled_wait": 10.0}
    assert profiled(picked).stalls == ()
    stalls = profiled({**picked, "smsp__pcsamp_sample_count": 1000.0}).stalls
    assert [(stall.reason, stall.share) for stall in stalls] == [("barrier", 0.09), ("wait", 0.01)]


PERCENT = "{}.avg.pct_of_peak_sustained_elapsed".format


def limit_of(values: Mapping[str, float]) -> tuple[str, float] | None:
    """The unit that is nearest to its limit, and how near."""
    limit = nearest_limit(profiled(values))
    return (limit.unit, limit.fraction) if limit is not None else None


@each_row(
    "values",
    [
        # 60 % of the warp states each time, the rest in states that were not collected.
        {"smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct": 60.0},
        {
            "smsp__average_warp_latency_issue_stalled_long_scoreboard.ratio": 3000.0,
            "smsp__average_warp_latency.ratio": 5000.0,
        },
        {
            "smsp__warps_issue_stalled_long_scoreboard.avg.per_cycle_active": 4.8,
            "smsp__warps_active.avg.per_cycle_active": 8.0,
        },
        {
            "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 12.0,
            "smsp__average_warp_latency_per_inst_issued.ratio": 20.0,
        },
        # 8 warps and two issues in five cycles: 20 warp cycles an issue.
        {
            "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio": 12.0,
            "smsp__warps_active.avg.per_cycle_active": 8.0,
            "smsp__issue_active.avg.per_cycle_active": 0.4,
        },
    ],
    ids=["per active warp", "per warp", "per cycle", "per issue", "per issue, of warps and issues"],
)
def test_a_stall_has_its_share_of_all_states_by_whichever_counter_it_was_collected(values: dict[str, float]) -> None:
    (stall,) = profiled(values).stalls
    assert (stall.reason, stall.family) == ("long_scoreboard", "counter")
    assert stall.share == pytest.approx(0.6)


@each_row("elapsed", ["sm__cycles_elapsed.max", "gpc__cycles_elapsed.max"])
def test_l1_of_active_cycles_is_told_of_all_cycles_where_both_were_counted(elapsed: str) -> None:
    # 80 % of the cycles in which an average SM had work, which are three quarters of all.
    active = {
        "l1tex__throughput.avg.pct_of_peak_sustained_active": 80.0, "sm__cycles_active.avg": 900.0, elapsed: 1200.0,
    }  # fmt: skip
    for values, fraction in ((active, 0.6), ({**active, PERCENT("l1tex__throughput"): 58.0}, 0.58)):
        (l1,) = profiled(values).throughput
        assert (l1.unit, l1.definition) == ("l1", None) and l1.fraction == pytest.approx(fraction)


def test_the_l2_roof_is_that_of_accesses_by_the_sms_at_the_clock_of_l2() -> None:
    values = {
        **builders.FLOP_1,
        "lts__t_sectors.avg.peak_sustained": 3.0,
        "lts__t_sectors_srcunit_tex.avg.peak_sustained": 2.0,
        "device__attribute_l2s_count": 80.0,
    }
    at_sm_clock = profile_launch(builders.launch(values), 0, 0, builders.a100()).at_clock["l2"]
    assert at_sm_clock.value == 2 * 32 * 80 * 1e9
    own = profile_launch(builders.launch({**values, "lts__cycles_elapsed.avg": 900.0}), 0, 0, builders.a100())
    assert own.at_clock["l2"].value == pytest.approx(2 * 32 * 80 * 0.9e9)
    assert own.at_clock["l2"].source != at_sm_clock.source


@each_row(("values", "duration_s"), [
    ({"gpu__time_active.sum": 2e-3}, 2e-3),
    ({"sm__cycles_elapsed.avg": 5000.0, "sm__cycles_elapsed.avg.per_second": 1e9}, 5e-6),
    ({"sm__cycles_elapsed.avg": 5000.0, "sm__cycles_elapsed.avg.per_second": 0.0}, None),
    ({"gpu__time_duration.sum": -1e-6}, None), ({"gpu__time_duration.sum": math.inf}, None),
    ({"gpu__time_duration.sum": -math.inf}, None), ({"gpu__time_duration.sum": "nan"}, None),
])  # fmt: skip
def test_a_duration_is_recorded_or_derived_from_cycles_and_their_rate(
    values: dict[str, float | str], duration_s: float | None
) -> None:
    profile = profiled(values)
    assert profile.duration_s == (pytest.approx(duration_s) if duration_s is not None else None)
    gaps = [gap for gap in profile.missing if "duration" in gap.what]
    assert bool(gaps) == (duration_s is None) and all(gap.why and gap.how for gap in gaps)
    value = values.get("gpu__time_duration.sum")
    if isinstance(value, float):
        assert any(f"{value:g} s" in gap.why for gap in gaps)


def test_limiters_of_an_unknown_architecture_are_those_of_the_report() -> None:
    limits = {"registers": 5.0, "shared_mem": 16.0, "warps": 8.0, "blocks": 16.0}
    values = {
        **builders.FLOP_1,
        **{f"launch__occupancy_limit_{name}": value for name, value in limits.items()},
        "sm__maximum_warps_per_active_cycle_pct": 62.5,
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 2560.0,
    }
    old = RecordedDevice(name="NVIDIA Old", compute_capability="6.1", sm_count=20)
    session = analyse([builders.report(builders.launch(values), device=old)], builders.hardware_of, "1").session
    (kernel,) = session.kernels
    assert (kernel.occupancy.theoretical, kernel.occupancy.limiters) == (0.625, ("registers",))
    assert next(work for work in kernel.work if work.path == "fp32").flop == 1.3e7
    assert {ceiling.id: ceiling.value for ceiling in session.ceilings}["at-clock/fp32"] == 2 * 2560 * 1e9
    whole = {**values, "sm__maximum_warps_per_active_cycle_pct": 100.0}
    assert profiled(whole, hardware=builders.hardware_of(old)).occupancy.limiters == ()


@each_row(
    ("more", "waves"),
    [
        # 64 blocks on 108 SMs: 2 blocks of 96 registers an SM, as computed and as reported.
        ({"launch__registers_per_thread": 96.0, "launch__shared_mem_per_block": 2048.0}, 64 / (2 * 108)),
        ({f"launch__occupancy_limit_{name}": 4.0 for name in ("registers", "shared_mem", "warps", "blocks")}, 64 / 432),
        # Neither shared memory nor the report's limits: nothing to count with.
        ({"launch__registers_per_thread": 96.0}, None),
        # Blocks of a cluster are placed together.
        (
            {"launch__registers_per_thread": 96.0, "launch__shared_mem_per_block": 2048.0, "launch__cluster_size": 2.0},
            None,
        ),
        ({"launch__waves_per_multiprocessor": 0.25, "launch__registers_per_thread": 96.0}, 0.25),
    ],
)
def test_waves_follow_from_the_grid_and_the_blocks_that_fit(more: dict[str, float], waves: float | None) -> None:
    kernel = profiled(more)
    assert kernel.waves == (pytest.approx(waves) if waves is not None else None)


@each_row(("values", "shared"), [
    ({"static": 16.0, "dynamic": 24120.0}, 24136), ({"": 25160.0, "driver": 1024.0}, 24136),
    # Rounded up to units of 128 B.
    ({"allocated": 25216.0}, 24192), ({"static": 16.0}, None),
])  # fmt: skip
def test_shared_memory_of_a_block_is_without_what_the_driver_reserves(
    values: dict[str, float], shared: int | None
) -> None:
    names = {f"launch__shared_mem_per_block_{name}".removesuffix("_"): value for name, value in values.items()}
    assert profiled(names).shared_memory_per_block == shared


def test_achieved_occupancy_is_also_what_the_schedulers_held() -> None:
    # 4 of 16 warps a scheduler.
    values = {"sm__warps_active.avg.per_cycle_active": 16.0}
    assert profiled(values).occupancy.achieved == 0.25
    assert not any("occupancy" in gap.what for gap in profiled(values).missing)
    values["smsp__warps_active.avg.pct_of_peak_sustained_active"] = 24.0
    assert profiled(values).occupancy.achieved == 0.24


def test_parts_of_a_pipe_tell_of_the_others() -> None:
    # 68 % of both halves of the FMA pipe are 96 % and 40 %.
    both, heavy = (f"sm__pipe_{pipe}_cycles_active.avg.pct_of_peak_sustained_elapsed" for pipe in ("fma", "fmaheavy"))
    a10g = builders.hardware_of(RecordedDevice(compute_capability="8.6"))
    for busy, lite in ((68.0, 0.96), (19.999, 0.0)):
        pipes = {pipe.name: pipe.fraction for pipe in profiled({both: busy, heavy: 40.0}, hardware=a10g).pipes}
        assert pipes == {"fma": pytest.approx(busy / 100), "fmaheavy": 0.4, "fmalite": pytest.approx(lite)}
    # An idle part of the tensor pipe says nothing of the whole.
    name = "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active"
    assert {pipe.name: pipe.fraction for pipe in profiled({name: 30.0}).pipes} == {"tensor": pytest.approx(0.3)}
    assert profiled({name: 0.0}).pipes == ()


DRAM_CLOCK = "dram__cycles_elapsed.avg.per_second"


@each_row(
    ("values", "device", "ceiling", "clock"),
    [
        # 5120 bit are 640 B, twice a clock.
        ({DRAM_CLOCK: 1.5e9}, {"memory_bus_bits": 5120, "max_memory_clock_hz": 1.6e9}, 1920e9, 1.5e9),
        # 3 million cycles in 2 ms.
        (
            {"dram__cycles_elapsed.avg": 3e6, "gpu__time_duration.sum": 2e-3},
            {"memory_bus_bits": 5120, "max_memory_clock_hz": 1.6e9},
            1920e9,
            1.5e9,
        ),
        # The width is also known of the product.
        ({DRAM_CLOCK: 1.5e9}, {}, 1920e9, 1.5e9),
        # The highest clock is what is left without a recorded one, or with one that counts something else.
        ({}, {"memory_bus_bits": 5120, "max_memory_clock_hz": 1.6e9}, 2048e9, 1.6e9),
        ({DRAM_CLOCK: 3.2e9}, {"memory_bus_bits": 5120, "max_memory_clock_hz": 1.6e9}, 2048e9, 1.6e9),
        # What ncu says of a cycle comes first.
        (
            {DRAM_CLOCK: 1.5e9, "dram__bytes.sum.peak_sustained": 1000.0},
            {"memory_bus_bits": 5120, "max_memory_clock_hz": 1.6e9},
            1500e9,
            1.5e9,
        ),
    ],
)
def test_dram_moves_what_its_recorded_clock_allows(
    values: dict[str, float], device: dict[str, Any], ceiling: float, clock: float
) -> None:
    hardware = replace(builders.a100(), device=RecordedDevice(compute_capability="8.0", **device))
    limit = profile_launch(builders.launch(dict(values)), 0, 0, hardware).at_clock["dram"]
    assert limit.value == pytest.approx(ceiling)
    assert limit.clock_hz == pytest.approx(clock)
    assert ("highest" in limit.source) == (clock == 1.6e9)


def test_shares_labels_and_numbers_are_given_over_all_launches() -> None:
    first = builders.launch(builders.FLOP_1, name="a")
    second = builders.launch(builders.FLOP_1 | {"gpu__time_duration.sum": 3e-6}, name="b")
    third = builders.launch({}, name="c")
    report = builders.report(first, second, third)
    session = analyse([report], builders.hardware_of, "1").session
    assert [kernel.time_share for kernel in session.kernels] == [pytest.approx(0.25), pytest.approx(0.75), None]
    assert [kernel.id for kernel in session.kernels] == [0, 1, 2]
    assert session.devices[0].spec == "a100-80gb-pcie"
    ceilings = {f"{origin}/{limit}" for origin in ("rated", "at-clock") for limit in ("fp32", "dram")}
    assert {ceiling.id for ceiling in session.ceilings} >= ceilings
    full, _, empty = kernel_rows(session)
    assert full.keys() == empty.keys()
    assert full["flop_fp32"] == 1.3e7
    assert empty["flop_fp32"] is None and empty["duration_s"] is None
    frame = LoadedSession.of(session).to_dataframe()
    assert frame.shape[0] == 3 and frame.loc[0, "flop_per_s_fp32"] == pytest.approx(1.3e13)


def test_the_memory_throughput_is_the_larger_of_its_two_parts_where_those_alone_were_collected() -> None:
    part = "gpu__compute_memory_{}_throughput.avg.pct_of_peak_sustained_elapsed".format
    both = {part("access"): 46.3, part("request"): 75.0}
    assert [(unit.unit, unit.fraction, unit.definition) for unit in profiled(both).throughput] == [
        ("memory", 0.75, None)
    ]
    assert limit_of(both) == ("memory", 0.75)
    alone = {part("access"): 46.3}
    assert profiled(alone).throughput == () and limit_of(alone) is None
