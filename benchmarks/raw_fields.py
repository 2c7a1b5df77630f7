"""The fields of a message as bytes, to be written again."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprof.read.protobuf import Malformed, fields


def raw_fields(message: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield field number, start and end (tag and length included) of each field, as far as the message parses."""
    start = 0
    try:
        for field, _, end in fields(message, 0):
            yield field, start, end
            start = end
    except Malformed:
        return
