"""Wording files: the sentences of a rule by named case, with named placeholders and no conditions.

A placeholder has the name of an amount or of a label of the finding. Formats of amounts: none for a
number with its unit, `count` for a whole number of things ("12 cycles"), `spaced` for a number without
its unit, `significant` for three digits ("12.0"), `si` for a prefix, `waves`, or a format of Python
such as `.3g`. Formats of labels: `pipe`, `stall` or `unit` for identifiers of those.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Union

import msgspec
import yaml

from gpuprof.model.findings import Amount
from gpuprof.model.headline import listed
from gpuprof.model.stalls import stall_name
from gpuprof.units import (
    counted,
    format_binary,
    format_percent,
    format_si,
    format_waves,
    significant,
    spaced,
)
from gpuprof.words.unit_names import pipe_name

FOLDER = Path(__file__).parent.parent / "diagnose" / "wording"
SHARED = "shared"
"""The file with what several rules say: evidence, thresholds and assumptions."""
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
PREFIXED = ("B/s", "FLOP/s", "FLOP", "Hz", "s")
_CONTINUES = (",", ";", ":", ".", ")")

_SPACED_FROM = 1000
_NUMBER = re.compile(r"[0-9.\u202f]+")

ValueText = Union["AmountText", "NameText"]
Values = Mapping[str, ValueText]


class ThresholdText(msgspec.Struct, frozen=True):
    """The name of a threshold and the reason for its value."""

    name: str
    reason: str


class CodeWording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reference of a rule on compiled code: its title, the code that it reads, and when it reports nothing."""

    title: str
    inputs: str
    limitations: str


class Wording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A wording file.

    `cause` names the finding inside of a sentence, by the first case of its headline or for all.
    `sentence` has the cases of `headline` for the verdict: with `{kernel}` and `{file}` for the names of
    the kernel and its file. The reference page of the rule has `title`, `inputs`, `gain` and `limitations`, that of
    rules on compiled code what is in `code`.
    """

    title: str = ""
    inputs: str = ""
    gain: str = ""
    limitations: str = ""
    cause: str | dict[str, str] = ""
    headline: dict[str, str] = {}
    sentence: dict[str, str] = {}
    why: dict[str, str] = {}
    action: dict[str, str] = {}
    advice: dict[str, str] = {}
    evidence: dict[str, str] = {}
    thresholds: dict[str, ThresholdText] = {}
    assumptions: dict[str, str] = {}
    code: CodeWording | None = None


@cache
def wording(name: str) -> Wording:
    """Return the wording of a rule, or of another file of the folder; empty if there is none."""
    file = FOLDER / f"{name}.yaml"
    if not file.is_file():
        return Wording()
    text = file.read_text(encoding="utf-8")
    try:
        return msgspec.convert(yaml.load(text, _LOADER), Wording)  # noqa: S506, a safe loader
    except (ValueError, yaml.YAMLError) as error:
        raise ValueError(f"{file.name}: {error}") from error


def template(rule: str, section: str, case: str) -> str:
    """Return the sentence of a case, from the rule's file or the one that the case names.

    Raises KeyError if there is no such case.
    """
    file, _, name = case.rpartition("/")
    cases: Mapping[str, str] = getattr(wording(file or rule), section)
    if name not in cases:
        raise KeyError(f"{file or rule}.yaml has no {section} {name!r}, or there is no such file")
    return cases[name]


def filled(rule: str, section: str, cases: Iterable[str], values: Values) -> str:
    """Return the sentences of several cases as one text. Raises KeyError if one, or a value, is missing."""
    return joined(_filled(rule, section, case, values) for case in cases)


def _filled(rule: str, section: str, case: str, values: Values) -> str:
    text = template(rule, section, case)
    try:
        return text.format_map(values)
    except KeyError as error:
        raise KeyError(f"{rule}.yaml, {section} {case!r}: the finding has no {error}") from error
    except ValueError as error:
        raise ValueError(f"{rule}.yaml, {section} {case!r}: {error}") from error


def joined(parts: Iterable[str]) -> str:
    """Join sentences and parts of one; a part that begins with punctuation follows without a space."""
    text = ""
    for part in parts:
        if text and part and not part.startswith(_CONTINUES):
            text += " "
        text += part
    return text


class AmountText:
    """An amount to be written; with `high`, a range."""

    def __init__(self, low: Amount, high: Amount | None = None) -> None:
        self.low = low
        self.high = high if high is not None and high.value != low.value else None

    def __format__(self, spec: str) -> str:
        low = written(self.low, spec)
        return low if self.high is None else ranged(low, written(self.high, spec))


class NameText:
    """Names to be written, several as a list."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def __format__(self, spec: str) -> str:
        write = _NAMES[spec]
        return listed([write(name) for name in self.names])


_NAMES: Mapping[str, Callable[[str], str]] = {
    "": str,
    "pipe": pipe_name,
    "stall": stall_name,
    "unit": pipe_name,
}


def ranged(low: str, high: str) -> str:
    """Write two numbers with their unit as a range: "2 to 52 %"; one number if they are alike."""
    if low == high:
        return low
    begin = _NUMBER.match(low)
    end = _NUMBER.match(high)
    if begin is not None and end is not None:
        unit = low[begin.end() :]
        if high[end.end() :] in (unit, f"{unit}s"):
            return f"{begin[0]} to {high}"
    return f"{low} to {high}"


def written(amount: Amount, spec: str = "") -> str:
    """Write an amount in its unit, or as the format says. Raises KeyError for a format of labels."""
    if spec in _FORMATS:
        return _FORMATS[spec](amount.value, amount.unit)
    if spec in _NAMES:
        raise KeyError(spec)
    return format(amount.value, spec)


def _by_unit(value: float, unit: str) -> str:
    if unit == "fraction":
        return format_percent(value)
    if unit == "B":
        return format_binary(value)
    if unit in PREFIXED:
        return format_si(value, unit)
    return significant(value, strip=True)


def _as_count(value: float, unit: str) -> str:
    return counted(round(value), unit) if unit else spaced(value)


def _in_full(value: float, _unit: str) -> str:
    """Write a number without its unit, and without a prefix."""
    return spaced(value) if value >= _SPACED_FROM else significant(value, strip=True)


_FORMATS: Mapping[str, Callable[[float, str], str]] = {
    "": _by_unit,
    "count": _as_count,
    "significant": lambda value, _: significant(value),
    "si": format_si,
    "spaced": _in_full,
    "waves": lambda value, _: format_waves(value),
}
