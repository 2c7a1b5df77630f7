"""A session as the JSON contract, version 1: one line per kernel, so that it can be read, compared and streamed."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator
from functools import cache

from gpuprof.model.session import Session

_STEERING = re.compile("[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")
"""What could steer or fool a terminal: JSON has an escape for it."""

_ONE_LINE_EACH = ("sources", "devices", "ceilings", "kernels", "ranking")


def session_lines(session: Session) -> Iterator[str]:
    """Yield the JSON document line by line, without line ends."""
    yield "{"
    names = _field_names(Session)
    for name in names:
        comma = "," if name != names[-1] else ""
        value = getattr(session, name)
        if name not in _ONE_LINE_EACH or not value:
            yield f"  {json.dumps(name)}: {dumped(value)}{comma}"
            continue
        yield f"  {json.dumps(name)}: ["
        for index, item in enumerate(value):
            yield f"    {dumped(item)}{',' if index + 1 < len(value) else ''}"
        yield f"  ]{comma}"
    yield "}"


def session_bytes(session: Session) -> bytes:
    """Return the JSON document as the content of a file."""
    return "".join(f"{line}\n" for line in session_lines(session)).encode("utf-8", "backslashreplace")


def dumped(value: object) -> str:
    """Return a value of the contract as JSON on one line, with escapes for what could steer a terminal."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    return text if text.isascii() else _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def plain(value: object) -> object:
    """Turn frozen dataclasses and tuples into dictionaries and lists, field by field: there can be millions."""
    if value is None or isinstance(value, (float, str, int)):
        return value
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name in _field_names(type(value))}
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
