"""Verdicts on time and work in words, with what they are based on and why they are missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpuprof.comparison.contract import (
    ComparedKernel,
    CountChange,
    DoubtKind,
    FindingChange,
    KernelChange,
    QuantityChange,
    TimeChange,
    TimeDoubt,
    TimeWord,
    WorkChange,
    WorkNote,
    WorkNoteKind,
)
from gpuprof.comparison.sequential_test import StopReason
from gpuprof.comparison.timing.noise import FEWEST_RUNS
from gpuprof.units import counted, format_percent, signed_percent, spaced
from gpuprof.words.comparison_causes import stores_text
from gpuprof.words.comparison_values import (
    NOT_KNOWN,
    arrow_text,
    both_text,
    change_text,
    closed,
    count_name,
    count_values,
    in_brackets,
    interval_text,
    names_text,
    speed_text,
    value_text,
)

TIME_ORDER: tuple[TimeWord, ...] = ("slower", "faster", "unclear", "unknown", "new", "gone", "same")
"""Verdicts on time, the most important first."""
_VERDICT_WORDS: dict[TimeWord, str] = {
    "slower": "slower", "faster": "faster", "unclear": "unclear", "unknown": "without a verdict on time", "new": "new",
    "gone": "gone", "same": "same",
}  # fmt: skip


def time_text(time: TimeChange) -> str:
    """Write the verdict on time with its size: "slower by 18 %", "2.5x faster", "unclear −1.0 % to +6.0 %", "same"."""
    if time.verdict in ("slower", "faster"):
        return speed_text(time.ratio) if time.ratio is not None else time.verdict
    if time.verdict != "unclear":
        return time.verdict
    span = interval_text(time.interval) or (change_text(time.ratio) if time.ratio is not None else "")
    return f"unclear {span}" if span else "unclear"


def reason_text(time: TimeChange) -> str:
    """Write why a verdict on time is unclear or unknown, and how many runs would settle it; empty if it is clear."""
    return "; ".join(filter(None, (doubt_text(time), _needed_after_doubt(time))))


def brief_reason(time: TimeChange) -> str:
    """Write the same without explanation and remedy."""
    what = _doubt(time.doubt, time)[0] if time.doubt is not None else ""
    return "; ".join(filter(None, (what, _needed_after_doubt(time))))


def doubt_text(time: TimeChange) -> str:
    """Write why a verdict on time is unclear or unknown, with the remedy; empty if it is clear."""
    return "".join(_doubt(time.doubt, time)) if time.doubt is not None else ""


def runs_needed_text(time: TimeChange) -> str:
    """Write how many runs would settle an unclear verdict: "11 runs per side would settle it"; empty if not known."""
    return f"{counted(time.runs_needed, 'run')} per side would settle it" if time.runs_needed is not None else ""


def _needed_after_doubt(time: TimeChange) -> str:
    """Write the same behind a doubt; "too few runs" has named what they are."""
    if time.runs_needed is not None and time.doubt is not None and time.doubt.kind == "few-runs":
        return f"{spaced(time.runs_needed)} per side would settle it"
    return runs_needed_text(time)


def _doubt(doubt: TimeDoubt, time: TimeChange) -> tuple[str, str]:
    """Write the doubt, and what follows it behind a colon or semicolon."""
    if doubt.clear_in is not None:
        other = _doubt(TimeDoubt(kind=doubt.kind, size=doubt.size), time)
        return f"{doubt.clear_verdict} in {doubt.clear_in}", f"; in the other, {''.join(other)}"
    if doubt.kind == "stores":
        text, remedy = stores_text(doubt.sides[0])
        return text, f": {remedy}"
    what, more = _DOUBTS[doubt.kind]
    text = what.format(
        size=format_percent(doubt.size or 0.0),
        cycles=change_text(time.cycles_ratio),
        seconds=change_text(time.ratio),
        sides=" and the ".join(doubt.sides),
    )
    return text, more


_DOUBTS: dict[DoubtKind, tuple[str, str]] = {
    "few-runs": ("too few runs to estimate noise", ""),
    "noise": ("too noisy for the number of runs", ""),
    "overlap": ("the runs of the two sides overlap too much", ""),
    "drift": (
        "the runs of a side drift, which alone can make the sides differ by {size}", ": measure both in turn"
    ),
    "dram-clock": ("the DRAM clocks differ, which alone can make times differ by {size}", ""),
    "clocks-disagree": (
        "{cycles} in cycles and {seconds} in seconds",
        ": the SM clock was not the same; lock the clocks, or interleave the runs of both sides",
    ),
    "conditions": ("what is around the runs differs too much to compare their times", ""),
    "graph-replay": ("the time of a whole CUDA graph is that of its replay under ncu", ""),
    "no-durations": ("no durations on the {sides} side", ""),
}  # fmt: skip


def stop_text(reason: StopReason) -> str:
    """Write why measuring in turns ends."""
    return {
        "no-kernels": "no kernel that matters is on both sides with a time",
        "conditions": "what is around the runs differs too much to compare their times",
        "too-noisy": "what is unclear is not settled by as many runs as the budget has",
        "clear": "every kernel that matters is clear",
        "budget": "the budget is over",
        "most-runs": "there are runs enough",
    }[reason]


def noise_text(time: TimeChange) -> str:
    """Write where the noise is from; empty if it is not known."""
    match time.noise_basis:
        case "assumed":
            return (
                f"assumed, because a side has fewer than {FEWEST_RUNS} runs: 1 % between runs, and that all runs of a "
                "side can be slower or faster together"
            )
        case "pairs":
            return f"between {time.base_runs} pairs of runs"
        case "runs":
            runs = f"{time.base_runs} and {time.new_runs} runs"
            return f"between {runs}; 0.25 % more between sides that were not interleaved"
        case None:
            return ""


def samples_text(time: TimeChange) -> str:
    """Write the launches and runs that a time is from: "10 launches in 1 run on each side"; empty without any."""
    if not time.base_launches and not time.new_launches:
        return ""
    base, new = (
        f"{counted(launches, 'launch', 'es')} in {counted(runs, 'run')}"
        for runs, launches in ((time.base_runs, time.base_launches), (time.new_runs, time.new_launches))
    )
    return f"{base} on each side" if base == new else f"{base} on the base side, {new} on the new side"


def gain_text(finding: FindingChange) -> str:
    """Write the bound and the gain of a fix: "promised at most 31 % of the kernel's time, gained 20 %"."""
    promised, gained = finding.promised, finding.gained
    parts = []
    if promised is not None and math.isfinite(100 * promised):
        parts.append(f"promised at most {format_percent(promised)} of the kernel's time")
    if gained is not None and math.isfinite(100 * gained):
        lost = f"gained nothing: the kernel takes {signed_percent(-gained)}"
        parts.append(lost if gained < 0 else f"gained {format_percent(gained)}")
    return ", ".join(parts)


def time_values(time: TimeChange) -> str:
    """Write the median launch on both sides: "1.20 → 1.42 ms"; of a kernel on one side that side's.

    Times without a verdict get no further digits to differ in: those are noise.
    """
    if time.verdict in ("new", "gone"):
        return value_text(time.new_s if time.verdict == "new" else time.base_s, "s")
    if time.base_s is None and time.new_s is None:
        return NOT_KNOWN
    if time.verdict in ("slower", "faster"):
        return both_text(time.base_s, time.new_s, "s")
    return arrow_text(value_text(time.base_s, "s"), value_text(time.new_s, "s"))


def work_text(work: WorkChange) -> str:
    """Write the verdict on work with the count that changed most: "more: instructions +18 %", "same"."""
    if work.verdict not in ("more", "less", "changed"):
        return work.verdict
    main = main_count(work)
    if main is None:
        return work.verdict
    change = change_text(main.ratio) if main.ratio is not None else count_values(main)
    return f"{work.verdict}: {count_name(main.name)} {change}"


def main_count(work: WorkChange) -> CountChange | None:
    """Return the count to name beside a verdict on work: instructions if they changed, else the first that did."""
    moved = changed_counts(work)
    return next((count for count in moved if count.name == "instructions"), moved[0] if moved else None)


def changed_counts(work: WorkChange) -> list[CountChange]:
    """Return the counts that are not the same on both sides, in their order."""
    return [count for count in work.counts if count.word not in ("same", "unclear")]


def work_reason(change: KernelChange) -> str:
    """Write what the values of the work are of and why a verdict is missing, in sentences."""
    return " ".join(map(closed, _work_sentences(change)))


def brief_work_reason(change: KernelChange) -> str:
    """Write the same without the last full stop."""
    return ". ".join(_work_sentences(change))


def _work_sentences(change: KernelChange) -> Iterator[str]:
    """Yield the sentences without full stops; the notes that only add to "the same work" make one."""
    beside = [_BESIDE[note.kind].format(names_text(note.names)) for note in change.work.notes if note.kind in _BESIDE]
    for note in change.work.notes:
        if note.kind not in _BESIDE:
            yield _work_note(note, change)
        elif beside:
            yield f"The work is the same; {'; '.join(beside)}"
            beside = []


_BESIDE = {
    "resources": "resources that changed: {}",
    "too-varied": "too different within a side to tell: {}",
    "other-counters": "from other counters on each side: {}",
}


def _work_note(note: WorkNote, change: KernelChange) -> str:
    if note.kind in ("values-of-run", "values-of-launch"):
        return _basis(note, change)
    return _NOTES[note.kind].format(
        names=names_text(note.names),
        sides="Both sides have" if len(note.sides) != 1 else f"The {note.sides[0]} side has",
        launches=counted(note.launches or 0, "launch", "es"),
    )


_VARIES = "Launches of one side differ in {names}, so the work depends on data or on races"
_NOTES: dict[WorkNoteKind, str] = {
    "other-code": "The GPUs are of different compute capability and run different machine code: only FLOP are "
    "compared. Profile both sides on GPUs of one compute capability",
    "only-others-moved": "No count of what the code executes is known on both sides; others moved: {names}",
    "nothing-exact": "No count that repeats exactly is known on both sides; these are the same: {names}",
    "nothing-common": "No count is known on both sides: collect both with the same counters",
    "no-counts": "{sides} no counts of what a launch does: a timeline has none, and ncu's basic set hardly any. "
    "Profile both with gpuprof run, or with ncu --set full",
    "varies": f"{_VARIES}, and the ranges of both sides overlap",
    "varies-too-few": f"{_VARIES}; {{launches}} counted on a side cannot tell: count 9 a side, or fix the data",
    "other-opcodes": "As much work as before, by other instructions",
    "counted-once": "One launch was counted on a side: whether the work depends on data cannot be told",
    "caches": "Not compared, because the caches were not treated alike: {names}",
}


def _basis(note: WorkNote, change: KernelChange) -> str:
    count = next((count for count in change.work.counts if count.name == "launches"), None)
    before, after = (value_text(value) for value in ((count.base, count.new) if count is not None else (None, None)))
    launches = f"{before} on the base side, {after} on the new side"
    if note.kind == "values-of-launch":
        return f"Values are of one launch; launches of a run: {launches}"
    if len(change.base) == len(change.new) == 1:
        return f"Values are of all launches of a run: {launches}"
    base, new = (counted(len(kernels), "kernel") for kernels in (change.base, change.new))
    return f"Values are of all launches of a run, of {base} against {new}: {launches}"


def quantity_text(quantity: QuantityChange) -> str:
    """Write a figure of the whole run: "GPU time 15.5 → 12.7 ms (−18 %)"."""
    values = both_text(quantity.base, quantity.new, quantity.unit)
    return f"{count_name(quantity.name)} {values}{in_brackets(quantity.ratio)}"


def verdicts_text(kernels: Iterable[KernelChange]) -> str:
    """Write how many kernels have which verdict on time: "2 slower, 1 faster, 14 same"."""
    numbers = Counter(kernel.time.verdict for kernel in kernels)
    return ", ".join(f"{spaced(numbers[word])} {_VERDICT_WORDS[word]}" for word in TIME_ORDER if numbers[word])


def match_text(kernel: KernelChange) -> str:
    """Write how a kernel was matched unless by name and launch configuration; the label has both names."""
    before, after = (_labels(side) for side in (kernel.base, kernel.new))
    return {
        "exact": "",
        "new": "new",
        "gone": "gone",
        "reconfigured": "another launch configuration",
        "renamed": "renamed",
        "named": "matched by --match",
        "split": f"{before} was split into {after}",
        "fused": f"{before} were fused into {after}",
    }[kernel.match]


def _labels(side: Sequence[ComparedKernel]) -> str:
    labels = list(dict.fromkeys(kernel.label for kernel in side))
    return " and ".join([", ".join(labels[:-1]), labels[-1]]) if len(labels) > 1 else "".join(labels)
