"""The page in a real browser: complete without scripts, better with them, legible, quiet, and as wide as its window."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuprof.model.recorded import Missing
from gpuprof.model.session import Evidence, Finding, Pipe, Stall
from gpuprof.views.profile import session_page
from tests.chromium import CHROMIUM, CONTRASTS, Browser
from tests.table import each_row
from tests.test_figures import kernel, session
from tests.test_page import diagnosed
from tests.test_plot import many
from tests.worded import summarised

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
]

BAD = "</script><img src=x onerror=document.title='hacked'> $\\frac{a}{b}$"
LONG = "kernel::with<a, rather, long, name, {}>::" + "x" * 900


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as started:
        yield started


@cache
def three() -> str:
    """Three kernels; the shortest has most of its roof."""
    return session_page(
        session(
            kernel(0, {"fp32": 1e9}, {"l2": 2e9, "dram": 1e9}, duration_s=4e-3, label="gemm"),
            kernel(1, {"fp32": 3e9}, {"dram": 1e9}, duration_s=3e-3, label="softmax"),
            kernel(2, duration_s=2e-3, label="Copy", stalls=()),
        )
    )


@cache
def findings() -> str:
    """Two kernels with all that a section can have."""
    return session_page(diagnosed())


def open_page(browser: Browser, folder: Path, page: str, width: int = 1280, **options: bool) -> None:
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    browser.open(path, width, **options)


def labels(browser: Browser) -> list[str]:
    names: list[str] = browser.run(
        "[...document.querySelectorAll('#kernel-table tbody tr')].filter(r => r.checkVisibility())"
        ".map(r => r.cells[1].textContent)"
    )
    return names


def click_heading(browser: Browser, name: str) -> str:
    order: str = browser.run(
        "(() => { const h = [...document.querySelectorAll('#kernel-table thead th')]"
        f".find(h => h.textContent === {name!r});"
        " h.querySelector('button').click(); return h.getAttribute('aria-sort'); })()"
    )
    return order


def test_the_table_sorts_by_mouse_and_keyboard_and_points_lead_to_its_rows(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    assert labels(browser) == ["gemm", "softmax", "Copy"]
    for name, order, rows in (
        ("Kernel", "ascending", ["Copy", "gemm", "softmax"]),
        # Missing values stay last.
        ("Roofline", "descending", ["softmax", "gemm", "Copy"]),
        ("Roofline", "ascending", ["gemm", "softmax", "Copy"]),
    ):
        assert (click_heading(browser, name), labels(browser)) == (order, rows)
    assert browser.run("document.querySelectorAll('[aria-sort]').length") == 1
    browser.point_at('a[data-kernel="1"] .mark')
    assert browser.run("[...document.querySelectorAll('tr.marked')].map(r => r.id)") == ["row-1"]
    assert browser.run("document.querySelector('#readout strong').textContent") == "softmax"
    assert "Share 33" in re.sub(r"\s+", " ", browser.run("document.getElementById('readout').innerText"))
    browser.run("document.querySelector('a[data-kernel=\"0\"]').focus()")
    assert browser.run("document.querySelector('#readout strong').textContent") == "gemm"
    assert browser.run("document.activeElement.querySelector('title').textContent").startswith("gemm #0: FP32 ")
    assert browser.messages() == []

    open_page(browser, tmp_path, three())
    for _ in range(40):
        browser.press("Tab")
        if browser.run("document.activeElement.textContent") == "Time":
            break
    assert browser.run("document.activeElement.tagName") == "BUTTON"
    browser.press("Space", "Enter")
    assert labels(browser) == ["gemm", "softmax", "Copy"]
    browser.press("Enter")
    assert labels(browser) == ["Copy", "softmax", "gemm"]
    assert browser.run("document.activeElement.closest('th').getAttribute('aria-sort')") == "ascending"
    assert browser.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_a_page_is_whole_and_quiet_with_scripts_and_without(browser: Browser, tmp_path: Path) -> None:
    sheets = []
    for scripts in (True, False):
        open_page(browser, tmp_path, findings(), scripts=scripts)
        assert browser.messages() == [] and browser.requests() == []
        assert len(browser.picture()) > 30_000
        for text in ("Uncoalesced loads", "gather_rows", "LDG.E R2, [R2]"):
            assert text in browser.run("document.body.innerText")
        unnamed = browser.run(
            "[...document.querySelectorAll('section, article, [role=region], [role=img]')].filter(e => !e.ariaLabel &&"
            " !document.getElementById((e.getAttribute('aria-labelledby') || '').split(' ')[0])).length"
        )
        assert unnamed == 0
        levels = browser.run("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => Number(h.tagName[1]))")
        assert levels[0] == 1 and all(after - before <= 1 for before, after in pairwise(levels))
        if scripts:
            copies = browser.run("[...document.querySelectorAll('button.copy')].map(b => b.ariaLabel)")
            assert "gather_rows #0" in copies[0] and len(copies) == 5
            browser.run("document.querySelector('button.copy').click()")
            assert browser.messages() == []
        else:
            shown = (
                "[...document.querySelectorAll('button, #filter, #readout')].filter(b => b.checkVisibility()).length"
            )
            assert browser.run(shown) == 0
            targets = browser.run("[...document.querySelectorAll('a[data-kernel]')].map(a => a.getAttribute('href'))")
            assert targets == ["#row-0", "#row-1"]
            assert browser.run("[...document.querySelectorAll('.scroll')].every(e => e.tabIndex === 0)")
            regions = "[...document.querySelectorAll('[role=region], table[aria-label]')].map(e => e.ariaLabel)"
            names = browser.run(regions)
            assert len(names) == len(set(names)) > 10
        sheets.append(len(re.findall(rb"/Type\s*/Page\b", browser.paper())))
        browser.send("Emulation.setEmulatedMedia", media="print")
        assert browser.run("[...document.querySelectorAll('details')].every(d => d.children[1].offsetHeight > 10)")
        styles = browser.run(
            "[...document.querySelectorAll('.kernel > h3, .card h4, .tag, .worth')].map(e => getComputedStyle(e))"
            ".map(s => `${s.display} ${s.breakAfter}`)"
        )
        assert len(styles) > 8 and set(styles) == {"block avoid"}
    assert sheets[0] == sheets[1] >= 3


def test_hostile_names_are_text_and_foreign_scripts_are_stopped(browser: Browser, tmp_path: Path) -> None:
    hostile = session(kernel(0, {"fp32": 1e9}, {"l2": 2e9, "dram": 1e9}, label=BAD))
    open_page(browser, tmp_path, session_page(hostile, title=BAD))
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.querySelector('#kernel-table tbody th').textContent") == BAD
    browser.run("document.querySelector('a[data-kernel]').focus()")
    assert browser.run("document.querySelector('#readout strong').textContent") == BAD
    assert browser.run("document.title") == BAD
    assert browser.messages() == [] and browser.requests() == []
    open_page(browser, tmp_path, three().replace("</body>", "<script>document.title = 'hacked'</script></body>"))
    assert browser.run("document.title") != "hacked"
    assert any("Content Security Policy" in message for message in browser.messages())


def test_a_page_never_scrolls_sideways(browser: Browser, tmp_path: Path) -> None:
    word = "w" * 700
    evidence = (Evidence(word, 5.0, word, threshold=5.0, meaning=word),)
    endless = replace(
        diagnosed().kernels[0], label=word, demangled=word, ranges=(word,), missing=(Missing(word, word, word),),
        pipes=(Pipe(word, 0.5, word),), stalls=(Stall("s" * 60, 1.0, None, family="counter"),),
        findings=(
            Finding(
                rule="r" * 60, severity="high", confidence="measured", headline=word, why=word, evidence=evidence,
                action=word, advice=word, place=None, gain_kernel=0.5, gain_total=0.5, held=word,
            ),
        ),
    )  # fmt: skip
    without_breaks = session_page(summarised(replace(diagnosed(), kernels=(endless,))), title=word)
    assert word[:90] in without_breaks
    for page in (session_page(many(14, LONG), top=2), findings(), without_breaks):
        for width in (360, 800, 1239, 1240):
            for scripts in (True, False):
                open_page(browser, tmp_path, page, width=width, scripts=scripts)
                assert browser.run("document.documentElement.scrollWidth") <= width
    open_page(browser, tmp_path, three(), width=360)
    cell = "document.querySelector('[aria-labelledby=provenance] table').rows[1].cells[4]"
    assert browser.run(f"{cell}.getBoundingClientRect().width") >= 250


@each_row(("dark", "background"), [(False, "rgb(255, 255, 255)"), (True, "rgb(22, 24, 29)")])
def test_every_text_stands_out_from_what_is_behind_it(
    browser: Browser, tmp_path: Path, dark: bool, background: str
) -> None:
    open_page(browser, tmp_path, findings(), dark=dark)
    assert browser.run("getComputedStyle(document.body).backgroundColor") == background
    browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
    browser.run("document.getElementById('row-0').classList.add('marked')")
    read: dict[str, Any] = browser.run(CONTRASTS)
    assert read["seen"] > 200 and read["bad"] == []
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    assert browser.run("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
