"""What must hold on every real report: our values against NVIDIA's own reader, rules and counters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import ncu_report
import pytest
from msgspec.structs import replace

from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey
from gpuprof.model.ceilings import Hardware, blended_rate
from gpuprof.model.launch_analysis import profile_launch
from gpuprof.model.quantities import Clocks, constant_moves, is_constant_move, tensor_split
from gpuprof.model.recorded import DictMetrics, Launch, Metric, Report
from gpuprof.read.metric_units import READ_TWO_WAYS
from gpuprof.units import ncu_unit
from tests.machine_words import machine_words
from tests.readings import report_of, session_of

LIBRARY = SpecLibrary()


@cache
def native_actions(path: Path) -> tuple[Any, ...]:
    context = ncu_report.load_report(str(path))
    return tuple(action for index in range(context.num_ranges()) for action in context.range_by_idx(index))


def native_value(action: Any, name: str) -> float | None:
    metric = action.metric_by_name(name)
    value = metric.value() if metric is not None else None
    return float(value) if value is not None and not math.isnan(value) else None


def pairs(path: Path) -> Iterator[tuple[Any, Any]]:
    session, actions = session_of(path), native_actions(path)
    assert len(session.kernels) == len(actions)
    yield from zip(session.kernels, actions, strict=True)


def hardware(report: Report) -> Hardware:
    device = report.devices[0]
    arch = LIBRARY.arch_of(device.compute_capability or "")
    assert arch is not None
    return Hardware.of(arch, LIBRARY.match(device), device)


def check_launches(path: Path) -> None:
    for kernel, action in pairs(path):
        assert kernel.demangled == action.name(action.NameBase_DEMANGLED)
        for size, which in ((kernel.grid, "grid"), (kernel.block, "block")):
            native = tuple(native_value(action, f"launch__{which}_dim_{axis}") for axis in "xyz")
            if all(native):
                assert size == native
            total = native_value(action, f"launch__{which}_size")
            if total and size is not None:
                assert size[0] * size[1] * size[2] == total
        nanoseconds = native_value(action, "gpu__time_duration.sum")
        assert kernel.duration_s == (pytest.approx(nanoseconds * 1e-9, rel=1e-12) if nanoseconds else None)


def check_waves(path: Path) -> None:
    compared = 0
    for launch in report_of(path):
        waves = launch.metrics.number("launch__waves_per_multiprocessor")
        left = {
            name: Metric(value, "")
            for name in launch.metrics.names()
            if name.startswith("launch__") and "waves" not in name and "limit" not in name
            if (value := launch.metrics.number(name)) is not None
        }
        if waves:
            derived = profile_launch(
                replace(launch, metrics=DictMetrics(left)), 0, 0, hardware(report_of(path))
            ).profile.waves
            assert derived == pytest.approx(waves, rel=1e-9)
            compared += 1
    assert compared > 0


def check_occupancy(path: Path) -> None:
    compared = 0
    for kernel, action in pairs(path):
        percent = native_value(action, "sm__maximum_warps_per_active_cycle_pct")
        if percent is not None:
            assert kernel.occupancy.theoretical * 100 == pytest.approx(percent, abs=0.1)
            compared += 1
    assert compared > 0


def check_flop(path: Path) -> None:
    """NVIDIA's roofline: (adds + multiplies + 2 × fused) per SM cycle × SM clock."""
    letters = {"fp32": "f", "fp64": "d"}
    for kernel, action in pairs(path):
        for work in kernel.work:
            terms = [
                native_value(
                    action,
                    f"smsp__sass_thread_inst_executed_op_{letters.get(work.path)}{op}_pred_on.sum.per_cycle_elapsed",
                )
                for op in ("add", "mul", "fma")
            ]
            clock = native_value(action, "smsp__cycles_elapsed.avg.per_second")
            if None in terms or clock is None:
                continue
            add, multiply, fused = (float(term) for term in terms if term is not None)
            assert work.flop_per_s == pytest.approx((add + multiply + 2 * fused) * clock, rel=2e-4)


def clocks_of(launch: Launch) -> Clocks:
    number = launch.metrics.number
    return Clocks(duration_s=number("gpu__time_duration.sum"), sm_hz=number("sm__cycles_elapsed.avg.per_second"))


def check_tensor(path: Path) -> None:
    report = report_of(path)
    rates = hardware(report).rates
    for launch in report:
        split = {key: flop for key, flop in (tensor_split(launch.metrics) or {}).items() if flop}
        active = launch.metrics.number("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed")
        if split and active:
            assert busy_fraction(launch, split, rates) * 100 == pytest.approx(active, rel=0.015)


def busy_fraction(launch: Launch, split: Mapping[ComputeKey, float | None], rates: Any) -> float:
    """Σ over the instruction kinds of FLOP ÷ (rate per SM and clock × SMs × cycles)."""
    sms = launch.metrics.number("device__attribute_multiprocessor_count")
    clocks = clocks_of(launch)
    assert sms and clocks.sm_hz and clocks.duration_s
    cycles = clocks.sm_hz * clocks.duration_s
    busy = 0.0
    for key, flop in split.items():
        rate = blended_rate(key.path, {key: 1.0}, rates)
        assert rate is not None and flop is not None, f"no rate for {key}"
        busy += flop / (rate.value * sms * cycles)
    return busy


def check_moves(path: Path) -> None:
    for launch in report_of(path):
        executed = launch.metrics.instances("thread_inst_executed_true") or {}
        encodings = machine_words(launch)
        counted = sum(executed[pc] for pc, word in encodings.items() if is_constant_move(word))
        opcodes = launch.metrics.instances(WARP_OPCODES)
        has_hfma2 = opcodes is None or any(str(opcode).startswith("HFMA2") for opcode in opcodes)
        known = (counted if encodings else None) if has_hfma2 else 0.0
        assert constant_moves(launch.metrics, launch.details) == known


def check_units(path: Path) -> None:
    """Where that gives one name two units, either may come. Values are compared in `test_own_reader.py`."""
    for launch, action in zip(report_of(path), native_actions(path), strict=True):
        assert launch.metrics.names() == tuple(sorted(action.metric_names()))
        for name in action.metric_names():
            metric, native = launch.metrics.get(name), action.metric_by_name(name)
            if metric is None or isinstance(metric.value, str):
                continue
            factor, unit = ncu_unit(native.unit())
            if READ_TWO_WAYS.get(name) != native.unit():
                assert metric.unit == unit, name
                assert metric.value == pytest.approx(native.value() * factor, rel=1e-12), name


def test_amounts_are_those_of_nvidias_reader(real_report: Path) -> None:
    assert all(device.spec is not None for device in session_of(real_report).devices)
    check_launches(real_report)
    check_units(real_report)
    check_occupancy(real_report)
    check_waves(real_report)


def test_work_is_that_of_nvidias_roofline_of_the_opcodes_and_of_the_busy_tensor_pipe(real_report: Path) -> None:
    check_flop(real_report)
    check_tensor(real_report)
    check_moves(real_report)
