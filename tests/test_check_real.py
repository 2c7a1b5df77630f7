"""`gpuprof check` from end to end: compiled sources and real reports, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

import gpuprof
from gpuprof.views.exports.json_documents import schema_of_review
from tests.cli import gpuprof as typed
from tests.conftest import OWN_REPORTS
from tests.cuda_tools import needs_cuda_wheels
from tests.readings import report_of

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
pytestmark = pytest.mark.compilers
LOAD, STORE = 4, 6
"""The lines of the accesses."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source with a kernel whose shared reads conflict and whose stores jump, and one without fault."""
    file = tmp_path / "transpose.cu"
    file.write_text(TRANSPOSE)
    return file


@needs_cuda_wheels
def test_a_newcomer_gets_the_line_with_the_conflict_for_each_architecture(source: Path) -> None:
    done = typed("check", source.name, "--arch", "80,90", "--block", "32,32", "-o", "a.json", cwd=source.parent)
    assert done.returncode == 0, done.stderr
    assert f"transpose.cu:{STORE}," in done.stdout and "32 wavefronts" in done.stdout
    assert "2 kernels, " in done.stdout
    document = json.loads((source.parent / "a.json").read_text())
    jsonschema.Draft202012Validator(schema_of_review()).validate(document)
    assert [kernel["target"] for kernel in document["kernels"]] == ["sm_80", "sm_80", "sm_90", "sm_90"]
    told = [(kernel["label"], [finding["rule"] for finding in kernel["findings"]]) for kernel in document["kernels"]]
    assert all(("shared-bank-conflict" in rules) is label.startswith("transpose") for label, rules in told)


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
    unknown = gpuprof.check(source, arch="sm_90", block=(32, 32), kernel="#1").kernels[0]
    assert unknown.name == kernel.name
    (store,) = (access for access in unknown.accesses if (access.space, access.kind) == ("global", "store"))
    assert store.sectors_per_request is None and "n" in store.unknown


@needs_cuda_wheels
def test_a_report_has_an_entry_for_each_launch_in_its_order() -> None:
    file = OWN_REPORTS[0]
    report = report_of(file)
    done = typed("check", file, "--format", "json")
    document = json.loads(done.stdout)
    jsonschema.Draft202012Validator(schema_of_review()).validate(document)
    kernels = [(tuple(kernel["block"]), tuple(kernel["grid"])) for kernel in document["kernels"]]
    assert kernels == [(launch.block, launch.grid) for launch in report.launches]
    assert [kernel["launch"] for kernel in document["kernels"]] == list(range(len(report.launches)))
