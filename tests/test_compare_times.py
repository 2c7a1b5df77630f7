"""The verdict on time: hand-worked numbers and properties of all inputs."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.comparison.contract import TimeChange, TimeDoubt
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import KernelKey, Member, RunTimes, SideKernel
from gpuprof.comparison.timing.noise import Samples, estimate, interval_of, runs_needed, too_few
from gpuprof.comparison.timing.quantiles import student_t, wins_needed
from gpuprof.comparison.timing.verdict import time_change
from tests import compare_builders
from tests.table import each_row

PROFILE = compare_builders.kernel("k", ())
SWAPPED = {"faster": "slower", "slower": "faster"}
logs = st.lists(st.floats(-0.2, 0.2), min_size=1, max_size=12)


def kernel(runs: list[list[float]], cycles: list[list[float]] | None = None, **changes: Any) -> SideKernel:
    """Make a side's kernel of its runs: the durations of each run's launches in seconds."""
    times = tuple(
        RunTimes(number, tuple(durations), tuple(cycles[number]) if cycles else (), len(durations), sum(durations))
        for number, durations in enumerate(runs)
    )
    launches = fmean(map(len, runs)) if runs else 0.0
    made = SideKernel(
        key=KernelKey("k", (), None, block=None), run=0, representative=PROFILE,
        members=(Member(0, 0, PROFILE),), times=times, counts={}, runs=frozenset(range(len(times))),
        launches=launches, total_s=None,
    )  # fmt: skip
    return replace(made, **changes)


def change(base: list[float], new: list[float], **options: Any) -> TimeChange:
    return time_change(Pair("exact", (kernel([[s] for s in base]),), (kernel([[s] for s in new]),)), **options)


def samples(values: list[float], step: float = 0.0) -> Samples:
    return Samples(tuple(values), (0.0,) * len(values), step)


def test_quantiles_are_those_of_the_tables() -> None:
    quantiles = [round(student_t(freedom), 3) for freedom in (1, 2, 3, 8, 18, 30)]
    assert quantiles == [63.657, 9.925, 5.841, 3.355, 2.878, 2.75]
    assert [wins_needed(runs, runs) for runs in (5, 10, 20)] == [25, 84, 295]  # U of at most 0, 16 and 105
    assert [runs for runs in range(1, 8) if not too_few(runs, runs)] == [5, 6, 7]


def test_interval_of_five_runs_a_side_is_the_one_worked_out_from_t() -> None:
    base, new = [1.0, 1.01, 0.99, 1.0, 1.0], [1.1, 1.11, 1.09, 1.1, 1.1]
    told = change(base, new)
    first, second = [math.log(s) for s in base], [math.log(s) for s in new]
    squares = sum((value - sum(side) / 5) ** 2 for side in (first, second) for value in side)
    half = math.hypot(3.3554 * math.sqrt(squares / 8 * 2 / 5), 2.5758 * 0.0025)
    middle = (sum(second) - sum(first)) / 5
    assert told.verdict == "slower"
    assert told.ratio == pytest.approx(math.exp(middle))
    assert told.interval is not None
    assert told.interval.low == pytest.approx(math.exp(middle - half), rel=1e-5)
    assert told.interval.high == pytest.approx(math.exp(middle + half), rel=1e-5)
    assert told.noise == pytest.approx(math.sqrt(squares / 8))
    assert (told.noise_basis, told.base_runs, told.new_runs) == ("runs", 5, 5)


QUIET = [0.9999, 1.0, 1.0001, 1.0, 1.0] * 4
SHAKY = [0.97, 1.03, 0.98, 1.02, 1.0]
RISING = [1 + 0.002 * number for number in range(10)]
PLACES = [(4 * (n // 2) + 3 * (n % 2), 4 * (n // 2) + 1 + n % 2) for n in range(10)]
"""Of runs in the order base, new, new, base."""
INTERLEAVED = [[1 + 0.002 * pair[side] for pair in PLACES] for side in (0, 1)]


def scaled(values: list[float], factor: float) -> list[float]:
    return [factor * value for value in values]


@each_row(
    ("base", "new", "paired", "verdict"),
    [
        # One run a side needs a change beyond what is assumed.
        ([1.0], [1.3], False, "unclear"),
        ([1.0], [1.4], False, "slower"),
        ([1.4], [1.0], False, "faster"),
        ([1e-3] * 5, [1e-3] * 5, False, "same"),
        # A change below the least that counts is the same.
        (QUIET, scaled(QUIET, 1.004), True, "same"),
        (QUIET, scaled(QUIET, 1.006), True, "slower"),
        # A step of the clock hides a change of a short kernel: 32 ns of 1.3 µs are 2.5 %.
        ([1e-3] * 10, [1.02e-3] * 10, False, "slower"),
        ([1.3e-6] * 10, [1.326e-6] * 10, False, "unclear"),
        # Whole microseconds are known for a coarse clock.
        ([50e-6] * 10, [51e-6] * 10, False, "unclear"),
        ([50.016e-6] * 10, [51.008e-6] * 10, False, "slower"),
        (SHAKY, SHAKY, False, "unclear"),
        # A drift of both sides is added to the interval; interleaved runs see through it.
        ([1.0, 1.001] * 5, [1.02, 1.021] * 5, False, "slower"),
        (RISING, scaled(RISING, 1.02), False, "unclear"),
        (INTERLEAVED[0], scaled(INTERLEAVED[1], 1.02), False, "unclear"),
        (INTERLEAVED[0], scaled(INTERLEAVED[1], 1.02), True, "slower"),
        (INTERLEAVED[0], INTERLEAVED[1], True, "same"),
    ],
)
def test_times_of_runs_have_a_verdict(base: list[float], new: list[float], paired: bool, verdict: str) -> None:
    told = change(base, new, paired=paired)
    assert told.verdict == verdict, told.interval
    assert told.interval is not None and told.interval.low < told.interval.high
    if base == new:
        assert told.interval.low < 1 < told.interval.high


def test_what_settles_an_unclear_verdict_is_a_number_of_runs_or_another_measurement() -> None:
    told = change([1.0], [1.0])
    assert (told.verdict, told.runs_needed) == ("unclear", 6)  # 3.169 · 1 % · √(2/6) = 1.83 %, with the shift 1.94 %
    assert told.noise_basis == "assumed" and told.doubt == TimeDoubt(kind="few-runs")
    assert change(RISING, scaled(RISING, 1.02)).runs_needed is None
    unlike = change([1.0] * 5, [2.0] * 5, comparable=False)
    assert (unlike.verdict, unlike.interval, unlike.runs_needed) == ("unclear", None, None)
    assert unlike.ratio == pytest.approx(2.0) and unlike.doubt == TimeDoubt(kind="conditions")
    constant = estimate(samples([0.0] * 5, 0.04), samples([0.0] * 5, 0.04))
    assert runs_needed(constant, 5, 0.04) is None
    assert interval_of(1e9, 0.0).high < 1e30 and interval_of(0.0, 1e9).low > 1e-30


def test_cycles_and_seconds_that_agree_tell_more_and_those_that_differ_nothing() -> None:
    told = time_change(Pair("exact", (kernel([[1.0]], [[1e9]]),), (kernel([[1.25]], [[1.25e9]]),)))
    assert told.verdict == "slower" and told.cycles_ratio == pytest.approx(1.25)
    base, new = (
        kernel([[first + 1e-4 * n] for n in range(5)], [[1e9 + 1e5 * n] for n in range(5)]) for first in (1.0, 1.2)
    )
    told = time_change(Pair("exact", (base,), (new,)))
    assert (told.verdict, told.runs_needed) == ("unclear", None)
    assert told.doubt == TimeDoubt(kind="clocks-disagree")
    assert told.cycles_ratio == pytest.approx(1.0) and told.ratio == pytest.approx(1.2, rel=1e-3)
    told = time_change(Pair("exact", (kernel([[1.0]] * 5, [[1e9]] * 5),), (kernel([[1.1]] * 5),)))
    assert (told.verdict, told.cycles_ratio, told.base_cycles) == ("slower", None, None)
    noisy = kernel([[s] for s in SHAKY], [[1e9]] * 5)
    assert time_change(Pair("exact", (noisy,), (noisy,))).verdict == "same"


def test_a_split_kernel_is_compared_by_the_sum_of_a_run_that_has_all_parts() -> None:
    whole = kernel([[2.0, 2.0]] * 5)
    told = time_change(Pair("split", (whole,), (kernel([[1.0, 1.0]] * 5), kernel([[1.5, 1.5]] * 5))))
    assert told.verdict == "slower"
    assert (told.base_s, told.new_s) == pytest.approx((4.0, 5.0), rel=1e-9)
    assert (told.base_launches, told.new_launches) == (10, 20)
    lacking = time_change(Pair("split", (kernel([[2.0]] * 5),), (kernel([[1.0]] * 5), kernel([[1.0]] * 4))))
    assert lacking.new_runs == 4


def test_a_side_without_a_time_or_a_kernel_has_its_own_verdict() -> None:
    own = (kernel([[1.0]]),)
    told = time_change(Pair("exact", own, (kernel([[]]),)))
    assert (told.verdict, told.base_s, told.new_s) == ("unknown", 1.0, None)
    assert told.doubt == TimeDoubt(kind="no-durations", sides=("new",))
    for pair in (Pair("gone", own, ()), Pair("new", (), own)):
        told = time_change(pair)
        assert (told.verdict, told.ratio, told.interval) == (pair.match, None, None)


@given(st.lists(st.floats(), min_size=1, max_size=7), st.lists(st.floats(), min_size=1, max_size=7), st.booleans())
def test_odd_values_give_finite_figures(base: list[float], new: list[float], paired: bool) -> None:
    told = change(base, new, paired=paired)
    ends = (told.interval.low, told.interval.high) if told.interval else ()
    assert all(math.isfinite(value) for value in (told.ratio, told.noise, *ends) if value is not None)


@given(logs, logs, st.booleans(), st.booleans())
def test_swapping_the_sides_inverts_the_verdict(
    base: list[float], new: list[float], paired: bool, clock_known: bool
) -> None:
    if paired:
        base, new = base[: len(new)], new[: len(base)]
    there = estimate(samples(base), samples(new), paired=paired, clock_known=clock_known)
    back = estimate(samples(new), samples(base), paired=paired, clock_known=clock_known)
    assert back.change == -there.change
    assert back.half == pytest.approx(there.half, rel=1e-9)
    assert back.word == SWAPPED.get(there.word, there.word)
