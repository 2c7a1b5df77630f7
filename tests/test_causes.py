"""Which finding explains which other: large enough, sure enough, and never in a circle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec.structs import replace

from gpuprof.diagnose.causes import with_causes
from gpuprof.diagnose.order import in_order, numbered
from gpuprof.diagnose.rule import AT_KERNEL, Cause, Rule
from gpuprof.model.session import Finding
from tests.hand_made import finding

NO_CASE = cast("Any", None)


def rule(name: str, about: str = "symptom", *causes: Cause) -> Rule:
    return Rule(
        name, name, about, looks_at="", thresholds=(), gain="", silent="", check=lambda _: iter(()), causes=causes,
        place=AT_KERNEL,
    )  # fmt: skip


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


def test_a_small_or_unsure_finding_explains_nothing() -> None:
    assert explained((WAIT, LOADS), (finding("wait", 0.5), finding("loads", 0.24)))["wait"] is None
    unsure = finding("loads", 0.5, confidence="guess")
    assert explained((WAIT, LOADS), (finding("wait", 0.5), unsure))["wait"] is None
    nothing = finding("loads", 0.5, severity="info")
    assert explained((WAIT, LOADS), (finding("wait", 0.5), nothing))["wait"] is None


def test_a_limit_that_the_kernel_is_at_explains_the_wait_for_it() -> None:
    limit = rule("loads", "limit")
    at_roof = finding("loads", 0.1, severity="info")
    assert explained((WAIT, limit), (finding("wait", 0.5), at_roof))["wait"] == "7.loads"


def test_a_cause_speaks_only_when_its_condition_holds() -> None:
    never = rule("wait", "symptom", Cause("loads", when=lambda _: False))
    assert explained((never, LOADS), (finding("wait", 0.5), finding("loads", 0.5)))["wait"] is None


def test_the_largest_of_several_causes_explains() -> None:
    wait = rule("wait", "symptom", Cause("loads"), Cause("stores"))
    stores = rule("stores", "defect")
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
