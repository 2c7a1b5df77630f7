"""What became of each kernel of a comparison, in words: its verdict, its reasons, its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprof.comparison.contract import ChangeCause, ComparedKernel, KernelChange, LineChange, TimeChange
from gpuprof.comparison.values import Values
from gpuprof.units import counted, format_change, format_si
from gpuprof.words.comparison_values import both_text, interval_text, speed_text, times_text, value_text
from gpuprof.words.comparison_verdicts import match_text, runs_needed_text

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
"""What is said of kernels that are left out, by their verdicts on time and work."""
_TOO_LITTLE = "without a verdict that they changed"


def kernel_sentence(change: KernelChange) -> str:
    """Write what became of a kernel and why: "slower by 18 %: registers 40 → 72, occupancy 75 % → 50 %"."""
    return ": ".join(filter(None, (kernel_verdict(change), kernel_reasons(change))))


def kernel_verdict(change: KernelChange) -> str:
    """Write what became of a kernel: "1.8x faster a launch, 10 → 20 launches, together 1.00 → 1.10 ms (+10 %)"."""
    return ", ".join(filter(None, verdict_parts(change)))


def verdict_parts(change: KernelChange) -> tuple[str, str]:
    """Write the verdict on the time of a launch, and what belongs to it: all launches, or the runs it is from."""
    time = change.time
    if time.verdict in ("slower", "faster") and time.ratio is not None:
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
    """Write what an unclear verdict is based on: "1 run a side", "3 and 5 runs"."""
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
    """Write what the figures of a kernel do not say: how it was matched, its launches, what is unclear, and why.

    The doubt comes before the reasons, which may be long: a view cuts the end.
    """
    if change.match in ("new", "gone"):
        return ""
    changed = change.time.verdict in ("slower", "faster")
    reasons = kernel_reasons(change) if not _has_same_work(change) else ""
    parts = (match_text(change), launches_text(change) if changed else "", _doubt(change.time), reasons)
    return "; ".join(filter(None, parts))


def _doubt(time: TimeChange) -> str:
    """Write the interval of an unclear change, and what would settle it."""
    if time.verdict != "unclear":
        return ""
    interval = interval_text(time.interval)
    needed = runs_needed_text(time)
    return ", ".join(filter(None, (f"time {interval} at 99 %" if interval else "", needed)))


def line_text(line: LineChange, file: str) -> str:
    """Write what a line does more or less of: "mlp.cu:12 (was 10): 440 M → 17.7 M instructions"."""
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
