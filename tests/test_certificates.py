"""Certificates: which counters are vouched for, by which file, and what two counts of real kernels say."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.counters.__main__ import main
from gpuprof.characterize.certify import certificate_of, merged, on_file
from gpuprof.characterize.probes.library import load_probes, probe_folder
from gpuprof.characterize.results.judging import CountedAndClaimed
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
from gpuprof.hardware.specs import THREAD_OPCODES
from gpuprof.hardware.trust import Trust
from gpuprof.hardware.yaml_tree import BrokenSpec
from gpuprof.model.launch_analysis import profile_launch
from gpuprof.recordings import recordings
from gpuprof.resources import data_dir
from tests import builders
from tests.readings import session_of, unpacked
from tests.table import each_row

FFMA = frozenset({"smsp__ffma"})


def agreement(ratio: float = 1.0, quantity: str = "work.fp32", counters: frozenset[str] = FFMA) -> Agreement:
    return Agreement(quantity, counters, "probe instruction/ffma", ratio, ratio, 1, None)


def certificate(*agreements: Agreement, level: Trust = "certified") -> Certificate:
    return Certificate("sm_90", level, ("2025.3",), "NVIDIA H200", "580.95", "2026-11-22", agreements, "")


@each_row(
    ("quantity", "ratio", "release", "level"),
    [
        ("work.fp32", 1.0099, "2025.3", "certified"), ("work.fp32", 1.0099, "2024.1", "checked"),
        ("work.fp32", 1.0099, None, "checked"), ("work.fp32", 1.011, "2025.3", None),
        ("work.fp32", 0.985, "2025.3", None), ("traffic.dram", 1.029, "2025.3", "certified"),
        ("traffic.dram", 1.031, "2025.3", None), ("traffic.l2", 0.951, "2025.3", "certified"),
        ("traffic.l1", 0.94, "2025.3", None),
    ],
)  # fmt: skip
def test_counters_within_their_tolerance_are_certified_for_the_release_that_counted_them(
    quantity: str, ratio: float, release: str | None, level: str | None
) -> None:
    assert certificate(agreement(ratio, quantity)).level_of(quantity, FFMA, release) == level


def test_certificate_is_of_its_counters_and_all_its_probes_only() -> None:
    assert certificate(agreement(1.0), agreement(2.0)).level_of("work.fp32", FFMA, "2025.3") is None
    assert certificate(agreement()).level_of("work.fp32", frozenset({"sm__ffma"}), "2025.3") is None
    assert certificate(agreement()).level_of("work.fp64", FFMA, "2025.3") is None
    assert base_names(["a__b.sum", "a__b.sum.per_second", "c__d"]) == {"a__b", "c__d"}
    releases = [release_of(text) for text in ("2025.3.1.0 (build 1)", "2024.1", "?", None)]
    assert releases == ["2025.3", "2024.1", None, None]


@each_row(
    ("level", "release", "expected"),
    [
        ("certified", "2025.3", "none"), ("certified", "2024.1", "checked"), ("certified", None, "checked"),
        ("checked", "2025.3", "none"), ("checked", "2024.1", "none"), ("checked", None, "none"),
    ],
)  # fmt: skip
def test_counters_that_were_wrong_have_none_whatever_the_others_say(
    level: Trust, release: str | None, expected: str
) -> None:
    """A certified file decides for its own release of ncu, a check for all."""
    wrong, right = certificate(agreement(2.0), level=level), certificate(agreement(), level="checked")
    for both in ((wrong, right), (right, wrong)):
        assert trust(both, "work.fp32", ["smsp__ffma.sum"], release) == expected


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
    path.write_text(certificate_text(replace(certificate(), gpu="", driver=None)))
    read = read_certificate(path)
    assert (read.agreements, read.gpu, read.driver) == ((), None, None)


def certified_by(claims: float, each: dict[str, float]) -> Certificate:
    """What a run certifies that counted these FFMA of one probe."""
    counted = CountedAndClaimed(
        {"work.fp32": claims}, {}, {("work.fp32", frozenset({name})): value for name, value in each.items()}
    )
    run = {"ncu": "2025.3.1", "gpu": "NVIDIA H200", "driver": "580.95", "date": "2026-12-01"}
    return certificate_of({"instruction/ffma": counted}, (), "sm_90", **run)


def test_count_that_is_negative_disagrees_and_a_claim_of_nothing_certifies_nothing() -> None:
    made = certified_by(10.0, {"good": 10.0, "falls": -4.0})
    assert {min(each.counters): each.lowest for each in made.agreements} == {"good": 1.0, "falls": 0.0}
    assert trust((made,), "work.fp32", ["falls.sum"], "2025.3") == "none"
    assert certified_by(0.0, {"good": 10.0}).agreements == ()


def test_counts_of_sparse_products_say_nothing_of_dense_ones() -> None:
    probes = [probe for probe in load_probes(probe_folder()) if probe.id.startswith("tensor/mma-s")]
    key = "work.tensor.bf16", frozenset({"sass__inst_executed_per_opcode_with_modifier_all"})
    counted = {
        f"tensor/{name}": CountedAndClaimed({key[0]: 8.0}, {}, {key: value})
        for name, value in (("mma-sp-bf16-f32", 16.0), ("mma-sync-bf16-f32", 8.0))
    }
    made = certificate_of(counted, probes, "sm_90", ncu="2025.3.1", gpu=None, driver=None, date="2026-12-01")
    assert {(each.quantity, each.known, each.lowest) for each in made.agreements} == {
        ("work.tensor.bf16 sparse", "probe tensor/mma-sp-bf16-f32", 2.0),
        ("work.tensor.bf16", "probe tensor/mma-sync-bf16-f32", 1.0),
    }
    assert made.level_of(*key, "2025.3") == "certified"


def test_newer_entries_win_and_older_ones_of_the_same_kind_stay_with_their_origin(tmp_path: Path) -> None:
    old = certificate(agreement(1.001), agreement(0.999, "work.fp64"))
    new = replace(certificate(agreement(1.002)), driver="590", date="2026-12-01")
    both = merged(new, old)
    assert (both.driver, both.date) == ("590", "2026-12-01")
    assert {(each.quantity, each.lowest, each.source) for each in both.agreements} == {
        ("work.fp32", 1.002, None), ("work.fp64", 0.999, "NVIDIA H200, driver 580.95, 2026-11-22"),
    }  # fmt: skip
    for change in ({"arch": "sm_80"}, {"ncu": ("2024.1",)}, {"level": "checked"}):
        assert merged(new, replace(old, **change)) == new
    path = tmp_path / "sm_90-x.yaml"
    assert on_file(new, path) == new
    path.write_text("schema: 7")
    assert on_file(new, path) == new


@each_row(
    ("old", "new", "complaint"), [("level: certified", "level: sure", "not one of"),
        ("lowest: 1", "lowest: 3", "lowest is above highest"), ("lowest: 1", "lowest: nan", "not a finite number"),
        ("quantity: work.fp32", "amount: work.fp32", "unknown key"),
        ('known: "probe instruction/ffma"', 'known: ""', "known is a placeholder"),
        ('gpu: "NVIDIA H200"', "gpu: TODO", "gpu is a placeholder")],
)  # fmt: skip
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
    result = check_files([path], SpecLibrary(folders=(tmp_path, data_dir("specs"))))
    assert [finding.severity for finding in result.findings] == ["info", "error"]
    assert "20.0% off" in result.findings[0].message
    assert "work.nothing" in result.findings[1].message


def test_packaged_certificates_vouch_for_something() -> None:
    folder = data_dir("specs")
    for path in (folder / "certificates").glob("*.yaml"):
        packaged = read_certificate(path)
        assert path.stem.startswith(f"{packaged.arch}-")
        assert packaged.agreements
    assert any(load_certificates([folder], "sm_80"))


def test_recorded_kernel_says_which_work_is_checked() -> None:
    (recording,) = [recording for recording in recordings() if recording.name == "a100-gemm"]
    levels = {work.path: work.certificate for work in session_of(unpacked(recording)).kernels[0].work}
    assert levels["fp32"] == levels["tensor.int8"] == "checked"
    assert levels["fp64"] == "none"


# What an amount of a launch has


def amounts(values: dict[str, float], *known: str, histogram: dict[str | int, float] | None = None) -> dict[str, str]:
    """The certificates of the amounts of a launch on hardware where kernels of known work certified these counters."""
    quantities = ("work.fp32", "work.fp16", "traffic.dram", "traffic.l2")
    agreements = [agreement(1.0, quantity, frozenset(names.split())) for quantity in quantities for names in known]
    hardware = replace(builders.a100(), certificates=(certificate(*agreements),), release="2025.3")
    launch = builders.launch(values, {THREAD_OPCODES: histogram} if histogram else None)
    profile = profile_launch(launch, 0, 0, hardware).profile
    return {
        **{each.path: each.certificate or "" for each in profile.work},
        **{each.level: each.certificate or "" for each in profile.traffic},
    }


CLOCKED = {"gpu__time_duration.sum": 1e-6, "sm__cycles_elapsed.avg.per_second": 1e9}
FP32 = [f"smsp__sass_thread_inst_executed_op_{op}_pred_on" for op in ("fadd", "fmul", "ffma")]
FP16 = [name.replace("_op_f", "_op_h") for name in FP32]


def test_sums_of_events_and_histograms_are_certified_and_rates_times_durations_are_checked_at_most() -> None:
    names = " ".join(FP32)
    sums = CLOCKED | {f"{name}.sum": 1e6 for name in FP32} | {"dram__bytes.sum": 1e6}
    rates = CLOCKED | {f"{name}.sum.per_cycle_elapsed": 1e3 for name in FP32} | {"dram__bytes.sum.per_second": 1e12}
    for values, level in ((sums, "certified"), (rates, "checked")):
        result = amounts(values, names, "dram__bytes")
        assert (result["fp32"], result["dram"]) == (level, level)
    assert amounts(CLOCKED, THREAD_OPCODES, histogram={"FFMA": 5e6})["fp32"] == "certified"


def test_estimate_has_no_certificate() -> None:
    """FP16 work whose constant loads cannot be told apart, because the report does not embed the program."""
    values = CLOCKED | {f"{name}.sum": 1e6 for name in FP16}
    assert amounts(values, " ".join(FP16))["fp16"] == "none"
    assert amounts(CLOCKED | {f"{name}.sum": 0.0 for name in FP16}, " ".join(FP16))["fp16"] == "certified"


def test_counters_of_a_folder_without_reports_cannot_be_checked(tmp_path: Path) -> None:
    assert main(["check", str(tmp_path)]) == 2
