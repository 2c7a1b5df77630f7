"""A stretch of consecutive launches to profile by position, and how what came is aligned with the survey.

ncu counts every launch of a process, whatever its name: `--launch-skip-before-match N --launch-count M` takes a whole
step of a program without a word about names, which releases of ncu compare in different ways.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from gpuprof.collect.launches import Seen
from gpuprof.collect.plan import PlannedKernel
from gpuprof.model.intervals import TimeInterval
from gpuprof.model.torch_ranges import operator_with_shapes

_FEW = 64
"""A program that launches no more is profiled as a whole."""
_ALIGNED = 0.9
"""Share of a window that must come as it was surveyed: what an autotuner or a data-dependent branch changes is less."""


@dataclass(frozen=True, slots=True)
class Window:
    """Launches of one process in the order in which it made them, all of which are profiled; `skip` come before."""

    skip: int
    launches: tuple[Seen, ...]


class _Piece(NamedTuple):
    """Consecutive launches without any that must not be profiled, and the places of the planned kernels in it."""

    launches: Sequence[Seen]
    kernels: Sequence[int | None]


def choose_window(
    launches: Sequence[Seen],
    kernels: Sequence[PlannedKernel],
    *,
    steps: Sequence[TimeInterval],
    is_barred: Callable[[Seen], bool],
    most: int,
    whole: bool = True,
) -> Window | None:
    """Return the window in which most of the time of the planned kernels is represented; None where there is none.

    `launches` are those of one process in their order. A window is one of the `steps` (start and end as
    `Seen.launched_s`), or what lies in one between launches that must not be profiled (`is_barred`, or part of a
    graph). Without steps it is the whole program if that launches few kernels. One of more than `most` launches, and
    any that is not to be `whole`, is cut to the shortest stretch that has a usual launch of each kernel.
    """
    by_shape = {kernel.shape: place for place, kernel in enumerate(kernels)}
    place_of = {id(seen): by_shape[seen.shape] for seen in launches if seen.shape in by_shape}
    times = [kernel.time_s or 1.0 for kernel in kernels]
    best: tuple[float, _Piece] | None = None
    for stretch in _stretches(launches, steps):
        for piece in _pieces(stretch, place_of, is_barred):
            represented_s = sum(times[place] for place in {*piece.kernels} if place is not None)
            if represented_s and (best is None or represented_s > best[0] * (1 + 1e-9)):
                best = represented_s, piece
    if best is None:
        return None
    piece = best[1]
    whole = whole and (bool(steps) or len(launches) <= _FEW)
    window = piece.launches if whole and len(piece.launches) <= most else _shortest(piece, kernels, _first_of(launches))
    return Window(window[0].position, tuple(window)) if len(window) <= most else None


def aligned(came: Sequence[Seen], window: Window) -> list[tuple[int, Seen]] | None:
    """Return the places of the launches that came as surveyed, each with that launch of the survey, in their order.

    None where they do not align: a launch is only what it was in the survey if those around it are, too, and if its
    operator is not known to be another one. Of a run that was ended early the first launches of the window came.
    """
    keys = [launch.key for launch in came]
    lost = len(window.launches) - math.ceil(_ALIGNED * len(window.launches))
    planned = [launch.key for launch in window.launches[: len(came) + lost]]
    matcher = SequenceMatcher(None, keys, planned, autojunk=False)
    places = ((block.a + step, block.b + step) for block in matcher.get_matching_blocks() for step in range(block.size))
    pairs = [(place, window.launches[at]) for place, at in places if _may_be(came[place], window.launches[at])]
    return pairs if len(pairs) >= _ALIGNED * max(1, min(len(came), len(window.launches))) else None


def _may_be(came: Seen, surveyed: Seen) -> bool:
    """Tell whether the operators of two launches of one kernel are the same, as far as both are known with shapes."""
    one, other = operator_with_shapes(came.ranges), operator_with_shapes(surveyed.ranges)
    return not one or not other or one == other


def _stretches(launches: Sequence[Seen], steps: Sequence[TimeInterval]) -> Iterator[Sequence[Seen]]:
    """Yield the launches of each step, whose times are known then; without steps, all of them."""
    if not steps:
        yield launches
        return
    times = [seen.launched_s or 0.0 for seen in launches]
    for start_s, end_s in steps:
        yield launches[bisect_left(times, start_s) : bisect_left(times, end_s)]


def _pieces(
    stretch: Sequence[Seen], place_of: Mapping[int, int], is_barred: Callable[[Seen], bool]
) -> Iterator[_Piece]:
    """Yield what lies between launches that must not be profiled, and between launches that are no own work."""
    numbered = enumerate(stretch)

    def part(entry: tuple[int, Seen]) -> tuple[bool, int]:
        number, seen = entry
        return (seen.in_graph or is_barred(seen), seen.position - number)

    for (barred, _), entries in groupby(numbered, key=part):
        if not barred:
            own = [seen for _, seen in entries]
            yield _Piece(own, [place_of.get(id(seen)) for seen in own])


def _first_of(launches: Iterable[Seen]) -> frozenset[int]:
    """Return the places of the first launch of each shape that is launched more than once: those warm something up."""
    first: dict[Hashable, int] = {}
    several = set()
    for seen in launches:
        if seen.shape in first:
            several.add(seen.shape)
        first.setdefault(seen.shape, seen.position)
    return frozenset(position for shape, position in first.items() if shape in several)


def _shortest(piece: _Piece, kernels: Sequence[PlannedKernel], first: frozenset[int]) -> Sequence[Seen]:
    """Return the shortest stretch of a piece that has a usual launch of each planned kernel of it.

    Of one whose times are of several sizes it has one of each that is worth it.
    """
    planned_s = sum(kernel.time_s for kernel in kernels)
    worth_it = [len(kernel.sizes_worth_it(planned_s)) for kernel in kernels]

    def stands_for(seen: Seen, place: int | None) -> tuple[int, int] | None:
        size = kernels[place].size_of(seen.duration_s) if place is not None and seen.position not in first else None
        return (place, size) if place is not None and size is not None and size < worth_it[place] else None

    usual = [stands_for(seen, place) for seen, place in zip(*piece, strict=True)]
    wanted = {place for place in usual if place is not None}
    counts: Counter[tuple[int, int]] = Counter()
    best, start = range(len(usual)), 0
    for end, place in enumerate(usual):
        if place is None:
            continue
        counts[place] += 1
        while len(counts) == len(wanted):
            if end + 1 - start < len(best):
                best = range(start, end + 1)
            dropped = usual[start]
            if dropped is not None:
                counts[dropped] -= 1
                if not counts[dropped]:
                    del counts[dropped]
            start += 1
    return piece.launches[best.start : best.stop]
