"""Kernels of both sides that have no partner yet, and what pairs those that alone share something."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from gpuprof.comparison.contract import MatchKind
from gpuprof.comparison.matching.traits import Traits, traits_of
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.sides import KernelKey, SideKernel


class LeftGroup(NamedTuple):
    """Kernels of both sides that share something, in an order that does not depend on that of their launches."""

    base: list[Traits]
    new: list[Traits]


class Leftovers:
    """The kernels without a partner. What is paired goes to `pairs`."""

    def __init__(self, base: Sequence[SideKernel], new: Sequence[SideKernel]) -> None:
        self.base = {kernel.key: traits_of(kernel) for kernel in sorted(base, key=_order)}
        self.new = {kernel.key: traits_of(kernel) for kernel in sorted(new, key=_order)}
        self.pairs: list[Pair] = []

    def groups(self, shared: Callable[[Traits], Hashable]) -> Iterator[LeftGroup]:
        """Yield the groups of kernels that share something; those for which it is None share nothing."""
        if not self.base or not self.new:
            return iter(())
        ours: dict[Hashable, list[Traits]] = {}
        for traits in self.base.values():
            ours.setdefault(shared(traits), []).append(traits)
        ours.pop(None, None)
        theirs: dict[Hashable, list[Traits]] = {}
        for traits in self.new.values():
            if (what := shared(traits)) in ours:
                theirs.setdefault(what, []).append(traits)
        return iter([LeftGroup(ours[what], new) for what, new in theirs.items()])

    def pair(self, match: MatchKind, base: Sequence[Traits], new: Sequence[Traits]) -> None:
        """Take these kernels as belonging together."""
        for traits in base:
            del self.base[traits.key]
        for traits in new:
            del self.new[traits.key]
        self.pairs.append(Pair(match, tuple(item.kernel for item in base), tuple(item.kernel for item in new)))

    def join(
        self,
        match: MatchKind,
        shared: Callable[[Traits], Hashable],
        fits: Callable[[Traits, Traits], bool] = lambda _base, _new: True,
    ) -> None:
        """Pair the kernels that alone on both sides share something, if they fit."""
        for base, new in self.groups(shared):
            if len(base) == len(new) == 1 and fits(base[0], new[0]):
                self.pair(match, base, new)

    def rest(self) -> Iterator[Pair]:
        """Yield the kernels that stay without a partner."""
        for traits in self.base.values():
            yield Pair("gone", (traits.kernel,), ())
        for traits in self.new.values():
            yield Pair("new", (), (traits.kernel,))


def order_of(key: KernelKey) -> tuple[str, tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    """Return what sorts kernels the same way whatever the order of their launches."""
    return key.name, key.ranges, key.grid or (), key.block or ()


def _order(kernel: SideKernel) -> tuple[str, tuple[str, ...], tuple[int, ...], tuple[int, ...]]:
    return order_of(kernel.key)
