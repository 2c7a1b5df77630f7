"""How a measured GPU is shown in the terminal, live, as JSON, and compared with another: numbers, units, safe texts."""

from __future__ import annotations

import io
import json
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from gpuprof.characterize.measure.events import (
    Finished,
    Result,
)
from gpuprof.characterize.present.compare import change_text, comparison_markdown, print_comparison
from gpuprof.characterize.present.console import print_measured
from gpuprof.characterize.present.json_out import comparison_lines, measured_lines
from gpuprof.characterize.present.live import LiveLines
from gpuprof.characterize.present.view import (
    View,
)
from gpuprof.characterize.present.words import amount, half_width, half_width_text, span
from gpuprof.characterize.sheet.measured import Measured
from gpuprof.units import parse_quantity
from tests.hand_made import HOSTILE
from tests.measured_sheets import (
    CLOCK,
    MADE_UP,
    PUBLISHED,
    VALUES,
    hostile,
    only,
    seen,
    seen_hostile,
    value,
)
from tests.table import each_row


def printed(
    view: View | None = None, width: int = 80, *, terminal: bool = False, stream: io.StringIO | None = None
) -> str:
    out = stream if stream is not None else io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    print_measured(console, view or seen())
    return out.getvalue()


@each_row(
    ("number", "unit", "text"),
    [
        (4.512e12, "B/s", "4.51 TB/s"), (262144, "B", "256 KiB"), (33.04, "cycle", "33.0 cycles"),
        (32, "ways", "32 ways"), (12.3456, "warp", "12.3 warps"), (1024, "thread", "1024 threads"),
        (4.1e-11, "J/B", "41.0 pJ/B"), (2.5e-6, "s", "2.50 µs"), (126.08, "B/clk/SM", "126 B/clk/SM"),
        (12, "", "12.0"),
    ],
)  # fmt: skip
def test_amounts_read_as_an_engineer_writes_them(number: float, unit: str, text: str) -> None:
    assert amount(number, unit) == text


@given(st.floats(1e-9, 9e17), st.sampled_from(["B/s", "FLOP/s", "OP/s", "Hz", "W", "s", "B/clk/SM", "FLOP/clk/SM"]))
def test_what_is_shown_is_the_value_to_three_digits(number: float, unit: str) -> None:
    if unit != "s":
        number += 1.0
    parsed = parse_quantity(amount(number, unit))
    assert parsed.unit == unit
    assert parsed.value == pytest.approx(number, rel=5.1e-3)


def test_ranges_and_intervals_are_written_with_one_unit() -> None:
    assert span(4.42e12, 4.71e12, "B/s") == "4.42–4.71 TB/s"
    assert span(980e9, 1.02e12, "B/s", " to ") == "980 GB/s to 1.02 TB/s"
    assert span(33.0, 33.0, "cycle") == "33.0 cycles"
    assert half_width(value(100.0, "cycle", low=99.0, high=100.5)) == pytest.approx(0.01)
    assert half_width(value(100.0, "cycle", low=None)) is None
    assert half_width_text(value(100.0, "cycle", low=99.999, high=100.0)) == "<0.1 %"
    assert half_width_text(value(100.0, "cycle", low=88.0, high=100.0)) == "12.0 %"


def live_lines(*names: str, width: int) -> list[str]:
    """What a run prints as it goes."""
    out = io.StringIO()
    live = LiveLines(Console(file=out, width=width, color_system=None))
    for name in names:
        live(Result(name, VALUES[name], PUBLISHED.get(name)))
    live(Finished(60.0, interrupted=False))
    return out.getvalue().splitlines()


@each_row("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal_and_no_number_loses_its_unit(width: int) -> None:
    lines = printed(width=width).splitlines()
    assert max(map(len, lines)) <= width
    figures = [re.search(r" ([\d.]+) ([A-Za-z/]+) +0\.2 %", line) for line in lines if "0.2 %" in line]
    assert len(figures) == 22
    assert None not in figures
    text = printed(seen_hostile(), width=width)
    assert not any(unicodedata.category(char) in {"Cc", "Cf"} for char in text if char != "\n")
    assert "[red]" in text.replace("\n", "") and "\\x1b" in text
    live = live_lines(*VALUES, width=width)
    assert len(live) >= 26 and max(map(len, live)) <= width
    assert max(map(len, compared(MADE_UP, slower(0.8), width).splitlines())) <= width


def test_the_example_of_a_limit_in_the_documentation_is_right() -> None:
    text = (Path(__file__).parents[1] / "docs" / "explanation" / "measuring.md").read_text(encoding="utf-8")
    limit = 2 * 3200e6 * 6016 / 8
    assert f"÷ 8 = {amount(limit, 'B/s', 4)}" in text
    assert f"9.77 ÷ 4.813 = {9.77e12 / limit:.2f}" in text


# JSON


def document(view: View | None = None) -> dict[str, Any]:
    content: dict[str, Any] = json.loads("\n".join(measured_lines(view or seen())))
    return content


def test_json_keeps_base_units_and_null_for_what_is_missing() -> None:
    content = document()
    assert content["conditions"]["power_limit_w"] == 500
    first = content["values"][0]
    assert (first["name"], first["probe"], first["value"], first["unit"]) == (
        "bandwidth/dram-read", "bandwidth/dram-read", 3.9e12, "B/s",
    )  # fmt: skip
    published = first["assessment"]["published"]
    assert (published["low"], published["high"]) == pytest.approx((0.92 * 4.8128e12, 0.98 * 4.8128e12))
    assert first["evidence"]["clock_hz"] == CLOCK
    (unsupported,) = (entry for entry in content["values"] if entry["name"] == "tensor/mma-sync-fp4-f32")
    assert (unsupported["value"], unsupported["low"], len(unsupported["reasons"])) == (None, None, 1)
    assert content["curves"][1]["points"][1] == [2.0, 2.5]
    assert document(seen(only()))["values"] == []


def test_json_has_a_line_for_each_value_and_steers_nothing() -> None:
    lines = list(measured_lines(seen_hostile()))
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert document(seen_hostile())["device"]["name"] == HOSTILE
    assert sum('"family"' in line and '"verdict"' in line for line in measured_lines(seen())) == 26


# Two files


def slower(factor: float) -> Measured:
    """The same file, each rate and time scaled; a newer driver, and no value for L1."""
    scaled = {
        name: replace(
            old, value=old.value * factor, low=old.value * factor * 0.998, high=old.value * factor * 1.002
        ) if old.value is not None and old.unit == "B/s" else old
        for name, old in VALUES.items()
        if name != "latency/l1"
    }  # fmt: skip
    conditions = replace(MADE_UP.conditions, driver="111.11", power_limit_w=700, mig=None, max_sm_clock_hz=1.5e9)
    return replace(MADE_UP, name="later", values=scaled, conditions=conditions)


def compared(base: Measured, new: Measured, width: int = 80) -> str:
    out = io.StringIO()
    print_comparison(Console(file=out, width=width, color_system=None), base, new)
    return out.getvalue()


def test_comparison_has_both_values_and_the_change() -> None:
    lines = [" ".join(line.split()) for line in compared(MADE_UP, slower(0.8)).splitlines()]
    assert "dram-read 3.90 3.12 TB/s −20 % −20 % worse" in lines
    ratios = {1.031: "+3.1 %", 0.996: "−0.40 %", 1.0002: "0 %", 2.5: "+150 %", 0.8: "−20 %", None: ""}
    assert {ratio: change_text(ratio) for ratio in ratios} == ratios


def test_a_comparison_as_markdown_is_a_table_that_hostile_names_cannot_break() -> None:
    bad = replace(hostile(), curves={})
    lines = list(comparison_markdown(bad, replace(bad, device=replace(bad.device, name="other"))))
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(bad.values)
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {7}
    assert not any(re.search(r"(?<!\\)<", line) for line in lines)
    table = list(comparison_markdown(MADE_UP, slower(0.8)))
    assert "| bandwidth/dram-read | 3.90 TB/s | 3.12 TB/s | −20 % | −20 % | worse |" in table


def test_comparison_as_json_keeps_both_sides() -> None:
    new = slower(0.8)
    content = json.loads("\n".join(comparison_lines(MADE_UP, new)))
    first = content["rows"][0]
    assert (first["base"]["value"], first["verdict"]) == (3.9e12, "worse")
    assert first["new"]["value"] == pytest.approx(3.12e12)
    assert first["ratio"] == pytest.approx(0.8)
    assert {"name": "driver", "base": "000.00", "new": "111.11"} in content["differences"]
    (gone,) = (row for row in content["rows"] if row["name"] == "latency/l1")
    assert (gone["new"], gone["ratio"], gone["verdict"]) == (None, None, "only base")
