"""FLOP of PyTorch's operators by the shapes of their inputs, as `torch.utils.flop_counter` counts them.

Only operators that multiply matrices count, a multiplication and an addition as two; work per element does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import NamedTuple

from msgspec import Struct

from gpuprof.model.recorded import Missing
from gpuprof.timeline.trace import MatrixProduct, TensorShape

_RECORD_SHAPES = "record it with torch.profiler.profile(record_shapes=True)"
_OTHER = "other"
"""The path of data types that no path of work is named for, such as complex ones."""
_NEWER = "record it with PyTorch 2.1 or newer, which also records an operator's settings"
_MOST_FLOP = 1e24
"""No call of an operator comes near it: it takes the fastest GPU years."""
_FP4, _FP8 = "float4_e2m1fn_x2", "float8_"
_INT8 = ("signed char", "unsigned char", "char", "byte")
_PATHS = {
    "double": "fp64",
    "float": "fp32",
    "half": "tensor.fp16",
    "bfloat16": "tensor.bf16",
    _FP4: "tensor.fp4",
    **dict.fromkeys(_INT8, "tensor.int8"),
}
_BYTES = {
    **dict.fromkeys((*_INT8, "bool", "qint8", "quint8", _FP4), 1),
    **dict.fromkeys(("half", "bfloat16", "short", "short int", "uint16"), 2),
    **dict.fromkeys(("float", "int", "complexhalf", "uint32"), 4),
    **dict.fromkeys(("double", "long", "long int", "complexfloat", "uint64"), 8),
    "complexdouble": 16,
}
"""Bytes of an element as torch stores it, two of FP4. Traces have the names of C++ ("long int") and of c10 ("Long")."""
_INTEGERS = re.compile(r"-?\d{1,9}")
_TRUTH = {"True": True, "False": False}
_MASKS = {"0": False, "1": True, "2": True}
"""Which kinds of mask of memory-efficient attention are causal."""
_SCALED = "aten::_scaled_mm"

Shapes = Sequence[TensorShape | None]
OperatorSettings = Sequence[str]


class ProductFlop(Struct, frozen=True):
    """FLOP of one call of an operator, and the path of work that its data type asks for: FP32 can also run as TF32.

    `exact` says that no kernel does with fewer: attention leaves out what is masked, convolutions what is padded, and
    products of complex numbers one of four multiplications. `operand_bytes` are those of both matrices and the result,
    each once; None for other operators. `causal` says whether a mask hides from each query the keys after it, None if
    that was not recorded; `as_many_keys`: there are as many keys as queries.
    """

    path: str
    flop: float
    exact: bool = False
    operand_bytes: float | None = None
    causal: bool | None = False
    as_many_keys: bool = False


class _Formula(NamedTuple):
    """How FLOP follow from settings and shapes, those of the operands first; what it also needs; the first operand.

    Of attention also the place of the setting that says whether it is causal, by which of its values, and the dimension
    that counts heads.
    """

    flop: Callable[[Shapes, OperatorSettings], int | None]
    needs: str
    first: int = 0
    causal: int | None = None
    says: Mapping[str, bool] = _TRUTH
    heads: int = 1


def product_flop(product: MatrixProduct) -> ProductFlop | Missing:
    """Return the FLOP of a call of one of PRODUCTS, or why they are not known.

    They are 2·M·N·K for matrices, as in `torch.utils.flop_counter`, whose conventions are kept: all of the scores of
    attention count, also those that a causal mask hides, and padding counts. The gradient of a grouped convolution's
    weights counts as if there were no groups. Three things differ: FP4 operands, which torch stores two to an element,
    count each; complex numbers take four multiplications; and attention called below `scaled_dot_product_attention`
    counts in its own order of dimensions.
    """
    formula = _FORMULAS[product.name]
    if product.shapes is None:
        return Missing(product.name, "the trace has no shapes of its operators' inputs", _RECORD_SHAPES)
    shapes = product.shapes[formula.first :]
    flop = formula.flop(shapes, product.settings)
    if flop is None or flop > _MOST_FLOP:
        return Missing(product.name, f"the trace lacks {formula.needs}", _NEWER)
    dtype = _setting(product.dtypes, formula.first)
    return ProductFlop(
        path=path_of(dtype),
        flop=flop * _products_of_elements(dtype),
        exact=formula.flop is _product and not _is_complex(dtype),
        operand_bytes=_operand_bytes(product, shapes, dtype),
        causal=formula.causal is not None and formula.says.get(_setting(product.settings, formula.causal)),
        as_many_keys=formula.causal is not None and _has_as_many_keys(formula, shapes),
    )


def _has_as_many_keys(formula: _Formula, shapes: Shapes) -> bool:
    query, key = _tensors(shapes, 2)
    return query[3 - formula.heads] == key[3 - formula.heads]


def _products_of_elements(dtype: str) -> float:
    """Return how many products of numbers the product of two elements is."""
    if type_name(dtype) == _FP4:
        return 2.0
    return 4.0 if _is_complex(dtype) else 1.0


def _is_complex(dtype: str) -> bool:
    return "complex" in dtype.lower()


def _operand_bytes(product: MatrixProduct, operands: Shapes, dtype: str) -> float | None:
    """Return the bytes of two matrices and their product, which has the data type of the operands if it is known.

    An operand that is expanded over a dimension has a stride of 0 there, and is in memory once. Where strides are not
    known, those of batches may be.
    """
    formula = _FORMULAS[product.name]
    size = element_bytes(dtype)
    left, right = _tensors(operands, 2)
    if formula.flop is not _product or size is None or (len(left) > 2 and not product.strides):
        return None
    strides = product.strides[formula.first :]
    elements = elements_in_memory(0, operands, strides) + elements_in_memory(1, operands, strides)
    if product.name != _SCALED:
        elements += math.prod(left[:-1]) * right[-1]
    return size * elements


def elements_in_memory(place: int, shapes: Shapes, strides: Shapes) -> int:
    """Return the elements of an input that lie in memory."""
    own = strides[place] if place < len(strides) else None
    dimensions = zip_longest(shapes[place] or (), own or (), fillvalue=1)
    return math.prod(length for length, stride in dimensions if stride)


def path_of(dtype: str) -> str:
    """Return the path of work of a data type as traces write it: "c10::BFloat16" → `tensor.bf16`."""
    name = type_name(dtype)
    return "tensor.fp8" if name.startswith(_FP8) else _PATHS.get(name, _OTHER)


def element_bytes(dtype: str) -> int | None:
    """Return the bytes of an element of a data type as traces write it; None if they are not known."""
    name = type_name(dtype)
    return 1 if name.startswith(_FP8) else _BYTES.get(name)


def type_name(dtype: str) -> str:
    """Return the name of a data type in small letters: "c10::BFloat16" → "bfloat16"."""
    return dtype.removeprefix("c10::").lower()


def _product(shapes: Shapes, _: OperatorSettings) -> int | None:
    """Return the FLOP of the product of two inputs, [batch,] M×K and K×N."""
    left, right = _tensors(shapes, 2)
    if not 2 <= len(left) == len(right) or left[:-2] != right[:-2] or left[-1] != right[-2]:
        return None
    return 2 * math.prod(left) * right[-1]


def _convolution(
    shapes: Shapes, settings: OperatorSettings, padding: int = 4, dilation: int = 5, transposed: int | None = 6
) -> int | None:
    """Return the FLOP of a convolution: each weight is used once at each place of the output, or of the input if it is
    transposed.

    `padding`, `dilation` and `transposed` are the places of these settings; without the last none is transposed.
    """
    x, weights = _tensors(shapes, 2)
    is_transposed = _TRUTH.get(_setting(settings, transposed)) if transposed is not None else False
    if not x or len(x) != len(weights) or is_transposed is None:
        return None
    moved = x[2:] if is_transposed else _output(x[2:], weights[2:], settings, padding, dilation)
    return 2 * x[0] * math.prod(moved) * math.prod(weights) if moved is not None else None


def _output(
    size: TensorShape, window: TensorShape, settings: OperatorSettings, padding: int, dilation: int
) -> TensorShape | None:
    """Return the places that a convolution's window takes: ⌊(n + 2·padding − dilation·(k − 1) − 1) ÷ stride⌋ + 1."""
    strides = _integers(settings, _STRIDE, len(size))
    paddings = _integers(settings, padding, len(size))
    dilations = _integers(settings, dilation, len(size))
    if strides is None or paddings is None or dilations is None or min(strides, default=1) < 1:
        return None
    axes = zip(size, window, strides, paddings, dilations, strict=True)
    return tuple(max(0, (n + 2 * p - d * (k - 1) - 1) // s + 1) for n, k, s, p, d in axes)


def _convolution_backward(shapes: Shapes, settings: OperatorSettings) -> int | None:
    """Return the FLOP of the gradients that are wanted: of the input as many as forward, and those of the weights."""
    gradient, x, weights = _tensors(shapes, 3)
    transposed, wanted = _TRUTH.get(_setting(settings, 7)), re.findall("True|False", _setting(settings, 10))
    if not 2 <= len(gradient) == len(x) == len(weights) or transposed is None or len(wanted) != 3:
        return None
    places = 2 * x[0] * math.prod((x if transposed else gradient)[2:])
    of_input = places * math.prod(weights) * _TRUTH[wanted[0]]
    of_weights = places * math.prod(weights[2:]) * x[1] * gradient[1] * _TRUTH[wanted[1]]
    return of_input + of_weights


def _attention(
    shapes: Shapes, _: OperatorSettings, *, backward: bool = False, offsets: int | None = None, heads: int = 1
) -> int | None:
    """Return the FLOP of attention: queries × keys and scores × values, and five such products backward.

    `heads` is the dimension that counts heads. Where there are `offsets`, sequences have lengths of their own, which
    are values of a tensor and in no trace.
    """
    query, key, value = _tensors(shapes, 3)
    if not len(query) == len(key) == len(value) == 4 or (offsets is not None and any(shapes[offsets : offsets + 1])):
        return None
    if key[:3] != value[:3] or query[0] != key[0] or query[3] != key[3]:
        return None
    scores = query[0] * query[1] * query[2] * key[3 - heads]
    sums = 3 * query[3] + 2 * value[3] if backward else query[3] + value[3]
    return 2 * scores * sums


def _tensors(shapes: Shapes, count: int) -> list[TensorShape]:
    """Return the shapes of the first inputs; one that is no tensor, or has no dimensions, is empty."""
    return [*(shape or () for shape in shapes[:count]), *[()] * (count - len(shapes))]


def _integers(settings: OperatorSettings, place: int, count: int) -> tuple[int, ...] | None:
    """Return a setting such as "[2, 2]" as so many numbers; a single number applies to all."""
    numbers = tuple(map(int, _INTEGERS.findall(_setting(settings, place))))
    if len(numbers) == 1:
        return numbers * count
    return numbers if len(numbers) == count else None


def _setting(settings: OperatorSettings, place: int) -> str:
    return settings[place] if place < len(settings) else ""


_STRIDE = 3
_SHAPES = "shapes that fit together"
_STRIDES = "stride, padding and dilation"
_OFFSETS = "the sequence lengths"
_PRODUCT, _ADDED_PRODUCT = _Formula(_product, _SHAPES), _Formula(_product, _SHAPES, 1)
_CONVOLUTION = _Formula(_convolution, _STRIDES)


def _fused(
    causal: int, says: Mapping[str, bool] = _TRUTH, *, offsets: int | None = None, backward: bool = False
) -> _Formula:
    """Return the formula of an operator of fused attention; with offsets heads are its third dimension."""
    needs = _SHAPES
    heads = 1
    if offsets is not None:
        needs = _OFFSETS
        heads = 2
    flop = partial(_attention, backward=backward, offsets=offsets, heads=heads)
    return _Formula(flop, needs, int(backward), causal, says, heads)


_FORMULAS: Mapping[str, _Formula] = {
    "aten::mm": _PRODUCT,
    "aten::addmm": _ADDED_PRODUCT,
    "aten::bmm": _PRODUCT,
    "aten::baddbmm": _ADDED_PRODUCT,
    _SCALED: _PRODUCT,
    "aten::convolution": _CONVOLUTION,
    "aten::_convolution": _CONVOLUTION,
    "aten::convolution_overrideable": _CONVOLUTION,
    "aten::cudnn_convolution": _Formula(partial(_convolution, padding=2, dilation=4, transposed=None), _STRIDES),
    "aten::convolution_backward": _Formula(_convolution_backward, "the choice of gradients"),
    "aten::_scaled_dot_product_efficient_attention": _fused(6),
    "aten::_scaled_dot_product_flash_attention": _fused(4),
    "aten::_scaled_dot_product_cudnn_attention": _fused(6),
    "aten::_scaled_dot_product_efficient_attention_backward": _fused(11, backward=True),
    "aten::_scaled_dot_product_flash_attention_backward": _fused(11, backward=True),
    "aten::_scaled_dot_product_cudnn_attention_backward": _fused(14, backward=True),
    "aten::_flash_attention_forward": _fused(8, offsets=3),
    "aten::_efficient_attention_forward": _fused(9, _MASKS, offsets=4),
    "aten::_flash_attention_backward": _fused(11, offsets=5, backward=True),
    "aten::_efficient_attention_backward": _fused(14, _MASKS, offsets=5, backward=True),
}
PRODUCTS = frozenset(_FORMULAS)
"""The operators that torch counts FLOP of. Where one calls another, the outer one counts."""
