"""Findings of reports whose cause is known: it comes first, at its line, with a bound that the fix met."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuprof.model.session import KernelProfile
from tests.field.folder import folder, report
from tests.readings import read_once, session_of

NVIDIA_RULES = Path(__file__).resolve().parents[2] / "benchmarks" / "nvidia_rules.py"


def kernels(name: str, start: str = "") -> list[KernelProfile]:
    return [kernel for kernel in session_of(report(name)).kernels if kernel.name.startswith(start)]


def alarms(kernel: KernelProfile) -> list[str]:
    return [finding.rule for finding in kernel.findings if finding.severity in ("high", "medium")]


def gained(before: KernelProfile, after: KernelProfile) -> float:
    """The part of the time that a fix saved."""
    assert before.duration_s is not None and after.duration_s is not None
    return 1 - after.duration_s / before.duration_s


def test_divisions_of_miniweather_come_first_and_the_bound_holds_for_their_fix() -> None:
    """They became multiplications: 6191 µs → 3482 µs."""
    before, after = (kernels(f"gpu_workshop-MW_{name}.ncu-rep")[2] for name in ("Baseline", "DivToMult"))
    first = before.findings[0]
    assert (first.rule, first.severity) == ("fp64-bound", "high") and "fp64-bound" not in alarms(after)
    assert first.place is not None and first.place.file is not None and first.place.line is not None
    assert Path(first.place.file).name == "miniWeather_mpi_openacc.F90"
    assert before.duration_s == pytest.approx(6191e-6, rel=1e-3) and before.name == after.name
    assert gained(before, after) == pytest.approx(0.438, abs=0.001)
    assert (first.gain_kernel or 0) >= gained(before, after)


def test_the_steps_of_a_product_meet_the_limit_that_the_next_step_removes() -> None:
    name = "esmm-research-profile-26b457a.ncu-rep"
    limits = {"basic": "uncoalesced-global", "gmem_coalesce": "l1-bandwidth", "smem_blocking": "l1-bandwidth"}
    for step, rule in limits.items():
        assert {kernel.findings[0].rule for kernel in kernels(name, step)} == {rule}
    (before,), (after,) = kernels(name, "basic"), kernels(name, "gmem_coalesce")
    assert (before.findings[0].gain_kernel or 0) >= gained(before, after) > 0


def test_loads_spills_fills_and_small_grids_are_the_first_finding() -> None:
    (kernel,) = kernels("cutlass-report-s8-persist.ncu-rep", "ReferenceGemm")
    first = kernel.findings[0]
    assert (first.rule, first.severity, first.confidence) == ("uncoalesced-global", "high", "measured")
    assert first.place is not None and first.place.file is not None and first.place.sass is not None
    assert (Path(first.place.file).name, first.place.line) == ("s8_gemm.cu", 286)
    assert first.place.sass.startswith("LDG.E.S8")
    (kernel,) = kernels("indexspaces.jl-profile.ncu-rep", "julia_frb")
    first = kernel.findings[0]
    assert (first.rule, first.severity) == ("local-memory-spill", "high")
    assert first.place is not None and first.place.sass is not None
    assert first.place.sass.split()[0].startswith(("LDL", "STL"))
    for name in ("indexspaces.jl-profile.ncu-rep", "indexspaces.jl-profile-3176628.ncu-rep"):
        fills = [kernel for kernel in kernels(name, "julia__") if (kernel.duration_s or 0) > 50e-6]
        assert fills and not any(alarms(kernel) for kernel in fills)
        assert {(kernel.findings[0].rule, kernel.findings[0].severity) for kernel in fills} == {
            ("dram-bandwidth", "info")
        }
    for kernel in kernels("cutlass-384.ncu-rep"):
        assert (kernel.findings[0].rule, kernel.findings[0].severity) == ("small-grid", "high")


def test_findings_agree_with_nvidias_own_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("compared_with_nvidia", NVIDIA_RULES)
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tool
    spec.loader.exec_module(tool)
    monkeypatch.setattr(tool, "read_file", read_once)
    monkeypatch.setattr(tool, "gpuprof", SimpleNamespace(load=session_of))
    paths = sorted(path for path in folder().rglob("*") if path.name.endswith(tool.REPORTS))
    judged = [case for path in paths for case in tool.compare(path) if case.claim.left_out is None]
    apart = [f"{case.file} #{case.kernel.id}: {case.claim.cause}" for case in judged if not case.agrees]
    assert len(judged) > 100
    assert 1 - len(apart) / len(judged) >= max(0.95, tool.AIM), apart
