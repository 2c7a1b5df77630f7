"""Why a kernel's time changed: which counters moved, through which mechanism, and at which line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.comparison.causes.busy_units import unit_reasons
from gpuprof.comparison.causes.counted import counted_reasons, moved
from gpuprof.comparison.causes.launch import launch_reasons, launches_reason
from gpuprof.comparison.causes.opcodes import STORES, opcode_reasons, side_without_stores
from gpuprof.comparison.causes.time_model import (
    Counts,
    Reason,
    TimeFactors,
    factors_of,
    factors_of_times,
)
from gpuprof.comparison.contract import (
    Certainty,
    ChangeCause,
    Direction,
    LineChange,
    SourceLine,
    TimeChange,
    ValueChange,
    WorkChange,
)
from gpuprof.comparison.finding_changes import beyond_bound
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.values import Values, counted_value, values_of
from gpuprof.comparison.work.counts import FLOP, OPCODES

_MOST, _AGAINST, _REST = 5, 2, 3
"""How many causes are listed: those that explain the change, those that work against it, and unchanged quantities."""
_EXPLAINS = 0.1
"""A reason that explains less than a tenth of a change is no cause of it."""
_LITTLE = 1 / 3
"""If the best cause explains less, a cause says so."""
_DRIFTS = 0.01
"""An unclear change gets causes from one per cent on."""
_MATTERS = 0.3
"""A unit whose weight is less does not rule anything out by staying the same."""
_SAME_ISSUES = 0.01
"""Instructions that follow from the issue rate are the same if they differ by less."""
_DIRECTIONS: tuple[Direction, Direction] = ("slower", "faster")
_RESOURCES = ("registers", "shared-memory", "occupancy", "launches")
_COMPARED = ("same", "less", "more")
_MOST_PATH = 200
"""Characters of a file's path that are kept."""


def causes_of(pair: Pair, time: TimeChange, work: WorkChange, lines: Sequence[LineChange]) -> tuple[ChangeCause, ...]:
    """Return the causes of a change of time, the most important first; empty if no quantity moved.

    If time is the same, not known or not comparable, the quantities that moved are listed as
    neutral.
    """
    if not pair.base or not pair.new:
        return ()
    counts = {change.name: change for change in work.counts}
    launches = launches_reason(pair)
    if pair.match == "reconfigured" and any(kernel.is_mixed for kernel in (*pair.base, *pair.new)):
        return (launches.cause("neutral"),) if launches is not None else ()
    factors = _factors(pair, counts)
    drifts = time.verdict == "unclear" and time.noise is not None
    if factors is None or not (time.is_change or (drifts and abs(factors.total) >= _DRIFTS)):
        causes = [launches.cause("neutral")] if launches is not None else []
        causes += _moved(counts, pair)
        return (*_with_stores(causes, counts), *_line(lines, 0.0, changed=False))
    reasons = list(_reasons(pair, counts, factors))
    if drifts:
        reasons = [reason for reason in reasons if reason.mechanism not in ("stalls", "latency")]
    causes = _with_stores(_ranked(reasons, factors, counts, changed=time.is_change), counts)
    if launches is not None:
        causes.insert(0, launches.cause("neutral"))
    else:
        causes += _line(lines, factors.total, changed=True)
    gain = beyond_bound(pair, time)
    if gain is not None:
        causes.append(_neutral("bound", gain, certainty="inferred"))
    return tuple(causes)


def _factors(pair: Pair, counts: Counts) -> TimeFactors | None:
    totals = pair.totals_s
    if not pair.is_one_to_one:
        if totals is None:
            return None
        return factors_of_times(totals)
    is_per_run = pair.match != "exact" and moved(counts.get("launches")) is not None
    return factors_of(*pair.representatives, counts, totals if is_per_run else None)


def _with_stores(causes: list[ChangeCause], counts: Counts) -> list[ChangeCause]:
    """Put first that a side stores nothing: its time is that of code without an effect."""
    if side_without_stores(counts) is None:
        return causes
    return [_neutral(STORES, counted_value(counts["global-store-requests"])), *causes]


def _reasons(pair: Pair, counts: Counts, factors: TimeFactors) -> Iterator[Reason]:
    if not pair.is_one_to_one:
        yield from counted_reasons(None, None, counts, factors)
        return
    base, new = pair.representatives
    yield from unit_reasons(base, new, factors, counts)
    effect = 0.0
    for reason in counted_reasons(base, new, counts, factors):
        yield reason
        if reason.mechanism == "instructions":
            effect = reason.effect
    yield from opcode_reasons(counts, effect, fp64_binds=factors.binds("fp64"))
    yield from launch_reasons(base, new, factors)


def _ranked(reasons: Sequence[Reason], factors: TimeFactors, counts: Counts, *, changed: bool) -> list[ChangeCause]:
    """Return causes by their share of the change, those against it, and unchanged quantities."""
    total = factors.total
    explaining: list[tuple[Reason, float]] = []
    against: list[tuple[Reason, float]] = []
    for reason in reasons:
        share = min(1.0, reason.effect / total) if total else 0.0
        if share >= _EXPLAINS or (share > 0 and reason.always):
            explaining.append((reason, share))
        elif share <= -_EXPLAINS or (share < 0 and reason.always):
            against.append((reason, share))
    explaining.sort(key=_rank)
    against.sort(key=lambda item: (not item[0].early, item[1]))
    direction, opposite = _DIRECTIONS if total > 0 else _DIRECTIONS[::-1]
    causes = [reason.cause(direction) for reason in _most_important([reason for reason, _ in explaining])]
    best = max((share for _, share in explaining), default=0.0)
    if changed and best < _LITTLE:
        causes = _unexplained(causes, counts, factors)
    causes += [reason.cause(opposite) for reason, _ in against[:_AGAINST]]
    early = {(reason.mechanism, reason.values) for reason in reasons if reason.early}
    rest = [*_unchanged(counts, factors, reasons), *_to_no_effect(reasons)]
    return [
        *causes[:1],
        *sorted(causes[1:], key=lambda cause: (cause.mechanism, cause.values) not in early),
        *rest[:_REST],
    ]


def _rank(item: tuple[Reason, float]) -> tuple[int, float]:
    """Rank a cause: work of the unit that binds, its busy time, then all others by share."""
    reason, share = item
    if not reason.first or share < _LITTLE:
        return 2, -share
    return int(reason.mechanism == "unit-time"), -share


def _most_important(reasons: Sequence[Reason]) -> list[Reason]:
    """Return the first reasons, with up to two more of those that are always listed."""
    late = [reason for reason in reasons[_MOST:] if reason.always][:2]
    early = list(reasons[:_MOST])
    optional = [reason for reason in early if not reason.always]
    while len(early) > _MOST - len(late) and optional:
        early.remove(optional.pop())
    return [*early, *late]


def _unexplained(causes: list[ChangeCause], counts: Counts, factors: TimeFactors) -> list[ChangeCause]:
    """Add that nothing explains the change, or little of it."""
    if causes:
        return [*causes, _neutral("nothing", certainty="inferred", kind="rest")]
    counted = [change for name, change in counts.items() if name not in _RESOURCES and change.word in _COMPARED]
    if any(moved(change) is not None for change in counted):
        kind = "moved"
    elif factors.busy is not None and abs(factors.busy) < _LITTLE * abs(factors.total):
        kind = "less-busy" if factors.total > 0 else "more-busy"
    elif counted:
        kind = "same-counts"
    else:
        kind = "no-counts"
    return [_neutral("nothing", kind=kind)]


def _unchanged(counts: Counts, factors: TimeFactors, reasons: Sequence[Reason]) -> Iterator[ChangeCause]:
    """Yield unchanged counts that rule something out: the instructions, and the bytes of a level that matters."""
    named = {reason.mechanism for reason in reasons}
    instructions = counts.get("instructions")
    if instructions is not None and instructions.word == "same":
        yield _neutral("instructions", replace(counted_value(instructions), same=True))
    elif instructions is None and "instructions" not in named and abs(factors.instructions or 1.0) < _SAME_ISSUES:
        yield _neutral("instructions", ValueChange(name="issued-instructions", same=True), certainty="inferred")
    for level in ("dram", "l2"):
        change = counts.get(f"{level}-bytes")
        if change is not None and change.word == "same" and factors.weight(level) >= _MATTERS:
            yield _neutral(f"{level}-bytes", replace(counted_value(change), same=True))


def _to_no_effect(reasons: Sequence[Reason]) -> Iterator[ChangeCause]:
    """Yield registers, an occupancy and types that changed without an effect on the time."""
    for reason in reasons:
        if reason.mechanism in ("occupancy", "registers", "tensor-cores") and not reason.effect:
            yield replace(reason.cause("neutral"), certainty="counted")


def _moved(counts: Counts, pair: Pair) -> Iterator[ChangeCause]:
    """Yield up to five counts of a launch's work that moved, if no change of time needs a cause."""
    of_launch = [change for name, change in counts.items() if name != "launches" and not name.startswith(OPCODES)]
    listed = [change for change in of_launch if moved(change) is not None]
    for change in listed[:_MOST]:
        yield _neutral("flop" if change.name.startswith(FLOP) else change.name, counted_value(change))
    base, new = pair.representatives
    registers = values_of(base.registers_per_thread, new.registers_per_thread)
    if pair.is_one_to_one and not listed and registers is not None and registers.base != registers.new:
        yield _neutral("registers", registers.named("registers"))


def _line(lines: Sequence[LineChange], total: float, *, changed: bool) -> Iterator[ChangeCause]:
    """Yield the line that gained or lost most, in the direction of the change if there is one."""
    for line in lines:
        if line.base is None or line.new is None:
            continue
        gained = line.new - line.base
        if changed and gained * total <= 0:
            continue
        direction: Direction = "neutral"
        if changed:
            direction = "slower" if gained > 0 else "faster"
        number = line.new_line if line.new_line is not None else line.base_line
        yield ChangeCause(
            mechanism="local-memory" if line.what == "local" else "source-line",
            direction=direction,
            certainty="inferred" if line.what == "samples" else "counted",
            values=(Values(line.base, line.new).named(line.what),),
            kind="line" if line.new_line is not None else "base-line",
            location=SourceLine(line.file[:_MOST_PATH], number) if number is not None else None,
        )
        return


def _neutral(mechanism: str, *values: ValueChange, certainty: Certainty = "counted", kind: str = "") -> ChangeCause:
    return ChangeCause(mechanism=mechanism, direction="neutral", certainty=certainty, values=values, kind=kind)
