"""Differences between the circumstances of two runs, and facts about a comparison, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuprof.comparison.contract import ComparisonFact, FactKind, RunCondition
from gpuprof.units import format_percent, format_si, spaced
from gpuprof.words.comparison_values import NOT_KNOWN
from gpuprof.words.sentences import short_list

_LONGEST, _SHOWN = 200, 4
"""Maximum characters of a value, and values of a side, to show: a file may name anything."""
_MOST_OPTIONS = 200
_WORDS = {
    ("judged-part", "all"): "the whole trace",
    ("judged-part", "steps"): "the steps",
    ("judged-part", "repetition"): "what follows the start-up",
    ("printed-counts", "rounded"): "rounded by ncu's details page",
    ("printed-counts", "full"): "in full",
}
"""Values that are words of the contract, by the name of their condition."""
_UNITS = {"sm-count": "SMs", "gpu-count": "GPUs", "temperature": "°C"}
_SENTENCES = {
    "kernels/none": "Neither side has a kernel: nothing is compared.",
    "kernels/base": "The base side has no kernels, so all kernels of the new side are new. Check what was profiled.",
    "kernels/new": "The new side has no kernels, so all kernels of the base side are gone. Check what was profiled.",
    "file/all": "Both sides are the same {files}, byte for byte, and a file does not differ from itself. Compare two "
    "recordings, or kernels of this one by --match OLD=NEW.",
    "file/some": "Both sides have a file in common, byte for byte, and a file does not differ from itself. Compare two "
    "recordings, or kernels of this one by --match OLD=NEW.",
    "compute-capability": "GPUs of different compute capability run different machine code: neither time nor "
    "work is compared, except FLOP. Profile both sides on one GPU.",
    "gpu": "Times of different GPUs are not compared, and DRAM bytes vary with the size of L2. Profile both sides on "
    "one GPU.",
    "gpu/unknown": "A side does not name its GPU, which is assumed to be the same. Compare .ncu-rep files or "
    "sessions, which name it.",
    "sm-count": "The GPUs have different numbers of SMs, as MIG instances do: times are not compared. Profile both "
    "sides on the same GPU or instance.",
    "mixed-gpus": "A side has kernels of several GPUs: their differences count as noise between its runs. Compare "
    "one GPU at a time.",
    "durations": "Durations were measured in different ways: times are not compared. Under ncu, kernels run alone, "
    "often with locked clocks and flushed caches. Record both sides alike.",
    "durations/graph-replays": "One side has times of whole CUDA graphs, replayed under ncu with the gaps between "
    "nodes; the other has times of kernels. They are not compared. Profile both with the same --graph-profiling.",
    "gpu-count": "The sides have different numbers of GPUs, and GPU time and launches are sums over them: compare "
    "steps, and times of a launch.",
    "judged-part/base": "Only the base side has steps: its totals are of all of them, those of the new side of another "
    "part of its trace, and none are per step. Record both sides alike.",
    "judged-part/new": "Only the new side has steps: its totals are of all of them, those of the base side of another "
    "part of its trace, and none are per step. Record both sides alike.",
    "judged-part": "Spans, busy and idle times and copies are of different parts of the traces, and are not compared. "
    "Record both sides alike.",
    "clock-control": "ncu controlled the clocks differently on each side, and not all launches have an SM clock: "
    "times are not compared. Profile both with the same --clock-control.",
    "clock-control/known": "ncu controlled the clocks differently on each side: a change of time counts only if cycles "
    "and seconds agree. Profile both with the same --clock-control to see smaller changes.",
    "cache-control": "ncu flushed the caches before each pass on one side only: times, L2 and DRAM bytes are not "
    "compared. Profile both with the same --cache-control.",
    "clock-control-not-known": "The --clock-control of a side is unknown; it is assumed to be the same.",
    "cache-control-not-known": "The --cache-control of a side is unknown; it is assumed to be the same.",
    "throttling/both": "The driver lowered the clocks on both sides: seconds vary with that. Cool the GPU, or lock "
    "lower clocks.",
    "throttling/base": "The driver lowered the clocks on the base side: times are not compared. Cool the GPU, or lock "
    "lower clocks, and measure both sides again.",
    "throttling/new": "The driver lowered the clocks on the new side: times are not compared. Cool the GPU, or lock "
    "lower clocks, and measure both sides again.",
    "sm-clock": "The SM clock of the new side is {apart} the base's, by the median kernel: seconds vary with it. Lock "
    "the clocks, or measure both sides in turn.",
    "dram-clock": "The DRAM clock of the new side is {apart} the base's, which alone can change times by as much: only "
    "a larger change counts. Bring the GPU into one power state: nvidia-smi --lock-memory-clocks.",
    "temperature": "A warmer GPU can run at lower clocks. Let it warm up before both sides, or measure them in turn.",
    "ncu": "Releases of ncu rename counters and correct what they count: if the two sides name different counters, a "
    "count may differ only because of that. Profile both sides with one release.",
    "driver": "A driver compiles PTX and governs clocks: a kernel that is shipped as PTX may have other machine code. "
    "Use one driver, or compile for the GPU (-arch=sm_XX).",
    "gpuprof": "Versions of gpuprof may derive a quantity differently. Create both sessions again from their reports.",
    "printed-counts": "Counts printed with about four digits can differ by up to 1 % from rounding alone. Compare "
    ".ncu-rep files, or CSV of --page raw.",
    "profiled": "Not all kernels of a run were profiled: one that a side lacks may still have run.",
}
"""What follows from a condition, by its name and, if it has several cases, its kind."""
_FACTS: Mapping[FactKind, str] = {
    "copies": "On the {side} side {0} {copies} of another and not counted as runs: a copy does not show noise.",
    "no-kernels": "No kernel of the {side} side was recorded.",
    "excluded": "The {side} side was profiled in part (kernels were excluded): "
    "{0} {kernels} that {are} {absent} may have run on both sides.",
    "launches-profiled": "The {side} side was profiled in part ({1} of {2} launches): "
    "{0} {kernels} that {are} {absent} may have run on both sides.",
    "option": "The {side} side was profiled in part ({texts[0]}): "
    "{0} {kernels} that {are} {absent} may have run on both sides.",
    "no-configurations": "The {side} side has no launch configurations: kernels are matched by name alone.",
    "some-runs": "{0} {kernels} {are} in some of the {1} runs of the {side} side only.",
    "lanes": "The {side} side has several ranks or GPUs: each counts as a run in verdicts on time.",
    "unmatched": "{0} {kernels} removed, {1} added, no confident match. If {it_was} renamed: --match OLD=NEW.",
    "whole-graphs": "Kernels in whole CUDA graphs of the {side} side were not recorded: "
    "{0} {kernels} of the other side may run in them. Record both sides with nsys profile --cuda-graph-trace=node.",
    "left-out": "{0} of {1} kernels are left out{share}: {options}. Totals are of all kernels.",
    "no-base": "{0} {kernels} {are} new: {they_have} no base, so no limit of a kernel was checked.",
    "accepted-no-limit": "{texts[0]}: no limit is about {texts[1]}",
    "accepted-no-kernel": "{texts[0]}: no kernel matches {texts[2]!r:.80}",
    "accepted-twice": "{texts[0]}: another entry decides for {entry}: delete one of them",
    "accepted-idle": "{texts[0]}: {entry} keeps its limit: delete the entry",
    "accepted-ended": "{texts[0]}: {entry} keeps its limit, and it ended on {texts[3]}: delete the entry",
}
"""Facts, with their numbers in order and their words by name."""
_ACCEPTED = ("accepted-twice", "accepted-idle", "accepted-ended")
"""Facts about an entry of accepted regressions: its place, quantity, pattern of kernels and end."""
_ONE = {
    "copies": "file is a copy",
    "kernels": "kernel",
    "are": "is",
    "they_have": "it has",
}
_SEVERAL = {
    "copies": "files are copies",
    "kernels": "kernels",
    "are": "are",
    "they_have": "they have",
}


def condition_values(condition: RunCondition) -> tuple[str, str]:
    """Write the values of the base and of the new side."""
    return _values(condition, condition.base), _values(condition, condition.new)


def _values(condition: RunCondition, values: Sequence[str | float]) -> str:
    if condition.name == "profiled":
        pairs = zip(values[::2], values[1::2], strict=True)
        texts = [f"{part:.0f} of {whole:.0f} kernels" for part, whole in pairs]
        return short_list(texts, _SHOWN) or "all"
    return short_list([_value(condition, value) for value in values], _SHOWN) or NOT_KNOWN


def _value(condition: RunCondition, value: str | float) -> str:
    if isinstance(value, str):
        text = _WORDS.get((condition.name, value), value)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    if condition.name.endswith("-clock"):
        return format_si(value, "Hz")
    return f"{value:.0f} {_UNITS.get(condition.name, '')}".strip()


def condition_sentence(condition: RunCondition) -> str:
    """Write what follows from a condition, and a remedy."""
    case = f"{condition.name}/{condition.kind}" if condition.kind else condition.name
    change = (condition.ratio or 1.0) - 1
    relation = "above" if change > 0 else "below"
    return _SENTENCES[case].format(
        apart=f"{format_percent(abs(change))} {relation}",
        files="files" if len(condition.base) > 1 else "file",
    )


def fact_sentence(fact: ComparisonFact) -> str:
    """Write a fact about a comparison."""
    numbers = fact.numbers
    forms = _ONE if numbers[:1] == (1,) else _SEVERAL
    entry = ""
    if fact.kind in _ACCEPTED:
        _, quantity, pattern, _ = fact.texts
        entry = f"{quantity} of {pattern!r:.60}" if pattern else quantity
    return _FACTS[fact.kind].format(
        *map(spaced, numbers),
        side=fact.side,
        absent="gone" if fact.side == "new" else "new",
        share=f" ({format_percent(numbers[2])} of the time)" if len(numbers) > 2 else "",
        it_was="it was" if numbers == (1, 1) else "one was",
        options=" ".join(fact.texts)[:_MOST_OPTIONS],
        texts=fact.texts,
        entry=entry,
        **forms,
    )
