"""The sentences of a comparison: on kernels and causes, the run, conditions, notes and limits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gpuprof.comparison.causes.opcodes import has_lost_effect
from gpuprof.comparison.contract import (
    BUSY,
    GPU_TIME,
    PER_STEP,
    ComparedKernel,
    Comparison,
    Interval,
    KernelChange,
    QuantityChange,
    RunCondition,
    run_time,
)
from gpuprof.comparison.values import Values
from gpuprof.model.headline import listed
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.kernel_names import unnumbered
from gpuprof.units import significant
from gpuprof.words.comparison_causes import cause_text, lost_effect_text
from gpuprof.words.comparison_conditions import condition_sentence, fact_sentence
from gpuprof.words.comparison_gate import check_sentence
from gpuprof.words.comparison_values import (
    both_text,
    change_text,
    count_name,
    interval_text,
    short,
    speed_text,
    times_text,
)
from gpuprof.words.comparison_verdicts import (
    LEAST_EFFECT,
    doubt_text,
    has_other_launches,
    kernel_sentence,
    launch_count,
    moving,
    noise_text,
    per_step_text,
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
    "gpu-count": "numbers of GPUs",
    "judged-part": "parts of the traces",
}
"""What differs, by the name of the condition that forbids a verdict."""
_QUIET = ("unclear", "unknown", "same")
"""Verdicts on time without a change, the least clear first."""
_RESHAPED = "reshaped"
"""Counted like a verdict: a function of both sides has a launch configuration that only one side has."""
_MORE, _FEWER = "more-launches", "fewer-launches"
"""Counted like verdicts, too: the number of launches changed, and the time of one is not known to have."""
_OTHERS = (
    ("slower", "kernel is slower", "kernels are slower"),
    ("faster", "kernel is faster", "kernels are faster"),
    ("new", "kernel is new", "kernels are new"),
    ("gone", "kernel is gone", "kernels are gone"),
    (_RESHAPED, "kernel has other launch configurations", "kernels have other launch configurations"),
    (_MORE, "kernel runs more often", "kernels run more often"),
    (_FEWER, "kernel runs less often", "kernels run less often"),
    ("same", "kernel is the same", "kernels are the same"),
    ("unclear", "kernel inconclusive", "kernels inconclusive"),
    ("in-graphs", "kernel may run in whole CUDA graphs", "kernels may run in whole CUDA graphs"),
    ("other-part", "kernel may run in another part of a trace", "kernels may run in another part of a trace"),
    ("unknown", "kernel without times", "kernels without times"),
)
"""Verdicts on time, or why kernels of one side have none, in the order of counting; words for one and for several."""


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
        named = [kernel for kernel in kernels if kernel.match != "exact" and not kernel.is_one_sided]
        return f"both sides are the same recording: {_kernels(named) or 'nothing to compare'}"
    moved = joined_by("; ", _whole_graphs(comparison), _kernels(kernels))
    change = joined_by(": ", _run_time(comparison), moved)
    return joined_by("; ", _forbidden(comparison.forbidding), change) or "nothing to compare"


def _forbidden(conditions: Sequence[RunCondition]) -> str:
    """Write what forbids a verdict: "no verdict on time: different GPUs"; empty if nothing does."""
    if not conditions:
        return ""
    affected = {condition.affects for condition in conditions}
    verdicts = [name for name in ("time", "work") if not affected.isdisjoint((name, "both"))]
    if "totals" in affected:
        verdicts.append("totals")
    names = [_CONDITIONS.get(item.name) or count_name(item.name) for item in conditions]
    different = " and ".join(list(dict.fromkeys(names))[:_NAMED])
    return f"no verdict on {listed(verdicts)}: different {different}"


def _run_time(comparison: Comparison) -> str:
    """Write the time of the run on both sides; empty if it is not known."""
    time = run_time(comparison.total)
    if time is None or time.base is None or time.new is None:
        return ""
    common = _common_time(comparison.kernels) if time.name.startswith(GPU_TIME) else ""
    return f"{count_name(time.name)} {times_text(Values(time.base, time.new))}{common}"


def _whole_graphs(comparison: Comparison) -> str:
    """Write how the replays of whole CUDA graphs changed; empty if that does not move the run, or a side has none.

    Time is a mean over GPUs and replays are their sum: that of a replay is known of one GPU.
    """
    total = {quantity.name.removesuffix(PER_STEP): quantity for quantity in comparison.total}
    busy, graphs = (_values(total.get(name)) for name in (BUSY, "whole-graphs"))
    if busy is None or graphs is None or abs(graphs.new - graphs.base) < LEAST_EFFECT * busy.base:
        return ""
    replays = _values(total.get("whole-graph-replays"))
    if replays is None or any(len(side.gpus) > 1 for side in (comparison.base, comparison.new)):
        return f"whole CUDA graphs take {times_text(graphs)}"
    each = Values(graphs.base / replays.base, graphs.new / replays.new)
    number = "" if replays.base == replays.new else f", replayed {both_text(*replays)} times"
    return f"a whole CUDA graph takes {times_text(each)} on average{number}"


def _values(quantity: QuantityChange | None) -> Values | None:
    """Return the values of a figure; None unless it is more than zero on both sides."""
    if quantity is None or not quantity.base or not quantity.new:
        return None
    return Values(quantity.base, quantity.new)


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
    """Name the functions that most of the change comes from, and count the others by verdict."""
    functions = sorted(by_function(kernels), key=_rank)
    named = [function for function in functions if moving(function)][:_NAMED]
    texts = list(map(_function_text, named))
    named_words = list(map(_word, named))
    others: dict[str, list[Sequence[KernelChange]]] = {}
    unnamed = [kernel for function in functions if function not in named for kernel in function]
    for function in _grouped(unnamed, map(_name, unnamed)):
        others.setdefault(_word(function), []).append(function)
    for word, one, several in _OTHERS:
        rest = others.get(word, [])
        if rest:
            more = "more " if word in named_words else ""
            text = f"{len(rest)} {more}{one if len(rest) == 1 else several}"
            if word == "unclear":
                text += _inconclusive([kernel for function in rest for kernel in function])
            texts.append(text)
    return "; ".join(texts)


def by_function(kernels: Sequence[KernelChange]) -> list[list[KernelChange]]:
    """Return the kernels of each function, in their order; a renamed one counts as its new function.

    Those that differ in a compiler's number are one function, except one that is known to have changed.
    """
    changed = {_name(kernel) for kernel in kernels if kernel.time.verdict not in _QUIET}
    names = map(_name, kernels)
    return _grouped(kernels, (name if name in changed else unnumbered(name)[0] for name in names))


def _name(kernel: KernelChange) -> str:
    return kernel_key((*kernel.new, *kernel.base)[0].demangled)


def _grouped(kernels: Iterable[KernelChange], names: Iterable[str]) -> list[list[KernelChange]]:
    groups: dict[str, list[KernelChange]] = {}
    for kernel, name in zip(kernels, names, strict=True):
        groups.setdefault(name, []).append(kernel)
    return list(groups.values())


def _rank(function: Sequence[KernelChange]) -> tuple[bool, float]:
    """Return the sort key: functions whose times do not compare, then by the effect of what changed."""
    effect_s = sum(kernel.effect_s or 0.0 for kernel in moving(function))
    return not any(map(has_lost_effect, function)), -abs(effect_s)


def _word(function: Sequence[KernelChange]) -> str:
    """Return the verdict on the kernel of a function that changed most, or the least clear one.

    A function of both sides is not new or gone. One without a change of time may run more or less often.
    """
    changed = moving(function)
    first = changed[0] if changed else min(function, key=lambda kernel: _QUIET.index(kernel.time.verdict))
    if first.match == "unrecorded" and first.time.doubt is not None:
        return first.time.doubt.kind
    if first.is_one_sided and _is_on_both_sides(function):
        return _RESHAPED
    if first.time.verdict in _QUIET and any(map(has_other_launches, function)):
        before, after = (launch_count(side) for side in _sides(function))
        return _MORE if after > before else _FEWER if after < before else first.time.verdict
    return first.time.verdict


def _sides(function: Sequence[KernelChange]) -> tuple[list[ComparedKernel], list[ComparedKernel]]:
    """Return the kernels of both sides."""
    base = [side for kernel in function for side in kernel.base]
    return base, [side for kernel in function for side in kernel.new]


def _is_on_both_sides(function: Sequence[KernelChange]) -> bool:
    return any(kernel.base for kernel in function) and any(kernel.new for kernel in function)


def _function_text(function: Sequence[KernelChange]) -> str:
    """Write how the time of a function changed: "softmax takes 52.8 ms → 60.1 ms (+14 %)".

    If times do not add up to its time in the run, how the first of its kernels changed.
    """
    changed = sorted(moving(function), key=has_lost_effect, reverse=True)
    both = _is_on_both_sides(function)
    is_reshaped = both and changed[0].is_one_sided
    has_sums = all(kernel.effect_s is not None for kernel in changed)
    if has_lost_effect(changed[0]) or ((len(changed) == 1 or not has_sums) and not is_reshaped):
        return _named(changed[0], is_only=len(function) == 1)
    before, after = _sides(function)
    first = (*after, *before)[0]
    name = first.function or first.label
    name = short(unnumbered(name)[0] if len(set(map(_name, function))) > 1 else name)
    before_s, after_s = total_s(before), total_s(after)
    if is_reshaped and not has_sums:
        return f"{name} has other launch configurations"
    if not both or before_s is None or after_s is None:
        return f"{name} is {changed[0].time.verdict}"
    text = f"{name} takes {times_text(Values(before_s, after_s))}"
    unclear = all(kernel.time.verdict == "unclear" and not has_other_launches(kernel) for kernel in changed)
    return f"{text}, unclear" if unclear else text


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
    if verdict in _QUIET:
        return f"{label} {_unsure_text(kernel)}"
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


def _unsure_text(kernel: KernelChange) -> str:
    """Write how often a kernel without a change of time runs, or how far its time is apart if that is unclear."""
    ratio = kernel.time.ratio
    if ratio is not None and not has_other_launches(kernel):
        return f"{change_text(ratio)}, unclear"
    launches = both_text(launch_count(kernel.base), launch_count(kernel.new))
    return f"runs {launches} times{per_step_text(kernel)}"
