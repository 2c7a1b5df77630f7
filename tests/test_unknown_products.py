"""A GPU without a spec: which ceilings it has, and what the first screen says of them."""

from __future__ import annotations

import io

import pytest
from msgspec import structs
from rich.console import Console

from gpuprof.characterize.judge.limits import Bound, NoBound, physical_limit
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import ComputeKey
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.ceilings import Hardware
from gpuprof.model.headline import main_point
from gpuprof.model.quantities import Clocks
from gpuprof.model.session import Session
from gpuprof.recordings import recordings
from gpuprof.views.profile import print_session
from gpuprof.words.profile_values import NO_CEILING, roof_text
from tests.readings import report_of, unpacked
from tests.table import each_row
from tests.worded import diagnose

UNKNOWN = "NVIDIA X100"
CUT = ("tensor.", "fp64", "fp16")


def named(recording: str, name: str | None) -> Session:
    """The diagnosis of a recording whose GPU has another name, and no PCI id."""
    report = report_of(unpacked(next(one for one in recordings() if one.name == recording)))
    devices = tuple(structs.replace(device, name=name, pci_id=None) for device in report.devices)
    return diagnose(analyse([structs.replace(report, devices=devices)], HardwareFinder(), "0"))


def screen(recording: str, name: str) -> str:
    session, out = named(recording, name), io.StringIO()
    print_session(Console(file=out, width=200), session, session.kernels)
    return out.getvalue()


@each_row("name", [UNKNOWN, None])
def test_a_product_without_spec_has_only_the_ceilings_of_its_report(name: str | None) -> None:
    known, session = named("a100-gemm", "NVIDIA A100 80GB PCIe"), named("a100-gemm", name)
    assert any(ceiling.path == "tensor.int8" for ceiling in known.ceilings)
    assert {ceiling.origin for ceiling in session.ceilings} == {"at-clock"}
    cut = [ceiling for ceiling in session.ceilings if ceiling.path is not None and ceiling.path.startswith(CUT)]
    assert all(ceiling.source.startswith("report: ") for ceiling in cut)
    assert not any(ceiling.path == "tensor.int8" for ceiling in session.ceilings)
    lacking = {what for kernel in session.kernels for gap in kernel.missing for what in gap.what.split(", ")}
    assert "peak.tensor.int8" in lacking


def test_matrix_work_without_a_ceiling_is_not_placed_by_the_little_fp32_work_beside_it() -> None:
    """Beside 113 MOP in INT8 it does 0.147 MFLOP in FP32, which are 1.9 % of a roof."""
    known, unknown = (named("a100-gemm", name).kernels[0] for name in ("NVIDIA A100 80GB PCIe", UNKNOWN))
    point = main_point(known)
    assert point is not None and point.path == "tensor.int8"
    assert any(point.path == "fp32" for point in unknown.roofline)
    assert main_point(unknown) is None and roof_text(unknown) == NO_CEILING


def test_the_first_screen_says_which_ceilings_are_not_known() -> None:
    unknown, known = screen("a100-gemm", UNKNOWN), screen("a100-gemm", "NVIDIA A100 80GB PCIe")
    assert f"{UNKNOWN} has no spec: no tensor, FP64 or FP16 ceiling is known" in unknown and "--spec" in unknown
    assert "has no spec" not in known


@each_row(
    ("arch", "name", "rate"),
    [
        ("8.9", "NVIDIA GeForce RTX 9999", 512),
        ("8.6", "NVIDIA GeForce RTX 9999 Laptop GPU", 512),
        ("12.0", "NVIDIA GeForce RTX 9999", 512),
        ("7.5", "NVIDIA GeForce RTX 9999", 512),
        ("7.5", "NVIDIA GeForce GTX 9999", None),
        ("8.9", "NVIDIA RTX 9999 Ada Generation", None),
        ("9.0", "NVIDIA H9999", None),
    ],
)
def test_geforce_rtx_has_half_of_the_rate_with_fp32_accumulation(arch: str, name: str, rate: float | None) -> None:
    """Half of 1024 FLOP per clock and SM with FP16 accumulation, as NVIDIA rates the RTX 2080 Ti: 53.8 of 107.6."""
    spec = SpecLibrary().arch_of(arch)
    assert spec is not None
    rates = Hardware.of(spec, None, RecordedDevice(name=name, compute_capability=arch)).rates
    fact = rates.get(ComputeKey("tensor.fp16", "fp32", "mma.sync"))
    assert (fact.value if fact is not None else None) == rate
    assert ComputeKey("fp32") in rates


@each_row(
    ("name", "limit", "reason"),
    [
        ("NVIDIA H9999", "tensor.bf16 fp32 wgmma", "no spec"),
        ("NVIDIA H9999", "fp64", "no spec"),
        ("NVIDIA H9999", "tensor.int4 int32 mma.sync", "the spec of sm_90 gives no rate"),
        ("NVIDIA H9999", "fp32", None),
    ],
)
def test_a_limit_of_an_unknown_product_is_not_said_to_be_missing_in_its_architecture(
    name: str, limit: str, reason: str | None
) -> None:
    spec = SpecLibrary().arch_of("9.0")
    assert spec is not None
    device = RecordedDevice(name=name, compute_capability="9.0", sm_count=132)
    found = physical_limit(limit, Hardware.of(spec, None, device), Clocks(sm_hz=1e9))
    if reason is None:
        assert isinstance(found, Bound) and found.value == pytest.approx(256 * 132 * 1e9)
    else:
        assert isinstance(found, NoBound) and reason in found.why
