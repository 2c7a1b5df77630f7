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
    LateCause,
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
from gpuprof.model.kernel_names import unnumbered
from gpuprof.model.recorded import Dim3, GpuSamples, Missing
from gpuprof.model.sources import SURVEY_MARK, SourceKindName, kind_named

SchemaVersion = Literal[3]
SCHEMA_VERSION: SchemaVersion = 3


class Source(Struct, frozen=True, kw_only=True):
    """A file that the session was made from."""

    file: Annotated[str, about("its name; the path as it was given only with --keep-private")]
    sha256: Annotated[str, about("hash of its bytes")]
    kind: Annotated[SourceKindName, about("kind of file; a survey only times kernels that another source counts")]
    tool: Annotated[str, about("program that wrote it")]
    tool_version: Annotated[str | None, about("version of that program")]
    clock_control: Annotated[str | None, about("ncu's --clock-control: whether it locked the clocks")]
    cache_control: Annotated[str | None, about("ncu's --cache-control: whether it flushed the caches")]
    command: Annotated[str | None, about("command line: the program and options of ncu; … for anything private")]
    driver: Annotated[str | None, about("version of the GPU's driver")] = None
    created_s: Annotated[Moment | None, about("when it was recorded, since 1970")] = None
    warnings: Annotated[tuple[str, ...], about("what could not be read, in sentences", most=10_000)] = ()
    samples: Annotated[
        tuple[GpuSamples, ...], about("clocks, power and temperature while the program ran", most=1_000)
    ] = ()

    @property
    def is_survey(self) -> bool:
        """Return whether it only timed the kernels that another source counts."""
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
    clock_hz: Annotated[Hertz | None, about("clock to which the value refers")]
    origin: Annotated[CeilingOrigin, about("datasheet, this kernel's clock, or micro-kernels")]
    source: Annotated[str, about("source of the value")]


class Denominator(Struct, frozen=True, kw_only=True):
    """A specified value that percentages depend on, and the value that the report implies without the spec.

    They agree if they differ by at most the tolerance.
    """

    device: Annotated[Whole, about("the device that it is of")]
    unit: Annotated[str, about("what it is a peak of")]
    fact: Annotated[str, about("name of the value in the spec")]
    implied: Annotated[Number, about("value that the report implies")]
    specified: Annotated[Number, about("value in the spec, at the same clock")]
    measure: Annotated[str, about("unit of both; empty for a count")]
    tolerance: Annotated[Fraction, about("allowed difference: 2 % plus the rounding in the report")]
    implied_by: Annotated[str, about("metrics that imply the value")]
    specified_by: Annotated[str, about("name of the spec and of the value in it")]
    disagreement: Annotated[Disagreement | None, about("likely reason for the difference; null if they agree")] = None
    reason: Annotated[str | None, about("the reason in words")] = None


class Work(Struct, frozen=True):
    """Floating-point (or integer) operations of one path. `flop` is None if only the rate was recorded.

    `certificate` says how well its counters are verified: "certified" (by kernels of known work), "checked" (another
    count of the same kernels agreed) or "none" (not verified). None: unknown.
    """

    path: Annotated[Word, about("compute path, such as fp32 or tensor.bf16")]
    flop: Annotated[Flop | None, about("operations of one launch")]
    flop_per_s: Annotated[FlopPerSecond | None, about("operations over the duration")]
    basis: Annotated[Basis, about("how it was obtained")]
    certificate: Annotated[Trust | None, about("how well its counters are verified")] = None


class Traffic(Struct, frozen=True):
    """Bytes at one memory level, and the counters that define them. `bytes` is None if only the rate was recorded.

    `hit_rate` is the fraction of sector lookups that hit; at L2 every write counts as a hit. `certificate` as for work.
    """

    level: Annotated[Level, about("memory level")]
    bytes: Annotated[ByteAmount | None, about("bytes of one launch")]
    bytes_per_s: Annotated[BytesPerSecond | None, about("bytes over the duration")]
    definition: Annotated[str, about("the counters, and what they count")]
    basis: Annotated[Basis, about("how it was obtained")]
    hit_rate: Annotated[Fraction | None, about("share of sector lookups that hit")] = None
    certificate: Annotated[Trust | None, about("how well its counters are verified")] = None


class RooflinePoint(Struct, frozen=True, kw_only=True):
    """A kernel under one roofline: arithmetic intensity, and fraction of the rate attainable at that intensity."""

    path: Annotated[Word, about("compute path")]
    level: Annotated[Level, about("memory level")]
    intensity: Annotated[Intensity, about("arithmetic intensity: FLOP of the path per byte at the level")]
    flop_per_s: Annotated[DrawnFlopPerSecond, about("rate that the kernel reached")]
    roof_flop_per_s: Annotated[DrawnFlopPerSecond, about("rate that the roofline allows at this intensity")]
    fraction_of_roof: Annotated[Fraction, about("reached rate ÷ allowed rate")]
    ceiling: Annotated[CeilingOrigin, about("origin of the ceilings that form the roofline")]
    bound: Annotated[RooflineBound, about("side of the ridge point: memory is left of it, compute right")]


class Throughput(Struct, frozen=True):
    """Nsight Compute's speed of light of one unit: the utilization of its busiest part, over all elapsed cycles.

    `definition` is set if the report has only another fraction, such as "of active cycles". The fraction is only a
    bound if not all parts of the unit were recorded, or if its metric also counts other units.
    """

    unit: Annotated[ThroughputUnit, about("hardware unit; memory: caches, their links and DRAM together")]
    fraction: Annotated[Fraction, about("of the peak")]
    definition: Annotated[str | None, about("what the fraction refers to, if not to all elapsed cycles")] = None
    bound: Annotated[Bound | None, about("whether it is only a lower or an upper bound")] = None

    @property
    def is_exact(self) -> bool:
        """Return whether the fraction is of all elapsed cycles, and not only a bound."""
        return self.definition is None and self.bound is None

    @property
    def note(self) -> str:
        """Return what qualifies the fraction: "of active cycles", "or more"; empty if nothing does."""
        words = {"at-least": "or more", "at-most": "or less"}
        return self.definition or (words[self.bound] if self.bound is not None else "")


class Occupancy(Struct, frozen=True):
    """Resident warps as a fraction of the SM's warp slots, and what limits them."""

    theoretical: Annotated[Fraction | None, about("what block size, registers and shared memory allow")]
    achieved: Annotated[Fraction | None, about("average over the cycles in which an SM had warps")]
    limiters: Annotated[tuple[Word, ...], about("what limits theoretical occupancy", most=100)]


class Stall(Struct, frozen=True):
    """A state of resident warps: a stall reason, or `selected` or `not_selected` for warps that could issue.

    `cycles_per_issue` are warp cycles in this state per issued instruction (counter family only).
    """

    reason: Annotated[Word, about("Nsight Compute's name of the state")]
    share: Annotated[Fraction, about("of all warp states of the family")]
    cycles_per_issue: Annotated[Number | None, about("warp cycles per issued instruction")]
    family: Annotated[StallFamily, about("counted, sampled, or sampled in cycles without an issue")]


class Scheduler(Struct, frozen=True, kw_only=True):
    """Averages per warp scheduler and active cycle.

    `issue_active` is per elapsed cycle if the report has nothing else.
    """

    issue_active: Annotated[Fraction | None, about("cycles with an issue")]
    eligible_warps: Annotated[Number | None, about("eligible warps: ready to issue")]
    active_warps: Annotated[Number | None, about("resident warps")]
    warp_slots: Annotated[Number | None, about("warp slots of a scheduler")]


class Pipe(Struct, frozen=True):
    """Utilization of an execution pipe of the SM.

    The metric says whether it is over elapsed or active cycles, and whether it counts cycles or instructions.
    """

    name: Annotated[str, about("such as fma, alu or tensor")]
    fraction: Annotated[Fraction, about("of the peak of its metric")]
    metric: Annotated[str, about("metric that gives it")]


class DurationSpread(Struct, frozen=True, kw_only=True):
    """How the launches of a group differ in duration."""

    min: Annotated[Seconds, about("shortest")]
    p50: Annotated[Seconds, about("median; all percentiles are by nearest rank")]
    p95: Annotated[Seconds, about("95th percentile")]
    p99: Annotated[Seconds, about("99th percentile")]
    max: Annotated[Seconds, about("longest")]
    count: Annotated[Whole, about("number of known durations")]


class Averages(Struct, frozen=True, kw_only=True):
    """The launches that a source has only averages over, such as a summary of ncu."""

    min_s: Annotated[Seconds | None, about("duration of the shortest launch")]
    max_s: Annotated[Seconds | None, about("duration of the longest launch")]


class LaunchTimes(Struct, frozen=True, kw_only=True):
    """Durations of the launches of a group, in order, from which comparisons estimate the noise.

    Of more than 1,000 launches, these are spread evenly over all, without a period; `dropped` counts the others.
    """

    durations_s: Annotated[tuple[Seconds, ...], about("duration of each launch that is kept", most=1_000)]
    sm_clocks_hz: Annotated[
        tuple[Hertz, ...], about("average SM clock of each; empty unless it is known for all", most=1_000)
    ] = ()
    dropped: Annotated[Whole, about("launches with a known duration that are not kept")] = 0


class LaunchCount(Struct, frozen=True, kw_only=True):
    """A count of a launch's work that the same code on the same data reproduces, exactly or nearly.

    In a group, `value` is from the representative launch; `low` and `high` are the minimum and maximum of all counted
    launches. `opcode.MUFU` counts warp instructions of that opcode, with any modifiers. If opcodes were counted, one
    that is missing was not executed. The list of counters has the metrics of each name, such as `count.instructions`.
    Shared-memory wavefronts include shuffles and a few per block. Numbers that a text export rounded are left out.
    """

    name: Annotated[Word, about("instructions, thread-instructions, l2-sectors … or opcode.NAME")]
    value: Annotated[Number, about("of one launch")]
    unit: Annotated[Word, about("unit of the count")]
    metric: Annotated[str, about("metrics that give it; only counts by the same metrics can be compared")]
    low: Annotated[Number, about("minimum of the launches")]
    high: Annotated[Number, about("maximum of the launches")]


class CollectedCounter(Struct, frozen=True):
    """A counter of a launch as recorded, in a base unit; percentages stay percent."""

    name: Annotated[str, about("Nsight Compute's name of the metric")]
    value: Annotated[Number, about("its value")]
    unit: Annotated[str, about("its unit; empty for a plain number")]


class Answer(Struct, frozen=True, kw_only=True):
    """What a few counters answer if a launch has no others: that it does not have a fault that they count.

    If it has the fault, a finding says so.
    """

    rule: Annotated[Word, about("id of the rule that reports the fault")]
    text: Annotated[str, about("the answer in a sentence")] = ""
    cases: Annotated[tuple[CaseName, ...], about("cases of the wording that describe it", most=100)]
    amounts: Annotated[tuple[Amount, ...], about("numbers in the sentence", most=100)] = ()
    labels: Annotated[tuple[Label, ...], about("names in the sentence", most=100)] = ()


class LineWork(Struct, frozen=True, kw_only=True):
    """Work of the instructions of a source line in a launch.

    Local memory accesses are LDL and STL instructions. If the report has no machine code, they are the instructions for
    which ncu expects local memory sectors. They are also zero if the kernel moved no local memory sectors.
    """

    file: Annotated[str, about("source file")]
    number: Annotated[Whole, about("line number in it")]
    text: Annotated[str, about("the code, at most 200 characters; empty if the report does not have it")]
    instructions: Annotated[Number | None, about("warp instructions executed")]
    local: Annotated[Number | None, about("warp instructions executed that load or store local memory")]
    samples: Annotated[Number | None, about("warp samples at this line")]


class StallShare(Struct, frozen=True):
    """A stall reason's share of the samples of one line."""

    reason: Annotated[Word, about("name of the state")]
    share: Annotated[Fraction, about("of the samples of the line")]


class CodeLine(Struct, frozen=True, kw_only=True):
    """A line of source (`number`) or an instruction (`pc`)."""

    number: Annotated[Whole | None, about("line number in the source file")]
    pc: Annotated[Whole | None, about("address of the instruction; in compiled code, its offset in the kernel")]
    text: Annotated[str, about("the code; empty if the report has only the line number")]
    share: Annotated[Fraction, about("of the whole kernel's weight")]
    stalls: Annotated[tuple[StallShare, ...], about("its main stall reasons", most=100)]


class Excerpt(Struct, frozen=True, kw_only=True):
    """Hot lines in order, with neighbouring lines if the report has their text."""

    language: Annotated[Language, about("source code or machine code")]
    file: Annotated[str | None, about("source file")]
    weight: Annotated[Word, about("what the shares count, such as samples")]
    lines: Annotated[tuple[CodeLine, ...], about("the lines shown", most=1_000)]

    @property
    def has_text(self) -> bool:
        """Return whether it has text, and not only line numbers or addresses."""
        return any(line.text for line in self.lines)


class Evidence(Struct, frozen=True):
    """A value that a finding rests on."""

    metric: Annotated[str, about("metric that gives it; empty if it is computed from several")]
    value: Annotated[Number, about("the value, in its unit")]
    unit: Annotated[str, about("unit of value and threshold")]
    threshold: Annotated[Number | None, about("what the value is compared with; null for context")]
    meaning: Annotated[str, about("what the value is, in words")] = ""
    role: Annotated[Role, about("name of the value, or of its threshold, in the rule's wording file")] = ""
    of: Annotated[tuple[Word, ...], about("pipes, stall reasons or other names that it refers to", most=100)] = ()


class Location(Struct, frozen=True, kw_only=True):
    """The source line or instruction with the largest share of what a finding counts."""

    file: Annotated[str | None, about("source file")]
    line: Annotated[Whole | None, about("line number in it")]
    pc: Annotated[Whole | None, about("address of the instruction; in compiled code, its offset in the kernel")]
    sass: Annotated[str | None, about("the instruction")]
    share: Annotated[Fraction | None, about("its share of what the finding counts")] = None
    loops: Annotated[Whole | None, about("number of loops around it, if known from the code")] = None


class Remaining(Struct, frozen=True):
    """The share of a kernel's time that a unit still needs after a fix."""

    unit: Annotated[Word, about("memory level, pipe, issue slots, all of the SM, or the launch itself")]
    fraction: Annotated[Fraction, about("of the kernel's time")]


class Finding(Struct, frozen=True, kw_only=True):
    """Something that a rule found. Gains are fractions of time; None if unknown.

    A gain of kind `bound` is an upper bound: `remains` lists what the other units still need. One of kind `conditional`
    assumes that everything in `assumes` stays the same. Fixing the `cause` of a finding also fixes the finding.
    """

    id: Annotated[Word, about("id in the session: kernel, rule, and a number if the rule has several")] = ""
    rule: Annotated[Word, about("id of the rule")]
    severity: Annotated[Severity, about("how much a fix saves; info: nothing to fix")]
    confidence: Annotated[Confidence, about("how sure it is")]
    subject: Annotated[Word | None, about("unit, pipe, memory level, limiter or resource that it is about")] = None
    headline: Annotated[str, about("what was found")] = ""
    why: Annotated[str, about("why it costs time")] = ""
    evidence: Annotated[tuple[Evidence, ...], about("values that it rests on", most=100)]
    action: Annotated[str, about("what to change, in one sentence")] = ""
    advice: Annotated[str, about("what to change, and how")] = ""
    place: Annotated[Location | None, about("source line or instruction")]
    places: Annotated[tuple[Location, ...], about("all instructions, if known from the code", most=100)] = ()
    more_places: Annotated[Whole, about("number of instructions that are not listed")] = 0
    gain_kernel: Annotated[Gain | None, about("share of the kernel's time that a fix saves")]
    gain_total: Annotated[Gain | None, about("share of the run's time that a fix saves")]
    gain_kind: Annotated[GainKind | None, about("whether the gain is an upper bound; null without a gain")] = None
    held: Annotated[str | None, about("what the gain assumes, in words; null for an upper bound")] = None
    assumes: Annotated[tuple[CaseName, ...], about("what the gain assumes, by name", most=100)] = ()
    remains: Annotated[tuple[Remaining, ...], about("needs of units after the fix, largest first", most=100)] = ()
    cause: Annotated[Word | None, about("id of the finding of the same kernel that explains it")] = None
    everywhere: Annotated[
        bool, about("whether it concerns the whole run, not this kernel: copies, or pauses around many kernels")
    ] = False
    cases: Annotated[Cases, about("cases of the rule's wording file that describe it")] = Cases()
    amounts: Annotated[tuple[Amount, ...], about("numbers in its sentences", most=100)] = ()
    labels: Annotated[tuple[Label, ...], about("names in its sentences, such as units", most=100)] = ()

    @property
    def loops(self) -> int:
        """Return the number of loops around its place; 0 if it is in none, or if that is not known."""
        return self.place.loops or 0 if self.place is not None else 0

    def amount(self, name: str) -> float | None:
        """Return the value of an amount by its name."""
        return next((amount.value for amount in self.amounts if amount.name == name), None)


class Recommendation(Struct, frozen=True, kw_only=True):
    """One change, and all kernels that it helps, those with the largest gain first."""

    id: Annotated[Word, about("id in the session: the rule, and a number if the rule has several")]
    rule: Annotated[Word, about("id of the rule")]
    findings: Annotated[tuple[Word, ...], about("ids of its findings, largest gain first")]
    kernels: Annotated[tuple[Whole, ...], about("ids of their kernels")]
    headline: Annotated[str, about("headline of the first finding")]
    action: Annotated[str, about("what to change, in one sentence")]
    place: Annotated[Location | None, about("place of the first finding")]
    severity: Annotated[Severity, about("severity of the first finding")]
    confidence: Annotated[Confidence, about("confidence of the first finding")]
    gain_total: Annotated[Gain | None, about("share of the run's time that it saves; null without durations")]
    gain_after: Annotated[Gain | None, about("share that it still saves after the recommendations before it")]
    gain_kind: Annotated[GainKind | None, about("whether the gain is an upper bound")]
    held: Annotated[str | None, about("what the gain assumes, in words; null for an upper bound")]
    set_up: Annotated[bool, about("whether all of its kernels only set up data for others")]
    assumes: Annotated[tuple[CaseName, ...], about("what the gain assumes, by name", most=100)] = ()


class RunVerdict(Struct, frozen=True, kw_only=True):
    """What limits the run: the state of the kernel with most time."""

    sentence: Annotated[str, about("the verdict in words")] = ""
    kernel: Annotated[Whole | None, about("id of the kernel with most time")]
    state: Annotated[RunState, about("state of that kernel")]
    subject: Annotated[Word | None, about("unit or compute path that is closest to its ceiling")] = None
    ceiling: Annotated[str | None, about("ceiling that the fraction refers to")]
    fraction: Annotated[Fraction | None, about("fraction of the ceiling")]
    bound: Annotated[Bound | None, about("whether the fraction is only a bound")] = None
    cause: Annotated[Word | None, about("id of the finding that explains the state")] = None
    explains_limit: Annotated[bool, about("whether that finding is why the unit is busy")] = False
    place: Annotated[Location | None, about("source line or instruction of the cause")] = None
    run_finding: Annotated[Word | None, about("id of a finding on the run that outweighs every kernel")] = None
    case: Annotated[Word | None, about("name of the sentence that describes the state")] = None
    notes: Annotated[tuple[str, ...], about("notes on the session, in sentences", most=100)] = ()
    unknown: Annotated[str | None, about("what is unknown, and why")] = None
    command: Annotated[str | None, about("command that collects what is missing")] = None


class Utilisation(Struct, frozen=True, kw_only=True):
    """FLOP/s of a path as a fraction of the ceiling of all GPUs that take part; for a step, this is MFU."""

    path: Annotated[Word, about("compute path of the operators")]
    fraction: Annotated[Fraction, about("of the ceiling")]
    ceiling_path: Annotated[str, about("compute path of the ceiling")]
    ceiling_flop_per_s: Annotated[FlopPerSecond, about("value of the ceiling, summed over the GPUs that take part")]
    clock_hz: Annotated[Hertz | None, about("clock to which the ceiling refers")]
    origin: Annotated[CeilingOrigin, about("origin of the ceiling")]
    source: Annotated[str, about("source of the ceiling")]


class OperatorFlop(Struct, frozen=True, kw_only=True):
    """FLOP of one launch, computed from the shapes of its operator's inputs, not counted.

    FP32 and FP64 have two ceilings if the kernel's name does not show whether it uses tensor cores.
    """

    path: Annotated[Word, about("compute path of the operator's data type, or the one in the kernel's name")]
    flop: Annotated[Flop, about("operations")]
    flop_per_s: Annotated[FlopPerSecond, about("operations over the duration")]
    exact: Annotated[
        bool, about("whether the kernel must do all of them; not so for masked attention and for convolutions")
    ]
    utilisation: Annotated[
        tuple[Utilisation, ...],
        about("fractions of the rated ceilings, also of half if that may be masked; empty without a spec", most=100),
    ]
    operand_bytes: Annotated[
        ByteAmount | None, about("bytes of both matrices and the result, each once; null: no matrix product")
    ]
    dram_fraction: Annotated[
        Fraction | None,
        about("those bytes per second, of the rated DRAM bandwidth; null if above 1, or if all of them fit in L2"),
    ]
    causal: Annotated[bool, about("whether only half of attention's FLOP count: a causal mask hides the rest")] = False
    is_part: Annotated[bool, about("whether other kernels do a part of the operator, too; its FLOP are by time")] = (
        False
    )


class OperatorBytes(Struct, frozen=True, kw_only=True):
    """Bytes of one launch of a point-wise operator that touches each element once, by the shapes of its inputs."""

    bytes: Annotated[ByteAmount, about("bytes of its operands and its result, each once")]
    bytes_per_s: Annotated[BytesPerSecond, about("those bytes over the duration")]
    dram_fraction: Annotated[
        Fraction | None,
        about("that rate, of the rated DRAM bandwidth; null if above 1, or if all of the bytes fit in L2"),
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
    launches: Annotated[Positive, about("number of launches in the group")]
    duration_s: Annotated[Seconds | None, about("duration of one launch; in a group, of the representative launch")]
    duration_percentiles_s: Annotated[DurationSpread | None, about("how the durations of a group differ")]
    duration_source: Annotated[
        str | None,
        about(
            "source of the duration: counters, trace, survey, or graph-replay, the time in which ncu replayed a whole "
            "CUDA graph"
        ),
    ]
    time_total_s: Annotated[
        Seconds | None, about("time of all its launches; null: unknown, or replays of whole graphs beside kernels")
    ]
    time_share: Annotated[Fraction | None, about("share of the time of all kernels")]
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
    missing: Annotated[tuple[Missing, ...], about("what is unknown, and why", most=1_000)]
    waves: Annotated[
        Number | None, about("blocks of the grid ÷ blocks that all SMs hold at once, by theoretical occupancy")
    ] = None
    scheduler: Annotated[Scheduler | None, about("averages of the warp schedulers")] = None
    pipes: Annotated[tuple[Pipe, ...], about("how busy the execution pipes were", most=1_000)] = ()
    dram_clock_hz: Annotated[Hertz | None, about("average DRAM clock while it ran")] = None
    excerpts: Annotated[tuple[Excerpt, ...], about("its hottest code", most=1_000)] = ()
    kind: Annotated[Word | None, about("role in a language model, such as attention-decode; null: unknown")] = None
    launch_times: Annotated[
        LaunchTimes | None, about("durations of the launches of a group; null for a single launch")
    ] = None
    counts: Annotated[
        tuple[LaunchCount, ...], about("counts of a launch's work: instructions, requests, sectors", most=1_000)
    ] = ()
    sm_clock_source: Annotated[
        Word | None, about("source of its SM clock: sm-cycles or gpc-cycles over the time, driver, or highest")
    ] = None
    sm_cycles_per_s: Annotated[Hertz | None, about("SM cycles over the time, if not its SM clock")] = None
    lines: Annotated[
        tuple[LineWork, ...], about("source lines with most work, in the order of files and lines", most=1_000)
    ] = ()
    lines_dropped: Annotated[Whole, about("lines of the kernel that are left out")] = 0
    grid_size: Annotated[Whole | None, about("blocks of the grid, if its shape is unknown")] = None
    block_size: Annotated[Whole | None, about("threads per block, if its shape is unknown")] = None
    shared_memory_of_driver: Annotated[
        ByteCount | None, about("shared memory per block that the driver reserves beside that; null: unknown")
    ] = None
    collected: Annotated[
        tuple[CollectedCounter, ...],
        about("counters that nothing else here shows; empty if there are more than 100", most=1_000),
    ] = ()
    collected_total: Annotated[Whole, about("how many such counters the report has")] = 0
    averages: Annotated[
        Averages | None, about("set if its figures are averages over its launches, and not those of one launch")
    ] = None
    answers: Annotated[
        tuple[Answer, ...], about("answers of a few counters; empty if the report has more", most=100)
    ] = ()
    operator_flop: Annotated[
        OperatorFlop | None,
        about("FLOP by the shapes of its operator's inputs; null: no shapes, or another operator"),
    ] = None
    operator_bytes: Annotated[
        OperatorBytes | None,
        about("bytes by the shapes of its point-wise operator; null: no shapes, or another operator"),
    ] = None
    function: Annotated[
        str,
        about(
            "short name of its function, if the label names what launched it, or which of several like it; else empty"
        ),
    ] = ""

    @property
    def own_flop(self) -> OperatorFlop | None:
        """Return the FLOP by the shapes of its operator if it does all of them."""
        return self.operator_flop if self.operator_flop is not None and not self.operator_flop.is_part else None

    @property
    def function_name(self) -> str:
        """Return the short name of its function, which it shares with all launches of that in a session."""
        return self.function or self.label

    @property
    def numbered_name(self) -> str:
        """Return that name with the number that a compiler gave the kernel, if it has one and the name lacks it."""
        head, number = unnumbered(self.demangled)
        if number.removeprefix("_") in ("", *self.function_name.split("_")):
            return self.function_name
        return self.function_name + self.demangled.removeprefix(head)


class RunTotals(Struct, frozen=True, kw_only=True):
    """Totals of a whole run, for a session that has only some of its kernels."""

    kernels: Annotated[Whole, about("number of functions with a known time")]
    launches: Annotated[Whole, about("number of launches")]
    timed_launches: Annotated[Whole, about("launches with a known time")]
    timed_shapes: Annotated[
        Whole, about("distinct functions with launch configuration, per GPU; all ranks count as one")
    ]
    time_s: Annotated[Seconds, about("time of all kernels")]
    main_kernels: Annotated[Whole, about("number of the functions that take most of the time")]
    main_time_s: Annotated[Seconds, about("time of those functions")]


class Exclusion(Struct, frozen=True, kw_only=True):
    """Kernels left out by --exclude: not among the kernels, but part of the run's time."""

    patterns: Annotated[tuple[str, ...], about("values of --exclude", most=1_000)]
    kernels: Annotated[Positive, about("number of functions left out, or of entries if part of a function stays")]
    launches: Annotated[Positive, about("number of their launches")]
    untimed: Annotated[Whole, about("launches among them without a duration")]
    time_s: Annotated[Seconds | None, about("time of those launches; null if no duration is known")]
    time_share: Annotated[Fraction | None, about("share of the time of all kernels")]


class LeftOut(Struct, frozen=True, kw_only=True):
    """Activity of a GPU outside of the part that is judged."""

    time_s: Annotated[Seconds, about("how long it took")]
    busy_s: Annotated[Seconds, about("time with any activity")]
    launches: Annotated[Whole | None, about("kernels that began in it; null: not counted")] = None
    steps: Annotated[Whole, about("steps of the program in it, if they are left out as a warm-up")] = 0


class OperatorWait(Struct, frozen=True, kw_only=True):
    """An operator of the framework in which the program waited for the GPU, and the pauses that began meanwhile."""

    operator: Annotated[str, about('the outermost operator around the call: "aten::item"')]
    pauses: Annotated[Whole, about("their number")]
    time_s: Annotated[Seconds, about("their time")]


class Gaps(Struct, frozen=True, kw_only=True):
    """Pauses of a GPU in the part that is judged, without those of a start-up inside it."""

    count: Annotated[Whole, about("number of pauses")]
    total_s: Annotated[Seconds, about("time in all of them")]
    median_s: Annotated[Seconds, about("median pause")]
    longest_s: Annotated[Seconds, about("longest pause")]
    short_s: Annotated[Seconds, about("time in pauses shorter than 20 µs, without those inside graphs")]
    long_s: Annotated[Seconds, about("time in pauses of 1 ms and longer, without those inside graphs")]
    unsure_s: Annotated[
        Seconds, about("time in pauses after an activity of unknown duration, which may have filled them")
    ]
    start_up_s: Annotated[
        Seconds | None,
        about("time in other pauses, before first launches, for loading and compiling; null: not analysed"),
    ] = None
    waited_s: Annotated[
        Seconds | None,
        about("time in pauses that begin while the program waits for the GPU, up to 50 µs after it; null: unknown"),
    ] = None
    after_waits_s: Annotated[Seconds, about("time in those pauses after that")] = 0.0
    in_graph_s: Annotated[
        Seconds | None,
        about("time in pauses between nodes of one CUDA graph launch; null: unknown, and counted above"),
    ] = None
    queued_s: Annotated[
        Seconds,
        about("time in pauses, outside graphs, after the launch of what ends them, if that is 20 µs or more"),
    ] = 0.0
    profiler_s: Annotated[
        Seconds, about("time of pauses in which the profiler itself was at work; not part of the others")
    ] = 0.0
    waits: Annotated[
        tuple[OperatorWait, ...],
        about("operators in which the program waited when pauses began, those with most time of pauses", most=3),
    ] = ()


class Copies(Struct, frozen=True, kw_only=True):
    """All copies of one direction and kind of host memory, or all memsets; bandwidth while they ran."""

    direction: Annotated[str, about("such as host-to-device, or memory set")]
    count: Annotated[Whole, about("number of copies")]
    bytes: Annotated[ByteCount | None, about("bytes of those with a known size")]
    time_s: Annotated[Seconds | None, about("time of those with a known time")]
    bytes_per_s: Annotated[BytesPerSecond | None, about("bandwidth while they ran")]
    memory: Annotated[
        Word | None,
        about("host memory: pageable or pinned, or unified for migrated pages; null: not recorded"),
    ] = None
    exposed_s: Annotated[
        Seconds | None,
        about(
            "time in which neither a kernel nor a copy listed before ran; from the first kernel on if gpuprof surveyed "
            "the program; null: not analysed, as for memory sets, or some kernels are missing"
        ),
    ] = None


class Communication(Struct, frozen=True, kw_only=True):
    """Kernels that exchange data with other GPUs: their time, and the part not overlapped by other kernels."""

    launches: Annotated[Whole, about("launches of such kernels")]
    time_s: Annotated[Seconds, about("their time")]
    exposed_s: Annotated[Seconds | None, about("time in which no other kernel ran; null: some kernels are missing")]
    bus_bytes_per_s: Annotated[
        BytesPerSecond | None,
        about("bus bandwidth as NCCL's tests define it, with waits; null if the trace has no sizes"),
    ]
    waiting_s: Annotated[
        Seconds | None,
        about("exposed time spent waiting for the last rank; null: traces, or a part of one, are missing"),
    ] = None
    awaited_s: Annotated[Seconds | None, about("time in which the other ranks waited for this one, summed")] = None
    transfer_bytes_per_s: Annotated[
        BytesPerSecond | None, about("bus bandwidth by the shortest time of each collective over its ranks")
    ] = None
    late_for: Annotated[
        LateCause | None, about("what this rank does longer than those that wait for it; null: nothing, or unknown")
    ] = None
    late_s: Annotated[Seconds | None, about("the part of their waits that this explains")] = None


class StripRow(Struct, frozen=True, kw_only=True):
    """When a GPU was busy with kernels of one name, all other kernels, copies or communication."""

    kind: Annotated[
        StripKind, about("what ran: compute kernels, whole CUDA graphs, copies and memsets, or communication")
    ]
    kernel: Annotated[
        Whole | None, about("id of the kernel of this name with most time; null: all others, or no kernels")
    ]
    busy: Annotated[
        tuple[Fraction, ...],
        about("busy share of each bin; concurrent kernels of several names share the time", most=10_000),
    ]


class LongPause(Struct, frozen=True, kw_only=True):
    """One of the longest pauses of a GPU."""

    start_s: Annotated[Seconds, about("since the start of the part that is judged")]
    length_s: Annotated[Seconds, about("length of the pause")]
    cause: Annotated[PauseCause, about("cause, as far as the trace shows it")]
    before: Annotated[str, about('what ended it: "kernel", "CUDA graph", the direction of copies, or "memory set"')]


class TimeStrip(Struct, frozen=True, kw_only=True):
    """Activity of a GPU over time, in bins of equal length, to be drawn."""

    bin_s: Annotated[Seconds, about("length of a bin")]
    rows: Annotated[tuple[StripRow, ...], about("kernels with most time of the run first", most=1_000)]
    pauses: Annotated[tuple[LongPause, ...], about("the longest pauses, in order of time", most=1_000)]
    steps_s: Annotated[
        tuple[Seconds, ...], about("when steps begin, since the start of that part; empty without steps", most=1_000)
    ] = ()


class WholeGraph(Struct, frozen=True, kw_only=True):
    """A CUDA graph that was recorded as a whole, without its kernels."""

    name: Annotated[str, about("its number in its process")]
    replays: Annotated[Whole, about("number of replays")]
    time_s: Annotated[Seconds, about("time of its replays, added up")]
    median_s: Annotated[Seconds | None, about("median time of a replay; null: not recorded")]


class WholeGraphs(Struct, frozen=True, kw_only=True):
    """All CUDA graphs that were recorded as a whole."""

    graphs: Annotated[Whole, about("number of graphs")]
    replays: Annotated[Whole, about("number of replays")]
    time_s: Annotated[Seconds, about("time with a replay")]
    longest: Annotated[tuple[WholeGraph, ...], about("the graphs with most time", most=100)]


class DeviceTimeline(Struct, frozen=True, kw_only=True):
    """Activity of a GPU in the part of the trace that is judged."""

    source: Annotated[Whole, about("index of its file among the sources")]
    ordinal: Annotated[Whole, about("index of the GPU within the source, from 0")]
    device: Annotated[Whole, about("index of its model among the devices")]
    span_s: Annotated[
        Seconds, about("length of that part: of the steps, or from the first to the last activity without steps")
    ]
    busy_s: Annotated[Seconds, about("time with any activity")]
    kernel_s: Annotated[Seconds, about("time with a kernel that was recorded")]
    gaps: Annotated[Gaps | None, about("its pauses")]
    copies: Annotated[tuple[Copies, ...], about("by direction and memory", most=1_000)]
    communication: Annotated[Communication | None, about("communication with other GPUs")]
    untimed: Annotated[Whole, about("activities of unknown duration, which count as instants")]
    strip: Annotated[TimeStrip | None, about("activity over time; null: no activity has a duration")] = None
    judged: Annotated[
        JudgedPart | None,
        about(
            "which part that is: all, what the steps launched, or what repeats after a start-up; null: all, perhaps "
            "with a start-up"
        ),
    ] = None
    start_up: Annotated[LeftOut | None, about("activity before that part and before a warm-up; null: none")] = None
    after_s: Annotated[Seconds, about("time from the end of that part to the last activity")] = 0.0
    graphs: Annotated[WholeGraphs | None, about("CUDA graphs that were recorded as a whole; null: none")] = None
    steps: Annotated[Whole, about("steps in that part; 0 if it has none")] = 0
    warm_up: Annotated[LeftOut | None, about("first steps, which load and compile; null: none")] = None
    between: Annotated[LeftOut | None, about("activity between steps, such as an evaluation; null: none")] = None
    from_start: Annotated[bool, about("whether the recording surely begins with the program")] = False
    slowed_by: Annotated[
        tuple[Word, ...],
        about("recorded beside times, which makes launching slower: stacks, shapes, memory", most=10),
    ] = ()


class StepTimes(Struct, frozen=True, kw_only=True):
    """A repeated step of the program, and its durations in the program, which may launch ahead of the GPU."""

    source: Annotated[Whole, about("index of its file among the sources")]
    name: Annotated[str, about("name of the step")]
    count: Annotated[Whole, about("number of occurrences")]
    threads: Annotated[Whole, about("threads that ran it")]
    duration_percentiles_s: Annotated[DurationSpread, about("its durations in the program")]
    per_s: Annotated[
        Number | None,
        about(
            "steps per second and thread, averaged over threads: by the time of the judged part of a GPU if that is "
            "of steps, else by their starts; null if no thread has two"
        ),
    ]
    loop: Annotated[bool, about("whether it is the step by which the program's work is counted: one per source")]


class Wait(Struct, frozen=True, kw_only=True):
    """Total idle time of a GPU before one kind of activity."""

    source: Annotated[Whole, about("index of its file among the sources")]
    ordinal: Annotated[Whole, about("index of the GPU within the source")]
    before: Annotated[str, about('"kernel", "CUDA graph", the direction of copies, or "memory set"')]
    kernel: Annotated[
        Whole | None, about("id of the kernel, or of the one that mostly followed the copies; null: none followed")
    ]
    idle_s: Annotated[Seconds, about("idle time")]
    pauses: Annotated[Whole, about("number of pauses")]


class PathFlop(Struct, frozen=True):
    """FLOP by the shapes of operators' inputs and the path of their data type; FP32 may also run as TF32."""

    path: Annotated[Word, about('compute path; "other" for data types without a path, such as complex')]
    flop: Annotated[Flop, about("operations")]
    calls: Annotated[Whole, about("number of operator calls")]


class Uncounted(Struct, frozen=True, kw_only=True):
    """Calls of an operator of unknown FLOP, or launches of matrix kernels outside of counted operators."""

    name: Annotated[str, about("operator or kernel")]
    count: Annotated[Whole, about("calls or launches")]
    time_s: Annotated[Seconds, about("time of their kernels")]
    why: Annotated[str, about("why they are not counted")]


class StepFlop(Struct, frozen=True, kw_only=True):
    """The mean step of a loop: its time, its FLOP, and their fractions of the ceilings."""

    count: Annotated[Whole, about("number of steps in the judged part of the loop")]
    time_s: Annotated[Seconds, about("length of the judged part of the GPU ÷ its steps; of the slowest of several")]
    flop: Annotated[tuple[PathFlop, ...], about("operations and calls of a step, on average", most=100)]
    flop_per_s: Annotated[FlopPerSecond, about("operations over the time")]
    min_flop: Annotated[Flop, about("minimum of all steps")]
    max_flop: Annotated[Flop, about("maximum of all steps")]
    gpus: Annotated[Whole, about("number of GPUs that take part")]
    utilisation: Annotated[tuple[Utilisation, ...], about("by path; fractions of several paths add up", most=100)]


class ModelFlop(Struct, frozen=True, kw_only=True):
    """FLOP of the operators of a source. If some operators are uncounted, all of these are lower bounds."""

    source: Annotated[Whole, about("index of its file among the sources")]
    total: Annotated[Annotated[tuple[PathFlop, ...], Meta(max_length=100)] | None, about("FLOP of the whole trace")]
    step: Annotated[StepFlop | None, about("FLOP of a step")]
    uncounted: Annotated[tuple[Uncounted, ...], about("what is not counted", most=10_000)]
    uncounted_share: Annotated[Fraction | None, about("their share of the time of all kernels")]
    missing: Annotated[tuple[Missing, ...], about("what is unknown, and why", most=1_000)]


class MeasuredFlop(Struct, frozen=True):
    """FLOP of a path, counted in all launches of the kernels for which counters were collected."""

    path: Annotated[Word, about("compute path")]
    flop: Annotated[Flop, about("operations")]
    time_share: Annotated[Fraction | None, about("share of those kernels in the time of all kernels")]


class Timeline(Struct, frozen=True, kw_only=True):
    """What traces show beyond the durations of kernels."""

    devices: Annotated[tuple[DeviceTimeline, ...], about("activity of each GPU", most=10_000)]
    steps: Annotated[tuple[StepTimes, ...], about("steps of the program", most=10_000)]
    waits: Annotated[tuple[Wait, ...], about("idle time by the activity that ended it, longest first")]
    rank: Annotated[Whole | None, about("rank of the source, if there is only one")]
    ranks: Annotated[Whole | None, about("number of ranks of the distributed run")]
    peak_memory_bytes: Annotated[ByteCount | None, about("peak of the memory allocated on a GPU")]
    source_ranks: Annotated[tuple[Whole | None, ...], about("rank of each source", most=10_000)]
    model_flop: Annotated[tuple[ModelFlop, ...], about("sources whose operators multiply matrices", most=10_000)] = ()
    measured_flop: Annotated[tuple[MeasuredFlop, ...], about("counted FLOP, if there are counters", most=100)] = ()


class Session(Struct, frozen=True, kw_only=True):
    """The result of an analysis: everything that the views show."""

    schema_version: Annotated[SchemaVersion, about("version of this contract")]
    gpuprof_version: Annotated[str, about("version of the gpuprof that wrote it")]
    sources: Annotated[tuple[Source, ...], about("files that it was made from", most=10_000)]
    devices: Annotated[tuple[Device, ...], about("GPUs", most=1_000)]
    ceilings: Annotated[tuple[Ceiling, ...], about("limits that percentages refer to", most=1_000)]
    kernels: Annotated[tuple[KernelProfile, ...], about("launches, or groups of equal launches")]
    timeline: Annotated[Timeline | None, about("what traces show; null without one")] = None
    verdict: Annotated[RunVerdict | None, about("the state of the run; null before it is judged")] = None
    recommendations: Annotated[tuple[Recommendation, ...], about("what to change, most worthwhile first")] = ()
    run: Annotated[RunTotals | None, about("totals of the run; null if all of its kernels are here")] = None
    denominators: Annotated[
        tuple[Denominator, ...], about("values of the specs that could be checked against the reports", most=1_000)
    ] = ()
    excluded: Annotated[Exclusion | None, about("kernels left out by --exclude; null: none")] = None

    def numbered(self, number: int | None) -> KernelProfile | None:
        """Return the kernel with this id; None if there is none."""
        return next((kernel for kernel in self.kernels if kernel.id == number), None)

    @property
    def only_times(self) -> bool:
        """Return whether it has a timeline, but no counters of any kernel."""
        return self.timeline is not None and all(
            source.is_survey or kind_named(source.kind).is_trace for source in self.sources
        )
