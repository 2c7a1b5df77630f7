"""The result of a limit for a kernel, or for the run: kept, exceeded, or not to be judged.

A limit is exceeded if the verdict is a change for the worse and that is larger than allowed. The result is unclear if
the interval includes the limit, or if the conditions of the runs forbid the verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from gpuprof.comparison.causes.opcodes import has_lost_effect
from gpuprof.comparison.contract import (
    TIMES,
    CheckReason,
    CountChange,
    GateWord,
    KernelChange,
    QuantityChange,
    TimeChange,
    WorkChange,
)
from gpuprof.comparison.gate.limits import OCCUPANCY, TIME
from gpuprof.comparison.work.tolerances import ESTIMATE, tolerance_of

_ROUNDING = 1e-9


class CheckResult(NamedTuple):
    """The result of a limit, the relative change for the worse (None: not a fraction), and why it is so.

    `upper` is the upper end of the change at 99 % if that is what exceeds the limit.
    """

    word: GateWord
    change: float | None = None
    because: CheckReason = "limit"
    upper: float | None = None


def check_kernel(change: KernelChange, quantity: str, most: float, *, alike: bool, same_work: bool) -> CheckResult:
    """Check a limit for a kernel that is on both sides.

    `alike`: no condition forbids verdicts on time; `same_work`: none forbids those on work. No limit is kept by a
    kernel that stores on one side only.
    """
    if quantity == TIME:
        return check_time(change.time, most, alike=alike)
    result = check_count(change.work, quantity, most, same_work=same_work)
    if result.word == "ok" and has_lost_effect(change):
        return result._replace(word="unclear", because="stores")
    return result


def check_time(time: TimeChange, most: float, *, alike: bool = True) -> CheckResult:
    """Check a limit for the time of a launch."""
    if time.verdict == "unknown" or time.ratio is None or not math.isfinite(time.ratio):
        return CheckResult("not-compared", because="unknown")
    rise = time.ratio - 1
    if not alike:
        return CheckResult("unclear", rise, "conditions")
    if time.verdict == "slower" and _exceeds(rise, most):
        return CheckResult("regression", rise)
    if time.verdict == "unclear" and time.interval is None:
        return CheckResult("unclear", rise, "doubt")
    highs = [interval.high - 1 for interval in (time.interval, time.cycles_interval) if interval is not None]
    high = max(highs, default=rise)
    if time.verdict == "faster" or not _exceeds(high, most):
        return CheckResult("ok", rise)
    return CheckResult("unclear", rise, "doubt", upper=high if highs else None)


def check_total(total: Sequence[QuantityChange], most: float, *, alike: bool = True, lost: bool = False) -> CheckResult:
    """Check a limit for the time of all kernels of a run. `lost`: one of them stores on one side only."""
    time = next((quantity for quantity in total if quantity.name in TIMES), None)
    if time is None or time.ratio is None or not math.isfinite(time.ratio):
        return CheckResult("not-compared", because="unknown")
    rise = time.ratio - 1
    if not alike:
        return CheckResult("unclear", rise, "conditions")
    if lost:
        return CheckResult("unclear", rise, "stores")
    if time.verdict == "slower" and _exceeds(rise, most):
        return CheckResult("regression", rise)
    if time.verdict in ("unclear", "unknown"):
        return CheckResult("unclear", rise, "noise")
    return CheckResult("ok" if time.verdict == "faster" or not _exceeds(rise, most) else "unclear", rise)


def check_count(work: WorkChange, quantity: str, most: float, *, same_work: bool = True) -> CheckResult:
    """Check a limit for a count or a resource; for occupancy, the fall counts."""
    count = next((count for count in work.counts if count.name == quantity), None)
    if count is None or count.base is None or count.new is None:
        return CheckResult("not-compared", because="unknown")
    rise = _rise(count, falls=quantity == OCCUPANCY)
    change = rise if math.isfinite(rise) else None
    worse = "less" if quantity == OCCUPANCY else "more"
    if not same_work and count.word != "same":
        return CheckResult("unclear", change, "conditions")
    if count.word == worse and _exceeds(rise, most):
        return CheckResult("regression", change)
    if _has_few_digits(count) and _exceeds(rise, most):
        return CheckResult("unclear", change, "few-digits")
    if count.word == "unclear" and _exceeds(rise + count.tolerance, most):
        return CheckResult("unclear", change, "doubt")
    return CheckResult("ok", change)


def _has_few_digits(count: CountChange) -> bool:
    """Return whether an exact count is taken as the same only because a side has few digits of it."""
    exact = not tolerance_of(count.name).amount
    return exact and count.word == "same" and not count.data_dependent and count.tolerance >= ESTIMATE


def _exceeds(rise: float, most: float) -> bool:
    """Return whether a rise is more than allowed, apart from the rounding of ratios."""
    return rise > most * (1 + _ROUNDING)


def _rise(count: CountChange, *, falls: bool) -> float:
    """Return the relative change for the worse: a rise, or a fall if `falls`; infinite if the count was zero before."""
    assert count.base is not None and count.new is not None
    before, after = count.base, count.new
    if before == after:
        return 0.0
    if before == 0:
        return -1.0 if falls else math.inf
    return (before - after if falls else after - before) / before
