"""The tables of the score: one row a case, and the rates of both halves, as Markdown that a terminal shows as well."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.diagnosis.nvidia import UNSPOKEN
from benchmarks.diagnosis.score import Outcome, Totals, by_half, half

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
    ("gain is an upper bound", "bounds_held", "gains"),
    ("NVIDIA: cause first", "nvidia_first", "nvidia"),
    ("NVIDIA: cause among three", "nvidia_top", "nvidia"),
)


def case_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the table of cases."""
    yield from _table(HEAD, [_row(one) for one in outcomes])


def rate_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the table of rates."""
    halves = list(by_half(outcomes))
    rows = [(words, *(_rate(one, what, of) for _, one in halves)) for words, what, of in RATES]
    errors = ("median error of the gain", *(_percent(one.error) for _, one in halves))
    yield from _table(("", *(name for name, _ in halves)), [*rows, errors])


def doubt_rows(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what speaks against single cases or recordings, and what NVIDIA's rules cannot say."""
    for one in outcomes:
        for doubt in one.doubts:
            yield f"doubt: {one.case.name}: {doubt}"
    unspoken = sum(one.case.planted_rule in UNSPOKEN for one in outcomes)
    if unspoken:
        yield f"{unspoken} of the cases have causes that no message of NVIDIA's names: {', '.join(UNSPOKEN)}"


def _rate(one: Totals, what: str, of: str) -> str:
    count, total = getattr(one, what), getattr(one, of)
    return f"{count} of {total} ({100 * count / total:.0f} %)" if total else "–"


def _row(one: Outcome) -> tuple[str, ...]:
    return (
        one.case.name,
        one.case.planted_rule,
        half(one.case.name),
        one.first or "nothing",
        _number(one.place),
        {True: "yes", False: "no", None: "–"}[one.line],
        _percent(one.predicted),
        _percent(one.real),
        ", ".join(one.alarms) or "none",
        one.nvidia_first or "–",
        _number(one.nvidia_place),
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
