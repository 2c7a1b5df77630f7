"""The configurations of CI for compiled code in the how-to: their shell lines run as they stand, pip replaced."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.cuda_tools import needs_cuda_wheels
from tests.review_inputs import CACHE, needs_nvcc
from tests.table import each_row

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "how-to" / "check-ci.md"
_BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
NVCC, GITLAB, EXTENSION, TRITON = map(yaml.safe_load, _BLOCKS)
STRIDED = CACHE.with_name("triton-strided")

COPY = """__global__ void copy(float *out, const float *in) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = in[i];
}
"""
HEAVY = """
__global__ void heavy(float *out, const float *in) {
    float v[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) v[i] = in[i * 256 + threadIdx.x];
#pragma unroll 1
    for (int k = 0; k < 100; ++k) {
#pragma unroll
        for (int i = 0; i < 64; ++i) v[i] = v[i] * v[(i + 17) % 64] + v[63 - i];
    }
#pragma unroll
    for (int i = 0; i < 64; ++i) out[i * 256 + threadIdx.x] = v[i];
}
"""
KERNELS = COPY + HEAVY
SAME = f"// A comment.\n{KERNELS}"
STRIDE = KERNELS.replace("in[i];\n}", "in[i * 8];\n}", 1)
SPILLS = KERNELS.replace("void heavy", "void __launch_bounds__(1024, 2) heavy")


RUNS_PYTHON = f'exec "{sys.executable}" "$@"'


class Job:
    """A job of a GitHub workflow in a folder: the environment of its steps, and what they printed."""

    def __init__(self, folder: Path, python: str = RUNS_PYTHON, **environ: str) -> None:
        self.folder = folder
        self.log = ""
        path = path_with(folder, python)
        self.environ = {**os.environ, "PATH": path, "GITHUB_PATH": str(folder / "github-path"), **environ}

    def run(self, workflow: dict[str, Any]) -> int:
        """Run the steps that have shell lines until one fails; return its exit code."""
        for step in workflow["jobs"]["check"]["steps"]:
            if "run" in step:
                code = self._step(step)
                if code:
                    return code
        return 0

    def _step(self, step: dict[str, Any]) -> int:
        assert "${{" not in step["run"], "what others choose stays out of the shell's text"
        added = self.folder / "github-path"
        if added.exists():
            self.environ["PATH"] = os.pathsep.join([*added.read_text().split(), self.environ["PATH"]])
        done = shell(step["run"], self.folder / step.get("working-directory", "."), self.environ | step.get("env", {}))
        self.log += done.stdout + done.stderr
        return done.returncode


def shell(script: str, folder: Path, environ: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", script], cwd=folder, env=environ, text=True,
        capture_output=True, check=False, timeout=600,
    )  # fmt: skip


def path_with(folder: Path, python: str) -> str:
    """Return a PATH on which gpuprof and python are those of the tests, and pip does nothing."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    gpuprof = f'PYTHONPATH="{ROOT}" exec "{sys.executable}" -m gpuprof "$@"'
    for name, text in {"pip": "", "python": python, "gpuprof": gpuprof}.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    return os.pathsep.join([str(programs), os.environ["PATH"]])


def checkouts(folder: Path, **files: tuple[str, str]) -> None:
    """Write files of the base and of the change into two checkouts."""
    for index, side in enumerate(("old", "new")):
        (folder / side / ".git").mkdir(parents=True)
        for name, texts in files.items():
            (folder / side / name.replace("__", ".")).write_text(texts[index])


# nvcc


@needs_cuda_wheels
@needs_nvcc
@each_row(
    ("new", "code", "limits"),
    [(SAME, 0, []), (STRIDE, 6, ["copy: sectors", "copy: uncoalesced-global:high"]), (SPILLS, 6, ["heavy: spills"])],
)
def test_a_planted_stride_and_planted_spills_fail_the_build(
    tmp_path_factory: pytest.TempPathFactory, new: str, code: int, limits: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("nvcc")
    checkouts(folder, kernels__cu=(KERNELS, new))
    job = Job(folder)
    assert job.run(NVCC) == code, job.log
    cases = ElementTree.parse(folder / "new" / "junit.xml").iter("testcase")
    assert [case.get("name") for case in cases if case.find("failure") is not None] == limits
    assert ("::error file=kernels.cu,line=" in job.log) == (new == STRIDE)
    results = json.loads((folder / "new" / "review.sarif").read_text())["runs"][0]["results"]
    assert ("gate-regression" in {result["ruleId"] for result in results}) == bool(limits)
    assert (folder / "new" / "review.html").exists()


@needs_cuda_wheels
@needs_nvcc
@each_row(("new", "code"), [(SAME, 0), (STRIDE, 6)])
def test_gitlab_checks_a_merge_request_against_its_base(
    tmp_path_factory: pytest.TempPathFactory, new: str, code: int
) -> None:
    folder = tmp_path_factory.mktemp("gitlab")
    environ = {**os.environ, "PATH": path_with(folder, RUNS_PYTHON)}
    place = folder / "checkout"
    place.mkdir()
    git = "git -c user.name=us -c user.email=us@example.com -c init.defaultBranch=main"
    for text, commands in ((KERNELS, f"{git} init -q && git add -A && {git} commit -qm base"), (new, "true")):
        (place / "kernels.cu").write_text(text)
        assert shell(commands, place, environ).returncode == 0
    environ["CI_MERGE_REQUEST_DIFF_BASE_SHA"] = "HEAD"
    done = shell("\n".join(GITLAB["check"]["script"]), place, environ)
    assert done.returncode == code, done.stderr
    reports = GITLAB["check"]["artifacts"]["reports"]
    entries = json.loads((place / reports["codequality"]).read_text())
    assert {entry["location"]["path"] for entry in entries} == ({"kernels.cu"} if code else set())
    assert (place / reports["junit"]).exists() and (place / "review.md").exists()


# PyTorch

SETUP = """from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

files = ["binding.cpp", "kernels.cu"]
setup(
    name="kernels",
    ext_modules=[CUDAExtension("kernels", files, extra_compile_args={"nvcc": ["-lineinfo"]})],
    cmdclass={"build_ext": BuildExtension},
)
"""
BINDING = """#include <Python.h>

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "kernels"};

PyMODINIT_FUNC PyInit_kernels() { return PyModule_Create(&module); }
"""
# PyTorch for CPUs takes no toolkit for CUDA extensions, and has no CUDA libraries to link with.
WITH_CUDA = """import os
import torch.utils.cpp_extension

torch.version.cuda = "13.3"
torch.utils.cpp_extension.CUDA_HOME = os.environ["CUDA_HOME"]
"""


@pytest.fixture
def torch_environ(tmp_path: Path) -> dict[str, str]:
    """Return what Job needs so that PyTorch for CPUs builds a CUDA extension; skip without it."""
    wheels = importlib.util.find_spec("nvidia")
    assert wheels is not None and wheels.submodule_search_locations
    python = ROOT / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("there is no environment with PyTorch")
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    (libraries / "sitecustomize.py").write_text(WITH_CUDA)
    (libraries / "empty.cpp").write_text("")
    for name in ("c10_cuda", "torch_cuda", "cudart"):
        subprocess.run(["g++", "-shared", "-o", f"lib{name}.so", "empty.cpp"], cwd=libraries, check=True)
    return {
        "python": f'PYTHONPATH="{libraries}" exec "{python}" -W ignore "$@"',
        "LIBRARY_PATH": str(libraries), "CUDA_HOME": f"{next(iter(wheels.submodule_search_locations))}/cu13",
    }  # fmt: skip


@pytest.mark.torch
@needs_cuda_wheels
@needs_nvcc
def test_a_planted_stride_in_an_extension_fails_the_build(tmp_path: Path, torch_environ: dict[str, str]) -> None:
    checkouts(tmp_path, setup__py=(SETUP, SETUP), binding__cpp=(BINDING, BINDING), kernels__cu=(COPY, STRIDE))
    job = Job(tmp_path, **torch_environ)
    assert job.run(EXTENSION) == 6, job.log
    assert "gate failed: sectors of copy: global load, kernels.cu:3" in job.log
    assert (tmp_path / "new" / "review.md").read_text().startswith("<!-- gpuprof-check -->\n")


# Triton


@needs_cuda_wheels
@each_row(("recorded", "code"), [(CACHE, 0), (STRIDED, 6)])
def test_a_planted_stride_in_triton_fails_the_build(
    tmp_path_factory: pytest.TempPathFactory, recorded: Path, code: int
) -> None:
    folder = tmp_path_factory.mktemp("triton")
    for side in ("old", "new"):
        (folder / side).mkdir()
    caches = f'if [ "$(basename "$PWD")" = new ]; then cp -r "{recorded}" cache; else cp -r "{CACHE}" cache; fi'
    job = Job(folder, caches)
    assert job.run(TRITON) == code, job.log
    assert ("gate failed: sectors of row_sums" in job.log) == (code == 6)
