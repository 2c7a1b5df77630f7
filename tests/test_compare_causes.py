"""Why a kernel's time changed, on kernels whose numbers can be worked out on paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.comparison.causes.causes import causes_of
from gpuprof.comparison.causes.time_model import factors_of
from gpuprof.comparison.contract import (
    ChangeCause,
    CountChange,
    CountWord,
    KernelChange,
    LineChange,
    QuantityChange,
    SourceLine,
    TimeChange,
    TimeWord,
    WorkChange,
    WorkWord,
)
from gpuprof.model.session import KernelProfile, Occupancy, Pipe, Scheduler, Stall, Throughput
from gpuprof.words.comparison import whole_sentence, with_sentences
from gpuprof.words.comparison_causes import cause_text
from tests import made_comparisons as made
from tests.compare_builders import kernel, pair, pair_of, side
from tests.table import each_row


def time_of(ratio: float | None, verdict: TimeWord, base_s: float = 1e-5, *, comparable: bool = True) -> TimeChange:
    new_s = base_s * ratio if ratio is not None else None
    noise = 0.01 if comparable else None
    return made.time(verdict, ratio, base_s=base_s, new_s=new_s, interval=None, noise=noise)


def counted(name: str, base: float | None, new: float | None, word: CountWord | None = None) -> CountChange:
    """A counter on both sides; its word follows from the values unless it is given."""
    unit = "B" if name.endswith("bytes") else "FLOP" if name.startswith("flop.") else "counts"
    change = made.count(name, base, new, unit=unit, tolerance=0.001)
    return replace(change, word=word) if word is not None else change


def work_of(*counts: CountChange, verdict: WorkWord = "changed") -> WorkChange:
    return WorkChange(verdict=verdict, counts=counts)


OF_PEAK = ".pct_of_peak_sustained_elapsed"


def busy(
    duration_s: float = 1e-5, *, clock_hz: float = 1e9, units: Mapping[Any, float] | None = None,
    pipes: Mapping[str, float] | None = None, achieved: float | None = None, theoretical: float | None = None,
    issue: float | None = None, stalls: Mapping[str, float] | None = None, **fields: Any,
) -> KernelProfile:  # fmt: skip
    """A launch with the busy fractions of its units and what its warps did."""
    own = kernel(durations_s=(duration_s,), clocks_hz=(clock_hz,), **{"waves": 10.0, **fields})
    return replace(
        own,
        throughput=tuple(Throughput(unit, fraction) for unit, fraction in (units or {}).items()),
        pipes=tuple(Pipe(name, part, f"{name}{OF_PEAK}") for name, part in (pipes or {}).items()),
        scheduler=Scheduler(issue_active=issue, eligible_warps=None, active_warps=None, warp_slots=16.0),
        stalls=tuple(Stall(name, 0.1, value, "counter") for name, value in (stalls or {}).items()),
        occupancy=Occupancy(theoretical, achieved, ("registers",)),
    )


def causes(
    base: KernelProfile, new: KernelProfile, *counts: CountChange, verdict: TimeWord | None = None,
    lines: Sequence[LineChange] = (),
) -> tuple[ChangeCause, ...]:  # fmt: skip
    """The causes of the change between two launches; the verdict follows from their durations unless it is given."""
    return causes_of(pair_of(base, new), _time(base, new, verdict), work_of(*counts), lines)


def sentence(
    base: KernelProfile, new: KernelProfile, *counts: CountChange, verdict: TimeWord | None = None,
    work: WorkWord = "changed", lines: Sequence[LineChange] = (),
) -> str:  # fmt: skip
    both, time = pair_of(base, new), _time(base, new, verdict)
    told = work_of(*counts, verdict=work)
    return sentence_of(causes_of(both, time, told, lines), time, told, lines)


def sentence_of(
    causes: Sequence[ChangeCause], time: TimeChange, work: WorkChange, lines: Sequence[LineChange] = ()
) -> str:
    """The sentence on a kernel that has nothing but these."""
    change = made.change(0, "k", "slower", time=time, work=work, causes=tuple(causes), lines=tuple(lines), findings=())
    return with_sentences(made.compared(change).comparison).kernels[0].sentence


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
    told = causes(base, new, counted("dram-bytes", 1e9, 1e9), lines=[LINE_88])
    assert mechanisms(told, "slower") == ["occupancy", "local-memory"]
    assert mechanisms(told, "neutral") == ["dram-bytes"]
    assert [(value.name, value.base, value.new) for value in told[0].values] == [
        ("registers", 40, 72), ("occupancy", 0.75, 0.5), ("achieved-occupancy", 0.7, 0.48)
    ]  # fmt: skip
    assert (told[-1].location, told[-1].values[0].new) == (SourceLine("src/solve.cu", 88), 12)
    back = causes(busy(2e-5), busy(1e-5), counted("instructions", 2e6, 1e6), lines=[LINE_88])
    assert "local-memory" not in [cause.mechanism for cause in back], "the other direction"


SAME_WORK = [counted("instructions", 1e6, 1e6)]
HALF: dict[str, Any] = {"achieved": 0.5, "theoretical": 0.5}
WIDE, LSU = {"sm": 0.3, "dram": 0.1}, {"lsu": 0.9}
CHASED = {"long_scoreboard": 10.0, "wait": 2.0}


@each_row(
    ("base", "new", "counts", "mechanism", "figures"),
    [
        # The unit that binds: its bytes come first.
        (busy(1e-5, units={"dram": 0.9, "l2": 0.2}, issue=0.2), busy(2e-5, units={"dram": 0.9, "l2": 0.2}, issue=0.1),
         [counted("dram-bytes", 1e9, 2e9), *SAME_WORK], ["dram-bytes", "unit-time"],
         ["1.00 GB → 2.00 GB (+100 %)", "9.00 µs → 18.0 µs (90 % → 90 %"]),
        # Bytes of a level that is hardly busy are no cause.
        (busy(2e-5, units={"dram": 0.01, "sm": 0.9}, pipes=LSU, issue=0.3),
         busy(1e-5, units={"dram": 0.002, "sm": 0.9}, pipes=LSU, issue=0.3),
         [counted("dram-bytes", 1e9, 1e8)], ["unit-time"], ["LSU pipe"]),
        # The same cycles at another clock.
        (busy(1e-5, clock_hz=1.5e9, issue=0.4), busy(1.5e-5, clock_hz=1e9, issue=0.4), SAME_WORK, ["clock"],
         ["1.50 GHz → 1.00 GHz"]),
        # If no unit is the limit, time follows the instructions.
        (busy(2e-5, issue=0.3, units=WIDE, **HALF), busy(1e-5, issue=0.3, units=WIDE, **HALF),
         [counted("instructions", 2e9, 1e9)], ["instructions"], ["2.00 G → 1.00 G (−50 %)"]),
        # Warps only wait longer.
        (busy(1e-5, issue=0.4, stalls=CHASED, **HALF),
         busy(1.5e-5, issue=0.267, stalls={**CHASED, "long_scoreboard": 16.0}, **HALF), SAME_WORK, ["stalls"],
         ["Long Scoreboard 10.0 → 16.0", "12.0 → 18.0"]),
        # A grid that fills the GPU.
        (busy(2e-5, issue=0.3, achieved=0.17, theoretical=0.33, waves=0.4, grid=(64, 1, 1)),
         busy(1e-5, issue=0.6, achieved=0.3, theoretical=0.33, waves=4.0, grid=(640, 1, 1)), SAME_WORK,
         ["launch-configuration"], ["64 → 640", "0.4 → 4", "17 % → 30 %"]),
        # L1 passes for the same loads.
        (busy(1e-3, units={"memory": 0.96, "dram": 0.01, "l2": 0.02, "sm": 0.12}, pipes={"lsu": 0.12}),
         busy(1.25e-4, units={"memory": 0.96, "dram": 0.01, "l2": 0.02, "sm": 0.96}, pipes={"lsu": 0.96}),
         [], ["unit-time", "coalescing"], ["L1 busy 960 µs → 120 µs"]),
        # A unit below its bound that is busy for as long is no cause.
        (busy(1e-3, units={"sm": 0.7}, achieved=0.9, theoretical=1.0),
         busy(1.4e-3, units={"sm": 0.5}, achieved=0.6, theoretical=0.67), [], ["occupancy"], []),
        # FP64 divisions are recognised by their reciprocals.
        (busy(2e-3, units={"sm": 0.8}, pipes={"fp64": 0.8}, issue=0.5),
         busy(1e-3, units={"sm": 0.6}, pipes={"fp64": 0.6}, issue=0.4),
         [counted("instructions", 1e9, 5e8), counted("flop.fp64", 2e10, 8e9), counted("opcode.MUFU", 4e7, 8e6),
          counted("opcode.DFMA", 2.5e8, 1e8)],
         ["flop", "opcodes"], ["20.0 GFLOP → 8.00 GFLOP (−60 %)", "MUFU 40.0 M → 8.00 M"]),
    ],
)  # fmt: skip
def test_what_explains_the_time_comes_first(
    base: KernelProfile, new: KernelProfile, counts: list[CountChange], mechanism: list[str], figures: list[str]
) -> None:
    told = causes(base, new, *counts)
    slower = (new.duration_s or 0.0) > (base.duration_s or 0.0)
    assert mechanisms(told, "slower" if slower else "faster")[: len(mechanism)] == mechanism
    text = "; ".join(cause_text(cause, made.change()) for cause in told)
    assert [part for part in figures if part not in text] == []
    assert {cause.certainty for cause in told if cause.mechanism == "stalls"} <= {"inferred"}


def test_without_counters_on_both_sides_and_with_equal_ones_no_cause_is_made_up() -> None:
    same = [counted("instructions", 1e6, 1e6), counted("dram-bytes", 1e6, 1e6)]
    alone = counted("instructions", 1e6, None, "only-base")
    for told in (
        causes(busy(1e-5), busy(1.3e-5), *same),
        causes(busy(1e-3, registers=36), busy(1e-4, registers=40)),
        causes(busy(1e-3, units={"dram": 0.9}), busy(1e-4), alone),
    ):
        assert {cause.direction for cause in told} == {"neutral"}
    assert sentence(busy(1e-5), busy(1.3e-5), *same).startswith("slower by 30 %: ")


def test_spills_are_told_however_little_they_explain_and_where_they_work_against_the_change() -> None:
    spilling = busy(1e-5, units={"dram": 0.9}), busy(2e-5, units={"dram": 0.9})
    told = causes(*spilling, counted("dram-bytes", 1e9, 2e9), counted("spills", 0.0, 64.0))
    assert "local-memory" in mechanisms(told, "slower")
    base, new = (busy(time_s, issue=0.2, achieved=0.4, units={"dram": 0.9}) for time_s in (8e-3, 4e-3))
    fewer = counted("instructions", 2e9, 1e9), counted("dram-bytes", 4e9, 2e9)
    told = causes(base, new, *fewer, counted("spills", 0.0, 1.35e8))
    assert [(cause.mechanism, cause.direction) for cause in told[1:2]] == [("local-memory", "slower")]
    assert told[1].values[0].new == 1.35e8 and told[2].direction == "faster"
    more = causes(base, new, *fewer, counted("spills", 1e8, 1.35e8))
    assert "local-memory" not in [cause.mechanism for cause in more[:2]]


def test_tensor_work_of_another_type_is_one_reason_and_half_the_width_takes_half_the_time() -> None:
    base, new = busy(1e-3, issue=0.2, achieved=0.4), busy(5e-4, issue=0.2, achieved=0.4)
    # Twice as many operations of half the width, and as many of the same width, explain nothing; nor do eight times as
    # many in TF32 as in FP64, which is so much slower.
    for before, after, amount, direction in (
        ("tf32", "fp16", 1e12, "faster"), ("tf32", "fp16", 2e12, "neutral"), ("bf16", "fp16", 1e12, "neutral"),
        ("fp64", "tf32", 8e12, "neutral"),
    ):  # fmt: skip
        types = counted(f"flop.tensor.{before}", 1e12, 0.0), counted(f"flop.tensor.{after}", 0.0, amount)
        (told,) = [cause for cause in causes(base, new, *types) if cause.mechanism == "tensor-cores"]
        assert told.direction == direction, (before, after)
        expected = [(f"flop.tensor.{before}", 1e12, 0.0), (f"flop.tensor.{after}", 0.0, amount)]
        assert [(value.name, value.base, value.new) for value in told.values] == expected


def test_sectors_per_request_are_told_where_the_sectors_follow_them() -> None:
    base, new = busy(4e-5, units={"l2": 0.9}), busy(1e-5, units={"l2": 0.9})
    fewer = counted("global-load-sectors", 1.6e7, 4e6)
    told = causes(base, new, fewer, counted("global-load-requests", 1e6, 1e6))
    rates = [(value.base, value.new) for cause in told if cause.mechanism == "coalescing" for value in cause.values]
    assert rates == [(16.0, 4.0)]
    same_rate = causes(base, new, fewer, counted("global-load-requests", 1e6, 2.5e5))
    assert "coalescing" not in [cause.mechanism for cause in same_rate]


def test_a_kernel_that_stores_nothing_any_more_is_told_before_all_causes() -> None:
    stores, opcode = counted("global-store-requests", 1000, 0), counted("opcode.STG", 1000, 0)
    executed = counted("instructions", 1e6, 5e5)
    told = causes(busy(1e-5), busy(5e-6), executed, stores, opcode, counted("opcode.STS", 10, 10))
    assert [cause.mechanism for cause in told[:2]] == ["stores", "instructions"]
    mirrored = [counted(item.name, item.new, item.base) for item in (executed, stores, opcode)]
    assert causes(busy(5e-6), busy(1e-5), *mirrored)[0].mechanism == "stores"
    for other in ("opcode.RED", "opcode.ATOMG", "opcode.UTMASTG", "opcode.UBLKCP"):
        told = causes(busy(1e-5), busy(5e-6), executed, stores, opcode, counted(other, 0, 10))
        assert "stores" not in [cause.mechanism for cause in told], other
    assert "stores" not in [cause.mechanism for cause in causes(busy(1e-5), busy(5e-6), executed, stores)]


def test_new_and_gone_kernels_have_a_time_and_no_causes() -> None:
    gone, came = pair(side(kernel()), None), pair(None, side(kernel()))
    told = work_of(verdict="gone")
    assert causes_of(gone, time_of(None, "gone"), told, ()) == causes_of(came, time_of(None, "new"), told, ()) == ()


def _change(number: int, label: str, ratio: float | None, verdict: TimeWord, effect_s: float) -> KernelChange:
    time = time_of(ratio, verdict)
    return made.change(number, label, verdict, sentence="", time=time, work=work_of(), effect_s=effect_s, effect=None)


def _told(kernels: Sequence[KernelChange], base_s: float, new_s: float) -> str:
    time = QuantityChange(name="gpu-time", unit="s", base=base_s, new=new_s, ratio=new_s / base_s, verdict="faster")
    return whole_sentence(made.compared(*kernels, total=(time,)).comparison)


def test_the_run_is_told_by_its_time_and_the_kernels_that_it_comes_from() -> None:
    kernels = [_change(0, "compute_tendencies", 0.5625, "faster", -2.7e-3)]
    kernels += [_change(number, f"k{number}", 1.0, "same", 0.0) for number in range(1, 5)]
    told = _told(kernels, 15.5e-3, 12.7e-3)
    for part in ("15.5 ms → 12.7 ms (−18 %)", "compute_tendencies", "1.8x faster", "4 kernels"):
        assert part in told
    # Kernels that came or went are kept apart from those on both sides.
    base, new = (made.side_kernel(time_total_s=seconds, demangled="k") for seconds in (4e-3, 5e-3))
    old = made.side_kernel(time_total_s=6e-3, demangled="old")
    stays = replace(_change(0, "k", 1.25, "slower", 1e-3), base=(base,), new=(new,))
    went = replace(_change(1, "old", None, "gone", -6e-3), base=(old,), new=())
    told = _told([went, stays], 10e-3, 5e-3)
    for part in ("10.0 ms → 5.00 ms (−50 %)", "4.00 ms → 5.00 ms (+25 %)", "old is gone", "slower by 25 %"):
        assert part in told


_values = st.one_of(st.none(), st.floats(min_value=0, max_value=1e300), st.just(math.nan))
_fractions = st.one_of(st.none(), st.floats(min_value=0, max_value=4), st.just(math.nan))


@settings(max_examples=20)
@given(
    values=st.lists(st.tuples(_values, _values), min_size=6, max_size=6),
    fractions=st.lists(_fractions, min_size=8, max_size=8),
    durations=st.tuples(st.floats(min_value=0, max_value=10), st.floats(min_value=0, max_value=10)),
    verdict=st.sampled_from(["same", "faster", "slower", "unclear", "unknown"]),
)
def test_no_value_breaks_a_sentence(
    values: list[tuple[float | None, float | None]], fractions: list[float | None], durations: tuple[float, float],
    verdict: TimeWord,
) -> None:  # fmt: skip
    names = ("instructions", "dram-bytes", "flop.tensor.fp16", "flop.fp32", "spills", "opcode.MUFU")
    counts = [counted(name, *value) for name, value in zip(names, values, strict=True)]
    sides = [
        busy(
            duration, units={"dram": own[0] or 0.0, "memory": own[1] or 0.0}, achieved=own[2], theoretical=own[3],
            issue=own[1], waves=own[0],
        )
        for duration, own in zip(durations, (fractions[:4], fractions[4:]), strict=True)
    ]  # fmt: skip
    both = pair_of(sides[0], sides[1])
    time = time_of(durations[1] / durations[0] if durations[0] else None, verdict)
    told = causes_of(both, time, work_of(*counts), ())
    assert sentence_of(told, time, work_of(*counts))


_share = st.floats(min_value=0.01, max_value=1.0)
_length = st.floats(min_value=1e-6, max_value=1e-2)


@settings(max_examples=20)
@given(
    durations=st.tuples(_length, _length), clocks=st.tuples(st.floats(0.5e9, 2e9), st.floats(0.5e9, 2e9)),
    fractions=st.tuples(_share, _share), issues=st.tuples(_share, _share), occupancies=st.tuples(_share, _share),
)  # fmt: skip
def test_the_factors_of_a_change_add_up_to_it(
    durations: tuple[float, float], clocks: tuple[float, float], fractions: tuple[float, float],
    issues: tuple[float, float], occupancies: tuple[float, float],
) -> None:  # fmt: skip
    base, new = (
        busy(
            durations[side_], clock_hz=clocks[side_], units={"l2": fractions[side_]}, issue=issues[side_],
            achieved=occupancies[side_], theoretical=1.0,
        )
        for side_ in (0, 1)
    )  # fmt: skip
    factors = factors_of(base, new, {})
    assert factors is not None
    assert factors.busy is not None and factors.fill is not None
    assert factors.instructions is not None and factors.warps is not None and factors.latency is not None
    assert math.isclose(factors.clock + factors.busy + factors.fill, factors.total, abs_tol=1e-9)
    waiting = factors.clock + factors.instructions + factors.latency - factors.warps
    assert math.isclose(waiting, factors.total, abs_tol=1e-9)
