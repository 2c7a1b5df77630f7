"""The frames of zstd-compressed files (RFC 8878), unpacked block by block: bounded memory, and damage has a place.

The library decodes; what is walked here are the headers. So no call gives more than a block, and all that lies before
damage has been given by then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, Protocol

from msgspec import Struct

from gpuprof.errors import EnvironmentProblem, InputError

MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = tuple(bytes((first,)) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
STARTS = (MAGIC, *_SKIPPABLE)
"""How files start that zstd wrote; the frames of all but the first may be skipped."""
_WINDOW_LOG = 27
"""The largest window is 128 MiB, as for `zstd -d` without --long: it is memory that unpacking takes."""
_RLE, _RESERVED = 1, 3
_BY_HAND = "if you trust the file, unpack it: zstd -d --long=31 {name} -o unpacked.ncu-rep"


class Broken(Exception):
    """The file is damaged; `at` is the offset in it."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


def unpacked(file: BinaryIO, name: str, most: int) -> Iterator[bytes]:
    """Yield the content of all frames, a block at a time.

    Raises Broken at damage, and InputError for what is refused undamaged: more than `most` bytes, a large window.
    """
    new_decoder, library_error = _library(name)
    total = 0
    while magic := file.read(4):
        at = file.tell() - len(magic)
        if magic in _SKIPPABLE:
            _skip(file, at)
            continue
        if magic != MAGIC:
            raise Broken(at, "the data after the zstd frames is not a zstd frame")
        header = _header(file, at)
        _check(header, name, total, most)
        try:
            for content in _contents(file, header, new_decoder()):
                total += len(content)
                if total > most:
                    raise _too_large(name, most)
                yield content
        except (library_error, EOFError) as error:
            reason = str(error).rpartition(": ")[2]
            raise Broken(at, f"the zstd frame there cannot be unpacked: {reason}") from error


class _Decoder(Protocol):
    """What the libraries have in common."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, /) -> bytes: ...


def _library(name: str) -> tuple[Callable[[], _Decoder], type[Exception]]:
    """Return what makes a decoder for a frame, and what it raises: of Python itself from 3.14, else of zstandard."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd

            options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
            return partial(zstd.ZstdDecompressor, options=options), zstd.ZstdError
        else:  # noqa: RET505  (mypy reads one of the two)
            import zstandard

            return zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG).decompressobj, zstandard.ZstdError
    except ImportError as error:
        raise EnvironmentProblem(
            f"{name} is compressed with zstd, which this Python cannot unpack: {error}",
            f"pip install zstandard; or unpack it: zstd -d {name} -o unpacked.ncu-rep",
        ) from error


class _Header(Struct, frozen=True):
    """A frame's header: its bytes, magic included, and what they say."""

    at: int
    raw: bytes
    window: int
    declared: int | None
    dictionary: int
    checksum: bool


def _header(file: BinaryIO, at: int) -> _Header:
    (flags,) = first = _exactly(file, 1, at, "header")
    single, size_flag = bool(flags & 0x20), flags >> 6
    sizes = 0 if single else 1, (0, 1, 2, 4)[flags & 3], (1 if single else 0, 2, 4, 8)[size_flag]
    window_byte, dictionary, size = (_exactly(file, size, at, "header") for size in sizes)
    declared = int.from_bytes(size, "little") + (256 if size_flag == 1 else 0) if size else None
    raw = MAGIC + first + window_byte + dictionary + size
    window = _window(window_byte[0]) if window_byte else declared or 0
    number, checksum = int.from_bytes(dictionary, "little"), bool(flags & 4)
    return _Header(at, raw, window, declared=declared, dictionary=number, checksum=checksum)


def _window(descriptor: int) -> int:
    base = 1 << (10 + (descriptor >> 3))
    return base + base // 8 * (descriptor & 7)


def _check(header: _Header, name: str, total: int, most: int) -> None:
    """Refuse what the header shows to be too much."""
    if header.dictionary:
        raise InputError(f"{name} was compressed with a zstd dictionary", "unpack it with that dictionary first")
    if header.declared is not None and total + header.declared > most:
        raise _too_large(name, most)
    if header.window > 1 << _WINDOW_LOG:
        raise InputError(
            f"{name} needs a window of {header.window / 2**20:,.0f} MiB to unpack; "
            f"the limit is {2 ** (_WINDOW_LOG - 20)} MiB",
            _BY_HAND.format(name=name),
        )


def _too_large(name: str, most: int) -> InputError:
    return InputError(
        f"{name} unpacks to more than {most / 2**20:,.0f} MiB: too much for a report, or for the space that is free",
        _BY_HAND.format(name=name),
    )


def _contents(file: BinaryIO, header: _Header, decoder: _Decoder) -> Iterator[bytes]:
    """Yield what the blocks of a frame hold. The decoder gets each whole, and the checksum by itself."""
    decoder.decompress(header.raw)
    last, held = False, 0
    while not last:
        at = file.tell()
        head = _exactly(file, 3, at, "block")
        number = int.from_bytes(head, "little")
        last, kind, size = bool(number & 1), number >> 1 & 3, number >> 3
        if kind == _RESERVED:
            raise Broken(at, "a zstd block is of an unknown type")
        content = decoder.decompress(head + _exactly(file, 1 if kind == _RLE else size, at, "block"))
        held += len(content)
        yield content
    if header.declared not in (None, held):
        raise Broken(header.at, f"a zstd frame declares {header.declared} bytes and holds {held}")
    if header.checksum:
        decoder.decompress(_exactly(file, 4, file.tell(), "checksum"))
    if not decoder.eof:
        raise Broken(file.tell(), "a zstd frame does not end with its last block")


def _skip(file: BinaryIO, at: int) -> None:
    """Step over a frame whose content is not data."""
    size = int.from_bytes(_exactly(file, 4, at, "frame"), "little")
    if size:
        file.seek(size - 1, 1)
        _exactly(file, 1, at, "frame")


def _exactly(file: BinaryIO, size: int, at: int, part: str) -> bytes:
    """Read so many bytes of a part that starts at an offset."""
    data = file.read(size)
    if len(data) < size:
        raise Broken(at, f"a zstd {part} is cut off")
    return data
