"""The sentences of a comparison: on kernels and causes, the run, conditions, notes and limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gpuprof.comparison.causes.opcodes import has_lost_effect
from gpuprof.comparison.contract import TIMES, Comparison, Interval, KernelChange, RunCondition, TimeWord
from gpuprof.comparison.values import Values
from gpuprof.model.kernel_key import kernel_key
from gpuprof.units import significant
from gpuprof.words.comparison_causes import cause_text, lost_effect_text
from gpuprof.words.comparison_conditions import condition_sentence, fact_sentence
from gpuprof.words.comparison_gate import check_sentence
from gpuprof.words.comparison_values import (
    both_text,
    count_name,
    interval_text,
    short,
    speed_text,
    times_text,
)
from gpuprof.words.comparison_verdicts import (
    doubt_text,
    kernel_sentence,
    launch_count,
    noise_text,
    total_s,
    work_reason,
)
from gpuprof.words.sentences import joined_by

_NAMED = 2
"""Kernels that the sentence on the run names."""
_CONDITIONS = {
    "gpu": "GPUs",
    "compute-capability": "GPUs",
    "sm-count": "numbers of SMs",
    "durations": "ways of measuring times",
}
"""What differs, by the name of the condition that forbids a verdict."""
_MOVED = ("slower", "faster", "new", "gone")
_LEAST_EFFECT = 0.01
"""If more or fewer launches change the time of the run by less, they are not named."""
_QUIET = ("unclear", "unknown", "same")
"""Verdicts on time without a change, the least clear first."""
_RESHAPED = "reshaped"
"""Counted like a verdict: a function of both sides has a launch configuration that only one side has."""
_OTHERS = (
    ("slower", "kernel is slower", "kernels are slower"),
    ("faster", "kernel is faster", "kernels are faster"),
    ("new", "kernel is new", "kernels are new"),
    ("gone", "kernel is gone", "kernels are gone"),
    (_RESHAPED, "kernel has other launch configurations", "kernels have other launch configurations"),
    ("same", "kernel is the same", "kernels are the same"),
    ("unclear", "kernel inconclusive", "kernels inconclusive"),
    ("unknown", "kernel without times", "kernels without times"),
)
"""Verdicts on time in the order of counting, with the words for one kernel and for several."""


def with_sentences(comparison: Comparison) -> Comparison:
    """Return a complete comparison with all of its sentences."""
    kernels = tuple(map(_with_sentence, comparison.kernels))
    conditions = [replace(item, sentence=condition_sentence(item)) for item in comparison.conditions]
    complete = replace(
        comparison,
        kernels=kernels,
        conditions=tuple(conditions),
        notes=tuple(map(fact_sentence, comparison.facts)),
        sentence=whole_sentence(comparison),
    )
    gate = comparison.gate
    if gate is None:
        return complete
    checks = []
    for check in gate.checks:
        checks.append(replace(check, sentence=check_sentence(check, kernels, comparison.total)))
    return replace(complete, gate=replace(gate, checks=tuple(checks)))


def _with_sentence(change: KernelChange) -> KernelChange:
    time = change.time
    complete = replace(
        change,
        time=replace(time, reason=doubt_text(time), noise_source=noise_text(time)),
        work=replace(change.work, reason=work_reason(change)),
        causes=tuple(replace(cause, sentence=cause_text(cause, change)) for cause in change.causes),
    )
    return replace(complete, sentence=kernel_sentence(complete))


def whole_sentence(comparison: Comparison) -> str:
    """Write what forbids a verdict, the change of the run, and the kernels that changed most."""
    kernels = comparison.kernels
    if comparison.identical:
        named = [kernel for kernel in kernels if kernel.match not in ("exact", "new", "gone")]
        return f"both sides are the same recording: {_kernels(named) or 'nothing to compare'}"
    change = joined_by(": ", _run_time(comparison), _kernels(kernels))
    return joined_by("; ", _forbidden(comparison.forbidding), change) or "nothing to compare"


def _forbidden(conditions: Sequence[RunCondition]) -> str:
    """Write what forbids a verdict: "no verdict on time: different GPUs"; empty if nothing does."""
    if not conditions:
        return ""
    affected = {condition.affects for condition in conditions}
    verdict = "time and work"
    if affected == {"time"}:
        verdict = "time"
    elif affected == {"work"}:
        verdict = "work"
    names = [_CONDITIONS.get(item.name) or count_name(item.name) for item in conditions]
    listed = " and ".join(list(dict.fromkeys(names))[:_NAMED])
    return f"no verdict on {verdict}: different {listed}"


def _run_time(comparison: Comparison) -> str:
    """Write the time of the run on both sides; empty if it is not known."""
    time = next((quantity for quantity in comparison.total if quantity.name in TIMES), None)
    if time is None or time.base is None or time.new is None:
        return ""
    values = Values(time.base, time.new)
    return f"{count_name(time.name)} {times_text(values)}{_common_time(comparison.kernels)}"


def _common_time(kernels: Sequence[KernelChange]) -> str:
    """Write the time of the kernels that are on both sides; empty if all are, or none."""
    common = [kernel for kernel in kernels if kernel.base and kernel.new]
    if not common or len(common) == len(kernels):
        return ""
    before = total_s([side for kernel in common for side in kernel.base])
    after = total_s([side for kernel in common for side in kernel.new])
    if not before or after is None:
        return ""
    return f", of the kernels on both sides {times_text(Values(before, after))}"


def _kernels(kernels: Sequence[KernelChange]) -> str:
    """Name the functions that most of the change comes from, and count the other kernels by verdict."""
    lost = [kernel for kernel in kernels if has_lost_effect(kernel)][:_NAMED]
    texts = list(map(_named, lost))
    named = {kernel.id for kernel in lost}
    functions = _by_function(kernels)
    verdicts = {kernel.time.verdict for kernel in lost}
    for function in sorted(functions, key=_moved_s, reverse=True):
        moved = [kernel for kernel in function if _has_effect(kernel) and kernel.id not in named]
        if not moved or len(texts) == _NAMED:
            continue
        text = _function_text(function, moved)
        if text is None:
            text = _named(moved[0], is_only=len(function) == 1)
            moved = moved[:1]
            verdicts.add(moved[0].time.verdict)
        texts.append(text)
        named.update(kernel.id for kernel in moved)
    return "; ".join((*texts, *_others(functions, named, verdicts)))


def _by_function(kernels: Sequence[KernelChange]) -> list[list[KernelChange]]:
    """Return the kernels of each function, in their order; a renamed one counts as its new function."""
    functions: dict[str, list[KernelChange]] = {}
    for kernel in kernels:
        functions.setdefault(kernel_key((*kernel.new, *kernel.base)[0].demangled), []).append(kernel)
    return list(functions.values())


def _is_moved(kernel: KernelChange) -> bool:
    return kernel.time.verdict in _MOVED


def _has_effect(kernel: KernelChange) -> bool:
    """Return whether a kernel's time moved, or whether more or fewer launches of it change the time of the run."""
    return _is_moved(kernel) or (_runs_otherwise(kernel) and abs(kernel.effect or 0.0) >= _LEAST_EFFECT)


def _runs_otherwise(kernel: KernelChange) -> bool:
    return launch_count(kernel.base) != launch_count(kernel.new)


def _moved_s(function: Sequence[KernelChange]) -> float:
    """Return by how much a function's kernels that have an effect changed the time of the run."""
    return abs(sum(kernel.effect_s or 0.0 for kernel in function if _has_effect(kernel)))


def _is_on_both_sides(function: Sequence[KernelChange]) -> bool:
    return any(kernel.base for kernel in function) and any(kernel.new for kernel in function)


def _function_text(function: Sequence[KernelChange], moved: Sequence[KernelChange]) -> str | None:
    """Write how the time of a function changed: "softmax takes 52.8 → 60.1 ms (+14 %)".

    None if that of its only kernel says it, or if a time is not known.
    """
    before = [side for kernel in function for side in kernel.base]
    after = [side for kernel in function for side in kernel.new]
    first = (*after, *before)[0]
    name = short(first.function or first.label)
    if not _is_on_both_sides(function):
        return f"{name} is {moved[0].time.verdict}" if len(moved) > 1 else None
    before_s, after_s = total_s(before), total_s(after)
    is_one = len(moved) == 1 and not moved[0].is_one_sided
    if is_one or before_s is None or after_s is None:
        return None
    return f"{name} takes {times_text(Values(before_s, after_s))}"


def _others(functions: Sequence[Sequence[KernelChange]], named: set[int], verdicts: set[TimeWord]) -> Iterator[str]:
    """Yield how many functions that are not named have which verdict; `verdicts` are those of named kernels.

    A function of both sides is neither new nor gone: it has other launch configurations.
    """
    counted: dict[str, list[KernelChange]] = {}
    numbers = Counter[str]()
    for function in functions:
        rest = _by_verdict(function, named)
        numbers.update(rest.keys())
        for verdict, kernels in rest.items():
            counted.setdefault(verdict, []).extend(kernels)
    for verdict, one, several in _OTHERS:
        number = numbers[verdict]
        if number:
            more = "more " if verdict in verdicts else ""
            text = f"{number} {more}{one if number == 1 else several}"
            yield text + _inconclusive(counted[verdict]) if verdict == "unclear" else text


def _by_verdict(function: Sequence[KernelChange], named: set[int]) -> dict[str, list[KernelChange]]:
    """Return the kernels of a function that are not named by verdict.

    Those that did not move count only if none of them moved, and all as the least clear of them.
    """
    both = _is_on_both_sides(function)
    verdicts: dict[str, list[KernelChange]] = {}
    for kernel in function:
        if kernel.id not in named and _is_moved(kernel):
            verdict = _RESHAPED if both and kernel.is_one_sided else kernel.time.verdict
            verdicts.setdefault(verdict, []).append(kernel)
    if verdicts or any(_is_moved(kernel) for kernel in function):
        return verdicts
    rest = [kernel for kernel in function if kernel.id not in named]
    least = min((kernel.time.verdict for kernel in rest), key=_QUIET.index, default="")
    return {least: [kernel for kernel in rest if kernel.time.verdict == least]} if rest else {}


def _inconclusive(kernels: Sequence[KernelChange]) -> str:
    """Write in brackets how far apart unclear times are, and that the work is the same."""
    parts = []
    times = [kernel.time for kernel in kernels]
    ratios = [time.ratio for time in times if time.ratio is not None and time.noise is not None]
    if ratios:
        parts.append(interval_text(Interval(low=min(ratios), high=max(ratios))))
    if all(kernel.work.verdict == "same" for kernel in kernels):
        counted = all(map(_has_same_instructions, kernels))
        parts.append("instruction counts unchanged" if counted else "the same work")
    return f" ({', '.join(parts)})" if parts else ""


def _has_same_instructions(kernel: KernelChange) -> bool:
    counts = kernel.work.counts
    return any(count.name == "instructions" and count.word == "same" for count in counts)


def _named(kernel: KernelChange, *, is_only: bool = False) -> str:
    """Write how a kernel changed; `is_only`: its function has no other."""
    label = kernel.label
    labels = {side.label for side in (*kernel.base, *kernel.new)}
    if is_only and len(labels) == 1:
        label = (*kernel.new, *kernel.base)[0].function or label
    label = short(label)
    lost = lost_effect_text(kernel)
    if lost:
        return f"times of {label} do not compare, because {lost}"
    verdict = kernel.time.verdict
    ratio = kernel.time.ratio
    if not _is_moved(kernel):
        return f"{label} runs {both_text(launch_count(kernel.base), launch_count(kernel.new))} times"
    if verdict in ("new", "gone") or ratio is None:
        return f"{label} is {verdict}"
    text = f"{label} is {speed_text(ratio)}"
    if kernel.effect_s is None or (kernel.effect_s > 0) == (ratio > 1):
        return text
    # The number of launches outweighs the time of one.
    before = launch_count(kernel.base)
    if not before:
        return f"{text} a launch, and called more often"
    times = significant(launch_count(kernel.new) / before, 2, strip=True)
    return f"{text} a launch, and called {times} times as often"
