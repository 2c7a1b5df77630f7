"""What the benchmark prints: totals before and after, fixes, and every disagreement with the expert's reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from benchmarks.verdicts.expected import spans
from benchmarks.verdicts.judge import Judgement
from benchmarks.verdicts.pairs import Outcome
from benchmarks.verdicts.told import Told
from benchmarks.verdicts.totals import AIMS, FIRST, LOOSENESS, MISLEADING, SILENT, THREE, Aim, Score, number_of

Row = tuple[str, ...]
Rows = tuple[Row, Sequence[Row]]
"""The head and the rows of a table."""

_COUNTED = {FIRST: "right", THREE: "among_three", SILENT: "silent", MISLEADING: "misleads"}


def text(before: Score, after: Score) -> Iterator[str]:
    """Yield the report as text for a terminal."""
    for head, rows in (totals_table(before, after), fixes_table(before, after), kernels_table(before, after)):
        yield from _columns(head, rows)
        yield ""
    yield from disagreements(after)


def markdown(before: Score, after: Score) -> Iterator[str]:
    """Yield the report as Markdown."""
    for title, table in (
        ("Totals", totals_table(before, after)),
        ("Fixes", fixes_table(before, after)),
        ("Kernels", kernels_table(before, after)),
    ):
        head, rows = table
        yield from (f"## {title}", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head))
        yield from (f"| {' | '.join(row)} |" for row in rows)
        yield ""
    yield from ("## Where expert and diagnosis differ", "")
    yield from [f"- {item}" for item in _short_disagreements(after)] or ["Nowhere."]


def totals_table(before: Score, after: Score) -> Rows:
    """Return the totals with their aims."""
    rows: list[Row] = [(aim.name, _number(aim, before), _number(aim, after), _aim(aim)) for aim in AIMS]
    for name, told in (("fix proposed first", "is_first"), ("fix proposed", "told")):
        counts = [sum(bool(getattr(item, told)) for item in score.fixes) for score in (before, after)]
        rows.append((name, *(f"{count} of {len(after.fixes)}" for count in counts), "–"))
    ratios = [[item.ratio for item in score.fixes if item.ratio is not None] for score in (before, after)]
    medians = (f"{median(known):.2f}" if known else "–" for known in ratios)
    return ("", "0.1.0", "now", "aim"), [*rows, ("median of all promised gains over gain", *medians, "–")]


def fixes_table(before: Score, after: Score) -> Rows:
    """Return what was told of each fix beside what it gained."""
    rows: list[Row] = [
        (
            f"{_short(new.pair.report)}: {new.pair.kernel} → {new.pair.after}",
            ", ".join(new.pair.fixes),
            _percent(new.pair.gain),
            _told_gain(old),
            _told_gain(new),
        )
        for old, new in zip(before.fixes, after.fixes, strict=True)
    ]
    return ("fix", "of", "gained", "promised by 0.1.0", "promised now"), rows


def kernels_table(before: Score, after: Score) -> Rows:
    """Return what is expected and told of each kernel."""
    rows: list[Row] = [
        (
            _short(new.expected.report),
            _launches(new.expected.launches),
            new.expected.kernel,
            " or ".join(new.expected.causes) or "the report cannot tell",
            _first(old),
            _first(new),
            _mark(new),
        )
        for old, new in zip(before.judgements, after.judgements, strict=True)
    ]
    return ("report", "launches", "kernel", "expected", "0.1.0 said first", "said first now", "judged"), rows


def disagreements(score: Score) -> Iterator[str]:
    """Yield every kernel that is not told as expected, with the state and the reason that the table gives."""
    for item in score.judgements:
        if not item.right or item.misleads:
            yield f"≠ {item.expected.where}"
            yield f"  {_mark(item)}: {_first(item)}; expected {' or '.join(item.expected.causes) or 'no claim'}"
            yield f"  ({item.expected.certainty}) {item.expected.state}. {item.expected.reason}"
    for outcome in score.broken:
        yield f"≠ {outcome.pair.report}: {outcome.pair.kernel} gained {_percent(outcome.pair.gain)}, more than it can"
    for name in score.set_up_headlines:
        yield f"≠ {name}: the headline is of a kernel that only makes data"
    for name in score.guessed_headlines:
        yield f"≠ {name}: the headline is a guess"


def _short_disagreements(score: Score) -> Iterator[str]:
    for item in score.judgements:
        if not item.right or item.misleads:
            expected = " or ".join(f"`{cause}`" for cause in item.expected.causes) or "no claim"
            where = f"{_short(item.expected.report)}, {_launches(item.expected.launches)}, {item.expected.kernel}"
            yield f"{where}: {_mark(item)}, {_first(item)}; expected {expected}. {item.expected.state}."


_FEW = 6
"""Launches that are written one by one."""


def _launches(numbers: tuple[int, ...]) -> str:
    return spans(numbers) if len(numbers) <= _FEW else f"{len(numbers)} from {numbers[0]} on"


def _short(report: str) -> str:
    return report.partition(".ncu-rep")[0].partition(".nsight")[0]


def _number(aim: Aim, score: Score) -> str:
    if aim.name in _COUNTED:
        count = score.count(_COUNTED[aim.name])
        return f"{count} of {len(score.judgements)} ({100 * count / max(1, len(score.judgements)):.1f} %)"
    number = number_of(aim.name, score)
    if number is None:
        return "–"
    bounds = sum(item.looseness is not None for item in score.fixes)
    return f"{number:.2f} ({bounds} bounds)" if aim.name == LOOSENESS else f"{number:.0f}"


def _aim(aim: Aim) -> str:
    sign = "≥" if aim.at_least else "≤"
    if aim.value == 0:
        return "none"
    return f"{sign} {aim.value:g}" if aim.name == LOOSENESS else f"{sign} {_percent(aim.value)}"


def _first(item: Judgement) -> str:
    told = item.first
    if told is None:
        return "nothing" if not item.set_up else "nothing (set-up)"
    return f"{told.rule} {_gain(told)}".strip() + (" (set-up)" if item.set_up else "")


def _gain(told: Told) -> str:
    if told.gain is None or told.severity == "info":
        return told.severity
    return f"{'≤' if told.bound else 'by'} {_percent(told.gain)}" + (", a guess" if told.confidence == "guess" else "")


def _told_gain(outcome: Outcome) -> str:
    if outcome.told is None:
        return "–"
    gain = _percent(outcome.told.gain) if outcome.told.gain is not None else "no gain"
    word = "at most " if outcome.told.bound and outcome.told.gain is not None else ""
    return f"{outcome.told.rule}: {word}{gain}" + (" (broken)" if outcome.is_broken else "")


def _mark(item: Judgement) -> str:
    marks = [
        "right" if item.right else "among three" if item.among_three else "wrong",
        *([f"misleads: {', '.join(item.misled_by)}"] if item.misled_by else []),
        *(["silent"] if item.silent else []),
    ]
    return ", ".join(marks)


def _percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def _columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    for row in (head, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
