"""Statistics of timed samples: the middle, the undisturbed latency, an interval, when to stop, in which order."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple, TypeVar

Statistic = Literal["median", "mode"]
RESAMPLES, _FEW_RESAMPLES = 2000, 200
"""For an interval that is told, and for whether to go on, which is asked while the GPU waits."""
SweepKey = TypeVar("SweepKey", bound=Hashable)
"""What tells one configuration of a sweep from another."""

_CLUSTER_GAP = 0.01
"""Latencies that differ by more belong to different events: a hit and a miss, a near and a far partition."""
_CLUSTER_SHARE = 0.1
"""A group of fewer samples is a glitch of the clock, not the undisturbed case."""


class ConfidenceInterval(NamedTuple):
    """The bounds between which a value lies with the confidence asked for."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its 95 % interval, the number of samples and the statistic."""

    value: float
    interval: ConfidenceInterval
    samples: int
    statistic: Statistic

    @property
    def half_width(self) -> float:
        """Return half of the interval as a fraction of the value."""
        return half_width(self.value, self.interval)


class StopRule(NamedTuple):
    """Measure at least `least` samples, until the interval's half width is small enough or the time is up."""

    least: int = 11
    half_width: float = 0.005
    longest_s: float = 15.0


def estimate(
    values: Sequence[float], statistic: Statistic = "median", seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Return a statistic of samples with its 95 % bootstrap interval. Raises ValueError without samples."""
    _check(values)
    value = median(values) if statistic == "median" else lowest_mode(values)
    interval = bootstrap(values, statistic, seed=seed, resamples=resamples)
    return Estimate(value, interval, len(values), statistic=statistic)


def bootstrap(
    values: Sequence[float],
    statistic: Statistic = "median",
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> ConfidenceInterval:
    """Return the percentile bootstrap interval: the statistic of samples drawn from the samples, with a fixed seed."""
    _check(values)
    import numpy as np

    drawn = np.random.default_rng(seed).choice(np.asarray(values, dtype=float), size=(resamples, len(values)))
    statistics = (
        np.median(drawn, axis=1) if statistic == "median" else np.array([lowest_mode(row) for row in drawn.tolist()])
    )
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistics, (tail, 1 - tail))
    return ConfidenceInterval(float(low), float(high))


def half_width(value: float, interval: ConfidenceInterval) -> float:
    """Return half of an interval as a fraction of the value; infinite for zero."""
    return (interval.high - interval.low) / 2 / abs(value) if value else math.inf


def stop_reason(
    values: Sequence[float], elapsed_s: float, rule: StopRule | None = None, statistic: Statistic = "median"
) -> Literal["settled", "time is up"] | None:
    """Tell why measuring may stop, or None to go on."""
    rule = rule or StopRule()
    if len(values) >= rule.least and estimate(values, statistic, resamples=_FEW_RESAMPLES).half_width < rule.half_width:
        return "settled"
    return "time is up" if elapsed_s >= rule.longest_s else None


def clusters(values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Return sorted positive values in groups; a new one begins where a value is more than 1 % above the last."""
    _check(values)
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value <= groups[-1][-1] * (1 + _CLUSTER_GAP):
            groups[-1].append(value)
        else:
            groups.append([value])
    return tuple(tuple(group) for group in groups)


def lowest_mode(values: Sequence[float]) -> float:
    """Return the undisturbed latency: the mode of the lowest group that holds a tenth of the samples.

    Interference only adds time, so the lowest frequent value is the one that no other event disturbed.
    """
    enough = max(2.0, _CLUSTER_SHARE * len(values))
    lowest = next((group for group in clusters(values) if len(group) >= enough), None)
    return half_sample_mode(lowest if lowest is not None else sorted(values))


def half_sample_mode(ordered: Sequence[float]) -> float:
    """Return the mode of sorted values: the narrowest half, of it the narrowest half, and so on (Bickel 2002)."""
    while len(ordered) > 3:
        size = math.ceil(len(ordered) / 2)
        widths = [ordered[start + size - 1] - ordered[start] for start in range(len(ordered) - size + 1)]
        start = widths.index(min(widths))
        ordered = ordered[start : start + size]
    if len(ordered) == 3:
        left, middle, right = ordered
        if middle - left == right - middle:
            return middle
        ordered = ordered[:2] if middle - left < right - middle else ordered[1:]
    return sum(ordered) / len(ordered)


def rounds(configurations: Sequence[SweepKey], count: int, seed: int = 0) -> Iterator[tuple[SweepKey, ...]]:
    """Yield the configurations `count` times, each time in another random order, so that drift hits all alike."""
    import numpy as np

    generator = np.random.default_rng(seed)
    for _ in range(count):
        yield tuple(configurations[index] for index in generator.permutation(len(configurations)))


def _check(values: Sequence[float]) -> None:
    if not len(values):
        raise ValueError("no samples")
    if not all(math.isfinite(value) for value in values):
        raise ValueError("a sample is not a finite number")
