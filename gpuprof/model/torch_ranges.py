"""Reads the NVTX ranges of a torch program: operators with the shapes of their tensors, and what launched a kernel.

torch's own observer (`emit_nvtx`) writes `aten::addmm, seq = 5, op_id = 9, sizes = [[8], [4, 16], [16, 8]],
input_op_ids = [(3,0)]`. The numbers differ at every launch, so they go; the shapes stay: `aten::addmm [4, 16]×[16, 8]`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

MODULE = "nn.Module: "
"""How PyTorch's profiler begins the name of a module's call, where it records stacks: `nn.Module: Linear_0`."""
OPTIMIZER_CALL = re.compile(r"Optimizer\.step#(\w+)\.step")
"""The range that torch opens around a call of Optimizer.step, with the optimizer's class."""
MARK = "gpuprof-chosen"
"""The range that is open around chosen parts of a program while gpuprof profiles those alone. Readers leave it out."""
OPTIMIZER_UNIT = "optimizer step"
"""What a call of Optimizer.step is called among the parts of a program that can be chosen; modules have their names."""
_SIZES = r"\[(?:\[[\d, -]*\](?:, )?)*\]"
_TAIL = re.compile(
    rf"(?:, seq = \d+)?(?:, op_id = \d+)?(?:, sizes = ({_SIZES}))?(?:, input_op_ids = \[[\d(), -]*\])?\Z"
)
_TAIL_START = re.compile(r", (?:seq|op_id|sizes|input_op_ids) = ")
_SHAPE = re.compile(r"\[\d[\d, ]*\]")
_READABLE_SHAPE = re.compile(r"\[(\d{1,18}(?:, ?\d{1,18})*)\]")
_MOST_SHAPES = 3
_PRODUCTS = {
    **dict.fromkeys(("mm", "bmm", "matmul", "linear", "mv", "dot", "_int_mm", "_scaled_mm"), slice(0, 2)),
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution", "_convolution", "cudnn_convolution"), slice(0, 2)),
    **dict.fromkeys(("addmm", "baddbmm", "addbmm", "addmv", "_addmm_activation"), slice(1, 3)),
}
"""The operators that multiply two tensors, and which of their tensors those are."""
_MATRIX_PRODUCTS = frozenset(
    {"mm", "bmm", "matmul", "linear", "_int_mm", "_scaled_mm", "addmm", "baddbmm", "_addmm_activation"}
)
"""Those of them whose factors are matrices."""

_OPERATOR = re.compile(r"(?!(?:torch::)?autograd::)\w+::\w[\w:.]*(?: \[.*)?\Z", re.DOTALL)
_NODE = re.compile(r"(?:autograd::engine::evaluate_function: )?(\w+Backward\d*)(?: \[.*)?\Z", re.DOTALL)
_INSIDES = re.compile(r"autograd::|torch::autograd::|## Call |Torch-Compiled Region|CompiledFunction|ProfilerStep#")
"""Ranges of torch's own machinery, which tell a reader nothing."""
_MODULE = re.compile(r"\w+(?:\.\w+)*(?: \(backward\))?")


class ProductSize(NamedTuple):
    """The size of a product of two matrices: rows and columns of the result, and the length of the sums."""

    rows: int
    columns: int
    depth: int


def readable_range(name: str) -> str:
    """Return the name of a range without the numbers that torch counts launches with; others as they are."""
    start = _TAIL_START.search(name)
    tail = _TAIL.match(name, start.start()) if start is not None else None
    if start is None or tail is None:
        return name
    return operator_text(name[: start.start()], _SHAPE.findall(tail[1] or ""))


def operator_text(name: str, shapes: Sequence[str]) -> str:
    """Return an operator with the shapes of its tensors, such as `[4, 16]`: a product's factors, else the first few."""
    factors = _PRODUCTS.get(name.rpartition("::")[2])
    if factors is not None and len(shapes) >= factors.stop:
        return f"{name} {'×'.join(shapes[factors])}"
    more = ["…"] if len(shapes) > _MOST_SHAPES else []
    return " ".join([name, ", ".join([*shapes[:_MOST_SHAPES], *more])]).rstrip()


@lru_cache(maxsize=4096)
def operator_and_shapes(operator: str) -> tuple[str, tuple[tuple[int, ...], ...]]:
    """Return the name of an operator and the shapes of its tensors, as far as `operator_text` has them."""
    name, _, text = operator.partition(" ")
    return name, tuple(tuple(map(int, sizes.split(","))) for sizes in _READABLE_SHAPE.findall(text))


def launched_by(ranges: Sequence[str]) -> str:
    """Return the module and the operator that launched a kernel, such as `layers.3 · aten::mm [4, 16]×[16, 8]`.

    `ranges` are readable ones, outermost first. The operator is the innermost, the module the innermost range around it
    that is none of torch's own; without one it is the autograd node. Empty if no operator is there.
    """
    at = _place_of_operator(ranges)
    if at is None:
        return ""
    around = [text for text in reversed(ranges[:at]) if not _OPERATOR.match(text)]
    own = next((text for text in around if not _NODE.match(text) and not _INSIDES.match(text)), None)
    node = next((match[1] for text in around if (match := _NODE.match(text))), None)
    place = own or node
    return f"{place.removeprefix(MODULE)} · {ranges[at]}" if place else ranges[at]


def innermost_operator(ranges: Sequence[str]) -> str:
    """Return the innermost operator among readable ranges, with its shapes; empty if none is there."""
    at = _place_of_operator(ranges)
    return ranges[at] if at is not None else ""


def operator_with_shapes(ranges: Sequence[str]) -> str:
    """Return the innermost operator where shapes are known, which says what a launch computes; else empty.

    The text is the same in the traces of torch's profiler and in the NVTX ranges of its own observer.
    """
    operator = innermost_operator(ranges)
    return operator if " [" in operator else ""


def may_be_same_operator(one: str, other: str) -> bool:
    """Return whether two innermost operators may be the same: neither is known to differ in name or shapes."""
    name, _, shapes = one.partition(" [")
    other_name, _, other_shapes = other.partition(" [")
    if not name or not other_name:
        return True
    return name == other_name and (not shapes or not other_shapes or shapes == other_shapes)


def operator_name(ranges: Sequence[str]) -> str:
    """Return the innermost operator without its shapes, or the autograd node where no operator is; empty if neither."""
    operator = innermost_operator(ranges).partition(" [")[0]
    nodes = (match[1] for text in reversed(ranges) if (match := _NODE.match(text)))
    return operator or next(nodes, "")


def own_ranges(ranges: Sequence[str]) -> tuple[str, ...]:
    """Return the ranges around a launch that are neither operators nor anything else of torch's own."""
    return tuple(text for text in ranges if not any(kind.match(text) for kind in (_OPERATOR, _NODE, _INSIDES)))


def innermost_module(ranges: Sequence[str]) -> str:
    """Return the innermost range that is named as modules are: `layers.3.mlp`, `GPT`, `layers.3.mlp (backward)`.

    Where the profiler names modules, no other range is one.
    """
    own = own_ranges(ranges)[::-1]
    told = next((text.removeprefix(MODULE) for text in own if text.startswith(MODULE)), "")
    return told or next((text for text in own if _MODULE.fullmatch(text)), "")


def unit_of(ranges: Sequence[str]) -> str:
    """Return the innermost part of the program around a launch that can be chosen for a profile: a module, forward or
    backward, or a call of an optimizer. Empty if there is none.

    Ranges of the program that are named as modules are cannot be told from them by their names.
    """
    for text in reversed(own_ranges(ranges)):
        if OPTIMIZER_CALL.fullmatch(text):
            return OPTIMIZER_UNIT
        if _MODULE.fullmatch(text):
            return text
    return ""


def product_size(ranges: Sequence[str]) -> ProductSize | None:
    """Return the size of the innermost operator's product, of one of a batch.

    If the second factor is one matrix, all dimensions of the first but the last are rows. None without shapes, and if
    the operator is no product of two matrices.
    """
    name, shapes = operator_and_shapes(innermost_operator(ranges))
    if name.rpartition("::")[2] not in _MATRIX_PRODUCTS:
        return None
    if len(shapes) != 2 or min(map(len, shapes)) < 2:
        return None
    first, second = shapes
    rows = math.prod(first[:-1]) if len(second) == 2 else first[-2]
    return ProductSize(rows, second[-2] if name.endswith("linear") else second[-1], first[-1])


def least_side(ranges: Sequence[str]) -> int | None:
    """Return the shorter side of what the innermost operator makes as a product of two matrices; None as above."""
    size = product_size(ranges)
    return min(size.rows, size.columns) if size is not None else None


def _place_of_operator(ranges: Sequence[str]) -> int | None:
    return next((place for place in reversed(range(len(ranges))) if _OPERATOR.match(ranges[place])), None)
