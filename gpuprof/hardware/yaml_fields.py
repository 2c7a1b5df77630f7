"""Reads fields of a YAML mapping: known keys, texts from a list, numbers, quantities in a given unit."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

from gpuprof.hardware.yaml_tree import BrokenSpec, FileLine, YamlNode
from gpuprof.units import parse_quantity

_PLACEHOLDERS = {"TODO", "TBD", "FIXME", "?", "XXX"}
_OWN_UNITS = ("cycle",)
"""Units of results that take no prefix and occur in no spec."""


class Fields:
    """A mapping of known keys. Iterating gives the keys that are there."""

    def __init__(self, tree: YamlNode, what: str, known: Collection[str]) -> None:
        self.tree = tree
        self._entries = tree.mapping(what)
        for key, node in self._entries.items():
            if key not in known:
                raise BrokenSpec(node.place, f"unknown key {key!r} in {what}; known: {', '.join(sorted(known))}")

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

    def choice(self, key: str, options: tuple[str, ...]) -> str:
        """Return one of `options`."""
        return _one_of(self.required(key), key, options)

    def choices(self, key: str, options: tuple[str, ...]) -> tuple[str, ...]:
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
        if node is None:
            return ()
        return node.value if isinstance(node.value, tuple) else (node,)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts; None where the key is missing."""
        return tuple(item.text(key) for item in self.items(key)) if key in self._entries else None

    def mapping(self, key: str) -> Mapping[str, YamlNode]:
        """Return a mapping; an empty one where the key is missing."""
        node = self._entries.get(key)
        return node.mapping(key) if node else {}

    def wholes(self, key: str) -> tuple[int, ...]:
        """Return one or more whole numbers above zero."""
        node = self.required(key)
        items = node.value if isinstance(node.value, tuple) else (node,)
        return tuple(whole(item, key) for item in items)

    def flag(self, key: str) -> bool:
        """Return true or false; false where the key is missing."""
        return key in self._entries and _one_of(self._entries[key], key, ("true", "false")) == "true"


def _one_of(node: YamlNode, what: str, options: tuple[str, ...]) -> str:
    text = node.text(what)
    if text not in options:
        raise BrokenSpec(node.place, f"{what} {text!r} is not one of {', '.join(options)}")
    return text


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
    if not text.isdecimal() or int(text) < least:
        raise BrokenSpec(node.place, f"{what}: {text!r} is not a whole number from {least} on")
    return int(text)


def amount(node: YamlNode, what: str, unit: str) -> float:
    """Read a quantity that must be in `unit`, into base units: ("4 GiB", "B") → 4294967296.0."""
    text = node.text(what)
    if unit in _OWN_UNITS and text.endswith(f" {unit}"):
        return number(YamlNode(text.removesuffix(unit).strip(), node.place), what)
    try:
        quantity = parse_quantity(text)
    except ValueError as error:
        raise BrokenSpec(node.place, f"{what}: {error}") from error
    if quantity.unit != unit or quantity.value < 0:
        raise BrokenSpec(node.place, f"{what}: {text!r} is not an amount in {unit}")
    return quantity.value
