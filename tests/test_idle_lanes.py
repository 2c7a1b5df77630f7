"""Lanes that do nothing without a branch: switched off by predicates, or beside the one thread that issues for all."""

from __future__ import annotations

import pytest

from gpuprof.diagnose import idle_lanes
from gpuprof.diagnose.case import Case
from gpuprof.diagnose.registry import rule_named
from gpuprof.hardware.library import SpecLibrary
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.analyse import analyse
from gpuprof.model.ceilings import Hardware
from gpuprof.model.session import Session
from tests import builders
from tests.kernels import Histograms, Made, busy, issued, made, pipes, told
from tests.table import each_row

RULE = "branch-divergence"
ACTIVE = "smsp__thread_inst_executed_per_inst_executed.ratio"
ON = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
LOOP = {ACTIVE: 32.0, ON: 16.0}


def test_lanes_that_predicates_switch_off_are_told_with_what_that_costs() -> None:
    finding = made(LOOP, busy(dram=30, l1=40)).finding(RULE)
    # Half of the threads are off: the instructions could be half as many; L1 leaves 60 %.
    assert finding.gain_kernel == pytest.approx(0.5)
    assert (finding.severity, finding.confidence) == ("high", "inferred")
    assert (finding.gain_kind, finding.held) == ("fixed-work", "the same time per instruction")
    assert finding.headline == "Predication: 16 of 32 threads predicated on per instruction"
    assert [(item.metric, item.value, item.threshold) for item in finding.evidence] == [
        (ON, 16.0, 24.0),
        (ACTIVE, 32.0, None),
    ]


def test_what_predicates_leave_to_the_accesses_bounds_the_gain() -> None:
    # L1 is 90 % busy with the accesses of the lanes that are on, and stays so.
    finding = made(LOOP, busy(l1=90), pipes(alu=80)).finding(RULE)
    assert finding.gain_kernel == pytest.approx(0.1)
    assert (finding.gain_kind, finding.held) == ("fixed-work", "the same accesses")


def test_predicates_cost_nothing_where_dram_is_well_used() -> None:
    assert made(LOOP, busy(dram=79)).finding(RULE).severity == "high"
    assert made(LOOP, busy(dram=85)).finding(RULE).severity == "info"


def test_matrix_instructions_take_whole_warps() -> None:
    launch = made(LOOP, pipes(tensor=70, fma=40, alu=30))
    finding = launch.finding(RULE)
    assert finding.severity == "info" and finding.gain_kernel == pytest.approx(0.3)
    assert launch.finding("tensor-compute-bound").cause is None
    # Another pipe is busier, and the lanes count.
    assert made(LOOP, pipes(tensor=30, fma=70)).finding(RULE).severity == "high"


ISSUES = (issued(60), {"sm__cycles_active.avg": 1e6, "sm__cycles_elapsed.max": 1e6}, busy(sm=60, l2=44, memory=44))
FULL = {"sm__warps_active.avg.pct_of_peak_sustained_active": 96.0}


@each_row("also", [{}, {ACTIVE: 28.0}], ids=["predicates alone", "with branches"])
def test_idle_lanes_cost_issue_slots_where_those_are_the_busiest_unit(also: dict[str, float]) -> None:
    # 60 % × (1 − 25.6 ÷ 32); the guess that warps lack work says less.
    launch = made(*ISSUES, FULL, {ON: 25.6}, also)
    finding = launch.finding(RULE)
    assert finding.gain_kernel == pytest.approx(0.12)
    assert (finding.confidence, finding.held) == ("inferred", "the same time in which nothing is issued")
    assert finding.headline.startswith("Idle lanes: 25.6 of 32 threads work per instruction")
    assert launch.findings("latency-bound") == []
    # Where L2 is as busy, slots are no measure; neither are 2 % of them.
    assert launch.plus(busy(l2=61)).findings(RULE) == []
    assert made(*ISSUES, {ON: 31.0}).findings(RULE) == []


def test_full_warp_slots_whose_busiest_unit_are_the_issue_slots_need_fewer_instructions() -> None:
    waiting = made(*ISSUES, busy(sm=59), issued(59))
    assert waiting.plus(FULL).finding("latency-bound").action.startswith("Execute fewer instructions")
    assert waiting.finding("latency-bound").action.startswith("Put more independent work")
    assert waiting.plus(FULL, busy(l2=59.5)).finding("latency-bound").action.startswith("Put more independent work")


def test_a_run_collects_what_the_rule_reads() -> None:
    rule = rule_named(RULE)
    assert rule is not None and {ACTIVE, ON} <= set(rule.metrics)


@each_row("active", [10.0, 23.9])
def test_where_branches_leave_few_threads_that_alone_is_told(active: float) -> None:
    (finding,) = made({ACTIVE: active, ON: 5.0}).findings(RULE)
    assert finding.headline.startswith("Branch divergence")


@each_row(
    "launch",
    [
        made({ACTIVE: 32.0, ON: idle_lanes.THREADS.value}),
        made({ACTIVE: 32.0}),
        made({ON: 16.0}),
        made({ACTIVE: 32.0, ON: 0.0}),
    ],
    ids=["three of four", "not collected", "branches unknown", "no instruction"],
)
def test_silent_where_enough_are_on_or_one_of_both_is_unknown(launch: Made) -> None:
    assert launch.findings(RULE) == []


def test_the_threads_that_a_block_lacks_are_not_switched_off() -> None:
    # 40 threads are two warps of 20 on average: 20 of them active and 19 on is all but one.
    block = (40, 1, 1)
    launch = made({ACTIVE: 20.0, ON: 19.0}, block=block)
    assert not any("Predication" in finding.headline for finding in launch.findings(RULE))
    case = case_of(launch.plus({ON: 10.0}))
    (verdict,) = idle_lanes._predicated(case)
    assert verdict.headline == "Predication: 10 of 20 threads predicated on per instruction"
    # Three of four of 20.
    assert verdict.evidence[0].threshold == 15.0


TCGEN05: Histograms = {WARP_OPCODES: {"UTCHMMA.2CTA": 100.0, "IADD3": 900.0}}
MMA_SYNC: Histograms = {WARP_OPCODES: {"HMMA.16816.F32.BF16": 100.0, "IADD3": 900.0}}


@each_row(("values", "says"), [({ACTIVE: 8.0}, True), (LOOP, False)], ids=["few", "predicates"])
def test_few_active_threads_are_a_fact_where_one_thread_issues_for_all(values: dict[str, float], says: bool) -> None:
    told = made(values, busy(dram=30), histograms=TCGEN05).findings(RULE)
    assert [finding.severity for finding in told] == (["info"] if says else [])
    assert made(values, busy(dram=30), histograms=MMA_SYNC).finding(RULE).severity == "high"


def test_without_opcodes_a_busy_tensor_pipe_tells_where_the_gpu_has_such_instructions() -> None:
    arch = SpecLibrary().arch("sm_100")
    assert arch is not None
    launch = made({ACTIVE: 8.0}, pipes(tensor=50))
    assert idle_lanes.is_issued_by_one_thread(case_of(launch, Hardware.of(arch, None, builders.A100)))
    assert not idle_lanes.is_issued_by_one_thread(case_of(launch))


def case_of(launch: Made, hardware: Hardware | None = None) -> Case:
    """The case of a launch on an A100, or on other hardware."""
    analysis = analyse([builders.report(launch.launch())], lambda _: hardware or builders.a100(), "9.9")
    session: Session = analysis.session
    return Case(session.kernels[0], analysis.recorded[0])


@each_row(
    ("message", "headline"),
    [
        ("an average of 12.5 threads being active per cycle.", "Branch divergence: 12.5 of 32"),
        (
            "an average of 31.7 threads being active per cycle. This is further reduced to 17.8 threads per warp due "
            "to predication.",
            "Predication: 17.8 of 32",
        ),
    ],
)
def test_without_counters_nvidias_rule_tells_of_idle_lanes(message: str, headline: str) -> None:
    finding = made(details=told("ThreadDivergence", message)).finding(RULE)
    assert finding.headline.startswith(headline) and finding.evidence[0].metric == "rule ThreadDivergence"
    assert made(LOOP, details=told("ThreadDivergence", message)).finding(RULE).evidence[0].metric == ON
