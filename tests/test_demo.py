"""`gpuprof demo` as a newcomer meets it: from a checkout, a wheel, an sdist, without network; and where a GPU is."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
from rich.console import Console

from benchmarks.diagnosis.host_run import compile_case
from benchmarks.diagnosis.host_run import run as run_on_host
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Finding, KernelProfile
from gpuprof.model.version_pairs import version_pairs
from gpuprof.recordings import recordings
from gpuprof.views.demo import others_blocks, story_view
from gpuprof.views.document import Document
from gpuprof.views.terminal import print_document
from gpuprof.words.versions import saved_text
from tests.cli import Done, gpuprof
from tests.hand_made import HOSTILE, finding, kernel, session
from tests.table import each_row

ROOT = Path(__file__).resolve().parents[1]
TRANSPOSE, STORY, CUTLASS, BEAMFORMER = recordings()
FOLDER = "gpuprof-demo"


def demo(*arguments: str, cwd: Path, environ: dict[str, str] | None = None) -> Done:
    """Run `gpuprof demo` in that folder, without network."""
    refuse = Mock(side_effect=OSError("the network was asked for"))
    with patch.object(socket.socket, "connect", refuse):
        done = gpuprof("demo", *arguments, cwd=cwd, environ={**os.environ, "COLUMNS": "80", **(environ or {})})
    assert not refuse.called
    return done


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The demo, once: where it wrote, what it said."""
    cwd = tmp_path_factory.mktemp("demo")
    done = demo(cwd=cwd, environ={"COLUMNS": "100"})
    assert done.returncode == 0, done.stderr
    return cwd / "gpuprof-demo", done.stdout, done.stderr


Shown = tuple[Path, str, str]


def test_the_demo_tells_of_each_fix_what_was_promised_and_what_it_gave(shown: Shown) -> None:
    _, out, err = shown
    lines = out.splitlines()
    commands = [line for line in lines if "  gpuprof " in line]
    assert len(lines) <= 46 and max(len(line) for line in lines if line not in commands) <= 100
    assert out.endswith("ncu-rep\n") and err == ""
    labels = [line.split()[0] for line in lines if re.match(r"(slow|why|fix|gain)  ", line)]
    assert labels == ["slow", "why", "fix", "gain"] * 2
    told = re.compile(r"gain .*?(\d+) %.*? (\d+) % saved.*?: ([\d.]+) ms → ([\d.]+) ms in (\S+);")
    gains = told.findall(" ".join(out.split()))
    assert gains == [
        ("88", "87", "10.8", "1.40", "gmem_coalesce<32>"), ("69", "28", "1.40", "1.01", "smem_blocking<32>"),
    ]  # fmt: skip
    for recording in (TRANSPOSE, CUTLASS, BEAMFORMER):
        assert f"{FOLDER}/{recording.name}/report.html" in out.split()
        assert recording.title in out


def test_what_it_leaves_is_whole_and_reads_back(shown: Shown) -> None:
    folder, _, _ = shown
    assert {path.name for path in folder.iterdir()} == {recording.name for recording in recordings()}
    for recording in recordings():
        place = folder / recording.name
        versions = {"before.json", "after.json", "comparison.html"} if recording.steps else set()
        every = {recording.file_name, "report.html", "session.json"} | versions
        assert {path.name for path in place.iterdir()} == every
        assert (place / recording.file_name).read_bytes() == recording.report()
        left = json.loads((place / "session.json").read_text())
        assert left["sources"][0]["file"] == recording.file_name


def test_the_first_fix_is_compared_and_the_command_does_it_again(shown: Shown) -> None:
    folder, out, _ = shown
    *_, told = re.findall(r"  gpuprof (compare .*)", out.replace("\\\n", ""))
    done = gpuprof(*shlex.split(told), "--format", "json", cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    compared = json.loads(done.stdout)
    (change,) = compared["kernels"]
    assert change["sentence"] in " ".join(out.split()) and change["sentence"].startswith("7.7x faster: ")
    assert (change["time"]["verdict"], change["match"], compared["conditions"]) == ("faster", "named", [])
    assert (change["base"][0]["label"], change["new"][0]["label"]) == ("basic", "gmem_coalesce<32>")
    page = (folder / STORY.name / "comparison.html").read_text()
    assert "7.7x faster" in page and "gmem_coalesce&lt;32&gt;" in page.replace("<wbr>", "")
    *_, told = re.findall(r"  gpuprof (show .*)", out)
    assert gpuprof(*shlex.split(told), cwd=folder.parent).returncode == 0


@pytest.mark.parametrize("files", [("rules.md",), pytest.param((), marks=pytest.mark.slow)])
def test_the_readme_and_the_generated_reference_are_current(files: tuple[str, ...]) -> None:
    words = [sys.executable, str(ROOT / "docs" / "generate.py"), "--check", *files]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr


# Chapters of hand-made kernels: 10 ms become 2 ms, so 80 % are saved and it is 5 times as fast.


def first_kernel(*findings: Finding, **changes: object) -> KernelProfile:
    return kernel(0, *findings, **{"label": "a", "duration_s": 1e-2, **changes})


def fixed_kernel(*findings: Finding, **changes: object) -> KernelProfile:
    return kernel(1, *findings, **{"label": "b", "duration_s": 2e-3, **changes})


def said_of(*kernels: KernelProfile) -> list[str]:
    return [saved_text(fix) for fix in version_pairs(kernels)]


def test_a_finding_is_called_gone_only_where_it_could_have_been_found() -> None:
    blind = fixed_kernel(missing=(Missing(what="stalls, traffic.l1", why="not collected", how="ncu --set full"),))
    for first, fixed, gone in (
        (first_kernel(finding(gain=0.9)), blind, False),
        (first_kernel(finding(gain=0.9), missing=blind.missing), blind, True),
        (first_kernel(finding(gain=0.9)), fixed_kernel(finding(severity="info")), True),
    ):
        (said,) = said_of(first, fixed)
        assert said.endswith("gone") is gone
    held = finding("dram-bandwidth", 0.5, gain_kind="conditional", held="the same bytes")
    (said,) = said_of(first_kernel(held), fixed_kernel(held))
    assert "the same bytes" in said and "at most" not in said and "more than" not in said and said.endswith("remains")


def printed(document: Document) -> str:
    """What is printed on 100 columns without colour."""
    out = io.StringIO()
    print_document(Console(file=out, width=100), document)
    return out.getvalue()


def test_hostile_names_are_made_visible_in_a_story() -> None:
    named = first_kernel(finding(headline=HOSTILE, action=HOSTILE), label=HOSTILE)
    hostile = session(named, fixed_kernel(label=HOSTILE))
    out = printed(story_view(STORY, hostile))
    out += printed(Document("others", tuple(others_blocks([(CUTLASS, hostile, Path(HOSTILE))]))))
    assert len(out.splitlines()) > 8 and "evil</script>" in out and "[red]" in out
    assert "\x1b" not in out and "\u202e" not in out


# What must not happen.


def test_a_file_that_no_demo_wrote_is_replaced_only_with_force(tmp_path: Path) -> None:
    for name in ("session.json", STORY.file_name):
        here = tmp_path / name
        place = here / FOLDER / STORY.name / name
        place.parent.mkdir(parents=True)
        place.write_text("mine")
        done = demo(cwd=here)
        assert done.returncode == 2 and f"{name} already exists" in done.stderr and "--force" in done.stderr
        assert done.stdout == "" and [path.name for path in (here / FOLDER).rglob("*")] == [STORY.name, name]
        assert place.read_text() == "mine"
    assert demo("--force", cwd=tmp_path / "session.json").returncode == 0
    assert (tmp_path / "session.json" / FOLDER / STORY.name / "session.json").read_bytes() != b"mine"


@pytest.mark.slow
def test_files_of_another_recording_links_pipes_and_files_for_folders_are_foreign(shown: Shown, tmp_path: Path) -> None:
    for name in ("session.json", "report.html"):
        folder = tmp_path / name / FOLDER
        shutil.copytree(shown[0], folder)
        shutil.copy(folder / CUTLASS.name / name, folder / STORY.name / name)
        assert f"{name} already exists" in demo(cwd=folder.parent).stderr
    folder = tmp_path / "link" / FOLDER
    shutil.copytree(shown[0], folder)
    (folder / STORY.name / "session.json").rename(tmp_path / "elsewhere.json")
    (folder / STORY.name / "session.json").symlink_to(tmp_path / "elsewhere.json")
    assert demo(cwd=folder.parent).returncode == 2
    (folder / STORY.name / "session.json").unlink()
    os.mkfifo(folder / STORY.name / "session.json")
    assert demo(cwd=folder.parent).returncode == 2
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / FOLDER).symlink_to("elsewhere")
    assert demo(cwd=tmp_path).returncode == 2
    (tmp_path / "typed").mkdir()
    (tmp_path / "typed" / STORY.name).symlink_to(tmp_path / "elsewhere")
    assert demo("-o", "typed", cwd=tmp_path).returncode == 2
    assert list((tmp_path / "elsewhere").iterdir()) == []
    (tmp_path / "file").mkdir()
    (tmp_path / "file" / CUTLASS.name).write_text("mine")
    assert demo("--force", "-o", "file", cwd=tmp_path).returncode == 2
    assert [path.name for path in (tmp_path / "file").iterdir()] == [CUTLASS.name]


def test_a_broken_recording_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "recordings", tmp_path / "recordings")
    monkeypatch.setattr("gpuprof.recordings.data_dir", lambda name: tmp_path / name)
    broken, scratch = tmp_path / "recordings" / f"{BEAMFORMER.name}.ncu-rep.gz", tmp_path / "scratch"
    scratch.mkdir()
    whole = broken.read_bytes()
    for damaged in (whole[:-100], gzip.compress(gzip.decompress(whole)[:-100])):
        broken.write_bytes(damaged)
        done = demo("-o", "nested/folder", cwd=tmp_path, environ={"TMPDIR": str(scratch)})
        assert done.returncode == 5 and broken.name in done.stderr
        assert "hint: " in done.stderr and "Traceback" not in done.stderr
        assert not (tmp_path / "nested").exists() and not any(scratch.iterdir())


# From what is installed.


# On a machine with a GPU.


def tool(folder: Path, name: str, script: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / name
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)
    return place


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine with an H200 whose nvcc writes down its words, and ncu's stand-in."""
    bin_dir = tmp_path / "bin"
    tool(bin_dir, "nvidia-smi", "echo 'NVIDIA H200, 9.0, 580.65.06, Disabled, Enabled'")
    tool(bin_dir, "nvcc", f'echo "$@" >{tmp_path}/nvcc.words; while [ "$1" != -o ]; do shift; done; cp /bin/true "$2"')
    tool(bin_dir, "ncu", f'exec {sys.executable} {ROOT}/tests/standin_ncu.py "$@"')
    report = tmp_path / "shipped.ncu-rep"
    report.write_bytes(BEAMFORMER.report())
    (tmp_path / "steps.json").write_text(json.dumps([{"report": str(report), "program": True}] * 2))
    return {"PATH": f"{bin_dir}:{os.environ['PATH']}", "STANDIN": str(tmp_path), "CUDA_HOME": ""}


@pytest.mark.slow
def test_with_a_gpu_a_program_is_compiled_for_each_kind_and_profiled(tmp_path: Path, machine: dict[str, str]) -> None:
    both = "echo 'NVIDIA H200, 9.0, 580.65.06, Disabled, Enabled'; echo 'NVIDIA L4, 8.9, 580.65.06, Disabled, Enabled'"
    tool(tmp_path / "bin", "nvidia-smi", both)
    steps = (tmp_path / "steps.json").read_text()
    denied = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters\n"
    (tmp_path / "steps.json").write_text(json.dumps([{"log": denied, "code": 1}]))
    failed = demo("--run", cwd=tmp_path, environ=machine)
    assert failed.returncode == 3 and "ERR_NVGPUCTRPERM" in failed.stderr
    assert not (tmp_path / "gpuprof-demo-run" / "demo").exists()
    (tmp_path / "steps.json").write_text(steps)
    (tmp_path / "calls.json").unlink()
    done = demo("--run", cwd=tmp_path, environ=machine)
    assert done.returncode == 0, done.stderr
    arguments = (tmp_path / "nvcc.words").read_text().split()
    assert [argument for argument in arguments if "gencode" in argument] == [
        "-gencode=arch=compute_89,code=sm_89", "-gencode=arch=compute_90,code=sm_90",
    ]  # fmt: skip
    assert "-lineinfo" in arguments and arguments[-1].endswith("recordings/demo.cu")
    survey, profile = json.loads((tmp_path / "calls.json").read_text())
    assert survey[-1] == profile[-1] == "./gpuprof-demo-run/demo"
    left = {path.name for path in (tmp_path / "gpuprof-demo-run").iterdir()}
    assert {"demo", "survey.ncu-rep", "profile.ncu-rep", "session.json", "report.html"} <= left


def test_what_a_gpu_run_lacks_is_told_before_anything_is_written(tmp_path: Path, machine: dict[str, str]) -> None:
    scripts = {name: (tmp_path / "bin" / name).read_text() for name in ("nvidia-smi", "nvcc", "ncu")}
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    machine["TMPDIR"] = str(scratch)
    nothing: tuple[str, ...] = ()
    problems = (
        ("nvidia-smi", "echo failed >&2; exit 9", nothing, "NVIDIA GPU"),
        ("nvcc", "echo no such arch >&2; exit 9", nothing, "no such arch"),
        ("nvcc", "exit 0", nothing, "code 0"),
        ("nvcc", "exit 1", ("--ncu", "/nowhere/ncu"), "--ncu /nowhere/ncu"),
        ("nvcc", "exit 1", ("--spec", "nosuch"), "nosuch"),
    )
    for name, script, options, said in problems:
        tool(tmp_path / "bin", name, script)
        done = demo("--run", *options, cwd=tmp_path, environ=machine)
        assert done.returncode in (2, 3, 5) and said in done.stderr and "hint: " in done.stderr, done.stderr
        assert not (tmp_path / "gpuprof-demo-run").exists() and not any(scratch.iterdir())
        (tmp_path / "bin" / name).write_text(scripts[name])


SIDE, GEMM = 128, 64
"""The sides of the matrices on the host's processor."""


@pytest.fixture(scope="module")
def on_host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program's own kernels for the host's processor, with a matrix of 128 × 128 in place of 4096 × 4096."""
    folder = tmp_path_factory.mktemp("host")
    text = (ROOT / "recordings" / "demo.cu").read_text(encoding="utf-8")
    constants, _, rest = text[text.index("constexpr int SIDE") :].partition("__global__")
    small = constants.replace("= 4096", f"= {SIDE}").replace("GEMM_SIDE = 1024", f"GEMM_SIDE = {GEMM}")
    source = folder / "kernels.cu"
    source.write_text(f"{small}__global__{rest[: rest.index('static bool')]}", encoding="utf-8")
    return compile_case(source, folder)


@pytest.mark.compilers
@each_row("backwards", [False, True])
def test_the_kernels_of_the_program_compute_what_they_say(backwards: bool, on_host: Path) -> None:
    cells = np.arange(SIDE * SIDE, dtype=np.float32) * 7 % 61
    count = np.int32(cells.size)

    def result(
        name: str, grid: tuple[int, int], block: tuple[int, int], *before: object, like: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        out = np.zeros_like(like)
        run_on_host(on_host, name, (*grid, 1), (*block, 1), 0, [*before, out], backwards=backwards)
        return out

    line, tiles = ((cells.size // 256, 1), (256, 1)), ((SIDE // 32, SIDE // 32), (32, 8))
    sums = result("saxpy", *line, count, np.float32(2), cells, like=cells)
    assert np.array_equal(sums, 2 * cells)
    for name in ("transpose_naive", "transpose_tiled"):
        assert np.array_equal(result(name, *tiles, cells, like=cells).reshape(SIDE, SIDE), cells.reshape(SIDE, SIDE).T)
    bins = result("histogram", *line, count, cells, like=np.zeros(16, np.uint32))
    assert np.array_equal(bins, np.bincount(cells.astype(int) % 16, minlength=16))
    square = cells[: GEMM * GEMM]
    product = result("gemm_naive", (4, 4), (16, 16), square, square, like=square)
    assert np.array_equal(product.reshape(GEMM, GEMM), square.reshape(GEMM, GEMM) @ square.reshape(GEMM, GEMM))
