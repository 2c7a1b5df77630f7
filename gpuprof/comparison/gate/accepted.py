"""Regressions that a TOML file accepts: which, why, and until when."""

from __future__ import annotations

import codecs
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

from msgspec import Struct

from gpuprof.comparison.gate.limits import TOTAL_TIME, limit_of
from gpuprof.errors import InputError, UsageError
from gpuprof.model.kernel_match import KernelPattern, kernel_pattern, name_patterns

TABLE = "accepted"
_KEYS = ("kernel", "limit", "reason", "until")
_EXAMPLE = '[[accepted]] with kernel = "gemm", limit = "time:8%", reason = "…", until = 2027-03-31'
_HEADER = re.compile(rb"[ \t]*\[\[[ \t]*accepted[ \t]*\]\]")
_MOST_REASON = 1000


class Accepted(Struct, frozen=True):
    """An accepted rise of `quantity` up to `most` (None: any) of kernels that the pattern names.

    `pattern` is None for the time of all kernels together. `until` is its last day.
    """

    place: str
    quantity: str
    most: float | None
    pattern: KernelPattern | None
    reason: str
    until: date

    def is_valid(self, today: date) -> bool:
        """Return whether its last day has not passed yet."""
        return today <= self.until


def accepted_of(data: bytes, name: str) -> tuple[Accepted, ...]:
    """Parse the entries of a file. Raises InputError, with file and line, for an invalid one."""
    data = data.removeprefix(codecs.BOM_UTF8)
    table = _parsed(data, name)
    unknown = next((key for key in table if key != TABLE), None)
    entries = table.get(TABLE, [])
    if unknown is not None or not isinstance(entries, list):
        what = f"unknown key {unknown!r:.80}" if unknown is not None else f"{TABLE} is not a list of tables"
        raise InputError(f"{name}: {what}", f"an entry is {_EXAMPLE}")
    places = [f"{name}:{number}" for number, line in enumerate(data.split(b"\n"), 1) if _HEADER.match(line)]
    if len(places) != len(entries):
        places = [f"{name}: entry {number}" for number in range(1, len(entries) + 1)]
    return tuple(_entry(entry, place) for entry, place in zip(entries, places, strict=True))


def _parsed(data: bytes, name: str) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InputError(f"{name}:{data.count(10, 0, error.start) + 1}: not UTF-8", _FIX) from error
    except RecursionError as error:
        raise InputError(f"{name}: nested too deeply", _FIX) from error
    except ValueError as error:
        what = str(error)[:200]
        raise InputError(f"{name}: {what[:1].lower()}{what[1:]}", _FIX) from error


_FIX = f"fix it; an entry is {_EXAMPLE}"


def _entry(entry: object, place: str) -> Accepted:
    if not isinstance(entry, dict):
        raise InputError(f"{place}: {entry!r:.80} is not a table", f"an entry is {_EXAMPLE}")
    unknown = next((key for key in entry if key not in _KEYS), None)
    if unknown is not None:
        raise InputError(f"{place}: unknown key {unknown!r:.80}", f"there are {', '.join(_KEYS)}")
    reason = _text(entry, "reason", place)
    quantity, most = _quantity(_text(entry, "limit", place), place)
    return Accepted(
        place=place,
        quantity=quantity,
        most=most,
        pattern=_pattern(entry, quantity, place),
        reason=reason[:_MOST_REASON],
        until=_day(entry.get("until"), place),
    )


def _text(entry: Mapping[str, object], key: str, place: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value.strip():
        what = f"{key} cannot be {value!r:.80}" if key in entry else f"{key} is missing"
        raise InputError(f"{place}: {what}", f"{key} takes a text")
    return value.strip()


def _quantity(text: str, place: str) -> tuple[str, float | None]:
    if "=" in text:
        raise InputError(f"{place}: limit {text!r:.80} names a kernel", "name it by kernel = …")
    try:
        limit = limit_of(text, "limit")
    except UsageError as error:
        raise InputError(f"{place}: {error.message}", error.hint) from error
    return limit.quantity, limit.most if ":" in text else None


def _pattern(entry: Mapping[str, object], quantity: str, place: str) -> KernelPattern | None:
    if quantity == TOTAL_TIME:
        if "kernel" in entry:
            raise InputError(f"{place}: {TOTAL_TIME} is of all kernels", "leave kernel out")
        return None
    text = _text(entry, "kernel", place)
    try:
        name_patterns([text], "kernel")
        return kernel_pattern(text, "kernel")
    except UsageError as error:
        raise InputError(f"{place}: {error.message}", error.hint) from error


def _day(value: object, place: str) -> date:
    """Return the day of a TOML date or time, or of a text."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    what = "until is missing" if value is None else f"until cannot be {value!r:.80}"
    raise InputError(f"{place}: {what}", "until takes the last day that it holds, such as 2027-03-31")


def fitting(entries: Sequence[Accepted], quantity: str, names: Sequence[tuple[str, str]]) -> list[Accepted]:
    """Return the entries that are about a quantity of a kernel of these labels and full names; none: of the run."""
    return [entry for entry in entries if entry.quantity == quantity and _names(entry.pattern, names)]


def _names(pattern: KernelPattern | None, names: Sequence[tuple[str, str]]) -> bool:
    if pattern is None:
        return not names
    return any(pattern.fits(label, demangled) for label, demangled in names)
