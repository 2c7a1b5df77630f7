"""Reading protocol buffers: the fields of a message, one after the other, with the place at which they stop parsing.

Wire format: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types: a number, eight bytes, bytes behind their length, four bytes."""
_MOST_SHIFT = 63

FieldValue = int | bytes
MessageFields = list[tuple[int, FieldValue, int]]


class Malformed(Exception):
    """The bytes do not parse; `at` is the offset in the file."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


def fields(message: bytes, base: int) -> Iterator[tuple[int, FieldValue, int]]:
    """Yield (field number, value, where it ends) of a message at offset `base`: integers and byte strings.

    Raises Malformed at bytes that do not parse.
    """
    at = 0
    while at < len(message):
        start = at
        tag, at = varint(message, at, base)
        field, wire = tag >> 3, tag & 7
        value: FieldValue
        if wire == VARINT:
            value, at = varint(message, at, base)
        elif wire == LENGTH:
            size, at = varint(message, at, base)
            value = message[at : at + size]
            at += size
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
            value = message[at : at + size]
            at += size
        else:
            raise Malformed(base + start, "a message has a field of unknown type")
        if not field:
            raise Malformed(base + start, "a message has a field without a number")
        if at > len(message):
            raise Malformed(base + start, "a field is cut off")
        yield field, value, base + at


def by_number(message: bytes, base: int = 0) -> dict[int, list[FieldValue]]:
    """Return the values of all fields by their numbers, in their order. Raises Malformed."""
    values: dict[int, list[FieldValue]] = {}
    for field, value, _ in fields(message, base):
        values.setdefault(field, []).append(value)
    return values


def last_number(values: Mapping[int, list[FieldValue]], field: int) -> int | None:
    """Return a field that is a number, of several the last; None where it is not there, or is none."""
    value = values[field][-1] if field in values else None
    return value if isinstance(value, int) else None


def last_text(values: Mapping[int, list[FieldValue]], field: int) -> str:
    """Return a field as text, of several the last; empty where it is not there, or is a number."""
    value = values[field][-1] if field in values else b""
    return as_text(value) if isinstance(value, bytes) else ""


def all_bytes(values: Mapping[int, list[FieldValue]], field: int) -> list[bytes]:
    """Return the contents of all fields of a number."""
    return [value for value in values.get(field, ()) if isinstance(value, bytes)]


def varint(message: bytes, at: int, base: int) -> tuple[int, int]:
    """Return the number at a place, and where it ends. Raises Malformed where it is cut off."""
    value = shift = 0
    while True:
        if at >= len(message) or shift > _MOST_SHIFT:
            raise Malformed(base + at, "a number is cut off")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def as_int(value: FieldValue, at: int) -> int:
    """Return a field that must be a number. Raises Malformed for bytes."""
    if isinstance(value, int):
        return value
    raise Malformed(at, "a field has the wrong type")


def as_bytes(value: FieldValue, at: int) -> bytes:
    """Return a field that must be bytes. Raises Malformed for a number."""
    if isinstance(value, bytes):
        return value
    raise Malformed(at, "a field has the wrong type")


def as_text(value: bytes) -> str:
    """Return text; what is not UTF-8 in it is replaced."""
    return value.decode("utf-8", "replace")
