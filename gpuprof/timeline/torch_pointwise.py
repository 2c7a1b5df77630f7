"""Bytes that PyTorch's point-wise operators read and write: each operand and the result once, by shapes and types."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

from gpuprof.timeline.torch_flop import element_bytes, elements_in_memory, type_name
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
_COPY, _FILL = "aten::copy_", "aten::fill_"
_OPERANDS = {_COPY: 2, _FILL: 1}
for _number, _names in enumerate((_UNARY, _BINARY, _TERNARY), 1):
    for _name in _names.split():
        _OPERANDS[f"aten::{_name}"] = _OPERANDS[f"aten::{_name}_"] = _number
"""Operators that compute each element of one result from those of their first inputs: how many these can be."""
_FLOATS = frozenset(("double", "float", "half", "bfloat16"))
POINTWISE = frozenset(_OPERANDS)


def pointwise_bytes(
    name: str,
    shapes: Sequence[TensorShape | None],
    dtypes: Sequence[str],
    strides: Sequence[TensorShape | None] = (),
) -> int | None:
    """Return the bytes that a call of one of POINTWISE reads and writes, if it touches each element in memory once.

    `shapes`, `dtypes` and `strides` are those of its inputs. None if promoted types, or inputs that may receive the
    result, leave open what is read or written.
    """
    tensors = [place for place, shape in enumerate(shapes) if shape != ()]
    if not tensors or tensors[-1] >= min(_OPERANDS[name], len(dtypes)):
        return None
    known = [shape for shape in shapes if shape]
    sizes = [element_bytes(dtypes[place]) or 0 for place in tensors]
    if len(known) < len(tensors) or 0 in sizes:
        return None
    read = sum(elements_in_memory(place, shapes, strides) * size for place, size in zip(tensors, sizes, strict=True))
    if name in (_COPY, _FILL):
        return read if len(tensors) == _OPERANDS[name] else None
    result, types = _broadcast(known), {type_name(dtypes[place]) for place in tensors}
    if len(types) > 1 or not types <= _FLOATS or result is None:
        return None
    if name.endswith("_") and shapes[0] != result:
        return None
    return read + math.prod(result) * sizes[0]


def _broadcast(shapes: Sequence[TensorShape]) -> TensorShape | None:
    """Return the shape of the result of inputs of these shapes; None if they do not fit."""
    lengths = [set(dims) - {1} for dims in zip_longest(*map(reversed, shapes), fillvalue=1)]
    if any(len(own) > 1 for own in lengths):
        return None
    return tuple(next(iter(own), 1) for own in reversed(lengths))
