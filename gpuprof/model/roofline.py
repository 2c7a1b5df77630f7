"""The roofline: what a kernel reaches against what compute and bandwidth allow at its intensity."""

from __future__ import annotations

import math
from typing import NamedTuple

from gpuprof.model.field_types import CeilingOrigin
from gpuprof.model.session import RooflinePoint, Traffic, Work

_POSSIBLE = 1.05
"""Counters and clocks are of several passes, so a rate can be so much above its ceiling. In 816 kernels of real reports
none was above it at all."""


def is_possible(fraction: float) -> bool:
    """Return whether a fraction of a ceiling can be; else what was counted is wrong, or the ceiling."""
    return fraction <= _POSSIBLE


class Roof(NamedTuple):
    """Two ceilings of one origin: FLOP/s of a path and bytes/s of a level."""

    ceiling: CeilingOrigin
    flop_per_s: float
    bytes_per_s: float

    def ridge(self) -> float:
        """Return the intensity in FLOP/byte at which the two ceilings meet."""
        return self.flop_per_s / self.bytes_per_s

    def at(self, intensity: float) -> float:
        """Return what the roof allows at an intensity, in FLOP/s (Williams, Waterman, Patterson 2009)."""
        return min(self.flop_per_s, self.bytes_per_s * intensity)


def roofline_point(work: Work, traffic: Traffic, roof: Roof) -> RooflinePoint | None:
    """Place a kernel under a roof by its rates; None if one is not known or zero."""
    achieved, moved = work.flop_per_s, traffic.bytes_per_s
    if not achieved or not moved or roof.flop_per_s <= 0 or roof.bytes_per_s <= 0:
        return None
    intensity = achieved / moved
    allowed = roof.at(intensity)
    if not allowed or not math.isfinite(allowed):
        return None
    return RooflinePoint(
        path=work.path,
        level=traffic.level,
        intensity=intensity,
        flop_per_s=achieved,
        roof_flop_per_s=allowed,
        fraction_of_roof=achieved / allowed,
        ceiling=roof.ceiling,
        bound="memory" if intensity < roof.ridge() else "compute",
    )
