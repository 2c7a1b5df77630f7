"""Timelines read back: the traces and exports of others, small ones made by hand, and files that are broken."""

from __future__ import annotations

import gzip
import json
import sqlite3
import warnings
from collections import Counter
from contextlib import closing
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuprof.api_compare import compare
from gpuprof.collect.launches import launches_of
from gpuprof.collect.step_numbers import StepNumber, step_number
from gpuprof.diagnose.diagnose import diagnose
from gpuprof.errors import DamagedInput, GpuprofError, InputError
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.session import DeviceTimeline
from gpuprof.model.torch_ranges import launched_by
from gpuprof.read import torch_json
from gpuprof.read.files import read_file
from gpuprof.read.nsys_sqlite import read_nsys_sqlite
from gpuprof.read.torch_trace import read_torch_trace
from gpuprof.timeline.analysis import analyse_traces
from gpuprof.timeline.trace import (
    COPY,
    GRAPH,
    KERNEL,
    MEMORY,
    SET,
    SHAPES,
    STACKS,
    Activity,
    Collective,
    MatrixProduct,
    ProgramStep,
    Trace,
)
from tests.readings import trace_of
from tests.table import each_row

RECORDED = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/run-transformer/run/survey.pt.trace.json.gz"


def test_a_recorded_training_has_every_launch_with_operator_ranges_and_steps() -> None:
    trace = trace_of(RECORDED)
    assert Counter(one.kind for one in trace.activities) == {KERNEL: 644, COPY: 57, SET: 36}
    assert (trace.rank, trace.ranks, len(trace.products)) == (None, None, 124)
    (gpu,) = trace.devices
    assert (gpu.name, gpu.compute_capability, gpu.sm_count) == ("NVIDIA H100 80GB HBM3", "9.0", 132)
    assert trace.created_s == pytest.approx(1795699991.1984997)
    assert [step.name for step in trace.steps] == ["optimizer step"] * 3
    assert {step_number(trace, step) for step in trace.steps} == {None}, "it is not known where it begins"
    surveyed = replace(trace, from_start=True)
    assert [step_number(surveyed, step) for step in trace.steps] == [StepNumber("optimizer", n) for n in (1, 2, 3)]
    assert [step.duration_s for step in trace.steps[:2]] == pytest.approx([18.513122e-3, 19.380207e-3])
    assert all(one.operator is not None and one.duration_s for one in trace.activities)
    assert all(one.start_s <= other.start_s for one, other in pairwise(trace.activities))
    first = trace.activities[0]
    assert (first.name, first.bytes, first.memory, first.stream) == ("host to device", 2_048_000, "pageable", 7)
    kernel = trace.activities[len(trace.activities) // 2]
    assert (kernel.ranges, kernel.operator) == (
        ("layers.0.self_attn (backward)",), "aten::copy_ [8, 256, 8, 64], [8, 256, 8, 64]",
    )  # fmt: skip
    assert (kernel.grid, kernel.block, kernel.registers_per_thread) == ((4096, 1, 1), (128, 1, 1), 18)
    assert kernel.duration_s == pytest.approx(4.128e-6, abs=1e-12)


def test_a_trace_that_is_cut_or_changed_is_damaged(tmp_path: Path) -> None:
    packed = RECORDED.read_bytes()
    flipped = packed[:12000] + bytes([packed[12000] ^ 0xFF]) + packed[12001:]
    cut = gzip.decompress(packed)[:200_000]
    for name, data in {"cut.json.gz": packed[:20000], "cut.json": cut, "flipped.json.gz": flipped}.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DamagedInput, match=name):
            read_file(str(tmp_path / name))


Event = dict[str, Any]


def event(cat: str, name: str, ts: float, dur: float | None, *, tid: Any = 1, pid: Any = 41, **args: Any) -> Event:
    """A complete event; times in microseconds."""
    made = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "args": args}
    return made if dur is None else {**made, "dur": dur}


def launch(correlation: int, ts: float, **more: Any) -> Event:
    return event("cuda_runtime", "cudaLaunchKernel", ts, 1, correlation=correlation, **more)


def gpu(cat: str, name: str, ts: float, dur: float | None, correlation: int, **args: Any) -> Event:
    """Something that GPU 0 did."""
    return event(cat, name, ts, dur, tid=7, pid=0, device=0, stream=7, correlation=correlation, **args)


def read(*events: object, **header: object) -> Trace:
    data = json.dumps({**header, "traceEvents": list(events)}).encode()
    return read_torch_trace(BytesIO(data), "trace.json", "0" * 64)


def only(trace: Trace) -> Activity:
    (one,) = trace.activities
    return one


def test_a_kernel_is_named_by_the_innermost_operator_and_the_ranges_around_its_call() -> None:
    trace = read(
        event("user_annotation", "ProfilerStep#3", 0, 100),
        event("user_annotation", "model", 10, 50),
        event("user_annotation", "layer 1", 12, 20),
        event("user_annotation", "layer 2", 40, 15),
        event("cpu_op", "aten::linear", 13, 12, **{"Input Dims": [[512, 1024], [1024, 1024], [1024]]}),
        event("cpu_op", "aten::addmm", 14, 10, **{"Input Dims": [[1024], [512, 1024], [1024, 1024], [], []]}),
        event("cpu_op", "aten::relu", 30, 2),
        # What another thread was doing is not around the launch.
        event("user_annotation", "forward", 0, 100, tid=2),
        launch(5, 16),
        gpu("kernel", "gemm", 70, 20.5, 5, grid=[8, 16, 1], block=[256, 1, 1], **{"shared memory": 49152}),
    )
    one = only(trace)
    assert one.operator == "aten::addmm [512, 1024]×[1024, 1024]"
    assert one.ranges == ("model", "layer 1")
    assert (one.start_s, one.duration_s) == pytest.approx((70e-6, 20.5e-6))
    assert (one.grid, one.block, one.shared_bytes, one.process) == ((8, 16, 1), (256, 1, 1), 49152, 41)
    assert trace.steps == (ProgramStep("ProfilerStep", 0.0, 100e-6, "41/1"),)


@each_row("dur", [None, 0, -3, "7", float("nan"), -0.5, 1e300])
def test_a_kernel_without_a_possible_duration_stays_a_launch(dur: Any) -> None:
    trace = read(gpu("kernel", "good", 1, 2, 5), gpu("kernel", "bad", 9, dur, 6))
    assert [activity.duration_s for activity in trace.activities] == [2e-6, None]
    assert ["bad has " in warning for warning in trace.warnings] == ([] if dur in (None, 0) else [True])


def test_modules_around_a_call_on_its_thread_are_ranges_of_a_launch() -> None:
    trace = read(
        event("python_function", "train.py(8): step", 0, 100),
        event("python_function", "nn.Module: GPT_0", 5, 60, **{"Python module id": 0}),
        event("user_annotation", "blocks", 8, 50),
        event("python_function", "nn.Module: Block_1", 10, 20, **{"Python module id": 1}),
        event("python_function", "nn.Module: Linear_7", 12, 2, **{"Python module id": 7}),
        event("cpu_op", "aten::mm", 15, 5),
        launch(5, 16),
        gpu("kernel", "gemm", 70, 20, 5),
        event("cpu_op", "MmBackward0", 30, 5, tid=2),
        launch(6, 31, tid=2),
        gpu("kernel", "gemm", 95, 20, 6),
    )
    forward, backward = trace.activities
    assert forward.ranges == ("nn.Module: GPT_0", "blocks", "nn.Module: Block_1")
    assert backward.ranges == ()
    assert launched_by((*forward.ranges, str(forward.operator))) == "Block_1 · aten::mm"


def test_what_one_launch_of_a_graph_ran_knows_that_launch() -> None:
    graph = event("cuda_runtime", "cudaGraphLaunch", 0, 5, correlation=3)
    again = event("cuda_driver", "cuGraphLaunch", 10, 5, correlation=4)
    nodes = [gpu("kernel", "k", 20 + at, 2, correlation=3 + at // 4) for at in (0, 2, 4)]
    of_node = gpu("kernel", "k", 40, 2, correlation=5, **{"graph node id": 9, "graph id": 2})
    alone = [launch(6, 16), gpu("kernel", "k", 50, 2, 6, **{"graph node id": 0, "graph id": 0})]
    trace = read(graph, again, *nodes, of_node, *alone)
    assert [one.graph_launch for one in trace.activities] == [3, 3, 4, 5, None]


@each_row(("name", "direction"), [
    ("Memcpy HtoD (Pageable -> Device)", "host to device"), ("Memcpy DtoH (Device -> Pinned)", "device to host"),
    ("Memcpy DtoD (Device -> Device)", "device to device"), ("Memcpy PtoP (Device -> Device)", "peer to peer"),
    ("Memcpy HtoH (Pinned -> Pinned)", "host to host"), ("Memcpy HtoA (Pageable -> Array)", "host to device"),
    ("Memcpy", "copy"),
])  # fmt: skip
def test_copies_are_named_by_their_direction(name: str, direction: str) -> None:
    for category in ("gpu_memcpy", "Memcpy"):
        one = only(read(gpu(category, name, 1, 2, 5, bytes=4096)))
        assert (one.kind, one.name, one.bytes) == (COPY, direction, 4096)
    cleared = only(read(gpu("gpu_memset", "Memset (Device)", 1, 2, 5, bytes=0)))
    assert (cleared.kind, cleared.name, cleared.bytes) == (SET, "memory set", 0)


NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
COLLECTIVE = {"Collective name": "allreduce", "In msg nelems": 1000, "dtype": "BFloat16", "Group size": 8}


def test_a_communication_kernel_tells_its_collective() -> None:
    assert only(read(gpu("kernel", NCCL, 1, 2, 5, **COLLECTIVE))).collective == Collective("all_reduce", 2000, 8)
    by_operator = read(
        event("cpu_op", "record_param_comms", 0, 9, **COLLECTIVE), launch(5, 3), gpu("kernel", NCCL, 20, 2, 5)
    )
    assert only(by_operator).collective == Collective("all_reduce", 2000, 8)
    assert only(read(gpu("kernel", NCCL, 1, 2, 5))).collective is None
    assert only(read(gpu("kernel", "gemm", 1, 2, 5, **COLLECTIVE))).collective is None


@each_row(("args", "expected"), [
    (("_allgather_base", 10, 80, "Float"), Collective("all_gather", 40, 8)),
    (("reduce_scatter_tensor_coalesced", None, None, None), Collective("reduce_scatter", None, 8)),
    (("recv", 0, 3, "Double"), Collective("recv", 24, 8)),
    # A rank put in an eighth of all that it gets, and eight times the part of the sum that it gets.
    (("all_gather", 0, 2_000_000, "BFloat16"), Collective("all_gather", 500_000, 8)),
    (("reduce_scatter", 0, 10, "Float"), Collective("reduce_scatter", 320, 8)),
    (("wait", 0, 0, "Float"), Collective("wait", 0, 8)),
    (("all_to_allv", 5, 5, "Strange"), Collective("all_to_all", None, 8)),
])  # fmt: skip
def test_collectives_have_common_names_and_the_bytes_of_a_rank(args: tuple[object, ...], expected: Collective) -> None:
    names = ("Collective name", "In msg nelems", "Out msg nelems", "dtype")
    told = {"Group size": 8, **dict(zip(names, args, strict=True))}
    assert only(read(gpu("kernel", NCCL, 1, 2, 5, **told))).collective == expected


def test_rank_ranks_and_peak_memory_are_those_of_the_trace() -> None:
    def memory(device_type: int, **args: int) -> Event:
        return {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Device Type": device_type, **args}}

    trace = read(
        gpu("kernel", "k", 1, 2, 5),
        memory(1, **{"Total Allocated": 3000, "Total Reserved": 9000}),
        memory(1, **{"Total Allocated": 1000}),
        memory(0, **{"Total Allocated": 10**9}),
        distributedInfo={"rank": 3, "world_size": 16},
    )
    assert (trace.rank, trace.ranks, trace.peak_memory_bytes) == (3, 16, 3000)
    plain = read(gpu("kernel", "k", 1, 2, 5), memory(1, Bytes=512))
    assert (plain.rank, plain.ranks, plain.peak_memory_bytes) == (None, None, None)


def test_devices_are_those_that_did_something_counted_from_zero() -> None:
    properties = [{"id": number, "name": f"GPU {number}", "computeMajor": 9, "computeMinor": 0} for number in range(4)]
    trace = read(
        event("kernel", "a", 1, 2, pid=3, device=3),
        event("kernel", "b", 5, 2, pid=1, device=1),
        deviceProperties=properties,
    )
    assert [gpu.name for gpu in trace.devices] == ["GPU 1", "GPU 3"]
    assert [(one.name, one.device) for one in trace.activities] == [("a", 1), ("b", 0)]
    assert only(read(gpu("kernel", "k", 1, 2, 5))).device == 0, "old traces have no properties"


def test_the_trace_starts_with_its_earliest_event_and_knows_the_date() -> None:
    events = (gpu("kernel", "k", 1000, 2, 5), event("cpu_op", "aten::add", 400, 3))
    trace = read(*events, baseTimeNanoseconds=1_700_000_000_000_000_000)
    assert only(trace).start_s == pytest.approx(600e-6)
    assert trace.created_s == pytest.approx(1_700_000_000.0004)
    assert read(*events).created_s is None


def test_what_lost_its_times_is_left_out() -> None:
    epoch_us = 1_782_700_000_000_000
    timed = [gpu("kernel", "k", epoch_us + 10 * number, 4, number) for number in range(3)]
    trace = read(*timed, *(gpu("kernel", "k", 0, 0, number) for number in range(3, 8)), event("cpu_op", "a", 0, 0))
    assert [one.start_s for one in trace.activities] == pytest.approx([0.0, 10e-6, 20e-6], abs=1e-12)
    assert len(trace.warnings) == 1 and trace.warnings[0].startswith("5 ")


def optimizer(kind: str, ts: float, dur: float, tid: int = 1) -> Event:
    return event("user_annotation", f"Optimizer.step#{kind}.step", ts, dur, tid=tid)


def test_steps_go_from_the_end_of_one_call_of_the_optimizer_to_the_end_of_the_next() -> None:
    calls = (optimizer("SGD", 90, 10), optimizer("SGD", 180, 30), optimizer("SGD", 300, 5))
    assert steps_of(*reversed(calls)) == [("optimizer step", 110), ("optimizer step", 95)]
    assert steps_of(*calls, event("user_annotation", "ProfilerStep#7", 50, 100)) == [("ProfilerStep", 100)]
    assert steps_of(calls[0]) == [], "nobody knows when the first step began"
    # A nested optimizer is part of the outer one; two in sequence are separate.
    both = [one for at in (0, 100) for one in (optimizer("Sharded", at, 50), optimizer("Adam", at, 30))]
    assert steps_of(*both) == [("optimizer step", 100)]
    pair = [one for at in (0, 100) for one in (optimizer("SGD", at, 10), optimizer("Adam", at + 20, 10))]
    assert [name for name, _ in steps_of(*pair)] == ["optimizer step (SGD)", "optimizer step (Adam)"]
    # Without an optimizer steps are calls of the outermost modules.
    modules = [
        event("python_function", name, at + begin, dur)
        for at in (0, 100, 250)
        for name, begin, dur in (("nn.Module: Net_0", 0, 40), ("nn.Module: Linear_0", 0, 20), ("forward", 0, 60))
    ]
    assert steps_of(*modules) == [("call of Net_0", 100), ("call of Net_0", 150)]


def marked(name: str, ts: float, dur: float) -> Event:
    return event("user_annotation", name, ts, dur)


def test_ranges_called_steps_come_before_calls_of_the_optimizer_and_others_after_them() -> None:
    """Five iterations of 100 µs, of which the range has 90."""
    optimizers = [optimizer("SGD", 80 + 100 * at, 10) for at in range(5)]
    for name in ("train_step", "iteration #"):
        ranges = [marked(name.replace("#", str(at)), 100 * at, 90) for at in range(5)]
        own = name.removesuffix(" #")
        assert steps_of(*ranges, *optimizers) == [(own, 90)] * 5
        assert steps_of(*ranges, event("user_annotation", "ProfilerStep#7", 50, 100)) == [("ProfilerStep", 100)]
    whole = [marked("run_training_batch", 100 * at, 90) for at in range(5)]
    assert steps_of(*whole) == [("run_training_batch", 90)] * 5
    assert steps_of(*whole, *optimizers) == [("optimizer step", 100)] * 4
    assert steps_of(*(marked(f"layer_{at}", 100 * at, 99) for at in range(5))) == []
    loaders = (marked("enumerate(DataLoader)#_BaseDataLoaderIter.__next__", 100 * at, 95) for at in range(5))
    assert steps_of(*loaders) == [], "waiting for data is no step"


def test_a_range_that_is_a_step_is_not_around_a_kernel() -> None:
    events = [
        one
        for at in range(4)
        for one in (
            marked(f"iteration {at}", 100 * at, 95),
            marked("forward", 100 * at + 10, 40),
            launch(at, 100 * at + 20),
            gpu("kernel", "gemm", 100 * at + 60, 20, at),
        )
    ]
    trace = read(*events)
    assert [step.name for step in trace.steps] == ["iteration"] * 4
    assert {one.ranges for one in trace.activities} == {("forward",)}


def test_a_step_of_a_survey_is_numbered_by_the_calls_before_it() -> None:
    def numbers(*events: Event, modules: tuple[str, ...] = ()) -> list[StepNumber | None]:
        trace = read(gpu("kernel", "k", 0, 2, 5), *events, gpuprof={"from_start": True, "modules": list(modules)})
        return [step_number(trace, step) for step in trace.steps]

    pair = [one for at in (0, 100, 200) for one in (optimizer("SGD", at, 10), optimizer("Adam", at + 20, 10))]
    assert numbers(*pair) == [StepNumber("optimizer", number) for number in (1, 2, 3, 4)]
    calls = [
        event("user_annotation", name, at + begin, dur, tid=tid)
        for at in (0, 100, 200)
        for tid in (41, 42)
        for name, begin, dur in (("Net", 0, 40), ("layers.0", 10, 20), ("MSELoss", 50, 10))
    ]
    own = [*calls, event("user_annotation", "epoch", 0, 400, tid=41)]
    numbered = numbers(*own, modules=("Net", "MSELoss"))
    in_main = [StepNumber("module", number, name) for number in (1, 2) for name in ("Net", "MSELoss")]
    assert [number for number in numbered if number is not None] == in_main
    assert numbered.count(None) == 4, "calls in another thread are not counted"
    assert numbers(*own) == []
    assert numbers(event("user_annotation", "ProfilerStep#7", 50, 100)) == [None]


def steps_of(*events: Event) -> list[tuple[str, float]]:
    """The steps of a trace with these events: names and microseconds."""
    steps = read(gpu("kernel", "k", 0, 2, 5), *events).steps
    return [(step.name, round(step.duration_s * 1e6, 3)) for step in steps]


def test_a_product_counts_once_at_its_outermost_operator_and_knows_its_kernels() -> None:
    dims = {"Input Dims": [[1, 3, 8, 8], [4, 3, 3, 3], [], [[2, 2], [3]]], "Input type": ["float", "float", None, "x"]}
    trace = read(
        # Whole microseconds: it seems to end after the call around it.
        event("cpu_op", "aten::cudnn_convolution", 11, 20, **dims),
        event("cpu_op", "aten::convolution", 10, 20, **dims, **{"Concrete Inputs": ["", "", "", "[1, 1]"]}),
        event("cpu_op", "aten::mm", 40, 10),
        event("cpu_op", "aten::mm", 60, 10),
        launch(5, 12),
        launch(6, 25),
        launch(7, 62),
        *(gpu("kernel", "k", 100 + 10 * n, 5, n) for n in (5, 6, 7)),
    )
    # The first call of aten::mm launched nothing.
    outer, second = trace.products
    assert outer == MatrixProduct(
        "aten::convolution", 0.0, ((1, 3, 8, 8), (4, 3, 3, 3), (), None), ("float", "float", "", "x"),
        ("", "", "", "[1, 1]"),
    )  # fmt: skip
    assert (second.name, second.shapes) == ("aten::mm", None)
    assert second.start_s == pytest.approx(50e-6)
    assert [one.product for one in trace.activities] == [0, 0, 1]
    assert [one.launched_s for one in trace.activities] == [pytest.approx(at) for at in (2e-6, 15e-6, 52e-6)]


def test_a_list_of_events_and_utf16_are_traces_too(tmp_path: Path) -> None:
    listed = json.dumps([gpu("kernel", "k", 1, 2, 5)])
    wide = json.dumps({"traceEvents": [gpu("kernel", "k", 1, 2, 5)]})
    late = json.dumps({"with_stack": 1, "note": "x" * 5000, "traceEvents": [gpu("kernel", "k", 1, 2, 5)]})
    for name, data in {
        "list.json": listed.encode(),
        "wide.json": wide.encode("utf-16"),
        "late.json": late.encode(),
    }.items():
        (tmp_path / name).write_bytes(data)
        trace = read_file(str(tmp_path / name))
        assert isinstance(trace, Trace) and only(trace).name == "k"


@each_row("data", [
    b'{"traceEvents": [', b'{"traceEvents": 5}', b'{"traceEvents": []}', b'{"traceEvents": ' + b"[" * 100_000,
    b'{"traceEvents": [{"ts": 1e99999999999999999999}]}', b'{"traceEvents": [{"ts": ' + b"9" * 5000 + b"}]}",
    gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], gzip.compress(b'{"traceEvents": []}', mtime=0) + b"rest",
])  # fmt: skip
def test_a_broken_trace_is_one_clear_error(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read_torch_trace(BytesIO(data), "trace.json", "")
    assert caught.value.hint and "trace.json" in caught.value.message


def test_a_gzip_bomb_is_stopped_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_json, "LARGEST", 10 * 2**20)
    bomb = gzip.compress(b'{"traceEvents": [' + b" " * 2**24)
    for data, name in ((bomb, "trace.json.gz"), (b" " * (10 * 2**20 + 1), "trace.json")):
        with pytest.raises(InputError, match="10 MiB"):
            read_torch_trace(BytesIO(data), name, "")


@each_row(
    ("events", "header", "says", "hint"),
    [
        # From 10 µs on, and 2 s after.
        (
            [event("cuda_runtime", "cudaGetDeviceCount", 10, 5), event("Trace", "PyTorch Profiler (0)", 10, 2e6)],
            {"deviceProperties": [{"id": 0}]}, "2.00 s", "process",
        ),
        (
            [event("cpu_op", "aten::mm", 0, 9), event("cuda_runtime", "cudaDeviceSynchronize", 10, 990)],
            {}, "1.00 ms", "torch.profiler.schedule",
        ),
        ([event("cpu_op", "aten::mm", 0, 9), launch(1, 2)], {}, "CUDA", "no other profiler"),
        ([event("cpu_op", "aten::mm", 0, 9)], {}, "CPU", "ProfilerActivity.CUDA"),
        ([event("user_annotation", "ProfilerStep#1", 0, 9)], {}, "CPU", "ProfilerActivity.CUDA"),
        ([event("overhead", "x", 0, 9)], {"deviceProperties": [{"id": 0}]}, "no kernels", "ProfilerActivity.CUDA"),
        ([event("", "cuMemAlloc_v2", 0, 9)], {}, "no kernels", "PyTorch"),
        ([event("cuda_runtime", "hipLaunchKernel", 1, 2), gpu("kernel", "k", 3, 2, 5)], {}, "AMD", ""),
    ],
)  # fmt: skip
def test_a_trace_without_gpu_activity_says_why_and_what_would_record_it(
    events: list[Event], header: dict[str, object], says: str, hint: str
) -> None:
    with pytest.raises(InputError) as raised:
        read(*events, **header)
    assert says in raised.value.message and hint in (raised.value.hint or "")


GPU_CATEGORIES = ("kernel", "gpu_memcpy", "Memset")
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.just([]), st.just({}),
    st.lists(st.integers(-1, 9), max_size=4), st.lists(st.lists(st.integers(-1, 9) | st.text(max_size=2), max_size=3)),
)  # fmt: skip
ARGS = st.dictionaries(
    st.sampled_from(
        ["correlation", "External id", "device", "stream", "grid", "block", "bytes", "Input Dims", "Input type",
         "Concrete Inputs", "Collective name", "In msg nelems", "dtype", "Device Type", "Total Allocated",
         "registers per thread", "shared memory"]
    ),
    ODD | st.integers(0, 5), max_size=6,
)  # fmt: skip
EVENTS = st.fixed_dictionaries(
    {"ph": st.sampled_from(["X", "X", "X", "s", "f", "i"]) | ODD},
    optional={
        "cat": st.sampled_from(
            [*GPU_CATEGORIES, "cpu_op", "cuda_runtime", "user_annotation", "python_function", "ac2g"]
        ) | ODD,
        "name": st.sampled_from(
            ["k", "ncclKernel", "ProfilerStep#1", "a#b", "[memory]", "Memcpy DtoH", "aten::mm", "nn.Module: N",
             "Optimizer.step#S.step"]
        ) | ODD,
        "ts": st.integers(0, 50) | ODD,
        "dur": st.integers(0, 50) | ODD,
        "pid": st.integers(0, 3) | ODD,
        "tid": st.integers(0, 3) | ODD,
        "id": st.integers(0, 5) | ODD,
        "args": ARGS | ODD,
    },
)  # fmt: skip


def has_time(event: Event) -> bool:
    at, duration = event.get("ts"), event.get("dur")
    lost = all(isinstance(time, (int, float)) and abs(time) < 1e-3 for time in (at, duration))
    return isinstance(at, (int, float)) and abs(at) < 1e18 and not lost


@given(st.lists(EVENTS | ODD, max_size=20), ODD, ODD)
def test_any_events_are_read_or_refused_and_none_is_lost_in_silence(
    events: list[Any], info: object, properties: object
) -> None:
    activities = [
        event for event in events
        if isinstance(event, dict) and event.get("ph") == "X" and event.get("cat") in GPU_CATEGORIES
    ]  # fmt: skip
    started = sum(map(has_time, activities))
    try:
        trace = read(*events, distributedInfo=info, deviceProperties=[properties])
    except GpuprofError as error:
        assert error.hint and (started == 0 or "AMD" in error.message or "JSON" in error.message)
        return
    left_out = len(activities) - len(trace.activities)
    assert left_out >= len(activities) - started
    assert any("shares are of the rest" in said for said in trace.warnings) == (left_out > 0)
    for one in trace.activities:
        assert one.start_s >= 0 and (one.duration_s is None or one.duration_s > 0)
        assert 0 <= one.device < len(trace.devices)


@given(st.binary(max_size=200))
def test_bytes_that_begin_like_a_trace_never_end_in_a_traceback(tail: bytes) -> None:
    for start in (b'{"traceEvents": [', b"\x1f\x8b\x08", b"[{"):
        with pytest.raises(GpuprofError):
            read_torch_trace(BytesIO(start + tail), "trace.json", "")


STARTED = "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER"
SHAPE = "gridX INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER"
PROCESS = (1 << 48) | (99 << 24)
THREAD = PROCESS | 99


def export(path: Path, *, kernels: int = 1, ranges: tuple[tuple[object, ...], ...] = ()) -> Path:
    """An export with kernels that take 500 ns every 1000 ns, each launched 300 ns before; ranges as they are given."""
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        made.execute("INSERT INTO StringIds VALUES (1, 'void saxpy<float>(int)'), (2, 'saxpy'), (3, '_Z5saxpy')")
        made.execute(
            f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({STARTED}, demangledName INTEGER, shortName INTEGER, "
            f"mangledName INTEGER, registersPerThread INTEGER, {SHAPE}, staticSharedMemory INTEGER, "
            "dynamicSharedMemory INTEGER)"
        )
        made.execute(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
            "correlationId INTEGER)"
        )
        for number in range(kernels):
            at = 1000 * (number + 1)
            made.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?,?,0,7,?,?,1,2,3,32,4,1,1,256,1,1,1024,512)",
                (at, at + 500, number + 1, PROCESS),
            )
            made.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?,?,?,?)", (at - 300, at - 290, THREAD, number + 1)
            )
        made.execute(
            "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, textId INTEGER, "
            "globalTid INTEGER)"
        )
        made.executemany("INSERT INTO NVTX_EVENTS VALUES (?,?,?,?,?,?)", ranges)
        made.commit()
    return path


def change(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as made:
        for statement in statements:
            made.execute(statement)
        made.commit()
    return path


def read_export(path: Path) -> Trace:
    trace = read_file(str(path))
    assert isinstance(trace, Trace)
    return trace


def test_a_kernel_of_an_export_has_names_shape_and_shared_memory(tmp_path: Path) -> None:
    # A name with signs of a URI is a file name.
    path = export(tmp_path / "50%41#a?mode=rwc.sqlite", kernels=2)
    change(path, "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 100 WHERE correlationId = 2")
    trace = read_export(path)
    assert [item.name for item in tmp_path.iterdir()] == ["50%41#a?mode=rwc.sqlite"]
    one, impossible = trace.activities
    assert (one.name, one.mangled, one.process) == ("void saxpy<float>(int)", "_Z5saxpy", 99)
    assert (one.grid, one.block, one.registers_per_thread, one.shared_bytes) == ((4, 1, 1), (256, 1, 1), 32, 1536)
    assert (one.start_s, one.duration_s) == pytest.approx((300e-9, 500e-9)), "from the call on"
    assert len(trace.devices) == 1 and trace.devices[0].name is None
    assert impossible.duration_s is None
    assert len(trace.warnings) == 1 and "-1e-07 s" in trace.warnings[0]


def test_launches_of_an_export_are_in_the_order_of_their_calls_on_all_streams(tmp_path: Path) -> None:
    path = export(tmp_path / "e.sqlite", kernels=3)
    # The first to be launched waits in its stream behind other work; something tells profilers to stop.
    change(
        path,
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 9000, end = 9100, streamId = 8 WHERE correlationId = 1",
        "INSERT INTO StringIds VALUES (9, 'cudaProfilerStop_v4000')",
    )
    trace = read_export(path)
    assert [one.launched_s for one in trace.activities] == pytest.approx([1e-6, 2e-6, 0.0])
    assert [seen.duration_s for seen in launches_of(trace)] == pytest.approx([100e-9, 500e-9, 500e-9])
    assert trace.profiler_calls and not read_export(export(tmp_path / "other.sqlite")).profiler_calls


def test_ranges_of_the_launching_thread_are_around_a_kernel(tmp_path: Path) -> None:
    ranges = (
        (0, 2000, 59, "main", None, THREAD),
        (600, 800, 59, None, 2, THREAD),
        (650, 660, 59, "over before", None, THREAD),
        (500, 1500, 60, "phase", None, THREAD),
        (0, 2000, 59, "other thread", None, THREAD + 1),
        (0, None, 59, "never ended", None, THREAD),
        (0, 2000, 34, "a mark", None, THREAD),
    )
    trace = read_export(export(tmp_path / "e.sqlite", ranges=ranges))
    assert only(trace).ranges == ("main", "phase", "saxpy")
    assert trace.steps == ()


def test_top_level_ranges_that_come_again_are_steps(tmp_path: Path) -> None:
    ranges = (
        *((1000 * n - 400, 1000 * n + 100, 59, f"step {n}", None, THREAD) for n in (1, 2, 3)),
        *((1000 * n - 350, 1000 * n, 59, "layer", None, THREAD) for n in (1, 2, 3)),
        (4000 - 400, 4000, 59, "save", None, THREAD),
    )
    trace = read_export(export(tmp_path / "e.sqlite", kernels=4, ranges=ranges))
    assert [(step.name, round(step.duration_s * 1e9)) for step in trace.steps] == [("step", 500)] * 3
    assert [one.ranges for one in trace.activities] == [("layer",), ("layer",), ("layer",), ("save",)]


@each_row(("kind", "source", "target", "direction", "memory"), [
    (1, 0, 2, "host to device", "pageable"), (1, 1, 2, "host to device", "pinned"),
    (2, 2, 0, "device to host", "pageable"), (2, 5, 1, "device to host", "pinned"),
    (1, 4, 2, "host to device", "unified"), (11, None, None, "host to device", "unified"),
    (8, 2, 2, "device to device", None), (10, 2, 2, "peer to peer", None),
    (12, None, None, "device to host", "unified"), (99, None, None, "copy", None), (1, 7, 2, "host to device", None),
    (1, None, None, "host to device", None),
])  # fmt: skip
def test_copies_have_the_memory_at_the_end_of_the_host(
    tmp_path: Path, kind: int, source: int | None, target: int | None, direction: str, memory: str | None
) -> None:
    ends = ",".join("NULL" if end is None else str(end) for end in (source, target))
    columns = "bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER"
    trace = read_export(
        change(
            export(tmp_path / "e.sqlite"),
            f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({STARTED}, {columns})",
            f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (2000,3000,0,7,60,{PROCESS},4096,{kind},{ends})",
            f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET ({STARTED}, bytes INTEGER)",
            f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMSET VALUES (5000,5100,0,7,50,{PROCESS},256)",
        )
    )
    _, copy, cleared = trace.activities
    assert (copy.kind, copy.name, copy.memory, copy.bytes) == (COPY, direction, memory, 4096)
    assert (cleared.kind, cleared.name, cleared.bytes) == (SET, "memory set", 256)


def test_an_old_export_without_most_columns_is_read(tmp_path: Path) -> None:
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        made.execute("INSERT INTO StringIds VALUES (1, 'saxpy')")
        made.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, correlationId INT, shortName INT)")
        made.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (2000, 2500, 1, 1)")
        made.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, globalTid INT, correlationId INT)")
        made.execute(f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1000, {THREAD}, 1)")
        made.execute("CREATE TABLE NVTX_EVENTS (start INT, end INT, text TEXT, globalTid INT)")
        made.execute(f"INSERT INTO NVTX_EVENTS VALUES (500, 1500, 'work', {THREAD})")
        made.commit()
    one = only(read_export(path))
    assert (one.name, one.ranges, one.process) == ("saxpy", ("work",), None)
    assert (one.grid, one.registers_per_thread, one.shared_bytes, one.stream) == (None, None, None, None)


def test_the_gpu_of_a_device_number_is_found_by_the_table_of_cuda_devices(tmp_path: Path) -> None:
    path = change(
        export(tmp_path / "e.sqlite"),
        "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT, smCount INT, computeMajor INT, computeMinor INT)",
        "INSERT INTO TARGET_INFO_GPU VALUES (0, 'Tesla T4', 40, 7, 5), (5, 'NVIDIA H200', 132, 9, 0)",
        "CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INT, cudaId INT, pid INT)",
        "INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (5, 0, 99)",
    )
    (gpu,) = read_export(path).devices
    assert (gpu.name, gpu.compute_capability, gpu.sm_count) == ("NVIDIA H200", "9.0", 132)


def timeline_of(trace: Trace) -> tuple[DeviceTimeline, ...]:
    timeline = analyse_traces([trace], HardwareFinder(), "1").session.timeline
    assert timeline is not None
    return timeline.devices


def graphs(*rows: tuple[int, int, int]) -> tuple[str, ...]:
    """Statements that add replays of whole graphs: start, end and number of the graph."""
    columns = f"{STARTED}, graphId INTEGER, graphExecId INTEGER"
    values = ", ".join(f"({start}, {end}, 0, 7, 99, {PROCESS}, {graph}, 5)" for start, end, graph in rows)
    return (
        f"CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE ({columns})",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES {values}",
    )


def test_whole_graphs_are_busy_time_beside_kernels_and_copies(tmp_path: Path) -> None:
    # Kernels run from 1000 to 1500 ns and from 2000 to 2500 ns.
    replays = graphs((1200, 1900, 3), (1850, 1950, 4), (2500, 3000, 3))
    trace = read_export(change(export(tmp_path / "some.sqlite", kernels=2), *replays))
    assert [(one.kind, one.name) for one in trace.activities if one.kind == GRAPH] == [
        (GRAPH, "graph 3"), (GRAPH, "graph 4"), (GRAPH, "graph 3"),
    ]  # fmt: skip
    (said,) = trace.warnings
    assert "3 replays" in said and "--cuda-graph-trace=node" in said
    (gpu,) = timeline_of(trace)
    assert (gpu.span_s, gpu.busy_s, gpu.kernel_s) == pytest.approx((2000e-9, 1950e-9, 1000e-9))
    assert gpu.graphs is not None and (gpu.graphs.graphs, gpu.graphs.replays) == (2, 3)
    assert gpu.graphs.time_s == pytest.approx(1250e-9)
    assert [(graph.name, graph.replays) for graph in gpu.graphs.longest] == [("graph 3", 2), ("graph 4", 1)]
    assert gpu.graphs.longest[0].median_s == pytest.approx(500e-9)
    assert gpu.gaps is not None and [gpu.gaps.count, gpu.gaps.total_s] == pytest.approx([1, 50e-9])
    assert gpu.strip is not None and {row.kind for row in gpu.strip.rows} == {"kernels", "graphs"}


COPIES = (
    f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY2 ({STARTED}, bytes INTEGER, copyKind INTEGER)",
    f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY2 VALUES (1000, 2000, 0, 7, 60, {PROCESS}, 4096, 10)",
    f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS ({STARTED}, sourceBytes INTEGER)",
    f"INSERT INTO CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS VALUES (2000, 3000, 0, 7, 61, {PROCESS}, 512)",
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, deviceId INTEGER)",
    "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (0, 9000, 0)",
)


def test_an_export_with_whole_graphs_alone_or_copies_alone_has_a_timeline(tmp_path: Path) -> None:
    replays = graphs((1000, 2000, 3), (2500, 3500, 3))
    trace = read_export(change(export(tmp_path / "graphs.sqlite", kernels=0), *replays))
    (gpu,) = timeline_of(trace)
    assert (gpu.span_s, gpu.busy_s, gpu.kernel_s) == pytest.approx((2500e-9, 2000e-9, 0.0))
    trace = read_export(change(export(tmp_path / "copies.sqlite", kernels=0), *COPIES))
    assert [(one.kind, one.name, one.bytes) for one in trace.activities] == [
        (COPY, "peer to peer", 4096), (COPY, "copy", None),
    ]  # fmt: skip
    assert trace.warnings == ()


def test_whole_graphs_alone_are_compared_by_busy_time_and_copies_alone_are_refused(tmp_path: Path) -> None:
    base, new, other, copies = (tmp_path / f"{name}.sqlite" for name in ("base", "new", "kernels", "copies"))
    change(export(base, kernels=0), *graphs((1000, 2000, 3), (2500, 3500, 3)))
    change(export(new, kernels=0), *graphs((1000, 2000, 3), (2500, 4000, 3), (4500, 5000, 3)))
    export(other)
    comparison = compare(base, new, fail_on=["total-time:5%", "time:3%"]).comparison
    figures = {change.name: [change.base, change.new] for change in comparison.total}
    assert figures["busy"] == pytest.approx([2000e-9, 3000e-9])
    assert figures["whole-graph-replays"] == [2, 3]
    assert [condition.name for condition in comparison.conditions if condition.affects] == []
    assert comparison.gate is not None
    checks = {check.quantity: (check.word, check.because) for check in comparison.gate.checks}
    assert checks == {"total-time": ("unclear", "noise"), "time": ("not-compared", "no-kernel")}
    # The graphs may run what the other side has.
    unseen = compare(base, other, fail_on=["time:3%"]).comparison
    assert {change.match for change in unseen.kernels} == {"unrecorded"} and unseen.gate is not None
    assert {check.word for check in unseen.gate.checks} == {"not-compared"}
    change(export(copies, kernels=0), *COPIES)
    with pytest.raises(InputError, match="no kernel was recorded"):
        compare(copies, new)


def test_a_graph_whose_nodes_were_recorded_is_no_whole_one(tmp_path: Path) -> None:
    nodes = (
        *graphs((1000, 2000, 3), (3000, 4000, 3)),
        "UPDATE CUPTI_ACTIVITY_KIND_GRAPH_TRACE SET correlationId = 1 WHERE start = 1000",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD graphNodeId INTEGER",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET graphNodeId = 8 WHERE correlationId = 1",
    )
    trace = read_export(change(export(tmp_path / "e.sqlite", kernels=1), *nodes))
    assert [one.kind for one in trace.activities] == [KERNEL, GRAPH]
    assert "1 replay of" in trace.warnings[0]


def test_time_in_whole_graphs_is_no_launch_gap(tmp_path: Path) -> None:
    def rules(trace: Trace) -> set[str]:
        session = diagnose(analyse_traces([trace], HardwareFinder(), "1"))
        return {finding.rule for kernel in session.kernels for finding in kernel.findings}

    between = graphs(*((at + 500, at + 990, 3) for at in range(1000, 20_000, 1000)))
    assert "launch-gaps" in rules(read_export(export(tmp_path / "kernels.sqlite", kernels=20)))
    assert "launch-gaps" not in rules(read_export(change(export(tmp_path / "graphs.sqlite", kernels=20), *between)))


def test_a_graph_that_begins_on_the_host_is_of_the_first_gpu_and_one_without_times_is_left_out(tmp_path: Path) -> None:
    replays = (
        *graphs((1000, 2000, 3), (0, 0, 3)),
        f"UPDATE CUPTI_ACTIVITY_KIND_GRAPH_TRACE SET deviceId = {2**31 - 1}",
    )
    trace = read_export(change(export(tmp_path / "e.sqlite", kernels=0), *replays))
    assert [(one.device, one.name) for one in trace.activities] == [(0, "graph 3")]
    assert "1 GPU activity" in trace.warnings[0]


def test_tables_are_found_whatever_version_their_names_have(tmp_path: Path) -> None:
    tables = ("CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME", "NVTX_EVENTS", "StringIds")
    ranges = ((500, 1600, 59, "work", None, THREAD),)
    plain = read_export(export(tmp_path / "plain.sqlite", ranges=ranges))
    renamed = [
        f"ALTER TABLE {table} RENAME TO {table}_V{version}"
        for table, version in zip(tables, (3, 2, 10, 4), strict=True)
    ]
    older = [
        f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL{end} AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL_V3 LIMIT {rows}"
        for end, rows in (("", 1), ("_V2", 1), ("_V11", 0))
    ]
    other = [f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL{end} SET streamId = 99" for end in ("", "_V2")]
    path = change(export(tmp_path / "renamed.sqlite", ranges=ranges), *renamed, *older, *other)
    assert read_export(path).activities == plain.activities
    assert plain.activities[0].ranges == ("work",)


def test_an_export_is_known_by_its_own_table_and_without_texts_its_kernels_differ_by_number(tmp_path: Path) -> None:
    path = change(
        export(tmp_path / "e.sqlite", kernels=2),
        "DROP TABLE StringIds",
        "CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT)",
        "INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_PRODUCT_VERSION', '2026.2.1.210')",
        "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET demangledName = 12 WHERE correlationId = 2",
    )
    trace = read_export(path)
    assert trace.tool_version == "2026.2.1.210"
    assert [one.name for one in trace.activities] == ["unnamed 1", "unnamed 12"]


def test_the_gpus_of_an_old_export_are_found_by_the_columns_of_its_time(tmp_path: Path) -> None:
    path = change(
        export(tmp_path / "e.sqlite"),
        "CREATE TABLE TARGET_INFO_CUDA_GPU (deviceId INT, name TEXT, numMultiprocessors INT, "
        "computeCapabilityMajor INT, computeCapabilityMinor INT, globalMemorySize INT)",
        "INSERT INTO TARGET_INFO_CUDA_GPU VALUES (0, 'Tesla T4', 40, 7, 5, 16000)",
    )
    (gpu,) = read_export(path).devices
    assert (gpu.name, gpu.compute_capability, gpu.sm_count, gpu.memory_bytes) == ("Tesla T4", "7.5", 40, 16000)


@each_row(("kind", "memory", "waits"), [(2, 0, 1), (2, 1, 0), (1, 0, 0)])
def test_a_call_of_an_export_that_copies_to_pageable_memory_waits(
    kind: int, memory: int, waits: int, tmp_path: Path
) -> None:
    path = change(
        export(tmp_path / "e.sqlite"),
        f"CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY ({STARTED}, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, "
        "dstKind INTEGER)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (2000, 2100, 0, 7, 9, {PROCESS}, 8, {kind}, {memory}, 2)",
        f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1800, 2150, {THREAD}, 9)",
    )
    found = read_export(path).host_waits
    assert found is not None
    assert [wait.end_s - wait.start_s for wait in found] == [pytest.approx(350e-9)] * waits


def test_graphics_of_an_export_may_fill_its_pauses(tmp_path: Path) -> None:
    table = "CREATE TABLE VULKAN_WORKLOAD (start INTEGER, end INTEGER, gpu INTEGER)"
    made = change(export(tmp_path / "e.sqlite", kernels=3), table)
    assert not read_export(made).incomplete
    trace = read_export(change(made, "INSERT INTO VULKAN_WORKLOAD VALUES (1500, 1900, 0)"))
    assert trace.incomplete and any("VULKAN" in said for said in trace.warnings)


def test_the_work_of_the_profiler_itself_is_known(tmp_path: Path) -> None:
    path = change(
        export(tmp_path / "e.sqlite"),
        "CREATE TABLE PROFILER_OVERHEAD (start INT, end INT, globalTid INT, nameId INT, returnValue INT)",
        "INSERT INTO PROFILER_OVERHEAD VALUES (1700, 2700, 1, 2, 0), (5, 4, 1, 2, 0)",
        "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD (start INT, end INT, nameId INT, overheadType INT)",
        "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (900, 1000, NULL, 3), (900, 1000, NULL, 7)",
    )
    moments_s = [at_s for part in read_export(path).overhead for at_s in part]
    assert moments_s == pytest.approx([200e-9, 300e-9, 1000e-9, 2000e-9])


def test_what_is_no_whole_export_with_kernels_says_so(tmp_path: Path) -> None:
    other = change(tmp_path / "other.sqlite", "CREATE TABLE songs (id INTEGER)")
    with pytest.raises(InputError, match="Nsight Systems"):
        read_file(str(other))
    with pytest.raises(InputError, match="CUDA") as caught:
        read_file(str(export(tmp_path / "empty.sqlite", kernels=0)))
    assert "nsys profile" in (caught.value.hint or "")
    whole = export(tmp_path / "e.sqlite", kernels=500)
    data = whole.read_bytes()
    for missing in (1, 512, 4096, 4097, len(data) - 100, len(data) - 17):
        (tmp_path / "cut.sqlite").write_bytes(data[:-missing])
        with pytest.raises(DamagedInput, match=r"cut\.sqlite is damaged"):
            read_file(str(tmp_path / "cut.sqlite"))
    at = data.index(b"CREATE TABLE NVTX_EVENTS") + 3
    (tmp_path / "schema.sqlite").write_bytes(data[:at] + b"\x80" + data[at + 1 :])
    with pytest.raises(DamagedInput, match="SQLite"):
        read_file(str(tmp_path / "schema.sqlite"))
    (tmp_path / "e.sqlite-journal").write_bytes(b"x")
    with pytest.raises(InputError, match="being written"):
        read_file(str(whole))


@given(at=st.integers(100, 28_000), byte=st.integers(0, 255), length=st.integers(1, 200))
def test_a_damaged_export_never_ends_in_a_traceback(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, length: int
) -> None:
    folder = tmp_path_factory.getbasetemp()
    whole = folder / "whole.sqlite"
    data = whole.read_bytes() if whole.exists() else export(whole, kernels=100).read_bytes()
    broken = folder / "broken.sqlite"
    broken.write_bytes((data[:at] + bytes([byte]) * length + data[at + length :])[: len(data)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            trace = read_nsys_sqlite(broken, "")
        except GpuprofError as error:
            assert error.hint
        else:
            assert all(one.start_s >= 0 for one in trace.activities)


def test_what_the_profiler_recorded_beside_times_and_its_own_work_is_kept() -> None:
    kernel = (launch(5, 16), gpu("kernel", "gemm", 70, 20, 5))
    assert read(*kernel).recorded == frozenset()
    assert read(*kernel, with_stack=1, record_shapes=0).recorded == {STACKS}
    assert read(*kernel, record_shapes=1, profile_memory=1).recorded == {SHAPES, MEMORY}
    frame, operator = event("python_function", "run.py(3): f", 1, 2), event("cpu_op", "aten::mm", 1, 2)
    memory = {"ph": "i", "name": "[memory]", "ts": 3, "args": {}}
    shaped = event("cpu_op", "aten::mm", 1, 2, **{"Input Dims": [[2, 3], [3, 2]]})
    assert [read(*kernel, one).recorded for one in (operator, frame, shaped, memory)] == [
        frozenset(), {STACKS}, {SHAPES}, {MEMORY},
    ]  # fmt: skip


def test_lazy_loading_is_no_work_of_the_profiler() -> None:
    trace = read(
        gpu("kernel", "gemm", 70, 20, 5),
        event("overhead", "Instrumentation", 40, 5),
        event("overhead", "Activity Buffer Request", 10, 20),
        event("overhead", "Lazy Function Loading", 50, 5),
    )
    assert trace.overhead == ((0.0, 20e-6), (30e-6, 35e-6))
    assert len(trace_of(RECORDED).overhead) == 8


NOW = 1_782_700_000_001_000.0
"""Microseconds since 1970; half of the kernels have such times."""


@each_row(("ts", "dur"), [
    (0, 0), (0, None), (0.0, 5), (0.0, 0.002), (12_345.678, 5), (-NOW, 5), (NOW + 1e15, 5), (NOW - 1e11, 5),
    (NOW - 1.2e9, 5), (None, 5),
])  # fmt: skip
def test_a_kernel_whose_time_cannot_be_is_left_out_and_counted(ts: float | None, dur: float | None) -> None:
    lost = {**gpu("kernel", "lost", 0, dur, 6), "ts": ts}
    annotation = event("gpu_user_annotation", "step", 0, 0.002)
    trace = read(
        launch(5, NOW), launch(6, NOW + 5), launch(7, NOW + 6), annotation,
        gpu("kernel", "whole", NOW + 10, 20, 5), lost, gpu("gpu_memcpy", "Memcpy HtoD", NOW + 40, 2, 7),
    )  # fmt: skip
    assert [one.name for one in trace.activities] == ["whole", "host to device"]
    assert trace.activities[0].start_s == pytest.approx(10e-6)
    (said,) = trace.warnings
    assert said.startswith("1 of 2 kernels has ") and said.endswith("shares are of the rest")


@each_row("dur", [1.8e19, 18_446_744_073_709_551.615, 1e15, 1e9, -5])
def test_a_duration_that_cannot_be_is_not_used(dur: float) -> None:
    trace = read(
        launch(5, NOW), event("cuda_runtime", "cudaDeviceSynchronize", NOW + 1, 100),
        gpu("kernel", "endless", NOW + 10, dur, 5), gpu("kernel", "whole", NOW + 40, 20, 6),
    )  # fmt: skip
    assert [one.duration_s for one in trace.activities] == [None, pytest.approx(20e-6)]
    assert any("impossible duration" in said for said in trace.warnings)


def test_a_kernel_before_its_launch_has_no_time_and_a_trace_without_it_is_incomplete() -> None:
    calls = [launch(number, NOW + 100 * number) for number in range(1, 6)]
    kernels = [gpu("kernel", f"k{number}", NOW + 100 * number + 5, 90, number) for number in range(1, 5)]
    trace = read(*calls, *kernels, gpu("kernel", "early", NOW - 3000, 90, 5))
    assert [one.name for one in trace.activities] == ["k1", "k2", "k3", "k4"]
    assert trace.incomplete and not read(*calls, *kernels).incomplete


def test_a_trace_that_is_cut_off_has_no_steps_because_any_may_lack_kernels() -> None:
    calls = [launch(number, NOW + 1000 * number + 10) for number in range(4)]
    steps = [event("user_annotation", f"ProfilerStep#{number}", NOW + 1000 * number, 990) for number in range(4)]
    kernels = [gpu("kernel", "k", NOW + 1000 * number + 20, 900, number) for number in range(4)]
    whole = json.dumps({"traceEvents": [*calls, *steps, *kernels]})
    cut = whole[: whole.rindex('"ph"') - 1]
    found = read_torch_trace(BytesIO(cut.encode()), "t.json", "", salvage=True)
    assert (len(found.activities), found.steps, found.incomplete) == (3, (), True)
    before = whole[: whole.index('"kernel"')]
    with pytest.raises(DamagedInput, match=r"before the first GPU activity.* 8 events are read") as caught:
        read_torch_trace(BytesIO(before.encode()), "t.json", "", salvage=True)
    assert caught.value.hint is not None and caught.value.hint.startswith("copy it again")


def test_a_gpu_clock_that_is_behind_for_most_is_set_right_and_one_kernel_alone_is_left_out() -> None:
    calls = [launch(number, NOW + 100 * number) for number in range(1, 6)]
    behind = [gpu("kernel", f"k{number}", NOW + 100 * number - 5e6, 90, number) for number in range(1, 6)]
    trace = read(*calls, *behind)
    assert [one.start_s for one in trace.activities] == pytest.approx([one.launch_s for one in trace.activities])
    (said,) = trace.warnings
    assert "5.00 s behind" in said and not trace.incomplete
    right = [gpu("kernel", f"k{number}", NOW + 100 * number + 5, 90, number) for number in range(1, 6)]
    assert [one.name for one in read(*calls, behind[0], *right[1:]).activities] == ["k2", "k3", "k4", "k5"]


@each_row("away_us", [-3600e6, -65e6, 65e6, 300e6, 5 * 3600e6])
def test_a_kernel_far_from_all_that_the_cpu_did_is_left_out(away_us: float) -> None:
    trace = read(launch(5, NOW), gpu("kernel", "k", NOW + 10, 20, 5), gpu("kernel", "stray", NOW + away_us, 20, 6))
    assert only(trace).name == "k" and trace.incomplete
    # Without the CPU nothing shows that it is wrong.
    assert len(read(gpu("kernel", "k", NOW, 20, 5), gpu("kernel", "later", NOW + 300e6, 20, 6)).activities) == 2


def test_a_long_queue_of_kernels_is_no_stray() -> None:
    calls = [launch(number, NOW + number) for number in range(1, 101)]
    queue = [gpu("kernel", f"k{number}", NOW + 1e6 * number, 1e6, number) for number in range(1, 101)]
    trace = read(*calls, *queue)
    assert (len(trace.activities), trace.warnings, trace.incomplete) == (100, (), False)
    assert read(*calls, *queue, gpu("kernel", "stray", NOW + 300e6, 1, 101)).incomplete


def test_kernels_that_were_launched_before_the_recording_are_of_no_step() -> None:
    calls = [launch(number, NOW + 10 + number) for number in (7, 8, 9)]
    # Three kernels of 100 µs are left from before; then the step's own.
    kernels = [gpu("kernel", f"k{number}", NOW + 100 * (number - 4), 99, number) for number in range(4, 10)]
    trace = read(event("user_annotation", "ProfilerStep#1", NOW, 50), *calls, *kernels)
    assert [one.launch_s < 0 for one in trace.activities] == [True] * 3 + [False] * 3
    session = analyse_traces([trace], HardwareFinder(), "1").session
    assert session.timeline is not None
    (device,) = session.timeline.devices
    assert device.start_up is not None
    assert (device.start_up.launches, sum(kernel.launches for kernel in session.kernels)) == (3, 3)
    assert device.span_s == pytest.approx(300e-6)
    # Without any calls it is not known, nor if later kernels have no call, either.
    assert {one.launched_s for one in read(*kernels).activities} == {None}
    later = read(*calls, *kernels, gpu("kernel", "k", NOW + 900, 5, 12)).activities
    assert [one.launched_s for one in later if one.call in (4, 5, 6, 12)] == [None] * 4


def test_work_from_before_the_recording_is_known_on_each_stream() -> None:
    calls = [launch(number, NOW + number) for number in (7, 8)]
    earlier = [gpu("kernel", "k", NOW + 100 * number, 99, number) for number in (4, 5)]
    # A copy on another stream begins before what was launched earlier has ended.
    copy = {**gpu("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", NOW + 20, 10, 7), "tid": 21}
    copy["args"] = {**copy["args"], "stream": 21}
    found = read(*calls, *earlier, copy, gpu("kernel", "own", NOW + 600, 99, 8)).activities
    assert [(one.name, one.launch_s < 0) for one in found] == [
        ("host to device", False), ("k", True), ("k", True), ("own", False),
    ]  # fmt: skip


@each_row(("name", "operators"), [
    ("Memcpy DtoH (Device -> Pageable)", ["aten::item"]), ("Memcpy DtoH (Device -> Pinned)", []),
    ("Memcpy HtoD (Pageable -> Device)", []),
])  # fmt: skip
def test_a_call_that_copies_to_pageable_memory_waits_for_the_gpu(name: str, operators: list[str]) -> None:
    trace = read(
        event("cpu_op", "aten::item", NOW, 200),
        event("cuda_runtime", "cudaMemcpyAsync", NOW + 10, 150, correlation=5),
        gpu("gpu_memcpy", name, NOW + 155, 2, 5),
    )
    assert trace.host_waits is not None
    assert [wait.operator for wait in trace.host_waits] == operators
    assert [wait.end_s - wait.start_s for wait in trace.host_waits] == [pytest.approx(150e-6)] * len(operators)


def test_a_trace_whose_kernels_have_no_times_says_so() -> None:
    with pytest.raises(InputError, match="none of its 1 GPU activities") as caught:
        read(launch(5, NOW), gpu("kernel", "k", 0, 0, 5))
    assert caught.value.hint is not None and "another release of PyTorch" in caught.value.hint


def test_times_are_exact_to_the_nanosecond() -> None:
    kernels = ", ".join(
        f'{{"ph": "X", "cat": "kernel", "name": "k{n}", "ts": {ts}, "dur": {dur}}}'
        for n, (ts, dur) in enumerate([("1700000000123456.789", "0.001"), ("1700000000123456.790", "1e1")])
    )
    trace = read_torch_trace(BytesIO(f'{{"traceEvents": [{kernels}]}}'.encode()), "t.json", "")
    assert [one.start_s for one in trace.activities] == [0.0, 1e-9]
    assert [one.duration_s for one in trace.activities] == [1e-9, 10e-6]


def lines(*events: object) -> str:
    return ",\n".join(json.dumps(one) for one in events)


KERNELS = [gpu("kernel", f"k{n}", 10 * n, 5, n) for n in range(1, 5)]
UNESCAPED = (
    r'{"ph": "X", "cat": "python_function", "name": "torch\cuda\__init__.py(219): _lazy_init", "ts": 1, "dur": 2}',
    '{"ph": "X", "cat": "python_function", "name": "lib = Library("_test", "IMPL")\n(1): <module>", "ts": 1, "dur": 2}',
    '{"ph": "X", "cat": "python_function", "name": "{"device": "cpu"}(12): run", "pid": 1, "ts": 1, "dur": 2}',
    r'{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "args": {"Call stack": "C:\Users\me\a.py(1): f"}}',
)


@each_row("broken", UNESCAPED)
def test_a_name_that_was_not_escaped_is_the_cause_and_the_other_events_can_be_salvaged(broken: str) -> None:
    for before, after in ((KERNELS[:2], KERNELS[2:]), (KERNELS, []), ([], KERNELS)):
        parts = [*map(json.dumps, before), broken, *map(json.dumps, after)]
        data = f'{{"traceEvents": [{", ".join(parts)}], "traceName": "t"}}'.encode()
        with pytest.raises(DamagedInput, match=f"event {len(before) + 1} .*without escaping") as caught:
            read_torch_trace(BytesIO(data), "t.json", "")
        assert caught.value.hint is not None and "--salvage" in caught.value.hint and "with_stack" in caught.value.hint
        trace = read_torch_trace(BytesIO(data), "t.json", "", salvage=True)
        assert [one.name for one in trace.activities] == ["k1", "k2", "k3", "k4"]
        assert trace.warnings == ("1 of 5 events is damaged and left out",)


def test_a_trace_that_is_cut_off_can_be_salvaged(tmp_path: Path) -> None:
    whole = json.dumps({"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": KERNELS}).encode()
    cut = whole[: whole.index(b'"k4"')]
    packed = gzip.compress(whole, mtime=0)
    wrong_sum = packed[:-6] + bytes([packed[-6] ^ 1]) + packed[-5:]
    for data, names, says in (
        (cut, ["k1", "k2", "k3"], "ends in event 4: 3 events"),
        (whole[: whole.index(b'{"ph": "X", "cat": "kernel", "name": "k3"')], ["k1", "k2"], "ends in event 3"),
        (gzip.compress(cut, mtime=0), ["k1", "k2", "k3"], "ends in event 4"),
        (packed[:-12], None, "marker was reached"),
        (wrong_sum, ["k1", "k2", "k3", "k4"], "CRC"),
    ):
        file = tmp_path / "t.json"
        file.write_bytes(data)
        with pytest.raises(DamagedInput) as caught:
            read_file(str(file))
        assert caught.value.hint is not None and "--salvage" in caught.value.hint
        trace = read_file(str(file), salvage=True)
        assert isinstance(trace, Trace) and trace.devices[0].name == "NVIDIA H100"
        assert names is None or [one.name for one in trace.activities] == names
        assert any(says in said for said in trace.warnings)
    with pytest.raises(DamagedInput):
        read_torch_trace(BytesIO(b'{"traceEvents": [{"ph'), "t.json", "", salvage=True)


@each_row("text", [
    r'{"traceEvents": EVENTS, "traceName": "C:\Users\me\t.json"}', '{"traceEvents": EVENTS', '{"traceEvents": EVENTS}}',
    '{"traceEvents": EVENTS, "info": "a "b" c"}', '{"traceEvents": EVENTS} {"traceEvents": []}',
    r'{"info": "C:\Users\me", "traceEvents": EVENTS}', '{"config": {"a": nan}, "traceEvents":  EVENTS}',
])  # fmt: skip
def test_damage_beside_the_events_is_said_and_loses_none(text: str) -> None:
    data = text.replace("EVENTS", f"[{lines(*KERNELS)}]").encode()
    for salvage in (False, True):
        trace = read_torch_trace(BytesIO(data), "t.json", "", salvage=salvage)
        assert [one.name for one in trace.activities] == ["k1", "k2", "k3", "k4"]
        assert len(trace.warnings) == 1 and "its events is damaged" in trace.warnings[0] and not trace.incomplete


def test_what_only_cpp_calls_a_number_damages_no_event() -> None:
    copy = json.dumps(gpu("gpu_memcpy", "Memcpy HtoD", 60, 2, 9, bandwidth=1.5, bytes=8))
    data = f'{{"traceEvents": [{lines(*KERNELS)}, {copy.replace("1.5", "inf")}, {copy.replace("1.5", "-nan")}]}}'
    trace = read_torch_trace(BytesIO(data.encode()), "t.json", "")
    assert [one.bytes for one in trace.activities[4:]] == [8, 8] and not trace.warnings
    # The first key of these events is unknown, and so are their ends: none may be lost without a warning.
    odd = [f'{{"cbid": 1, {json.dumps(one)[1:]}' for one in KERNELS]
    broken = f'{{"traceEvents": [{odd[0].replace("true", "nan").replace(": 5", ": nan", 1)}, {", ".join(odd[1:])}]}}'
    with pytest.raises(DamagedInput):
        read_torch_trace(BytesIO(broken.encode()), "t.json", "")
    assert read_torch_trace(
        BytesIO(f"{broken[:-2]}, {lines(*KERNELS)}]}}".encode()), "t.json", "", salvage=True
    ).incomplete


def test_a_list_of_events_needs_no_bracket_at_its_end() -> None:
    for end in ("", ",", ",\n", "]", ",]"):
        trace = read_torch_trace(BytesIO(f"[{lines(*KERNELS)}{end}".encode()), "t.json", "")
        assert len(trace.activities) == 4
        assert bool(trace.warnings) == ("]" not in end)


def test_batches_and_single_events_give_the_same_trace() -> None:
    many = [gpu("kernel", f"k{n % 7}", 10 * n, 5, n) for n in range(5000)]
    odd = {"ph": "X", "name": "a\tb", "args": [1], "ts": float("nan")}
    read_together = read(*many)
    assert read(*many[:2500], odd, *many[2500:]).activities == read_together.activities
    spread = json.dumps({"traceEvents": many}, indent=1, sort_keys=True).encode()
    assert read_torch_trace(BytesIO(spread), "trace.json", "0" * 64) == read_together


@each_row(("events", "header", "says"), [
    ([event("mtia_runtime", "launch", 1, 2)], {"deviceProperties": [{"id": 17, "name": "ACCEL-X"}]}, "ACCEL-X"),
    ([event("xpu_runtime", "zeEnqueue", 1, 2), gpu("kernel", "k", 3, 2, 5)], {}, "an Intel GPU"),
    ([gpu("kernel", "k", 3, 2, 5)], {"deviceProperties": [{"id": 0, "name": "Intel(R) Arc(TM)"}]}, "an Intel GPU"),
    ([event("hpu_op", "x", 1, 2)], {}, "Gaudi"),
    ([event("musa_runtime", "x", 1, 2), gpu("kernel", "k", 3, 2, 5)], {}, "not NVIDIA's"),
    ([event("cuda_runtime", "mcLaunchKernel", 1, 2), gpu("kernel", "k", 3, 2, 5)], {}, "not NVIDIA's"),
    ([gpu("kernel", "k", 3, 2, 5)], {"deviceProperties": [{"id": 0, "warpSize": 64}]}, "not NVIDIA's"),
    ([gpu("kernel", "Cijk_Alik_Bljk_BBS_BH", 3, 2, 5)], {}, "an AMD GPU"),
    ([event("privateuse1_runtime", "x", 1, 2)], {}, "PrivateUse1"),
    ([launch(5, 1), event("cuda_profiler_range", "k", 3, 2, **{"dram__bytes_read.sum": 5})], {}, "1 range"),
])  # fmt: skip
def test_traces_of_other_accelerators_and_of_counters_are_named(
    events: list[Event], header: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError) as raised:
        read(*events, **header)
    assert says in raised.value.message and raised.value.hint


def test_kernels_beside_ranges_of_counters_are_read_with_a_warning() -> None:
    trace = read(event("cuda_profiler_range", "k", 3, 2), gpu("kernel", "k", 3, 2, 5))
    assert only(trace).name == "k" and "cuda_profiler_range" in trace.warnings[0]
