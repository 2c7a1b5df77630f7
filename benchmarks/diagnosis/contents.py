"""What the buffers of a case hold before a launch, and whether two kernels left the same in them. Seeded by name."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.diagnosis.case import BufferSpec, Sizes

_DTYPES = {
    "u8": "u1", "i8": "i1", "u16": "u2", "i16": "i2", "u32": "u4", "i32": "i4", "u64": "u8", "i64": "i8",
    "f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8",
}  # fmt: skip
_FLOATS = ("f16", "bf16", "f32", "f64")
_DISTINCT = 2**22
"""So many random elements are made; a longer buffer repeats them."""
_SKEW = 3
"""`zipf`: bin b holds the random numbers u with bins · u³ in b: of 256 bins the first gets 16 % of them."""

_LEAST = 1e-300
"""A difference that is too small for a double is still one."""

Array = NDArray[np.generic]


def contents(name: str, buffer: BufferSpec, sizes: Sizes) -> Array:
    """Return a buffer's elements; bfloat16 as the upper half of float32's bits."""
    count = buffer.count.value(sizes)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = [sizes[value] if isinstance(value, str) else value for value in buffer.fill.values]
    filled = _FILLS[buffer.fill.kind](count, buffer.type, values, rng)
    return _as_type(np.asarray(filled), buffer.type)


def _as_type(values: Array, kind: str) -> Array:
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.ascontiguousarray(values.astype(_DTYPES[kind], copy=False))


def _random(count: int, kind: str, _values: list[float], rng: np.random.Generator) -> Array:
    distinct = min(count, _DISTINCT)
    if kind in _FLOATS:
        return np.resize(rng.uniform(-1.0, 1.0, distinct).astype(np.float32), count)
    info = np.iinfo(_DTYPES[kind])
    return np.resize(rng.integers(info.min, info.max, distinct, dtype=_DTYPES[kind], endpoint=True), count)


def _below(count: int, _kind: str, values: list[float], rng: np.random.Generator) -> Array:
    return np.resize(rng.integers(0, int(values[0]), min(count, _DISTINCT)), count)


def _zipf(count: int, _kind: str, values: list[float], rng: np.random.Generator) -> Array:
    uniform = rng.random(min(count, _DISTINCT))
    return np.resize((values[0] * uniform**_SKEW).astype(np.int64), count)


def _cycle(count: int, _kind: str, values: list[float], rng: np.random.Generator) -> Array:
    """Return for each element the index of the next: one random cycle through every `stride`-th element."""
    stride = max(1, int(values[0]))
    order = rng.permutation(count // stride) * stride
    following = np.zeros(count, dtype=np.int64)
    following[order] = np.roll(order, -1)
    return following


def _offsets(count: int, _kind: str, values: list[float], _rng: np.random.Generator) -> Array:
    """Return where rows start: every so-manyth row is long, the others are short."""
    short, long, every = (int(value) for value in values)
    lengths = np.full(count - 1, short, dtype=np.int64)
    lengths[every - 1 :: every] = long
    return np.concatenate([[0], np.cumsum(lengths)])


_FILLS: dict[str, Callable[[int, str, list[float], np.random.Generator], Array]] = {
    "zeros": lambda count, _kind, _values, _rng: np.zeros(count),
    "value": lambda count, _kind, values, _rng: np.full(count, values[0]),
    "ascending": lambda count, _kind, _values, _rng: np.arange(count),
    "permutation": lambda count, _kind, _values, rng: rng.permutation(count),
    "random": _random,
    "below": _below,
    "zipf": _zipf,
    "cycle": _cycle,
    "offsets": _offsets,
}


def agree(left: Array, right: Array, kind: str, within: float) -> float | None:
    """Return how far two results are apart where that is too far; None where they agree. Within 0: bit by bit."""
    if within == 0:
        return None if left.tobytes() == right.tobytes() else max(difference(left, right, kind), _LEAST)
    apart = difference(left, right, kind)
    return None if apart <= within else apart


def difference(left: Array, right: Array, kind: str) -> float:
    """Return the largest difference of two results as a fraction of the largest value; infinite where one is NaN."""
    these, those = _numbers(left, kind), _numbers(right, kind)
    if not (np.isfinite(these).all() and np.isfinite(those).all()):
        return float("inf")
    largest = float(np.max(np.abs(these), initial=0.0))
    return float(np.max(np.abs(these - those), initial=0.0)) / (largest or 1.0)


def _numbers(values: Array, kind: str) -> NDArray[np.float64]:
    if kind == "bf16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float64)


def unwritten(before: Array, after: Array) -> bool:
    """Tell whether a kernel left a result as it was."""
    return before.tobytes() == after.tobytes()
