"""`gpuprof check` on the command line: options, outputs, what is refused, what is said on stderr."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprof.errors import DamagedInput
from gpuprof.model.kernel_match import kernel_pattern
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


def check(folder: Path, *typed: str, **environ: str) -> Done:
    return gpuprof("check", *typed, cwd=folder, environ={**os.environ, "COLUMNS": "100", **environ})


def test_all_options_become_a_request(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "include").mkdir()
    done = check(
        tmp_path, "k.cu", "--arch", "sm_80,9.0", "--arch", "100", "-D", "N=4", "-DFAST", "-I", "include",
        "--std", "c++20", "--flag=-use_fast_math", "--flag", "-maxrregcount=64", "--block", "16,16",
        "--grid", "64", "--dynamic-shared", "48KiB", "--arg", "3=0x10", "--arg", "n=4Ki", "--kernel", "gemm",
    )  # fmt: skip
    check(tmp_path, "k.cu", "--kernel", "#7")
    assert done.returncode == 0 and asked.pop().kernel == kernel_pattern("#7", "")
    assert [replace(request, in_time=nullcontext) for request in asked] == [
        ReviewRequest(
            files=("k.cu",),
            targets=("sm_80", "sm_90", "sm_100"),
            kernel=kernel_pattern("gemm", ""),
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


def test_the_next_command_has_what_was_typed_of_the_review_and_asks_for_the_same(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "a b.cu").write_text("")
    done = check(
        tmp_path, "k.cu", "a b.cu", "--arch", "sm_80", "--arch", "90", "-D", "N=a b", "--flag=-maxrregcount=64",
        "--block", "16,16", "--arg", "n=4Ki", "--salvage", "--top", "3", "-o", "a.json", "--no-config",
    )  # fmt: skip
    (said,) = [line for line in done.stderr.splitlines() if line.startswith("next: gpuprof check ")]
    assert "a.json" not in said and said.endswith(" --kernel '#1'")
    typed = shlex.split(said.removeprefix("next: gpuprof check "))
    assert check(tmp_path, *typed).returncode == 0
    first, again = (replace(request, in_time=nullcontext) for request in asked)
    assert again == replace(first, kernel=kernel_pattern("#1", ""))


def test_every_format_goes_to_stdout_and_to_files_by_their_endings(asked: Asked, tmp_path: Path) -> None:
    done = check(tmp_path, "k.cu", "-o", "out/a.json", "-o", "b.md", "-o", "c.html", "--format", "json")
    assert done.stderr == "wrote out/a.json, b.md, c.html\n"
    assert json.loads(done.stdout) == json.loads((tmp_path / "out" / "a.json").read_text())
    assert (tmp_path / "b.md").read_text().startswith("<!-- gpuprof-check -->\n")
    assert (tmp_path / "c.html").read_text().lower().startswith("<!doctype html>\n")
    assert asked[0].files == ("k.cu",)
    done = check(tmp_path, "k.cu", "--format", "html", "-o", "d.html")
    assert (done.stdout, done.stderr) == ("", "wrote d.html\n")
    assert "<html" in check(tmp_path, "k.cu", "--format", "html", "-o", "a.json").stdout
    assert len(asked) == 3


def test_a_file_that_exists_is_replaced_only_with_force_and_an_input_never(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("mine")
    done = check(tmp_path, "k.cu", "-o", "a.json")
    assert (done.returncode, asked) == (2, [])
    assert "a.json" in done.stderr and "--force" in done.stderr
    assert (tmp_path / "a.json").read_text() == "mine"
    assert check(tmp_path, "k.cu", "-o", "a.json", "--force").returncode == 0
    assert (tmp_path / "a.json").read_text() != "mine"
    assert check(tmp_path, "a.json", "-o", "a.json", "--force").returncode == 2


@each_row(
    ("typed", "named"),
    [
        ("", "file"), ("k.cu ./k.cu", "./k.cu"), ("k.cu --arch sm_42", "'sm_42'"), ("k.cu --arch hopper", "'hopper'"),
        ("k.cu --arch sm_80,", "--arch ''"), ("k.cu --block 2048", "x is 2048"),
        ("k.cu --block 64,64", "64,64,1 has 4096"), ("k.cu --block 0", "x is 0"), ("k.cu --block a", "--block a"),
        ("k.cu --grid 1,65536", "y is 65536"), ("k.cu --grid 1,1,1,1", "--grid 1,1,1,1"),
        ("k.cu --dynamic-shared 48kB/s", "'48kB/s'"), ("k.cu --dynamic-shared 1e300", "'1e300'"),
        ("k.cu --dynamic-shared=-4", "'-4'"), ("k.cu --arg 3", "--arg '3'"), ("k.cu --arg n=1.5", "'1.5'"),
        ("k.cu --arg n=99999999999999999999", "99999999999999999999"), ("k.cu --arg n=1 --arg n=2", "--arg n"),
        ("k.cu -D 4=3", "-D '4=3'"), ("k.cu --std c++99", "'c++99'"), ("k.cu --flag fast", "'fast'"),
        ("k.cu --flag=-arch=sm_80", "'-arch=sm_80'"), ("k.cu --flag=--std=c++20", "'--std=c++20'"),
        ("k.cu --flag=-DN=4", "'-DN=4'"), ("k.cu --flag=-I../include", "'-I../include'"),
        ("k.cu --flag=-Xptxas@-v", "'-Xptxas@-v'"), ("k.cu -I nowhere", "-I nowhere"), ("k.cu -I k.cu", "-I k.cu"),
        ("k.cu --kernel (", "--kernel '('"), ("k.cu --top -1", "--top -1"), ("k.cu --format csv", "csv"),
        ("k.cu --compile-memory 200MB", "'200MB'"), ("k.cu --compile-timeout 0", "0: out of range"),
        ("k.cu -o a.txt", "-o a.txt"), ("k.cu -o a.md -o ./a.md", "-o a.md"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_read(
    asked: Asked, tmp_path: Path, typed: str, named: str
) -> None:
    done = check(tmp_path, *typed.split())
    assert (done.returncode, done.stdout, asked) == (2, "", [])
    assert named in done.stderr.split("\n")[0] and "\nhint: " in done.stderr


def test_an_error_is_one_message_and_its_exit_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise DamagedInput("it is cut", "copy it")

    monkeypatch.setattr(reviewing, "review", fail)
    done = check(tmp_path, "k.cubin", "-o", "a.json")
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "error: it is cut\nhint: copy it\n"
    assert not (tmp_path / "a.json").exists()
