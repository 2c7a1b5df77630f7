"""The whole sheet as one value: the answer, outliers, ceilings, families with curves and rows, evidence, conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuprof._version import __version__
from gpuprof.characterize.present.page.curves import CurveFigure, figures
from gpuprof.characterize.present.page.evidence import MeasuredEvidenceRow, evidence_rows
from gpuprof.characterize.present.page.parts import Bar, LabelledText, bar
from gpuprof.characterize.present.page.rates import RatesOfType, tensor_rates
from gpuprof.characterize.present.page.rows import Outlier, ValueRow, outliers, value_rows
from gpuprof.characterize.present.view import (
    AssessedValue,
    TopRate,
    UnmeasuredGroup,
    View,
    absent_families,
    cause_sentence,
    ceilings,
    count_sentence,
    doubts,
    family_title,
    normal_sentence,
    shared_doubts,
    unmeasured,
)
from gpuprof.characterize.present.words import VERDICTS, condition_facts, device_text, share
from gpuprof.views.document import anchor
from gpuprof.words.profile_values import count_text

_OUTLIERS_SHOWN = 20
_OPTIONAL = ("half_width", "of_limit", "of_rated", "published", "normal")
_HEADER = ("GPU", "Measured", "Driver")


@dataclass(frozen=True, slots=True)
class CeilingRow:
    """What a profile of this GPU takes as a measured ceiling: the highest value of a level or path."""

    name: str
    rate: str
    of_limit: Bar | None
    of_rated: str
    id: str
    quantity: str
    verdict: str


@dataclass(frozen=True, slots=True)
class Family:
    """A family of probes: its figures, its tensor rates if it has any, its values, and what could not be measured.

    `has` names the columns in which any of its values has something.
    """

    id: str
    title: str
    figures: tuple[CurveFigure, ...]
    rates: tuple[RatesOfType, ...]
    rows: tuple[ValueRow, ...]
    has: frozenset[str]
    unmeasured: tuple[UnmeasuredGroup, ...]
    evidence: tuple[MeasuredEvidenceRow, ...]


@dataclass(frozen=True, slots=True)
class MeasuredPage:
    """Everything that the template writes down."""

    title: str
    sentence: str
    cause: str
    counts: str
    header: tuple[LabelledText, ...]
    conditions: tuple[LabelledText, ...]
    outliers: tuple[Outlier, ...]
    outliers_left_out: int
    ceilings: tuple[CeilingRow, ...]
    families: tuple[Family, ...]
    verdicts: tuple[LabelledText, ...]
    doubts: tuple[str, ...]
    absent: tuple[str, ...]
    version: str


def build_page(view: View) -> MeasuredPage:
    """Return the sheet of a measured file."""
    ids = {entry.name: anchor(index, entry.name[:60]) for index, entry in enumerate(view.entries)}
    outside = view.outliers()
    conditions = _conditions(view)
    return MeasuredPage(
        title=f"{view.measured.device.name}, measured",
        sentence=normal_sentence(view),
        cause=cause_sentence(view),
        counts=count_sentence(view),
        header=tuple(fact for fact in conditions if fact.name in _HEADER),
        conditions=conditions,
        outliers=tuple(outliers(outside[:_OUTLIERS_SHOWN], ids)),
        outliers_left_out=max(0, len(outside) - _OUTLIERS_SHOWN),
        ceilings=tuple(_ceiling(top, ids[top.entry.name]) for top in ceilings(view)),
        families=_families(view, ids),
        verdicts=_verdicts(view),
        doubts=tuple(f"{count_text(doubt.number, 'value')}: {doubt.why}" for doubt in doubts(view.entries)),
        absent=tuple(family_title(name) for name in absent_families(view)),
        version=__version__,
    )


def _conditions(view: View) -> tuple[LabelledText, ...]:
    facts = [("GPU", device_text(view.measured.device, view.measured.spec)), *condition_facts(view.measured.conditions)]
    return tuple(LabelledText(name[:1].upper() + name[1:], text) for name, text in facts)


def _verdicts(view: View) -> tuple[LabelledText, ...]:
    present = {entry.value.verdict for entry in view.entries}
    return tuple(LabelledText(word.replace("_", " "), VERDICTS[word]) for word in VERDICTS if word in present)


def _families(view: View, ids: dict[str, str]) -> tuple[Family, ...]:
    drawn = figures(view.measured, view.titles)
    of_values = dict(view.families())
    return tuple(
        _family(name, of_values.get(name, ()), drawn.get(name, ()), view, ids) for name in {**of_values, **drawn}
    )


def _family(
    name: str, entries: Sequence[AssessedValue], drawn: tuple[CurveFigure, ...], view: View, ids: dict[str, str]
) -> Family:
    rows = tuple(value_rows(entries, ids, shared_doubts(view.entries)))
    return Family(
        id=anchor("family", name),
        title=family_title(name),
        figures=drawn,
        rates=tensor_rates(entries, view.measured.device.sm_count),
        rows=rows,
        has=frozenset(column for column in _OPTIONAL if any(getattr(row, column) for row in rows)),
        unmeasured=unmeasured(entries),
        evidence=tuple(evidence_rows(entries, ids)),
    )


def _ceiling(top: TopRate, row_id: str) -> CeilingRow:
    assessment = top.entry.assessment
    return CeilingRow(
        name=top.name,
        rate=top.rate,
        of_limit=bar(assessment.of_limit) if assessment.of_limit is not None else None,
        of_rated=share(assessment.of_rated),
        id=row_id,
        quantity=top.entry.name,
        verdict=top.entry.value.verdict,
    )
