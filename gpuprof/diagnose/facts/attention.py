"""Attention whose scores go through memory: a softmax between two batched products of fitting shapes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Literal, NamedTuple

from msgspec import Struct

from gpuprof.model.launch_sequences import LaunchInSequence

WIDEST_HEAD = 256
"""The widest head of FlashAttention; a softmax between wider products is another kind of attention."""
_BATCHED = ("aten::bmm", "aten::baddbmm", "aten::matmul")
"""Products of batches, of which neither factor is the weight of a layer if both have a dimension for the batch."""
_NEAR = 32
"""Kernels between a softmax and its products at most: masks, scales and copies."""

AttentionRole = Literal["product", "softmax", "elementwise"]
_Shape = tuple[int, ...]


class AttentionPart(Struct, frozen=True):
    """The part that a kernel has in attention whose scores go through memory between products of their own.

    `scores` is the shape of the scores: batch × heads, queries, keys. `share` is the share of the kernel's time in
    launches that are such parts. `in_sdpa`: PyTorch's scaled_dot_product_attention chose to compute it so.
    """

    role: AttentionRole
    scores: tuple[int, int, int]
    in_sdpa: bool = False
    share: float = 1.0


class _Matrices(NamedTuple):
    """The matrices of a batch: all elements of them, and the lengths of both sides of one, in either order."""

    elements: int
    sides: tuple[int, int]

    def may_be(self, scores: tuple[int, int, int]) -> bool:
        """Return whether they may be these scores, also transposed, or with heads and queries folded into one side."""
        return self.elements == math.prod(scores) and scores[-1] in self.sides


def attention_of(launches: Sequence[LaunchInSequence]) -> Iterator[tuple[LaunchInSequence, AttentionPart]]:
    """Yield the launches of one stream that are parts of attention, forward and backward.

    Forward, a product before a softmax makes what the softmax reads, and one after it multiplies the result. Backward,
    up to two products on each side make or multiply matrices of that shape.
    """
    for place, softmax in enumerate(launches):
        if _is_softmax(softmax.function):
            before = _until_softmax(launches[max(0, place - _NEAR) : place][::-1])
            after = _until_softmax(launches[place + 1 : place + 1 + _NEAR])
            yield from _around(softmax, before, after)


def _until_softmax(launches: Iterable[LaunchInSequence]) -> list[LaunchInSequence]:
    return list(takewhile(lambda launch: not _is_softmax(launch.function), launches))


@lru_cache(maxsize=4096)
def _is_softmax(name: str) -> bool:
    bare = name.lower().replace("_", "")
    return "softmax" in bare and "logsoftmax" not in bare


def _around(
    softmax: LaunchInSequence, before: Sequence[LaunchInSequence], after: Sequence[LaunchInSequence]
) -> Iterator[tuple[LaunchInSequence, AttentionPart]]:
    """Yield the parts around one softmax; nothing if the products on its sides do not fit. Nearest launches first."""
    scores = _scores(softmax, before)
    if scores is None:
        return
    most = 2 if "backward" in softmax.function.lower() else 1
    first = [one for one in before if _has(scores, _matrices(one))][:most]
    last = [one for one in after if _has(scores, _matrices(one)[:2])][:most]
    if not last or not any(_has(scores, _matrices(one)[2:]) for one in first):
        return
    roles: dict[AttentionRole, tuple[LaunchInSequence, ...]] = {"softmax": (softmax,), "product": (*first, *last)}
    between = (*before[: before.index(first[-1])], *after[: after.index(last[-1])])
    roles["elementwise"] = tuple(one for one in between if one.is_pointwise and one.elements == math.prod(scores))
    for role, launches in roles.items():
        for launch in launches:
            yield launch, AttentionPart(role, scores, launch.in_sdpa)


def _has(scores: tuple[int, int, int], matrices: Iterable[_Matrices | None]) -> bool:
    return any(own is not None and own.may_be(scores) for own in matrices)


def _scores(softmax: LaunchInSequence, before: Sequence[LaunchInSequence]) -> tuple[int, int, int] | None:
    """Return the shape that a softmax normalises: its operator's, else that of the product before it."""
    shape = softmax.shapes[0] if softmax.shapes else next(map(_result, filter(_matrices, before)), ())
    return (math.prod(shape[:-2]), shape[-2], shape[-1]) if len(shape) > 2 else None


def _result(product: LaunchInSequence) -> _Shape:
    left, right = product.shapes
    return (*left[:-1], right[-1])


def _matrices(launch: LaunchInSequence) -> Sequence[_Matrices | None]:
    """Return both factors of a batched product and its result; nothing for other launches.

    None replaces one if the other length of the product is more than that of a head.
    """
    return _of_product(*launch.shapes) if launch.operator in _BATCHED and len(launch.shapes) == 2 else ()


@lru_cache(maxsize=4096)
def _of_product(left: _Shape, right: _Shape) -> Sequence[_Matrices | None]:
    if len(left) < 3 or left[:-2] != right[:-2] or left[-1] != right[-2]:
        return ()
    batch, rows, depth, columns = math.prod(left[:-2]), left[-2], left[-1], right[-1]
    of_three = ((columns, rows, depth), (rows, depth, columns), (depth, rows, columns))
    return [_Matrices(batch * a * b, (a, b)) if other <= WIDEST_HEAD else None for other, a, b in of_three]
