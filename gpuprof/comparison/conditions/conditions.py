"""Differences between the circumstances of two runs: GPU, driver, ncu, clocks, caches, throttling, way of measuring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product

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
from gpuprof.comparison.contract import SIDES, Affects, RunCondition
from gpuprof.comparison.per_step import has_all_launches
from gpuprof.comparison.sides import Side, SideKernel, are_identical, gpus_of, has_whole_graphs, sums_alike
from gpuprof.comparison.timing.totals import judged_parts
from gpuprof.model.session import Source
from gpuprof.model.sources import kind_named

_CACHES = "cache-control"
_PRINTED = "printed-counts"
_DETAILS = ("ncu-csv-details", "ncu-text")
"""Kinds of files whose numbers ncu printed with about four digits."""
_ORDER: tuple[Affects | None, ...] = ("both", "work", "time", "totals", None)


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
    """Return whether nothing says that ncu treated the caches differently on the two sides."""
    return all(condition.name != _CACHES for condition in conditions)


def counts_rounded(conditions: Iterable[RunCondition]) -> bool:
    """Return whether the counts of a side were printed with few digits."""
    return any(condition.name == _PRINTED for condition in conditions)


def _empty(base: Side, new: Side) -> Iterator[RunCondition]:
    counts = len(base.kernels), len(new.kernels)
    if not all(side.kernels or has_whole_graphs(side) for side in (base, new)):
        kind = "none"
        if any(counts):
            kind = "new" if counts[0] else "base"
        yield condition("kernels", [[count] for count in counts], kind=kind)


def _same_files(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield the files that both sides have in common; kind "all": neither side has another one."""
    before = {source.sha256: source.file for source in sources(base)}
    after = {source.sha256: source.file for source in sources(new)}
    shared = [sha256 for sha256 in before if sha256 and sha256 in after]
    if shared and any(are_identical([ours], [theirs]) for ours, theirs in product(base.runs, new.runs)):
        kind = "all" if len(shared) == len(before) == len(after) else "some"
        names = map(before.__getitem__, shared), map(after.__getitem__, shared)
        yield condition("file", names, kind=kind)


def _gpus(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield how the GPUs differ, that it is not known, and that a side has several."""
    gpus = [*devices(base)], [*devices(new)]
    capabilities = [known(device.compute_capability for device in side) for side in gpus]
    names = [known(device.name for device in side) for side in gpus]
    counts = [known(device.sm_count for device in side) for side in gpus]
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
    numbers = [known(len(gpus_of(run.session)) for run in side.runs if run.session.timeline) for side in (base, new)]
    if differ(*numbers):
        yield condition("gpu-count", numbers, "totals")


def _measured(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield a difference between sources of durations, by kernel or, without common ones, by side.

    The sum of replays of whole graphs is not compared with the sum of kernels' times either.
    """
    values = known(map(_duration_source, base.kernels)), known(map(_duration_source, new.kernels))
    if not sums_alike(base, new):
        yield condition("durations", values, "time", kind="graph-replays")
        return
    pairs = [tuple(map(_duration_source, kernels)) for kernels in common(base, new)]
    pairs = [pair for pair in pairs if all(pair)]
    if pairs:
        unlike = [pair for pair in pairs if pair[0] != pair[1]]
        values = known(before for before, _ in unlike), known(after for _, after in unlike)
    if any(values) if pairs else differ(*values):
        yield condition("durations", values, "time")


def _duration_source(kernel: SideKernel) -> str | None:
    return kernel.representative.duration_source


def _judged(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield a difference between the judged parts of the traces: their kernels are those of that part.

    Those of a survey are of the whole run, and so are they if none ran outside of these parts. But if functions of
    both sides ran more often on one, it may have run more steps. The kind is the only side with steps.
    """
    parts = [sorted(judged_parts(side)) for side in (base, new)]
    if not differ(*parts):
        return
    surveyed = any(source.is_survey for side in (base, new) for source in sources(side))
    has_all = all(has_all_launches(run.session) for side in (base, new) for run in side.runs)
    if surveyed or (has_all and _launched_alike(base, new)):
        yield condition("judged-part", parts)
        return
    with_steps = [name for name, of_side in zip(SIDES, parts, strict=True) if "steps" in of_side]
    yield condition("judged-part", parts, "totals", kind=with_steps[0] if len(with_steps) == 1 else "")


def _launched_alike(base: Side, new: Side) -> bool:
    """Return whether the functions of both sides have as many launches on each."""
    names = {kernel.key.name for kernel in base.kernels} & {kernel.key.name for kernel in new.kernels}
    before, after = (
        sum(kernel.launches for kernel in side.kernels if kernel.key.name in names) for side in (base, new)
    )
    return before == after


def _controls(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield differences between ncu's options for clocks and caches."""
    timed = [*timing(base)], [*timing(new)]
    locks = [known(map(_clock_control, side)) for side in timed]
    if differ(*locks):
        if _has_all_clocks(base) and _has_all_clocks(new):
            yield condition("clock-control", locks, kind="known")
        else:
            yield condition("clock-control", locks, "time")
    counted = [*counting(base)], [*counting(new)]
    emptied = [known(map(_cache_control, side)) for side in counted]
    if differ(*emptied):
        yield condition(_CACHES, emptied, "time")
    yield from _not_known("clock-control", locks, timed)
    yield from _not_known(_CACHES, emptied, counted)


def _has_all_clocks(side: Side) -> bool:
    """Return whether all SM clocks are known: then clocks locked on one side forbid nothing.

    Unchanged code takes more cycles at a higher clock and fewer seconds, and a verdict needs both
    to agree.
    """
    return all(times.cycles for kernel in side.kernels for times in kernel.times if times.total_s)


def _not_known(name: str, values: Sequence[Sequence[str]], files: Sequence[Sequence[Source]]) -> Iterator[RunCondition]:
    """Yield an option of ncu that only one side has recorded, if all files are from ncu."""
    if not all(files) or any(kind_named(source.kind).is_trace for side in files for source in side):
        return
    if any(values) and not all(values):
        yield condition(f"{name}-not-known", values)


def _clock_control(source: Source) -> str | None:
    """Return ncu's clock control: its default, base, if the report says only "locked"."""
    return "base" if source.clock_control == "locked" else source.clock_control


def _cache_control(source: Source) -> str:
    return (source.cache_control or "").partition(" ")[0]


def _versions(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield differences between versions of ncu, driver and gpuprof."""
    for name, versions in (
        ("ncu", both(base, new, _tools)),
        ("driver", both(base, new, lambda side: (source.driver for source in sources(side)))),
        (
            "gpuprof",
            both(base, new, lambda side: (run.session.gpuprof_version for run in side.runs)),
        ),
    ):
        if differ(*versions):
            yield condition(name, versions)


def _printed(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield that a side's counts are from a text and rounded."""
    values = [_printing(base), _printing(new)]
    if ["rounded"] in values:
        yield condition(_PRINTED, values)


def _printing(side: Side) -> list[str]:
    return ["rounded" if any(source.kind in _DETAILS for source in counting(side)) else "full"]


def _partial(base: Side, new: Side) -> Iterator[RunCondition]:
    """Yield the profiled kernels and all kernels of each run, if only some were profiled."""
    parts = _parts(base), _parts(new)
    if any(parts) and parts[0] != parts[1]:
        yield condition("profiled", map(chain.from_iterable, parts))


def _parts(side: Side) -> list[tuple[int, int]]:
    """Return the profiled kernels and all kernels of each run that was surveyed."""
    runs = {(len(run.session.kernels), run.session.run.kernels) for run in side.runs if run.session.run is not None}
    return sorted(runs)


def _tools(side: Side) -> Iterator[str]:
    return (f"{source.tool} {source.tool_version}" for source in sources(side) if source.tool_version)
