"""How a measured GPU is shown in the terminal, live, as JSON, and beside another one: numbers, units, safe texts."""

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
    Compiling,
    ConfigurationTaken,
    Event,
    Finished,
    Remark,
    Result,
    RunPlanned,
    Started,
)
from gpuprof.characterize.present.compare import change_text, comparison_markdown, print_comparison
from gpuprof.characterize.present.console import print_measured
from gpuprof.characterize.present.json_out import comparison_json, json_lines, measured_json
from gpuprof.characterize.present.live import LiveLines
from gpuprof.characterize.present.view import (
    View,
    absent_families,
    advice,
    ceilings,
    normal_sentence,
    own_doubts,
    shared_doubts,
    unmeasured,
)
from gpuprof.characterize.present.words import amount, half_width, half_width_text, span
from gpuprof.characterize.sheet.measured import Measured, MeasuredEvidence
from gpuprof.characterize.sheet.normal import Published
from gpuprof.characterize.sheet.side_by_side import differences, side_by_side
from gpuprof.present.text import tolerate
from gpuprof.units import parse_quantity
from tests.hand_made import HOSTILE
from tests.measured_sheets import (
    CLOCK,
    MADE_UP,
    PUBLISHED,
    VALUES,
    hostile,
    missing,
    only,
    seen,
    seen_hostile,
    value,
)
from tests.table import each_row
from tests.test_console import Ascii


def printed(
    view: View | None = None, width: int = 80, *, terminal: bool = False, stream: io.StringIO | None = None
) -> str:
    out = stream if stream is not None else io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    print_measured(console, view or seen())
    return out.getvalue()


# Amounts


@each_row(
    ("number", "unit", "text"),
    [
        (4.512e12, "B/s", "4.51 TB/s"),
        (262144, "B", "256 KiB"),
        (33.04, "cycle", "33.0 cycles"),
        (32, "ways", "32 ways"),
        (12.3456, "warp", "12.3 warps"),
        (1024, "thread", "1024 threads"),
        (4.1e-11, "J/B", "41.0 pJ/B"),
        (2.5e-6, "s", "2.50 µs"),
        (126.08, "B/clk/SM", "126 B/clk/SM"),
        (12, "", "12.0"),
    ],
)
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


# What a sheet is made of


@each_row(("name", "low", "high", "normal"), [
    ("dram-read", 3.8e12, 4e12, True), ("dram-read", 4.5e12, 5e12, False), ("dram-read", 1e12, 2e12, True),
    ("l1", 32.0, 34.0, False), ("l1", 80.0, 90.0, True),  # 66 cycles: a latency is better where it is short
])  # fmt: skip
def test_answer_follows_the_published_range(name: str, low: float, high: float, normal: bool) -> None:
    values = {"dram-read": VALUES["bandwidth/dram-read"], "l1": value(66.0, "cycle")}
    view = seen(only(**{name: values[name]}), {f"bandwidth/{name}": Published(low, high, "made up")})
    assert ("not normal" in normal_sentence(view)) == (not normal)
    assert printed(view, 200).startswith(normal_sentence(view))


def test_answer_counts_what_it_rests_on() -> None:
    assert "2 of 6" in normal_sentence(seen())
    assert "21 values" in normal_sentence(seen(published={}))
    published = {f"bandwidth/{name}": Published(1.0, 2.0, "made up") for name in ("a", "b")}
    for rate, named in ((1.5, "all 2 values"), (9.0, "of 2 values")):
        view = seen(only(a=value(1.5, "B/s"), b=value(rate, "B/s")), published)
        assert named in normal_sentence(view) and "not normal" not in normal_sentence(view)
    unmeasured_view = seen(only(fp4=missing("unsupported", "no FP4")))
    assert normal_sentence(unmeasured_view) == normal_sentence(seen(only())) == printed(seen(only())).splitlines()[0]


def test_outliers_begin_with_the_worst_and_at_most_ten_are_told() -> None:
    values = {f"v{number}": value(2.0, "B/s") for number in range(14)} | {"slow": value(0.5, "B/s")}
    published = {f"bandwidth/{name}": Published(1.0, 1.0, "made up") for name in values}
    view = seen(only(**values), published)
    assert [entry.short for entry in view.outliers()][:2] == ["slow", "v0"]
    assert len(view.outliers()) == 15
    assert printed(view).count("above 1.00 B/s") == 9


STATIC, DYNAMIC = "bandwidth/dram-read SCHEDULE=Static", "bandwidth/dram-read SCHEDULE=Dynamic"
RANGES = {STATIC: PUBLISHED["bandwidth/dram-read"], DYNAMIC: PUBLISHED["bandwidth/dram-read"]}


def two_ways(static: float = 4.2e12, **changes: object) -> Measured:
    ways = {STATIC: static, DYNAMIC: 4.5e12}
    return replace(
        MADE_UP,
        values={name: value(rate, "B/s", 4.8128e12, ceiling="dram", **changes) for name, rate in ways.items()},
    )


@each_row(("measured", "fragments"), [
    (two_ways(), ("6.7 % below", "best of 2")),
    (two_ways(4.4999e12), ("less than 0.5 %", "best of 2")),
    (two_ways(evidence=MeasuredEvidence(limit=4.4e12, limit_confirmed=False, clock_hz=1.7e9)),
     ("best of 2", "7.1 % above")),
])  # fmt: skip
def test_ways_to_measure_the_same_are_compared_with_the_best(measured: Measured, fragments: tuple[str, ...]) -> None:
    told = [" ".join(advice(entry)) for entry in seen(measured, RANGES).entries]
    assert all(fragment in text for fragment, text in zip(fragments, told, strict=True))


def test_ceilings_are_the_best_rates_from_dram_inwards() -> None:
    l2 = value(9e12, "B/s", 16e12, ceiling="l2")
    view = seen(replace(two_ways(), values={"bandwidth/l2-read": l2, **two_ways().values}))
    assert [(top.name, top.rate, top.entry.name) for top in ceilings(view)] == [
        ("DRAM", "4.50 TB/s", DYNAMIC), ("L2", "9.00 TB/s", "bandwidth/l2-read"),
    ]  # fmt: skip
    assert {"94 %", "56 %"} <= set(re.findall(r"\d+ %", printed(view)))
    assert ceilings(seen(replace(MADE_UP, values={"latency/l1": value(33.0, "cycle")}))) == ()


def test_what_could_not_be_measured_and_what_is_doubtful_is_grouped_by_reason() -> None:
    groups = unmeasured(seen().entries)
    assert [(group.verdict, len(group.entries)) for group in groups] == [
        ("unsupported", 1), ("unsupported", 2), ("not permitted", 1),
    ]  # fmt: skip
    doubtful = {
        f"bandwidth/b{number}": value(1e12, "B/s", verdict="plausible", reasons=(f"reason {number // 2}",))
        for number in range(13)
    }
    view = seen(replace(MADE_UP, values=doubtful))
    shared = shared_doubts(view.entries)
    assert [(doubt.why, doubt.number) for doubt in shared] == [(f"reason {number}", 2) for number in range(5)]
    own = [list(own_doubts(entry, shared)) for entry in view.entries]
    assert [len(texts) for texts in own] == [0] * 10 + [1] * 3
    assert sum("reason 5" in line for line in printed(view).splitlines()) == 2
    assert absent_families(seen(replace(MADE_UP, values={"latency/l1": VALUES["latency/l1"]}, curves={}))) == (
        "bandwidth", "bank-conflict", "tensor", "atomics",
    )  # fmt: skip


# The terminal


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
    lines = lived(*map(result, VALUES), Remark("latency/l2", "its power cap " * 20), width=width).splitlines()
    assert len(lines) >= 27
    assert max(map(len, lines)) <= width
    assert max(map(len, compared(MADE_UP, slower(0.8), width).splitlines())) <= width


def test_many_values_and_very_long_names_are_all_there() -> None:
    values = {f"instruction/op{number}-throughput": value(64.0, "result/clk/SM") for number in range(500)}
    long = {"bandwidth/" + "n" * 300: value(1e12, "B/s")}
    lines = printed(seen(replace(MADE_UP, values=values | long))).splitlines()
    assert sum(line.startswith("✓ op") for line in lines) == 500
    assert sum(line.count("n") for line in lines if set(line.strip()) == {"n"}) == 300
    assert max(map(len, lines)) <= 80


def test_colour_and_signs_are_those_that_the_terminal_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" not in printed()
    assert "\x1b[32m" in printed(terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[\d;]*3[1-6]", printed(terminal=True))
    tolerate(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert "?" not in printed(stream=Ascii()).replace("normal?", "").replace("?C", "")


def test_the_example_of_a_limit_in_the_documentation_is_right() -> None:
    text = (Path(__file__).parents[1] / "docs" / "explanation" / "measuring.md").read_text(encoding="utf-8")
    limit = 2 * 3200e6 * 6016 / 8
    assert f"÷ 8 = {amount(limit, 'B/s', 4)}" in text
    assert f"9.77 ÷ 4.813 = {9.77e12 / limit:.2f}" in text


# Live


def lived(*events: Event, width: int = 100, terminal: bool = False) -> str:
    out = io.StringIO()
    live = LiveLines(Console(file=out, width=width, force_terminal=terminal, color_system=None))
    for event in events:
        live(event)
    live(Finished(60.0, interrupted=False))
    return out.getvalue()


def result(name: str) -> Result:
    return Result(name, VALUES[name], PUBLISHED.get(name))


def test_results_stand_beside_what_was_published_once_it_can_be_judged() -> None:
    row, *_ = (line for line in lived(result("bandwidth/dram-read")).splitlines() if "✓" in line)
    assert row.split()[:7] == ["✓", "bandwidth/dram-read", "3.90", "TB/s", "0.2", "%", "4.43–4.72"]
    ways = [Result(name, way, RANGES[name]) for name, way in two_ways().values.items()]
    static, dynamic = lived(*ways).splitlines()[1:]
    assert "4.43" not in static and "4.43" in dynamic


STARTED = Started("latency/l2-capacity", "Bytes that L2 holds", "short", "zeros", 33, 64)


def test_progress_takes_one_line_that_goes_and_shows_on_terminals_only() -> None:
    plan = RunPlanned(("latency/l2-capacity",), 360.0)
    assert lived(plan, STARTED, Compiling(1, 2)) == ""
    text = lived(plan, STARTED, terminal=True)
    assert "[33 of 64] about 3 min" in text and text.endswith("\r\x1b[K")
    taken = ConfigurationTaken("latency/l2-capacity", "size=1048576", 33, 272.0, "cycle")
    shown = lived(STARTED, taken, terminal=True).split("\r\x1b[K")
    assert shown == ["[33 of 64] latency/l2-capacity", "[33 of 64] latency/l2-capacity: size=1048576 272 cycles", ""]
    pushed = lived(STARTED, result("latency/l1"), terminal=True)
    assert pushed.index("latency/l1") < pushed.rindex("[33 of 64]")
    long = replace(STARTED, probe=f"latency/{HOSTILE}{'n' * 300}")
    line = lived(long, width=80, terminal=True).removesuffix("\r\x1b[K")
    assert (len(line), line.isprintable()) == (79, True)


# JSON


def document(view: View | None = None) -> dict[str, Any]:
    content: dict[str, Any] = json.loads("\n".join(json_lines(measured_json(view or seen()))))
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
    assert content["curves"][4]["points"][1] == [2.0, 2.5]
    assert document(seen(only()))["values"] == []


def test_json_has_a_line_for_each_value_and_steers_nothing() -> None:
    lines = list(json_lines(measured_json(seen_hostile())))
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert document(seen_hostile())["device"]["name"] == HOSTILE
    assert sum('"family"' in line and '"verdict"' in line for line in json_lines(measured_json(seen()))) == 26


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
    flat = " ".join(lines)
    for fragment in ("26 values", "16 the same", "4 worse", "000.00 → 111.11", "500 W → 700 W", "1.98 GHz → 1.50 GHz"):
        assert fragment in flat
    assert "dram-read 3.90 3.12 TB/s −20 % −20 % worse" in lines
    assert "3.90 TB/s 390 GB/s −90 %" in " ".join(compared(MADE_UP, slower(0.1)).split())
    later = replace(MADE_UP, conditions=replace(MADE_UP.conditions, date="2026-02-01"))
    assert all(date in compared(MADE_UP, later) for date in ("2026-02-01", "2026-01-02T03:04:05Z"))
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
    content = json.loads(
        "\n".join(json_lines(comparison_json(MADE_UP, new, side_by_side(MADE_UP, new), differences(MADE_UP, new))))
    )
    first = content["rows"][0]
    assert (first["base"]["value"], first["verdict"]) == (3.9e12, "worse")
    assert first["new"]["value"] == pytest.approx(3.12e12)
    assert first["ratio"] == pytest.approx(0.8)
    assert {"name": "driver", "base": "000.00", "new": "111.11"} in content["differences"]
    (gone,) = (row for row in content["rows"] if row["name"] == "latency/l1")
    assert (gone["new"], gone["ratio"], gone["verdict"]) == (None, None, "only base")
