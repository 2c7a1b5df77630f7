"""Kernels without machine code are never passed off as reviewed: in no format, and not by the exit code."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from gpuprof import check as gpuprof_check
from gpuprof.errors import InputError
from gpuprof.present.check_formats import FORMATS
from gpuprof.present.check_text import headline
from gpuprof.review.contract import ReviewedKernel
from tests import reviews as made
from tests.cli import Done, gpuprof
from tests.cuda_tools import needs_cuda_wheels
from tests.table import each_row

RECORDINGS = Path(__file__).parents[1] / "recordings"
WITHOUT_CODE = ("a100-gemm.ncu-rep", "a10g-sgemm.ncu-rep", "a40-beamformer.ncu-rep")
WHY = "the report embeds no code of it"


def check(folder: Path, *words: str) -> Done:
    for name in words:
        if (packed := RECORDINGS / f"{name}.gz").is_file():
            (folder / name).write_bytes(gzip.decompress(packed.read_bytes()))
    return gpuprof("check", *words, cwd=folder, environ={**os.environ, "COLUMNS": "100"})


@each_row("name", WITHOUT_CODE)
@each_row("form", ["table", "json", "md", "html"])
def test_a_report_without_machine_code_is_no_clean_bill(tmp_path: Path, name: str, form: str) -> None:
    done = check(tmp_path, name, "--format", form)
    number = {"a100-gemm.ncu-rep": 2}.get(name, 3)
    assert done.returncode == 5
    assert done.stdout == ""
    assert done.stderr == (
        f"error: {name}: {number} kernels: no machine code in the report, nothing could be reviewed\n"
        "hint: check the program or its cubin instead\n"
    )


@needs_cuda_wheels
def test_beside_code_what_has_none_is_told_with_what_its_report_recorded(tmp_path: Path) -> None:
    """The first launch takes 108 registers, and its report has 25 % of theoretical occupancy."""
    done = check(tmp_path, "a100-gemm.ncu-rep", "h100-transpose.ncu-rep", "--format", "json")
    assert done.returncode == 5
    assert done.stderr == (
        "error: 2 of 6 kernels not reviewed, such as cutlass Gemm 64x64x64 s8: the report embeds its cubin "
        "without machine code\n"
        "hint: check the program or its cubin instead\n"
    )
    bare, *_ = kernels = json.loads(done.stdout)["kernels"]
    assert [kernel["unreviewed"] is None for kernel in kernels] == [False, False, True, True, True, True]
    taken = bare["resources"]
    assert (taken["registers"], taken["dynamic_shared_bytes"], bare["occupancy"]["fraction"]) == (108, 24576, 0.25)
    assert [taken[name] for name in ("instructions", "code_bytes", "spills", "barriers", "stack_bytes")] == [None] * 5


@needs_cuda_wheels
def test_the_arguments_of_what_has_no_code_are_not_said_to_be_none(tmp_path: Path) -> None:
    done = check(tmp_path, "a100-gemm.ncu-rep", "h100-transpose.ncu-rep", "--arg", "n=3")
    assert done.returncode == 2
    assert done.stderr == (
        "error: --arg n: no kernel has an argument of that name\n"
        "hint: parts::empty() has none; parts::saxpy(float, const float *, float *, int) has 0, 1, 2, 3; "
        "parts::transpose(const float *, float *, int) has 0, 1, 2\n"
    )


SOURCES = {
    "good.cu": "__global__ void good(float* y) { y[threadIdx.x] = 1; }\n",
    "bad.cu": "__global__ void bad(float* y) { y[0] = missing; }\n",
    "worse.cu": "__global__ void worse(float* y) { y[0] = gone; }\n",
}
BAD = 'bad.cu does not compile for sm_90: bad.cu:1: error: identifier "missing" is undefined'


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with a source that compiles, and two that do not."""
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@needs_cuda_wheels
@each_row("files", [("good.cu", "bad.cu"), ("bad.cu", "good.cu", "worse.cu")])
def test_what_compiles_is_reviewed_beside_what_does_not_which_is_the_error(
    sources: Path, files: tuple[str, ...]
) -> None:
    done = check(sources, *files, "--arch", "90", "-o", "review.json")
    bad = [name for name in files if name != "good.cu"]
    assert done.returncode == 5
    assert done.stdout.startswith(f"good.cu for sm_90: 1 kernel, no findings; {', '.join(bad)} not reviewed\n")
    assert "\nnot reviewed: bad.cu does not compile" in done.stdout
    assert f"error: {BAD}\n" in done.stderr and "next:" not in done.stderr
    written = json.loads((sources / "review.json").read_text())
    assert written["files"] == ["good.cu"]
    assert [item["file"] for item in written["unreviewed"]] == bad
    assert written["unreviewed"][0]["why"] == BAD


MODERN = "#if __CUDA_ARCH__ < 900\n#error needs sm_90\n#endif\n"


@needs_cuda_wheels
def test_a_source_is_reviewed_for_the_architectures_that_it_compiles_for(sources: Path) -> None:
    (sources / "good.cu").write_text(MODERN + SOURCES["good.cu"])
    done = check(sources, "good.cu", "--arch", "80,90", "-o", "review.json")
    assert done.returncode == 5
    assert done.stdout.startswith("good.cu for sm_90: 1 kernel, no findings; part of good.cu not reviewed\n")
    assert "nothing in it runs on" not in done.stdout
    assert done.stderr.endswith("error: good.cu does not compile for sm_80: good.cu:2:2: error: #error needs sm_90\n")
    written = json.loads((sources / "review.json").read_text())
    assert (written["files"], [item["file"] for item in written["unreviewed"]]) == (["good.cu"], ["good.cu"])
    assert check(sources, "good.cu", "--arch", "75,80").stdout == ""


@needs_cuda_wheels
def test_what_gzip_packed_is_reviewed_from_a_file_and_from_standard_input(sources: Path) -> None:
    packed = gzip.compress(SOURCES["good.cu"].encode())
    (sources / "packed.cu.gz").write_bytes(packed)
    done = check(sources, "packed.cu.gz", "--arch", "90")
    assert (done.returncode, done.stdout.split(":")[0]) == (0, "packed.cu.gz for sm_90")
    with (sources / "packed.cu.gz").open("rb") as file:
        piped = gpuprof("check", "-", "--arch", "90", cwd=sources, onto={0: file.fileno()})
    assert (piped.returncode, piped.stdout.split(":")[0]) == (0, "standard input for sm_90")
    assert "next: gpuprof check FILE" in piped.stderr


@needs_cuda_wheels
def test_the_report_that_gzip_packed_is_that_report(tmp_path: Path) -> None:
    packed = RECORDINGS / "h100-transpose.ncu-rep.gz"
    (tmp_path / "report").write_bytes(gzip.decompress(packed.read_bytes()))
    plain, done = (check(tmp_path, str(file), "--format", "json") for file in ("report", packed))
    assert (plain.returncode, done.returncode) == (0, 0)
    assert (
        json.loads(done.stdout.replace(f"{RECORDINGS.name}/{packed.name}", "report"))["kernels"]
        == json.loads(plain.stdout)["kernels"]
    )


@needs_cuda_wheels
def test_where_no_file_compiles_or_the_kernel_is_in_none_that_does_the_error_is_all(sources: Path) -> None:
    for words in (("bad.cu", "worse.cu"), ("good.cu", "bad.cu", "--kernel", "bad")):
        done = check(sources, *words, "--arch", "90")
        assert (done.returncode, done.stdout) == (5, "")
        assert done.stderr.startswith(f"error: {BAD}\n")


@needs_cuda_wheels
def test_python_raises_for_the_first_file_that_does_not_compile(sources: Path) -> None:
    with pytest.raises(InputError, match=r"bad\.cu does not compile"):
        gpuprof_check(sources / "good.cu", sources / "bad.cu", arch="90")


def unread() -> ReviewedKernel:
    """A kernel of which nothing but its registers is known."""
    nothing = made.resources(
        static_shared_bytes=None, spills=None, code_bytes=None, instructions=None, stack_bytes=None, barriers=None
    )
    return made.kernel(
        1, label="gemm", resources=nothing, occupancy=None, loops=(), accesses=(), has_lines=False, unreviewed=WHY
    )


@each_row("form", sorted(FORMATS))
def test_every_format_names_the_kernels_that_were_not_reviewed(form: str) -> None:
    text = "\n".join(FORMATS[form].lines(made.review(made.kernel(0), unread())))
    assert WHY in text
    if form != "json":
        assert "no findings; 1 of them not reviewed" in text
        assert f"not reviewed: {WHY}" in text


def test_shared_memory_that_is_not_known_is_not_none() -> None:
    rows = [row for row in FORMATS["md"].lines(made.review(unread(), made.kernel(0))) if row.startswith("| gemm")]
    assert rows == ["| gemm | sm\\_90 | 72 | not known | – | not known |"]


def test_the_headline_counts_what_was_not_reviewed() -> None:
    reviewed = made.kernel(0, made.finding())
    assert headline(made.review(unread())).endswith(": 1 kernel, not reviewed")
    assert headline(made.review(reviewed, unread())).endswith(
        "2 kernels, 1 finding in 1 of them; 1 of them not reviewed"
    )
