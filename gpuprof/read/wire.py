"""Writing protocol buffers: the few forms that reports are made of (https://protobuf.dev/programming-guides/encoding)."""

from __future__ import annotations

import struct

_VARINT, _BYTES = 0, 2


def varint(value: int) -> bytes:
    """Return a number that is not negative, seven bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return an integer field."""
    return varint(field << 3 | _VARINT) + varint(value)


def message(field: int, content: bytes) -> bytes:
    """Return a field of text, bytes or a message."""
    return varint(field << 3 | _BYTES) + varint(len(content)) + content


def prefixed(content: bytes) -> bytes:
    """Return bytes behind their length, as the parts of a report stand: 32 bits, little endian."""
    return struct.pack("<I", len(content)) + content
