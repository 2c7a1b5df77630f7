"""The product of one matrix tile on the host, and whether the GPU's is equal to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuprof.characterize.probes.contents import decoded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Tile:
    """D = times · A · Bᵀ: A has m rows, B n rows, both of k elements; all three lie in memory row after row.

    `held`: which of so many consecutive k a sparse A holds, such as (0, 2) of 4. `by`: how bits are multiplied, for b1.
    """

    m: int
    n: int
    k: int
    times: int
    a: str
    b: str
    d: str
    held: tuple[int, ...] = ()
    of: int = 1
    by: str = "and"


_TOLERANCE = {"f64": 1e-12, "f32": 2.0**-12, "f16": 2.0**-7, "s32": 0.0}
"""By the type of D, of the sum of absolute products. FP32 sums of the matrix units drop bits that IEEE sums keep."""
_SHORT_SUMS = 2.0**-7
"""FP8 products are summed with 13 bits on Hopper and Ada."""
_WHOLE = {"s8": 8, "s4": 4, "b1": 1}
_TINY_FLOATS = {"e2m1": (2, 1), "e3m2": (3, 2), "e2m3": (2, 3)}
_TINY_SHIFT = {"e2m1": 2, "e3m2": 0, "e2m3": 0}
"""FP4 in a byte of its own lies in bits 2 to 5, FP6 in bits 0 to 5 (PTX ISA, .b8x16.b4x16_p64)."""


def wrong(tile: Tile, a: bytes, b: bytes, d: bytes) -> str | None:
    """Say where the GPU's D is not the host's; None: it is everywhere."""
    import numpy as np

    left = expanded(elements(a, tile.a), tile)
    right = elements(b, tile.b)[: tile.n * tile.k].reshape(tile.n, tile.k)
    product = elements(d, tile.d)[: tile.m * tile.n].reshape(tile.m, tile.n)
    expected, scale = _product(tile, left, right)
    off = ~(np.abs(product - expected) <= _tolerance(tile) * scale)
    if not off.any():
        return None
    row, column = (int(index) for index in np.argwhere(off)[0])
    return (
        f"{int(off.sum())} of {off.size} elements of the product are wrong: D[{row}, {column}] is "
        f"{product[row, column]:.6g}, not {expected[row, column]:.6g}"
    )


def _product(tile: Tile, left: Numbers, right: Numbers) -> tuple[Numbers, Numbers]:
    """Return the product and the sums of absolute products."""
    import numpy as np

    if tile.a == "b1" and tile.by == "xor":
        ones = left @ (1 - right).T + (1 - left) @ right.T
        return tile.times * ones, tile.times * ones
    return tile.times * (left @ right.T), tile.times * (np.abs(left) @ np.abs(right).T)


def _tolerance(tile: Tile) -> float:
    return max(_TOLERANCE[tile.d], _SHORT_SUMS if tile.a in {"e4m3", "e5m2", "tf32"} else 0.0)


def expanded(held: Numbers, tile: Tile) -> Numbers:
    """Return A with the zeros that a sparse one leaves out."""
    import numpy as np

    share = len(tile.held) or 1
    rows = held[: tile.m * tile.k * share // tile.of].reshape(tile.m, -1, share)
    if not tile.held:
        return rows.reshape(tile.m, tile.k)
    full = np.zeros((tile.m, tile.k // tile.of, tile.of))
    full[:, :, list(tile.held)] = rows
    return full.reshape(tile.m, tile.k)


def elements(content: bytes, kind: str) -> Numbers:
    """Return what bytes hold as numbers, of a type or `TYPE in bytes`, one small float in each byte.

    Raises ValueError for a type that is none.
    """
    import numpy as np

    name, _, packing = kind.partition(" ")
    raw = np.frombuffer(content, dtype=np.uint8)
    if name == "tf32":
        return decoded(raw.view(np.float32), "f32")
    if name == "s32":
        return raw.view(np.int32).astype(np.float64)
    if name in _WHOLE:
        return _whole(raw, _WHOLE[name])
    if name in _TINY_FLOATS:
        codes = raw >> _TINY_SHIFT[name] if packing else _split(raw, 4)
        return _tiny(codes.astype(np.int64), *_TINY_FLOATS[name])
    if name == "bf16":
        return decoded(raw.view(np.uint16), name)
    return decoded(raw, name)


def _whole(raw: NDArray[np.uint8], bits: int) -> Numbers:
    """Return two's complement numbers of so many bits, those of one byte from its lowest bits up."""
    import numpy as np

    fields = _split(raw, bits).astype(np.int64)
    negative = fields >= 1 << (bits - 1) if bits > 1 else np.zeros(len(fields), dtype=bool)
    return np.where(negative, fields - (1 << bits), fields).astype(np.float64)


def _split(raw: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    import numpy as np

    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((raw[:, None] >> shifts[None, :]) & np.uint8((1 << bits) - 1)).reshape(-1)


def _tiny(codes: NDArray[np.int64], exponent_bits: int, mantissa_bits: int) -> Numbers:
    """Decode FP4 and FP6 (OCP microscaling formats): no infinities, no NaN."""
    import numpy as np

    mantissa = codes & ((1 << mantissa_bits) - 1)
    exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    fraction = mantissa / (1 << mantissa_bits)
    magnitude = np.where(exponent > 0, 1 + fraction, fraction) * np.exp2(np.maximum(exponent, 1) - bias)
    values: Numbers = np.where(codes >> (exponent_bits + mantissa_bits) & 1, -magnitude, magnitude)
    return values
