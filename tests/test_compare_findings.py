"""Which findings went, came and stayed, and what was gained of what was promised."""

from __future__ import annotations

from typing import Any

from gpuprof.comparison.causes.causes import causes_of
from gpuprof.comparison.contract import FindingChange, SourceLine, TimeWord, WorkChange
from gpuprof.comparison.finding_changes import finding_changes
from gpuprof.model.session import Finding, KernelProfile, Location, Throughput
from tests import hand_made
from tests.compare_builders import kernel, pair_of
from tests.test_compare_causes import time_of


def finding(rule: str, gain: float | None = None, kind: Any = None, **fields: Any) -> Finding:
    return hand_made.finding(rule, gain, **{"place": None, "gain_kind": kind, **fields})


def diagnosed(*findings: Finding, counters: bool = True) -> KernelProfile:
    """A kernel with these findings; without counters, as a report has it that only names the launch."""
    return kernel(findings=findings, throughput=(Throughput("dram", 0.5),) if counters else ())


def told(
    base: KernelProfile, new: KernelProfile, ratio: float = 0.5, verdict: TimeWord = "faster"
) -> tuple[FindingChange, ...]:
    """The changes of the findings of a pair whose time changed by so much."""
    return finding_changes(pair_of(base, new), time_of(ratio, verdict))


def test_what_went_has_what_was_promised_and_what_was_gained() -> None:
    place = Location(file="a.cu", line=7, pc=None, sass=None)
    base = diagnosed(finding("uncoalesced-global", 0.6, "bound", place=place), finding("low-occupancy", 0.1))
    went, came, stayed = told(base, diagnosed(finding("low-occupancy", 0.2), finding("dram-bandwidth", 0.3)))
    assert (went.word, went.rule, went.promised, went.gained) == ("went", "uncoalesced-global", 0.6, 0.5)
    assert (went.location, went.base, went.new) == (SourceLine("a.cu", 7), base.findings[0].headline, "")
    assert (came.word, came.rule, came.promised, came.gained) == ("came", "dram-bandwidth", None, None)
    assert (stayed.word, stayed.rule, stayed.promised, stayed.gained) == ("stayed", "low-occupancy", 0.1, None)


def test_several_findings_of_a_rule_go_one_by_one() -> None:
    base = diagnosed(finding("uncoalesced-global", 0.4), finding("uncoalesced-global", 0.2))
    changes = [(change.word, change.promised) for change in told(base, diagnosed(finding("uncoalesced-global", 0.4)))]
    assert changes == [("went", 0.2), ("stayed", 0.4)]


def test_counters_that_were_not_collected_make_no_finding_go() -> None:
    base = diagnosed(finding("dram-bandwidth", 0.4), finding("small-grid", 0.4))
    changes = [(change.word, change.rule) for change in told(base, diagnosed(counters=False))]
    assert ("went", "dram-bandwidth") not in changes
    back = told(diagnosed(counters=False), base)
    assert ("came", "dram-bandwidth") not in [(change.word, change.rule) for change in back]


def test_what_got_slower_gained_less_than_nothing() -> None:
    (went,) = told(diagnosed(finding("low-occupancy", 0.5)), diagnosed(), ratio=1.25, verdict="slower")
    assert went.gained == -0.25


def test_more_than_a_bound_promised_is_said_plainly() -> None:
    work = WorkChange(verdict="unknown", counts=())
    base = diagnosed(finding("uncoalesced-global", 0.2, "bound"))
    faster = pair_of(kernel(durations_s=(2e-5,), findings=base.findings, throughput=base.throughput), diagnosed())
    causes = causes_of(faster, time_of(0.5, "faster"), work, ())
    assert causes[-1].mechanism == "bound"
    assert causes[-1].direction == "neutral"
    (bound,) = causes[-1].values
    assert (bound.name, bound.base, bound.new) == ("uncoalesced-global", 0.2, 0.5)
