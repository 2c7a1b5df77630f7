"""One count on both sides: more, less, the same, or unclear."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gpuprof.comparison.contract import CountChange, CountWord
from gpuprof.comparison.work.amounts import WorkAmount
from gpuprof.comparison.work.tolerances import (
    ESTIMATE,
    MARGIN,
    Tolerance,
    can_distinguish,
    tolerance_of,
)

RESOURCES = ("registers", "shared-memory", "occupancy")
"""Resources of a launch: by themselves they make work neither more nor less."""
OPCODES = "opcode."
"""Prefix of the names of opcodes, which are parts of `instructions`."""
FLOP = "flop."
LAUNCHES = "launches"
"""Launches of a kernel in a run: listed, and no part of the verdict on the work of a launch."""
CACHED = ("dram-bytes", "l2-bytes", "l2-sectors")
"""Counts that depend on the contents of the caches when a launch begins."""
EXACT = ("instructions", "thread-instructions", "global-load-requests", "global-store-requests")
"""Exact counts of executed work; FLOP and opcodes are exact, too."""
_ROUNDING = 1e-12
"""How far sums of products of equal numbers can be apart, as a fraction."""
_LARGEST = 1e30
"""The largest `Number`."""


def count_change(
    name: str,
    base: WorkAmount | None,
    new: WorkAmount | None,
    *,
    judged: bool = True,
    varying: bool = False,
) -> CountChange:
    """Return one count on both sides, and whether it is more, less or the same.

    If the launches of a kernel are known to be `varying`, a count that is known of one launch
    varies, too, and so does one that moves within the tolerance.
    """
    word, tolerance, dependent = _judged(name, base, new, varying=varying)
    known = [amount for amount in (new, base) if amount is not None]
    ratio = None
    if base is not None and new is not None:
        if not judged:
            word = "unclear"
        if base.value and math.isfinite(new.value / base.value):
            ratio = new.value / base.value
    return CountChange(
        name=name,
        unit=known[0].unit if known else "",
        base=base.value if base is not None else None,
        new=new.value if new is not None else None,
        ratio=ratio,
        word=word,
        tolerance=tolerance,
        data_dependent=dependent,
        metric="; ".join(dict.fromkeys(amount.metric for amount in reversed(known))),
    )


def _judged(
    name: str, base: WorkAmount | None, new: WorkAmount | None, *, varying: bool
) -> tuple[CountWord, float, bool]:
    """Return the word, the allowed fraction of the base, and whether the count depends on data.

    If launches of a side differ by more than the tolerance, the work depends on data or on races.
    It then changed only if all launches of one side are beyond all of the other, by a margin, and
    enough to exclude chance. It is the same if its least and its most are; else it is unclear.
    """
    tolerance = tolerance_of(name)
    if base is None:
        return "only-new", tolerance.fraction, new is not None and _varies(name, new)
    if new is None:
        return "only-base", tolerance.fraction, _varies(name, base)
    band = _band(tolerance, base, new)
    width = max(base.high - base.low, new.high - new.low)
    moves = any(side.launches == 1 or side.high > side.low for side in (base, new))
    unsure = varying and moves and name not in (*RESOURCES, LAUNCHES)
    dependent = unsure or _varies(name, base) or _varies(name, new)
    allowed = band + (1 + MARGIN) * width if dependent else band
    relative = tolerance.fraction
    if base.value > 0:
        relative = min(round(allowed / base.value, 9), _LARGEST)
    if _counted_otherwise(name, base, new):
        return "unclear", relative, dependent
    if dependent:
        same = _ROUNDING * max(base.value, new.value) if is_exact(name) else band
        return _beyond(base, new, band, width=width, same=same), relative, dependent
    word: CountWord = "same"
    if abs(new.value - base.value) > band:
        word = "more" if new.value > base.value else "less"
    return word, relative, dependent


def _varies(name: str, amount: WorkAmount) -> bool:
    """Return whether launches of one side differ by more than the tolerance."""
    return amount.high - amount.low > tolerance_of(name).band(amount.high, amount.summed)


def _band(tolerance: Tolerance, base: WorkAmount, new: WorkAmount) -> float:
    """Return the tolerance of both values; it is larger if one was not counted."""
    largest = max(base.value, new.value)
    estimate = 0.0 if base.exact and new.exact else ESTIMATE
    return tolerance.band(largest, max(base.summed, new.summed)) + (estimate + _ROUNDING) * largest


def _counted_otherwise(name: str, base: WorkAmount, new: WorkAmount) -> bool:
    """Return whether bytes of a cache are from other counters, which include other traffic.

    They differ by up to 2.5 % at L2, and by all stores at L1. At DRAM all counters count the same.
    """
    return name in ("l1-bytes", "l2-bytes") and base.metric != new.metric


def _beyond(base: WorkAmount, new: WorkAmount, band: float, *, width: float, same: float) -> CountWord:
    """Return the word for work that depends on data, from the ranges of both sides.

    The same data give the same ends of the range; races hardly ever do.
    """
    if abs(new.low - base.low) <= same and abs(new.high - base.high) <= same:
        return "same"
    if can_distinguish(base.launches, new.launches):
        apart = max(band, MARGIN * width)
        if new.low - base.high > apart:
            return "more"
        if base.low - new.high > apart:
            return "less"
    return "unclear"


def is_work(count: CountChange) -> bool:
    """Return whether it counts the work of a launch: no resource, opcode or number of launches."""
    return count.name not in (*RESOURCES, LAUNCHES) and not count.name.startswith(OPCODES)


def varies(amounts: Mapping[str, WorkAmount]) -> bool:
    """Return whether launches of a side differ in an exact count."""
    return any(is_exact(name) and _varies(name, amount) for name, amount in amounts.items())


def is_exact(name: str) -> bool:
    """Return whether the same code on the same data gives exactly the same count again."""
    return name in EXACT or name.startswith((FLOP, OPCODES))
