"""Why each value may be believed: how it was taken, which code ran, how it scaled, its clock and its limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuprof.characterize.present.view import AssessedValue
from gpuprof.characterize.present.words import allocations_text, amount, regime_text, verdict_word
from gpuprof.characterize.sheet.measured import MeasuredEvidence, MeasuredValue
from gpuprof.units import format_percent, significant

_SHA_LENGTH = 12


class MeasuredEvidenceRow(NamedTuple):
    """The cells of one value, each of several lines."""

    id: str
    name: str
    cells: tuple[tuple[str, ...], ...]


def evidence_rows(entries: Iterable[AssessedValue], ids: dict[str, str]) -> Iterator[MeasuredEvidenceRow]:
    """Yield a row for each value that was measured."""
    for entry in entries:
        if entry.value.value is not None:
            value = entry.value
            cells = (_taken(value), _code(value.evidence), _timing(value.evidence), _limit(value), _verdict(value))
            yield MeasuredEvidenceRow(ids[entry.name], entry.short, tuple(tuple(cell) for cell in cells))


def _taken(value: MeasuredValue) -> Iterator[str]:
    if value.method:
        yield value.method
    if value.configuration:
        yield ", ".join(f"{name} {setting}" for name, setting in value.configuration.items())
    if value.samples is not None:
        where = f" on {allocations_text(value)}" if value.allocations is not None else ""
        yield f"{value.statistic or 'statistic not recorded'} of {value.samples} samples{where}"
    regime = regime_text(value)
    if regime:
        yield regime


def _code(evidence: MeasuredEvidence) -> Iterator[str]:
    yield evidence.gate or "not checked"
    if evidence.opcodes:
        yield ", ".join(f"{number} {opcode}" for opcode, number in evidence.opcodes.items())
    if evidence.cubin_sha256:
        yield f"cubin {evidence.cubin_sha256[:_SHA_LENGTH]}"


def _timing(evidence: MeasuredEvidence) -> Iterator[str]:
    if evidence.scaling_residual is not None:
        yield f"{format_percent(evidence.scaling_residual)} off a straight line"
    if evidence.clock_hz is not None:
        nvml = f", by NVML {amount(evidence.nvml_clock_hz, 'Hz', 4)}" if evidence.nvml_clock_hz is not None else ""
        yield f"SM clock {amount(evidence.clock_hz, 'Hz', 4)}{nvml}"
    for name, ratio in evidence.counters.items():
        yield f"ncu counts {significant(ratio, 4)} × the {name}"


def _limit(value: MeasuredValue) -> Iterator[str]:
    evidence = value.evidence
    if evidence.limit is None:
        yield "no limit known" if evidence.limit_name else "none"
        return
    of_limit = f", the value is {format_percent(value.of_limit)} of it" if value.of_limit is not None else ""
    yield f"{evidence.limit_name or 'limit'}: {amount(evidence.limit, value.unit, 4)}{of_limit}"
    if evidence.limit_source:
        yield evidence.limit_source
    if not evidence.limit_confirmed:
        yield "not confirmed: a value above it is doubtful, not wrong"


def _verdict(value: MeasuredValue) -> Iterator[str]:
    yield verdict_word(value)
    yield from value.reasons
