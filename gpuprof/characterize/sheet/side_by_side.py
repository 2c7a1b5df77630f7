"""Two measured files side by side: two GPUs, two drivers, or two days of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Literal, NamedTuple

from gpuprof.characterize.sheet.measured import LOWER_IS_BETTER, Conditions, Measured, MeasuredValue, plain_name

ChangeWord = Literal["same", "better", "worse", "unclear", "only base", "only new", "not comparable"]

SAME = 0.02
"""Two runs on one GPU agree within 2 %."""
_RATES = ("B/s", "FLOP/s", "OP/s", "op/s", "result/s", "lane/s")


class ComparedValue(NamedTuple):
    """One quantity of both. `ratio` is new ÷ base; `per_clock` the same per SM clock, which leaves the clocks out."""

    name: str
    base: MeasuredValue | None
    new: MeasuredValue | None
    ratio: float | None
    per_clock: float | None
    word: ChangeWord


class Difference(NamedTuple):
    """A condition that is not the same."""

    name: str
    base: str
    new: str


def side_by_side(base: Measured, new: Measured) -> tuple[ComparedValue, ...]:
    """Compare every quantity of two files, in the order of the first, then what only the second has.

    A ceiling that one file has in one way and the other in several is compared with the best of these.
    """
    partners = {**_partners(base, new), **{one: other for other, one in _partners(new, base).items()}}
    taken = {*base.values, *partners.values()}
    pairs = [(name, partners.get(name, name)) for name in base.values]
    pairs += [(name, name) for name in new.values if name not in taken]
    return tuple(_row(max(one, other, key=len), base.values.get(one), new.values.get(other)) for one, other in pairs)


def _partners(one: Measured, other: Measured) -> dict[str, str]:
    """Return the best of several ways in which `other` has a ceiling that `one` has in one way, by its name."""
    found = {}
    for name, value in one.values.items():
        if name in other.values or value.ceiling is None or plain_name(name) != name:
            continue
        ways = [
            way
            for way, its in other.values.items()
            if way not in one.values and plain_name(way) == name and its.usable
            and (its.ceiling, its.unit) == (value.ceiling, value.unit)
        ]  # fmt: skip
        if ways:
            found[name] = max(ways, key=lambda way: other.values[way].as_ceiling)
    return found


def differences(base: Measured, new: Measured) -> tuple[Difference, ...]:
    """Return what differs in the GPUs and the conditions: the likely reasons for differing values."""
    return tuple(_differences(base, new))


def _row(name: str, base: MeasuredValue | None, new: MeasuredValue | None) -> ComparedValue:
    if base is None or new is None:
        return ComparedValue(name, base, new, None, None, "only new" if base is None else "only base")
    if not base.value or new.value is None or not (base.usable and new.usable) or base.unit != new.unit:
        return ComparedValue(name, base, new, None, None, "not comparable")
    ratio = new.value / base.value
    return ComparedValue(name, base, new, ratio, _per_clock(base, new, ratio), _word(base, new, ratio))


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
    for what, one, other in (
        ("GPU", base.device.name, new.device.name),
        ("SMs", base.device.sm_count, new.device.sm_count),
    ):
        if one != other:
            yield Difference(what, str(one), str(other))
    for entry in fields(Conditions):
        one, other = getattr(base.conditions, entry.name), getattr(new.conditions, entry.name)
        if one != other and entry.name != "highest_temperature_c":
            yield Difference(entry.name, _text(one), _text(other))


def _text(value: object) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)
