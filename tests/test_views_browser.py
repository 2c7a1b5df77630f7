"""Pages of documents in a real browser: complete without scripts, better with them, legible, quiet, never too wide."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gpuprof.views.document import Bar, Bars, Column, Document, Figure, Fold, Table
from gpuprof.views.html import render_page
from tests.chromium import CHROMIUM, CONTRASTS, Browser
from tests.documents import every_block, figure_svg, profile_like
from tests.table import each_row

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

BAD = "</script><img src=x onerror=document.title='hacked'> $\\frac{a}{b}$"
LONG = "kernel::with<a, rather, long, name, {}>::" + "x" * 300


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@cache
def three() -> str:
    return render_page(profile_like(3))


def open_page(browser: Browser, folder: Path, page: str, width: int = 1280, **options: bool) -> None:
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    browser.open(path, width, **options)


def rows_shown(browser: Browser) -> list[str]:
    rows: list[str] = browser.run(
        "[...document.querySelectorAll('tr[id^=row-]')].filter(r => !r.hidden).map(r => r.id)"
    )
    return rows


def click_heading(browser: Browser, name: str) -> str:
    order: str = browser.run(
        "(() => { const h = [...document.querySelectorAll('.filter thead th')]"
        f".find(h => h.textContent === {name!r});"
        " h.querySelector('button').click(); return h.getAttribute('aria-sort'); })()"
    )
    return order


def type_filter(browser: Browser, words: str) -> str:
    browser.run("document.querySelector('.search input').value = ''; document.querySelector('.search input').focus()")
    browser.type(words)
    count: str = browser.run("document.querySelector('.search output').textContent")
    return count


def view_of(browser: Browser) -> list[float]:
    return [
        float(number) for number in browser.run("document.querySelector('svg.figure').getAttribute('viewBox')").split()
    ]


def test_the_table_sorts_by_mouse_and_keyboard(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    assert rows_shown(browser) == ["row-0", "row-1", "row-2"]
    for name, order, rows in (
        ("Time", "descending", ["row-0", "row-1", "row-2"]),
        ("Time", "ascending", ["row-2", "row-1", "row-0"]),
        ("Kernel", "ascending", ["row-0", "row-1", "row-2"]),
        # Missing values stay last.
        ("Main stall", "descending", ["row-0", "row-2", "row-1"]),
        ("Main stall", "ascending", ["row-0", "row-2", "row-1"]),
    ):
        assert (click_heading(browser, name), rows_shown(browser)) == (order, rows)
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1

    open_page(browser, tmp_path, three())
    for _ in range(40):
        browser.press("Tab")
        if browser.run("document.activeElement.textContent") == "Share":
            break
    browser.press("Space", "Enter")
    assert rows_shown(browser) == ["row-2", "row-1", "row-0"]
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert browser.messages() == []


def test_the_filter_counts_rows_and_dims_points(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    assert browser.run("document.querySelector('.search output').textContent") == "3 rows"
    dimmed = "[...document.querySelectorAll('.dimmed')].map(p => p.dataset.kernel)"
    assert type_filter(browser, "scale<1> FLOAT") == "1 of 3 rows"
    assert rows_shown(browser) == ["row-1"] and browser.run(dimmed) == ["0", "2"]
    assert type_filter(browser, "nothing") == "0 of 3 rows"
    browser.run("location.hash = 'row-2'")
    wait(browser, 50)
    assert rows_shown(browser) == ["row-0", "row-1", "row-2"] and browser.run(dimmed) == []


def test_several_tables_of_a_page_are_filtered_by_themselves(browser: Browser, tmp_path: Path) -> None:
    operators = Table("operators", (Column("operator", "name"),), (("a",), ("b",), ("c",)), filter=True)
    open_page(browser, tmp_path, render_page(Document("t", (*profile_like(2).blocks, operators))))
    counts = "[...document.querySelectorAll('.search output')].map(o => o.textContent)"
    assert browser.run(counts) == ["2 rows", "3 rows"]
    type_filter(browser, "scale<1>")
    assert browser.run(counts) == ["1 of 2 rows", "3 rows"]


def test_points_explain_themselves_and_lead_to_their_kernels(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    readout = "(r => r.hidden ? null : r.textContent)(document.querySelector('.readout'))"
    assert browser.run(readout) is None
    browser.point_at('[data-kernel="1"] .mark')
    assert browser.run(readout) == "void scale<1>(float const*, int): 1.2 TFLOP/s"
    assert browser.run("[...document.querySelectorAll('tr.marked')].map(r => r.id)") == ["row-1"]
    browser.point_at("#row-2")
    assert browser.run(readout) is None and browser.run("document.querySelectorAll('tr.marked').length") == 0
    assert browser.run("document.querySelector('.point.marked').dataset.kernel") == "2"
    browser.run("document.querySelector('[data-kernel=\"0\"] a').focus()")
    assert browser.run(readout).startswith("void scale<0>")
    assert browser.run("document.activeElement.ariaLabel").startswith("void scale<0>")
    browser.run("document.querySelectorAll('details').forEach(d => d.open = false)")
    browser.press("Enter")
    wait(browser, 50)
    assert browser.run("location.hash") == "#kernel-0"
    assert browser.run("document.getElementById('kernel-0').open && !document.getElementById('kernel-1').open")


def test_figures_zoom_by_wheel_drag_and_buttons(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    browser.point_at("svg.figure")
    wait(browser, 500)
    whole = view_of(browser)
    assert whole == [0, 0, 600, 200]
    wheel(browser, -300)
    near = view_of(browser)
    assert near[2] < 400 and near[2] / near[3] == pytest.approx(3) and near[0] > 50 and near[1] > 15
    assert browser.run("document.querySelector('svg.figure').classList.contains('zoomed')")
    drag(browser, 0.5, 0.7)
    moved = view_of(browser)
    assert moved[0] < near[0] and moved[2:] == pytest.approx(near[2:])
    assert browser.run("location.hash") == ""
    browser.run("document.querySelector('.zoom button:last-child').click()")
    assert view_of(browser) == whole
    # The page scrolls where the whole figure is shown.
    wheel(browser, 300)
    assert view_of(browser) == whole
    browser.run("document.querySelector('svg.figure').scrollIntoView({block: 'center', behavior: 'instant'})")
    drag(browser, 0.25, 0.75)
    assert view_of(browser) == pytest.approx([150, 50, 300, 100], abs=3)
    browser.run("document.querySelector('svg.figure').dispatchEvent(new MouseEvent('dblclick'))")
    assert view_of(browser) == whole
    browser.run("document.querySelector('.zoom button').click()")
    assert view_of(browser)[2] == pytest.approx(375)
    assert browser.messages() == []


def test_a_wide_figure_zooms_along_its_axis_only(browser: Browser, tmp_path: Path) -> None:
    svg = figure_svg("a").replace('class="figure"', 'class="figure" data-zoom="x"')
    open_page(browser, tmp_path, render_page(Document("t", (Figure(lambda: svg, "timeline"),))))
    height = browser.run("document.querySelector('svg.figure').getBoundingClientRect().height")
    drag(browser, 0.25, 0.75)
    assert view_of(browser) == pytest.approx([150, 0, 300, 200], abs=3)
    assert browser.run("document.querySelector('svg.figure').getBoundingClientRect().height") == height


def wait(browser: Browser, milliseconds: int) -> None:
    browser.run(f"new Promise(done => setTimeout(done, {milliseconds}))")


def wheel(browser: Browser, distance: int) -> None:
    x, y = middle(browser)
    browser.send("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=distance)
    wait(browser, 100)


def drag(browser: Browser, start: float, end: float) -> None:
    """Drag across the figure, from and to these shares of its width and height."""
    box = browser.run(
        "(r => [r.x, r.y, r.width, r.height])(document.querySelector('svg.figure').getBoundingClientRect())"
    )
    places = [(box[0] + share * box[2], box[1] + share * box[3]) for share in (start, (start + end) / 2, end)]
    for kind, (x, y) in zip(("mousePressed", "mouseMoved", "mouseMoved"), places, strict=True):
        browser.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)
    x, y = places[-1]
    browser.send("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, button="left", clickCount=1)


def middle(browser: Browser) -> tuple[float, float]:
    x, y = browser.run(
        "(r => [r.x + r.width / 2, r.y + r.height / 2])(document.querySelector('svg.figure').getBoundingClientRect())"
    )
    return x, y


def test_commands_and_links_are_copied(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    browser.run(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => { window.copied = t; }}}); 0"
    )
    labels = browser.run("[...document.querySelectorAll('button.copy')].map(b => b.ariaLabel)")
    assert labels.count("Copy the command") == 1 and "Copy a link to: void scale<0>(float const*, int) #0" in labels
    browser.run("document.querySelector('.command .copy').click()")
    assert browser.run("window.copied") == "gpuprof run --kernel 'scale a' -o all.ncu-rep -- python train.py"
    wait(browser, 20)
    assert browser.run("document.querySelector('.command .copy').textContent") == "Copied"
    browser.run("document.querySelector('#finding-1-memory-latency > .copy').click()")
    assert browser.run("window.copied").endswith("page.html#finding-1-memory-latency")


def test_a_link_opens_what_it_leads_to(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    browser.run("document.documentElement.style.scrollBehavior = 'auto'")
    browser.run("document.querySelectorAll('details').forEach(d => d.open = false)")
    for _ in range(2):
        # A second click on the same link opens it again.
        browser.run("document.querySelector('.what > a').click()")
        wait(browser, 50)
        assert browser.run("document.getElementById('kernel-0').open")
        assert browser.run("document.getElementById('finding-0-uncoalesced-global').getBoundingClientRect().y < 300")
        browser.run("document.getElementById('kernel-0').open = false")
    browser.run("location.hash = 'finding-2-memory-latency'")
    wait(browser, 50)
    assert browser.run("document.querySelector('#finding-2-memory-latency details').open")
    assert browser.run("getComputedStyle(document.querySelector('.card:target')).borderLeftWidth") == "8px"


def test_a_page_is_whole_and_quiet_with_scripts_and_without(browser: Browser, tmp_path: Path) -> None:
    sheets = []
    for scripts in (True, False):
        open_page(browser, tmp_path, three(), scripts=scripts)
        assert browser.messages() == [] and browser.requests() == []
        assert len(browser.picture()) > 30_000
        for text in ("Uncoalesced global access", "scale<2>", "sum += rows[index[i]];"):
            assert text in browser.run("document.body.innerText")
        unnamed = browser.run(
            "[...document.querySelectorAll('section, nav, [role=group], svg[role]')].filter(e => !e.ariaLabel).length"
        )
        assert unnamed == 0
        levels = browser.run("[...document.querySelectorAll('h1,h2,h3,h4,h5')].map(h => Number(h.tagName[1]))")
        assert levels[0] == 1 and all(after - before <= 1 for before, after in pairwise(levels))
        if not scripts:
            assert browser.run("document.querySelectorAll('button, input').length") == 0
            assert browser.run("[...document.querySelectorAll('.scroll')].every(e => e.tabIndex === 0)")
        sheets.append(len(re.findall(rb"/Type\s*/Page\b", browser.paper())))
    assert sheets[0] == sheets[1] >= 2


def test_nothing_is_cut_at_the_edge_of_paper(browser: Browser, tmp_path: Path) -> None:
    """A4 has 182 mm, 688 pixels, between its margins; half of it for two blocks of a section beside each other."""
    rates = "L2 bandwidth", 0.42, "2.08 TB/s (42 % of 4.92 TB/s)"
    halves = Fold("section", (Bars("Rates", (Bar(*rates),)), Bars("Rates", (Bar(*rates),))), open=True, anchor="kernel")
    open_page(browser, tmp_path, render_page(Document("title", (profile_like(3).blocks[-1], halves))), 688)
    browser.send("Emulation.setEmulatedMedia", media="print")
    cut = "[...document.querySelectorAll('.scroll, .meters')].filter(e => e.scrollWidth > e.clientWidth)"
    assert browser.run(f"{cut}.map(e => e.textContent)") == []
    assert browser.run("getComputedStyle(document.querySelector('.meters')).overflowX") == "visible"
    assert browser.run("[...document.querySelectorAll('thead button')].every(b => !b.getClientRects().length)")


def test_print_has_closed_sections_but_not_what_is_folded_within_them(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    browser.run("document.querySelectorAll('details').forEach(d => d.open = false)")
    browser.send("Emulation.setEmulatedMedia", media="print")
    heights = browser.run("[...document.querySelectorAll('.section')].map(d => d.offsetHeight)")
    assert min(heights) > 300
    folded = "[...document.querySelectorAll('details:not(.section)')].map(d => d.offsetHeight)"
    assert max(browser.run(folded)) < 40
    hidden = "[...document.querySelectorAll('nav, .search, .copy, .zoom')].every(e => !e.checkVisibility())"
    assert browser.run(hidden)


def test_hostile_texts_are_text_and_foreign_scripts_are_stopped(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, render_page(every_block(BAD)))
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 1
    browser.run("document.querySelector('[data-kernel] a').focus()")
    assert browser.run("document.querySelector('.readout').textContent").startswith(BAD)
    assert browser.run("document.title") == BAD
    assert browser.messages() == [] and browser.requests() == []
    open_page(browser, tmp_path, three().replace("</body>", "<script>document.title = 'hacked'</script></body>"))
    assert browser.run("document.title") != "hacked"
    assert any("Content Security Policy" in message for message in browser.messages())


@each_row("page", [lambda: render_page(profile_like(14, LONG)), three, lambda: render_page(every_block("w" * 700))])
def test_a_page_never_scrolls_sideways(browser: Browser, tmp_path: Path, page: Any) -> None:
    for width in (360, 800, 1280):
        for scripts in (True, False):
            open_page(browser, tmp_path, page(), width=width, scripts=scripts)
            assert browser.run("document.documentElement.scrollWidth") <= width


def test_a_page_of_five_hundred_kernels_reacts_at_once(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, render_page(profile_like(500)))
    start = browser.run("performance.now()")
    assert type_filter(browser, "scale<49") == "11 of 500 rows"
    assert click_heading(browser, "Time") == "descending"
    assert rows_shown(browser)[0] == "row-49"
    assert browser.run("performance.now()") - start < 3000


@each_row(("dark", "background"), [(False, "rgb(255, 255, 255)"), (True, "rgb(22, 24, 29)")])
def test_every_text_stands_out_from_what_is_behind_it(
    browser: Browser, tmp_path: Path, dark: bool, background: str
) -> None:
    for page in (three(), render_page(every_block("text"))):
        open_page(browser, tmp_path, page, dark=dark)
        assert browser.run("getComputedStyle(document.body).backgroundColor") == background
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        browser.run("document.querySelector('tbody tr').classList.add('marked')")
        read: dict[str, Any] = browser.run(CONTRASTS)
        assert read["seen"] > 60 and read["bad"] == []
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert browser.run("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
