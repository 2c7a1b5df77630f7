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
    return made.review(first, other, plain, notes=("2 functions are not kernels",))


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


def test_tags_are_balanced_ids_unique_and_every_link_leads_somewhere() -> None:
    outline = Outline(page_of(rich()))
    assert outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    targets = {link[1:] for link in outline.links if link.startswith("#")}
    assert targets and targets <= set(outline.ids)
    assert {"header", "main", "nav", "footer", "h1", "h2", "h3"} <= set(outline.tags)
    scopes = [value for tag, name, value in outline.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")


def test_the_page_needs_nothing_else() -> None:
    page = page_of(rich())
    outline = Outline(page)
    assert outline.tags.count("script") == 1
    assert all(link.startswith("#") or link == "data:," for link in outline.links)
    assert not re.search(r"@import|url\((?!#)|\son\w+=", page)
    assert any(value and value.startswith("default-src 'none'") for _, _, value in outline.attributes)


def test_the_head_says_what_was_read_and_what_is_known_of_the_launch() -> None:
    page = contents_of(rich(), None)
    assert page.verdict == "transpose.cu for sm_90, sm_80: 2 kernels, 2 findings in 1 of them"
    facts = {fact.name: fact.value for fact in page.header}
    assert facts["Architectures"] == "sm_90, sm_80"
    assert facts["Launch"] == "Block 256, not known for some kernels, grid not known, dynamic shared memory not given"
    assert facts["Line information"] == "yes"


def test_findings_in_the_deepest_loops_come_first_and_lead_to_their_cards() -> None:
    first, second = contents_of(rich(), None).fixes
    assert (first.where, first.loops, first.href) == ("transpose.cu:12", "in 2 nested loops", "#finding-0-0")
    assert first.action == "Let consecutive threads read consecutive words"
    assert first.sass == "LDG.E R2, desc[UR4][R2.64]"
    assert [owner.label.text for owner in first.owners] == ["transpose_naive"]
    assert (second.where, second.loops, second.is_guess) == ("at 0x120", "", True)
    assert second.owners[0].only == "sm_90"


def test_a_finding_of_a_line_is_told_once_for_all_instances_of_a_template() -> None:
    kernels = [made.kernel(number, made.finding(), label=f"k{number}") for number in range(5)]
    (fix,) = contents(*kernels).fixes
    assert [owner.label.text for owner in fix.owners] == ["k0", "k1", "k2"]
    assert fix.more_owners == 2


def test_a_finding_on_the_files_leads_nowhere() -> None:
    page = contents(findings=(made.finding("no-machine-code", made.place(None, offset=None, sass=""), loop_depth=0),))
    (fix,) = page.fixes
    assert (fix.where, fix.href, fix.owners) == ("", "", ())
    assert not page.rows and not page.sections


def test_the_table_has_a_row_for_each_architecture_that_takes_other_resources() -> None:
    rows = contents_of(rich(), None).rows
    assert [(row.id, row.section, row.variants) for row in rows] == [(0, 0, "sm_90"), (1, 0, "sm_80"), (2, 2, "sm_90")]
    assert [row.registers.text for row in rows] == ["72", "40", "72"]
    assert (rows[0].local.text, rows[0].local.more) == ("16 B", "7 spills, 2 in loops")
    assert (rows[0].occupancy.text, rows[0].limiter) == ("38 %", "registers")
    assert (rows[0].findings, rows[1].findings, rows[2].findings) == (2, 1, 0)
    assert rows[0].first_href == "#finding-0-0"


def test_what_is_not_known_has_no_bar_and_is_never_zero() -> None:
    kernel = made.kernel(
        resources=made.resources(registers=None, stack_bytes=None, spills=None, barriers=None), occupancy=None
    )
    page = contents(kernel)
    (row,) = page.rows
    assert {row.registers.text, row.local.text, row.occupancy.text} == {"not known"}
    assert (row.registers.order, row.occupancy_order, row.occupancy.percent) == ("", "", None)
    (column,) = page.sections[0].columns
    values = dict(zip(page.sections[0].quantities, column.values, strict=True))
    assert [values[name] for name in ("Registers per thread", "Stack per thread", "Spills", "Barriers")] == [
        "not known"
    ] * 4


def test_architectures_of_a_kernel_stand_side_by_side() -> None:
    section = contents_of(rich(), None).sections[0]
    assert [column.name for column in section.columns] == ["sm_90", "sm_80"]
    registers = section.quantities.index("Registers per thread")
    assert [column.values[registers] for column in section.columns] == ["72", "40"]
    assert [column.occupancy.percent for column in section.columns] == ["37.5", "100"]
    assert section.columns[0].steps == ("At 64 registers one more block fits (50 %)",)
    assert len(section.memory) == 1 and section.memory[0].title == ""


def test_accesses_that_differ_between_architectures_are_told_for_each() -> None:
    other = made.kernel(1, target="sm_80", accesses=(made.access(sectors_per_request=4.0),))
    parts = contents(made.kernel(0), other).sections[0].memory
    assert [part.title for part in parts] == ["sm_90", "sm_80"]
    assert parts[1].rows[0].cost == "4 sectors"


def test_launches_with_the_same_shape_are_one_column_with_their_number() -> None:
    launches = [made.kernel(number, launch=number, grid=(64, 1, 1)) for number in range(3)]
    page = contents(*launches, made.kernel(3, launch=3, grid=(128, 1, 1)))
    (section,) = page.sections
    assert [column.name for column in section.columns] == ["grid 64, 3 launches", "grid 128, 1 launch"]
    assert [row.variants for row in page.rows] == ["grid 64, grid 128, 4 launches"]


def test_many_launch_configurations_are_rows_and_the_rest_counted() -> None:
    launches = [made.kernel(number, launch=number, grid=(number + 1, 1, 1)) for number in range(50)]
    (section,) = contents(*launches).sections
    assert section.is_wide and len(section.columns) == 40
    assert section.left_out == "And 10 more launch configurations: --format json has all."


def test_loops_are_nested_with_trips_and_what_costs_too_much_in_them() -> None:
    (outer,) = contents(made.kernel()).sections[0].memory[0].loops
    assert (outer.place, outer.trips, outer.costly) == ("transpose.cu:10", "64 trips", "")
    (inner,) = outer.inner
    assert (inner.place, inner.trips) == ("transpose.cu:11", "trips not constant")
    assert inner.costly == "2 accesses"


def test_deep_nests_and_loops_that_name_themselves_are_drawn_all_the_same() -> None:
    loops = [made.loop(number) for number in range(30)]
    loops.append(made.loop(30, parent=30))
    page = contents(made.kernel(loops=tuple(loops)))

    def count(items: Any, depth: int = 1) -> tuple[int, int]:
        below = [count(item.inner, depth + 1) for item in items if isinstance(item, LoopItem) and item.inner]
        return len(items) + sum(number for number, _ in below), max([depth, *(deepest for _, deepest in below)])

    assert count(page.sections[0].memory[0].loops) == (31, 8)
    assert Outline(page_of(made.review(made.kernel(loops=tuple(loops))))).open == []


def test_a_bar_has_the_cost_on_a_scale_of_a_sector_a_lane_and_a_mark_at_what_is_needed() -> None:
    rows = contents(made.kernel()).sections[0].memory[0].rows
    global_load, shared_store, unknown, local = rows
    assert (global_load.cost, global_load.percent, global_load.mark) == ("32 sectors", "100", "12.5")
    assert (shared_store.cost, shared_store.needed, shared_store.is_costly) == ("32 wavefronts", "1", True)
    assert (unknown.cost, unknown.percent, unknown.note, unknown.stride) == ("not known", None, 1, "not known")
    assert (local.percent, local.is_costly, local.stride) == ("12.5", False, "–")


def test_accesses_of_an_unrolled_loop_are_one_row_and_the_reason_is_told_once() -> None:
    unknown = {"sectors_per_request": None, "needed_per_request": None, "unknown": made.UNKNOWN}
    accesses = [made.access(offset=16 * number, **unknown) for number in range(9)]
    accesses.append(made.access(offset=400, line=13, **unknown))
    part = contents(made.kernel(accesses=tuple(accesses))).sections[0].memory[0]
    assert [(row.offset, row.times, row.note) for row in part.rows] == [("0x0", "×9", 1), ("0x190", "", 1)]
    assert part.reasons == (made.UNKNOWN,)


def test_a_card_has_what_to_do_evidence_and_places_with_their_instructions() -> None:
    card, guess = contents_of(rich(), None).sections[0].cards
    assert card.advice == "Swap the indices of the load, or go through shared memory."
    places = [(row.place, row.offset) for row in card.places]
    assert places == [("transpose.cu:12", "0x120"), ("transpose.cu:14", "0x140")]
    assert (card.evidence[0].value, card.evidence[0].threshold) == ("32 sectors/request", "4 sectors/request")
    assert (guess.is_guess, guess.only, guess.more_places) == (True, "sm_90", "And 4 more places.")
    assert (guess.evidence[0].percent, guess.evidence[0].mark) == ("12", "5")


def test_provenance_has_tools_modules_and_notes_of_kernels_once() -> None:
    kernels = [made.kernel(number, label=f"k{number}", notes=("block assumed",)) for number in range(3)]
    page = contents(*kernels, notes=("left out",))
    assert [fact.value for fact in page.tools] == ["0.1.0", "NVRTC 13.1", "nvdisasm 13.1.80", "3 kernels"]
    assert page.modules.rows == (("transpose.cu", "sm_90", "machine code", "3"),)
    assert page.notes == ("left out", "block assumed (3 kernels)")


def test_the_glossary_explains_what_the_page_says() -> None:
    terms = {term.name for term in contents_of(rich(), None).terms}
    assert {"from code", "trips", "sector", "wavefront", "occupancy", "spill"} <= terms
    assert "roofline" not in terms


def test_top_takes_the_first_kernels_and_counts_the_rest() -> None:
    page = contents_of(many(5), 2)
    assert len(page.rows) == len(page.sections) == 2
    assert page.rows_left_out == page.sections_left_out == "And 3 more kernels"


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


def test_hostile_texts_are_text_everywhere() -> None:
    plain, hostile = Outline(page_of(made.everything())), Outline(page_of(made.everything(BAD, BAD)))
    assert set(hostile.tags) - {"wbr"} == set(plain.tags) - {"wbr"}
    assert hostile.tags.count("script") == 1 and hostile.open == []
    assert not [name for _, name, _ in hostile.attributes if name.startswith("on")]
    assert any("{{ 7 * 7 }}" in text for text in hostile.texts)


@each_row("number", [0, 1])
def test_reviews_without_kernels_and_kernels_without_anything_have_a_page(number: int) -> None:
    bare = made.kernel(loops=(), accesses=(), arguments=(), notes=(), occupancy=None, block=None, has_lines=False)
    page = page_of(made.review(*[bare] * number, files=(), tools=(), modules=()))
    assert Outline(page).open == []
    assert ("there is no kernel with machine code" in page) == (number == 0)


def test_a_name_of_fifteen_thousand_characters_does_not_swell_the_page() -> None:
    kernel = made.kernel(0, made.finding(), label=LONG, name=LONG, mangled="_Z" + LONG, origin=LONG)
    longer = page_of(made.review(kernel, files=(LONG,)))
    assert len(longer) < len(page_of(rich())) + 20_000


def test_a_page_of_five_hundred_kernels_stays_below_five_megabytes() -> None:
    page = page_of(many(500, LONG))
    assert len(page.encode()) < 5e6
    assert page.count("<article") == 500
    assert "<details open" not in page


def test_of_hundreds_of_findings_the_same_advice_is_told_once_and_linked() -> None:
    cards = [card for section in contents_of(many(60), None).sections for card in section.cards]
    assert sum(bool(card.advice) for card in cards) == 1
    assert {card.advice_href for card in cards[1:]} == {f"#{cards[0].id}"}
    assert all(card.action for card in cards)


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


@each_row("width", [420, 1000, 1400])
def test_the_page_never_scrolls_sideways_and_reports_nothing(browser: Browser, tmp_path: Path, width: int) -> None:
    for review in (rich(), made.everything(LONG, LONG)):
        opened(browser, tmp_path, review, width=width)
        assert browser.run("document.documentElement.scrollWidth") == width
        assert browser.messages() == [] and browser.requests() == []


def test_hostile_texts_run_nothing(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, made.everything(BAD, BAD))
    assert "hacked" not in browser.run("document.title").partition("<")[0]
    assert browser.run("document.images.length") == 0
    assert browser.messages() == []


def test_everything_can_be_read_without_the_script(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, rich(), scripts=False)
    browser.send("Emulation.setScriptExecutionDisabled", value=False)
    shown = browser.run("document.body.innerText")
    for text in ("Uncoalesced global access", "transpose.cu:12", "64 trips", "32 wavefronts", "nvdisasm 13.1.80"):
        assert text in shown


def test_the_table_sorts_by_registers_and_filters_by_an_architecture(browser: Browser, tmp_path: Path) -> None:
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


def test_a_link_opens_the_closed_section_that_it_leads_to(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, many(5))
    is_open = "[...document.querySelectorAll('article > details')].map(item => item.open)"
    assert browser.run(is_open) == [False] * 5
    browser.run("document.querySelector('.code-fixes a').click(); new Promise(done => setTimeout(done, 200))")
    assert browser.run(is_open) == [True, False, False, False, False]


def test_paper_has_the_first_kernels_open_and_the_screen_all_of_them_again(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, many(30))
    state = "[...document.querySelectorAll('article > details')].map(item => item.open)"
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(state) == [True] * 20
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(state) == [False] * 30
    order = browser.run("[...document.querySelectorAll('article h3')].map(item => item.id)")
    assert order == [f"kernel-{number}" for number in range(30)]


def test_predicates_do_not_tell_places_of_one_line_apart() -> None:
    places = [made.place(offset=16 * number, sass=f"@!P{number} STG.E [R2.64], R4") for number in range(4)]
    places.append(made.place(offset=64, sass="STG.E [R2.64], R4"))
    (card,) = contents(made.kernel(0, made.finding("rule", *places))).sections[0].cards
    assert [(row.offset, row.times) for row in card.places] == [("0x0", "×5")]


@each_row("dark", [False, True])
def test_texts_stand_out_from_the_background(browser: Browser, tmp_path: Path, dark: bool) -> None:
    opened(browser, tmp_path, rich(), dark=dark)
    lowest = lowest_contrast(
        browser, ".muted, .severity, .takes, .takes strong, .costly, .cost, .trips, th, td, small, a"
    )
    assert lowest["ratio"] >= 4.5, json.dumps(lowest)
