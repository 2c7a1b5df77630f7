"""The GPU in a process of its own: calls and errors cross, and what hangs or dies there ends nothing here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from gpuprof.characterize.on_gpu import served_gpu
from gpuprof.characterize.on_gpu.served_gpu import ServedGpu
from gpuprof.characterize.record.gpu import RECORD_BYTES, DeviceError, Hung, LaunchConfiguration, OutOfMemory, Stopped
from gpuprof.hardware.library import SpecLibrary
from gpuprof.resources import data_dir
from tests import fake_probes
from tests.fake_gpu import PROPERTIES, compiled
from tests.hostile_gpu import OPENER

LIBRARY = SpecLibrary(folders=(data_dir("specs"),))
ROOT = Path(__file__).resolve().parents[1]
Open = Callable[..., ServedGpu]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens hostile GPUs, and closes them."""
    monkeypatch.setenv("FAKE_PROBES", str(tmp_path / "probes"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setattr("os.fsync", lambda _file: None)
    monkeypatch.setattr(served_gpu, "_GRACE_S", 0.5)
    fake_probes.every(tmp_path / "probes")
    there: list[ServedGpu] = []

    def start(hostile: str = "", stop: Callable[[], bool] = lambda: False) -> ServedGpu:
        monkeypatch.setenv("HOSTILE", hostile)
        there.append(ServedGpu(0, stop, OPENER))
        return there[-1]

    yield start
    for gpu in there:
        gpu.close()


def process_of(gpu: ServedGpu) -> int:
    assert gpu._child is not None
    return gpu._child.process.pid


def has_ended(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{process}/stat").exists() and Path(f"/proc/{process}/stat").read_text().split()[2] == "Z"


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def launch(gpu: ServedGpu, tmp_path: Path, patience_s: float = 5.0) -> float:
    """Launch the fake's FFMA probe once."""
    probe = fake_probes.ffma(tmp_path / "probes")
    code = next(checked.compiled for checked in compiled([probe], "sm_80", lambda *_: None)[probe.id])
    assert code is not None and probe.kernel is not None
    function = gpu.load(code.cubin, code.sha256, probe.kernel.entry)
    clocks, sink = gpu.allocate(RECORD_BYTES * 8), gpu.allocate(8 * 256 * 4)
    given: dict[str, np.generic] = {
        "clocks": np.uint64(clocks.address), "sink": np.uint64(sink.address), "iterations": np.uint32(100),
    }  # fmt: skip
    arguments: list[np.generic] = [given.get(argument.kind, np.float32(1)) for argument in probe.kernel.arguments]
    timed = gpu.time(function, LaunchConfiguration(8, 256), arguments, clocks, watched=True, patience_s=patience_s)
    assert timed.records is not None and timed.telemetry is not None
    assert len(timed.records) == 8
    return timed.seconds


# Calls


def test_calls_results_and_errors_cross_between_the_processes(opened: Open, tmp_path: Path) -> None:
    gpu = opened()
    assert gpu.properties == PROPERTIES
    assert process_of(gpu) != os.getpid()
    assert launch(gpu, tmp_path) > 0
    memory = gpu.allocate(1024)
    gpu.repeat(memory, b"abc")
    assert gpu.read(memory, 5) == b"abcab"
    gpu.scatter(memory, 128, np.arange(4, dtype=np.uint64))
    gpu.release(memory)
    assert gpu.copies("pinned", "device", 1 << 20, 3) > 0
    gpu.end_copies()
    assert (gpu.telemetry().power_w, gpu.others().processes) == (100, 0)
    with pytest.raises(OutOfMemory) as caught:
        gpu.allocate(2**50)
    assert not caught.value.fatal
    with pytest.raises(DeviceError):
        gpu.load(b"{}", "0" * 64, "kernel")
    assert gpu.free_bytes() > 0


# What hangs or dies


@pytest.mark.slow
def test_kernel_that_hangs_is_given_up_and_the_gpu_opened_again(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = opened("instruction_ffma_throughput")
    first = process_of(gpu)
    with pytest.raises(Hung, match="instruction_ffma_throughput") as caught:
        launch(gpu, tmp_path, patience_s=0.1)
    assert caught.value.fatal
    assert wait_until(lambda: has_ended(first))
    with pytest.raises(DeviceError) as after:
        gpu.free_bytes()
    assert after.value.fatal
    monkeypatch.setenv("HOSTILE", "")
    gpu.restart()
    assert process_of(gpu) != first
    assert launch(gpu, tmp_path) > 0


@pytest.mark.slow
def test_user_who_stops_does_not_wait_for_a_kernel_that_hangs(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_gpu, "_STOP_S", 0.3)
    asked = [False]
    gpu = opened("instruction_ffma_throughput", lambda: asked[0])
    child = process_of(gpu)
    asked[0] = True
    began = time.monotonic()
    with pytest.raises(Stopped):
        launch(gpu, tmp_path, patience_s=600)
    assert time.monotonic() - began < 5
    assert wait_until(lambda: has_ended(child))
    with pytest.raises(Stopped):
        gpu.wait(100)


@pytest.mark.slow
def test_other_process_ends_with_this_one_however_that_ends(tmp_path: Path) -> None:
    text = (
        "import os\n"
        "from gpuprof.characterize.on_gpu.served_gpu import ServedGpu\n"
        f"gpu = ServedGpu(0, opener={OPENER!r})\n"
        "print(gpu._child.process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    fake_probes.every(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=ROOT, env={**os.environ, "FAKE_PROBES": str(tmp_path), "HOSTILE": ""},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL
    assert wait_until(lambda: has_ended(int(done.stdout)))
