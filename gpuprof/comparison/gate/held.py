"""What a limit says of a kernel, or of the run: whether what changed is within it, beyond it, or cannot be told.

A rise is beyond its limit where the verdict says that there is one, and it is more than allowed. It cannot be told
where the interval reaches across the limit, or where what the runs differ in forbids the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpuprof.comparison.causes.opcodes import effect_lost
from gpuprof.comparison.contract import (
    TIMES,
    CountChange,
    GateWord,
    KernelChange,
    QuantityChange,
    TimeChange,
    WorkChange,
)
from gpuprof.comparison.gate.limits import OCCUPANCY, TIME
from gpuprof.comparison.words import count_name, count_text
from gpuprof.comparison.work.tolerances import ESTIMATE, tolerance_of
from gpuprof.units import format_percent, significant

_ROUNDING = 1e-9


class Held(NamedTuple):
    """What a limit says, by how much it changed as a fraction (None: it is not one), and that in a sentence."""

    word: GateWord
    change: float | None
    sentence: str


def held(change: KernelChange, quantity: str, most: float, *, alike: bool, same_work: bool) -> Held:
    """Hold a limit against a kernel that is on both sides. `alike`: nothing around the runs forbids verdicts on time.

    `same_work`: nothing forbids those on work. No limit holds for a kernel of which one side alone stores.
    """
    if quantity == TIME:
        return held_time(change.time, most, alike=alike)
    answer, lost = held_count(change.work, quantity, most, same_work=same_work), effect_lost(change)
    is_void = lost and answer.word == "ok"
    return answer._replace(word="unclear", sentence=answer.sentence + _because(lost)) if is_void else answer


def held_time(time: TimeChange, most: float, *, alike: bool = True) -> Held:
    """Hold a limit against the time of a launch."""
    if time.verdict == "unknown" or time.ratio is None or not math.isfinite(time.ratio):
        return Held("not-compared", None, f"time is not compared{_because(time.reason)}")
    rise = time.ratio - 1
    said = f"time {_moved(rise)}"
    if not alike:
        return Held("unclear", rise, f"{said}, and the runs are not alike{_because(time.reason)}")
    if time.verdict == "slower" and _beyond(rise, most):
        return Held("regression", rise, f"{said}, {_limit(most)}")
    if time.verdict == "unclear" and time.interval is None:
        return Held("unclear", rise, f"{said}, {_limit(most)}{_because(time.reason)}")
    return _within(said, time, most)


def _within(said: str, time: TimeChange, most: float) -> Held:
    """Tell whether a limit holds that is not broken: not where an interval, in seconds or cycles, reaches across it."""
    rise = (time.ratio or 1.0) - 1
    highs = [interval.high - 1 for interval in (time.interval, time.cycles_interval) if interval is not None]
    high = max(highs, default=rise)
    if time.verdict == "faster" or not _beyond(high, most):
        return Held("ok", rise, f"{said}, {_limit(most)}")
    reaches = f", at 99 % confidence up to +{format_percent(high)}" if highs else ""
    return Held("unclear", rise, f"{said}{reaches}, {_limit(most)}{_because(time.reason)}")


def held_total(total: Sequence[QuantityChange], most: float, *, alike: bool = True, lost: str = "") -> Held:
    """Hold a limit against the time of all kernels of a run. `lost`: that one side alone stores in a kernel of it."""
    time = next((quantity for quantity in total if quantity.name in TIMES), None)
    if time is None or time.ratio is None or not math.isfinite(time.ratio):
        return Held("not-compared", None, "GPU time of the run is not known on a side")
    rise = time.ratio - 1
    said = f"{count_name(time.name)} of the run {_moved(rise)}"
    if not alike:
        return Held("unclear", rise, f"{said}, and the runs are not alike")
    if lost:
        return Held("unclear", rise, f"{said}, {_limit(most)}{_because(lost)}")
    if time.verdict == "slower" and _beyond(rise, most):
        return Held("regression", rise, f"{said}, {_limit(most)}")
    if time.verdict in ("unclear", "unknown"):
        return Held(
            "unclear", rise, f"{said}, {_limit(most)}: the runs are too few, too noisy or at other clocks to tell"
        )
    within = time.verdict == "faster" or not _beyond(rise, most)
    return Held("ok" if within else "unclear", rise, f"{said}, {_limit(most)}")


def held_count(work: WorkChange, quantity: str, most: float, *, same_work: bool = True) -> Held:
    """Hold a limit against a count or a resource; of occupancy, the fall."""
    count = next((count for count in work.counts if count.name == quantity), None)
    if count is None or count.base is None or count.new is None:
        side = _lacking(count)
        why = work.reason if count is None and work.verdict == "unknown" else ""
        return Held("not-compared", None, f"{count_name(quantity)} not known {side}{_because(why)}")
    rise = _rise(count, falls=quantity == OCCUPANCY)
    change = rise if math.isfinite(rise) else None
    said = count_text(count)
    worse = "less" if quantity == OCCUPANCY else "more"
    if not same_work and count.word != "same":
        return Held("unclear", change, f"{said}, and the runs are not alike{_because(work.reason)}")
    if count.word == worse and _beyond(rise, most):
        return Held("regression", change, f"{said}, {_limit(most)}")
    if _is_printed_too_coarsely(count) and _beyond(rise, most):
        return Held("unclear", change, f"{said}, {_limit(most)}: it was printed or estimated with few digits")
    if count.word == "unclear" and _beyond(rise + count.tolerance, most):
        return Held("unclear", change, f"{said}, {_limit(most)}{_because(_why_unclear(count, work))}")
    return Held("ok", change, f"{said}, {_limit(most)}")


def _is_printed_too_coarsely(count: CountChange) -> bool:
    """Tell whether a count that repeats exactly is taken as the same for the few digits that a side has of it."""
    exact = not tolerance_of(count.name).amount
    return exact and count.word == "same" and not count.data_dependent and count.tolerance >= ESTIMATE


def _beyond(rise: float, most: float) -> bool:
    """Tell whether a rise is more than allowed, but for the rounding of ratios."""
    return rise > most * (1 + _ROUNDING)


def _rise(count: CountChange, *, falls: bool) -> float:
    """Return by what fraction a count rose, or fell where that is worse; infinite where it was nothing before."""
    assert count.base is not None and count.new is not None
    before, after = count.base, count.new
    if before == after:
        return 0.0
    if before == 0:
        return -1.0 if falls else math.inf
    return (before - after if falls else after - before) / before


def _why_unclear(count: CountChange, work: WorkChange) -> str:
    if count.data_dependent:
        return "launches of one side differ in it by themselves"
    return work.reason or f"it may differ by {format_percent(count.tolerance)} without a change of the code"


def _lacking(count: CountChange | None) -> str:
    if count is None or (count.base is None and count.new is None):
        return "on either side"
    return "on the base side" if count.base is None else "on the new side"


def _moved(rise: float) -> str:
    if rise == 0:
        return "did not change"
    return f"{'rose' if rise > 0 else 'fell'} by {format_percent(abs(rise))}"


def _limit(most: float) -> str:
    return f"{significant(most * 100, strip=True)} % is allowed" if most else "no change for the worse is allowed"


def _because(reason: str) -> str:
    return f": {reason[:1].lower()}{reason[1:]}".rstrip(".") if reason else ""
