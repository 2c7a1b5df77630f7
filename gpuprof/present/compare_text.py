"""The verdicts of a comparison as text, alike in every view: on time, on work, of the gate, and how kernels match."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpuprof.comparison.contract import (
    ComparedKernel,
    CountChange,
    Gate,
    KernelChange,
    QuantityChange,
    TimeChange,
    TimeWord,
    WorkChange,
)
from gpuprof.comparison.words import (
    NOT_KNOWN,
    arrow_text,
    both_text,
    change_text,
    count_name,
    count_values,
    in_brackets,
    interval_text,
    speed_text,
    value_text,
)
from gpuprof.units import counted, spaced

TIME_ORDER: tuple[TimeWord, ...] = ("slower", "faster", "unclear", "unknown", "new", "gone", "same")
"""Verdicts on time, what a reader has to know first."""


def time_text(time: TimeChange) -> str:
    """Write the verdict on time with its size: "slower by 18 %", "2.5x faster", "unclear −1.0 % to +6.0 %", "same"."""
    if time.verdict in ("slower", "faster"):
        return speed_text(time.ratio) if time.ratio is not None else time.verdict
    span = interval_text(time.interval) or (change_text(time.ratio) if time.ratio is not None else "")
    return f"unclear {span}".rstrip() if time.verdict == "unclear" else time.verdict


def reason_text(time: TimeChange) -> str:
    """Write why a verdict on time is not clear, and how many runs would make it so; empty where it is clear."""
    if time.verdict not in ("unclear", "unknown"):
        return ""
    needed = f"{counted(time.runs_needed, 'run')} a side would settle it" if time.runs_needed else ""
    return "; ".join(part for part in (time.reason.rstrip("."), needed) if part)


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
    """Return the count to name beside a verdict on work: the first that changed; instructions, where they did."""
    moved = changed_counts(work)
    return next((count for count in moved if count.name == "instructions"), moved[0] if moved else None)


def changed_counts(work: WorkChange) -> list[CountChange]:
    """Return the counts that are not the same on both sides, in their order."""
    return [count for count in work.counts if count.word not in ("same", "unclear")]


def quantity_text(quantity: QuantityChange) -> str:
    """Write a figure of the whole run: "GPU time 15.5 → 12.7 ms (−18 %)"."""
    values = both_text(quantity.base, quantity.new, quantity.unit)
    return f"{count_name(quantity.name)} {values}{in_brackets(quantity.ratio)}"


def verdicts_text(kernels: Iterable[KernelChange]) -> str:
    """Write how many kernels have which verdict on time: "2 slower, 1 faster, 14 same"."""
    numbers = Counter(kernel.time.verdict for kernel in kernels)
    return ", ".join(f"{spaced(numbers[word])} {_VERDICT_WORDS[word]}" for word in TIME_ORDER if numbers[word])


_VERDICT_WORDS: dict[TimeWord, str] = {
    "slower": "slower", "faster": "faster", "unclear": "unclear", "unknown": "without a verdict on time", "new": "new",
    "gone": "gone", "same": "same",
}  # fmt: skip


def gate_text(gate: Gate) -> str:
    """Write whether the limits hold: "Gate failed: 2 regressions, 1 unclear; 14 checks hold."."""
    numbers = Counter(check.word for check in gate.checks)
    listed = [
        counted(numbers["regression"], "regression") if numbers["regression"] else "",
        f"{numbers['unclear']} unclear" if numbers["unclear"] else "",
        f"{numbers['not-compared']} not compared" if numbers["not-compared"] else "",
        f"{numbers['accepted']} accepted" if numbers["accepted"] else "",
    ]
    told = ", ".join(part for part in listed if part)
    hold = counted(gate.ok, "check")
    ending = f"{hold} {'holds' if gate.ok == 1 else 'hold'}"
    word = "passed" if gate.passed else "failed"
    return f"Gate {word}: {f'{told}; ' if told else ''}{ending}."


def match_text(kernel: KernelChange) -> str:
    """Write how a kernel was matched where it is not by name and launch configuration; the label has both names."""
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
