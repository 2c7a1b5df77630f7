"""The page: what it says, that it is safe, complete and the same every time; and the commands that write it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from gpuprof.cli.main import cli
from gpuprof.cli.output import write_files
from gpuprof.errors import UsageError
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Device
from gpuprof.privacy.border import without_private
from gpuprof.store.write import session_lines
from gpuprof.views.profile import session_page
from tests.outline import Outline
from tests.table import each_row
from tests.test_figures import HOSTILE, TWO, kernel, session
from tests.test_plot import many


@cache
def page_of_two() -> str:
    return session_page(TWO)


def test_page_needs_nothing_else_and_its_policy_allows_its_own_script_alone() -> None:
    page = page_of_two()
    outline = Outline(page)
    types = [value for tag, name, value in outline.attributes if (tag, name) == ("script", "type")]
    assert types == ["application/octet-stream"] and outline.tags.count("script") == 2
    assert all(link.startswith("#") or link == "data:," for link in outline.links)
    assert not re.search(r"@import|url\((?!#)|\son\w+=", page)
    (policy,) = (value for _, name, value in outline.attributes if name == "content" and "-src" in (value or ""))
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy is not None and policy.startswith("default-src 'none'; style-src 'unsafe-inline'; ")
    assert f"script-src 'sha256-{digest}'; img-src data:;" in policy


def test_ids_are_unique_and_every_link_has_a_target() -> None:
    outline = Outline(session_page(many(5)))
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)


def test_hostile_texts_are_text_everywhere() -> None:
    gap = Missing(HOSTILE, HOSTILE, HOSTILE)
    hostile = kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=HOSTILE, ranges=(HOSTILE,), missing=(gap,))
    read = session(hostile)
    source = replace(read.sources[0], file=f"/tmp/{HOSTILE}", command=HOSTILE, driver=HOSTILE, warnings=(HOSTILE,))
    device = Device(id=0, name=HOSTILE, compute_capability=HOSTILE, sm_count=1, spec=HOSTILE)
    page = session_page(replace(read, sources=(source,), devices=(device,)), title=HOSTILE)
    outline = Outline(page)
    assert outline.open == []
    assert "img" not in outline.tags and outline.tags.count("script") == 2
    assert "\x1b" not in page and "\u202e" not in page
    assert any("<img src=x onerror=alert(1)> $\\frac{a}{b}$" in text for text in outline.texts)


def test_paths_and_commands_stay_private_unless_asked_for() -> None:
    source = replace(TWO.sources[0], file="C:\\Users\\someone\\run.ncu-rep")
    for read in (TWO, replace(TWO, sources=(source,))):
        clean = session_page(without_private(read), top=1)
        assert "someone" not in clean and "run.ncu-rep" in clean and "ncu --set full ./app" in Outline(clean).texts
    shown = session_page(TWO, top=1)
    assert "/home/someone/secret/run.ncu-rep" in shown and "/home/someone/bin/ncu --set full ./app" in shown


@pytest.mark.slow
def test_five_hundred_long_names_stay_below_a_megabyte_and_a_half() -> None:
    read = many(500, "very::long::name<{}, " + "int, " * 170 + ">")
    assert len(session_page(read).encode()) < 1_500_000


@pytest.fixture
def saved(tmp_path: Path) -> str:
    """A session file to give to commands."""
    path = tmp_path / "two.session.json"
    path.write_text("\n".join(session_lines(TWO)), encoding="utf-8")
    return str(path)


def run(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def test_an_input_is_never_replaced(saved: str) -> None:
    before = Path(saved).read_bytes()
    for command in (["report", saved, "-o", saved], ["report", saved, "-o", saved, "--force"]):
        with pytest.raises(UsageError):
            run(*command)
    assert Path(saved).read_bytes() == before


def test_roofline_json_is_figure_data_and_writes_nothing(
    saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    out, _ = run("roofline", saved, "--format", "json")
    figures = json.loads(out)["figures"]
    assert [point["kernel"] for point in figures[0]["points"]] == [1, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["two.session.json"]


@each_row(
    ("options", "ceiling"),
    [
        ("--ceiling measured", "gpuprof characterize"),
        ("--ceiling measured --kernel #0", "gpuprof characterize"),
        ("--ceiling rated --level l2", "--ceiling at-clock"),
        ("--ceiling measured --format json", "gpuprof characterize"),
        ("--kernel nothing", ""),
    ],
)
def test_a_ceiling_or_kernel_that_is_not_there_is_an_error_and_draws_nothing(
    saved: str, tmp_path: Path, options: str, ceiling: str
) -> None:
    with pytest.raises(UsageError) as error:
        run("roofline", saved, *options.split(), "-o", str(tmp_path / "figures"))
    assert ceiling in (error.value.hint or "")
    assert not (tmp_path / "figures").exists()


def test_nothing_is_replaced_without_force(saved: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        run("report", saved, "-o", str(page))
    assert page.read_text() == "mine"
    run("report", saved, "-o", str(page), "--force", "--title", "Nightly")
    assert "<title>Nightly</title>" in page.read_text(encoding="utf-8")


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError):
        write_files({pipe: b"x"}, through_links=True)
    assert pipe.is_fifo() and [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_file_that_fails_among_its_pieces_is_not_there(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"start"
        raise ValueError("no number")

    whole, old = tmp_path / "whole.json", tmp_path / "old.json"
    old.write_bytes(b"old")
    with pytest.raises(ValueError, match="no number"):
        write_files({whole: iter([b"a", b"b"]), old: broken()})
    assert [path.name for path in tmp_path.iterdir()] == ["old.json"]
    assert old.read_bytes() == b"old"
    write_files({whole: iter([b"a", b"b"])})
    assert whole.read_bytes() == b"ab"


def test_files_are_written_all_or_none(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "taken", tmp_path / "file" / "deep" / "a.html"):
        with pytest.raises(UsageError) as caught:
            write_files({tmp_path / "new" / "a.svg": b"a", place: b"b"})
        assert caught.value.hint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "taken"]
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(UsageError):
            write_files({tmp_path / "a.html": b""})
