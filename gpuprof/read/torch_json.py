"""The JSON of a PyTorch trace: unpacked and parsed within bounds, its times exact to the nanosecond."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

from gpuprof.errors import DamagedInput, InputError
from gpuprof.read.gzip_stream import Unzipped
from gpuprof.read.identify import GZIP, UTF16_MARKS

LARGEST = 2 * 2**30
"""What a trace may take when it is unpacked, in bytes: Python needs several times as much memory to read it."""
_PIECE = 2**20
_LATEST_US = 10**18
"""No time of a trace comes near it: it is 30 000 years, in microseconds."""
_LARGEST_COUNT = 2**63
_LARGEST_DIM = 2**31
_MOST_DIMS = 64
"""PyTorch's own limit to the dimensions of a tensor."""
_FEWER = "trace fewer steps: torch.profiler.schedule(wait=1, warmup=1, active=3)"
_AGAIN = "copy it again; a trace is complete only once export_chrome_trace has returned"


def trace_json(data: bytes, name: str) -> dict[str, Any]:
    """Return the trace as an object with its list of `traceEvents`; numbers with a point are exact decimals.

    Raises DamagedInput for broken data and InputError for what is too large.
    """
    try:
        text = _text(_unpacked(data, name) if data.startswith(GZIP) else data, name)
        trace = json.loads(text, parse_float=Decimal, strict=False)
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise DamagedInput(f"{name} is damaged: it is not valid JSON: {error!s:.100}", _AGAIN) from error
    except MemoryError as error:
        raise InputError(f"{name} is a trace too large for the memory of this machine", _FEWER) from error
    if isinstance(trace, list):
        trace = {"traceEvents": trace}
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise DamagedInput(f"{name} is damaged: it has no list of traceEvents", _AGAIN)
    return trace


def _unpacked(data: bytes, name: str) -> bytes:
    """Unpack a gzip file, no more than a trace may have."""
    stream = Unzipped(io.BytesIO(data), name, lambda size: check_size(size, name), _AGAIN)
    return b"".join(iter(lambda: stream.read1(_PIECE), b""))


def _text(data: bytes, name: str) -> str:
    check_size(len(data), name)
    return data.decode("utf-16" if data.startswith(UTF16_MARKS) else "utf-8-sig", "replace")


def check_size(size: int, name: str) -> None:
    """Raise InputError if a trace of that many bytes is too large to be read."""
    if size > LARGEST:
        raise InputError(f"{name} is a trace of more than {LARGEST / 2**20:,.0f} MiB unpacked", _FEWER)


def nanoseconds(value: object) -> int | None:
    """Return a time of a trace, in microseconds, as whole nanoseconds; None for what is no time."""
    if isinstance(value, (int, Decimal)) and -_LATEST_US < value < _LATEST_US:
        return int(value * 1000)
    return None


def count(value: object) -> int | None:
    """Return a number of things, or of bytes; None for what is none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LARGEST_COUNT:
        return value
    return None


def dims(value: object) -> tuple[int, int, int] | None:
    """Return the three sizes of a grid or block; None for what is none."""
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = (size if isinstance(size, int) and 1 <= size < _LARGEST_DIM else None for size in value)
    return None if x is None or y is None or z is None else (x, y, z)


def shape(value: object) -> tuple[int, ...] | None:
    """Return the sizes of a tensor, none for a scalar; None for what is no tensor."""
    if not isinstance(value, list) or len(value) > _MOST_DIMS:
        return None
    return tuple(value) if all(count(size) is not None for size in value) else None


def text_of(value: object) -> str | None:
    """Return a text that can be written as UTF-8; None for what is none, or empty."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) and value else None
