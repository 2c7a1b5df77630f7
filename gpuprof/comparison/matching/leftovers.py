"""Kernels of both sides that have no partner yet, and ways to pair those that share a trait with no other kernel."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from gpuprof.comparison.contract import MatchKind
from gpuprof.comparison.matching.traits import Traits, traits_of
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import KernelKey, SideKernel, grouped_by_launch, together

Fits = Callable[[Traits, Traits], bool]
LeftGroup = tuple[list[Traits], list[Traits]]
"""Kernels of both sides with the same trait, in an order independent of their launches."""


class Leftovers:
    """The kernels without a partner, and the `pairs` that were made of them."""

    def __init__(self, base: Iterable[SideKernel], new: Iterable[SideKernel]) -> None:
        self.base = _by_key(base)
        self.new = _by_key(new)
        self.pairs: list[Pair] = []

    def in_any_range(self) -> Leftovers:
        """Return the same with the launches of all ranges as one kernel of each function and launch configuration."""
        sides = (grouped_by_launch(traits.kernel for traits in side.values()) for side in (self.base, self.new))
        left = Leftovers(*(map(together, side.values()) for side in sides))
        left.pairs = self.pairs
        return left

    def groups(self, shared: Callable[[Traits], Hashable]) -> list[LeftGroup]:
        """Return groups of kernels with the same trait; kernels without it (None) are in no group."""
        base = grouped(self.base.values(), shared)
        new = grouped(self.new.values(), shared)
        return [(base[trait], new[trait]) for trait in new if trait is not None and trait in base]

    def pair(self, match: MatchKind, base: Sequence[Traits], new: Sequence[Traits]) -> None:
        """Pair these kernels."""
        for traits in base:
            del self.base[traits.key]
        for traits in new:
            del self.new[traits.key]
        self.pairs.append(Pair(match, tuple(item.kernel for item in base), tuple(item.kernel for item in new)))

    def join(
        self,
        match: MatchKind,
        shared: Callable[[Traits], Hashable],
        fits: Fits = lambda _base, _new: True,
    ) -> None:
        """Pair the kernels that alone on both sides share something, if they fit."""
        for base, new in self.groups(shared):
            if len(base) == len(new) == 1 and fits(base[0], new[0]):
                self.pair(match, base, new)

    def pair_in_order(self, match: MatchKind, group: LeftGroup, size: Callable[[Traits], Any], fits: Fits) -> None:
        """Pair a group in the order of a size, if no two on a side have the same and all of these pairs fit."""
        base, new = group
        if len(set(map(size, base))) < len(base) or len(set(map(size, new))) < len(new):
            return
        pairs = list(zip(sorted(base, key=size), sorted(new, key=size), strict=True))
        if all(fits(*pair) for pair in pairs):
            for before, after in pairs:
                self.pair(match, [before], [after])

    def rest(self) -> Iterator[Pair]:
        """Yield the kernels that have no partner."""
        for traits in self.base.values():
            yield Pair("gone", (traits.kernel,), ())
        for traits in self.new.values():
            yield Pair("new", (), (traits.kernel,))


def _by_key(kernels: Iterable[SideKernel]) -> dict[KernelKey, Traits]:
    return {kernel.key: traits_of(kernel) for kernel in sorted(kernels, key=lambda kernel: kernel.key.order)}


def grouped(kernels: Iterable[Traits], shared: Callable[[Traits], Hashable]) -> dict[Hashable, list[Traits]]:
    """Group kernels by a shared trait."""
    groups: defaultdict[Hashable, list[Traits]] = defaultdict(list)
    for traits in kernels:
        groups[shared(traits)].append(traits)
    return groups
