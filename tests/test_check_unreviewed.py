"""Kernels without machine code are never passed off as reviewed: in no format, and not by the exit code."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from gpuprof.present.check_formats import FORMATS
from gpuprof.present.check_text import headline
from gpuprof.review.contract import ReviewedKernel
from tests import reviews as made
from tests.cli import Done, gpuprof
from tests.cuda_tools import needs_cuda_wheels

RECORDINGS = Path(__file__).parents[1] / "recordings"
WITHOUT_CODE = ("a100-gemm.ncu-rep", "a10g-sgemm.ncu-rep", "a40-beamformer.ncu-rep")
WHY = "the report embeds no code of it"


def check(folder: Path, *words: str) -> Done:
    for name in words:
        if (packed := RECORDINGS / f"{name}.gz").is_file():
            (folder / name).write_bytes(gzip.decompress(packed.read_bytes()))
    return gpuprof("check", *words, cwd=folder, environ={**os.environ, "COLUMNS": "100"})


@pytest.mark.parametrize("name", WITHOUT_CODE)
@pytest.mark.parametrize("form", ["table", "json", "md", "html"])
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
    assert done.returncode == 0
    bare, *_ = kernels = json.loads(done.stdout)["kernels"]
    assert [kernel["unreviewed"] is None for kernel in kernels] == [False, False, True, True, True, True]
    taken = bare["resources"]
    assert (taken["registers"], taken["dynamic_shared_bytes"], bare["occupancy"]["fraction"]) == (108, 24576, 0.25)
    assert [taken[name] for name in ("instructions", "code_bytes", "spills", "barriers", "stack_bytes")] == [None] * 5


def unread() -> ReviewedKernel:
    """A kernel of which nothing but its registers is known."""
    nothing = made.resources(
        static_shared_bytes=None, spills=None, code_bytes=None, instructions=None, stack_bytes=None, barriers=None
    )
    return made.kernel(
        1, label="gemm", resources=nothing, occupancy=None, loops=(), accesses=(), has_lines=False, unreviewed=WHY
    )


@pytest.mark.parametrize("form", sorted(FORMATS))
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
