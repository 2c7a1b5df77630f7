"""Nothing of the working folder is run: neither modules, nor programs, nor settings that somebody else has put there.

The folder has a file for each name that Python or a dependency could import, and programs of the names that gpuprof
starts; each leaves a mark when it is run. What Python runs by itself, before a program of its begins, is not ours.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from gpuprof.cli.main import COMMANDS
from gpuprof.collect.installation import find_ncu
from gpuprof.collect.machine import Machine
from gpuprof.sass.tools.programs import find_programs
from gpuprof.working_folder import program_on_path
from tests.ncu_bytes import simple_report
from tests.test_run import STANDIN

ROOT = Path(__file__).resolve().parents[1]
KERNEL = 'extern "C" __global__ void k(float *a) { a[threadIdx.x * 32] += 1; }\n'
SHAPE = {"launch__grid_dim_x": 64.0, "launch__block_dim_x": 128.0, "launch__registers_per_thread": 32.0}
REPORT = simple_report([("gemm", {**SHAPE, "gpu__time_duration.sum": 1e6, "smsp__inst_executed.sum": 1e6})])
MARKS = "marks"
OPTIONAL = {"cupy", "torch", "cupti", "nvtx", "pynvml", "ncu_report", "triton", "zstandard", "tomli", "IPython"}
CUSTOM = {"sitecustomize", "usercustomize", "conftest", "apport_python_hook"}
PROGRAMS = (
    "ncu", "nsys", "nvdisasm", "cuobjdump", "nvcc", "ptxas", "cicc", "gcc", "g++", "cc", "c++filt", "llvm-cxxfilt",
    "git", "bash", "sh", "nvidia-smi", "xdg-open", "www-browser", "less",
)  # fmt: skip
TRIVIAL = "trivial"
"""A package that does nothing: what Python imports when it runs that, it imports by itself."""


NOTHING = "import re, sys\nprint(*sys.modules)\n"


class Hostile:
    """A working folder that somebody else has filled, with real inputs."""

    def __init__(self, place: Path) -> None:
        self.folder, self._marks = place / "work", place / MARKS
        scripts = place / "scripts"
        for folder in (self.folder, self._marks, scripts, place / "home"):
            folder.mkdir()
        (scripts / TRIVIAL).mkdir()
        (scripts / TRIVIAL / "__init__.py").write_text("")
        (scripts / TRIVIAL / "__main__.py").write_text(NOTHING)
        self.environ = {
            **os.environ, "PYTHONPATH": f"{ROOT}:{scripts}", "COLUMNS": "100",
            "HOME": str(place / "home"),
            "PATH": f"{Path(sys.executable).parent}::.:{os.environ['PATH']}", "STANDIN": str(place),
        }  # fmt: skip
        self._calls = place / "calls.json"
        step = {"report": str(place / "one.ncu-rep"), "program": True}
        (place / "steps.json").write_text(json.dumps([step] * 100))
        (place / "one.ncu-rep").write_bytes(REPORT)
        self._fill()

    def _fill(self) -> None:
        """Write inputs, and what must not be run; without what Python itself runs in this way of starting it."""
        for name in ("a.cu", "b.cu"):
            (self.folder / name).write_text(KERNEL)
        for name in ("one.ncu-rep", "two.ncu-rep"):
            (self.folder / name).write_bytes(REPORT)
        (self.folder / "train.py").write_text("import own\nown.run()\n")
        (self.folder / "gpuprof.toml").write_text("top = 5\n")
        (self.folder / "matplotlibrc").write_text("hostile: a key that matplotlib warns of\n")
        (self.folder / "evil.pth").write_text(f"import sys; open({str(self._marks / 'pth')!r}, 'w')\n")
        for name in names():
            (self.folder / f"{name}.py").write_text(self._marking(name))
        for name in {"numpy", "click", "matplotlib", "gpuprof"} & names():
            (self.folder / f"{name}.py").unlink()
            (self.folder / name).mkdir()
            (self.folder / name / "__init__.py").write_text(self._marking(name))
        for name in PROGRAMS:
            program = self.folder / name
            program.write_text(f"#!/bin/sh\n: > '{self._marks}/program-{name}'\n")
            program.chmod(0o755)
        shutil.rmtree(self.folder / "gpuprof")
        for name in self._of_python():
            (self.folder / f"{name}.py").unlink(missing_ok=True)

    def _of_python(self) -> set[str]:
        """Return the names that Python imports before a program of its begins, which no program can keep it from."""
        command = [sys.executable, "-m", TRIVIAL]
        done = subprocess.run(command, cwd=self._marks, env=self.environ, capture_output=True, check=True)
        return {*done.stdout.decode().split(), *CUSTOM}

    def _marking(self, name: str) -> str:
        return f"open({str(self._marks / name)!r}, 'w').close()\n"

    def run(self) -> list[str]:
        return sorted(path.name for path in self._marks.iterdir())

    def gpuprof(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self._calls.unlink(missing_ok=True)
        return subprocess.run(
            [sys.executable, "-m", "gpuprof", *arguments], cwd=self.folder, env=self.environ,
            capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def names() -> set[str]:
    """Return every name that gpuprof or what it imports could import."""
    installed = {name for name in importlib.metadata.packages_distributions() if name.isidentifier()}
    return {*sys.stdlib_module_names, *installed, *OPTIONAL, *CUSTOM, "gpuprof"} - {"tests", "benchmarks"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    return Hostile(tmp_path_factory.mktemp("module"))


PROFILING = ("--ncu", str(STANDIN), "--survey", "ncu")
PROGRAM = (sys.executable, "-c", "pass")
INVOCATIONS: Mapping[str, Sequence[tuple[tuple[str, ...], int, str]]] = {
    "run": [((*PROFILING, "-o", "of-run", "--", *PROGRAM), 0, "gemm")],
    "show": [(("one.ncu-rep",), 0, "gemm")],
    "roofline": [((str(ROOT / "recordings" / "h100-transpose.ncu-rep.gz"), "-o", "roofline.png"), 0, "")],
    "report": [(("one.ncu-rep", "-o", "page.html"), 0, "")],
    "characterize": [(("--compile-only", "--only", "bandwidth/dram-read", "--arch", "sm_80"), 0, "dram-read")],
    "compare": [
        (("one.ncu-rep", "two.ncu-rep", "-o", "compared.html"), 0, "gemm"),
        (("--run", "--ncu", str(STANDIN), "--survey", "ncu", "--budget", "1", "-o", "of-compare", "--",
          *PROGRAM, "---", *PROGRAM, "new"), 0, "gemm"),
    ],
    "check": [
        (("a.cu", "--arch", "sm_80"), 0, "k, a.cu:1, shown by the code"),
        (("a.cu", "b.cu", "--arch", "sm_80,sm_90", "-o", "check.html"), 0, "k in b.cu  uncoalesced-global"),
    ],
    "doctor": [((), 3, "ncu")],
    "specs": [(("check",), 0, ""), (("list",), 0, "h100")],
    "demo": [(("-o", "of-demo"), 0, "of-demo")],
}  # fmt: skip
"""For each command what is typed, how it ends, and what is in its output."""


def test_every_command_has_an_invocation() -> None:
    assert set(INVOCATIONS) == set(COMMANDS)


@pytest.mark.slow
@pytest.mark.compilers
@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_what_is_in_the_working_folder(hostile: Hostile, command: str) -> None:
    for arguments, code, said in INVOCATIONS[command]:
        done = hostile.gpuprof(command, *arguments)
        assert hostile.run() == []
        assert done.returncode == code, done.stdout + done.stderr
        assert said in done.stdout + done.stderr
        assert "matplotlibrc" not in done.stderr


def test_showing_a_report_runs_nothing_of_the_folder(hostile: Hostile) -> None:
    done = hostile.gpuprof("show", "one.ncu-rep")
    assert done.returncode == 0 and "gemm" in done.stdout and hostile.run() == []


def test_programs_are_not_taken_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "bin"
    place.mkdir()
    for folder in (tmp_path, place):
        for name in ("ncu", "ptxas"):
            (folder / name).write_text("#!/bin/sh\necho NVIDIA Nsight Compute, release 99.1; echo Version 2099.1.0.0\n")
            (folder / name).chmod(0o755)
    monkeypatch.chdir(tmp_path)
    here, there = {"PATH": ":.:", "CUDA_HOME": "."}, {"PATH": f":.:{place}"}
    assert program_on_path("ncu", here) is None and program_on_path("ncu", there) == str(place / "ncu")
    nowhere = Machine(root=tmp_path / "none")
    assert find_ncu(here, nowhere) == ()
    assert [ncu.path for ncu in find_ncu(there, nowhere)] == [place / "ncu"]
    for name, value in here.items():
        monkeypatch.setenv(name, value)
    find_programs.cache_clear()
    try:
        assert not [tool for tool in find_programs("ptxas") if tool.version[0] == 99]
    finally:
        find_programs.cache_clear()
