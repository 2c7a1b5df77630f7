"""Rates of mma.sync on Hopper: the spec's against our own reports, as ceilings of kernels, and as limits of probes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuprof.characterize.judge.limits import Bound, probe_limit
from gpuprof.characterize.judge.verdict import limit_check
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import WARP_OPCODES, ComputeKey
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.quantities import Clocks
from gpuprof.model.session import Session
from tests import builders
from tests.readings import report_of
from tests.table import each_row

H100 = Path(__file__).parent / "data" / "gpu" / "nvidia-h100-80gb-hbm3"
DEVICE = RecordedDevice(name="NVIDIA H100 80GB HBM3", compute_capability="9.0", pci_id="10de:2330", sm_count=132)
PROBES = {probe.id: probe for probe in load_probes(probe_folder())}
PEAK = "sm__ops_path_tensor_{}.avg.peak_sustained"
BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"


@each_row(("key", "counter"), [
    (ComputeKey("tensor.fp64", "fp64", "mma.sync"), "src_fp64"),
    (ComputeKey("tensor.tf32", "fp32", "mma.sync"), "op_hmma_src_tf32_dst_fp32_sparsity_off"),
    (ComputeKey("tensor.fp16", "fp32", "mma.sync"), "op_hmma_src_fp16_dst_fp32_sparsity_off"),
    (ComputeKey("tensor.fp16", "fp16", "mma.sync"), "op_hmma_src_fp16_dst_fp16_sparsity_off"),
    (ComputeKey("tensor.bf16", "fp32", "mma.sync"), "op_hmma_src_bf16_dst_fp32_sparsity_off"),
    (ComputeKey("tensor.int8", "int32", "mma.sync"), "op_imma_src_int8_sparsity_off"),
    (ComputeKey("tensor.tf32", "fp32", "wgmma"), "op_hgmma_src_tf32_dst_fp32_sparsity_off"),
    (ComputeKey("tensor.bf16", "fp32", "wgmma"), "op_hgmma_src_bf16_dst_fp32_sparsity_off"),
    (ComputeKey("tensor.fp8", "fp32", "wgmma"), "src_fp8_sparsity_off"),
    (ComputeKey("tensor.int8", "int32", "wgmma"), "op_igmma_src_int8_sparsity_off"),
])  # fmt: skip
def test_rates_of_the_spec_are_the_peaks_of_our_own_report(key: ComputeKey, counter: str) -> None:
    recorded = report_of(H100 / "run-launches" / "full.ncu-rep").launches[0].metrics
    assert recorded.number(PEAK.format(counter)) == pytest.approx(
        builders.product("h100-sxm").rates[key].value, rel=1e-6
    )


def attention() -> tuple[Session, float]:
    """Return a launch with what was recorded of attention (backward) in the transformer, and how busy its pipe was."""
    recorded = json.loads((H100 / "run-transformer" / "run" / "session.json").read_bytes())
    kernel = next(kernel for kernel in recorded["kernels"] if kernel["name"].startswith("fmha_cutlassB"))
    (work,) = (work for work in kernel["work"] if work["path"] == "tensor.tf32")
    counts = {count["name"]: count["value"] for count in kernel["counts"]}
    pipes = {pipe["name"]: pipe["fraction"] for pipe in kernel["pipes"]}
    duration_s, clock_hz = work["flop"] / work["flop_per_s"], kernel["sm_clock_hz"]
    values = {
        "gpu__time_duration.sum": duration_s,
        "sm__cycles_elapsed.avg.per_second": clock_hz,
        "sm__cycles_elapsed.avg": clock_hz * duration_s,
        "sm__ops_path_tensor_src_tf32_dst_fp32.sum": work["flop"],
        "lts__t_sectors_srcunit_tex.sum": counts["l2-sectors"],
        BUSY: 100 * pipes["tensor"],
    }
    launch = builders.launch(values, {WARP_OPCODES: {"HMMA.1688.F32.TF32": counts["opcode.HMMA"]}})
    report = builders.report(launch, device=DEVICE)
    return analyse([report], HardwareFinder(), "0").session, pipes["tensor"]


def test_recorded_attention_is_as_far_from_its_ceiling_as_its_pipe_is_from_full() -> None:
    session, busy = attention()
    (kernel,) = session.kernels
    (ceiling,) = (ceiling for ceiling in session.ceilings if ceiling.id == "at-clock/tensor.tf32")
    # 1365.33 FLOP × 132 SMs × 1.7928 GHz.
    assert ceiling.value == pytest.approx(323.1e12, rel=1e-3)
    (rate,) = (work.flop_per_s for work in kernel.work if work.path == "tensor.tf32")
    assert rate is not None and rate / ceiling.value == pytest.approx(busy, rel=1e-4)
    assert not any(gap.what.startswith("peak.tensor") for gap in kernel.missing)


def test_no_peak_of_the_spec_differs_from_what_recorded_attention_implies() -> None:
    checks = {check.fact: check for check in attention()[0].denominators}
    assert checks["tensor.tf32 fp32 mma.sync"].implied == pytest.approx(1365.33, rel=1e-4)
    # TF32 is rated at 494.7 TFLOP/s, which is that of wgmma: this kernel says nothing of it.
    assert "rated tensor.tf32 fp32" not in checks
    assert [check for check in checks.values() if check.disagreement is not None] == []


def limit_of(probe: str, product: str, target: str) -> Bound:
    limit = PROBES[probe].limit(target, {})
    assert limit is not None
    found = probe_limit(limit, builders.product(product), Clocks(sm_hz=1e9), "FLOP/clk/SM")
    assert isinstance(found, Bound) and found.rate is not None
    return found


@each_row(("probe", "product", "target", "rate"), [
    ("mma-sync-bf16-f32", "h100-sxm", "sm_90a", 2730.667),
    ("mma-sync-bf16-f32", "h800-sxm", "sm_90a", 2730.667),
    ("mma-sync-s8-s32", "h200-sxm", "sm_90a", 5461.333),
    # With half of A zero the tensor cores of Hopper do 1.5 times as much, those of others twice.
    ("mma-sp-bf16-f32", "h100-sxm", "sm_90a", 4096),
    ("mma-sp-tf32-f32", "h100-sxm", "sm_90a", 2048),
    ("mma-sp-s8-s32", "h100-sxm", "sm_90a", 8192),
    ("mma-sp-bf16-f32", "a100-80gb-sxm", "sm_80", 4096),
])  # fmt: skip
def test_a_perfect_result_of_a_probe_is_all_of_its_limit(probe: str, product: str, target: str, rate: float) -> None:
    limit = limit_of(f"tensor/{probe}", product, target)
    assert limit.rate == pytest.approx(rate, rel=1e-6)
    check = limit_check(rate, limit.rate_unit or "", limit)
    assert check.state == "passed" and check.number == pytest.approx(1)
    assert limit_check(1.01 * rate, limit.rate_unit or "", limit).state == "failed"
