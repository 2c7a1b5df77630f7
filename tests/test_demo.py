"""`gpuprof demo` as a newcomer meets it: from a checkout, a wheel, an sdist, without network; and where a GPU is."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest
from msgspec.structs import replace

from benchmarks.diagnosis.host_run import compile_case
from benchmarks.diagnosis.host_run import run as run_on_host
from gpuprof.collect.machine import Machine
from gpuprof.collect.nvcc import compile_program, find_nvcc
from gpuprof.diagnose.repairs import repairs
from gpuprof.errors import EnvironmentProblem
from gpuprof.model.session import RooflinePoint
from gpuprof.present.console_recording import lacking, repair_text
from gpuprof.recordings import recordings
from gpuprof.store.page import read_session_html
from tests.cli import Done, drawing_once, gpuprof, process
from tests.hand_made import finding, kernel

ROOT = Path(__file__).resolve().parents[1]
FIRST, *OTHERS = recordings()
NO_NETWORK = (
    "import socket\ndef refuse(*_): raise OSError('the network was asked for')\nsocket.socket.connect = refuse\n"
)


def demo(*words: str, cwd: Path, environ: dict[str, str] | None = None) -> Done:
    """Run `gpuprof demo` in that folder, without network."""
    refuse = Mock(side_effect=OSError("the network was asked for"))
    with drawing_once(), patch.object(socket.socket, "connect", refuse):
        done = gpuprof("demo", *words, cwd=cwd, environ={**os.environ, "COLUMNS": "80", **(environ or {})})
    assert not refuse.called
    return done


def demo_of(package: Path, cwd: Path) -> Done:
    """Run `gpuprof demo` of a package that lies elsewhere, in a process of its own, without network."""
    blocked = cwd / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(NO_NETWORK)
    paths = os.pathsep.join(map(str, (blocked, package)))
    return process("demo", cwd=cwd, environ={**os.environ, "COLUMNS": "80", "PYTHONPATH": paths})


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The demo, once: where it wrote, what it said."""
    cwd = tmp_path_factory.mktemp("demo")
    done = demo(cwd=cwd)
    assert done.returncode == 0, done.stderr
    return cwd / "gpuprof-demo", done.stdout, done.stderr


Shown = tuple[Path, str, str]


def test_every_recording_is_told_with_its_verdict_and_table(shown: Shown) -> None:
    _, out, _ = shown
    for place, one in enumerate((FIRST, *OTHERS), start=1):
        assert f"Recording {place} of 3: {one.title[:30]}" in out
    assert len(re.findall(r"\n\w+, \d+ % of the time, ", out)) == 3
    assert out.count("occ.\n") == 3


def test_more_than_four_kernels_have_a_roofline_warp_states_and_a_finding(shown: Shown) -> None:
    _, out, _ = shown
    told = [part.split("\n\n")[0] for part in re.split(r"\n(?=#\d+ \w)", out)[1:]]
    whole = [part for part in told if all(re.search(rf"^   {word}", part, re.M) for word in
             ("roofline ", "warp states ", "(high|medium|low|info) "))]  # fmt: skip
    assert len(told) == 10 and len(whole) == 7
    assert max(len(line) for line in out.splitlines()) <= 80


def test_the_page_has_every_kernel_with_roofline_stalls_findings_and_lines(shown: Shown) -> None:
    folder, _, _ = shown
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.count('<tr id="row-') == 5
    assert page.count("<h4>Where its warps were") == 5 and page.count('aria-label="Roofline of kernel') == 5
    assert page.count("<h4>Hot lines; the report does not have their text") == 5
    session = read_session_html(page.encode(), "report.html")
    for one in session.kernels:
        assert one.roofline and one.stalls and one.findings and one.excerpts
    assert f"{FIRST.title}, recorded by eschnett/IndexSpaces.jl" in page
    numbers = re.findall(r'<th scope="row" class="n">([\w.]+\.jl:\d+)</th>', page)
    assert numbers[:3] == ["base.jl:40", "IndexSpaces.jl:1702", "synchronization.jl:14"]
    assert "occupancy, warp states, lines of code<" in page


def test_what_it_leaves_is_whole_and_reads_back(shown: Shown) -> None:
    folder, _, err = shown
    names = {"report.html", "session.json", "roofline.svg", "roofline.png"}
    assert {path.name for path in folder.iterdir() if path.is_file()} == {FIRST.file_name, *names}
    gemm, sgemm = (folder / one.name for one in OTHERS)
    assert {path.name for path in gemm.iterdir()} == {OTHERS[0].file_name, *names}
    assert {path.name for path in sgemm.iterdir()} == {OTHERS[1].file_name, "report.html", "session.json"}
    session = json.loads((folder / "session.json").read_text())
    assert session["sources"][0]["file"] == f"gpuprof-demo/{FIRST.file_name}"
    assert (folder / "roofline.png").read_bytes().startswith(b"\x89PNG")
    assert "wrote gpuprof-demo/report.html, gpuprof-demo/a100-gemm/report.html and" in err


def test_the_next_step_works_as_it_is_printed(shown: Shown) -> None:
    folder, _, err = shown
    (words,) = re.findall(r"next: gpuprof (.*)", err)
    done = gpuprof(*shlex.split(words), cwd=folder.parent)
    assert done.returncode == 0, done.stderr
    assert "issue" in done.stdout


GENERATE = """
import runpy, subprocess, sys
printed = sys.stdin.read()
def run(words, *, env, **_):
    assert words[1:] == ["-m", "gpuprof", "demo"] and env["COLUMNS"] == "80"
    return subprocess.CompletedProcess(words, 0, printed)
subprocess.run = run
sys.path.insert(0, sys.argv[1])
sys.argv[1:] = ["--check"]
runpy.run_path(f"{sys.path[0]}/generate.py", run_name="__main__")
"""
"""`python docs/generate.py --check`, which takes for the README what the demo has printed before."""


def test_the_readme_and_the_generated_reference_are_current(shown: Shown) -> None:
    done = subprocess.run(
        [sys.executable, "-c", GENERATE, str(ROOT / "docs")], input=shown[1], capture_output=True, encoding="utf-8",
        check=False, env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_lines_in_the_terminal_come_hottest_first(shown: Shown) -> None:
    environ = {**os.environ, "COLUMNS": "60"}
    done = gpuprof("show", shown[0] / FIRST.file_name, "--kernel", "#4", environ=environ)
    assert done.returncode == 0, done.stderr
    text = done.stdout[done.stdout.index("   code ") :]
    assert text.startswith("   code        share of samples; the report has no text\n")
    lines = re.findall(r"([\d.]+) %  (\S+:\d+)(.*)", text)
    assert [float(share) for share, _, _ in lines[:5]] == [44, 12, 12, 11, 7.3]
    assert lines[0][1:] == ("base.jl:40", "  not selected 24 %")


def test_a_recording_without_rooflines_or_lines_says_so_and_draws_nothing(shown: Shown) -> None:
    folder, out, _ = shown
    text = " ".join(out.split())
    assert "This recording has no rooflines, warp states or lines of code" in text
    page = (folder / OTHERS[1].name / "report.html").read_text(encoding="utf-8")
    assert "0 of 3 kernels drawn" in page and "work not collected" in page
    assert 'aria-label="Roofline of all kernels"' not in page


def test_repairs_are_held_against_what_was_said_before(shown: Shown) -> None:
    text = " ".join(shown[1].split())
    said = r"[a-z0-9-]+ said [≤~] [\d.]+ %, the repair saved"
    assert re.search(rf"basic → gmem_coalesce<32>: {said} 87 %: 10.8 ms → 1.40 ms", text)
    assert re.search(rf"gmem_coalesce<32> → smem_blocking<32>: {said} 28 %: 1.40 ms → 1.01 ms", text)


# Hand-worked: 10 ms become 2 ms, 80 % less.


@pytest.mark.parametrize(
    ("bound", "after_s", "said"),
    [
        (0.9, 2e-3, "a → b: dram-bandwidth said ≤ 90 %, the repair saved 80 %: 10.0 ms → 2.00 ms"),
        (0.5, 2e-3, "a → b: dram-bandwidth said ≤ 50 %, the repair saved 80 %, more than the bound: 10.0 ms → 2.00 ms"),
        (0.5, 11e-3, "a → b: dram-bandwidth said ≤ 50 %, the repair cost 10 %: 10.0 ms → 11.0 ms"),
    ],
)
def test_a_repair_is_told_with_its_bound(bound: float, after_s: float, said: str) -> None:
    first = kernel(0, finding("dram-bandwidth", bound), label="a", duration_s=1e-2)
    second = kernel(1, label="b", duration_s=after_s)
    assert [repair_text(repair) for repair in repairs([first, second])] == [said]


def test_a_gain_that_holds_for_fixed_work_is_no_bound_to_break() -> None:
    held = finding("dram-bandwidth", 0.5, gain_kind="fixed-work", held="the same bytes")
    first, second = kernel(0, held, label="a", duration_s=1e-2), kernel(1, label="b", duration_s=2e-3)
    assert [repair_text(repair) for repair in repairs([first, second])] == [
        "a → b: dram-bandwidth said ~ 50 %, the repair saved 80 %: 10.0 ms → 2.00 ms"
    ]


def test_without_a_bound_or_a_duration_there_is_nothing_to_hold() -> None:
    found = kernel(0, finding(gain=0.5), duration_s=1e-2)
    without = kernel(1, finding(gain=None), duration_s=None)
    assert list(repairs([found, without])) == [] and list(repairs([without, found])) == []
    assert list(repairs([found])) == []


def test_what_a_recording_has_is_not_called_missing() -> None:
    whole = kernel(
        0,
        roofline=(
            RooflinePoint(
                path="fp32",
                level="dram",
                intensity=1.0,
                flop_per_s=1e9,
                roof_flop_per_s=2e9,
                fraction_of_roof=0.5,
                ceiling="at-clock",
                bound="memory",
            ),
        ),
    )
    assert whole.stalls and whole.excerpts
    assert lacking([whole]) == ""
    assert lacking([kernel(0)]).startswith("This recording has no rooflines: ")
    assert lacking([replace(whole, stalls=(), excerpts=())]).startswith(
        "This recording has no warp states or lines of code: "
    )
    assert lacking([replace(whole, stalls=()), whole]) == ""


# What must not happen.


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    place = tmp_path / "gpuprof-demo" / OTHERS[1].name / "session.json"
    place.parent.mkdir(parents=True)
    place.write_text("mine")
    done = demo(cwd=tmp_path)
    assert done.returncode == 2 and "session.json exists" in done.stderr and "--force" in done.stderr
    assert [path.name for path in (tmp_path / "gpuprof-demo").iterdir()] == [OTHERS[1].name]
    assert demo("--force", cwd=tmp_path).returncode == 0
    assert place.read_text() != "mine"


def test_a_broken_recording_is_an_error_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "recordings", tmp_path / "recordings")
    monkeypatch.setattr("gpuprof.recordings.data_dir", lambda name: tmp_path / name)
    broken, scratch = tmp_path / "recordings" / f"{OTHERS[-1].name}.ncu-rep.gz", tmp_path / "scratch"
    scratch.mkdir()
    whole = broken.read_bytes()
    for damaged in (whole[:-100], gzip.compress(gzip.decompress(whole)[:-100])):
        broken.write_bytes(damaged)
        done = demo("-o", "nested/folder", cwd=tmp_path, environ={"TMPDIR": str(scratch)})
        assert done.returncode == 5 and broken.name in done.stderr and "is damaged" in done.stderr
        assert "hint: install gpuprof again" in done.stderr and "Traceback" not in done.stderr
        assert not (tmp_path / "nested").exists() and not any(scratch.iterdir())


def test_a_file_where_a_folder_should_be_is_told_and_nothing_else_is_made(tmp_path: Path) -> None:
    (tmp_path / "gpuprof-demo").mkdir()
    (tmp_path / "gpuprof-demo" / OTHERS[0].name).write_text("mine")
    done = demo("--force", cwd=tmp_path)
    assert done.returncode == 2 and "cannot write" in done.stderr and "hint: " in done.stderr
    assert [path.name for path in (tmp_path / "gpuprof-demo").iterdir()] == [OTHERS[0].name]


def test_ctrl_c_leaves_no_scratch_folder(tmp_path: Path) -> None:
    waiting = (
        "import signal, time\n"
        "from gpuprof.cli.demo import _scratch\n"
        "from gpuprof.cli.interrupt import end_at_once\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "end_at_once()\n"
        "with _scratch() as folder:\n"
        "    (folder / 'x').write_text('x'); print(folder, flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", waiting], cwd=ROOT, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    with child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert (folder / "x").exists() and folder.parent == tmp_path
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130
    assert not folder.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--spec", "l4"), "--spec is about a report"),
        (("--salvage",), "--salvage is about a report"),
        (("--run", "report.ncu-rep"), "--run and a report exclude each other"),
        (("--run", "--salvage"), "--salvage is about a report"),
        (("--ncu", "ncu"), "--ncu is about --run"),
        (("nothing.ncu-rep",), "nothing.ncu-rep does not exist"),
    ],
)
def test_wrong_words_are_told(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = demo(*words, cwd=tmp_path)
    assert done.returncode in (2, 5) and said in done.stderr
    assert not (tmp_path / "gpuprof-demo").exists()


# From what is installed.


def hatchling(kind: str, out: Path, source: Path = ROOT) -> Path:
    """Build a wheel or an sdist without network and return it."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(out)]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, unpacked."""
    out, place = tmp_path_factory.mktemp("sdist"), tmp_path_factory.mktemp("unpacked")
    with tarfile.open(hatchling("sdist", out)) as archive:
        archive.extractall(place, filter="data")
    (folder,) = place.iterdir()
    return folder


def same_demo(cwd: Path, package: Path, shown: Shown) -> None:
    """Check that a package elsewhere shows what the checkout shows, from its own files."""
    where = "import gpuprof, gpuprof.resources as r; print(gpuprof.__file__, r.data_dir('recordings'))"
    told = subprocess.run([sys.executable, "-c", where], cwd=cwd, env={**os.environ, "PYTHONPATH": str(package)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    assert all(place.startswith(str(package)) for place in told.stdout.split())
    done = demo_of(package, cwd)
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown[1]


def test_the_demo_from_a_wheel_is_that_of_the_checkout(tmp_path: Path, shown: Shown) -> None:
    with zipfile.ZipFile(hatchling("wheel", tmp_path / "wheel")) as archive:
        archive.extractall(tmp_path / "installed")
    same_demo(tmp_path, tmp_path / "installed", shown)
    assert (next((tmp_path / "installed").glob("*.dist-info")) / "licenses" / "NOTICE").is_file()


def test_the_demo_from_an_sdist_is_that_of_the_checkout(sdist: Path, tmp_path: Path, shown: Shown) -> None:
    same_demo(tmp_path, sdist, shown)
    assert (sdist / "NOTICE").is_file() and (sdist / "benchmarks/recordings/values.py").is_file()


def test_a_wheel_built_from_the_sdist_has_the_same_recordings(sdist: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(hatchling("wheel", tmp_path / "wheel", sdist)) as archive:
        packed = {name: archive.read(name) for name in archive.namelist() if "_data/recordings/" in name}
    assert packed == {
        f"gpuprof/_data/recordings/{path.name}": path.read_bytes() for path in (ROOT / "recordings").iterdir()
    }


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
    report.write_bytes(FIRST.report())
    (tmp_path / "steps.json").write_text(json.dumps([{"report": str(report), "program": True}] * 2))
    return {"PATH": f"{bin_dir}:{os.environ['PATH']}", "STANDIN": str(tmp_path), "CUDA_HOME": ""}


def test_with_a_gpu_a_program_is_compiled_for_it_and_profiled(tmp_path: Path, machine: dict[str, str]) -> None:
    done = demo("--run", cwd=tmp_path, environ=machine)
    assert done.returncode == 0, done.stderr
    assert "compiling a small program for NVIDIA H200" in done.stderr
    words = (tmp_path / "nvcc.words").read_text().split()
    assert (
        "-gencode=arch=compute_90,code=sm_90" in words
        and "-lineinfo" in words
        and words[-1].endswith("recordings/demo.cu")
    )
    survey, profile = json.loads((tmp_path / "calls.json").read_text())
    assert survey[-1] == profile[-1] == "./gpuprof-demo-run/demo"
    left = {path.name for path in (tmp_path / "gpuprof-demo-run").iterdir()}
    assert {"demo", "survey.ncu-rep", "profile.ncu-rep", "session.json", "report.html"} <= left
    assert "100 % of the GPU's time" in done.stderr


def test_what_a_gpu_run_lacks_is_told_before_anything_is_written(tmp_path: Path, machine: dict[str, str]) -> None:
    scripts = {name: (tmp_path / "bin" / name).read_text() for name in ("nvidia-smi", "nvcc", "ncu")}
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    machine["TMPDIR"] = str(scratch)
    nothing: tuple[str, ...] = ()
    problems = (
        ("nvidia-smi", "echo failed >&2; exit 9", nothing, "no NVIDIA GPU answers"),
        ("nvcc", "echo no such arch >&2; exit 9", nothing, "cannot compile demo.cu for sm_90: no such arch"),
        ("nvcc", "exit 0", nothing, "cannot compile demo.cu for sm_90: it ends with code 0"),
        ("nvcc", "exit 1", ("--ncu", "/nowhere/ncu"), "--ncu /nowhere/ncu is no program"),
        ("nvcc", "exit 1", ("--spec", "nosuch"), "nosuch"),
    )
    for name, script, words, said in problems:
        tool(tmp_path / "bin", name, script)
        done = demo("--run", *words, cwd=tmp_path, environ=machine)
        assert done.returncode in (2, 3, 5) and said in done.stderr and "hint: " in done.stderr, done.stderr
        assert not (tmp_path / "gpuprof-demo-run").exists() and not any(scratch.iterdir())
        (tmp_path / "bin" / name).write_text(scripts[name])


def test_after_a_failed_run_the_next_try_begins_anew(tmp_path: Path, machine: dict[str, str]) -> None:
    steps = (tmp_path / "steps.json").read_text()
    denied = (
        "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters\n"
    )
    (tmp_path / "steps.json").write_text(json.dumps([{"log": denied, "code": 1}]))
    failed = demo("--run", cwd=tmp_path, environ=machine)
    assert failed.returncode == 3 and "ERR_NVGPUCTRPERM" in failed.stderr
    assert not (tmp_path / "gpuprof-demo-run" / "demo").exists()
    (tmp_path / "steps.json").write_text(steps)
    (tmp_path / "calls.json").unlink()
    again = demo("--run", cwd=tmp_path, environ=machine)
    assert again.returncode == 0, again.stderr


def test_a_run_fits_into_the_current_folder_and_replaces_nothing(tmp_path: Path, machine: dict[str, str]) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "demo").write_text("mine")
    refused = demo("--run", "-o", ".", cwd=empty, environ=machine)
    assert refused.returncode == 2 and "demo exists" in refused.stderr
    assert (empty / "demo").read_text() == "mine"
    (empty / "demo").unlink()
    done = demo("--run", "-o", ".", cwd=empty, environ=machine)
    assert done.returncode == 0, done.stderr
    assert {"demo", "profile.ncu-rep", "report.html"} <= {path.name for path in empty.iterdir()}


def test_the_program_is_compiled_for_every_kind_of_gpu_that_is_there(tmp_path: Path, machine: dict[str, str]) -> None:
    both = "echo 'NVIDIA H200, 9.0, 580.65.06, Disabled, Enabled'; echo 'NVIDIA L4, 8.9, 580.65.06, Disabled, Enabled'"
    tool(tmp_path / "bin", "nvidia-smi", both)
    demo("--run", cwd=tmp_path, environ=machine)
    words = (tmp_path / "nvcc.words").read_text().split()
    assert [word for word in words if "gencode" in word] == [
        "-gencode=arch=compute_89,code=sm_89", "-gencode=arch=compute_90,code=sm_90",
    ]  # fmt: skip


def test_nvcc_is_found_on_path_in_cuda_home_and_in_the_newest_toolkit(tmp_path: Path) -> None:
    root, none = Machine(tmp_path), {"PATH": str(tmp_path)}
    with pytest.raises(EnvironmentProblem, match="nvcc, the CUDA compiler, was not found"):
        find_nvcc(none, root)
    older = tool(tmp_path / "usr/local/cuda-12.4/bin", "nvcc", "")
    assert find_nvcc(none, root) == older
    newer = tool(tmp_path / "usr/local/cuda-13.0/bin", "nvcc", "")
    assert find_nvcc(none, root) == newer
    home = tool(tmp_path / "home/bin", "nvcc", "")
    assert find_nvcc({**none, "CUDA_HOME": str(tmp_path / "home")}, root) == home
    on_path = tool(tmp_path / "bin", "nvcc", "")
    assert find_nvcc({"PATH": str(tmp_path / "bin"), "CUDA_HOME": str(tmp_path / "home")}, root) == on_path


NVCC = shutil.which("nvcc")
SIDE, GEMM = 128, 64
"""The sides of the matrices on the host's processor."""


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc on this machine")
def test_the_program_compiles_for_gpus_of_today(tmp_path: Path) -> None:
    program = tmp_path / "demo"
    assert NVCC is not None
    compile_program(Path(NVCC), ROOT / "recordings" / "demo.cu", program, ["sm_80", "sm_90", "sm_120"])
    assert os.access(program, os.X_OK)


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


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ on this machine")
@pytest.mark.parametrize("backwards", [False, True])
def test_the_kernels_of_the_program_compute_what_they_say(backwards: bool, on_host: Path) -> None:
    side, gemm = SIDE, GEMM
    cells = np.arange(side * side, dtype=np.float32) * 7 % 61
    count = np.int32(cells.size)

    def result(
        name: str, grid: tuple[int, int], block: tuple[int, int], *before: object, like: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        out = np.zeros_like(like)
        run_on_host(on_host, name, (*grid, 1), (*block, 1), 0, [*before, out], backwards=backwards)
        return out

    line, tiles = ((cells.size // 256, 1), (256, 1)), ((side // 32, side // 32), (32, 8))
    sums = result("saxpy", *line, count, np.float32(2), cells, like=cells)
    assert np.array_equal(sums, 2 * cells)
    for name in ("transpose_naive", "transpose_tiled"):
        assert np.array_equal(result(name, *tiles, cells, like=cells).reshape(side, side), cells.reshape(side, side).T)
    bins = result("histogram", *line, count, cells, like=np.zeros(16, np.uint32))
    assert np.array_equal(bins, np.bincount(cells.astype(int) % 16, minlength=16))
    square = cells[: gemm * gemm]
    product = result("gemm_naive", (4, 4), (16, 16), square, square, like=square)
    assert np.array_equal(product.reshape(gemm, gemm), square.reshape(gemm, gemm) @ square.reshape(gemm, gemm))
