"""The result of a comparison: the JSON contract of `gpuprof compare --format json`; its schema follows from the types.

Base SI units, the unit in the name. None means missing; zero means measured zero. A ratio is new ÷ base. Two verdicts
are kept apart: `work` (what was executed, counted) and `time` (how long it took, sampled).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from gpuprof.model.field_types import Fraction, Number, Positive, Seconds, Severity, Whole, Word, about
from gpuprof.model.recorded import Dim3

ComparisonVersion = Literal[1]
COMPARISON_VERSION: ComparisonVersion = 1
TimeWord = Literal["same", "faster", "slower", "unclear", "new", "gone", "unknown"]
"""`unknown`: no durations on a side. `unclear`: durations, and too few or too noisy to tell."""
WorkWord = Literal["same", "less", "more", "changed", "unclear", "new", "gone", "unknown"]
"""`changed`: some counters rose and others fell. `unclear`: within what data-dependent work differs by."""
CountWord = Literal["same", "less", "more", "unclear", "only-base", "only-new"]
MatchKind = Literal["exact", "reconfigured", "renamed", "named", "split", "fused", "new", "gone"]
"""`exact`: name, ranges and launch configuration; `reconfigured`: another grid, block or template arguments; `named`:
by --match."""
Affects = Literal["time", "work", "both"]
FindingWord = Literal["went", "came", "stayed"]
GateWord = Literal["ok", "regression", "unclear", "accepted", "not-compared"]
"""`not-compared`: the side lacks what the limit is about; `accepted`: a regression that was written down."""

Change = Annotated[float, about("new ÷ base")]


class Interval(Struct, frozen=True):
    """What a value lies between, at the confidence that the comparison states."""

    low: Annotated[float, about("the least")]
    high: Annotated[float, about("the most")]


class ComparedSide(Struct, frozen=True, kw_only=True):
    """One side of the comparison."""

    files: Annotated[tuple[str, ...], about("its files, each a run of the same program")]
    gpus: Annotated[tuple[str, ...], about("names of its GPUs")]
    kernels: Annotated[Whole, about("kernels: names, ranges and launch configurations")]
    launches: Annotated[Whole, about("launches of a run, on average over the runs rounded")]
    time_s: Annotated[
        Seconds | None,
        about("GPU time of all kernels of a run, on average over the runs; null: not known, or of replays of graphs"),
    ]


class RunCondition(Struct, frozen=True, kw_only=True):
    """What is not the same around the two runs, and whether that alone can change what is compared."""

    name: Annotated[Word, about("what: gpu, driver, ncu, clock-control, sm-clock …")]
    base: Annotated[str, about("on the base side; `not known` where it was not recorded")]
    new: Annotated[str, about("on the new side")]
    affects: Annotated[Affects | None, about("the verdict that cannot be given for it; null: it is told, no more")]
    sentence: Annotated[str, about("what follows from it")]


class TimeChange(Struct, frozen=True, kw_only=True):
    """The time of a launch on both sides, and the verdict on it."""

    verdict: Annotated[TimeWord, about("whether a launch takes as long as before")]
    base_s: Annotated[Seconds | None, about("median launch, over the runs")]
    new_s: Annotated[Seconds | None, about("median launch, over the runs")]
    ratio: Annotated[float | None, about("new ÷ base, in seconds")]
    interval: Annotated[Interval | None, about("of the ratio, at 99 %; null where nothing tells the noise")]
    base_cycles: Annotated[Number | None, about("SM cycles of the median launch")]
    new_cycles: Annotated[Number | None, about("SM cycles of the median launch")]
    cycles_ratio: Annotated[float | None, about("new ÷ base, in SM cycles")]
    cycles_interval: Annotated[Interval | None, about("of that ratio, at 99 %")]
    base_runs: Annotated[Whole, about("runs on the base side that have the kernel")]
    new_runs: Annotated[Whole, about("runs on the new side that have it")]
    base_launches: Annotated[Whole, about("launches with a duration, over these runs")]
    new_launches: Annotated[Whole, about("launches with a duration, over these runs")]
    noise: Annotated[Fraction | None, about("relative standard deviation that the interval rests on")]
    noise_source: Annotated[str, about("where that is from: the samples, or what is assumed where they are too few")]
    reason: Annotated[str, about("why it is unclear or unknown; empty otherwise")] = ""
    runs_needed: Annotated[Positive | None, about("runs a side that would settle it at this noise")] = None


class CountChange(Struct, frozen=True, kw_only=True):
    """A counter, or a resource of the launch, on both sides."""

    name: Annotated[Word, about("what is counted")]
    unit: Annotated[str, about("what it is counted in")]
    base: Annotated[Number | None, about("of one launch")]
    new: Annotated[Number | None, about("of one launch")]
    ratio: Annotated[float | None, about("new ÷ base; null where base is zero or one is missing")]
    word: Annotated[CountWord, about("whether it is as it was")]
    tolerance: Annotated[Fraction, about("what it may differ by without a change of the code")]
    data_dependent: Annotated[bool, about("launches or runs of one side differ in it by themselves")]
    metric: Annotated[str, about("counters that tell it; where they differ by side, both")]


class WorkChange(Struct, frozen=True, kw_only=True):
    """What a launch does on both sides, and the verdict on it."""

    verdict: Annotated[WorkWord, about("whether a launch does as much as before")]
    counts: Annotated[tuple[CountChange, ...], about("counters and resources, those that changed first")]
    reason: Annotated[str, about("why it is unclear or unknown; empty otherwise")] = ""


class LineChange(Struct, frozen=True, kw_only=True):
    """A source line whose work changed. A line is the same where its text is, or where neither side has text."""

    file: Annotated[str, about("source file, as the new side names it; the base's where it is gone")]
    base_line: Annotated[Whole | None, about("line number on the base side; null where it is new")]
    new_line: Annotated[Whole | None, about("line number on the new side; null where it is gone")]
    text: Annotated[str, about("the code, of the new side where it has it; may be empty")]
    what: Annotated[Word, about("instructions, local or samples")]
    base: Annotated[Number | None, about("of one launch")]
    new: Annotated[Number | None, about("of one launch")]


class FindingChange(Struct, frozen=True, kw_only=True):
    """A finding that went, came or stayed, with what its fix had promised and what was gained."""

    word: Annotated[FindingWord, about("what became of it")]
    rule: Annotated[Word, about("id of the rule")]
    severity: Annotated[Severity, about("on the side that has it, the new one first")]
    base: Annotated[str, about("headline on the base side; empty where it came")]
    new: Annotated[str, about("headline on the new side; empty where it went")]
    promised: Annotated[Fraction | None, about("the most that fixing it saves of the kernel's time, as base said")]
    gained: Annotated[float | None, about("what was saved of the kernel's time; null unless it went")]
    location: Annotated[str, about("file:line, of the side that has it; may be empty")] = ""


class ChangeCause(Struct, frozen=True, kw_only=True):
    """One reason for a change of time, most telling first."""

    mechanism: Annotated[Word, about("occupancy, instructions, dram-bytes, local-memory, clock …")]
    sentence: Annotated[str, about("what moved, with both values")]
    direction: Annotated[Literal["slower", "faster", "neutral"], about("what it does to the time")]
    certainty: Annotated[Literal["counted", "inferred", "guess"], about("how sure it is")]
    location: Annotated[str, about("file:line of it; may be empty")] = ""


class ComparedKernel(Struct, frozen=True, kw_only=True):
    """A kernel of one side as it was compared."""

    run: Annotated[Whole, about("index of the file on its side whose launch speaks for it")]
    id: Annotated[Whole, about("its number in that file's session")]
    label: Annotated[str, about("short name")]
    demangled: Annotated[str, about("demangled name with parameters")]
    ranges: Annotated[tuple[str, ...], about("NVTX ranges or modules around its launches, outermost first")]
    grid: Annotated[Dim3 | None, about("blocks of the grid: x, y, z")]
    block: Annotated[Dim3 | None, about("threads per block: x, y, z")]
    launches: Annotated[Whole, about("launches of a run, on average over the runs rounded")]
    time_total_s: Annotated[Seconds | None, about("of all its launches of a run, on average over the runs")]


class KernelChange(Struct, frozen=True, kw_only=True):
    """A kernel on both sides, or what became of it: several on a side where it was split or fused."""

    id: Annotated[Whole, about("its place in this comparison, from 0: by effect on the total, largest first")]
    label: Annotated[str, about("short name, unique in the comparison")]
    match: Annotated[MatchKind, about("why these kernels are taken for each other")]
    base: Annotated[tuple[ComparedKernel, ...], about("on the base side: one, none where it is new, several if fused")]
    new: Annotated[tuple[ComparedKernel, ...], about("on the new side: one, none where it is gone, several if split")]
    sentence: Annotated[str, about("the verdict with its cause, in a sentence")]
    time: Annotated[TimeChange, about("its time, and the verdict on it")]
    work: Annotated[WorkChange, about("its work, and the verdict on it")]
    causes: Annotated[tuple[ChangeCause, ...], about("why its time changed, most telling first")]
    lines: Annotated[tuple[LineChange, ...], about("source lines whose work changed, by what they add or save")]
    findings: Annotated[tuple[FindingChange, ...], about("what went, came and stayed of its findings")]
    effect_s: Annotated[float | None, about("what it adds to the GPU time of a run; negative: it saves")]
    effect: Annotated[
        float | None, about("the same as a fraction of the base's GPU time; null where times are not comparable")
    ]


GPU_TIME, REPLAYS = "gpu-time", "graph-replays"
TIMES = (GPU_TIME, REPLAYS)
"""What the time of all kernels is called among the figures of a run, and that of whole CUDA graphs under ncu."""


class QuantityChange(Struct, frozen=True, kw_only=True):
    """A figure of the whole run on both sides: time of all kernels, idle time, a step."""

    name: Annotated[Word, about("what it is")]
    unit: Annotated[str, about("its unit")]
    base: Annotated[Number | None, about("on the base side")]
    new: Annotated[Number | None, about("on the new side")]
    ratio: Annotated[float | None, about("new ÷ base")]
    verdict: Annotated[TimeWord, about("whether it is as it was; figures other than times have these words, too")]


class GateCheck(Struct, frozen=True, kw_only=True):
    """A limit held against a kernel, or against the run."""

    limit: Annotated[str, about("as it was written, such as instructions:1%")]
    kernel: Annotated[Whole | None, about("id of the kernel's change; null: the whole run")]
    word: Annotated[GateWord, about("whether it holds")]
    change: Annotated[float | None, about("what it changed by, as a fraction; null where it is not one")]
    sentence: Annotated[str, about("what was held against what")]
    accepted: Annotated[str, about("the reason that was written down for it; empty otherwise")] = ""


class Gate(Struct, frozen=True, kw_only=True):
    """Whether the limits hold."""

    passed: Annotated[bool, about("whether they let the new side pass")]
    exit_code: Annotated[Whole, about("0; 6 on a regression; 7 where it is unclear and that is to fail")]
    checks: Annotated[tuple[GateCheck, ...], about("all but those that are ok")]
    ok: Annotated[Whole, about("checks that hold")]


class Comparison(Struct, frozen=True, kw_only=True):
    """Everything that is shown of a comparison."""

    schema_version: Annotated[ComparisonVersion, about("version of this contract")]
    gpuprof_version: Annotated[str, about("version of gpuprof that wrote it")]
    base: Annotated[ComparedSide, about("what was compared with")]
    new: Annotated[ComparedSide, about("what was compared")]
    sentence: Annotated[str, about("the verdict on the whole, in a sentence")]
    alike: Annotated[bool, about("nothing around the runs forbids a verdict on time")]
    conditions: Annotated[tuple[RunCondition, ...], about("what is not the same around the runs")]
    total: Annotated[tuple[QuantityChange, ...], about("figures of the whole run")]
    kernels: Annotated[tuple[KernelChange, ...], about("every kernel of both sides, by effect on the total")]
    gate: Annotated[Gate | None, about("whether the limits hold; null without limits")] = None
    notes: Annotated[tuple[str, ...], about("what else is to be known, in sentences")] = ()
