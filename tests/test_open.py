"""`--open`: the page comes up in the browser, nothing waits for that, and where there is none it is said."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import unquote, urlparse

import pytest

from gpuprof.collect.browser import open_in_browser
from tests import builders, ncu_bytes
from tests.cli import GPUPROF, Done, gpuprof
from tests.table import each_row
from tests.test_run import Bench, bench

__all__ = ["bench"]

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
    """Wait for what the browser is given, and return the file."""
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
    ("output", "page"),
    [
        ((), "gpuprof-roofline/roofline.html"),
        (("-o", "only.svg"), "only.svg"),
        (("-o", "it's 100 %#1 ü"), "it's 100 %#1 ü/roofline.html"),
    ],
)
def test_the_roofline_is_opened_as_a_page_or_as_the_picture_there_is(
    folder: Path, output: tuple[str, ...], page: str
) -> None:
    assert opened(folder, "roofline", "a.ncu-rep", "--open", *output)[1] == folder / page


@pytest.mark.slow
def test_the_page_of_a_program_is_opened_also_where_it_failed(bench: Bench) -> None:
    stand_in(bench.folder, 'echo "$1" > opened.new && mv opened.new opened')
    bench.environ = {**bench.environ, "BROWSER": str(bench.folder / "browser")}
    report = bench.folder / "made.ncu-rep"
    report.write_bytes(REPORT)
    log = "==ERROR== The application returned an error code (3).\n"
    for command, page in (("run", "report.html"), ("roofline", "roofline.html")):
        (bench.folder / "calls.json").unlink(missing_ok=True)
        (bench.folder / "opened").unlink(missing_ok=True)
        bench.steps({"report": str(report)}, {"report": str(report), "log": log})
        done = bench.run("--open", "--force", command=command)
        assert done.returncode == 4, done.stderr
        assert given(bench.folder) == bench.folder / "out" / page


@pytest.mark.slow
def test_a_browser_outlives_the_command_and_is_not_ended_with_its_terminal(folder: Path) -> None:
    stand_in(folder, 'sleep 2; ps -o pgid= -p $$ > group; echo "$1" > opened.new && mv opened.new opened')
    line = [*GPUPROF, "report", "a.ncu-rep", "--open"]
    environ = environ_of(folder, BROWSER=str(folder / "browser"))
    with subprocess.Popen(line, cwd=folder, env=environ, start_new_session=True) as command:
        assert command.wait(30) == 0
    assert given(folder) == folder / "report.html"
    if (group := (folder / "group").read_text().strip()) != "":
        assert int(group) != command.pid


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


@each_row(
    ("words", "option"),
    [
        (("roofline", "a.ncu-rep", "--format", "json"), "--format json"),
        (("roofline", "--plan-only", "--", "true"), "--plan-only"),
        (("run", "--dry-run", "--", "true"), "--dry-run"),
        (("run", "--plan-only", "--", "true"), "--plan-only"),
    ],
)
def test_without_a_page_there_is_nothing_to_open(folder: Path, words: tuple[str, ...], option: str) -> None:
    done = gpuprof(words[0], "--open", *words[1:], cwd=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--open" in done.stderr and option in done.stderr
