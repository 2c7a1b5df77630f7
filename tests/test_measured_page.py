"""The HTML sheet of a measured GPU: what it says and draws, that it is safe, and how it looks in a real browser.

Its numbers are made up to test with; no GPU gave them.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprof.characterize.present.page.build import Family, build_page
from gpuprof.characterize.present.page.curves import CurveFigure, figures
from gpuprof.characterize.present.page.plots import Plot, PlottedSeries, ReferenceLine, plot
from gpuprof.characterize.present.page.rates import RatesOfType
from gpuprof.characterize.present.page.render import render_measured_html
from gpuprof.characterize.present.page.scales import AxisScale, height_scale, ticks, width_scale
from gpuprof.characterize.sheet.measured import Curve, Measured, MeasuredEvidence, MeasuredValue
from gpuprof.characterize.sheet.normal import Published
from tests.chromium import CHROMIUM, Browser
from tests.measured_sheets import (
    CURVES,
    LITTLE,
    MADE_UP,
    TITLES,
    VALUES,
    missing,
    only,
    seen,
    seen_hostile,
    tensor,
    value,
)
from tests.table import each_row
from tests.test_browser import CONTRASTS
from tests.test_html import Outline

in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


@cache
def page() -> str:
    return render_measured_html(seen())


def family(name: str, measured: Measured = MADE_UP, published: dict[str, Published] | None = None) -> Family:
    (found,) = (one for one in build_page(seen(measured, published)).families if one.title == name)
    return found


def figure(
    name: str, curves: Mapping[str, Curve] = CURVES, values: Mapping[str, MeasuredValue] = VALUES
) -> CurveFigure:
    drawn = figures(replace(MADE_UP, curves=curves, values=values), TITLES)
    (found,) = (one for several in drawn.values() for one in several if one.name == name)
    return found


# The whole page


def test_the_page_answers_first_and_has_every_part() -> None:
    outline = Outline(page())
    assert outline.open == []
    headings = ["This Made-up GPU is not normal: 2 of 6 values with a published range fall short of it."]
    headings += ["Outside the published range", "Ceilings", "Bandwidth", "Latency", "Bank conflict", "Tensor"]
    headings += ["Evidence", "Conditions"]
    places = [max(index for index, text in enumerate(outline.texts) if text == name) for name in headings]
    assert places == sorted(places)
    assert outline.tags.count("h1") == 1
    scopes = [found for tag, name, found in outline.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")


def test_the_page_needs_nothing_else_and_its_links_lead_somewhere() -> None:
    outline = Outline(page())
    assert all(link.startswith("#") or link == "data:," for link in outline.links)
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))
    assert not re.search(r"@import|url\((?!#)|\son\w+=", page())


def test_the_policy_allows_our_script_alone() -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", page(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page().replace(
        "&#39;", "'"
    )


def test_the_same_file_gives_the_same_page() -> None:
    assert render_measured_html(seen()) == page()


def test_the_page_is_written_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert render_measured_html(seen()) == page()


def test_hostile_texts_are_text_everywhere() -> None:
    text = render_measured_html(seen_hostile())
    outline = Outline(text)
    assert outline.open == []
    assert "img" not in outline.tags
    assert outline.tags.count("script") == 1
    assert len(outline.ids) == len(set(outline.ids))
    assert "\x1b" not in text and "\u202e" not in text
    assert sum("<img src=x onerror=alert(1)>" in found for found in outline.texts) > 20


def test_the_folder_of_the_file_stays_private() -> None:
    assert "someone" not in page()


def test_five_hundred_values_with_long_names_stay_below_two_megabytes() -> None:
    values = {f"instruction/op{number}-{'x' * 200}": value(64.0, "result/clk/SM", 64.0) for number in range(500)}
    text = render_measured_html(seen(replace(MADE_UP, values=values)))
    assert text.count('<tr id="value-') == 500
    assert len(text.encode()) < 2_000_000


def test_a_file_without_values_is_a_page() -> None:
    outline = Outline(render_measured_html(seen(only())))
    assert "No value of this Made-up GPU could be measured." in outline.texts
    assert "table" not in outline.tags


# Rows


def test_a_row_says_everything_of_a_value() -> None:
    row = family("Bandwidth").rows[0]
    assert (row.name, row.value, row.half_width, row.interval) == (
        "dram-read",
        "3.90 TB/s",
        "0.2 %",
        "3.89 to 3.91 TB/s",
    )
    assert row.of_limit is not None
    assert (row.of_limit.text, row.of_rated, row.published) == ("81 %", "81 %", "4.43–4.72 TB/s")
    assert (row.normal, row.standing, row.verdict) == ("low", "worse", "verified")


@each_row(
    ("number", "at", "beyond", "outside"),
    [(250.0, "50.0", "", False), (200.0, "33.3", "", False), (302.0, "67.3", "", False), (340.0, "80.0", "", True),
     (90.0, "0.0", "below", True), (410.0, "100.0", "above", True)],
)  # fmt: skip
def test_the_middle_third_of_a_strip_is_the_published_range(number: float, at: str, beyond: str, outside: bool) -> None:
    published = {"bandwidth/a": Published(200.0, 300.0, "made up")}
    (row,) = family("Bandwidth", only(a=value(number, "B/s")), published).rows
    assert row.strip == (at, beyond, outside)


def test_a_rejected_value_is_struck_out_has_its_reason_and_no_place_in_a_range() -> None:
    (row,) = (row for row in family("Bandwidth").rows if row.name == "l2-read")
    assert row.rejected and row.strip is None
    assert row.of_limit is not None and row.of_limit.percent is None
    assert row.remarks[0].startswith("rejected: 9.77 TB/s is 2.03 × the limit")


def test_several_values_of_a_probe_share_its_title() -> None:
    rows = {row.name: row for row in family("Bandwidth").rows}
    assert rows["WIDTH=4"].probe == "l1-read"
    assert rows["WIDTH=4"].title == TITLES["bandwidth/l1-read"]
    assert (rows["WIDTH=16"].probe, rows["WIDTH=16"].title) == ("", "")


def test_columns_without_anything_in_them_are_left_out() -> None:
    assert family("Latency").has == {"half_width", "published", "normal"}
    assert family("Bandwidth").has == {"half_width", "of_limit", "of_rated", "published", "normal"}


def test_what_could_not_be_measured_is_told_by_reason() -> None:
    groups = family("Tensor").unmeasured
    assert [(one.verdict, one.why, len(one.entries)) for one in groups] == [
        ("unsupported", "sm_90a has no FP4 mma", 1),
        ("unsupported", "tcgen05 needs sm_100a", 2),
    ]


def test_evidence_has_code_scaling_clocks_and_limit() -> None:
    taken, code, timing, limit, verdict = family("Bandwidth").evidence[0].cells
    assert taken == ("16-byte loads over 8 GiB", "block 512, DEPTH 4", "median of 33 samples", "short")
    assert code == ("pass", "4 LDG.E.128", "cubin 0123456789ab")
    assert timing == ("0.12 % off a straight line", "SM clock 1.755 GHz, by NVML 1.757 GHz")
    assert limit == ("limit: 4.813 TB/s, the value is 81 % of it", "made up")
    assert verdict == ("verified",)


@each_row(
    ("counted", "of", "text"),
    [(3, None, " on 3 allocations"), (1, 1, " on 1 allocation"), (2, 3, " on 2 of 3 allocations"), (None, None, "")],
)
def test_samples_say_on_how_many_allocations_they_were_taken(counted: int | None, of: int | None, text: str) -> None:
    one = replace(value(33.0, "cycle"), allocations=counted, of_allocations=of)
    (row,) = family("Latency", replace(MADE_UP, values={"latency/l1": one})).evidence
    assert f"median of 33 samples{text}" in row.cells[0]


def test_limit_that_is_not_confirmed_says_so() -> None:
    one = value(4.4e12, "B/s", 4.8e12)
    one = replace(one, evidence=replace(one.evidence, limit_confirmed=False))
    (row,) = family("Bandwidth", replace(MADE_UP, values={"bandwidth/dram-read": one})).evidence
    assert row.cells[3][-1] == "not confirmed: a value above it is doubtful, not wrong"


def test_code_that_was_not_looked_at_says_so() -> None:
    (row,) = family("Bandwidth", only(a=value(1.0, "B/s", evidence=MeasuredEvidence()))).evidence
    assert row.cells[1:4] == (("not checked",), (), ("none",))


# Ceilings


def test_the_ceiling_of_a_level_is_its_highest_believed_value() -> None:
    wrong = replace(VALUES["bandwidth/l1-read WIDTH=16"], value=500.0, verdict="rejected")
    found = build_page(seen(replace(MADE_UP, values={**VALUES, "bandwidth/wrong": wrong}))).ceilings
    by_name = {one.name: one for one in found}
    assert by_name["L1"].quantity == "bandwidth/l1-read WIDTH=16"
    assert by_name["L1"].rate == "29.5 TB/s"  # 127.4 B × 132 SMs × 1.755 GHz
    assert by_name["DRAM"].of_rated == "81 %"
    assert "Tensor BF16 into FP32, wgmma" in by_name


def test_of_several_ways_to_measure_a_ceiling_the_page_names_the_best() -> None:
    values = {
        f"bandwidth/dram-read SCHEDULE={way}": value(rate, "B/s", 4.8128e12, ceiling="dram")
        for way, rate in (("Static", 4.2e12), ("Dynamic", 4.5e12))
    }
    published = dict.fromkeys(values, Published(0.92, 0.98, "made up", of_limit=True))
    measured = replace(MADE_UP, values=values)
    rows = {row.name: row for row in family("Bandwidth", measured, published).rows}
    assert rows["SCHEDULE=Dynamic"].notes == ("the best of 2 ways",)
    assert rows["SCHEDULE=Static"].notes == ("6.7 % below SCHEDULE=Dynamic",)
    assert (rows["SCHEDULE=Static"].normal, rows["SCHEDULE=Dynamic"].normal) == ("", "normal")
    (ceiling,) = build_page(seen(measured, published)).ceilings
    assert (ceiling.rate, ceiling.quantity) == ("4.50 TB/s", "bandwidth/dram-read SCHEDULE=Dynamic")


def test_what_is_no_fault_is_not_written_in_the_colour_of_one() -> None:
    doubtful = value(4.2e12, "B/s", 4.8128e12, ceiling="dram", verdict="plausible", reasons=("its clock moved",))
    best = value(4.5e12, "B/s", 4.8128e12, ceiling="dram")
    ways = {"bandwidth/dram-read SCHEDULE=Static": doubtful, "bandwidth/dram-read SCHEDULE=Dynamic": best}
    text = render_measured_html(seen(replace(MADE_UP, values=ways)))
    assert "<small>the best of 2 ways</small>" in text
    assert '<small class="remark">plausible: its clock moved</small>' in text


def test_what_is_the_ceiling_of_nothing_is_not_listed() -> None:
    page_ = build_page(seen(replace(MADE_UP, values={"latency/l1": value(33.0, "cycle")})))
    assert page_.ceilings == ()


# Tensor rates


def rates(**values: MeasuredValue) -> tuple[RatesOfType, ...]:
    named = {f"tensor/{name.replace('_', ' ')}": one for name, one in values.items()}
    return family("Tensor", replace(MADE_UP, values=named)).rates


def test_instruction_families_of_a_type_stand_together() -> None:
    kinds = family("Tensor").rates
    assert [kind.name for kind in kinds] == ["BF16 into FP32", "FP8 into FP32"]
    assert [(rate.instruction, rate.how) for rate in kinds[0].rates] == [
        ("mma.sync", "zeros, short"),
        ("wgmma", "zeros, short"),
        ("wgmma", "random, power limited"),
    ]


def test_of_several_shapes_the_fastest_is_drawn() -> None:
    wide, narrow = (tensor(share, 4096, "tensor.bf16 fp32 wgmma") for share in (0.9, 0.8))
    (kind,) = rates(a_N256_zeros=wide, a_N128_zeros=narrow)
    assert [rate.of_limit for rate in kind.rates] == ["90 %"]


def test_lengths_are_shares_of_the_longest_mark() -> None:
    """4096 FLOP × 132 SMs × 1.755 GHz = 948.9 TFLOP/s; rated 989.4, which is the longest."""
    (kind,) = rates(a=tensor(0.5, 4096, "tensor.bf16 fp32 wgmma"))
    (rate,) = kind.rates
    assert rate.text == "474 TFLOP/s"
    assert float(rate.bar) == pytest.approx(47.95, abs=0.02)
    assert rate.limit is not None and float(rate.limit) == pytest.approx(95.9, abs=0.05)
    assert rate.rated is not None and float(rate.rated) == pytest.approx(100.0)


def test_a_rate_without_a_limit_or_rating_has_no_marks_and_one_without_a_clock_no_bar() -> None:
    bare = value(2000.0, "FLOP/clk/SM", ceiling="tensor.fp6 fp32 mma.sync")
    (kind,) = rates(a=bare)
    assert (kind.rates[0].limit, kind.rates[0].rated, kind.rates[0].bar) == (None, None, "100")
    assert rates(a=replace(bare, evidence=MeasuredEvidence())) == ()


def test_emulated_and_plausible_rates_are_marked_and_rejected_ones_are_not_drawn() -> None:
    marked = {rate.note for kind in family("Tensor").rates for rate in kind.rates}
    assert marked == {"", "emulated"}
    doubtful = tensor(0.9, 4096, "tensor.bf16 fp32 wgmma", verdict="plausible")
    assert rates(a=doubtful)[0].rates[0].note == "plausible"
    assert rates(a=replace(doubtful, verdict="rejected"), b=missing("unsupported", "no")) == ()


# Curves


def test_probes_that_differ_in_a_size_share_a_figure() -> None:
    drawn = figure("bank-conflict/load")
    assert drawn.title == "Cycles of an SM per shared load, against the lanes that share a bank"
    assert [line.label for line in drawn.plot.lines] == ["load-4", "load-8", "load-16"]


def test_the_line_of_a_bank_conflict_is_fitted() -> None:
    lines = figure("bank-conflict/load").plot.lines
    assert lines[1].law_text == "2.00 cycles per way + 1.00"
    assert all(line.law and not line.path for line in lines)


def test_what_is_no_line_says_so() -> None:
    bent = Curve("ways", "cycle", tuple((float(way), 1.0 + way**2) for way in (1, 2, 4, 8, 16, 32)))
    drawn = figure("bank-conflict/load", {"bank-conflict/load-4": bent})
    assert drawn.notes == ("Cycles over degree do not form a line: R² is 0.9402.",)
    short = figure("bank-conflict/load", {"bank-conflict/load-4": Curve("ways", "cycle", ((1.0, 1.0), (2.0, 2.0)))})
    assert short.notes == ("Too few points for a line.",)
    assert short.plot.lines[0].path


def test_a_found_capacity_is_marked_on_its_curve_and_on_no_other() -> None:
    assert [label.text for label in figure("latency/l1-capacity").plot.columns] == ["256 KiB"]
    assert [label.text for label in figure("latency/l2-capacity").plot.columns] == ["48 MiB"]
    assert figure("bank-conflict/load").plot.columns == ()


def test_a_rejected_capacity_is_not_marked() -> None:
    values = {"latency/l2-capacity": replace(VALUES["latency/l2-capacity"], verdict="rejected", reasons=("no",))}
    assert figure("latency/l2-capacity", values=values).plot.columns == ()


def test_bandwidth_in_flight_has_its_knee_peak_and_little_s_law() -> None:
    drawn = figure("bandwidth/dram-in-flight")
    assert [label.text for label in drawn.plot.columns] == ["40 KiB"]
    assert [label.text for label in drawn.plot.levels] == ["4.40 TB/s"]
    assert drawn.notes == ("Dotted: Little’s law, min(4.40 TB/s, x ÷ latency), with its knee at 40 KiB.",)
    assert drawn.plot.lines[0].law and drawn.plot.lines[0].path


def test_what_95_percent_of_the_peak_takes_is_marked_beside_the_knee_and_named_as_the_number_to_plan_with() -> None:
    values = {**VALUES, "bandwidth/dram-in-flight at 95 % of peak": value(56 * 1024.0, "B")}
    drawn = figure("bandwidth/dram-in-flight", values=values)
    assert [label.text for label in drawn.plot.columns] == ["40 KiB", "95 %: 56 KiB"]
    assert drawn.notes == (
        "Dotted: Little’s law, min(4.40 TB/s, x ÷ latency), with its knee at 40 KiB.",
        "95 % of the peak needs 56 KiB: plan with this number, as the curve is round at the knee.",
    )
    assert drawn.plot.lines[0].law
    rows = family("Bandwidth", replace(MADE_UP, values=values)).rows
    (row,) = [row for row in rows if row.name.endswith("at 95 % of peak")]
    assert row.notes[-1].startswith("what an SM should have in flight: ")


def test_little_s_law_is_drawn_once_over_all_depths() -> None:
    depths = {
        f"bandwidth/dram-in-flight DEPTH={depth}": Curve("B", "B/s", tuple((x * depth, y) for x, y in LITTLE))
        for depth in (1, 2, 4)
    }
    lines = figure("bandwidth/dram-in-flight", depths).plot.lines
    assert [bool(line.law) for line in lines] == [True, False, False]


def test_several_shapes_with_as_much_in_flight_are_points_and_no_line() -> None:
    twice = Curve("B", "B/s", tuple(sorted((x, y * factor) for x, y in LITTLE for factor in (1.0, 0.9))))
    (line,) = figure("bandwidth/dram-in-flight", {"bandwidth/dram-in-flight": twice}).plot.lines
    assert line.path == ""
    assert len(line.markers) == 2 * len(LITTLE)


def test_sms_are_in_no_order() -> None:
    by_sm = Curve("SM", "cycle", tuple((float(sm), 260.0) for sm in range(132)))
    drawn = figure("latency/l2-map", {"latency/l2-map": by_sm})
    assert drawn.plot.lines[0].path == ""
    assert drawn.plot.x_unit == "SMs"


def test_an_axis_of_bytes_is_one_whatever_the_probe_calls_it() -> None:
    curve = Curve("SIZE", "cycle", tuple((float(2**exponent), 600.0 + 2**exponent) for exponent in range(9, 15)))
    drawn = figure("async-copy/tma-latency", {"async-copy/tma-latency": curve})
    assert [text for _, text in drawn.plot.x_ticks] == ["512 B", "1 KiB", "2 KiB", "4 KiB", "8 KiB", "16 KiB"]


def test_a_slope_is_no_height_on_its_curve() -> None:
    curve = Curve("SIZE", "cycle", ((512.0, 604.0), (1024.0, 608.0), (2048.0, 616.0)))
    values = {"async-copy/tma-latency": value(0.0078, "cycle"), "async-copy/tma-latency first": value(604.0, "cycle")}
    drawn = figure("async-copy/tma-latency", {"async-copy/tma-latency": curve}, values)
    assert [label.text for label in drawn.plot.levels] == ["604 cycles"]


def test_curves_of_one_probe_are_told_apart_by_their_parameters() -> None:
    assert [line.label for line in figure("latency/l1-capacity").plot.lines] == ["stride=32 B", "stride=128 B"]
    assert len({line.sample for line in figure("latency/l1-capacity").plot.lines}) == 2
    assert figure("latency/l2-capacity").plot.lines[0].label == ""


def test_more_curves_than_colours_are_a_cloud() -> None:
    many = {
        f"latency/l2-map line={line}": Curve("SM", "cycle", tuple((float(sm), 250.0 + line) for sm in range(132)))
        for line in range(32)
    }
    drawn = figure("latency/l2-map", many)
    assert drawn.plot.lines == ()
    assert drawn.plot.cloud.count("M") == 32 * 132
    assert drawn.rows == ()
    assert drawn.plot.description.endswith("and 25 more lines")


def test_a_figure_says_in_words_what_it_shows() -> None:
    assert figure("latency/l2-capacity").plot.description == (
        "262 cycles at 1 MiB, 640 cycles at 256 MiB; found: 48 MiB"
    )
    assert figure("latency/l2-capacity").rows[0] == ("", "1 MiB", "262 cycles")


def test_curves_without_points_and_points_that_nothing_can_draw_are_left_out() -> None:
    odd = Curve("B", "cycle", ((1024.0, 1e300), (2048.0, 33.0), (1e-300, 33.0), (4096.0, 0.0)))
    drawn = figures(replace(MADE_UP, curves={"latency/odd": odd, "latency/none": Curve("B", "cycle", ())}), {})
    ((only_one,),) = drawn.values()
    assert only_one.rows == (("", "2 KiB", "33.0 cycles"), ("", "4 KiB", "0 cycles"))


# Geometry


def test_sizes_go_by_doubling_and_counts_by_number() -> None:
    sizes = width_scale([1024.0, 2048.0], "B")
    assert sizes.logarithmic
    assert not width_scale([1.0, 32.0], "ways").logarithmic
    assert width_scale([1.0, 1000.0], "SM").logarithmic
    assert not width_scale([0.0, 1000.0], "B").logarithmic
    assert not height_scale([262.0, 640.0], sizes).logarithmic
    assert height_scale([30.0, 640.0], sizes).logarithmic


def test_a_value_lies_where_its_logarithm_does() -> None:
    assert AxisScale(1.0, 100.0, logarithmic=True).part(10.0) == pytest.approx(0.5)
    assert AxisScale(0.0, 40.0, logarithmic=False).part(10.0) == pytest.approx(0.25)


@each_row(
    ("scale", "unit", "texts"),
    [
        (AxisScale(1024.0, 32768.0, logarithmic=True), "B", ["1 KiB", "2 KiB", "4 KiB", "8 KiB", "16 KiB", "32 KiB"]),
        (AxisScale(2.0**14, 2.0**36, logarithmic=True), "B",
         ["32 KiB", "256 KiB", "2 MiB", "16 MiB", "128 MiB", "1 GiB", "8 GiB", "64 GiB"]),
        (AxisScale(0.0, 34.0, logarithmic=False), "ways", ["0", "10", "20", "30"]),
        (AxisScale(0.0, 4.6e12, logarithmic=False), "B/s", ["0 B/s", "1 TB/s", "2 TB/s", "3 TB/s", "4 TB/s"]),
        (AxisScale(30.0, 620.0, logarithmic=True), "cycle", ["50", "100", "200", "500"]),
    ],
)  # fmt: skip
def test_ticks_are_round_and_few(scale: AxisScale, unit: str, texts: list[str]) -> None:
    assert [tick.text for tick in ticks(scale, unit)] == texts


amounts = st.floats(-1e25, 1e25).filter(lambda number: number == 0 or abs(number) > 1e-25)


@given(
    st.lists(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=6), min_size=1, max_size=9),
    st.sampled_from(["B", "s", "cycle", "", "B/s"]),
    st.sampled_from(["B", "cycle", "B/s"]),
)
@settings(max_examples=66, deadline=None)
def test_whatever_is_drawn_lies_inside_the_frame(points: list[list[Any]], x_unit: str, y_unit: str) -> None:
    drawn = plot([PlottedSeries("", tuple(sorted(one))) for one in points], (x_unit, y_unit))
    for x, y in places(drawn):
        assert float(drawn.left) - 5 <= x <= float(drawn.right) + 5
        assert float(drawn.top) - 5 <= y <= float(drawn.bottom) + 5
    assert len(drawn.x_ticks) <= 12 and len(drawn.y_ticks) <= 12


def places(drawn: Plot) -> Iterator[tuple[float, float]]:
    """Where lines go and clouds have their dots."""
    for path in (*(line.path for line in drawn.lines), drawn.cloud):
        for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path):
            yield float(x), float(y)


@given(st.lists(st.floats(1e3, 1e9), min_size=1, max_size=6))
@settings(max_examples=33, deadline=None)
def test_labels_of_what_was_found_do_not_cover_each_other(found: list[float]) -> None:
    drawn = plot(
        [PlottedSeries("", ((1e3, 1.0), (1e9, 2.0)))],
        ("B", "cycle"),
        [ReferenceLine(one, "100.5 MiB") for one in found],
    )
    boxes = [(float(label.y), float(label.x), float(label.x) + 7.0 * len(label.text)) for label in drawn.columns]
    for index, (row, start, end) in enumerate(boxes):
        assert start >= 0 and end <= 602
        assert row < float(drawn.top)
        assert not any(row == other and start < last and first < end for other, first, last in boxes[:index])


def test_a_figure_needs_points() -> None:
    with pytest.raises(ValueError, match="needs points"):
        plot([], ("B", "cycle"))


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


def open_page(browser: Browser, folder: Path, text: str, width: int = 1280, **options: bool) -> None:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    browser.open(path, width, **options)


@cache
def hostile_page() -> str:
    return render_measured_html(seen_hostile())


@cache
def wide_page() -> str:
    """Names of 300 letters."""
    long = {f"instruction/{'n' * 300}": value(64.0, "result/clk/SM", 64.0, method="m" * 300)}
    device = replace(MADE_UP.device, name="d" * 300)
    return render_measured_html(seen(replace(MADE_UP, values={**VALUES, **long}, device=device)))


@in_a_browser
@each_row("scripts", [True, False])
def test_page_opens_without_a_message_or_a_request(browser: Browser, tmp_path: Path, scripts: bool) -> None:
    open_page(browser, tmp_path, page(), scripts=scripts)
    assert browser.messages() == []
    assert browser.requests() == []
    assert len(browser.picture()) > 30_000


@in_a_browser
@each_row("width", [360, 800, 1000, 1280, 1600])
def test_page_never_scrolls_sideways(browser: Browser, tmp_path: Path, width: int) -> None:
    for text in (page(), hostile_page(), wide_page()):
        open_page(browser, tmp_path, text, width=width)
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.run("document.documentElement.scrollWidth") <= width


@in_a_browser
@each_row("dark", [False, True])
def test_every_text_stands_out_from_what_is_behind_it(browser: Browser, tmp_path: Path, dark: bool) -> None:
    open_page(browser, tmp_path, page(), dark=dark)
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    found: dict[str, Any] = browser.run(CONTRASTS)
    assert found["seen"] > 300
    assert found["bad"] == []


@in_a_browser
def test_every_line_stands_out_in_both_schemes(browser: Browser, tmp_path: Path) -> None:
    colours = []
    for dark in (False, True):
        open_page(browser, tmp_path, page(), dark=dark)
        colours.append(
            browser.run("[...document.querySelectorAll('.c0 .line')].map(e => getComputedStyle(e).stroke)[0]")
        )
    assert colours == ["rgb(0, 114, 178)", "rgb(86, 180, 233)"]


@in_a_browser
def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, render_measured_html(seen_hostile()))
    assert browser.run("[document.images.length, document.scripts.length]") == [0, 1]
    assert browser.messages() == [] and browser.requests() == []


@in_a_browser
def test_a_name_leads_to_its_evidence_and_opens_it(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, page())
    browser.run("document.querySelector('.values a').click()")
    target = "document.querySelector('tr:target')"
    assert browser.run(f"{target}.id").startswith("evidence-0-")
    assert browser.run(f"{target}.closest('details').open")


@in_a_browser
def test_landmarks_and_headings_are_named(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, page(), scripts=False)
    names = browser.run("[...document.querySelectorAll('[role=region], [role=img]')].map(e => e.ariaLabel)")
    assert len(names) == len(set(names)) > 10
    levels = browser.run("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
    assert all(after - before <= 1 for before, after in pairwise(levels))


@in_a_browser
def test_paper_has_the_evidence_and_not_the_points(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, page())
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", browser.paper())) <= 12
    browser.send("Emulation.setEmulatedMedia", media="print")
    shown = "[...document.querySelectorAll('{}')].map(e => e.getClientRects().length > 0)"
    assert set(browser.run(shown.format(".points"))) == {False}
    assert set(browser.run(shown.format(".evidence-table"))) == {True}
