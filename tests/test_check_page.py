"""The page of a review: what it says, that it is whole, safe for hostile names, small for hundreds, and legible."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuprof.model.session import Evidence
from gpuprof.present.check_page.build import page_lines
from gpuprof.present.check_page.contents import ReviewContents, contents_of
from gpuprof.present.check_page.memory import LoopItem
from gpuprof.privacy.border import without_private
from gpuprof.review.contract import Review
from tests import reviews as made
from tests.chromium import CHROMIUM, Browser, lowest_contrast
from tests.table import each_row
from tests.test_html import Outline

LONG = "kernel::with<a, rather, long, name, {}>::" + "x" * 15_000
BAD = "</script></title><img src=x onerror=document.title='hacked'>{{ 7 * 7 }}"


def page_of(review: Review, top: int | None = None) -> str:
    return "\n".join(page_lines(review, top))


def contents(*kernels: Any, **changes: Any) -> ReviewContents:
    return contents_of(made.review(*kernels, **changes), None)


@cache
def rich() -> Review:
    """Two architectures of a kernel with findings, loops and accesses, and one kernel without findings."""
    spills = made.finding(
        "local-memory-spill", made.place(None), headline="7 spills", certainty="guess", loop_depth=0, more_places=4,
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
            index, *(replace(item, places=(made.place(index + 1),)) for item in findings),
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


def test_findings_in_the_deepest_loops_come_first_and_lead_to_their_cards() -> None:
    first, second = contents_of(rich(), None).fixes
    assert (first.where, first.href) == ("transpose.cu:12", "#finding-0-0")
    assert (first.sass, [owner.label.text for owner in first.owners]) == (
        "LDG.E R2, desc[UR4][R2.64]",
        ["transpose_naive"],
    )
    assert (second.where, second.loops, second.is_guess, second.owners[0].only) == ("at 0x120", "", True, "sm_90")
    # A finding of a line is told once for all instances of a template, and one on the files leads nowhere.
    kernels = [made.kernel(number, made.finding(), label=f"k{number}") for number in range(5)]
    (fix,) = contents(*kernels).fixes
    assert ([owner.label.text for owner in fix.owners], fix.more_owners) == (["k0", "k1", "k2"], 2)
    page = contents(findings=(made.finding("no-machine-code", made.place(None, offset=None, sass=""), loop_depth=0),))
    assert [(fix.where, fix.href, fix.owners) for fix in page.fixes] == [("", "", ())]
    assert not page.rows and not page.sections


def test_the_table_has_a_row_for_each_architecture_that_takes_other_resources() -> None:
    rows = contents_of(rich(), None).rows
    assert [(row.id, row.section, row.variants) for row in rows] == [(0, 0, "sm_90"), (1, 0, "sm_80"), (2, 2, "sm_90")]
    assert [row.registers.text for row in rows] == ["72", "40", "72"]
    assert rows[0].local.text == "16 B"
    assert (rows[0].occupancy.text, rows[0].limiter) == ("38 %", "registers")
    assert (rows[0].findings, rows[1].findings, rows[2].findings) == (2, 1, 0)
    assert rows[0].first_href == "#finding-0-0"
    page = contents_of(many(5), 2)
    assert len(page.rows) == len(page.sections) == 2 and " 3 " in page.rows_left_out


def test_what_is_not_known_has_no_bar_and_is_never_zero() -> None:
    kernel = made.kernel(
        resources=made.resources(registers=None, stack_bytes=None, spills=None, barriers=None), occupancy=None
    )
    page = contents(kernel)
    (row,) = page.rows
    assert {row.registers.text, row.local.text, row.occupancy.text} == {"not known"}
    assert (row.registers.order, row.occupancy_order, row.occupancy.percent) == ("", "", None)
    (column,) = page.sections[0].columns
    assert list(column.values).count("not known") >= 4


def test_architectures_and_launches_of_a_kernel_stand_side_by_side() -> None:
    section = contents_of(rich(), None).sections[0]
    assert [column.name for column in section.columns] == ["sm_90", "sm_80"]
    assert [column.values[section.quantities.index("Registers per thread")] for column in section.columns] == [
        "72",
        "40",
    ]
    assert [column.occupancy.percent for column in section.columns] == ["37.5", "100"]
    assert len(section.memory) == 1 and section.memory[0].title == ""
    other = made.kernel(1, target="sm_80", accesses=(made.access(sectors_per_request=4.0),))
    parts = contents(made.kernel(0), other).sections[0].memory
    assert [(part.title, part.rows[0].cost) for part in parts] == [("sm_90", "32 sectors"), ("sm_80", "4 sectors")]
    launches = [made.kernel(number, launch=number, grid=(64, 1, 1)) for number in range(3)]
    page = contents(*launches, made.kernel(3, launch=3, grid=(128, 1, 1)))
    assert [column.name for column in page.sections[0].columns] == ["grid 64, 3 launches", "grid 128, 1 launch"]
    (section,) = contents(*(made.kernel(n, launch=n, grid=(n + 1, 1, 1)) for n in range(50))).sections
    assert section.is_wide and len(section.columns) == 40 and " 10 " in section.left_out


def test_loops_are_nested_however_deep_they_are() -> None:
    (outer,) = contents(made.kernel()).sections[0].memory[0].loops
    assert (outer.place, outer.trips, outer.costly) == ("transpose.cu:10", "64 trips", "")
    (inner,) = outer.inner
    assert (inner.place, inner.costly) == ("transpose.cu:11", "2 accesses")
    loops = [made.loop(number) for number in range(30)]
    loops.append(made.loop(30, parent=30))
    page = contents(made.kernel(loops=tuple(loops)))

    def count(items: Any, depth: int = 1) -> tuple[int, int]:
        below = [count(item.inner, depth + 1) for item in items if isinstance(item, LoopItem) and item.inner]
        return len(items) + sum(number for number, _ in below), max([depth, *(deepest for _, deepest in below)])

    assert count(page.sections[0].memory[0].loops) == (31, 8)


def test_a_bar_has_the_cost_on_a_scale_of_a_sector_a_lane_and_a_mark_at_what_is_needed() -> None:
    rows = contents(made.kernel()).sections[0].memory[0].rows
    global_load, shared_store, unknown, local = rows
    assert (global_load.cost, global_load.percent, global_load.mark) == ("32 sectors", "100", "12.5")
    assert (shared_store.cost, shared_store.needed, shared_store.is_costly) == ("32 wavefronts", "1", True)
    assert (unknown.cost, unknown.percent, unknown.note, unknown.stride) == ("not known", None, 1, "not known")
    assert (local.percent, local.is_costly, local.stride) == ("12.5", False, "–")
    # Accesses of an unrolled loop are one row, and the reason is told once.
    why = {"sectors_per_request": None, "needed_per_request": None, "unknown": made.UNKNOWN}
    accesses = [made.access(offset=16 * number, **why) for number in range(9)]
    accesses.append(made.access(offset=400, line=13, **why))
    part = contents(made.kernel(accesses=tuple(accesses))).sections[0].memory[0]
    assert [(row.offset, row.times, row.note) for row in part.rows] == [("0x0", "×9", 1), ("0x190", "", 1)]
    assert part.reasons == (made.UNKNOWN,)


def test_a_card_has_evidence_and_places_with_their_instructions() -> None:
    card, guess = contents_of(rich(), None).sections[0].cards
    assert [(row.place, row.offset) for row in card.places] == [
        ("transpose.cu:12", "0x120"),
        ("transpose.cu:14", "0x140"),
    ]
    assert (card.evidence[0].value, card.evidence[0].threshold) == ("32 sectors/request", "4 sectors/request")
    assert (guess.is_guess, guess.only, guess.evidence[0].percent, guess.evidence[0].mark) == (True, "sm_90", "12", "5")
    # Predicates do not tell places of one line apart.
    places = [made.place(offset=16 * number, sass=f"@!P{number} STG.E [R2.64], R4") for number in range(4)]
    places.append(made.place(offset=64, sass="STG.E [R2.64], R4"))
    (card,) = contents(made.kernel(0, made.finding("rule", *places))).sections[0].cards
    assert [(row.offset, row.times) for row in card.places] == [("0x0", "×5")]
    # Of many findings the same advice is told once and linked.
    cards = [card for section in contents_of(many(60), None).sections for card in section.cards]
    assert sum(bool(card.advice) for card in cards) == 1
    assert {card.advice_href for card in cards[1:]} == {f"#{cards[0].id}"}


def test_provenance_has_tools_modules_and_notes_of_kernels_once() -> None:
    kernels = [made.kernel(number, label=f"k{number}", notes=("block assumed",)) for number in range(3)]
    page = contents(*kernels, notes=("left out",))
    assert [fact.value for fact in page.tools] == ["0.1.0", "NVRTC 13.1", "nvdisasm 13.1.80", "3 kernels"]
    assert len(page.modules.rows) == 1
    assert page.notes == ("left out", "block assumed (3 kernels)")


def test_no_folder_of_a_user_is_on_the_page() -> None:
    where = made.place(file="/home/alice/secret/kernel.cu")
    review = made.review(
        made.kernel(
            0, made.finding("rule", where, headline="in /home/alice/secret/kernel.cu"),
            origin="/home/alice/secret/lib.a[kernel.o]", accesses=(made.access(file="/home/alice/secret/kernel.cu"),),
            loops=(made.loop(file="/home/alice/secret/kernel.cu"),), notes=("read /home/alice/secret/kernel.cu",),
        ),
        files=("/home/alice/secret/lib.a",),
        tools=("nvcc -I/home/alice/secret/include",),
        notes=("/home/alice/secret/lib.a: damaged",),
    )  # fmt: skip
    page = page_of(without_private(review))
    assert "kernel.cu" in page and "lib.a" in page
    assert "alice" not in page and "secret" not in page


def test_reviews_without_kernels_hostile_names_and_templates_in_names_have_a_whole_page() -> None:
    bare = made.kernel(loops=(), accesses=(), arguments=(), notes=(), occupancy=None, block=None, has_lines=False)
    for number in (0, 1):
        assert Outline(page_of(made.review(*[bare] * number, files=(), tools=(), modules=()))).open == []
    assert any("{{ 7 * 7 }}" in text for text in Outline(page_of(made.everything(BAD, BAD))).texts)


def test_pages_stay_small() -> None:
    kernel = made.kernel(0, made.finding(), label=LONG, name=LONG, mangled="_Z" + LONG, origin=LONG)
    assert len(page_of(made.review(kernel, files=(LONG,)))) < len(page_of(rich())) + 20_000
    page = page_of(many(60, LONG))
    assert len(page.encode()) < 1.1e6
    assert page.count("<article") == 60
    assert "<details open" not in page


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
def test_everything_can_be_read_without_the_script(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, rich(), scripts=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    shown = browser.run("document.body.innerText")
    for text in ("transpose.cu:12", "64 trips", "32 wavefronts", "nvdisasm 13.1.80"):
        assert text in shown


@pytest.mark.browser
def test_the_table_sorts_and_filters_and_links_open_closed_sections(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, rich())
    rows = "[...document.querySelectorAll('#kernel-table tbody tr')].filter(row => !row.hidden).map(row => row.id)"
    heading = "document.querySelectorAll('#kernel-table thead button')[3].click()"
    browser.run(heading)
    assert browser.run(rows) == ["row-0", "row-2", "row-1"]
    browser.run(heading)
    assert browser.run(rows) == ["row-1", "row-0", "row-2"]
    browser.run("document.getElementById('filter').focus()")
    browser.type("sm_80")
    assert browser.run(rows) == ["row-1"]
    opened(browser, tmp_path, many(30))
    is_open = "[...document.querySelectorAll('article > details')].map(item => item.open)"
    assert browser.run(is_open) == [False] * 30
    # Paper has the first kernels open, and the screen all of them again.
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(is_open) == [True] * 20
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(is_open) == [False] * 30
    order = browser.run("[...document.querySelectorAll('article h3')].map(item => item.id)")
    assert order == [f"kernel-{number}" for number in range(30)]
    browser.run("document.querySelector('.code-fixes a').click(); new Promise(done => setTimeout(done, 200))")
    assert browser.run(is_open) == [True, *[False] * 29]


@pytest.mark.browser
@each_row("dark", [False, True])
def test_texts_stand_out_from_the_background(browser: Browser, tmp_path: Path, dark: bool) -> None:
    opened(browser, tmp_path, rich(), dark=dark)
    lowest = lowest_contrast(
        browser, ".muted, .severity, .takes, .takes strong, .costly, .cost, .trips, th, td, small, a"
    )
    assert lowest["ratio"] >= 4.5, json.dumps(lowest)
