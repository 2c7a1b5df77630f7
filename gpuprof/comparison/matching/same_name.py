"""Pairs kernels of one name that were launched in another configuration, or in other ranges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

from gpuprof.comparison.matching.leftovers import LeftGroup, Leftovers
from gpuprof.comparison.matching.same_code import may_be_same
from gpuprof.comparison.matching.traits import Traits
from gpuprof.comparison.sides import KernelKey

_MOST_SIZES = 4.0
"""Among several sizes of a kernel two are the same one, changed, only within this factor: a batch of four times as
much is a change of the input, and more of it another input."""


class _Place(NamedTuple):
    """A name in its ranges."""

    name: str
    ranges: tuple[str, ...]


def pair_configurations(left: Leftovers, exact: Collection[KernelKey]) -> None:
    """Pair the launch configurations of a name in its ranges that only one side has.

    First those with as many threads, then the others in the order of their size, if both sides have as many of
    them. `exact` are the kernels that both sides have.
    """
    left.join("reconfigured", lambda traits: (_place(traits), traits.threads) if traits.threads is not None else None)
    places = {_Place(key.name, key.ranges) for key in exact}
    for group in left.groups(_place):
        if len(group.base) != len(group.new):
            continue
        if len(group.base) == 1 and _place(group.base[0]) not in places:
            if may_be_same(group.base[0], group.new[0]):
                left.pair("reconfigured", group.base, group.new)
        else:
            _pair_by_size(left, group)


def pair_ranges(left: Leftovers, names: Counter[str]) -> None:
    """Pair kernels of one name and configuration whose ranges were renamed, if there is no other candidate.

    `names` are the names of both sides, with how many kernels have them.
    """
    for part in (slice(1, None), slice(None, -1), slice(-1, None), slice(0, 0)):
        left.join("renamed", lambda traits, part=part: _launched_in(traits, part))  # type: ignore[misc]
    left.join("renamed", lambda traits: traits.key.name if names[traits.key.name] == 2 else None, may_be_same)


def _place(traits: Traits) -> _Place:
    return _Place(traits.key.name, traits.key.ranges)


def _launched_in(traits: Traits, part: slice) -> object:
    key = traits.key
    return key.name, key.grid, key.block, key.ranges[part]


def _pair_by_size(left: Leftovers, group: LeftGroup) -> None:
    """Pair a group in the order of sizes, if no two on a side have the same and all pairs are of like size."""
    sides = [sorted(side, key=lambda traits: traits.threads or 0) for side in group]
    sizes = [[traits.threads for traits in side] for side in sides]
    if any(None in side or len(set(side)) < len(side) for side in sizes):
        return
    pairs = list(zip(*sides, strict=True))
    if all(_alike(base.threads, new.threads) for base, new in pairs):
        for base, new in pairs:
            left.pair("reconfigured", [base], [new])


def _alike(base: int | None, new: int | None) -> bool:
    if not base or not new:
        return False
    return max(base, new) <= _MOST_SIZES * min(base, new)
