"""Why a kernel's time changed, on kernels whose numbers can be worked out on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.comparison.causes.causes import causes_of
from gpuprof.comparison.causes.time_model import parts_of
from gpuprof.comparison.contract import (
    ChangeCause,
    ComparedKernel,
    CountChange,
    CountWord,
    KernelChange,
    LineChange,
    QuantityChange,
    RunCondition,
    TimeChange,
    TimeWord,
    WorkChange,
    WorkWord,
)
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sentences import kernel_sentence, whole_sentence
from gpuprof.model.session import KernelProfile, Occupancy, Pipe, Scheduler, Stall, Throughput
from tests.compare_builders import kernel, pair, pair_of, side
from tests.table import each_row


def time_of(ratio: float | None, verdict: TimeWord, base_s: float = 1e-5, *, comparable: bool = True) -> TimeChange:
    """A verdict on time that another part of the comparison gave."""
    return TimeChange(
        verdict=verdict,
        base_s=base_s,
        new_s=base_s * ratio if ratio is not None else None,
        ratio=ratio,
        interval=None,
        base_cycles=None,
        new_cycles=None,
        cycles_ratio=None,
        cycles_interval=None,
        base_runs=1,
        new_runs=1,
        base_launches=1,
        new_launches=1,
        noise=0.01 if comparable else None,
        noise_source="",
    )


def counted(name: str, base: float | None, new: float | None, word: CountWord | None = None) -> CountChange:
    """A counter on both sides; its word follows from the values unless it is given."""
    if word is None:
        word = "same" if base == new else "less" if (base or 0.0) > (new or 0.0) else "more"
    return CountChange(
        name=name,
        unit="B" if name.endswith("bytes") else "FLOP" if name.startswith("flop.") else "counts",
        base=base,
        new=new,
        ratio=new / base if base and new is not None else None,
        word=word,
        tolerance=0.001,
        data_dependent=False,
        metric="made_up.sum",
    )


def work_of(*counts: CountChange, verdict: WorkWord = "changed") -> WorkChange:
    """A verdict on work."""
    return WorkChange(verdict=verdict, counts=counts)


def busy(
    duration_s: float = 1e-5,
    *,
    clock_hz: float = 1e9,
    units: Mapping[Any, float] | None = None,
    pipes: Mapping[str, float] | None = None,
    achieved: float | None = None,
    theoretical: float | None = None,
    limiters: tuple[str, ...] = ("registers",),
    issue: float | None = None,
    stalls: Mapping[str, float] | None = None,
    **fields: Any,
) -> KernelProfile:
    """A launch with the busy fractions of its units and what its warps did."""
    made = kernel(durations_s=(duration_s,), clocks_hz=(clock_hz,), **{"waves": 10.0, **fields})
    return replace(
        made,
        throughput=tuple(Throughput(unit, fraction) for unit, fraction in (units or {}).items()),
        pipes=tuple(
            Pipe(name, value, f"{name}.pct_of_peak_sustained_elapsed") for name, value in (pipes or {}).items()
        ),
        scheduler=Scheduler(issue_active=issue, eligible_warps=None, active_warps=None, warp_slots=16.0),
        stalls=tuple(Stall(name, 0.1, value, "counter") for name, value in (stalls or {}).items()),
        occupancy=Occupancy(theoretical, achieved, limiters),
    )


def causes(
    base: KernelProfile,
    new: KernelProfile,
    *counts: CountChange,
    verdict: TimeWord | None = None,
    lines: Sequence[LineChange] = (),
) -> tuple[ChangeCause, ...]:
    """The causes of the change between two launches; the verdict follows from their durations unless it is given."""
    return causes_of(pair_of(base, new), _time(base, new, verdict), work_of(*counts), lines)


def sentence(
    base: KernelProfile,
    new: KernelProfile,
    *counts: CountChange,
    verdict: TimeWord | None = None,
    work: WorkWord = "changed",
    lines: Sequence[LineChange] = (),
) -> str:
    """The sentence on a pair of launches."""
    both, time = pair_of(base, new), _time(base, new, verdict)
    told = work_of(*counts, verdict=work)
    return kernel_sentence(both, time, told, causes_of(both, time, told, lines))


def _time(base: KernelProfile, new: KernelProfile, verdict: TimeWord | None) -> TimeChange:
    ratio = (new.duration_s or 0.0) / (base.duration_s or 1.0)
    return time_of(ratio, verdict or ("slower" if ratio > 1 else "faster"), base.duration_s or 1e-5)


def mechanisms(told: Sequence[ChangeCause], direction: Literal["slower", "faster", "neutral"]) -> list[str]:
    """The mechanisms that are told to have an effect in one direction."""
    return [cause.mechanism for cause in told if cause.direction == direction]


LINE_88 = LineChange(file="src/solve.cu", base_line=86, new_line=88, text="a[i] = b;", what="local", base=0.0, new=12.0)


def test_fewer_warps_for_more_registers_are_told_with_the_bytes_that_did_not_change_and_the_line() -> None:
    base = busy(1e-5, units={"dram": 0.8}, theoretical=0.75, achieved=0.7, registers=40)
    new = busy(1.18e-5, units={"dram": 0.8 / 1.18}, theoretical=0.5, achieved=0.48, registers=72)
    told = sentence(base, new, counted("dram-bytes", 1e9, 1e9), lines=[LINE_88])
    assert told == (
        "slower by 18 %: registers 40 → 72, occupancy 75 % → 50 % (limited by registers), achieved 70 % → 48 %, "
        "DRAM bytes unchanged; line 88 gained 12 local loads and stores"
    )


def test_bytes_of_the_unit_that_binds_come_first() -> None:
    base = busy(1e-5, units={"dram": 0.9, "l2": 0.2}, issue=0.2)
    new = busy(2e-5, units={"dram": 0.9, "l2": 0.2}, issue=0.1)
    told = causes(base, new, counted("dram-bytes", 1e9, 2e9), counted("instructions", 1e6, 1e6))
    assert told[0].mechanism == "dram-bytes"
    assert told[0].sentence == "DRAM bytes 1.00 → 2.00 GB (+100 %)"
    assert told[1].mechanism == "unit-time"
    assert told[1].sentence == "DRAM busy 9.00 → 18.0 µs (90 % → 90 % of the time)"
    assert mechanisms(told, "neutral") == ["instructions"]


def test_bytes_of_a_level_that_is_hardly_busy_are_no_cause() -> None:
    base = busy(2e-5, units={"dram": 0.01, "sm": 0.9}, pipes={"lsu": 0.9}, issue=0.3)
    new = busy(1e-5, units={"dram": 0.002, "sm": 0.9}, pipes={"lsu": 0.9}, issue=0.3)
    told = causes(base, new, counted("dram-bytes", 1e9, 1e8))
    assert mechanisms(told, "faster") == ["unit-time"]
    assert "LSU pipe" in told[0].sentence


def test_the_same_cycles_at_another_clock_are_the_clock() -> None:
    base, new = busy(1e-5, clock_hz=1.5e9, issue=0.4), busy(1.5e-5, clock_hz=1e9, issue=0.4)
    told = causes(base, new, counted("instructions", 1e6, 1e6))
    assert told[0].mechanism == "clock"
    assert told[0].sentence == "SM clock 1.50 → 1.00 GHz (the same cycles)"
    assert mechanisms(told, "slower") == ["clock"]


def test_where_no_unit_binds_time_follows_the_instructions() -> None:
    base = busy(2e-5, issue=0.3, achieved=0.5, theoretical=0.5, units={"sm": 0.3, "dram": 0.1})
    new = busy(1e-5, issue=0.3, achieved=0.5, theoretical=0.5, units={"sm": 0.3, "dram": 0.1})
    told = causes(base, new, counted("instructions", 2e9, 1e9))
    assert mechanisms(told, "faster") == ["instructions"]


def test_a_stall_that_grew_is_named_where_warps_only_wait_longer() -> None:
    base = busy(1e-5, issue=0.4, achieved=0.5, theoretical=0.5, stalls={"long_scoreboard": 10.0, "wait": 2.0})
    new = busy(1.5e-5, issue=0.267, achieved=0.5, theoretical=0.5, stalls={"long_scoreboard": 16.0, "wait": 2.0})
    told = causes(base, new, counted("instructions", 1e6, 1e6))
    assert told[0].mechanism == "stalls"
    assert told[0].sentence == "Long Scoreboard 10.0 → 16.0 cycles per instruction (of 12.0 → 18.0)"
    assert told[0].certainty == "inferred"


def test_equal_counts_do_not_explain_a_change_and_that_is_said() -> None:
    told = sentence(busy(1e-5), busy(1.3e-5), counted("instructions", 1e6, 1e6), counted("dram-bytes", 1e6, 1e6))
    assert told.startswith("slower by 30 %: nothing that was counted changed")


def test_without_counters_no_cause_is_made_up() -> None:
    told = causes(busy(1e-3, registers=36), busy(1e-4, registers=40))
    assert [cause.mechanism for cause in told if cause.direction != "neutral"] == []
    assert told[0].sentence == "no counters on both sides tell why"


def test_counters_of_one_side_alone_explain_nothing() -> None:
    told = causes(busy(1e-3, units={"dram": 0.9}), busy(1e-4), counted("instructions", 1e6, None, "only-base"))
    assert told[0].sentence == "no counters on both sides tell why"
    assert mechanisms(told, "faster") == []


def test_less_work_in_the_same_time_is_told() -> None:
    told = sentence(busy(), busy(), counted("instructions", 1e6, 8.8e5), verdict="same", work="less")
    assert told == "same time: instructions 1.00 M → 880 k (−12 %)"


def test_the_same_work_in_the_same_time_needs_no_cause() -> None:
    both = pair_of(busy(), busy())
    told = work_of(counted("instructions", 1e6, 1e6), verdict="same")
    assert causes_of(both, time_of(1.0, "same"), told, ()) == ()
    assert kernel_sentence(both, time_of(1.0, "same"), told, ()) == "same time: the same work"


def test_an_unclear_time_names_the_clock_and_no_stalls() -> None:
    base = busy(1e-5, clock_hz=1.2e9, issue=0.1, achieved=0.2, stalls={"wait": 5.0})
    new = busy(1.2e-5, clock_hz=1e9, issue=0.1, achieved=0.1, stalls={"wait": 2.0})
    told = causes(base, new, counted("instructions", 1e6, 1e6), verdict="unclear")
    assert told[0].mechanism == "clock"
    assert "stalls" not in [cause.mechanism for cause in told]


def test_times_that_cannot_be_compared_have_no_causes() -> None:
    both = pair_of(busy(1e-5, units={"dram": 0.9}), busy(3e-5, units={"dram": 0.4}))
    time, work = time_of(3.0, "unclear", comparable=False), work_of(counted("flop.fp32", 1e9, 2e9))
    told = causes_of(both, time, work, ())
    assert [cause.direction for cause in told] == ["neutral"]
    assert kernel_sentence(both, time, work, told) == "times not comparable: FP32 1.00 → 2.00 GFLOP (+100 %)"


def test_registers_that_raise_an_occupancy_no_grid_can_use_explain_nothing() -> None:
    base = busy(1.2e-5, issue=0.33, achieved=0.167, theoretical=0.167, waves=0.8, registers=150)
    new = busy(1e-5, issue=0.36, achieved=0.167, theoretical=0.333, waves=0.4, registers=121)
    told = causes(base, new, counted("instructions", 1e6, 9e5))
    assert mechanisms(told, "faster")[0] == "instructions"
    assert "occupancy" in mechanisms(told, "neutral")
    assert "achieved unchanged" in next(cause.sentence for cause in told if cause.mechanism == "occupancy")


def test_a_grid_that_fills_the_gpu_is_told_with_its_waves() -> None:
    base = busy(2e-5, issue=0.3, achieved=0.17, theoretical=0.33, waves=0.4, grid=(64, 1, 1))
    new = busy(1e-5, issue=0.6, achieved=0.3, theoretical=0.33, waves=4.0, grid=(640, 1, 1))
    told = causes(base, new, counted("instructions", 1e6, 1e6))
    assert told[0].mechanism == "launch-configuration"
    assert told[0].sentence == "grid 64 → 640 blocks (0.4 → 4 waves), achieved occupancy 17 % → 30 %"


def test_spills_are_told_however_little_they_explain() -> None:
    base = busy(1e-5, units={"dram": 0.9})
    new = busy(2e-5, units={"dram": 0.9})
    told = causes(base, new, counted("dram-bytes", 1e9, 2e9), counted("spills", 0.0, 64.0))
    assert "local-memory" in mechanisms(told, "slower")


def test_spills_that_appear_are_told_behind_the_first_cause_although_they_work_against_the_change() -> None:
    base, new = (busy(time_s, issue=0.2, achieved=0.4, units={"dram": 0.9}) for time_s in (8e-3, 4e-3))
    fewer = counted("instructions", 2e9, 1e9), counted("dram-bytes", 4e9, 2e9)
    told = causes(base, new, *fewer, counted("spills", 0.0, 1.35e8))
    assert (told[1].sentence, told[1].direction) == ("local-memory sectors 0 → 135 M", "slower")
    assert told[2].direction == "faster"
    more = causes(base, new, *fewer, counted("spills", 1e8, 1.35e8))
    assert "local-memory" not in [cause.mechanism for cause in more[:2]]


def test_tensor_work_of_another_type_is_one_reason_and_half_the_width_takes_half_the_time() -> None:
    base, new = busy(1e-3, issue=0.2, achieved=0.4), busy(5e-4, issue=0.2, achieved=0.4)
    types = counted("flop.tensor.tf32", 1e12, 0.0), counted("flop.tensor.fp16", 0.0, 1e12)
    told = [cause for cause in causes(base, new, *types) if cause.mechanism == "tensor-cores"]
    assert [(cause.sentence, cause.direction) for cause in told] == [
        ("tensor cores: TF32 1.00 TFLOP → FP16 1.00 TFLOP", "faster")
    ]
    # Twice as many operations of half the width, and as many of the same width, explain nothing; nor do eight times as
    # many in TF32 as in FP64, which is so much slower.
    for before, after, amount in (("tf32", "fp16", 2e12), ("bf16", "fp16", 1e12), ("fp64", "tf32", 8e12)):
        types = counted(f"flop.tensor.{before}", 1e12, 0.0), counted(f"flop.tensor.{after}", 0.0, amount)
        told = [cause for cause in causes(base, new, *types) if cause.mechanism == "tensor-cores"]
        assert [cause.direction for cause in told] == ["neutral"]
    both = counted("flop.tensor.int8", 1e12, 5e11), counted("flop.tensor.fp16", 0.0, 1e12)
    assert "tensor cores now used (FP16 1.00 TFLOP)" in [cause.sentence for cause in causes(base, new, *both)]


def test_sectors_per_request_are_told_where_the_sectors_follow_them() -> None:
    base, new = busy(4e-5, units={"l2": 0.9}), busy(1e-5, units={"l2": 0.9})
    fewer = counted("global-load-sectors", 1.6e7, 4e6)
    told = causes(base, new, fewer, counted("global-load-requests", 1e6, 1e6))
    assert "sectors per global load request 16.0 → 4.00" in [cause.sentence for cause in told]
    same_rate = causes(base, new, fewer, counted("global-load-requests", 1e6, 2.5e5))
    assert "coalescing" not in [cause.mechanism for cause in same_rate]


def test_l1_passes_for_the_same_loads_are_coalescing() -> None:
    base = busy(1e-3, units={"memory": 0.96, "dram": 0.01, "l2": 0.02, "sm": 0.12}, pipes={"lsu": 0.12})
    new = busy(1.25e-4, units={"memory": 0.96, "dram": 0.01, "l2": 0.02, "sm": 0.96}, pipes={"lsu": 0.96})
    told = causes(base, new)
    assert mechanisms(told, "faster") == ["unit-time", "coalescing"]
    assert told[0].sentence == "L1 busy 960 → 120 µs (96 % → 96 % of the time)"


def test_work_of_a_unit_below_its_bound_that_grows_with_the_time_is_named() -> None:
    # 0.7 of 1 ms are 700 µs; 0.5 of 3 ms are 1.5 ms, at a DRAM clock that is a tenth lower 1.93 times the cycles.
    base = busy(1e-3, units={"dram": 0.7, "sm": 0.7}, achieved=0.9, theoretical=1.0, dram_clock_hz=7e9)
    new = busy(3e-3, units={"dram": 0.5, "sm": 0.1}, achieved=0.3, theoretical=0.33, dram_clock_hz=6.3e9)
    told = causes(base, new)
    assert (told[0].mechanism, told[0].certainty) == ("unit-time", "inferred")
    assert told[0].sentence == "DRAM busy 700 µs → 1.50 ms (70 % → 50 % of the time), about 1.9x the bytes"
    assert "occupancy" in mechanisms(told, "slower")
    # Bytes that were counted say it themselves, and those of a unit that is hardly busy say nothing.
    assert "unit-time" not in mechanisms(causes(base, new, counted("dram-bytes", 1e9, 1.9e9)), "slower")
    idle = busy(3e-3, units={"dram": 0.25, "sm": 0.1}, achieved=0.3, theoretical=0.33)
    assert "unit-time" not in mechanisms(causes(base, idle), "slower")


def test_a_unit_below_its_bound_that_is_busy_for_as_long_is_no_cause() -> None:
    base = busy(1e-3, units={"sm": 0.7}, achieved=0.9, theoretical=1.0)
    new = busy(1.4e-3, units={"sm": 0.5}, achieved=0.6, theoretical=0.67)
    assert mechanisms(causes(base, new), "slower") == ["occupancy"]


def test_fp64_divisions_are_recognised_by_their_reciprocals() -> None:
    base = busy(2e-3, units={"sm": 0.8}, pipes={"fp64": 0.8}, issue=0.5)
    new = busy(1e-3, units={"sm": 0.6}, pipes={"fp64": 0.6}, issue=0.4)
    told = causes(
        base,
        new,
        counted("instructions", 1e9, 5e8),
        counted("flop.fp64", 2e10, 8e9),
        counted("opcode.MUFU", 4e7, 8e6),
        counted("opcode.DFMA", 2.5e8, 1e8),
    )
    assert [cause.mechanism for cause in told[:2]] == ["flop", "opcodes"]
    assert told[0].sentence == "FP64 20.0 → 8.00 GFLOP (−60 %)"
    assert told[1].sentence == "fewer FP64 divisions or roots (MUFU 40.0 → 8.00 M)"
    assert told[1].certainty == "inferred"


def test_an_opcode_that_a_complete_histogram_lacks_was_not_executed() -> None:
    base, new = busy(2e-5, issue=0.3, achieved=0.5), busy(1e-5, issue=0.3, achieved=0.5)
    told = causes(
        base,
        new,
        counted("instructions", 2e6, 1e6),
        counted("opcode.BAR", 5e5, None, "only-base"),
        counted("opcode.FFMA", 5e5, 5e5),
    )
    assert "BAR (barriers) 500 k → 0" in [cause.sentence for cause in told]


def test_a_kernel_that_stores_nothing_any_more_is_told_before_all_causes() -> None:
    stores, opcode = counted("global-store-requests", 1000, 0), counted("opcode.STG", 1000, 0)
    executed = counted("instructions", 1e6, 5e5)
    told = causes(busy(1e-5), busy(5e-6), executed, stores, opcode, counted("opcode.STS", 10, 10))
    assert [cause.mechanism for cause in told[:2]] == ["stores", "instructions"]
    assert told[0].sentence == "the new side stores nothing to global memory: check what it computes"
    back = causes(
        busy(5e-6), busy(1e-5), *(counted(item.name, item.new, item.base) for item in (executed, stores, opcode))
    )
    assert back[0].sentence == "the base side stores nothing to global memory: check what it computes"


@each_row("other", ["opcode.RED", "opcode.ATOMG", "opcode.UTMASTG", "opcode.UBLKCP"])
def test_a_kernel_that_stores_in_another_way_is_not_said_to_store_nothing(other: str) -> None:
    stores, opcode = counted("global-store-requests", 1000, 0), counted("opcode.STG", 1000, 0)
    told = causes(busy(1e-5), busy(5e-6), counted("instructions", 1e6, 5e5), stores, opcode, counted(other, 0, 10))
    assert "stores" not in [cause.mechanism for cause in told]
    without = causes(busy(1e-5), busy(5e-6), counted("instructions", 1e6, 5e5), stores)
    assert "stores" not in [cause.mechanism for cause in without]


def test_work_that_moves_to_the_tensor_cores_is_told_with_where_it_ran() -> None:
    base, new = busy(1e-3, issue=0.2, achieved=0.4), busy(5e-4, issue=0.2, achieved=0.4)
    told = causes(base, new, counted("flop.fp32", 1e9, 0.0), counted("flop.tensor.fp16", 0.0, 1e9))
    assert told[0].sentence == "tensor cores now used (FP16 1.00 GFLOP) for what ran in FP32"
    back = causes(new, base, counted("flop.fp32", 0.0, 1e9), counted("flop.tensor.fp16", 1e9, 0.0))
    assert back[0].sentence == "tensor cores no longer used (FP16 1.00 GFLOP) for what runs now in FP32"
    assert back[0].direction == "slower"


def test_what_works_against_the_change_follows_a_but() -> None:
    base = busy(2e-5, issue=0.3, achieved=0.5, theoretical=0.5, registers=32)
    new = busy(1e-5, issue=0.3, achieved=0.25, theoretical=0.25, registers=128)
    told = sentence(base, new, counted("instructions", 4e6, 1e6))
    assert told.startswith("2.0x faster: instructions 4.00 → 1.00 M (−75 %)")
    assert "; but " in told
    assert "registers 32 → 128" in told


def test_more_launches_are_told_with_what_they_make_of_the_run() -> None:
    base = side(kernel("k", (1e-5,), launches=10))
    new = side(kernel("k", (5e-6,), launches=30))
    both = pair(base, new)
    told = kernel_sentence(both, time_of(0.5, "faster"), work_of(verdict="unknown"), ())
    assert told == "2.0x faster a launch, 10 → 30 launches, together 100 → 150 µs (+50 %)"
    assert causes_of(both, time_of(0.5, "faster"), work_of(), ())[0].sentence == "launches per run 10 → 30"


def test_new_and_gone_kernels_are_told_with_their_time() -> None:
    gone, came = pair(side(kernel()), None), pair(None, side(kernel()))
    told = work_of(verdict="gone")
    assert kernel_sentence(gone, time_of(None, "gone"), told, ()) == "gone: it took 10.0 µs a launch"
    assert causes_of(gone, time_of(None, "gone"), told, ()) == causes_of(came, time_of(None, "new"), told, ()) == ()


def test_a_line_is_told_only_in_the_direction_of_the_change() -> None:
    base, new = busy(2e-5, issue=0.3, achieved=0.5), busy(1e-5, issue=0.3, achieved=0.5)
    told = causes(base, new, counted("instructions", 2e6, 1e6), lines=[LINE_88])
    assert "line 88" not in " ".join(cause.sentence for cause in told)


def test_a_split_kernel_is_explained_by_the_work_of_the_run() -> None:
    both = Pair("split", side(kernel("a", (4e-5,))).kernels, side(kernel("b", (1e-5,)), kernel("c", (1e-5,))).kernels)
    told = causes_of(both, time_of(0.5, "faster"), work_of(counted("instructions", 2e6, 1e6)), ())
    assert [cause.mechanism for cause in told] == ["launches", "instructions"]
    assert told[1].direction == "faster"


def _change(number: int, label: str, ratio: float | None, verdict: TimeWord, effect_s: float) -> KernelChange:
    return KernelChange(
        id=number,
        label=label,
        match="exact",
        base=(),
        new=(),
        sentence="",
        time=time_of(ratio, verdict),
        work=work_of(),
        causes=(),
        lines=(),
        findings=(),
        effect_s=effect_s,
        effect=None,
    )


def _gpu_time(base_s: float, new_s: float) -> QuantityChange:
    return QuantityChange(name="gpu-time", unit="s", base=base_s, new=new_s, ratio=new_s / base_s, verdict="faster")


def test_the_run_is_told_by_its_time_and_the_kernels_that_it_comes_from() -> None:
    kernels = [_change(0, "compute_tendencies", 0.5625, "faster", -2.7e-3)]
    kernels += [_change(number, f"k{number}", 1.0, "same", 0.0) for number in range(1, 5)]
    told = whole_sentence([_gpu_time(15.5e-3, 12.7e-3)], kernels, [])
    assert told == "GPU time 15.5 → 12.7 ms (−18 %): compute_tendencies is 1.8x faster; 4 kernels are the same"


def test_a_step_is_not_told_as_gpu_time() -> None:
    """The GPU time is not known of a side, the step is."""
    totals = [replace(_gpu_time(1e-3, 1e-3), base=None), replace(_gpu_time(0.2, 0.1), name="step")]
    assert whole_sentence(totals, [], []) == "nothing to compare"


def test_kernels_that_came_or_went_are_kept_apart_from_those_on_both_sides() -> None:
    def on(seconds: float) -> ComparedKernel:
        return ComparedKernel(
            run=0, id=0, label="k", demangled="k", ranges=(), grid=None, block=None, launches=1, time_total_s=seconds
        )

    stays = replace(_change(0, "k", 1.25, "slower", 1e-3), base=(on(4e-3),), new=(on(5e-3),))
    went = replace(_change(1, "old", None, "gone", -6e-3), base=(on(6e-3),))
    told = whole_sentence([_gpu_time(10e-3, 5e-3)], [went, stays], [])
    assert told == (
        "GPU time 10.0 → 5.00 ms (−50 %), of the kernels on both sides 4.00 → 5.00 ms (+25 %): "
        "old is gone; k is slower by 25 %"
    )


def test_what_forbids_a_verdict_comes_first() -> None:
    condition = RunCondition(
        name="gpu", base="A100", new="H100", affects="time", sentence="other GPU: A100, then H100."
    )
    told = whole_sentence([_gpu_time(2e-3, 1e-3)], [_change(0, "k", 0.5, "unknown", 0.0)], [condition])
    assert told == "no verdict on time: the GPUs differ; GPU time 2.00 → 1.00 ms (−50 %): 1 kernel without times"


def test_long_names_are_cut_and_control_characters_of_lines_are_not_told() -> None:
    told = whole_sentence([], [_change(0, "x\n" * 15_000, 0.5, "faster", -1.0)], [])
    assert len(told) < 120
    assert "\n" not in told


_values = st.one_of(st.none(), st.floats(min_value=0), st.just(math.nan))
_fractions = st.one_of(st.none(), st.floats(min_value=0, max_value=4), st.just(math.nan))


@given(
    values=st.lists(st.tuples(_values, _values), min_size=6, max_size=6),
    fractions=st.lists(_fractions, min_size=8, max_size=8),
    durations=st.tuples(st.floats(min_value=0, max_value=10), st.floats(min_value=0, max_value=10)),
    verdict=st.sampled_from(["same", "faster", "slower", "unclear", "unknown"]),
)
def test_no_value_breaks_a_sentence(
    values: list[tuple[float | None, float | None]],
    fractions: list[float | None],
    durations: tuple[float, float],
    verdict: TimeWord,
) -> None:
    names = ("instructions", "dram-bytes", "flop.tensor.fp16", "flop.fp32", "spills", "opcode.MUFU")
    counts = [counted(name, *value) for name, value in zip(names, values, strict=True)]
    sides = [
        busy(
            duration,
            units={"dram": own[0] or 0.0, "memory": own[1] or 0.0},
            achieved=own[2],
            theoretical=own[3],
            issue=own[1],
            waves=own[0],
        )
        for duration, own in zip(durations, (fractions[:4], fractions[4:]), strict=True)
    ]
    both = pair_of(sides[0], sides[1])
    time = time_of(durations[1] / durations[0] if durations[0] else None, verdict)
    told = causes_of(both, time, work_of(*counts), ())
    assert kernel_sentence(both, time, work_of(*counts), told)


_share = st.floats(min_value=0.01, max_value=1.0)
_length = st.floats(min_value=1e-6, max_value=1e-2)


@given(
    durations=st.tuples(_length, _length),
    clocks=st.tuples(st.floats(0.5e9, 2e9), st.floats(0.5e9, 2e9)),
    fractions=st.tuples(_share, _share),
    issues=st.tuples(_share, _share),
    occupancies=st.tuples(_share, _share),
)
def test_the_parts_of_a_change_add_up_to_it(
    durations: tuple[float, float],
    clocks: tuple[float, float],
    fractions: tuple[float, float],
    issues: tuple[float, float],
    occupancies: tuple[float, float],
) -> None:
    base, new = (
        busy(
            durations[side_],
            clock_hz=clocks[side_],
            units={"l2": fractions[side_]},
            issue=issues[side_],
            achieved=occupancies[side_],
            theoretical=1.0,
        )
        for side_ in (0, 1)
    )
    parts = parts_of(base, new, {})
    assert parts is not None
    assert parts.busy is not None and parts.fill is not None
    assert parts.instructions is not None and parts.warps is not None and parts.latency is not None
    assert math.isclose(parts.clock + parts.busy + parts.fill, parts.total, abs_tol=1e-9)
    waiting = parts.clock + parts.instructions + parts.latency - parts.warps
    assert math.isclose(waiting, parts.total, abs_tol=1e-9)
