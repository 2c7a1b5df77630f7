"""`gpuprof show` and the errors around it, as a user meets them."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuprof.api import load_spec
from gpuprof.views.profile import session_page
from tests import builders, ncu_bytes
from tests.cli import gpuprof
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


def test_json_is_the_contract_on_stdout_alone(report: Path) -> None:
    done = gpuprof("show", "--format", "json", "--sort", "launch", report)
    session = json.loads(done.stdout)
    assert done.stderr == ""
    assert session["schema_version"] == 3
    assert [kernel["name"] for kernel in session["kernels"]] == ["saxpy", HOSTILE]
    assert session["devices"][0]["spec"] == "a100-80gb-pcie"


def test_csv_and_markdown_keep_hostile_names_in_their_cell(report: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(gpuprof("show", "--format", "csv", report).stdout)))
    assert len(rows) == 2
    assert "\x1b" not in rows[1]["name"]
    markdown = gpuprof("show", "--format", "md", report).stdout
    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
    assert "<" not in re.sub(r"\\<", "", markdown)


def test_a_session_written_as_json_is_shown_again_the_same(report: Path, tmp_path: Path) -> None:
    saved = tmp_path / "session.json"
    saved.write_text(gpuprof("show", "--format", "json", "--sort", "launch", report).stdout, encoding="utf-8")
    assert gpuprof("show", saved).stdout == gpuprof("show", report).stdout


def test_two_reports_are_one_run(report: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.ncu-rep"
    other.write_bytes(report.read_bytes())
    done = gpuprof("show", "--format", "json", report, other)
    session = json.loads(done.stdout)
    assert sorted(kernel["source"] for kernel in session["kernels"]) == [0, 0, 1, 1]
    assert len(session["sources"]) == 2
    assert sum(kernel["time_share"] for kernel in session["kernels"]) == pytest.approx(1)
    assert gpuprof("show", report, report).returncode == 5


def test_csv_can_be_piped_in_and_names_have_any_length(report: Path, tmp_path: Path) -> None:
    for name in ("k()", "k" * 200_000):
        text = f'"ID","Process ID","Kernel Name","gpu__time_duration.sum"\n"","","","usecond"\n"0","1","{name}","5"\n'
        done = gpuprof("show", "--format", "json", "-", stdin=text)
        assert done.returncode == 0, done.stderr
        (kernel,) = json.loads(done.stdout)["kernels"]
        assert kernel["duration_s"] == pytest.approx(5e-6) and kernel["demangled"] == name
    header = gpuprof("show", "--format", "csv", report).stdout.splitlines()[0]
    data = json.loads(gpuprof("show", "--format", "json", report).stdout)
    empty = data | {"kernels": [], "recommendations": [], "verdict": None, "run": None}
    (tmp_path / "session.json").write_text(json.dumps(empty))
    done = gpuprof("show", "--format", "csv", tmp_path / "session.json")
    of_kernels = re.compile("flop_|.*__")
    assert done.stdout.split("\n") == [",".join(n for n in header.split(",") if not of_kernels.match(n)), ""]


FILES = {
    "h200.measured.yaml": b"schema: 1\nkind: measured\n",
    "h200.samples.jsonl": b'{"gpuprof": 1}\n',
    "lfs.ncu-rep": b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n",
    "empty.ncu-rep": b"",
    "text.ncu-rep": b"hello",
    "trace.nsys-rep": b"\x00\x01",
    "db.sqlite": b"SQLite format 3\0....",
    "trace.json.gz": b"\x1f\x8b\x08....",
    "packed.ncu-repz": b"PK\x03\x04",
    "noise.bin": b"ab\0cd",
    "log.txt": b"==ERROR== The application returned an error code (2).\n",
    "other.json": b'{"a": 1}',
    "list.json": b" [1]",
    "profile.json": b'{"schemaVersion": 1, "traceEvents": []}',
    "late.json": b'{"a": 1,' + b" " * 5000 + b'"traceEvents": []}',
    "events.json": b'[{"name": "k", "ph": "X"}]',
    "profile.json.gz": gzip.compress(b'{"deviceProperties": [], "traceEvents": []}'),
    "log-with-brackets.txt": b"[INFO] start\n",
}


@each_row("name", sorted(FILES))
def test_a_file_that_is_no_report_is_refused_by_its_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    done = gpuprof("show", path)
    assert done.returncode == 5
    assert done.stderr.startswith("error: ") and name in done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


@each_row(
    ("code", "line", "named"),
    [
        (2, "show", ""), (2, "show --format yaml x", ""), (2, "nonsense", ""), (2, "show --kernel ( {}", "'('"),
        (2, "show --kernel zz {}", "saxpy; evil"), (2, "show --explain #99 {}", "#0 saxpy; #1 evil"),
        (2, "show --kernel . {}.html", "'.'"), (2, "show --kernel [[b]z {}", ""),
        (2, "show --kernel a{{999999999999}} {}", ""), (2, f"show --kernel #{'9' * 5000} {{}}", ""),
        (2, f"show --kernel {'(' * 5000}{')' * 5000} {{}}", ""), (2, "show --items-per-step 4 {}", "--items-per-step"),
        (2, "report {} -o .", "folder"), (2, "report {} -o . --force", "folder"),
        (2, "report {} -o a.html -o b.html", "a.html and b.html"), (2, "roofline {} -o a.svg -o b.svg", "a.svg and b"),
        (5, "show --spec a100-80gb {}", "a100-80gb-pcie"), (5, "show --spec h100-sxm {}", "sm_80"),
        (5, "show nope.ncu-rep", "small.ncu-rep"), (5, "show .", "small.ncu-rep"),
        (0, "show --format csv --top 0 {}", ""), (0, "show --format md --top 1 {}", ""),
        (0, "show --explain #0 --format json {}", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_exit_code_and_names_what_there_is(
    code: int, line: str, named: str, report: Path
) -> None:
    (report.parent / f"{report.name}.html").write_text(session_page(load_spec("l4")), encoding="utf-8")
    before = sorted(report.parent.iterdir())
    done = gpuprof(*(word.format(report.name) for word in line.split()), cwd=report.parent)
    assert done.returncode == code, done.stderr
    assert named in done.stderr and "Traceback" not in done.stderr and "Warning" not in done.stderr
    assert len(done.stderr) < 1000 and sorted(report.parent.iterdir()) == before


def test_a_part_of_a_run_reads_back_with_the_same_figures(report: Path, tmp_path: Path) -> None:
    part = gpuprof("show", "--kernel", "sax", report).stdout.splitlines()[:2]
    assert part[0].startswith("saxpy ") and part[1] == gpuprof("show", report).stdout.splitlines()[1]
    saved, page = tmp_path / "part.json", tmp_path / "part.html"
    saved.write_text(gpuprof("show", "--kernel", "sax", "--format", "json", report).stdout, encoding="utf-8")
    gpuprof("report", report, "--kernel", "sax", "-o", page)
    for again in (saved, page):
        assert gpuprof("show", again).stdout.splitlines()[:2] == part


def test_damage_is_exit_code_5_and_salvage_shows_the_rest(report: Path) -> None:
    report.write_bytes(report.read_bytes()[:-9])
    refused = gpuprof("show", report)
    assert refused.returncode == 5 and re.search(r"at byte \d+", refused.stderr)
    two = ncu_bytes.report(
        ncu_bytes.block([ncu_bytes.launch("kept", {0: 5.0})], ["gpu__time_duration.sum"]),
        ncu_bytes.block([ncu_bytes.launch("lost", {0: 5.0})]),
    )
    report.write_bytes(two[:-9])
    salvaged = gpuprof("show", "--salvage", report)
    assert salvaged.returncode == 0, salvaged.stderr
    assert "kept" in salvaged.stdout and "lost" not in salvaged.stdout


def test_a_closed_pipe_is_no_error(report: Path) -> None:
    command = f"{sys.executable} -m gpuprof show --format json {report} | head -c 10"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr and "error" not in done.stderr


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
