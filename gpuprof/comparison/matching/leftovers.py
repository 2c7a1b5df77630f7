"""Kernels of both sides that have no partner yet, and what pairs those that alone share something."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from gpuprof.comparison.contract import MatchKind
from gpuprof.comparison.matching.traits import Traits, traits_of
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import SideKernel

Fits = Callable[[Traits, Traits], bool]
LeftGroup = tuple[list[Traits], list[Traits]]
"""Kernels of both sides that share something, in an order that does not depend on that of their launches."""


class Leftovers:
    """The kernels without a partner. What is paired goes to `pairs`."""

    def __init__(self, *sides: Iterable[SideKernel]) -> None:
        self.base, self.new = (
            {kernel.key: traits_of(kernel) for kernel in sorted(side, key=lambda kernel: kernel.key.order)}
            for side in sides
        )
        self.pairs: list[Pair] = []

    def groups(self, shared: Callable[[Traits], Hashable]) -> list[LeftGroup]:
        """Return the groups of kernels that share something; those for which it is None share nothing."""
        ours, theirs = grouped(self.base.values(), shared), grouped(self.new.values(), shared)
        return [(ours[what], new) for what, new in theirs.items() if what is not None and what in ours]

    def pair(self, match: MatchKind, base: Sequence[Traits], new: Sequence[Traits]) -> None:
        """Take these kernels as belonging together."""
        for traits in base:
            del self.base[traits.key]
        for traits in new:
            del self.new[traits.key]
        self.pairs.append(Pair(match, tuple(item.kernel for item in base), tuple(item.kernel for item in new)))

    def join(
        self, match: MatchKind, shared: Callable[[Traits], Hashable], fits: Fits = lambda _base, _new: True
    ) -> None:
        """Pair the kernels that alone on both sides share something, if they fit."""
        for base, new in self.groups(shared):
            if len(base) == len(new) == 1 and fits(base[0], new[0]):
                self.pair(match, base, new)

    def pair_in_order(self, match: MatchKind, group: LeftGroup, size: Callable[[Traits], Any], fits: Fits) -> None:
        """Pair a group in the order of a size, if no two on a side have the same and all of these pairs fit."""
        sides = [sorted(side, key=size) for side in group]
        if any(len(set(map(size, side))) < len(side) for side in sides):
            return
        pairs = list(zip(*sides, strict=True))
        if all(fits(base, new) for base, new in pairs):
            for base, new in pairs:
                self.pair(match, [base], [new])

    def rest(self) -> Iterator[Pair]:
        """Yield the kernels that stay without a partner."""
        for traits in self.base.values():
            yield Pair("gone", (traits.kernel,), ())
        for traits in self.new.values():
            yield Pair("new", (), (traits.kernel,))


def grouped(every: Iterable[Traits], shared: Callable[[Traits], Hashable]) -> dict[Hashable, list[Traits]]:
    """Return the kernels by what they share."""
    groups: defaultdict[Hashable, list[Traits]] = defaultdict(list)
    for traits in every:
        groups[shared(traits)].append(traits)
    return groups
