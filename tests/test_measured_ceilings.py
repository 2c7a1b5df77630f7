"""A measured file of a report's GPU gives its third ceiling. The measured numbers here are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import gpuprof
from gpuprof.characterize.sheet.measured import Conditions, Measured, MeasuredDevice, MeasuredEvidence, MeasuredValue
from gpuprof.characterize.sheet.measured_text import measured_text
from tests.cli import gpuprof as run
from tests.readings import reading_once

REPORT = "gpu_workshop-MW_Baseline.ncu-rep"


def made_up(name: str = "Tesla V100-SXM2-32GB") -> Measured:
    evidence = MeasuredEvidence(clock_hz=1.3e9)
    return Measured(
        name="made-up",
        spec="v100-sxm2-32gb",
        device=MeasuredDevice(name, "7.0", 80, None, None, None, None, None),
        conditions=Conditions("2026-01-02T03:04:05Z", "0.1.0", "580.1", "13.0"),
        values={
            "bandwidth/dram-read": MeasuredValue(8.5e11, "B/s", "verified", ceiling="dram", evidence=evidence),
            "instruction/dfma": MeasuredValue(6e12, "FLOP/s", "verified", ceiling="fp64", evidence=evidence),
            "instruction/ffma": MeasuredValue(
                9e13, "FLOP/s", "rejected", ("above",), ceiling="fp32", evidence=evidence
            ),
        },
    )


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's spec folder, empty."""
    monkeypatch.setenv("GPUPROF_SPECS", str(tmp_path))
    (tmp_path / "measured").mkdir()
    return tmp_path / "measured/made-up.measured.yaml"


def test_measured_ceilings_are_drawn_beside_the_others(specs: Path, reports: Path) -> None:
    specs.write_text(measured_text(made_up()))
    with reading_once():
        session = gpuprof.load(str(reports / REPORT))
    measured = {one.id: one for one in session.ceilings if one.origin == "measured"}
    assert {name: one.value for name, one in measured.items()} == {"measured/fp64": 6e12, "measured/dram": 8.5e11}
    assert measured["measured/dram"].source == "measured 2026-01-02: bandwidth/dram-read, verified"
    place = ("measured", "fp64", "dram")
    points = [one for kernel in session.kernels for one in kernel.roofline]
    point = next(one for one in points if (one.ceiling, one.path, one.level) == place)
    assert point.roof_flop_per_s == min(6e12, point.intensity * 8.5e11)
    assert point.fraction_of_roof == pytest.approx(point.flop_per_s / point.roof_flop_per_s)


def test_another_gpus_file_changes_nothing(specs: Path, reports: Path) -> None:
    specs.write_text(measured_text(made_up("NVIDIA H100 PCIe")))
    with reading_once():
        assert "measured" not in {one.origin for one in gpuprof.load(str(reports / REPORT)).ceilings}


def test_a_broken_file_of_this_gpu_is_named_with_its_line(specs: Path, reports: Path) -> None:
    specs.write_text(measured_text(made_up()).replace("verified", "sure", 1))
    done = run("show", reports / REPORT)
    assert done.returncode == 5 and "made-up.measured.yaml:" in done.stderr and "Traceback" not in done.stderr


def test_the_roofline_of_a_measured_ceiling_is_drawn(specs: Path, reports: Path, tmp_path: Path) -> None:
    specs.write_text(measured_text(made_up()))
    figure = json.loads(run("roofline", reports / REPORT, "--ceiling", "measured", "--format", "json").stdout)
    assert "measured" in json.dumps(figure)
    svg = tmp_path / "roof.svg"
    assert run("roofline", reports / REPORT, "--ceiling", "measured", "-o", svg).returncode == 0
    assert svg.read_text().lstrip().startswith("<?xml")
