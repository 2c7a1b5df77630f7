"""Reads fields of a YAML mapping: known keys, texts from a list, numbers, quantities. Every error has file and line."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

from gpuprof.hardware.yaml_tree import BrokenSpec, FileLine, YamlNode
from gpuprof.units import Quantity, parse_quantity

Option = TypeVar("Option", bound=str)

_PLACEHOLDERS = {"TODO", "TBD", "FIXME", "?", "XXX"}
_MOST_DIGITS = 15


class Fields:
    """A mapping of known keys. Iterating gives the keys that are there.

    `within`: what the message about an unknown key says of the mapping; by default " in " and what it is.
    """

    def __init__(self, tree: YamlNode, what: str, known: Collection[str], *, within: str | None = None) -> None:
        self.tree = tree
        self._entries = tree.mapping(what)
        within = f" in {what}" if within is None else within
        for key, node in self._entries.items():
            if key not in known:
                raise BrokenSpec(node.place, f"unknown key {key!r}{within}; known: {', '.join(sorted(known))}")

    def __contains__(self, key: str) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def node(self, key: str) -> YamlNode | None:
        """Return a value, or None."""
        return self._entries.get(key)

    def required(self, key: str) -> YamlNode:
        """Return a value, or say that it is missing."""
        if key not in self._entries:
            raise BrokenSpec(self.tree.place, f"{key} is missing")
        return self._entries[key]

    def place(self, key: str) -> FileLine:
        """Return the line of a key, or of the mapping where the key is missing."""
        node = self._entries.get(key)
        return node.place if node else self.tree.place

    def text(self, key: str) -> str:
        """Return a text that says something."""
        node = self.required(key)
        text = node.text(key).strip()
        if not text or text.upper() in _PLACEHOLDERS:
            raise BrokenSpec(node.place, f"{key} is a placeholder: {text!r}")
        return text

    def optional_text(self, key: str) -> str | None:
        """Return a text that says something; None where the key is missing."""
        return self.text(key) if key in self else None

    def text_or_null(self, key: str) -> str | None:
        """Return a text as it stands; None where the key is missing or null, as in a spec that removes it."""
        node = self._entries.get(key)
        return node.text(key) if node is not None and node.value is not None else None

    def choice(self, key: str, options: tuple[Option, ...], default: Option | None = None) -> Option:
        """Return one of `options`; `default`, if there is one, where the key is missing."""
        if default is not None and key not in self:
            return default
        return _one_of(self.required(key), key, options)

    def choices(self, key: str, options: tuple[Option, ...]) -> tuple[Option, ...]:
        """Return one or more of `options`."""
        node = self.required(key)
        items = node.sequence(key)
        if not items:
            raise BrokenSpec(node.place, f"{key} is empty")
        return tuple(_one_of(item, key, options) for item in items)

    def items(self, key: str) -> tuple[YamlNode, ...]:
        """Return a list's items; none where the key is missing."""
        node = self._entries.get(key)
        return node.sequence(key) if node else ()

    def entries(self, key: str) -> tuple[YamlNode, ...]:
        """Return a list's items, or a single value as a list of one; none where the key is missing."""
        node = self._entries.get(key)
        return node.entries() if node else ()

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts; None where the key is missing."""
        return tuple(item.text(key) for item in self.items(key)) if key in self._entries else None

    def mapping(self, key: str) -> Mapping[str, YamlNode]:
        """Return a mapping; an empty one where the key is missing."""
        node = self._entries.get(key)
        return node.mapping(key) if node else {}

    def wholes(self, key: str) -> tuple[int, ...]:
        """Return one or more whole numbers above zero."""
        return tuple(whole(item, key) for item in self.required(key).entries())

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return true or false; `default` where the key is missing."""
        return _one_of(self._entries[key], key, ("true", "false")) == "true" if key in self else default

    def amount(self, key: str, unit: str, default: float | None = None) -> float:
        """Return a quantity that must be in `unit`; `default`, if there is one, where the key is missing."""
        if default is not None and key not in self:
            return default
        return amount(self.required(key), key, unit)

    def optional_amount(self, key: str, unit: str) -> float | None:
        """Return a quantity that must be in `unit`; None where the key is missing."""
        return self.amount(key, unit) if key in self else None

    def number(self, key: str) -> float:
        """Return a plain finite number."""
        return number(self.required(key), key)

    def whole(self, key: str) -> int:
        """Return a whole number of at least 1."""
        return whole(self.required(key), key)


def _one_of(node: YamlNode, what: str, options: tuple[Option, ...]) -> Option:
    text = node.text(what)
    for option in options:
        if option == text:
            return option
    raise BrokenSpec(node.place, f"{what} {text!r} is not one of {', '.join(options)}")


def number(node: YamlNode, what: str) -> float:
    """Read a plain finite number."""
    text = node.text(what)
    try:
        value = float(text)
    except ValueError as error:
        raise BrokenSpec(node.place, f"{what}: {text!r} is not a number") from error
    if not math.isfinite(value):
        raise BrokenSpec(node.place, f"{what}: {text!r} is not a finite number")
    return value


def whole(node: YamlNode, what: str, least: int = 1) -> int:
    """Read a whole number of at least 1, or `least`."""
    text = node.text(what)
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS) or int(text) < least:
        bound = f" from {least} on" if least else ""
        raise BrokenSpec(node.place, f"{what}: {text[:40]!r} is not a whole number{bound}")
    return int(text)


def quantity(node: YamlNode, what: str) -> Quantity:
    """Read a quantity that is not negative, in any unit, into base units: "4.51 TB/s", "33.1 cycle"."""
    try:
        value = parse_quantity(node.text(what))
    except ValueError as error:
        raise BrokenSpec(node.place, f"{what}: {error}") from error
    if value.value < 0:
        raise BrokenSpec(node.place, f"{what} is negative")
    return value


def amount(node: YamlNode, what: str, unit: str) -> float:
    """Read a quantity that must be in `unit`, into base units: ("4 GiB", "B") → 4294967296.0."""
    value = quantity(node, what)
    if value.unit != unit:
        raise BrokenSpec(node.place, f"{what}: {node.value!r} is not an amount in {unit}")
    return value.value


def require_unit(unit: str, expected: str, what: str, node: YamlNode) -> None:
    """Refuse an amount in another unit."""
    if unit != expected:
        raise BrokenSpec(node.place, f"{what} is in {unit or 'no unit'}; expected {expected or 'none'}")
