"""Intervals of time and what they have in common: how long something went on, however often it overlapped itself."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import inf

TimeInterval = tuple[float, float]


def merged(intervals: Iterable[TimeInterval]) -> list[TimeInterval]:
    """Return the union of intervals as intervals that do not touch, in order."""
    union: list[TimeInterval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def common(first: Iterable[TimeInterval], second: Sequence[TimeInterval]) -> float:
    """Return the length of what two unions of intervals have in common; the first is better the shorter one."""
    return float(length(part for start_s, end_s in first for part in between(second, start_s, end_s)))


def is_within(moment: float, union: Sequence[TimeInterval]) -> bool:
    """Return whether a moment is in a union of intervals, its borders included."""
    at = bisect_right(union, (moment, inf)) - 1
    return at >= 0 and moment <= union[at][1]


def between(union: Sequence[TimeInterval], start_s: float, end_s: float) -> list[TimeInterval]:
    """Return what of a union of intervals lies between two moments."""
    first = max(0, bisect_right(union, (start_s, inf)) - 1)
    near = union[first : bisect_right(union, (end_s, inf))]
    return [(max(start, start_s), min(end, end_s)) for start, end in near if end >= start_s]


def holes(union: Sequence[TimeInterval]) -> list[TimeInterval]:
    """Return the times between the intervals of a union."""
    return [(end, start) for (_, end), (start, _) in pairwise(union)]


def outside(first: Sequence[TimeInterval], second: Sequence[TimeInterval]) -> float:
    """Return the length of what of a union of intervals lies outside of another one."""
    return max(0.0, length(first) - common(first, second))


def binned(intervals: Iterable[TimeInterval], start_s: float, bin_s: float, bins: int) -> list[float]:
    """Return the time that intervals take of each of some bins of equal length; what overlaps counts twice."""
    taken = [0.0] * bins
    for start, end in intervals:
        first = min(bins - 1, max(0, int((start - start_s) / bin_s)))
        last = min(bins - 1, max(first, int((end - start_s) / bin_s)))
        for place in range(first, last + 1):
            begin = start if place == first else start_s + place * bin_s
            until = end if place == last else start_s + (place + 1) * bin_s
            taken[place] += until - begin
    return taken


def length(union: Iterable[TimeInterval]) -> float:
    """Return the length of a union of intervals."""
    return sum(end - start for start, end in union)
