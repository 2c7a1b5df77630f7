"""The HTML sheet of a measured GPU: its numbers and its safety.

Its numbers are made up to test with; no GPU gave them.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import replace
from functools import cache

import pytest

from gpuprof.characterize.present.page.build import Family, build_page
from gpuprof.characterize.present.page.curves import figures
from gpuprof.characterize.present.page.plots import plot
from gpuprof.characterize.present.page.render import render_measured_html
from gpuprof.characterize.sheet.measured import Curve
from tests.measured_sheets import MADE_UP, VALUES, seen, seen_hostile
from tests.outline import Outline


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
    with pytest.raises(ValueError):
        plot([], ("B", "cycle"))
