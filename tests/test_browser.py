"""The page in a real browser: complete without scripts, better with them, legible, quiet, and as wide as its window."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
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
        "[...document.querySelectorAll('table.filter tbody tr')].filter(r => r.checkVisibility())"
        ".map(r => r.cells[1].textContent.trim())"
    )
    return names


def click_heading(browser: Browser, name: str) -> str:
    order: str = browser.run(
        "(() => { const h = [...document.querySelectorAll('table.filter thead th')]"
        f".find(h => h.textContent === {name!r});"
        " h.querySelector('button').click(); return h.getAttribute('aria-sort'); })()"
    )
    return order


def test_kernels_are_sorted_by_their_values_and_points_lead_to_them(browser: Browser, tmp_path: Path) -> None:
    open_page(browser, tmp_path, three())
    assert labels(browser) == ["gemm", "softmax", "Copy"]
    for name, order, rows in (
        ("kernel", "ascending", ["Copy", "gemm", "softmax"]),
        # Missing values stay last.
        ("roofline", "descending", ["softmax", "gemm", "Copy"]),
        ("roofline", "ascending", ["gemm", "softmax", "Copy"]),
    ):
        assert (click_heading(browser, name), labels(browser)) == (order, rows)
    browser.point_at('[data-kernel="1"] use')
    assert browser.run("[...document.querySelectorAll('tr.marked')].map(r => r.id)") == ["row-1"]
    assert browser.run("document.querySelector('[data-kernel=\"0\"] a').getAttribute('href')") == "#kernel-0"
    assert browser.messages() == []


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
