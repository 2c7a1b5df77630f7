"""Documents as HTML: safe whatever their texts are, complete, and of one script and one style sheet."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import get_args

import pytest

from gpuprof.text import printable
from gpuprof.views import document as doc
from gpuprof.views.document import Block, Cell, Document, Facts, Figure, Fold, Heading, Note, Table
from gpuprof.views.glossary import Term, glossary
from gpuprof.views.html import render_fragment, render_page
from tests.documents import every_block, profile_like
from tests.outline import Outline
from tests.table import each_row

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)> \" ' onclick=alert(1) {{ 7 * 7 }} &lt; javascript:"
    "alert(1) \x1b[31m\u202e"
)


def test_the_document_of_every_block_has_every_block() -> None:
    def kinds(blocks: tuple[Block, ...]) -> set[type]:
        below = [kinds(block.blocks) for block in blocks if isinstance(block, Fold)]
        return {type(block) for block in blocks}.union(*below)

    assert kinds(every_block("a").blocks) == set(get_args(doc.Block))


def test_hostile_texts_are_text_in_every_block() -> None:
    page = render_page(every_block(HOSTILE))
    outline = Outline(page)
    assert outline.open == []
    assert "img" not in outline.tags and outline.tags.count("script") == 1
    assert "\x1b" not in page and "\u202e" not in page and "49" not in outline.text
    assert not {name for _, name, _ in outline.attributes if name.startswith("on")}
    assert all(link.startswith("#") or link == "data:," for link in outline.values("href"))
    assert not outline.values("src")
    for style in outline.values("style"):
        assert re.fullmatch(r"(--[pm]:[\d.]+;?)*|--heat:\d+|;?(width:\d+%)?(;background:#\w+;color:#\w+)?", style)
    calm = Outline(render_page(every_block("calm")))
    assert outline.text.count(" ".join(printable(HOSTILE).split()[:3])) == calm.text.count("calm")


def test_links_and_ids_are_anchors_whatever_they_are_called() -> None:
    cell = Cell("a", href='x" onclick="alert(1)')
    page = render_page(Document("t", (Note(cell), Heading("b", 2, 'x" onclick="alert(1)'))))
    outline = Outline(page)
    assert '#x" onclick="alert(1)' in outline.values("href")
    assert 'x" onclick="alert(1)' in outline.values("id") and not outline.values("onclick")


def test_a_page_needs_nothing_else_and_its_policy_allows_its_own_script_alone() -> None:
    page = render_page(profile_like(2))
    outline = Outline(page)
    types = [value for tag, name, value in outline.attributes if (tag, name) == ("script", "type")]
    assert types == ["application/octet-stream"] and outline.tags.count("script") == 2
    assert not re.search(r"@import|url\((?!#)|\son\w+=", page)
    (policy,) = (value for value in outline.values("content") if "-src" in value)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; ")
    assert f"script-src 'sha256-{digest}'; img-src data:;" in policy


def test_ids_are_unique_and_every_link_has_a_target() -> None:
    outline = Outline(render_page(profile_like(5)))
    ids = outline.values("id")
    assert len(ids) == len(set(ids))
    assert {link[1:] for link in outline.values("href") if link.startswith("#")} <= set(ids)
    assert {"kernel-4", "row-4", "finding-4-uncoalesced-global", "line-4-41", "roofline-0", "glossary"} <= set(ids)


def test_the_navigation_leads_to_the_sections_and_the_verdict_comes_before_it() -> None:
    page = render_page(profile_like(1))
    nav = page[page.index("<nav") : page.index("</nav>")]
    links = re.findall(r'href="#([\w-]+)"', nav)
    assert links == ["fix-first", "roofline", "kernels", "details", "glossary"]
    assert page.index('class="strong"') < page.index("<nav")
    assert 'class="skip" href="#fix-first"' in page


def test_a_document_without_headings_is_a_page() -> None:
    outline = Outline(render_page(Document("Nothing", (Note("Nothing was read."),))))
    assert "nav" not in outline.tags and "Nothing was read." in outline.text and outline.open == []


def test_what_folds_is_closed_unless_the_document_opens_it() -> None:
    folds = (Fold("a", (Note("b"),)), Fold("c", (Note("d"),), open=True), Fold("e", (), anchor="section"))
    page = render_page(Document("t", folds))
    assert re.findall(r"<details([^>]*)>", page) == ["", " open", ' class="section" id="section"']


def test_a_table_keeps_its_orders_bars_and_meanings() -> None:
    columns = (doc.Column("name", "name"), doc.Column("share", "number", meaning="of the run"))
    cell = Cell("40 %", order=0.4, bar=0.4, mark=2.0)
    page = render_page(Document("t", (Table("things", columns, (("a", cell),), ("row-1",), more="1 more"),)))
    assert '<tr id="row-1"><th scope="row" class="name"><div>a</div></th>' in page.replace("\n", "")
    assert 'data-v="0.4"' in page and 'style="--p:40;--m:100"' in page
    assert "<dt>share</dt><dd>of the run</dd>" in page and "1 more" in page


def test_a_figure_that_cannot_be_drawn_shows_its_notes() -> None:
    page = render_page(Document("t", (Figure(None, "roofline", ("no ceilings",)), Figure(None, "nothing at all"))))
    assert page.count("<figure") == 1 and "no ceilings" in page and "nothing at all" not in page


@pytest.mark.slow
def test_five_hundred_kernels_stay_below_three_megabytes() -> None:
    assert len(render_page(profile_like(500)).encode()) < 3_000_000


def test_long_names_may_end_a_line_between_their_parts() -> None:
    page = render_page(Document("t", (Note("thrust::detail::kernel_agent<float,int>"),)))
    assert "thrust::<wbr>detail::<wbr>kernel_<wbr>agent&lt;<wbr>float,<wbr>int&gt;" in page


# The glossary


@each_row(
    ("text", "term"),
    [
        ("3 of 4 sectors", "sector"),
        ("L1: bank conflicts", "bank conflict"),
        ("smsp__pcsamp_warps_issue_stalled", "stall reason"),
        ("Long Scoreboard 61 %", "Long Scoreboard"),
    ],
)
def test_a_term_is_explained_if_a_text_uses_it(text: str, term: str) -> None:
    assert term in [found.name for found in glossary(Document("t", (Facts((("a", Cell(text)),)),)))]
    assert glossary(Document("t", (Note("Nothing."),))) == ()


def test_drawings_need_no_terms_and_views_may_add_their_own() -> None:
    figure = Figure(lambda: "<svg><title>warp</title></svg>", "a drawing")
    own = Term("tolerance", "What a counter may differ by.")
    assert glossary(Document("t", (figure,)), (own,)) == (own,)


def test_a_page_explains_its_terms_at_its_end() -> None:
    page = render_page(Document("t", (Note("2 sectors per request"),)))
    assert page.index("2 sectors per request") < page.index("2 terms used on this page") < page.index("<footer>")
    assert (
        "glossary"
        not in render_page(Document("t", (Note("Nothing."),)))[-20_000:].partition("<main>")[2].partition("<footer>")[0]
    )


# Fragments for notebooks


def test_a_fragment_has_no_script_links_ids_or_figures() -> None:
    fragment = render_fragment(every_block(HOSTILE))
    outline = Outline(fragment)
    assert outline.open == [] and set(outline.tags).isdisjoint({"script", "img", "a", "svg", "details"})
    assert {name for _, name, _ in outline.attributes}.isdisjoint({"id", "href", "onclick", "onerror"})
    assert "\x1b" not in fragment and "\u202e" not in fragment


def test_a_fragment_is_short_and_counts_what_it_leaves_out() -> None:
    rows = tuple((f"kernel {index}",) for index in range(12))
    table = Table(
        "t", (doc.Column("name", "name"),), rows, short_more=lambda shown: f"{12 - shown} more are in to_dataframe()"
    )
    blocks = (Note("A long verdict.", short="Verdict."), Heading("Kernels"), table, Heading("Details"), Fold("f", ()))
    text = Outline(render_fragment(Document("t", blocks))).text
    assert "Verdict." in text and "long" not in text and "Details" not in text and "Kernels" in text
    assert "kernel 9" in text and "kernel 10" not in text and "2 more are in to_dataframe()" in text
