"""All launches of all reports: one session with shares of time, unique labels and the ceilings of every GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs
from msgspec.structs import replace

from gpuprof.hardware.certificates import release_of
from gpuprof.hardware.device import RecordedDevice
from gpuprof.hardware.specs import LEVELS, PATHS, GpuSpec, without_absent_links
from gpuprof.model.ceilings import Hardware, Limit, ceiling_of
from gpuprof.model.counts import launch_counts, spanning
from gpuprof.model.denominators import audited
from gpuprof.model.field_types import ORIGINS, CeilingOrigin
from gpuprof.model.groups import LaunchKind, alike, averages_of, kind_of, speaker, spread
from gpuprof.model.implied import implied_peaks
from gpuprof.model.kernel_kinds import kernel_kind
from gpuprof.model.labels import launch_labels
from gpuprof.model.launch_analysis import LaunchProfile, launch_clock, launch_duration, profile_launch, resources_of
from gpuprof.model.launch_sequences import LaunchSequence
from gpuprof.model.launch_times import launch_times
from gpuprof.model.pages import with_pages_together
from gpuprof.model.quantities import COLLECT, READ_REPORT, absent_quantities
from gpuprof.model.recorded import WHOLE_GRAPH, Launch, Report
from gpuprof.model.session import SCHEMA_VERSION, Averages, Ceiling, Denominator, Device, KernelProfile, Session, Source
from gpuprof.model.sm_clocks import held_clock
from gpuprof.model.sources import kind_named
from gpuprof.model.timed import GRAPH_REPLAY
from gpuprof.workers import Worth, made_by_workers

_WORTH = Worth(1_000, each=500)
"""Kernels, of 0.1 ms each."""

HardwareOf = Callable[[RecordedDevice], Hardware]


class Recorded(Struct, frozen=True):
    """What a kernel of a session was made from: its launch, what is known of its GPU, and its ceilings at its clock."""

    launch: Launch
    hardware: Hardware
    at_clock: Mapping[str, Limit]


class Analysis(Struct, frozen=True):
    """A session and, for each of its kernels in the same order, what it was made from.

    `members` are the numbers of its launches, counted over all reports; only of kernels that equal launches became.
    `sequences` are what the streams of a timeline did, each in its order.
    """

    session: Session
    recorded: tuple[Recorded, ...]
    members: tuple[tuple[int, ...], ...] = ()
    sequences: tuple[LaunchSequence, ...] = ()


class _Entry(Struct, frozen=True):
    """A launch, its number over all reports, and what its profile needs to know."""

    number: int
    source: int
    device: int
    hardware: Hardware
    launch: Launch
    remedy: str


def analyse(
    reports: Sequence[Report], hardware_of: HardwareOf, version: str, *, one_of_a_kind: bool = False
) -> Analysis:
    """Analyse every launch of every report. `hardware_of` says what is known of a recorded GPU.

    With `one_of_a_kind` equal launches become one kernel, and only the launch that speaks for them is analysed.
    """
    reports = [with_pages_together(report) for report in reports]
    devices, hardware, numbers = _number_devices(reports, hardware_of)
    entries = list(_entries(reports, hardware, numbers))
    groups = _groups(entries) if one_of_a_kind else [[entry] for entry in entries]
    launches, recorded, ids = [], [], []
    for group, (speaking, launch) in zip(groups, _profiles(groups, reports), strict=True):
        entry = group[speaking]
        launches.append(launch)
        recorded.append(Recorded(entry.launch, entry.hardware, launch.at_clock))
        ids.append(entry.number)
    session = Session(
        schema_version=SCHEMA_VERSION,
        gpuprof_version=version,
        sources=tuple(_source(report) for report in reports),
        devices=devices,
        ceilings=tuple(_session_ceilings(launches, len(devices))),
        kernels=_placed([launch.profile for launch in launches], ids),
        denominators=tuple(_denominators(launches, recorded, hardware)),
    )
    members = tuple(tuple(entry.number for entry in group) for group in groups) if one_of_a_kind else ()
    return Analysis(session, tuple(recorded), members)


def spec_session(gpu: GpuSpec, version: str) -> Session:
    """Return a session without kernels: a GPU and the ceilings that its datasheet promises."""
    ceilings = [
        replace(ceiling_of(0, "rated", key.path, Limit(fact.value, fact.clock_hz, fact.source)), id=f"rated/{key}")
        for key, fact in gpu.rated.items()
    ]
    sms = round(gpu.facts["sm_count"].value)
    capability = ".".join((gpu.arch[3:-1], gpu.arch[-1]))
    device = Device(id=0, name=gpu.title, compute_capability=capability, sm_count=sms, spec=gpu.name)
    return Session(
        schema_version=SCHEMA_VERSION,
        gpuprof_version=version,
        sources=(),
        devices=(device,),
        ceilings=tuple(ceilings),
        kernels=(),
    )


def _entries(
    reports: Sequence[Report], hardware: Sequence[Hardware], numbers: Mapping[tuple[int, int], int]
) -> Iterator[_Entry]:
    count = 0
    for source, report in enumerate(reports):
        remedy = READ_REPORT if kind_named(report.kind).is_text else COLLECT
        for device, known, launch in _launches(source, report, hardware, numbers):
            yield _Entry(number=count, source=source, device=device, hardware=known, launch=launch, remedy=remedy)
            count += 1


def _groups(entries: Iterable[_Entry]) -> list[list[_Entry]]:
    return alike((_kind(entry, entry.launch), entry) for entry in entries)


def _kind(entry: _Entry, launch: Launch) -> LaunchKind:
    shape, resources = (launch.grid, launch.block), resources_of(launch, entry.hardware)
    return kind_of(entry.source, entry.device, launch.demangled, shape, resources, launch.ranges, entry.number)


def _profiles(groups: Sequence[Sequence[_Entry]], reports: Sequence[Report]) -> Iterator[tuple[int, LaunchProfile]]:
    """Yield the profile of each group with its kind, behind the place of the launch that speaks for it."""

    def profiled(number: int) -> tuple[int, LaunchProfile]:
        group = groups[number]
        is_one = len(group) == 1 and group[0].launch.invocations == 1
        durations = [None] if is_one else [launch_duration(entry.launch, entry.hardware) for entry in group]
        place = speaker(durations)
        entry = group[place]
        launch = profile_launch(
            entry.launch, entry.source, entry.device, entry.hardware, entry.remedy, rank=reports[entry.source].rank
        )
        profile = structs.replace(launch.profile, kind=kernel_kind(launch.profile))
        if entry.launch.kind == WHOLE_GRAPH and profile.duration_s is not None:
            profile = structs.replace(profile, duration_source=GRAPH_REPLAY)
        launch = replace(launch, profile=profile)
        return place, launch if is_one else _for_group(launch, group, durations)

    return made_by_workers(range(len(groups)), profiled, _WORTH)


def _denominators(
    profiles: Sequence[LaunchProfile], recorded: Sequence[Recorded], hardware: Sequence[Hardware]
) -> Iterator[Denominator]:
    """Hold the spec of every GPU against what its launches imply of it."""
    for device, known in enumerate(hardware):
        timed = [
            (launch.profile.duration_s, own.launch)
            for launch, own in zip(profiles, recorded, strict=True)
            if launch.profile.device == device
        ]
        yield from audited(device, implied_peaks(timed, known.device, known.arch), known)


def _for_group(launch: LaunchProfile, group: Sequence[_Entry], durations: Sequence[float | None]) -> LaunchProfile:
    """Return the profile of all launches of a kind, with the figures of the representative one."""
    times = [
        duration * entry.launch.invocations
        for duration, entry in zip(durations, group, strict=True)
        if duration is not None
    ]
    every = (launch_counts(entry.launch.metrics, entry.hardware.arch, entry.hardware.absent) for entry in group)
    averages = averages_of(_averages(entry.launch) for entry in group)
    profile = structs.replace(
        launch.profile,
        launches=sum(entry.launch.invocations for entry in group),
        time_total_s=sum(times) if times else None,
        counts=spanning(launch.profile.counts, every),
        averages=averages,
    )
    if averages is None:
        profile = structs.replace(
            profile,
            duration_percentiles_s=spread(durations),
            launch_times=launch_times(
                durations, lambda place: launch_clock(group[place].launch, group[place].hardware)
            ),
        )
    return replace(launch, profile=profile)


def _averages(launch: Launch) -> Averages | None:
    """Return what a source knows of the launches that it has averages over; None for a single launch."""
    if launch.invocations == 1:
        return None
    shortest_s, longest_s = launch.duration_range_s or (None, None)
    return Averages(min_s=shortest_s, max_s=longest_s)


def _launches(
    source: int, report: Report, hardware: Sequence[Hardware], numbers: Mapping[tuple[int, int], int]
) -> Iterator[tuple[int, Hardware, Launch]]:
    """Yield each launch with the number of its GPU and what is known of it, as far as this report's metrics go."""
    own_numbers = {index: numbers[source, index] for index in range(len(report.devices))}
    known = {number: _as_recorded(hardware[number], report) for number in set(own_numbers.values())}
    for launch in report:
        number = own_numbers[launch.device]
        yield number, known[number], launch


def _as_recorded(hardware: Hardware, report: Report) -> Hardware:
    """Return what is known of a GPU for launches of this report: its release of ncu, the metrics that it can hold."""
    names = report.names
    held = held_clock(report.samples, hardware.device.name, report.clock_control)
    hardware = replace(hardware, release=release_of(report.tool_version), held_clock_hz=held)
    if names is None:
        return hardware
    absent = absent_quantities(hardware.arch.counters, names)
    return replace(hardware, arch=without_absent_links(hardware.arch, names), names=names, absent=absent)


def _source(report: Report) -> Source:
    return Source(
        file=report.file,
        sha256=report.sha256,
        kind=report.kind,
        tool=report.tool,
        tool_version=report.tool_version,
        clock_control=report.clock_control,
        cache_control=report.cache_control,
        command=report.command,
        driver=report.driver,
        created_s=report.created_s,
        warnings=report.warnings,
        samples=report.samples,
    )


def device_numbers(reports: Iterable[Report]) -> dict[tuple[int, int], int]:
    """Number the distinct GPUs over all reports: by report and the device's place in it."""
    known: dict[tuple[object, ...], int] = {}
    numbers: dict[tuple[int, int], int] = {}
    for source, report in enumerate(reports):
        for index, recorded in enumerate(report.devices):
            kind = (recorded.name, recorded.compute_capability, recorded.sm_count, recorded.memory_bytes)
            numbers[source, index] = known.setdefault(kind, len(known))
    return numbers


def _number_devices(
    reports: Sequence[Report], hardware_of: HardwareOf
) -> tuple[tuple[Device, ...], list[Hardware], dict[tuple[int, int], int]]:
    """Return the distinct GPUs over all reports with what is known of each, and their numbers."""
    numbers = device_numbers(reports)
    first = {number: place for place, number in reversed(numbers.items())}
    recorded = [reports[first[number][0]].devices[first[number][1]] for number in sorted(first)]
    hardware = [hardware_of(device) for device in recorded]
    devices = tuple(_device(number, *pair) for number, pair in enumerate(zip(recorded, hardware, strict=True)))
    return devices, hardware, numbers


def _device(number: int, recorded: RecordedDevice, hardware: Hardware) -> Device:
    gpu = hardware.gpu
    return Device(
        id=number,
        name=recorded.name or (gpu.title if gpu is not None else None),
        compute_capability=recorded.compute_capability,
        sm_count=hardware.sm_count(),
        spec=gpu.name if gpu is not None else None,
    )


def _placed(profiles: list[KernelProfile], ids: list[int]) -> tuple[KernelProfile, ...]:
    """Give every kernel its number, its unique label and its share of the time of all.

    Replays of whole graphs are no times of kernels: beside these they are in no sum.
    """
    if any(profile.time_total_s is not None and profile.duration_source != GRAPH_REPLAY for profile in profiles):
        profiles = [
            structs.replace(profile, time_total_s=None) if profile.duration_source == GRAPH_REPLAY else profile
            for profile in profiles
        ]
    labels = launch_labels([profile.demangled for profile in profiles], [profile.ranges for profile in profiles])
    total = sum(profile.time_total_s or 0.0 for profile in profiles)
    return tuple(
        structs.replace(
            profile,
            id=number,
            label=label,
            function=function,
            time_share=_share(profile.time_total_s, total),
        )
        for number, profile, (label, function) in zip(ids, profiles, labels, strict=True)
    )


def _share(time_s: float | None, total_s: float) -> float | None:
    return time_s / total_s if time_s is not None and total_s > 0 else None


def _session_ceilings(launches: Sequence[LaunchProfile], devices: int) -> Iterator[Ceiling]:
    """List every GPU's ceilings once: rated as they are, at-clock for the clock of the GPU's longest kernel.

    A kernel's own roofline points are held against the clock of that kernel, which may differ.
    """
    for device in range(devices):
        mine = [launch for launch in launches if launch.profile.device == device]
        mine.sort(key=lambda launch: launch.profile.time_total_s or 0.0, reverse=True)
        for origin in ORIGINS:
            first = _first_limits(mine, origin)
            yield from (
                ceiling_of(device, origin, target, first[target]) for target in (*PATHS, *LEVELS) if target in first
            )


def _first_limits(launches: Iterable[LaunchProfile], origin: CeilingOrigin) -> dict[str, Limit]:
    """Return the limit of each target as the first launch has it that knows it."""
    first: dict[str, Limit] = {}
    for launch in launches:
        limits = {"rated": launch.rated, "at-clock": launch.at_clock, "measured": launch.measured}[origin]
        for target, limit in limits.items():
            first.setdefault(target, limit)
    return first
