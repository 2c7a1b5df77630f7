"""Values and changes of a comparison as text, alike in every view: "DRAM bytes 1.38 GB → 1.42 GB"."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from gpuprof.comparison.contract import CountChange, Interval, ValueChange
from gpuprof.comparison.values import SAME_VALUE, Values
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.units import (
    ARROW,
    factor,
    format_binary,
    format_change,
    format_percent,
    format_si,
    significant,
    spaced,
)
from gpuprof.words.sentences import short_list

NOT_KNOWN = "not known"
_DIGITS, _MOST_DIGITS = 3, 7
_SPELT_OUT = 1e5
"""Whole numbers below it are written in full: registers, requests of a small launch."""
_SPEED = 1.5
"""From here on a change is a factor, "1.8x faster": many read "44 % faster" as 1.44x."""
_PREFIXED = ("B", "B/s", "FLOP", "FLOP/s", "OP", "Hz", "s")
_BINARY = "shared-memory"
"""A size that hardware has in powers of two."""
_NAMES = {
    "shared-wavefronts": "shared-memory wavefronts",
    "shared-memory": "shared memory per block",
    "spills": "local-memory sectors",
    "launches": "launches per run",
    "busy": "busy time",
    "busy-per-step": "busy time per step",
    "whole-graphs": "in whole CUDA graphs",
    "whole-graphs-per-step": "in whole CUDA graphs per step",
    "whole-graph-replays": "replays of whole CUDA graphs",
    "whole-graph-replays-per-step": "replays of whole CUDA graphs per step",
}
"""Names that differ from those of the contract. Spills: local arrays make the same sectors."""
_UPPER = {"l1": "L1", "l2": "L2", "dram": "DRAM", "gpu": "GPU", "sm": "SM"}
_SHOWN = 3
"""Names that a sentence lists."""


def count_name(name: str) -> str:
    """Write the name of a count: dram-bytes → "DRAM bytes", flop.tensor.int8 → "tensor INT8 OP"."""
    kind, dot, rest = name.partition(".")
    if kind == "opcode" and dot:
        return f"{rest} instructions"
    if kind == "flop" and dot:
        return f"{path_name(rest)} {work_unit(rest, per_second=False)}"
    return _NAMES.get(name) or " ".join(_UPPER.get(part, part) for part in re.split(r"[-_]", name))


def names_text(names: Sequence[str]) -> str:
    """Write the names of the first three counts, and how many more there are."""
    return short_list(list(map(count_name, names)), _SHOWN)


def gpu_texts(gpus: Sequence[str]) -> list[str]:
    """Write the GPUs of a side, a text for each model: "2 × NVIDIA H100"."""
    return [name if number == 1 else f"{number} × {name}" for name, number in Counter(gpus).items()]


def value_text(
    value: float | None,
    unit: str = "",
    name: str = "",
    digits: int = _DIGITS,
) -> str:
    """Write a value in its unit: 12, 4 608, 1.38 G, 1.42 GB; plain counts are named, without unit."""
    if value is None or not math.isfinite(value):
        return NOT_KNOWN
    if unit in ("fraction", "%"):
        return _percent(value if unit == "fraction" else value / 100, digits)
    if name == _BINARY:
        return format_binary(value, "B", digits)
    if unit not in _PREFIXED:
        unit = ""
    if unit or abs(value) >= _SPELT_OUT:
        return format_si(value, unit, digits)
    if float(value).is_integer():
        return spaced(value)
    return significant(value, digits, strip=True)


def _percent(fraction: float, digits: int) -> str:
    """Write a fraction, with more digits than usual if two values would read the same."""
    if not math.isfinite(fraction * 100):
        return NOT_KNOWN
    if digits == _DIGITS:
        return format_percent(fraction)
    return f"{significant(fraction * 100, digits - 1, strip=True)} %"


def side_texts(
    base: float | None,
    new: float | None,
    unit: str = "",
    name: str = "",
) -> tuple[str, str]:
    """Write a value of each side, with enough digits for unequal values to read differently."""
    if base is not None and new is not None and math.isclose(base, new, rel_tol=SAME_VALUE):
        new = base
    for digits in range(_DIGITS, _MOST_DIGITS + 1):
        before = value_text(base, unit, name, digits)
        after = value_text(new, unit, name, digits)
        if before != after or base == new:
            break
    return before, after


def both_text(base: float | None, new: float | None, unit: str = "", name: str = "") -> str:
    """Write a value on both sides: "4.35 ms → 1.82 ms"."""
    return arrow_text(*side_texts(base, new, unit, name))


def arrow_text(before: str, after: str) -> str:
    """Write two texts with an arrow between. Each has its unit: "196 → 265 k" would read as 196."""
    return f"{before} {ARROW} {after}"


def count_values(count: CountChange | ValueChange) -> str:
    """Write a count on both sides: "1.20 M → 1.42 M"."""
    return both_text(count.base, count.new, count.unit, count.name)


def count_text(count: CountChange | ValueChange) -> str:
    """Write how a count changed: "instructions 1.20 M → 1.42 M (+18 %)"; else "registers 40"."""
    kind, dot, path = count.name.partition(".")
    # The unit of the values names what was counted.
    name = path_name(path) if kind == "flop" and dot else count_name(count.name)
    if count.base == count.new:
        return f"{name} {value_text(count.new, count.unit, count.name)}"
    text = f"{name} {count_values(count)}"
    if count.unit in ("fraction", "%") or count.name == "registers":
        return text
    return text + in_brackets(count.ratio)


def in_brackets(ratio: float | None) -> str:
    """Write a ratio behind two values as a change: " (+18 %)"; nothing if there is no ratio."""
    if ratio is None or not math.isfinite(ratio):
        return ""
    return f" ({format_change(ratio)})"


def times_text(times: Values) -> str:
    """Write two times with their change: "15.5 ms → 12.7 ms (−18 %)"."""
    return f"{both_text(*times, 's')}{in_brackets(times.ratio)}"


def change_text(ratio: float | None, missing: str = NOT_KNOWN) -> str:
    """Write new ÷ base as a signed change: 1.18 → "+18 %", 0.4 → "−60 %", from tenfold on "12x"."""
    if ratio is None:
        return missing
    return format_change(ratio) if math.isfinite(ratio) else NOT_KNOWN


def interval_text(interval: Interval | None) -> str:
    """Write the bounds of a ratio: "+15 % to +21 %"; empty if they are not known."""
    if interval is None:
        return ""
    low = change_text(interval.low)
    high = change_text(interval.high)
    return f"{low} to {high}" if low != high else low


def speed_text(ratio: float) -> str:
    """Write how much faster or slower: 0.5 → "2.0x faster", 1.18 → "slower by 18 %"."""
    word = "slower" if ratio > 1 else "faster"
    if ratio <= 0 or not math.isfinite(ratio):
        return word
    times = max(ratio, 1 / ratio)
    if times >= _SPEED:
        return f"{factor(times)} {word}"
    return f"{word} by {format_percent(abs(ratio - 1))}"


def short(text: str, most: int = 60) -> str:
    """Return a name, cut if it is too long for a sentence."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
