"""Compare two sides: conditions, work and time of each kernel, and causes.

Kernels come in the order of how much the time of all their launches differs, most first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from msgspec import Struct
from msgspec.structs import replace

from gpuprof.comparison.causes.causes import causes_of
from gpuprof.comparison.causes.opcodes import has_lost_effect, side_without_stores
from gpuprof.comparison.conditions.clocks import clock_shift, dram_shift
from gpuprof.comparison.conditions.conditions import caches_alike, conditions_of, counts_rounded
from gpuprof.comparison.contract import (
    COMPARISON_VERSION,
    ComparedKernel,
    ComparedSide,
    Comparison,
    ComparisonFact,
    KernelChange,
    RunCondition,
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
from gpuprof.comparison.per_step import named_per_step
from gpuprof.comparison.sides import (
    Run,
    Side,
    SideKernel,
    are_identical,
    gpus_of,
    has_replays_alone,
    has_whole_graphs,
    is_replay,
    run_time_s,
    sides_of,
    sums_alike,
    without_copies,
)
from gpuprof.comparison.timing.totals import judged_parts, totals_of
from gpuprof.comparison.timing.verdict import time_change
from gpuprof.comparison.values import all_known
from gpuprof.comparison.work.verdict import work_change
from gpuprof.model.groups import OTHER_SIZE, times_apart
from gpuprof.model.session import Session, Source

_CHOOSING = (
    "--kernel-name", "--kernel-id", "--kernel-regex", "--launch-skip", "--launch-skip-before-match", "--launch-count",
    "--nvtx-include", "--nvtx-exclude", "--range-filter", "-k", "-s", "-c",
)  # fmt: skip
"""Options of ncu that let it profile some launches only."""
_FLAGS = frozenset(("-f", "--force-overwrite", "--nvtx", "--call-stack", "--quiet", "--verbose", "-v"))
"""Options of ncu without a value."""


class Compared(Struct, frozen=True):
    """A comparison, and the pair that each of its kernels was made from, in the same order."""

    comparison: Comparison
    pairs: tuple[Pair, ...]
    base: Side
    new: Side


def compare(
    base: Sequence[Run],
    new: Sequence[Run],
    version: str,
    named: Sequence[NamedMatch] = (),
    *,
    paired: bool = False,
) -> Compared:
    """Compare the runs of two sides. Raises UsageError for a match that names no kernel.

    `paired`: the nth runs of both sides were made side by side, in the order ABBA. Of files, copies
    count once.
    """
    facts: list[ComparisonFact] = []
    if not paired:
        base = _without_copies(base, "base", facts)
        new = _without_copies(new, "new", facts)
    base_side, new_side, configured = sides_of(base, new)
    conditions = conditions_of(base_side, new_side)
    context = _context(base_side, new_side, conditions, paired=paired, identical=are_identical(base, new))
    other_parts = any(condition.name == "judged-part" and condition.affects for condition in conditions)
    matched = [
        _unless_unseen(pair, base_side, new_side, other_parts=other_parts)
        for pair in pairs_of(base_side, new_side, named, identical=context.identical)
    ]
    kernels, pairs = _changes(matched, context)
    affects_totals = any(condition.affects == "totals" for condition in conditions)
    comparable = context.alike and not affects_totals and not any(map(has_lost_effect, kernels))
    facts += facts_of(base_side, new_side, pairs, configured=configured)
    comparison = Comparison(
        schema_version=COMPARISON_VERSION,
        gpuprof_version=version,
        base=_compared_side(base_side),
        new=_compared_side(new_side),
        alike=context.alike,
        identical=context.identical,
        conditions=conditions,
        total=totals_of(
            base_side,
            new_side,
            comparable=comparable,
            identical=context.identical,
            shift=clock_shift(base_side, new_side),
        ),
        kernels=kernels,
        facts=tuple(facts),
    )
    return Compared(comparison, pairs, base_side, new_side)


def _unless_unseen(pair: Pair, base: Side, new: Side, *, other_parts: bool) -> Pair:
    """Return a pair; a kernel is neither new nor gone if the other side may run it unseen.

    It may in whole CUDA graphs, and outside of the part of its trace that is judged, if there are `other_parts` of the
    two sides.
    """
    if pair.match not in ("new", "gone"):
        return pair
    other = base if pair.match == "new" else new
    if other_parts and judged_parts(other) != {"all"}:
        return replace(pair, match="unrecorded", unseen="other-part")
    if has_whole_graphs(other):
        return replace(pair, match="unrecorded", unseen="in-graphs")
    return pair


def _without_copies(runs: Sequence[Run], side: SideName, facts: list[ComparisonFact]) -> tuple[Run, ...]:
    """Return the runs without copies of another one; add to the facts how many there are."""
    kept = without_copies(runs)
    if len(kept) < len(runs):
        facts.append(ComparisonFact(kind="copies", side=side, numbers=(len(runs) - len(kept),)))
    return kept


class _Context(Struct, frozen=True, kw_only=True):
    """The circumstances of a comparison that decide how each pair is compared.

    `alike`: no condition forbids verdicts on time. `same_code`: none forbids those on work. `same_launches`: sums over
    launches are of the same part of both runs. `sums`: so are times, which add up to all of the GPU time, or to the
    same part. `base_s` is the GPU time of the base.
    """

    alike: bool
    same_code: bool
    same_caches: bool
    rounded: bool
    paired: bool
    shift: float
    identical: bool
    same_launches: bool
    sums: bool
    base_s: float | None


def _context(base: Side, new: Side, conditions: Sequence[RunCondition], *, paired: bool, identical: bool) -> _Context:
    affected = {condition.affects for condition in conditions}
    graphs = [has_whole_graphs(side) for side in (base, new)]
    same_launches = "totals" not in affected and graphs[0] == graphs[1]
    return _Context(
        alike=affected.isdisjoint(("time", "both")),
        same_code=affected.isdisjoint(("work", "both")),
        same_caches=caches_alike(conditions),
        rounded=counts_rounded(conditions),
        paired=paired,
        shift=dram_shift(base, new),
        identical=identical,
        same_launches=same_launches,
        sums=same_launches and sums_alike(base, new) and not any(graphs),
        base_s=base.total_s,
    )


def _changes(pairs: Sequence[Pair], context: _Context) -> tuple[tuple[KernelChange, ...], tuple[Pair, ...]]:
    """Return the change of each pair, numbered by how much its time differs, and the pairs in that order.

    Pairs that differ as much are in the same order whatever the order of launches.
    """
    ranked = [(_change(pair, context), pair) for pair in pairs]
    ranked.sort(key=lambda item: (-_moved_s(item[1]), (*item[1].new, *item[1].base)[0].key.order))
    changes = [change for change, _ in ranked]
    numbered = []
    for number, (change, label) in enumerate(zip(changes, unique_labels(changes), strict=True)):
        numbered.append(replace(change, id=number, label=label))
    return tuple(numbered), tuple(pair for _, pair in ranked)


def _moved_s(pair: Pair) -> float:
    """Return how far the times of all launches are apart; 0 if they are not known."""
    totals = pair.totals_s
    return abs(totals.new - totals.base) if totals is not None else 0.0


def _change(pair: Pair, context: _Context) -> KernelChange:
    work = work_change(
        pair,
        comparable=context.same_code,
        caches_alike=context.same_caches,
        rounded=context.rounded,
        same_launches=context.same_launches,
    )
    time = _time(pair, work, context)
    lines = line_changes(pair)
    effect_s = effect = None
    totals = pair.totals_s
    if totals is not None and context.sums:
        effect_s = totals.new - totals.base
        if context.base_s and context.alike:
            effect = effect_s / context.base_s
    per = (*pair.base, *pair.new)[0].per
    change = KernelChange(
        id=0,
        label="",
        match=pair.match,
        per=per,
        base=tuple(map(_kernel, pair.base)),
        new=tuple(map(_kernel, pair.new)),
        time=time,
        work=work,
        causes=causes_of(pair, time, work, lines),
        lines=lines,
        findings=finding_changes(pair, time),
        effect_s=effect_s,
        effect=effect,
    )
    return named_per_step(change) if per == "step" else change


def _time(pair: Pair, work: WorkChange, context: _Context) -> TimeChange:
    barred = _barred(pair, work)
    # Of several kernels the time is a sum over their launches.
    comparable = context.alike and (context.same_launches or pair.is_one_to_one)
    time = time_change(pair, comparable=comparable, paired=context.paired, shift=context.shift, barred=barred)
    if barred is not None and barred.kind == "graph-replay":
        return replace(time, verdict="unknown", ratio=None, cycles_ratio=None, doubt=barred)
    is_itself = context.identical and [kernel.key for kernel in pair.base] == [kernel.key for kernel in pair.new]
    if is_itself and time.verdict == "unclear":
        return replace(time, verdict="same", interval=None, cycles_interval=None, doubt=None, runs_needed=None)
    return time


def _barred(pair: Pair, work: WorkChange) -> TimeDoubt | None:
    """Return why the times of a pair do not compare.

    One side is a CUDA graph replayed by ncu, or stores nothing, or has launches of other lengths in ranges of its own.
    """
    if not pair.base or not pair.new:
        return None
    if set(map(is_replay, pair.base)) != set(map(is_replay, pair.new)):
        return TimeDoubt(kind="graph-replay")
    side = side_without_stores({change.name: change for change in work.counts})
    if side is not None:
        return TimeDoubt(kind="stores", sides=(side,))
    return TimeDoubt(kind="other-ranges") if _has_other_ranges(pair) else None


def _has_other_ranges(pair: Pair) -> bool:
    """Return whether the sides launch a kernel in other ranges, not as often, and its launches differ in length.

    So it is with launches of several configurations.
    """
    is_mixed = any(kernel.is_mixed for kernel in (*pair.base, *pair.new))
    if (pair.match != "exact" and not is_mixed) or pair.launches.base == pair.launches.new:
        return False
    before, after = (
        {(profile.ranges, profile.grid, profile.block) for kernel in side for profile in kernel.profiles}
        for side in (pair.base, pair.new)
    )
    profiles = (*pair.base[0].profiles, *pair.new[0].profiles)
    durations = [profile.duration_s for profile in profiles if profile.duration_s is not None]
    return before != after and times_apart(max(durations, default=None), min(durations, default=None)) > OTHER_SIZE


def _kernel(kernel: SideKernel) -> ComparedKernel:
    representative = kernel.representative
    return ComparedKernel(
        run=kernel.run,
        id=representative.id,
        label=kernel.label,
        function=representative.numbered_name,
        demangled=representative.demangled,
        ranges=kernel.key.ranges,
        grid=representative.grid if not kernel.is_mixed else None,
        block=representative.block if not kernel.is_mixed else None,
        launches=kernel.launches if kernel.per == "step" else round(kernel.launches),
        time_total_s=kernel.total_s,
    )


def _compared_side(side: Side) -> ComparedSide:
    sessions = [run.session for run in side.runs]
    times = [time for time in map(run_time_s, sessions) if time is not None]
    launches = [sum(kernel.launches for kernel in session.kernels) for session in sessions]
    gpus = Counter[str]()
    for session in sessions:
        gpus |= Counter(gpus_of(session))
    return ComparedSide(
        files=tuple(run.file for run in side.runs),
        gpus=tuple(gpus.elements()),
        kernels=len({kernel.key.name for kernel in side.kernels}),
        launches=round(fmean(launches)) if launches else 0,
        time_s=fmean(times) if times and not has_replays_alone(side) else None,
    )


def facts_of(base: Side, new: Side, pairs: Sequence[Pair], *, configured: bool) -> Iterator[ComparisonFact]:
    """Yield facts about kernels that are missing, not matched or not in all runs."""
    if not base.kernels:
        yield ComparisonFact(kind="no-kernels", side="base")
    if not new.kernels:
        yield ComparisonFact(kind="no-kernels", side="new")
    gone = [pair.base[0].key.name for pair in pairs if pair.match == "gone"]
    came = [pair.new[0].key.name for pair in pairs if pair.match == "new"]
    judged = [pair for pair in pairs if pair.unseen != "other-part"]
    yield from _not_profiled(new, "new", sum(not pair.new for pair in judged))
    yield from _not_profiled(base, "base", sum(not pair.base for pair in judged))
    if not configured:
        has_grids = any(kernel.representative.grid is not None for kernel in base.kernels)
        yield ComparisonFact(kind="no-configurations", side="new" if has_grids else "base")
    yield from _in_some_runs(base, "base", [kernel for pair in pairs for kernel in pair.base])
    yield from _in_some_runs(new, "new", [kernel for pair in pairs for kernel in pair.new])
    lost = set(gone).difference(kernel.key.name for kernel in new.kernels)
    added = set(came).difference(kernel.key.name for kernel in base.kernels)
    if lost and added:
        yield ComparisonFact(kind="unmatched", numbers=(len(lost), len(added)))


def _not_profiled(side: Side, name: SideName, absent: int) -> Iterator[ComparisonFact]:
    """Yield that `absent` kernels may have run on a side: it has whole graphs, or each run was profiled in part."""
    if absent and has_whole_graphs(side):
        yield ComparisonFact(kind="whole-graphs", side=name, numbers=(absent,))
        return
    reasons = all_known(_partial(run.session, name, absent) for run in side.runs)
    if absent and side.kernels and reasons:
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
    for option in map(_chosen_by, session.sources):
        if option:
            return ComparisonFact(kind="option", side=side, numbers=(absent,), texts=(option,))
    return None


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


def _in_some_runs(side: Side, name: SideName, kernels: Sequence[SideKernel]) -> Iterator[ComparisonFact]:
    """Yield how many of a side's kernels are only in some runs, and that several ranks or GPUs count as runs."""
    whole = sum(bool(run.session.kernels) for run in side.runs)
    some = sum(len(kernel.runs) < whole for kernel in kernels)
    if some:
        yield ComparisonFact(kind="some-runs", side=name, numbers=(some, whole))
    if any(len(kernel.times) > len(kernel.runs) for kernel in side.kernels):
        yield ComparisonFact(kind="lanes", side=name)
