"""The counter sets that `--set` names, as data: which questions each answers, and what of ncu's own it has."""

from __future__ import annotations

from dataclasses import dataclass

from gpuprof.collect.choices import CounterSetName
from gpuprof.collect.questions import QUESTIONS, Question


@dataclass(frozen=True, slots=True)
class CounterSet:
    """What is asked of kernels beside their limits; `sections` and `stock_set` are of ncu's own.

    `asks_all`: every question is asked of every planned kernel, not only those that its limits leave open.
    """

    name: CounterSetName
    questions: tuple[Question, ...]
    asks_all: bool = True
    sections: tuple[str, ...] = ()
    stock_set: str | None = None

    @property
    def in_stages(self) -> bool:
        """Return whether one run collects the limits and a second one the answers."""
        return self.stock_set is None


_ROWS = (
    # Rooflines of all paths at three levels, and speed of light.
    CounterSet("roofline", ("work", "tensor-work")),
    # The same with stalls by line and the evidence of every rule.
    CounterSet("diagnose", QUESTIONS, asks_all=False),
    # The same with samples and counters of every source line, and all that ncu's full set has.
    CounterSet("full", QUESTIONS, sections=("SourceCounters",), stock_set="full"),
)
SETS: dict[str, CounterSet] = {row.name: row for row in _ROWS}
TIMES: CounterSetName = "times"
"""No counters: kernels are only timed, by a survey."""
SET_NAMES = (TIMES, *SETS)
DEFAULT: CounterSetName = "diagnose"
