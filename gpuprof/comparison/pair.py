"""Kernels of the two sides that belong together, and how users say it themselves."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from gpuprof.comparison.contract import MatchKind
from gpuprof.comparison.sides import SideKernel
from gpuprof.comparison.values import Values


class NamedMatch(NamedTuple):
    """What --match OLD=NEW says: expressions that name kernels of the base and of the new side."""

    base: str
    new: str


class Pair(Struct, frozen=True):
    """Kernels that belong together: one on each side, or several if one was split or fused; none: new or gone."""

    match: MatchKind
    base: tuple[SideKernel, ...]
    new: tuple[SideKernel, ...]

    @property
    def is_one_to_one(self) -> bool:
        """Return whether each side has one kernel of it."""
        return len(self.base) == 1 and len(self.new) == 1

    @property
    def launches(self) -> Values:
        """Return the launches of a run, of all its kernels."""
        return Values(*(sum(kernel.launches for kernel in kernels) for kernels in (self.base, self.new)))

    @property
    def totals_s(self) -> Values | None:
        """Return the time of all launches of a run; None if that of one of its kernels is not known."""
        sides = [[kernel.total_s for kernel in kernels] for kernels in (self.base, self.new)]
        if any(total is None for side in sides for total in side):
            return None
        return Values(*(sum(total for total in side if total is not None) for side in sides))


def match_of(base: int, new: int, one_to_one: MatchKind) -> MatchKind:
    """Return what numbers of kernels that belong together say: several on one side were split or fused."""
    if base == 1 and new > 1:
        return "split"
    return "fused" if base > 1 and new == 1 else one_to_one
