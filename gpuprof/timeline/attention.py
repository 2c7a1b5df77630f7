"""Attention whose scores go through memory: a softmax between two batched products of fitting shapes. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from gpuprof.model.patterns import AttentionRole
from gpuprof.timeline.sequences import Launch

SDPA_MATH = "aten::_scaled_dot_product_attention_math"
"""The operator with which PyTorch computes scaled_dot_product_attention without a fused kernel."""
WIDEST_HEAD = 256
"""The widest head of FlashAttention; a softmax between wider products is another kind of attention."""
_BATCHED = ("aten::bmm", "aten::baddbmm")
"""Products of which both operands change from one batch to the next: neither is the weight of a layer."""
_NEAR = 32
"""Kernels between a softmax and its products at most: masks, scales and copies."""

Scores = tuple[int, int, int]


class AttentionLaunch(NamedTuple):
    """A launch that is a part of attention, and the shape of its scores: batch × heads, queries, keys."""

    launch: Launch
    role: AttentionRole
    scores: Scores


def attention_of(launches: Sequence[Launch]) -> Iterator[AttentionLaunch]:
    """Yield the launches of one stream that are parts of attention, forward and backward.

    Forward, the product before a softmax makes what the softmax reads, and the product after it has the result of
    the softmax as its left factor. Backward, up to two products on each side make or read matrices of that shape.
    """
    for place, launch in enumerate(launches):
        if _is_softmax(launch.function):
            before = list(_until_softmax(reversed(launches[max(0, place - _NEAR) : place])))
            after = list(_until_softmax(launches[place + 1 : place + 1 + _NEAR]))
            yield from _around(launch, before, after)


@lru_cache(maxsize=4096)
def _is_softmax(name: str) -> bool:
    lower = name.lower()
    return "softmax" in lower and "log_softmax" not in lower and "logsoftmax" not in lower


def _until_softmax(launches: Iterable[Launch]) -> Iterator[Launch]:
    for launch in launches:
        if _is_softmax(launch.function):
            return
        yield launch


def _around(softmax: Launch, before: Sequence[Launch], after: Sequence[Launch]) -> Iterator[AttentionLaunch]:
    """Yield the parts around one softmax; nothing if the products on its sides do not fit."""
    scores = _scores(softmax, before)
    if scores is None:
        return
    is_backward = "backward" in softmax.function.lower()
    most = 2 if is_backward else 1
    first = list(islice((one for one in before if _touches(one, scores, is_backward)), most))
    last = list(islice((one for one in after if _reads(one, scores, is_backward)), most))
    if not any(_result(one) == scores for one in first) or not last:
        return
    yield AttentionLaunch(softmax, "softmax", scores)
    for product in (*first, *last):
        yield AttentionLaunch(product, "product", scores)
    between = (*before[: before.index(first[-1])], *after[: after.index(last[-1])])
    for one in between:
        if one.is_pointwise and one.elements == math.prod(scores):
            yield AttentionLaunch(one, "elementwise", scores)


def _scores(softmax: Launch, before: Sequence[Launch]) -> Scores | None:
    """Return the shape that a softmax normalises: its operator's, else that of the product before it."""
    shape = softmax.shapes[0] if softmax.shapes else ()
    if len(shape) >= 3:
        return math.prod(shape[:-2]), shape[-2], shape[-1]
    products = (_result(one) for one in before if _factors(one) is not None)
    return next(products, None) if not softmax.shapes else None


def _factors(launch: Launch) -> tuple[Scores, Scores] | None:
    """Return the shapes of the two factors of a batched product; None for anything else."""
    if launch.operator not in _BATCHED or len(launch.shapes) != 2:
        return None
    left, right = launch.shapes
    if len(left) != 3 or len(right) != 3 or left[0] != right[0] or left[2] != right[1]:
        return None
    return (left[0], left[1], left[2]), (right[0], right[1], right[2])


def _result(launch: Launch) -> Scores | None:
    """Return the shape of a batched product whose sums are no longer than a head is wide."""
    factors = _factors(launch)
    if factors is None or factors[0][2] > WIDEST_HEAD:
        return None
    return factors[0][0], factors[0][1], factors[1][2]


def _reads(launch: Launch, scores: Scores, is_backward: bool) -> bool:
    """Return whether a product has scores as its left factor; backward, as either factor, or transposed."""
    factors = _factors(launch)
    if factors is None:
        return False
    left, right = factors
    if not is_backward:
        return left == scores and right[2] <= WIDEST_HEAD
    batch, queries, keys = scores
    turned = (batch, keys, queries)
    is_left = left in (scores, turned) and right[2] <= WIDEST_HEAD
    return is_left or (right in (scores, turned) and left[1] <= WIDEST_HEAD)


def _touches(launch: Launch, scores: Scores, is_backward: bool) -> bool:
    """Return whether a product makes scores, or, backward, reads them."""
    return _result(launch) == scores or (is_backward and _reads(launch, scores, is_backward))
