"""Why a kernel's time changed: which counters moved, through which mechanism, and at which line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.comparison.causes.busy_units import unit_reasons
from gpuprof.comparison.causes.counted import counted_reasons, moved
from gpuprof.comparison.causes.launch import launch_reasons, launches_reason
from gpuprof.comparison.causes.opcodes import STORES, opcode_reasons, side_without_stores
from gpuprof.comparison.causes.time_model import Counts, Parts, Reason, parts_of, parts_of_times
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
from gpuprof.model.session import KernelProfile

_MOST, _AGAINST, _REST = 5, 2, 3
"""How many causes are listed: those that explain the change, those that work against it, and what stayed."""
_EXPLAINS = 0.1
"""What explains less than a tenth of a change is no cause of it."""
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
    """Return the causes of a change of time, the most important first; empty if nothing that was collected moved.

    If time is the same, not known or not comparable, what moved is listed as neutral.
    """
    if not pair.base or not pair.new:
        return ()
    counts = {change.name: change for change in work.counts}
    launches = launches_reason(pair)
    single = pair.is_one_to_one
    base, new = pair.base[0].representative, pair.new[0].representative
    totals = pair.totals_s
    if single:
        is_per_run = pair.match != "exact" and moved(counts.get("launches")) is not None
        parts = parts_of(base, new, counts, totals if is_per_run else None)
    else:
        parts = parts_of_times(totals) if totals is not None else None
    changed = time.is_change
    drifts = time.verdict == "unclear" and time.noise is not None and parts is not None and abs(parts.total) >= _DRIFTS
    if parts is None or not (changed or drifts):
        told = [*([launches.cause("neutral")] if launches else []), *_moved(counts, base, new, single=single)]
        return (*_with_stores(told, counts), *_line(lines, 0.0, changed=False))
    reasons = list(_reasons(base, new, counts, parts) if single else counted_reasons(None, None, counts, parts))
    if drifts:
        reasons = [reason for reason in reasons if reason.mechanism not in ("stalls", "latency")]
    told = _with_stores(_ranked(reasons, parts, counts, changed=changed), counts)
    if launches is not None:
        told.insert(0, launches.cause("neutral"))
    line = _line(lines, parts.total, changed=True) if launches is None else ()
    gain = beyond_bound(pair, time)
    bound = [_neutral("bound", gain, certainty="inferred")] if gain is not None else []
    return (*told, *line, *bound)


def _with_stores(told: list[ChangeCause], counts: Counts) -> list[ChangeCause]:
    """Put before all causes that a side stores nothing: its time is that of code without an effect."""
    if side_without_stores(counts) is None:
        return told
    return [_neutral(STORES, counted_value(counts["global-store-requests"])), *told]


def _reasons(base: KernelProfile, new: KernelProfile, counts: Counts, parts: Parts) -> Iterator[Reason]:
    yield from unit_reasons(base, new, parts, counts)
    effect = 0.0
    for reason in counted_reasons(base, new, counts, parts):
        yield reason
        if reason.mechanism == "instructions":
            effect = reason.effect
    yield from opcode_reasons(counts, effect, fp64_binds=parts.bound and parts.unit == "fp64")
    yield from launch_reasons(base, new, parts)


def _ranked(reasons: Sequence[Reason], parts: Parts, counts: Counts, *, changed: bool) -> list[ChangeCause]:
    """Return the causes by what they explain of the change, then what works against it, then what did not move."""
    total = parts.total
    shares = [(reason, min(1.0, reason.effect / total) if total else 0.0) for reason in reasons]
    explaining = [item for item in shares if item[1] >= _EXPLAINS or (item[1] > 0 and item[0].always)]
    explaining.sort(key=_place)
    against = [item for item in shares if item[1] <= -_EXPLAINS or (item[1] < 0 and item[0].always)]
    against.sort(key=lambda item: (not item[0].early, item[1]))
    word, opposite = _DIRECTIONS if total > 0 else _DIRECTIONS[::-1]
    kept = _kept([reason for reason, _ in explaining])
    causes = [reason.cause(word) for reason in kept]
    best = max((share for _, share in explaining), default=0.0)
    if changed and best < _LITTLE:
        causes = _unexplained(causes, counts, parts)
    causes += [reason.cause(opposite) for reason, _ in against[:_AGAINST]]
    early = {(reason.mechanism, reason.values) for reason in reasons if reason.early}
    causes = [*causes[:1], *sorted(causes[1:], key=lambda cause: (cause.mechanism, cause.values) not in early)]
    rest = [*_unchanged(counts, parts, reasons), *_to_no_effect(reasons)]
    return [*causes, *rest[:_REST]]


def _place(item: tuple[Reason, float]) -> tuple[int, float]:
    """Return the place of a cause: what the unit that binds is busy with, its busy time, then all else by its share."""
    reason, share = item
    if not reason.first or share < _LITTLE:
        return 2, -share
    return (1 if reason.mechanism == "unit-time" else 0), -share


def _kept(reasons: Sequence[Reason]) -> list[Reason]:
    """Return the most important ones, with those that are always listed."""
    late = [reason for reason in reasons[_MOST:] if reason.always][:2]
    early, room = list(reasons[:_MOST]), _MOST - len(late)
    while len(early) > room and any(not reason.always for reason in early):
        early.remove(next(reason for reason in reversed(early) if not reason.always))
    return [*early, *late]


def _unexplained(causes: list[ChangeCause], counts: Counts, parts: Parts) -> list[ChangeCause]:
    """Add that nothing explains the change, or little of it."""
    if causes:
        return [*causes, _neutral("nothing", certainty="inferred", kind="rest")]
    counted = [change for name, change in counts.items() if name not in _RESOURCES and change.word in _COMPARED]
    if any(moved(change) is not None for change in counted):
        kind = "moved"
    elif parts.busy is not None and abs(parts.busy) < _LITTLE * abs(parts.total):
        kind = "less-busy" if parts.total > 0 else "more-busy"
    elif counted:
        kind = "same-counts"
    else:
        kind = "no-counts"
    return [_neutral("nothing", kind=kind)]


def _unchanged(counts: Counts, parts: Parts, reasons: Sequence[Reason]) -> Iterator[ChangeCause]:
    """Yield what stayed the same and rules something out: the instructions, and the bytes of a level that matters."""
    named = {reason.mechanism for reason in reasons}
    instructions = counts.get("instructions")
    if instructions is not None and instructions.word == "same":
        yield _neutral("instructions", replace(counted_value(instructions), same=True))
    elif instructions is None and "instructions" not in named and abs(parts.instructions or 1.0) < _SAME_ISSUES:
        yield _neutral("instructions", ValueChange(name="issued-instructions", same=True), certainty="inferred")
    for level in ("dram", "l2"):
        change = counts.get(f"{level}-bytes")
        if change is not None and change.word == "same" and parts.weight(level) >= _MATTERS:
            yield _neutral(f"{level}-bytes", replace(counted_value(change), same=True))


def _to_no_effect(reasons: Sequence[Reason]) -> Iterator[ChangeCause]:
    """Yield registers and an occupancy that changed, and that make no more or fewer warps resident; types, too."""
    for reason in reasons:
        if reason.mechanism in ("occupancy", "registers", "tensor-cores") and not reason.effect:
            yield replace(reason.cause("neutral"), certainty="counted")


def _moved(counts: Counts, base: KernelProfile, new: KernelProfile, *, single: bool) -> Iterator[ChangeCause]:
    """Yield what moved if no change of time is to be explained: up to five counts of the work."""
    listed = [change for change in counts.values() if moved(change) is not None and not change.name.startswith(OPCODES)]
    for change in listed[:_MOST]:
        yield _neutral("flop" if change.name.startswith(FLOP) else change.name, counted_value(change))
    registers = values_of(base.registers_per_thread, new.registers_per_thread)
    if single and not listed and registers is not None and registers.base != registers.new:
        yield _neutral("registers", registers.named("registers"))


def _line(lines: Sequence[LineChange], total: float, *, changed: bool) -> Iterator[ChangeCause]:
    """Yield the line that gained or lost most, in the direction of the change if there is one."""
    for line in lines:
        if line.base is None or line.new is None:
            continue
        gained = line.new - line.base
        if changed and gained * total <= 0:
            continue
        direction: Direction = "neutral" if not changed else "slower" if gained > 0 else "faster"
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
