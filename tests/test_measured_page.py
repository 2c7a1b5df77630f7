"""The HTML sheet of a measured GPU: what it says and draws, that it is safe, and how it looks in a real browser.

Its numbers are made up to test with; no GPU gave them.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from gpuprof.characterize.present.page.build import Family, build_page
from gpuprof.characterize.present.page.curves import CurveFigure, figures
from gpuprof.characterize.present.page.plots import plot
from gpuprof.characterize.present.page.render import render_measured_html
from gpuprof.characterize.sheet.measured import Curve, Measured, MeasuredValue
from gpuprof.characterize.sheet.normal import Published
from tests.measured_sheets import (
    CURVES,
    MADE_UP,
    TITLES,
    VALUES,
    only,
    seen,
    seen_hostile,
    value,
)
from tests.table import each_row
from tests.test_html import Outline


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


# Curves


def test_capacity_is_marked_on_its_curve_and_on_no_other() -> None:
    assert [label.text for label in figure("latency/l1-capacity").plot.columns] == ["256 KiB"]
    assert [label.text for label in figure("latency/l2-capacity").plot.columns] == ["48 MiB"]
    assert figure("bank-conflict/load").plot.columns == ()
    rejected = {"latency/l2-capacity": replace(VALUES["latency/l2-capacity"], verdict="rejected", reasons=("no",))}
    assert figure("latency/l2-capacity", values=rejected).plot.columns == ()
    assert figure("latency/l2-capacity").rows[0] == ("", "1 MiB", "262 cycles")


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


def test_curves_without_points_and_points_that_nothing_can_draw_are_left_out() -> None:
    odd = Curve("B", "cycle", ((1024.0, 1e300), (2048.0, 33.0), (1e-300, 33.0), (4096.0, 0.0)))
    drawn = figures(replace(MADE_UP, curves={"latency/odd": odd, "latency/none": Curve("B", "cycle", ())}), {})
    ((figure_,),) = drawn.values()
    assert figure_.rows == (("", "2 KiB", "33.0 cycles"), ("", "4 KiB", "0 cycles"))
    with pytest.raises(ValueError):
        plot([], ("B", "cycle"))
