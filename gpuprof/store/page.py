"""The session inside a page: packed into it (JSON, compressed, in base64), and read back without running anything."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterator
from typing import Protocol

from gpuprof.errors import DamagedInput, InputError
from gpuprof.model.session import Session
from gpuprof.store.write import compact

DATA_ID = "gpuprof-session"
"""The id of the element that holds the session: JSON, compressed with xz or gzip, in base64."""
DATA_TYPE = "application/octet-stream"

LARGEST_SESSION = 256 * 1024 * 1024
"""What a session may take when it is unpacked. A page without one says so: 10 000 different kernels without their code
take a quarter, with it they can take more."""
_ALWAYS, _MOST_TIMES = 64 * 2**20, 40
"""A session may unpack to 64 MiB, or to 40 times its packed size if that is more. xz shrinks 600 kernels of a real
program 14 times, and 10 000 nearly equal made-up ones (50 MB) 190 times."""
_LARGEST_PAGE = LARGEST_SESSION
_XZ, _XZ_MEMORY = b"\xfd7zXZ\x00", 128 * 1024 * 1024

_START = re.compile(
    rb"(?:\xef\xbb\xbf)?\s{0,100}(?:<!--[^>]{0,400}-->\s{0,100})?<(?:!doctype\s+html|html)\b", re.IGNORECASE
)
_BLOCK = re.compile(
    rb"<script\b(?=[^<>]{0,200}\bid=[\"']?%b[\"'\s>])[^<>]{0,200}>([A-Za-z0-9+/=\s]*)(</script)?" % DATA_ID.encode(),
    re.IGNORECASE,
)
_OURS = re.compile(rb"<meta name=[\"']?generator[\"']? content=[\"']gpuprof ", re.IGNORECASE)
_END = re.compile(rb"</html>\s*\Z", re.IGNORECASE)
_HEAD_BYTES = 4096
_LINE = 160
_FAST = 1
"""The default of xz takes seven times as long for a fifth less: 0.4 s for 3 MB."""
_AGAIN = "name the report that the page was made from, or write the page again: gpuprof report FILE"


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


class _Broken(Exception):
    """The compressed data is not what it should be."""


def packed_session(session: Session) -> str | None:
    """Return a session as lines of base64; the same session gives the same text, and no digit is lost.

    None for a session that is too large to be read from a page.
    """
    compressor, packed, size = _compressor(), list[bytes](), 0
    for piece in _pieces(session):
        size += len(piece)
        if size > LARGEST_SESSION:
            return None
        packed.append(compressor.compress(piece))
    packed.append(compressor.flush())
    if size > _room(sum(map(len, packed))):
        return None
    text = base64.b64encode(b"".join(packed)).decode("ascii")
    return "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


def _compressor() -> _Compressor:
    """Return one for xz, which finds what kernels have in common; for gzip where Python was built without it."""
    try:
        import lzma
    except ImportError:
        return zlib.compressobj(9, wbits=31)
    return lzma.LZMACompressor(preset=_FAST)


def _pieces(session: Session) -> Iterator[bytes]:
    """Yield the JSON document piece by piece, so that a large session is not held twice."""
    for index, name in enumerate(Session.__struct_fields__):
        value = getattr(session, name)
        yield f"{',' if index else '{'}{json.dumps(name)}:".encode()
        if not isinstance(value, tuple):
            yield compact(value, name)
            continue
        for place, item in enumerate(value):
            yield (b"," if place else b"[") + compact(item, f"{name}[{place}]")
        yield b"]" if value else b"[]"
    yield b"}"


def looks_like_page(head: bytes) -> bool:
    """Tell whether a file that begins so is an HTML page."""
    return _START.match(head) is not None


def read_session_html(data: bytes, file: str) -> Session:
    """Read the session that a page of `gpuprof report` carries.

    Raises InputError for a page without one, DamagedInput for one that is cut, altered or too large.
    """
    from gpuprof.store.read import read_session

    block = _block(data, file)
    try:
        text = _unpacked(base64.b64decode(block, validate=True))
    except (binascii.Error, zlib.error, _Broken) as error:
        raise DamagedInput(f"{file} is damaged: its session cannot be unpacked: {error}", _AGAIN) from error
    return read_session(text, file)


def _block(data: bytes, file: str) -> bytes:
    """Return the base64 text of the page's only data block."""
    if len(data) > _LARGEST_PAGE:
        raise InputError(f"{file} is an HTML page of {len(data) / 2**20:.0f} MiB, too large to be read", _AGAIN)
    blocks = list(_BLOCK.finditer(data))
    if not blocks and _OURS.search(data, 0, _HEAD_BYTES) and not _END.search(data, max(0, len(data) - _HEAD_BYTES)):
        raise DamagedInput(f"{file} is damaged: the page is cut off before its session", _AGAIN)
    if not blocks:
        raise InputError(f"{file} is an HTML page without a gpuprof session", _AGAIN)
    if len(blocks) > 1:
        raise DamagedInput(f"{file} is damaged: it has {len(blocks)} sessions", _AGAIN)
    if blocks[0][2] is None:
        raise DamagedInput(f"{file} is damaged: its session is cut off or has invalid characters", _AGAIN)
    return b"".join(blocks[0][1].split())


def _unpacked(packed: bytes) -> bytes:
    """Decompress no more than a session may have, and all of it."""
    return _from_xz(packed) if packed.startswith(_XZ) else _from_gzip(packed)


def _from_gzip(packed: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    most = _room(len(packed))
    data = unpacker.decompress(packed, most)
    if unpacker.unconsumed_tail:
        raise _too_large(most)
    return _whole(data, ended=unpacker.eof, rest=unpacker.unused_data)


def _from_xz(packed: bytes) -> bytes:
    try:
        import lzma
    except ImportError as error:
        raise InputError("the page's session is compressed with xz, which this Python lacks", _AGAIN) from error
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    most = _room(len(packed))
    try:
        data = unpacker.decompress(packed, most)
    except lzma.LZMAError as error:
        raise _Broken(str(error)) from error
    if not unpacker.eof and not unpacker.needs_input:
        raise _too_large(most)
    return _whole(data, ended=unpacker.eof, rest=unpacker.unused_data)


def _room(packed_size: int) -> int:
    """Return the maximum unpacked size of a session."""
    return min(LARGEST_SESSION, max(_ALWAYS, _MOST_TIMES * packed_size))


def _too_large(most: int) -> _Broken:
    return _Broken(f"it is larger than {most / 2**20:,.0f} MiB")


def _whole(data: bytes, *, ended: bool, rest: bytes) -> bytes:
    if not ended or rest:
        raise _Broken("data follows its end" if rest else "it ends early")
    return data
