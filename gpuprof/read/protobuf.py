"""Reading protocol buffers: the fields of a message, one after the other, with the place at which they stop parsing.

Wire format: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator

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
            raise Malformed(base + at, "a message has a field of unknown type")
        if at > len(message):
            raise Malformed(base + start, "a field is cut off")
        yield field, value, base + at


def raw_fields(message: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield field number, start and end (tag and length included) of each field, as far as the message parses."""
    start = 0
    try:
        for field, _, end in fields(message, 0):
            yield field, start, end
            start = end
    except Malformed:
        return


def whole_fields(message: bytes) -> MessageFields | None:
    """Return the fields of a message as `fields` yields them; None where the message does not parse."""
    try:
        return list(fields(message, 0))
    except Malformed:
        return None


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
