"""The page of a review: what it says, that it is whole, safe for hostile names, small for hundreds, and legible."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuprof.model.session import Evidence
from gpuprof.review.contract import Review
from gpuprof.views.options import WriteOptions
from gpuprof.views.review import page_lines
from tests import reviews as made
from tests.chromium import CHROMIUM, CONTRASTS, Browser
from tests.outline import Outline
from tests.table import each_row

LONG = "kernel::with<a, rather, long, name, {}>::" + "x" * 15_000
BAD = "</script></title><img src=x onerror=document.title='hacked'>{{ 7 * 7 }}"


def page_of(review: Review, top: int | None = None) -> str:
    return "\n".join(page_lines(review, WriteOptions(top)))


@cache
def rich() -> Review:
    """Two architectures of a kernel with findings, loops and accesses, and one kernel without findings."""
    spills = made.finding(
        "local-memory-spill", made.place(None, loops=0), headline="7 spills", confidence="guess", more_places=4,
        evidence=(Evidence("", 12.0, "%", threshold=5.0, meaning="share of the instructions"),),
    )  # fmt: skip
    first = made.kernel(0, made.finding(), spills)
    other = made.kernel(
        1, made.finding(), target="sm_80", resources=made.resources(registers=40), occupancy=made.occupancy(fraction=1)
    )
    plain = made.kernel(2, label="copy", loops=(), accesses=(), block=None, occupancy=None)
    return made.review(first, other, plain, notes=("2 are left out",))


def many(number: int, label: str = "kernel_{}") -> Review:
    """Kernels with three findings each."""
    findings = [made.finding(f"rule-{rule}", headline=f"finding {rule}") for rule in range(3)]
    accesses = tuple(made.access(offset=16 * index, line=index + 1) for index in range(12))
    kernels = [
        made.kernel(
            index, *(replace(item, place=made.place(index + 1), places=(made.place(index + 1),)) for item in findings),
            label=label.format(index), accesses=accesses,
        )
        for index in range(number)
    ]  # fmt: skip
    return made.review(*kernels)


def test_tags_are_balanced_ids_unique_every_link_leads_somewhere_and_nothing_is_fetched() -> None:
    page = page_of(rich())
    outline = Outline(page)
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert {link[1:] for link in outline.links if link != "data:,"} <= set(outline.ids)
    assert all(link.startswith("#") or link == "data:," for link in outline.links)
    assert {"header", "main", "nav", "footer", "h1", "h2", "h3"} <= set(outline.tags)
    scopes = [value for tag, name, value in outline.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")
    assert outline.tags.count("script") == 1
    assert not re.search(r"@import|url\((?!#)|\son\w+=", page)
    assert any(value and value.startswith("default-src 'none'") for _, _, value in outline.attributes)


def test_reviews_without_kernels_hostile_names_and_templates_in_names_have_a_whole_page() -> None:
    bare = made.kernel(loops=(), accesses=(), arguments=(), notes=(), occupancy=None, block=None, has_lines=False)
    for number in (0, 1):
        assert Outline(page_of(made.review(*[bare] * number, files=(), tools=(), modules=()))).open == []
    assert any("{{ 7 * 7 }}" in text for text in Outline(page_of(made.everything(BAD, BAD))).texts)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium")
    with Browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def opened(browser: Browser, folder: Path, review: Review, **options: Any) -> None:
    path = folder / "page.html"
    path.write_text(page_of(review), encoding="utf-8")
    browser.open(path, **options)


@pytest.mark.browser
@each_row("width", [420, 1000, 1400])
def test_the_page_never_scrolls_sideways_and_reports_nothing(browser: Browser, tmp_path: Path, width: int) -> None:
    for review in (rich(), made.everything(LONG, LONG), made.everything(BAD, BAD)):
        opened(browser, tmp_path, review, width=width)
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.messages() == [] and browser.requests() == []
        assert "hacked" not in browser.run("document.title").partition("<")[0]
        assert browser.run("document.images.length") == 0


@pytest.mark.browser
def test_the_table_sorts_and_filters_and_links_open_closed_sections(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, rich())
    rows = "[...document.querySelectorAll('tr[id^=row-]')].filter(row => !row.hidden).map(row => row.id)"
    heading = (
        "[...document.querySelectorAll('.filter thead th')].find(item => item.textContent === 'registers')"
        ".querySelector('button').click()"
    )
    browser.run(heading)
    assert browser.run(rows) == ["row-0", "row-2", "row-1"]
    browser.run(heading)
    assert browser.run(rows) == ["row-1", "row-0", "row-2"]
    browser.run("document.querySelector('.search input').focus()")
    browser.type("sm_80")
    assert browser.run(rows) == ["row-1"]
    opened(browser, tmp_path, many(30))
    is_open = "[...document.querySelectorAll('.section')].map(item => item.open)"
    assert browser.run(is_open) == [True, *[False] * 29]
    order = browser.run("[...document.querySelectorAll('.section')].map(item => item.id)")
    assert order == [f"kernel-{number}" for number in range(30)]
    click = "document.querySelectorAll('.what > a')[4].click(); new Promise(done => setTimeout(done, 200))"
    browser.run(click)
    assert browser.run(is_open) == [True, True, *[False] * 28]


@pytest.mark.browser
@each_row("scheme", ["light", "dark"])
def test_every_text_is_legible(browser: Browser, tmp_path: Path, scheme: str) -> None:
    opened(browser, tmp_path, rich(), dark=scheme == "dark")
    read = browser.run(CONTRASTS)
    assert read["seen"] > 60 and read["bad"] == []


def test_a_page_of_500_kernels_is_below_5_mb_and_lists_the_others() -> None:
    page = page_of(many(510))
    assert len(page) < 5_000_000
    outline = Outline(page)
    assert sum(name.startswith("kernel-") for name in outline.ids) == 500
    assert sum(name.startswith("row-") for name in outline.ids) == 500
    assert any("10 more kernels" in text for text in outline.texts)
