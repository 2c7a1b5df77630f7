"""What is not the same around two runs: GPU, driver, ncu, clocks, caches, throttling, and how they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from gpuprof.comparison.conditions.clocks import clocks, throttled, warmth
from gpuprof.comparison.conditions.values import (
    common,
    condition,
    counting,
    differ,
    facts,
    known,
    sources,
    timing,
)
from gpuprof.comparison.contract import Affects, RunCondition
from gpuprof.comparison.sides import Side, are_identical, sums_alike
from gpuprof.comparison.timing.totals import judged_parts
from gpuprof.model.field_types import JudgedPart
from gpuprof.model.session import Device, Source
from gpuprof.model.sources import kind_named

_PARTS: dict[JudgedPart, str] = {
    "all": "the whole trace",
    "steps": "the steps",
    "repetition": "what follows the start-up",
}
_CACHES = "cache-control"
_PRINTED = "printed-counts"
_DETAILS = ("ncu-csv-details", "ncu-text")
"""The kinds of files whose numbers ncu printed with about four digits."""
_ORDER: tuple[Affects | None, ...] = ("both", "work", "time", None)


def conditions_of(base: Side, new: Side) -> tuple[RunCondition, ...]:
    """Return what differs, what forbids a verdict first."""
    conditions = chain(
        _empty(base, new),
        _same_files(base, new),
        _gpus(base, new),
        _mixed_gpus(base, new),
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
    """Tell whether nothing says that ncu was to treat the caches otherwise on one side."""
    return all(condition.name != _CACHES for condition in conditions)


def counts_rounded(conditions: Iterable[RunCondition]) -> bool:
    """Tell whether the counts of a side were printed with few digits."""
    return any(condition.name == _PRINTED for condition in conditions)


def _empty(base: Side, new: Side) -> Iterator[RunCondition]:
    if base.kernels and new.kernels:
        return
    if not base.kernels and not new.kernels:
        sentence = "Neither side has a kernel: nothing is compared."
    else:
        side, what = ("new", "gone") if base.kernels else ("base", "new")
        sentence = f"The {side} side has no kernels, so that all of the other side are {what}. Check what was profiled."
    yield condition("kernels", [[str(len(side.kernels))] for side in (base, new)], None, sentence)


def _same_files(base: Side, new: Side) -> Iterator[RunCondition]:
    """Say it where both sides have a file in common."""
    before, after = ({source.sha256: source.file for source in sources(side)} for side in (base, new))
    shared = [sha256 for sha256 in before if sha256 and sha256 in after]
    if not shared or not any(are_identical([ours], [theirs]) for ours in base.runs for theirs in new.runs):
        return
    every = len(shared) == len(before) == len(after)
    files = "the same files" if len(shared) > 1 else "the same file"
    what = f"are {files}" if every else "have a file in common"
    sentence = (
        f"Both sides {what}, byte for byte, and a file does not differ from itself. Compare two "
        "recordings, or kernels of this one by --match OLD=NEW."
    )
    yield condition("file", [[files[sha256] for sha256 in shared] for files in (before, after)], None, sentence)


def _gpus(base: Side, new: Side) -> Iterator[RunCondition]:
    """Say whether both sides ran on the same GPU, as far as their files tell."""
    capabilities, names, counts = (facts(base, new, of) for of in (_capability, _name, _sm_count))
    if differ(*capabilities):
        sentence = (
            "GPUs of another compute capability run other machine code: neither time nor work is compared, but for "
            "FLOP. Profile both sides on one GPU."
        )
        yield condition("compute-capability", capabilities, "both", sentence)
    if differ(*names):
        sentence = (
            "Times of different GPUs are not compared, and DRAM bytes vary with the size of L2. Profile both sides on "
            "one GPU."
        )
        yield condition("gpu", names, "time", sentence)
    elif differ(*counts):
        sentence = (
            "The GPU had another number of SMs, as a MIG instance has: times are not compared. Profile both sides on "
            "the same part of it."
        )
        yield condition("sm-count", counts, "time", sentence)
    elif base.kernels and new.kernels and not all(names):
        sentence = (
            "Whether both sides ran on the same GPU is not known; it is taken to be so. Compare .ncu-rep files or "
            "sessions, which name it."
        )
        yield condition("gpu", names, None, sentence)


def _capability(device: Device) -> str | None:
    return device.compute_capability


def _name(device: Device) -> str | None:
    return device.name


def _sm_count(device: Device) -> str | None:
    return f"{device.sm_count} SMs" if device.sm_count is not None else None


def _mixed_gpus(base: Side, new: Side) -> Iterator[RunCondition]:
    names = facts(base, new, _name)
    if max(map(len, names)) > 1:
        sentence = (
            "A side has kernels of several GPUs: what they differ in counts as noise between its runs. Compare one GPU "
            "at a time."
        )
        yield condition("mixed-gpus", names, None, sentence)


def _measured(base: Side, new: Side) -> Iterator[RunCondition]:
    """Say whether durations were measured by other means: kernel by kernel, or as a whole where none is on both.

    A sum of replays of whole graphs is also held against no sum of kernels' times.
    """
    if not sums_alike(base, new):
        sentence = (
            "One side has whole CUDA graphs, whose time is that of a replay under ncu with what passes between the "
            "nodes, the other has times of kernels: they are not compared. Profile both with the same "
            "--graph-profiling."
        )
        sources = [known(kernel.speaker.duration_source for kernel in side.kernels) for side in (base, new)]
        yield condition("durations", sources, "time", sentence)
        return
    pairs = [(before.speaker.duration_source, after.speaker.duration_source) for before, after in common(base, new)]
    pairs = [pair for pair in pairs if all(pair)]
    unlike = [pair for pair in pairs if pair[0] != pair[1]]
    values = [known(pair[place] for pair in unlike) for place in (0, 1)]
    if not pairs:
        values = [known(kernel.speaker.duration_source for kernel in side.kernels) for side in (base, new)]
    if unlike or differ(*values):
        sentence = (
            "Durations were measured by other means, and times are not compared: under ncu kernels run alone, often "
            "with locked clocks and empty caches. Record both sides alike."
        )
        yield condition("durations", values, "time", sentence)


def _judged(base: Side, new: Side) -> Iterator[RunCondition]:
    """Say whether the times of GPUs are of other parts of the traces."""
    parts = [sorted(map(_PARTS.__getitem__, judged_parts(side))) for side in (base, new)]
    if differ(*parts):
        sentence = (
            "Spans, busy and idle times and copies are of different parts of the traces, and are not compared. Record "
            "both sides alike."
        )
        yield condition("judged-part", parts, None, sentence)


def _controls(base: Side, new: Side) -> Iterator[RunCondition]:
    """Say whether ncu was to treat clocks and caches otherwise on one side."""
    locks = [known(map(_clock_control, timing(side))) for side in (base, new)]
    if differ(*locks):
        yield _locked_otherwise(base, new, locks)
    emptied = [known(map(_cache_control, counting(side))) for side in (base, new)]
    if differ(*emptied):
        sentence = (
            "ncu emptied the caches before each pass on one side only: times and the bytes behind L1 are not compared. "
            "Profile both with one --cache-control."
        )
        yield condition(_CACHES, emptied, "time", sentence)
    yield from _not_known("clock-control", locks, [[*timing(side)] for side in (base, new)])
    yield from _not_known(_CACHES, emptied, [[*counting(side)] for side in (base, new)])


def _locked_otherwise(base: Side, new: Side, locks: Sequence[Sequence[str]]) -> RunCondition:
    """Say what clocks that were locked on one side forbid: nothing where every launch tells its SM clock, because code
    that did not change then takes more cycles at a higher clock and fewer seconds, and a verdict needs both to agree.
    """
    told = all(
        times.cycles for side in (base, new) for kernel in side.kernels for times in kernel.times if times.total_s
    )
    if told:
        sentence = (
            "ncu held the clocks otherwise on each side: a change of time is one only where cycles and seconds agree. "
            "Profile both with one --clock-control to see smaller ones."
        )
        return condition("clock-control", locks, None, sentence)
    sentence = (
        "ncu held the clocks otherwise on each side, and not all launches tell their SM clock: times are not compared. "
        "Profile both with one --clock-control."
    )
    return condition("clock-control", locks, "time", sentence)


def _not_known(name: str, values: Sequence[Sequence[str]], files: Sequence[Sequence[Source]]) -> Iterator[RunCondition]:
    """Tell of an option of ncu that only one side has recorded, where all is from ncu."""
    if not all(files) or any(kind_named(source.kind).is_trace for side in files for source in side):
        return
    if any(values) and not all(values):
        sentence = f"A side does not say which --{name} it was profiled with; it is taken to be the same."
        yield condition(f"{name}-not-known", values, None, sentence)


def _clock_control(source: Source) -> str | None:
    """Return what was done with the clocks. A report that only tells that they were locked had ncu's default, base."""
    return "base" if source.clock_control == "locked" else source.clock_control


def _cache_control(source: Source) -> str | None:
    return source.cache_control.partition(" ")[0] if source.cache_control else None


def _versions(base: Side, new: Side) -> Iterator[RunCondition]:
    """Tell what else differs of the software."""
    tools = [known(_tool(source) for source in sources(side)) for side in (base, new)]
    if differ(*tools):
        sentence = (
            "Releases of ncu rename counters and correct what they count: where both sides name other counters, a "
            "count may differ for that. Profile both sides with one release."
        )
        yield condition("ncu", tools, None, sentence)
    drivers = [known(source.driver for source in sources(side)) for side in (base, new)]
    if differ(*drivers):
        sentence = (
            "A driver compiles PTX and governs clocks: a kernel that is shipped as PTX may have other machine code. "
            "Use one driver, or compile for the GPU (-arch=sm_XX)."
        )
        yield condition("driver", drivers, None, sentence)
    own = [known(run.session.gpuprof_version for run in side.runs) for side in (base, new)]
    if differ(*own):
        sentence = "Versions of gpuprof may derive a quantity otherwise. Make both sessions from their reports anew."
        yield condition("gpuprof", own, None, sentence)


def _tool(source: Source) -> str | None:
    return f"{source.tool} {source.tool_version}" if source.tool_version else None


def _printed(base: Side, new: Side) -> Iterator[RunCondition]:
    """Tell of counts that a text has rounded."""
    rounded = [any(source.kind in _DETAILS for source in counting(side)) for side in (base, new)]
    if any(rounded):
        values = [["rounded by ncu's details page" if side else "in full"] for side in rounded]
        sentence = (
            "Counts that were printed with about four digits differ by up to 1 % for that. Compare .ncu-rep files, or "
            "CSV of --page raw."
        )
        yield condition(_PRINTED, values, None, sentence)


def _partial(base: Side, new: Side) -> Iterator[RunCondition]:
    """Tell of runs of which only some kernels were profiled."""
    parts = [_parts(side) for side in (base, new)]
    if any(parts) and parts[0] != parts[1]:
        values = [part or ["all"] for part in parts]
        sentence = "Not all kernels of a run were profiled: one that a side lacks may have run all the same."
        yield condition("profiled", values, None, sentence)


def _parts(side: Side) -> list[str]:
    runs = (run.session for run in side.runs if run.session.run is not None)
    return known(f"{len(session.kernels)} of {session.run.kernels} kernels" for session in runs if session.run)
