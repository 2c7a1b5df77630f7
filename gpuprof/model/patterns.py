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
    in_sdpa: bool = False
    share: float = 1.0


class ChainPart(Struct, frozen=True):
    """The part that a point-wise kernel has in chains of such kernels over data of one size.

    `kernels` is the number of kernels in the chain. `share` is the share of the kernel's time that goes if each kernel
    of a chain reads only what the one before wrote. `by_shapes`: the sizes are those of the operators, else grids are
    equal. `in_optimizer`: it is in a step of an optimizer.
    """

    kernels: int
    share: float
    by_shapes: bool
    in_optimizer: bool


class Patterns(Struct, frozen=True):
    """The patterns that a kernel's launches are parts of, of several the one in the longest launch."""

    attention: AttentionPart | None = None
    chain: ChainPart | None = None
