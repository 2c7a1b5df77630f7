"""Bytes that PyTorch's point-wise operators read and write: each operand and the result once, by shapes and types."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpuprof.timeline.torch_flop import elements_in_memory
from gpuprof.timeline.trace import TensorShape

_UNARY = (
    "abs neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan tanh sigmoid relu gelu silu mish "
    "erf erfc floor ceil round trunc sign hardtanh hardswish hardsigmoid leaky_relu elu softplus clamp_min clamp_max"
)
_BINARY = (
    "add sub rsub mul div maximum minimum pow atan2 tanh_backward sigmoid_backward gelu_backward silu_backward "
    "mish_backward threshold_backward hardswish_backward leaky_relu_backward"
)
_TERNARY = "addcmul addcdiv lerp clamp"
_OPERANDS = {
    f"aten::{name}{end}": number
    for number, names in enumerate((_UNARY, _BINARY, _TERNARY), 1)
    for name in names.split()
    for end in ("", "_")
}
"""Operators that compute each element of one result from those of their first inputs: how many these can be."""
_FLOATS = {"double": 8, "float": 4, "half": 2, "bfloat16": 2}
_SIZES = {
    **_FLOATS,
    "long int": 8,
    "long": 8,
    "int": 4,
    "short int": 2,
    "signed char": 1,
    "unsigned char": 1,
    "bool": 1,
}
"""Bytes of an element, by the names of types in traces, in small letters and without `c10::`."""
_COPY, _FILL = "aten::copy_", "aten::fill_"
POINTWISE = frozenset((*_OPERANDS, _COPY, _FILL))


def pointwise_bytes(
    name: str,
    shapes: Sequence[TensorShape | None],
    dtypes: Sequence[str],
    strides: Sequence[TensorShape | None] = (),
) -> int | None:
    """Return the bytes that a call of one of POINTWISE reads and writes, if it touches each element in memory once.

    `shapes`, `dtypes` and `strides` are those of its inputs. None where types, which may be promoted, or inputs that
    may be a place for the result leave open what is read or written.
    """
    sizes = [_SIZES.get(dtype.removeprefix("c10::").lower()) for dtype in dtypes]
    tensors = [place for place, shape in enumerate(shapes) if shape != ()]
    operands = 2 if name == _COPY else 1 if name == _FILL else _OPERANDS[name]
    if not tensors or tensors[-1] >= min(operands, len(sizes)) or any(shapes[place] is None for place in tensors):
        return None
    known = [shapes[place] or () for place in tensors]
    read = [
        elements_in_memory(shape, strides[place] if place < len(strides) else None) * (sizes[place] or 0)
        for shape, place in zip(known, tensors, strict=True)
    ]
    if any(sizes[place] is None for place in tensors):
        return None
    if name == _FILL:
        return read[0]
    if name == _COPY:
        return sum(read) if tensors == [0, 1] else None
    result = _broadcast(known)
    same = {dtypes[place].removeprefix("c10::").lower() for place in tensors}
    if len(same) > 1 or not same <= _FLOATS.keys() or result is None or (name[-1] == "_" and shapes[0] != result):
        return None
    return sum(read) + math.prod(result) * (sizes[tensors[0]] or 0)


def _broadcast(shapes: Sequence[TensorShape]) -> TensorShape | None:
    """Return the shape of a result that inputs of these shapes give; None where they do not fit."""
    rank = max(map(len, shapes))
    lengths = [
        {length for length in dims if length != 1} for dims in zip(*(_padded(s, rank) for s in shapes), strict=True)
    ]
    return tuple(next(iter(own), 1) for own in lengths) if all(len(own) <= 1 for own in lengths) else None


def _padded(shape: TensorShape, rank: int) -> TensorShape:
    return (1,) * (rank - len(shape)) + shape
