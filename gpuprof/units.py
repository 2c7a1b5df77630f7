"""The only place that scales units: spec text and Nsight Compute units in, base units and readable text out.

Base units: second, byte, hertz, FLOP, FLOP/s, byte/s. Percent stays percent. Counts have their own name ("inst").
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import NamedTuple

WARP_THREADS = 32
"""The lanes of a warp."""
SECTOR_BYTES = 32
"""The least that L1 and L2 move at a time."""

DECIMAL_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY_PREFIXES = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
SUBMULTIPLES = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12}

# Unit symbols of spec files that take a prefix, and what they become.
_SCALABLE = ("FLOP/s", "OP/s", "bit/s", "B/s", "FLOP", "bit", "Hz", "B", "W", "s")
RESULT_UNITS = ("cycle", "result/s", "lane/s", "op/s", "J/FLOP", "J/OP", "J/B", "°C")
"""Units of what is measured that take no prefix and occur in no spec."""
_PLAIN = (
    "FLOP/clk/SM", "OP/clk/SM", "result/clk/SM", "B/clk/SM", "B/clk", "warp", "thread", "block", "register",
    "SM", "scheduler", "%", "lane/clk/SM", "", *RESULT_UNITS,
)  # fmt: skip
_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)\s*(?!\s)(.*)")

# Nsight Compute: "Gbyte/second", "cycle/nsecond", "Kbyte/block", "ns", "hz", "sectors", "byte/s".
_NCU_TIME = {
    "second": 1.0, "sec": 1.0, "s": 1.0, "msecond": 1e-3, "ms": 1e-3, "usecond": 1e-6, "us": 1e-6,
    "nsecond": 1e-9, "ns": 1e-9, "minute": 60.0, "hour": 3600.0,
}  # fmt: skip
_NCU_HERTZ = {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
_NCU_SINGULAR = {"sectors": "sector", "branches": "branch", "bytes": "byte"}
_NCU_PREFIXED = re.compile(r"^([KMGTP])(byte|bit|flop|inst|sector|cycle|request|warp|thread|block)s?$")


class Quantity(NamedTuple):
    """A number in a base unit."""

    value: float
    unit: str


def parse_quantity(text: str) -> Quantity:
    """Read "4.8 TB/s", "40 MiB", "1410 MHz" or "2048 FLOP/clk/SM" into base units.

    Raises ValueError for anything else, a bare number with a misspelt unit included.
    """
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a number with a unit")
    number, symbol = float(match[1]), match[2]
    if symbol in _PLAIN and math.isfinite(number):
        return Quantity(number, symbol)
    for base in _SCALABLE:
        if symbol.endswith(base):
            prefix = symbol[: -len(base)]
            factor = DECIMAL_PREFIXES.get(prefix)
            if factor is None and base in {"B", "B/s"}:
                factor = BINARY_PREFIXES.get(prefix)
            if factor is None and base == "s":
                factor = SUBMULTIPLES.get(prefix)
            if factor is not None and not math.isfinite(number * factor):
                raise ValueError(f"{text!r} is too large for a number")
            if factor is not None:
                return Quantity(number * factor, base)
    raise ValueError(f"{text!r} has no unit that gpuprof knows")


@lru_cache(maxsize=512)
def ncu_unit(unit: str) -> tuple[float, str]:
    """Return the factor and the base unit of an Nsight Compute unit.

    ("Gbyte/second") → (1e9, "byte/s"); ("cycle/nsecond") → (1e9, "Hz"); ("usecond") → (1e-6, "s").
    Nsight Compute scales by powers of 1000. An unknown unit is its own base unit.
    """
    if "/" in unit:
        numerator, _, denominator = unit.partition("/")
        top_factor, top = ncu_unit(numerator)
        bottom_factor, bottom = ncu_unit(denominator)
        if top == "cycle" and bottom == "s":
            return top_factor / bottom_factor, "Hz"
        return top_factor / bottom_factor, f"{top}/{bottom}"
    if unit in _NCU_TIME:
        return _NCU_TIME[unit], "s"
    if unit.lower() in _NCU_HERTZ:
        return _NCU_HERTZ[unit.lower()], "Hz"
    prefixed = _NCU_PREFIXED.match(unit)
    if prefixed:
        return DECIMAL_PREFIXES[prefixed[1]], prefixed[2]
    return 1.0, _NCU_SINGULAR.get(unit, unit)


def format_si(value: float, unit: str, digits: int = 3) -> str:
    """Write a value with a decimal prefix and `digits` significant digits: 4.8e12, "B/s" → "4.80 TB/s"."""
    if not math.isfinite(value):
        return f"{value} {unit}".rstrip()
    if value == 0:
        return f"0 {unit}".rstrip()
    ladder = [
        (1e-9, "n"),
        (1e-6, "µ"),
        (1e-3, "m"),
        (1.0, ""),
        (1e3, "k"),
        (1e6, "M"),
        (1e9, "G"),
        (1e12, "T"),
        (1e15, "P"),
    ]
    if unit != "s":
        ladder = ladder[3:]
    elif abs(value) >= 1:
        ladder = ladder[:4]
    for index, (factor, prefix) in enumerate(ladder):
        text = significant(value / factor, digits)
        last = index == len(ladder) - 1
        if last or abs(float(text.replace(" ", ""))) < 1000:
            return f"{text} {prefix}{unit}".rstrip()
    raise AssertionError("unreachable: the last step of the ladder always returns")


def format_binary(value: float, unit: str = "B", digits: int = 3) -> str:
    """Write bytes with a binary prefix: 41943040 → "40 MiB"."""
    for prefix in ("", "Ki", "Mi", "Gi"):
        if abs(value) < 1024:
            return f"{significant(value, digits, strip=True)} {prefix}{unit}"
        value /= 1024
    return f"{significant(value, digits, strip=True)} Ti{unit}"


def significant(value: float, digits: int = 3, *, strip: bool = False) -> str:
    """Write a number with `digits` significant digits, without an exponent: 0.04567 → "0.0457", 1234 → "1230"."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    magnitude = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - magnitude)
    if rounded and math.floor(math.log10(abs(rounded))) > magnitude:
        magnitude += 1
    text = f"{rounded:.{max(0, digits - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if strip and "." in text else text


def format_waves(waves: float) -> str:
    """Write how often a grid fills the GPU: 1.333 → "1.33 waves", 1.0039 → "1.004 waves", 1 → "1 wave", 0 → "under
    0.01 waves".

    Text exports round it to two decimals, so that a small grid reads 0.
    """
    text = significant(waves, strip=True) if waves else "under 0.01"
    if text.isdecimal() and waves < 10 and not float(waves).is_integer():
        text = f"{waves:.3f}"
    return f"{text} wave" if text == "1" else f"{text} waves"


_WHOLE_PERCENT = 100 - 1e-6


def spaced(count: float) -> str:
    """Print a count with narrow spaces between thousands."""
    return f"{count:,.0f}".replace(",", "\u202f")


def format_percent(fraction: float) -> str:
    """Write a fraction as percent: 0.612 → "61 %", 0.0042 → "0.42 %", 1.0 → "100 %", 0.9993 → "99.9 %".

    "100 %" is the whole, but for rounding of the input.
    """
    percent = fraction * 100
    if 99.5 <= percent < _WHOLE_PERCENT:
        return f"{percent:.1f} %" if percent < 99.95 else ">99.9 %"
    if abs(percent) >= 99.5:
        return f"{percent:.0f} %"
    if percent == 0:
        return "0 %"
    if abs(percent) < 0.01:
        return "<0.01 %" if percent > 0 else f"{percent:.2g} %"
    return f"{significant(percent, 2)} %"


MINUS, ARROW = "\N{MINUS SIGN}", "→"
_LEAST_CHANGE, _NEARLY_ALL = 1e-4, 99.9
_FACTOR_FROM = 10.0
"""From here on a factor reads better than percent: "12x" and not "+1,100 %"."""


def signed_percent(change: float) -> str:
    """Write a change as percent with its sign: 0.18 → "+18 %", -0.0042 → "−0.42 %", 0.0 → "0 %".

    "−100 %" is all of it: what nearly goes is "−99.7 %" or ">−99.9 %".
    """
    percent = abs(change) * 100
    if percent == 0 or not math.isfinite(percent):
        return "0 %" if percent == 0 else "not known"
    sign = "+" if change > 0 else MINUS
    if percent < _LEAST_CHANGE:
        return f"{'<' if change > 0 else '>'}{sign}{_LEAST_CHANGE:.4f} %"
    if percent < 99.5:
        return f"{sign}{significant(percent, 2)} %"
    if -1 < change < 0:
        return f"{sign}{percent:.1f} %" if percent < _NEARLY_ALL else f">{sign}{_NEARLY_ALL:.1f} %"
    return f"{sign}{percent:.0f} %"


def factor(ratio: float) -> str:
    """Write a ratio as a factor: 1.84 → "1.8x", 12.3 → "12x"."""
    return f"{significant(ratio, 2)}x"


def format_change(ratio: float) -> str:
    """Write new ÷ base as a signed change: 1.18 → "+18 %", 0.4 → "−60 %", from tenfold on "12x"."""
    return factor(ratio) if _FACTOR_FROM <= ratio < math.inf else signed_percent(ratio - 1)


def counted(number: int, noun: str, plural: str = "s") -> str:
    """Write a number and its noun: "1 launch", "10 000 launches"."""
    return f"{spaced(number)} {noun}{plural if number != 1 else ''}"
