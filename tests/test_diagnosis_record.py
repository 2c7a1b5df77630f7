"""Recording the planted bottlenecks: what runs under ncu, on the host in the GPU's place, and what a run must leave."""

from __future__ import annotations

import ctypes
import json
import math
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from msgspec import structs

import gpuprof
from benchmarks.diagnosis import launch, record
from benchmarks.diagnosis.case import Case, Shape
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.contents import Pattern
from benchmarks.diagnosis.host_run import compile_case, run
from benchmarks.diagnosis.progress import Step, tell, told
from benchmarks.diagnosis.record import BATCHES, RECORDED, UNSURE, recorded
from benchmarks.diagnosis.split import split
from gpuprof.code.tools.nvrtc import find_nvrtc
from gpuprof.collect.machine import InstalledGpu
from gpuprof.errors import ProgramFailed
from gpuprof.read.ncu_rep import read_ncu_rep
from gpuprof.read.wire import message, number
from tests.cuda_tools import needs_cuda_wheels
from tests.ncu_bytes import A100, block, report, session_details
from tests.ncu_bytes import launch as launch_message
from tests.table import each_row

RECORDINGS = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
STANDIN = Path(__file__).with_name("standin_ncu.py")
# The process that ran ncu leaves its pipe to the collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# What runs under ncu


class HostGpu:
    """The host's processor in the place of a GPU: it launches what the host can run, and notes what ncu would see."""

    target, sm_count, nvrtc = "sm_90a", 2, None
    fits = 2
    fails: tuple[str, ...] = ()
    lost = False

    def __init__(self, cases: Sequence[Case], folder: Path) -> None:
        self._libraries = []
        for case in cases:
            self._libraries.append(compile_case(case.source, folder))
        self._memory: dict[int, np.ndarray[Any, Any]] = {}
        self._kernels: list[tuple[Path, str]] = []
        self._loaded: dict[bytes, Path] = {}
        self._watched: str | None = None
        self.launches: list[tuple[str, bool]] = []
        self.ranges: list[str] = []
        self.placed: list[str] = []

    def load(self, cubin: bytes, entries: Sequence[str]) -> dict[str, int]:
        assert cubin.startswith(b"\x7fELF")
        if cubin not in self._loaded:
            self._loaded[cubin] = self._libraries[len(self._loaded)]
        first = len(self._kernels)
        self._kernels += [(self._loaded[cubin], entry) for entry in entries]
        return {entry: number for number, entry in enumerate(entries, first)}

    def blocks_per_sm(self, kernel: int, threads: int, shared_bytes: int) -> int:
        return self.fits

    def place(self, size: int, where: str) -> int:
        address = 4096 * (len(self.placed) + 1)
        self.placed.append(where)
        self._memory[address] = np.empty(size, np.uint8)
        return address

    def fill(self, address: int, filling: Pattern) -> None:
        assert len(self._memory[address].view(np.uint8)) == filling.nbytes
        self._memory[address] = filling.whole()

    def fetch(self, address: int, like: Pattern) -> np.ndarray[Any, Any]:
        return self._memory[address]

    def release(self, address: int, where: str) -> None:
        self._memory.pop(address)

    def works(self) -> bool:
        return not self.lost

    @property
    def held(self) -> int:
        return len(self._memory)

    @contextmanager
    def seen(self, case: str) -> Iterator[None]:
        self._watched = case
        self.ranges.append(case)
        try:
            yield
        finally:
            self._watched = None

    def launch(self, kernel: int, shape: Shape, cells: Sequence[Any]) -> None:
        library, entry = self._kernels[kernel]
        self.launches.append((entry, self._watched is not None))
        if self._watched in self.fails:
            raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")
        arguments = [self._memory.get(cell.value, cell) if cell.value in self._memory else cell for cell in cells]
        run(library, entry, shape.grid, shape.block, shape.shared_bytes, arguments)


def small(name: str) -> Case:
    """A case with the sizes for the host in the place of the large ones."""
    (case,) = load_cases([name])
    return replace(case, sizes=case.small)


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return what gives cases to the launcher, with the host in the place of its GPU."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to compile for the host")

    def give(*cases: Case) -> HostGpu:
        host = HostGpu(cases, tmp_path)
        monkeypatch.setattr(launch, "load_cases", lambda names: cases)
        monkeypatch.setattr(launch, "Gpu", lambda device: host)
        return host

    yield give


def launched(folder: Path, *names: str, seconds: float = 100) -> tuple[int, dict[str, Step]]:
    """Run the program that runs under ncu; return its exit code, and how far each case came."""
    progress = folder / "progress.jsonl"
    return launch.main(["0", str(seconds), str(progress), *names]), told(progress)


@needs_cuda_wheels
def test_the_compiler_of_planted_cases_is_one_whose_code_the_driver_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []

    def load(cubin: bytes) -> int:
        tried.append(cubin)
        if len(tried) == 1:
            raise RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU")
        return 1

    cuda_of_cupy(monkeypatch, moduleLoadData=load, moduleGetFunction=lambda *_: 1)
    knowing = [nvrtc for nvrtc in find_nvrtc() if nvrtc.knows("sm_90a")]
    if len(knowing) < 2:
        pytest.skip("there is one NVRTC only")
    assert launch.Gpu(0).nvrtc is knowing[1]
    assert len(tried) == 2


def cuda_of_cupy(monkeypatch: pytest.MonkeyPatch, **driver: Any) -> SimpleNamespace:
    """Stand in for the parts of CuPy that are used, with the host's memory in the place of the GPU's."""

    def memcpy(target: int, source: int, size: int, kind: int) -> None:
        assert kind == 4
        copies.append(size)
        ctypes.memmove(target, source, size)

    copies: list[int] = []
    runtime = SimpleNamespace(
        setDevice=lambda _: None, malloc=lambda _: 1, free=lambda _: None, driverGetVersion=lambda: 99000,
        getDeviceProperties=lambda _: {"major": 9, "minor": 0, "multiProcessorCount": 132},
        memcpy=memcpy, memcpyDefault=4, deviceSynchronize=lambda: None, copies=copies,
    )  # fmt: skip
    made = {"moduleLoadData": lambda _: 1, "moduleGetFunction": lambda *_: 1, **driver}
    cuda = SimpleNamespace(driver=SimpleNamespace(**made), runtime=runtime, nvtx=SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    return runtime


@needs_cuda_wheels
@each_row(("repeated", "length"), [(3, 3), (3, 2), (3, 20), (1, 7)])
def test_a_buffer_is_filled_by_doubling_a_pattern(monkeypatch: pytest.MonkeyPatch, repeated: int, length: int) -> None:
    runtime = cuda_of_cupy(monkeypatch)
    filling = Pattern(np.arange(repeated, dtype=np.int64), length)
    memory = np.full(length, -1, np.int64)
    launch.Gpu(0).fill(memory.ctypes.data, filling)
    assert memory.tolist() == filling.whole().tolist() == [number % repeated for number in range(length)]
    assert len(runtime.copies) <= 1 + math.ceil(math.log2(max(1.0, length / repeated)))


@pytest.mark.compilers
def test_each_kernel_runs_unseen_and_its_last_launch_under_ncu_in_a_range(gpu: Any, tmp_path: Path) -> None:
    host = gpu(small("filter-update"), small("particle-step"))
    code, steps = launched(tmp_path, "filter-update", "particle-step")
    assert (code, steps) == (0, {"filter-update": Step("agrees"), "particle-step": Step("agrees")})
    assert host.launches[-4:] == [("slow", False), ("slow", True), ("fixed", False), ("fixed", True)]
    assert host.ranges == ["filter-update"] * 2 + ["particle-step"] * 2
    assert host.held == 0
    assert {"host", "device"} == set(host.placed)
    places = [buffer.places for name in ("filter-update", "particle-step") for buffer in small(name).buffers.values()]
    assert host.placed.count("host") == sum(where == "host" for place in places for where in place.values())
    (tmp_path / "late").mkdir()
    code, steps = launched(tmp_path / "late", "filter-update", "particle-step", seconds=0)
    assert (code, steps) == (0, {"filter-update": Step("agrees")}), "no case but the first is begun after the time"


@pytest.mark.compilers
def test_a_case_that_cannot_run_or_disagrees_costs_the_others_nothing(gpu: Any, tmp_path: Path) -> None:
    case = small("matrix-transpose")
    shape = case.launches["fixed"]
    disagrees = replace(case, launches={**case.launches, "fixed": replace(shape, grid=shape.grid[:1])})
    host = gpu(disagrees, small("particle-step"))
    code, steps = launched(tmp_path, "matrix-transpose", "particle-step")
    assert (code, steps["matrix-transpose"].state, steps["particle-step"]) == (1, "wrong", Step("agrees"))
    assert steps["matrix-transpose"].why
    host.fails = ("particle-step",)
    code, steps = launched(tmp_path, "matrix-transpose", "particle-step")
    assert code == 1
    assert steps["particle-step"] == Step("wrong", "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert host.held == 0
    host.lost = True
    with pytest.raises(ProgramFailed, match="particle-step: CUDA_ERROR_ILLEGAL_ADDRESS"):
        launched(tmp_path, "matrix-transpose", "particle-step")
    host.fits, host.lost = 0, False
    code, steps = launched(tmp_path, "matrix-transpose", "particle-step")
    assert code == 1 and steps["particle-step"] != Step("wrong", "CUDA_ERROR_ILLEGAL_ADDRESS")


@pytest.mark.slow
def test_a_case_that_hangs_ends_the_program() -> None:
    program = "import time\nfrom benchmarks.diagnosis import launch\nlaunch.CASE_LIMIT_S = 0.2\n"
    program += "with launch._within_time():\n    time.sleep(30)\n"
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 1
    assert "Timeout" in done.stderr
    assert time.monotonic() - began < 15


# What a run must leave

SAYS = """
import sys
from pathlib import Path
progress, names = Path(sys.argv[3]), sys.argv[4:]
for line in Path({said!r}).read_text().splitlines():
    if line.split('"')[1] in names:
        with progress.open("a") as lines:
            lines.write(line + chr(10))
        if "begun" in line:
            break
"""
"""In the place of the program that launches: it writes lines of a file to its progress, those of its cases."""


def reports(folder: Path, *launches: str, ranges: Mapping[int, str] | None = None) -> str:
    """A report with launches of these kernels; `ranges`: the NVTX range around launches, by their number."""
    metrics = {**A100, "gpu__time_duration.sum": 1e6}
    numbered = dict(enumerate(metrics.values()))
    made = [
        launch_message(name, numbered, results=nvtx_range((ranges or {}).get(number)))
        for number, name in enumerate(launches)
    ]
    file = folder / f"made-{len(list(folder.glob('made-*')))}.ncu-rep"
    file.write_bytes(report(block([], session=session_details()), block(made, list(metrics), process=7)))
    return str(file)


def nvtx_range(name: str | None) -> bytes:
    """An NvtxState with a pushed range of the launch's thread in the default domain; nothing without a name."""
    if name is None:
        return b""
    domain = number(1, 0) + message(2, b"<default domain>")
    pushed = number(1, 0) + message(3, message(1, name.encode()))
    return message(21, message(1, domain) + message(2, number(1, 1) + message(2, pushed)))


def recording(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *steps: Mapping[str, object],
    names: Sequence[str] = ("particle-step",),
    said: Sequence[tuple[str, Step]] | None = None,
    capability: str = "9.0",
    seconds: float = math.inf,
) -> tuple[list[str], list[str], Path]:
    """Record cases with a stand-in for ncu; return the problems, what was told, and the folder.

    `said`: how far each case comes, whenever it is its turn; without, all come to a good end.
    """
    (folder / "steps.json").write_text(json.dumps([{"program": True, **step} for step in steps]))
    (folder / "calls.json").unlink(missing_ok=True)
    (folder / "said").unlink(missing_ok=True)
    for name, step in said or [(name, Step("agrees")) for name in names]:
        tell(folder / "said", name, step)
    (folder / "says.py").write_text(SAYS.format(said=str(folder / "said")))
    monkeypatch.setenv("STANDIN", str(folder))
    monkeypatch.setattr(record, "PROGRAM", (sys.executable, str(folder / "says.py")))
    monkeypatch.setattr(record, "choose_ncu", lambda environ, named=None: SimpleNamespace(path=STANDIN))
    monkeypatch.setattr(record, "gpus_here", lambda environ: (InstalledGpu("a GPU", capability, "580", False, True),))
    heard: list[str] = []
    out = folder / "out"
    done = record.record(load_cases(names), out, 0, heard.append, seconds=seconds)
    heard += [f"left: {name}" for name in done.left]
    return list(done.problems), heard, out


def calls(folder: Path) -> list[list[str]]:
    """The cases that each run of ncu was asked for."""
    every = json.loads((folder / "calls.json").read_text())
    return [words[words.index(str(folder / "says.py")) + 4 :] for words in every]


def kernels_in(file: Path) -> list[str]:
    return [launch.name for launch in read_ncu_rep(file)]


def test_a_report_with_both_kernels_is_kept_with_the_version_of_its_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = reports(tmp_path, "slow", "fixed")
    problems, _, out = recording(tmp_path, monkeypatch, {"report": made})
    assert problems == []
    assert sorted(file.name for file in out.iterdir()) == ["particle-step.ncu-rep", RECORDED]
    assert recorded(out) == {"particle-step": load_cases(["particle-step"])[0].digest()}
    words = json.loads((tmp_path / "calls.json").read_text())[0]
    assert words[words.index("--profile-from-start") + 1] == "off"
    assert words[words.index("--apply-rules") + 1] == "yes"
    assert "--set" not in words
    assert "PmSampling" not in words
    again, heard, _ = recording(tmp_path, monkeypatch)
    assert (again, len(heard)) == ([], 1)
    (out / RECORDED).write_text('{"particle-step": "older"}')
    recording(tmp_path, monkeypatch, {"report": made})
    assert recorded(out) == {"particle-step": load_cases(["particle-step"])[0].digest()}


THREE = ("particle-step", "matrix-transpose", "scaled-add")
TOGETHER = ("slow", "fixed", "slow", "fixed", "fixed")


@each_row("order", [(0, 1, 2, 3, 4), None])
def test_the_report_of_several_cases_is_cut_into_one_a_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...] | None
) -> None:
    """By the ranges around launches; where there is none, by their order."""
    cases = [THREE[0]] * 2 + [THREE[1]] * 2 + [THREE[2]]
    ranges = {number: cases[number] for number in order} if order is not None else None
    made = reports(tmp_path, *TOGETHER, ranges=ranges)
    problems, _, out = recording(tmp_path, monkeypatch, {"report": made}, names=THREE)
    assert problems == []
    assert calls(tmp_path) == [list(THREE)]
    assert {file.stem: kernels_in(file) for file in out.glob("*.ncu-rep")} == {
        THREE[0]: ["slow", "fixed"], THREE[1]: ["slow", "fixed"], THREE[2]: ["fixed"],
    }  # fmt: skip
    assert set(recorded(out)) == set(THREE)
    assert not (out / BATCHES).exists()


def test_after_a_case_that_ended_the_program_the_others_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = reports(tmp_path, "slow", "fixed", "slow", ranges={0: THREE[0], 1: THREE[0], 2: THREE[1]})
    last = reports(tmp_path, "fixed", ranges={0: THREE[2]})
    said = [(THREE[0], Step("agrees")), (THREE[1], Step("begun"))]
    ended: dict[str, object] = {"report": first, "code": 1, "stderr": "Timeout (0:01:00)!"}
    problems, _, out = recording(
        tmp_path, monkeypatch, ended, {"report": last}, names=THREE, said=[*said, (THREE[2], Step("agrees"))]
    )
    assert [problem.partition(":")[0] for problem in problems] == [THREE[1]]
    assert "Timeout (0:01:00)!" in problems[0]
    assert calls(tmp_path) == [list(THREE), [THREE[2]]]
    assert set(recorded(out)) == {THREE[0], THREE[2]}


def test_what_failed_before_comes_last_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = [(THREE[0], Step("wrong", "y differs by 0.5")), (THREE[1], Step("agrees"))]
    made = reports(tmp_path, "slow", "fixed", "slow", "fixed")
    problems, _, out = recording(tmp_path, monkeypatch, {"report": made}, names=THREE[:2], said=said)
    assert [problem.partition(":")[0] for problem in problems] == [THREE[0]]
    assert set(recorded(out)) == {THREE[1]}
    assert record.report_of(out, "particle-step") is None
    assert kernels_in(out / f"particle-step{UNSURE}") == ["slow", "fixed"]
    again = reports(tmp_path, "fixed", "slow", "fixed")
    problems, _, out = recording(tmp_path, monkeypatch, {"report": again}, names=THREE)
    assert calls(tmp_path) == [[THREE[2], THREE[0]]]
    assert problems == []
    assert set(recorded(out)) == set(THREE)


# What is cut out of a report


@pytest.mark.slow
@each_row("file", ["names-of-templates/every", "passes/diagnose/profile"])
def test_a_launch_that_is_cut_out_of_a_report_is_the_same(file: str, tmp_path: Path) -> None:
    """In reports of ncu: what is read of a launch alone is what is read of it among others, its code, too."""
    report_file = RECORDINGS / f"{file}.ncu-rep"
    whole = gpuprof.load(report_file)
    names = {f"case-{number}": [kernel.name] for number, kernel in enumerate(whole.kernels)}
    parts = split(report_file.read_bytes(), names)
    assert len(parts) == len(whole.kernels) > 1
    for among, (name, part) in zip(whole.kernels, parts.items(), strict=True):
        (tmp_path / f"{name}.ncu-rep").write_bytes(part)
        (alone,) = gpuprof.load(tmp_path / f"{name}.ncu-rep").kernels
        # Its number, its share of the time, and what findings have of both are of the whole report.
        assert structs.replace(alone, id=among.id, time_share=among.time_share, findings=among.findings) == among
        assert [item.headline for item in alone.findings] == [item.headline for item in among.findings]
        assert len(part) < report_file.stat().st_size
