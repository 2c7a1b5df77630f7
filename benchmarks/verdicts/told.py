"""What gpuprof tells of a report, now and in version 0.1.0, as far as the judgement needs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import gpuprof
from gpuprof.model.session import Finding, Session
from gpuprof.model.set_up import set_up_kernels

BEFORE = Path(__file__).resolve().parent / "before.yaml"


@dataclass(frozen=True, slots=True)
class Told:
    """One finding: its gain of the kernel's time, and whether it was told as an upper bound."""

    rule: str
    severity: str
    gain: float | None
    confidence: str = "measured"
    bound: bool = True
    explained: bool = False

    @property
    def alarms(self) -> bool:
        """Tell whether it asks for a fix."""
        return self.severity in ("high", "medium") and not self.explained


@dataclass(frozen=True, slots=True)
class Headline:
    """The launch that a report's headline is of, and whether what it says is a guess."""

    launch: int
    is_guess: bool


@dataclass(frozen=True, slots=True)
class ReportTold:
    """What is told of a report: of each launch, in its order; `set_up` are those told to only make data."""

    launches: tuple[tuple[Told, ...], ...]
    set_up: frozenset[int]
    headline: Headline | None


def told_now(path: Path) -> ReportTold:
    """Diagnose a report, each launch for itself."""
    session = gpuprof.load(path)
    return ReportTold(
        launches=tuple(tuple(map(_told, kernel.findings)) for kernel in session.kernels),
        set_up=frozenset(
            place for place, kernel in enumerate(session.kernels) if kernel.id in set_up_kernels(session.kernels)
        ),
        headline=_headline(session),
    )


def told_before(path: Path = BEFORE) -> Mapping[str, ReportTold]:
    """Read what version 0.1.0 told of each report; it knew no set-up kernels, and told every gain as a bound."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: _recorded(entry) for name, entry in document["reports"].items()}


def _told(finding: Finding) -> Told:
    return Told(
        rule=finding.rule,
        severity=finding.severity,
        gain=finding.gain_kernel,
        confidence=finding.confidence,
        bound=finding.gain_kind == "bound",
        explained=finding.cause is not None,
    )


def _headline(session: Session) -> Headline | None:
    """Return whose headline it is; a guess is one that repeats a finding that is a guess."""
    verdict = session.verdict
    if verdict is None or verdict.kernel is None:
        return None
    place = next(place for place, kernel in enumerate(session.kernels) if kernel.id == verdict.kernel)
    guesses = (finding for finding in session.kernels[place].findings if finding.confidence == "guess")
    return Headline(place, any(finding.headline in verdict.sentence for finding in guesses))


def _recorded(entry: Mapping[str, Any]) -> ReportTold:
    findings: dict[int, tuple[Told, ...]] = {}
    for group in entry["launches"]:
        told = tuple(map(_recorded_finding, group["findings"]))
        findings.update(dict.fromkeys(_numbers(group["of"]), told))
    headline = entry["headline"]
    return ReportTold(
        launches=tuple(findings[launch] for launch in sorted(findings)),
        set_up=frozenset(),
        headline=Headline(headline["launch"], headline["confidence"] == "guess") if headline is not None else None,
    )


def _recorded_finding(text: str) -> Told:
    rule, severity, *gain = text.split()
    return Told(rule, severity, float(gain[0]) if gain else None)


def _numbers(text: str) -> list[int]:
    """Read "0-3, 7"."""
    runs = [[int(number) for number in re.findall(r"\d+", run)] for run in text.split(",")]
    return [number for run in runs for number in range(run[0], run[-1] + 1)]
