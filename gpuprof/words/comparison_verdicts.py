"""Verdicts on time and work, of each kernel and of the run, in words, with their reasons and why they are missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpuprof.comparison.contract import (
    ChangeCause,
    ComparedKernel,
    CountChange,
    DoubtKind,
    FindingChange,
    KernelChange,
    LineChange,
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
from gpuprof.comparison.values import Values
from gpuprof.units import counted, format_change, format_percent, format_si, signed_percent, spaced
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
    side_texts,
    speed_text,
    times_text,
    value_text,
)

TIME_ORDER: tuple[TimeWord, ...] = ("slower", "faster", "unclear", "unknown", "new", "gone", "same")
"""Verdicts on time, the most important first."""
_VERDICT_WORDS: dict[TimeWord, str] = {
    "slower": "slower", "faster": "faster", "unclear": "unclear", "unknown": "without a verdict on time", "new": "new",
    "gone": "gone", "same": "same",
}  # fmt: skip
_LENGTH = 210
"""Characters of a sentence on a kernel; its first cause is always written whole."""
_STEADY = ("same", "unclear", "unknown", "new", "gone")
_LISTED, _LISTED_LENGTH = 3, 80
_MOST_QUIET = 3
_QUIET = {
    ("same", "same"): "with the same work in the same time",
    ("same", "unclear"): "with the same time; whether the work changed is unclear",
    ("same", "unknown"): "with the same time; the work is not known",
    ("unclear", "same"): "with the same work; whether the time changed is unclear",
    ("unclear", "unclear"): "of which neither time nor work can be judged",
    ("unclear", "unknown"): "whose change of time is unclear, and whose work is not known",
    ("unknown", "same"): "with the same work; the time is not known",
}
"""Words for kernels that are left out, by their verdicts on time and work."""
_TOO_LITTLE = "without a verdict that they changed"


def time_text(time: TimeChange) -> str:
    """Write the verdict on time with its size: "slower by 18 %", "2.5x faster", "unclear −1.0 % to +6.0 %", "same"."""
    if time.is_change:
        return speed_text(time.ratio) if time.ratio is not None else time.verdict
    if time.verdict != "unclear":
        return time.verdict
    span = interval_text(time.interval) or change_text(time.ratio, "")
    return f"unclear {span}" if span else "unclear"


def reason_text(time: TimeChange, *, brief: bool = False) -> str:
    """Write why a verdict on time is unclear or unknown, and how many runs would settle it; empty if it is clear.

    If `brief`, without explanation and remedy.
    """
    what, more = _doubt(time.doubt, time)
    needed = runs_needed_text(time)
    if time.runs_needed is not None and time.doubt is not None and time.doubt.kind == "few-runs":
        needed = f"{spaced(time.runs_needed)} per side would settle it"
    return "; ".join(filter(None, (what if brief else what + more, needed)))


def doubt_text(time: TimeChange) -> str:
    """Write why a verdict on time is unclear or unknown, with the remedy; empty if it is clear."""
    return "".join(_doubt(time.doubt, time))


def runs_needed_text(time: TimeChange) -> str:
    """Write how many runs would settle an unclear verdict: "11 runs per side would settle it"; empty if not known."""
    return f"{counted(time.runs_needed, 'run')} per side would settle it" if time.runs_needed is not None else ""


def _doubt(doubt: TimeDoubt | None, time: TimeChange) -> tuple[str, str]:
    """Write the doubt, and what follows it behind a colon or semicolon."""
    if doubt is None:
        return "", ""
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
    "conditions": ("the conditions of the runs differ too much to compare their times", ""),
    "graph-replay": ("the time of a whole CUDA graph is that of its replay under ncu", ""),
    "no-durations": ("no durations on the {sides} side", ""),
}  # fmt: skip


def stop_text(reason: StopReason) -> str:
    """Write why measuring in turns ends."""
    return {
        "no-kernels": "no kernel that matters is on both sides with a time",
        "conditions": "the conditions of the runs differ too much to compare their times",
        "too-noisy": "the budget has too few runs to settle what is unclear",
        "clear": "every kernel that matters is clear",
        "budget": "the budget is used up",
        "most-runs": "the maximum number of runs is reached",
    }[reason]


def noise_text(time: TimeChange) -> str:
    """Write the source of the noise; empty if it is not known."""
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
    """Write the median launch on both sides: "1.20 → 1.42 ms"; of a kernel on one side that side's."""
    if time.verdict in ("new", "gone"):
        return value_text(time.new_s if time.verdict == "new" else time.base_s, "s")
    if time.base_s is None and time.new_s is None:
        return NOT_KNOWN
    return arrow_text(*time_texts(time))


def time_texts(time: TimeChange) -> tuple[str, str]:
    """Write the median launch on each side; without a verdict with no further digits to differ in."""
    if time.is_change:
        return side_texts(time.base_s, time.new_s, "s")
    return value_text(time.base_s, "s"), value_text(time.new_s, "s")


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
    """Write which launches the values of the work cover, and why a verdict is missing, in sentences."""
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
    "too-varied": "too different within a side to compare: {}",
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
    "varies-too-few": f"{_VARIES}; {{launches}} counted on a side are too few to compare: count 9 a side, or "
    "fix the data",
    "other-opcodes": "As much work as before, by other instructions",
    "counted-once": "One launch was counted on a side: whether the work depends on data is not known",
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
    """Write how both sides were matched unless by name and launch configuration; the label has both names."""
    before, after = (_labels(side) for side in (kernel.base, kernel.new))
    return {
        "exact": "",
        "new": "",
        "gone": "",
        "reconfigured": "another launch configuration",
        "renamed": "renamed",
        "named": "matched by --match",
        "split": f"{before} was split into {after}",
        "fused": f"{before} were fused into {after}",
    }[kernel.match]


def _labels(side: Sequence[ComparedKernel]) -> str:
    labels = list(dict.fromkeys(kernel.label for kernel in side))
    return " and ".join([", ".join(labels[:-1]), labels[-1]]) if len(labels) > 1 else "".join(labels)


def kernel_sentence(change: KernelChange) -> str:
    """Write how a kernel changed and why: "slower by 18 %: registers 40 → 72, occupancy 75 % → 50 %"."""
    return ": ".join(filter(None, (kernel_verdict(change), kernel_reasons(change))))


def kernel_verdict(change: KernelChange) -> str:
    """Write how a kernel changed: "1.8x faster a launch, 10 → 20 launches, together 1.00 → 1.10 ms (+10 %)"."""
    return ", ".join(filter(None, verdict_parts(change)))


def verdict_parts(change: KernelChange) -> tuple[str, str]:
    """Write the verdict on the time of a launch, and what belongs to it: all launches, or the runs it is from."""
    time = change.time
    if time.is_change and time.ratio is not None:
        launches = launches_text(change)
        return f"{speed_text(time.ratio)}{' a launch' if launches else ''}", launches
    if time.verdict == "unclear" and time.ratio is not None:
        if time.noise is None:
            return "times not comparable", ""
        return f"time {format_change(time.ratio)}", f"unclear from {_runs(time)}"
    if time.verdict == "same":
        return "same time", ""
    return "time not known" if time.verdict == "unknown" else time.verdict, ""


def launches_text(change: KernelChange) -> str:
    """Write the change of all launches of a run, if it has more or fewer: "10 → 20 launches, together 1.0 → 1.1 ms"."""
    before, after = (sum(kernel.launches for kernel in side) for side in (change.base, change.new))
    totals = total_s(change.base), total_s(change.new)
    if before == after or totals[0] is None or totals[1] is None:
        return ""
    return f"{both_text(before, after)} launches, together {times_text(Values(totals[0], totals[1]))}"


def total_s(side: Sequence[ComparedKernel]) -> float | None:
    """Return the time of all launches of a run; None if that of one of the kernels is not known."""
    times = [kernel.time_total_s for kernel in side]
    known = [time for time in times if time is not None]
    return sum(known) if len(known) == len(times) else None


def _runs(time: TimeChange) -> str:
    """Write the runs that an unclear verdict is based on: "1 run a side", "3 and 5 runs"."""
    if time.base_runs != time.new_runs:
        return f"{time.base_runs} and {time.new_runs} runs"
    return f"{counted(time.base_runs, 'run')} a side"


def kernel_reasons(change: KernelChange) -> str:
    """Write why the time of a kernel changed, as far as there is room; of a kernel on one side, its time.

    First what explains the change, then what works against it, what stayed the same, and last a line.
    """
    time = change.time
    if time.verdict in ("new", "gone"):
        seconds = time.new_s if time.verdict == "new" else time.base_s
        took = "it took " if time.verdict == "gone" else ""
        return f"{took}{format_si(seconds, 's')} a launch" if seconds is not None else ""
    if _has_same_work(change):
        return "the same work"
    lines = [cause for cause in change.causes if cause.location is not None]
    tail = lines[0].sentence if lines else ""
    room = _LENGTH - len(kernel_verdict(change)) - len(f"; {tail}" if tail else "")
    return "; ".join(filter(None, (_listed(change, room), tail)))


def _has_same_work(change: KernelChange) -> bool:
    """Return whether there is nothing to explain: no change of time or work, at the same clock."""
    has_clock = any(cause.mechanism == "clock" for cause in change.causes)
    return change.time.verdict in _STEADY and change.work.verdict == "same" and not has_clock


def _listed(change: KernelChange, room: int) -> str:
    """Join the causes that are of no line. What works against the change follows a "but", nothing runs on after it."""
    word = "slower" if (change.time.ratio or 1.0) > 1 else "faster"
    text, before = "", "with"
    for cause in change.causes:
        if cause.location is not None or (cause.mechanism == "launches" and change.time.verdict not in _STEADY):
            continue
        now = _relation(cause, word)
        if text:
            added = f"{_joint(before, now)}{cause.sentence}"
        else:
            added = f"{'although ' if now == 'against' else ''}{cause.sentence}"
        if text and len(text) + len(added) > room:
            break
        text, before = text + added, now
    return text


def _relation(cause: ChangeCause, word: str) -> str:
    if cause.direction == "neutral":
        return "beside"
    return "with" if cause.direction == word else "against"


def _joint(before: str, now: str) -> str:
    if now == before or (before, now) == ("with", "beside"):
        return ", "
    return "; but " if now == "against" else "; "


def beside_figures(change: KernelChange) -> str:
    """Write the facts beside the figures of a kernel: how it was matched, its launches, what is unclear, and why.

    The doubt comes before the reasons, which may be long: a view cuts the end.
    """
    if change.is_one_sided:
        return ""
    changed = change.time.is_change
    reasons = kernel_reasons(change) if not _has_same_work(change) else ""
    parts = (match_text(change), launches_text(change) if changed else "", _interval_if_unclear(change.time), reasons)
    return "; ".join(filter(None, parts))


def _interval_if_unclear(time: TimeChange) -> str:
    """Write the interval of an unclear change, and what would settle it."""
    if time.verdict != "unclear":
        return ""
    interval = interval_text(time.interval)
    needed = runs_needed_text(time)
    return ", ".join(filter(None, (f"time {interval} at 99 %" if interval else "", needed)))


def line_text(line: LineChange, file: str) -> str:
    """Write the work that a line gained or lost: "mlp.cu:12 (was 10): 440 M → 17.7 M instructions"."""
    unit = "local accesses" if line.what == "local" else line.what
    if line.new_line is None:
        return f"{file}:{line.base_line} is gone: {value_text(line.base)} {unit}"
    if line.base_line is None:
        return f"{file}:{line.new_line} is new: {value_text(line.new)} {unit}"
    moved = f" (was {line.base_line})" if line.base_line != line.new_line else ""
    return f"{file}:{line.new_line}{moved}: {both_text(line.base, line.new)} {unit}"


def quiet_texts(quiet: Sequence[KernelChange]) -> Iterator[str]:
    """Yield a text for each kind of kernel that is left out because it is not known to have changed."""
    kinds: dict[str, list[KernelChange]] = {}
    for kernel in quiet:
        kinds.setdefault(_QUIET.get((kernel.time.verdict, kernel.work.verdict), _TOO_LITTLE), []).append(kernel)
    while len(kinds) > _MOST_QUIET:
        _, members = kinds.popitem()
        kinds.setdefault(_TOO_LITTLE, []).extend(members)
        if list(kinds) == [_TOO_LITTLE]:
            break
    for what, members in kinds.items():
        names = list(dict.fromkeys(kernel.label for kernel in members))
        is_short = len(names) <= _LISTED and sum(map(len, names)) <= _LISTED_LENGTH
        listed = f": {', '.join(names)}" if is_short else ""
        slowest = max((kernel.time for kernel in members), key=lambda time: time.runs_needed or 0)
        needed = f"; {runs_needed_text(slowest)}" if slowest.runs_needed else ""
        yield f"{counted(len(members), 'kernel')} {what}{needed}{listed}"
