"""Scores recorded reports: is the planted cause told first, with its line and gain, and is the fix left in peace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import gpuprof
from benchmarks.diagnosis.case import FIXED, NONE, SLOW, Case
from benchmarks.diagnosis.nvidia import Said, said
from benchmarks.diagnosis.record import recorded, report_of
from benchmarks.diagnosis.worth import HALVES, half
from benchmarks.rule_messages import RuleResult, results_of
from gpuprof.errors import GpuprofError, InputError
from gpuprof.model.recorded import Report
from gpuprof.model.session import Finding, KernelProfile
from gpuprof.read.files import read_file

ALARMS = ("high", "medium")
GAIN_TOLERANCE = 0.25
"""A told gain is right within so much of the time of `slow`."""
CLOCK_TOLERANCE = 0.02
"""Clocks of the two kernels that differ more than this make part of the measured gain."""
TOP = 3


class Outcome(NamedTuple):
    """What gpuprof and NVIDIA's rules said of a case. `place`: the planted rule's among the findings of `slow`, from 1.

    Gains are shares of the time of `slow`; a fact (`info`) tells none. `is_bound`: the told one is meant as an upper
    bound, and not only with something held fixed. `line` is None where the cause is in no line, or
    the rule was silent. `alarms` are findings of high or medium severity on `fixed`, but for the roof that it has by
    its file. `clocks` is the SM clock of `fixed` ÷ that of `slow`.
    """

    case: Case
    place: int | None
    first: str | None
    alarms: tuple[str, ...]
    line: bool | None
    predicted: float | None
    is_bound: bool
    real: float | None
    clocks: float | None
    nvidia_place: int | None
    nvidia_first: str | None
    nvidia_spoke: bool

    @property
    def planted(self) -> bool:
        """Tell whether there is a cause to find."""
        return self.case.planted_rule != NONE

    @property
    def right(self) -> bool:
        """Tell whether the cause comes first; of a well-tuned kernel, whether nothing alarms."""
        return self.place == 1 if self.planted else not self.alarms

    @property
    def misled(self) -> bool:
        """Tell whether a rule comes first that must not."""
        return self.first in self.case.not_first

    @property
    def gain_right(self) -> bool | None:
        """Tell whether the told gain is near the real one; None where one of them is not known."""
        if self.predicted is None or self.real is None:
            return None
        return abs(self.predicted - self.real) <= GAIN_TOLERANCE

    @property
    def bound_held(self) -> bool | None:
        """Tell whether the told gain was the upper bound that it is meant as; None where it is not meant so."""
        if not self.is_bound or self.predicted is None or self.real is None:
            return None
        return self.real <= self.predicted + CLOCK_TOLERANCE

    @property
    def doubts(self) -> tuple[str, ...]:
        """Return what speaks against the case itself, or against its recording."""
        doubts = []
        expected = self.case.gain
        if expected is not None and self.real is not None and not expected.low <= self.real <= expected.high:
            doubts.append(f"the fix saves {self.real:.0%}, not {expected.low:.0%} to {expected.high:.0%}")
        elif self.planted and self.real is not None and self.real <= 0:
            doubts.append(f"the fix saves nothing ({self.real:.0%})")
        if self.clocks is not None and abs(self.clocks - 1) > CLOCK_TOLERANCE:
            doubts.append(f"fixed ran at {self.clocks:.3f} × the clock of slow")
        return tuple(doubts)


class Totals(NamedTuple):
    """Counts over cases, of how many something was true, and how told and measured gains compare.

    `error` is the median distance of the told from the measured gain; `guessed` how many a single number for all cases
    would have got right, the best of such numbers.
    """

    cases: int
    first: int
    top: int
    misled: int
    fixed: int
    alarmed: int
    lines: int
    lines_named: int
    gains: int
    gains_right: int
    guessed: int
    bounds: int
    bounds_held: int
    error: float | None
    nvidia: int
    nvidia_first: int
    nvidia_top: int


def score(cases: Iterable[Case], folder: Path) -> tuple[list[Outcome], list[str]]:
    """Score the cases that have a report in a folder or in one of its folders; return the outcomes, and what failed."""
    outcomes, problems, unrecorded = [], [], []
    for case in cases:
        report = report_of(folder, case.name)
        if report is None:
            unrecorded.append(case.name)
            continue
        if recorded(report.parent).get(case.name, case.digest()) != case.digest():
            problems.append(f"{case.name}: its report is of another version of the case")
            continue
        try:
            outcomes.append(outcome_of(case, report))
        except GpuprofError as error:
            problems.append(f"{case.name}: {error.message}")
    if unrecorded:
        problems.append(f"{folder} has no report of {', '.join(unrecorded)}")
    return outcomes, problems


def outcome_of(case: Case, file: Path) -> Outcome:
    """Score one report. Raises GpuprofError if it cannot be read, or has not each kernel of the case once."""
    report, session = read_file(str(file)), gpuprof.load(file)
    names = [kernel.name for kernel in session.kernels]
    if not isinstance(report, Report) or sorted(names) != sorted(case.entries):
        has = ", ".join(names) or "nothing"
        raise InputError(f"{file.name} has {has}, not each of {', '.join(case.entries)} once", "record it again")
    slow = next(launch for launch in report if launch.name == case.entries[0])
    return judged(case, {kernel.name: kernel for kernel in session.kernels}, results_of(slow))


def judged(case: Case, kernels: Mapping[str, KernelProfile], results: Sequence[RuleResult]) -> Outcome:
    """Judge what was found of the kernels of a case, beside what NVIDIA's rules said of the slow one."""
    asked = kernels[case.entries[0]]
    messages = said(results)
    planted = next((finding for finding in asked.findings if _is_planted(case, asked, finding)), None)
    return Outcome(
        case,
        place=asked.findings.index(planted) + 1 if planted is not None else None,
        first=asked.findings[0].rule if asked.findings else None,
        alarms=tuple(
            finding.rule
            for finding in kernels[FIXED].findings
            if finding.severity in ALARMS and finding.rule != case.roof
        ),
        line=_line(case, planted),
        predicted=planted.gain_kernel if planted is not None and planted.severity != "info" else None,
        is_bound=planted is not None and planted.gain_kind == "bound",
        real=_real_gain(case, kernels),
        clocks=_clocks(kernels),
        nvidia_place=_nvidia_place(case, messages),
        nvidia_first=f"{messages[0].rule}: {messages[0].title}" if messages else None,
        nvidia_spoke=bool(results),
    )


def _clocks(kernels: Mapping[str, KernelProfile]) -> float | None:
    clocks = [kernels[entry].sm_clock_hz for entry in (SLOW, FIXED) if entry in kernels]
    slow, fixed = (*clocks, None, None)[:2]
    return fixed / slow if slow and fixed else None


def _is_planted(case: Case, kernel: KernelProfile, finding: Finding) -> bool:
    """Tell whether a finding is the planted one; low occupancy must name its limiter."""
    if finding.rule != case.planted_rule:
        return False
    return case.limiter is None or case.limiter in kernel.occupancy.limiters


def _line(case: Case, planted: Finding | None) -> bool | None:
    if not case.lines or planted is None:
        return None
    place = planted.place
    return place is not None and place.line in case.lines and Path(place.file or "").name == case.source.name


def _real_gain(case: Case, kernels: Mapping[str, KernelProfile]) -> float | None:
    """Return the share of `slow`'s time that the fix saves; negative where it costs time."""
    if case.planted_rule == NONE:
        return None
    slow, fixed = (_time(case, kernels, entry) for entry in (SLOW, FIXED))
    return 1 - fixed / slow if slow and fixed is not None else None


def _time(case: Case, kernels: Mapping[str, KernelProfile], entry: str) -> float | None:
    duration = kernels[entry].duration_s
    return duration * case.launches[entry].times if duration is not None else None


def _nvidia_place(case: Case, messages: Sequence[Said]) -> int | None:
    return next((place for place, message in enumerate(messages, 1) if case.planted_rule in message.ours), None)


def totals(outcomes: Iterable[Outcome]) -> Totals:
    """Count. NVIDIA's rules are counted over all planted cases whose report has messages of theirs."""
    outcomes = list(outcomes)
    planted = [outcome for outcome in outcomes if outcome.planted]
    lines = [outcome for outcome in planted if outcome.case.lines]
    gains = [outcome for outcome in planted if outcome.gain_right is not None]
    bounds = [outcome for outcome in planted if outcome.bound_held is not None]
    spoken = [outcome for outcome in planted if outcome.nvidia_spoke]
    return Totals(
        cases=len(planted),
        first=sum(outcome.right for outcome in planted),
        top=sum(_within(outcome.place) for outcome in planted),
        misled=sum(outcome.misled for outcome in planted),
        fixed=len(outcomes),
        alarmed=sum(bool(outcome.alarms) for outcome in outcomes),
        lines=len(lines),
        lines_named=sum(bool(outcome.line) for outcome in lines),
        gains=len(gains),
        gains_right=sum(bool(outcome.gain_right) for outcome in gains),
        guessed=_best_guess([outcome.real for outcome in gains if outcome.real is not None]),
        bounds=len(bounds),
        bounds_held=sum(bool(outcome.bound_held) for outcome in bounds),
        error=median(abs((outcome.predicted or 0.0) - (outcome.real or 0.0)) for outcome in gains) if gains else None,
        nvidia=len(spoken),
        nvidia_first=sum(outcome.nvidia_place == 1 for outcome in spoken),
        nvidia_top=sum(_within(outcome.nvidia_place) for outcome in spoken),
    )


def _best_guess(gains: Sequence[float]) -> int:
    """Return how many gains lie within the tolerance of one number, the best of them."""
    return max((sum(low <= gain <= low + 2 * GAIN_TOLERANCE for gain in gains) for low in gains), default=0)


def _within(place: int | None) -> bool:
    return place is not None and place <= TOP


def by_half(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, Totals]]:
    """Yield the totals of each half that has outcomes, then of all where both have."""
    halves = {name: [outcome for outcome in outcomes if half(outcome.case.name) == name] for name in HALVES}
    there = {name: of_half for name, of_half in halves.items() if of_half}
    for name, of_half in there.items():
        yield name, totals(of_half)
    if len(there) > 1:
        yield "all", totals(outcomes)
