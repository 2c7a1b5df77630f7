"""Kernels of the two sides that belong together, and how users name such pairs themselves."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from gpuprof.comparison.contract import DoubtKind, MatchKind
from gpuprof.comparison.sides import SideKernel
from gpuprof.comparison.values import Values, all_known
from gpuprof.model.session import KernelProfile


class NamedMatch(NamedTuple):
    """A --match OLD=NEW: expressions that name kernels of the base and of the new side."""

    base: str
    new: str


class Pair(Struct, frozen=True):
    """Kernels that belong together: one on each side, or several if one was split or fused; none: new or gone.

    `unseen` is why the other side may have an `unrecorded` one, too.
    """

    match: MatchKind
    base: tuple[SideKernel, ...]
    new: tuple[SideKernel, ...]
    unseen: DoubtKind | None = None

    @property
    def is_one_to_one(self) -> bool:
        """Return whether each side has one kernel of it."""
        return len(self.base) == 1 and len(self.new) == 1

    @property
    def representatives(self) -> tuple[KernelProfile, KernelProfile]:
        """Return the representative launch of the first kernel of each side."""
        return self.base[0].representative, self.new[0].representative

    @property
    def launches(self) -> Values:
        """Return the launches of a run, of all its kernels."""
        return Values(
            sum(kernel.launches for kernel in self.base),
            sum(kernel.launches for kernel in self.new),
        )

    @property
    def totals_s(self) -> Values | None:
        """Return the time of all launches of a run; None if a kernel has none."""
        base = all_known(kernel.total_s for kernel in self.base)
        new = all_known(kernel.total_s for kernel in self.new)
        if base is None or new is None:
            return None
        return Values(sum(base), sum(new))


def match_of(base: int, new: int, one_to_one: MatchKind) -> MatchKind:
    """Return the kind of match by the number of kernels on each side: several on one side were split or fused."""
    if base == 1 and new > 1:
        return "split"
    if base > 1 and new == 1:
        return "fused"
    return one_to_one
