"""FLOP of PyTorch's operators by the shapes of their inputs, as `torch.utils.flop_counter` counts them.

Only operators that multiply matrices count, a multiplication and an addition as two; what is done per element does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from gpuprof.model.recorded import Missing
from gpuprof.timeline.trace import MatrixProduct, TensorShape

RECORD_SHAPES = "record it with torch.profiler.profile(record_shapes=True)"
OTHER = "other"
"""The path of data types that no path of work is named for, such as complex ones."""
_NEWER = "record it with PyTorch 2.1 or newer, which also records an operator's settings"
_MOST_FLOP = 1e24
"""No call of an operator comes near it: it takes the fastest GPU years."""
_FP4 = "c10::Float4_e2m1fn_x2"
_PATHS = {
    **dict.fromkeys(("double", "Double"), "fp64"),
    **dict.fromkeys(("float", "Float"), "fp32"),
    **dict.fromkeys(("c10::Half", "Half"), "tensor.fp16"),
    **dict.fromkeys(("c10::BFloat16", "BFloat16"), "tensor.bf16"),
    **dict.fromkeys(("signed char", "unsigned char", "Char", "Byte"), "tensor.int8"),
    _FP4: "tensor.fp4",
}
_BYTES = {"fp64": 8, "fp32": 4, "tensor.fp16": 2, "tensor.bf16": 2, "tensor.fp8": 1, "tensor.int8": 1, "tensor.fp4": 1}
"""Bytes of an element as torch stores it, two of FP4."""
_INTEGERS = re.compile(r"-?\d{1,9}")
_TRUTH = {"True": True, "False": False}

Shapes = Sequence[TensorShape | None]
OperatorSettings = Sequence[str]


class ProductFlop(Struct, frozen=True):
    """FLOP of one call of an operator, and the path of work that its data type asks for: FP32 can also run as TF32.

    `exact` says that no kernel does with fewer: attention leaves out what is masked, convolutions what is padded.
    `operand_bytes` are those of both matrices and the result, each once; None for other operators.
    """

    path: str
    flop: float
    exact: bool = False
    operand_bytes: float | None = None


class _Formula(NamedTuple):
    """How FLOP follow from shapes and settings, which input tells the data type, and what the formula also needs."""

    flop: Callable[[Shapes, OperatorSettings], int | None]
    operand: int
    needs: str


class _Settings(Struct, frozen=True):
    """The places of a convolution's settings among its inputs; without a place for it, none is transposed."""

    stride: int
    padding: int
    dilation: int
    transposed: int | None


def product_flop(product: MatrixProduct) -> ProductFlop | Missing:
    """Return the FLOP of a call of one of PRODUCTS, or why they are not known.

    They are 2·M·N·K for matrices, as in `torch.utils.flop_counter`, whose conventions are kept: all of the scores of
    attention count, also those that a causal mask hides, and padding counts. The gradient of a grouped convolution's
    weights counts as if there were no groups. Two things differ: FP4 operands, which torch stores two to an element,
    count each; and attention called below `scaled_dot_product_attention` counts in its own order of dimensions.
    """
    formula = _FORMULAS[product.name]
    shapes, settings = product.shapes, product.settings
    if shapes is None:
        return Missing(product.name, "the trace has no shapes of its operators' inputs", RECORD_SHAPES)
    flop = formula.flop(shapes, settings or ())
    if flop is None or flop > _MOST_FLOP:
        return Missing(product.name, f"the trace lacks {formula.needs}", _NEWER)
    dtype = product.dtypes[formula.operand] if formula.operand < len(product.dtypes) else ""
    return ProductFlop(
        path=path_of(dtype),
        flop=flop * (2.0 if dtype == _FP4 else 1.0),
        exact=product.name in _MATRICES,
        operand_bytes=_operand_bytes(product, formula.operand, dtype),
    )


def _operand_bytes(product: MatrixProduct, first: int, dtype: str) -> float | None:
    """Return the bytes of two matrices and their product, which has the data type of the operands where it is known.

    An operand that is expanded over a dimension has a stride of 0 there, and is in memory once. Where strides are not
    known, those of batches may be.
    """
    size, shapes = _BYTES.get(path_of(dtype)), product.shapes or ()
    if product.name not in _MATRICES or size is None or (product.name in _BATCHED and not product.strides):
        return None
    operands = [
        elements_in_memory(shapes[place] or (), product.strides[place] if place < len(product.strides) else None)
        for place in (first, first + 1)
    ]
    result = math.prod((shapes[first] or ())[:-1]) * (shapes[first + 1] or (1,))[-1]
    return size * (sum(operands) + (result if product.name != _SCALED else 0))


def elements_in_memory(shape: TensorShape, strides: TensorShape | None) -> int:
    """Return the elements of a tensor that lie in memory."""
    if strides is None or len(strides) != len(shape):
        return math.prod(shape)
    return math.prod(length for length, stride in zip(shape, strides, strict=True) if stride)


def path_of(dtype: str) -> str:
    """Return the path of work of a data type as traces write it: "c10::BFloat16" → `tensor.bf16`."""
    return "tensor.fp8" if "Float8" in dtype else _PATHS.get(dtype, OTHER)


def _matrices(first: int, rank: int) -> Callable[[Shapes, OperatorSettings], int | None]:
    """Return the formula of an operator that multiplies two inputs that follow each other: [batch,] M×K and K×N."""

    def flop(shapes: Shapes, _: OperatorSettings) -> int | None:
        left, right = _shape(shapes, first, rank), _shape(shapes, first + 1, rank)
        if left is None or right is None or left[:-2] != right[:-2] or left[-1] != right[-2]:
            return None
        return 2 * math.prod(left) * right[-1]

    return flop


def _convolution(places: _Settings) -> Callable[[Shapes, OperatorSettings], int | None]:
    """Return the formula of a convolution: each weight is used once at each place of the output, or of the input if it
    is transposed."""

    def flop(shapes: Shapes, settings: OperatorSettings) -> int | None:
        x, weights = _shape(shapes, 0), _shape(shapes, 1)
        transposed = _truth(settings, places.transposed) if places.transposed is not None else False
        if x is None or weights is None or len(x) != len(weights) or transposed is None:
            return None
        moved = x[2:] if transposed else _output(x[2:], weights[2:], settings, places)
        return 2 * x[0] * math.prod(moved) * math.prod(weights) if moved is not None else None

    return flop


def _output(
    size: TensorShape, window: TensorShape, settings: OperatorSettings, places: _Settings
) -> TensorShape | None:
    """Return the places that a convolution's window takes: ⌊(n + 2·padding − dilation·(k − 1) − 1) ÷ stride⌋ + 1."""
    told = [_integers(settings, place, len(size)) for place in (places.stride, places.padding, places.dilation)]
    strides, paddings, dilations = told
    if strides is None or paddings is None or dilations is None or min(strides, default=1) < 1:
        return None
    axes = zip(size, window, strides, paddings, dilations, strict=True)
    return tuple(max(0, (n + 2 * p - d * (k - 1) - 1) // s + 1) for n, k, s, p, d in axes)


def _convolution_backward(shapes: Shapes, settings: OperatorSettings) -> int | None:
    """Return the FLOP of the gradients that are wanted: of the input as many as forward, and those of the weights."""
    gradient, x, weights = (_shape(shapes, place) for place in range(3))
    transposed, wanted = _truth(settings, 7), re.findall("True|False", settings[10] if len(settings) > 10 else "")
    if gradient is None or x is None or weights is None or transposed is None or len(wanted) != 3:
        return None
    if not 2 <= len(gradient) == len(x) == len(weights):
        return None
    batch, places = x[0], math.prod((x if transposed else gradient)[2:])
    of_input = 2 * batch * places * math.prod(weights) if _TRUTH[wanted[0]] else 0
    of_weights = 2 * batch * places * math.prod(weights[2:]) * x[1] * gradient[1] if _TRUTH[wanted[1]] else 0
    return of_input + of_weights


def _attention(
    first: int, *, backward: bool, offsets: int | None = None, heads: int = 1
) -> Callable[[Shapes, OperatorSettings], int | None]:
    """Return the formula of attention: queries × keys and scores × values, and five such products backward.

    `first` is the place of the queries, `heads` the dimension that counts heads. Where there are `offsets`, sequences
    have lengths of their own, which are values of a tensor and in no trace.
    """

    def flop(shapes: Shapes, _: OperatorSettings) -> int | None:
        query, key, value = (_shape(shapes, first + place, 4) for place in range(3))
        if query is None or key is None or value is None or (offsets is not None and _shape(shapes, offsets)):
            return None
        if key[:3] != value[:3] or query[0] != key[0] or query[3] != key[3]:
            return None
        scores = query[0] * query[1] * query[2] * key[3 - heads]
        sums = 3 * query[3] + 2 * value[3] if backward else query[3] + value[3]
        return 2 * scores * sums

    return flop


def _shape(shapes: Shapes, place: int, rank: int | None = None) -> TensorShape | None:
    """Return the shape of an input that is a tensor with dimensions, of that many if asked for."""
    shape = shapes[place] if place < len(shapes) else None
    return shape if shape and (rank is None or len(shape) == rank) else None


def _integers(settings: OperatorSettings, place: int, count: int) -> tuple[int, ...] | None:
    """Return a setting such as "[2, 2]" as so many numbers; one number stands for all."""
    numbers = tuple(map(int, _INTEGERS.findall(settings[place]))) if place < len(settings) else ()
    if len(numbers) == 1:
        return numbers * count
    return numbers if len(numbers) == count else None


def _truth(settings: OperatorSettings, place: int) -> bool | None:
    return _TRUTH.get(settings[place]) if place < len(settings) else None


_SHAPES = "shapes that fit together"
_STRIDES = "stride, padding and dilation"
_OFFSETS = "the sequence lengths"
_CONVOLUTION = _Formula(_convolution(_Settings(stride=3, padding=4, dilation=5, transposed=6)), 0, _STRIDES)
_FORWARD = _Formula(_attention(0, backward=False), 0, _SHAPES)
_BACKWARD = _Formula(_attention(1, backward=True), 1, _SHAPES)
_SCALED = "aten::_scaled_mm"
_BATCHED = frozenset({"aten::bmm", "aten::baddbmm"})
_MATRICES = frozenset({"aten::mm", "aten::addmm", _SCALED, *_BATCHED})
_FORMULAS: Mapping[str, _Formula] = {
    "aten::mm": _Formula(_matrices(0, 2), 0, _SHAPES),
    "aten::addmm": _Formula(_matrices(1, 2), 1, _SHAPES),
    "aten::bmm": _Formula(_matrices(0, 3), 0, _SHAPES),
    "aten::baddbmm": _Formula(_matrices(1, 3), 1, _SHAPES),
    "aten::_scaled_mm": _Formula(_matrices(0, 2), 0, _SHAPES),
    "aten::convolution": _CONVOLUTION,
    "aten::_convolution": _CONVOLUTION,
    "aten::convolution_overrideable": _CONVOLUTION,
    "aten::cudnn_convolution": _Formula(
        _convolution(_Settings(stride=3, padding=2, dilation=4, transposed=None)), 0, _STRIDES
    ),
    "aten::convolution_backward": _Formula(_convolution_backward, 0, "the choice of gradients"),
    "aten::_scaled_dot_product_efficient_attention": _FORWARD,
    "aten::_scaled_dot_product_flash_attention": _FORWARD,
    "aten::_scaled_dot_product_cudnn_attention": _FORWARD,
    "aten::_scaled_dot_product_efficient_attention_backward": _BACKWARD,
    "aten::_scaled_dot_product_flash_attention_backward": _BACKWARD,
    "aten::_scaled_dot_product_cudnn_attention_backward": _BACKWARD,
    "aten::_flash_attention_forward": _Formula(_attention(0, backward=False, offsets=3, heads=2), 0, _OFFSETS),
    "aten::_efficient_attention_forward": _Formula(_attention(0, backward=False, offsets=4, heads=2), 0, _OFFSETS),
    "aten::_flash_attention_backward": _Formula(_attention(1, backward=True, offsets=6, heads=2), 1, _OFFSETS),
    "aten::_efficient_attention_backward": _Formula(_attention(1, backward=True, offsets=6, heads=2), 1, _OFFSETS),
}
PRODUCTS = frozenset(_FORMULAS)
"""The operators that torch counts FLOP of. Where one calls another, the outer one counts."""
