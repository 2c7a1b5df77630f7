"""`--open`: the page comes up in the browser, nothing waits for that, and where there is none it is said."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from gpuprof.collect.browser import open_in_browser
from tests import builders, ncu_bytes
from tests.cli import Done, gpuprof
from tests.table import each_row

REPORT = ncu_bytes.simple_report([("gemm", {**ncu_bytes.A100, **builders.FLOP_1})])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a report, and a browser that notes what it is given."""
    (tmp_path / "a.ncu-rep").write_bytes(REPORT)
    stand_in(tmp_path, 'echo "$1" > opened.new && mv opened.new opened')
    return tmp_path


def stand_in(folder: Path, does: str) -> None:
    place = folder / "browser"
    place.write_text(f"#!/bin/sh\ncd {folder} && {does}\n", encoding="utf-8")
    place.chmod(0o755)


def environ_of(folder: Path, **more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    return {**plain, "COLUMNS": "80", **more}


def opened(folder: Path, *words: str) -> tuple[Done, Path]:
    """Run a command with the stand-in as browser; return what it said, and which file the browser was given."""
    done = gpuprof(*words, cwd=folder, environ=environ_of(folder, BROWSER=str(folder / "browser")))
    assert done.returncode == 0, done.stderr
    return done, given(folder)


def given(folder: Path) -> Path:
    deadline = time.monotonic() + 30
    while not (folder / "opened").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    address = urlparse((folder / "opened").read_text(encoding="utf-8").strip())
    assert (address.scheme, address.netloc) == ("file", "")
    return Path(unquote(address.path))


def test_the_page_of_a_report_is_opened(folder: Path) -> None:
    done, page = opened(folder, "report", "a.ncu-rep", "--open")
    assert page == folder / "report.html" and page.is_file()
    assert "not opened" not in done.stderr


@each_row(
    ("variables", "why"),
    [
        ({}, "display"), ({"BROWSER": "/none/such"}, "browser"), ({"BROWSER": "false"}, "browser"),
    ],
)  # fmt: skip
def test_where_nothing_can_be_opened_it_is_said_and_nothing_else_changes(
    folder: Path, variables: dict[str, str], why: str
) -> None:
    # Only what BROWSER names is there to be found.
    environ = environ_of(folder, **{"PATH": "/nowhere", **variables})
    if sys.platform == "darwin":
        pytest.skip("macOS has a display and a browser")
    done = gpuprof("report", "a.ncu-rep", "--open", "--force", cwd=folder, environ=environ)
    assert done.returncode == 0 and why in done.stderr.splitlines()[-1]
    assert (folder / "report.html").is_file()
    bare = {"DISPLAY": ":0", "PATH": str(folder)}
    assert "browser" in (open_in_browser(folder / "page.html", bare) or "")
