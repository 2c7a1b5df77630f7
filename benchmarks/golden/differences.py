"""How two answers differ, by kernel and field."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

TOLERANCE = 1e-5
"""Relative. Processors and versions of NumPy differ in the last of the digits that are kept."""


def differences(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    """Return one line for each value that differs: where it is, what was expected, what is there."""
    return [f"{place}: {old} → {new}" for place, old, new in _differences("", expected, actual)]


def _differences(place: str, expected: Any, actual: Any) -> Iterator[tuple[str, str, str]]:
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        for name in dict.fromkeys((*expected, *actual)):
            below = f"{place} {name}".strip()
            if name not in expected or name not in actual:
                yield below, _text(expected.get(name, "(none)")), _text(actual.get(name, "(none)"))
            else:
                yield from _differences(below, expected[name], actual[name])
    elif isinstance(expected, list) and isinstance(actual, list):
        yield from _list_differences(place, expected, actual)
    elif not _equal(expected, actual):
        yield place, _text(expected), _text(actual)


def _list_differences(place: str, expected: list[Any], actual: list[Any]) -> Iterator[tuple[str, str, str]]:
    if not any(isinstance(item, Mapping) for item in (*expected, *actual)):
        if len(expected) != len(actual) or not all(map(_equal, expected, actual)):
            yield place, _text(expected), _text(actual)
        return
    old, new = _by_name(expected), _by_name(actual)
    if list(old) != list(new) and sorted(old) == sorted(new):
        yield f"{place} (order)", ", ".join(old), ", ".join(new)
    yield from _differences(place, old, new)


def _by_name(items: list[Any]) -> dict[str, Any]:
    """Return items by what names them: a kernel's number and label, a finding's rule."""
    named: dict[str, Any] = {}
    for number, item in enumerate(items):
        parts = [str(item[key]) for key in ("id", "label", "rule") if isinstance(item, Mapping) and key in item]
        name = f"[{' '.join(parts) or number}]"
        named[name if name not in named else f"{name}#{number}"] = item
    return named


def _equal(expected: Any, actual: Any) -> bool:
    if isinstance(expected, float | int) and isinstance(actual, float | int):
        return math.isclose(expected, actual, rel_tol=TOLERANCE)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(map(_equal, expected, actual))
    return bool(expected == actual)


def _text(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
