"""Recording the planted bottlenecks: what runs under ncu, on the host in the GPU's place, and what a run must leave."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.diagnosis import launch, record
from benchmarks.diagnosis.case import Case, Shape
from benchmarks.diagnosis.case_file import load_cases
from benchmarks.diagnosis.host_run import compile_case, run
from benchmarks.diagnosis.record import RECORDED, recorded
from gpuprof.code.tools.nvrtc import find_nvrtc
from gpuprof.collect.machine import InstalledGpu
from gpuprof.errors import EnvironmentProblem, ProgramFailed
from tests.cuda_tools import needs_cuda_wheels
from tests.ncu_bytes import A100, simple_report

STANDIN = Path(__file__).with_name("standin_ncu.py")
# The process that ran ncu leaves its pipe to the collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


# What runs under ncu


class HostGpu:
    """The host's processor in the place of a GPU: it launches what the host can run, and notes what ncu would see."""

    target, sm_count, nvrtc = "sm_90a", 2, None
    fits = 2

    def __init__(self, case: Case, folder: Path) -> None:
        self._library = compile_case(case.source, folder)
        self._memory: dict[int, np.ndarray[Any, Any]] = {}
        self._entries: tuple[str, ...] = ()
        self._watched = False
        self.launches: list[tuple[str, bool]] = []
        self.placed: list[str] = []

    def load(self, cubin: bytes, entries: Sequence[str]) -> dict[str, int]:
        assert cubin.startswith(b"\x7fELF")
        first = len(self._entries)
        self._entries += tuple(entries)
        return {entry: number for number, entry in enumerate(entries, first)}

    def blocks_per_sm(self, kernel: int, threads: int, shared_bytes: int) -> int:
        return self.fits

    def place(self, array: np.ndarray[Any, Any], where: str) -> int:
        address = 4096 * (len(self.placed) + 1)
        self._memory[address] = array.copy()
        self.placed.append(where)
        return address

    def fetch(self, address: int, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return self._memory[address]

    def release(self, address: int, where: str) -> None:
        self._memory.pop(address)

    @property
    def held(self) -> int:
        return len(self._memory)

    @contextmanager
    def seen(self) -> Iterator[None]:
        self._watched = True
        yield
        self._watched = False

    def launch(self, kernel: int, shape: Shape, cells: Sequence[Any]) -> None:
        entry = self._entries[kernel]
        self.launches.append((entry, self._watched))
        arguments = [self._memory.get(cell.value, cell) if cell.value in self._memory else cell for cell in cells]
        run(self._library, entry, shape.grid, shape.block, shape.shared_bytes, arguments)


def small(name: str) -> Case:
    """A case with the sizes for the host in the place of the large ones."""
    (found,) = load_cases([name])
    return replace(found, sizes=found.small)


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return what gives a case to the launcher, with the host in the place of its GPU."""
    if shutil.which("g++") is None:
        pytest.skip("there is no g++ to compile for the host")

    def give(case: Case) -> HostGpu:
        host = HostGpu(case, tmp_path)
        monkeypatch.setattr(launch, "load_cases", lambda names: (case,))
        monkeypatch.setattr(launch, "Gpu", lambda device: host)
        return host

    yield give


@needs_cuda_wheels
def test_the_compiler_of_planted_cases_is_one_whose_code_the_driver_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bytes] = []

    def load(cubin: bytes) -> int:
        tried.append(cubin)
        if len(tried) == 1:
            raise RuntimeError("CUDA_ERROR_NO_BINARY_FOR_GPU")
        return 1

    runtime = SimpleNamespace(
        setDevice=lambda _: None, malloc=lambda _: 1, free=lambda _: None, driverGetVersion=lambda: 99000,
        getDeviceProperties=lambda _: {"major": 9, "minor": 0, "multiProcessorCount": 132},
    )  # fmt: skip
    driver = SimpleNamespace(moduleLoadData=load, moduleGetFunction=lambda *_: 1)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "cupy.cuda", SimpleNamespace(driver=driver, runtime=runtime))
    knowing = [nvrtc for nvrtc in find_nvrtc() if nvrtc.knows("sm_90a")]
    if len(knowing) < 2:
        pytest.skip("there is one NVRTC only")
    assert launch.Gpu(0).nvrtc is knowing[1]
    assert len(tried) == 2


def test_each_kernel_runs_once_unseen_and_once_under_ncu(gpu: Any, capsys: pytest.CaptureFixture[str]) -> None:
    host = gpu(small("particle-step"))
    assert launch.main(["0", "particle-step"]) == 0
    assert host.launches == [("slow", False), ("fixed", False), ("slow", True), ("fixed", True)]
    assert capsys.readouterr().out == "particle-step: the kernels agree\n"
    assert host.held == 0


def test_of_many_launches_ncu_sees_the_last(gpu: Any) -> None:
    case = small("replica-mean")
    times = case.launches["slow"].times
    host = gpu(case)
    assert launch.main(["0", case.name]) == 0
    assert host.launches.count(("slow", False)) == 2 * times - 1
    assert host.launches.count(("slow", True)) == 1


def test_a_buffer_lies_where_the_case_says(gpu: Any) -> None:
    host = gpu(small("filter-update"))
    launch.main(["0", "filter-update"])
    assert {"host", "device"} == set(host.placed)
    assert host.placed.count("host") == 2 * sum(
        places["slow"] == "host" for places in (buffer.places for buffer in small("filter-update").buffers.values())
    )


def test_kernels_that_disagree_end_with_an_error(gpu: Any, capsys: pytest.CaptureFixture[str]) -> None:
    case = small("matrix-transpose")
    shape = case.launches["fixed"]
    host = gpu(replace(case, launches={**case.launches, "fixed": replace(shape, grid=shape.grid[:1])}))
    assert launch.main(["0", case.name]) == 1
    assert "differs by" in capsys.readouterr().out
    assert len(host.launches) == 4


def test_a_block_that_does_not_fit_is_told(gpu: Any) -> None:
    host = gpu(small("particle-step"))
    host.fits = 0
    with pytest.raises(ProgramFailed, match="does not fit"):
        launch.main(["0", "particle-step"])


def test_a_case_that_is_not_for_this_gpu_is_told(gpu: Any) -> None:
    host = gpu(small("query-scores"))
    host.target = "sm_86"
    with pytest.raises(ProgramFailed, match="not for sm_86: two blocks of 22 warps"):
        launch.main(["0", "query-scores"])


# What a run must leave


def reports(folder: Path, *names: str) -> str:
    """A report with launches of these kernels."""
    file = folder / f"made-{'-'.join(names)}.ncu-rep"
    file.write_bytes(simple_report([(name, {**A100, "gpu__time_duration.sum": 1e6}) for name in names]))
    return str(file)


def recording(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *steps: dict[str, object],
    capability: str = "9.0",
    seconds: float = math.inf,
) -> tuple[list[str], list[str], Path]:
    """Record one case with a stand-in for ncu; return the problems, what was told, and the folder."""
    (folder / "steps.json").write_text(json.dumps(steps))
    (folder / "calls.json").unlink(missing_ok=True)
    monkeypatch.setenv("STANDIN", str(folder))
    monkeypatch.setattr(record, "choose_ncu", lambda environ, named=None: SimpleNamespace(path=STANDIN))
    monkeypatch.setattr(record, "gpus_here", lambda environ: (InstalledGpu("a GPU", capability, "580", False, True),))
    told: list[str] = []
    out = folder / "out"
    done = record.record(load_cases(["particle-step"]), out, 0, told.append, seconds=seconds)
    told += [f"left: {name}" for name in done.left]
    return list(done.problems), told, out


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
    assert words[-4:] == ["-m", "benchmarks.diagnosis.launch", "0", "particle-step"]
    again, told, _ = recording(tmp_path, monkeypatch)
    assert (again, told) == ([], ["particle-step: there already"])


def test_a_report_of_an_older_version_is_recorded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = reports(tmp_path, "slow", "fixed")
    _, _, out = recording(tmp_path, monkeypatch, {"report": made})
    (out / RECORDED).write_text('{"particle-step": "older"}')
    recording(tmp_path, monkeypatch, {"report": made})
    assert recorded(out) == {"particle-step": load_cases(["particle-step"])[0].digest()}


@pytest.mark.parametrize("names", [("slow",), ("slow", "fixed", "fixed"), ("slow", "other")])
def test_a_report_without_each_kernel_once_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    problems, _, out = recording(tmp_path, monkeypatch, {"report": reports(tmp_path, *names)})
    assert problems == [f"particle-step: the report has {', '.join(names)}, not each of slow, fixed once"]
    assert not list(out.glob("*.ncu-rep"))


def test_kernels_that_disagreed_leave_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = reports(tmp_path, "slow", "fixed")
    problems, _, out = recording(tmp_path, monkeypatch, {"report": made, "stderr": "y differs by 0.5", "code": 1})
    assert len(problems) == 1
    assert "y differs by 0.5" in problems[0]
    assert not list(out.glob("*.ncu-rep"))


def test_a_case_that_the_gpu_cannot_run_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems, told, out = recording(tmp_path, monkeypatch, capability="7.5")
    assert (problems, told) == ([], ["particle-step: not for sm_75"])
    assert not list(out.iterdir())


def test_a_case_that_time_does_not_suffice_for_is_left_for_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems, told, out = recording(tmp_path, monkeypatch, seconds=record.CASE_S / 2)
    assert (problems, told) == ([], ["left: particle-step"])
    assert not list(out.iterdir())
    made = reports(tmp_path, "slow", "fixed")
    problems, told, _ = recording(tmp_path, monkeypatch, {"report": made}, seconds=2 * record.CASE_S)
    assert (problems, list(recorded(out))) == ([], ["particle-step"])


def test_without_a_gpu_nothing_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "choose_ncu", lambda environ, named=None: SimpleNamespace(path=STANDIN))
    monkeypatch.setattr(record, "gpus_here", lambda environ: ())
    with pytest.raises(EnvironmentProblem, match="there is no GPU 0 here"):
        record.record(load_cases(["particle-step"]), tmp_path, 0, print)
