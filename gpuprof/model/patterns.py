"""Patterns of a kernel's launches among the other launches of its stream, which only a timeline shows."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

AttentionRole = Literal["product", "softmax", "elementwise"]


class AttentionPart(Struct, frozen=True):
    """The part that a kernel has in attention whose scores go through memory between products of their own.

    `scores` is the shape of the scores: batch × heads, queries, keys. `share` is the share of the kernel's time in
    launches that are such parts. `in_sdpa`: PyTorch's scaled_dot_product_attention chose to compute it so.
    """

    role: AttentionRole
    scores: tuple[int, int, int]
    share: float
    in_sdpa: bool = False


class ChainPart(Struct, frozen=True):
    """The part that a point-wise kernel has in chains of such kernels over data of one size.

    `kernels` is the number of kernels in the longest chain. `saved` is the share of the kernel's time that goes if
    each kernel of a chain reads only what the one before wrote. `by_shapes`: the sizes are those of the operators,
    else grids are equal. `in_optimizer`: all of it is in steps of an optimizer.
    """

    kernels: int
    saved: float
    by_shapes: bool
    in_optimizer: bool


class Patterns(Struct, frozen=True):
    """The patterns that a kernel's launches are parts of."""

    attention: AttentionPart | None = None
    chain: ChainPart | None = None
