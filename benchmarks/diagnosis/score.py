"""Scores recorded reports: is the planted cause told first, with its line and gain, and is the repair left in peace."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import gpuprof
from benchmarks.diagnosis.case import FIXED, NONE, SLOW, Case
from benchmarks.diagnosis.nvidia import Said, said
from gpuprof.errors import GpuprofError
from gpuprof.model.report import Launch, Report
from gpuprof.model.session import Finding, KernelProfile
from gpuprof.read.files import read_file

ALARMS = ("high", "medium")
GAIN_TOLERANCE = 0.25
"""A predicted gain is right within so much of the time of `slow`."""
TOP = 3
HALVES = ("tuned", "held out")
"""Thresholds may be tuned on the first half alone."""


class Outcome(NamedTuple):
    """What gpuprof and NVIDIA's rules said of a case. `place`: the planted rule's among the findings of `slow`, from 1.

    Gains are shares of the time of `slow`; a fact (`info`) tells none. `line` is None where the cause is in no line, or
    the rule was silent.
    """

    case: Case
    place: int | None
    first: str | None
    alarms: tuple[str, ...]
    line: bool | None
    predicted: float | None
    real: float | None
    nvidia_place: int | None
    nvidia_first: str | None

    @property
    def planted(self) -> bool:
        """Tell whether there is a cause to find."""
        return self.case.planted_rule != NONE

    @property
    def right(self) -> bool:
        """Tell whether the cause comes first; of a well-tuned kernel, whether nothing alarms."""
        return self.place == 1 if self.planted else not self.alarms

    @property
    def gain_right(self) -> bool | None:
        """Tell whether the predicted gain is near the real one; None where one of them is not known."""
        if self.predicted is None or self.real is None:
            return None
        return abs(self.predicted - self.real) <= GAIN_TOLERANCE


class Totals(NamedTuple):
    """Counts over cases: of how many something was true."""

    cases: int
    first: int
    top: int
    fixed: int
    alarmed: int
    lines: int
    lines_named: int
    gains: int
    gains_right: int
    nvidia: int
    nvidia_first: int
    nvidia_top: int


def half(name: str) -> str:
    """Return which half a case belongs to: by a hash of its name, so that it never changes."""
    return HALVES[hashlib.sha256(name.encode()).digest()[0] % 2]


def score(cases: Iterable[Case], folder: Path) -> tuple[list[Outcome], list[str]]:
    """Score the cases that have a report in a folder; return the outcomes, and what could not be scored and why."""
    outcomes, problems = [], []
    for case in cases:
        file = folder / f"{case.name}.ncu-rep"
        try:
            outcomes.append(outcome_of(case, file))
        except (GpuprofError, FileNotFoundError) as error:
            problems.append(f"{case.name}: {error}")
    return outcomes, problems


def outcome_of(case: Case, file: Path) -> Outcome:
    """Score one report. Raises GpuprofError if it cannot be read, FileNotFoundError if it lacks a kernel."""
    report = read_file(str(file))
    session = gpuprof.load(file)
    if not isinstance(report, Report):
        raise FileNotFoundError(f"{file} is no report")
    kernels = {kernel.name: kernel for kernel in session.kernels}
    launches = {launch.name: launch for launch in report}
    for entry in case.entries:
        if entry not in kernels:
            raise FileNotFoundError(f"{file.name} has no kernel {entry}")
    return judged(case, kernels, launches)


def judged(case: Case, kernels: dict[str, KernelProfile], launches: dict[str, Launch]) -> Outcome:
    """Judge what was found of the kernels of a case."""
    alarms = tuple(one.rule for one in kernels[FIXED].findings if one.severity in ALARMS)
    asked = kernels[case.entries[0]]
    messages = said(launches[case.entries[0]].details.rule_results())
    found = asked.findings[0].rule if asked.findings else None
    planted = next((one for one in asked.findings if _is_planted(case, asked, one)), None)
    return Outcome(
        case,
        place=asked.findings.index(planted) + 1 if planted is not None else None,
        first=found,
        alarms=alarms,
        line=_line(case, planted),
        predicted=planted.gain_kernel if planted is not None and planted.severity != "info" else None,
        real=_real_gain(case, kernels),
        nvidia_place=_nvidia_place(case, messages),
        nvidia_first=f"{messages[0].rule}: {messages[0].title}" if messages else None,
    )


def _is_planted(case: Case, kernel: KernelProfile, finding: Finding) -> bool:
    """Tell whether a finding is the planted one; low occupancy must name its limiter."""
    if finding.rule != case.planted_rule:
        return False
    return case.limiter is None or case.limiter in kernel.occupancy.limiters


def _line(case: Case, planted: Finding | None) -> bool | None:
    if not case.lines or planted is None:
        return None
    place = planted.location
    return place is not None and place.line in case.lines and Path(place.file or "").name == case.source.name


def _real_gain(case: Case, kernels: dict[str, KernelProfile]) -> float | None:
    """Return the share of `slow`'s time that the repair saves; negative where it costs time."""
    if SLOW not in kernels or case.planted_rule == NONE:
        return None
    times = [
        kernels[entry].duration_s * case.launches[entry].times
        for entry in (SLOW, FIXED)
        if kernels[entry].duration_s is not None
    ]  # fmt: skip
    return 1 - times[1] / times[0] if len(times) == 2 and times[0] else None


def _nvidia_place(case: Case, messages: Sequence[Said]) -> int | None:
    return next((place for place, one in enumerate(messages, 1) if case.planted_rule in one.ours), None)


def totals(outcomes: Iterable[Outcome]) -> Totals:
    """Count."""
    outcomes = list(outcomes)
    planted = [one for one in outcomes if one.planted]
    lines = [one for one in planted if one.case.lines]
    gains = [one for one in planted if one.gain_right is not None]
    spoken = [one for one in planted if one.nvidia_first is not None]
    return Totals(
        cases=len(planted),
        first=sum(one.right for one in planted),
        top=sum(_within(one.place) for one in planted),
        fixed=len(outcomes),
        alarmed=sum(bool(one.alarms) for one in outcomes),
        lines=len(lines),
        lines_named=sum(bool(one.line) for one in lines),
        gains=len(gains),
        gains_right=sum(bool(one.gain_right) for one in gains),
        nvidia=len(spoken),
        nvidia_first=sum(one.nvidia_place == 1 for one in spoken),
        nvidia_top=sum(_within(one.nvidia_place) for one in spoken),
    )


def _within(place: int | None) -> bool:
    return place is not None and place <= TOP


def by_half(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, Totals]]:
    """Yield the totals of both halves, then of all."""
    for name in HALVES:
        yield name, totals(one for one in outcomes if half(one.case.name) == name)
    yield "all", totals(outcomes)
