"""What a rule on code is: a question to the code of a kernel or to a whole file, its thresholds and reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gpuprof.diagnose.thresholds import Threshold
from gpuprof.model.field_types import Severity
from gpuprof.model.findings import Amount, CaseName, Cases, Label
from gpuprof.model.session import Evidence, Finding, Location
from gpuprof.review.facts import CodeFacts
from gpuprof.review.kernel import InputModule
from gpuprof.sass.instruction import Instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRule:
    """What the reference prints of a rule. `id` is that of the diagnosis where it has the same.

    `title` is what it is, `looks_at` what it reads, `silent` where it says nothing although something may be there.
    """

    id: str
    title: str = ""
    looks_at: str = ""
    silent: str = ""
    thresholds: tuple[Threshold, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRule(DescribedRule):
    """A rule on the code of one kernel."""

    check: Callable[[CodeFacts], Iterator[Finding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule(DescribedRule):
    """A rule on a whole file: it is asked with the file's name, its modules, and the architectures that are wanted."""

    check: Callable[[str, Sequence[InputModule], Sequence[str]], Iterator[Finding]]


def code_evidence(value: float, unit: str, meaning: str, *, threshold: float | None = None) -> Evidence:
    """Return a value that was read from the code and not measured; `threshold`: what it is compared with."""
    return Evidence(metric="", value=float(value), unit=unit, threshold=threshold, meaning=meaning)


def code_finding(
    facts: CodeFacts,
    rule: str,
    instructions: Iterable[Instruction],
    cases: Cases,
    *,
    amounts: Iterable[Amount] = (),
    labels: Iterable[Label] = (),
    evidence: Iterable[Evidence] = (),
    is_guess: bool = False,
) -> Finding:
    """Return a finding with its places, the deepest in loops first; its id and its sentences are added later.

    `cases` are sentences of the rule's wording, with `amounts` and `labels` for their placeholders. `is_guess`: the
    instructions show a sign of it, and do not prove it. The gain is not known.
    """
    places, more = facts.places(instructions)
    place = places[0] if places else None
    return Finding(
        rule=rule,
        severity=_severity(facts, place, is_guess=is_guess),
        confidence="guess" if is_guess else "inferred",
        cases=cases,
        amounts=tuple(amounts),
        labels=tuple(labels),
        evidence=tuple(evidence),
        place=place,
        places=places,
        more_places=more,
        gain_kernel=None,
        gain_total=None,
    )


def access_counts(kinds: Iterable[str]) -> tuple[CaseName, tuple[Amount, ...]]:
    """Return the end of a headline with the numbers of loads and stores, and these numbers."""
    counts = Counter(kinds)
    names = "-and-".join(f"{kind}s" for kind in sorted(counts))
    return f"shared/{names}", tuple(Amount(f"{kind}s", float(count), kind) for kind, count in counts.items())


def finding_at(
    facts: CodeFacts,
    rule: str,
    instructions: Iterable[Instruction],
    *,
    headline: str,
    why: str,
    action: str,
    advice: str,
    evidence: Sequence[Evidence] = (),
    is_guess: bool = False,
) -> Finding:
    """Return a finding with its sentences."""
    cases = Cases()
    finding = code_finding(facts, rule, instructions, cases, evidence=evidence, is_guess=is_guess)
    return replace(finding, headline=headline, why=why, action=action, advice=advice)


def _severity(facts: CodeFacts, place: Location | None, *, is_guess: bool) -> Severity:
    """Grade a finding by how often its place runs: in the innermost loops of the kernel, or elsewhere."""
    if is_guess:
        return "low"
    if place is not None and (place.loops or 0) < facts.deepest:
        return "medium"
    return "high"
