"""Why warps did not issue: the breakdown by reason, from hardware counters and from program-counter samples.

Counters: warps in each state per issued instruction; a reason's share is its ratio over the sum of all reasons' ratios,
because the total that ncu prints comes from another pass. Samples: how often a sampled warp was in each state, over all
samples and over those where the scheduler issued nothing. Kernel Profiling Guide, "Warp Stall Reasons".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpuprof.hardware.specs import ArchSpec
from gpuprof.model.field_types import StallFamily
from gpuprof.model.recorded import MetricTable
from gpuprof.model.session import Stall

NOT_STALLED = ("selected", "not_selected")
"""States of a warp that could issue: the first did, the second lost to another warp."""

_SAMPLED_NAMES = {"no_instruction": "no_instructions"}


def stall_breakdown(metrics: MetricTable, arch: ArchSpec) -> tuple[Stall, ...]:
    """Return the shares of every family that the report has, largest first within a family; each family sums to 1."""
    counters = _values(metrics, arch, "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio")
    samples = _values(metrics, arch, "smsp__pcsamp_warps_issue_stalled_{}")
    idle = _values(metrics, arch, "smsp__pcsamp_warps_issue_stalled_{}_not_issued")
    return (*_shares(counters, "counter"), *_shares(samples, "sampled"), *_shares(idle, "sampled-not-issued"))


def _values(metrics: MetricTable, arch: ArchSpec, pattern: str) -> dict[str, float]:
    values = {reason: metrics.number(name) for reason, name in _metric_names(arch.stalls, pattern)}
    return {reason: value for reason, value in values.items() if value is not None}


@lru_cache(maxsize=64)
def _metric_names(reasons: tuple[str, ...], pattern: str) -> tuple[tuple[str, str], ...]:
    renamed = _SAMPLED_NAMES if "pcsamp" in pattern else {}
    return tuple((reason, pattern.format(renamed.get(reason, reason))) for reason in reasons)


def _shares(values: Mapping[str, float], family: StallFamily) -> tuple[Stall, ...]:
    total = sum(values.values())
    if total <= 0:
        return ()
    cycles = values if family == "counter" else {}
    stalls = [Stall(reason, value / total, cycles.get(reason), family=family) for reason, value in values.items()]
    return tuple(sorted(stalls, key=lambda stall: (-stall.share, stall.reason)))
