"""A run that was surveyed and then profiled in part: times and counts of the survey, counters of the profile."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace

from gpuprof.model.analyse import Analysis, Recorded
from gpuprof.model.report import GpuSamples, Missing
from gpuprof.model.session import KernelProfile, Source

SURVEY = "survey"
_MARK = " survey"
THROTTLED = 0.05
"""Share of the samples from which on a reason counts: a single sample can fall into the start of a boost."""
_OUTSIDE = "it was surveyed but not profiled"


def joined(analysis: Analysis, survey: int) -> Analysis:
    """Return the kernels of the survey, the source of that number, each with the counters of its profile.

    Durations, launches and shares are those of the survey, which the profiler disturbed little. A kernel that was not
    profiled keeps its time. A profiled launch that the survey does not have is left out: it is no part of that run.
    """
    pairs = list(zip(analysis.session.kernels, analysis.recorded, strict=True))
    profiled = [pair for pair in pairs if pair[0].source != survey]
    surveyed = [pair for pair in pairs if pair[0].source == survey]
    devices = [{kernel.device for kernel, _ in some} for some in (surveyed, profiled)]
    if all(len(used) == 1 for used in devices):
        # Two tools describe one GPU in different words; the ceilings are those of the profile.
        (device,) = devices[1]
        surveyed = [(replace(kernel, device=device), own) for kernel, own in surveyed]
    by_kind = {**_by(profiled, _shape), **_by(profiled, _shape_and_ranges)}
    first = min((kernel.id for kernel, _ in surveyed), default=0)
    throttled = was_throttled(analysis.session.sources[survey].samples)
    total = sum(kernel.time_total_s or 0.0 for kernel, _ in surveyed)
    kernels, recorded = [], []
    for kernel, own in surveyed:
        found = by_kind.get(_shape_and_ranges(kernel)) or by_kind.get(_shape(kernel))
        share = kernel.time_total_s / total if kernel.time_total_s is not None and total else None
        timed = replace(kernel, id=kernel.id - first, time_share=share, throttled=throttled)
        kernels.append(_with_counters(timed, found[0]) if found is not None else _outside(timed))
        recorded.append(found[1] if found is not None else own)
    sources = list(analysis.session.sources)
    sources[survey] = replace(sources[survey], kind=sources[survey].kind + _MARK)
    session = replace(analysis.session, sources=tuple(sources), kernels=tuple(kernels))
    return Analysis(session, tuple(recorded))


def is_survey(source: Source) -> bool:
    """Tell whether a source only timed the kernels of another one: its kind ends with that word."""
    return source.kind.endswith(_MARK)


def was_throttled(samples: Sequence[GpuSamples]) -> bool | None:
    """Tell whether the driver lowered the clocks of a GPU in more than a few samples; None where it does not say."""
    known = [one.throttling for one in samples if one.throttling is not None]
    if not known:
        return None
    return any(reason.share >= THROTTLED for reasons in known for reason in reasons)


def _by(
    pairs: Iterable[tuple[KernelProfile, Recorded]], kind: Callable[[KernelProfile], Hashable]
) -> dict[Hashable, tuple[KernelProfile, Recorded]]:
    return {kind(pair[0]): pair for pair in pairs}


def _shape(kernel: KernelProfile) -> Hashable:
    return kernel.device, kernel.demangled, kernel.grid, kernel.block


def _shape_and_ranges(kernel: KernelProfile) -> Hashable:
    return _shape(kernel), kernel.ranges


def _with_counters(surveyed: KernelProfile, profiled: KernelProfile) -> KernelProfile:
    """Give a kernel of the survey what was counted of it; its times stay those of the survey."""
    if profiled.ranges != surveyed.ranges:
        where = " / ".join(profiled.ranges) or "no range"
        other = Missing("counters of this range", f"they are those of a launch in {where}", "raise --samples")
        profiled = replace(profiled, missing=(*profiled.missing, other))
    if surveyed.duration_s is None:
        # The duration is the profiler's own; what all launches took is not known.
        return replace(
            profiled,
            id=surveyed.id,
            label=surveyed.label,
            ranges=surveyed.ranges,
            launches=surveyed.launches,
            duration_percentiles_s=None,
            time_total_s=None,
            time_share=None,
        )
    return replace(
        profiled,
        id=surveyed.id,
        label=surveyed.label,
        ranges=surveyed.ranges,
        launches=surveyed.launches,
        duration_s=surveyed.duration_s,
        duration_percentiles_s=surveyed.duration_percentiles_s,
        duration_source=SURVEY,
        time_total_s=surveyed.time_total_s,
        time_share=surveyed.time_share,
        throttled=surveyed.throttled,
    )


def _outside(kernel: KernelProfile) -> KernelProfile:
    """Say of a kernel that has only its time why, instead of every counter that is missing."""
    missing = Missing("counters", _OUTSIDE, "raise --coverage, or name it with --kernel")
    return replace(kernel, missing=(missing,), duration_source=SURVEY if kernel.duration_s is not None else None)
