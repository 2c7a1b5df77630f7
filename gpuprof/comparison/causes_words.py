"""How a change is written: "instructions 1.38 G → 553 M (−60 %)", "1.8x faster", "line 88"."""

from __future__ import annotations

import math
from typing import NamedTuple

from gpuprof.comparison.contract import CountChange
from gpuprof.units import format_binary, format_percent, format_si, significant

ARROW = "→"
_MINUS = "\N{MINUS SIGN}"
_MANY = 1e5
"""Counts from here on are written with a prefix."""
_FACTOR = 1.5
"""From so many times on a change is written as a factor: 1.8x faster, and not faster by 44 %."""
_NOTHING = 5e-5
_MOST = 1e32
"""No quantity comes near it; what has more, or is no number, is taken as missing."""
_LARGE = 10.0
"""A rise of so many times is written as a factor too."""
_NAMES = {
    "instructions": "instructions", "thread-instructions": "thread instructions",
    "global-load-requests": "global load requests", "global-store-requests": "global store requests",
    "global-load-sectors": "global load sectors", "global-store-sectors": "global store sectors",
    "local-load-sectors": "local load sectors", "local-store-sectors": "local store sectors",
    "shared-wavefronts": "shared-memory wavefronts", "bank-conflicts": "bank conflicts", "l2-sectors": "L2 sectors",
    "dram-bytes": "DRAM bytes", "l2-bytes": "L2 bytes", "l1-bytes": "L1 bytes", "registers": "registers",
    "shared-memory": "shared memory per block", "occupancy": "occupancy", "spills": "local-memory sectors",
}  # fmt: skip
_BYTES = ("dram-bytes", "l2-bytes", "l1-bytes")


class Values(NamedTuple):
    """What a quantity was and is; missing on neither side."""

    base: float
    new: float

    @property
    def log_ratio(self) -> float:
        """Return ln(new ÷ base), and of what began at zero or ended there so much that it counts as much."""
        if self.base == self.new:
            return 0.0
        if self.base <= 0 or self.new <= 0:
            return _AWAY if self.new > self.base else -_AWAY
        return max(-_AWAY, min(_AWAY, math.log(self.new) - math.log(self.base)))


_AWAY = 3.0
"""Twentyfold, as a logarithm: more than that tells no more about the time."""


def known(change: CountChange | None) -> Values | None:
    """Return both values of a count; None where one is missing."""
    return values_of(change.base, change.new) if change is not None else None


def values_of(base: float | None, new: float | None) -> Values | None:
    """Return two values; None where one is missing or no number."""
    if base is None or new is None or not (abs(base) <= _MOST and abs(new) <= _MOST):
        return None
    return Values(base, new)


def count_name(name: str) -> str:
    """Write the name of a count: "dram-bytes" → "DRAM bytes", "flop.tensor.int8" → "tensor INT8"."""
    if name.startswith("flop."):
        return path_name(name.removeprefix("flop."))[0]
    return _NAMES.get(name, name.removeprefix("opcode."))


def path_name(path: str) -> tuple[str, str]:
    """Write a compute path and the unit of its operations: "fp64" → "FP64", "FLOP"; "tensor.int8" → "tensor INT8"."""
    head, _, rest = path.partition(".")
    return (f"{head} {rest.upper()}" if rest else head.upper()), "OP" if "int" in path else "FLOP"


def count_text(name: str, values: Values) -> str:
    """Write a count that moved, with both values and what that is in percent."""
    return f"{count_name(name)} {both(name, values)}{in_percent(values)}"


def both(name: str, values: Values) -> str:
    """Write both values in the unit of the count."""
    if name.startswith("flop."):
        return pair_text(values, path_name(name.removeprefix("flop."))[1])
    if name == "occupancy":
        return both_percent(values)
    if name == "shared-memory":
        return f"{format_binary(values.base)} {ARROW} {format_binary(values.new)}"
    return pair_text(values, "B" if name in _BYTES else "")


def pair_text(values: Values, unit: str = "") -> str:
    """Write both values, the prefix and unit once where they are the same: "4.35 → 1.82 ms"."""
    before, after = number(values.base, unit), number(values.new, unit)
    head, _, tail = before.rpartition(" ")
    if head and tail and after.endswith(f" {tail}"):
        before = head
    return f"{before} {ARROW} {after}"


def both_percent(values: Values) -> str:
    """Write two fractions."""
    return f"{format_percent(values.base)} {ARROW} {format_percent(values.new)}"


def number(value: float, unit: str = "") -> str:
    """Write a count: 12, 4 608, 1.38 G; bytes always with a prefix."""
    if unit or abs(value) >= _MANY:
        return format_si(value, unit)
    if value == int(value):
        return f"{value:,.0f}".replace(",", "\u202f")
    return significant(value, strip=True)


def in_percent(values: Values) -> str:
    """Write in brackets what a quantity rose or fell by; nothing where it began at zero."""
    ratio = values.new / values.base if values.base > 0 else math.inf
    return f" ({rise(ratio)})" if math.isfinite(ratio) else ""


def rise(ratio: float) -> str:
    """Write a ratio as what was gained or lost: 1.18 → "+18 %", 0.4 → "−60 %", 42 → "42x"."""
    if ratio >= _LARGE:
        return f"{significant(ratio)}x"
    if abs(ratio - 1) < _NOTHING:
        return "±0 %"
    return f"{'+' if ratio > 1 else _MINUS}{format_percent(abs(ratio - 1))}"


def speed(ratio: float) -> str:
    """Write how much faster or slower: 0.5 → "2.0x faster", 1.18 → "slower by 18 %"."""
    if ratio <= 0 or not math.isfinite(ratio):
        return "faster" if ratio < 1 else "slower"
    factor = max(ratio, 1 / ratio)
    word = "slower" if ratio > 1 else "faster"
    if factor >= _FACTOR:
        return f"{significant(factor, 2)}x {word}"
    return f"{word} by {format_percent(abs(ratio - 1))}"


def short(text: str, most: int = 60) -> str:
    """Return a name, cut where it is too long for a sentence."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"
