"""What the buffers of a case hold before a launch, and whether two kernels left the same in them. Seeded by name."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

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

_PIECE = 2**18
"""Elements of results that are compared at a time: they fit into a cache."""
_LEAST = 1e-300
"""A difference that is too small for a double is still one."""

Array = NDArray[np.generic]


class Pattern(NamedTuple):
    """The elements that a buffer begins with, over and over again until it has `length` of them."""

    elements: Array
    length: int

    @property
    def nbytes(self) -> int:
        """Return the bytes of the buffer."""
        return self.length * self.elements.itemsize

    def whole(self) -> Array:
        """Return all elements of the buffer."""
        return np.resize(self.elements, self.length)


def contents(name: str, buffer: BufferSpec, sizes: Sizes) -> Array:
    """Return a buffer's elements; bfloat16 as the upper half of float32's bits."""
    return pattern(name, buffer, sizes).whole()


def pattern(name: str, buffer: BufferSpec, sizes: Sizes) -> Pattern:
    """Return what a buffer's elements repeat: a copy of it is made in no time where the buffer is."""
    count = buffer.count.value(sizes)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = [sizes[value] if isinstance(value, str) else value for value in buffer.fill.values]
    filled = _FILLS[buffer.fill.kind](count, buffer.type, values, rng)
    return Pattern(_as_type(np.asarray(filled), buffer.type), count)


def _as_type(values: Array, kind: str) -> Array:
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.ascontiguousarray(values.astype(_DTYPES[kind], copy=False))


def _random(count: int, kind: str, _values: list[float], rng: np.random.Generator) -> Array:
    distinct = min(count, _DISTINCT)
    if kind in _FLOATS:
        return rng.uniform(-1.0, 1.0, distinct).astype(np.float32)
    info = np.iinfo(_DTYPES[kind])
    return rng.integers(info.min, info.max, distinct, dtype=_DTYPES[kind], endpoint=True)


def _below(count: int, _kind: str, values: list[float], rng: np.random.Generator) -> Array:
    return rng.integers(0, int(values[0]), min(count, _DISTINCT))


def _zipf(count: int, _kind: str, values: list[float], rng: np.random.Generator) -> Array:
    uniform = rng.random(min(count, _DISTINCT))
    return (values[0] * uniform**_SKEW).astype(np.int64)


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
    "zeros": lambda count, _kind, _values, _rng: np.zeros(min(count, _DISTINCT)),
    "value": lambda count, _kind, values, _rng: np.full(min(count, _DISTINCT), values[0]),
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
        same = np.array_equal(left.view(np.uint8), right.view(np.uint8))
        return None if same else max(difference(left, right, kind), _LEAST)
    apart = difference(left, right, kind)
    return None if apart <= within else apart


def difference(left: Array, right: Array, kind: str) -> float:
    """Return the largest difference of two results as a fraction of the largest value; infinite where one is NaN.

    Piece by piece, which takes a third of the time of large arrays.
    """
    largest = apart = 0.0
    for start in range(0, len(left), _PIECE):
        these, those = (_numbers(side[start : start + _PIECE], kind) for side in (left, right))
        if not (np.isfinite(these).all() and np.isfinite(those).all()):
            return float("inf")
        largest = max(largest, float(np.max(np.abs(these))))
        apart = max(apart, float(np.max(np.abs(these - those))))
    return apart / (largest or 1.0)


def _numbers(values: Array, kind: str) -> NDArray[np.float64]:
    if kind == "bf16":
        values = (values.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return values.astype(np.float64)


def unwritten(before: Array, after: Array) -> bool:
    """Tell whether a kernel left a result as it was."""
    return before.tobytes() == after.tobytes()
