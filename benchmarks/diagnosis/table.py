"""The tables of the score: one row a case, and the rates of both halves, as Markdown that a terminal shows as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.diagnosis.nvidia import UNSPOKEN
from benchmarks.diagnosis.score import Outcome, Totals, by_half
from benchmarks.diagnosis.worth import HALVES, half

HEAD = (
    "case", "planted", "half", "first", "place", "line", "gain told", "gain real", "alarms on fixed", "NVIDIA first",
    "NVIDIA place",
)  # fmt: skip
RATES = (
    ("cause first", "first", "cases"),
    ("cause among three", "top", "cases"),
    ("misled: first what must not be", "misled", "cases"),
    ("alarms on fixed", "alarmed", "fixed"),
    ("line named", "lines_named", "lines"),
    ("gain within 25 % of the time", "gains_right", "gains"),
    ("… by one number for all", "guessed", "gains"),
    ("upper bounds that held", "bounds_held", "bounds"),
    ("NVIDIA: cause first", "nvidia_first", "nvidia"),
    ("NVIDIA: cause among three", "nvidia_top", "nvidia"),
)


def shown(outcomes: Sequence[Outcome], *, held_out: bool) -> list[Outcome]:
    """Return the outcomes that may be looked at: without `held_out` those that rules are tuned on."""
    return [outcome for outcome in outcomes if held_out or half(outcome.case.name) == HALVES[0]]


def case_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the table of cases."""
    yield from _table(HEAD, [_row(outcome) for outcome in outcomes])


def rate_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the table of rates: of the halves that are there, and of all where both are."""
    halves = list(by_half(outcomes))
    rows = [(rate, *(_rate(of_half, what, of) for _, of_half in halves)) for rate, what, of in RATES]
    errors = ("median error of the gain", *(_percent(of_half.error) for _, of_half in halves))
    yield from _table(("", *(name for name, _ in halves)), [*rows, errors])


def doubt_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what speaks against single cases or recordings, and what NVIDIA's rules cannot say."""
    for outcome in outcomes:
        for doubt in outcome.doubts:
            yield f"doubt: {outcome.case.name}: {doubt}"
    unspoken = sum(outcome.case.planted_rule in UNSPOKEN for outcome in outcomes)
    if unspoken:
        yield f"{unspoken} of the cases have causes that no message of NVIDIA's names: {', '.join(UNSPOKEN)}"


def _rate(of_half: Totals, what: str, of: str) -> str:
    count, total = getattr(of_half, what), getattr(of_half, of)
    return f"{count} of {total} ({100 * count / total:.0f} %)" if total else "–"


def _row(outcome: Outcome) -> tuple[str, ...]:
    return (
        outcome.case.name,
        outcome.case.planted_rule,
        half(outcome.case.name),
        outcome.first or "nothing",
        _number(outcome.place),
        {True: "yes", False: "no", None: "–"}[outcome.line],
        _percent(outcome.predicted),
        _percent(outcome.real),
        ", ".join(outcome.alarms) or "none",
        outcome.nvidia_first or "–",
        _number(outcome.nvidia_place),
    )


def _number(value: int | None) -> str:
    return "–" if value is None else str(value)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    for number, row in enumerate((head, *rows)):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"
