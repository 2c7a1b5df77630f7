"""The gate: the limits of --fail-on for each kernel and for the run, and the regressions that a file accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.causes.opcodes import has_lost_effect
from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import Acceptance, CheckReason, ComparisonFact, FactKind, Gate, GateCheck, KernelChange
from gpuprof.comparison.gate.accepted import Accepted, fitting
from gpuprof.comparison.gate.checks import CheckResult, check_kernel, check_total
from gpuprof.comparison.gate.limits import TOTAL_TIME, GateLimit
from gpuprof.comparison.selection import fits, names_of
from gpuprof.errors import GATE_REGRESSION, GATE_UNCLEAR
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern

_ORDER = ("regression", "unclear", "not-compared", "accepted", "ok")


class Judged(Struct, frozen=True):
    """A gate, and what is to be known of new kernels and of accepted regressions that it did not need."""

    gate: Gate
    facts: tuple[ComparisonFact, ...]


def judged(
    compared: Compared,
    limits: Sequence[GateLimit],
    *,
    unclear_fails: bool = False,
    accepted: Sequence[Accepted] = (),
    today: date = date.min,
) -> Judged:
    """Return the gate.

    A limit for kernels of a pattern takes precedence over that for all kernels; of several that fit, the first.
    """
    every = [_check(case, accepted, today) for case in _cases(compared, limits)]
    checks = sorted((check for check, _ in every), key=lambda check: _ORDER.index(check.word))
    regressed = any(check.word == "regression" for check in checks)
    unclear = unclear_fails and any(check.word in ("unclear", "not-compared") for check in checks)
    code = GATE_REGRESSION if regressed else GATE_UNCLEAR if unclear else 0
    shown = tuple(check for check in checks if check.word != "ok")
    needed = {entry for _, entry in every if entry is not None}
    broken = [check for check in shown if check.word in ("accepted", "regression", "unclear")]
    idle = [_idle(entry, compared, limits, broken, today) for entry in accepted if entry not in needed]
    gate = Gate(passed=code == 0, exit_code=code, checks=shown, ok=len(checks) - len(shown))
    return Judged(gate, (*_without_base(compared.comparison.kernels, limits), *idle))


class _Case(NamedTuple):
    """A limit that decides for a kernel, or for the run (None), and the result of any number in its place."""

    limit: GateLimit
    kernel: KernelChange | None
    check: Callable[[float], CheckResult]


def _cases(compared: Compared, limits: Sequence[GateLimit]) -> Iterator[_Case]:
    """Yield every limit with every kernel that it decides for, those of the run last."""
    comparison = compared.comparison
    same_work = not any(condition.affects in ("work", "both") for condition in comparison.conditions)
    patterns = [(limit, _pattern(limit)) for limit in limits if limit.quantity != TOTAL_TIME]
    idle = {limit for limit, _ in patterns}
    for change in comparison.kernels:
        if change.match in ("new", "gone"):
            continue
        about = [limit for limit, pattern in patterns if pattern is None or fits(pattern, change)]
        idle.difference_update(about)
        for limit in _deciding(about):
            check = partial(check_kernel, change, limit.quantity, alike=comparison.alike, same_work=same_work)
            yield _Case(limit, change, check)
    for limit in limits:
        if limit in idle:
            yield _Case(limit, None, _nothing(limit, comparison.kernels))
        elif limit.quantity == TOTAL_TIME:
            lost = any(map(has_lost_effect, comparison.kernels))
            yield _Case(limit, None, partial(check_total, comparison.total, alike=comparison.alike, lost=lost))


def _deciding(limits: Sequence[GateLimit]) -> list[GateLimit]:
    """Return one limit for each quantity: the first that names the kernel, else that for all kernels."""
    decided: dict[str, GateLimit] = {}
    for limit in sorted(limits, key=lambda limit: limit.pattern is None):
        decided.setdefault(limit.quantity, limit)
    return [limit for limit in limits if decided[limit.quantity] is limit]


def _nothing(limit: GateLimit, changes: Sequence[KernelChange]) -> Callable[[float], CheckResult]:
    """Return the result of a limit that is for no kernel of both sides."""
    pattern = _pattern(limit)
    because: CheckReason = "no-kernel"
    if pattern is not None:
        because = "one-sided" if any(fits(pattern, change) for change in changes) else "no-match"
    return lambda _: CheckResult("not-compared", because=because)


def _pattern(limit: GateLimit) -> KernelPattern | None:
    return kernel_pattern(limit.pattern, "--fail-on") if limit.pattern is not None else None


def _check(case: _Case, accepted: Sequence[Accepted], today: date) -> tuple[GateCheck, Accepted | None]:
    """Return the check of a limit for a kernel, and the accepted regression that it needed."""
    result = case.check(case.limit.most)
    check = GateCheck(
        limit=case.limit.text,
        quantity=case.limit.quantity,
        pattern=case.limit.pattern,
        allowed=case.limit.most,
        kernel=case.kernel.id if case.kernel is not None else None,
        word=result.word,
        because=result.because,
        change=result.change,
        upper=result.upper,
    )
    if result.word not in ("regression", "unclear"):
        return check, None
    names = names_of(case.kernel) if case.kernel is not None else ()
    return _let_pass(check, case, fitting(accepted, case.limit.quantity, names), today)


def _let_pass(
    check: GateCheck, case: _Case, entries: Sequence[Accepted], today: date
) -> tuple[GateCheck, Accepted | None]:
    """Return a check as accepted if an entry says so; else with the entry that does not suffice."""
    for entry in entries:
        if entry.is_valid(today) and (entry.most is None or case.check(entry.most).word == "ok"):
            return replace(check, word="accepted", accepted=entry.reason, acceptance=_acceptance(entry, today)), entry
    if not entries:
        return check, None
    entry = next((entry for entry in entries if entry.is_valid(today)), entries[0])
    return replace(check, acceptance=_acceptance(entry, today)), entry


def _acceptance(entry: Accepted, today: date) -> Acceptance:
    return Acceptance(until=str(entry.until), expired=not entry.is_valid(today), most=entry.most)


def _without_base(changes: Sequence[KernelChange], limits: Sequence[GateLimit]) -> Iterator[ComparisonFact]:
    """Yield how many new kernels no limit was checked for: a kernel that is not matched with its base passes unseen."""
    new = sum(change.match == "new" for change in changes)
    if new and any(limit.quantity != TOTAL_TIME for limit in limits):
        yield ComparisonFact(kind="no-base", numbers=(new,))


def _idle(
    entry: Accepted, compared: Compared, limits: Sequence[GateLimit], broken: Sequence[GateCheck], today: date
) -> ComparisonFact:
    """Return why nothing needed an accepted regression. `broken` are the checks of limits that are not kept."""
    pattern = entry.pattern
    kind: FactKind = "accepted-idle" if entry.is_valid(today) else "accepted-ended"
    if not any(limit.quantity == entry.quantity for limit in limits):
        kind = "accepted-no-limit"
    elif pattern is not None and not any(fits(pattern, change) for change in compared.comparison.kernels):
        kind = "accepted-no-kernel"
    elif _concerns(entry, compared, limits, broken):
        kind = "accepted-twice"
    texts = entry.place, entry.quantity, pattern.text if pattern is not None else "", str(entry.until)
    return ComparisonFact(kind=kind, texts=texts)


def _concerns(entry: Accepted, compared: Compared, limits: Sequence[GateLimit], broken: Sequence[GateCheck]) -> bool:
    """Return whether a broken check is of the quantity and of a kernel of an entry."""
    limit_texts = {limit.text for limit in limits if limit.quantity == entry.quantity}
    changes = {change.id: change for change in compared.comparison.kernels}
    for check in broken:
        change = changes.get(check.kernel) if check.kernel is not None else None
        names = names_of(change) if change is not None else ()
        if check.limit in limit_texts and fitting([entry], entry.quantity, names):
            return True
    return False
