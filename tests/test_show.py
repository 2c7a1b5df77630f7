"""`gpuprof show` and the errors around it, as a user meets them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuprof.api import load_spec
from gpuprof.present.html import render_html
from tests import builders, ncu_bytes
from tests.cli import gpuprof, process
from tests.conftest import REPORTS
from tests.table import each_row

HOSTILE = 'evil<"\x1b[31m|`$(x)`\u202e>'


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A small report of our own making: the hand-worked FP32 kernel and a hostile name."""
    work = dict(builders.FLOP_1) | {"gpu__time_duration.sum": 1000.0}
    path = tmp_path / "small.ncu-rep"
    path.write_bytes(
        ncu_bytes.simple_report([("saxpy", {**ncu_bytes.A100, **work}), (HOSTILE, {"gpu__time_duration.sum": 3000.0})])
    )
    return path


def test_the_table_fits_80_columns_and_has_no_colour_when_piped(report: Path) -> None:
    done = gpuprof("show", report)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "\x1b" not in done.stdout and "\u202e" not in done.stdout
    assert done.stdout.startswith("evil")
    assert "\n2 kernels: 4.00 µs of GPU time on " in done.stdout
    assert "saxpy" in done.stdout


def test_json_is_the_contract_on_stdout_alone(report: Path) -> None:
    done = gpuprof("show", "--format", "json", "--sort", "launch", report)
    session = json.loads(done.stdout)
    assert done.stderr == ""
    assert session["schema_version"] == 2
    assert [kernel["name"] for kernel in session["kernels"]] == ["saxpy", HOSTILE]
    assert session["devices"][0]["spec"] == "a100-80gb-pcie"


def test_csv_and_markdown_keep_hostile_names_in_their_cell(report: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(gpuprof("show", "--format", "csv", report).stdout)))
    assert len(rows) == 2
    assert "\x1b" not in rows[1]["name"]
    markdown = gpuprof("show", "--format", "md", report).stdout
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 10 for line in table)
    assert "<" not in re.sub(r"\\<", "", markdown)


def test_kernels_are_picked_by_name_or_number_and_sorted(report: Path) -> None:
    assert "#0 saxpy" in gpuprof("show", "--kernel", "^sax", report).stdout
    assert "#1 " in gpuprof("show", "--kernel", "#1", report).stdout
    by_launch = json.loads(gpuprof("show", "--format", "json", "--sort", "launch", report).stdout)
    by_time = json.loads(gpuprof("show", "--format", "json", "--sort", "time", report).stdout)
    assert [kernel["id"] for kernel in by_launch["kernels"]] == [0, 1]
    assert [kernel["id"] for kernel in by_time["kernels"]] == [1, 0]


def test_a_session_written_as_json_is_shown_again_the_same(report: Path, tmp_path: Path) -> None:
    saved = tmp_path / "session.json"
    saved.write_text(gpuprof("show", "--format", "json", "--sort", "launch", report).stdout, encoding="utf-8")
    assert gpuprof("show", saved).stdout == gpuprof("show", report).stdout


def test_a_file_named_twice_does_not_count_twice(report: Path) -> None:
    done = gpuprof("show", report, report)
    assert done.returncode == 5 and "is given twice" in done.stderr


def test_two_reports_are_one_run(report: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ncu-rep"
    other.write_bytes(report.read_bytes())
    done = gpuprof("show", "--format", "json", report, other)
    session = json.loads(done.stdout)
    assert sorted(kernel["source"] for kernel in session["kernels"]) == [0, 0, 1, 1]
    assert len(session["sources"]) == 2
    assert sum(kernel["time_share"] for kernel in session["kernels"]) == pytest.approx(1)


@each_row("options", [[], ["--format", "json"], ["--kernel", "zz"]])
def test_a_process_of_its_own_prints_and_ends_as_the_one_of_the_tests(report: Path, options: list[str]) -> None:
    here, there = gpuprof("show", *options, report), process("show", *options, report)
    assert (here.returncode, here.stdout, here.stderr) == (there.returncode, there.stdout, there.stderr)
    assert there.returncode == (2 if "zz" in options else 0) and there.stdout + there.stderr


def test_a_locale_without_unicode_is_no_obstacle(report: Path) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = process("show", report, environ={**os.environ, **ascii_only})
    assert done.returncode == 0, done.stderr
    assert "saxpy" in done.stdout


def test_csv_has_its_header_where_there_is_no_kernel(report: Path, tmp_path: Path) -> None:
    whole = gpuprof("show", "--format", "csv", report).stdout.splitlines()
    data = json.loads(gpuprof("show", "--format", "json", report).stdout)
    empty = data | {"kernels": [], "opportunities": [], "verdict": None, "run": None}
    (tmp_path / "session.json").write_text(json.dumps(empty))
    done = gpuprof("show", "--format", "csv", tmp_path / "session.json")
    assert done.returncode == 0, done.stderr
    header = [name for name in whole[0].split(",") if not name.startswith("flop_")]
    assert done.stdout.splitlines() == [",".join(header)]


def test_csv_can_be_piped_in() -> None:
    text = '"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","usecond"\n"0","1","k()","5"\n'
    done = gpuprof("show", "--format", "json", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernels"][0]["duration_s"] == pytest.approx(5e-6)


FILES = {
    "h200.measured.yaml": (b"schema: 1\nkind: measured\n", "it describes a GPU, not a program"),
    "h200.samples.jsonl": (b'{"gpuprof": 1}\n', "it describes a GPU, not a program"),
    "lfs.ncu-rep": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS pointer"),
    "empty.ncu-rep": (b"", "is empty"),
    "text.ncu-rep": (b"hello", "does not start with NVR"),
    "trace.nsys-rep": (b"\x00\x01", "Nsight Systems report"),
    "db.sqlite": (b"SQLite format 3\0....", "has 20 of 100 bytes"),
    "trace.json.gz": (b"\x1f\x8b\x08....", "compressed"),
    "packed.ncu-repz": (b"PK\x03\x04", "is a compressed archive"),
    "noise.bin": (b"ab\0cd", "binary data"),
    "log.txt": (b"==ERROR== The application returned an error code (2).\n", "error code"),
    "other.json": (b'{"a": 1}', "not a gpuprof session"),
    "list.json": (b" [1]", "JSON, but not a gpuprof session: it is a list"),
    "profile.json": (b'{"schemaVersion": 1, "traceEvents": []}', "without GPU activity"),
    "late.json": (b'{"a": 1,' + b" " * 5000 + b'"traceEvents": []}', "without GPU activity"),
    "events.json": (b'[{"name": "k", "ph": "X"}]', "without GPU activity"),
    "profile.json.gz": (gzip.compress(b'{"deviceProperties": [], "traceEvents": []}'), "without GPU activity"),
    "log-with-brackets.txt": (b"[INFO] start\n", "is not output of ncu"),
}


@each_row("name", sorted(FILES))
def test_a_file_that_is_no_report_is_named_for_what_it_is(name: str, tmp_path: Path) -> None:
    content, words = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    done = gpuprof("show", path)
    assert done.returncode == 5
    assert words in done.stderr and name in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


def test_a_missing_file_and_a_directory_say_what_to_do(tmp_path: Path, report: Path) -> None:
    missing = gpuprof("show", tmp_path / "nope.ncu-rep")
    assert missing.returncode == 5
    assert "nope.ncu-rep: no such file" in missing.stderr and "small.ncu-rep" in missing.stderr
    folder = gpuprof("show", report.parent)
    assert folder.returncode == 5 and "is a folder" in folder.stderr


@each_row(
    "arguments",
    [
        ["show"],
        ["show", "--format", "yaml", "x"],
        ["nonsense"],
        ["show", "--kernel", "(", "{report}"],
        ["show", "--kernel", "zz", "{report}"],
    ],
)
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], report: Path) -> None:
    done = gpuprof(*(argument.format(report=report) for argument in arguments))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_what_is_there_instead_is_listed_the_way_it_was_asked_for(report: Path, tmp_path: Path) -> None:
    assert "hint: there are: #0 saxpy; #1 evil" in gpuprof("show", "--explain", "#99", report).stderr
    assert "hint: there are: saxpy; evil" in gpuprof("show", "--kernel", "zz", report).stderr
    (tmp_path / "roofs.html").write_text(render_html(load_spec("l4")), encoding="utf-8")
    nothing = gpuprof("show", "--kernel", ".", tmp_path / "roofs.html")
    assert nothing.returncode == 2
    assert nothing.stderr == "error: no kernel matches '.': no kernel was profiled\n"


def test_a_part_of_a_run_reads_back_with_the_same_figures(report: Path, tmp_path: Path) -> None:
    part = gpuprof("show", "--kernel", "sax", report).stdout.splitlines()[:2]
    assert part[0].startswith("saxpy ") and part[1] == gpuprof("show", report).stdout.splitlines()[1]
    saved, page = tmp_path / "part.json", tmp_path / "part.html"
    saved.write_text(gpuprof("show", "--kernel", "sax", "--format", "json", report).stdout, encoding="utf-8")
    gpuprof("report", report, "--kernel", "sax", "-o", page)
    for again in (saved, page):
        assert gpuprof("show", again).stdout.splitlines()[:2] == part


@each_row("force", [[], ["--force"]])
def test_a_folder_is_no_page(report: Path, tmp_path: Path, force: list[str]) -> None:
    done = gpuprof("report", report, "-o", tmp_path, *force)
    assert done.returncode == 2
    assert f"error: {tmp_path} is a folder\nhint: name a file in it with -o" in done.stderr


def test_what_to_type_next_can_be_typed(report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "read it here: gpuprof show ./-o.html\n" in gpuprof("report", report, "-o", "-o.html").stderr
    shown = gpuprof("show", "./-o.html")
    assert shown.returncode == 0 and shown.stderr.startswith("next: gpuprof show ./-o.html --kernel ")
    dashed = gpuprof("show", "--", "-o.html")
    assert dashed.returncode == 0 and dashed.stderr == shown.stderr


def test_help_says_that_a_page_can_be_read() -> None:
    for command in ("show", "roofline"):
        assert "a page of gpuprof report (.html)" in " ".join(gpuprof(command, "--help").stdout.split())


def test_an_unknown_gpu_spec_names_near_ones(report: Path) -> None:
    done = gpuprof("show", "--spec", "a100-80gb", report)
    assert done.returncode == 5
    assert "a100-80gb-pcie" in done.stderr


def test_the_spec_of_another_architecture_is_refused(report: Path) -> None:
    done = gpuprof("show", "--spec", "h100-sxm", report)
    assert done.returncode == 5 and "sm_90" in done.stderr and "sm_80" in done.stderr


def test_damage_is_exit_code_5_and_salvage_shows_the_rest(report: Path) -> None:
    report.write_bytes(report.read_bytes()[:-9])
    refused = gpuprof("show", report)
    assert refused.returncode == 5 and "is damaged: at byte" in refused.stderr
    two = ncu_bytes.report(
        ncu_bytes.block([ncu_bytes.launch("kept", {0: 5.0})], ["gpu__time_duration.sum"]),
        ncu_bytes.block([ncu_bytes.launch("lost", {0: 5.0})]),
    )
    report.write_bytes(two[:-9])
    salvaged = gpuprof("show", "--salvage", report)
    assert salvaged.returncode == 0, salvaged.stderr
    assert "kept" in salvaged.stdout and "lost" not in salvaged.stdout
    assert "1 kernel could be read" in " ".join(salvaged.stdout.split())


def test_help_imports_no_heavy_module() -> None:
    code = (
        "import sys, gpuprof.cli.main as m; m.cli.main(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("'numpy'", "'pandas'", "'rich'", "'matplotlib'", "'yaml'", "'jinja2'"):
        assert heavy not in done.stdout


def test_json_imports_neither_numpy_nor_pandas_nor_rich(report: Path) -> None:
    code = (
        "import sys, gpuprof.cli.main as m;"
        "m.cli.main(['show', '--format', 'json', sys.argv[1]], standalone_mode=False);"
        "sys.stderr.write(repr(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(report)], capture_output=True, text=True, check=True)
    for heavy in ("'numpy'", "'pandas'", "'rich'", "'matplotlib'", "'jinja2'"):
        assert heavy not in done.stderr


@each_row(
    ("options", "pair"),
    [
        ("--format json -v", "--format json and -v"),
        ("--format md -v", "--format md and -v"),
        ("--format md --items-per-step 4", "--format md and --items-per-step"),
        ("--format csv --top 1", "--format csv and --top"),
        ("--explain #0 --format json --top 1", "--explain and --top"),
        ("--explain #0 -v", "--explain and -v"),
        ("--explain #0 --items-per-step 4", "--explain and --items-per-step"),
        ("--explain #0 --sort launch", "--explain and --sort"),
        ("--by kernel -v", "--by and -v"),
    ],
)
def test_an_option_that_would_be_ignored_is_refused(report: Path, options: str, pair: str) -> None:
    done = gpuprof("show", report, *options.split())
    first, _, second = pair.partition(" and ")
    told = f"error: {pair} cannot be combined\nhint: leave out {first} or {second}\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", told)


@each_row("options", ["--format csv --top 0", "--format md --top 1", "--explain #0 --format json"])
def test_options_that_say_what_is_printed_are_taken(report: Path, options: str) -> None:
    assert gpuprof("show", report, *options.split()).returncode == 0


def test_several_kernels_are_all_shown_and_a_pattern_that_names_none_is_told(tmp_path: Path) -> None:
    report = tmp_path / "three.ncu-rep"
    names = ("gemm", "conv", "relu")
    report.write_bytes(ncu_bytes.simple_report([(name, {"gpu__time_duration.sum": 1000.0}) for name in names]))
    rows = gpuprof("show", report, "--format", "csv", "--kernel", "#0", "--kernel", "#2").stdout.splitlines()
    assert [row.split(",")[0] for row in rows[1:]] == ["0", "2"]
    told = gpuprof("show", report, "--kernel", "#0", "--kernel", "nope", "--format", "csv")
    assert len(told.stdout.splitlines()) == 2 and told.stderr == "--kernel 'nope' matches no kernel\n"
    none = gpuprof("show", report, "--kernel", "#7", "--kernel", "nope")
    assert none.returncode == 2 and none.stderr.startswith("error: no kernel matches '#7' or 'nope'\n")
    drawn = gpuprof("roofline", report, "--kernel", "#0", "--kernel", "#2", "--format", "json").stdout
    assert [group["kernels"] for figure in json.loads(drawn)["figures"] for group in figure["left_out"]] == [[0, 2]]


@each_row("command", ["report", "roofline"])
def test_a_second_place_to_write_to_is_refused(report: Path, tmp_path: Path, command: str) -> None:
    done = gpuprof(command, report, "-o", "one.html", "-o", "two.html", cwd=tmp_path)
    told = "error: -o names two places: one.html and two.html\nhint: name one of them\n"
    assert (done.returncode, done.stderr) == (2, told)
    assert list(tmp_path.glob("*.html")) == []


@each_row("form", ["csv", "json"])
def test_the_top_of_a_configuration_does_not_shorten_what_has_every_launch(
    report: Path, tmp_path: Path, form: str
) -> None:
    whole = gpuprof("show", report, "--format", form, "--no-config", cwd=tmp_path)
    (tmp_path / "gpuprof.toml").write_text("top = 1\n")
    assert gpuprof("show", report, "--format", form, cwd=tmp_path).stdout == whole.stdout


def test_items_are_of_steps_and_refused_without_them(report: Path) -> None:
    done = gpuprof("show", report, "--items-per-step", "4")
    assert done.returncode == 2 and done.stderr.startswith("error: --items-per-step: no steps were recorded")


def test_a_closed_pipe_is_no_error(report: Path) -> None:
    command = f"{sys.executable} -m gpuprof show --format json {report} | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr and "error" not in done.stderr


@each_row(("closed", "code"), [((0,), 0), ((2,), 0), ((1,), 2), ((1, 2), 2), ((0, 1, 2), 2)])
def test_a_closed_stdout_is_an_error_and_other_closed_streams_are_none(
    report: Path, tmp_path: Path, closed: tuple[int, ...], code: int
) -> None:
    page = tmp_path / "page.html"
    done = gpuprof("report", report, "-o", page, onto=dict.fromkeys(closed))
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    assert page.stat().st_size > 10_000
    assert ("cannot write standard output: it is closed" in done.stderr) == (closed == (1,))


@each_row(
    "line", ["show {}", "show {} --format json", "show {} --format csv", "compare {} {}", "specs list", "specs",
             "--help", "--version", "doctor", "characterize --list"],
)  # fmt: skip
def test_what_prints_a_result_fails_where_stdout_is_closed(report: Path, line: str) -> None:
    done = gpuprof(*line.format(report, report).split(), onto={1: None})
    assert done.returncode == 2
    assert done.stderr.endswith("error: cannot write standard output: it is closed\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@each_row("line", ["show {}", "report {} --force -o {}.html", "roofline {} --force -o {}.svg"])
def test_a_stderr_that_takes_nothing_changes_no_exit_code(report: Path, tmp_path: Path, line: str) -> None:
    copy = shutil.copy(report, tmp_path / "a.ncu-rep")
    whole = gpuprof(*line.format(copy, copy).split())
    with Path("/dev/full").open("wb") as full:
        done = gpuprof(*line.format(copy, copy).split(), onto={2: full.fileno()})
    assert whole.stderr and (done.returncode, done.stdout) == (0, whole.stdout)


def test_a_process_without_streams_writes_what_it_should(report: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    command = f"{sys.executable} -m gpuprof report {report} -o {page} >&- 2>&- <&-"
    assert subprocess.run(["bash", "-c", command], check=False).returncode == 2
    assert page.stat().st_size > 10_000


def test_a_named_pipe_is_read_once(report: Path) -> None:
    text = gpuprof("show", "--format", "json", "--sort", "launch", report).stdout
    with piped(text.encode()) as name:
        done = gpuprof("show", "--format", "json", "--sort", "launch", name)
    assert done.stdout == text, done.stderr
    with piped(report.read_bytes()) as name:
        done = gpuprof("show", "--format", "json", "--sort", "launch", name)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernels"] == json.loads(text)["kernels"]


@contextmanager
def piped(data: bytes) -> Iterator[str]:
    """Give the name of a pipe with that in it, as a shell does for `<(command)`."""
    assert len(data) < 2**16, "a pipe holds no more"
    readable, writable = os.pipe()
    os.write(writable, data)
    os.close(writable)
    yield f"/dev/fd/{readable}"
    os.close(readable)


def test_a_name_of_any_length_is_read_from_a_csv() -> None:
    name = "k" * 200_000
    text = f'"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","nsecond"\n"0","1","{name}","1000"\n'
    done = gpuprof("show", "--format", "json", "-", stdin=text)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kernels"][0]["demangled"] == name


@each_row("pattern", ["a{999999999999}", "#" + "9" * 5000, "(" * 5000 + ")" * 5000, "[[b]z"])
def test_an_odd_pattern_is_a_usage_error(report: Path, pattern: str) -> None:
    done = gpuprof("show", "--kernel", pattern, report)
    assert done.returncode == 2, done.stderr
    assert "Warning" not in done.stderr and len(done.stderr) < 1000


@pytest.mark.skipif(not REPORTS.is_dir(), reason="no real reports lie beside the checkout (../shared/reports)")
@each_row("name", ["rtx5090-details.csv", "rtx5090-roofline-section.csv", "bert-torch-details.csv"])
def test_real_csv_exports_are_shown(name: str) -> None:
    done = gpuprof("show", REPORTS / "csv" / name)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
