"""The counter sets that `--set` names, as data: which quantities each collects, and what beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpuprof.collect.choices import CounterSetName

Group = Literal["occupancy", "stalls", "rules", "samples"]
EVIDENCE: tuple[Group, ...] = ("occupancy", "stalls", "rules", "samples")
"""What findings rest on beside the quantities of the model."""
_ALL = ("",)
_ROOFLINE = ("duration", "sm-clock", "dram-clock", "l2-clock", "work.", "traffic.", "throughput.", "peak.")
_STOCK_PASSES = (34, 74)
"""Passes of ncu's full set in 16 public reports: A40 34, H800 42, A100 47 to 49, V100 74."""


@dataclass(frozen=True, slots=True)
class CounterSet:
    """What `ncu` is told to collect: metrics, one of its own sets beside them, and whether code comes along.

    `quantities` are the beginnings of the names of the model's quantities. `passes` are the least and most that a
    launch takes, where the number of metrics does not tell it.
    """

    name: CounterSetName
    quantities: tuple[str, ...] = _ALL
    groups: tuple[Group, ...] = EVIDENCE
    sections: tuple[str, ...] = ()
    stock_set: str | None = None
    source: bool = True
    passes: tuple[int, int] | None = None


_ROWS = (
    # Rooflines of all paths at three levels, and speed of light.
    CounterSet("roofline", quantities=_ROOFLINE, groups=(), source=False),
    # The same with occupancy, stalls by line and the evidence of every rule.
    CounterSet("diagnose"),
    # The same with samples and counters of every source line, and all that ncu's full set has.
    CounterSet("full", sections=("SourceCounters",), stock_set="full", passes=_STOCK_PASSES),
)
SETS: dict[str, CounterSet] = {row.name: row for row in _ROWS}
DEFAULT: CounterSetName = "diagnose"
