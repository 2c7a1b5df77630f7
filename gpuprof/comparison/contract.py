"""The result of a comparison: the JSON contract of `gpuprof compare --format json`; its schema follows from the types.

Base SI units, the unit in the name. None means missing; zero means measured zero. A ratio is new ÷ base. There are two
independent verdicts: `work` (what was executed, counted) and `time` (how long it took, sampled).

`comparison/` fills everything but the sentences. `words.comparison.with_sentences` adds those at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from msgspec import Struct

from gpuprof.errors import GATE_UNCLEAR
from gpuprof.model.field_types import (
    Fraction,
    Number,
    Positive,
    Seconds,
    Severity,
    Whole,
    Word,
    about,
)
from gpuprof.model.recorded import Dim3

ComparisonVersion = Literal[3]
COMPARISON_VERSION: ComparisonVersion = 3
SideName = Literal["base", "new"]
SIDES: tuple[SideName, SideName] = get_args(SideName)
TimeWord = Literal["same", "faster", "slower", "unclear", "new", "gone", "unknown"]
"""`unknown`: no durations on a side. `unclear`: durations, but too few or too noisy for a verdict."""
WorkWord = Literal["same", "less", "more", "changed", "unclear", "new", "gone", "unknown"]
"""`changed`: some counters rose and others fell. `unclear`: within the variation of data-dependent work."""
CountWord = Literal["same", "less", "more", "unclear", "only-base", "only-new"]
MatchKind = Literal["exact", "reconfigured", "renamed", "named", "split", "fused", "new", "gone", "unrecorded"]
"""`exact`: name and launch configuration, and ranges if both sides have the same; `reconfigured`: another grid, block
or template arguments; `named`: by --match; `unrecorded`: on one side, and the other may run it in whole CUDA graphs or
in a part of its trace that is not judged."""
Affects = Literal["time", "work", "both", "totals"]
"""`totals`: the figures of the whole run; `both`: time and work of kernels."""
Per = Literal["run", "step"]
FindingWord = Literal["went", "came", "stayed"]
Direction = Literal["slower", "faster", "neutral"]
Certainty = Literal["counted", "inferred", "guess"]
GateWord = Literal["ok", "regression", "unclear", "accepted", "not-compared"]
"""`not-compared`: a side lacks the quantity of the limit; `accepted`: a regression that a file of them allows."""
DoubtKind = Literal[
    "few-runs", "noise", "overlap", "drift", "dram-clock", "clocks-disagree", "conditions", "stores", "other-ranges",
    "graph-replay", "in-graphs", "other-part", "no-durations",
]  # fmt: skip
NoiseBasis = Literal["assumed", "pairs", "runs"]
WorkNoteKind = Literal[
    "values-of-run", "values-of-launch", "other-code", "only-others-moved", "nothing-exact", "nothing-common",
    "no-counts", "varies", "varies-too-few", "other-opcodes", "counted-once", "resources", "too-varied",
    "other-counters", "caches", "other-launches",
]  # fmt: skip
CheckReason = Literal[
    "limit",
    "unknown",
    "conditions",
    "noise",
    "few-digits",
    "doubt",
    "stores",
    "no-kernel",
    "one-sided",
    "no-match",
]
FactKind = Literal[
    "copies", "no-kernels", "excluded", "launches-profiled", "option", "no-configurations", "some-runs", "lanes",
    "unmatched", "whole-graphs", "left-out", "no-base", "accepted-no-limit", "accepted-no-kernel", "accepted-twice",
    "accepted-idle",
    "accepted-ended",
]  # fmt: skip


class Interval(Struct, frozen=True):
    """The bounds of a value at the confidence that the comparison states."""

    low: Annotated[float, about("the least")]
    high: Annotated[float, about("the most")]


class SourceLine(Struct, frozen=True):
    """A line of a source file."""

    file: Annotated[str, about("path, as the report has it")]
    line: Annotated[Whole, about("line number")]


class ValueChange(Struct, frozen=True, kw_only=True):
    """A quantity on both sides."""

    name: Annotated[Word, about("what it is: a count, a resource, a unit, a stall reason, opcode.NAME …")]
    unit: Annotated[str, about("its unit; empty: a plain number")] = ""
    base: Annotated[float | None, about("on the base side; null: missing, or only the ratio is known")] = None
    new: Annotated[float | None, about("on the new side")] = None
    ratio: Annotated[float | None, about("new ÷ base; null: not given beside the values")] = None
    same: Annotated[bool, about("the difference, if any, is not a change")] = False


class ComparedSide(Struct, frozen=True, kw_only=True):
    """One side of the comparison."""

    files: Annotated[tuple[str, ...], about("its files, each a run of the same program")]
    gpus: Annotated[tuple[str, ...], about("names of its GPUs, in traces one for each that ran more than copies")]
    kernels: Annotated[Whole, about("kernel functions")]
    launches: Annotated[Whole, about("launches of a run, on average over the runs rounded")]
    time_s: Annotated[
        Seconds | None,
        about("GPU time of all kernels of a run, on average over the runs; null: not known, or of replays of graphs"),
    ]


class RunCondition(Struct, frozen=True, kw_only=True):
    """A difference between the circumstances of the two sides, and which verdicts it forbids."""

    name: Annotated[Word, about("gpu, driver, ncu, clock-control, sm-clock …")]
    base: Annotated[tuple[str | float, ...], about("values on the base side; empty: not recorded")]
    new: Annotated[tuple[str | float, ...], about("values on the new side")]
    affects: Annotated[Affects | None, about("the verdict that is not given because of it; null: none")]
    kind: Annotated[str, about("which case of the condition, if it has several")] = ""
    ratio: Annotated[float | None, about("new ÷ base of the median kernel, for clocks")] = None
    sentence: Annotated[str, about("the consequence and a remedy")] = ""


class TimeDoubt(Struct, frozen=True, kw_only=True):
    """Why a verdict on time is unclear or unknown."""

    kind: Annotated[DoubtKind, about("the reason")]
    size: Annotated[float | None, about("how far apart drift or another DRAM clock alone can set the sides")] = None
    sides: Annotated[tuple[SideName, ...], about("the sides without durations, or without stores")] = ()
    clear_in: Annotated[
        Literal["cycles", "seconds"] | None,
        about("the measure that has a verdict; the doubt is about the other one"),
    ] = None
    clear_verdict: Annotated[TimeWord | None, about("that verdict")] = None


class TimeChange(Struct, frozen=True, kw_only=True):
    """The time of a launch on both sides, and the verdict on it."""

    verdict: Annotated[TimeWord, about("whether a launch takes as long as before")]
    base_s: Annotated[Seconds | None, about("median launch, over the runs")]
    new_s: Annotated[Seconds | None, about("median launch, over the runs")]
    ratio: Annotated[float | None, about("new ÷ base, in seconds")] = None
    interval: Annotated[Interval | None, about("of the ratio, at 99 %; null: the noise is not known")] = None
    base_cycles: Annotated[Number | None, about("SM cycles of the median launch")]
    new_cycles: Annotated[Number | None, about("SM cycles of the median launch")]
    cycles_ratio: Annotated[float | None, about("new ÷ base, in SM cycles")] = None
    cycles_interval: Annotated[Interval | None, about("of that ratio, at 99 %")] = None
    base_runs: Annotated[Whole, about("runs on the base side that have the kernel")]
    new_runs: Annotated[Whole, about("runs on the new side that have it")]
    base_launches: Annotated[Whole, about("launches with a duration, over these runs")]
    new_launches: Annotated[Whole, about("launches with a duration, over these runs")]
    noise: Annotated[Fraction | None, about("relative standard deviation that the interval is computed from")] = None
    noise_basis: Annotated[
        NoiseBasis | None,
        about("assumed, if a side has too few runs; or from pairs of runs, or the runs of each side"),
    ] = None
    doubt: Annotated[TimeDoubt | None, about("why it is unclear or unknown; null otherwise")] = None
    runs_needed: Annotated[Positive | None, about("runs per side that would settle it at this noise")] = None
    noise_source: Annotated[str, about("where the noise is from, in words")] = ""
    reason: Annotated[str, about("why it is unclear or unknown, in words; empty otherwise")] = ""

    @property
    def is_change(self) -> bool:
        """Return whether a launch is faster or slower."""
        return self.verdict in ("slower", "faster")


class CountChange(Struct, frozen=True, kw_only=True):
    """A counter, or a resource of the launch, on both sides."""

    name: Annotated[Word, about("what is counted")]
    unit: Annotated[str, about("what it is counted in")]
    base: Annotated[Number | None, about("of one launch")]
    new: Annotated[Number | None, about("of one launch")]
    ratio: Annotated[float | None, about("new ÷ base; null: base is zero, or one is missing")]
    word: Annotated[CountWord, about("whether it is as it was")]
    tolerance: Annotated[Fraction, about("how far it may differ without a change of the code")]
    data_dependent: Annotated[bool, about("launches or runs of one side differ in it by themselves")]
    metric: Annotated[str, about("counters that it is from; both, if they differ by side")]


class WorkNote(Struct, frozen=True, kw_only=True):
    """What the values of the work are of, why there is no verdict on it, or what else is known of it."""

    kind: Annotated[WorkNoteKind, about("what the note says")]
    names: Annotated[tuple[str, ...], about("the counts that it is about")] = ()
    sides: Annotated[tuple[SideName, ...], about("the sides that it is about")] = ()
    launches: Annotated[Whole | None, about("counted launches of the side that has fewer")] = None


class WorkChange(Struct, frozen=True, kw_only=True):
    """The work of a launch on both sides, and the verdict on it."""

    verdict: Annotated[WorkWord, about("whether a launch does as much as before")]
    counts: Annotated[tuple[CountChange, ...], about("counters and resources, those that changed first")]
    notes: Annotated[tuple[WorkNote, ...], about("what the values are of, and why a verdict is missing or weak")] = ()
    reason: Annotated[str, about("the notes in sentences")] = ""

    def count(self, quantity: str) -> CountChange | None:
        """Return the count that a limit is about; launches may be those of a step."""
        return next((count for count in self.counts if count.name.removesuffix(PER_STEP) == quantity), None)


class LineChange(Struct, frozen=True, kw_only=True):
    """A source line whose work changed. Lines are matched by their text, or by number if neither side has text."""

    file: Annotated[str, about("source file, as the new side names it; the base's if the line is gone")]
    base_line: Annotated[Whole | None, about("line number on the base side; null: the line is new")]
    new_line: Annotated[Whole | None, about("line number on the new side; null: the line is gone")]
    text: Annotated[str, about("the code, of the new side if it has it; may be empty")]
    what: Annotated[Word, about("instructions, local or samples")]
    base: Annotated[Number | None, about("of one launch")]
    new: Annotated[Number | None, about("of one launch")]


class FindingChange(Struct, frozen=True, kw_only=True):
    """A finding that went, came or stayed, with the bound on the gain of its fix and the measured gain."""

    word: Annotated[FindingWord, about("what became of it")]
    id: Annotated[Word, about("its id in the session of the side that has it, the new one first")]
    rule: Annotated[Word, about("id of the rule")]
    severity: Annotated[Severity, about("on the side that has it, the new one first")]
    base: Annotated[str, about("headline on the base side; empty if it came")]
    new: Annotated[str, about("headline on the new side; empty if it went")]
    promised: Annotated[Fraction | None, about("the most that a fix saves of the kernel's time, by the base side")]
    gained: Annotated[float | None, about("what was saved of the kernel's time; null unless it went")]
    location: Annotated[SourceLine | None, about("line of it on the side that has it; null: not known")] = None


class ChangeCause(Struct, frozen=True, kw_only=True):
    """One reason for a change of time; the most important comes first."""

    mechanism: Annotated[Word, about("occupancy, instructions, dram-bytes, local-memory, clock …")]
    direction: Annotated[Direction, about("its effect on the time")]
    certainty: Annotated[Certainty, about("how sure it is")]
    values: Annotated[tuple[ValueChange, ...], about("what moved or stayed the same, the main quantity first")] = ()
    kind: Annotated[str, about("which case of the mechanism, if it has several")] = ""
    limiters: Annotated[tuple[str, ...], about("what limits the occupancy on the new side")] = ()
    location: Annotated[SourceLine | None, about("the line that causes it; null: not known")] = None
    sentence: Annotated[str, about("what moved, with both values")] = ""


class ComparedKernel(Struct, frozen=True, kw_only=True):
    """A kernel of one side as it was compared."""

    run: Annotated[Whole, about("index of the file on its side that has the representative launch")]
    id: Annotated[Whole, about("its number in that file's session")]
    label: Annotated[str, about("short name")]
    function: Annotated[str, about("short name of its function")] = ""
    demangled: Annotated[str, about("demangled name with parameters")]
    ranges: Annotated[
        tuple[str, ...],
        about("NVTX ranges or modules around its launches, outermost first; empty: none, or compared in any range"),
    ]
    grid: Annotated[Dim3 | None, about("blocks of the grid: x, y, z")]
    block: Annotated[Dim3 | None, about("threads per block: x, y, z")]
    launches: Annotated[
        Number, about("launches of a run, on average over the runs rounded; or of a step, as `per` of the change says")
    ]
    time_total_s: Annotated[
        Seconds | None, about("of all its launches of a run, on average over the runs; or of a step")
    ]


class KernelChange(Struct, frozen=True, kw_only=True):
    """A kernel on both sides, or on one; several on a side if it was split or fused."""

    id: Annotated[
        Whole,
        about("its place in this comparison, from 0: by how much the time of all its launches differs, most first"),
    ]
    label: Annotated[str, about("short name, unique in the comparison")]
    match: Annotated[MatchKind, about("why these kernels are taken for each other")]
    base: Annotated[
        tuple[ComparedKernel, ...],
        about("on the base side: one, none if it is new, several if fused"),
    ]
    new: Annotated[
        tuple[ComparedKernel, ...],
        about("on the new side: one, none if it is gone, several if split"),
    ]
    time: Annotated[TimeChange, about("its time, and the verdict on it")]
    work: Annotated[WorkChange, about("its work, and the verdict on it")]
    causes: Annotated[tuple[ChangeCause, ...], about("why its time changed, the most important first")]
    lines: Annotated[tuple[LineChange, ...], about("source lines whose work changed, by what they add or save")]
    findings: Annotated[tuple[FindingChange, ...], about("its findings that went, came and stayed")]
    per: Annotated[
        Per,
        about("what launches, total time and effect are of: a run, or a step if all GPUs of both sides have steps"),
    ] = "run"
    effect_s: Annotated[float | None, about("what it adds to the GPU time of a run or step; negative: it saves")]
    effect: Annotated[
        float | None,
        about("the same as a fraction of the base's GPU time; null: times or totals are not comparable"),
    ]
    sentence: Annotated[str, about("the verdict with its cause")] = ""

    @property
    def lacking(self) -> SideName | None:
        """Return the side that lacks it; None if both have it."""
        if not self.base:
            return "base"
        return "new" if not self.new else None

    @property
    def is_one_sided(self) -> bool:
        """Return whether only one side has it."""
        return self.lacking is not None

    @property
    def is_changed(self) -> bool:
        """Return whether a verdict says that its time, its work or its presence changed."""
        return self.time.is_change or self.match in ("new", "gone") or self.work.verdict in ("more", "less", "changed")


GPU_TIME, REPLAYS, BUSY, PER_STEP = "gpu-time", "graph-replays", "busy", "-per-step"


class QuantityChange(Struct, frozen=True, kw_only=True):
    """A figure of the whole run on both sides: time of all kernels, idle time, a step."""

    name: Annotated[Word, about("what it is; with -per-step if all GPUs of both sides have steps")]
    unit: Annotated[str, about("its unit")]
    base: Annotated[Number | None, about("on the base side")]
    new: Annotated[Number | None, about("on the new side")]
    ratio: Annotated[float | None, about("new ÷ base")]
    verdict: Annotated[TimeWord, about("whether it is as it was; figures other than times have these words, too")]


def run_time(total: Sequence[QuantityChange]) -> QuantityChange | None:
    """Return the time that a verdict on the run is on: the first of its figures; None if that is another one.

    It is the time of all kernels, that of whole CUDA graphs under ncu, or, if there are whole graphs in a trace, the
    time with any work.
    """
    names = (GPU_TIME, REPLAYS, BUSY)
    return next((quantity for quantity in total[:1] if quantity.name.removesuffix(PER_STEP) in names), None)


def figures_to_show(total: Sequence[QuantityChange]) -> list[QuantityChange]:
    """Return the step, and other figures that differ, beside the time of the verdict; both sides have them."""
    time = run_time(total)
    known = [quantity for quantity in total if None not in (quantity.base, quantity.new) and quantity is not time]
    return [quantity for quantity in known if quantity.name == "step" or quantity.base != quantity.new]


class Acceptance(Struct, frozen=True, kw_only=True):
    """An entry of the file of accepted regressions that is about a check."""

    until: Annotated[str, about("its last day, YYYY-MM-DD")]
    expired: Annotated[bool, about("that day has passed")]
    most: Annotated[Fraction | None, about("the rise that it allows; null: any")]


class GateCheck(Struct, frozen=True, kw_only=True):
    """The result of a limit for a kernel, or for the run."""

    limit: Annotated[str, about("as it was written, such as instructions:1%")]
    quantity: Annotated[Word, about("time, total-time or the name of a count; for compiled code also a rule's id")]
    pattern: Annotated[str | None, about("the kernels that the limit names; null: all")] = None
    allowed: Annotated[
        Number, about("the change for the worse that the limit allows, as a fraction; its number in reviews of code")
    ]
    kernel: Annotated[Whole | None, about("id of the kernel's change, or of the reviewed kernel; null: the whole run")]
    word: Annotated[GateWord, about("whether the limit is kept")]
    because: Annotated[CheckReason, about("the reason for this result; limit: nothing but the change itself")] = "limit"
    change: Annotated[float | None, about("relative change for the worse; null: not a fraction")]
    upper: Annotated[float | None, about("upper end of the change at 99 %, if that is beyond the limit")] = None
    accepted: Annotated[str, about("the reason that was written down for it; empty otherwise")] = ""
    acceptance: Annotated[Acceptance | None, about("the entry that accepts it, or that does not suffice")] = None
    sentence: Annotated[str, about("the change and the limit")] = ""
    location: Annotated[SourceLine | None, about("line of compiled code that it is about; null: not known")] = None


class Gate(Struct, frozen=True, kw_only=True):
    """Whether the limits are kept."""

    passed: Annotated[bool, about("whether the new side passes")]
    exit_code: Annotated[Whole, about("0; 6 on a regression; 7 if a check is unclear and that is to fail")]
    checks: Annotated[tuple[GateCheck, ...], about("all but those that are ok")]
    ok: Annotated[Whole, about("checks that are ok")]

    def fails(self, check: GateCheck) -> bool:
        """Return whether a check fails the gate: a regression, or an unclear one if the gate fails for these alone."""
        if check.word == "regression":
            return True
        return self.exit_code == GATE_UNCLEAR and check.word in ("unclear", "not-compared")


class ComparisonFact(Struct, frozen=True, kw_only=True):
    """What else is to be known of the comparison, as values."""

    kind: Annotated[FactKind, about("what it says")]
    side: Annotated[SideName | None, about("the side that it is about")] = None
    numbers: Annotated[tuple[float, ...], about("the numbers in its sentence, in order")] = ()
    texts: Annotated[tuple[str, ...], about("the names and options in its sentence, in order")] = ()


class Comparison(Struct, frozen=True, kw_only=True):
    """Everything that is shown of a comparison."""

    schema_version: Annotated[ComparisonVersion, about("version of this contract")]
    gpuprof_version: Annotated[str, about("version of gpuprof that wrote it")]
    base: Annotated[ComparedSide, about("the side that is compared with")]
    new: Annotated[ComparedSide, about("the side that is compared")]
    sentence: Annotated[str, about("the verdict on the whole")] = ""
    alike: Annotated[bool, about("no condition forbids a verdict on time")]
    identical: Annotated[bool, about("both sides are the same recordings")] = False
    conditions: Annotated[tuple[RunCondition, ...], about("differences between the circumstances of the sides")]
    total: Annotated[tuple[QuantityChange, ...], about("figures of the whole run")]
    kernels: Annotated[tuple[KernelChange, ...], about("every kernel of both sides, in the order of their ids")]
    gate: Annotated[Gate | None, about("whether the limits are kept; null: no limits")] = None
    facts: Annotated[tuple[ComparisonFact, ...], about("what else is to be known, as values")] = ()
    notes: Annotated[tuple[str, ...], about("the same in sentences")] = ()

    @property
    def forbidding(self) -> tuple[RunCondition, ...]:
        """Return the conditions because of which there is no verdict."""
        return tuple(condition for condition in self.conditions if condition.affects is not None)
