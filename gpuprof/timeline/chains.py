"""Chains of point-wise kernels: several in a row on a stream, over data of one size, with nothing between. Pure."""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterator, Sequence
from itertools import groupby

from gpuprof.model.torch_ranges import OPTIMIZER_CALL
from gpuprof.timeline.sequences import Launch

SHORTEST_CHAIN = 3
"""Kernels of the shortest chain; two in a row are in every program."""
_PASSES = 3
"""Passes over its data of a point-wise kernel whose operands are not known: two operands and a result."""
_COPY, _COPY_KERNEL = "aten::copy_", "copy_kernel"
_OF_LISTS = "multi_tensor_apply_kernel"
"""What a kernel for the tensors of a whole list, such as parameters, is called."""


def chains_of(launches: Sequence[Launch], without: Container[int] = ()) -> Iterator[list[list[Launch]]]:
    """Yield the chains of one stream, which end before activities of the identities `without`.

    Launches of one operator on a list of tensors are one member of a chain.

    Two copies in a row are two chains, because one hardly reads what the other wrote.
    """

    def size_of(launch: Launch) -> Hashable:
        return None if id(launch.activity) in without else _size(launch)

    for size, run in groupby(launches, key=size_of):
        if size is None:
            continue
        chain: list[list[Launch]] = []
        for member in _members(list(run)):
            if chain and _is_copy(chain[-1][0]) and _is_copy(member[0]):
                yield from _long_enough(chain)
                chain = []
            chain.append(member)
        yield from _long_enough(chain)


def saved_share(chain: Sequence[Sequence[Launch]]) -> float:
    """Return the share of the passes over memory that goes if each kernel reads only what the one before wrote.

    It is 2·(n − 1) ÷ the passes of n kernels: each result but the last is neither written nor read again.
    """
    passes = sum(_passes(member[0]) for member in chain)
    return 2 * (len(chain) - 1) / max(passes, 2 * len(chain))


def is_of_optimizer(launch: Launch) -> bool:
    """Return whether a step of an optimizer launched it."""
    return any(OPTIMIZER_CALL.fullmatch(text) for text in launch.activity.ranges)


def _size(launch: Launch) -> Hashable:
    """Return the size of a point-wise kernel's data, or its grid if that is not known; None for any other launch."""
    if not launch.is_pointwise:
        return None
    if _OF_LISTS in launch.activity.name:
        return _OF_LISTS
    if launch.shapes:
        return launch.elements
    return launch.activity.grid, launch.activity.block


def _members(run: Sequence[Launch]) -> Iterator[list[Launch]]:
    if _OF_LISTS not in run[0].activity.name:
        yield from ([launch] for launch in run)
        return
    for _, same in groupby(run, key=lambda launch: launch.function):
        yield list(same)


def _is_copy(launch: Launch) -> bool:
    return launch.operator == _COPY or (not launch.operator and _COPY_KERNEL in launch.activity.name)


def _long_enough(chain: list[list[Launch]]) -> Iterator[list[list[Launch]]]:
    if len(chain) >= SHORTEST_CHAIN:
        yield chain


def _passes(launch: Launch) -> int:
    """Return how often a point-wise kernel passes over data of its size: once an operand, and once for its result."""
    if _is_copy(launch):
        return 2
    if not launch.shapes or _OF_LISTS in launch.activity.name:
        return _PASSES
    return sum(math.prod(shape) == launch.elements for shape in launch.shapes) + 1
