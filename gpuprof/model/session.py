"""The result of an analysis: the JSON contract, version 3. Reader, writer and schema follow from these types.

Base SI units, the unit in the name. None means missing, and `missing` says why; zero means measured zero.
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpuprof.hardware.specs import Basis, Level
from gpuprof.hardware.trust import Trust
from gpuprof.model.field_types import (
    Bound,
    ByteAmount,
    ByteCount,
    BytesPerSecond,
    CeilingOrigin,
    Confidence,
    Disagreement,
    Drawn,
    DrawnFlopPerSecond,
    Flop,
    FlopPerSecond,
    Fraction,
    Gain,
    GainKind,
    Hertz,
    Intensity,
    JudgedPart,
    Language,
    Moment,
    Number,
    PauseCause,
    Positive,
    RooflineBound,
    RunState,
    Seconds,
    Severity,
    StallFamily,
    StripKind,
    ThroughputUnit,
    Whole,
    Word,
    about,
)
from gpuprof.model.findings import Amount, CaseName, Cases, Label, Role
from gpuprof.model.recorded import Dim3, GpuSamples, Missing
from gpuprof.model.sources import SURVEY_MARK, SourceKindName, kind_named

SchemaVersion = Literal[3]
SCHEMA_VERSION: SchemaVersion = 3


class Source(Struct, frozen=True, kw_only=True):
    """A file that the session was made from."""

    file: Annotated[str, about("its name; the path as it was given only with --keep-private")]
    sha256: Annotated[str, about("hash of its bytes")]
    kind: Annotated[SourceKindName, about("kind of file; a survey only times the kernels that another source counts")]
    tool: Annotated[str, about("program that wrote it")]
    tool_version: Annotated[str | None, about("version of that program")]
    clock_control: Annotated[str | None, about("ncu's --clock-control: whether it locked the clocks")]
    cache_control: Annotated[str | None, about("ncu's --cache-control: whether it flushed the caches")]
    command: Annotated[str | None, about("command line, … for what can be private: the program, options of ncu")]
    driver: Annotated[str | None, about("version of the GPU's driver")] = None
    created_s: Annotated[Moment | None, about("when it was recorded, since 1970")] = None
    warnings: Annotated[tuple[str, ...], about("what could not be read of it, in sentences", most=10_000)] = ()
    samples: Annotated[
        tuple[GpuSamples, ...], about("clocks, power and temperature while the program ran", most=1_000)
    ] = ()

    @property
    def is_survey(self) -> bool:
        """Tell whether it only timed the kernels that another source counts: its kind ends with that word."""
        return self.kind.endswith(SURVEY_MARK)


class Device(Struct, frozen=True, kw_only=True):
    """A GPU of the session and the spec that describes it (None: only its architecture's facts are used)."""

    id: Annotated[Whole, about("index among the devices, from 0")]
    name: Annotated[str | None, about("product name, as the driver gives it")]
    compute_capability: Annotated[str | None, about("such as 9.0")]
    sm_count: Annotated[Whole | None, about("streaming multiprocessors")]
    spec: Annotated[str | None, about("name of its GPU spec")]


class Ceiling(Struct, frozen=True, kw_only=True):
    """A limit that percentages refer to: FLOP/s (OP/s for integers) of a path, or bytes/s of a level."""

    device: Annotated[Whole, about("the device that it is of")]
    id: Annotated[str, about("origin/path or origin/level")]
    path: Annotated[Word | None, about("compute path, of a compute ceiling")]
    level: Annotated[Level | None, about("memory level, of a bandwidth ceiling")]
    value: Annotated[Drawn, about("FLOP/s of a path, bytes/s of a level")]
    clock_hz: Annotated[Hertz | None, about("clock that the value holds at")]
    origin: Annotated[CeilingOrigin, about("datasheet, this kernel's clock, or micro-kernels")]
    source: Annotated[str, about("where the value comes from")]


class Denominator(Struct, frozen=True, kw_only=True):
    """A fact of a spec that percentages rest on, beside what a report implies of it without the spec.

    They agree where they differ by no more than the tolerance.
    """

    device: Annotated[Whole, about("the device that it is of")]
    unit: Annotated[str, about("what it is a peak of")]
    fact: Annotated[str, about("the fact of the spec")]
    implied: Annotated[Number, about("what the report implies")]
    specified: Annotated[Number, about("what the spec says, at the same clock")]
    measure: Annotated[str, about("unit of both; empty for a count")]
    tolerance: Annotated[Fraction, about("what they may differ by: 2 %, and what the digits in the report leave open")]
    implied_by: Annotated[str, about("the metrics that imply it")]
    specified_by: Annotated[str, about("the spec, and its fact")]
    disagreement: Annotated[Disagreement | None, about("likely reason why they differ; null where they agree")] = None
    reason: Annotated[str | None, about("the reason in words")] = None


class Work(Struct, frozen=True):
    """Floating-point (or integer) operations of one path. `flop` is None where only the rate was recorded.

    `certificate` says how far its counters are known to count this: "certified" (kernels of known work gave it),
    "checked" (another count of the same kernels agreed), or "none" (nothing vouches for them). None: not recorded, by
    a gpuprof from before this field.
    """

    path: Annotated[Word, about("compute path, such as fp32 or tensor.bf16")]
    flop: Annotated[Flop | None, about("operations of one launch")]
    flop_per_s: Annotated[FlopPerSecond | None, about("operations over the duration")]
    basis: Annotated[Basis, about("how it was obtained")]
    certificate: Annotated[Trust | None, about("how far its counters are known to count this")] = None


class Traffic(Struct, frozen=True):
    """Bytes at one memory level, and which counters define them. None where only the rate was recorded.

    `hit_rate` is the fraction of the sectors looked up at the level that were found there; L2 counts all that is
    written to it as found. `certificate` as for work.
    """

    level: Annotated[Level, about("memory level")]
    bytes: Annotated[ByteAmount | None, about("bytes of one launch")]
    bytes_per_s: Annotated[BytesPerSecond | None, about("bytes over the duration")]
    definition: Annotated[str, about("the counters, and what they count")]
    basis: Annotated[Basis, about("how it was obtained")]
    hit_rate: Annotated[Fraction | None, about("of the sectors looked up, the share that hit")] = None
    certificate: Annotated[Trust | None, about("how far its counters are known to count this")] = None


class RooflinePoint(Struct, frozen=True, kw_only=True):
    """A kernel under one roofline: intensity in FLOP/byte, and the fraction of what is attainable at that intensity."""

    path: Annotated[Word, about("compute path")]
    level: Annotated[Level, about("memory level")]
    intensity: Annotated[Intensity, about("arithmetic intensity: FLOP of the path per byte at the level")]
    flop_per_s: Annotated[DrawnFlopPerSecond, about("what the kernel reached")]
    roof_flop_per_s: Annotated[DrawnFlopPerSecond, about("what the roofline allows at this intensity")]
    fraction_of_roof: Annotated[Fraction, about("reached over what the roofline allows")]
    ceiling: Annotated[CeilingOrigin, about("origin of the ceilings that form the roofline")]
    bound: Annotated[RooflineBound, about("the side of the ridge that it is on: memory-bound or compute-bound")]


class Throughput(Struct, frozen=True):
    """Nsight Compute's speed of light of one unit: its busiest part, as a fraction of that part's peak over all
    elapsed cycles.

    `definition` says so where only another fraction was recorded, such as that "of active cycles". The fraction is only
    a bound if some of the unit's parts were recorded, or a figure that counts more than the unit.
    """

    unit: Annotated[ThroughputUnit, about("hardware unit; memory: caches, their links and DRAM together")]
    fraction: Annotated[Fraction, about("of the peak")]
    definition: Annotated[str | None, about("what it is a fraction of, where not of all elapsed cycles")] = None
    bound: Annotated[Bound | None, about("whether it is only a lower or an upper bound")] = None

    @property
    def is_exact(self) -> bool:
        """Whether the fraction is of all elapsed cycles, and no bound."""
        return self.definition is None and self.bound is None

    @property
    def note(self) -> str:
        """What the fraction is beyond a number, in words: "of active cycles", "or more"; empty if nothing."""
        words = {"at-least": "or more", "at-most": "or less"}
        return self.definition or (words[self.bound] if self.bound is not None else "")


class Occupancy(Struct, frozen=True):
    """Resident warps as a fraction of the SM's limit, and what limits them."""

    theoretical: Annotated[Fraction | None, about("what block size, registers and shared memory allow")]
    achieved: Annotated[Fraction | None, about("the average of the cycles in which an SM had warps")]
    limiters: Annotated[tuple[Word, ...], about("what limits the theoretical one", most=100)]


class Stall(Struct, frozen=True):
    """A state of resident warps: why they did not issue, or `selected` and `not_selected`, which could.

    `cycles_per_issue` are warp cycles in it per issued instruction (counter family only).
    """

    reason: Annotated[Word, about("name of the state, as Nsight Compute has it")]
    share: Annotated[Fraction, about("of all warp states of the family")]
    cycles_per_issue: Annotated[Number | None, about("warp cycles per issued instruction")]
    family: Annotated[StallFamily, about("counted, sampled, or sampled where the scheduler issued nothing")]


class Scheduler(Struct, frozen=True, kw_only=True):
    """What the warp schedulers did, per scheduler and active cycle; `issue_active` is of elapsed cycles where a report
    tells no more."""

    issue_active: Annotated[Fraction | None, about("cycles with an issue")]
    eligible_warps: Annotated[Number | None, about("eligible warps: ready to issue")]
    active_warps: Annotated[Number | None, about("resident warps")]
    warp_slots: Annotated[Number | None, about("warps that a scheduler can hold")]


class Pipe(Struct, frozen=True):
    """An execution pipe of the SM and how busy it was: the metric says whether of all elapsed or of the SM's active
    cycles, and whether cycles or instructions are held against the peak."""

    name: Annotated[str, about("such as fma, alu or tensor")]
    fraction: Annotated[Fraction, about("of the peak of its metric")]
    metric: Annotated[str, about("counter that tells it")]


class DurationSpread(Struct, frozen=True, kw_only=True):
    """How the launches of a group differ in duration."""

    min: Annotated[Seconds, about("shortest")]
    p50: Annotated[Seconds, about("median, by nearest rank as all percentiles")]
    p95: Annotated[Seconds, about("95th percentile")]
    p99: Annotated[Seconds, about("99th percentile")]
    max: Annotated[Seconds, about("longest")]
    count: Annotated[Whole, about("known durations")]


class LaunchTimes(Struct, frozen=True, kw_only=True):
    """The launches of a group one by one, in their order: what tells noise from change when two runs are compared.

    Of more than 1,000 launches these are spread evenly over all, in no rhythm; `dropped` are the others.
    """

    durations_s: Annotated[tuple[Seconds, ...], about("duration of each launch that is kept", most=1_000)]
    sm_clocks_hz: Annotated[
        tuple[Hertz, ...], about("average SM clock in each of them; empty where that is not known of all", most=1_000)
    ] = ()
    dropped: Annotated[Whole, about("launches with a known duration that are not kept")] = 0


class LaunchCount(Struct, frozen=True, kw_only=True):
    """What a launch did, as a counter has it: the same code on the same data gives it again, exactly or nearly.

    Of a group it is that of the launch which speaks for it, and `low` and `high` are the least and most of all its
    launches that were counted. `opcode.MUFU` are warp instructions of that opcode, with any modifiers; an opcode that
    is not there beside others was not executed. Which counters each name stands for is in the list of counters:
    `count.instructions` and so on. Shared-memory wavefronts are passes of the stage that shuffles take, too, and a few
    of every block. Numbers that a text export has rounded are left out.
    """

    name: Annotated[Word, about("instructions, thread-instructions, l2-sectors … or opcode.NAME")]
    value: Annotated[Number, about("of one launch")]
    unit: Annotated[Word, about("what it is counted in")]
    metric: Annotated[str, about("counters that tell it; only counts by the same ones can be compared")]
    low: Annotated[Number, about("least of the launches")]
    high: Annotated[Number, about("most of the launches")]


class LineWork(Struct, frozen=True, kw_only=True):
    """What the instructions of a source line did in a launch.

    Accesses to local memory are told by the opcodes LDL and STL; where the report has no machine code, by the
    instructions for which ncu expects sectors of local memory. They are zero, too, where the kernel moved none.
    """

    file: Annotated[str, about("source file")]
    number: Annotated[Whole, about("line number in it")]
    text: Annotated[str, about("the code, at most 200 characters; empty where the report does not have it")]
    instructions: Annotated[Number | None, about("warp instructions executed")]
    local: Annotated[Number | None, about("warp instructions executed that load or store local memory")]
    samples: Annotated[Number | None, about("samples of warps at it")]


class StallShare(Struct, frozen=True):
    """A stall reason's share of the samples of one line."""

    reason: Annotated[Word, about("name of the state")]
    share: Annotated[Fraction, about("of the samples of the line")]


class CodeLine(Struct, frozen=True, kw_only=True):
    """A line of source (`number`) or an instruction (`pc`)."""

    number: Annotated[Whole | None, about("line number in the source file")]
    pc: Annotated[Whole | None, about("address of the instruction")]
    text: Annotated[str, about("the code; empty where the report knows the line and not what it says")]
    share: Annotated[Fraction, about("of the whole kernel's weight")]
    stalls: Annotated[tuple[StallShare, ...], about("its main stall reasons", most=100)]


class Excerpt(Struct, frozen=True, kw_only=True):
    """Hot lines in order, with their neighbours where they have text."""

    language: Annotated[Language, about("source code or machine code")]
    file: Annotated[str | None, about("source file")]
    weight: Annotated[Word, about("what the shares count, such as samples")]
    lines: Annotated[tuple[CodeLine, ...], about("the lines shown", most=1_000)]

    @property
    def has_text(self) -> bool:
        """Tell whether it shows code, and not only where it is."""
        return any(line.text for line in self.lines)


class Evidence(Struct, frozen=True):
    """A value that a finding rests on."""

    metric: Annotated[str, about("metric that gives it; empty where it is computed from several")]
    value: Annotated[Number, about("the value, in its unit")]
    unit: Annotated[str, about("unit of value and threshold")]
    threshold: Annotated[Number | None, about("what the value is compared with; null for context")]
    meaning: Annotated[str, about("what the value is, in words")] = ""
    role: Annotated[Role, about("what the value is: the name of it, or of its threshold, in the rule's wording")] = ""
    of: Annotated[tuple[Word, ...], about("what it is of, such as a pipe or a stall reason", most=100)] = ()


class Location(Struct, frozen=True, kw_only=True):
    """The place with most of the excess: source line or instruction."""

    file: Annotated[str | None, about("source file")]
    line: Annotated[Whole | None, about("line number in it")]
    pc: Annotated[Whole | None, about("address of the instruction")]
    sass: Annotated[str | None, about("the instruction")]
    share: Annotated[Fraction | None, about("its share of what the finding counts")] = None


class Remaining(Struct, frozen=True):
    """What a part of the GPU still needs of a kernel's time once a finding is fixed."""

    unit: Annotated[Word, about("memory level, pipe, issue slots, all of the SM, or the launch itself")]
    fraction: Annotated[Fraction, about("of the kernel's time")]


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that a rule found. Gains are fractions of time; None where none can be told.

    A gain of kind `bound` is at most what a fix saves: `remains` is what the untouched units then still need. One of
    kind `conditional` holds while what `held` names stays the same. A finding with a `cause` goes when that is fixed.
    """

    id: Annotated[Word, about("its id in the session: kernel, rule, and a number where a rule has several")] = ""
    rule: Annotated[Word, about("id of the rule")]
    severity: Annotated[Severity, about("by what fixing it saves; info: nothing to fix")]
    confidence: Annotated[Confidence, about("how sure it is")]
    subject: Annotated[Word | None, about("unit, pipe, memory level, limiter or resource that it is about")] = None
    headline: Annotated[str, about("what was found")] = ""
    why: Annotated[str, about("why it costs time")] = ""
    evidence: Annotated[tuple[Evidence, ...], about("what it rests on", most=100)]
    action: Annotated[str, about("what to change, in one sentence")] = ""
    advice: Annotated[str, about("what to change, and how")] = ""
    place: Annotated[Location | None, about("where")]
    gain_kernel: Annotated[Gain | None, about("what fixing it saves of the kernel's time")]
    gain_total: Annotated[Gain | None, about("what fixing it saves of the run's time")]
    gain_kind: Annotated[GainKind | None, about("whether that is an upper bound; null without a gain")] = None
    held: Annotated[str | None, about("what is held fixed, where it is not an upper bound")] = None
    assumes: Annotated[tuple[CaseName, ...], about("names of what is held fixed", most=100)] = ()
    remains: Annotated[tuple[Remaining, ...], about("what the units still need after it, most first", most=100)] = ()
    cause: Annotated[Word | None, about("id of the finding of this kernel that explains it")] = None
    everywhere: Annotated[
        bool, about("whether it is of the run, and its kernel not its place: copies, or pauses over many kernels")
    ] = False
    cases: Annotated[Cases, about("what is said of it, by cases of the rule's wording")] = Cases()
    amounts: Annotated[tuple[Amount, ...], about("numbers that are said of it", most=100)] = ()
    labels: Annotated[tuple[Label, ...], about("names that are said of it, such as of units", most=100)] = ()

    def amount(self, name: str) -> float | None:
        """Return the value of an amount by its name."""
        return next((amount.value for amount in self.amounts if amount.name == name), None)


class Recommendation(Struct, frozen=True, kw_only=True):
    """One thing to change, in all kernels that it helps, the most worthwhile first."""

    id: Annotated[Word, about("its id in the session: the rule, and a number where that comes again")]
    rule: Annotated[Word, about("id of the rule")]
    findings: Annotated[tuple[Word, ...], about("ids of its findings, the one that gains most first")]
    kernels: Annotated[tuple[Whole, ...], about("ids of their kernels")]
    headline: Annotated[str, about("what was found in the first of them")]
    action: Annotated[str, about("what to change, in one sentence")]
    place: Annotated[Location | None, about("where, in the first of them")]
    severity: Annotated[Severity, about("of the first of them")]
    confidence: Annotated[Confidence, about("how sure the first of them is")]
    gain_total: Annotated[Gain | None, about("what it saves of the run's time; null without durations")]
    gain_after: Annotated[Gain | None, about("what it still can save once those before it in the list are done")]
    gain_kind: Annotated[GainKind | None, about("whether the gain is an upper bound")]
    held: Annotated[str | None, about("what is held fixed, where it is not an upper bound")]
    set_up: Annotated[bool, about("whether all of its kernels only set up what others use")]
    assumes: Annotated[tuple[CaseName, ...], about("names of what is held fixed", most=100)] = ()


class RunVerdict(Struct, frozen=True, kw_only=True):
    """The state of what takes the time: of the kernel that takes most of it."""

    sentence: Annotated[str, about("the state of the kernel that takes most time")] = ""
    kernel: Annotated[Whole | None, about("id of that kernel")]
    state: Annotated[RunState, about("what its state is called")]
    subject: Annotated[Word | None, about("unit or compute path that is closest to its ceiling")] = None
    ceiling: Annotated[str | None, about("the ceiling that the fraction is of")]
    fraction: Annotated[Fraction | None, about("how close it is to that ceiling")]
    bound: Annotated[Bound | None, about("whether the fraction is only a bound of it")] = None
    cause: Annotated[Word | None, about("id of the finding that the state rests on")] = None
    explains_limit: Annotated[bool, about("whether that finding is why the unit is so busy")] = False
    place: Annotated[Location | None, about("where, in the code")] = None
    run_finding: Annotated[Word | None, about("id of a finding on the run that matters more than any kernel")] = None
    case: Annotated[Word | None, about("the sentence that says the state")] = None
    notes: Annotated[tuple[str, ...], about("notes on the whole, in sentences", most=100)] = ()
    unknown: Annotated[str | None, about("what cannot be told of it, and why")] = None
    command: Annotated[str | None, about("the command that would collect what is missing")] = None


class Utilisation(Struct, frozen=True, kw_only=True):
    """FLOP of a path over time as a fraction of a ceiling of all GPUs that take part; of a step, MFU."""

    path: Annotated[Word, about("compute path of the operators")]
    fraction: Annotated[Fraction, about("of the ceiling")]
    ceiling_path: Annotated[str, about("its compute path")]
    ceiling_flop_per_s: Annotated[FlopPerSecond, about("its value, of all GPUs that take part")]
    clock_hz: Annotated[Hertz | None, about("clock that the ceiling holds at")]
    origin: Annotated[CeilingOrigin, about("origin of the ceiling")]
    source: Annotated[str, about("where the ceiling comes from")]


class OperatorFlop(Struct, frozen=True, kw_only=True):
    """FLOP of one launch that its operator asks for by the shapes of its inputs; no counter saw them.

    FP32 and FP64 have two ceilings where the kernel's name does not tell whether it runs on the tensor cores.
    """

    path: Annotated[Word, about("compute path of the operator's data type, or the one that the kernel's name tells")]
    flop: Annotated[Flop, about("operations")]
    flop_per_s: Annotated[FlopPerSecond, about("operations over the duration")]
    exact: Annotated[
        bool, about("whether the kernel has to do all of them: not in attention, which masks, nor in convolutions")
    ]
    utilisation: Annotated[
        tuple[Utilisation, ...], about("of the rated ceilings; empty where there is no spec", most=100)
    ]
    operand_bytes: Annotated[
        ByteAmount | None, about("bytes of both matrices and the result, each once; null: no matrix product")
    ]
    dram_fraction: Annotated[
        Fraction | None,
        about(
            "those bytes over the duration, of the rated DRAM bandwidth; null where it is above 1, and where the L2 "
            "cache holds all of them"
        ),
    ]


class OperatorBytes(Struct, frozen=True, kw_only=True):
    """Bytes of one launch that its operator, a point-wise one, reads and writes by the shapes of its inputs, if it
    touches each element once; no counter saw them."""

    bytes: Annotated[ByteAmount, about("of its operands and the result, each once")]
    bytes_per_s: Annotated[BytesPerSecond, about("those bytes over the duration")]
    dram_fraction: Annotated[
        Fraction | None,
        about("that of the rated DRAM bandwidth; null where it is above 1, and where the L2 cache holds all of it"),
    ]


class KernelProfile(Struct, frozen=True, kw_only=True):
    """One profiled launch, or a group of equal launches."""

    id: Annotated[Whole, about("its number in the session")]
    source: Annotated[Whole, about("index of its file among the sources")]
    device: Annotated[Whole, about("index of its GPU among the devices")]
    rank: Annotated[Whole | None, about("rank of a distributed run")]
    process: Annotated[Whole | None, about("process id")]
    stream: Annotated[Whole | None, about("id of the CUDA stream")]
    name: Annotated[str, about("function name, as recorded")]
    demangled: Annotated[str, about("demangled name with parameters")]
    label: Annotated[str, about("short name, unique in the session")]
    ranges: Annotated[tuple[str, ...], about("NVTX ranges or modules around the launch, outermost first", most=1_000)]
    grid: Annotated[Dim3 | None, about("blocks of the grid: x, y, z")]
    block: Annotated[Dim3 | None, about("threads per block: x, y, z")]
    registers_per_thread: Annotated[Whole | None, about("registers per thread")]
    shared_memory_per_block: Annotated[ByteCount | None, about("static and dynamic, without what the driver reserves")]
    launches: Annotated[Positive, about("launches that it stands for")]
    duration_s: Annotated[Seconds | None, about("of one launch; of a group, of the one that speaks for it")]
    duration_percentiles_s: Annotated[DurationSpread | None, about("how the launches of a group differ")]
    duration_source: Annotated[
        str | None,
        about(
            "what the duration was read from: counters, trace, survey, or graph-replay, which is how long ncu took to "
            "replay a whole CUDA graph"
        ),
    ]
    time_total_s: Annotated[
        Seconds | None, about("of all its launches; null: not known, or replays of whole graphs beside kernels")
    ]
    time_share: Annotated[Fraction | None, about("of the time of all kernels")]
    sm_clock_hz: Annotated[Hertz | None, about("average SM clock while it ran")]
    throttled: Annotated[bool | None, about("whether the driver lowered the clocks in more than a few samples")]
    work: Annotated[tuple[Work, ...], about("operations by compute path", most=1_000)]
    traffic: Annotated[tuple[Traffic, ...], about("bytes by memory level", most=1_000)]
    roofline: Annotated[
        tuple[RooflinePoint, ...], about("its points, by path, level and origin of the ceilings", most=1_000)
    ]
    throughput: Annotated[tuple[Throughput, ...], about("speed of light by unit", most=1_000)]
    occupancy: Annotated[Occupancy, about("resident warps")]
    stalls: Annotated[tuple[Stall, ...], about("warp states, largest first within a family", most=1_000)]
    findings: Annotated[tuple[Finding, ...], about("what the rules found, most important first", most=1_000)]
    missing: Annotated[tuple[Missing, ...], about("what is not known, and why", most=1_000)]
    waves: Annotated[
        Number | None, about("blocks of the grid over those that all SMs hold at once, by theoretical occupancy")
    ] = None
    scheduler: Annotated[Scheduler | None, about("what the warp schedulers did")] = None
    pipes: Annotated[tuple[Pipe, ...], about("how busy the execution pipes were", most=1_000)] = ()
    dram_clock_hz: Annotated[Hertz | None, about("average DRAM clock while it ran")] = None
    excerpts: Annotated[tuple[Excerpt, ...], about("its hottest code", most=1_000)] = ()
    kind: Annotated[
        Word | None, about("what it does in a language model, such as attention-decode; null: nothing tells")
    ] = None
    launch_times: Annotated[
        LaunchTimes | None, about("the launches of a group one by one; null for a single launch")
    ] = None
    counts: Annotated[
        tuple[LaunchCount, ...], about("what a launch did: instructions, requests, sectors", most=1_000)
    ] = ()
    sm_clock_source: Annotated[
        Word | None, about("what tells its SM clock: sm-cycles or gpc-cycles over the time, driver, or highest")
    ] = None
    sm_cycles_per_s: Annotated[
        Hertz | None, about("cycles counted of its SMs over the time, where that is not its SM clock")
    ] = None
    lines: Annotated[
        tuple[LineWork, ...], about("source lines with most work, in the order of files and lines", most=1_000)
    ] = ()
    lines_dropped: Annotated[Whole, about("lines of the kernel that are not among them")] = 0
    grid_size: Annotated[Whole | None, about("blocks of the grid, where its shape is not known")] = None
    block_size: Annotated[Whole | None, about("threads per block, where its shape is not known")] = None
    operator_flop: Annotated[
        OperatorFlop | None,
        about("what its operator asks for by shapes; null: no trace with shapes, or other operators"),
    ] = None
    operator_bytes: Annotated[
        OperatorBytes | None,
        about("what its point-wise operator moves by shapes; null: no trace with shapes, or other operators"),
    ] = None


class RunTotals(Struct, frozen=True, kw_only=True):
    """The totals of a run, which a session of some of its kernels keeps."""

    kernels: Annotated[Whole, about("labels with a known time")]
    launches: Annotated[Whole, about("all launches")]
    timed_launches: Annotated[Whole, about("launches with a known time")]
    timed_shapes: Annotated[Whole, about("kinds of them: of one label, configuration and ranges, in one report")]
    time_s: Annotated[Seconds, about("of all kernels")]
    main_kernels: Annotated[Whole, about("the longest labels, which take most of the time")]
    main_time_s: Annotated[Seconds, about("what they take")]


class Exclusion(Struct, frozen=True, kw_only=True):
    """Kernels that the user did not want to hear of: they are not among the kernels, and count in the run's time."""

    patterns: Annotated[
        tuple[str, ...], about("expressions and numbers that name them, as --exclude had them", most=1_000)
    ]
    kernels: Annotated[Positive, about("how many: labels, or entries where a label stays in part")]
    launches: Annotated[Positive, about("their launches")]
    untimed: Annotated[Whole, about("those of the launches without a duration")]
    time_s: Annotated[Seconds | None, about("of all of them; null where no duration is known")]
    time_share: Annotated[Fraction | None, about("of the time of all kernels")]


class StartUp(Struct, frozen=True, kw_only=True):
    """What a GPU did before the part that is judged."""

    time_s: Annotated[Seconds, about("from the first activity to that part")]
    busy_s: Annotated[Seconds, about("of it, with any activity")]


class Gaps(Struct, frozen=True, kw_only=True):
    """The pauses in which a GPU did nothing in the part that is judged, but for those that its start-up has in it."""

    count: Annotated[Whole, about("pauses")]
    total_s: Annotated[Seconds, about("time in all of them")]
    median_s: Annotated[Seconds, about("median pause")]
    longest_s: Annotated[Seconds, about("longest pause")]
    short_s: Annotated[Seconds, about("time in pauses shorter than 20 µs, but for those in graphs")]
    long_s: Annotated[Seconds, about("time in pauses of 1 ms and longer, but for those in graphs")]
    unsure_s: Annotated[Seconds, about("time in pauses after an activity without a time, which may have filled them")]
    start_up_s: Annotated[
        Seconds | None,
        about("time in other pauses, before first launches, for loading and compiling; null: not looked for"),
    ] = None
    waited_s: Annotated[
        Seconds | None,
        about("time in pauses that begin while the program waits for the GPU; null: not known"),
    ] = None
    in_graph_s: Annotated[
        Seconds | None,
        about("time in pauses between two nodes of one launch of a CUDA graph; null: not known, and counted above"),
    ] = None


class Copies(Struct, frozen=True, kw_only=True):
    """All copies of a direction and memory, or settings of memory; the bandwidth is that while they ran."""

    direction: Annotated[str, about("from where to where, or memory set")]
    count: Annotated[Whole, about("copies")]
    bytes: Annotated[ByteCount | None, about("bytes of those with a known size")]
    time_s: Annotated[Seconds | None, about("time of those with a known time")]
    bytes_per_s: Annotated[BytesPerSecond | None, about("bandwidth while they ran")]
    memory: Annotated[
        Word | None,
        about("what they read or write on the host, pageable or pinned, or unified for pages; null: not recorded"),
    ] = None
    exposed_s: Annotated[
        Seconds | None,
        about(
            "time in which no kernel ran, nor a copy that is listed before; of a program that gpuprof surveyed, from "
            "its first kernel on; null: not looked for, as of memory sets"
        ),
    ] = None


class Communication(Struct, frozen=True, kw_only=True):
    """Kernels that exchange data with other GPUs: their time, and what of it no other kernel ran beside."""

    launches: Annotated[Whole, about("launches of such kernels")]
    time_s: Annotated[Seconds, about("their time")]
    exposed_s: Annotated[Seconds, about("time in which no other kernel ran")]
    bus_bytes_per_s: Annotated[
        BytesPerSecond | None,
        about("bus bandwidth as NCCL's tests define it, waits included; null where the trace has no sizes"),
    ]
    waiting_s: Annotated[
        Seconds | None,
        about("of the exposed time, what waits for the rank that comes last; null: traces of its groups are missing"),
    ] = None
    awaited_s: Annotated[Seconds | None, about("for how long the other ranks, added up, so waited for this one")] = None
    transfer_bytes_per_s: Annotated[
        BytesPerSecond | None, about("bus bandwidth by the least time of each collective over its ranks")
    ] = None


class StripRow(Struct, frozen=True, kw_only=True):
    """When a GPU was busy with kernels of one name, with all others, with copies, or with exchange."""

    kind: Annotated[StripKind, about("what ran: kernels that compute, copies and settings of memory, or exchange")]
    kernel: Annotated[
        Whole | None, about("id of the kernel of this name that takes most time; null: all others, or no kernels")
    ]
    busy: Annotated[
        tuple[Fraction, ...],
        about("of the time of each bin; kernels of several names at once share that time", most=10_000),
    ]


class LongPause(Struct, frozen=True, kw_only=True):
    """One of the longest pauses of a GPU."""

    start_s: Annotated[Seconds, about("since the part that is judged began")]
    length_s: Annotated[Seconds, about("how long it did nothing")]
    cause: Annotated[PauseCause, about("as far as the trace tells")]
    before: Annotated[str, about('what ended it: "kernel", the direction of copies, or "memory set"')]


class TimeStrip(Struct, frozen=True, kw_only=True):
    """What a GPU did when, in bins of equal length over the part that is judged, to be drawn."""

    bin_s: Annotated[Seconds, about("length of a bin")]
    rows: Annotated[tuple[StripRow, ...], about("the kernels with most time of the run first", most=1_000)]
    pauses: Annotated[tuple[LongPause, ...], about("the longest, in the order of time", most=1_000)]


class DeviceTimeline(Struct, frozen=True, kw_only=True):
    """What a GPU did in the part of the trace that is judged."""

    source: Annotated[Whole, about("index of its file among the sources")]
    ordinal: Annotated[Whole, about("tells the GPUs of a source apart, equal ones too, from 0")]
    device: Annotated[Whole, about("kind of GPU, as of kernels")]
    span_s: Annotated[Seconds, about("from the first step, or else its first activity, to its last activity")]
    busy_s: Annotated[Seconds, about("with any activity")]
    kernel_s: Annotated[Seconds, about("with a kernel")]
    gaps: Annotated[Gaps | None, about("its pauses")]
    copies: Annotated[tuple[Copies, ...], about("by direction and memory", most=1_000)]
    communication: Annotated[Communication | None, about("exchange with other GPUs")]
    untimed: Annotated[Whole, about("activities without a time, which count as instants")]
    strip: Annotated[TimeStrip | None, about("what it did when; null: nothing took time, or an old session")] = None
    judged: Annotated[
        JudgedPart | None,
        about(
            "that part: all, what the steps launched, or what repeats after a start-up; null: all, in an old session, "
            "which may begin with a start-up"
        ),
    ] = None
    start_up: Annotated[StartUp | None, about("what came before that part; null: nothing")] = None
    after_s: Annotated[Seconds, about("from the end of that part to the last activity")] = 0.0


class StepTimes(Struct, frozen=True, kw_only=True):
    """A step of the program that comes again and again, and how long it takes."""

    source: Annotated[Whole, about("index of its file among the sources")]
    name: Annotated[str, about("name of the step")]
    count: Annotated[Whole, about("how often it came")]
    threads: Annotated[Whole, about("threads that ran it")]
    duration_percentiles_s: Annotated[DurationSpread, about("how long it took")]
    per_s: Annotated[
        Number | None, about("started by a thread in a second, the mean of threads; null where none has two")
    ]
    loop: Annotated[bool, about("whether the program's work is counted by it: one step of each source")]


class Wait(Struct, frozen=True, kw_only=True):
    """For how long a GPU was idle, in all, just before one thing that it did."""

    source: Annotated[Whole, about("index of its file among the sources")]
    ordinal: Annotated[Whole, about("the GPU within the source")]
    before: Annotated[str, about('"kernel", the direction of copies, or "memory set"')]
    kernel: Annotated[
        Whole | None, about("id of the kernel, or of the one that copies mostly waited for; null: none came after them")
    ]
    idle_s: Annotated[Seconds, about("idle time")]
    pauses: Annotated[Whole, about("pauses")]


class PathFlop(Struct, frozen=True):
    """FLOP that the shapes of operators' inputs ask for, by the path of their data type; FP32 can also run as TF32."""

    path: Annotated[Word, about('compute path; "other" for a data type that none is named for, such as complex')]
    flop: Annotated[Flop, about("operations")]
    calls: Annotated[Whole, about("calls of the operators")]


class Uncounted(Struct, frozen=True, kw_only=True):
    """Calls of an operator whose FLOP are not known, or launches of kernels that multiply matrices outside of those
    that are counted."""

    name: Annotated[str, about("operator or kernel")]
    count: Annotated[Whole, about("calls or launches")]
    time_s: Annotated[Seconds, about("time of their kernels")]
    why: Annotated[str, about("why they are not counted")]


class StepFlop(Struct, frozen=True, kw_only=True):
    """The step of median time of the `count` that a loop has: its time, its FLOP and what of the ceilings that is."""

    count: Annotated[Whole, about("steps of the loop")]
    time_s: Annotated[Seconds, about("the step's time, or that of the GPU for what it launched where that is longer")]
    flop: Annotated[tuple[PathFlop, ...], about("operations of the step", most=100)]
    flop_per_s: Annotated[FlopPerSecond, about("operations over the time")]
    min_flop: Annotated[Flop, about("least of a step")]
    max_flop: Annotated[Flop, about("most of a step")]
    gpus: Annotated[Whole, about("GPUs that take part")]
    utilisation: Annotated[tuple[Utilisation, ...], about("by path; fractions of several paths add up", most=100)]


class ModelFlop(Struct, frozen=True, kw_only=True):
    """What the operators of a source ask of its GPUs. Where operators are uncounted, all FLOP are at least what is
    said."""

    source: Annotated[Whole, about("index of its file among the sources")]
    total: Annotated[Annotated[tuple[PathFlop, ...], Meta(max_length=100)] | None, about("of the whole trace")]
    step: Annotated[StepFlop | None, about("of a step")]
    uncounted: Annotated[tuple[Uncounted, ...], about("what is not counted", most=10_000)]
    uncounted_share: Annotated[Fraction | None, about("what they take of the kernels' time")]
    missing: Annotated[tuple[Missing, ...], about("what is not known, and why", most=1_000)]


class MeasuredFlop(Struct, frozen=True):
    """FLOP of a path that counters saw in all launches of the kernels they were collected for."""

    path: Annotated[Word, about("compute path")]
    flop: Annotated[Flop, about("operations")]
    time_share: Annotated[Fraction | None, about("of the time of all kernels, what those take")]


class Timeline(Struct, frozen=True, kw_only=True):
    """What traces tell beyond the time of each kernel."""

    devices: Annotated[tuple[DeviceTimeline, ...], about("what each GPU did", most=10_000)]
    steps: Annotated[tuple[StepTimes, ...], about("steps of the program", most=10_000)]
    waits: Annotated[tuple[Wait, ...], about("what the GPUs were idle before, longest first")]
    rank: Annotated[Whole | None, about("rank of the only source")]
    ranks: Annotated[Whole | None, about("ranks of the distributed run")]
    peak_memory_bytes: Annotated[ByteCount | None, about("most that was allocated on a GPU")]
    source_ranks: Annotated[tuple[Whole | None, ...], about("rank of each source", most=10_000)]
    model_flop: Annotated[tuple[ModelFlop, ...], about("sources whose operators multiply matrices", most=10_000)] = ()
    measured_flop: Annotated[tuple[MeasuredFlop, ...], about("where counters were collected too", most=100)] = ()


class Session(Struct, frozen=True, kw_only=True):
    """Everything that the presenters show."""

    schema_version: Annotated[SchemaVersion, about("version of this contract")]
    gpuprof_version: Annotated[str, about("version of the gpuprof that wrote it")]
    sources: Annotated[tuple[Source, ...], about("files that it was made from", most=10_000)]
    devices: Annotated[tuple[Device, ...], about("GPUs", most=1_000)]
    ceilings: Annotated[tuple[Ceiling, ...], about("limits that percentages refer to", most=1_000)]
    kernels: Annotated[tuple[KernelProfile, ...], about("launches, or groups of equal launches")]
    timeline: Annotated[Timeline | None, about("what traces tell; null without one")] = None
    verdict: Annotated[RunVerdict | None, about("the state of the run; null before it is judged")] = None
    recommendations: Annotated[tuple[Recommendation, ...], about("what to change, the most worthwhile first")] = ()
    run: Annotated[RunTotals | None, about("the whole run's totals; null where the kernels are all of it")] = None
    denominators: Annotated[
        tuple[Denominator, ...], about("facts of the specs that could be checked against the reports", most=1_000)
    ] = ()
    excluded: Annotated[Exclusion | None, about("kernels that were left out on request; null: none")] = None

    def numbered(self, number: int | None) -> KernelProfile | None:
        """Return the kernel of that number; None if there is none."""
        return next((kernel for kernel in self.kernels if kernel.id == number), None)

    @property
    def only_times(self) -> bool:
        """Tell whether it is of a timeline alone, without counters of any kernel."""
        return self.timeline is not None and all(
            source.is_survey or kind_named(source.kind).is_trace for source in self.sources
        )
