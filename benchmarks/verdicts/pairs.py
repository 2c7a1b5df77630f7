"""Gains that were told against those that the fix brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.verdicts.expected import Pair
from benchmarks.verdicts.told import ReportTold, Told

WITHIN = 0.01
"""A bound is broken where the gain is above it by more than repeated runs differ."""
ENOUGH = 0.1
"""How close a bound is to a gain is only asked of gains from here on: to a small one every bound is far."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was told of a fix: the first finding whose fix it is, None without one, and whether it came first."""

    pair: Pair
    told: Told | None
    is_first: bool

    @property
    def is_broken(self) -> bool:
        """Tell whether more was gained than was told as possible."""
        told = self.told
        return told is not None and told.gain is not None and told.bound and self.pair.gain > told.gain + WITHIN

    @property
    def ratio(self) -> float | None:
        """How many times the gain the told one is, whatever it holds for; None for a small gain."""
        told = self.told
        return told.gain / self.pair.gain if told is not None and told.gain and self.pair.gain >= ENOUGH else None

    @property
    def looseness(self) -> float | None:
        """How many times the gain the bound is; None for what is no bound, or a small gain."""
        return self.ratio if self.told is not None and self.told.bound else None


def outcomes(pairs: Sequence[Pair], told: Mapping[str, ReportTold]) -> list[Outcome]:
    """Return what was told of each fix, as far as its report is there; pairs without a change fix nothing."""
    return [_outcome(pair, told[pair.report]) for pair in pairs if pair.fixes and pair.report in told]


def median_looseness(items: Sequence[Outcome]) -> float | None:
    """Return the median over all fixes with a bound."""
    known = [item.looseness for item in items if item.looseness is not None]
    return median(known) if known else None


def _outcome(pair: Pair, report: ReportTold) -> Outcome:
    findings = report.launches[pair.launch]
    told = next((finding for finding in findings if finding.rule in pair.fixes), None)
    return Outcome(pair, told, bool(findings) and findings[0] is told)
