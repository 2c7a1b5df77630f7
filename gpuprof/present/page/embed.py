"""The session inside the page, so that the page can be read back: JSON, compressed, in base64."""

from __future__ import annotations

import base64
import gzip
import json

from gpuprof.model.session import Session
from gpuprof.present.json_out import plain

_LINE = 160
_DIGITS = 6
_LARGE = 16_000_000
_THOROUGH, _FAST = 6, 1


def packed_session(session: Session) -> str:
    """Return a session as lines of base64; the same session gives the same text.

    Numbers keep six significant digits, whole ones all: the rest is noise that does not compress.
    """
    text = json.dumps(_rounded(plain(session)), allow_nan=False, separators=(",", ":"))
    packed = base64.b64encode(_compressed(text.encode("ascii"))).decode("ascii")
    return "\n".join(packed[start : start + _LINE] for start in range(0, len(packed), _LINE))


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return value if value.is_integer() else float(f"{value:.{_DIGITS}g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return value


def _compressed(data: bytes) -> bytes:
    """Compress as xz, which finds what kernels have in common; as gzip where Python was built without it."""
    try:
        import lzma
    except ImportError:
        return gzip.compress(data, mtime=0)
    return lzma.compress(data, preset=_THOROUGH if len(data) < _LARGE else _FAST)
