"""The verdicts in words: of a kernel with its cause, and of the whole run."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.comparison.causes.opcodes import effect_lost
from gpuprof.comparison.contract import (
    TIMES,
    ChangeCause,
    KernelChange,
    QuantityChange,
    RunCondition,
    TimeChange,
    WorkChange,
)
from gpuprof.comparison.pair import Pair
from gpuprof.comparison.words import Values, both_text, count_name, short, speed_text, times_text
from gpuprof.units import format_change, format_si, significant

_LENGTH = 200
"""What a sentence on a kernel is cut to; the first cause is always told whole."""
_NAMED = 2
"""Kernels that the sentence on the run names."""
_CONDITIONS = {
    "gpu": "the GPUs", "compute-capability": "the GPUs", "sm-count": "the numbers of SMs", "throttling": "throttling",
    "clock-control": "the ways in which clocks were locked", "durations": "the ways in which times were taken",
    "cache-control": "the ways in which caches were flushed",
}  # fmt: skip
"""What differs, by the name of the condition that forbids a verdict."""
_STEADY = ("same", "unclear", "unknown", "new", "gone")


def kernel_sentence(pair: Pair, time: TimeChange, work: WorkChange, causes: Sequence[ChangeCause]) -> str:
    """Say what became of a kernel and why: "slower by 18 %: registers 40 → 72, occupancy 75 % → 50 %"."""
    head = _verdict(pair, time)
    if time.verdict in ("new", "gone"):
        return head
    texts = _reasons(time, work, causes, room=_LENGTH - len(head))
    return f"{head}: {texts}" if texts else head


def whole_sentence(
    total: Sequence[QuantityChange],
    kernels: Sequence[KernelChange],
    conditions: Sequence[RunCondition],
    *,
    identical: bool = False,
) -> str:
    """Say what became of the run, and which kernel most of it comes from; first of all what forbids a verdict."""
    if identical:
        named = [kernel for kernel in kernels if kernel.match not in ("exact", "new", "gone")]
        return f"both sides are the same recording: {_kernels(named) or 'nothing to compare'}"
    time = next((item for item in total if item.name in TIMES), None)
    known = time is not None and time.base is not None and time.new is not None
    parts = [f"{_time_of_run(time)}{_of_both(kernels)}"] if time is not None and known else []
    kernels_text = _kernels(kernels)
    text = ": ".join([*parts, kernels_text]) if kernels_text else "".join(parts)
    barred = _barred(conditions)
    return "; ".join(part for part in (barred, text) if part) or "nothing to compare"


def _barred(conditions: Sequence[RunCondition]) -> str:
    """Name what forbids a verdict: "no verdict on time and work: the GPUs differ"; empty where nothing."""
    affecting = [condition for condition in conditions if condition.affects is not None]
    if not affecting:
        return ""
    kinds = {condition.affects for condition in affecting}
    what = "time and work" if "both" in kinds or kinds >= {"time", "work"} else "time" if "time" in kinds else "work"
    names = list(dict.fromkeys(_CONDITIONS.get(item.name, item.name.replace("-", " ")) for item in affecting))
    return f"no verdict on {what}: {' and '.join(names[:_NAMED])} differ"


def _verdict(pair: Pair, time: TimeChange) -> str:
    if time.verdict in ("slower", "faster") and time.ratio is not None:
        return f"{speed_text(time.ratio)}{_per_run(pair)}"
    if time.verdict == "unclear" and time.ratio is not None and time.noise is None:
        return "times not comparable"
    if time.verdict == "unclear" and time.ratio is not None:
        return f"time {format_change(time.ratio)}, unclear from {_runs(time)}"
    seconds = time.new_s if time.verdict == "new" else time.base_s if time.verdict == "gone" else None
    if seconds is not None:
        return f"{time.verdict}: {'it took ' if time.verdict == 'gone' else ''}{format_si(seconds, 's')} a launch"
    return {"same": "same time", "unknown": "time not known"}.get(time.verdict, time.verdict)


def _runs(time: TimeChange) -> str:
    """Say what an unclear verdict rests on: "1 run a side", "3 and 5 runs"."""
    if time.base_runs != time.new_runs:
        return f"{time.base_runs} and {time.new_runs} runs"
    return f"{time.base_runs} {'run' if time.base_runs == 1 else 'runs'} a side"


def _per_run(pair: Pair) -> str:
    """Add what became of all launches of a run, where it has more or fewer of them."""
    before, after = map(round, pair.launches)
    if before == after or pair.totals_s is None:
        return ""
    return f" a launch, {both_text(before, after)} launches, together {times_text(pair.totals_s)}"


def _reasons(time: TimeChange, work: WorkChange, causes: Sequence[ChangeCause], *, room: int) -> str:
    """Join the causes as far as there is room: what explains the change, what works against it, what stayed; a line."""
    steady = time.verdict in _STEADY
    if steady and work.verdict == "same" and not any(cause.mechanism == "clock" for cause in causes):
        return "the same work"
    lines = [cause for cause in causes if _is_of_line(cause)]
    tail = f"; {lines[0].sentence}" if lines else ""
    word = "slower" if (time.ratio or 1.0) > 1 else "faster"
    text, before = "", "with"
    for cause in causes:
        if cause in lines or (cause.mechanism == "launches" and not steady):
            continue
        now = "beside" if cause.direction == "neutral" else "with" if cause.direction == word else "against"
        added = f"{_joint(before, now) if text else 'although ' if now == 'against' else ''}{cause.sentence}"
        if text and len(text) + len(added) + len(tail) > room:
            break
        text, before = text + added, now
    return f"{text}{tail}" if text else tail.removeprefix("; ")


def _is_of_line(cause: ChangeCause) -> bool:
    return cause.mechanism in ("source-line", "local-memory") and bool(cause.location)


def _joint(before: str, now: str) -> str:
    """Return what joins two causes: one that works against the change follows a "but", and nothing runs on after it."""
    if now == before or (before, now) == ("with", "beside"):
        return ", "
    return "; but " if now == "against" else "; "


def _time_of_run(total: QuantityChange) -> str:
    values = Values(total.base or 0.0, total.new or 0.0)
    return f"{count_name(total.name)} {times_text(values)}"


def _of_both(kernels: Sequence[KernelChange]) -> str:
    """Add what the kernels take that both sides have, where others came or went."""
    if all(kernel.base and kernel.new for kernel in kernels):
        return ""
    both = [kernel for kernel in kernels if kernel.base and kernel.new]
    times = (
        [side.time_total_s for kernel in both for side in kernel.base],
        [side.time_total_s for kernel in both for side in kernel.new],
    )
    if not times[0] or any(time is None for side in times for time in side):
        return ""
    values = Values(*(sum(time for time in side if time is not None) for side in times))
    return f", of the kernels on both sides {times_text(values)}" if values.base > 0 else ""


def _kernels(kernels: Sequence[KernelChange]) -> str:
    """Name the kernels that most of the change comes from, and count the others by verdict."""
    if not kernels:
        return ""
    told = [kernel for kernel in kernels if effect_lost(kernel)]
    moved = [kernel for kernel in kernels if kernel.time.verdict in ("faster", "slower", "new", "gone")]
    named = [*told, *moved][:_NAMED]
    texts = [_named(kernel) for kernel in named]
    ids = {id(kernel) for kernel in named}
    rest = [kernel for kernel in kernels if id(kernel) not in ids]
    for word, text in (
        ("slower", "slower"), ("faster", "faster"), ("new", "new"), ("gone", "gone"), ("same", "the same"),
        ("unclear", "unclear"), ("unknown", "without times"),
    ):  # fmt: skip
        count = sum(kernel.time.verdict == word for kernel in rest)
        if count:
            noun, verb = ("kernel", "is ") if count == 1 else ("kernels", "are ")
            other = "more " if word in {kernel.time.verdict for kernel in named} else ""
            about = _unclear([kernel for kernel in rest if kernel.time.verdict == word]) if word == "unclear" else ""
            texts.append(f"{count} {other}{noun} {'' if word == 'unknown' else verb}{text}{about}")
    return "; ".join(texts)


def _unclear(kernels: Sequence[KernelChange]) -> str:
    """Add to unclear times what is known: how far apart they are, and that the work is the same."""
    ratios = [
        kernel.time.ratio for kernel in kernels if kernel.time.ratio is not None and kernel.time.noise is not None
    ]
    low, high = (format_change(end) for end in (min(ratios, default=1.0), max(ratios, default=1.0)))
    parts = [f"time {low}" if low == high else f"times {low} to {high}"] if ratios else []
    if all(kernel.work.verdict == "same" for kernel in kernels):
        parts.append("the same work")
    return f" ({', '.join(parts)})" if parts else ""


def _named(kernel: KernelChange) -> str:
    label, verdict = short(kernel.label), kernel.time.verdict
    lost = effect_lost(kernel).partition(":")[0]
    if lost:
        return f"times of {label} do not compare, because {lost}"
    if verdict in ("new", "gone") or kernel.time.ratio is None:
        return f"{label} is {verdict}"
    ratio = kernel.time.ratio
    if kernel.effect_s is not None and (kernel.effect_s > 0) != (ratio > 1):
        return f"{label} is {speed_text(ratio)} a launch, and called {_calls(kernel)}"
    return f"{label} is {speed_text(ratio)}"


def _calls(kernel: KernelChange) -> str:
    before = sum(side.launches for side in kernel.base)
    after = sum(side.launches for side in kernel.new)
    return f"{significant(after / before, 2, strip=True)} times as often" if before else "more often"
