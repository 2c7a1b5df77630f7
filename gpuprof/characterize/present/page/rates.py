"""Tensor rates by data type and instruction family: each a bar, with the rating and the formula as marks on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpuprof.characterize.present.page.parts import percent_number
from gpuprof.characterize.present.view import AssessedValue
from gpuprof.characterize.present.words import amount, share, verdict_word
from gpuprof.characterize.sheet.ceilings import per_second
from gpuprof.hardware.specs import INSTRUCTIONS, TENSOR_PATHS, ComputeKey
from gpuprof.model.path_names import work_unit

_DATA = ("zeros", "random")
_EMULATED = "emulated"


@dataclass(frozen=True, slots=True)
class TensorRate:
    """One bar. Lengths are percent of the longest; None: not known. `how` is the data and the regime."""

    instruction: str
    how: str
    text: str
    bar: str
    limit: str | None
    rated: str | None
    of_limit: str
    of_rated: str
    note: str


class RatesOfType(NamedTuple):
    """A data type with its accumulator, and its bars."""

    name: str
    rates: tuple[TensorRate, ...]


@dataclass(frozen=True, slots=True)
class _Case:
    entry: AssessedValue
    key: ComputeKey
    rate: float
    how: str


def tensor_rates(entries: Iterable[AssessedValue], sm_count: int) -> tuple[RatesOfType, ...]:
    """Return the highest rate of each data type, accumulator, instruction family, data and regime."""
    cases = list(_best(_cases(entries, sm_count)))
    longest = max((max(_marks(case)) for case in cases), default=0.0)
    if not longest:
        return ()
    kinds = dict.fromkeys(case.key[:2] for case in sorted(cases, key=_order))
    return tuple(
        RatesOfType(_kind_name(kind), tuple(_rate(case, longest) for case in _of_kind(cases, kind))) for kind in kinds
    )


def _cases(entries: Iterable[AssessedValue], sm_count: int) -> Iterator[_Case]:
    for entry in entries:
        key, rate = _key(entry), per_second(entry.value, sm_count)
        if key is not None and rate is not None and entry.value.usable:
            yield _Case(entry=entry, key=key, rate=rate, how=_how(entry))


def _key(entry: AssessedValue) -> ComputeKey | None:
    """Return the tensor path that a value is a rate of: what it is a ceiling of, or what bounds it."""
    name = entry.value.ceiling or entry.value.evidence.limit_name or ""
    path, *rest = name.split(" ")
    return ComputeKey(path, *rest[:2]) if path in TENSOR_PATHS else None


def _how(entry: AssessedValue) -> str:
    """Write which data was multiplied and in which regime, as far as that is known."""
    settings = {*entry.name.replace(",", " ").split(), *entry.value.configuration.values()}
    parts = [data for data in _DATA if data in settings or f"data={data}" in settings]
    parts += ["sparse"] if "sparse" in entry.name else []
    parts += [entry.value.regime.replace("_", " ")] if entry.value.regime else []
    return ", ".join(parts)


def _best(cases: Iterable[_Case]) -> Iterator[_Case]:
    """Yield the fastest of those that differ in shape or launch only."""
    fastest: dict[tuple[ComputeKey, str], _Case] = {}
    for case in cases:
        kind = (case.key, case.how)
        if kind not in fastest or case.rate > fastest[kind].rate:
            fastest[kind] = case
    yield from fastest.values()


def _order(case: _Case) -> tuple[int, str]:
    return TENSOR_PATHS.index(case.key.path), case.key.accumulator or ""


def _of_kind(cases: Sequence[_Case], kind: tuple[str | None, ...]) -> list[_Case]:
    return sorted(
        (case for case in cases if case.key[:2] == kind), key=lambda case: _family_order(case.key.instruction)
    )


def _family_order(instruction: str | None) -> int:
    return INSTRUCTIONS.index(instruction) if instruction in INSTRUCTIONS else len(INSTRUCTIONS)


def _kind_name(kind: tuple[str | None, ...]) -> str:
    name = (kind[0] or "").removeprefix("tensor.").upper()
    return f"{name} into {kind[1].upper()}" if kind[1] else name


def _marks(case: _Case) -> tuple[float, ...]:
    """Return the rate, its limit and its rating, as far as they are known."""
    assessment = case.entry.assessment
    return (case.rate, *(case.rate / ratio for ratio in (assessment.of_limit, assessment.of_rated) if ratio))


def _rate(case: _Case, longest: float) -> TensorRate:
    assessment, value = case.entry.assessment, case.entry.value
    notes = [_EMULATED] if (value.evidence.gate or "").startswith(_EMULATED) else []
    notes += [verdict_word(value)] if value.verdict != "verified" else []
    return TensorRate(
        instruction=case.key.instruction or "",
        how=case.how,
        text=amount(case.rate, work_unit(case.key.path)),
        bar=percent_number(case.rate / longest),
        limit=percent_number(case.rate / assessment.of_limit / longest) if assessment.of_limit else None,
        rated=percent_number(case.rate / assessment.of_rated / longest) if assessment.of_rated else None,
        of_limit=share(assessment.of_limit),
        of_rated=share(assessment.of_rated),
        note=", ".join(notes),
    )
