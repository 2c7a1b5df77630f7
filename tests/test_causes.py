"""Which finding explains which other: large enough, sure enough, and never in a circle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from gpuprof.diagnose.causes import with_causes
from gpuprof.diagnose.ranking import in_order, numbered
from gpuprof.diagnose.rule import AT_KERNEL, Cause, Kind, Rule
from gpuprof.model.session import Finding
from tests.hand_made import finding

NO_CASE = cast("Any", None)


def rule(name: str, kind: Kind = "symptom", *causes: Cause) -> Rule:
    return Rule(name, kind=kind, check=lambda _: iter(()), causes=causes, place=AT_KERNEL)


def explained(rules: Sequence[Rule], findings: Sequence[Finding]) -> dict[str, str | None]:
    with_ids = numbered(findings, 7)
    return {item.rule: item.cause for item in with_causes(list(zip(rules, with_ids, strict=True)), NO_CASE)}


WAIT, LOADS = rule("wait", "symptom", Cause("loads")), rule("loads", "defect")


def test_a_symptom_names_its_cause_and_has_nothing_to_gain_by_itself() -> None:
    made = with_causes(
        list(zip((WAIT, LOADS), numbered([finding("wait", 0.5), finding("loads", 0.4)], 7), strict=True)), NO_CASE
    )
    assert [(item.cause, item.severity) for item in made] == [("7.loads", "info"), (None, "high")]
    assert [item.rule for item in in_order(made)] == ["loads", "wait"]


def test_a_cause_is_large_and_sure_enough_or_a_limit_that_is_reached() -> None:
    def cause(of_wait: Rule, *rules: Rule, **changes: object) -> str | None:
        findings = (finding("wait", 0.5), *(finding(item.id, 0.5, **changes) for item in rules))
        return explained((of_wait, *rules), findings)["wait"]

    limit, never = rule("loads", "limit"), rule("wait", "symptom", Cause("loads", when=lambda _: False))
    assert cause(WAIT, LOADS) == "7.loads" and cause(never, LOADS) is None
    assert explained((WAIT, LOADS), (finding("wait", 0.5), finding("loads", 0.24)))["wait"] is None
    assert cause(WAIT, LOADS, confidence="guess") is None and cause(WAIT, LOADS, severity="info") is None
    # A limit that the kernel is at explains the wait for it.
    assert explained((WAIT, limit), (finding("wait", 0.5), finding("loads", 0.1, severity="info")))["wait"] == "7.loads"
    # The largest of several causes explains.
    wait, stores = rule("wait", "symptom", Cause("loads"), Cause("stores")), rule("stores", "defect")
    findings = (finding("wait", 0.4), finding("loads", 0.3), finding("stores", 0.5))
    assert explained((wait, LOADS, stores), findings)["wait"] == "7.stores"


def test_a_cause_that_is_explained_hands_on_its_own() -> None:
    barrier = rule("barrier", "symptom", Cause("wait"))
    findings = (finding("barrier", 0.3), finding("wait", 0.4), finding("loads", 0.5))
    assert explained((barrier, WAIT, LOADS), findings) == {"barrier": "7.loads", "wait": "7.loads", "loads": None}


def test_findings_that_explain_each_other_explain_nothing() -> None:
    there, back = rule("there", "symptom", Cause("back")), rule("back", "symptom", Cause("there"))
    assert explained((there, back), (finding("there", 0.5), finding("back", 0.5))) == {"there": None, "back": None}


def test_a_rule_that_speaks_twice_numbers_its_findings() -> None:
    made = numbered([finding("loads"), finding("wait"), finding("loads")], 3)
    assert [item.id for item in made] == ["3.loads", "3.wait", "3.loads.2"]
    assert replace(made[0], id="") == finding("loads")
