"""The sentences of findings and recommendations, by the wording files of their rules."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpuprof.diagnose.thresholds import Threshold
from gpuprof.model.session import Answer, Evidence, Finding
from gpuprof.words.sentences import capital, inside
from gpuprof.words.wording import (
    SHARED,
    AmountText,
    NameText,
    ThresholdText,
    Values,
    ValueText,
    filled,
    joined,
    template,
    wording,
)


def with_sentences(finding: Finding) -> Finding:
    """Return a finding with its sentences; one from a file, which has them already, unchanged."""
    if finding.headline:
        return finding
    rule = finding.rule
    cases = finding.cases
    values = _values(finding)
    return replace(
        finding,
        held=assumption_text(finding.assumes) or finding.held,
        evidence=tuple(_with_meaning(item, rule) for item in finding.evidence),
        headline=filled(rule, "headline", cases.headline, values),
        why=filled(rule, "why", cases.why, values),
        action=filled(rule, "action", cases.action, values),
        advice=filled(rule, "advice", cases.advice, values),
    )


def with_answer(answer: Answer) -> Answer:
    """Return an answer with its sentence; one from a file, which has it already, unchanged."""
    if answer.text:
        return answer
    return replace(answer, text=filled("answers", "headline", answer.cases, _values(answer)))


def _with_meaning(evidence: Evidence, rule: str) -> Evidence:
    if evidence.meaning or not evidence.role:
        return evidence
    return replace(evidence, meaning=_meaning(evidence, rule))


def _meaning(evidence: Evidence, rule: str) -> str:
    """Return the meaning of a piece of evidence by its role in the finding of a rule."""
    values = {"of": NameText(evidence.of)}
    for file in (rule, SHARED):
        known = wording(file)
        if evidence.role in known.evidence:
            return known.evidence[evidence.role].format_map(values)
        if evidence.role in known.thresholds:
            return known.thresholds[evidence.role].name
    raise KeyError(f"{rule}.yaml has no evidence {evidence.role!r}")


def threshold_text(threshold: Threshold, rule: str) -> ThresholdText:
    """Return the name of a threshold of a rule and the reason for its value."""
    for file in (rule, SHARED):
        known = wording(file).thresholds.get(threshold.name)
        if known is not None:
            return known
    return ThresholdText(threshold.name, threshold.reason)


def assumption_text(assumes: Sequence[str]) -> str:
    """Return the assumptions of a gain in words, or by name if they are of another version."""
    texts = wording(SHARED).assumptions
    return " and ".join(texts.get(name, name) for name in assumes)


def cause_phrase(finding: Finding) -> str:
    """Return a finding as a phrase inside of a sentence: "uncoalesced global access".

    If its cases are those of another version, return the title of its rule, or the rule itself.
    """
    known = wording(finding.rule)
    phrase = known.cause
    try:
        if not isinstance(phrase, str):
            case = next(iter(finding.cases.headline), "main")
            phrase = phrase.get(case) or phrase["main"]
        text = phrase.format_map(_values(finding))
    except KeyError:
        text = ""
    return text or inside(known.title) or finding.rule


def further_headline(finding: Finding) -> str:
    """Return the headline after its first case: "; 14 wavefronts per request"; empty if unknown."""
    try:
        text = filled(finding.rule, "headline", finding.cases.headline[1:], _values(finding))
    except KeyError:
        return ""
    return text if text.startswith((";", ",")) else f" {text}".rstrip()


def run_sentence(finding: Finding, kernel: str, file: str) -> str:
    """Return a finding on the run as a sentence with the names of its kernel and its file.

    It starts in lower case, without a full stop. Without cases, as in an older file, it is the headline.
    """
    values = {**_values(finding), "kernel": NameText((kernel,)), "file": NameText((file,))}
    try:
        return filled(finding.rule, "sentence", finding.cases.headline, values)
    except KeyError:
        return finding.headline


def common_headline(findings: Sequence[Finding]) -> str:
    """Return the common headline of findings of a rule, with ranges for their numbers.

    "Latency-bound: no unit is more than 2 to 52 % busy". If none is common, name the first finding.
    """
    first = findings[0]
    if len({finding.headline for finding in findings}) == 1 or not all(map(_is_known, findings)):
        return first.headline
    values = _common_values(findings)
    parts = []
    for number, case in enumerate(first.cases.headline):
        if any(finding.cases.headline[number : number + 1] != (case,) for finding in findings):
            break
        try:
            parts.append(template(first.rule, "headline", case).format_map(values))
        except KeyError:
            break
    return joined(parts).rstrip(":") or capital(cause_phrase(first))


def _common_values(findings: Sequence[Finding]) -> Values:
    """Return the amounts that all findings have, as ranges, and the names that are alike."""
    values: dict[str, ValueText] = {}
    for first in findings[0].amounts:
        amounts = [
            amount
            for finding in findings
            for amount in finding.amounts
            if (amount.name, amount.unit) == (first.name, first.unit)
        ]
        if len(amounts) == len(findings):
            amounts.sort(key=lambda amount: amount.value)
            values[first.name] = AmountText(amounts[0], amounts[-1])
    for label in findings[0].labels:
        if all(label in finding.labels for finding in findings):
            values[label.name] = NameText(label.texts)
    return values


def _is_known(finding: Finding) -> bool:
    """Return whether this version has the cases of a finding, which can come from a file."""
    headline = finding.cases.headline
    try:
        text = filled(finding.rule, "headline", headline, _values(finding))
    except KeyError:
        return False
    return bool(text and cause_phrase(finding))


def _values(finding: Finding | Answer) -> Values:
    values: dict[str, ValueText] = {amount.name: AmountText(amount) for amount in finding.amounts}
    return values | {label.name: NameText(label.texts) for label in finding.labels}
