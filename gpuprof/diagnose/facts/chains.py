"""Chains of point-wise kernels: several in a row on a stream, over data of one size, with nothing between. Pure."""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterable, Iterator, Sequence
from itertools import chain as joined
from itertools import groupby

from msgspec import Struct

from gpuprof.model.launch_sequences import LaunchInSequence
from gpuprof.model.torch_ranges import OPTIMIZER_CALL

SHORTEST_CHAIN = 3
"""Kernels of the shortest chain; two in a row are in every program."""
_PASSES = 3
"""Passes over its data of a point-wise kernel whose operands are not known: two operands and a result."""
_COPY, _COPY_KERNEL = "aten::copy_", "copy_kernel"
_OF_LISTS = "multi_tensor_apply_kernel"
"""The name of a kernel for the tensors of a whole list, such as parameters."""


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


def chains_of(
    launches: Iterable[LaunchInSequence], others: Container[int] = ()
) -> Iterator[tuple[LaunchInSequence, ChainPart]]:
    """Yield the launches of one stream that are members of chains, which end before launches of the ids `others`.

    Launches of one kernel for one operator in a row count as one: they do the same to a list of tensors. Two copies in
    a row are two chains, because one hardly reads what the other wrote.
    """
    for size, run in groupby(launches, key=lambda launch: None if id(launch) in others else _size(launch)):
        if size is None:
            continue
        chain: list[list[LaunchInSequence]] = []
        for _, same in groupby(run, key=_what_it_does):
            member = list(same)
            if chain and _is_copy(member[0]) and _is_copy(chain[-1][0]):
                yield from _parts(chain)
                chain = []
            chain.append(member)
        yield from _parts(chain)


def _size(launch: LaunchInSequence) -> Hashable:
    """Return the size of a point-wise kernel's data, or its grid if that is not known; None for any other launch."""
    if not launch.is_pointwise:
        return None
    if _is_of_list(launch):
        return _OF_LISTS
    if launch.shapes:
        return launch.elements
    return (launch.grid, launch.block) if launch.grid is not None else None


def _what_it_does(launch: LaunchInSequence) -> Hashable:
    """Return the operator and the kernel; of a copy the launch itself, and of a kernel of lists only the operator."""
    if _is_copy(launch):
        return id(launch)
    return launch.function, None if _is_of_list(launch) else launch.name


def _is_of_list(launch: LaunchInSequence) -> bool:
    return _OF_LISTS in launch.name


def _is_copy(launch: LaunchInSequence) -> bool:
    return launch.operator == _COPY or (not launch.operator and _COPY_KERNEL in launch.name)


def _parts(chain: Sequence[Sequence[LaunchInSequence]]) -> Iterator[tuple[LaunchInSequence, ChainPart]]:
    """Yield the launches of a chain, if it is long enough, with the share of its passes that one kernel saves."""
    if len(chain) < SHORTEST_CHAIN:
        return
    # Each result but the last is neither written nor read again.
    saved = 2 * (len(chain) - 1)
    share = saved / max(sum(_passes(member[0]) for member in chain), saved + 2)
    for launch in joined.from_iterable(chain):
        is_in_optimizer = any(map(OPTIMIZER_CALL.fullmatch, launch.ranges))
        yield launch, ChainPart(len(chain), share, by_shapes=bool(launch.shapes), in_optimizer=is_in_optimizer)


def _passes(launch: LaunchInSequence) -> int:
    """Return how often a point-wise kernel passes over data of its size: once an operand, and once for its result."""
    if _is_copy(launch):
        return 2
    if not launch.shapes or _is_of_list(launch):
        return _PASSES
    return sum(math.prod(shape) == launch.elements for shape in launch.shapes) + 1
