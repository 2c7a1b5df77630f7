"""The border to CUDA and NVML, on stand-ins that keep GPU memory on the host. Nothing here runs on a GPU."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuprof.characterize.on_gpu import device, device_copies
from gpuprof.characterize.on_gpu.device import CudaGpu, open_gpu
from gpuprof.characterize.on_gpu.nvml_view import NvmlView
from gpuprof.characterize.record.gpu import (
    DeviceError,
    Hung,
    LaunchConfiguration,
    Memory,
    OutOfMemory,
)
from gpuprof.collect.nvml import Nvml
from gpuprof.errors import EnvironmentProblem
from tests.standin_cuda import CudaError, StandinCuda
from tests.table import each_row

CUBIN = b"any bytes"
SHA = hashlib.sha256(CUBIN).hexdigest()


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> StandinCuda:
    monkeypatch.setattr(device, "NvmlView", lambda _bus: view())
    return StandinCuda(gpus=2)


@pytest.fixture
def gpu(cuda: StandinCuda) -> CudaGpu:
    return CudaGpu(cuda, cuda, 0)


class FakeNvml:
    """The answers of a driver; what is not here is not supported."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, **answers: Any) -> None:
        self.answers: dict[str, Any] = {
            "nvmlDeviceGetHandleByPciBusId": "handle",
            "nvmlDeviceGetPciInfo": SimpleNamespace(pciDeviceId=0x233510DE, pciSubSystemId=0x18BE10DE),
            "nvmlSystemGetDriverVersion": b"580.1", "nvmlDeviceGetEccMode": (1, 0), "nvmlDeviceGetMigMode": (0, 1),
            "nvmlDeviceGetMPSComputeRunningProcesses": [], "nvmlDeviceGetEnforcedPowerLimit": 650_000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700_000, "nvmlDeviceGetMaxClockInfo": {1: 1980, 2: 3201},
            "nvmlDeviceGetClockInfo": {1: 1755, 2: 3201}, "nvmlDeviceGetPowerUsage": 123_456,
            "nvmlDeviceGetTemperature": 41, "nvmlDeviceGetTotalEnergyConsumption": 5_000,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 4, "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=1), SimpleNamespace(pid=2)],
            "nvmlDeviceGetGraphicsRunningProcesses": [SimpleNamespace(pid=2)],
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37, memory=2), **answers,
        }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)
        answer = self.answers[name]

        def ask(*asked: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer[asked[-1]] if isinstance(answer, dict) else answer

        return ask


def view(**answers: Any) -> NvmlView:
    """The GPU as such a driver tells of it."""
    return NvmlView("0000:01:00.0", Nvml(FakeNvml(**answers)))


# NVML


def test_settings_and_telemetry_are_read_in_base_units() -> None:
    settings = view().settings()
    assert (settings.pci_id, settings.pci_subsystem) == ("10de:2335", "10de:18be")
    assert (settings.driver, settings.ecc, settings.mig, settings.mps) == ("580.1", True, False, False)
    assert (settings.power_limit_w, settings.default_power_limit_w) == (650.0, 700.0)
    assert (settings.max_sm_clock_hz, settings.max_memory_clock_hz) == (1.98e9, 3.201e9)
    assert (settings.persistence, settings.max_pcie_generation) == (None, None)
    seen = view().telemetry()
    assert (seen.sm_clock_hz, seen.memory_clock_hz) == (1.755e9, 3.201e9)
    assert (seen.power_w, seen.temperature_c, seen.energy_j) == (123.456, 41.0, 5.0)
    assert (seen.reasons, seen.pcie_generation, seen.pcie_width) == (4, 5, 16)
    ours = SimpleNamespace(pid=os.getpid())
    others = view(nvmlDeviceGetGraphicsRunningProcesses=[ours]).others()
    assert (others.processes, others.busy) == (2, 0.37)


def test_kernel_that_does_not_end_is_given_up(gpu: CudaGpu, cuda: StandinCuda) -> None:
    function = gpu.load(CUBIN, SHA, "nothing")
    cuda.hangs = True
    with pytest.raises(Hung) as caught:
        gpu.time(function, LaunchConfiguration(1, 32), [], None, patience_s=0.05)
    assert caught.value.fatal
    # A context in which something hangs is asked nothing that would wait for it.
    assert "streamSynchronize" not in cuda.calls[cuda.calls.index("eventQuery") :]


def test_what_the_driver_does_not_answer_is_unknown() -> None:
    for answer in (RuntimeError("not supported"), None):
        nvml = view(nvmlDeviceGetPowerUsage=answer, nvmlDeviceGetUtilizationRates=answer)
        assert (nvml.telemetry().power_w, nvml.others().busy) == (None, None)
    nvml = view(nvmlDeviceGetHandleByPciBusId=RuntimeError("not found"))
    assert nvml.telemetry() == type(nvml.telemetry())()
    assert (nvml.others().processes, nvml.settings().driver) == (None, "580.1")


# Opening


def test_gpu_that_cannot_be_opened_is_an_environment_problem(
    monkeypatch: pytest.MonkeyPatch, cuda: StandinCuda
) -> None:
    for module in ("cupy", "cupy.cuda"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(EnvironmentProblem, match="CuPy") as caught:
        open_gpu()
    assert re.search(r"pip install cupy-cuda1[23]x", caught.value.hint or "")
    monkeypatch.setattr(device, "_cupy", lambda: (cuda, cuda))
    for index in (-1, 2):
        with pytest.raises(EnvironmentProblem, match=f"GPU {index}"):
            open_gpu(index)
    cuda.fail["getDeviceCount"] = CudaError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")
    with pytest.raises(EnvironmentProblem, match="cudaErrorInsufficientDriver"):
        open_gpu()


# Memory


@each_row("sent", [1, 2, 100])
def test_words_are_scattered_and_nothing_between_them_is_touched(
    gpu: CudaGpu, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    monkeypatch.setattr("gpuprof.characterize.on_gpu.device._SENT_WORDS", sent)
    memory = gpu.allocate(96)
    gpu.repeat(memory, b"\xee")
    gpu.scatter(memory, 32, np.array([1, 2, 3], dtype=np.uint64))
    content = np.frombuffer(gpu.read(memory, 96), dtype=np.uint64)
    assert content[::4].tolist() == [1, 2, 3]
    assert (content.reshape(3, 4)[:, 1:] == 0xEEEEEEEEEEEEEEEE).all()
    with pytest.raises(DeviceError, match="2147483648 bytes"):
        gpu.scatter(Memory(0, 0), 2**31, np.zeros(2, dtype=np.uint64))


# Kernels


def test_cubin_is_loaded_only_with_the_hash_that_the_gate_saw(gpu: CudaGpu, cuda: StandinCuda) -> None:
    with pytest.raises(DeviceError):
        gpu.load(CUBIN + b"!", SHA, "stamps")
    assert "moduleLoadData" not in cuda.calls
    assert gpu.load(CUBIN, SHA, "stamps").entry == "stamps"


def test_launch_passes_arguments_by_address_and_reads_its_own_records(gpu: CudaGpu, cuda: StandinCuda) -> None:
    function, clocks, sink = gpu.load(CUBIN, SHA, "stamps"), gpu.allocate(40 * 6), gpu.allocate(64)
    arguments: list[np.generic] = [np.uint64(clocks.address), np.uint32(7), np.uint64(sink.address)]
    cuda.elapsed_ms = 1.25
    timed = gpu.time(function, LaunchConfiguration(6, 64), arguments, clocks, watched=True)
    assert timed.records is not None and timed.telemetry is not None
    assert timed.seconds == 1.25e-3
    assert timed.records["end_cycles"].tolist() == [170] * 6
    assert timed.records["sm"].tolist() == [0, 1, 2, 3, 0, 1]
    assert (timed.telemetry.sm_clock_hz, timed.telemetry.reasons) == (1.755e9, 4)
    cuda.kernels["stamps"] = (3, lambda *_: None)  # a kernel that records nothing
    timed = gpu.time(function, LaunchConfiguration(1, 64), arguments, clocks)
    assert timed.records is not None
    assert timed.records["end_ns"].tolist() == [0]


# Copies


PLACES = [("pinned", "device"), ("device", "pinned"), ("pageable", "device"), ("device", "pageable"),
          ("device", "device"), ("device", "peer"), ("peer", "device")]  # fmt: skip


@each_row(("source", "target"), PLACES)
@each_row("size", [1, 4096, 5 * 2**20])
def test_copies_arrive_and_memory_is_given_back(
    gpu: CudaGpu, cuda: StandinCuda, source: Any, target: Any, size: int
) -> None:
    before = set(cuda.memory)
    assert gpu.copies(source, target, size, 2) > 0
    gpu.end_copies()
    assert set(cuda.memory) == before
    assert cuda.device == 0


def test_copy_that_loses_a_byte_or_does_nothing_is_an_error(
    gpu: CudaGpu, cuda: StandinCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda.corrupt = True
    with pytest.raises(DeviceError, match="device memory"):
        gpu.copies("pinned", "device", 4096, 1)
    cuda.corrupt = False
    monkeypatch.setattr(device_copies.DeviceCopies, "_by_events", lambda *_: 1e-3)
    gpu.copies("pinned", "pageable", 64, 1)
    with pytest.raises(DeviceError):
        gpu.copies("pinned", "device", 64, 1)


# Errors


def test_call_that_is_refused_is_an_error_of_its_kind(gpu: CudaGpu, cuda: StandinCuda) -> None:
    kinds = {"cudaErrorMemoryAllocation": OutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY": OutOfMemory,
             "cudaErrorInvalidValue": DeviceError}  # fmt: skip
    for name, kind in kinds.items():
        cuda.fail["malloc"] = CudaError(f"{name}: made up")
        with pytest.raises(DeviceError, match=name) as caught:
            gpu.allocate(8)
        assert (type(caught.value), caught.value.fatal) == (kind, False)


def test_error_after_which_nothing_works_is_fatal(gpu: CudaGpu, cuda: StandinCuda) -> None:
    cuda.fail["eventSynchronize"] = CudaError("cudaErrorIllegalAddress: an illegal memory access was encountered")
    cuda.dead = True
    with pytest.raises(DeviceError, match="cudaErrorIllegalAddress") as caught:
        gpu.time(gpu.load(CUBIN, SHA, "nothing"), LaunchConfiguration(1, 32), [], None)
    assert caught.value.fatal
