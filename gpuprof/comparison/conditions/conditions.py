"""Differences between the circumstances of two runs: GPU, driver, ncu, clocks, caches, throttling, way of measuring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from gpuprof.comparison.conditions.clocks import clocks, throttled, warmth
from gpuprof.comparison.conditions.values import (
    both,
    common,
    condition,
    counting,
    devices,
    differ,
    known,
    sources,
    timing,
)
from gpuprof.comparison.contract import Affects, RunCondition
from gpuprof.comparison.sides import Side, are_identical, sums_alike
from gpuprof.comparison.timing.totals import judged_parts
from gpuprof.model.session import Source
from gpuprof.model.sources import kind_named

_CACHES = "cache-control"
_PRINTED = "printed-counts"
_DETAILS = ("ncu-csv-details", "ncu-text")
"""Kinds of files whose numbers ncu printed with about four digits."""
_ORDER: tuple[Affects | None, ...] = ("both", "work", "time", None)


def conditions_of(base: Side, new: Side) -> tuple[RunCondition, ...]:
    """Return the differences, those that forbid a verdict first."""
    conditions = chain(
        _empty(base, new),
        _same_files(base, new),
        _gpus(base, new),
        _measured(base, new),
        _judged(base, new),
        _controls(base, new),
        throttled(base, new),
        clocks(base, new),
        warmth(base, new),
        _versions(base, new),
        _printed(base, new),
        _partial(base, new),
    )
    return tuple(sorted(conditions, key=lambda condition: _ORDER.index(condition.affects)))


def caches_alike(conditions: Iterable[RunCondition]) -> bool:
    """Return whether ncu treated the caches the same way on both sides, as far as known."""
    return all(condition.name != _CACHES for condition in conditions)


def counts_rounded(conditions: Iterable[RunCondition]) -> bool:
    """Return whether the counts of a side were printed with few digits."""
    return any(condition.name == _PRINTED for condition in conditions)


def _empty(base: Side, new: Side) -> Iterator[RunCondition]:
    if not base.kernels or not new.kernels:
        kind = "base" if new.kernels else "new" if base.kernels else "none"
        yield condition("kernels", [[len(side.kernels)] for side in (base, new)], kind=kind)


def _same_files(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield the files that both sides have in common; kind "all": neither side has another one."""
    before, after = ({source.sha256: source.file for source in sources(side)} for side in (base, new))
    shared = [sha256 for sha256 in before if sha256 and sha256 in after]
    if not shared or not any(are_identical([ours], [theirs]) for ours in base.runs for theirs in new.runs):
        return
    every = len(shared) == len(before) == len(after)
    names = [[files[sha256] for sha256 in shared] for files in (before, after)]
    yield condition("file", names, kind="all" if every else "some")


def _gpus(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield how the GPUs differ, or that it is not known whether they do, and that a side has several."""
    capabilities = both(base, new, lambda side: (device.compute_capability for device in devices(side)))
    names = both(base, new, lambda side: (device.name for device in devices(side)))
    counts = both(base, new, lambda side: (device.sm_count for device in devices(side)))
    if differ(*capabilities):
        yield condition("compute-capability", capabilities, "both")
    if differ(*names):
        yield condition("gpu", names, "time")
    elif differ(*counts):
        yield condition("sm-count", counts, "time")
    elif base.kernels and new.kernels and not all(names):
        yield condition("gpu", names, kind="unknown")
    if max(map(len, names)) > 1:
        yield condition("mixed-gpus", names)


def _measured(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield a difference between the sources of durations: kernel by kernel, or as a whole if no kernel is common.

    The sum of replays of whole graphs is not compared with the sum of kernels' times either.
    """
    if not sums_alike(base, new):
        yield condition("durations", both(base, new, _duration_sources), "time", kind="graph-replays")
        return
    pairs = [[kernel.representative.duration_source for kernel in kernels] for kernels in common(base, new)]
    pairs = [pair for pair in pairs if all(pair)]
    unlike = [pair for pair in pairs if pair[0] != pair[1]]
    values = known(before for before, _ in unlike), known(after for _, after in unlike)
    if not pairs:
        values = both(base, new, _duration_sources)
    if unlike or differ(*values):
        yield condition("durations", values, "time")


def _duration_sources(side: Side) -> Iterator[str | None]:
    return (kernel.representative.duration_source for kernel in side.kernels)


def _judged(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield a difference between the judged parts of the traces."""
    parts = [sorted(judged_parts(side)) for side in (base, new)]
    if differ(*parts):
        yield condition("judged-part", parts)


def _controls(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield differences between ncu's options for clocks and caches."""
    locks = both(base, new, lambda side: map(_clock_control, timing(side)))
    if differ(*locks) and _has_all_clocks(base, new):
        yield condition("clock-control", locks, kind="known")
    elif differ(*locks):
        yield condition("clock-control", locks, "time")
    emptied = both(
        base, new, lambda side: ((source.cache_control or "").partition(" ")[0] for source in counting(side))
    )
    if differ(*emptied):
        yield condition(_CACHES, emptied, "time")
    yield from _not_known("clock-control", locks, [[*timing(side)] for side in (base, new)])
    yield from _not_known(_CACHES, emptied, [[*counting(side)] for side in (base, new)])


def _has_all_clocks(base: Side, new: Side) -> bool:
    """Return whether the SM clock of every launch is known: then clocks that were locked on one side forbid nothing.

    Unchanged code takes more cycles at a higher clock and fewer seconds, and a verdict needs both to agree.
    """
    return all(
        times.cycles for side in (base, new) for kernel in side.kernels for times in kernel.times if times.total_s
    )


def _not_known(name: str, values: Sequence[Sequence[str]], files: Sequence[Sequence[Source]]) -> Iterator[RunCondition]:
    """Yield an option of ncu that only one side has recorded, if all files are from ncu."""
    if not all(files) or any(kind_named(source.kind).is_trace for side in files for source in side):
        return
    if any(values) and not all(values):
        yield condition(f"{name}-not-known", values)


def _clock_control(source: Source) -> str | None:
    """Return ncu's clock control. A report that says no more than that clocks were locked had ncu's default, base."""
    return "base" if source.clock_control == "locked" else source.clock_control


def _versions(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield differences between versions of ncu, driver and gpuprof."""
    for name, versions in (
        ("ncu", both(base, new, _tools)),
        ("driver", both(base, new, lambda side: (source.driver for source in sources(side)))),
        ("gpuprof", both(base, new, lambda side: (run.session.gpuprof_version for run in side.runs))),
    ):
        if differ(*versions):
            yield condition(name, versions)


def _printed(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield that a side's counts are from a text and rounded."""
    rounded = [any(source.kind in _DETAILS for source in counting(side)) for side in (base, new)]
    if any(rounded):
        yield condition(_PRINTED, [["rounded" if side else "full"] for side in rounded])


def _partial(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield that only some kernels of a run were profiled: those kernels, and all of the run, of each run."""
    parts = [_parts(side) for side in (base, new)]
    if any(parts) and parts[0] != parts[1]:
        yield condition("profiled", [[number for part in side for number in part] for side in parts])


def _parts(side: Side) -> list[tuple[int, int]]:
    """Return the profiled kernels and all kernels of each run that was surveyed."""
    runs = {(len(run.session.kernels), run.session.run.kernels) for run in side.runs if run.session.run is not None}
    return sorted(runs)


def _tools(side: Side) -> Iterator[str]:
    return (f"{source.tool} {source.tool_version}" for source in sources(side) if source.tool_version)
