"""A session as the JSON contract: one line per kernel, so that it can be read, compared and streamed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gpuprof.model.session import Session

_STEERING = re.compile("[\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]")
"""What could steer or fool a terminal: JSON has an escape for it."""
_PLAIN = bytes(range(0x7F))
"""ASCII that cannot."""
_MAY_NOT_BE_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""How each such number starts in MessagePack, which is made and searched in a twentieth of the time of JSON."""

_ONE_LINE_EACH = ("sources", "devices", "ceilings", "kernels", "recommendations")


def session_lines(session: Session) -> Iterator[str]:
    """Yield the JSON document line by line, without line ends. Raises ValueError for a number that is not finite."""
    return document_lines(session, _ONE_LINE_EACH)


def document_lines(record: msgspec.Struct | Mapping[str, object], one_line_each: Sequence[str]) -> Iterator[str]:
    """Yield a record as a JSON document, a field a line; of the lists in `one_line_each` every item has its own."""
    yield "{"
    fields: Mapping[str, Any] = record if isinstance(record, Mapping) else msgspec.structs.asdict(record)
    last = list(fields)[-1]
    for name, value in fields.items():
        comma = "," if name != last else ""
        if name not in one_line_each or not value:
            yield f"  {json.dumps(name)}: {dumped(value, name)}{comma}"
            continue
        yield f"  {json.dumps(name)}: ["
        for index, item in enumerate(value):
            yield f"    {dumped(item, f'{name}[{index}]')}{',' if index + 1 < len(value) else ''}"
        yield f"  ]{comma}"
    yield "}"


def session_bytes(session: Session) -> bytes:
    """Return the JSON document as the content of a file."""
    return b"".join(session_pieces(session))


def session_pieces(session: Session) -> Iterator[bytes]:
    """Yield the content of a file line by line. Raises ValueError, before the first, if a number is not finite."""
    for name in Session.__struct_fields__:
        value = getattr(session, name)
        for index, item in enumerate(value if isinstance(value, tuple) else ()):
            refuse_not_finite(item, f"{name}[{index}]")
        if not isinstance(value, tuple):
            refuse_not_finite(value, name)
    for line in session_lines(session):
        yield f"{line}\n".encode("utf-8", "backslashreplace")


def compact(value: object, where: str) -> bytes:
    """Return a value of the contract as JSON without spaces. Raises ValueError if a number is not finite."""
    refuse_not_finite(value, where)
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a surrogate pair, which a file's name can have
        return encoded(value, where, separators=(",", ":")).encode("ascii")


def refuse_not_finite(value: object, where: str) -> None:
    """Raise ValueError, which names the field, if a number is not finite."""
    try:
        may_have = _MAY_NOT_BE_FINITE.search(msgspec.msgpack.encode(value)) is not None
    except (UnicodeEncodeError, OverflowError):
        may_have = True
    if may_have and (place := next(_not_finite(msgspec.to_builtins(value), where), None)) is not None:
        raise ValueError(place)


def dumped(value: object, where: str = "$") -> str:
    """Return a value of the contract as JSON on one line, with escapes for what could steer a terminal."""
    refuse_not_finite(value, where)
    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=0).decode()
    except (UnicodeEncodeError, OverflowError):  # half a surrogate pair, an integer of over 64 bits
        text = encoded(value, where, ensure_ascii=False)
    # The few characters beyond ASCII are searched alone: in a whole line that takes longer than to write it.
    rest = text.encode("utf-8", "surrogatepass").translate(None, _PLAIN).decode("utf-8", "surrogatepass")
    if not rest or _STEERING.search(rest) is None:
        return text
    return _STEERING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def encoded(value: object, where: str = "$", **layout: Any) -> str:
    """Return a value of the contract as JSON. Raises ValueError, which names the field, if a number is not finite.

    `msgspec.json.encode` would write null for such a number, which means that it is missing.
    """
    plain = msgspec.to_builtins(value)
    try:
        return json.dumps(plain, allow_nan=False, **layout)
    except ValueError as error:
        raise ValueError(next(_not_finite(plain, where), where)) from error


def _not_finite(value: object, where: str) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{where} is {value}, which JSON cannot represent"
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _not_finite(item, f"{where}.{name}")
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _not_finite(item, f"{where}[{index}]")
