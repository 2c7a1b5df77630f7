"""Verdicts on time and work in words, with their reasons and why they are missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gpuprof.comparison.causes.opcodes import has_lost_effect
from gpuprof.comparison.contract import (
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
from gpuprof.comparison.values import Values, all_known
from gpuprof.comparison.work.counts import LAUNCHES
from gpuprof.model.headline import listed
from gpuprof.model.kernel_key import kernel_key
from gpuprof.units import (
    counted,
    format_change,
    format_percent,
    format_si,
    signed_percent,
    spaced,
)
from gpuprof.words.comparison_causes import CHECK_RESULT, stores_text
from gpuprof.words.comparison_values import (
    NOT_KNOWN,
    arrow_text,
    both_text,
    change_text,
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
from gpuprof.words.sentences import full_stop, joined_by

TIME_ORDER: tuple[TimeWord, ...] = ("slower", "faster", "unclear", "unknown", "new", "gone", "same")
"""Verdicts on time, the most important first."""
_MOVED = ("slower", "faster", "new", "gone")
LEAST_EFFECT = 0.01
"""An unclear change, or another number of launches, counts if it changes the time of the run by this fraction."""
_LENGTH = 210
"""Maximum characters of a sentence on a kernel; its first cause is always written whole."""
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
_UNSEEN = {
    "in-graphs": "that may run in whole CUDA graphs of the other side",
    "other-part": "that may run in a part of the other side's trace that is not judged",
}
"""Words for those of one side, by why the other may have them, too."""
_NO_VERDICT = "without a verdict that they changed"


def time_text(time: TimeChange) -> str:
    """Write the verdict on time with its size: "slower by 18 %", "unclear −1 % to +6 %", "same"."""
    if time.is_change and time.ratio is not None:
        return speed_text(time.ratio)
    if time.verdict != "unclear":
        return time.verdict
    span = interval_text(time.interval) or change_text(time.ratio, "")
    return joined_by(" ", "unclear", span)


def reason_text(time: TimeChange, *, brief: bool = False) -> str:
    """Write why a verdict on time is missing, and how many runs would settle it; empty if clear.

    If `brief`, without explanation and remedy.
    """
    reason, more = _doubt(time.doubt, time)
    if not brief:
        reason += more
    needed = runs_needed_text(time)
    doubt = time.doubt
    if time.runs_needed is not None and doubt is not None and doubt.kind == "few-runs":
        needed = f"{spaced(time.runs_needed)} per side would settle it"
    return joined_by("; ", reason, needed)


def doubt_text(time: TimeChange) -> str:
    """Write why a verdict on time is unclear or unknown, with the remedy; empty if it is clear."""
    return "".join(_doubt(time.doubt, time))


def runs_needed_text(time: TimeChange) -> str:
    """Write how many runs would settle an unclear verdict; empty if not known."""
    if time.runs_needed is None:
        return ""
    return f"{counted(time.runs_needed, 'run')} per side would settle it"


def _doubt(doubt: TimeDoubt | None, time: TimeChange) -> tuple[str, str]:
    """Write the reason, and the explanation or remedy behind a colon or semicolon."""
    if doubt is None:
        return "", ""
    if doubt.clear_in is not None:
        other = "".join(_doubt(TimeDoubt(kind=doubt.kind, size=doubt.size), time))
        return f"{doubt.clear_verdict} in {doubt.clear_in}", f"; in the other, {other}"
    if doubt.kind == "stores":
        return stores_text(doubt.sides[0]), f": {CHECK_RESULT}"
    reason, remedy = _DOUBTS[doubt.kind]
    text = reason.format(
        size=format_percent(doubt.size or 0.0),
        cycles=change_text(time.cycles_ratio),
        seconds=change_text(time.ratio),
        sides=" and the ".join(doubt.sides),
    )
    return text, remedy


_DOUBTS: dict[DoubtKind, tuple[str, str]] = {
    "few-runs": ("too few runs to estimate noise", ""),
    "noise": ("too noisy for the number of runs", ""),
    "overlap": ("the runs of the two sides overlap too much", ""),
    "drift": (
        "the runs of a side drift, which alone can make the sides differ by {size}",
        ": measure both in turn",
    ),
    "dram-clock": ("the DRAM clocks differ, which alone can make times differ by {size}", ""),
    "clocks-disagree": (
        "{cycles} in cycles and {seconds} in seconds",
        ": the SM clock was not the same; lock the clocks, or interleave the runs of both sides",
    ),
    "conditions": ("the conditions of the runs differ too much to compare their times", ""),
    "other-ranges": (
        "launches of other lengths, not as often and in other ranges or configurations",
        ": compare the total",
    ),
    "in-graphs": (
        "it may run in whole CUDA graphs of the {sides} side",
        "; record both with nsys profile --cuda-graph-trace=node",
    ),
    "other-part": (
        "it may run in a part of the {sides} side's trace that is not judged",
        "; record both sides alike",
    ),
    "graph-replay": ("the time of a whole CUDA graph is that of its replay under ncu", ""),
    "no-durations": ("no durations on the {sides} side", ""),
}


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
                f"assumed, because a side has fewer than {FEWEST_RUNS} runs: 1 % between runs, "
                "and a common shift of all runs of a side"
            )
        case "pairs":
            return f"between {time.base_runs} pairs of runs"
        case "runs":
            runs = f"{time.base_runs} and {time.new_runs} runs"
            return f"between {runs}; 0.25 % more between sides that were not interleaved"
        case None:
            return ""


def samples_text(time: TimeChange) -> str:
    """Write the launches and runs of a time: "10 launches in 1 run on each side"; empty if none."""
    if not time.base_launches and not time.new_launches:
        return ""
    base = _launches_in_runs(time.base_launches, time.base_runs)
    new = _launches_in_runs(time.new_launches, time.new_runs)
    if base == new:
        return f"{base} on each side"
    return f"{base} on the base side, {new} on the new side"


def _launches_in_runs(launches: int, runs: int) -> str:
    return f"{counted(launches, 'launch', 'es')} in {counted(runs, 'run')}"


def gain_text(finding: FindingChange) -> str:
    """Write the bound and the gain: "promised at most 31 % of the kernel's time, gained 20 %"."""
    promised = finding.promised
    gained = finding.gained
    parts = []
    if promised is not None and math.isfinite(100 * promised):
        parts.append(f"promised at most {format_percent(promised)} of the kernel's time")
    if gained is not None and math.isfinite(100 * gained):
        if gained < 0:
            parts.append(f"gained nothing: the kernel takes {signed_percent(-gained)}")
        else:
            parts.append(f"gained {format_percent(gained)}")
    return ", ".join(parts)


def time_values(time: TimeChange) -> str:
    """Write the median launch on the sides that have the kernel: "1.20 ms → 1.42 ms"."""
    if time.verdict == "new":
        return value_text(time.new_s, "s")
    if time.verdict == "gone":
        return value_text(time.base_s, "s")
    if time.base_s is None and time.new_s is None:
        return NOT_KNOWN
    return arrow_text(*time_texts(time))


def time_texts(time: TimeChange) -> tuple[str, str]:
    """Write the median launch on each side; with more digits only if there is a verdict."""
    if time.is_change:
        return side_texts(time.base_s, time.new_s, "s")
    return value_text(time.base_s, "s"), value_text(time.new_s, "s")


def work_text(work: WorkChange) -> str:
    """Write the verdict on work with its main count: "more: instructions +18 %", "same"."""
    if work.verdict not in ("more", "less", "changed"):
        return work.verdict
    main = main_count(work)
    if main is None:
        return work.verdict
    change = count_values(main) if main.ratio is None else change_text(main.ratio)
    return f"{work.verdict}: {count_name(main.name)} {change}"


def main_count(work: WorkChange) -> CountChange | None:
    """Return the count to name beside a verdict on work: instructions, else the first that changed."""
    changed = changed_counts(work)
    instructions = [count for count in changed if count.name == "instructions"]
    return next(iter(instructions + changed), None)


def changed_counts(work: WorkChange) -> list[CountChange]:
    """Return the counts that are not the same on both sides, in their order."""
    return [count for count in work.counts if count.word not in ("same", "unclear")]


def work_reason(change: KernelChange) -> str:
    """Write the launches that the counts of the work cover, and why a verdict is missing."""
    return " ".join(map(full_stop, _work_sentences(change)))


def brief_work_reason(change: KernelChange) -> str:
    """Write the same as `work_reason`, without the last full stop."""
    return ". ".join(_work_sentences(change))


def _work_sentences(change: KernelChange) -> Iterator[str]:
    """Yield sentences without full stops; notes that only add to "the same work" make one."""
    notes = change.work.notes
    additions = [note for note in notes if note.kind in _ADDITIONS]
    for note in notes:
        if note.kind not in _ADDITIONS:
            yield _work_note(note, change)
        elif note is additions[0]:
            texts = [_ADDITIONS[item.kind].format(names_text(item.names)) for item in additions]
            yield f"The work is the same; {'; '.join(texts)}"


_ADDITIONS = {
    "resources": "resources that changed: {}",
    "too-varied": "too different within a side to compare: {}",
    "other-counters": "from other counters on each side: {}",
}


def _work_note(note: WorkNote, change: KernelChange) -> str:
    if note.kind in ("values-of-run", "values-of-launch"):
        return _basis(note, change)
    return _NOTES[note.kind].format(
        names=names_text(note.names),
        sides=f"The {note.sides[0]} side has" if len(note.sides) == 1 else "Both sides have",
        launches=counted(note.launches or 0, "launch", "es"),
    )


_VARIES = "Launches of one side differ in {names}, so the work depends on data or on races"
_NOTES: dict[WorkNoteKind, str] = {
    "other-code": "The GPUs are of different compute capability and run different machine code: "
    "only FLOP are compared. Profile both sides on GPUs of one compute capability",
    "only-others-moved": "No count of what the code executes is known on both sides; others moved: {names}",
    "nothing-exact": "No count that repeats exactly is known on both sides; these are the same: {names}",
    "nothing-common": "No count is known on both sides: collect both with the same counters",
    "no-counts": "{sides} no counts of what a launch does: a timeline has none, and ncu's basic set "
    "hardly any. Profile both with gpuprof run, or with ncu --set full",
    "varies": f"{_VARIES}, and the ranges of both sides overlap",
    "varies-too-few": f"{_VARIES}; {{launches}} counted on a side are too few to compare: "
    "count 9 a side, or fix the data",
    "other-opcodes": "The same amount of work, by other instructions",
    "counted-once": "One launch was counted on a side: whether the work depends on data is not known",
    "caches": "Not compared, because cache control differs: {names}",
    "other-launches": "Not compared, because the recordings are not of the same launches: {names}",
}


def _basis(note: WorkNote, change: KernelChange) -> str:
    """Write which launches the values of the work cover."""
    count = change.work.count("launches")
    before, after = (count.base, count.new) if count is not None else (None, None)
    launches = f"{value_text(before)} on the base side, {value_text(after)} on the new side"
    if note.kind == "values-of-launch":
        return f"Values are of one launch; launches of a {change.per}: {launches}"
    if len(change.base) == len(change.new) == 1:
        return f"Values are of all launches of a {change.per}: {launches}"
    base = counted(len(change.base), "kernel")
    new = counted(len(change.new), "kernel")
    return f"Values are of all launches of a {change.per}, of {base} against {new}: {launches}"


def quantity_text(quantity: QuantityChange) -> str:
    """Write a figure of the whole run: "GPU time 15.5 ms → 12.7 ms (−18 %)"."""
    values = both_text(quantity.base, quantity.new, quantity.unit)
    return f"{count_name(quantity.name)} {values}{in_brackets(quantity.ratio)}"


def verdicts_text(kernels: Iterable[KernelChange]) -> str:
    """Write how many kernels have which verdict on time: "2 slower, 1 faster, 14 same"."""
    numbers = Counter(kernel.time.verdict for kernel in kernels)
    texts = []
    for verdict in TIME_ORDER:
        if numbers[verdict]:
            words = "without a verdict on time" if verdict == "unknown" else verdict
            texts.append(f"{spaced(numbers[verdict])} {words}")
    return ", ".join(texts)


def match_text(kernel: KernelChange) -> str:
    """Write how both sides were matched; empty for the same name and launch configuration."""
    before = _labels(kernel.base)
    after = _labels(kernel.new)
    return {
        "exact": "",
        "new": "",
        "gone": "",
        "unrecorded": "",
        "reconfigured": _reconfigured_text(kernel),
        "renamed": "renamed",
        "named": "matched by --match",
        "split": f"{before} was split into {after}",
        "fused": f"{before} were fused into {after}",
    }[kernel.match]


def _reconfigured_text(kernel: KernelChange) -> str:
    """Write what differs of a function: its launch configuration, its arguments, or both."""
    kernels = (*kernel.base, *kernel.new)
    names = {kernel_key(one.demangled) for one in kernels}
    texts = []
    if len(names) > 1:
        texts.append("other template arguments" if any("<" in name for name in names) else "other parameters")
    if len(names) == 1 or len({(one.grid, one.block) for one in kernels}) > 1:
        texts.append("another launch configuration")
    return " and ".join(texts)


def _labels(side: Sequence[ComparedKernel]) -> str:
    return listed(list(dict.fromkeys(kernel.label for kernel in side)))


def kernel_sentence(change: KernelChange) -> str:
    """Write how a kernel changed and why: "slower by 18 %: registers 40 → 72"."""
    return joined_by(": ", kernel_verdict(change), kernel_reasons(change))


def kernel_verdict(change: KernelChange) -> str:
    """Write how a kernel changed: "1.8x faster a launch, 10 → 20 launches, together …"."""
    return joined_by(", ", *verdict_parts(change))


def verdict_parts(change: KernelChange) -> tuple[str, str]:
    """Write the verdict on the time of a launch, and the total of all or the number of runs."""
    time = change.time
    if time.is_change and time.ratio is not None:
        launches = launches_text(change)
        speed = speed_text(time.ratio)
        return f"{speed} a launch" if launches else speed, launches
    if time.verdict == "unclear" and time.ratio is not None:
        if time.noise is None:
            return "times not comparable", ""
        return f"time {format_change(time.ratio)}", f"unclear from {_runs(time)}"
    if change.match == "unrecorded":
        return f"not seen on the {change.lacking} side", ""
    return {"same": "same time", "unknown": "time not known"}.get(time.verdict, time.verdict), ""


def launches_text(change: KernelChange) -> str:
    """Write "10 → 20 launches, together 1.0 ms → 1.1 ms"; empty if there are as many as before."""
    before = launch_count(change.base)
    after = launch_count(change.new)
    before_s = total_s(change.base)
    after_s = total_s(change.new)
    if before == after or before_s is None or after_s is None:
        return ""
    together = f"together {times_text(Values(before_s, after_s))}"
    return f"{both_text(before, after)} launches{per_step_text(change)}, {together}"


def per_step_text(change: KernelChange) -> str:
    """Write what launches are of, unless of a run."""
    return " per step" if change.per == "step" else ""


def moving(kernels: Sequence[KernelChange]) -> list[KernelChange]:
    """Return those of a function's kernels that move the time of the run, the surest first.

    Those with another time, and those with an unclear one or another number of launches, if they move it together
    by `LEAST_EFFECT`. If the effect is not known, any other number of launches counts.
    """
    sure: list[KernelChange] = []
    others: list[KernelChange] = []
    for kernel in kernels:
        if kernel.time.verdict in _MOVED or has_lost_effect(kernel):
            sure.append(kernel)
        elif kernel.time.verdict == "unclear" or has_other_launches(kernel):
            others.append(kernel)
    effects = all_known(kernel.effect for kernel in others)
    if effects is None:
        others = list(filter(has_other_launches, others))
    elif abs(sum(effects)) < LEAST_EFFECT:
        others = []
    return sure + others


def has_other_launches(change: KernelChange) -> bool:
    """Return whether a kernel of both sides has more or fewer launches on one of them, and these compare."""
    launches = change.work.count(LAUNCHES)
    is_compared = all(note.kind != "other-launches" for note in change.work.notes)
    return launches is not None and launches.word != "same" and is_compared


def launch_count(side: Sequence[ComparedKernel]) -> float:
    """Return the launches of a run or step on a side."""
    return sum(kernel.launches for kernel in side)


def total_s(side: Sequence[ComparedKernel]) -> float | None:
    """Return the time of all launches of a run or step; None if that of one of the kernels is not known."""
    times = all_known(kernel.time_total_s for kernel in side)
    return sum(times) if times is not None else None


def _runs(time: TimeChange) -> str:
    """Write the runs that an unclear verdict is based on: "1 run a side", "3 and 5 runs"."""
    if time.base_runs != time.new_runs:
        return f"{time.base_runs} and {time.new_runs} runs"
    return f"{counted(time.base_runs, 'run')} a side"


def kernel_reasons(change: KernelChange) -> str:
    """Write why the time of a kernel changed; its time if it is on one side.

    First the causes of the change, then those against it and what stayed the same, and last a line.
    """
    time = change.time
    if time.verdict == "new":
        return f"{format_si(time.new_s, 's')} a launch" if time.new_s is not None else ""
    if time.verdict == "gone":
        return f"it took {format_si(time.base_s, 's')} a launch" if time.base_s is not None else ""
    if change.is_one_sided:
        return reason_text(time, brief=True)
    if _has_same_work(change):
        return "the same work"
    line = next((cause.sentence for cause in change.causes if cause.location is not None), "")
    room = _LENGTH - len(kernel_verdict(change))
    if line:
        room -= len(f"; {line}")
    return joined_by("; ", _joined_causes(change, room), line)


def _has_same_work(change: KernelChange) -> bool:
    """Return whether there is nothing to explain: no change of time or work, at the same clock."""
    has_clock = any(cause.mechanism == "clock" for cause in change.causes)
    return not change.time.is_change and change.work.verdict == "same" and not has_clock


def _joined_causes(change: KernelChange, room: int) -> str:
    """Join the causes without a line that fit; "but" precedes those against the change."""
    direction = "slower" if (change.time.ratio or 1.0) > 1 else "faster"
    text = ""
    before = "with"
    for cause in change.causes:
        # The verdict on a change of time names the launches.
        is_named = cause.mechanism == "launches" and change.time.is_change
        if is_named or cause.location is not None:
            continue
        relation = {"neutral": "beside", direction: "with"}.get(cause.direction, "against")
        if not text:
            text = f"although {cause.sentence}" if relation == "against" else cause.sentence
        else:
            added = f"{_joint(before, relation)}{cause.sentence}"
            if len(text) + len(added) > room:
                break
            text += added
        before = relation
    return text


def _joint(before: str, relation: str) -> str:
    """Return the words between two causes, by their relations to the change of time."""
    if relation == before or (before, relation) == ("with", "beside"):
        return ", "
    return "; but " if relation == "against" else "; "


def beside_figures(change: KernelChange) -> str:
    """Write the facts beside the figures of a kernel: match, launches, doubt and causes.

    The doubt comes before the causes, which may be long: a view cuts the end.
    """
    if change.is_one_sided:
        return reason_text(change.time, brief=True)
    return joined_by(
        "; ",
        match_text(change),
        launches_text(change) if change.time.is_change else "",
        _interval_if_unclear(change.time),
        "" if _has_same_work(change) else kernel_reasons(change),
    )


def _interval_if_unclear(time: TimeChange) -> str:
    """Write the interval of an unclear change, and how many runs would settle it."""
    if time.verdict != "unclear":
        return ""
    interval = interval_text(time.interval)
    if interval:
        interval = f"time {interval} at 99 %"
    return joined_by(", ", interval, runs_needed_text(time))


def line_text(line: LineChange, file: str) -> str:
    """Write the work of a line: "mlp.cu:12 (was 10): 440 M → 17.7 M instructions"."""
    unit = "local accesses" if line.what == "local" else line.what
    if line.new_line is None:
        return f"{file}:{line.base_line} is gone: {value_text(line.base)} {unit}"
    if line.base_line is None:
        return f"{file}:{line.new_line} is new: {value_text(line.new)} {unit}"
    moved = f" (was {line.base_line})" if line.base_line != line.new_line else ""
    return f"{file}:{line.new_line}{moved}: {both_text(line.base, line.new)} {unit}"


def quiet_texts(quiet: Sequence[KernelChange]) -> Iterator[str]:
    """Yield a text for each kind of kernel that is left out without a known change."""
    kinds: dict[str, list[KernelChange]] = {}
    for kernel in quiet:
        kind = _QUIET.get((kernel.time.verdict, kernel.work.verdict), _NO_VERDICT)
        if kernel.time.doubt is not None:
            kind = _UNSEEN.get(kernel.time.doubt.kind, kind)
        kinds.setdefault(kind, []).append(kernel)
    while len(kinds) > _MOST_QUIET:
        _, members = kinds.popitem()
        kinds.setdefault(_NO_VERDICT, []).extend(members)
        if list(kinds) == [_NO_VERDICT]:
            break
    for kind, members in kinds.items():
        yield f"{counted(len(members), 'kernel')} {kind}{_most_runs(members)}{_names(members)}"


def _most_runs(members: Sequence[KernelChange]) -> str:
    """Write how many runs would settle the verdict that needs most; empty if not known."""
    most = max((kernel.time for kernel in members), key=lambda time: time.runs_needed or 0)
    return f"; {runs_needed_text(most)}" if most.runs_needed else ""


def _names(members: Sequence[KernelChange]) -> str:
    """Write the names of kernels behind a colon; empty if they are too long to list."""
    names = list(dict.fromkeys(kernel.label for kernel in members))
    is_short = len(names) <= _LISTED and sum(map(len, names)) <= _LISTED_LENGTH
    return f": {', '.join(names)}" if is_short else ""
