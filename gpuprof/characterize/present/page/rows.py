"""The rows of the sheet: a value with interval, verdict, shares, where it lies in its published range, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gpuprof.characterize.present.page.parts import Bar, bar
from gpuprof.characterize.present.view import AssessedValue, Doubt, advice, own_doubts, probe_groups, variant_of
from gpuprof.characterize.present.words import (
    cause_text,
    half_width_text,
    is_outlier,
    is_worse,
    normal_word,
    outside_text,
    published_text,
    remarks,
    share,
    span,
    value_text,
    verdict_word,
)
from gpuprof.characterize.sheet.normal import Assessment

_BAND = (1 / 3, 2 / 3)
_LEAST_BAND = 0.04
"""A range of one value is drawn as wide as this share of it."""


class Strip(NamedTuple):
    """Where a value lies: percent of a strip whose middle third is the published range. `beyond`: past its end."""

    at: str
    beyond: str
    outside: bool


@dataclass(frozen=True, slots=True)
class ValueRow:
    """One value as texts. `standing` is "worse", "better" or empty; `remarks` are what is wrong, `notes` are not.

    `probe` and `title` are given where the values of a probe begin: the probe only if there are several of them.
    """

    id: str
    name: str
    probe: str
    title: str
    variant: bool
    value: str
    half_width: str
    interval: str
    verdict: str
    rejected: bool
    of_limit: Bar | None
    of_rated: str
    published: str
    source: str
    strip: Strip | None
    normal: str
    standing: str
    remarks: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outlier:
    """A value outside of its published range, for the list at the top."""

    id: str
    name: str
    value: str
    where: str
    cause: str
    source: str
    strip: Strip | None
    standing: str


def value_rows(
    entries: Iterable[AssessedValue], ids: dict[str, str], shared: Sequence[Doubt] = ()
) -> Iterator[ValueRow]:
    """Yield a row for each value that was measured; `ids` are those of the rows by the value's name.

    `shared` are doubts that are told elsewhere, once for many values.
    """
    for probe, members in probe_groups(entry for entry in entries if entry.value.value is not None):
        several = len(members) > 1
        for index, entry in enumerate(members):
            row = _row(entry, ids[entry.name], shared, variant=several)
            if not index:
                own = probe.removeprefix(f"{entry.family}/") if several else ""
                row = replace(row, probe=own, title=entry.title or "")
            yield row


def outliers(entries: Sequence[AssessedValue], ids: dict[str, str]) -> Iterator[Outlier]:
    """Yield what is to be listed of values outside of their range."""
    for entry in entries:
        yield Outlier(
            id=ids[entry.name],
            name=entry.name,
            value=value_text(entry.value),
            where=outside_text(entry.assessment),
            cause=cause_text(entry.assessment) if is_worse(entry.assessment) else "",
            source=_source(entry.assessment),
            strip=_strip(entry),
            standing=_standing(entry.assessment),
        )


def _row(entry: AssessedValue, row_id: str, shared: Sequence[Doubt], *, variant: bool) -> ValueRow:
    """Return the row of a value; `variant`: of a probe that has several, whose name stands above them."""
    value, assessment = entry.value, entry.assessment
    bounded = value.low is not None and value.high is not None
    return ValueRow(
        id=row_id,
        name=(variant_of(entry.name) or "default") if variant else entry.short,
        probe="",
        title="",
        variant=variant,
        value=value_text(value),
        half_width=half_width_text(value),
        interval=span(value.low or 0.0, value.high or 0.0, value.unit, " to ") if bounded else "",
        verdict=verdict_word(value),
        rejected=value.verdict == "rejected",
        of_limit=_of_limit(entry),
        of_rated=share(assessment.of_rated),
        published=published_text(assessment),
        source=_source(assessment),
        strip=_strip(entry) if value.usable else None,
        normal=normal_word(assessment),
        standing=_standing(assessment),
        remarks=(*(text for _, text in remarks(value)), *own_doubts(entry, shared)),
        notes=tuple(advice(entry)),
    )


def _source(assessment: Assessment) -> str:
    return assessment.expected.source if assessment.expected is not None else ""


def _standing(assessment: Assessment) -> str:
    return ("worse" if is_worse(assessment) else "better") if is_outlier(assessment) else ""


def _of_limit(entry: AssessedValue) -> Bar | None:
    """Return the share of the limit; without the bar's length for what is no result."""
    fraction = entry.assessment.of_limit
    if fraction is None:
        return None
    return bar(fraction) if entry.value.usable else Bar(share(fraction), None)


def _strip(entry: AssessedValue) -> Strip | None:
    """Place a value on a strip that is three times as wide as its range."""
    published, value = entry.assessment.expected, entry.value.value
    if published is None or value is None:
        return None
    wide = max(published.high - published.low, _LEAST_BAND * abs(published.high)) or 1.0
    middle = (published.low + published.high) / 2
    part = 0.5 + (value - middle) / wide * (_BAND[1] - _BAND[0])
    beyond = "below" if part < 0 else "above" if part > 1 else ""
    return Strip(f"{100 * min(1.0, max(0.0, part)):.1f}", beyond, is_outlier(entry.assessment))
