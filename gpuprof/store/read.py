"""session.json back into a Session, every field checked against the contract's types before it is believed."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections import Counter
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from gpuprof.errors import DamagedInput, InputError
from gpuprof.hardware.specs import LEVELS
from gpuprof.hardware.trust import TRUST
from gpuprof.model.session import (
    CONFIDENCES,
    SCHEMA_VERSION,
    SEVERITIES,
    Ceiling,
    Finding,
    KernelProfile,
    Ranked,
    RooflinePoint,
    RunTotals,
    Session,
    Throughput,
    Timeline,
)
from gpuprof.store.words import BOUNDS, LANGUAGES, ORIGINS, UNITS

_LARGEST = 1e30
"""No number of a session comes near it; larger ones would break what is computed from them."""
_LARGEST_INTEGER = 2**63
_LATEST_S = 253_402_300_799
"""The end of the year 9999."""
_SMALLEST_DRAWN = 1e-30
_DRAWN = {RooflinePoint: ("intensity", "flop_per_s", "roof_flop_per_s"), Ceiling: ("value",)}
"""Numbers with a place on logarithmic axes."""
_LARGEST_GAIN = 1 + 1e-9
"""All of the time, and what adding shares up can round."""
_GAINS = {Finding: ("gain_kernel", "gain_total"), Ranked: ("gain_total",)}
_CHOICES = {
    "level": LEVELS,
    "origin": ORIGINS,
    "ceiling": ORIGINS,
    "bound": BOUNDS,
    "severity": SEVERITIES,
    "confidence": CONFIDENCES,
    "language": LANGUAGES,
    "certificate": TRUST,
}
_CHOICES_OF: dict[type, dict[str, tuple[str, ...]]] = {Throughput: {"unit": UNITS}}
_WORDS = frozenset((*_CHOICES, "path", "kind", "basis", "reason", "family", "limiters", "rule", "weight"))
_WORD = re.compile(r"[A-Za-z0-9_. -]{1,60}")


def read_session(text: str, file: str) -> Session:
    """Read the JSON contract. Raises InputError for another version, DamagedInput for anything that breaks it."""
    try:
        data = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise DamagedInput(f"{file} is not valid JSON: {error}") from error
    if not isinstance(data, dict) or "schema_version" not in data:
        raise InputError(f"{file} is JSON, but not a gpuprof session: it has no schema_version")
    version = data["schema_version"]
    if version != SCHEMA_VERSION:
        known = isinstance(version, (int, float))
        relation = "newer than" if known and version > SCHEMA_VERSION else "older than" if known else "and not"
        raise InputError(
            f"{file} has session schema {version!r:.60}, {relation} the {SCHEMA_VERSION} that this gpuprof reads",
            "read it with the gpuprof that wrote it, or profile again",
        )
    session = _build(Session, data, file, "session")
    assert isinstance(session, Session)
    _check_references(session, file)
    _check_ranking(session, file)
    if session.run is not None:
        _check_run(session.run, session.kernels, file)
    return session


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _check_references(session: Session, file: str) -> None:
    for source in session.sources:
        if source.created_s is not None and not 0 <= source.created_s <= _LATEST_S:
            raise DamagedInput(f"{file} is damaged: created_s is {source.created_s}")
    if session.timeline is not None:
        _check_timeline(session.timeline, len(session.sources), file)
    numbers: set[int] = set()
    for kernel in session.kernels:
        if not 0 <= kernel.device < len(session.devices) or not 0 <= kernel.source < len(session.sources):
            raise DamagedInput(f"{file} is damaged: kernel {kernel.id} names a device or source that is not there")
        if kernel.id in numbers:
            raise DamagedInput(f"{file} is damaged: two kernels have the number {kernel.id}")
        if kernel.launches < 1:
            raise DamagedInput(f"{file} is damaged: kernel {kernel.id} has {kernel.launches} launches")
        numbers.add(kernel.id)


def _check_timeline(timeline: Timeline, sources: int, file: str) -> None:
    """Refuse a timeline of files that are not there."""
    named = {one.source for one in timeline.devices} | {one.source for one in timeline.steps}
    named |= {one.source for one in timeline.model_flop}
    for source in named | {one.source for one in timeline.waits}:
        if not 0 <= source < sources:
            raise DamagedInput(f"{file} is damaged: its timeline names source {source}, which is not there")


def _check_ranking(session: Session, file: str) -> None:
    """Refuse a ranking of other findings than the kernels have: each counts but those with nothing to gain."""
    ranked = Counter((one.kernel, one.rule, one.gain_total) for one in session.ranking)
    found = Counter(
        (kernel.id, finding.rule, finding.gain_total)
        for kernel in session.kernels
        for finding in kernel.findings
        if finding.severity != "info"
    )
    for kernel, rule, _ in found - ranked:
        raise DamagedInput(f"{file} is damaged: its ranking lacks the finding {rule} of kernel {kernel}")
    for kernel, rule, _ in ranked - found:
        raise DamagedInput(f"{file} is damaged: its ranking has a finding {rule} that kernel {kernel} has not")


def _check_run(run: RunTotals, kernels: tuple[KernelProfile, ...], file: str) -> None:
    """Refuse totals of a run that contradict each other, or that are less than the kernels of the session."""
    launches = sum(kernel.launches for kernel in kernels)
    shapes = run.kernels <= run.timed_shapes <= run.timed_launches
    counts = 0 <= run.main_kernels <= run.kernels and shapes and run.timed_launches <= run.launches >= launches
    if not counts or run.main_time_s > run.time_s or (run.time_s > 0) != (run.main_kernels > 0):
        raise DamagedInput(f"{file} is damaged: the totals of its run contradict each other or its kernels")


def _build(kind: Any, value: Any, file: str, where: str) -> Any:
    """Turn a JSON value into what the annotation `kind` asks for."""
    origin = get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _build_optional(get_args(kind), value, file, where)
    if origin is tuple:
        return _build_tuple(get_args(kind), value, file, where)
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _build_record(kind, value, file, where)
    if kind is type(None) and value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _fits(kind, value):
        return kind(value)
    if kind not in (int, float) and isinstance(kind, type) and isinstance(value, kind):
        return value
    raise DamagedInput(f"{file} is damaged: {where} is {value!r:.60}")


def _fits(kind: Any, number: float) -> bool:
    """Tell whether a number is what the contract has there: quantities are never negative."""
    if kind is int:
        return isinstance(number, int) and abs(number) < _LARGEST_INTEGER
    return kind is float and 0 <= number <= _LARGEST


def _check_word(kind: type, name: str, value: Any, file: str, where: str) -> None:
    """Refuse values that are none of the contract's words: presenters take them as they are."""
    words = value if isinstance(value, tuple) else (value,)
    allowed = _CHOICES_OF.get(kind, {}).get(name) or _CHOICES.get(name)
    for word in words if allowed or name in _WORDS else ():
        if isinstance(word, str) and not (word in allowed if allowed else _WORD.fullmatch(word)):
            raise DamagedInput(f"{file} is damaged: {where} is {word!r:.60}")


def _build_optional(choices: tuple[Any, ...], value: Any, file: str, where: str) -> Any:
    if value is None and type(None) in choices:
        return None
    return _build(next(choice for choice in choices if choice is not type(None)), value, file, where)


def _build_tuple(items: tuple[Any, ...], value: Any, file: str, where: str) -> Any:
    if not isinstance(value, list):
        raise DamagedInput(f"{file} is damaged: {where} is not a list")
    if not items:
        if value:
            raise DamagedInput(f"{file} is damaged: {where} should be empty in this version")
        return ()
    if len(items) == 2 and items[1] is Ellipsis:
        return tuple(_build(items[0], item, file, f"{where}[{index}]") for index, item in enumerate(value))
    if len(value) != len(items):
        raise DamagedInput(f"{file} is damaged: {where} has {len(value)} entries instead of {len(items)}")
    return tuple(_build(kind, item, file, f"{where}[{index}]") for index, (kind, item) in enumerate(zip(items, value)))  # noqa: B905


@cache
def _shape(kind: type) -> tuple[dict[str, Any], dict[str, dataclasses.Field[Any]]]:
    """Return the annotations and fields of a record type."""
    return get_type_hints(kind), {field.name: field for field in dataclasses.fields(kind)}


def _build_record(kind: type, value: Any, file: str, where: str) -> Any:
    if not isinstance(value, dict):
        raise DamagedInput(f"{file} is damaged: {where} is not an object")
    hints, fields = _shape(kind)
    arguments = {}
    for name, field in fields.items():
        if name in value:
            arguments[name] = _build(hints[name], value[name], file, f"{where}.{name}")
            _check_word(kind, name, arguments[name], file, f"{where}.{name}")
        elif field.default is dataclasses.MISSING:
            raise DamagedInput(f"{file} is damaged: {where} has no {name}")
    for name in _DRAWN.get(kind, ()):
        if not arguments[name] > _SMALLEST_DRAWN:
            raise DamagedInput(f"{file} is damaged: {where}.{name} is {arguments[name]!r}")
    for name in _GAINS.get(kind, ()):
        if (arguments[name] or 0.0) > _LARGEST_GAIN:
            raise DamagedInput(f"{file} is damaged: {where}.{name} is {arguments[name]!r}, more than all of the time")
    return kind(**arguments)
