"""Which of a kernel's many figures speak for it: roofline position, nearest limit, main stall, first finding, rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.model.session import (
    Finding,
    KernelProfile,
    Location,
    Occupancy,
    OperatorBytes,
    OperatorFlop,
    RooflinePoint,
    Stall,
    Throughput,
)
from gpuprof.model.stalls import NOT_STALLED

TWO_PASSES = 0.02
"""What one counter can differ by in two passes of ncu; memory as a whole repeats its busiest part but for that."""
AS_BUSY = 0.95
"""Levels within a twentieth are equally busy, and the memory throughput is that of its busiest part."""


def main_point(
    kernel: KernelProfile, level: str = "dram", ceiling: str = "at-clock", path: str | None = None
) -> RooflinePoint | None:
    """Return the roofline point that speaks for a kernel at a level: of `path`, else of the one closest to its roof.

    Where memory binds, all paths are equally close: then the one with most work per second speaks. Floating-point and
    tensor paths come before integers, which nearly every kernel also uses for addresses. None if the path of most work
    has no ceiling: the others are a small part of such a kernel.
    """
    points = [point for point in kernel.roofline if point.level == level and point.ceiling == ceiling]
    if path is not None:
        return next((point for point in points if point.path == path), None)
    done = {work.path: work.flop_per_s for work in kernel.work if work.flop_per_s and work.path != "int32"}
    most = max(done, key=lambda own: done[own], default=None)
    if most is not None and not any((point.path, point.ceiling) == (most, ceiling) for point in kernel.roofline):
        return None
    arithmetic = [point for point in points if point.path != "int32"] or points
    return max(arithmetic, key=lambda point: (round(point.fraction_of_roof, 6), point.flop_per_s), default=None)


def listed(names: Sequence[str]) -> str:
    """Write names as a list: "L2, L1 and DRAM"; empty where there are none."""
    *first, last = names or ("",)
    return f"{', '.join(first)} and {last}" if first else last


def limited_by(occupancy: Occupancy) -> str:
    """Say what limits theoretical occupancy: "limited by registers, shared memory and block size"; empty if nothing."""
    return f"limited by {listed(occupancy.limiters)}" if occupancy.limiters else ""


def nearest_limit(kernel: KernelProfile) -> Throughput | None:
    """Return the busiest of SM, DRAM, L2 and L1 by Nsight Compute's speed of light; None where none was recorded.

    Units with another denominator than elapsed cycles are no match for the others and left out where there are others.
    Alone, they bound how busy a unit is: the active cycles of L1 are a part of all.
    Then memory as a whole can be busier than its parts that are left, and as busy as the SM, of which the load/store
    unit is a part: it speaks for L1 unless DRAM or L2 are as busy. It stays "memory" where those two are not known, or
    where L1 is, too, and none of the three explains it.
    """
    all_units = [unit for unit in kernel.throughput if unit.unit != "memory"]
    units = [unit for unit in all_units if unit.is_exact or unit.bound == "at-least"]
    busiest = max(units, key=_fraction, default=None)
    memory = next((unit for unit in kernel.throughput if unit.unit == "memory" and unit.is_exact), None)
    if busiest is None:
        at_most = max(all_units, key=_fraction, default=None)
        return memory or (replace(at_most, definition=None, bound="at-most") if at_most is not None else None)
    if memory is None or busiest.bound == "at-least":
        return busiest
    is_memory = memory.fraction > busiest.fraction + TWO_PASSES
    if not is_memory and not (busiest.unit == "sm" and memory.fraction >= busiest.fraction - TWO_PASSES):
        return busiest
    levels = {unit.unit: unit for unit in all_units if unit.unit != "sm" and (unit.is_exact or unit.bound == "at-most")}
    if not levels.keys() >= {"dram", "l2"}:
        return memory
    busier = max(levels.values(), key=_fraction)
    if AS_BUSY * memory.fraction <= busier.fraction:
        return replace(memory, unit=busier.unit)
    return memory if "l1" in levels else replace(memory, unit="l1")


def _fraction(unit: Throughput) -> float:
    return unit.fraction


def units_not_collected(kernel: KernelProfile) -> tuple[str, ...]:
    """Return of which units it was not collected how busy they are: one of them can be the limit.

    The throughput of memory is that of its busiest level, whichever that is.
    """
    known = {unit.unit for unit in kernel.throughput if unit.bound != "at-least"}
    levels = () if "memory" in known else ("dram", "l2", "l1")
    return tuple(unit for unit in ("sm", *levels) if unit not in known)


def stalls_of(kernel: KernelProfile) -> tuple[Stall, ...]:
    """Return the stall shares of one family: the counters, else the samples that the kernel has."""
    for wanted in ("counter", "sampled-not-issued", "sampled"):
        stalls = tuple(stall for stall in kernel.stalls if stall.family == wanted)
        if stalls:
            return stalls
    return ()


def main_stall(kernel: KernelProfile) -> Stall | None:
    """Return the reason that held most warps back; being selected, or eligible and not selected, is none."""
    reasons = [stall for stall in stalls_of(kernel) if stall.reason not in NOT_STALLED and stall.share > 0]
    return max(reasons, key=lambda stall: stall.share, default=None)


def first_finding(kernel: KernelProfile) -> Finding | None:
    """Return the finding to look at first: they are kept most important first."""
    return next(iter(kernel.findings), None)


def line_text(location: Location | None) -> str:
    """Write the file and line of a place in the code: "gather.cu:41"; empty where they are not known."""
    if location is None or location.file is None or location.line is None:
        return ""
    return f"{location.file.replace(chr(92), '/').rpartition('/')[2]}:{location.line}"


def by_time(kernels: Iterable[KernelProfile]) -> list[KernelProfile]:
    """Sort kernels by the time they take, longest first; those without a duration last, in their order."""
    return sorted(kernels, key=lambda kernel: (kernel.time_total_s is None, -(kernel.time_total_s or 0.0), kernel.id))


class AskedOfPeak(NamedTuple):
    """What part of a rated peak an operator asks for: one number, or two if it may run on two paths.

    `most` is that of the peak `of`, `least` that of `faster`, which is the same path if it can only run on that.
    """

    of: str
    least: float
    most: float
    faster: str


def asked_of_peak(asked: OperatorFlop | None, moved: OperatorBytes | None = None) -> AskedOfPeak | None:
    """Return what an operator asks for of arithmetic or of DRAM, whichever is nearer; None where no peak is known."""
    if asked is None and moved is not None and moved.dram_fraction is not None:
        return AskedOfPeak("dram", moved.dram_fraction, moved.dram_fraction, "dram")
    parts = sorted(asked.utilisation, key=lambda part: part.fraction) if asked is not None else []
    if asked is None or not parts:
        return None
    least, most = parts[0].fraction, parts[-1].fraction
    if asked.dram_fraction is not None and asked.dram_fraction > most:
        return AskedOfPeak("dram", asked.dram_fraction, asked.dram_fraction, "dram")
    faster, of = (part.ceiling_path.removeprefix("tensor.") for part in (parts[0], parts[-1]))
    return AskedOfPeak(of, least, most, faster)
