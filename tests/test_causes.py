"""Which finding explains which other: large enough, sure enough, and never in a circle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_rule
from typing import Any, cast

from msgspec.structs import replace

from gpuprof.diagnose.causes import Cause, with_causes
from gpuprof.diagnose.ranking import in_order, numbered
from gpuprof.diagnose.rule import AT_KERNEL, Kind, Rule
from gpuprof.model.session import Finding
from tests.hand_made import finding

NO_FACTS = cast("Any", None)


def rule(name: str, kind: Kind = "symptom") -> Rule:
    return Rule(name, kind=kind, check=lambda _: iter(()), place=AT_KERNEL)


def explained(
    rules: Sequence[Rule], findings: Sequence[Finding], causes: Mapping[str, tuple[Cause, ...]]
) -> dict[str, str | None]:
    found = list(zip(rules, numbered(findings, 7), strict=True))
    return {item.rule: item.cause for item in with_causes(found, NO_FACTS, causes)}


WAIT, LOADS = rule("wait"), rule("loads", "defect")
BY_LOADS = {"wait": (Cause("loads"),)}


def test_a_symptom_names_its_cause_and_has_nothing_to_gain_by_itself() -> None:
    found = numbered([finding("wait", 0.5), finding("loads", 0.4)], 7)
    made = with_causes(list(zip((WAIT, LOADS), found, strict=True)), NO_FACTS, BY_LOADS)
    assert [(item.cause, item.severity) for item in made] == [("7.loads", "info"), (None, "high")]
    assert [item.rule for item in in_order(made)] == ["loads", "wait"]


def test_a_cause_is_large_and_sure_enough_or_a_limit_that_is_reached() -> None:
    def cause(gain: float = 0.5, of: Rule = LOADS, cause: Cause = BY_LOADS["wait"][0], **changes: Any) -> str | None:
        findings = (finding("wait", 0.5), finding("loads", gain, **changes))
        return explained((WAIT, of), findings, {"wait": (cause,)})["wait"]

    assert cause() == "7.loads" and cause(cause=Cause("loads", when=lambda _: False)) is None
    assert cause(0.24) is None
    assert cause(confidence="guess") is None and cause(severity="info") is None
    # A limit that the kernel is at explains the wait for it.
    assert cause(0.1, rule("loads", "limit"), severity="info") == "7.loads"
    # The largest of several causes explains.
    stores = rule("stores", "defect")
    findings = (finding("wait", 0.4), finding("loads", 0.3), finding("stores", 0.5))
    causes = {"wait": (Cause("loads"), Cause("stores"))}
    assert explained((WAIT, LOADS, stores), findings, causes)["wait"] == "7.stores"


def test_a_guess_of_a_defect_explains_a_guess_of_waits_if_nothing_sure_does() -> None:
    causes = {"wait": (Cause("loads"), Cause("grid"))}
    grid, loads = rule("grid", "defect"), finding("loads", 0.5, confidence="guess")
    wait = finding("wait", 0.5, confidence="guess")
    assert explained((WAIT, LOADS), (wait, loads), causes)["wait"] == "7.loads"
    assert explained((WAIT, LOADS, grid), (wait, loads, finding("grid", 0.3)), causes)["wait"] == "7.grid"
    # Not large enough, or a limit that is itself a guess.
    assert explained((WAIT, LOADS), (wait, finding("loads", 0.2, confidence="guess")), causes)["wait"] is None
    assert explained((WAIT, rule("loads", "limit")), (wait, loads), causes)["wait"] is None


def test_a_cause_that_is_explained_hands_on_its_own() -> None:
    findings = (finding("barrier", 0.3), finding("wait", 0.4), finding("loads", 0.5))
    causes = {**BY_LOADS, "barrier": (Cause("wait"),)}
    assert explained((rule("barrier"), WAIT, LOADS), findings, causes) == {
        "barrier": "7.loads", "wait": "7.loads", "loads": None,
    }  # fmt: skip


def test_findings_that_explain_each_other_explain_nothing() -> None:
    findings = (finding("there", 0.5), finding("back", 0.5))
    causes = {"there": (Cause("back"),), "back": (Cause("there"),)}
    assert explained((rule("there"), rule("back")), findings, causes) == {"there": None, "back": None}


def test_unoptimised_code_voids_findings_whatever_their_gain() -> None:
    build = finding("build", 0.2)
    rules = (replace_rule(rule("build", "defect"), invalidates="code"), LOADS, rule("pipe", "defect"))
    found = (build, finding("loads", 0.6), finding("pipe", 0.6, subject="fp64"))
    assert explained(rules, found, {}) == {"build": None, "loads": "7.build", "pipe": "7.build"}
    unsure = (replace(build, confidence="guess"), *found[1:])
    assert explained(rules, unsure, {}) == {"build": None, "loads": None, "pipe": None}


def test_a_rule_that_speaks_twice_numbers_its_findings() -> None:
    made = numbered([finding("loads"), finding("wait"), finding("loads")], 3)
    assert [item.id for item in made] == ["3.loads", "3.wait", "3.loads.2"]
    assert replace(made[0], id="") == finding("loads")
