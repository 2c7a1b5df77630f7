"""Counters that a report has of a launch beside those that a profile is made of, such as hand-picked ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from gpuprof.hardware.specs import Chain, metrics_of
from gpuprof.model.recorded import MetricTable
from gpuprof.model.session import CollectedCounter

MOST_COLLECTED = 100
"""More counters are of sections of ncu. What of those matters, the other parts of a profile have."""
_COUNTER = re.compile(
    r"(?!device__|launch__|profiler__|numa__|nvlink__|c2clink__|group:|details:|smsp__pcsamp_|gpu__time_duration"
    r"|smsp__maximum_warps_|sm__maximum_warps_|sm__warps_active\.avg\.)[\w.:]{1,200}",
    re.ASCII,
)
"""No fact of the GPU, of the launch or of the profiler, and not its duration or occupancy."""
_OF_STALLS = "issue_stalled_"
_OF_UNITS = ".pct_of_peak_sustained_elapsed"
"""With the speed of light of a unit come those of its parts."""


def other_counters(
    metrics: MetricTable, shown: Iterable[Chain], *, stalls: bool, units: bool
) -> tuple[tuple[CollectedCounter, ...], int]:
    """Return the counters that nothing else in a profile shows, and how many there are; none of more than 100.

    `shown` are the chains of the quantities that are known; `stalls` and `units` say whether stall reasons and speeds
    of light are.
    """
    names = _counters_among(metrics.names(), stalls, units).difference(*map(_names_in, shown))
    if len(names) > MOST_COLLECTED:
        return (), len(names)
    counters = tuple(_with_values(metrics, sorted(names)))
    return counters, len(counters)


def _with_values(metrics: MetricTable, names: Iterable[str]) -> Iterator[CollectedCounter]:
    for name in names:
        value, metric = metrics.number(name), metrics.get(name)
        if value is not None and metric is not None:
            yield CollectedCounter(name, value, metric.unit)


@lru_cache(maxsize=64)
def _counters_among(names: tuple[str, ...], stalls: bool, units: bool) -> frozenset[str]:
    """Return the names of counters; launches of a report mostly have the same ones."""
    return frozenset(
        name
        for name in names
        if _COUNTER.fullmatch(name) and not (stalls and _OF_STALLS in name) and not (units and name.endswith(_OF_UNITS))
    )


@lru_cache(maxsize=1024)
def _names_in(chain: Chain) -> frozenset[str]:
    return frozenset(name for link in chain for name in metrics_of(link))
