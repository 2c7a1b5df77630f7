"""Units: worked examples, and round trips for arbitrary numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.units import (
    DECIMAL_PREFIXES,
    Quantity,
    format_binary,
    format_percent,
    format_si,
    format_waves,
    ncu_unit,
    parse_quantity,
)
from tests.table import each_row

SCALED = ("FLOP/s", "OP/s", "bit/s", "B/s", "FLOP", "bit", "Hz", "B", "W")


@each_row(
    ("text", "value", "unit"),
    [
        ("4.8 TB/s", 4.8e12, "B/s"), ("40 MiB", 41943040.0, "B"), ("1410 MHz", 1.41e9, "Hz"),
        ("2048 FLOP/clk/SM", 2048.0, "FLOP/clk/SM"), ("12.5 Gbit/s", 1.25e10, "bit/s"), ("64 warp", 64.0, "warp"),
        ("2 us", 2e-6, "s"), ("2 µs", 2e-6, "s"), ("5 ms", 5e-3, "s"), ("1e3 kB", 1e6, "B"), (".5 TOP/s", 5e11, "OP/s"),
        ("7", 7.0, ""), ("50 %", 50.0, "%"),
    ],
)  # fmt: skip
def test_quantities(text: str, value: float, unit: str) -> None:
    quantity = parse_quantity(text)
    assert quantity.unit == unit
    assert quantity.value == pytest.approx(value, rel=1e-15)


@each_row("text", ["", "MHz", "1 Mhz", "1 GiHz", "1 XB", "1,5 GB", "1 GB/sec", "0x10 B", "nan B", "1e400 B"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_quantity(text)


@given(
    st.floats(0, 1e9, allow_nan=False),
    st.sampled_from([(prefix, factor, unit) for prefix, factor in DECIMAL_PREFIXES.items() for unit in SCALED]),
)
def test_a_decimal_prefix_multiplies(number: float, unit: tuple[str, float, str]) -> None:
    prefix, factor, base = unit
    assert parse_quantity(f"{number!r} {prefix}{base}") == Quantity(number * factor, base)


@given(st.text(max_size=40))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        quantity = parse_quantity(text)
    except ValueError:
        return
    assert not math.isnan(quantity.value)


@given(st.floats(1e-3, 9e17), st.floats(1e-11, 9e3), st.sampled_from(SCALED))
def test_what_format_si_writes_can_be_read_back(value: float, seconds: float, unit: str) -> None:
    for amount, base in ((value, unit), (seconds, "s")):
        read = parse_quantity(format_si(amount, base, digits=6))
        assert read.unit == base and read.value == pytest.approx(amount, rel=1e-5)


@given(st.floats(1, 2.0**49))
def test_what_format_binary_writes_can_be_read_back(value: float) -> None:
    assert parse_quantity(format_binary(value, digits=6)).value == pytest.approx(value, rel=1e-5)


def test_amounts_are_written_with_their_prefix() -> None:
    amounts = {
        (4.8e12, "B/s"): "4.80 TB/s", (999.7, "B/s"): "1.00 kB/s", (1.23e-6, "s"): "1.23 µs", (0.0, "B"): "0 B",
        (1830e6, "Hz"): "1.83 GHz", (120.0, "s"): "120 s", (float("inf"), "B"): "inf B",
    }  # fmt: skip
    assert {amount: format_si(*amount) for amount in amounts} == amounts
    assert (format_binary(41943040), format_binary(132644864, digits=4)) == ("40 MiB", "126.5 MiB")
    parts = {0.612: "61 %", 0.00001: "<0.01 %", 0.9949: "99 %", 0.999: "99.9 %", 0.99999: ">99.9 %", 1.2: "120 %"}
    assert {part: format_percent(part) for part in parts} == parts
    waves = {
        1.3333: "1.33 waves",
        1.0039: "1.004 waves",
        1.0: "1 wave",
        333.3: "333 waves",
        0.07: "0.07 waves",
        0.0: "under 0.01 waves",
    }
    assert {count: format_waves(count) for count in waves} == waves


@each_row(
    ("unit", "factor", "base"),
    [
        ("Gbyte/second", 1e9, "byte/s"), ("cycle/nsecond", 1e9, "Hz"), ("usecond", 1e-6, "s"),
        ("Kbyte/block", 1e3, "byte/block"), ("ns", 1e-9, "s"), ("hz", 1.0, "Hz"), ("Ghz", 1e9, "Hz"),
        ("sectors", 1.0, "sector"), ("Mbytes", 1e6, "byte"), ("register/thread", 1.0, "register/thread"),
        ("%", 1.0, "%"), ("", 1.0, ""),
    ],
)  # fmt: skip
def test_ncu_units(unit: str, factor: float, base: str) -> None:
    read_factor, read_base = ncu_unit(unit)
    assert read_base == base
    assert read_factor == pytest.approx(factor)
