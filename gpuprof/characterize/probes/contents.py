"""What buffers hold: random numbers of a type, uniform in −1…1, as bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PATTERN_BYTES = 16 * 2**20
"""So much is drawn; what is larger holds it several times. DRAM and caches do not notice that."""

_SMALL_FLOATS = {"e4m3": (4, 3), "e5m2": (5, 2)}


@lru_cache(maxsize=8)
def random_bytes(kind: str, seed: int = 0) -> bytes:
    """Return PATTERN_BYTES of random data: `bits`, or numbers of a type of the probe files."""
    import numpy as np

    generator = np.random.default_rng(seed)
    if kind == "bits":
        return generator.bytes(PATTERN_BYTES)
    width = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2}.get(kind, 1)
    values = generator.uniform(-1.0, 1.0, PATTERN_BYTES // width)
    return encoded(values, kind).tobytes()


def encoded(values: NDArray[np.float64], kind: str) -> NDArray[np.generic]:
    """Return numbers in the bits of a type, rounded to the nearest. Raises ValueError for a type that is none."""
    import numpy as np

    if kind in {"f64", "f32", "f16"}:
        return values.astype(np.dtype(f"f{int(kind[1:]) // 8}"))
    if kind == "bf16":
        return _bf16(values)
    table = decoded(np.arange(256, dtype=np.uint8), kind)
    finite = np.flatnonzero(np.isfinite(table))
    codes = finite[np.argsort(table[finite], kind="stable")].astype(np.uint8)
    levels = table[codes]
    above = np.clip(np.searchsorted(levels, values), 1, len(levels) - 1)
    nearer = above - (values - levels[above - 1] < levels[above] - values)
    return codes[nearer]


def decoded(codes: NDArray[np.generic], kind: str) -> NDArray[np.float64]:
    """Return the numbers that bits of a type mean. Raises ValueError for a type that is none."""
    import numpy as np

    if kind in {"f64", "f32", "f16"}:
        return codes.view(np.dtype(f"f{int(kind[1:]) // 8}")).astype(np.float64)
    if kind == "bf16":
        return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if kind not in _SMALL_FLOATS:
        raise ValueError(f"no numbers are encoded as {kind!r}")
    return _small_float(codes.astype(np.int64), *_SMALL_FLOATS[kind])


def _bf16(values: NDArray[np.float64]) -> NDArray[np.uint16]:
    """Round to the nearest upper half of an FP32, ties to even."""
    import numpy as np

    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def _small_float(codes: NDArray[np.int64], exponent_bits: int, mantissa_bits: int) -> NDArray[np.float64]:
    """Decode FP8 (OCP 8-bit floating point): E5M2 has infinities as IEEE types do, E4M3 only one NaN."""
    import numpy as np

    mantissa = codes & ((1 << mantissa_bits) - 1)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    fraction = mantissa / (1 << mantissa_bits)
    normal = exponent > 0
    magnitude = np.where(normal, 1 + fraction, fraction) * np.exp2(np.where(normal, exponent, 1) - bias)
    top = (1 << exponent_bits) - 1
    special = exponent == top if exponent_bits == 5 else (exponent == top) & (mantissa == 7)
    return np.where(special, np.nan, np.where(codes & 0x80, -magnitude, magnitude))
