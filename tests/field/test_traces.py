"""Traces and exports that others recorded, read back."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from itertools import pairwise

import pytest

from gpuprof.errors import InputError
from gpuprof.timeline.trace import COPY, KERNEL, SET, Trace
from tests.field.folder import report
from tests.readings import trace_of


def recorded(name: str) -> Trace:
    trace = trace_of(report(f"traces/{name}"))
    assert trace.activities[0].start_s >= 0
    assert all(one.start_s <= other.start_s for one, other in pairwise(trace.activities))
    return trace


def kinds(trace: Trace) -> dict[str, int]:
    return dict(Counter(activity.kind for activity in trace.activities))


def test_a_v100_trace_has_every_launch_with_operator_ranges_and_steps() -> None:
    trace = recorded("rank0-v100.pt.trace.json.gz")
    assert kinds(trace) == {KERNEL: 4350, COPY: 1600, SET: 145}
    assert (trace.rank, trace.ranks) == (0, 1)
    (gpu,) = trace.devices
    assert (gpu.name, gpu.compute_capability, gpu.sm_count) == ("Tesla V100-SXM2-32GB", "7.0", 80)
    assert [step.name for step in trace.steps] == ["ProfilerStep"] * 5
    assert trace.steps[1].duration_s == pytest.approx(72.077474e-3)
    assert all(activity.operator is not None and activity.duration_s for activity in trace.activities)
    forward = [activity for activity in trace.activities if activity.operator == "aten::cudnn_convolution"]
    assert {activity.ranges for activity in forward} == {("## forward ##", "DistributedDataParallel.forward")}
    first = trace.activities[0]
    assert (first.grid, first.block, first.stream, first.registers_per_thread) == ((4, 106, 1), (128, 1, 1), 7, 30)
    assert first.duration_s == pytest.approx(4.928e-6, abs=1e-12)
    # As binary fractions the times of this trace, 1.7e15 µs, would be whole quarters of a microsecond.
    nanoseconds = [activity.start_s * 1e9 for activity in trace.activities]
    assert all(abs(time - round(time)) < 1e-3 for time in nanoseconds)
    assert sum(round(time) % 250 != 0 for time in nanoseconds) > 6000


def test_an_old_trace_keeps_launches_without_a_duration_and_finds_the_operators_that_it_names() -> None:
    name = "resnet50-v100.pt.trace.json.gz"
    trace = recorded(name)
    assert kinds(trace) == {KERNEL: 8772, COPY: 12, SET: 312}
    assert sum(activity.duration_s is None for activity in trace.activities) == 636
    assert len(trace.steps) == 6
    ranges = {(), ("Optimizer.step#SGD.step",), ("Optimizer.zero_grad#SGD.zero_grad",)}
    assert {activity.ranges for activity in trace.activities} == ranges
    convolution = next(activity for activity in trace.activities if "computeOffsets" in activity.name)
    assert convolution.operator == "aten::cudnn_convolution [32, 3, 224, 224]×[64, 3, 7, 7]"
    # If PyTorch recorded which operator launched a kernel, it is the one that encloses the call.
    events = json.loads(gzip.decompress(report(f"traces/{name}").read_bytes()))["traceEvents"]
    named = {event["args"]["External id"]: event["name"] for event in events if event.get("cat") == "Operator"}
    gpu = [event for event in events if event.get("cat") in ("Kernel", "Memcpy", "Memset")]
    expected = Counter(named[event["args"]["external id"]] for event in gpu)
    assert Counter((activity.operator or "").split(" ")[0] for activity in trace.activities) == expected


def test_an_amd_trace_and_one_of_the_cpu_are_refused() -> None:
    with pytest.raises(InputError, match="AMD Radeon Graphics"):
        recorded("mi250-amd.pt.trace.json.gz")
    with pytest.raises(InputError, match="CPU") as caught:
        recorded("cpu-only.pt.trace.json.gz")
    assert "ProfilerActivity.CUDA" in (caught.value.hint or "")


def test_an_nsys_export_of_a_pascal_gpu() -> None:
    trace = recorded("miniweather-gp100.nsys.sqlite")
    assert kinds(trace) == {KERNEL: 2596, COPY: 1187, SET: 4}
    assert (trace.kind, trace.tool, trace.tool_version, trace.driver) == (
        "nsys-sqlite", "nsys", "2022.2.1.31", "510.47.03",
    )  # fmt: skip
    (gpu,) = trace.devices
    assert (gpu.name, gpu.compute_capability, gpu.sm_count) == ("Quadro GP100", "6.0", 56)
    assert (gpu.memory_bytes, gpu.l2_bytes, gpu.max_sm_clock_hz) == (17069375488, 4194304, 1.4425e9)
    first = next(activity for activity in trace.activities if activity.kind == KERNEL)
    assert (first.grid, first.block, first.registers_per_thread) == ((32, 1, 1), (128, 1, 1), 55)
    assert (first.shared_bytes, first.stream, first.process) == (2048, 13, 235583)
    assert first.duration_s == pytest.approx(8608e-9)
    assert sum(activity.bytes or 0 for activity in trace.activities if activity.name == "host to device") > 0
