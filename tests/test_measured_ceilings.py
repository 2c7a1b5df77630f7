"""A measured file of a report's GPU gives its third ceiling. The measured numbers here are made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import gpuprof
from gpuprof.characterize.sheet.measured import Conditions, Measured, MeasuredDevice, MeasuredEvidence, MeasuredValue
from gpuprof.characterize.sheet.measured_text import measured_text
from tests.cli import gpuprof as run
from tests.readings import reading_once

REPORT = Path(__file__).parent / "data/gpu/nvidia-h100-80gb-hbm3/passes/full/profile.ncu-rep"
H100 = MeasuredDevice("NVIDIA H100 80GB HBM3", "9.0", 132)


def made_up(name: str = "Tesla V100-SXM2-32GB") -> Measured:
    evidence = MeasuredEvidence(clock_hz=1.3e9)
    return Measured(
        name="made-up", spec="v100-sxm2-32gb", device=MeasuredDevice(name, "7.0", 80, None, None, None, None, None),
        conditions=Conditions("2026-01-02T03:04:05Z", "0.1.0", "580.1", "13.0"),
        values={
            "bandwidth/dram-read": MeasuredValue(8.5e11, "B/s", "verified", ceiling="dram", evidence=evidence),
            "instruction/dfma": MeasuredValue(6e12, "FLOP/s", "verified", ceiling="fp64", evidence=evidence),
            "instruction/ffma": MeasuredValue(9e13, "FLOP/s", "rejected", ceiling="fp32", evidence=evidence),
        },
    )  # fmt: skip


def of_h100() -> Measured:
    """Rates of DRAM and of FP32 work that were believed, and one of FP64 that was not."""
    evidence = MeasuredEvidence(clock_hz=1.3e9)
    values = {
        "bandwidth/dram-read": MeasuredValue(2.5e12, "B/s", "verified", ceiling="dram", evidence=evidence),
        "instruction/ffma": MeasuredValue(5e13, "FLOP/s", "verified", ceiling="fp32", evidence=evidence),
        "instruction/dfma": MeasuredValue(9e13, "FLOP/s", "rejected", ("above",), ceiling="fp64", evidence=evidence),
    }
    return replace(made_up(), spec="h100-sxm", device=H100, values=values)


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's spec folder, empty."""
    monkeypatch.setenv("GPUPROF_SPECS", str(tmp_path))
    (tmp_path / "measured").mkdir()
    return tmp_path / "measured/made-up.measured.yaml"


def test_measured_ceilings_stand_beside_the_others_where_the_gpu_is_the_same(specs: Path) -> None:
    specs.write_text(measured_text(of_h100()))
    with reading_once():
        session = gpuprof.load(str(REPORT))
    measured = {ceiling.id: ceiling for ceiling in session.ceilings if ceiling.origin == "measured"}
    assert {name: ceiling.value for name, ceiling in measured.items()} == {
        "measured/fp32": 5e13, "measured/dram": 2.5e12,
    }  # fmt: skip
    assert "2026-01-02: bandwidth/dram-read" in (measured["measured/dram"].source or "")
    points = [point for kernel in session.kernels for point in kernel.roofline]
    place = ("measured", "fp32", "dram")
    point = next(point for point in points if (point.ceiling, point.path, point.level) == place)
    assert point.roof_flop_per_s == min(5e13, point.intensity * 2.5e12)
    assert point.fraction_of_roof == pytest.approx(point.flop_per_s / point.roof_flop_per_s)
    specs.write_text(measured_text(made_up()))
    with reading_once():
        assert "measured" not in {ceiling.origin for ceiling in gpuprof.load(str(REPORT)).ceilings}


def test_a_broken_file_of_this_gpu_is_named_with_its_line(specs: Path) -> None:
    specs.write_text(measured_text(of_h100()).replace("verified", "sure", 1))
    done = run("show", REPORT)
    assert done.returncode == 5 and "made-up.measured.yaml:" in done.stderr and "Traceback" not in done.stderr
