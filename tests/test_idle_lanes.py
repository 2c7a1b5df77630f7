"""Lanes that do nothing without a branch: switched off by predicates, or beside the one thread that issues for all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gpuprof.diagnose.rules import branch_divergence
from gpuprof.hardware.specs import WARP_OPCODES
from tests.kernels import REGISTERS, Histograms, Made, busy, issued, made, pipes, stalls
from tests.rule_examples import ALWAYS_ACTIVE, H100, Judged, check_row, says, silent
from tests.table import each_row

RULE, WAITING = "branch-divergence", "latency-bound"
ACTIVE = "smsp__thread_inst_executed_per_inst_executed.ratio"
ON = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
LOOP = {ACTIVE: 32.0, ON: 16.0}
ISSUES = made(issued(60), ALWAYS_ACTIVE, busy(sm=60, l2=44, memory=44))
FULL_SLOTS = "sm__warps_active.avg.pct_of_peak_sustained_active"
FULL = {FULL_SLOTS: 96.0}
TENSOR = made(LOOP, pipes(tensor=70, fma=40, alu=30))
TCGEN05: Histograms = {WARP_OPCODES: {"UTCHMMA.2CTA": 100.0, "IADD3": 900.0}}
MMA_SYNC: Histograms = {WARP_OPCODES: {"HMMA.16816.F32.BF16": 100.0, "IADD3": 900.0}}


@each_row(
    ("launch", "rule", "expected"),
    [
        # Half of the threads are off: the instructions could be half as many; L1 leaves 60 %.
        says("predicates", made(LOOP, busy(dram=30, l1=40)), RULE, 0.5, "16 of 32", {ON: 16.0, ACTIVE: 32.0},
             severity="high", confidence="inferred", kind="conditional"),
        # L1 is 90 % busy with the accesses of the lanes that are on, and stays so.
        says("the accesses stay", made(LOOP, busy(l1=90), pipes(alu=80)), RULE, 0.1, kind="conditional"),
        says("DRAM is well used", made(LOOP, busy(dram=85)), RULE, 0.15, severity="info"),
        says("DRAM is well used", made({ACTIVE: 16.0}, busy(dram=85)), RULE, 0.15, severity="info"),
        # Matrix instructions take whole warps. If another pipe is busier, the lanes count.
        says("matrix instructions", TENSOR, RULE, 0.3, severity="info"),
        says("matrix instructions", TENSOR, "tensor-compute-bound", 0.3, cause=None),
        says("another pipe", made(LOOP, pipes(tensor=30, fma=70)), RULE, 0.5, severity="high"),
        # If issue slots are the busiest unit: 60 % × (1 − 25.6 ÷ 32); the guess that warps lack work promises less.
        *(says("issue slots", ISSUES.plus(FULL, {ON: 25.6}, also), RULE, 0.12, "25.6 of 32", confidence="inferred")
          for also in ({}, {ACTIVE: 28.0})),
        silent("issue slots", ISSUES.plus(FULL, {ON: 25.6}), WAITING),
        # If branches leave few threads active, only that is reported.
        *(says("branches", made({ACTIVE: active, ON: 5.0}), RULE, 1 - active / 32, evidence={ACTIVE: active})
          for active in (10.0, 23.9)),
        *(silent("enough are on, or one of both is unknown", made(values), RULE) for values in (
            {ACTIVE: 32.0, ON: branch_divergence.THREADS.value}, {ACTIVE: 32.0}, {ON: 16.0}, {ACTIVE: 32.0, ON: 0.0})),
        # Few active threads are no waste if one thread issues for all.
        silent("one thread issues", made({ACTIVE: 8.0}, busy(dram=30), histograms=TCGEN05), RULE),
        *(says("warps issue", made(values, busy(dram=30), histograms=MMA_SYNC), RULE, gain, severity="high")
          for values, gain in (({ACTIVE: 8.0}, 0.7), (LOOP, 0.5))),
    ],
)  # fmt: skip
def test_lanes_that_do_nothing(launch: Judged, rule: str, expected: dict[str, Any] | None) -> None:
    check_row(launch, rule, expected)


def test_the_threads_that_a_block_lacks_are_not_switched_off() -> None:
    # 40 threads are two warps of 20 on average: 20 of them active and 19 on is all but one.
    launch = made({ACTIVE: 20.0, ON: 19.0}, block=(40, 1, 1))
    assert launch.findings(RULE) == []
    finding = launch.plus({ON: 10.0}).finding(RULE)
    # Three of four of 20.
    assert (finding.amount("threads"), finding.amount("lanes"), finding.evidence[0].threshold) == (10.0, 20.0, 15.0)


ELSEWHERE = stalls(barrier=30, short_scoreboard=15, long_scoreboard=15, wait=20, not_selected=5)
"""A scan: 60 % of the states are waits for memory, shared memory and barriers."""
ALU_40 = pipes(alu=40)
STEPS: Histograms = {WARP_OPCODES: {"BAR.SYNC": 50.0, "LDS": 150.0, "STS": 100.0, "IADD3": 700.0}}


@each_row(
    ("launch", "gain", "confidence"),
    [
        # Half of the lanes are idle, and the busiest of issue slots and pipes needs 40 % of the time.
        (made({ACTIVE: 16.0}, ELSEWHERE, issued(25), ALU_40), 0.20, "guess"),
        (made({ACTIVE: 32.0, ON: 16.0}, ELSEWHERE, issued(25), ALU_40), 0.20, "guess"),
        # How much of the time the instructions need is not known.
        (made({ACTIVE: 16.0}, ELSEWHERE), 0.50, "guess"),
        # A barrier every 20 instructions: blocks work in steps, with fewer lanes at each.
        (made({ACTIVE: 16.0}, stalls(wait=40, barrier=30), issued(25), ALU_40, histograms=STEPS), 0.20, "guess"),
        # The pipe limits, whatever warps wait for.
        (made({ACTIVE: 16.0}, ELSEWHERE, issued(25), pipes(alu=60)), 0.50, "measured"),
        # Dependent instructions take the time, and half as many take half of it.
        (made({ACTIVE: 16.0}, stalls(wait=60, long_scoreboard=20), issued(25), ALU_40), 0.50, "measured"),
        # DRAM is busier than any pipe, and leaves 35 %: more than half of 40 %.
        (made({ACTIVE: 16.0}, busy(dram=65, l2=30, l1=20), ALU_40), 0.20, "guess"),
    ],
)  # fmt: skip
def test_lanes_that_wait_with_their_warp_cost_only_its_instructions(launch: Made, gain: float, confidence: str) -> None:
    finding = launch.finding(RULE)
    assert (round(finding.gain_kernel or 0.0, 9), finding.confidence) == (gain, confidence)
    assert finding.gain_kind == "conditional"


UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"
UNITS = busy(sm=50, dram=10, l2=10, l1=10)


@each_row(
    ("launch", "case", "confidence"),
    [
        (made({ACTIVE: 8.0}, UNITS), "branches", "measured"),
        (made({ACTIVE: 8.0, UNIFORM: 50.0}, UNITS), "branches", "measured"),
        # 8 of 32 lanes run the code to its end, and never part.
        (made({ACTIVE: 8.0, UNIFORM: 100.0}, UNITS), "ended", "measured"),
        # Nothing shows what the time of the kernel is spent on.
        (made({ACTIVE: 16.0}), "branches", "guess"),
        (made({ACTIVE: 16.0}, stalls(wait=40)), "branches", "measured"),
    ],
)  # fmt: skip
def test_idle_lanes_are_divergence_if_branches_part_them(launch: Made, case: str, confidence: str) -> None:
    found = launch.finding(RULE)
    assert (found.cases.why, found.cases.action, found.confidence) == ((case,), (case,), confidence)


def test_lanes_that_a_scan_leaves_idle_do_not_come_before_its_barriers() -> None:
    first, *others = made({ACTIVE: 16.0}, ELSEWHERE, issued(25), ALU_40, busy(sm=40, memory=20)).profile().findings
    assert (first.rule, first.cause) == ("barrier-wait", None)
    assert RULE in [finding.rule for finding in others]


def test_lanes_between_short_blocks_do_not_come_before_them() -> None:
    # One element per thread and a bounds check: 108 SMs run 64 blocks each in 8 000 cycles, 4 at a time.
    launch = made({REGISTERS: 32.0, FULL_SLOTS: 50.0, "sm__cycles_active.avg": 8e3, ON: 20.0, ACTIVE: 30.0},
                  busy(sm=20, memory=10), stalls(wait=30), issued(20), pipes(alu=15), grid=(6912, 1, 1))  # fmt: skip
    findings = launch.profile().findings
    assert findings[0].rule == "short-blocks"
    assert launch.finding(RULE).confidence == "guess"


def test_without_opcodes_a_busy_tensor_pipe_may_be_one_threads_work_on_newer_gpus() -> None:
    launch = made({ACTIVE: 8.0}, pipes(tensor=50))
    assert replace(launch, device=H100).findings(RULE) == []
    assert launch.finding(RULE).severity == "info"
