"""Kernels of the two sides that belong together, and how users say it themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gpuprof.comparison.contract import MatchKind
from gpuprof.comparison.sides import SideKernel


class NamedMatch(NamedTuple):
    """What --match OLD=NEW says: expressions that name kernels of the base and of the new side."""

    base: str
    new: str


@dataclass(frozen=True, slots=True)
class Pair:
    """Kernels that belong together: one on each side, or several where one was split or fused; none: new or gone."""

    match: MatchKind
    base: tuple[SideKernel, ...]
    new: tuple[SideKernel, ...]


def match_of(base: int, new: int, one_to_one: MatchKind) -> MatchKind:
    """Return what numbers of kernels that belong together say: several on one side were split or fused."""
    if base == 1 and new > 1:
        return "split"
    return "fused" if base > 1 and new == 1 else one_to_one
