"""Unpack compressed code of fat binaries: zstd frames, and LZ4 blocks (LZ4 Block Format Description)."""

from __future__ import annotations

import sys
from io import BytesIO

_PIECE_BYTES = 1 << 20
_LEAST_MATCH, _LONG = 4, 15
"""The minimum length of a copy, and the length in a token after which more length bytes follow."""


def unpack_zstd(packed: bytes, size: int) -> bytes:
    """Return the content of a frame, of exactly this size. Raises ValueError if it is broken."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        import zstandard as zstd
    content = bytearray()
    try:
        with zstd.open(BytesIO(packed)) as reader:
            while len(content) <= size and (piece := reader.read(_PIECE_BYTES)):
                content += piece
    except (zstd.ZstdError, EOFError) as error:
        raise ValueError(f"its code cannot be unpacked: {error}") from error
    return _of_size(content, size)


def unpack_lz4(packed: bytes, size: int) -> bytes:
    """Return the content of a block, of exactly this size. Raises ValueError or IndexError if it is broken."""
    content = bytearray()
    at = 0
    while len(content) < size:
        lengths = packed[at]
        literals, at = _length(packed, at + 1, lengths >> 4)
        content += packed[at : at + literals]
        at += literals
        if at >= len(packed):
            break
        distance = packed[at] | packed[at + 1] << 8
        left, at = _length(packed, at + 2, lengths & 15)
        left += _LEAST_MATCH
        start = len(content) - distance
        if not 0 <= start < len(content) or left > size:
            raise ValueError("its code cannot be unpacked")
        while left > 0:
            # A copy may overlap what it makes: that repeats.
            copy = content[start : start + left]
            content += copy
            left -= len(copy)
    return _of_size(content, size)


def _length(packed: bytes, at: int, length: int) -> tuple[int, int]:
    """Return a length and the offset after it."""
    more = 255 if length == _LONG else 0
    while more == 255:
        more = packed[at]
        length += more
        at += 1
    return length, at


def _of_size(content: bytearray, size: int) -> bytes:
    if len(content) != size:
        raise ValueError(f"its code unpacks to {len(content):,} bytes instead of {size:,}")
    return bytes(content)
