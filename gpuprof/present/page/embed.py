"""The session inside the page, so that the page can be read back: JSON, compressed, in base64."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING, Protocol

from gpuprof.model.session import Session

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_LINE = 160
_DIGITS = 6
_MANY_KERNELS = 1000
_THOROUGH, _FAST = 6, 1


class _Compressor(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...

    def flush(self) -> bytes: ...


def packed_session(session: Session) -> str:
    """Return a session as lines of base64; the same session gives the same text.

    Numbers keep six significant digits, whole ones all: the rest is noise that does not compress.
    """
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
    return json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))


def _plain(value: object) -> object:
    """Turn dataclasses into dictionaries, tuples into lists, and round numbers, all in one go: there are millions."""
    if isinstance(value, float):
        return value if value.is_integer() else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int)):
        return value
    return {name: _plain(getattr(value, name)) for name in _names(type(value))}  # type: ignore[arg-type]


@cache
def _names(kind: type[DataclassInstance]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
