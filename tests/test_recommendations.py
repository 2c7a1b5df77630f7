"""What to change first, within a kernel and over the run, and equal launches as one; whatever the numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from gpuprof.diagnose.bounds import Saving
from gpuprof.diagnose.facts.kernel import KernelFacts
from gpuprof.diagnose.ranking import in_order, is_at_limit
from gpuprof.diagnose.recommendations import is_recommendation, recommendations
from gpuprof.diagnose.registry import RULES
from gpuprof.diagnose.rule import finding as rule_finding
from gpuprof.diagnose.summary import grouped
from gpuprof.hardware.specs import WARP_OPCODES
from gpuprof.model.field_types import CONFIDENCES, SEVERITIES, Confidence
from gpuprof.model.findings import Cases
from gpuprof.model.session import DurationSpread, Finding, KernelProfile, Recommendation, Remaining, Session
from gpuprof.store.write import session_lines
from tests import hand_made
from tests.kernels import REGISTERS, WAVES, Made, busy, issued, lasting, made, session, stalls
from tests.rule_examples import EXAMPLES, Example
from tests.table import each_row
from tests.worded import summarised


def gaining(
    rule: str, gain: float | None, severity: str = "medium", confidence: str = "measured", total: float | None = None
) -> Finding:
    return hand_made.finding(rule, gain, severity=severity, confidence=confidence, gain_total=total)


def kernel(number: int, *findings: Finding, duration: float | None = 1e-3, share: float | None = 0.5) -> KernelProfile:
    return hand_made.kernel(number, *findings, duration_s=duration, time_total_s=duration, time_share=share)


# Within a kernel.


@each_row(
    ("findings", "expected"),
    [
        # By the expected saving, whatever the severity.
        ([gaining("tail-effect", 0.9, "low"), gaining("small-grid", 0.2, "high"), gaining("load-imbalance", 0.5)],
         ["tail-effect", "load-imbalance", "small-grid"]),
        # Limits and symptoms come after a defect with half their gain, symptoms last if about equal.
        ([gaining("memory-latency", 0.38), gaining("l2-bandwidth", 0.36), gaining("small-grid", 0.2)],
         ["small-grid", "l2-bandwidth", "memory-latency"]),
        ([gaining("small-grid", 0.1), gaining("memory-latency", 0.4)], ["memory-latency", "small-grid"]),
        # A small certain finding comes after a large guess, and a guess after what is certain and saves about as much.
        ([gaining("tail-effect", 0.05, "low", "inferred"), gaining("latency-bound", 0.5, "low", "guess")],
         ["latency-bound", "tail-effect"]),
        ([gaining("low-occupancy", 0.35, "low", "guess"), gaining("tail-effect", 0.2, "medium", "inferred")],
         ["tail-effect", "low-occupancy"]),
        # Expected are 13.6, then 20.5 % by the guess: less, then more than twice 8.9 % by what is proven.
        ([gaining("small-grid", 0.6, "low", "guess"), gaining("memory-latency", 0.2, "high", "inferred")],
         ["memory-latency", "small-grid"]),
        ([gaining("small-grid", 0.9, "low", "guess"), gaining("memory-latency", 0.2, "high", "inferred")],
         ["small-grid", "memory-latency"]),
        # DRAM is 89 % busy: after what relieves it; before a guess and what can save only the rest.
        ([gaining("tail-effect", 0.11), gaining("small-grid", 0.9, "low", "guess"),
          gaining("low-occupancy", 0.0, "info"), gaining("dram-bandwidth", 0.11, "info"),
          gaining("uncoalesced-global", 0.3)],
         ["uncoalesced-global", "dram-bandwidth", "tail-effect", "small-grid", "low-occupancy"]),
        # The nearer of two roofs leads.
        ([gaining("tensor-compute-bound", 0.18, "info"), gaining("dram-bandwidth", 0.04, "info")],
         ["dram-bandwidth", "tensor-compute-bound"]),
        # A kernel as short as its launch is at a limit, however large the guesses are.
        ([gaining("small-grid", 0.9, "low", "guess"), gaining("short-kernel", 0.25, "high")],
         ["short-kernel", "small-grid"]),
        # What invalidates the others leads, unless it is a guess.
        ([gaining("uncoalesced-global", 0.6, "high"), gaining("debug-build", 0.05, "low")],
         ["debug-build", "uncoalesced-global"]),
        ([gaining("debug-build", 0.05, "low", "guess"), gaining("uncoalesced-global", 0.6, "high")],
         ["uncoalesced-global", "debug-build"]),
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


IDLE = busy(dram=10, memory=25, l2=20, l1=25, sm=25)
UNEVEN = {"sm__cycles_elapsed.max": 1e6, "sm__cycles_active.max": 1e6}
CONFLICTS = {"derived__memory_l1_wavefronts_shared_excessive": 1e8, "memory_l1_wavefronts_shared": 4e8}
EXCESS = {"derived__memory_l2_theoretical_sectors_global_excessive": 3e8, "memory_l2_theoretical_sectors_global": 1e9}
UNOPTIMISED: Mapping[str | int, float] = {"MOV": 40.0, "LD": 30.0, "ST": 10.0, "FADD": 20.0}


@each_row(
    ("launch", "rules"),
    [
        # No unit is more than a quarter busy, and what is certain saves a tenth of the time at most.
        (made(IDLE, lasting(), CONFLICTS), ["latency-bound", "shared-bank-conflict"]),
        (made(IDLE, lasting(), UNEVEN, {"sm__cycles_active.avg": 8.9e5}), ["latency-bound", "load-imbalance"]),
        (made(IDLE, lasting(), UNEVEN, {"sm__cycles_active.avg": 6e5}), ["load-imbalance"]),
        # DRAM is 88 % busy: equal work for all SMs saves the rest at most. Fewer sectors relieve DRAM.
        (made(busy(dram=88, sm=20), lasting(), UNEVEN, {"sm__cycles_active.avg": 8e5}),
         ["dram-bandwidth", "load-imbalance"]),
        (made(busy(dram=88, sm=20), lasting(), EXCESS), ["uncoalesced-global", "dram-bandwidth"]),
        # Unoptimised code leads, even if it is near a roof.
        (made(busy(dram=88, sm=20), lasting(), histograms={WARP_OPCODES: UNOPTIMISED}),
         ["debug-build", "dram-bandwidth"]),
    ],
)  # fmt: skip
def test_the_first_findings_of_a_kernel(launch: Made, rules: list[str]) -> None:
    assert [finding.rule for finding in launch.profile().findings] == rules


# Over the run.


def judged(*kernels: KernelProfile) -> tuple[Recommendation, ...]:
    """The recommendations of a session of these kernels, whose findings get their ids."""
    return summarised(structs.replace(hand_made.session(), kernels=kernels)).recommendations


def filling(number: int) -> KernelProfile:
    fill = kernel(number, gaining("small-grid", 0.9, total=0.4))
    return structs.replace(fill, name="FillFunctor", demangled="FillFunctor")


ELSE = structs.replace(gaining("small-grid", 0.2, total=0.02), cases=Cases(action=("else",)))


@each_row(
    ("kernels", "expected"),
    [
        # By time saved: 0.3 of a tenth of the run, 0.12 of nine tenths are 3 % and 10.8 %.
        ([kernel(0, gaining("small-grid", 0.3, "high", total=0.03), share=0.1),
          kernel(1, gaining("constant-miss", 0.12, total=0.108), share=0.9)],
         [("constant-miss", (1,), 0.108, False), ("small-grid", (0,), 0.03, False)]),
        # A fix that several kernels share is one recommendation, and the finding that gains most speaks.
        ([kernel(0, gaining("small-grid", 0.3, total=0.03), share=0.1),
          kernel(1, gaining("small-grid", 0.1, total=0.05)), kernel(2, ELSE, share=0.1)],
         [("small-grid", (1, 0), 0.08, False), ("small-grid.2", (2,), 0.02, False)]),
        # A guess of 20 % counts as 8 %, as two of five are right: less than what is known to save 10 %. Set-up is last.
        ([kernel(0, gaining("low-occupancy", 0.4, "low", "guess", total=0.2), gaining("barrier-wait", 0.2, total=0.1)),
          filling(1)], [("barrier-wait", (0,), 0.1, False), ("low-occupancy", (0,), 0.2, False),
                        ("small-grid", (1,), 0.4, True)]),
        # A large guess comes before a small saving, but not in a kernel that is at a limit.
        ([kernel(0, gaining("latency-bound", 0.6, "low", "guess", total=0.3),
                 gaining("tail-effect", 0.05, total=0.025))],
         [("latency-bound", (0,), 0.3, False), ("tail-effect", (0,), 0.025, False)]),
        ([kernel(0, gaining("small-grid", 0.8, "low", "guess", total=0.4), gaining("short-kernel", 0.3, total=0.15))],
         [("short-kernel", (0,), 0.15, False), ("small-grid", (0,), 0.4, False)]),
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
def test_the_order_of_recommendations(kernels: list[KernelProfile], expected: list[tuple[object, ...]]) -> None:
    told = [(item.id, item.kernels, item.gain_total, item.set_up) for item in judged(*kernels)]
    assert told == [(*names, gain if gain is None else pytest.approx(gain), last) for *names, gain, last in expected]


def test_what_is_a_fact_explained_or_behind_a_defect_is_no_recommendation() -> None:
    defect, limit = gaining("small-grid", 0.3, "high", total=0.1), gaining("dram-bandwidth", 0.3, total=0.1)
    explained = structs.replace(gaining("barrier-wait", 0.3, total=0.1), cause="0.small-grid")
    several = kernel(0, defect, limit, explained, gaining("tail-effect", 0.1, "info", total=0.05))
    assert [is_recommendation(several, finding) for finding in several.findings] == [True, False, False, False]
    assert is_recommendation(kernel(0, limit), limit)
    compute = gaining("fp32-compute-bound", 0.24, "high", total=0.24)
    assert is_recommendation(kernel(0, compute, gaining("tail-effect", 0.15, total=0.15)), compute)


def test_what_is_left_after_those_before_is_what_the_units_leave() -> None:
    # Both of one kernel with half of the run. The first leaves 60 % to DRAM and saves 40 %. Together they leave 30 %
    # to L2, as the second leaves 70 % to L1 alone and little to DRAM: 1 − 0.4 − 0.3 of the kernel are left to save.
    first = structs.replace(gaining("small-grid", 0.4, "high", total=0.2),
                            remains=(Remaining("dram", 0.6), Remaining("l2", 0.3)))  # fmt: skip
    second = structs.replace(gaining("uncoalesced-global", 0.3, "high", total=0.15),
                             remains=(Remaining("l1", 0.7), Remaining("l2", 0.3)))  # fmt: skip
    run = judged(kernel(0, first, second))
    assert [item.rule for item in run] == ["small-grid", "uncoalesced-global"]
    assert [item.gain_after for item in run] == [pytest.approx(0.2), pytest.approx(0.15)]
    both = structs.replace(second, remains=(Remaining("dram", 0.55), Remaining("l2", 0.3)))
    assert judged(kernel(0, first, both))[1].gain_after == pytest.approx(0.5 * (1 - 0.4 - 0.55))
    # The first leaves what DRAM needs, and so does the second: nothing at all is left, whatever 1 − 0.83 − 0.17 gives.
    whole = structs.replace(gaining("small-grid", 0.83, "high", total=0.4), remains=(Remaining("dram", 0.17),))
    nothing = structs.replace(gaining("uncoalesced-global", 0.3, "high", total=0.1), remains=(Remaining("dram", 0.17),))
    assert judged(kernel(0, whole, nothing))[1].gain_after == 0
    # Two findings of one kernel with one fix count once.
    findings = [structs.replace(gaining("integer-bound", gain, total=gain / 2), id=f"{number}.{place}")
                for place, (number, gain) in enumerate(((0, 0.6), (0, 0.4), (1, 0.2)))]  # fmt: skip
    (told,) = recommendations([kernel(0, *findings[:2]), kernel(1, findings[2])])
    assert told.gain_total == told.gain_after == pytest.approx(0.4)


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
    (item,) = together.recommendations
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
FINDINGS = st.builds(gaining, st.sampled_from([rule.id for rule in RULES] + ["of-another-version"]), SHARES,
                     st.sampled_from(SEVERITIES), st.sampled_from(CONFIDENCES), SHARES)  # fmt: skip
KERNELS = st.lists(st.lists(FINDINGS, max_size=6), max_size=6).map(
    lambda lists: tuple(kernel(number, *findings) for number, findings in enumerate(lists))
)


@given(st.none() | st.floats(0, 1), st.sampled_from(CONFIDENCES), SHARES)
def test_a_gain_for_the_run_is_the_gain_for_the_kernel_times_its_share(
    gain: float | None, confidence: Confidence, share: float | None
) -> None:
    case = KernelFacts(kernel(0), cast("Any", None), run_share=share)
    saving = Saving(gain) if gain is not None else None
    found = rule_finding(case, confidence=confidence, evidence=(), saving=saving)
    if gain is None:
        assert found.gain_kernel is None and found.gain_total is None and found.severity == "info"
        return
    assert found.gain_kernel is not None and 0 <= found.gain_kernel <= 1
    assert found.gain_total == (found.gain_kernel * share if share is not None else None)


@given(KERNELS)
def test_every_finding_that_is_worth_it_is_in_one_recommendation(kernels: tuple[KernelProfile, ...]) -> None:
    run = summarised(structs.replace(hand_made.session(), kernels=kernels))
    told = [name for item in run.recommendations for name in item.findings]
    able = {
        finding.id for profile in run.kernels for finding in profile.findings if is_recommendation(profile, finding)
    }
    assert len(set(told)) == len(told) and set(told) <= able
    assert [item.id for item in recommendations(run.kernels)] == [item.id for item in run.recommendations]
    for item in run.recommendations:
        assert item.gain_after is None or 0 <= item.gain_after <= 1
        assert item.gain_total is None or item.gain_total >= 0.005


@given(st.lists(FINDINGS, max_size=8))
def test_findings_in_order_are_the_same_findings_and_facts_come_last_but_for_limits(findings: list[Finding]) -> None:
    ordered = in_order(findings)
    assert Counter(map(repr, ordered)) == Counter(map(repr, findings))
    are_facts = [finding.severity == "info" for finding in ordered if not is_at_limit(finding)]
    assert are_facts == sorted(are_facts)
    assert in_order(ordered) == ordered


USUAL = st.sampled_from((0.0, 1.0, 0.5, 10.0, 32.0, 50.0, 75.0, 100.0, 1e6)) | st.floats(0, 100)
EXTREME = st.sampled_from((-1.0, -100.0, 1e-300, 1e18, -1e18, 1e300, -1e300)) | st.floats(
    allow_nan=False, allow_infinity=False
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
    told = [name for item in run.recommendations for name in item.findings]
    assert len(set(told)) == len(told)
    assert run.verdict is not None and run.verdict.sentence


def odd(example: Example) -> st.SearchStrategy[Made]:
    """The launch of an example, some of its own metrics replaced by odd numbers."""
    changes = st.dictionaries(st.sampled_from(sorted(example.launch.values) or [WAVES]), USUAL | EXTREME, max_size=4)
    return changes.map(example.launch.plus)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(EXAMPLES).flatmap(odd))
def test_a_rule_that_speaks_survives_odd_numbers(launch: Made) -> None:
    run = session(launch)
    assert_sound(run)
    json.loads("\n".join(session_lines(run)), parse_constant=pytest.fail)
