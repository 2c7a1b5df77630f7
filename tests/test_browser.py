"""The page in a real browser: it renders without a request, an error or a sideways scroll; hostile names stay text."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from gpuprof.present.html import render_html
from tests.test_figures import TWO, kernel, session
from tests.test_plot import many

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

BAD = "</script><img src=x onerror=document.title='hacked'> $\\frac{a}{b}$"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
)  # fmt: skip


def browse(folder: Path, page: str, *options: str) -> tuple[str, str]:
    """Open a page in a browser of its own profile; return what it prints and what it logs."""
    assert CHROMIUM is not None
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={folder / 'profile'}", *options, path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout, done.stderr


@cache
def hostile_page() -> str:
    return render_html(session(kernel(0, {"fp32": 1e9}, {"l2": 2e9, "dram": 1e9}, label=BAD)))


def probe(page: str, expression: str, width: int = 1200) -> str:
    """Wrap a page in a frame of some width, with a script that writes a value of it into the title."""
    return (
        f'<title>none</title><iframe width="{width}" height="900" srcdoc="{html.escape(page)}" '
        f'onload="const d=this.contentDocument; document.title={html.escape(expression)}"></iframe>'
    )


def title(dom: str) -> str:
    found = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert found
    return html.unescape(found[1])


def test_page_renders_without_a_console_message(tmp_path: Path) -> None:
    picture = tmp_path / "page.png"
    _, log = browse(tmp_path, render_html(TWO), f"--screenshot={picture}", "--window-size=1280,1600")
    assert picture.stat().st_size > 30_000
    assert not re.findall(r".*CONSOLE.*", log)


def test_hostile_name_is_text_everywhere(tmp_path: Path) -> None:
    counts = (
        "[d.querySelectorAll('img,script').length, d.querySelectorAll('svg[role=img]').length, "
        "d.querySelector('td.label').textContent].join('|')"
    )
    dom, _ = browse(tmp_path, probe(hostile_page(), counts), "--dump-dom")
    assert title(dom) == f"0|2|{BAD}"


@pytest.mark.parametrize("width", [360, 1280])
def test_page_never_scrolls_sideways(tmp_path: Path, width: int) -> None:
    page = render_html(many(14, "kernel::with<a, rather, long, name, {}>::" + "x" * 80), top=2)
    dom, _ = browse(tmp_path, probe(page, "d.documentElement.scrollWidth", width), "--dump-dom")
    assert int(title(dom)) <= width


def test_page_asks_for_nothing(tmp_path: Path) -> None:
    page = hostile_page()
    assert not re.findall(r'(?:src|href)="https?:', page)
    resources = "performance.getEntriesByType('resource').length + '|' + "
    inner = "this.contentWindow.performance.getEntriesByType('resource').length"
    dom, _ = browse(tmp_path, probe(page, resources + inner), "--dump-dom")
    assert title(dom) == "0|0"


def test_figure_colours_follow_the_scheme(tmp_path: Path) -> None:
    colour = "getComputedStyle(d.body).backgroundColor"
    found = []
    for scheme in (1, 0):
        folder = tmp_path / str(scheme)
        folder.mkdir()
        option = f"--blink-settings=preferredColorScheme={scheme}"
        dom, _ = browse(folder, probe(render_html(TWO, top=1), colour), "--dump-dom", option)
        found.append(title(dom))
    assert found == ["rgb(255, 255, 255)", "rgb(22, 24, 29)"]
