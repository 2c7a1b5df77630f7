"""Timelines that others recorded: time by operator, waits, FLOP, and kernels kept apart."""

from __future__ import annotations

from collections import defaultdict

import pytest

from gpuprof.model.groupings import GROUPINGS
from gpuprof.model.session import PathFlop
from gpuprof.model.time_by import time_by
from gpuprof.timeline.trace import KERNEL
from tests.field.folder import report
from tests.readings import session_of, trace_of
from tests.table import each_row

RESNET = "traces/resnet50-v100.pt.trace.json.gz"


@each_row(("name", "groupings"), [
    ("rank0-v100.pt.trace.json.gz", GROUPINGS), ("resnet50-v100.pt.trace.json.gz", ("operator", "range", "kernel")),
    ("alexnet-a100.pt.trace.json.gz", ("operator", "range", "kernel")),
    ("miniweather-gp100.nsys.sqlite", ("kernel",)),
])  # fmt: skip
def test_groups_of_a_trace_add_up_to_its_kernels(name: str, groupings: tuple[str, ...]) -> None:
    whole = session_of(report(f"traces/{name}"))
    for by in groupings:
        times = time_by(whole, whole.kernels, by)
        assert times.time_s == pytest.approx(sum(own.time_total_s or 0 for own in whole.kernels), rel=1e-12)
        assert times.launches == sum(own.launches for own in whole.kernels)
        assert sum(group.time_share or 0 for group in times.groups) == pytest.approx(1)
        assert times.untimed_launches == (636 if name.startswith("resnet") else 0)


def test_operators_of_a_trace_take_what_its_events_take() -> None:
    path = report("traces/rank0-v100.pt.trace.json.gz")
    by_operator: dict[str, float] = defaultdict(float)
    for activity in trace_of(path).activities:
        if activity.kind == KERNEL:
            by_operator[(activity.operator or "").partition(" [")[0]] += activity.duration_s or 0
    whole = session_of(path)
    times = {group.name: group for group in time_by(whole, whole.kernels, "operator").groups}
    assert {name: group.time_s for name, group in times.items()} == pytest.approx(by_operator)
    assert times["aten::convolution_backward"].launches == 1330


def test_a_report_with_nvtx_ranges_is_told_by_them() -> None:
    whole = session_of(report("cutlass-384.ncu-rep"))
    groups = time_by(whole, whole.kernels, "range").groups
    assert [(group.name, group.launches) for group in groups] == [("Fused-GEMM", 1), ("Non-fused-GEMM", 2)]
    assert [group.fraction_of_roof for group in groups] == pytest.approx([0.15, 0.18], abs=0.005)


def test_idle_time_of_a_training_ends_at_its_copies_and_that_of_openacc_at_waits() -> None:
    training = session_of(report(RESNET))
    (told,) = (kernel for kernel in training.kernels for item in kernel.findings if item.rule == "launch-gaps")
    (gaps,) = (item for item in told.findings if item.rule == "launch-gaps")
    amounts = {amount.name: amount.value for amount in gaps.amounts}
    assert (amounts["idle_before"], amounts["time_before"]) == pytest.approx((0.768, 0.3548 / 6), rel=2e-3), (
        "of one of six steps"
    )
    assert [label.texts for label in gaps.labels if label.name == "direction"] == [("host-to-device",)]
    assert "[32, 3, 224, 224]" in told.label, "the first layer, which takes the images"
    openacc = session_of(report("traces/miniweather-gp100.nsys.sqlite"))
    assert openacc.timeline is not None
    (device,) = openacc.timeline.devices
    assert device.gaps is not None and device.gaps.waited_s is not None
    assert (device.gaps.waited_s + device.gaps.after_waits_s) / device.gaps.total_s > 0.9


@each_row(("name", "judged", "span_s", "busy_s", "start_up_s"), [
    ("alexnet-a100.pt.trace.json.gz", "repetition", 90.228e-3, 5.809e-3, 12.830016),
    ("miniweather-gp100.nsys.sqlite", "repetition", 188.985e-3, 61.395e-3, 86.1757e-3),
    ("rank0-v100.pt.trace.json.gz", "steps", 483.518e-3, 472.454e-3, 0.0),
    ("resnet50-v100.pt.trace.json.gz", "steps", 1065.553e-3, 603.558e-3, 0.0),
])  # fmt: skip
def test_what_comes_once_at_the_start_is_not_judged(
    name: str, judged: str, span_s: float, busy_s: float, start_up_s: float
) -> None:
    timeline = session_of(report(f"traces/{name}")).timeline
    assert timeline is not None
    (gpu,) = timeline.devices
    assert gpu.judged == judged
    assert (gpu.span_s, gpu.busy_s) == pytest.approx((span_s, busy_s), rel=1e-4)
    assert (gpu.start_up.time_s if gpu.start_up is not None else 0.0) == pytest.approx(start_up_s, rel=1e-5)


def test_a_training_has_the_flop_of_its_last_layer_and_says_what_is_not_counted() -> None:
    """ResNet-50 on a V100, by a PyTorch of 2021, which wrote down shapes, but no strides and no padding."""
    timeline = session_of(report(RESNET)).timeline
    assert timeline is not None
    (model,) = timeline.model_flop
    # 32 images × 2048 features × 1000 classes, forward, and backward for features and weights: 3 · 2 · 65 536 000.
    assert model.step is not None
    assert (model.step.count, model.step.min_flop, model.step.max_flop) == (6, 393_216_000, 393_216_000)
    assert model.total == (PathFlop("fp32", 6 * 393_216_000, 18),)
    # Six steps in 1.065553 s on the GPU; the program's median is 176.078 ms.
    assert model.step.time_s == pytest.approx(1.065553 / 6)
    assert {each.name: each.count for each in model.uncounted} == {
        "aten::convolution": 318,
        "aten::cudnn_convolution_backward_weight": 552,
        "aten::cudnn_convolution_backward_input": 510,
    }
    assert model.step.utilisation == () and model.uncounted_share == pytest.approx(0.667, abs=1e-3)
