"""The survey by cupti-python; a module with the names of NVIDIA's stands in for it, and hands over made-up records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from gpuprof.collect.annotate import survey_variables
from gpuprof.collect.launches import launches_of
from gpuprof.read.files import read_file
from gpuprof.timeline.trace import COPY, KERNEL, SET, Trace

CUPTI = """
import os, types
class ActivityKind:
    MEMCPY, MEMSET, DEVICE, CONCURRENT_KERNEL = 1, 2, 8, 10
enabled, callbacks = [], []
def activity_register_callbacks(requested, completed):
    assert requested() == (8 * 1024 * 1024, 0)
    callbacks.append(completed)
def activity_enable(kind):
    if os.environ.get("NO_DRIVER"):
        raise RuntimeError("CUDA driver is not found")
    enabled.append(int(kind))
def record(kind, **values):
    return types.SimpleNamespace(kind=kind, **values)
START = 1_700_000_000_123_456_789
where = dict(device_id=1, stream_id=7, correlation_id=5)
def activity_flush_all(flag):
    assert flag == 1 and sorted(enabled) == [1, 2, 8, 10]
    if os.environ.get("NOTHING"):
        return
    callbacks[0]([
        record(8, id=1, name="NVIDIA H100 80GB HBM3", num_multiprocessors=132, compute_capability_major=9,
               compute_capability_minor=0, global_memory_size=85_000_000_000),
        record(10, name="_Z4scalPfi", start=START + 2_000, end=START + 5_001, grid_x=64, grid_y=2, grid_z=1,
               block_x=128, block_y=1, block_z=1, registers_per_thread=40, static_shared_memory=1024,
               dynamic_shared_memory=512, graph_node_id=0, **where),
        *(record(10, name=name, start=START + at, end=START + at + 10, grid_x=1, grid_y=1, grid_z=1, block_x=32,
                 block_y=1, block_z=1, registers_per_thread=16, static_shared_memory=0, dynamic_shared_memory=0,
                 graph_node_id=node, device_id=1, stream_id=9, correlation_id=correlation)
          for name, at, node, correlation in (("launched_first", 6_000, 0, 4), ("node", 7_000, 3, 6))),
        record(1, copy_kind=1, src_kind=1, dst_kind=3, bytes=4096, start=START, end=START + 1_500, **where),
        record(2, bytes=64, start=START + 9_000, end=START + 9_100, **where),
        record(99),
    ])
"""
PROGRAM = "import sys; print('ran', sorted(sys.argv)); sys.exit(int(sys.argv[1]))"


def surveyed(folder: Path, code: int = 0, **environ: str) -> subprocess.CompletedProcess[str]:
    package = folder / "packages/cupti"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "cupti.py").write_text(CUPTI)
    (folder / "out").mkdir(exist_ok=True)
    plain = {"PATH": os.environ["PATH"], "PYTHONPATH": str(package.parent), **environ}
    variables = {**survey_variables(plain, folder / "out"), "GPUPROF_SURVEY_BY": "cupti"}
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(code)],
        env={**plain, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_kernels_copies_and_settings_become_a_timeline_with_symbols(tmp_path: Path) -> None:
    done = surveyed(tmp_path, code=3)
    assert (done.returncode, done.stdout, done.stderr) == (3, "ran ['-c', '3']\n", "")
    (file,) = (tmp_path / "out").iterdir()
    assert file.name.startswith("cupti-") and file.name.endswith(".pt.trace.json.gz")
    trace = read_file(str(file))
    assert isinstance(trace, Trace)
    assert [(one.kind, one.start_s, one.duration_s) for one in trace.activities] == [
        (COPY, 0.0, 1.5e-6), (KERNEL, 2e-6, 3.001e-6), (KERNEL, 6e-6, 1e-8), (KERNEL, 7e-6, 1e-8), (SET, 9e-6, 1e-7),
    ]  # fmt: skip
    copy, kernel, *_, setting = trace.activities
    assert (copy.name, copy.memory, copy.bytes, setting.bytes) == ("host to device", "pageable", 4096, 64)
    assert (kernel.name, kernel.mangled) == ("scal(float*, int)", "_Z4scalPfi")
    assert (kernel.grid, kernel.block) == ((64, 2, 1), (128, 1, 1))
    assert (kernel.registers_per_thread, kernel.shared_bytes, kernel.stream) == (40, 1536, 7)
    (device,) = trace.devices
    assert (device.name, device.compute_capability, device.sm_count) == ("NVIDIA H100 80GB HBM3", "9.0", 132)


def test_launches_of_several_streams_are_in_the_order_of_their_calls(tmp_path: Path) -> None:
    surveyed(tmp_path)
    (file,) = (tmp_path / "out").iterdir()
    trace = read_file(str(file))
    assert isinstance(trace, Trace)
    found = [(seen.demangled, seen.position, seen.in_graph) for seen in launches_of(trace)]
    assert found == [("launched_first", 0, False), ("scal(float*, int)", 1, False), ("node", 2, True)]


def test_a_process_without_a_gpu_or_a_driver_leaves_nothing(tmp_path: Path) -> None:
    assert surveyed(tmp_path, NOTHING="1").stderr == ""
    done = surveyed(tmp_path, NO_DRIVER="1")
    assert done.returncode == 0 and done.stdout.startswith("ran")
    assert done.stderr.startswith("gpuprof: ") and done.stderr.endswith("RuntimeError: CUDA driver is not found\n")
    assert list((tmp_path / "out").iterdir()) == []
