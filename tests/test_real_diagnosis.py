"""What the findings of real reports must say: the known cause first, at its line, with a bound that the repair met."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from functools import lru_cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jsonschema
import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.grouping import grouped
from gpuprof.diagnose.opportunities import is_opportunity
from gpuprof.diagnose.order import in_order
from gpuprof.diagnose.registry import rule_named
from gpuprof.hardware_finder import HardwareFinder
from gpuprof.model.analyse import analyse
from gpuprof.model.session import Finding, KernelProfile
from gpuprof.store.write import session_lines
from tests.readings import read_once, report_of, session_of
from tests.table import each_row

ROOT = Path(__file__).resolve().parents[1]
SCHEMA = ROOT / "docs" / "reference" / "session.schema.json"
NVIDIA_RULES = ROOT / "benchmarks" / "nvidia_rules.py"


def kernels(folder: Path, name: str) -> tuple[KernelProfile, ...]:
    path = folder / name
    if not path.is_file():
        pytest.skip(f"{name} is not among the real reports")
    return session_of(path).kernels


def named(found: tuple[KernelProfile, ...], name: str) -> list[KernelProfile]:
    return [kernel for kernel in found if kernel.name.startswith(name)]


def alarms(kernel: KernelProfile) -> list[Finding]:
    return [finding for finding in kernel.findings if finding.severity in ("high", "medium")]


@lru_cache(maxsize=1)
def validator() -> Any:
    return jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


# Every report.


def test_findings_are_in_order_and_gains_are_fractions(real_report: Path) -> None:
    run = session_of(real_report)
    for kernel in run.kernels:
        assert in_order(kernel.findings) == kernel.findings
        for finding in kernel.findings:
            assert rule_named(finding.rule) is not None
            if finding.gain_kernel is not None:
                assert 0 <= finding.gain_kernel <= 1
                share = kernel.time_share
                expected = pytest.approx(finding.gain_kernel * share) if share is not None else None
                assert finding.gain_total == expected


def test_the_names_that_a_report_lists_spare_work_and_change_nothing(real_report: Path) -> None:
    """What it has no metrics of is not asked for: only which of several counters are named as missing depends on it."""
    report, finder = report_of(real_report), HardwareFinder(None)
    listed, unlisted = (diagnose(analyse([each], finder, "")).kernels for each in (report, replace(report, names=None)))
    assert (report.names is None) == (real_report.suffix == ".csv")
    for known, asked in zip(listed, unlisted, strict=True):
        assert structs.replace(known, missing=()) == structs.replace(asked, missing=())
        what = [", ".join(gap.what for gap in kernel.missing).split(", ") for kernel in (known, asked)]
        assert sorted(what[0]) == sorted(what[1])


def test_opportunities_hold_each_finding_that_is_one_once_and_come_by_gain(real_report: Path) -> None:
    run = session_of(real_report)
    told = Counter(name for item in run.opportunities for name in item.findings)
    able = {finding.id for one in run.kernels for finding in one.findings if is_opportunity(one, finding)}
    assert set(told) <= able and set(told.values()) <= {1}
    tiers = [
        (item.set_up, item.confidence == "guess", item.rule != "debug-build", item.gain_total is None)
        for item in run.opportunities
    ]
    assert tiers == sorted(tiers)
    for tier in set(tiers):
        gains = [item.gain_total or 0.0 for item, of in zip(run.opportunities, tiers, strict=True) if of == tier]
        assert gains == sorted(gains, reverse=True)


def test_the_verdict_is_of_a_kernel_and_its_sentence_is_whole(real_report: Path) -> None:
    run = session_of(real_report)
    verdict = run.verdict
    assert verdict is not None and verdict.kernel in {one.id for one in run.kernels}
    assert verdict.sentence.endswith(".") and not {"None", "nan", "inf"} & set(verdict.sentence.split())
    assert (verdict.fraction is None) is (verdict.ceiling is None)
    assert verdict.fraction is None or 0 <= verdict.fraction < 1.1


def test_texts_of_findings_are_whole(real_report: Path) -> None:
    for kernel in session_of(real_report).kernels:
        for finding in kernel.findings:
            assert finding.why.endswith(".") and finding.advice.endswith((".", ".)"))
            words = set(f"{finding.headline} {finding.why} {finding.advice}".split())
            assert not words & {"None", "nan", "inf"}
            assert finding.evidence and all(item.unit for item in finding.evidence)
            if finding.location is not None and finding.location.share is not None:
                assert 0 < finding.location.share <= 1 + 1e-9


def test_shares_of_excerpts_are_parts_of_the_kernel(real_report: Path) -> None:
    for kernel in session_of(real_report).kernels:
        for language in ("source", "sass"):
            lines = [line for one in kernel.excerpts if one.language == language for line in one.lines]
            assert sum(line.share for line in lines) <= 1 + 1e-9
            assert all(sum(stall.share for stall in line.stalls) <= 1 + 1e-9 for line in lines)
        hottest = [max((line.share for line in one.lines), default=0.0) for one in kernel.excerpts]
        assert all(share > 0 for share in hottest)


def test_what_is_explained_is_no_alarm_and_a_guess_is_low_at_most(real_report: Path) -> None:
    for kernel in session_of(real_report).kernels:
        for finding in kernel.findings:
            assert finding.cause is None or finding.severity == "info"
            assert finding.confidence != "guess" or finding.severity in ("low", "info")


def test_diagnosed_sessions_follow_the_json_schema(real_report: Path) -> None:
    document = json.loads("\n".join(session_lines(session_of(real_report))))
    assert [error.message for error in validator().iter_errors(document)] == []


def test_groups_of_equal_launches_follow_the_json_schema_and_keep_the_time(real_report: Path) -> None:
    run = session_of(real_report)
    together = grouped(run)
    for amount in ("launches", "time_total_s", "time_share"):
        before, after = (sum(getattr(one, amount) or 0 for one in some.kernels) for some in (run, together))
        assert after == pytest.approx(before)
    if together is not run:
        document = json.loads("\n".join(session_lines(together)))
        assert [error.message for error in validator().iter_errors(document)] == []


# Reports whose cause is known.


def test_divisions_of_miniweather_come_first_and_the_bound_holds_for_their_repair(reports: Path) -> None:
    before = kernels(reports, "gpu_workshop-MW_Baseline.ncu-rep")[2]
    first = before.findings[0]
    assert (first.rule, first.severity) == ("fp64-bound", "high")
    assert "division" in first.headline and "reciprocal" in first.advice
    assert first.location is not None and first.location.file is not None
    assert Path(first.location.file).name == "miniWeather_mpi_openacc.F90" and first.location.line is not None
    # The divisions became multiplications: 6191 µs → 3482 µs.
    assert before.duration_s == pytest.approx(6191e-6, rel=1e-3)
    assert first.gain_kernel is not None and first.gain_kernel >= 1 - 3482 / 6191


def test_the_repair_of_miniweather_gained_no_more_than_the_bound(reports: Path) -> None:
    before = kernels(reports, "gpu_workshop-MW_Baseline.ncu-rep")[2]
    after = kernels(reports, "gpu_workshop-MW_DivToMult.ncu-rep")[2]
    assert before.name == after.name and before.duration_s is not None and after.duration_s is not None
    gained = 1 - after.duration_s / before.duration_s
    assert gained == pytest.approx(0.438, abs=0.001)
    assert (before.findings[0].gain_kernel or 0) >= gained
    assert "fp64-bound" not in [finding.rule for finding in alarms(after)]


def test_the_reference_product_is_uncoalesced_at_its_byte_load(reports: Path) -> None:
    (kernel,) = named(kernels(reports, "cutlass-report-s8-persist.ncu-rep"), "ReferenceGemm")
    first = kernel.findings[0]
    assert (first.rule, first.severity, first.confidence) == ("uncoalesced-global", "high", "measured")
    assert first.location is not None and first.location.file is not None and first.location.sass is not None
    assert (Path(first.location.file).name, first.location.line) == ("s8_gemm.cu", 286)
    assert first.location.sass.startswith("LDG.E.S8")


@each_row(
    ("name", "rule"),
    [
        ("basic", "uncoalesced-global"),
        ("gmem_coalesce", "l1-bandwidth"),
        ("smem_blocking", "l1-bandwidth"),
    ],
)
def test_the_steps_of_a_product_meet_the_limit_that_the_next_step_removes(reports: Path, name: str, rule: str) -> None:
    found = named(kernels(reports, "esmm-research-profile-26b457a.ncu-rep"), name)
    assert found
    for kernel in found:
        assert kernel.findings[0].rule == rule
        assert kernel.findings[0].severity in ("high", "medium")


def test_coalescing_gained_no_more_than_its_bound(reports: Path) -> None:
    steps = kernels(reports, "esmm-research-profile-26b457a.ncu-rep")
    (before,), (after,) = named(steps, "basic"), named(steps, "gmem_coalesce")
    assert before.duration_s is not None and after.duration_s is not None
    assert (before.findings[0].gain_kernel or 0) >= 1 - after.duration_s / before.duration_s > 0


def test_the_beamformer_spills_first(reports: Path) -> None:
    (kernel,) = named(kernels(reports, "indexspaces.jl-profile.ncu-rep"), "julia_frb")
    first = kernel.findings[0]
    assert (first.rule, first.severity) == ("local-memory-spill", "high")
    assert first.location is not None and first.location.sass is not None
    assert first.location.sass.split()[0].startswith(("LDL", "STL"))


@each_row("name", ["indexspaces.jl-profile.ncu-rep", "indexspaces.jl-profile-3176628.ncu-rep"])
def test_fills_that_reach_dram_are_told_so_and_raise_no_alarm(reports: Path, name: str) -> None:
    fills = [
        kernel
        for kernel in kernels(reports, name)
        if kernel.name.startswith("julia__") and (kernel.duration_s or 0) > 50e-6
    ]
    assert fills
    for kernel in fills:
        assert (kernel.findings[0].rule, kernel.findings[0].severity) == ("dram-bandwidth", "info")
        assert alarms(kernel) == []


def test_a_product_of_384_is_too_small_for_the_gpu(reports: Path) -> None:
    for kernel in kernels(reports, "cutlass-384.ncu-rep"):
        assert (kernel.findings[0].rule, kernel.findings[0].severity) == ("small-grid", "high")


# NVIDIA's own rules.


def nvidia_rules() -> ModuleType:
    """The comparison with NVIDIA's rules, from its file: it is no part of the package."""
    spec = importlib.util.spec_from_file_location("compared_with_nvidia", NVIDIA_RULES)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_findings_agree_with_nvidias_own_rules(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = nvidia_rules()
    monkeypatch.setattr(tool, "read_file", read_once)
    monkeypatch.setattr(tool, "gpuprof", SimpleNamespace(load=session_of))
    paths = sorted(path for path in reports.rglob("*") if path.name.endswith(tuple(tool.SUFFIXES)))
    judged = [one for path in paths for one in tool.compare(path) if one.claim.left_out is None]
    apart = [f"{one.file} #{one.kernel.id}: {one.claim.cause}" for one in judged if not one.agrees]
    assert len(judged) > 100
    assert 1 - len(apart) / len(judged) >= max(0.95, tool.AIM), apart
