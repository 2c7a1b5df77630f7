"""Which fields of a session can hold what is private, by the types of its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Literal, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from gpuprof.model.session import (
    Ceiling,
    CodeLine,
    Denominator,
    Excerpt,
    Exclusion,
    KernelProfile,
    LineWork,
    Location,
    RunVerdict,
    Source,
    StepTimes,
    Uncounted,
    Utilisation,
)

FILE_FIELDS = frozenset({"file"})
"""Fields that hold the path of a file."""
COMMAND_FIELDS = frozenset({"command", "warnings"})
"""Fields that hold command lines."""
OWNED: Mapping[type, frozenset[str]] = {
    Source: frozenset({"file", "command", "warnings"}),
    Ceiling: frozenset({"source"}),
    Denominator: frozenset({"specified_by", "reason"}),
    KernelProfile: frozenset({"name", "demangled", "label", "ranges"}),
    Excerpt: frozenset({"file"}),
    CodeLine: frozenset({"text"}),
    LineWork: frozenset({"file", "text"}),
    Location: frozenset({"file"}),
    StepTimes: frozenset({"name"}),
    Exclusion: frozenset({"patterns"}),
    RunVerdict: frozenset({"sentence", "notes", "command"}),
    Uncounted: frozenset({"name"}),
    Utilisation: frozenset({"source"}),
}
"""The texts that users have written: they lose user names. The other ones are gpuprof's, ncu's or NVIDIA's."""


def fields_to_search(record: Struct, *, owners: bool) -> tuple[str, ...]:
    """Return the fields of a record that can hold what is private: folders, and the names of `owners` if there are any.

    A record without a slash, as most have none, is told by its JSON, much faster than by a look into each field.
    """
    kind = type(record)
    if _has_commands(kind) or _has_slash(record):
        return _fields_with_text(kind)
    return _fields_of_users(kind) if owners else ()


def is_plain(items: tuple[object, ...], *, owners: bool) -> bool:
    """Tell whether a list of records is free of what is private, by their JSON, too; that of kernels would be long."""
    kind = type(items[0]) if items else object
    if not issubclass(kind, Struct) or kind is KernelProfile or _has_commands(kind):
        return False
    if owners and _fields_of_users(kind):
        return False
    return not _has_slash(items)


def _has_slash(value: Struct | tuple[object, ...]) -> bool:
    """Tell whether a text of records has a slash or backslash, which in JSON are one and two."""
    try:
        text = msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return True
    return b"/" in text or b"\\\\" in text


@cache
def _has_commands(kind: type[Struct]) -> bool:
    """Tell whether a record, or one below it, has a command line, in which more than folders is private."""
    return any(field.name in COMMAND_FIELDS for record in _records(kind) for field in structs.fields(record))


@cache
def _fields_of_users(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields that can hold texts that users have written, at any depth."""
    owned = OWNED.get(kind, frozenset())
    return tuple(
        field.name
        for field in structs.fields(kind)
        if field.name in owned or any(record in OWNED for record in _records(field.type))
    )


@cache
def _fields_with_text(kind: type[Struct]) -> tuple[str, ...]:
    """Return the fields that can hold a text, at any depth."""
    return tuple(field.name for field in structs.fields(kind) if _can_hold_text(field.type))


def _can_hold_text(kind: Any) -> bool:
    """Tell whether a value of that type can have a text of its own: the words of a `Literal` are gpuprof's."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return issubclass(kind, (str, Struct))
    return get_origin(kind) is not Literal and any(map(_can_hold_text, get_args(kind)))


def _records(kind: Any) -> Iterator[type[Struct]]:
    """Yield the types of records that a value of that type can hold, itself among them; none holds its own kind."""
    if isinstance(kind, type) and get_origin(kind) is None:
        if issubclass(kind, Struct):
            yield kind
            for field in structs.fields(kind):
                yield from _records(field.type)
    elif get_origin(kind) is not Literal:
        for part in get_args(kind):
            yield from _records(part)
