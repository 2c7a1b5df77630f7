"""The gate: limits that a comparison is held against, and regressions that were accepted in writing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.causes.opcodes import effect_lost
from gpuprof.comparison.compare import Compared
from gpuprof.comparison.contract import Gate, GateCheck, KernelChange
from gpuprof.comparison.gate.accepted import Accepted, fitting
from gpuprof.comparison.gate.held import Held, held, held_total
from gpuprof.comparison.gate.limits import TOTAL_TIME, GateLimit
from gpuprof.comparison.selection import fits, names_of
from gpuprof.errors import GATE_REGRESSION, GATE_UNCLEAR
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern
from gpuprof.units import format_percent

_ORDER = ("regression", "unclear", "not-compared", "accepted", "ok")


class Judged(Struct, frozen=True):
    """A gate, and what is to be said of accepted regressions that it did not need."""

    gate: Gate
    notes: tuple[str, ...]


def judged(
    compared: Compared,
    limits: Sequence[GateLimit],
    *,
    unclear_fails: bool = False,
    accepted: Sequence[Accepted] = (),
    today: date = date.min,
) -> Judged:
    """Return the gate, with what is to be said of accepted regressions that are no more.

    A limit for kernels of a pattern takes the place of that for all kernels; of several that fit, the first.
    """
    every = [_check(case, accepted, today) for case in _cases(compared, limits)]
    checks = sorted((check for check, _ in every), key=lambda check: _ORDER.index(check.word))
    regressed = any(check.word == "regression" for check in checks)
    unclear = unclear_fails and any(check.word in ("unclear", "not-compared") for check in checks)
    code = GATE_REGRESSION if regressed else GATE_UNCLEAR if unclear else 0
    told = tuple(check for check in checks if check.word != "ok")
    needed = {entry for _, entry in every if entry is not None}
    broken = [check for check in told if check.word in ("accepted", "regression", "unclear")]
    idle = [_idle(entry, compared, limits, broken, today) for entry in accepted if entry not in needed]
    gate = Gate(passed=code == 0, exit_code=code, checks=told, ok=len(checks) - len(told))
    return Judged(gate, (*_not_held(compared.comparison.kernels, limits), *idle))


class _Case(NamedTuple):
    """A limit that decides for a kernel, or for the run (None), and what any number in its place would say."""

    limit: GateLimit
    kernel: KernelChange | None
    hold: Callable[[float], Held]


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
            yield _Case(limit, change, _holding(limit, change, alike=comparison.alike, same_work=same_work))
    for limit in limits:
        if limit in idle:
            yield _Case(limit, None, _nothing(limit, comparison.kernels))
        elif limit.quantity == TOTAL_TIME:
            lost = next((text for change in comparison.kernels if (text := effect_lost(change))), "")
            yield _Case(limit, None, partial(held_total, comparison.total, alike=comparison.alike, lost=lost))


def _deciding(limits: Sequence[GateLimit]) -> list[GateLimit]:
    """Return a limit a quantity: the first that names the kernel, else that for all kernels."""
    decided: dict[str, GateLimit] = {}
    for limit in sorted(limits, key=lambda limit: limit.pattern is None):
        decided.setdefault(limit.quantity, limit)
    return [limit for limit in limits if decided[limit.quantity] is limit]


def _holding(limit: GateLimit, change: KernelChange, *, alike: bool, same_work: bool) -> Callable[[float], Held]:
    return lambda most: held(change, limit.quantity, most, alike=alike, same_work=same_work)


def _nothing(limit: GateLimit, changes: Sequence[KernelChange]) -> Callable[[float], Held]:
    """Return what to say of a limit that no kernel of both sides is held against."""
    pattern = _pattern(limit)
    if pattern is None:
        told = "no kernel is on both sides"
    elif any(fits(pattern, change) for change in changes):
        told = f"kernels that match {limit.pattern!r:.80} are not on both sides"
    else:
        told = f"no kernel matches {limit.pattern!r:.80}"
    return lambda _: Held("not-compared", None, told)


def _pattern(limit: GateLimit) -> KernelPattern | None:
    return kernel_pattern(limit.pattern, "--fail-on") if limit.pattern is not None else None


def _check(case: _Case, accepted: Sequence[Accepted], today: date) -> tuple[GateCheck, Accepted | None]:
    """Return what a limit says of a kernel, and the accepted regression that it needed."""
    result = case.hold(case.limit.most)
    check = GateCheck(
        limit=case.limit.text,
        kernel=case.kernel.id if case.kernel is not None else None,
        word=result.word,
        change=result.change,
        sentence=result.sentence,
    )
    if result.word not in ("regression", "unclear"):
        return check, None
    names = names_of(case.kernel) if case.kernel is not None else ()
    return _let_pass(check, case, fitting(accepted, case.limit.quantity, names), today)


def _let_pass(
    check: GateCheck, case: _Case, entries: Sequence[Accepted], today: date
) -> tuple[GateCheck, Accepted | None]:
    """Return a check as accepted where an entry says so; else with why those that are about it do not hold."""
    for entry in entries:
        if entry.holds(today) and (entry.most is None or case.hold(entry.most).word == "ok"):
            until = f"{check.sentence}; accepted until {entry.until}"
            return replace(check, word="accepted", sentence=until, accepted=entry.reason), entry
    if not entries:
        return check, None
    entry = next((entry for entry in entries if entry.holds(today)), entries[0])
    why = (
        f"accepted only up to {format_percent(entry.most or 0.0)}"
        if entry.holds(today)
        else f"it was accepted until {entry.until}, which has passed"
    )
    return replace(check, sentence=f"{check.sentence}; {why}"), entry


def _not_held(changes: Sequence[KernelChange], limits: Sequence[GateLimit]) -> Iterator[str]:
    """Say how many new kernels no limit was held against: what is not matched with its base passes unseen."""
    new = sum(change.match == "new" for change in changes)
    if new and any(limit.quantity != TOTAL_TIME for limit in limits):
        which = "1 kernel is new: it has" if new == 1 else f"{new:,} kernels are new: they have"
        yield f"{which} no base, and no limit of a kernel was held against {'it' if new == 1 else 'them'}."


def _idle(
    entry: Accepted, compared: Compared, limits: Sequence[GateLimit], broken: Sequence[GateCheck], today: date
) -> str:
    """Say why nothing needed an accepted regression. `broken` are the checks that do not hold."""
    pattern = entry.pattern
    if not any(limit.quantity == entry.quantity for limit in limits):
        return f"{entry.place}: no limit is about {entry.quantity}"
    if pattern is not None and not any(fits(pattern, change) for change in compared.comparison.kernels):
        return f"{entry.place}: no kernel matches {pattern.text!r:.80}"
    if _concerns(entry, compared, limits, broken):
        return f"{entry.place}: another entry decides for {entry.about}: delete one of them"
    ended = f", and it ended on {entry.until}" if not entry.holds(today) else ""
    return f"{entry.place}: {entry.about} keeps its limit{ended}: delete the entry"


def _concerns(entry: Accepted, compared: Compared, limits: Sequence[GateLimit], broken: Sequence[GateCheck]) -> bool:
    """Tell whether a check that does not hold is of the quantity and of a kernel that an entry is about."""
    texts = {limit.text for limit in limits if limit.quantity == entry.quantity}
    changes = {change.id: change for change in compared.comparison.kernels}
    for check in broken:
        change = changes.get(check.kernel) if check.kernel is not None else None
        names = names_of(change) if change is not None else ()
        if check.limit in texts and fitting([entry], entry.quantity, names):
            return True
    return False
