"""A contract without numbers that JSON cannot represent: what is not finite becomes missing, and a note says so."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeVar, get_args, get_type_hints

from msgspec import Struct, structs

from gpuprof.comparison.contract import Comparison
from gpuprof.review.contract import Review

Noted = TypeVar("Noted", bound=Comparison | Review)
Record = TypeVar("Record", bound=Struct)
_NAMED = 5
"""Places that the note names."""


class _Unfit(Exception):
    """A record has to have a number and has none: whatever holds the record is without it."""


def finite(contract: Noted) -> Noted:
    """Return a comparison or a review with null for each number that is not finite.

    Where a field cannot be null, its record is: it is null in what holds it, or left out of its list.
    """
    places = list(_places(contract, ""))
    if not places:
        return contract
    made = _without(contract)
    named = ", ".join(places[:_NAMED])
    more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    note = f"Not finite, and therefore missing: {named}{more}."
    return structs.replace(made, notes=(*made.notes, note))


def _places(value: object, where: str) -> Iterator[str]:
    """Yield where numbers are that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        yield where
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from _places(getattr(value, name), f"{where}.{name}" if where else name)
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            yield from _places(item, f"{where}[{index}]")


def _without(record: Record) -> Record:
    changes: dict[str, Any] = {}
    for name, kind in get_type_hints(type(record), include_extras=False).items():
        value = getattr(record, name)
        try:
            made = _finite_value(value)
        except _Unfit:
            if type(None) not in get_args(kind):
                raise
            made = None
        if made is not value:
            changes[name] = made
    return structs.replace(record, **changes) if changes else record


def _finite_value(value: object) -> object:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _Unfit
        return value
    if isinstance(value, Struct):
        return _without(value)
    if not isinstance(value, tuple):
        return value
    made = tuple(_finite_items(value))
    return made if made != value else value


def _finite_items(items: tuple[object, ...]) -> Iterator[object]:
    for item in items:
        try:
            yield _finite_value(item)
        except _Unfit:
            continue
