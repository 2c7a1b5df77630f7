"""The result of an analysis: exactly the values of the JSON contract, version 1, as frozen dataclasses.

Base SI units, the unit in the name. None means missing, and `missing` says why; zero means measured zero.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuprof.model.recorded import Dim3, GpuSamples, Missing
from gpuprof.model.sources import SURVEY_MARK

SCHEMA_VERSION = 1
SEVERITIES = ("high", "medium", "low", "info")
CONFIDENCES = ("measured", "inferred", "guess")


@dataclass(frozen=True, slots=True)
class Source:
    """A file that the session was made from."""

    file: str
    sha256: str
    kind: str
    tool: str
    tool_version: str | None
    clock_control: str | None
    cache_control: str | None
    command: str | None
    driver: str | None = None
    created_s: int | None = None
    warnings: tuple[str, ...] = ()
    samples: tuple[GpuSamples, ...] = ()

    @property
    def is_survey(self) -> bool:
        """Tell whether it only timed the kernels that another source counts: its kind ends with that word."""
        return self.kind.endswith(SURVEY_MARK)


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU of the session and the spec that describes it (None: only its architecture's facts are used)."""

    id: int
    name: str | None
    compute_capability: str | None
    sm_count: int | None
    spec: str | None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """A limit that percentages refer to: FLOP/s (OP/s for integers) of a path, or bytes/s of a level."""

    device: int
    id: str
    kind: str
    path: str | None
    level: str | None
    value: float
    clock_hz: float | None
    origin: str
    source: str


@dataclass(frozen=True, slots=True)
class Work:
    """Floating-point (or integer) operations of one path. `flop` is None where only the rate was recorded.

    `certificate` says how far its counters are known to count this: "certified" (kernels of known work gave it),
    "checked" (another count of the same kernels agreed), or "none" (nothing vouches for them). None: not recorded, by
    a gpuprof from before this field.
    """

    path: str
    flop: float | None
    flop_per_s: float | None
    basis: str
    certificate: str | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes at one memory level, and which counters define them. None where only the rate was recorded.

    `hit_rate` is the fraction of the level's lookups that found their data there. `certificate` as for work.
    """

    level: str
    bytes: float | None
    bytes_per_s: float | None
    definition: str
    basis: str
    hit_rate: float | None = None
    certificate: str | None = None


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """A kernel under one roof: intensity in FLOP/byte, and the fraction of what the roof allows at that intensity."""

    path: str
    level: str
    intensity: float
    flop_per_s: float
    roof_flop_per_s: float
    fraction_of_roof: float
    ceiling: str
    bound: str


@dataclass(frozen=True, slots=True)
class Throughput:
    """Nsight Compute's speed of light of one unit, as a fraction of its peak over all elapsed cycles.

    `definition` says so where only another fraction was recorded, such as that "of active cycles".
    """

    unit: str
    fraction: float
    definition: str | None = None


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Resident warps as a fraction of the SM's limit, and what limits them."""

    theoretical: float | None
    achieved: float | None
    limiters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Stall:
    """A warp state. `cycles_per_issue` are warp cycles in it per issued instruction (counter family only)."""

    reason: str
    share: float
    cycles_per_issue: float | None
    family: str


@dataclass(frozen=True, slots=True)
class Scheduler:
    """What the warp schedulers did, per scheduler and active cycle.

    `issue_active`: fraction of cycles with an issue; `eligible_warps` and `active_warps`: warps, of `warp_slots`.
    """

    issue_active: float | None
    eligible_warps: float | None
    active_warps: float | None
    warp_slots: float | None


@dataclass(frozen=True, slots=True)
class Pipe:
    """An execution pipe of the SM and its busy fraction of the SM's active cycles."""

    name: str
    fraction: float
    metric: str


@dataclass(frozen=True, slots=True)
class DurationSpread:
    """How the launches of a group differ in duration. `count` is how many durations are known."""

    min: float
    p50: float
    p95: float
    p99: float
    max: float
    count: int


@dataclass(frozen=True, slots=True)
class StallShare:
    """A stall reason's share of the samples of one line."""

    reason: str
    share: float


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of source (`number`) or an instruction (`pc`). `share` is its part of the whole kernel's weight.

    `text` is empty where the report knows the line and not what it says.
    """

    number: int | None
    pc: int | None
    text: str
    share: float
    stalls: tuple[StallShare, ...]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Hot lines in order, with their neighbours where they have text. `weight` names what `share` counts."""

    language: str
    file: str | None
    weight: str
    lines: tuple[CodeLine, ...]

    @property
    def has_text(self) -> bool:
        """Tell whether it shows code, and not only where it is."""
        return any(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Evidence:
    """A value that a finding rests on. `threshold` is what it was held against, in the same unit; None: context."""

    metric: str
    value: float
    unit: str
    threshold: float | None
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Location:
    """The place with most of the excess: source line or instruction, and its share of the excess."""

    file: str | None
    line: int | None
    pc: int | None
    sass: str | None
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found. Gains are fractions of time, upper bounds; None where none can be told."""

    rule: str
    severity: str
    confidence: str
    headline: str
    why: str
    evidence: tuple[Evidence, ...]
    advice: str
    location: Location | None
    gain_kernel: float | None
    gain_total: float | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A finding's place in the ranking over all kernels."""

    kernel: int
    rule: str
    gain_total: float | None


@dataclass(frozen=True, slots=True)
class KernelProfile:
    """One profiled launch, or a group of equal launches."""

    id: int
    source: int
    device: int
    rank: int | None
    process: int | None
    stream: int | None
    name: str
    demangled: str
    label: str
    ranges: tuple[str, ...]
    grid: Dim3 | None
    block: Dim3 | None
    registers_per_thread: int | None
    shared_memory_per_block: int | None
    launches: int
    duration_s: float | None
    duration_percentiles_s: DurationSpread | None
    duration_source: str | None
    time_total_s: float | None
    time_share: float | None
    sm_clock_hz: float | None
    throttled: bool | None
    work: tuple[Work, ...]
    traffic: tuple[Traffic, ...]
    roofline: tuple[RooflinePoint, ...]
    throughput: tuple[Throughput, ...]
    occupancy: Occupancy
    stalls: tuple[Stall, ...]
    findings: tuple[Finding, ...]
    missing: tuple[Missing, ...]
    waves: float | None = None
    scheduler: Scheduler | None = None
    pipes: tuple[Pipe, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()


@dataclass(frozen=True, slots=True)
class RunTotals:
    """The totals of a run, which a session of some of its kernels keeps. `kernels` are labels with a known time.

    `timed_shapes` are the kinds of launches with a known time: of one label, grid, block and ranges, in one report.
    `main_kernels` of them, the longest, take most of the time: `main_time_s` of `time_s`.
    """

    kernels: int
    launches: int
    timed_launches: int
    timed_shapes: int
    time_s: float
    main_kernels: int
    main_time_s: float


@dataclass(frozen=True, slots=True)
class Gaps:
    """The pauses in which a GPU did nothing, between its first and its last activity. `short_s` is the time in pauses
    shorter than 20 µs, `long_s` that in pauses of 1 ms and longer, `unsure_s` that in pauses after an activity without
    a time, which may have filled them."""

    count: int
    total_s: float
    median_s: float
    longest_s: float
    short_s: float
    long_s: float
    unsure_s: float


@dataclass(frozen=True, slots=True)
class Copies:
    """All copies of a direction, or settings of memory; the bandwidth is that while they ran."""

    direction: str
    count: int
    bytes: int | None
    time_s: float | None
    bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class Communication:
    """Kernels that exchange data with other GPUs: their time, and what of it no other kernel ran beside.

    `bus_bytes_per_s` is the bus bandwidth as NCCL's tests define it; None where the trace has no sizes.
    """

    launches: int
    time_s: float
    exposed_s: float
    bus_bytes_per_s: float | None


@dataclass(frozen=True, slots=True)
class DeviceTimeline:
    """What a GPU did of the time between its first and its last activity. `untimed` activities count as instants.

    `device` is the kind of GPU, as of kernels; `ordinal` tells the GPUs of a source apart, equal ones too, from 0.
    """

    source: int
    ordinal: int
    device: int
    span_s: float
    busy_s: float
    kernel_s: float
    gaps: Gaps | None
    copies: tuple[Copies, ...]
    communication: Communication | None
    untimed: int


@dataclass(frozen=True, slots=True)
class StepTimes:
    """A step of the program that comes again and again, and how long it takes.

    `per_s` is how many a thread starts in a second, the mean of its threads; None where no thread has two of them.
    `loop` marks what the program's work is counted by: one step of each source.
    """

    source: int
    name: str
    count: int
    threads: int
    duration_percentiles_s: DurationSpread
    per_s: float | None
    loop: bool


@dataclass(frozen=True, slots=True)
class Wait:
    """For how long a GPU was idle, in all, just before one thing that it did.

    `before` is "kernel", for launches of that kernel; or the direction of copies, or "memory set", which `kernel` was
    the next one to run after, for most of the idle time. None if no kernel came after them.
    """

    source: int
    ordinal: int
    before: str
    kernel: int | None
    idle_s: float
    pauses: int


@dataclass(frozen=True, slots=True)
class PathFlop:
    """FLOP that the shapes of operators' inputs ask for, by the path of their data type; FP32 can also run as TF32.

    `calls` are those of the operators. `path` is "other" for a data type that none is named for, such as complex ones.
    """

    path: str
    flop: float
    calls: int


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Calls of an operator whose FLOP are not known, or launches of kernels that multiply matrices outside of those
    that are counted. `time_s` is that of their kernels."""

    name: str
    count: int
    time_s: float
    why: str


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Model FLOP utilisation: FLOP of a path over time as a fraction of a ceiling of all GPUs that take part."""

    path: str
    fraction: float
    ceiling_id: str
    ceiling_path: str
    ceiling_flop_per_s: float
    clock_hz: float | None
    origin: str
    source: str


@dataclass(frozen=True, slots=True)
class StepFlop:
    """The step of median time of the `count` that a loop has: its time, its FLOP and what of the ceilings that is.

    `time_s` is the step's time, or that of the GPU for what it launched where that is longer. `min_flop` and `max_flop`
    are those of a step. The fractions of several paths add up, one ceiling of each.
    """

    count: int
    time_s: float
    flop: tuple[PathFlop, ...]
    flop_per_s: float
    min_flop: float
    max_flop: float
    gpus: int
    utilisation: tuple[Utilisation, ...]


@dataclass(frozen=True, slots=True)
class ModelFlop:
    """What the operators of a source ask of its GPUs. `total` is that of the whole trace, None where it is not known.

    Where operators are uncounted, all FLOP are at least what is said; `uncounted_share` is that of the kernels' time.
    """

    source: int
    total: tuple[PathFlop, ...] | None
    step: StepFlop | None
    uncounted: tuple[Uncounted, ...]
    uncounted_share: float | None
    missing: tuple[Missing, ...]


@dataclass(frozen=True, slots=True)
class MeasuredFlop:
    """FLOP of a path that counters saw in all launches of the kernels they were collected for.

    `time_share` is the share of the time of all kernels that those take.
    """

    path: str
    flop: float
    time_share: float | None


@dataclass(frozen=True, slots=True)
class Timeline:
    """What traces tell beyond the time of each kernel. `waits` come longest first. `rank` is that of the only source,
    `source_ranks` are those of all of them. `model_flop` has those sources whose operators multiply matrices;
    `measured_flop` is there where counters were collected too.
    """

    devices: tuple[DeviceTimeline, ...]
    steps: tuple[StepTimes, ...]
    waits: tuple[Wait, ...]
    rank: int | None
    ranks: int | None
    peak_memory_bytes: int | None
    source_ranks: tuple[int | None, ...]
    model_flop: tuple[ModelFlop, ...] = ()
    measured_flop: tuple[MeasuredFlop, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """Everything that the presenters show. `run` is None where the kernels are all of the run."""

    schema_version: int
    gpuprof_version: str
    sources: tuple[Source, ...]
    devices: tuple[Device, ...]
    ceilings: tuple[Ceiling, ...]
    kernels: tuple[KernelProfile, ...]
    timeline: Timeline | None = None
    ranking: tuple[Ranked, ...] = ()
    run: RunTotals | None = None

    @property
    def only_times(self) -> bool:
        """Tell whether it is of a timeline alone, without counters of any kernel."""
        return self.timeline is not None and not any(source.is_survey for source in self.sources)
