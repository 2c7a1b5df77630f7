"""Two measured files side by side: two GPUs, two drivers, or two days of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal, NamedTuple

from gpuprof.characterize.sheet.measured import LOWER_IS_BETTER, Conditions, Measured, MeasuredValue, plain_name

ChangeWord = Literal["same", "better", "worse", "unclear", "only base", "only new", "not comparable"]

SAME = 0.02
"""Two runs on one GPU agree within 2 %."""
_RATES = ("B/s", "FLOP/s", "OP/s", "op/s", "result/s", "lane/s")


@dataclass(frozen=True, slots=True)
class ComparedValue:
    """One quantity of both. `ratio` is new ÷ base; `per_clock` the same per SM clock, which leaves the clocks out."""

    name: str
    base: MeasuredValue | None
    new: MeasuredValue | None
    word: ChangeWord
    ratio: float | None = None
    per_clock: float | None = None


class Difference(NamedTuple):
    """A condition that is not the same."""

    name: str
    base: str
    new: str


def side_by_side(base: Measured, new: Measured) -> tuple[ComparedValue, ...]:
    """Compare every quantity of two files, in the order of the first, then what only the second has.

    A ceiling that one file has in one way and the other in several is compared with the best of these.
    """
    partners = {**_partners(base, new), **{name: way for way, name in _partners(new, base).items()}}
    taken = {*base.values, *partners.values()}
    pairs = [(name, partners.get(name, name)) for name in base.values]
    pairs += [(name, name) for name in new.values if name not in taken]
    return tuple(_row(max(name, way, key=len), base.values.get(name), new.values.get(way)) for name, way in pairs)


def _partners(single: Measured, other: Measured) -> dict[str, str]:
    """Return the best of several ways in which `other` has a ceiling that `single` has in one way, by its name."""
    partners = {}
    for name, value in single.values.items():
        if name in other.values or value.ceiling is None or plain_name(name) != name:
            continue
        ways = [
            way
            for way, its in other.values.items()
            if way not in single.values and plain_name(way) == name and its.usable
            and (its.ceiling, its.unit) == (value.ceiling, value.unit)
        ]  # fmt: skip
        if ways:
            partners[name] = max(ways, key=lambda way: other.values[way].as_ceiling)
    return partners


def differences(base: Measured, new: Measured) -> tuple[Difference, ...]:
    """Return what differs in the GPUs and the conditions: the likely reasons for differing values."""
    return tuple(_differences(base, new))


def _row(name: str, base: MeasuredValue | None, new: MeasuredValue | None) -> ComparedValue:
    if base is None or new is None:
        return ComparedValue(name, base, new, word="only new" if base is None else "only base")
    if not base.value or new.value is None or not (base.usable and new.usable) or base.unit != new.unit:
        return ComparedValue(name, base, new, word="not comparable")
    ratio = new.value / base.value
    per_clock = _per_clock(base, new, ratio)
    return ComparedValue(name, base, new, word=_word(base, new, ratio), ratio=ratio, per_clock=per_clock)


def _per_clock(base: MeasuredValue, new: MeasuredValue, ratio: float) -> float | None:
    """Return the ratio of rates per clock; of seconds in clocks."""
    clocks = base.evidence.clock_hz, new.evidence.clock_hz
    if clocks[0] is None or clocks[1] is None or not clocks[0] or not clocks[1]:
        return None
    if base.unit in _RATES:
        return ratio * clocks[0] / clocks[1]
    return ratio * clocks[1] / clocks[0] if base.unit == "s" else None


def _word(base: MeasuredValue, new: MeasuredValue, ratio: float) -> ChangeWord:
    """Beyond 2 % and with separate intervals it is a change; overlapping intervals leave a larger one unclear."""
    if abs(ratio - 1) <= SAME:
        return "same"
    if _overlap(base, new):
        return "unclear"
    return "better" if (ratio > 1) != (base.unit in LOWER_IS_BETTER) else "worse"


def _overlap(base: MeasuredValue, new: MeasuredValue) -> bool:
    if base.low is None or base.high is None or new.low is None or new.high is None:
        return False
    return base.low <= new.high and new.low <= base.high


def _differences(base: Measured, new: Measured) -> Iterator[Difference]:
    for what, ours, theirs in (
        ("GPU", base.device.name, new.device.name),
        ("SMs", base.device.sm_count, new.device.sm_count),
    ):
        if ours != theirs:
            yield Difference(what, str(ours), str(theirs))
    for condition in fields(Conditions):
        ours, theirs = getattr(base.conditions, condition.name), getattr(new.conditions, condition.name)
        if ours != theirs and condition.name != "highest_temperature_c":
            yield Difference(condition.name, _text(ours), _text(theirs))


def _text(value: object) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
