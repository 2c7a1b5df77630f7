"""The score of the planted bottlenecks: what counts as found, named, predicted and alarmed, on hand-made findings."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from benchmarks.diagnosis import __main__ as command
from benchmarks.diagnosis.case import Case
from benchmarks.diagnosis.case_file import load_cases, read_case
from benchmarks.diagnosis.nvidia import said
from benchmarks.diagnosis.score import Outcome, judged, score, totals
from benchmarks.diagnosis.table import case_rows, rate_rows
from benchmarks.diagnosis.worth import HALVES, by_worth, half
from gpuprof.model.recorded import FixedDetails, Launch, RuleResult
from gpuprof.model.session import Finding, Location, Occupancy
from tests.hand_made import finding, kernel
from tests.kernels import busy
from tests.ncu_bytes import A100, simple_report
from tests.table import each_row

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
repair: reads what lies side by side
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


def launch(*results: RuleResult) -> Launch:
    return Launch("slow", "slow", 0, details=FixedDetails(results))


def message(rule: str, text: str, speedup: float | None = None, title: str = "", kind: str = "warning") -> RuleResult:
    return RuleResult(rule, "", kind, title, text, speedup, "global")


def outcome(
    one: Case, slow: list[Finding], fixed: list[Finding], times: tuple[float, float] = (2e-3, 1e-3), *said_: RuleResult
) -> Outcome:
    kernels = {
        "slow": kernel(0, *slow, duration_s=times[0], name="slow"),
        "fixed": kernel(1, *fixed, duration_s=times[1], name="fixed"),
    }
    return judged(one, kernels, {"slow": launch(*said_)})


PLANTED = finding(
    "uncoalesced-global",
    0.6,
    gain_kind="bound",
    location=Location(file="/x/doubles.cu", line=4, pc=None, sass=None, share=0.9),
)
OTHER = finding("memory-latency", 0.3)


def test_the_planted_rule_in_front_is_right_with_its_line_and_gain(tmp_path: Path) -> None:
    found = outcome(case(tmp_path), [PLANTED, OTHER], [])
    assert (found.right, found.place, found.line, found.gain_right) == (True, 1, True, True)
    assert found.predicted == 0.6
    assert found.real == pytest.approx(0.5)
    assert found.alarms == ()


def test_another_rule_in_front_is_wrong_and_its_place_is_told(tmp_path: Path) -> None:
    found = outcome(case(tmp_path), [OTHER, PLANTED], [])
    assert (found.right, found.place, found.first) == (False, 2, "memory-latency")


def test_a_rule_that_is_silent_has_no_place(tmp_path: Path) -> None:
    found = outcome(case(tmp_path), [], [])
    assert (found.right, found.place, found.first, found.predicted, found.gain_right) == (False, None, None, None, None)


@each_row(
    ("place", "named"),
    [
        (Location(file="doubles.cu", line=7, pc=None, sass=None), False),
        (Location(file="other.cu", line=4, pc=None, sass=None), False),
        (None, False),
    ],
)
def test_another_line_is_not_the_line(tmp_path: Path, place: Location | None, named: bool) -> None:
    found = outcome(case(tmp_path), [replace(PLANTED, location=place)], [])
    assert found.line is named


def test_a_cause_without_a_line_is_not_asked_for_one(tmp_path: Path) -> None:
    assert outcome(case(tmp_path, line=None), [PLANTED], []).line is None


def test_high_and_medium_findings_of_the_repair_are_alarms(tmp_path: Path) -> None:
    fixed = [replace(OTHER, severity=severity) for severity in ("high", "medium", "low", "info")]
    assert outcome(case(tmp_path), [PLANTED], fixed).alarms == ("memory-latency", "memory-latency")


def test_the_roof_that_a_repair_has_by_its_file_is_no_alarm(tmp_path: Path) -> None:
    one = case(tmp_path, repair="repair: reads what lies side by side\nroof: dram-bandwidth")
    fixed = [replace(finding("dram-bandwidth", 0.3), severity="medium"), replace(OTHER, severity="medium")]
    assert outcome(one, [PLANTED], fixed).alarms == ("memory-latency",)


def test_a_rule_in_front_that_must_not_be_misleads(tmp_path: Path) -> None:
    assert outcome(case(tmp_path), [OTHER, PLANTED], []).misled
    assert not outcome(case(tmp_path), [PLANTED, OTHER], []).misled
    assert not outcome(case(tmp_path), [finding("l2-bandwidth", 0.3), PLANTED], []).misled


def test_a_repair_that_saves_something_else_than_its_file_says_is_a_doubt(tmp_path: Path) -> None:
    one = case(tmp_path, repair='repair: reads\ngain: {low: 60 %, high: 80 %, why: "bytes"}')
    assert outcome(one, [PLANTED], [], (2e-3, 1e-3)).doubts == ("the repair saves 50%, not 60% to 80%",)
    assert outcome(one, [PLANTED], [], (3e-3, 1e-3)).doubts == ()
    assert outcome(case(tmp_path), [PLANTED], [], (1e-3, 1.1e-3)).doubts == ("the repair saves nothing (-10%)",)


def test_kernels_at_different_clocks_are_a_doubt(tmp_path: Path) -> None:
    kernels = {name: kernel(0, duration_s=1e-3 * (2 - number), name=name, sm_clock_hz=clock)
               for number, (name, clock) in enumerate([("slow", 1.5e9), ("fixed", 1.8e9)])}  # fmt: skip
    found = judged(case(tmp_path), kernels, {"slow": launch()})
    assert found.doubts == ("fixed ran at 1.200 × the clock of slow",)


@each_row(("gain", "times", "held"), [(0.6, (2e-3, 1e-3), True), (0.4, (2e-3, 1e-3), False)])
def test_a_told_gain_is_an_upper_bound_or_not(
    tmp_path: Path, gain: float, times: tuple[float, float], held: bool
) -> None:
    assert outcome(case(tmp_path), [replace(PLANTED, gain_kernel=gain)], [], times).bound_held is held


def test_a_gain_for_fixed_work_is_no_bound_that_can_break(tmp_path: Path) -> None:
    fixed_work = replace(PLANTED, gain_kernel=0.4, gain_kind="fixed-work", held="the same bytes")
    judged_case = outcome(case(tmp_path), [fixed_work], [], (2e-3, 1e-3))
    assert judged_case.bound_held is None and judged_case.predicted == 0.4
    assert (totals([judged_case]).bounds, totals([judged_case]).gains) == (0, 1)


def test_a_repair_that_costs_time_has_a_negative_gain(tmp_path: Path) -> None:
    found = outcome(case(tmp_path), [PLANTED], [], (1e-3, 1.5e-3))
    assert found.real == pytest.approx(-0.5)
    assert found.gain_right is False


def test_repeated_launches_count_all_their_time(tmp_path: Path) -> None:
    one = case(tmp_path, launch="times: {slow: 10}\nlaunch: {grid: [n], block: [8]}")
    assert outcome(one, [PLANTED], [], (1e-3, 2e-3)).real == pytest.approx(0.8)


def test_low_occupancy_must_name_its_limiter(tmp_path: Path) -> None:
    one = case(tmp_path, planted_rule="planted_rule: low-occupancy\nlimiter: registers")
    found = finding("low-occupancy", 0.4)
    for limiters, place in ((("registers",), 1), (("blocks",), None)):
        slow = kernel(0, found, occupancy=Occupancy(0.25, 0.2, limiters))
        assert judged(one, {"slow": slow, "fixed": kernel()}, {"slow": launch()}).place == place


def test_a_well_tuned_kernel_is_right_without_alarms(tmp_path: Path) -> None:
    head, _, kernels = SOURCE.partition('extern "C"')
    (tmp_path / "doubles.cu").write_text(head + 'extern "C"' + kernels.partition('extern "C"')[2])
    text = FILE.replace("uncoalesced-global", "none\nroof: dram-bandwidth").replace('line: "in[threadIdx.x * n]"\n', "")
    text = text.replace("not_first: [memory-latency]\n", "").replace("repair: reads what lies side by side\n", "")
    text = text.replace("  slow: {required: {IMAD: {least: 1}}}\n", "")
    (tmp_path / "doubles.yaml").write_text(text)
    one = read_case(tmp_path / "doubles.yaml")
    near = finding("dram-bandwidth", 0.05, severity="info")
    found = judged(one, {"fixed": kernel(0, near)}, {"fixed": launch()})
    assert (found.right, found.planted, found.first) == (True, False, "dram-bandwidth")
    assert not judged(one, {"fixed": kernel(0, PLANTED)}, {"fixed": launch()}).right


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


@each_row(
    ("text", "ours"),
    [
        ("The kernel achieved 2% of this device's fp32 peak performance and 52% of its fp64 peak performance.",
         ("fp64-bound",)),
        ("The kernel achieved 40% of this device's fp32 peak performance and 0% of its fp64 peak performance.", ()),
        ("The achieved fp64 performance is 18% lower than the pipeline allows; use fused instructions",
         ("non-fused-fp",)),
    ],
)  # fmt: skip
def test_nvidias_roofline_rule_is_read_by_its_numbers(text: str, ours: tuple[str, ...]) -> None:
    assert [one.ours for one in said([message("SOLFPRoofline", text)])] == [ours]


def test_nvidias_place_is_that_of_the_first_message_that_says_the_planted_rule(tmp_path: Path) -> None:
    first = message("Occupancy", "This kernel's theoretical occupancy (25%) is limited", 50.0, "Occupancy Limiters")
    second = message("UncoalescedGlobalAccess", "uncoalesced global accesses", 30.0)
    found = outcome(case(tmp_path), [PLANTED], [], (2e-3, 1e-3), second, first)
    assert (found.nvidia_place, found.nvidia_first) == (2, "Occupancy: Occupancy Limiters")


# Totals and tables


def test_totals_and_rates_of_both_halves(tmp_path: Path) -> None:
    one = case(tmp_path)
    silent = message("Occupancy", "This kernel's theoretical occupancy (25%) is limited", 50.0)
    outcomes = [
        outcome(one, [PLANTED], [], (2e-3, 1e-3), silent),
        outcome(one, [OTHER, PLANTED], [PLANTED], (2e-3, 1.9e-3), silent),
    ]
    found = totals(outcomes)
    assert (found.first, found.top, found.cases) == (1, 2, 2)
    assert (found.alarmed, found.fixed, found.lines_named, found.lines) == (1, 2, 2, 2)
    assert (found.gains_right, found.gains) == (1, 2)
    assert (found.nvidia_first, found.nvidia_top, found.nvidia) == (0, 0, 2)
    table = "\n".join([*case_rows(outcomes), *rate_rows(outcomes)])
    assert "1 of 2 (50 %)" in table
    assert "| median error of the gain" in table


def test_halves_never_change() -> None:
    names = ["matrix-transpose", "particle-step", "keccak-hash", "linear-steps", "vector-sum", "total-above"]
    assert [half(name) for name in names] == ["held out", "tuned", "held out", "held out", "tuned", "tuned"]


def test_missing_reports_are_told_in_one_line_and_not_scored(tmp_path: Path) -> None:
    one = case(tmp_path)
    assert score([one, one], tmp_path) == ([], [f"{tmp_path} has no report of doubles, doubles"])


def test_recorded_reports_are_read_and_scored(tmp_path: Path) -> None:
    one = case(tmp_path)
    sectors, excess = "memory_l2_theoretical_sectors_global", "derived__memory_l2_theoretical_sectors_global_excessive"
    slow = {**busy(dram=70), "gpu__time_duration.sum": 2e6, sectors: 1000.0, excess: 800.0}
    fixed = {**busy(dram=90), "gpu__time_duration.sum": 1e6, sectors: 200.0, excess: 0.0}
    launches = [("slow", {**A100, **slow}), ("fixed", {**A100, **fixed})]
    (tmp_path / "doubles.ncu-rep").write_bytes(simple_report(launches))
    (found,), problems = score([one], tmp_path)
    assert problems == []
    assert (found.place, found.first, found.alarms, found.line) == (1, "uncoalesced-global", (), False)
    # 80 % of the sectors: what the warps wait for was not collected, so memory can explain all of the time.
    assert found.predicted == pytest.approx(0.8 * (1 - 1e-6 / 2e-3))
    assert found.real == pytest.approx(0.5)
    assert found.nvidia_first is None


def test_a_report_without_one_of_the_kernels_is_told(tmp_path: Path) -> None:
    one = case(tmp_path)
    (tmp_path / "doubles.ncu-rep").write_bytes(simple_report([("slow", {**A100, "gpu__time_duration.sum": 2e6})]))
    outcomes, problems = score([one], tmp_path)
    assert (outcomes, problems) == ([], ["doubles: doubles.ncu-rep has slow, not each of slow, fixed once"])


def test_a_report_of_another_version_of_the_case_is_not_scored(tmp_path: Path) -> None:
    one = case(tmp_path)
    launches = [(name, {**A100, "gpu__time_duration.sum": 2e6}) for name in ("slow", "fixed")]
    (tmp_path / "doubles.ncu-rep").write_bytes(simple_report(launches))
    (tmp_path / "recorded.json").write_text(f'{{"doubles": "{one.digest()}"}}')
    assert score([one], tmp_path)[1] == []
    (tmp_path / "doubles.cu").write_text(SOURCE + "// another version\n")
    assert score([one], tmp_path)[1] == ["doubles: its report is of another version of the case"]


def test_a_report_is_found_in_a_folder_of_the_folder(tmp_path: Path) -> None:
    one = case(tmp_path)
    (tmp_path / "planted-3").mkdir()
    launches = [(name, {**A100, "gpu__time_duration.sum": 2e6}) for name in ("slow", "fixed")]
    (tmp_path / "planted-3" / "doubles.ncu-rep").write_bytes(simple_report(launches))
    assert score([one], tmp_path)[1] == []
    (tmp_path / "planted-3" / "recorded.json").write_text('{"doubles": "another"}')
    assert score([one], tmp_path)[1] == ["doubles: its report is of another version of the case"]


def test_held_out_cases_are_not_shown_unless_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launches = [(name, {**A100, "gpu__time_duration.sum": 2e6}) for name in ("slow", "fixed")]
    for name in ("particle-step", "matrix-transpose"):
        (tmp_path / f"{name}.ncu-rep").write_bytes(simple_report(launches))
    names = ["particle-step", "matrix-transpose"]
    assert command.main(["score", str(tmp_path), *names]) == 0
    printed = capsys.readouterr().out
    assert "| particle-step " in printed and "| matrix-transpose" not in printed
    assert "| held out" not in printed and "0 of 1 (0 %)" in printed
    assert "1 held out, which --held-out shows" in printed
    assert command.main(["score", str(tmp_path), *names, "--held-out"]) == 0
    printed = capsys.readouterr().out
    assert "| particle-step " in printed and "| matrix-transpose" in printed
    assert "| held out " in printed and "| all " in printed


def test_the_cases_that_are_worth_most_come_first() -> None:
    rules = {one.name: one.planted_rule for one in load_cases()}
    order = by_worth(rules)
    assert sorted(order) == sorted(rules)
    first = order[: len(set(rules.values()))]
    assert {rules[name] for name in first} == set(rules.values())
    for end in range(1, len(first) + 1):
        counts = [sum(half(name) == of_half for name in first[:end]) for of_half in HALVES]
        assert abs(counts[0] - counts[1]) <= 2
    seconds = order[len(first) :]
    for rule in {rule for rule in rules.values() if list(rules.values()).count(rule) > 1}:
        two = [name for name in order if rules[name] == rule][:2]
        assert {half(name) for name in two} == set(HALVES), rule
        assert two[1] in seconds
