"""Comparisons as text, alike in every view: signed changes, values on both sides, verdicts, what was compared."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from gpuprof.comparison.contract import (
    ComparedKernel,
    CountChange,
    Gate,
    Interval,
    KernelChange,
    QuantityChange,
    TimeChange,
    TimeWord,
    WorkChange,
)
from gpuprof.present.session_text import LEVEL_NAMES, count_text, path_name
from gpuprof.units import format_binary, format_si, significant, spaced

NOT_KNOWN = "not known"
MINUS = "−"
ARROW = "→"
TIME_ORDER: tuple[TimeWord, ...] = ("slower", "faster", "unclear", "unknown", "new", "gone", "same")
"""Verdicts on time, what a reader has to know first."""
_PREFIXED = ("B", "B/s", "FLOP", "FLOP/s", "OP", "Hz", "s")
_BINARY = ("shared-memory",)
_DIGITS, _MOST_DIGITS = 3, 7
_SPELT_OUT = 1e5
"""Whole numbers below it are written in full: registers, requests of a small launch."""
_FACTOR_FROM = 10.0
"""From here on a factor reads better than percent: "12x" and not "+1,100 %". Limits of a gate are in percent."""
_LEAST_PERCENT, _WHOLE, _NEARLY_ALL = 1e-4, 99.5, 99.9
_ACRONYMS = {**LEVEL_NAMES, "gpu": "GPU", "sm": "SM"}


def signed_percent(change: float) -> str:
    """Write a change as percent with its sign: 0.18 → "+18 %", -0.0042 → "−0.42 %", 0.0 → "0 %".

    "−100 %" is all of it: what nearly goes is "−99.7 %" or ">−99.9 %".
    """
    percent = abs(change) * 100
    if percent == 0 or not math.isfinite(percent):
        return "0 %" if percent == 0 else NOT_KNOWN
    sign = "+" if change > 0 else MINUS
    if percent < _LEAST_PERCENT:
        return f"<{sign}{_LEAST_PERCENT:.4f} %" if change > 0 else f">{sign}{_LEAST_PERCENT:.4f} %"
    if percent < _WHOLE:
        return f"{sign}{significant(percent, 2)} %"
    if -1 < change < 0:
        return f"{sign}{percent:.1f} %" if percent < _NEARLY_ALL else f">{sign}{_NEARLY_ALL:.1f} %"
    return f"{sign}{percent:.0f} %"


def ratio_text(ratio: float) -> str:
    """Write a ratio as a factor: 1.84 → "1.8x", 12.3 → "12x"."""
    return f"{significant(ratio, 2)}x"


def change_text(ratio: float | None) -> str:
    """Write new ÷ base as a signed change: 1.18 → "+18 %", 0.4 → "−60 %", from tenfold on "12x"."""
    if ratio is None or not math.isfinite(ratio):
        return NOT_KNOWN
    return ratio_text(ratio) if ratio >= _FACTOR_FROM else signed_percent(ratio - 1)


def interval_text(interval: Interval | None) -> str:
    """Write what a ratio lies between: "+15 % to +21 %"; empty where that is not known."""
    if interval is None:
        return ""
    low, high = change_text(interval.low), change_text(interval.high)
    return f"{low} to {high}" if low != high else low


def value_text(value: float | None, unit: str, digits: int = _DIGITS) -> str:
    """Write a value in its unit. Of what is counted one by one only the number: its name says what it is."""
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    if unit in ("fraction", "%"):
        percent = value * 100 if unit == "fraction" else value
        return f"{significant(percent, digits, strip=True)} %" if math.isfinite(percent) else NOT_KNOWN
    if unit in _PREFIXED:
        return format_si(value, unit, digits)
    if abs(value) < _SPELT_OUT:
        return spaced(value) if float(value).is_integer() else significant(value, digits, strip=True)
    return format_si(value, "", digits)


def both_text(base: float | None, new: float | None, unit: str, name: str = "") -> str:
    """Write a value on both sides: "40 → 72". Unlike values never read the same: they get the digits that it takes."""
    for digits in range(_DIGITS, _MOST_DIGITS + 1):
        before, after = (_value_text(value, unit, name, digits) for value in (base, new))
        if before != after or base == new:
            break
    return f"{before} {ARROW} {after}"


def _value_text(value: float | None, unit: str, name: str, digits: int) -> str:
    if name in _BINARY and value is not None and math.isfinite(value):
        return format_binary(value, "B", digits)
    return value_text(value, unit, digits)


def count_name(name: str) -> str:
    """Write the name of a count as engineers do: "dram-bytes" → "DRAM bytes", "opcode.MUFU" → "MUFU instructions"."""
    kind, dot, rest = name.partition(".")
    if kind == "opcode" and dot:
        return f"{rest} instructions"
    if kind == "flop" and dot:
        return f"{path_name(rest)} {'OP' if 'int' in rest else 'FLOP'}"
    return " ".join(_ACRONYMS.get(part, part) for part in re.split(r"[-_]", name))


def count_change_text(count: CountChange) -> str:
    """Write how a count changed: "instructions 1.20 M → 1.42 M (+18 %)"; of one that is the same "registers 40"."""
    name = count_name(count.name)
    if count.base == count.new:
        return f"{name} {_value_text(count.new, count.unit, count.name, _DIGITS)}"
    return f"{name} {count_values(count)}{_in_brackets(count)}"


def count_values(count: CountChange) -> str:
    """Write a count on both sides: "1.20 M → 1.42 M"."""
    return both_text(count.base, count.new, count.unit, count.name)


def _in_brackets(count: CountChange) -> str:
    """Write the change of a count behind its values; a resource and a fraction say enough by themselves."""
    if count.ratio is None or count.unit in ("fraction", "%") or count.name == "registers":
        return ""
    return f" ({change_text(count.ratio)})"


def time_text(time: TimeChange) -> str:
    """Write the verdict on time with its size: "slower +18 %", "unclear −1.0 % to +6.0 %", "same"."""
    if time.verdict in ("slower", "faster"):
        return f"{time.verdict} {change_text(time.ratio)}" if time.ratio is not None else time.verdict
    span = interval_text(time.interval) or (change_text(time.ratio) if time.ratio is not None else "")
    return f"unclear {span}".rstrip() if time.verdict == "unclear" else time.verdict


def reason_text(time: TimeChange) -> str:
    """Write why a verdict on time is not clear, and how many runs would make it so; empty where it is clear."""
    if time.verdict not in ("unclear", "unknown"):
        return ""
    needed = f"{count_text(time.runs_needed, 'run')} a side would settle it" if time.runs_needed else ""
    return "; ".join(part for part in (time.reason.rstrip("."), needed) if part)


def time_values(time: TimeChange) -> str:
    """Write the median launch on both sides: "1.20 ms → 1.42 ms"; of a kernel on one side that side's.

    Times without a verdict get no further digits to differ in: those are noise.
    """
    if time.verdict in ("new", "gone"):
        return value_text(time.new_s if time.verdict == "new" else time.base_s, "s")
    if time.base_s is None and time.new_s is None:
        return NOT_KNOWN
    if time.verdict in ("slower", "faster"):
        return both_text(time.base_s, time.new_s, "s")
    return f"{value_text(time.base_s, 's')} {ARROW} {value_text(time.new_s, 's')}"


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
    """Write a figure of the whole run: "GPU time 15.5 ms → 12.7 ms (−18 %)"."""
    change = f" ({change_text(quantity.ratio)})" if quantity.ratio is not None else ""
    return f"{count_name(quantity.name)} {both_text(quantity.base, quantity.new, quantity.unit)}{change}"


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
        count_text(numbers["regression"], "regression") if numbers["regression"] else "",
        f"{numbers['unclear']} unclear" if numbers["unclear"] else "",
        f"{numbers['not-compared']} not compared" if numbers["not-compared"] else "",
        f"{numbers['accepted']} accepted" if numbers["accepted"] else "",
    ]
    told = ", ".join(part for part in listed if part)
    hold = count_text(gate.ok, "check")
    ending = f"{hold} {'holds' if gate.ok == 1 else 'hold'}"
    word = "passed" if gate.passed else "failed"
    return f"Gate {word}: {f'{told}; ' if told else ''}{ending}."


def match_text(kernel: KernelChange) -> str:
    """Write how a kernel was matched where it is not by name and launch configuration: "was renamed from a"."""
    before, after = (_labels(side) for side in (kernel.base, kernel.new))
    return {
        "exact": "",
        "new": "new",
        "gone": "gone",
        "reconfigured": "another launch configuration",
        "renamed": f"was {before}",
        "named": f"matched with {before}" if before != after else "matched by --match",
        "split": f"{before} was split into {after}",
        "fused": f"{before} were fused into {after}",
    }[kernel.match]


def _labels(side: Sequence[ComparedKernel]) -> str:
    labels = list(dict.fromkeys(kernel.label for kernel in side))
    return " and ".join([", ".join(labels[:-1]), labels[-1]]) if len(labels) > 1 else "".join(labels)
