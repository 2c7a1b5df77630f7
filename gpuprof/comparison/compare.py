"""Compare two sides: conditions, work and time of each kernel, and causes; ranked by effect on the total."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

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
    SideName,
    TimeChange,
    TimeDoubt,
    WorkChange,
)
from gpuprof.comparison.finding_changes import finding_changes
from gpuprof.comparison.labels import unique_labels
from gpuprof.comparison.lines import line_changes
from gpuprof.comparison.matching.pairs import pairs_of
from gpuprof.comparison.pair import NamedMatch, Pair
from gpuprof.comparison.sides import (
    Known,
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
from gpuprof.model.session import Session, Source

_CHOOSING = (
    "--kernel-name", "--kernel-id", "--kernel-regex", "--launch-skip", "--launch-skip-before-match", "--launch-count",
    "--nvtx-include", "--nvtx-exclude", "--range-filter", "-k", "-s", "-c",
)  # fmt: skip
"""Options of ncu that let it profile some launches only."""
_FLAGS = frozenset(("-f", "--force-overwrite", "--nvtx", "--call-stack", "--quiet", "--verbose", "-v"))
"""Options of ncu that no value follows."""


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
    affected = {condition.affects for condition in conditions}
    times = affected.isdisjoint(("time", "both"))
    allowed = _Allowed(
        times,
        partial(
            work_change,
            comparable=affected.isdisjoint(("work", "both")),
            caches_alike=caches_alike(conditions),
            rounded=counts_rounded(conditions),
        ),
        partial(time_change, comparable=times, paired=paired, shift=dram_shift(ours, theirs)),
        identical=identical,
        sums=sums_alike(ours, theirs),
    )
    matched = pairs_of(ours, theirs, named, identical=identical)
    kernels, pairs = _changes(matched, ours.total_s, allowed)
    comparable = times and not any(map(has_lost_effect, kernels))
    total = totals_of(ours, theirs, comparable=comparable, shift=clock_shift(ours, theirs))
    comparison = Comparison(
        schema_version=COMPARISON_VERSION,
        gpuprof_version=version,
        base=_compared_side(ours),
        new=_compared_side(theirs),
        alike=times,
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


class _Allowed(NamedTuple):
    """Which verdicts the conditions allow, how work and time are compared, and whether both sides are one recording.

    `sums`: the times of both sides add up to the same.
    """

    times: bool
    work_change: Callable[[Pair], WorkChange]
    time_change: Callable[..., TimeChange]
    identical: bool
    sums: bool


def _changes(
    pairs: Sequence[Pair], base_s: float | None, allowed: _Allowed
) -> tuple[tuple[KernelChange, ...], tuple[Pair, ...]]:
    """Return the change of each pair, and the pairs, both by effect on the total, numbered in that order.

    Equal effects are in the same order whatever the order of launches.
    """
    changes = [(_change(pair, base_s, allowed), pair) for pair in pairs]
    changes.sort(key=lambda item: (-abs(item[0].effect_s or 0.0), (*item[1].new, *item[1].base)[0].key.order))
    labels = unique_labels([change for change, _ in changes])
    numbered = (
        replace(change, id=number, label=label)
        for number, ((change, _), label) in enumerate(zip(changes, labels, strict=True))
    )
    return tuple(numbered), tuple(pair for _, pair in changes)


def _change(pair: Pair, base_s: float | None, allowed: _Allowed) -> KernelChange:
    work = allowed.work_change(pair)
    barred = _barred(pair, work)
    time = allowed.time_change(pair, barred=barred)
    if barred is not None and barred.kind == "graph-replay":
        time = replace(time, verdict="unknown", ratio=None, cycles_ratio=None, doubt=barred)
    is_itself = allowed.identical and [kernel.key for kernel in pair.base] == [kernel.key for kernel in pair.new]
    if is_itself and time.verdict == "unclear":
        time = replace(time, verdict="same", interval=None, cycles_interval=None, doubt=None, runs_needed=None)
    lines = line_changes(pair)
    totals = pair.totals_s if allowed.sums else None
    effect_s = totals.new - totals.base if totals is not None else None
    return KernelChange(
        id=0,
        label=(*pair.new, *pair.base)[0].representative.label,
        match=pair.match,
        base=tuple(map(_kernel, pair.base)),
        new=tuple(map(_kernel, pair.new)),
        time=time,
        work=work,
        causes=causes_of(pair, time, work, lines),
        lines=lines,
        findings=finding_changes(pair, time),
        effect_s=effect_s,
        effect=effect_s / base_s if effect_s is not None and base_s and allowed.times else None,
    )


def _barred(pair: Pair, work: WorkChange) -> TimeDoubt | None:
    """Return why the times of a pair do not compare: one side is a CUDA graph replayed by ncu, or stores nothing."""
    base, new = ({is_replay(kernel) for kernel in side} for side in (pair.base, pair.new))
    if base and new and base != new:
        return TimeDoubt(kind="graph-replay")
    side = side_without_stores({change.name: change for change in work.counts})
    return TimeDoubt(kind="stores", sides=(side,)) if side is not None else None


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


def facts_of(base: Side, new: Side, known: Known, pairs: Sequence[Pair]) -> Iterator[ComparisonFact]:
    """Yield what else is to be known."""
    sides = tuple(zip((base, new), SIDES, strict=True))
    for side, name in sides:
        if not side.kernels:
            yield ComparisonFact(kind="no-kernels", side=name)
    gone, came = (sum(pair.match == word for pair in pairs) for word in ("gone", "new"))
    yield from _not_profiled(new, "new", gone)
    yield from _not_profiled(base, "base", came)
    if not known.ranges:
        has_ranges = any(kernel.representative.ranges for kernel in base.kernels)
        yield ComparisonFact(kind="no-ranges", side="new" if has_ranges else "base")
    if not known.configurations:
        has_grids = any(kernel.representative.grid is not None for kernel in base.kernels)
        yield ComparisonFact(kind="no-configurations", side="new" if has_grids else "base")
    for side, name in sides:
        yield from _in_some_runs(side, name)
    if gone and came:
        yield ComparisonFact(kind="unmatched", numbers=(gone, came))


def _not_profiled(side: Side, name: SideName, absent: int) -> Iterator[ComparisonFact]:
    """Yield that `absent` kernels may have run on a side all the same: every run of it was profiled in part."""
    reasons = [reason for run in side.runs if (reason := _partial(run.session, name, absent)) is not None]
    if absent and side.kernels and len(reasons) == len(side.runs):
        yield reasons[0]


def _partial(session: Session, side: SideName, absent: int) -> ComparisonFact | None:
    """Return why a session lacks kernels of its run; None if nothing indicates that it does."""
    if session.excluded is not None:
        return ComparisonFact(kind="excluded", side=side, numbers=(absent,))
    if session.run is not None:
        kept = sum(kernel.launches for kernel in session.kernels)
        if kept >= session.run.launches:
            return None
        return ComparisonFact(kind="launches-profiled", side=side, numbers=(absent, kept, session.run.launches))
    option = next((option for source in session.sources if (option := _chosen_by(source))), None)
    return ComparisonFact(kind="option", side=side, numbers=(absent,), texts=(option,)) if option else None


def _chosen_by(source: Source) -> str:
    """Return the option of ncu's command line that chose launches; empty without one."""
    tokens = (source.command or "").split()
    if not tokens or not tokens[0].replace("\\", "/").split("/")[-1].startswith(("ncu", "nv-nsight-cu-cli")):
        return ""
    takes_value = False
    for token in tokens[1:]:
        option, equals, _ = token.partition("=")
        if option in _CHOOSING:
            return option
        if not token.startswith("-") and not takes_value:
            return ""
        takes_value = token.startswith("-") and not equals and token not in _FLAGS
    return ""


def _in_some_runs(side: Side, name: SideName) -> Iterator[ComparisonFact]:
    """Yield how many kernels are not in all runs of a side, and that several ranks or GPUs count as runs."""
    whole = sum(bool(run.session.kernels) for run in side.runs)
    some = sum(len(kernel.runs) < whole for kernel in side.kernels)
    if some:
        yield ComparisonFact(kind="some-runs", side=name, numbers=(some, whole))
    if any(len(kernel.times) > len(kernel.runs) for kernel in side.kernels):
        yield ComparisonFact(kind="lanes", side=name)
