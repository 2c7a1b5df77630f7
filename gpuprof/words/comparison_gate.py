"""The gate in words: "time rose by 18 %, 3 % is allowed"."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpuprof.comparison.contract import (
    GPU_TIME,
    PER_STEP,
    CountChange,
    Gate,
    GateCheck,
    KernelChange,
    QuantityChange,
    run_time,
)
from gpuprof.comparison.gate.limits import TIME, TOTAL_TIME
from gpuprof.comparison.work.counts import LAUNCHES, RESOURCES
from gpuprof.units import counted, factor, format_percent, significant
from gpuprof.words.comparison_causes import CHECK_RESULT, lost_effect_text
from gpuprof.words.comparison_values import change_text, count_name, count_text
from gpuprof.words.comparison_verdicts import brief_work_reason, doubt_text, match_text
from gpuprof.words.sentences import joined_by

CHECK_WORDS = {"unclear": "unclear", "not-compared": "not compared", "accepted": "accepted"}
"""Results that are neither ok nor a regression, the least certain first."""
_MOST_NAME = 80
_NO_KERNEL = {
    "no-kernel": "no kernel is on both sides",
    "one-sided": "kernels that match {} are not on both sides",
    "no-match": "no kernel matches {}",
}


def check_sentence(
    check: GateCheck,
    kernels: Sequence[KernelChange],
    total: Sequence[QuantityChange],
) -> str:
    """Write the change, the limit, the reason for the result, and the entry that accepts it.

    If a kernel fails a limit although it became faster, that is written, too.

    `kernels` are all that are compared, `total` the figures of the run.
    """
    text = joined_by("; ", _check(check, kernels, total), _faster(check, kernels))
    entry = check.acceptance
    if entry is None:
        return text
    if check.word == "accepted":
        return f"{text}; accepted until {entry.until}"
    if entry.expired:
        return f"{text}; it was accepted until {entry.until}, which has passed"
    return f"{text}; accepted only up to {format_percent(entry.most or 0.0)}"


def _faster(check: GateCheck, kernels: Sequence[KernelChange]) -> str:
    """Write that the kernel of a failed check became faster; empty if it did not."""
    kernel = _kernel_of(check, kernels)
    if check.word != "regression" or kernel is None or kernel.time.verdict != "faster":
        return ""
    ratio = kernel.time.ratio
    if not ratio:
        return "this kernel became faster"
    return f"this kernel became {factor(1 / ratio)} faster (time {change_text(ratio)})"


def _kernel_of(check: GateCheck, kernels: Sequence[KernelChange]) -> KernelChange | None:
    return next((kernel for kernel in kernels if kernel.id == check.kernel), None)


def gate_text(gate: Gate) -> str:
    """Write the result: "Gate failed: 2 regressions, 1 unclear; 14 checks ok."."""
    result = "passed" if gate.passed else "failed"
    number = sum(check.word == "regression" for check in gate.checks)
    regressions = counted(number, "regression") if number else ""
    failures = joined_by(", ", regressions, others_text(gate))
    return f"Gate {result}: {joined_by('; ', failures, kept_text(gate))}."


def kept_text(gate: Gate) -> str:
    """Write how many checks are ok: "14 checks ok"."""
    return f"{counted(gate.ok, 'check')} ok"


def others_text(gate: Gate) -> str:
    """Write how many checks are neither ok nor a regression: "1 unclear, 2 accepted"."""
    numbers = Counter[str](check.word for check in gate.checks)
    return ", ".join(f"{numbers[word]} {text}" for word, text in CHECK_WORDS.items() if numbers[word])


def _check(
    check: GateCheck,
    kernels: Sequence[KernelChange],
    total: Sequence[QuantityChange],
) -> str:
    """Write the change, the limit and the reason for the result."""
    if check.because in _NO_KERNEL:
        return _NO_KERNEL[check.because].format(f"{check.pattern!r:.{_MOST_NAME}}")
    if check.quantity == TOTAL_TIME:
        return _total_time(check, kernels, total)
    kernel = _kernel_of(check, kernels)
    if kernel is None:
        return f"{count_name(check.quantity)} {_moved(check)}, {allowed_text(check.allowed)}"
    if check.quantity == TIME or kernel.is_one_sided:
        return _kernel_time(check, kernel)
    count = kernel.work.count(check.quantity)
    if count is None:
        why = brief_work_reason(kernel) if kernel.work.verdict == "unknown" else ""
        return f"{count_name(check.quantity)} not known on either side{_because(why)}"
    return _count(check, count, kernel)


def _kernel_time(check: GateCheck, kernel: KernelChange) -> str:
    why = _because(doubt_text(kernel.time))
    if check.because == "unknown" and kernel.is_one_sided:
        name = f"{check.quantity}{PER_STEP}" if (check.quantity, kernel.per) == (LAUNCHES, "step") else check.quantity
        return f"{count_name(name)} not known on the {kernel.lacking} side{why}"
    if check.because == "unknown":
        return doubt_text(kernel.time) or "time not known"
    text = f"time {_moved(check)}"
    if check.because == "conditions":
        return f"{text}, and the runs are not alike{why}"
    if check.upper is not None:
        text += f", at 99 % confidence up to +{format_percent(check.upper)}"
    text += f", {allowed_text(check.allowed)}"
    return text + why if check.because == "doubt" else text


def _total_time(
    check: GateCheck,
    kernels: Sequence[KernelChange],
    total: Sequence[QuantityChange],
) -> str:
    if check.because == "unknown":
        return "GPU time of the run is not known on a side"
    time = run_time(total)
    name = time.name if time is not None else GPU_TIME
    of = "" if name.endswith(PER_STEP) else " of the run"
    text = f"{count_name(name)}{of} {_moved(check)}"
    if check.because == "conditions":
        return f"{text}, and the runs are not alike"
    text += f", {allowed_text(check.allowed)}"
    if check.because == "noise":
        return f"{text}: the runs are too few, too noisy or at different clocks"
    return text + _stores(check, kernels)


def _count(check: GateCheck, count: CountChange, kernel: KernelChange) -> str:
    if check.because == "unknown":
        name = count_name(check.quantity)
        if check.quantity in RESOURCES and max(len(kernel.base), len(kernel.new)) > 1:
            return f"{name}: {match_text(kernel)}, and each kernel has its own"
        return f"{name} not known {_lacking(count)}"
    text = count_text(count)
    if check.because == "conditions":
        # The reasons beside the work are about a launch.
        why = brief_work_reason(kernel) if check.quantity != LAUNCHES else ""
        return f"{text}, and the runs are not alike{_because(why)}"
    text += f", {allowed_text(check.allowed)}"
    if check.because == "few-digits":
        return f"{text}: it was printed or estimated with few digits"
    if check.because == "doubt":
        return text + _because(_why_unclear(count, kernel))
    return text + _stores(check, [kernel])


def _stores(check: GateCheck, kernels: Sequence[KernelChange]) -> str:
    """Write that a side stores nothing, if that makes the check unclear."""
    lost = next(filter(None, map(lost_effect_text, kernels)), "")
    if check.because != "stores" or not lost:
        return ""
    return _because(f"{lost}: {CHECK_RESULT}")


def _why_unclear(count: CountChange, kernel: KernelChange) -> str:
    if count.data_dependent:
        return "launches of one side differ in it by themselves"
    tolerance = format_percent(count.tolerance)
    return brief_work_reason(kernel) or f"it may differ by {tolerance} without a change of the code"


def _lacking(count: CountChange) -> str:
    """Write the sides that lack a count."""
    if count.base is not None:
        return "on the new side"
    return "on the base side" if count.new is not None else "on either side"


def _moved(check: GateCheck) -> str:
    change = check.change
    if not change:
        return "did not change"
    verb = "rose" if change > 0 else "fell"
    return f"{verb} by {format_percent(abs(change))}"


def allowed_text(most: float) -> str:
    """Write the change for the worse that a limit allows."""
    if not most:
        return "no change for the worse is allowed"
    return f"{significant(most * 100, strip=True)} % is allowed"


def _because(reason: str) -> str:
    """Write a reason behind a colon; empty if there is none."""
    return f": {reason[:1].lower()}{reason[1:]}" if reason else ""
