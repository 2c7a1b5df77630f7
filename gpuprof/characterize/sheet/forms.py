"""The forms that values have in a measured file: how each is read and written, and what the reference calls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuprof.hardware.yaml_fields import Fields, number, quantity, require_unit, whole
from gpuprof.hardware.yaml_tree import BrokenSpec, YamlNode
from gpuprof.units import format_binary, format_si, parse_quantity

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_DIGITS = 6
"""Significant digits of the numbers in a file."""
_DIGITS_OF_X = 10
"""So many has x of a curve: sizes in bytes are whole."""
_SCALED = ("FLOP/s", "OP/s", "B/s", "bit/s", "Hz", "W", "s")


@dataclass(frozen=True, slots=True)
class KeyForm:
    """What stands at a key: its description, how it is read, how it is written.

    Both are given the unit of the measured value that the key belongs to. `of`: the record that stands there.
    """

    description: str
    read: Callable[[Fields, str, str], object]
    write: Callable[[Any, str], object] = lambda value, _: value
    of: type[DataclassInstance] | None = None


class InLine(dict[str, object]):
    """A mapping that is written in one line."""


def one_of(options: tuple[str, ...]) -> KeyForm:
    """Return the form of one of several words."""
    return KeyForm(" or ".join(f"`{option}`" for option in options), lambda entry, name, _: entry.choice(name, options))


def amount_in(unit: str) -> KeyForm:
    """Return the form of an amount in one unit."""
    return KeyForm(
        f"amount in {unit}",
        lambda entry, name, _: entry.amount(name, unit),
        lambda value, _: quantity_text(value, unit),
    )


def mapping_to(
    description: str, read: Callable[[YamlNode, str], object], write: Callable[[Any], object] = lambda value: value
) -> KeyForm:
    """Return the form of a mapping in one line, whose values `read` reads and `write` writes."""
    return KeyForm(
        description,
        lambda entry, name, _: {item: read(node, item) for item, node in entry.mapping(name).items()},
        lambda values, _: InLine((item, write(value)) for item, value in values.items()),
    )


def quantity_text(value: float, unit: str) -> str:
    """Write an amount so that `quantity` reads it back, with six digits: 4.51e12, "B/s" → "4.51 TB/s"."""
    if unit == "B":
        return _bytes_text(value)
    if unit in _SCALED:
        digits, _, scaled = format_si(value, unit, _DIGITS).partition(" ")
        return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} {scaled}"
    return f"{value:.{_DIGITS}g} {unit}".rstrip()


def _bytes_text(value: float) -> str:
    """Write whole KiB, MiB and GiB as such, anything else in bytes; a part of a byte is rounded first."""
    amount = value if value == round(value) else float(f"{value:.{_DIGITS}g}")
    binary = format_binary(amount, digits=_DIGITS)
    if parse_quantity(binary).value == amount:
        return binary
    return f"{amount:.0f} B" if amount == round(amount) else f"{amount:.{_DIGITS}g} B"


def _own_amount(entry: Fields, name: str, unit: str) -> float:
    node = entry.required(name)
    value = quantity(node, name)
    require_unit(value.unit, unit, name, node)
    return value.value


def _value(entry: Fields, name: str, _: str) -> float | None:
    return quantity(entry.required(name), name).value if name in entry else None


def _unit(entry: Fields, name: str, _: str) -> str:
    if "value" in entry:
        return quantity(entry.required("value"), "value").unit
    if name not in entry:
        raise BrokenSpec(entry.tree.place, f"value is missing; one that could not be measured has its {name}")
    return entry.text(name)


def _points(entry: Fields, name: str, _: str) -> tuple[tuple[float, float], ...]:
    return tuple(_point(node) for node in entry.items(name))


def _point(node: YamlNode) -> tuple[float, float]:
    """Read "4096 33.1"."""
    parts = node.text("a point").split()
    if len(parts) != 2:
        raise BrokenSpec(node.place, "a point is two numbers, x and y")
    x, y = (number(YamlNode(part, node.place), "a point") for part in parts)
    return x, y


def _point_texts(points: tuple[tuple[float, float], ...], _: str) -> list[str]:
    return [f"{x:.{_DIGITS_OF_X}g} {y:.{_DIGITS}g}" for x, y in points]


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


TEXT = KeyForm("text", lambda entry, name, _: entry.text(name))
TEXTS = KeyForm("list of texts", lambda entry, name, _: entry.texts(name), lambda texts, _: list(texts))
FLAG = KeyForm("true or false", lambda entry, name, _: entry.flag(name))
WHOLE = KeyForm("whole number", lambda entry, name, _: whole(entry.required(name), name, 0))
NUMBER = KeyForm("number", lambda entry, name, _: entry.number(name), lambda value, _: _rounded(value))
OWN_AMOUNT = KeyForm("amount in the unit of the value", _own_amount, quantity_text)
VALUE = KeyForm("amount in any unit", _value, quantity_text)
UNIT = KeyForm("text, where there is no value", _unit)
POINTS = KeyForm("list of `X Y`", _points, _point_texts)
TEXT_BY_NAME = mapping_to("mapping to texts", YamlNode.text)
WHOLE_BY_NAME = mapping_to("mapping to whole numbers", lambda node, item: whole(node, item, 0))
NUMBER_BY_NAME = mapping_to("mapping to numbers", number, _rounded)
