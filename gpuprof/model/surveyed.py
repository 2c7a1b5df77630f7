"""A run that was surveyed and then profiled in part: times and counts of the survey, counters of the profile."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import product

from msgspec.structs import replace

from gpuprof.model.analyse import Analysis, Recorded
from gpuprof.model.expected_flop import contradiction
from gpuprof.model.groups import Resources, may_be, resources_of_kernel, times_apart
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.kernel_kinds import kernel_kind
from gpuprof.model.measured_flop import measured_flop
from gpuprof.model.recorded import GpuSamples, Missing
from gpuprof.model.session import Device, KernelProfile, Source, Timeline
from gpuprof.model.sources import SURVEY_MARK
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.model.torch_ranges import innermost_operator, launched_by, may_be_same_operator

SURVEY = "survey"
_OTHER_WORK = 2.0
"""Caches that ncu has emptied, and clocks, seldom make a launch longer by this factor; more work does."""
THROTTLED = 0.05
"""Share of the samples from which on a reason counts: a single sample can fall into the start of a boost."""
_MORE = "raise --samples"
ONLY_TIMES = Missing("counters", "only times were asked for", "the profile of the program has them")
"""What lacks a kernel of a run that was to be timed alone; of one that failed the failure is told."""
NOT_CHOSEN = Missing("counters", "it was surveyed but not profiled", "raise --coverage, or name it with --kernel")


def joined(profiled: Analysis, surveyed: Analysis) -> Analysis:
    """Return the kernels of a survey, each with the counters of its profile.

    Durations, launches, shares and the timeline are those of the survey, which the profiler disturbed little. A kernel
    that was not profiled keeps its time, and so does one whose only counters contradict the shapes of its operator. A
    profiled launch that the survey does not have is left out: it is no part of that run.
    """
    before = len(profiled.session.sources)
    devices, numbers = _devices_together(profiled.session.devices, surveyed.session.devices)
    by_kind = _by_kind(profiled)
    throttled = [was_throttled(source.samples) for source in surveyed.session.sources]
    kernels, recorded = [], []
    for kernel, own in zip(surveyed.session.kernels, surveyed.recorded, strict=True):
        timed = replace(
            kernel,
            source=kernel.source + before,
            device=numbers[kernel.device],
            throttled=throttled[kernel.source],
        )
        match = _match(timed, own, by_kind)
        if isinstance(match, Missing):
            kernels.append(_outside(timed, match))
            recorded.append(own)
        else:
            kernels.append(_with_counters(timed, match[0]))
            recorded.append(match[1])
    timeline = _moved(surveyed.session.timeline, before, numbers)
    if timeline is not None:
        timeline = replace(timeline, measured_flop=measured_flop(kernels))
    session = replace(
        profiled.session,
        sources=(*profiled.session.sources, *map(_as_survey, surveyed.session.sources)),
        devices=devices,
        kernels=tuple(kernels),
        timeline=timeline,
    )
    return Analysis(session, tuple(recorded), sequences=surveyed.sequences)


def only_timed(surveyed: Analysis, lacking: Missing) -> Analysis:
    """Return the kernels of a survey that no profile follows: their times are of the same kind as those of `joined`.

    `lacking` says why they have no counters. Where the survey is a report that has some, they stay.
    """
    throttled = [was_throttled(source.samples) for source in surveyed.session.sources]
    kernels = (
        replace(kernel if kernel.throughput else _outside(kernel, lacking), throttled=throttled[kernel.source])
        for kernel in surveyed.session.kernels
    )
    sources = tuple(map(_as_survey, surveyed.session.sources))
    session = replace(surveyed.session, sources=sources, kernels=tuple(kernels))
    return replace(surveyed, session=session)


def _devices_together(
    profiled: Sequence[Device], surveyed: Sequence[Device]
) -> tuple[tuple[Device, ...], dict[int, int]]:
    """Return the GPUs of both, and the number of each one of the survey: two tools describe one in different words."""
    devices, numbers = list(profiled), {}
    for device in surveyed:
        same = [candidate for candidate in profiled if _could_be(candidate, device)]
        if len(same) != 1 and len(profiled) == len(surveyed) == 1:
            same = list(profiled)
        if len(same) != 1:
            same = [replace(device, id=len(devices))]
            devices += same
        numbers[device.id] = same[0].id
    return tuple(devices), numbers


def _could_be(profiled: Device, surveyed: Device) -> bool:
    facts = (profiled.spec, profiled.compute_capability, profiled.name)
    return facts == (surveyed.spec, surveyed.compute_capability, surveyed.name)


def _moved(timeline: Timeline | None, sources: int, numbers: Mapping[int, int]) -> Timeline | None:
    """Return a timeline whose files come after so many others, with its GPUs numbered anew."""
    if timeline is None:
        return None
    return replace(
        timeline,
        devices=tuple(
            replace(gpu, source=gpu.source + sources, device=numbers[gpu.device]) for gpu in timeline.devices
        ),
        steps=tuple(replace(step, source=step.source + sources) for step in timeline.steps),
        waits=tuple(replace(wait, source=wait.source + sources) for wait in timeline.waits),
        model_flop=tuple(replace(flop, source=flop.source + sources) for flop in timeline.model_flop),
        source_ranks=(*[None] * sources, *timeline.source_ranks),
    )


def _as_survey(source: Source) -> Source:
    return replace(source, kind=source.kind + SURVEY_MARK)


def was_throttled(samples: Sequence[GpuSamples]) -> bool | None:
    """Tell whether the driver lowered the clocks of a GPU in more than a few samples; None where it does not say."""
    known = [sample.throttling for sample in samples if sample.throttling is not None]
    if not known:
        return None
    return any(reason.share >= THROTTLED for reasons in known for reason in reasons)


_Profiled = tuple[KernelProfile, Recorded]


def _by_kind(profiled: Analysis) -> dict[Hashable, list[_Profiled]]:
    """Find profiled kernels by what a survey may know of them."""
    by_kind: dict[Hashable, list[_Profiled]] = {}
    for pair in zip(profiled.session.kernels, profiled.recorded, strict=True):
        for kind in dict.fromkeys(kind for kind, _ in _kinds(*pair)):
            by_kind.setdefault(kind, []).append(pair)
    return by_kind


def _match(
    surveyed: KernelProfile, own: Recorded, by_kind: Mapping[Hashable, Sequence[_Profiled]]
) -> _Profiled | Missing:
    """Return the profiled launch that a kernel of the survey is like, or why there is none.

    A kernel of a library does other work elsewhere, with the same grid. So the operators must be the same, with the
    same shapes. If that of the profiled launch is not known, the times must be similar. Of several launches the one of
    the most similar time is taken.
    """
    lacking = NOT_CHOSEN
    for kind, is_anywhere in _kinds(surveyed, own):
        most = _OTHER_WORK if is_anywhere else math.inf
        alike = [
            pair
            for pair in by_kind.get(kind, ())
            if may_be_same_operator(innermost_operator(pair[0].ranges), innermost_operator(surveyed.ranges))
        ]
        for pair in sorted(alike, key=lambda pair: times_apart(pair[0].duration_s, surveyed.duration_s)):
            gap = contradiction(surveyed, pair[0].work)
            if gap is not None:
                lacking = gap
            elif times_apart(pair[0].duration_s, surveyed.duration_s) <= most:
                return pair
    return lacking


def _kinds(kernel: KernelProfile, own: Recorded) -> Iterator[tuple[Hashable, bool]]:
    """Yield what tells a kernel, from the closest to the least: by rank, by build, by name and symbol, by launcher.

    Beside it whether that is a kernel of any place, where the kernel's own is known.
    """
    names = [kernel_key(kernel.demangled), *([own.launch.mangled] if own.launch.mangled is not None else [])]
    launchers = (launched_by(kernel.ranges), innermost_operator(kernel.ranges))
    places = (kernel.ranges, *filter(None, launchers), None)
    resources = resources_of_kernel(kernel)
    known = dict.fromkeys((resources, Resources(resources.registers_per_thread, None), Resources(None, None)))
    for rank, taken, name, place in product(dict.fromkeys((kernel.rank, None)), known, names, places):
        is_anywhere = place is None and bool(kernel.ranges)
        yield (rank, kernel.device, name, kernel.grid, kernel.block, taken, place), is_anywhere


def _with_counters(surveyed: KernelProfile, profiled: KernelProfile) -> KernelProfile:
    """Give a kernel of the survey what was counted of it; its times stay those of the survey."""
    if _place(profiled) != _place(surveyed):
        where = " / ".join(profiled.ranges) or "no range"
        missing = Missing("counters of this range", f"they are those of a launch in {where}", _MORE)
        profiled = replace(profiled, missing=(*profiled.missing, missing))
    taken = resources_of_kernel(profiled)
    if not may_be(taken, resources_of_kernel(surveyed)):
        registers, shared = (number if number is not None else "unknown" for number in taken)
        why = f"they are those of a launch with {registers} registers per thread and {shared} B of shared memory"
        profiled = replace(profiled, missing=(*profiled.missing, Missing("counters of this build", why, _MORE)))
    named = replace(profiled, id=surveyed.id, label=surveyed.label, function=surveyed.function)
    named = replace(named, ranges=surveyed.ranges, launches=surveyed.launches)
    named = replace(named, operator_flop=surveyed.operator_flop, operator_bytes=surveyed.operator_bytes)
    named = replace(named, kind=kernel_kind(named))
    if surveyed.duration_s is None:
        # The duration is the profiler's own; what all launches took is not known.
        return replace(named, duration_percentiles_s=None, launch_times=None, time_total_s=None, time_share=None)
    return replace(
        named,
        duration_s=surveyed.duration_s,
        duration_percentiles_s=surveyed.duration_percentiles_s,
        launch_times=surveyed.launch_times,
        duration_source=_source_of_time(surveyed),
        time_total_s=surveyed.time_total_s,
        time_share=surveyed.time_share,
        throttled=surveyed.throttled,
    )


def _place(kernel: KernelProfile) -> Hashable:
    """Return where a kernel was launched, in words that all tools share."""
    return launched_by(kernel.ranges) or kernel.ranges


def _outside(kernel: KernelProfile, lacking: Missing = NOT_CHOSEN) -> KernelProfile:
    """Say of a kernel that has only its time why, instead of every counter that is missing."""
    return replace(kernel, missing=(lacking,), duration_source=_source_of_time(kernel))


def _source_of_time(surveyed: KernelProfile) -> str | None:
    """Return the source of a surveyed kernel's duration; a graph that ncu replayed as a whole keeps its own."""
    if surveyed.duration_s is None or surveyed.duration_source == GRAPH_REPLAY:
        return surveyed.duration_source
    return SURVEY
