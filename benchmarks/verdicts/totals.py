"""The totals of a judgement, and the aims that they are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.verdicts.expected import SET_UP, Expected, Table
from benchmarks.verdicts.judge import Judgement, judged
from benchmarks.verdicts.pairs import Outcome, median_looseness, outcomes
from benchmarks.verdicts.told import Headline, ReportTold


@dataclass(frozen=True, slots=True)
class Score:
    """What is told of all reports that are there: by kernel, by fix, and by headline."""

    judgements: tuple[Judgement, ...]
    fixes: tuple[Outcome, ...]
    set_up_headlines: tuple[str, ...]
    guessed_headlines: tuple[str, ...]

    def count(self, what: str) -> int:
        """Count the judgements of which that holds."""
        return sum(bool(getattr(item, what)) for item in self.judgements)

    def share(self, what: str) -> float:
        """Return the share of judgements of which that holds."""
        return self.count(what) / len(self.judgements) if self.judgements else 0.0

    @property
    def broken(self) -> tuple[Outcome, ...]:
        """The fixes that gained more than was told as possible."""
        return tuple(item for item in self.fixes if item.is_broken)


@dataclass(frozen=True, slots=True)
class Aim:
    """A number that the diagnosis is to reach; `reached` where it does, so that losing it again is an error."""

    name: str
    value: float
    at_least: bool
    reached: bool

    def holds(self, score: Score) -> bool:
        """Tell whether it is reached."""
        number = number_of(self.name, score)
        if number is None:
            return True
        return number >= self.value if self.at_least else number <= self.value


FIRST, THREE, MISLEADING, SILENT = "cause first", "cause among three", "misleading", "silent or generic"
BROKEN, LOOSENESS, SET_UP_HEADLINE, GUESS = (
    "bounds broken",
    "median bound over gain",
    "headline of a set-up kernel",
    "headline that is a guess",
)
AIMS = (
    Aim(FIRST, 0.90, at_least=True, reached=True),
    Aim(THREE, 0.97, at_least=True, reached=True),
    Aim(MISLEADING, 0, at_least=False, reached=True),
    Aim(SILENT, 0.03, at_least=False, reached=True),
    Aim(BROKEN, 0, at_least=False, reached=True),
    Aim(LOOSENESS, 1.4, at_least=False, reached=True),
    Aim(SET_UP_HEADLINE, 0, at_least=False, reached=True),
    Aim(GUESS, 0, at_least=False, reached=True),
)


def scored(table: Table, told: Mapping[str, ReportTold]) -> Score:
    """Judge what is told of the reports that are there."""
    headlines = {name: report.headline for name, report in told.items() if report.headline is not None}
    return Score(
        judgements=tuple(judged(item, told[item.report]) for item in table.kernels if item.report in told),
        fixes=tuple(outcomes(table.pairs, told)),
        set_up_headlines=tuple(
            name for name, headline in headlines.items() if _is_of_set_up(headline, name, table.kernels)
        ),
        guessed_headlines=tuple(name for name, headline in headlines.items() if headline.is_guess),
    )


def lost(score: Score) -> list[Aim]:
    """Return the aims that were reached and are not any more."""
    return [aim for aim in AIMS if aim.reached and not aim.holds(score)]


def number_of(name: str, score: Score) -> float | None:
    """Return the number that an aim is about; None where no fix tells it."""
    shares = {FIRST: "right", THREE: "among_three", SILENT: "silent"}
    if name in shares:
        return score.share(shares[name])
    if name == LOOSENESS:
        return median_looseness(score.fixes)
    counts = {
        MISLEADING: score.count("misleads"),
        BROKEN: len(score.broken),
        SET_UP_HEADLINE: len(score.set_up_headlines),
        GUESS: len(score.guessed_headlines),
    }
    return float(counts[name])


def _is_of_set_up(headline: Headline, report: str, kernels: Sequence[Expected]) -> bool:
    """Tell whether a headline is of a kernel that only makes data, although kernels that work were profiled too."""
    of_report = [item for item in kernels if item.report == report]
    of_headline = next((item for item in of_report if headline.launch in item.launches), None)
    if of_headline is None or SET_UP not in of_headline.causes[:1]:
        return False
    return any(SET_UP not in item.causes for item in of_report)
