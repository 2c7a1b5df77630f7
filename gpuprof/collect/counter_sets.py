"""The counter sets that `--set` names, as data: which quantities each collects, and what beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gpuprof.collect.choices import CounterSetName

Group = Literal["occupancy", "stalls", "rules", "samples"]
EVIDENCE: tuple[Group, ...] = ("occupancy", "stalls", "rules", "samples")
"""What findings rest on beside the quantities of the model."""
_ALL = ("",)
_ROOFLINE = ("duration", "sm-clock", "gpc-clock", "dram-clock", "l2-clock", "work.", "traffic.", "throughput.", "peak.")
VOLTA, HOPPER, OTHERS = "sm_70", "sm_90", "others"
Passes = Mapping[str, tuple[int, int]]
"""The least and most passes of a launch, on Volta, on Hopper, and on all else that came after Volta."""
_OPCODES_AND_MORE = 3
"""Passes beside those that CUPTI's scheduler tells for counters (`python -m benchmarks.passes`, CUPTI 12.9): ncu 2025.3
took two more on an H100 for the roofline set, 18 for 16, before it had opcodes, and three for the diagnose set, 27 for
24, which had them."""


@dataclass(frozen=True, slots=True)
class CounterSet:
    """What `ncu` is told to collect: metrics, one of its own sets beside them, and whether code comes along.

    `quantities` are the beginnings of the names of the model's quantities.
    """

    name: CounterSetName
    passes: Passes
    quantities: tuple[str, ...] = _ALL
    groups: tuple[Group, ...] = EVIDENCE
    sections: tuple[str, ...] = ()
    stock_set: str | None = None
    source: bool = True


def _scheduled(volta: int, hopper: int, others: tuple[int, int]) -> Passes:
    """Return the passes of a set whose counters CUPTI's scheduler puts into so many."""
    families = {VOLTA: (volta, volta), HOPPER: (hopper, hopper), OTHERS: others}
    return {family: (low + _OPCODES_AND_MORE, high + _OPCODES_AND_MORE) for family, (low, high) in families.items()}


_ROWS = (
    # Rooflines of all paths at three levels, and speed of light.
    CounterSet("roofline", _scheduled(20, 15, (10, 13)), quantities=_ROOFLINE, groups=(), source=False),
    # The same with occupancy, stalls by line and the evidence of every rule.
    CounterSet("diagnose", _scheduled(31, 22, (15, 17))),
    # The same with samples and counters of every source line, and all that ncu's full set has.
    # Its passes in 16 public reports: A40 34, H800 42, A100 47 to 49, V100 74; on an H100 38 to 41.
    CounterSet(
        "full", {VOLTA: (74, 74), HOPPER: (38, 42), OTHERS: (34, 49)}, sections=("SourceCounters",), stock_set="full"
    ),
)
SETS: dict[str, CounterSet] = {row.name: row for row in _ROWS}
TIMES: CounterSetName = "times"
"""No counters: kernels are only timed, by a survey."""
SET_NAMES = (TIMES, *SETS)
DEFAULT: CounterSetName = "diagnose"
