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

in_a_browser = pytest.mark.browser


@cache
def page() -> str:
    return render_measured_html(seen())


def family(name: str, measured: Measured = MADE_UP, published: dict[str, Published] | None = None) -> Family:
    (family_,) = (each for each in build_page(seen(measured, published)).families if each.title == name)
    return family_


def figure(
    name: str, curves: Mapping[str, Curve] = CURVES, values: Mapping[str, MeasuredValue] = VALUES
) -> CurveFigure:
    drawn = figures(replace(MADE_UP, curves=curves, values=values), TITLES)
    (figure_,) = (each for several in drawn.values() for each in several if each.name == name)
    return figure_


# The whole page


def test_page_has_its_parts_in_order_and_links_that_lead_somewhere() -> None:
    outline = Outline(page())
    assert outline.open == []
    headings = ["Ceilings", "Bandwidth", "Latency", "Bank conflict", "Tensor", "Evidence", "Conditions"]
    places = [max(index for index, text in enumerate(outline.texts) if text == name) for name in headings]
    assert places == sorted(places)
    assert outline.tags.count("h1") == 1
    scopes = [value for tag, name, value in outline.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")
    assert all(link.startswith("#") or link == "data:," for link in outline.links)
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)
    assert len(outline.ids) == len(set(outline.ids))
    assert not re.search(r"@import|url\((?!#)|\son\w+=", page())
    assert "someone" not in page()  # the folder of the file stays private


def test_policy_allows_our_script_alone() -> None:
    (script,) = re.findall(r"<script>(.*?)</script>", page(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = page().replace("&#39;", "'")
    for part in ("default-src 'none'", "style-src 'unsafe-inline'", f"script-src 'sha256-{digest}'"):
        assert part in policy


def test_same_file_gives_the_same_page_also_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert sum("<img src=x onerror=alert(1)>" in shown for shown in outline.texts) > 20


def test_page_of_many_values_is_small_and_one_of_none_has_no_table() -> None:
    values = {f"instruction/op{number}-{'x' * 200}": value(64.0, "result/clk/SM", 64.0) for number in range(500)}
    text = render_measured_html(seen(replace(MADE_UP, values=values)))
    assert text.count('<tr id="value-') == 500
    assert len(text.encode()) < 2_000_000
    assert "table" not in Outline(render_measured_html(seen(only()))).tags


# Rows


def test_row_has_value_interval_shares_and_standing() -> None:
    row = family("Bandwidth").rows[0]
    assert (row.name, row.value, row.half_width, row.interval) == (
        "dram-read", "3.90 TB/s", "0.2 %", "3.89 to 3.91 TB/s",
    )  # fmt: skip
    assert row.of_limit is not None
    assert (row.of_limit.text, row.of_rated, row.published) == ("81 %", "81 %", "4.43–4.72 TB/s")
    assert (row.normal, row.standing, row.verdict) == ("low", "worse", "verified")
    assert family("Latency").has == {"half_width", "published", "normal"}
    assert family("Bandwidth").has == {"half_width", "of_limit", "of_rated", "published", "normal"}
    rows = {row.name: row for row in family("Bandwidth").rows}
    assert (rows["WIDTH=4"].probe, rows["WIDTH=16"].probe) == ("l1-read", "")  # values of a probe share its title
    rejected = rows["l2-read"]
    assert rejected.rejected and rejected.strip is None
    assert rejected.of_limit is not None and rejected.of_limit.percent is None
    assert "2.03 ×" in rejected.remarks[0]
    assert [len(group.entries) for group in family("Tensor").unmeasured] == [1, 2]


@each_row(
    ("number", "at", "beyond", "outside"),
    [(250.0, "50.0", "", False), (200.0, "33.3", "", False), (302.0, "67.3", "", False), (340.0, "80.0", "", True),
     (90.0, "0.0", "below", True), (410.0, "100.0", "above", True)],
)  # fmt: skip
def test_the_middle_third_of_a_strip_is_the_published_range(number: float, at: str, beyond: str, outside: bool) -> None:
    published = {"bandwidth/a": Published(200.0, 300.0, "made up")}
    (row,) = family("Bandwidth", only(a=value(number, "B/s")), published).rows
    assert row.strip == (at, beyond, outside)


@each_row(("changes", "cell", "fragments"), [
    ({}, 0, ("block 512, DEPTH 4", "33 samples", "short")),
    ({"allocations": 3}, 0, ("on 3 allocations",)),
    ({"allocations": 2, "of_allocations": 3}, 0, ("on 2 of 3 allocations",)),
    ({}, 1, ("pass", "4 LDG.E.128", "cubin 0123456789ab")),
    ({"evidence": MeasuredEvidence()}, 1, ("not checked",)),
    ({}, 2, ("0.12 %", "1.755 GHz", "1.757 GHz")),
    ({}, 3, ("4.813 TB/s", "81 %", "made up")),
    ({"evidence": MeasuredEvidence(limit=4.8e12, limit_confirmed=False)}, 3, ("not confirmed",)),
    ({"evidence": MeasuredEvidence()}, 3, ("none",)),
])  # fmt: skip
def test_evidence_has_code_scaling_clocks_and_limit(
    changes: dict[str, Any], cell: int, fragments: tuple[str, ...]
) -> None:
    (row,) = family("Bandwidth", only(a=value(3.9e12, "B/s", 4.8128e12, **changes))).evidence
    assert all(fragment in "\n".join(row.cells[cell]) for fragment in fragments)


# Ceilings


def test_ceiling_of_a_level_is_its_highest_believed_value() -> None:
    wrong = replace(VALUES["bandwidth/l1-read WIDTH=16"], value=500.0, verdict="rejected")
    by_name = {
        ceiling.name: ceiling
        for ceiling in build_page(seen(replace(MADE_UP, values={**VALUES, "bandwidth/wrong": wrong}))).ceilings
    }
    assert by_name["L1"].quantity == "bandwidth/l1-read WIDTH=16"
    assert by_name["L1"].rate == "29.5 TB/s"  # 127.4 B × 132 SMs × 1.755 GHz
    assert by_name["DRAM"].of_rated == "81 %"
    assert any("BF16" in name and "wgmma" in name for name in by_name)


# Tensor rates


def rates(**values: MeasuredValue) -> tuple[RatesOfType, ...]:
    named = {f"tensor/{name.replace('_', ' ')}": rate for name, rate in values.items()}
    return family("Tensor", replace(MADE_UP, values=named)).rates


def test_rates_of_a_type_stand_together_each_by_its_fastest_shape() -> None:
    kinds = family("Tensor").rates
    assert [kind.name.split()[0] for kind in kinds] == ["BF16", "FP8"]
    assert [(rate.instruction, rate.how.split(",")[0]) for rate in kinds[0].rates] == [
        ("mma.sync", "zeros"), ("wgmma", "zeros"), ("wgmma", "random"),
    ]  # fmt: skip
    assert {rate.note for kind in kinds for rate in kind.rates} == {"", "emulated"}
    wide, narrow = (tensor(share, 4096, "tensor.bf16 fp32 wgmma") for share in (0.9, 0.8))
    (kind,) = rates(a_N256_zeros=wide, a_N128_zeros=narrow)
    assert [rate.of_limit for rate in kind.rates] == ["90 %"]
    doubtful = replace(wide, verdict="plausible")
    assert rates(a=doubtful)[0].rates[0].note == "plausible"
    assert rates(a=replace(doubtful, verdict="rejected"), b=missing("unsupported", "no")) == ()


def test_lengths_are_shares_of_the_longest_mark() -> None:
    """4096 FLOP × 132 SMs × 1.755 GHz = 948.9 TFLOP/s; rated 989.4, which is the longest."""
    (kind,) = rates(a=tensor(0.5, 4096, "tensor.bf16 fp32 wgmma"))
    (rate,) = kind.rates
    assert rate.text == "474 TFLOP/s"
    assert float(rate.bar) == pytest.approx(47.95, abs=0.02)
    assert rate.limit is not None and float(rate.limit) == pytest.approx(95.9, abs=0.05)
    assert rate.rated is not None and float(rate.rated) == pytest.approx(100.0)
    bare = value(2000.0, "FLOP/clk/SM", ceiling="tensor.fp6 fp32 mma.sync")  # no limit, no rating
    (kind,) = rates(a=bare)
    assert (kind.rates[0].limit, kind.rates[0].rated, kind.rates[0].bar) == (None, None, "100")
    assert rates(a=replace(bare, evidence=MeasuredEvidence())) == ()


# Curves


def test_line_of_bank_conflicts_is_fitted_for_each_size() -> None:
    drawn = figure("bank-conflict/load")
    assert [line.label for line in drawn.plot.lines] == ["load-4", "load-8", "load-16"]
    assert drawn.plot.lines[1].law_text == "2.00 cycles per way + 1.00"
    assert all(line.law and not line.path for line in drawn.plot.lines)
    bent = Curve("ways", "cycle", tuple((float(way), 1.0 + way**2) for way in (1, 2, 4, 8, 16, 32)))
    assert "0.9402" in figure("bank-conflict/load", {"bank-conflict/load-4": bent}).notes[0]
    short = figure("bank-conflict/load", {"bank-conflict/load-4": Curve("ways", "cycle", ((1.0, 1.0), (2.0, 2.0)))})
    assert len(short.notes) == 1
    assert short.plot.lines[0].path


def test_capacity_is_marked_on_its_curve_and_on_no_other() -> None:
    assert [label.text for label in figure("latency/l1-capacity").plot.columns] == ["256 KiB"]
    assert [label.text for label in figure("latency/l2-capacity").plot.columns] == ["48 MiB"]
    assert figure("bank-conflict/load").plot.columns == ()
    rejected = {"latency/l2-capacity": replace(VALUES["latency/l2-capacity"], verdict="rejected", reasons=("no",))}
    assert figure("latency/l2-capacity", values=rejected).plot.columns == ()
    assert [line.label for line in figure("latency/l1-capacity").plot.lines] == ["stride=32 B", "stride=128 B"]
    drawn = figure("latency/l2-capacity")
    assert (drawn.plot.lines[0].label, drawn.rows[0]) == ("", ("", "1 MiB", "262 cycles"))
    assert all(number in drawn.plot.description for number in ("262 cycles", "256 MiB", "48 MiB"))


def test_bandwidth_in_flight_has_its_knee_its_peak_and_where_95_percent_are_reached() -> None:
    drawn = figure("bandwidth/dram-in-flight")
    assert [label.text for label in drawn.plot.columns] == ["40 KiB"]
    assert [label.text for label in drawn.plot.levels] == ["4.40 TB/s"]
    assert "min(4.40 TB/s" in drawn.notes[0] and "40 KiB" in drawn.notes[0]
    assert drawn.plot.lines[0].law and drawn.plot.lines[0].path
    values = {**VALUES, "bandwidth/dram-in-flight at 95 % of peak": value(56 * 1024.0, "B")}
    near = figure("bandwidth/dram-in-flight", values=values)
    assert [label.text for label in near.plot.columns] == ["40 KiB", "95 %: 56 KiB"]
    assert (near.notes[0], "56 KiB" in near.notes[1]) == (drawn.notes[0], True)
    (row,) = [row for row in family("Bandwidth", replace(MADE_UP, values=values)).rows if row.name.endswith("of peak")]
    assert row.notes


def test_points_without_an_order_are_not_joined() -> None:
    twice = Curve("B", "B/s", tuple(sorted((x, y * factor) for x, y in LITTLE for factor in (1.0, 0.9))))
    (line,) = figure("bandwidth/dram-in-flight", {"bandwidth/dram-in-flight": twice}).plot.lines
    assert (line.path, len(line.markers)) == ("", 2 * len(LITTLE))
    by_sm = Curve("SM", "cycle", tuple((float(sm), 260.0) for sm in range(132)))
    assert figure("latency/l2-map", {"latency/l2-map": by_sm}).plot.lines[0].path == ""
    many = {f"latency/l2-map line={line}": by_sm for line in range(32)}
    drawn = figure("latency/l2-map", many)  # more curves than colours
    assert (drawn.plot.lines, drawn.rows) == ((), ())
    assert drawn.plot.cloud.count("M") == 32 * 132


def test_axis_of_bytes_goes_by_doubling_and_a_slope_is_no_height_on_it() -> None:
    curve = Curve("SIZE", "cycle", tuple((float(2**exponent), 600.0 + 2**exponent / 128) for exponent in range(9, 15)))
    values = {"async-copy/tma-latency": value(0.0078, "cycle"), "async-copy/tma-latency first": value(604.0, "cycle")}
    drawn = figure("async-copy/tma-latency", {"async-copy/tma-latency": curve}, values)
    assert [text for _, text in drawn.plot.x_ticks] == ["512 B", "1 KiB", "2 KiB", "4 KiB", "8 KiB", "16 KiB"]
    assert [label.text for label in drawn.plot.levels] == ["604 cycles"]


def test_curves_without_points_and_points_that_nothing_can_draw_are_left_out() -> None:
    odd = Curve("B", "cycle", ((1024.0, 1e300), (2048.0, 33.0), (1e-300, 33.0), (4096.0, 0.0)))
    drawn = figures(replace(MADE_UP, curves={"latency/odd": odd, "latency/none": Curve("B", "cycle", ())}), {})
    ((figure_,),) = drawn.values()
    assert figure_.rows == (("", "2 KiB", "33.0 cycles"), ("", "4 KiB", "0 cycles"))
    with pytest.raises(ValueError):
        plot([], ("B", "cycle"))


# Geometry


def test_scales_are_logarithmic_where_values_are_far_apart() -> None:
    sizes = width_scale([1024.0, 2048.0], "B")
    assert sizes.logarithmic
    assert not width_scale([1.0, 32.0], "ways").logarithmic
    assert width_scale([1.0, 1000.0], "SM").logarithmic
    assert not width_scale([0.0, 1000.0], "B").logarithmic
    assert not height_scale([262.0, 640.0], sizes).logarithmic
    assert height_scale([30.0, 640.0], sizes).logarithmic
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
@settings(max_examples=30, deadline=None)
def test_whatever_is_drawn_lies_inside_the_frame(points: list[list[Any]], x_unit: str, y_unit: str) -> None:
    drawn = plot([PlottedSeries("", tuple(sorted(each))) for each in points], (x_unit, y_unit))
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
def test_labels_of_reference_lines_do_not_cover_each_other(places_: list[float]) -> None:
    drawn = plot(
        [PlottedSeries("", ((1e3, 1.0), (1e9, 2.0)))],
        ("B", "cycle"),
        [ReferenceLine(place, "100.5 MiB") for place in places_],
    )
    boxes = [(float(label.y), float(label.x), float(label.x) + 7.0 * len(label.text)) for label in drawn.columns]
    for index, (row, start, end) in enumerate(boxes):
        assert start >= 0 and end <= 602
        assert row < float(drawn.top)
        assert not any(row == other and start < last and first < end for other, first, last in boxes[:index])


# In a browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
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
def test_page_opens_without_a_message_or_a_request(browser: Browser, tmp_path: Path) -> None:
    for text in (page(), hostile_page()):
        open_page(browser, tmp_path, text)
        assert browser.messages() == []
        assert browser.requests() == []
        assert browser.run("[document.images.length, document.scripts.length]") == [0, 1]


@in_a_browser
@each_row("width", [360, 1280])
def test_page_never_scrolls_sideways(browser: Browser, tmp_path: Path, width: int) -> None:
    for text in (hostile_page(), wide_page()):
        open_page(browser, tmp_path, text, width=width)
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.run("document.documentElement.scrollWidth") <= width


@in_a_browser
def test_every_text_and_line_stands_out_in_both_schemes(browser: Browser, tmp_path: Path) -> None:
    colours = []
    for dark in (False, True):
        open_page(browser, tmp_path, page(), dark=dark)
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        contrasts: dict[str, Any] = browser.run(CONTRASTS)
        assert contrasts["seen"] > 300
        assert contrasts["bad"] == []
        colours.append(
            browser.run("[...document.querySelectorAll('.c0 .line')].map(e => getComputedStyle(e).stroke)[0]")
        )
    assert colours == ["rgb(0, 114, 178)", "rgb(86, 180, 233)"]
