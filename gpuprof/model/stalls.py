"""Why warps did not issue: the breakdown by reason, from hardware counters and from program-counter samples.

Counters: warps in each state, per issued instruction, per active warp, per warp or per cycle; all are the same count of
warps over another one, so that a reason's share is its value over the sum of all reasons' values. The total that ncu
prints comes from another pass, and serves only where reasons are missing; without it a few of them have no share.
Samples: how often a sampled warp was in each state, over all samples and over those where the scheduler issued nothing.
Kernel Profiling Guide, "Warp Stall Reasons".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.field_types import StallFamily
from gpuprof.model.quantities import NO_CLOCKS, first_counted
from gpuprof.model.recorded import MetricTable
from gpuprof.model.session import Stall

NOT_STALLED = ("selected", "not_selected")
"""States of a warp that could issue: the first did, the second lost to another warp."""

PER_ISSUE = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_WARPS = "smsp__warps_active.avg.per_cycle_active"
_ISSUED = "scheduler.issue-active"
_COUNTERS: dict[str, str | float] = {
    PER_ISSUE: "smsp__average_warp_latency_per_inst_issued.ratio",
    "smsp__warp_issue_stalled_{}_per_warp_active.pct": 100.0,
    "smsp__average_warp_latency_issue_stalled_{}.ratio": "smsp__average_warp_latency.ratio",
    "smsp__warps_issue_stalled_{}.avg.per_cycle_active": _WARPS,
}
"""In order of preference, with what all reasons add up to; per issued instruction is what ncu's sections collect."""
_SAMPLED: dict[StallFamily, str] = {
    "sampled": "smsp__pcsamp_warps_issue_stalled_{}",
    "sampled-not-issued": "smsp__pcsamp_warps_issue_stalled_{}_not_issued",
}

_ALL_SAMPLES = "smsp__pcsamp_sample_count"
LEAST_SAMPLES = 52
"""From so many samples on, the standard error of a share, at most 0.5 ÷ √n, stays under 7 points."""

_SAMPLED_NAMES = {"no_instruction": "no_instructions"}

_CAPITALS = ("imc", "lg", "mio", "gmma")


def stall_name(reason: str) -> str:
    """Write a stall reason as Nsight Compute names it: "long_scoreboard" → "Long Scoreboard"."""
    return " ".join(part.upper() if part in _CAPITALS else part.capitalize() for part in reason.split("_"))


class StallBreakdown(Struct, frozen=True):
    """The stalls of a launch, and how many samples each family has that has some, but fewer than shares take."""

    stalls: tuple[Stall, ...]
    too_few: Mapping[StallFamily, int]


def stall_breakdown(metrics: MetricTable, arch: ArchSpec, names: frozenset[str] | None = None) -> StallBreakdown:
    """Return the shares of every family that the report has, largest first within a family.

    A family sums to 1; less, where the report lacks a counter of some reasons and tells the whole. A family of fewer
    than LEAST_SAMPLES samples has none. `names` are those of all metrics of the report, where it lists them.
    """
    stalls = list(_counted(metrics, arch, names))
    too_few: dict[StallFamily, int] = {}
    for family, pattern in _SAMPLED.items():
        values = _values(metrics, arch, pattern, names)
        every = metrics.number(_ALL_SAMPLES) if family == "sampled" else None
        if every is None and not _is_whole(values, arch):
            continue
        total = max(sum(values.values()), every or 0.0)
        if total >= LEAST_SAMPLES:
            stalls += _shares(values, total, family)
        elif total > 0:
            too_few[family] = round(total)
    return StallBreakdown(tuple(stalls), too_few)


def _counted(metrics: MetricTable, arch: ArchSpec, names: frozenset[str] | None) -> tuple[Stall, ...]:
    """Return the shares of the counters: by the pattern of names that most reasons are there in.

    Some reasons alone are shares of nothing where their whole is not told: then a pattern counts that has it. Sets
    that come with the state `selected` are those of ncu's section, which has all reasons.
    """
    patterns = [pattern for pattern in _COUNTERS if _metric_names(arch.stalls, pattern, names)]
    tables = [(pattern, _values(metrics, arch, pattern, names), _whole(pattern, metrics, arch)) for pattern in patterns]
    usable = [table for table in tables if table[2] is not None or _is_whole(table[1], arch)]
    if not usable:
        return ()
    pattern, values, told = max(usable, key=lambda table: len(table[1]))
    whole = sum(values.values())
    if len(values) < len(arch.stalls):
        whole = max(whole, told or 0.0)
    return _shares(values, whole, "counter", cycles=pattern == PER_ISSUE)


def _is_whole(values: Mapping[str, float], arch: ArchSpec) -> bool:
    """Return whether these are (nearly) all states: with `selected`, as ncu's sets have it, or most reasons."""
    return "selected" in values or 2 * len(values) > len(arch.stalls)


def _whole(pattern: str, metrics: MetricTable, arch: ArchSpec) -> float | None:
    """Return the sum over all reasons, without the values of the reasons; None if it is not known."""
    whole = _COUNTERS[pattern]
    if not isinstance(whole, str):
        return whole
    known = metrics.number(whole)
    if known is None and pattern == PER_ISSUE:
        warps = metrics.number(_WARPS)
        issued = first_counted(arch.counters.get(_ISSUED, ()), _ISSUED, metrics, NO_CLOCKS)
        if warps is not None and issued is not None and issued.basis == "counted" and issued.value:
            return warps / issued.value
    return known


def _values(metrics: MetricTable, arch: ArchSpec, pattern: str, names: frozenset[str] | None) -> dict[str, float]:
    number = metrics.number
    return {
        reason: value
        for reason, name in _metric_names(arch.stalls, pattern, names)
        if (value := number(name)) is not None
    }


@lru_cache(maxsize=64)
def _metric_names(
    reasons: tuple[str, ...], pattern: str, recorded: frozenset[str] | None
) -> tuple[tuple[str, str], ...]:
    """Return the metric of each reason, without those that the report does not have."""
    renamed = _SAMPLED_NAMES if "pcsamp" in pattern else {}
    named = ((reason, pattern.format(renamed.get(reason, reason))) for reason in reasons)
    return tuple((reason, name) for reason, name in named if recorded is None or name in recorded)


def _shares(
    values: Mapping[str, float], total: float, family: StallFamily, *, cycles: bool = False
) -> tuple[Stall, ...]:
    if total <= 0:
        return ()
    stalls = [
        Stall(reason, value / total, value if cycles else None, family=family) for reason, value in values.items()
    ]
    return tuple(sorted(stalls, key=lambda stall: (-stall.share, stall.reason)))
