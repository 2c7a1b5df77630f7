"""Compare two sides: conditions, work and time of each kernel, and causes; ranked by effect on the total."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.causes.causes import causes_of
from gpuprof.comparison.causes.opcodes import has_lost_effect, side_without_stores
from gpuprof.comparison.conditions.clocks import clock_shift, dram_shift
from gpuprof.comparison.conditions.conditions import caches_alike, conditions_of, counts_rounded
from gpuprof.comparison.contract import (
    COMPARISON_VERSION,
    SIDES,
    ComparedKernel,
    ComparedSide,
    Comparison,
    ComparisonFact,
    KernelChange,
    RunCondition,
    TimeDoubt,
    WorkChange,
)
from gpuprof.comparison.facts import facts_of
from gpuprof.comparison.finding_changes import finding_changes
from gpuprof.comparison.labels import unique_labels
from gpuprof.comparison.lines import line_changes
from gpuprof.comparison.matching.leftovers import order_of
from gpuprof.comparison.matching.pairs import pairs_of
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import (
    Run,
    Side,
    SideKernel,
    are_identical,
    has_replays_alone,
    is_replay,
    sides_of,
    sums_alike,
    without_copies,
)
from gpuprof.comparison.timing.totals import totals_of
from gpuprof.comparison.timing.verdict import time_change
from gpuprof.comparison.work.verdict import work_change


class Compared(Struct, frozen=True):
    """A comparison, and the pair that each of its kernels was made from, in the same order."""

    comparison: Comparison
    pairs: tuple[Pair, ...]
    base: Side
    new: Side


def compare(
    base: Sequence[Run], new: Sequence[Run], version: str, named: Sequence[NamedMatch] = (), *, paired: bool = False
) -> Compared:
    """Compare the runs of two sides. Raises UsageError for a match that names no kernel.

    `paired`: the nth runs of both sides were made side by side, in the order ABBA. Of files, copies count once.
    """
    given = (base, new)
    if not paired:
        base, new = without_copies(base), without_copies(new)
    ours, theirs, known = sides_of(base, new)
    conditions = conditions_of(ours, theirs)
    identical = are_identical(base, new)
    sums = sums_alike(ours, theirs)
    allowed = _Allowed.by(conditions, identical=identical, paired=paired, shift=dram_shift(ours, theirs), sums=sums)
    matched = pairs_of(ours, theirs, named, identical=identical)
    kernels, pairs = _changes(matched, ours.total_s, allowed)
    comparable = allowed.time and not any(map(has_lost_effect, kernels))
    total = totals_of(ours, theirs, comparable=comparable, shift=clock_shift(ours, theirs))
    comparison = Comparison(
        schema_version=COMPARISON_VERSION,
        gpuprof_version=version,
        base=_compared_side(ours),
        new=_compared_side(theirs),
        alike=allowed.time,
        identical=identical,
        conditions=conditions,
        total=total,
        kernels=kernels,
        facts=(*_copies(given, (base, new)), *facts_of(ours, theirs, known, pairs)),
    )
    return Compared(comparison, pairs, ours, new=theirs)


def _copies(
    given: tuple[Sequence[Run], Sequence[Run]], kept: tuple[Sequence[Run], Sequence[Run]]
) -> Iterator[ComparisonFact]:
    """Yield how many files of a side are copies of another one."""
    for side, before, after in zip(SIDES, given, kept, strict=True):
        if len(before) > len(after):
            yield ComparisonFact(kind="copies", side=side, numbers=(len(before) - len(after),))


class _Allowed(Struct, frozen=True):
    """Which verdicts the conditions allow, how exact counts are (see `work_change`), how runs were made, and what times
    can be apart by for the conditions (see `time_change`). `sums`: the times of both sides add up to the same.
    """

    time: bool
    work: bool
    caches_alike: bool
    rounded: bool
    identical: bool
    paired: bool
    shift: float
    sums: bool

    @classmethod
    def by(
        cls, conditions: Sequence[RunCondition], *, identical: bool, paired: bool, shift: float, sums: bool
    ) -> _Allowed:
        affected = {condition.affects for condition in conditions}
        return cls(
            time=affected.isdisjoint(("time", "both")),
            work=affected.isdisjoint(("work", "both")),
            caches_alike=caches_alike(conditions),
            rounded=counts_rounded(conditions),
            identical=identical,
            paired=paired,
            shift=shift,
            sums=sums,
        )


def _changes(
    pairs: Sequence[Pair], base_s: float | None, allowed: _Allowed
) -> tuple[tuple[KernelChange, ...], tuple[Pair, ...]]:
    """Return the change of each pair, and the pairs, both by effect on the total, numbered in that order."""
    changes = [(_change(pair, base_s, allowed), pair) for pair in pairs]
    changes.sort(key=_rank)
    labels = unique_labels([change for change, _ in changes])
    numbered = (
        replace(change, id=number, label=label)
        for number, ((change, _), label) in enumerate(zip(changes, labels, strict=True))
    )
    return tuple(numbered), tuple(pair for _, pair in changes)


def _rank(item: tuple[KernelChange, Pair]) -> tuple[float, object]:
    """Return what sorts by effect, and what has equal ones the same way whatever the order of launches."""
    change, pair = item
    return -abs(change.effect_s or 0.0), order_of((*pair.new, *pair.base)[0].key)


def _change(pair: Pair, base_s: float | None, allowed: _Allowed) -> KernelChange:
    work = work_change(pair, comparable=allowed.work, caches_alike=allowed.caches_alike, rounded=allowed.rounded)
    barred = _graph_replay(pair) or _lost_effect(work)
    time = time_change(pair, comparable=allowed.time, paired=allowed.paired, shift=allowed.shift, barred=barred)
    if barred is not None and barred.kind == "graph-replay":
        time = replace(time, verdict="unknown", ratio=None, cycles_ratio=None, doubt=barred)
    if allowed.identical and _is_itself(pair) and time.verdict == "unclear":
        time = replace(time, verdict="same", interval=None, cycles_interval=None, doubt=None, runs_needed=None)
    lines = line_changes(pair)
    causes = causes_of(pair, time, work, lines)
    effect_s = _effect_s(pair) if allowed.sums else None
    return KernelChange(
        id=0,
        label=(*pair.new, *pair.base)[0].representative.label,
        match=pair.match,
        base=tuple(map(_kernel, pair.base)),
        new=tuple(map(_kernel, pair.new)),
        time=time,
        work=work,
        causes=causes,
        lines=lines,
        findings=finding_changes(pair, time),
        effect_s=effect_s,
        effect=effect_s / base_s if effect_s is not None and base_s and allowed.time else None,
    )


def _graph_replay(pair: Pair) -> TimeDoubt | None:
    """Return that one side of a pair is a whole CUDA graph replayed by ncu; None if both sides or none are."""
    base, new = ({is_replay(kernel) for kernel in side} for side in (pair.base, pair.new))
    return TimeDoubt(kind="graph-replay") if base and new and base != new else None


def _lost_effect(work: WorkChange) -> TimeDoubt | None:
    side = side_without_stores({change.name: change for change in work.counts})
    return TimeDoubt(kind="stores", sides=(side,)) if side is not None else None


def _is_itself(pair: Pair) -> bool:
    """Return whether both sides of a pair are the same kernels, compared with themselves."""
    return [kernel.key for kernel in pair.base] == [kernel.key for kernel in pair.new]


def _effect_s(pair: Pair) -> float | None:
    """Return what a pair adds to the time of a run; None if the time of one of its kernels is not known."""
    totals = pair.totals_s
    return totals.new - totals.base if totals is not None else None


def _kernel(kernel: SideKernel) -> ComparedKernel:
    representative = kernel.representative
    return ComparedKernel(
        run=kernel.run,
        id=representative.id,
        label=representative.label,
        demangled=representative.demangled,
        ranges=representative.ranges,
        grid=representative.grid,
        block=representative.block,
        launches=round(kernel.launches),
        time_total_s=kernel.total_s,
    )


def _compared_side(side: Side) -> ComparedSide:
    names = (device.name or device.spec or "" for run in side.runs for device in run.session.devices)
    return ComparedSide(
        files=tuple(run.file for run in side.runs),
        gpus=tuple(dict.fromkeys(name for name in names if name)),
        kernels=len(side.kernels),
        launches=round(sum(kernel.launches for kernel in side.kernels)),
        time_s=side.total_s if not has_replays_alone(side) else None,
    )
