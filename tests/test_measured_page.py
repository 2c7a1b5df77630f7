"""The HTML sheet of a measured GPU: its numbers and its safety.

Its numbers are made up to test with; no GPU gave them.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from gpuprof.characterize.present.page.build import Family, build_page
from gpuprof.characterize.present.page.curves import CurveFigure, figures
from gpuprof.characterize.present.page.render import render_measured_html
from gpuprof.characterize.sheet.measured import Curve, MeasuredValue
from gpuprof.views.plot import draw_plot, figure_svg
from tests.hand_made import HOSTILE
from tests.measured_sheets import CURVES, MADE_UP, VALUES, seen, seen_hostile, value
from tests.outline import Outline
from tests.table import each_row


@cache
def page() -> str:
    return render_measured_html(seen())


def family(name: str) -> Family:
    (family_,) = (each for each in build_page(seen()).families if each.title == name)
    return family_


def test_links_of_the_page_lead_somewhere_and_load_nothing() -> None:
    outline = Outline(page())
    assert outline.open == []
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


def test_hostile_texts_are_text_everywhere() -> None:
    text = render_measured_html(seen_hostile())
    outline = Outline(text)
    assert outline.open == []
    assert "img" not in outline.tags
    assert outline.tags.count("script") == 1
    assert len(outline.ids) == len(set(outline.ids))
    assert "\x1b" not in text and "\u202e" not in text
    assert sum("<img src=x onerror=alert(1)>" in shown for shown in outline.texts) > 20


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


def test_curves_without_points_and_points_that_nothing_can_draw_are_left_out() -> None:
    odd = Curve("B", "cycle", ((1024.0, 1e300), (2048.0, 33.0), (1e-300, 33.0), (4096.0, 0.0)))
    drawn = figures(replace(MADE_UP, curves={"latency/odd": odd, "latency/none": Curve("B", "cycle", ())}), {})
    ((figure_,),) = drawn.values()
    assert figure_.rows == (("", "2 KiB", "33.0 cycles"), ("", "4 KiB", "0 cycles"))


def figure_of(curves: dict[str, Curve], values: dict[str, MeasuredValue] = VALUES) -> CurveFigure:
    ((figure,),) = figures(replace(MADE_UP, curves=curves, values=values), {}).values()
    return figure


def drawn(figure: CurveFigure) -> Axes:
    axes = Figure(figsize=(7.5, 4.7)).add_subplot()
    draw_plot(figure.drawing, axes)
    return axes


def places(axes: Axes, kind: str) -> list[Any]:
    """Return the points of each line of a kind: "series", "law", "column", "level"."""
    lines: list[Any] = [line for line in axes.lines if str(line.get_gid()).startswith(f"{kind}-")]
    return [list(zip(line.get_xdata(), line.get_ydata(), strict=True)) for line in lines]


def ticks(axis: Any) -> list[str]:
    """Return the texts of ticks within the axes."""
    low, high = axis.get_view_interval()
    axis.figure.draw_without_rendering()
    return [tick.label1.get_text() for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]


def legend(axes: Axes) -> list[str]:
    (shown,) = (child for child in axes.get_children() if isinstance(child, Legend))
    return [text.get_text() for text in shown.get_texts()]


IN_FLIGHT = "bandwidth/dram-in-flight"
Points = tuple[tuple[float, float], ...]


def test_bytes_in_flight_have_their_law_with_knee_and_peak_on_axes_by_factors() -> None:
    near = {f"{IN_FLIGHT} at 95 % of peak": value(58e3, "B")}
    figure = figure_of({IN_FLIGHT: CURVES[IN_FLIGHT]}, VALUES | near)
    axes = drawn(figure)
    assert places(axes, "series") == [list(CURVES[IN_FLIGHT].points)]
    assert [column[0][0] for column in places(axes, "column")] == [41e3, 58e3]
    assert [level[0][1] for level in places(axes, "level")] == [4.4e12]
    ((*law,),) = places(axes, "law")
    assert (41e3, 4.4e12) in law
    assert all(y == pytest.approx(min(4.4e12, 4.4e12 * x / 41e3)) for x, y in law)
    assert {text.get_text() for text in axes.texts} == {"40 KiB", "95 %: 56.6 KiB", "4.40 TB/s"}
    written = ticks(axes.xaxis)
    assert 4 < len(written) < 10 and set(written) <= {f"{2**n} KiB" for n in range(8)} | {"512 B"}
    assert ticks(axes.yaxis) == ["50 GB/s", "100 GB/s", "200 GB/s", "500 GB/s", "1 TB/s", "2 TB/s"]
    assert (axes.get_xlabel(), axes.get_ylabel(), legend(axes)) == ("", "", [])
    assert figure.notes[0] == "Dotted: Little’s law, min(4.40 TB/s, x ÷ latency), with its knee at 40 KiB."
    assert figure.notes[1].startswith("95 % of the peak needs 56.6 KiB")


def test_bank_conflicts_of_several_widths_share_a_figure_with_their_lines_from_zero() -> None:
    curves = {
        f"bank-conflict/load-{4 * n}": Curve("ways", "cycle", tuple((way, n * (way + 1)) for way in (1.0, 5.0, 9.0)))
        for n in (1, 2)
    }
    figure = figure_of(curves)
    axes = drawn(figure)
    assert places(axes, "series") == [[(1, 2), (5, 6), (9, 10)], [(1, 4), (5, 12), (9, 20)]]
    assert np.allclose(places(axes, "law"), [[(1, 2), (9, 10)], [(1, 4), (9, 20)]])
    looks = {(line.get_color(), line.get_marker()) for line in axes.lines if line.get_marker() != "None"}
    assert len({colour for colour, _ in looks}) == len({shape for _, shape in looks}) == 2
    assert {line.get_linestyle() for line in axes.lines} == {"None", ":"}
    assert legend(axes) == ["load-4", "load-8"]
    assert (ticks(axes.xaxis), ticks(axes.yaxis)) == (["0", "2", "4", "6", "8"], ["0", "5", "10", "15", "20"])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("ways", "cycles")
    assert "load-8: 2.00 cycles per way + 2.00" in figure.notes[0]


def test_more_series_than_colours_are_a_cloud_without_lines_and_legend() -> None:
    curves = {f"occupancy/ffma n={n}": Curve("warps", "cycle", ((1.0, n), (2.0, 3.0))) for n in range(8)}
    axes = drawn(figure_of(curves))
    assert len(places(axes, "series")) == 8
    assert {(line.get_color(), line.get_linestyle()) for line in axes.lines} == {(axes.lines[0].get_color(), "None")}
    assert legend(axes) == []


@each_row("unit, points", [("SM", ((0.0, 1.0), (1.0, 2.0))), ("ways", ((1.0, 1.0), (1.0, 2.0)))])
def test_points_of_sms_and_several_values_at_a_place_are_not_joined(unit: str, points: Points) -> None:
    (line,) = drawn(figure_of({"latency/l2-map": Curve(unit, "cycle", points)})).lines
    assert line.get_linestyle() == "None"


@each_row("count, first, titles", [(300, "n=1: 33.0 cycles at 2 warps", 300), (301, "n=1", 2)])
def test_each_point_has_its_amounts_as_title_unless_they_are_too_many(count: int, first: str, titles: int) -> None:
    points = tuple((float(2 + number), 33.0) for number in range(count))
    curves = {f"latency/one n={n}": Curve("warp", "cycle", part) for n, part in ((1, points[:-1]), (2, points[-1:]))}
    root = ElementTree.fromstring(figure_svg(figure_of(curves).drawing, {}))
    shown = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
    assert (shown[0], len(shown)) == (first, titles)


def test_axis_of_sizes_is_logarithmic_and_one_that_begins_at_zero_is_not() -> None:
    assert drawn(figure_of({"latency/a": Curve("size", "cycle", ((1024.0, 33.0),))})).get_xscale() == "log"
    assert drawn(figure_of({"latency/a": Curve("warp", "cycle", ((1.0, 1.0), (99.0, 99.0)))})).get_xscale() == "linear"
    axes = drawn(figure_of({"latency/a": Curve("warp", "cycle", ((0.0, 0.0), (1000.0, 0.0)))}))
    assert (axes.get_xscale(), axes.get_xlim(), axes.get_ylim()) == ("linear", (0.0, 1060.0), (0.0, 1.0))


def test_hostile_unit_is_cut_and_text() -> None:
    long = Curve(HOSTILE * 9, HOSTILE * 9, ((1.0, 1.0), (2.0, 3.0)))
    svg = figure_svg(figure_of({f"latency/{HOSTILE}": long}).drawing, {})
    assert "<img" not in svg and "\x1b" not in svg and len(svg) < 20_000
    assert ElementTree.fromstring(svg).get("aria-label")
