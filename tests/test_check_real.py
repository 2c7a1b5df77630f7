"""`gpuprof check` from end to end: compiled sources and real reports, as a user types it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import msgspec
import pytest

import gpuprof
from gpuprof.cli import patience
from gpuprof.model.recorded import Report
from gpuprof.present.check_json import schema_of_review
from gpuprof.review.contract import Review
from tests.cli import gpuprof as typed
from tests.cuda_tools import needs_cuda_wheels
from tests.readings import read_once
from tests.table import each_row

TRANSPOSE = """\
__global__ void transpose(float *out, const float *in, int n) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    __syncthreads();
    out[x * n + y] = tile[threadIdx.x][threadIdx.y];
}
__global__ void copy(float *out, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}
"""
LOAD, STORE = 4, 6
"""The lines of the accesses."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source with a kernel whose shared reads conflict and whose stores jump, and one without fault."""
    file = tmp_path / "transpose.cu"
    file.write_text(TRANSPOSE)
    return file


@needs_cuda_wheels
def test_a_newcomer_gets_the_line_with_the_conflict(source: Path) -> None:
    done = typed("check", source.name, "--arch", "sm_90", "--block", "32,32", cwd=source.parent)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("transpose.cu for sm_90: 2 kernels")
    assert f"transpose.cu:{STORE}: Shared-memory bank conflicts: 32 wavefronts" in done.stdout
    assert done.stderr.startswith("next: gpuprof check transpose.cu --arch sm_90 --block 32,32 --kernel ")


@needs_cuda_wheels
def test_what_one_access_costs_is_what_its_addresses_say(source: Path) -> None:
    """Lanes of a warp have x from 0 to 31: rows of 128 B are 4 sectors; columns are n words apart, a sector each."""
    review = gpuprof.check(source, arch="sm_90", block=(32, 32), args={"n": 4096}, kernel="transpose")
    (kernel,) = review.kernels
    cost = {
        (access.space, access.kind): (access.line, access.sectors_per_request, access.wavefronts_per_request)
        for access in kernel.accesses
    }
    assert cost["global", "load"] == (LOAD, 4.0, None)
    assert cost["global", "store"] == (STORE, 32.0, None)
    assert (cost["shared", "store"][2], cost["shared", "load"][2]) == (1.0, 32.0)
    assert [(argument.name, argument.value) for argument in kernel.arguments] == [
        ("out", None), ("in", None), ("n", 4096),
    ]  # fmt: skip
    unknown = gpuprof.check(source, arch="sm_90", block=(32, 32), kernel="transpose").kernels[0]
    (store,) = (access for access in unknown.accesses if (access.space, access.kind) == ("global", "store"))
    assert store.sectors_per_request is None and "n" in store.unknown


@needs_cuda_wheels
def test_two_architectures_are_one_block_and_two_kernels_of_json(source: Path) -> None:
    done = typed("check", source.name, "--arch", "80,90", "--kernel", "copy", "-o", "a.json", cwd=source.parent)
    review = msgspec.json.decode((source.parent / "a.json").read_bytes(), type=Review)
    assert [kernel.target for kernel in review.kernels] == ["sm_80", "sm_90"]
    assert done.stdout.count("copy(float") == 1
    jsonschema.Draft202012Validator(schema_of_review()).validate(json.loads((source.parent / "a.json").read_text()))


@needs_cuda_wheels
def test_a_number_is_that_of_the_whole_list(source: Path) -> None:
    whole = gpuprof.check(source, arch="sm_90")
    chosen = gpuprof.check(source, arch="sm_90", kernel="#1")
    assert [kernel.name for kernel in chosen.kernels] == [whole.kernels[1].name]
    done = typed("check", source.name, "--arch", "sm_90", "--kernel", "#2", cwd=source.parent)
    assert done.returncode == 2 and "the last kernel is #1" in done.stderr
    none = typed("check", source.name, "--arch", "sm_90", "--kernel", "gemm", cwd=source.parent)
    assert none.returncode == 2 and none.stderr.startswith("error: no kernel matches 'gemm'\nhint: there are: copy(")


@needs_cuda_wheels
def test_an_expression_that_would_take_forever_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "LIMIT_S", 0.2)
    (tmp_path / "k.cu").write_text(f"__global__ void {'a' * 60}b(float *x) {{ x[threadIdx.x] = 1; }}")
    done = typed("check", "k.cu", "--kernel", "(a+)+$", cwd=tmp_path)
    assert done.returncode == 2
    assert "takes longer than 0.2 s on the kernels' names" in done.stderr


@needs_cuda_wheels
@each_row("form", ["table", "json", "md", "html"])
def test_a_reader_that_has_gone_ends_it_quietly(source: Path, form: str) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    try:
        words = ("check", source.name, "--arch", "sm_90", "-v", "--format", form)
        done = typed(*words, cwd=source.parent, onto={1: writes})
    finally:
        os.close(writes)
    assert (done.returncode, done.stderr) == (141, "")


@needs_cuda_wheels
def test_a_reader_that_goes_ends_it_quietly(source: Path) -> None:
    command = f"{sys.executable} -m gpuprof check {source.name} --arch sm_90 -v"
    shell = f"{command} | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", shell], cwd=source.parent, capture_output=True, check=False)
    assert done.returncode in (0, 141) and b"Traceback" not in done.stderr and b"error" not in done.stderr


@needs_cuda_wheels
@each_row("name", ["cutlass-report80.ncu-rep", "hyper-spec-m-profile.ncu-rep", "nukexc-profile.ncu-rep"])
def test_a_report_has_an_entry_for_each_launch_in_its_order(reports: Path, name: str) -> None:
    report = read_once(str(reports / name))
    assert isinstance(report, Report)
    done = typed("check", reports / name, "--format", "json")
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema_of_review()).validate(document)
    kernels = [(tuple(kernel["block"]), tuple(kernel["grid"])) for kernel in document["kernels"]]
    assert kernels == [(launch.block, launch.grid) for launch in report.launches]
    assert [kernel["launch"] for kernel in document["kernels"]] == list(range(len(report.launches)))
