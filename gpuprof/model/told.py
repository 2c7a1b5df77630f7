"""What NVIDIA's rules tell of units and warps in words: a text export has those where it lacks the metrics behind them.

The wordings are those of ncu 2020 to 2025, and what they imply is in the rules that ncu installs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from gpuprof.model.field_types import ThroughputUnit
from gpuprof.model.recorded import FixedDetails, LaunchDetails, RuleResult

OR_MORE = "or more"
"""What is said of how busy a unit is that is only known from below: by NVIDIA's rule that names the bottleneck, or by
some of the unit's parts."""
OR_LESS = "or less"
"""What is said of how busy a unit is if only an upper bound is known: a figure that counts more than the unit."""
_BUSY, _FULL, _AHEAD = 0.6, 0.8, 0.1
"""Thresholds of the rule SOLBottleneck: a unit below the first is no bottleneck; memory and SM within a tenth are
balanced; from the second on a unit is well used, however busy the other one is."""
_NUMBER = r"(\d+(?:\.\d+)?)"
_LEVEL = r"(?P<level>DRAM|L1|L2)"
_HEAVIER = re.compile(rf"Memory is more heavily utilized than Compute.{{0,120}}?to identify the {_LEVEL} bottleneck")
_WELL_USED = re.compile(
    rf"is utilizing greater than {_NUMBER}% of the available compute or memory performance.{{0,200}}?"
    rf"Start by analyzing {_LEVEL} in the Memory"
)
_ISSUES = re.compile(rf"each scheduler only issues an instruction every {_NUMBER} cycles")
_ACTIVE = re.compile(rf"allocates an average of {_NUMBER} active warps per scheduler")
_ELIGIBLE = re.compile(rf"only an average of {_NUMBER} warps were eligible per cycle")
_LIMITED = re.compile(rf"theoretical occupancy \({_NUMBER}%\) is limited by ((?:(?!theoretical occupancy)[^.])*)")
"""Some releases have no full stop before the next sentence."""
_BOTH = re.compile(
    rf"difference between calculated theoretical \({_NUMBER}%\) and measured achieved occupancy \({_NUMBER}%\)"
)
_LIMITERS = {
    "registers": "required registers",
    "shared memory": "required amount of shared memory",
    "block size": "warps within each block",
    "blocks": "blocks that can fit on the SM",
}


class Bottleneck(NamedTuple):
    """The memory level that a rule calls the bottleneck, and how busy it is at least."""

    unit: ThroughputUnit
    at_least: float


class ToldWarps(Struct, frozen=True):
    """What rules tell of schedulers and occupancy, with the meaning that `Scheduler` and `Occupancy` give it."""

    issue_active: float | None = None
    active_warps: float | None = None
    eligible_warps: float | None = None
    theoretical: float | None = None
    achieved: float | None = None
    limiters: tuple[str, ...] = ()


def messages_of(details: LaunchDetails) -> tuple[RuleResult, ...]:
    """Return what NVIDIA's rules say in a text export; nothing of a report that has the metrics behind it."""
    return details.rule_results() if isinstance(details, FixedDetails) else ()


def bottleneck(messages: Iterable[RuleResult], sm: float | None = None) -> Bottleneck | None:
    """Return the level that the rule on speed of light names; `sm` is that of the SM, which it is a tenth above."""
    for message in messages:
        heavier, well_used = _HEAVIER.search(message.message), _WELL_USED.search(message.message)
        if heavier is not None:
            return Bottleneck(_unit(heavier["level"]), min(1.0, max(_BUSY, (sm or 0.0) + _AHEAD)))
        if well_used is not None:
            return Bottleneck(_unit(well_used["level"]), min(1.0, max(_FULL, sm or 0.0)))
    return None


def _unit(level: str) -> ThroughputUnit:
    return "dram" if level == "DRAM" else "l2" if level == "L2" else "l1"


def told_warps(messages: Iterable[RuleResult]) -> ToldWarps:
    """Return what the rules on issue slots and on occupancy tell."""
    text = " ".join(message.message for message in messages)
    cycles, limited, both = _number(_ISSUES, text), [*_LIMITED.finditer(text)], _BOTH.search(text)
    named = " ".join(match[2] for match in limited)
    theoretical = limited[0][1] if limited else both[1] if both is not None else None
    return ToldWarps(
        issue_active=min(1.0, 1.0 / cycles) if cycles else None,
        active_warps=_number(_ACTIVE, text),
        eligible_warps=_number(_ELIGIBLE, text),
        theoretical=min(1.0, float(theoretical) / 100) if theoretical is not None else None,
        achieved=min(1.0, float(both[2]) / 100) if both is not None else None,
        limiters=tuple(name for name, phrase in _LIMITERS.items() if phrase in named),
    )


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    match = pattern.search(text)
    return float(match[1]) if match is not None else None
