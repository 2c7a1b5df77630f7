"""What to change first, within a kernel and over the run, and equal launches as one; whatever the numbers."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gpuprof.diagnose.diagnose import diagnose
from gpuprof.diagnose.grouping import grouped
from gpuprof.diagnose.needs import Saving
from gpuprof.diagnose.opportunities import is_opportunity, opportunities
from gpuprof.diagnose.order import in_order
from gpuprof.diagnose.registry import RULES
from gpuprof.diagnose.rule import Rule, RuleVerdict, finding_of
from gpuprof.diagnose.summary import summarised
from gpuprof.hardware.specs import THREAD_OPCODES, WARP_OPCODES
from gpuprof.model.analyse import analyse
from gpuprof.model.field_types import CONFIDENCES, SEVERITIES, Confidence
from gpuprof.model.groups import percentile
from gpuprof.model.recorded import DictMetrics, Launch, Metric
from gpuprof.model.session import DurationSpread, Evidence, Finding, KernelProfile, Opportunity, Remaining, Session
from gpuprof.store.write import session_lines
from tests import builders, hand_made
from tests.kernels import CLOCK, DURATION, REGISTERS, WAVES, Made, busy, issued, lasting, made, pipes, session, stalls
from tests.rule_examples import EXAMPLES, EXCESS, LOAD_REQUESTS, LOAD_SECTORS, TOTAL, Example
from tests.table import each_row


def gaining(
    rule: str, gain: float | None, severity: str = "medium", confidence: str = "measured", total: float | None = None
) -> Finding:
    return hand_made.finding(rule, gain, severity=severity, confidence=confidence, gain_total=total)


def kernel(number: int, *findings: Finding, duration: float | None = 1e-3, share: float | None = 0.5) -> KernelProfile:
    return hand_made.kernel(number, *findings, duration_s=duration, time_total_s=duration, time_share=share)


# Within a kernel.

EXPLAINED = structs.replace(gaining("memory-latency", 0.6, "high"), cause="0.small-grid")


@each_row(
    ("findings", "expected"),
    [
        # Severity goes before gain, and of one severity the largest gain leads.
        ([gaining("tail-effect", 0.9, "low"), gaining("small-grid", 0.2, "high"), gaining("constant-miss", 0.5)],
         ["small-grid", "constant-miss", "tail-effect"]),
        ([gaining("tail-effect", 0.12), gaining("small-grid", 0.15), gaining("constant-miss", None)],
         ["small-grid", "tail-effect", "constant-miss"]),
        # A symptom stands behind what it may come from, and what is explained comes last.
        ([gaining("memory-latency", 0.2), gaining("l2-bandwidth", 0.17), gaining("small-grid", 0.15)],
         ["small-grid", "l2-bandwidth", "memory-latency"]),
        ([EXPLAINED, gaining("small-grid", 0.1, "info")], ["small-grid", "memory-latency"]),
        # A kernel near its roof is told so before its small findings and after the others.
        ([gaining("low-occupancy", 0.0, "info"), gaining("tail-effect", 0.05, "low"),
          gaining("dram-bandwidth", 0.04, "info"), gaining("barrier-wait", 0.1)],
         ["barrier-wait", "dram-bandwidth", "tail-effect", "low-occupancy"]),
    ],
)  # fmt: skip
def test_the_order_of_findings(findings: list[Finding], expected: list[str]) -> None:
    assert [finding.rule for finding in in_order(findings)] == expected


def test_a_full_dram_comes_first_of_a_diagnosed_kernel() -> None:
    # 7 % are left until DRAM is full: no wait and no gap of occupancy gains more.
    near_roof = made(busy(dram=93, sm=10), stalls(drain=50), issued(10), {REGISTERS: 64.0})
    first, *others = near_roof.profile().findings
    assert (first.rule, first.severity) == ("dram-bandwidth", "info")
    assert others and all((item.gain_kernel or 0) <= 0.0701 and item.severity in ("low", "info") for item in others)


# Over the run.


def judged(*kernels: KernelProfile) -> tuple[Opportunity, ...]:
    """The opportunities of a session of these kernels, whose findings get their ids."""
    return summarised(structs.replace(hand_made.session(), kernels=kernels)).opportunities


def filling(number: int) -> KernelProfile:
    fill = kernel(number, gaining("small-grid", 0.9, total=0.4))
    return structs.replace(fill, name="FillFunctor", demangled="FillFunctor")


ELSE = structs.replace(gaining("small-grid", 0.2, total=0.02), action="Do something else")
UNSURE = gaining("small-grid", 0.2, "low", "guess", total=0.1)


@each_row(
    ("kernels", "expected"),
    [
        # By time saved: 0.3 of a tenth of the run, 0.12 of nine tenths are 3 % and 10.8 %.
        ([kernel(0, gaining("small-grid", 0.3, "high", total=0.03), share=0.1),
          kernel(1, gaining("constant-miss", 0.12, total=0.108), share=0.9)],
         [("constant-miss", (1,), 0.108, False), ("small-grid", (0,), 0.03, False)]),
        # A repair that several kernels share is one opportunity, and the finding that gains most speaks.
        ([kernel(0, gaining("small-grid", 0.3, total=0.03), share=0.1),
          kernel(1, gaining("small-grid", 0.1, total=0.05)), kernel(2, ELSE, share=0.1)],
         [("small-grid", (1, 0), 0.08, False), ("small-grid.2", (2,), 0.02, False)]),
        # A guess comes after all that is known, and set-up last.
        ([kernel(0, gaining("low-occupancy", 0.4, "low", "guess", total=0.2), gaining("barrier-wait", 0.2, total=0.1)),
          filling(1)], [("barrier-wait", (0,), 0.1, False), ("low-occupancy", (0,), 0.2, False),
                        ("small-grid", (1,), 0.4, True)]),
        # They stand apart from the same repair of others.
        ([kernel(0, UNSURE), kernel(1, gaining("small-grid", 0.3, total=0.05)), filling(2)],
         [("small-grid", (1,), 0.05, False), ("small-grid.2", (0,), 0.1, False), ("small-grid.3", (2,), 0.4, True)]),
        # A small defect hides no large limit.
        ([kernel(0, gaining("l1-bandwidth", 0.81, "high", total=0.29), gaining("tail-effect", 0.2, total=0.07))],
         [("l1-bandwidth", (0,), 0.29, False), ("tail-effect", (0,), 0.07, False)]),
        # What saves less than half a percent of the run is left to its kernel.
        ([kernel(0, gaining("small-grid", 0.1, total=0.0049))], []),
        ([kernel(0, gaining("small-grid", 0.1, total=0.005))], [("small-grid", (0,), 0.005, False)]),
        # Kernels without durations come by what they gain of themselves.
        ([kernel(0, gaining("tail-effect", 0.15), duration=None, share=None),
          kernel(1, gaining("small-grid", 0.9, "high"), duration=None, share=None),
          kernel(2, gaining("constant-miss", 0.04, "low", total=0.02))],
         [("constant-miss", (2,), 0.02, False), ("small-grid", (1,), None, False), ("tail-effect", (0,), None, False)]),
        # Equal findings keep the order of their kernels.
        ([kernel(number, gaining("small-grid", 0.4, "high", total=0.1)) for number in (3, 0, 2, 1)],
         [("small-grid", (3, 0, 2, 1), 0.4, False)]),
    ],
)  # fmt: skip
def test_the_order_of_opportunities(kernels: list[KernelProfile], expected: list[tuple[object, ...]]) -> None:
    told = [(item.id, item.kernels, item.gain_total, item.set_up) for item in judged(*kernels)]
    assert told == [(*names, gain if gain is None else pytest.approx(gain), last) for *names, gain, last in expected]


def test_what_is_a_fact_explained_or_behind_a_defect_is_no_opportunity() -> None:
    defect, limit = gaining("small-grid", 0.3, "high", total=0.1), gaining("dram-bandwidth", 0.3, total=0.1)
    explained = structs.replace(gaining("barrier-wait", 0.3, total=0.1), cause="0.small-grid")
    several = kernel(0, defect, limit, explained, gaining("tail-effect", 0.1, "info", total=0.05))
    assert [is_opportunity(several, finding) for finding in several.findings] == [True, False, False, False]
    assert is_opportunity(kernel(0, limit), limit)
    compute = gaining("fp32-compute-bound", 0.24, "high", total=0.24)
    assert is_opportunity(kernel(0, compute, gaining("tail-effect", 0.15, total=0.15)), compute)


@each_row(
    ("headlines", "common"),
    [
        (("Latency-bound: no unit is more than 1.6 % busy", "Latency-bound: no unit is more than 52 % busy"),
         "1.6 to 52 %"),
        (("Bandwidth: 85 % of peak; near its ceiling", "Bandwidth: 85 % of peak"), "Bandwidth: 85 %"),
        (("FP64: 2\u202f000 of {x} at k.cu:41", "FP64: 900 of {x} at k.cu:41"), "FP64: 900 to 2\u202f000"),
        (("Small grid: 1 block, fewer", "Small grid: 40 blocks fill 37 % of one wave"), "Small grid"),
        (("One thing", "Another thing"), "One thing"),
    ],
)  # fmt: skip
def test_one_repair_of_several_kernels_is_told_with_what_holds_of_all(headlines: tuple[str, str], common: str) -> None:
    findings = [structs.replace(gaining("tail-effect", 0.2, total=0.1), headline=text) for text in headlines]
    (item,) = judged(*(kernel(number, finding) for number, finding in enumerate(findings)))
    assert common in item.headline and "1 block" not in item.headline


def test_what_is_left_after_those_before_is_what_the_units_leave() -> None:
    # Both of one kernel with half of the run. The first leaves 60 % to DRAM and saves 40 %. Together they leave 30 %
    # to L2, as the second leaves 70 % to L1 alone and little to DRAM: 1 − 0.4 − 0.3 of the kernel are left to save.
    first = structs.replace(
        gaining("small-grid", 0.4, "high", total=0.2), remains=(Remaining("dram", 0.6), Remaining("l2", 0.3))
    )
    second = structs.replace(
        gaining("uncoalesced-global", 0.3, "high", total=0.15), remains=(Remaining("l1", 0.7), Remaining("l2", 0.3))
    )
    run = judged(kernel(0, first, second))
    assert [item.rule for item in run] == ["small-grid", "uncoalesced-global"]
    assert [item.gain_after for item in run] == [pytest.approx(0.2), pytest.approx(0.15)]
    both = structs.replace(second, remains=(Remaining("dram", 0.55), Remaining("l2", 0.3)))
    assert judged(kernel(0, first, both))[1].gain_after == pytest.approx(0.5 * (1 - 0.4 - 0.55))
    # Two findings of one kernel with one repair count once.
    gains = ((0, 0.6), (0, 0.4), (1, 0.2))
    findings = [
        structs.replace(gaining("integer-bound", gain, total=gain / 2), id=f"{number}.{place}")
        for place, (number, gain) in enumerate(gains)
    ]
    (told,) = opportunities([kernel(0, *findings[:2]), kernel(1, findings[2])])
    assert told.gain_total == told.gain_after == pytest.approx(0.4)


def test_a_diagnosed_run_weighs_gains_by_share() -> None:
    # 3 ms and 1 ms: what the one saves counts for three quarters, what the other saves for one.
    long = made(busy(dram=50), lasting(3e-3), {TOTAL: 1000.0, EXCESS: 600.0})
    short = made(busy(dram=50), lasting(1e-3), {TOTAL: 1000.0, EXCESS: 900.0}, grid=(1080, 1, 1))
    for profile, share in zip(session(short, long).kernels, (0.25, 0.75), strict=True):
        gains = [(item.gain_kernel, item.gain_total) for item in profile.findings if item.gain_kernel is not None]
        assert [total for _, total in gains] == [pytest.approx(gain * share) for gain, _ in gains] and gains


# Groups of equal launches.


def run_of(*durations: float | None, names: str = "") -> Session:
    """Launches of those durations, named by the letters (all alike without), each with a gain of 10 %."""
    total = sum(duration or 0.0 for duration in durations)
    kernels = []
    for number, duration in enumerate(durations):
        share = duration / total if duration is not None and total else None
        finding = gaining("barrier-wait", 0.1, total=0.1 * share if share is not None else None)
        made_kernel = kernel(number, finding, duration=duration, share=share)
        kernels.append(structs.replace(made_kernel, demangled=names[number] if names else "same"))
    return summarised(structs.replace(hand_made.session(), kernels=tuple(kernels)))


def test_equal_launches_become_one_kernel_of_their_total_time() -> None:
    run = run_of(1.0, 2.0, 4.0, 3.0, names="aaba")
    together = grouped(run)
    # Launch 1 has the median of 1, 2 and 3 s: 6 of 10 s.
    first, second = together.kernels
    assert (first.id, first.launches, first.time_total_s, first.duration_s) == (1, 3, 6.0, 2.0)
    assert first.time_share == pytest.approx(0.6)
    assert (second.id, second.launches, second.duration_percentiles_s) == (2, 1, None)
    assert second == run.kernels[2]
    # Gains of a group are those of its share.
    (finding,) = first.findings
    assert finding.gain_kernel == 0.1 and finding.gain_total == pytest.approx(0.06)
    (item,) = together.opportunities
    assert (item.rule, item.kernels) == ("barrier-wait", (1, 2)) and item.gain_total == pytest.approx(0.1)
    assert together.verdict is not None and together.verdict.kernel == 1
    assert grouped(together) is together


def test_the_spread_of_a_group_is_by_nearest_rank() -> None:
    # 20 launches of 1 to 20 s: rank 10, 19 (95 % of 20) and 20 (99 % of 20 is 19.8).
    together = grouped(run_of(*(float(number) for number in range(20, 0, -1))))
    assert together.kernels[0].duration_percentiles_s == DurationSpread(
        min=1.0, p50=10.0, p95=19.0, p99=20.0, max=20.0, count=20
    )
    # From 4 s on no gap is as wide as 30 %: of those 17 the median speaks.
    assert together.kernels[0].duration_s == 12.0
    (some,) = grouped(run_of(None, 3.0, 1.0)).kernels
    assert (some.launches, some.time_total_s, some.id) == (3, 4.0, 1), "3 of the 4 s are those of launch 1"
    assert some.duration_percentiles_s == DurationSpread(min=1.0, p50=1.0, p95=3.0, p99=3.0, max=3.0, count=2)
    (none,) = grouped(run_of(None, None)).kernels
    assert (none.id, none.launches, none.findings[0].gain_total) == (0, 2, None)
    assert (none.time_total_s, none.time_share, none.duration_percentiles_s) == (None, None, None)


def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed() -> None:
    values = [15.0, 20.0, 35.0, 40.0, 50.0]
    told = [percentile(values, percent) for percent in (5, 30, 40, 50, 100)]
    assert told == [15.0, 20.0, 20.0, 35.0, 50.0]
    assert percentile([7.0], 1) == percentile([7.0], 99) == 7.0
    assert (percentile([1.0, 2.0], 50), percentile([1.0, 2.0], 51)) == (1.0, 2.0)


@each_row(
    "change",
    [
        {"grid": (1, 1, 1)}, {"block": (64, 1, 1)}, {"demangled": "other"}, {"ranges": ("step",)}, {"device": 1},
        {"source": 1},
    ],
)  # fmt: skip
def test_launches_that_differ_stay_apart(change: dict[str, object]) -> None:
    first, second = run_of(1.0, 2.0).kernels
    run = structs.replace(hand_made.session(), kernels=(first, structs.replace(second, **change)))
    assert grouped(run) is run
    distinct = run_of(1.0, 2.0, 3.0, names="abc")
    assert grouped(distinct) is distinct


# Whatever the numbers.

SHARES = st.none() | st.floats(0, 1)
FINDINGS = st.builds(
    gaining,
    st.sampled_from([rule.id for rule in RULES] + ["of-another-version"]),
    st.none() | st.floats(0, 1),
    st.sampled_from(SEVERITIES),
    st.sampled_from(CONFIDENCES),
    SHARES,
)
KERNELS = st.lists(st.lists(FINDINGS, max_size=6), max_size=6).map(
    lambda lists: tuple(kernel(number, *findings) for number, findings in enumerate(lists))
)
DURATIONS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.floats(1e-6, 1e3)), min_size=1, max_size=12
)  # fmt: skip


@given(st.sampled_from(RULES), st.none() | st.floats(0, 1), st.sampled_from(CONFIDENCES), st.booleans(), SHARES)
def test_a_gain_for_the_run_is_the_gain_for_the_kernel_times_its_share(
    rule: Rule, gain: float | None, confidence: Confidence, settled: bool, share: float | None
) -> None:
    verdict = RuleVerdict(
        headline="headline",
        why="why",
        action="action",
        advice="advice",
        confidence=confidence,
        saving=Saving(gain, "bound") if gain is not None else None,
        evidence=(Evidence("metric", 1.0, "%", threshold=None),),
        settled=settled,
    )
    finding = finding_of(rule, verdict, share)
    if gain is None:
        assert finding.gain_kernel is None and finding.gain_total is None and finding.severity == "info"
        return
    assert finding.gain_kernel is not None and 0 <= finding.gain_kernel <= 1
    assert finding.gain_total == (finding.gain_kernel * share if share is not None else None)


@given(KERNELS)
def test_every_finding_that_is_worth_it_is_in_one_opportunity(kernels: tuple[KernelProfile, ...]) -> None:
    run = summarised(structs.replace(hand_made.session(), kernels=kernels))
    told = [name for item in run.opportunities for name in item.findings]
    able = {finding.id for profile in run.kernels for finding in profile.findings if is_opportunity(profile, finding)}
    assert len(set(told)) == len(told) and set(told) <= able
    assert opportunities(run.kernels) == run.opportunities
    for item in run.opportunities:
        assert item.gain_after is None or 0 <= item.gain_after <= 1
        assert item.gain_total is None or item.gain_total >= 0.005


@given(st.lists(FINDINGS, max_size=8))
def test_findings_in_order_are_the_same_findings_with_severities_in_order(findings: list[Finding]) -> None:
    ordered = in_order(findings)
    assert Counter(map(repr, ordered)) == Counter(map(repr, findings))
    alarms = [SEVERITIES.index(profile.severity) for profile in ordered if profile.severity != "info"]
    assert alarms == sorted(alarms)
    assert in_order(ordered) == ordered


@given(DURATIONS)
def test_grouping_keeps_time_launches_shares_and_gains(launches: list[tuple[str, float | None]]) -> None:
    run = run_of(*(duration for _, duration in launches), names="".join(name for name, _ in launches))
    together = grouped(run)

    def sums(run: Session) -> list[float]:
        totals = [kernel.time_total_s or 0.0 for kernel in run.kernels]
        shares = [kernel.time_share or 0.0 for kernel in run.kernels]
        gains = [finding.gain_total or 0.0 for kernel in run.kernels for finding in kernel.findings]
        return [math.fsum(totals), math.fsum(shares), math.fsum(gains), sum(kernel.launches for kernel in run.kernels)]

    assert sums(together) == pytest.approx(sums(run))
    assert (
        len({profile.id for profile in together.kernels})
        == len(together.kernels)
        == len({name for name, _ in launches})
    )
    for profile in together.kernels:
        spread = profile.duration_percentiles_s
        if spread is not None:
            assert spread.min <= spread.p50 <= spread.p95 <= spread.p99 <= spread.max
            known = [time for name, time in launches if name == profile.demangled and time is not None]
            assert profile.duration_s in known
            if all(longer <= 1.3 * shorter for shorter, longer in pairwise(sorted(known))):
                assert profile.duration_s == spread.p50


class Asked(DictMetrics):
    """Metrics that remember which names were asked for."""

    def __init__(self, values: dict[str, float], names: set[str]) -> None:
        super().__init__({name: Metric(value, "") for name, value in values.items()})
        self.names_asked = names

    def number(self, name: str) -> float | None:
        self.names_asked.add(name)
        return super().number(name)


def names_of_metrics() -> list[str]:
    """Every metric that the profile and the rules ask for on any example, and on a launch that has none of them."""
    names: set[str] = set()
    for example in (*EXAMPLES, replace(EXAMPLES[0], launch=made())):
        launch = example.launch.launch()
        asked = structs.replace(launch, metrics=Asked(dict(example.launch.values), names))
        diagnose(analyse([builders.report(asked)], builders.hardware_of, "9.9"))
        names.update(example.launch.values)
    return sorted(names)


NAMES = names_of_metrics()
OPCODES = (
    "FFMA", "FADD", "FMUL", "IMAD", "IMAD.WIDE", "DFMA", "DADD", "MUFU.RCP64H", "LDG.E.U8", "LDG.E", "STG.E.128",
    "LDGDEPBAR", "HMMA.16816.F32", "IADD3", "HFMA2.MMA", "", "@P0", "?",
)  # fmt: skip
USUAL = st.sampled_from((0.0, 1.0, 0.5, 10.0, 32.0, 50.0, 75.0, 100.0, 1e6)) | st.floats(0, 100)
EXTREME = st.sampled_from((-1.0, -100.0, 1e-300, 1e18, -1e18, 1e300, -1e300)) | st.floats(
    allow_nan=False, allow_infinity=False
)
SIZES = st.none() | st.tuples(*[st.integers(1, 2**31 - 1)] * 3)


def launches(values: st.SearchStrategy[float]) -> st.SearchStrategy[Launch]:
    """Launches with any of the metrics and opcodes, any grid and any block."""
    return st.builds(
        lambda metrics, warp, thread, grid, block: structs.replace(
            builders.launch(metrics, {WARP_OPCODES: warp, THREAD_OPCODES: thread}, block=block), grid=grid
        ),
        st.dictionaries(st.sampled_from(NAMES), values, max_size=60),
        st.dictionaries(st.sampled_from(OPCODES), values, max_size=6),
        st.dictionaries(st.sampled_from(OPCODES), values, max_size=3),
        SIZES,
        SIZES,
    )


def assert_sound(run: Session) -> None:
    """Gains are fractions, shares are applied, the order holds, and no text shows what is no number."""
    for profile in run.kernels:
        assert in_order(profile.findings) == profile.findings
        for finding in profile.findings:
            if finding.gain_kernel is not None:
                assert 0 <= finding.gain_kernel <= 1
                expected = finding.gain_kernel * profile.time_share if profile.time_share is not None else None
                assert finding.gain_total == expected
            assert finding.severity in SEVERITIES and finding.confidence in CONFIDENCES
            assert finding.headline and finding.why and finding.advice and finding.evidence
    told = [name for item in run.opportunities for name in item.findings]
    assert len(set(told)) == len(told)
    assert run.verdict is not None and run.verdict.sentence


def test_the_rules_ask_for_many_metrics() -> None:
    assert len(NAMES) > 150 and {DURATION, WAVES, TOTAL} <= set(NAMES)


@settings(max_examples=80, deadline=None)
@given(st.lists(launches(USUAL) | launches(USUAL | EXTREME), min_size=1, max_size=3))
def test_any_subset_of_metrics_gives_sound_findings(some: list[Launch]) -> None:
    run = diagnose(analyse([builders.report(*some)], builders.hardware_of, "9.9"))
    assert_sound(run)
    findings = [finding for profile in run.kernels for finding in profile.findings]
    text = " ".join(f"{finding.headline} {finding.why} {finding.advice}" for finding in findings)
    assert not {"nan", "inf", "None"} & set(text.split())
    json.loads("\n".join(session_lines(run)), parse_constant=pytest.fail)


@each_row(
    "values",
    [
        {REGISTERS: -1.0},
        {REGISTERS: 75.0, "launch__block_size": 1e-300},
        {REGISTERS: 1.0, "launch__block_size": -1.0},
        {REGISTERS: 0.0, "launch__shared_mem_per_block_driver": -1.0},
        {"launch__shared_mem_per_block_static": 1.7e308, "launch__shared_mem_per_block_dynamic": 1.7e308},
        {"sm__cycles_elapsed.avg": 1.0, CLOCK: 5e-324},
        busy(sm=20) | {"sm__cycles_elapsed.avg": 1e300, CLOCK: 1e-300},
        busy(dram=70) | lasting(1e-300) | {"dram__bytes.sum": 1e9},
        {LOAD_SECTORS: 1.0, LOAD_REQUESTS: 5e-324},
        {"sm__maximum_warps_per_active_cycle_pct": 0.0, "sm__warps_active.avg.pct_of_peak_sustained_active": -50.0},
        {WAVES: 3.0, "sm__cycles_active.max": 2.0**53, "sm__cycles_active.avg": 0.5},
        {"sass__inst_executed_local_stores": 5.0, "sass__inst_executed_global_stores": -5.0},
        pipes(fma=90, alu=90, fp64=90, tensor=90, xu=90) | busy(sm=95),
    ],
)
def test_numbers_that_no_gpu_has_are_no_traceback(values: dict[str, float]) -> None:
    run = session(made(values))
    assert_sound(run)
    json.loads("\n".join(session_lines(run)), parse_constant=pytest.fail)


def odd(example: Example) -> st.SearchStrategy[Made]:
    """The launch of an example, some of its own metrics replaced by odd numbers."""
    changes = st.dictionaries(st.sampled_from(sorted(example.launch.values) or [WAVES]), USUAL | EXTREME, max_size=4)
    return changes.map(example.launch.plus)


@settings(max_examples=133, deadline=None)
@given(st.sampled_from(EXAMPLES).flatmap(odd))
def test_a_rule_that_speaks_survives_odd_numbers(launch: Made) -> None:
    assert_sound(session(launch))


def test_unknown_gpus_are_diagnosed_too() -> None:
    device = structs.replace(
        builders.A100, name="GPU of the future", compute_capability="99.0", pci_id=None, sm_count=None
    )
    for example in EXAMPLES[::3]:
        report = builders.report(example.launch.launch(), device=device)
        assert_sound(diagnose(analyse([report], builders.hardware_of, "9.9")))
