"""Certificates: which counters are vouched for, by which file, and what two counts of real kernels say."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuprof
from benchmarks.counters.equalities import certificates_of, equalities
from gpuprof.hardware.certificates import (
    Agreement,
    Certificate,
    base_names,
    certificate_text,
    load_certificates,
    read_certificate,
    release_of,
    trust,
)
from gpuprof.hardware.check import check_files
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.yaml_tree import BrokenSpec
from gpuprof.resources import data_dir

FFMA = frozenset({"smsp__ffma"})


def agreement(ratio: float = 1.0, quantity: str = "work.fp32", counters: frozenset[str] = FFMA) -> Agreement:
    return Agreement(quantity, counters, "probe instruction/ffma", ratio, ratio, 1, None)


def certificate(*agreements: Agreement, level: str = "certified") -> Certificate:
    return Certificate("sm_90", level, ("2025.3",), "NVIDIA H200", "580.95", "2026-11-22", agreements, "")


def test_counters_within_one_percent_are_certified_for_the_release_that_counted_them() -> None:
    one = certificate(agreement(1.0099))
    assert one.level_of("work.fp32", FFMA, "2025.3") == "certified"
    assert one.level_of("work.fp32", FFMA, "2024.1") == "checked"
    assert one.level_of("work.fp32", FFMA, None) == "checked"


@pytest.mark.parametrize(
    ("quantity", "ratio", "level"),
    [
        ("work.fp32", 1.011, None), ("work.fp32", 0.985, None), ("traffic.dram", 1.029, "certified"),
        ("traffic.dram", 1.031, None), ("traffic.l2", 0.951, "certified"), ("traffic.l1", 0.94, None),
    ],
)  # fmt: skip
def test_each_kind_of_counter_has_its_tolerance(quantity: str, ratio: float, level: str | None) -> None:
    assert certificate(agreement(ratio, quantity)).level_of(quantity, FFMA, "2025.3") == level


def test_one_probe_that_disagrees_takes_the_certificate_away() -> None:
    assert certificate(agreement(1.0), agreement(2.0)).level_of("work.fp32", FFMA, "2025.3") is None


def test_other_counters_of_the_same_quantity_are_not_vouched_for() -> None:
    assert certificate(agreement()).level_of("work.fp32", frozenset({"sm__ffma"}), "2025.3") is None
    assert certificate(agreement()).level_of("work.fp64", FFMA, "2025.3") is None


def test_the_best_of_several_files_counts() -> None:
    checked = certificate(agreement(), level="checked")
    metrics = ["smsp__ffma.sum.per_cycle_elapsed"]
    assert trust((checked, certificate(agreement())), "work.fp32", metrics, "2025.3") == "certified"
    assert trust((checked,), "work.fp32", metrics, "2025.3") == "checked"
    assert trust((), "work.fp32", metrics, "2025.3") is None


def test_names_of_counters_and_releases() -> None:
    assert base_names(["a__b.sum", "a__b.sum.per_second", "c__d"]) == {"a__b", "c__d"}
    assert [release_of(text) for text in ("2025.3.1.0 (build 1)", "2024.1")] == ["2025.3", "2024.1"]
    assert [release_of(text) for text in ("?", None)] == [None, None]


def test_a_certificate_reads_back_as_it_was_written(tmp_path: Path) -> None:
    written = certificate(
        agreement(0.998), Agreement("traffic.l2", frozenset({"b", "a"}), 'x: "y"', 0.9, 1.1, 7, "p, q")
    )
    path = tmp_path / "sm_90-ncu-2025.3.yaml"
    path.write_text(certificate_text(written))
    read = read_certificate(path)
    assert set(read.agreements) == set(written.agreements)
    assert (read.arch, read.level, read.ncu) == ("sm_90", "certified", ("2025.3",))
    assert (read.gpu, read.driver, read.date) == ("NVIDIA H200", "580.95", "2026-11-22")


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("level: certified", "level: sure", "not one of"),
        ("kind: certificate", "kind: arch", "not a certificate"),
        ("lowest: 1", "lowest: 3", "lowest is above highest"),
        ("lowest: 1", "lowest: nan", "no ratio"),
        ("lowest: 1", "lowest: much", "not a number"),
        ("quantity: work.fp32", "amount: work.fp32", "unknown key"),
        ('known: "probe instruction/ffma"', 'known: ""', "known is empty"),
    ],
)
def test_a_broken_certificate_is_refused_with_its_line(tmp_path: Path, old: str, new: str, complaint: str) -> None:
    path = tmp_path / "sm_90-x.yaml"
    path.write_text(certificate_text(certificate(agreement())).replace(old, new))
    with pytest.raises(BrokenSpec, match=complaint) as caught:
        read_certificate(path)
    assert str(path) in str(caught.value)


def test_specs_check_reads_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    path = folder / "sm_90-x.yaml"
    path.write_text(certificate_text(certificate(agreement(1.2), agreement(1.0, "work.nothing"))))
    found = check_files([path], SpecLibrary(folders=(tmp_path, data_dir("specs"))))
    assert [finding.severity for finding in found.findings] == ["info", "error"]
    assert "20.0% off" in found.findings[0].message
    assert "work.nothing" in found.findings[1].message


def test_packaged_certificates_vouch_for_something() -> None:
    folder = data_dir("specs")
    for path in (folder / "certificates").glob("*.yaml"):
        one = read_certificate(path)
        assert path.stem.startswith(f"{one.arch}-")
        assert one.agreements
    assert any(load_certificates([folder], "sm_80"))


def test_two_counts_of_real_kernels_agree_as_the_packaged_certificates_say(reports: Path) -> None:
    """What `python -m benchmarks.counters check` writes is what lies in specs/certificates."""
    paths = sorted(path for path in reports.rglob("*") if path.suffix in {".ncu-rep", ".nsight-cuprof-report"})
    for found in certificates_of(equalities(paths), "2026-11-22"):
        kept = read_certificate(data_dir("specs") / "certificates" / f"{found.arch}-checked.yaml")
        assert {one[:3] for one in kept.agreements} == {one[:3] for one in found.agreements}
        assert max(one.deviation for one in found.agreements) < 1e-9


def test_a_real_report_says_which_work_is_checked(reports: Path) -> None:
    session = gpuprof.load(reports / "cutlass-384.ncu-rep")
    levels = {work.path: work.certificate for work in session.kernels[0].work}
    assert levels["fp32"] == levels["tensor.int8"] == "checked"
    assert levels["fp64"] is None
