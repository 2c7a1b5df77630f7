"""The compiler of a run is one whose code the driver loads: chosen by version, tried, and named where there is none."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from gpuprof.characterize import characterization as running
from gpuprof.characterize.characterization import Wanted, characterize
from gpuprof.characterize.counted_run import launch
from gpuprof.characterize.gates.check import Checked
from gpuprof.characterize.measure.events import Event, RunPlanned
from gpuprof.characterize.on_gpu import compiler
from gpuprof.characterize.on_gpu.compiler import fitting_nvrtc
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.gpu import DeviceError, Function
from gpuprof.characterize.record.samples import read_samples
from gpuprof.characterize.record.series import SeriesConfig
from gpuprof.code.binary.elf import kernel_code
from gpuprof.code.tools.nvrtc import CompileOutcome, Nvrtc, find_nvrtc
from gpuprof.errors import EnvironmentProblem
from gpuprof.hardware.library import SpecLibrary
from gpuprof.resources import data_dir
from tests import fake_probes
from tests.cuda_tools import needs_cuda_wheels
from tests.fake_gpu import PROPERTIES, FakeFunction, FakeGpu, compiled
from tests.table import each_row

LIBRARY = SpecLibrary(folders=(data_dir("specs"),))
REFUSED = "CUDA_ERROR_NO_BINARY_FOR_GPU"


class Standin(Nvrtc):
    """An NVRTC whose cubins say which version they are of."""

    def __init__(self, version: tuple[int, int], *numbers: int, broken: str = "") -> None:
        self.version, self.architectures, self.broken = version, frozenset(numbers or (75, 80, 90)), broken

    def compile(self, source: str, name: str, options: Sequence[str]) -> CompileOutcome:
        if self.broken:
            raise EnvironmentProblem(self.broken)
        assert "--gpu-architecture=sm_80" in options or self.architectures == {70}
        return CompileOutcome(json.dumps({"version": self.version}).encode(), "")


class Driver(FakeGpu):
    """A fake GPU whose driver says a version of CUDA, and loads the code of some NVRTCs only."""

    def __init__(
        self, probe: Probe, cuda: str | None, loads: Callable[[tuple[int, int]], bool], *, fatal: bool = False
    ) -> None:
        super().__init__([probe], properties=replace(PROPERTIES, cuda=cuda))
        self.loads, self.fatal, self.probe = loads, fatal, probe
        self.tried: list[tuple[int, int]] = []

    def load(self, cubin: bytes, sha256: str, entry: str) -> Function:
        if entry != "gpuprof_trial":
            return super().load(cubin, sha256, entry)
        assert hashlib.sha256(cubin).hexdigest() == sha256
        major, minor = json.loads(cubin)["version"]
        self.tried.append((major, minor))
        if not self.loads((major, minor)):
            raise DeviceError(f"the driver does not load {entry}: {REFUSED}", fatal=self.fatal)
        return FakeFunction(entry, self.probe, {})


@pytest.fixture
def probe(tmp_path: Path) -> Probe:
    """A probe that takes a moment."""
    return fake_probes.launch(tmp_path / "probes")


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let these be all the NVRTCs there are."""
    return lambda *there: monkeypatch.setattr(compiler, "find_nvrtc", lambda: there)


def any_code(_version: tuple[int, int]) -> bool:
    return True


def no_code(_version: tuple[int, int]) -> bool:
    return False


NEW, MIDDLE, OLD = Standin((13, 5)), Standin((13, 0)), Standin((12, 9))


@each_row(
    ("cuda", "version"),
    [("12.4", (12, 9)), ("12.8", (12, 9)), ("13.0", (13, 5)), ("13.5", (13, 5)), ("14.1", (13, 5)), (None, (13, 5))],
)
def test_the_newest_compiler_of_a_major_version_that_the_driver_has_is_taken(
    probe: Probe, here: Callable[..., None], cuda: str | None, version: tuple[int, int]
) -> None:
    here(NEW, MIDDLE, OLD)
    gpu = Driver(probe, cuda, any_code)
    assert fitting_nvrtc(gpu, "sm_80").version == version
    assert gpu.tried == [version]


def test_where_the_driver_refuses_the_newest_the_next_older_one_is_tried(
    probe: Probe, here: Callable[..., None]
) -> None:
    here(NEW, Standin((13, 2), broken="its builtins are missing"), MIDDLE, OLD)
    gpu = Driver(probe, "13.0", lambda version: version <= (13, 0))
    assert fitting_nvrtc(gpu, "sm_80") is MIDDLE
    assert gpu.tried == [(13, 5), (13, 0)]
    gpu = Driver(probe, "13.0", lambda version: version[0] == 12)
    assert fitting_nvrtc(gpu, "sm_80") is OLD


def test_a_compiler_that_does_not_know_the_target_is_passed_over(probe: Probe, here: Callable[..., None]) -> None:
    volta = Standin((12, 9), 70)
    here(NEW, volta)
    gpu = Driver(probe, "13.0", any_code)
    assert fitting_nvrtc(gpu, "sm_70") is volta
    assert gpu.tried == [(12, 9)]


@each_row(
    ("cuda", "target", "there", "message", "hint"),
    [
        ("12.8", "sm_80", (NEW, MIDDLE),
         "CUDA 12.8 .*NVRTC 13.5, NVRTC 13.0", "nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvdisasm"),
        ("11.4", "sm_80", (OLD,),
         "CUDA 11.4 .*NVRTC 12.9", "driver of CUDA 12"),
        ("13.0", "sm_70", (NEW,), "NVRTC 13.5 .*sm_70", "nvidia-cuda-nvrtc-cu12 nvidia-cuda-nvdisasm"),
        ("13.0", "sm_110a", (OLD,), "NVRTC 12.9 .*sm_110a", "nvidia-cuda-nvrtc nvidia-cuda-nvdisasm"),
        ("12.8", "sm_80", (OLD,), f"NVRTC 12.9: .*{REFUSED}", "'nvidia-cuda-nvrtc-cu12<12.9' nvidia-cuda-nvdisasm"),
        (None, "sm_80", (NEW, OLD), "NVRTC 13.5: ", "nvidia-cuda-nvrtc nvidia-cuda-nvdisasm"),
    ],
)  # fmt: skip
def test_where_no_compiler_fits_the_error_names_both_sides_and_what_to_install(
    probe: Probe, here: Callable[..., None], cuda: str, target: str, there: tuple[Nvrtc, ...], message: str, hint: str
) -> None:
    here(*there)
    with pytest.raises(EnvironmentProblem) as caught:
        fitting_nvrtc(Driver(probe, cuda, no_code), target)
    assert re.search(message, caught.value.message)
    assert hint in str(caught.value.hint)


@each_row(("cuda", "package"), [("12.8", "nvidia-cuda-nvrtc-cu12"), ("13.0", "nvidia-cuda-nvrtc")])
def test_without_any_compiler_the_hint_names_the_package_for_the_driver(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, cuda: str, package: str
) -> None:
    monkeypatch.delenv("GPUPROF_NVRTC", raising=False)
    monkeypatch.setattr("gpuprof.code.tools.nvrtc._candidates", lambda environ: iter(()))
    find_nvrtc.cache_clear()
    try:
        with pytest.raises(EnvironmentProblem) as caught:
            fitting_nvrtc(Driver(probe, cuda, any_code), "sm_80")
    finally:
        find_nvrtc.cache_clear()
    assert f" {package} " in str(caught.value.hint)


def test_a_gpu_that_is_lost_by_the_trial_is_not_asked_again(probe: Probe, here: Callable[..., None]) -> None:
    here(NEW, OLD)
    gpu = Driver(probe, "13.0", no_code, fatal=True)
    with pytest.raises(DeviceError, match=REFUSED):
        fitting_nvrtc(gpu, "sm_80")
    assert gpu.tried == [(13, 5)]


@needs_cuda_wheels
def test_the_trial_is_a_kernel_that_every_compiler_makes_for_the_target(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def load(_gpu: FakeGpu, cubin: bytes, sha256: str, entry: str) -> Function:
        seen.append(len(kernel_code(cubin, entry)))
        if len(seen) < len(knowing):
            raise DeviceError(REFUSED)
        return FakeFunction(entry, probe, {})

    monkeypatch.setattr(FakeGpu, "load", load)
    knowing = [nvrtc for nvrtc in find_nvrtc() if nvrtc.knows("sm_90a")]
    assert fitting_nvrtc(FakeGpu([probe]), "sm_90a") is knowing[-1]
    assert len(seen) == len(knowing)
    assert min(seen) > 0


def with_compiler(*asked: Any, nvrtc: Nvrtc | None = None) -> dict[str, tuple[Checked, ...]]:
    """What the fake can load, made by the given compiler."""
    made: dict[str, tuple[Checked, ...]] = {}
    for probe, items in compiled(*asked).items():
        for item in items:
            assert item.compiled is not None
            mine = item._replace(compiled=structs.replace(item.compiled, compiler=str(nvrtc)))
            made[probe] = (*made.get(probe, ()), mine)
    return made


def test_a_run_is_compiled_with_what_the_driver_loads_and_its_samples_say_so(
    probe: Probe, here: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here(NEW, MIDDLE, OLD)
    monkeypatch.setattr(running, "compile_probes", with_compiler)
    gpu = Driver(probe, "12.8", any_code)
    run = characterize(gpu, Wanted([probe], named=True, output=tmp_path / "a.measured.yaml"), library=LIBRARY)
    assert run.measured.values
    notes = read_samples(run.samples.read_bytes(), "a").notes
    assert [note.facts["compiler"] for note in notes if note.what == "environment"] == ["NVRTC 12.9"]
    assert gpu.tried == [(12, 9)]


def test_a_driver_that_loads_nothing_ends_the_run_before_it_is_planned(
    probe: Probe, here: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here(NEW, OLD)
    monkeypatch.setattr(running, "compile_probes", with_compiler)
    told: list[Event] = []
    wanted = Wanted([probe], named=True, output=tmp_path / "a.measured.yaml")
    with pytest.raises(EnvironmentProblem, match=f"of NVRTC 13.5: .*{REFUSED}; of NVRTC 12.9: .*{REFUSED}"):
        characterize(Driver(probe, "13.0", no_code), wanted, library=LIBRARY, tell=told.append)
    assert not [event for event in told if isinstance(event, RunPlanned)]
    assert not list(tmp_path.glob("a.*"))


def test_the_program_under_ncu_takes_the_same_compiler(
    tmp_path: Path, here: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Nvrtc | None] = []

    def noting(*asked: Any, nvrtc: Nvrtc | None = None) -> dict[str, tuple[Checked, ...]]:
        used.append(nvrtc)
        return with_compiler(*asked, nvrtc=nvrtc)

    here(NEW, OLD)
    monkeypatch.setattr(running, "compile_probes", noting)
    probe = fake_probes.dram(tmp_path)
    config = SeriesConfig(
        values={"DEPTH": "1"}, block=128, grid=16, blocks_per_sm=2, data="random", regime="sustained", cubin="0",
        allocation=0,
    )  # fmt: skip
    launch(Driver(probe, "12.8", any_code), [(probe, config)], [64])
    assert used == [OLD]
