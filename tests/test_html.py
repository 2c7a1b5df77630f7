"""The page: what it says, that it is safe, complete and the same every time; and the commands that write it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from gpuprof.api import load_spec
from gpuprof.cli.main import cli
from gpuprof.cli.output import write_files
from gpuprof.errors import UsageError
from gpuprof.hardware.library import SpecLibrary
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Device, KernelProfile
from gpuprof.model.stalls import stall_name
from gpuprof.present.html import render_html
from gpuprof.present.page.stalls import STALL_COLOURS
from gpuprof.present.session_text import verdict_text
from gpuprof.privacy.border import without_private
from gpuprof.store.write import session_lines
from tests.table import each_row
from tests.test_figures import HOSTILE, TWO, kernel, session
from tests.test_plot import many

VOID = {"meta", "link", "br", "img", "hr", "input", "wbr"}


class Outline(HTMLParser):
    """Collects tags, ids, references and the texts between them, and checks that tags are balanced."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.goes_on = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.goes_on = tag == "wbr"
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in {"href", "src", "xlink:href"} and value]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open[-1:] not in (["style"], ["script"]):
            text = " ".join(data.split())
            if self.goes_on:
                self.texts[-1] += text
            else:
                self.texts.append(text)
            self.goes_on = False


@cache
def page_of_two() -> str:
    return render_html(TWO)


def test_a_long_command_is_folded_behind_its_beginning() -> None:
    metrics = ",".join(f"sm__metric_{number}.sum" for number in range(80))
    source = replace(TWO.sources[0], command=f"ncu --metrics {metrics} ./app '<b>'")
    folded = Outline(render_html(replace(TWO, sources=(source,)))).texts
    assert f"ncu --metrics {metrics} ./app '<b>'" in folded
    assert [text for text in folded if text.startswith("ncu --metrics") and text.endswith("…")]
    short = Outline(render_html(replace(TWO, sources=(replace(source, command="ncu ./app"),)))).texts
    assert short.count("ncu ./app") == 1


def test_the_verdict_counts_kernels_launches_and_those_without_a_duration() -> None:
    def told(*kernels: KernelProfile) -> list[str]:
        return re.findall(r"[\d.]+(?= kernel| launch| more| of|.profiled| ms| %)", verdict_text(session(*kernels)))

    three = (kernel(number, duration_s=time) for number, time in enumerate((6e-3, 3.5e-3, 0.5e-3)))
    assert told(*three) == ["2", "3", "95", "10.0"]
    assert told(*(kernel(number, label="gemm") for number in range(3))) == ["1", "3", "3.00"]
    assert told(kernel(0, label="gemm"), kernel(1, label="softmax", duration_s=None)) == ["1", "1.00", "1"]
    assert told(kernel(0, duration_s=None)) == ["1"]
    nameless = Device(id=0, name=None, compute_capability="8.7", sm_count=None, spec=None)
    assert "8.7" in verdict_text(replace(session(kernel(0, label="gemm")), devices=(nameless,)))


def test_page_has_landmarks_headers_and_one_table_row_for_each_kernel() -> None:
    outline = Outline(page_of_two())
    assert outline.open == []
    assert {"header", "main", "nav", "footer", "h1", "h2", "h3"} <= set(outline.tags)
    assert (outline.tags.count("h1"), outline.tags.count("article")) == (1, 2)
    scopes = [value for tag, name, value in outline.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")
    assert {"75 %", "40 %", "DRAM 50 %", f"{stall_name('long_scoreboard')} 60 %"} <= set(outline.texts)


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
    outline = Outline(render_html(many(5)))
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)


def test_same_session_gives_the_same_page() -> None:
    assert render_html(TWO) == page_of_two()


def test_hostile_texts_are_text_everywhere() -> None:
    gap = Missing(HOSTILE, HOSTILE, HOSTILE)
    hostile = kernel(0, {"fp32": 1e9}, {"dram": 1e9}, label=HOSTILE, ranges=(HOSTILE,), missing=(gap,))
    read = session(hostile)
    source = replace(read.sources[0], file=f"/tmp/{HOSTILE}", command=HOSTILE, driver=HOSTILE, warnings=(HOSTILE,))
    device = Device(id=0, name=HOSTILE, compute_capability=HOSTILE, sm_count=1, spec=HOSTILE)
    page = render_html(replace(read, sources=(source,), devices=(device,)), title=HOSTILE)
    outline = Outline(page)
    assert outline.open == []
    assert "img" not in outline.tags and outline.tags.count("script") == 2
    assert "\x1b" not in page and "\u202e" not in page
    assert any("<img src=x onerror=alert(1)> $\\frac{a}{b}$" in text for text in outline.texts)


def test_paths_and_commands_stay_private_unless_asked_for() -> None:
    source = replace(TWO.sources[0], file="C:\\Users\\someone\\run.ncu-rep")
    for read in (TWO, replace(TWO, sources=(source,))):
        clean = render_html(without_private(read), top=1)
        assert "someone" not in clean and "run.ncu-rep" in clean and "ncu --set full ./app" in Outline(clean).texts
    shown = render_html(TWO, top=1)
    assert "/home/someone/secret/run.ncu-rep" in shown and "/home/someone/bin/ncu --set full ./app" in shown


@pytest.mark.slow
def test_five_hundred_long_names_stay_below_a_megabyte_and_a_half() -> None:
    read = many(500, "very::long::name<{}, " + "int, " * 170 + ">")
    assert len(render_html(read).encode()) < 1_500_000


@pytest.mark.slow
def test_rows_stop_at_a_thousand_and_points_at_two_hundred() -> None:
    page = render_html(many(1010), top=1)
    assert page.count('<tr id="row-') == 1000 and Outline(page).tags.count("article") == 1
    assert len(set(re.findall(r'data-kernel="(\d+)"', page))) == 200


@pytest.mark.slow
def test_kernels_without_a_point_take_no_place_among_those_that_are_drawn() -> None:
    placed, bare = many(210).kernels, [kernel(1000 + number, duration_s=1.0) for number in range(300)]
    read = replace(many(210), kernels=(*bare, *placed))
    page = render_html(read, top=1)
    assert len(set(re.findall(r'data-kernel="(\d+)"', page))) == 200
    assert "200 of 510" in " ".join(Outline(page).texts)
    alone = render_html(replace(read, kernels=tuple(bare)), top=1)
    assert "0 of 300" in " ".join(Outline(alone).texts) and not re.search(r'data-kernel="\d', alone)


def test_what_was_not_collected_is_said_and_not_drawn() -> None:
    gap = Missing("work.fp32", "the report has no smsp__…ffma", "collect with ncu --set full")
    page = render_html(session(kernel(0, stalls=(), throughput=(), missing=(gap,))))
    texts = Outline(page).texts
    assert gap.why in texts and any(text.startswith("No point: ") and gap.how in text for text in texts)
    assert "<svg" not in page


def test_every_stall_reason_of_the_specs_has_a_colour_of_its_own() -> None:
    archs = [SpecLibrary().arch_of(capability) for capability in ("7.0", "8.0", "9.0", "10.0", "12.0")]
    names = {reason for arch in archs if arch is not None for reason in arch.stalls}
    assert names and names <= STALL_COLOURS.keys()
    assert len(set(STALL_COLOURS.values())) == len(STALL_COLOURS)


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


def test_roofline_writes_three_files_and_says_so(saved: str, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "figures"
    out, err = run("roofline", saved, "-o", str(folder))
    names = ["roofline.html", "roofline.png", "roofline.svg"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert "0  kernel_0   20 %  FP32  2.50 FLOP/B  1.00 TFLOP/s         40 %  memory" in out.splitlines()
    assert all(name in err.splitlines()[-1] for name in names)


@each_row("name", ["mine.png", "mine.SVG", "mine.html"])
def test_roofline_writes_one_file_where_the_ending_names_its_kind(saved: str, tmp_path: Path, name: str) -> None:
    run("roofline", saved, "--kernel", "kernel_0", "-o", str(tmp_path / "new" / name))
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]
    start = (tmp_path / "new" / name).read_bytes()[:200]
    assert start.startswith({"png": b"\x89PNG", "SVG": b"<?xml", "html": b"<!DOCTYPE html>"}[name.split(".")[1]])


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


def test_roofline_without_points_still_writes_and_says_why(tmp_path: Path) -> None:
    path = tmp_path / "bare.session.json"
    gap = Missing("work.fp32", "the report has no …", "collect with ncu --set full")
    bare = session(kernel(0, missing=(gap,)), kernel(1, missing=(gap,)))
    path.write_text("\n".join(session_lines(bare)), encoding="utf-8")
    out, err = run("roofline", str(path), "-o", str(tmp_path / "roofline.svg"))
    assert gap.how in " ".join(out.split()) and "note: " in err
    assert (tmp_path / "roofline.svg").exists()


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


def test_report_of_chosen_kernels_has_only_these(saved: str, tmp_path: Path) -> None:
    place = tmp_path / "a page.html"
    _, err = run("report", saved, "-o", str(place), "--kernel", "kernel_0")
    outline = Outline(place.read_text(encoding="utf-8"))
    assert "row-0" in outline.ids and "row-1" not in outline.ids
    assert f"gpuprof show '{place}'" in err


def test_a_spec_alone_gives_a_page_of_its_roofs() -> None:
    page = render_html(load_spec("l4"))
    assert "FP32 30.3 TFLOP/s rated" in page and "300 GB/s" in page
    assert 'id="kernels"' not in page


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


def test_a_link_is_written_through_and_long_names_are_fine(tmp_path: Path) -> None:
    place = tmp_path / ("ä" * 120 + ".html")
    (tmp_path / "link.html").symlink_to(place)
    write_files({tmp_path / "link.html": b"x"}, through_links=True)
    assert (tmp_path / "link.html").is_symlink() and place.read_bytes() == b"x"
    with pytest.raises(UsageError, match="cannot write"):
        write_files({tmp_path / ("n" * 300): b"x"})


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


def test_new_files_get_the_permissions_of_the_user(tmp_path: Path) -> None:
    write_files({tmp_path / "a.html": b"x"})
    (tmp_path / "b.html").write_bytes(b"x")
    assert (tmp_path / "a.html").stat().st_mode == (tmp_path / "b.html").stat().st_mode
