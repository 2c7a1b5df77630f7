"""The gate: the limits of --fail-on for each kernel and for the run, and the regressions that a
file accepts.

A limit is exceeded if the verdict is a change for the worse and that is larger than allowed. The
result is unclear if the interval includes the limit, or if the conditions of the runs forbid the
verdict.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from gpuprof.comparison.causes.opcodes import has_lost_effect
from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import (
    Acceptance,
    CheckReason,
    ComparisonFact,
    CountChange,
    FactKind,
    Gate,
    GateCheck,
    GateWord,
    KernelChange,
    QuantityChange,
    TimeChange,
    WorkChange,
    run_time,
)
from gpuprof.comparison.gate.accepted import Accepted, fitting
from gpuprof.comparison.gate.limits import OCCUPANCY, TIME, TOTAL_TIME, GateLimit, Limit
from gpuprof.comparison.selection import fits, names_of
from gpuprof.comparison.work.tolerances import ESTIMATE, tolerance_of
from gpuprof.errors import GATE_REGRESSION, GATE_UNCLEAR
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern

ORDER = ("regression", "unclear", "not-compared", "accepted", "ok")
_ROUNDING = 1e-9


def gated(
    compared: Compared,
    limits: Sequence[GateLimit],
    *,
    unclear_fails: bool = False,
    accepted: Sequence[Accepted] = (),
    today: date = date.min,
) -> Compared:
    """Return a comparison with its gate, and with facts about accepted regressions.

    A limit for kernels of a pattern takes precedence over that for all kernels; of several that
    fit, the first.
    """
    results = [_check(applied, accepted, today) for applied in _applied_limits(compared, limits)]
    gate = gate_of([check for check, _ in results], unclear_fails=unclear_fails)
    needed = [entry for _, entry in results]
    broken = [check for check in gate.checks if check.word != "not-compared"]
    idle = [_idle(entry, compared, limits, broken, today) for entry in accepted if entry not in needed]
    comparison = compared.comparison
    facts = (*comparison.facts, *_without_base(comparison.kernels, limits), *idle)
    return replace(compared, comparison=replace(comparison, gate=gate, facts=facts))


def gate_of(checks: Sequence[GateCheck], *, unclear_fails: bool) -> Gate:
    """Return the gate of these checks, the worst first, with its exit code."""
    ordered = sorted(checks, key=lambda check: ORDER.index(check.word))
    words = {check.word for check in ordered}
    code = 0
    if "regression" in words:
        code = GATE_REGRESSION
    elif unclear_fails and not words.isdisjoint(("unclear", "not-compared")):
        code = GATE_UNCLEAR
    shown = tuple(check for check in ordered if check.word != "ok")
    return Gate(passed=code == 0, exit_code=code, checks=shown, ok=len(ordered) - len(shown))


class _AppliedLimit(NamedTuple):
    """A limit for a kernel, or for the run (None), and the result of any number in its place."""

    limit: GateLimit
    kernel: KernelChange | None
    check: Callable[[float], CheckResult]

    @property
    def names(self) -> list[tuple[str, str]]:
        """Return labels and full names of its kernel."""
        return names_of(self.kernel) if self.kernel is not None else []


def _applied_limits(compared: Compared, limits: Sequence[GateLimit]) -> Iterator[_AppliedLimit]:
    """Yield every limit with every kernel that it decides for, those of the run last."""
    comparison = compared.comparison
    alike = comparison.alike
    same_work = not any(condition.affects in ("work", "both") for condition in comparison.conditions)
    patterns = [(limit, _pattern(limit)) for limit in limits if limit.quantity != TOTAL_TIME]
    idle = {limit for limit, _ in patterns}
    for change in comparison.kernels:
        if change.match in ("new", "gone"):
            continue
        fitting_limits = [limit for limit, pattern in patterns if pattern is None or fits(pattern, change)]
        idle.difference_update(fitting_limits)
        for limit in deciding(fitting_limits):
            check = partial(check_kernel, change, limit.quantity, alike=alike, same_work=same_work)
            yield _AppliedLimit(limit, change, check)
    for limit in limits:
        if limit in idle:
            yield _AppliedLimit(limit, None, _not_compared(limit, comparison.kernels))
        elif limit.quantity == TOTAL_TIME:
            lost = any(map(has_lost_effect, comparison.kernels))
            of_all = alike and all(condition.affects != "totals" for condition in comparison.conditions)
            yield _AppliedLimit(limit, None, partial(check_total, comparison.total, alike=of_all, lost=lost))


def deciding(limits: Sequence[Limit]) -> list[Limit]:
    """Return one limit a quantity: the first that names the kernel, else that for all kernels."""
    decided: dict[str, Limit] = {}
    for limit in sorted(limits, key=lambda limit: limit.pattern is None):
        decided.setdefault(limit.quantity, limit)
    return [limit for limit in limits if decided[limit.quantity] is limit]


def _not_compared(limit: GateLimit, changes: Sequence[KernelChange]) -> Callable[[float], CheckResult]:
    """Return the result of a limit that is for no kernel of both sides."""
    pattern = _pattern(limit)
    because: CheckReason = "no-kernel"
    if pattern is not None:
        because = "one-sided" if any(fits(pattern, change) for change in changes) else "no-match"
    return lambda _: CheckResult("not-compared", because=because)


def _pattern(limit: GateLimit) -> KernelPattern | None:
    return kernel_pattern(limit.pattern, "--fail-on") if limit.pattern is not None else None


def _check(applied: _AppliedLimit, accepted: Sequence[Accepted], today: date) -> tuple[GateCheck, Accepted | None]:
    """Return the check of a limit for a kernel, and the accepted regression that it needed."""
    limit = applied.limit
    result = applied.check(limit.most)
    check = GateCheck(
        limit=limit.text,
        quantity=limit.quantity,
        pattern=limit.pattern,
        allowed=limit.most,
        kernel=applied.kernel.id if applied.kernel is not None else None,
        word=result.word,
        because=result.because,
        change=result.change,
        upper=result.upper,
    )
    if result.word not in ("regression", "unclear"):
        return check, None
    entries = fitting(accepted, limit.quantity, applied.names)
    if not entries:
        return check, None
    for entry in entries:
        if entry.is_valid(today) and (entry.most is None or applied.check(entry.most).word == "ok"):
            return replace(check, word="accepted", accepted=entry.reason, acceptance=_acceptance(entry, today)), entry
    entry = next((entry for entry in entries if entry.is_valid(today)), entries[0])
    return replace(check, acceptance=_acceptance(entry, today)), entry


def _acceptance(entry: Accepted, today: date) -> Acceptance:
    return Acceptance(until=str(entry.until), expired=not entry.is_valid(today), most=entry.most)


def _without_base(changes: Sequence[KernelChange], limits: Sequence[GateLimit]) -> Iterator[ComparisonFact]:
    """Yield how many new kernels were not checked: a kernel without its base passes unseen."""
    new = sum(change.match == "new" for change in changes)
    if new and any(limit.quantity != TOTAL_TIME for limit in limits):
        yield ComparisonFact(kind="no-base", numbers=(new,))


def _idle(
    entry: Accepted,
    compared: Compared,
    limits: Sequence[GateLimit],
    broken: Sequence[GateCheck],
    today: date,
) -> ComparisonFact:
    """Return why no check needed an accepted regression. `broken` are checks of exceeded limits."""
    pattern = entry.pattern
    kind: FactKind = "accepted-idle" if entry.is_valid(today) else "accepted-ended"
    if not any(limit.quantity == entry.quantity for limit in limits):
        kind = "accepted-no-limit"
    elif pattern is not None and not any(fits(pattern, change) for change in compared.comparison.kernels):
        kind = "accepted-no-kernel"
    elif _concerns(entry, compared, limits, broken):
        kind = "accepted-twice"
    text = pattern.text if pattern is not None else ""
    return ComparisonFact(kind=kind, texts=(entry.place, entry.quantity, text, str(entry.until)))


def _concerns(entry: Accepted, compared: Compared, limits: Sequence[GateLimit], broken: Sequence[GateCheck]) -> bool:
    """Return whether a broken check is of the quantity and of a kernel of an entry."""
    limit_texts = {limit.text for limit in limits if limit.quantity == entry.quantity}
    changes = {change.id: change for change in compared.comparison.kernels}
    for check in broken:
        names = names_of(changes[check.kernel]) if check.kernel is not None else []
        if check.limit in limit_texts and fitting([entry], entry.quantity, names):
            return True
    return False


class CheckResult(NamedTuple):
    """The result of a limit, the relative change for the worse (None: no fraction), and the reason.

    `upper` is the upper end of the change at 99 % if that exceeds the limit and the change itself
    does not.
    """

    word: GateWord
    change: float | None = None
    because: CheckReason = "limit"
    upper: float | None = None


def check_kernel(change: KernelChange, quantity: str, most: float, *, alike: bool, same_work: bool) -> CheckResult:
    """Check a limit for a kernel that is on both sides.

    `alike`: no condition forbids verdicts on time; `same_work`: none forbids those on work. No
    limit is kept by a kernel that stores on one side only.
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
    if time.verdict == "slower" and exceeds(rise, most):
        return CheckResult("regression", rise)
    if time.verdict == "unclear" and time.interval is None:
        return CheckResult("unclear", rise, "doubt")
    highs = [interval.high - 1 for interval in (time.interval, time.cycles_interval) if interval is not None]
    high = max(highs, default=rise)
    if time.verdict == "faster" or not exceeds(high, most):
        return CheckResult("ok", rise)
    return CheckResult("unclear", rise, "doubt", upper=high if highs else None)


def check_total(total: Sequence[QuantityChange], most: float, *, alike: bool = True, lost: bool = False) -> CheckResult:
    """Check a limit for the time of a run. `lost`: a kernel stores on one side only."""
    time = run_time(total)
    if time is None or time.ratio is None or not math.isfinite(time.ratio):
        return CheckResult("not-compared", because="unknown")
    rise = time.ratio - 1
    if not alike:
        return CheckResult("unclear", rise, "conditions")
    if lost:
        return CheckResult("unclear", rise, "stores")
    if time.verdict == "slower" and exceeds(rise, most):
        return CheckResult("regression", rise)
    if time.verdict in ("unclear", "unknown"):
        return CheckResult("unclear", rise, "noise")
    return CheckResult("ok" if time.verdict == "faster" or not exceeds(rise, most) else "unclear", rise)


def check_count(work: WorkChange, quantity: str, most: float, *, same_work: bool = True) -> CheckResult:
    """Check a limit for a count or a resource; for occupancy, the fall counts."""
    count = work.count(quantity)
    if count is None or count.base is None or count.new is None:
        return CheckResult("not-compared", because="unknown")
    falls = quantity == OCCUPANCY
    rise = _rise(count.base, count.new, falls=falls)
    worse = "less" if falls else "more"
    change = rise if math.isfinite(rise) else None
    same_launches = all(note.kind != "other-launches" or count.name not in note.names for note in work.notes)
    if not (same_work and same_launches) and count.word != "same":
        return CheckResult("unclear", change, "conditions")
    if count.word == worse and exceeds(rise, most):
        return CheckResult("regression", change)
    if _has_few_digits(count) and exceeds(rise, most):
        return CheckResult("unclear", change, "few-digits")
    if count.word == "unclear" and exceeds(rise + count.tolerance, most):
        return CheckResult("unclear", change, "doubt")
    return CheckResult("ok", change)


def _has_few_digits(count: CountChange) -> bool:
    """Return whether an exact count is the same only because a side has few digits of it."""
    exact = not tolerance_of(count.name).amount
    return exact and count.word == "same" and not count.data_dependent and count.tolerance >= ESTIMATE


def exceeds(rise: float, most: float) -> bool:
    """Return whether a rise is more than allowed, apart from the rounding of ratios."""
    return rise > most * (1 + _ROUNDING)


def _rise(before: float, after: float, *, falls: bool) -> float:
    """Return the relative change for the worse: a rise, or a fall if `falls`; infinite if the count was zero before."""
    if before == after:
        return 0.0
    if before == 0:
        return -1.0 if falls else math.inf
    return (before - after if falls else after - before) / before
