"""Attention whose scores go through memory: a softmax between two batched products of fitting shapes. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Literal, NamedTuple

from msgspec import Struct

from gpuprof.model.launch_sequences import LaunchInSequence

WIDEST_HEAD = 256
"""The widest head of FlashAttention. PyTorch's memory-efficient attention takes wider ones, which pays if the scores
are larger than queries and keys; else it is probably another kind of attention."""
_BATCHED = ("aten::bmm", "aten::baddbmm", "aten::matmul")
"""Products of batches, of which neither factor is the weight of a layer if both have a dimension for the batch."""
_PRODUCT = re.compile(r"mm(?:_|$)|matmul|linear|conv")
_NEAR = 32
"""Kernels between a softmax and its products at most: masks, scales and copies."""

AttentionRole = Literal["product", "softmax", "elementwise"]
_Shape = tuple[int, ...]
_Side = Sequence[LaunchInSequence]


class AttentionPart(Struct, frozen=True):
    """The part that a kernel has in attention whose scores go through memory between products of their own.

    `scores` is the shape of the scores: batch × heads, queries, keys; `head` the width of a head. Both are None if only
    names show it. `share` is the share of the kernel's time in launches that are such parts. `in_sdpa`: PyTorch's
    scaled_dot_product_attention chose to compute it so.
    """

    role: AttentionRole
    scores: tuple[int, int, int] | None = None
    head: int | None = None
    in_sdpa: bool = False
    share: float = 1.0


class _Matrices(NamedTuple):
    """The matrices of a batch: all elements of them, both lengths of one, in either order, and the third length of
    their product."""

    elements: int
    sides: tuple[int, int]
    head: int

    def may_be(self, scores: tuple[int, int, int]) -> bool:
        """Return whether they may be these scores, also transposed, or with heads and queries folded into one side."""
        is_head = self.head <= WIDEST_HEAD or self.head < min(scores[1:])
        return is_head and self.elements == math.prod(scores) and scores[-1] in self.sides


def attention_of(launches: Sequence[LaunchInSequence]) -> Iterator[tuple[LaunchInSequence, AttentionPart]]:
    """Yield the launches of one stream that are parts of attention, forward and backward. A later part is better known.

    Forward, a product before a softmax makes what the softmax reads, and one after it multiplies the result. Backward,
    up to two products on each side make or multiply matrices of that shape. All that scaled_dot_product_attention
    launches is a part.
    """
    for launch in launches:
        if launch.in_sdpa:
            yield launch, AttentionPart(_role(launch), in_sdpa=True)
    for place, softmax in enumerate(launches):
        if _is_softmax(softmax.function):
            before = _until_softmax(launches[max(0, place - _NEAR) : place][::-1])
            after = _until_softmax(launches[place + 1 : place + 1 + _NEAR])
            yield from _around(softmax, before, after)


def _role(launch: LaunchInSequence) -> AttentionRole:
    if _is_softmax(launch.function):
        return "softmax"
    return "product" if _PRODUCT.search(launch.operator) else "elementwise"


def _until_softmax(launches: Iterable[LaunchInSequence]) -> _Side:
    return list(takewhile(lambda launch: not _is_softmax(launch.function), launches))


@lru_cache(maxsize=4096)
def _is_softmax(name: str) -> bool:
    bare = name.lower().replace("_", "")
    return "softmax" in bare and "logsoftmax" not in bare


def _around(softmax: LaunchInSequence, before: _Side, after: _Side) -> Iterator[tuple[LaunchInSequence, AttentionPart]]:
    """Yield the parts around one softmax; nothing if the products on its sides do not fit. Nearest launches first."""
    most = 2 if "backward" in softmax.function.lower() else 1
    scores = _scores(softmax, before)
    head: int | None = None
    if scores is not None:
        first = [one for one in _until_layer(before, scores) if _heads(scores, _matrices(one))][:most]
        last = [one for one in _until_layer(after, scores) if _heads(scores, _matrices(one)[:2])][:most]
        if not any(_heads(scores, _matrices(one)[2:]) for one in first):
            return
        head = max(head for one in (*first, *last) for head in _heads(scores, _matrices(one)))
    elif not softmax.shapes:
        first, last = _next_products(before)[:most], _next_products(after)[:most]
    else:
        return
    if not first or not last:
        return
    roles: dict[AttentionRole, _Side] = {"softmax": (softmax,), "product": (*first, *last)}
    between = (*before[: before.index(first[-1])], *after[: after.index(last[-1])])
    roles["elementwise"] = tuple(
        one for one in between if one.is_pointwise and (scores is None or one.elements == math.prod(scores))
    )
    for role, launches in roles.items():
        for launch in launches:
            yield launch, AttentionPart(role, scores, head, launch.in_sdpa)


def _until_layer(launches: _Side, scores: tuple[int, int, int]) -> Iterator[LaunchInSequence]:
    """Return the launches up to a layer's product with a matrix as large as the scores.

    Such a layer takes what looks like scores, and so the softmax does not. Others make values or positions meanwhile.
    """

    def is_layer(one: LaunchInSequence) -> bool:
        is_product = _PRODUCT.search(one.operator) is not None and not _matrices(one)
        return is_product and math.prod(scores) in map(math.prod, one.shapes)

    return takewhile(lambda one: not is_layer(one), launches)


def _next_products(launches: _Side) -> list[LaunchInSequence]:
    """Return the nearest launches that are not point-wise, as long as they are products of batches by their names."""
    others = (one for one in launches if not one.is_pointwise)
    return list(takewhile(lambda one: one.operator in _BATCHED[:2], others))


def _heads(scores: tuple[int, int, int], matrices: Iterable[_Matrices]) -> list[int]:
    """Return the widths of heads by those matrices that may be the scores."""
    return [own.head for own in matrices if own.may_be(scores)]


def _scores(softmax: LaunchInSequence, before: _Side) -> tuple[int, int, int] | None:
    """Return the shape that a softmax normalises: its operator's, else that of the product before it."""
    shape = softmax.shapes[0] if softmax.shapes else next(map(_result, filter(_matrices, before)), ())
    return (math.prod(shape[:-2]), shape[-2], shape[-1]) if len(shape) > 2 else None


def _result(product: LaunchInSequence) -> _Shape:
    left, right = product.shapes
    return (*left[:-1], right[-1])


def _matrices(launch: LaunchInSequence) -> Sequence[_Matrices]:
    """Return both factors of a batched product and its result; nothing for other launches."""
    return _of_product(*launch.shapes) if launch.operator in _BATCHED and len(launch.shapes) == 2 else ()


@lru_cache(maxsize=4096)
def _of_product(left: _Shape, right: _Shape) -> Sequence[_Matrices]:
    if len(left) < 3 or left[:-2] != right[:-2] or left[-1] != right[-2]:
        return ()
    batch, rows, depth, columns = math.prod(left[:-2]), left[-2], left[-1], right[-1]
    of_three = ((rows, depth, columns), (depth, columns, rows), (rows, columns, depth))
    return [_Matrices(batch * one * other, (one, other), head) for one, other, head in of_three]
