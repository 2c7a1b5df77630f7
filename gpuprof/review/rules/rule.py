"""What a rule on code is: a question to the code of a kernel or to a whole file, its thresholds and reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuprof.diagnose.thresholds import Threshold
from gpuprof.model.session import Evidence
from gpuprof.review.case import CodeCase
from gpuprof.review.contract import CodeCertainty, CodeFinding
from gpuprof.review.kernel import InputModule
from gpuprof.sass.instruction import Instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedRule:
    """What the reference prints of a rule. `id` is that of the diagnosis where it has the same.

    `title` is what it is, `looks_at` what it reads, `silent` where it says nothing although something may be there.
    """

    id: str
    title: str
    looks_at: str
    silent: str
    thresholds: tuple[Threshold, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeRule(DescribedRule):
    """A rule on the code of one kernel."""

    check: Callable[[CodeCase], Iterator[CodeFinding]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRule(DescribedRule):
    """A rule on a whole file: it is asked with the file's name, its modules, and the architectures that are wanted."""

    check: Callable[[str, Sequence[InputModule], Sequence[str]], Iterator[CodeFinding]]


def code_evidence(value: float, unit: str, meaning: str, *, threshold: float | None = None) -> Evidence:
    """Return a value that was read from the code and not measured; `threshold`: what it is compared with."""
    return Evidence(metric="", value=float(value), unit=unit, threshold=threshold, meaning=meaning)


def finding_at(
    case: CodeCase,
    rule: str,
    instructions: Iterable[Instruction],
    *,
    headline: str,
    why: str,
    action: str,
    advice: str,
    evidence: Sequence[Evidence] = (),
    certainty: CodeCertainty = "from code",
) -> CodeFinding:
    """Return a finding with its places, the deepest in loops first."""
    places, more = case.places(instructions)
    return CodeFinding(
        rule=rule,
        certainty=certainty,
        headline=headline,
        why=why,
        action=action,
        advice=advice,
        evidence=tuple(evidence),
        places=places,
        more_places=more,
        loop_depth=case.depth(places[0].offset) if places else 0,
    )
