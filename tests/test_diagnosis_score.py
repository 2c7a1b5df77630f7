"""The score of the planted bottlenecks: what counts as found, named, predicted and alarmed, on hand-made findings."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.diagnosis import __main__ as command
from benchmarks.diagnosis.case import Case
from benchmarks.diagnosis.case_file import read_case
from benchmarks.diagnosis.nvidia import said
from benchmarks.diagnosis.score import Outcome, judged, score, totals
from benchmarks.diagnosis.table import case_rows, rate_rows
from benchmarks.rule_messages import RuleResult
from gpuprof.model.session import Finding, Location, Occupancy
from tests.hand_made import finding, kernel
from tests.kernels import busy
from tests.ncu_bytes import A100, simple_report

SOURCE = """\
// Doubles.
#include "case.cuh"
extern "C" __global__ void slow(const float *in, float *out, u32 n) {
    out[threadIdx.x] = in[threadIdx.x * n];
}
extern "C" __global__ void fixed(const float *in, float *out, u32 n) {
    out[threadIdx.x] = in[threadIdx.x];
}
"""
FILE = """\
schema: 1
name: doubles
title: Doubles
family: coalescing
planted_rule: uncoalesced-global
line: "in[threadIdx.x * n]"
not_first: [memory-latency]
fix: reads what lies side by side
architectures: {lowest: sm_80}
sizes: {n: 1000}
small: {n: 10}
arguments: [buffer in, buffer out, u32 n]
buffers:
  in: {type: f32, count: [n, n], fill: random}
  out: {type: f32, count: n, fill: zeros, result: 1e-6}
launch: {grid: [n], block: [8]}
gate:
  slow: {required: {IMAD: {least: 1}}}
  fixed: {forbidden: [IMAD]}
"""


def case(folder: Path, **lines: str | None) -> Case:
    """The case above, with some of its lines replaced."""
    text = []
    for line in FILE.splitlines():
        key = line.partition(":")[0]
        new = lines.get(key, "") if key in lines else line
        text += [line if new == "" else new] if new is not None else []
    (folder / "doubles.yaml").write_text("\n".join(text) + "\n")
    (folder / "doubles.cu").write_text(SOURCE)
    return read_case(folder / "doubles.yaml")


def message(rule: str, text: str, speedup: float | None = None, title: str = "", kind: str = "warning") -> RuleResult:
    return RuleResult(rule, "", kind, title, text, speedup, "global")


def outcome(
    doubles: Case,
    slow: list[Finding],
    fixed: list[Finding],
    times: tuple[float, float] = (2e-3, 1e-3),
    *told: RuleResult,
) -> Outcome:
    kernels = {
        "slow": kernel(0, *slow, duration_s=times[0], name="slow"),
        "fixed": kernel(1, *fixed, duration_s=times[1], name="fixed"),
    }
    return judged(doubles, kernels, told)


PLANTED = finding(
    "uncoalesced-global",
    0.6,
    gain_kind="bound",
    place=Location(file="/x/doubles.cu", line=4, pc=None, sass=None, share=0.9),
)
OTHER = finding("memory-latency", 0.3)


def lies_in(file: str, line: int) -> Location:
    return Location(file=file, line=line, pc=None, sass=None)


def test_the_planted_rule_is_found_at_its_place_with_its_line_and_gain(tmp_path: Path) -> None:
    first = outcome(case(tmp_path), [PLANTED, OTHER], [])
    assert (first.right, first.place, first.line, first.gain_right, first.misled) == (True, 1, True, True, False)
    assert (first.predicted, first.alarms) == (0.6, ())
    assert first.real == pytest.approx(0.5)
    second = outcome(case(tmp_path), [OTHER, PLANTED], [])
    assert (second.right, second.place, second.first, second.misled) == (False, 2, "memory-latency", True)
    assert not outcome(case(tmp_path), [finding("l2-bandwidth", 0.3), PLANTED], []).misled
    silent = outcome(case(tmp_path), [], [])
    assert (silent.right, silent.place, silent.first, silent.predicted) == (False, None, None, None)
    assert silent.gain_right is None
    for place in (lies_in("doubles.cu", 7), lies_in("other.cu", 4), None):
        assert outcome(case(tmp_path), [replace(PLANTED, place=place)], []).line is False
    assert outcome(case(tmp_path, line=None), [PLANTED], []).line is None


def test_low_occupancy_must_name_its_limiter(tmp_path: Path) -> None:
    doubles = case(tmp_path, planted_rule="planted_rule: low-occupancy\nlimiter: registers")
    found = finding("low-occupancy", 0.4)
    for limiters, place in ((("registers",), 1), (("blocks",), None)):
        slow = kernel(0, found, occupancy=Occupancy(0.25, 0.2, limiters))
        assert judged(doubles, {"slow": slow, "fixed": kernel()}, ()).place == place


def test_a_well_tuned_kernel_is_right_without_alarms(tmp_path: Path) -> None:
    head, _, kernels = SOURCE.partition('extern "C"')
    (tmp_path / "doubles.cu").write_text(head + 'extern "C"' + kernels.partition('extern "C"')[2])
    text = FILE.replace("uncoalesced-global", "none\nroof: dram-bandwidth").replace('line: "in[threadIdx.x * n]"\n', "")
    text = text.replace("not_first: [memory-latency]\n", "").replace("fix: reads what lies side by side\n", "")
    text = text.replace("  slow: {required: {IMAD: {least: 1}}}\n", "")
    (tmp_path / "doubles.yaml").write_text(text)
    doubles = read_case(tmp_path / "doubles.yaml")
    near = finding("dram-bandwidth", 0.05, severity="info")
    found = judged(doubles, {"fixed": kernel(0, near)}, ())
    assert (found.right, found.planted, found.first) == (True, False, "dram-bandwidth")
    assert not judged(doubles, {"fixed": kernel(0, PLANTED)}, ()).right


# NVIDIA's rules


def test_nvidias_messages_come_by_scope_and_speedup_and_in_our_names() -> None:
    local = RuleResult("UncoalescedGlobalAccess", "", "warning", "", "uncoalesced global accesses", 90.0, "local")
    found = said(
        [
            message("SOLBottleneck", "This kernel exhibits low compute throughput and memory bandwidth utilization"),
            local,
            message("Occupancy", "This kernel's theoretical occupancy (25%) is limited by registers", 50.0),
            message("HighPipeUtilization", "FP64 is the highest-utilized pipeline (70.4%).", None, "High Utilization"),
            message("SomethingNew", "which no table knows", 70.0),
            message("SOLFPRoofline", "fine", None, kind="ok"),
            message("PCSamplingData", "Sampling metrics were enabled, but no samples could be collected"),
            message("CPIStall", "On average, each warp of this kernel spends 3 cycles", 80.0, "Not Selected Stalls"),
        ]
    )
    assert [(one.rule, one.ours) for one in found] == [
        ("SomethingNew", ()),
        ("Occupancy", ("low-occupancy",)),
        ("SOLBottleneck", ("latency-bound",)),
        ("HighPipeUtilization", ("fp64-bound",)),
        ("UncoalescedGlobalAccess", ("uncoalesced-global",)),
    ]


# Totals and tables


def test_totals_and_rates_of_both_halves(tmp_path: Path) -> None:
    doubles = case(tmp_path)
    silent = message("Occupancy", "This kernel's theoretical occupancy (25%) is limited", 50.0)
    outcomes = [
        outcome(doubles, [PLANTED], [], (2e-3, 1e-3), silent),
        outcome(doubles, [OTHER, PLANTED], [PLANTED], (2e-3, 1.9e-3), silent),
    ]
    found = totals(outcomes)
    assert (found.first, found.top, found.cases) == (1, 2, 2)
    assert (found.alarmed, found.fixed, found.lines_named, found.lines) == (1, 2, 2, 2)
    assert (found.gains_right, found.gains) == (1, 2)
    assert (found.nvidia_first, found.nvidia_top, found.nvidia) == (0, 0, 2)
    table = "\n".join([*case_rows(outcomes), *rate_rows(outcomes)])
    assert "1 of 2 (50 %)" in table
    assert "| median error of the gain" in table


def test_recorded_reports_are_read_and_scored(tmp_path: Path) -> None:
    doubles = case(tmp_path)
    sectors, excess = "memory_l2_theoretical_sectors_global", "derived__memory_l2_theoretical_sectors_global_excessive"
    slow = {**busy(dram=70), "gpu__time_duration.sum": 2e6, sectors: 1000.0, excess: 800.0}
    fixed = {**busy(dram=90), "gpu__time_duration.sum": 1e6, sectors: 200.0, excess: 0.0}
    launches = [("slow", {**A100, **slow}), ("fixed", {**A100, **fixed})]
    (tmp_path / "doubles.ncu-rep").write_bytes(simple_report(launches))
    (found,), problems = score([doubles], tmp_path)
    assert problems == []
    assert (found.place, found.first, found.alarms, found.line) == (1, "uncoalesced-global", (), False)
    # 80 % of the sectors: what the warps wait for was not collected, so memory can explain all of the time.
    assert found.predicted == pytest.approx(0.8 * (1 - 1e-6 / 2e-3))
    assert found.real == pytest.approx(0.5)
    assert found.nvidia_first is None


def test_the_command_shows_one_half_of_the_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launches = [(name, {**A100, "gpu__time_duration.sum": 2e6}) for name in ("slow", "fixed")]
    names = ["particle-step", "matrix-transpose"]
    for name in names:
        (tmp_path / f"{name}.ncu-rep").write_bytes(simple_report(launches))
    assert command.main(["score", str(tmp_path), *names]) == 0
    printed = capsys.readouterr().out
    assert "| particle-step " in printed and "| matrix-transpose" not in printed and "0 of 1 (0 %)" in printed
