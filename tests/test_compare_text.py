"""Changes, values on both sides and verdicts as text, by numbers worked out on paper."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gpuprof.comparison.contract import Interval
from gpuprof.units import signed_percent
from gpuprof.words.comparison_values import both_text, interval_text
from gpuprof.words.comparison_verdicts import time_text
from tests import made_comparisons as made


def test_a_change_has_its_sign_and_two_digits_and_is_whole_only_where_all_of_it_is_meant() -> None:
    texts = {
        0.18: "+18 %", -0.0042: "−0.42 %", 0.0: "0 %", -1.0: "−100 %", -0.9968: "−99.7 %", -0.999999: ">−99.9 %",
        0.9999: "+100 %", 1.5: "+150 %", 1e-9: "<+0.0001 %", -1e-9: ">−0.0001 %", math.nan: "not known",
        math.inf: "not known",
    }  # fmt: skip
    assert {change: signed_percent(change) for change in texts} == texts


def test_values_on_both_sides_have_units_and_the_digits_that_tell_them_apart() -> None:
    texts: dict[tuple[float | None, float | None, str, str], str] = {
        (40.0, 72.0, "register", "registers"): "40 → 72", (0.75, 0.5, "fraction", "occupancy"): "75 % → 50 %",
        (1.2e6, 1.42e6, "counts", "instructions"): "1.20 M → 1.42 M",
        (1.2e6, 1.2001e6, "counts", "instructions"): "1.2000 M → 1.2001 M",
        (196.0, 265e3, "counts", "instructions"): "196 → 265 k",
        (49152.0, 98304.0, "B", "shared-memory"): "48 KiB → 96 KiB", (1e-3, 1.18e-3, "s", ""): "1.00 ms → 1.18 ms",
        (4e9, 2e9, "B", "dram-bytes"): "4.00 GB → 2.00 GB", (4608.0, 0.0, "", ""): "4\u202f608 → 0",
        (1e-3, 2e-6, "s", ""): "1.00 ms → 2.00 µs", (None, 12.0, "counts", ""): "not known → 12",
        (None, math.inf, "counts", ""): "not known → not known", (12.0, 12.0, "counts", ""): "12 → 12",
    }  # fmt: skip
    assert {values: both_text(*values) for values in texts} == texts


@given(st.floats(1e-6, 1e12), st.sampled_from([1.0001, 1.001, 1.01, 1.5]), st.sampled_from(["s", "counts", "fraction"]))
def test_unlike_values_never_read_the_same(base: float, ratio: float, unit: str) -> None:
    before, _, after = both_text(base, base * ratio, unit).partition(" → ")
    assert before != after


def test_a_verdict_on_time_has_its_size_and_an_unclear_one_what_it_lies_between() -> None:
    assert time_text(made.time("slower", 1.18)) == "slower by 18 %"
    assert time_text(made.time("faster", 0.4)) == "2.5x faster"
    assert time_text(made.time("same", 1.001)) == "same"
    assert time_text(made.time("unclear", 1.02)) == "unclear −1.0 % to +5.0 %"
    assert time_text(made.time("unclear", 1.02, interval=None)) == "unclear +2.0 %"
    assert interval_text(Interval(1.15, 12.0)) == "+15 % to 12x"
