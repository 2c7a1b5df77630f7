"""What the operators of several kernels ask for in all, by shapes: FLOP, and what of rated peaks that takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct

from gpuprof.model.field_types import Bound
from gpuprof.model.headline import asked_of_peak
from gpuprof.model.roofline import is_possible
from gpuprof.model.run_totals import timed_launches
from gpuprof.model.session import KernelProfile

_LEAST_KNOWN = 0.5
"""Share of the time of which the work has to be known."""


class OfPeak(Struct, frozen=True):
    """The time that kernels would take at rated peaks, over the time that they take: `least` to `most`.

    `of` names the peaks, that of most time first: "bf16", "dram", "bf16/dram". The two fractions differ if FP32 or
    FP64 may run on two paths. They are lower bounds if some work is not known.
    """

    of: str
    least: float
    most: float
    bound: Bound | None


def flop_of(members: Sequence[KernelProfile]) -> tuple[float | None, Bound | None]:
    """Return the FLOP of all launches of kernels, and whether there are at least so many; None if none are known."""
    known = [(kernel.operator_flop.flop, kernel.launches) for kernel in members if kernel.operator_flop is not None]
    if not known:
        return None, None
    counted = _counted(members)
    whole = all(kernel.ranges in counted for kernel in members)
    return sum(flop * launches for flop, launches in known), None if whole else "at-least"


def of_peak(members: Sequence[KernelProfile]) -> OfPeak | None:
    """Return what kernels reach of rated peaks; None unless it is known of most of their time."""
    counted = _counted(members)
    time_s = unknown_s = least_s = most_s = 0.0
    times: defaultdict[str, float] = defaultdict(float)
    for kernel in members:
        own_s = kernel.time_total_s
        if not own_s:
            continue
        time_s += own_s
        asked = asked_of_peak(kernel.operator_flop, kernel.operator_bytes)
        if asked is not None:
            times[asked.of] += own_s
            timed_s = (kernel.duration_s or 0.0) * timed_launches(kernel)
            least_s += asked.least * timed_s
            most_s += asked.most * timed_s
        elif kernel.ranges not in counted or kernel.operator_flop is not None:
            unknown_s += own_s
    if not times or time_s - unknown_s < _LEAST_KNOWN * time_s or not is_possible(most_s / time_s):
        return None
    of = "/".join(sorted(times, key=lambda name: -times[name]))
    return OfPeak(of, least_s / time_s, most_s / time_s, "at-least" if unknown_s else None)


def _counted(members: Sequence[KernelProfile]) -> set[tuple[str, ...]]:
    """Return the ranges of the operators whose FLOP are known, with their shapes.

    Other kernels there have a part in the same product, such as a sum over slices of it.
    """
    return {kernel.ranges for kernel in members if kernel.operator_flop is not None}
