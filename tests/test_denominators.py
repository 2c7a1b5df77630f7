"""Peaks of the specs held against what reports imply: right ones agree, planted wrong ones are told with a reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

import gpuprof
from benchmarks.denominators import main
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.denominators import audited
from gpuprof.model.implied import ImpliedPeaks, implied_peaks
from gpuprof.model.recorded import DictMetrics, Launch, Metric
from gpuprof.model.session import Denominator
from gpuprof.recordings import recordings
from gpuprof.resources import data_dir
from gpuprof.store.read import read_session
from gpuprof.store.write import session_bytes
from tests import builders
from tests.readings import report_of, session_of, unpacked
from tests.table import each_row

RECORDINGS = {recording.name: recording for recording in recordings()}


class Planted(NamedTuple):
    """A wrong number in a spec, the fact that must disagree, and the reason that must be told."""

    name: str
    source: str
    file: str
    right: str
    wrong: str
    fact: str
    kind: str


A100, A40, A10G = "a100-gemm", "a40-beamformer", "a10g-sgemm"
A100_SPEC, A40_SPEC, A10G_SPEC = "gpu/a100-80gb-pcie.yaml", "gpu/a40.yaml", "gpu/a10g.yaml"
SM_80, SM_86 = "arch/sm_80.yaml", "arch/sm_86.yaml"
INT8 = "tensor.int8 int32 mma.sync"
PLANTED = (
    Planted("memory clock of the SXM version", A100, A100_SPEC, "3.024 Gbit", "3.186 Gbit", "memory_rate", "clock"),
    Planted("rated DRAM of the SXM version", A100, A100_SPEC, "1935 GB/s", "2039 GB/s", "rated dram", "spec"),
    Planted("SMs of the whole chip", A100, A100_SPEC, "108 SM", "128 SM", "sm_count", "units"),
    Planted("base for boost", A100, A100_SPEC, "1410 MHz, source", "1065 MHz, source", "boost_clock", "clock"),
    Planted(
        "FP32 rated at boost, said to be at base", A100, A100_SPEC,
        "fp32: {value: 19.5 TFLOP/s, clock: 1410 MHz", "fp32: {value: 19.5 TFLOP/s, clock: 1065 MHz",
        "rated fp32", "clock",
    ),
    Planted("FP64 of tensor cores", A100, A100_SPEC, "fp64: {value: 9.7", "fp64: {value: 19.5", "rated fp64", "spec"),
    Planted("rated INT8, sparse", A100, A100_SPEC, "624 TOP/s", "1248 TOP/s", "rated tensor.int8 int32", "sparse"),
    Planted("INT8 rate with sparsity", A100, SM_80, f"{INT8}: {{value: 4096", f"{INT8}: {{value: 8192", INT8, "sparse"),
    Planted("FP64 1:1", A100, SM_80, "fp64: {value: 64", "fp64: {value: 128", "fp64", "spec"),
    Planted("half of the L2 slices", A100, A100_SPEC, "5120 B/clk", "2560 B/clk", "l2_bandwidth", "spec"),
    Planted("half an L2 port", A100, SM_80, "l2: {value: 64 B", "l2: {value: 32 B", "bandwidth l2", "spec"),
    Planted("FP64 1:2 for 1:64", A40, SM_86, "fp64: {value: 4 ", "fp64: {value: 128 ", "fp64", "spec"),
    Planted("rated FP32 of an A6000", A40, A40_SPEC, "37.4 TFLOP/s", "38.7 TFLOP/s", "rated fp32", "spec"),
    Planted("SMs of an A10", A10G, A10G_SPEC, "80 SM", "72 SM", "sm_count", "units"),
)  # fmt: skip


@pytest.mark.parametrize("source", [A100, A40, A10G])
def test_a_planted_wrong_number_is_told(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = unpacked(RECORDINGS[source])
    assert not disagreeing(denominators(path))
    wrong_kinds = {}
    for number, case in enumerate(case for case in PLANTED if case.source == source):
        folder = tmp_path / str(number)
        text = (data_dir("specs") / case.file).read_text(encoding="utf-8")
        assert case.right in text, case.name
        (folder / case.file).parent.mkdir(parents=True)
        (folder / case.file).write_text(text.replace(case.right, case.wrong), encoding="utf-8")
        monkeypatch.setenv("GPUPROF_SPECS", str(folder))
        check = disagreeing(denominators(path)).get(case.fact)
        if check is None or check.disagreement != case.kind:
            wrong_kinds[case.name] = check
    assert wrong_kinds == {}


def test_what_nothing_explains_names_the_counter_and_blames_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = (case for case in PLANTED if case.name == "FP64 of tensor cores")
    text = (data_dir("specs") / case.file).read_text(encoding="utf-8")
    (tmp_path / case.file).parent.mkdir(parents=True)
    (tmp_path / case.file).write_text(text.replace(case.right, case.wrong), encoding="utf-8")
    monkeypatch.setenv("GPUPROF_SPECS", str(tmp_path))
    session = gpuprof.load(unpacked(RECORDINGS[case.source]))
    reason = str(disagreeing(session.denominators)[case.fact].reason)
    assert "op_dfma_pred_on.sum.peak_sustained" in reason and "SM count agrees" in reason and "wrong" not in reason
    assert session.verdict is not None and not any("differs" in note for note in session.verdict.notes)


@each_row(("source", "spec", "fits"), [
    (A100, "a100-40gb-pcie", "a100-80gb-pcie"), (A100, "a100-80gb-sxm", "a100-80gb-pcie"),
    (A100, "a30", "a100-80gb-pcie"), (A10G, "a10", "a10g"), ("h100-transpose", "h200-sxm", "h100-sxm"),
    (A40, "a10", "a40"), (A40, "rtx-a6000", "a40"),
])  # fmt: skip
def test_another_product_is_told_and_named(source: str, spec: str, fits: str) -> None:
    wrong = disagreeing(denominators(unpacked(RECORDINGS[source]), spec))
    assert any(check.disagreement == "product" and fits in str(check.reason) for check in wrong.values())


def test_a_real_report_agrees_with_its_spec(real_report: Path) -> None:
    """But for the clocks of cards of board makers, which are higher than those of the reference boards.

    A Xavier shares its memory with the processor, and its attributes of memory are not taken.
    """
    checks = denominators(real_report)
    board = "cuda_learning_mojo-profile", "cudacode-profile"
    assert set(disagreeing(checks)) == ({"boost_clock"} if real_report.stem in board else set())
    assert len(checks) >= (1 if real_report.stem == "darknet-profile" else 2)


def test_rate_over_percentage_is_the_peak() -> None:
    # 1.2 TB/s at 62 % of DRAM, whose clock is 1.512 GHz: 1.2e12 ÷ 0.62 ÷ 1.512e9 = 1280.08 B a cycle.
    # The bus has 5120 bit: 2 × 5120 ÷ 8 = 1280.
    rate, share, clock = (
        "dram__bytes.sum.per_second", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__cycles_elapsed.avg.per_second",
    )  # fmt: skip
    peaks = of_metrics({rate: 1.2e12, share: 62.0, clock: 1.512e9})
    assert peaks.dram_bytes_per_cycle is not None
    assert peaks.dram_bytes_per_cycle.value == pytest.approx(1280.08, rel=1e-5)
    assert checked(peaks)["memory_bus"].disagreement is None
    # Two passes count different traffic of other programs: 0.9 % of DRAM implies no peak.
    assert of_metrics({rate: 2e10, share: 0.9, clock: 1.512e9}).dram_bytes_per_cycle is None
    # 1.2 is 1.15 to 1.25, 4.2 %; 62.0 % is 0.08 %; 1.51 is 0.33 %: with 2 % at most 6.6 %.
    cut = {rate: Metric(1.2e12, "byte/s", 2), share: Metric(62.0, "%", 3), clock: Metric(1.51e9, "Hz", 3)}
    peaks = implied(DictMetrics(cut))
    assert peaks.dram_bytes_per_cycle is not None
    assert peaks.dram_bytes_per_cycle.rounding == pytest.approx(0.05 / 1.2 + 0.05 / 62.0 + 0.005 / 1.51)
    assert checked(peaks)["memory_bus"].tolerance == pytest.approx(0.02 + 0.04579, abs=1e-5)


@each_row("missing", ["sectors", "share", "cycles"])
def test_what_a_report_lacks_is_no_peak(missing: str) -> None:
    # 80 slices × 2 sectors × 32 B = 5120 B a cycle: 1.6e6 sectors in 20 % of 50 000 cycles are 160 a cycle.
    names = {
        "sectors": ("lts__t_sectors_srcunit_tex.sum", 1.6e6),
        "share": ("lts__t_sectors_srcunit_tex.avg.pct_of_peak_sustained_elapsed", 20.0),
        "cycles": ("lts__cycles_elapsed.avg", 50_000.0),
    }
    whole = of_metrics(dict(names.values())).l2_bytes_per_cycle
    assert whole is not None and whole.value == pytest.approx(5120)
    assert of_metrics(dict(value for key, value in names.items() if key != missing)).l2_bytes_per_cycle is None
    zero = {name: 0.0 if key == missing else value for key, (name, value) in names.items()}
    assert of_metrics(zero).l2_bytes_per_cycle is None


def test_matrix_work_over_busy_cycles_is_the_rate_of_the_tensor_pipe() -> None:
    # 1e6 instructions of 16 × 8 × 32: 2 × 4096 OP each. At 4096 OP a cycle they keep pipes busy for 2e6 cycles, which
    # is 20 % of 1e7.
    peaks = tensor({"IMMA.16832.S8.S8": 1e6})
    ((key, peak),) = peaks.tensor.items()
    assert str(key) == INT8 and peak.value == pytest.approx(4096)
    # On 9.0 a sparse instruction of as much work takes longer than a dense one.
    assert tensor({"IMMA.SP.16864.S8.S8": 1e6}).tensor == {}


@each_row(("opcodes", "rate"), [({"IADD3": 3e6, "MOV": 1e6, "FFMA": 5e6}, 64), ({"IADD3": 4e6, "NEWOP": 1.0}, None)])
def test_integer_instructions_over_busy_cycles_are_the_rate_of_the_alu(
    opcodes: Mapping[str, float], rate: float | None
) -> None:
    """4e6 instructions of 32 lanes in 20 % of 1e7 cycles are 64 a cycle; whose pipe is not known, implies nothing."""
    busy = {"sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_elapsed": 20.0, "sm__cycles_elapsed.sum": 1e7}
    peaks = implied(builders.metrics(busy, {WARP_OPCODES: dict(opcodes.items())}))
    adds = peaks.compute.get("int32")
    assert (adds is None) == (rate is None)
    if adds is not None and rate is not None:
        assert adds.value == pytest.approx(108 * rate)


def test_a_slice_of_a_gpu_is_told_as_one() -> None:
    # 42 of 108 SMs, 64 lanes each: 2688 FFMA a cycle; the spec's 108 SMs do 6912.
    device = replace(builders.A100, sm_count=42)
    peaks = of_metrics({"sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 2688.0}, device)
    wrong = checked(peaks, device)
    for fact in ("sm_count", "fp32"):
        assert wrong[fact].disagreement == "units"
        assert "42 of" in str(wrong[fact].reason) and "108 SMs" in str(wrong[fact].reason)
    # Half of the memory and half of the bus: 640 of 1280 B a cycle.
    device = replace(builders.A100, memory_bytes=42 * 10**9)
    wrong = checked(of_metrics({"dram__bytes.sum.peak_sustained": 640.0}, device), device)
    assert wrong["memory_bus"].disagreement == "units"


def test_a_gpu_with_more_sms_than_its_spec_is_no_slice() -> None:
    # 128 SMs, 64 lanes each: 8192 FFMA a cycle; the spec has 108 SMs.
    device = replace(builders.A100, sm_count=128)
    peaks = of_metrics({"sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained": 8192.0}, device)
    wrong = checked(peaks, device)
    for fact in ("sm_count", "fp32"):
        assert wrong[fact].disagreement == "units"
        assert "128 SMs" in str(wrong[fact].reason) and "MIG" not in str(wrong[fact].reason)


def test_a_disagreement_is_told_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    path = unpacked(RECORDINGS[A100])
    agreeing = session_of(path)
    assert {check.fact for check in agreeing.denominators} == {
        "sm_count", "boost_clock", "memory_bus", "memory_rate", "rated dram", "l2_bandwidth", "bandwidth l2",
        "fp64", "rated fp64", "fp32", "rated fp32", "int32", INT8, "rated tensor.int8 int32",
    }  # fmt: skip
    # An at-clock ceiling of `peak_sustained` would always agree with the report: no check compares the two.
    assert all("spec" in check.specified_by for check in agreeing.denominators)
    session = gpuprof.load(path, spec="a100-40gb-sxm")
    assert session.verdict is not None and agreeing.verdict is not None
    (note,) = (note for note in session.verdict.notes if "a100-40gb-sxm" in note)
    for number in ("1.512 GHz", "1.215 GHz", "1.935 TB/s", "1.555 TB/s", "a100-80gb-pcie"):
        assert number in note
    assert not any("a100-80gb-pcie" in note for note in agreeing.verdict.notes)
    assert read_session(session_bytes(session).decode(), "session.json").denominators == session.denominators
    assert main([str(path), "--spec", "a100-40gb-sxm", "--disagreements"]) == 1
    assert "a100-80gb-pcie" in capsys.readouterr().out


def denominators(path: Path, spec: str | None = None) -> tuple[Denominator, ...]:
    return analyse([report_of(path)], HardwareFinder(spec), "0").session.denominators


def disagreeing(checks: tuple[Denominator, ...]) -> dict[str, Denominator]:
    assert all((check.disagreement is None) == (check.reason is None) for check in checks)
    return {check.fact: check for check in checks if check.disagreement is not None}


def implied(
    metrics: DictMetrics, device: RecordedDevice = builders.A100, duration_s: float | None = 1e-3
) -> ImpliedPeaks:
    arch = SpecLibrary().arch("sm_80")
    assert arch is not None
    launch = Launch(name="kernel", demangled="kernel", device=0, metrics=metrics)
    return implied_peaks([(duration_s, launch)], device, arch)


def of_metrics(values: Mapping[str, float], device: RecordedDevice = builders.A100) -> ImpliedPeaks:
    return implied(builders.metrics(values), device)


def tensor(histogram: Mapping[str, float]) -> ImpliedPeaks:
    busy = {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": 20.0, "sm__cycles_elapsed.sum": 1e7}
    opcodes: dict[str | int, float] = dict(histogram.items())
    return implied(builders.metrics(busy, {WARP_OPCODES: opcodes}))


def checked(peaks: ImpliedPeaks, device: RecordedDevice = builders.A100) -> dict[str, Denominator]:
    known = replace(builders.a100(), device=device)
    return {check.fact: check for check in audited(0, peaks, known)}
