"""What must hold on every real report: our values against NVIDIA's own reader, rules and counters."""

from __future__ import annotations

import math
import re
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
from gpuprof.model.quantities import Clocks, Counted, constant_moves, evaluate, is_constant_move, tensor_split
from gpuprof.model.recorded import DictMetrics, Launch, Metric, Report
from gpuprof.model.session import Session
from gpuprof.read.metric_units import READ_TWO_WAYS
from gpuprof.units import ncu_unit
from tests.machine_words import machine_words
from tests.readings import report_of, session_of

LIBRARY = SpecLibrary()


@cache
def native_actions(path: Path) -> tuple[Any, ...]:
    """NVIDIA's own view of every kernel, of the whole file."""
    context = ncu_report.load_report(str(path))
    return tuple(action for index in range(context.num_ranges()) for action in context.range_by_idx(index))


def native_value(action: Any, name: str) -> float | None:
    metric = action.metric_by_name(name)
    value = metric.value() if metric is not None else None
    return float(value) if value is not None and not math.isnan(value) else None


def pairs(path: Path) -> Iterator[tuple[Any, Any]]:
    """Every kernel of our session beside NVIDIA's own view of it."""
    session, actions = session_of(path), native_actions(path)
    assert len(session.kernels) == len(actions)
    yield from zip(session.kernels, actions, strict=True)


def hardware(report: Report) -> Hardware:
    device = report.devices[0]
    arch = LIBRARY.arch_of(device.compute_capability or "")
    assert arch is not None
    return Hardware.of(arch, LIBRARY.match(device), device)


def test_names_grids_blocks_and_durations_are_those_of_ncu_report(real_report: Path) -> None:
    for kernel, action in pairs(real_report):
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


def test_shared_memory_limits_where_the_largest_carveout_binds(reports: Path) -> None:
    named = {
        (path.name, kernel.id)
        for path in sorted(reports.glob("*rep*"))
        for kernel in session_of(path).kernels
        if {"shared memory", "carve-out"} & set(kernel.occupancy.limiters)
    }
    # One block of 93, 150 or 69 to 78 KiB an SM, and nine of 25 KiB, where one more would not fit; no other kernel.
    assert named == {
        ("cutlass-384.ncu-rep", 0),
        ("cutlass-report80.ncu-rep", 0),
        ("indexspaces.jl-profile-3176628.ncu-rep", 1),
        ("indexspaces.jl-profile.ncu-rep", 4),
        ("nukexc-profile.ncu-rep", 0),
    }


def test_waves_without_the_metric_are_those_that_ncu_counts(real_report: Path) -> None:
    compared = 0
    for launch in report_of(real_report):
        waves = launch.metrics.number("launch__waves_per_multiprocessor")
        left = {
            name: Metric(value, "")
            for name in launch.metrics.names()
            if name.startswith("launch__") and "waves" not in name and "limit" not in name
            if (value := launch.metrics.number(name)) is not None
        }
        if waves:
            derived = profile_launch(
                replace(launch, metrics=DictMetrics(left)), 0, 0, hardware(report_of(real_report))
            ).profile.waves
            assert derived == pytest.approx(waves, rel=1e-9)
            compared += 1
    assert compared > 0


def test_bytes_over_the_dram_ceiling_are_what_ncu_calls_drams_throughput(real_report: Path) -> None:
    """The same with the ceiling of bus width and recorded clock, as if the report had no peak of a cycle."""
    for launch in report_of(real_report):
        number = launch.metrics.number
        percent, peak = (
            number("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
            "dram__bytes.sum.peak_sustained",
        )
        if percent is None or not number(peak) or not number("dram__cycles_elapsed.avg.per_second"):
            continue
        left = {
            name: Metric(value, "")
            for name in launch.metrics.names()
            if name.startswith(("dram__", "gpu__time")) and name != peak
            if (value := number(name)) is not None
        }
        bare = profile_launch(replace(launch, metrics=DictMetrics(left)), 0, 0, hardware(report_of(real_report)))
        dram = next(level for level in bare.profile.traffic if level.level == "dram")
        assert dram.bytes_per_s is not None
        assert 100 * dram.bytes_per_s / bare.at_clock["dram"].value == pytest.approx(percent, rel=1e-3)


def test_a_gemm_without_a_matrix_instruction_has_no_work_and_no_point_but_of_integers(reports: Path) -> None:
    (kernel,) = session_of(reports / "cutlass-report80.ncu-rep").kernels
    assert {work.path for work in kernel.work if work.flop != 0.0} == {"int32"}
    assert {work.basis for work in kernel.work} == {"counted"}
    assert {point.path for point in kernel.roofline} == {"int32"}


def test_theoretical_occupancy_is_that_of_ncu(real_report: Path) -> None:
    compared = 0
    for kernel, action in pairs(real_report):
        percent = native_value(action, "sm__maximum_warps_per_active_cycle_pct")
        if percent is not None:
            assert kernel.occupancy.theoretical * 100 == pytest.approx(percent, abs=0.1)
            compared += 1
    assert compared > 0


ROOFLINE_RULE = re.compile(
    r"achieved (?: ?close to )? ?(\d+)% of this device's fp32 peak .*? and (?: ?close to )? ?(\d+)% of"
)


def test_fraction_of_fp32_and_fp64_peak_is_what_ncu_prints() -> None:
    compared = 0
    for path in sorted((Path(__file__).parents[2] / "shared" / "reports").glob("*.ncu-rep")):
        for kernel, action in pairs(path):
            for rule in action.rule_results_as_dicts():
                found = ROOFLINE_RULE.search(rule.get("rule_message", {}).get("message", ""))
                if found is None or not native_value(action, "gpu__time_duration.sum"):
                    continue
                for percent, name in ((found[1], "fp32"), (found[2], "fp64")):
                    assert round(100 * fraction_of_peak(kernel, action, name)) == int(percent)
                compared += 1
    if not compared:
        pytest.skip("no real reports lie beside the checkout (../shared/reports)")
    assert compared >= 25


def fraction_of_peak(kernel: Any, action: Any, path: str) -> float:
    """FLOP/s of a path over its at-clock peak, from our own figures alone."""
    work = next(work for work in kernel.work if work.path == path)
    opcode = {"fp32": "ffma", "fp64": "dfma"}[path]
    peak = native_value(action, f"sm__sass_thread_inst_executed_op_{opcode}_pred_on.sum.peak_sustained")
    assert peak is not None
    return float(work.flop_per_s / (2 * peak * kernel.sm_clock_hz))


def test_flop_per_second_equal_ncus_roofline_values(real_report: Path) -> None:
    """NVIDIA's roofline: (adds + multiplies + 2 × fused) per SM cycle × SM clock."""
    letters = {"fp32": "f", "fp64": "d"}
    for kernel, action in pairs(real_report):
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


def test_fp32_flop_from_opcodes_equal_those_from_counters(real_report: Path) -> None:
    report = report_of(real_report)
    chain = hardware(report).arch.counters["work.fp32"]
    by_counter = tuple(link for link in chain if link.how != "thread-opcodes")
    by_opcode = tuple(link for link in chain if link.how == "thread-opcodes")
    for launch in report:
        clocks = clocks_of(launch)
        counted = evaluate(by_counter, "work.fp32", launch.metrics, clocks)
        opcodes = evaluate(by_opcode, "work.fp32", launch.metrics, clocks)
        if isinstance(counted, Counted) and isinstance(opcodes, Counted):
            assert opcodes.value == pytest.approx(counted.value, rel=2e-3, abs=1)


def clocks_of(launch: Launch) -> Clocks:
    number = launch.metrics.number
    return Clocks(duration_s=number("gpu__time_duration.sum"), sm_hz=number("sm__cycles_elapsed.avg.per_second"))


def test_tensor_flop_over_peak_cycles_equal_the_busy_tensor_pipe(real_report: Path) -> None:
    report = report_of(real_report)
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


def test_stall_shares_sum_to_one(real_report: Path) -> None:
    for kernel in session_of(real_report).kernels:
        for family in {stall.family for stall in kernel.stalls}:
            assert sum(stall.share for stall in kernel.stalls if stall.family == family) == pytest.approx(1.0)


def test_every_report_matches_a_product_spec(real_report: Path) -> None:
    session = session_of(real_report)
    assert all(device.spec is not None for device in session.devices)


def test_constant_loads_are_no_fp16_work(reports: Path) -> None:
    session = session_of(reports / "sglang-profile.ncu-rep")
    fp16 = [work for kernel in session.kernels for work in kernel.work if work.path == "fp16"]
    assert fp16 and all(work.flop == 0 and work.basis == "counted" for work in fp16)


def test_the_l2_share_of_a_kernel_that_l2_limits_is_near_that_of_ncu(reports: Path) -> None:
    kernel = session_of(reports / "cutlass-384.ncu-rep").kernels[0]
    ours = next(point for point in kernel.roofline if point.level == "l2" and point.path == "tensor.int8")
    ncus = next(unit for unit in kernel.throughput if unit.unit == "l2")
    assert ours.bound == "memory"
    assert ours.fraction_of_roof == pytest.approx(ncus.fraction, rel=0.1)


def test_an_export_of_chosen_metrics_has_work_traffic_and_time(reports: Path) -> None:
    kernel = session_of(reports / "csv" / "bert-torch-details.csv").kernels[0]
    assert kernel.duration_s == pytest.approx(5387.52 / 967.586e6, rel=1e-5)
    assert next(work.flop for work in kernel.work if work.path == "fp32") == 2 * 327_680
    assert next(moved.bytes for moved in kernel.traffic if moved.level == "l2") == 666_976
    assert kernel.occupancy.limiters == ("registers",)


def test_details_of_a_report_are_there_for_a_diagnosis(reports: Path) -> None:
    report = report_of(reports / "cutlass-report-s8-persist.ncu-rep")
    launch = report.launches[0]
    assert launch.ranges == ("NCUTEST",)
    assert any(name.endswith("mma_base.h") and text for name, text in launch.details.source_files().items())
    assert any(rule.rule == "SOLBottleneck" for rule in launch.details.rule_results())
    listing = launch.details.instructions()
    hot = max(listing, key=lambda entry: entry.counts.get("smsp__pcsamp_sample_count", 0.0))
    assert hot.sass and hot.file and hot.line
    assert sum(entry.counts.get("smsp__pcsamp_sample_count", 0) for entry in listing) == launch.metrics.number(
        "smsp__pcsamp_sample_count"
    )
    words = machine_words(launch)
    assert set(words) <= {entry.pc for entry in listing} and len(words) >= len(listing) - 1


def test_constant_moves_are_those_of_the_executed_instructions(real_report: Path) -> None:
    for launch in report_of(real_report):
        executed = launch.metrics.instances("thread_inst_executed_true") or {}
        encodings = machine_words(launch)
        counted = sum(executed[pc] for pc, word in encodings.items() if is_constant_move(word))
        opcodes = launch.metrics.instances(WARP_OPCODES)
        has_hfma2 = opcodes is None or any(str(opcode).startswith("HFMA2") for opcode in opcodes)
        known = (counted if encodings else None) if has_hfma2 else 0.0
        assert constant_moves(launch.metrics, launch.details) == known


def test_cuprof_reports_have_grids_and_no_durations(reports: Path) -> None:
    session: Session = session_of(reports / "darknet-profile.nsight-cuprof-report")
    assert all(kernel.grid is not None and kernel.duration_s is None for kernel in session.kernels)
    assert all(kernel.time_share is None for kernel in session.kernels)
    assert any("duration" in entry.what for entry in session.kernels[0].missing)


def test_every_metric_has_the_unit_of_nvidias_reader(real_report: Path) -> None:
    """Where that gives one name two units, either may come. Values are compared in `test_own_reader.py`."""
    for launch, action in zip(report_of(real_report), native_actions(real_report), strict=True):
        assert launch.metrics.names() == tuple(sorted(action.metric_names()))
        for name in action.metric_names():
            metric, native = launch.metrics.get(name), action.metric_by_name(name)
            if metric is None or isinstance(metric.value, str):
                continue
            factor, unit = ncu_unit(native.unit())
            if READ_TWO_WAYS.get(name) != native.unit():
                assert metric.unit == unit, name
                assert metric.value == pytest.approx(native.value() * factor, rel=1e-12), name
