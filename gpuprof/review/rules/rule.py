"""The types of rules on a kernel's code and on files, and functions that make their findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuprof.diagnose.thresholds import Threshold
from gpuprof.model.field_types import Severity
from gpuprof.model.findings import Amount, CaseName, Cases, Label
from gpuprof.model.session import Evidence, Finding, Location
from gpuprof.review.facts.code_facts import CodeFacts
from gpuprof.review.kernel import InputModule
from gpuprof.sass.instruction import Instruction
from gpuprof.text import cut_middle

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRule:
    """A rule on the code of one kernel.

    If the diagnosis has the same rule, both share its id, its wording file and the reasons of its thresholds.
    """

    id: str
    check: Callable[[CodeFacts], Iterator[Finding]]
    thresholds: tuple[Threshold, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule:
    """A rule on a file; its check takes the file's name, its modules and the targets that the user named."""

    id: str
    check: Callable[[str, Sequence[InputModule], Sequence[str]], Iterator[Finding]]
    thresholds: tuple[Threshold, ...] = ()


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
    """Return a finding with its places, the deepest in loops first. Its id and its sentences are added later.

    `cases` select sentences of the rule's wording; `amounts` and `labels` fill their placeholders. `is_guess`: the
    instructions suggest the finding but do not prove it. The gain is unknown.
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


def file_finding(
    rule: str,
    file: str,
    cases: Cases,
    *,
    severity: Severity,
    amounts: Iterable[Amount] = (),
    labels: Iterable[Label] = (),
    evidence: Iterable[Evidence] = (),
) -> Finding:
    """Return a finding on a file, whose name is the label `file`."""
    return Finding(
        rule=rule,
        severity=severity,
        confidence="inferred",
        cases=cases,
        amounts=tuple(amounts),
        labels=(Label("file", (cut_middle(file, _LONGEST_NAME),)), *labels),
        evidence=tuple(evidence),
        place=None,
        gain_kernel=None,
        gain_total=None,
    )


def access_counts(kinds: Iterable[str]) -> tuple[CaseName, tuple[Amount, ...]]:
    """Return the case for the numbers of loads and stores, and these numbers."""
    counts = Counter(kinds)
    names = "-and-".join(f"{kind}s" for kind in sorted(counts))
    return f"shared/{names}", tuple(Amount(f"{kind}s", float(count), kind) for kind, count in counts.items())


def _severity(facts: CodeFacts, place: Location | None, *, is_guess: bool) -> Severity:
    """Grade a finding by how often its place runs: in the innermost loops of the kernel, or elsewhere."""
    if is_guess:
        return "low"
    deepest = max((loop.depth for loop in facts.loops), default=0)
    return "medium" if place is not None and (place.loops or 0) < deepest else "high"
