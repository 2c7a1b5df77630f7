"""The sentences of a comparison: on each kernel with its cause, on the whole run, on conditions, notes and limits."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from gpuprof.comparison.causes.opcodes import has_lost_effect
from gpuprof.comparison.contract import TIMES, Comparison, KernelChange, RunCondition
from gpuprof.comparison.values import Values
from gpuprof.units import format_change, significant
from gpuprof.words.comparison_causes import cause_text, lost_effect_text
from gpuprof.words.comparison_conditions import condition_sentence, fact_sentence
from gpuprof.words.comparison_gate import check_sentence
from gpuprof.words.comparison_values import count_name, short, speed_text, times_text
from gpuprof.words.comparison_verdicts import doubt_text, kernel_sentence, noise_text, total_s, work_reason

_NAMED = 2
"""Kernels that the sentence on the run names."""
_CONDITIONS = {
    "gpu": "the GPUs", "compute-capability": "the GPUs", "sm-count": "the numbers of SMs", "throttling": "throttling",
    "clock-control": "the ways in which clocks were locked", "durations": "the ways in which times were taken",
    "cache-control": "the ways in which caches were flushed",
}  # fmt: skip
"""What differs, by the name of the condition that forbids a verdict."""
_VERDICTS = (
    ("slower", "are slower", "is slower"),
    ("faster", "are faster", "is faster"),
    ("new", "are new", "is new"),
    ("gone", "are gone", "is gone"),
    ("same", "are the same", "is the same"),
    ("unclear", "inconclusive", "inconclusive"),
    ("unknown", "without times", "without times"),
)
"""Verdicts on time in the order in which kernels are counted, with the words for several kernels and for one."""


def with_sentences(comparison: Comparison) -> Comparison:
    """Return a comparison with all of its sentences. It is called once, when all values are there."""
    kernels = tuple(map(_with_sentence, comparison.kernels))
    complete = replace(
        comparison,
        kernels=kernels,
        conditions=tuple(replace(item, sentence=condition_sentence(item)) for item in comparison.conditions),
        notes=tuple(map(fact_sentence, comparison.facts)),
        sentence=whole_sentence(comparison),
    )
    gate = comparison.gate
    if gate is None:
        return complete
    checks = [replace(check, sentence=check_sentence(check, kernels, comparison.total)) for check in gate.checks]
    return replace(complete, gate=replace(gate, checks=tuple(checks)))


def _with_sentence(change: KernelChange) -> KernelChange:
    complete = replace(
        change,
        time=replace(change.time, reason=doubt_text(change.time), noise_source=noise_text(change.time)),
        work=replace(change.work, reason=work_reason(change)),
        causes=tuple(replace(cause, sentence=cause_text(cause, change)) for cause in change.causes),
    )
    return replace(complete, sentence=kernel_sentence(complete))


def whole_sentence(comparison: Comparison) -> str:
    """Write how the run changed and which kernels most of the change comes from; first, what forbids a verdict."""
    kernels = comparison.kernels
    if comparison.identical:
        named = [kernel for kernel in kernels if kernel.match not in ("exact", "new", "gone")]
        return f"both sides are the same recording: {_kernels(named) or 'nothing to compare'}"
    time = next((item for item in comparison.total if item.name in TIMES), None)
    parts = []
    if time is not None and time.base is not None and time.new is not None:
        values = Values(time.base, time.new)
        parts.append(f"{count_name(time.name)} {times_text(values)}{_of_both(kernels)}")
    if kernels:
        parts.append(_kernels(kernels))
    return "; ".join(filter(None, (_forbidden(comparison.forbidding), ": ".join(parts)))) or "nothing to compare"


def _forbidden(conditions: Sequence[RunCondition]) -> str:
    """Write what forbids a verdict: "no verdict on time and work: the GPUs differ"; empty if nothing does."""
    if not conditions:
        return ""
    kinds = {condition.affects for condition in conditions}
    what = "time" if "time" in kinds else "work"
    if "both" in kinds or kinds >= {"time", "work"}:
        what = "time and work"
    names = list(dict.fromkeys(_CONDITIONS.get(item.name, count_name(item.name)) for item in conditions))
    return f"no verdict on {what}: {' and '.join(names[:_NAMED])} differ"


def _of_both(kernels: Sequence[KernelChange]) -> str:
    """Write the time of the kernels that both sides have, if others came or went."""
    both = [kernel for kernel in kernels if kernel.base and kernel.new]
    if not both or len(both) == len(kernels):
        return ""
    before = total_s([side for kernel in both for side in kernel.base])
    after = total_s([side for kernel in both for side in kernel.new])
    if not before or after is None:
        return ""
    return f", of the kernels on both sides {times_text(Values(before, after))}"


def _kernels(kernels: Sequence[KernelChange]) -> str:
    """Name the kernels that most of the change comes from, and count the others by verdict."""
    lost = [kernel for kernel in kernels if has_lost_effect(kernel)]
    moved = [kernel for kernel in kernels if kernel.time.verdict in ("faster", "slower", "new", "gone")]
    named = [*lost, *moved][:_NAMED]
    texts = [_named(kernel) for kernel in named]
    ids = {id(kernel) for kernel in named}
    named_verdicts = {kernel.time.verdict for kernel in named}
    rest = [kernel for kernel in kernels if id(kernel) not in ids]
    for word, several, one in _VERDICTS:
        counted_kernels = [kernel for kernel in rest if kernel.time.verdict == word]
        if counted_kernels:
            number = len(counted_kernels)
            more = "more " if word in named_verdicts else ""
            noun, what = ("kernel", one) if number == 1 else ("kernels", several)
            figures = _inconclusive(counted_kernels) if word == "unclear" else ""
            texts.append(f"{number} {more}{noun} {what}{figures}")
    return "; ".join(texts)


def _inconclusive(kernels: Sequence[KernelChange]) -> str:
    """Write how far apart unclear times are, and whether the work is the same."""
    times = [kernel.time for kernel in kernels]
    ratios = [time.ratio for time in times if time.ratio is not None and time.noise is not None]
    parts = []
    if ratios:
        low, high = format_change(min(ratios)), format_change(max(ratios))
        parts.append(low if low == high else f"{low} to {high}")
    if all(kernel.work.verdict == "same" for kernel in kernels):
        known = [[count.word for count in kernel.work.counts if count.name == "instructions"] for kernel in kernels]
        parts.append("instruction counts unchanged" if all("same" in words for words in known) else "the same work")
    return f" ({', '.join(parts)})" if parts else ""


def _named(kernel: KernelChange) -> str:
    label, verdict = short(kernel.label), kernel.time.verdict
    lost = lost_effect_text(kernel)
    if lost is not None:
        return f"times of {label} do not compare, because {lost[0]}"
    ratio = kernel.time.ratio
    if verdict in ("new", "gone") or ratio is None:
        return f"{label} is {verdict}"
    if kernel.effect_s is not None and (kernel.effect_s > 0) != (ratio > 1):
        before, after = (sum(kernel.launches for kernel in side) for side in (kernel.base, kernel.new))
        often = f"{significant(after / before, 2, strip=True)} times as" if before else "more"
        return f"{label} is {speed_text(ratio)} a launch, and called {often} often"
    return f"{label} is {speed_text(ratio)}"
