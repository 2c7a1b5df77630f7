"""Parse names of architectures, and decide on which architectures code runs or can be compiled."""

from __future__ import annotations

import re
from typing import NamedTuple

DEFAULT_TARGET = "sm_90"
"""The default target of sources: Hopper, the newest data-center GPU that most users can have."""

_WRITTEN = re.compile(
    r"(?:(?:sm|compute)_?)?(?:(?P<number>[1-9]\d{1,2})|(?P<major>\d{1,2})\.(?P<minor>\d))(?P<kind>[af]?)"
)


class _Target(NamedTuple):
    """A target in parts: 9, 0, "a" of "sm_90a"."""

    major: int
    minor: int
    kind: str


def target_named(text: str) -> str | None:
    """Return a target that was written as "90a", "9.0" or "sm_90" in the form "sm_90"; None for other texts."""
    parts = _parts(text)
    return f"sm_{parts.major}{parts.minor}{parts.kind}" if parts is not None else None


def runs_on(code: str, target: str) -> bool:
    """Return whether machine code for one target runs on the chip of another (CUDA C++ Programming Guide, 5.1).

    It runs on chips of the same major and no lower minor number; that with an `a` only on its own.
    """
    built = _parts(code)
    chip = _parts(target)
    if built is None or chip is None or built.major != chip.major:
        return False
    return built.minor == chip.minor if built.kind == "a" else built.minor <= chip.minor


def compiles_for(ptx: str, target: str) -> bool:
    """Return whether PTX for one target ("compute_80") can be compiled for another.

    It can for no lower ones; that with an `a` only for its own, that with an `f` within its family.
    """
    written = _parts(ptx)
    chip = _parts(target)
    if written is None or chip is None:
        return False
    if written.kind == "a":
        return written[:2] == chip[:2]
    if written.kind == "f":
        return written.major == chip.major and written.minor <= chip.minor
    return written[:2] <= chip[:2]


def _parts(text: str) -> _Target | None:
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        return None
    major, minor = (match["number"][:-1], match["number"][-1]) if match["number"] else (match["major"], match["minor"])
    return _Target(int(major), int(minor), match["kind"])
