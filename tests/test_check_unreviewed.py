"""Kernels without machine code are never passed off as reviewed: in no format, and not by the exit code."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from gpuprof import check as gpuprof_check
from gpuprof.errors import InputError
from gpuprof.review import batch, parallel
from gpuprof.review.contract import ReviewedKernel
from gpuprof.review.inputs import sources as inputs
from gpuprof.sass.tools import disassemble as disassembling
from gpuprof.sass.tools.disassemble import BRINGS_DISASSEMBLER
from gpuprof.sass.tools.programs import Program
from gpuprof.views.formats import formats_of
from gpuprof.views.options import WriteOptions
from tests import reviews as made
from tests.cli import Done, gpuprof
from tests.cuda_tools import needs_cuda_wheels
from tests.formats import text_formats
from tests.table import each_row

RECORDINGS = Path(__file__).parents[1] / "recordings"
WHY = "it has no code"


def check(folder: Path, *typed: str) -> Done:
    for name in typed:
        if (packed := RECORDINGS / f"{name}.gz").is_file():
            (folder / name).write_bytes(gzip.decompress(packed.read_bytes()))
    return gpuprof("check", *typed, cwd=folder, environ={**os.environ, "COLUMNS": "100"})


@each_row("form", ["table", "json", "md", "html"])
def test_a_report_without_machine_code_is_no_clean_bill(tmp_path: Path, form: str) -> None:
    for name, number in (("a100-gemm.ncu-rep", 2), ("a10g-sgemm.ncu-rep", 3), ("a40-beamformer.ncu-rep", 5)):
        done = check(tmp_path, name, "--format", form)
        assert done.returncode == 5
        assert ("unreviewed" if form == "json" else "not reviewed") in done.stdout
        assert f"error: {number} of {number} kernels not reviewed" in done.stderr and "\nhint: " in done.stderr


@pytest.mark.compilers
@needs_cuda_wheels
def test_beside_code_what_has_none_is_told_with_what_its_report_recorded(tmp_path: Path) -> None:
    """The first launch takes 108 registers, and its report has 25 % of theoretical occupancy."""
    done = check(tmp_path, "a100-gemm.ncu-rep", "h100-transpose.ncu-rep", "--format", "json")
    assert done.returncode == 5
    assert done.stderr.startswith("error: 2 of 6 kernels ")
    bare, *_ = kernels = json.loads(done.stdout)["kernels"]
    assert [kernel["unreviewed"] is None for kernel in kernels] == [False, False, True, True, True, True]
    taken = bare["resources"]
    assert (taken["registers"], taken["dynamic_shared_bytes"], bare["occupancy"]["fraction"]) == (108, 24576, 0.25)
    assert [taken[name] for name in ("instructions", "code_bytes", "spills", "barriers", "stack_bytes")] == [None] * 5
    # No argument is looked for in what has no code.
    refused = check(tmp_path, "a100-gemm.ncu-rep", "h100-transpose.ncu-rep", "--arg", "n=3")
    assert refused.returncode == 2
    assert "parts::transpose(const float *, float *, int) has 0, 1, 2" in refused.stderr
    assert "gemm" not in refused.stderr.lower().partition("hint")[2]


def test_code_that_no_nvdisasm_reads_has_what_its_file_says_and_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a report of a V100 where there is only the nvdisasm of CUDA 13."""
    for module in (parallel, batch, disassembling):
        monkeypatch.setattr(module, "disassembler_for", lambda _: None)
    monkeypatch.setattr(parallel, "find_disassemblers", lambda: (Program(tmp_path, (13, 5)),))
    done = check(tmp_path, "h100-transpose.ncu-rep", "--format", "json")
    assert done.returncode == 5
    kernels = json.loads(done.stdout)["kernels"]
    assert all(kernel["unreviewed"] and kernel["resources"]["registers"] for kernel in kernels)
    error, hint = done.stderr.splitlines()[-2:]
    assert error.startswith("error: 4 of 4 kernels not reviewed, ") and "no nvdisasm here reads sm_90" in error
    assert hint == f"hint: {BRINGS_DISASSEMBLER}"


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


@pytest.mark.compilers
@needs_cuda_wheels
def test_what_compiles_is_reviewed_beside_what_does_not_which_is_the_error(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "program_for", lambda *_: None)
    done = check(sources, "bad.cu", "good.cu", "worse.cu", "--arch", "90", "--std", "c++17", "-o", "review.json")
    assert done.returncode == 5
    assert f"error: {BAD}\n" in done.stderr and "next:" not in done.stderr
    assert "bad.cu" in done.stdout and "worse.cu" in done.stdout
    written = json.loads((sources / "review.json").read_text())
    assert written["files"] == ["good.cu"]
    assert [item["file"] for item in written["unreviewed"]] == ["bad.cu", "worse.cu"]
    assert written["unreviewed"][0]["why"] == BAD
    # If no file compiles, or none that does has the kernel, there is only the error.
    done = check(sources, "good.cu", "bad.cu", "--kernel", "bad", "--arch", "90", "--std", "c++17")
    assert (done.returncode, done.stdout, done.stderr.startswith(f"error: {BAD}\n")) == (5, "", True)
    with pytest.raises(InputError, match=r"bad\.cu"):
        gpuprof_check(sources / "bad.cu", arch="90", std="c++17")


def unread() -> ReviewedKernel:
    """A kernel of which nothing but its registers is known."""
    nothing = made.resources(
        static_shared_bytes=None, spills=None, code_bytes=None, instructions=None, stack_bytes=None, barriers=None
    )
    return made.kernel(
        1, label="gemm", resources=nothing, occupancy=None, loops=(), accesses=(), has_lines=False, unreviewed=WHY
    )


@each_row("form", sorted(text_formats("review")))
def test_every_format_names_the_kernels_that_were_not_reviewed(form: str) -> None:
    text = "\n".join(formats_of("review")[form].lines(made.review(made.kernel(0), unread()), WriteOptions()))
    assert WHY in text or form == "junit", "the test cases are of limits"
    if form != "json":
        assert text.count("not reviewed") >= (1 if form in ("gitlab", "junit") else 2)
