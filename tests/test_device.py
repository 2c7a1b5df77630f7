"""The border to CUDA and NVML, on stand-ins that keep GPU memory on the host. Nothing here runs on a GPU."""

from __future__ import annotations

import ctypes
import hashlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprof.characterize.on_gpu import device, device_copies, device_launches
from gpuprof.characterize.on_gpu.device import CudaGpu, open_gpu
from gpuprof.characterize.on_gpu.environment import notes
from gpuprof.characterize.on_gpu.nvml_view import NvmlView
from gpuprof.characterize.on_gpu.processors import bind_near, listed, numbers
from gpuprof.characterize.record.gpu import DeviceError, Hung, LaunchConfiguration, Memory, Others, OutOfMemory
from gpuprof.collect.nvml import Nvml
from gpuprof.errors import EnvironmentProblem
from tests.fake_gpu import PROPERTIES
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
            "nvmlSystemGetDriverVersion": b"580.1",
            "nvmlDeviceGetEccMode": (1, 0),
            "nvmlDeviceGetMigMode": (0, 1),
            "nvmlDeviceGetMPSComputeRunningProcesses": [],
            "nvmlDeviceGetEnforcedPowerLimit": 650_000,
            "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
            "nvmlDeviceGetMaxClockInfo": {1: 1980, 2: 3201},
            "nvmlDeviceGetClockInfo": {1: 1755, 2: 3201},
            "nvmlDeviceGetPowerUsage": 123_456,
            "nvmlDeviceGetTemperature": 41,
            "nvmlDeviceGetTotalEnergyConsumption": 5_000,
            "nvmlDeviceGetCurrentClocksThrottleReasons": 4,
            "nvmlDeviceGetCurrPcieLinkGeneration": 5,
            "nvmlDeviceGetCurrPcieLinkWidth": 16,
            "nvmlDeviceGetComputeRunningProcesses": [SimpleNamespace(pid=1), SimpleNamespace(pid=2)],
            "nvmlDeviceGetGraphicsRunningProcesses": [SimpleNamespace(pid=2)],
            "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=37, memory=2),
            **answers,
        }

    def __getattr__(self, name: str) -> Any:
        if name not in self.answers:
            raise AttributeError(name)
        answer = self.answers[name]

        def ask(*words: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer[words[-1]] if isinstance(answer, dict) else answer

        return ask


def view(**answers: Any) -> NvmlView:
    """The GPU as such a driver tells of it."""
    return NvmlView("0000:01:00.0", Nvml(FakeNvml(**answers)))


# NVML


def test_settings_are_read_in_base_units() -> None:
    settings = view().settings()
    assert (settings.pci_id, settings.pci_subsystem) == ("10de:2335", "10de:18be")
    assert (settings.driver, settings.ecc, settings.mig, settings.mps) == ("580.1", True, False, False)
    assert (settings.power_limit_w, settings.default_power_limit_w) == (650.0, 700.0)
    assert (settings.max_sm_clock_hz, settings.max_memory_clock_hz) == (1.98e9, 3.201e9)
    assert (settings.persistence, settings.max_pcie_generation) == (None, None)


def test_processors_on_the_side_of_the_gpu_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 128)
    words = [0xFFFF_0000_0000_FFFF, 0x1]
    asked = view(nvmlDeviceGetCpuAffinity=words).settings().cpus
    assert asked == "0-15,48-64"
    assert numbers(asked) == {*range(16), *range(48, 65)}
    assert view().settings().cpus is None


@given(st.sets(st.integers(0, 300)))
def test_list_of_processors_is_read_back(ones: set[int]) -> None:
    assert numbers(listed(ones)) == ones


def test_process_that_holds_the_gpu_keeps_to_the_processors_beside_it_where_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[object] = []
    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {2, 3, 4}, raising=False)
    monkeypatch.setattr("os.sched_setaffinity", lambda _process, ones: kept.append(ones), raising=False)
    bind_near("3-8")
    bind_near("9-12")
    bind_near(None)
    assert kept == [{3, 4}]
    properties = replace(PROPERTIES, cpus="9-12")
    told = "this process may not use the processors next to the GPU (9-12): copies are slower"
    assert told in notes(properties, Others(0, 0.0))
    assert told not in notes(replace(properties, cpus="3-8"), Others(0, 0.0))


def test_process_that_holds_the_gpu_stays_where_it_is_where_the_system_forbids_to_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_process: int, _ones: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.sched_getaffinity", lambda _process: {2, 3, 4}, raising=False)
    monkeypatch.setattr("os.sched_setaffinity", refused, raising=False)
    bind_near("3-8")


def test_kernel_that_does_not_end_is_given_up(gpu: CudaGpu, cuda: StandinCuda) -> None:
    function = gpu.load(CUBIN, SHA, "nothing")
    cuda.hangs = True
    with pytest.raises(Hung, match=r"nothing failed: it did not end within \d+ s") as caught:
        gpu.time(function, LaunchConfiguration(1, 32), [], None, patience_s=0.05)
    assert caught.value.fatal
    # A context in which something hangs is asked nothing that would wait for it.
    assert "streamSynchronize" not in cuda.calls[cuda.calls.index("eventQuery") :]


def test_launch_that_ended_while_this_process_was_stopped_is_not_given_up() -> None:
    answers = iter([600, 0])
    runtime = SimpleNamespace(eventQuery=lambda _event: next(answers))
    device_launches.wait_for(runtime, 1, -1.0)
    assert next(answers, None) is None


def test_telemetry_is_read_in_base_units() -> None:
    seen = view().telemetry()
    assert (seen.sm_clock_hz, seen.memory_clock_hz) == (1.755e9, 3.201e9)
    assert (seen.power_w, seen.temperature_c, seen.energy_j) == (123.456, 41.0, 5.0)
    assert (seen.reasons, seen.pcie_generation, seen.pcie_width) == (4, 5, 16)


def test_other_processes_are_counted_once_each_and_without_this_one() -> None:
    import os

    ours = SimpleNamespace(pid=os.getpid())
    others = view(nvmlDeviceGetGraphicsRunningProcesses=[ours]).others()
    assert (others.processes, others.busy) == (2, 0.37)


@each_row("answer", [RuntimeError("not supported"), None])
def test_question_that_the_driver_does_not_answer_is_unknown(answer: Any) -> None:
    nvml = view(nvmlDeviceGetPowerUsage=answer, nvmlDeviceGetUtilizationRates=answer)
    assert nvml.telemetry().power_w is None
    assert nvml.others().busy is None


def test_gpu_that_nvml_does_not_know_has_no_answers() -> None:
    nvml = view(nvmlDeviceGetHandleByPciBusId=RuntimeError("not found"))
    assert nvml.telemetry() == type(nvml.telemetry())()
    assert nvml.others().processes is None
    assert nvml.settings().driver == "580.1"


# Opening


def test_without_cupy_one_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setitem(sys.modules, "cupy.cuda", None)
    with pytest.raises(EnvironmentProblem, match="CuPy, which runs the micro-kernels") as caught:
        open_gpu()
    assert re.fullmatch(r"install it: python -m pip install cupy-cuda1[23]x", caught.value.hint or "")


def test_without_a_driver_it_is_no_gpu(monkeypatch: pytest.MonkeyPatch, cuda: StandinCuda) -> None:
    cuda.fail["getDeviceCount"] = CudaError("cudaErrorInsufficientDriver: CUDA driver version is insufficient")
    monkeypatch.setattr(device, "_cupy", lambda: (cuda, cuda))
    with pytest.raises(EnvironmentProblem, match="no NVIDIA GPU to measure: cudaErrorInsufficientDriver"):
        open_gpu()


@each_row("index", [-1, 2])
def test_gpu_number_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, cuda: StandinCuda, index: int) -> None:
    monkeypatch.setattr(device, "_cupy", lambda: (cuda, cuda))
    with pytest.raises(EnvironmentProblem, match=f"there is no GPU {index}; this process sees 2"):
        open_gpu(index)


def test_properties_are_those_of_the_device(gpu: CudaGpu) -> None:
    found = gpu.properties
    assert (found.name, found.compute_capability, found.sm_count, found.l2_bytes) == ("Stand-in", "8.0", 4, 2**20)
    assert (found.memory_bus_bits, found.shared_per_block, found.cuda, found.peers) == (384, 2**16, "13.1", (1,))
    assert (found.driver, found.power_limit_w) == ("580.1", 650.0)


# Memory


def test_pattern_fills_memory_to_its_end(gpu: CudaGpu) -> None:
    memory = gpu.allocate(1000)
    gpu.repeat(memory, b"abcdefg")
    assert gpu.read(memory, 1000) == (b"abcdefg" * 143)[:1000]
    gpu.zero(memory)
    assert gpu.read(memory, 1000) == bytes(1000)


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


def test_stride_beyond_what_a_strided_copy_takes_is_an_error(gpu: CudaGpu) -> None:
    with pytest.raises(DeviceError, match="2147483648 bytes apart"):
        gpu.scatter(Memory(0, 0), 2**31, np.zeros(2, dtype=np.uint64))


# Kernels


def test_cubin_is_loaded_only_with_the_hash_that_the_gate_saw(gpu: CudaGpu, cuda: StandinCuda) -> None:
    with pytest.raises(DeviceError, match="not the one that was checked"):
        gpu.load(CUBIN + b"!", SHA, "stamps")
    assert "moduleLoadData" not in cuda.calls
    assert gpu.load(CUBIN, SHA, "stamps").entry == "stamps"


def test_launch_passes_arguments_by_address_and_reads_the_records(gpu: CudaGpu, cuda: StandinCuda) -> None:
    function, clocks, sink = gpu.load(CUBIN, SHA, "stamps"), gpu.allocate(40 * 6), gpu.allocate(64)
    arguments: list[np.generic] = [np.uint64(clocks.address), np.uint32(7), np.uint64(sink.address)]
    cuda.elapsed_ms = 1.25
    timed = gpu.time(function, LaunchConfiguration(6, 64), arguments, clocks, watched=True)
    assert timed.seconds == 1.25e-3
    assert timed.records is not None
    assert timed.records["end_cycles"].tolist() == [170] * 6
    assert timed.records["sm"].tolist() == [0, 1, 2, 3, 0, 1]
    assert timed.telemetry is not None
    assert (timed.telemetry.sm_clock_hz, timed.telemetry.reasons) == (1.755e9, 4)


def test_records_of_an_earlier_launch_are_cleared(gpu: CudaGpu, cuda: StandinCuda) -> None:
    cuda.kernels["stamps"] = (3, lambda *_: None)
    function, clocks = gpu.load(CUBIN, SHA, "stamps"), gpu.allocate(40)
    gpu.repeat(clocks, b"\x01")
    timed = gpu.time(
        function, LaunchConfiguration(1, 32), [np.uint64(clocks.address), np.uint32(1), np.uint64(0)], clocks
    )
    assert timed.records is not None
    assert timed.records["end_ns"].tolist() == [0]


def test_shared_memory_and_carveout_are_set_before_the_launch(gpu: CudaGpu, cuda: StandinCuda) -> None:
    function = gpu.load(CUBIN, SHA, "nothing")
    gpu.time(function, LaunchConfiguration(1, 32, shared_bytes=50_000, carveout=0.5), [], None)
    assert [entry[1:] for entry in cuda.attributes] == [(8, 50_000), (9, 50)]


def test_cooperative_launch_is_one(gpu: CudaGpu, cuda: StandinCuda) -> None:
    gpu.time(gpu.load(CUBIN, SHA, "nothing"), LaunchConfiguration(1, 32, cooperative=True), [], None)
    assert "launchCooperativeKernel" in cuda.calls
    assert "launchKernel" not in cuda.calls


@each_row(("way", "runs"), [("synchronous", 6), ("queued", 6), ("graph", 11)])
def test_rows_of_launches_run_each_of_them(gpu: CudaGpu, cuda: StandinCuda, way: Any, runs: int) -> None:
    gpu.launches(gpu.load(CUBIN, SHA, "nothing"), LaunchConfiguration(1, 32), [], 5, way)
    assert cuda.calls.count("nothing ran") == runs


def test_queued_launches_wait_until_all_are_in_the_queue(gpu: CudaGpu, cuda: StandinCuda) -> None:
    gpu.launches(gpu.load(CUBIN, SHA, "nothing"), LaunchConfiguration(1, 32), [], 3, "queued")
    rows = [call for call in cuda.calls if call in {"launchHostFunc", "launchKernel"}]
    assert rows == ["launchKernel", "launchHostFunc", *["launchKernel"] * 3]
    assert cuda.waiting is None


def test_more_launches_than_the_queue_takes_are_refused(gpu: CudaGpu) -> None:
    with pytest.raises(DeviceError, match="do not fit into the queue"):
        gpu.launches(
            gpu.load(CUBIN, SHA, "nothing"), LaunchConfiguration(1, 32), [], device_launches.QUEUE + 1, "queued"
        )


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


def test_copy_that_loses_a_byte_is_an_error(gpu: CudaGpu, cuda: StandinCuda) -> None:
    cuda.corrupt = True
    with pytest.raises(DeviceError, match="the data copied to device memory differs from what was sent"):
        gpu.copies("pinned", "device", 4096, 1)


def test_copy_that_does_nothing_is_an_error(gpu: CudaGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_copies.DeviceCopies, "_by_events", lambda *_: 1e-3)
    gpu.copies("pinned", "pageable", 64, 1)
    with pytest.raises(DeviceError, match="differs from what was sent"):
        gpu.copies("pinned", "device", 64, 1)


# Errors


@each_row(
    ("name", "kind"),
    [
        ("cudaErrorMemoryAllocation: out of memory", OutOfMemory),
        ("CUDA_ERROR_OUT_OF_MEMORY: out of memory", OutOfMemory),
        ("cudaErrorInvalidValue: invalid argument", DeviceError),
    ],
)
def test_call_that_is_refused_is_an_error_of_its_kind(
    gpu: CudaGpu, cuda: StandinCuda, name: str, kind: type[DeviceError]
) -> None:
    cuda.fail["malloc"] = CudaError(name)
    with pytest.raises(DeviceError, match=re.escape(name)) as caught:
        gpu.allocate(8)
    assert type(caught.value) is kind
    assert not caught.value.fatal


def test_error_after_which_nothing_works_is_fatal(gpu: CudaGpu, cuda: StandinCuda) -> None:
    cuda.fail["eventSynchronize"] = CudaError("cudaErrorIllegalAddress: an illegal memory access was encountered")
    cuda.dead = True
    with pytest.raises(DeviceError, match="nothing failed: cudaErrorIllegalAddress") as caught:
        gpu.time(gpu.load(CUBIN, SHA, "nothing"), LaunchConfiguration(1, 32), [], None)
    assert caught.value.fatal


def test_every_call_of_the_border_exists_in_cupy() -> None:
    cuda = pytest.importorskip("cupy.cuda", reason="CuPy is not installed")
    text = "".join(Path(module.__file__ or "").read_text() for module in (device, device_copies, device_launches))
    for owner in ("runtime", "driver"):
        names = set(re.findall(rf"\b_?{owner}\.(\w+)", text))
        if owner == "runtime":
            names |= {f"cudaDevAttr{name}" for name in re.findall(r'attribute\("(\w+)"\)', text)}
        assert names
        assert [name for name in names if not hasattr(getattr(cuda, owner), name)] == []


def test_record_is_the_struct_of_the_kernels() -> None:
    from gpuprof.characterize.record.gpu import RECORD, RECORD_BYTES

    assert np.dtype(RECORD).itemsize == RECORD_BYTES == 4 * ctypes.sizeof(ctypes.c_uint64) + 8
