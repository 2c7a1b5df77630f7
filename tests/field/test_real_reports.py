"""What is known of reports of others: limits, work, shares of peaks and details, each of a report that has them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.field.folder import folder, report
from tests.readings import session_of
from tests.test_real_reports import native_value, pairs

ROOFLINE_RULE = re.compile(
    r"achieved (?: ?close to )? ?(\d+)% of this device's fp32 peak .*? and (?: ?close to )? ?(\d+)% of"
)


def test_shared_memory_limits_where_the_largest_carveout_binds() -> None:
    named = {
        (path.name, kernel.id)
        for path in sorted(folder().glob("*rep*"))
        for kernel in session_of(path).kernels
        if {"shared memory", "carve-out"} & set(kernel.occupancy.limiters)
    }
    # One block of 93, 150 or 69 to 78 KiB an SM, and nine of 25 KiB, where one more would not fit; no other kernel.
    assert named == {
        ("cutlass-384.ncu-rep", 0), ("cutlass-report80.ncu-rep", 0), ("indexspaces.jl-profile-3176628.ncu-rep", 1),
        ("indexspaces.jl-profile.ncu-rep", 4), ("nukexc-profile.ncu-rep", 0),
    }  # fmt: skip


def test_fraction_of_fp32_and_fp64_peak_is_what_ncu_prints() -> None:
    compared = 0
    for path in sorted(folder().glob("*.ncu-rep")):
        for kernel, action in pairs(path):
            for rule in action.rule_results_as_dicts():
                told = ROOFLINE_RULE.search(rule.get("rule_message", {}).get("message", ""))
                if told is None or not native_value(action, "gpu__time_duration.sum"):
                    continue
                for percent, name in ((told[1], "fp32"), (told[2], "fp64")):
                    assert round(100 * fraction_of_peak(kernel, action, name)) == int(percent)
                compared += 1
    assert compared >= 25


def fraction_of_peak(kernel: Any, action: Any, path: str) -> float:
    """FLOP/s of a path over its at-clock peak, from our own figures alone."""
    work = next(work for work in kernel.work if work.path == path)
    opcode = {"fp32": "ffma", "fp64": "dfma"}[path]
    peak = native_value(action, f"sm__sass_thread_inst_executed_op_{opcode}_pred_on.sum.peak_sustained")
    assert peak is not None
    return float(work.flop_per_s / (2 * peak * kernel.sm_clock_hz))


def test_work_of_gemms_and_traffic_of_l2() -> None:
    (kernel,) = session_of(report("cutlass-report80.ncu-rep")).kernels
    assert {work.path for work in kernel.work if work.flop != 0.0} == {"int32"}
    assert {work.basis for work in kernel.work} == {"counted"}
    assert {point.path for point in kernel.roofline} == {"int32"}
    kernels = session_of(report("sglang-profile.ncu-rep")).kernels
    fp16 = [work for kernel in kernels for work in kernel.work if work.path == "fp16"]
    assert fp16 and all(work.flop == 0 and work.basis == "counted" for work in fp16)
    kernel = session_of(report("cutlass-384.ncu-rep")).kernels[0]
    ours = next(point for point in kernel.roofline if point.level == "l2" and point.path == "tensor.int8")
    ncus = next(unit for unit in kernel.throughput if unit.unit == "l2")
    assert ours.bound == "memory" and ours.fraction_of_roof == pytest.approx(ncus.fraction, rel=0.1)


def test_an_export_of_chosen_metrics_and_a_cuprof_report_have_what_was_recorded() -> None:
    kernel = session_of(report("csv/bert-torch-details.csv")).kernels[0]
    assert kernel.duration_s == pytest.approx(5387.52 / 967.586e6, rel=1e-5)
    assert next(work.flop for work in kernel.work if work.path == "fp32") == 2 * 327_680
    assert next(moved.bytes for moved in kernel.traffic if moved.level == "l2") == 666_976
    assert kernel.occupancy.limiters == ("registers",)
    kernels = session_of(report("darknet-profile.nsight-cuprof-report")).kernels
    assert all(kernel.grid is not None and kernel.duration_s is kernel.time_share is None for kernel in kernels)
    assert any("duration" in entry.what for entry in kernels[0].missing)
