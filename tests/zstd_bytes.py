"""Compresses with zstd, and writes frames byte by byte (RFC 8878), so that tests own what is unusual in a file."""

from __future__ import annotations

import struct
import sys

SKIPPED = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 5) + b"notes"
"""A frame that is no data."""
_MAGIC = b"\x28\xb5\x2f\xfd"
_LARGEST_BLOCK = 1 << 17


def compressed(data: bytes, *, checksum: bool = True, size: bool = True) -> bytes:
    """Return a frame as zstd makes it, with a checksum and the size of the content or without."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        flag = zstd.CompressionParameter
        return zstd.compress(data, options={flag.checksum_flag: int(checksum), flag.content_size_flag: int(size)})
    else:  # noqa: RET505  (mypy reads one of the two)
        import zstandard

        return zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=size).compress(data)


def frame(*blocks: bytes, declared: int | None = None, window: int = 0x38, dictionary: int = 0) -> bytes:
    """Return a frame of blocks; the window is 128 KiB. `declared` is the size that it names, of 64 bits."""
    flags = (3 << 6 if declared is not None else 0) | (1 if dictionary else 0)
    head = bytes((flags, window)) + (bytes((dictionary,)) if dictionary else b"")
    return _MAGIC + head + (struct.pack("<Q", declared) if declared is not None else b"") + b"".join(blocks)


def stored(data: bytes, *, last: bool = False) -> bytes:
    """Return a block that holds bytes as they are."""
    return _block(last, 0, len(data)) + data


def zeros(count: int = _LARGEST_BLOCK, *, last: bool = False) -> bytes:
    """Return a block of four bytes that unpacks to so many zeros."""
    return _block(last, 1, count) + b"\0"


def unknown(*, last: bool = False) -> bytes:
    """Return the head of a block of the kind that is reserved."""
    return _block(last, 3, 0)


def _block(last: bool, kind: int, size: int) -> bytes:
    return (last | kind << 1 | size << 3).to_bytes(3, "little")
