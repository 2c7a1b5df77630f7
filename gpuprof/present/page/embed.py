"""The session inside the page, so that the page can be read back: JSON, compressed, in base64."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import fields
from typing import Protocol

from gpuprof.model.session import Session
from gpuprof.present.json_out import plain

_LINE = 160
_MANY_KERNELS = 1000
_THOROUGH, _FAST = 6, 1


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def packed_session(session: Session) -> str:
    """Return a session as lines of base64; the same session gives the same text, and no digit is lost."""
    compressor = _compressor(len(session.kernels))
    packed = b"".join([*(compressor.compress(piece.encode("ascii")) for piece in _pieces(session)), compressor.flush()])
    text = base64.b64encode(packed).decode("ascii")
    return "\n".join(text[start : start + _LINE] for start in range(0, len(text), _LINE))


def _compressor(kernels: int) -> _Compressor:
    """Return one for xz, which finds what kernels have in common; for gzip where Python was built without it."""
    try:
        import lzma
    except ImportError:
        return zlib.compressobj(9, wbits=31)
    return lzma.LZMACompressor(preset=_FAST if kernels > _MANY_KERNELS else _THOROUGH)


def _pieces(session: Session) -> Iterator[str]:
    """Yield the JSON document piece by piece, so that a large session is not held twice."""
    for index, field in enumerate(fields(session)):
        value = getattr(session, field.name)
        yield f"{',' if index else '{'}{json.dumps(field.name)}:"
        if not isinstance(value, tuple):
            yield _dumped(value)
            continue
        for place, item in enumerate(value):
            yield f"{',' if place else '['}{_dumped(item)}"
        yield "]" if value else "[]"
    yield "}"


def _dumped(value: object) -> str:
    return json.dumps(plain(value), allow_nan=False, separators=(",", ":"))
