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
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Device
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


def test_verdict_counts_the_kernels_that_take_most_of_the_time() -> None:
    three = session(*(kernel(number, duration_s=time) for number, time in enumerate((6e-3, 3.5e-3, 0.5e-3))))
    assert verdict_text(three) == "2 of 3 kernels take 95 % of 10.0 ms of GPU time on an NVIDIA Test GPU."


def test_verdict_counts_launches_of_one_kernel_as_one() -> None:
    twins = session(*(kernel(number, label="gemm") for number in range(3)))
    assert verdict_text(twins) == "1 kernel, 3 launches: 3.00 ms of GPU time on an NVIDIA Test GPU."


def test_verdict_counts_launches_without_a_duration_apart() -> None:
    partly = session(kernel(0, label="gemm"), kernel(1, label="softmax", duration_s=None))
    assert verdict_text(partly) == (
        "1 kernel: 1.00 ms of GPU time on an NVIDIA Test GPU. 1 more launch without a duration."
    )


def test_verdict_without_durations_says_so() -> None:
    read = replace(
        session(kernel(0, duration_s=None)),
        devices=(Device(id=0, name=None, compute_capability=None, sm_count=None, spec=None),),
    )
    assert verdict_text(read) == "1 profiled launch on a GPU of unknown name; durations were not collected."


def test_verdict_tells_a_gpu_without_a_name_by_its_compute_capability() -> None:
    read = replace(
        session(kernel(0, label="gemm")),
        devices=(Device(id=0, name=None, compute_capability="8.7", sm_count=None, spec=None),),
    )
    assert verdict_text(read).endswith(" of GPU time on a GPU of compute capability 8.7 and unknown name.")


def test_page_has_landmarks_headers_and_one_table_row_for_each_kernel() -> None:
    outline = Outline(page_of_two())
    assert outline.open == []
    assert {"header", "main", "nav", "footer", "h1", "h2", "h3"} <= set(outline.tags)
    assert outline.tags.count("h1") == 1
    assert outline.tags.count("article") == 2
    scopes = [value for tag, name, value in outline.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == outline.tags.count("th")
    assert {"75 %", "40 %", "DRAM 50 %", f"{stall_name('long_scoreboard')} 60 %"} <= set(outline.texts)


def test_page_needs_nothing_else() -> None:
    page = page_of_two()
    outline = Outline(page)
    assert [value for tag, name, value in outline.attributes if (tag, name) == ("script", "type")] == [
        "application/octet-stream"
    ]
    assert outline.tags.count("script") == 2
    assert all(link.startswith("#") or link == "data:," for link in outline.links)
    assert not re.search(r"@import|url\((?!#)|\son\w+=", page)


def test_policy_allows_our_script_alone_and_no_request() -> None:
    page = page_of_two()
    policy = next(
        value for tag, name, value in Outline(page).attributes if name == "content" and "-src" in (value or "")
    )
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert policy is not None
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; ")
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
    read = replace(
        read,
        sources=(source,),
        devices=(Device(id=0, name=HOSTILE, compute_capability=HOSTILE, sm_count=1, spec=HOSTILE),),
    )
    page = render_html(read, title=HOSTILE)
    outline = Outline(page)
    assert outline.open == []
    assert "img" not in outline.tags and outline.tags.count("script") == 2
    assert "\x1b" not in page
    assert "\u202e" not in page
    assert any("<img src=x onerror=alert(1)> $\\frac{a}{b}$" in text for text in outline.texts)


def test_paths_and_commands_stay_private_unless_asked_for() -> None:
    clean = render_html(without_private(TWO), top=1)
    assert "someone" not in clean
    assert "ncu --set full ./app" in Outline(clean).texts
    shown = render_html(TWO, top=1)
    assert "/home/someone/secret/run.ncu-rep" in shown
    assert "/home/someone/bin/ncu --set full ./app" in shown


def test_windows_paths_lose_their_folders_too() -> None:
    source = replace(TWO.sources[0], file="C:\\Users\\someone\\run.ncu-rep")
    page = render_html(without_private(replace(TWO, sources=(source,))), top=1)
    assert "someone" not in page
    assert "run.ncu-rep" in page


def test_sections_stop_at_top_and_say_what_is_left_out() -> None:
    page = render_html(many(4), top=1)
    assert Outline(page).tags.count("article") == 1
    assert "Details are given for the kernels with most time; 3 more kernels" in " ".join(Outline(page).texts)


def test_five_hundred_long_names_stay_below_a_megabyte_and_a_half() -> None:
    read = many(500, "very::long::name<{}, " + "int, " * 170 + ">")
    assert len(render_html(read).encode()) < 1_500_000


def test_rows_stop_at_a_thousand_and_points_at_two_hundred() -> None:
    page = render_html(many(1010), top=1)
    texts = " ".join(Outline(page).texts)
    assert page.count('<tr id="row-') == 1000
    assert "The table stops here; 10 more kernels" in texts
    assert "gpuprof show --top 0" in texts
    assert "Drawn: the 200 of 1010 kernels with most time." in texts


def test_kernels_without_a_point_take_no_place_among_those_that_are_drawn() -> None:
    placed, bare = many(210).kernels, [kernel(1000 + number, duration_s=1.0) for number in range(300)]
    read = replace(many(210), kernels=(*bare, *placed))
    texts = " ".join(Outline(render_html(read, top=1)).texts)
    assert "200 of 510 kernels drawn" in texts
    assert "Drawn: of the 210 kernels that have a point, the 200 with most time." in texts
    assert "(300 launches): " in texts
    alone = " ".join(Outline(render_html(replace(read, kernels=tuple(bare)), top=1)).texts)
    assert "0 of 300" in alone
    assert "Drawn: the" not in alone


def test_what_was_not_collected_is_said_and_not_drawn() -> None:
    gap = Missing("work.fp32", "the report has no smsp__…ffma", "collect with ncu --set full")
    bare = kernel(0, stalls=(), throughput=(), missing=(gap,))
    page = render_html(session(bare))
    outline = Outline(page)
    assert "Not collected" in outline.texts
    assert "No point: work not collected; collect with ncu --set full." in outline.texts
    assert "the report has no smsp__…ffma" in outline.texts
    assert "<svg" not in page


def test_every_stall_reason_of_the_specs_has_a_colour_of_its_own() -> None:
    from gpuprof.hardware.library import SpecLibrary

    library = SpecLibrary()
    names = {reason for capability in ("7.0", "8.0", "9.0", "10.0", "12.0") for reason in _reasons(library, capability)}
    assert names <= STALL_COLOURS.keys()
    assert len(set(STALL_COLOURS.values())) == len(STALL_COLOURS)


def _reasons(library: object, capability: str) -> tuple[str, ...]:
    from gpuprof.hardware.library import SpecLibrary

    assert isinstance(library, SpecLibrary)
    arch = library.arch_of(capability)
    return arch.stalls if arch is not None else ()


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
    assert sorted(path.name for path in folder.iterdir()) == ["roofline.html", "roofline.png", "roofline.svg"]
    assert "0  kernel_0   20 %  FP32  2.50 FLOP/B  1.00 TFLOP/s         40 %  memory" in out.splitlines()
    assert err.splitlines()[-1].startswith("wrote roofline.svg, roofline.png, roofline.html to ")
    assert "next: gpuprof show" in err.splitlines()[-1]


@each_row("name", ["mine.png", "mine.SVG", "mine.html"])
def test_roofline_writes_one_file_where_the_ending_names_its_kind(saved: str, tmp_path: Path, name: str) -> None:
    _, err = run("roofline", saved, "-o", str(tmp_path / "new" / name))
    assert [path.name for path in (tmp_path / "new").iterdir()] == [name]
    start = (tmp_path / "new" / name).read_bytes()[:200]
    assert start.startswith({"png": b"\x89PNG", "SVG": b"<?xml", "html": b"<!DOCTYPE html>"}[name.split(".")[1]])
    assert f"wrote {name} to" in err


def test_an_input_is_never_replaced(saved: str) -> None:
    before = Path(saved).read_bytes()
    for command in (["report", saved, "-o", saved], ["report", saved, "-o", saved, "--force"]):
        with pytest.raises(UsageError, match="is an input"):
            run(*command)
    assert Path(saved).read_bytes() == before


def test_roofline_of_one_kernel_has_all_its_levels(saved: str, tmp_path: Path) -> None:
    out, _ = run("roofline", saved, "--kernel", "kernel_0", "-o", str(tmp_path / "one"))
    assert re.findall(r"FP32  (\w+) +[\d.]+ FLOP/B", out) == ["L1", "L2", "DRAM"]


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
    out, err = run("roofline", str(path), "-o", str(tmp_path / "figures"))
    assert "work not collected; collect with ncu --set full." in " ".join(out.split())
    assert "note: no kernel has a roofline point" in err
    assert (tmp_path / "figures" / "roofline.svg").exists()


@each_row(
    ("options", "why", "how"),
    [
        ("--ceiling measured", "no measured ceiling known", "gpuprof characterize measures them on that GPU"),
        ("--ceiling measured --kernel #0", "no measured ceiling known", "gpuprof characterize measures"),
        ("--ceiling rated --level l2", "datasheets rate no L2 bandwidth", "choose --ceiling at-clock"),
        ("--ceiling measured --format json", "no measured ceiling known", "gpuprof characterize measures"),
    ],
)
def test_a_ceiling_that_no_kernel_has_is_an_error_and_draws_nothing(
    saved: str, tmp_path: Path, options: str, why: str, how: str
) -> None:
    with pytest.raises(UsageError, match=why) as error:
        run("roofline", saved, *options.split(), "-o", str(tmp_path / "figures"))
    assert (error.value.hint or "").startswith(how)
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
    run("report", saved, "-o", str(tmp_path / "one.html"), "--kernel", "kernel_0")
    outline = Outline((tmp_path / "one.html").read_text(encoding="utf-8"))
    assert "row-0" in outline.ids and "row-1" not in outline.ids
    assert any(text.startswith("2 kernels: 5.00 ms of GPU time") for text in outline.texts)


def test_report_says_how_to_read_the_page_again(saved: str, tmp_path: Path) -> None:
    out, err = run("report", saved, "-o", str(tmp_path / "a page.html"))
    assert out.startswith("kernel_1, 80 % of the time, ") and "\n2 kernels: 5.00 ms of GPU time" in out
    assert f"gpuprof show '{tmp_path / 'a page.html'}'" in err


def test_equal_launches_are_one_row(tmp_path: Path) -> None:
    path = tmp_path / "twins.session.json"
    twins = session(*(kernel(number, {"fp32": 1e9}, {"dram": 1e9}, label="gemm") for number in range(3)))
    path.write_text("\n".join(session_lines(twins)), encoding="utf-8")
    run("report", str(path), "-o", str(tmp_path / "twins.html"))
    page = (tmp_path / "twins.html").read_text(encoding="utf-8")
    assert page.count('<tr id="row-') == 1
    assert "3 launches" in Outline(page).texts


def test_kernel_that_nothing_matches_is_a_usage_error(saved: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kernel matches 'nothing'"):
        run("roofline", saved, "--kernel", "nothing", "-o", str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


def test_a_spec_alone_gives_a_page_of_its_roofs() -> None:
    page = render_html(load_spec("l4"))
    assert "No kernel was profiled: these are the ceilings of an NVIDIA L4 by its spec." in page
    assert "FP32 30.3 TFLOP/s rated" in page and "300 GB/s" in page
    assert 'id="kernels"' not in page


def test_demo_writes_the_page_of_a_report(saved: str, tmp_path: Path) -> None:
    out, err = run("demo", saved, "-o", str(tmp_path / "demo"))
    assert out.startswith("kernel_1, 80 % of the time, ") and "\n2 kernels: 5.00 ms of GPU time" in out
    assert "wrote" in err
    assert (tmp_path / "demo" / "report.html").stat().st_size > 10_000


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UsageError, match="not a regular file"):
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
    with pytest.raises(UsageError, match="is a folder"):
        write_files({tmp_path / "new" / "a.svg": b"a", tmp_path / "taken": b"b"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["taken"]


def test_folder_that_cannot_be_made_is_a_usage_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write") as caught:
        write_files({tmp_path / "file" / "deep" / "a.html": b""})
    assert caught.value.hint == "choose another place with -o"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_a_usage_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        write_files({tmp_path / "a.html": b""})


def test_new_files_get_the_permissions_of_the_user(tmp_path: Path) -> None:
    write_files({tmp_path / "a.html": b"x"})
    (tmp_path / "b.html").write_bytes(b"x")
    assert (tmp_path / "a.html").stat().st_mode == (tmp_path / "b.html").stat().st_mode
