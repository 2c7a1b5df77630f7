"""`gpuprof check` on the command line: options, outputs, what is refused, what is said on stderr."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuprof.cli.check_progress import CodeProgress
from gpuprof.errors import DamagedInput, UsageError
from gpuprof.review import review as reviewing
from gpuprof.review.contract import Review
from gpuprof.review.inputs.request import ReviewRequest
from tests import reviews as made
from tests.cli import Done, gpuprof
from tests.table import each_row

Asked = list[ReviewRequest]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asked:
    """What was asked to be reviewed, of an answer that is made up; in a folder with a file."""
    requests: Asked = []

    def answer(request: ReviewRequest, version: str, progress: Callable[[int, int], None], _: object) -> Review:
        requests.append(request)
        progress(1, 2)
        return made.review(
            made.kernel(0), made.kernel(1, made.finding(), label="gemm"), files=request.files, gpuprof_version=version
        )

    monkeypatch.setattr(reviewing, "review", answer)
    (tmp_path / "k.cu").write_text("__global__ void k() {}\n")
    return requests


def check(folder: Path, *words: str, **environ: str) -> Done:
    return gpuprof("check", *words, cwd=folder, environ={**os.environ, "COLUMNS": "100", **environ})


def test_all_options_become_a_request(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    done = check(
        tmp_path, "k.cu", "--arch", "sm_80,9.0", "--arch", "100", "-D", "N=4", "-DFAST", "-I", "include",
        "--std", "c++20", "--flag=-use_fast_math", "--flag", "-maxrregcount=64", "--block", "16,16",
        "--grid", "64", "--dynamic-shared", "48KiB", "--arg", "3=0x10", "--arg", "n=4Ki", "--kernel", "gemm",
    )  # fmt: skip
    assert done.returncode == 0
    assert [replace(request, in_time=nullcontext) for request in asked] == [
        ReviewRequest(
            files=("k.cu",),
            targets=("sm_80", "sm_90", "sm_100"),
            kernel="gemm",
            block=(16, 16, 1),
            grid=(64, 1, 1),
            dynamic_shared_bytes=49152,
            arguments={"3": 16, "n": 4096},
            defines=("N=4", "FAST"),
            include_folders=("include",),
            standard="c++20",
            flags=("-use_fast_math", "-maxrregcount=64"),
        )
    ]


def test_a_kernel_can_be_named_by_its_number(asked: Asked, tmp_path: Path) -> None:
    check(tmp_path, "k.cu", "--kernel", "#7")
    assert asked[0].kernel == "#7"


def test_the_terminal_ends_with_a_command_that_shows_more_of_the_first_kernel(asked: Asked, tmp_path: Path) -> None:
    done = check(tmp_path, "k.cu", "--block", "16,16,1", "--arch", "90", "--arg", "n=4096")
    assert done.stdout.startswith("k.cu for sm_90: 2 kernels, 1 finding in 1 of them\n\n#1 gemm  sm_90, block 256\n")
    assert done.stderr == "next: gpuprof check k.cu --arch sm_90 --block 16,16 --arg n=4096 --kernel '#1'\n"
    assert len(asked) == 1


def test_where_no_block_is_known_the_next_command_gives_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    kernel = made.kernel(block=None, occupancy=None)
    monkeypatch.setattr(reviewing, "review", lambda *_: made.review(kernel))
    assert check(tmp_path, "-k.cubin").returncode == 2
    assert check(tmp_path, "./-k.cubin").stderr == "next: gpuprof check ./-k.cubin --block 256\n"


@each_row("words", [("-v",), ("--kernel", "gemm"), ("--format", "md"), ("--format", "json")])
def test_what_is_told_in_depth_or_to_programs_has_no_next_command(
    asked: Asked, tmp_path: Path, words: tuple[str, ...]
) -> None:
    assert check(tmp_path, "k.cu", *words).stderr == ""
    assert len(asked) == 1


def test_every_format_goes_to_stdout_and_to_files_by_their_endings(asked: Asked, tmp_path: Path) -> None:
    done = check(tmp_path, "k.cu", "-o", "out/a.json", "-o", "b.md", "-o", "c.html", "--format", "json")
    assert done.stderr == "wrote out/a.json, b.md, c.html\n"
    assert json.loads(done.stdout) == json.loads((tmp_path / "out" / "a.json").read_text())
    assert (tmp_path / "b.md").read_text().startswith("<!-- gpuprof-check -->\n")
    assert (tmp_path / "c.html").read_text().lower().startswith("<!doctype html>\n")
    assert asked[0].files == ("k.cu",)


def test_a_page_that_goes_to_a_file_is_not_printed_too(asked: Asked, tmp_path: Path) -> None:
    done = check(tmp_path, "k.cu", "--format", "html", "-o", "c.html")
    assert (done.stdout, done.stderr) == ("", "wrote c.html\n")
    assert "<html" in check(tmp_path, "k.cu", "--format", "html", "-o", "a.json").stdout
    assert len(asked) == 2


def test_a_file_that_exists_is_replaced_only_with_force_and_an_input_never(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    done = check(tmp_path, "k.cu", "-o", "a.json")
    assert (done.returncode, asked) == (2, [])
    assert done.stderr == "error: a.json already exists\nhint: choose another name, or add --force\n"
    assert (tmp_path / "a.json").read_text() == "mine"
    assert check(tmp_path, "k.cu", "-o", "a.json", "--force").returncode == 0
    assert (tmp_path / "a.json").read_text() != "mine"
    assert "is an input" in check(tmp_path, "a.json", "-o", "a.json", "--force").stderr


@each_row(
    ("words", "message"),
    [
        ("", "gpuprof check needs a file"),
        ("k.cu ./k.cu", "./k.cu is given twice"),
        ("k.cu --arch sm_42", "--arch 'sm_42' is not an architecture that gpuprof knows"),
        ("k.cu --arch hopper", "--arch 'hopper' is not an architecture"),
        ("k.cu --arch sm_80,", "--arch '' is not an architecture"),
        ("k.cu --block 2048", "--block 2048: x is 2048"),
        ("k.cu --block 64,64", "--block 64,64,1 has 4096 threads"),
        ("k.cu --block 0", "--block 0: x is 0"),
        ("k.cu --block a", "--block a is not X, X,Y or X,Y,Z"),
        ("k.cu --grid 1,65536", "--grid 1,65536: y is 65536"),
        ("k.cu --grid 1,1,1,1", "--grid 1,1,1,1 is not X, X,Y or X,Y,Z"),
        ("k.cu --dynamic-shared 48kB/s", "--dynamic-shared '48kB/s' is not a number of bytes"),
        ("k.cu --dynamic-shared 1e300", "--dynamic-shared '1e300' is not a number of bytes"),
        ("k.cu --dynamic-shared=-4", "--dynamic-shared '-4' is not a number of bytes"),
        ("k.cu --arg 3", "--arg '3' is not ORDINAL=VALUE or NAME=VALUE"),
        ("k.cu --arg n=1.5", "--arg 'n=1.5': '1.5' is not a whole number"),
        ("k.cu --arg n=99999999999999999999", "is not a whole number"),
        ("k.cu --arg n=1 --arg n=2", "--arg n is given twice, with two values"),
        ("k.cu -D 4=3", "-D '4=3' is not NAME or NAME=VALUE"),
        ("k.cu --std c++99", "--std 'c++99' is not a version of C++ that NVRTC takes"),
        ("k.cu --flag fast", "--flag 'fast' is not a flag of a compiler"),
        ("k.cu --flag=-arch=sm_80", "--flag '-arch=sm_80': there is an option for that"),
        ("k.cu --flag=--std=c++20", "--flag '--std=c++20': there is an option for that"),
        ("k.cu --flag=-DN=4", "--flag '-DN=4': there is an option for that"),
        ("k.cu --flag=-I../include", "--flag '-I../include': there is an option for that"),
        ("k.cu --flag=-Xptxas@-v", "--flag '-Xptxas@-v' is not a flag of a compiler"),
        ("k.cu -I nowhere", "-I nowhere does not exist"),
        ("k.cu -I k.cu", "-I k.cu is a file"),
        ("k.cu --kernel (", "--kernel '(' is not a regular expression"),
        ("k.cu --top -1", "--top -1: out of range"),
        ("k.cu --format csv", "--format csv: no such choice"),
        ("k.cu -o a.txt", "-o a.txt: its ending tells no format"),
        ("k.cu -o a.md -o ./a.md", "-o a.md is given twice"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    asked: Asked, tmp_path: Path, words: str, message: str
) -> None:
    done = check(tmp_path, *words.split())
    assert (done.returncode, done.stdout, asked) == (2, "", [])
    assert message in done.stderr.split("\n")[0] and "\nhint: " in done.stderr


def test_the_architectures_that_there_are_are_named(tmp_path: Path) -> None:
    hint = check(tmp_path, "k.cu", "--arch", "sm_1").stderr.split("\n")[1]
    assert hint.startswith("hint: known: sm_70, sm_72, sm_75, sm_80") and "sm_120" in hint


def test_top_comes_from_the_configuration_too(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "gpuprof.toml").write_text("top = 1\n")
    done = check(tmp_path, "k.cu")
    assert done.stderr.startswith("from gpuprof.toml: top 1\n")
    assert "… and 1 more kernel, without findings" in done.stdout
    assert "more kernel" not in check(tmp_path, "k.cu", "--no-config").stdout
    assert len(asked) == 2


@each_row("error", [DamagedInput("k.cubin is cut short", "copy it again"), UsageError("no", "yes")])
def test_an_error_is_one_message_and_its_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: Any) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(reviewing, "review", fail)
    done = check(tmp_path, "k.cubin", "-o", "a.json")
    assert (done.returncode, done.stdout) == (error.exit_code, "")
    assert done.stderr == f"error: {error.message}\nhint: {error.hint}\n"
    assert not (tmp_path / "a.json").exists()


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_one_line_of_a_terminal_that_goes_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("gpuprof.cli.check_progress.time.monotonic", lambda: now[0])
    screen, pipe = _Screen(), io.StringIO()
    for stream in (screen, pipe):
        now[0] = 0.0
        with CodeProgress(stream) as progress:
            progress(0, 4 * 2**20)
            now[0] = 1.0
            progress(2**20, 4 * 2**20)
            progress(2 * 2**20, 4 * 2**20)
            now[0] = 2.0
            progress(3 * 2**20, 4 * 2**20)
    line = "\r\x1b[Kreviewing code: {} % of 4.0 MiB"
    assert screen.getvalue() == f"{line.format(25)}{line.format(75)}\r\x1b[K"
    assert pipe.getvalue() == ""


@each_row("name", ["k.cubin", "k.PTX", "a b.fatbin"])
def test_gpu_code_without_a_command_is_answered_with_the_line_to_type(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    done = gpuprof(name, cwd=tmp_path)
    typed = name if " " not in name else f"'{name}'"
    assert done.stderr == f"error: {name} is GPU code, not a command\nhint: gpuprof check {typed}\n"
    assert done.returncode == 2
