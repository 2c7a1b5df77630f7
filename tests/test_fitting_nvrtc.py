"""The compiler of a run is one whose code the driver loads: chosen by version, tried, and named where there is none."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprof.characterize.on_gpu import compiler
from gpuprof.characterize.on_gpu.compiler import fitting_nvrtc
from gpuprof.characterize.probes.probe import Probe
from gpuprof.characterize.record.gpu import DeviceError, Function
from gpuprof.errors import EnvironmentProblem
from gpuprof.sass.tools.nvrtc import CompileOutcome, Nvrtc, find_nvrtc
from tests import fake_probes
from tests.fake_gpu import PROPERTIES, FakeFunction, FakeGpu
from tests.table import each_row

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
    monkeypatch.setattr("gpuprof.sass.tools.nvrtc._candidates", lambda: [])
    find_nvrtc.cache_clear()
    try:
        with pytest.raises(EnvironmentProblem) as caught:
            fitting_nvrtc(Driver(probe, cuda, any_code), "sm_80")
    finally:
        find_nvrtc.cache_clear()
    assert f" {package} " in str(caught.value.hint)
