"""Consecutive launches to profile by position, and their alignment with the survey.

With `--launch-skip-before-match N --launch-count M` ncu counts every launch of a process, whatever its name. So a whole
step of a program is profiled without names, which releases of ncu compare in different ways.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import NamedTuple

from gpuprof.collect.launches import Seen
from gpuprof.collect.plan import PlannedKernel
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.torch_ranges import operator_with_shapes, own_ranges
from gpuprof.timeline.intervals import TimeInterval

_FEW = 64
"""A program that launches no more is profiled as a whole."""
_ROUNDING = 1e-9
_REPRESENTED = 0.8
"""Of less of the planned kernels' time a window is of little use: what it leaves out takes another run."""
_ALIGNED = 0.9
"""Share of a window that must come as it was surveyed. Autotuners and branches on data change only a few launches."""


@dataclass(frozen=True, slots=True)
class Window:
    """Launches of one process that are all profiled, in their order. Before them come `skip` others."""

    skip: int
    launches: tuple[Seen, ...]

    @property
    def time_s(self) -> float:
        """Return the time of its launches, as far as it is known."""
        return sum(seen.duration_s or 0.0 for seen in self.launches)


class _Piece(NamedTuple):
    """Consecutive launches that may all be profiled. `kernels` has for each the place of its kernel in the plan."""

    launches: Sequence[Seen]
    kernels: Sequence[int | None]


class _Part(NamedTuple):
    """Launches that may become a window, and the time of the kernels that they represent."""

    represented_s: float
    launches: Sequence[Seen]


def choose_window(
    launches: Sequence[Seen],
    kernels: Sequence[PlannedKernel],
    *,
    steps: Sequence[TimeInterval],
    is_barred: Callable[[Seen], bool],
    most: int,
    whole: bool = True,
) -> Window | None:
    """Return the window in which most of the time of the planned kernels is represented; None where none has enough.

    `launches` are those of one process in their order. A window is one of the `steps` (start and end as
    `Seen.launched_s`), or what lies in one between launches that must not be profiled (`is_barred`, or part of a
    graph). Without steps it is the whole program if that launches few kernels. What has more than `most` launches, or
    is not to be `whole`, is cut to a short part that represents as much as it can.
    """
    by_shape = {kernel.shape: place for place, kernel in enumerate(kernels)}
    place_of = {id(seen): by_shape[seen.shape] for seen in launches if seen.shape in by_shape}
    weights = _weights_s(kernels)
    times = [sum(weights[place].values()) for place in range(len(kernels))]
    first = _first_of(launches)
    whole = whole and (bool(steps) or len(launches) <= _FEW)
    best = _Part(0.0, ())
    for stretch in _stretches(launches, steps):
        for piece in _pieces(stretch, place_of, is_barred):
            is_taken_whole = whole and len(piece.launches) <= most
            part = _whole_part(piece, times) if is_taken_whole else _best_part(piece, kernels, weights, first, most)
            if part.represented_s > best.represented_s * (1 + _ROUNDING):
                best = part
    if not best.launches or best.represented_s < _REPRESENTED * sum(times):
        return None
    return Window(best.launches[0].position, tuple(best.launches))


def aligned(came: Sequence[Seen], window: Window) -> list[tuple[int, Seen]] | None:
    """Return the places of the launches that came as in the survey, each with its launch there, in their order.

    None if too few of them align: a launch is only believed to be that of the survey if those around it are, too, and
    if it is not known to be launched elsewhere. If a run was ended early, the first launches of the window came.
    """
    symbols = {launch.symbol for launch in came} & {launch.symbol for launch in window.launches} - {None}
    keys = [_key(launch, symbols) for launch in came]
    lost = len(window.launches) - math.ceil(_ALIGNED * len(window.launches))
    planned = [_key(launch, symbols) for launch in window.launches[: len(came) + lost]]
    matcher = SequenceMatcher(None, keys, planned, autojunk=False)
    places = ((block.a + step, block.b + step) for block in matcher.get_matching_blocks() for step in range(block.size))
    pairs = [(place, window.launches[at]) for place, at in places if _may_be(came[place], window.launches[at])]
    return pairs if len(pairs) >= _ALIGNED * max(1, min(len(came), len(window.launches))) else None


def _key(launch: Seen, symbols: Collection[str | None]) -> Hashable:
    """Return name, grid and block of a launch, written alike whichever tool recorded it.

    The name is the symbol if that is one of `symbols`, which both recordings have: some tools know no other name.
    """
    name = launch.symbol if launch.symbol in symbols else kernel_key(launch.demangled)
    return name, launch.grid, launch.block


def _may_be(came: Seen, surveyed: Seen) -> bool:
    """Tell whether two launches of one kernel may be the same launch.

    They differ if their operators or shapes do; if these are unknown, if each is in a range that the other is not in.
    """
    one, other = operator_with_shapes(came.ranges), operator_with_shapes(surveyed.ranges)
    if one and other:
        return one == other
    around, its_around = ({*own_ranges(seen.ranges)} for seen in (came, surveyed))
    return around <= its_around or its_around <= around


def _stretches(launches: Sequence[Seen], steps: Sequence[TimeInterval]) -> Iterator[Sequence[Seen]]:
    """Yield the launches of each step, those of the first one last, as it may warm up; without steps, all of them."""
    if not steps:
        yield launches
        return
    times = [seen.launched_s or 0.0 for seen in launches]
    for start_s, end_s in (*steps[1:], *steps[:1]):
        yield launches[bisect_left(times, start_s) : bisect_left(times, end_s)]


def _pieces(
    stretch: Sequence[Seen], place_of: Mapping[int, int], is_barred: Callable[[Seen], bool]
) -> Iterator[_Piece]:
    """Yield the stretches without a launch that must not be profiled, and without a gap where others were left out."""
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


def _weights_s(kernels: Sequence[PlannedKernel]) -> list[dict[int, float]]:
    """Return the time of each kernel by the sizes of its launches that are worth it, the first with what is left.

    It is 1 if no time is known, so that each kernel counts alike.
    """
    planned_s = sum(kernel.time_s for kernel in kernels)
    weights = []
    for kernel in kernels:
        _, *others = kernel.sizes_worth_it(planned_s)
        sizes = {place: size.time_s for place, size in enumerate(others, 1)}
        weights.append({0: (kernel.time_s or 1.0) - sum(sizes.values()), **sizes})
    return weights


def _whole_part(piece: _Piece, times: Sequence[float]) -> _Part:
    return _Part(sum(times[place] for place in {*piece.kernels} if place is not None), piece.launches)


def _best_part(
    piece: _Piece,
    kernels: Sequence[PlannedKernel],
    weights: Sequence[Mapping[int, float]],
    first: frozenset[int],
    most: int,
) -> _Part:
    """Return the part of at most so many launches that represents most time, and of such parts the shortest.

    A kernel is represented by a launch that takes a usual time, and each of several sizes of its work by one of its
    own. For each end the part begins as late as it can without losing one of them, or so that it is not too long.
    """
    usual: list[tuple[int, int] | None] = []
    for seen, place in zip(*piece, strict=True):
        size = kernels[place].size_of(seen.duration_s) if place is not None and seen.position not in first else None
        usual.append((place, size) if place is not None and size is not None and size in weights[place] else None)
    counts: Counter[tuple[int, int]] = Counter()
    best, represented_s = _Part(0.0, ()), 0.0
    start = 0
    for end, item in enumerate(usual, 1):
        if item is not None:
            represented_s += 0.0 if counts[item] else weights[item[0]][item[1]]
            counts[item] += 1
        while start < end and ((at := usual[start]) is None or counts[at] > 1 or end - start > most):
            if at is not None:
                counts[at] -= 1
                represented_s -= 0.0 if counts[at] else weights[at[0]][at[1]]
            start += 1
        is_more = represented_s > best.represented_s * (1 + _ROUNDING)
        is_shorter = end - start < len(best.launches) and represented_s > best.represented_s * (1 - _ROUNDING)
        if is_more or is_shorter:
            best = _Part(represented_s, piece.launches[start:end])
    return best
