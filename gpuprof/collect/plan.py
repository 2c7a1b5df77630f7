"""Which launches to profile: the kernels that take most of the time, each at a launch that takes its usual time.

Launches are chosen by their invocation number, which ncu counts for each kernel name, grid, block and shared size. One
run of ncu takes all chosen kernels at the same few numbers, so few distinct numbers mean few surplus launches.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from gpuprof.collect.choices import KernelBase
from gpuprof.collect.command import Filters
from gpuprof.collect.launches import LaunchShape, Seen
from gpuprof.collect.name_filter import NameFilter, by_name, by_symbol
from gpuprof.model.groups import USUAL, sizes
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.kernel_match import KernelPattern
from gpuprof.model.labels import label_kernels, short_name
from gpuprof.model.recorded import Dim3
from gpuprof.model.torch_ranges import may_be_same_operator
from gpuprof.timeline.trace import is_communication

COVERAGE = 0.95
_WORTH_A_SIZE = 0.05
"""Launches of a size that takes less of the time of all planned kernels are not profiled for themselves."""
_MOST_CHOICES = 128
"""So many launches are candidates for a sample: the earliest, which most kernels have."""
_WORTH_A_RUN = 0.01
_WORTH_ASKING = 0.01
"""Whatever is wrong with a kernel that takes a smaller share, less than that can be gained."""
_LONGEST = 8
"""So many are asked about even where none takes that share."""
_FIRST = (1, 2)
"""The second launch is warm. A kernel that is launched once has only the first."""


class UsualLaunches(NamedTuple):
    """The numbers at which a series takes a usual time, the time of all its launches of that size, and their median."""

    numbers: tuple[int, ...]
    time_s: float
    median_s: float | None


@dataclass(frozen=True, slots=True)
class PlannedKernel:
    """A kernel in one launch shape: its launches and time in the survey, and which invocations are profiled.

    `counts` are the launches of each of its series, which ncu counts apart, the longest series first, and `usual` the
    launches of that series that take their usual time; of work of several sizes those of each, with most time first.
    """

    shape: LaunchShape
    symbol: str | None
    demangled: str
    durations: tuple[float | None, ...]
    counts: tuple[int, ...]
    usual: tuple[UsualLaunches, ...]
    invocations: tuple[int, ...]

    @property
    def launches(self) -> int:
        """Return how often the survey saw it."""
        return len(self.durations)

    @property
    def is_mangled(self) -> bool:
        """Tell whether its name is a mangled one; ncu 2025.3 was seen to miss numbers of others."""
        return self.symbol != self.demangled

    @property
    def time_s(self) -> float:
        """Return the time of all its launches whose time is known."""
        return sum(duration for duration in self.durations if duration is not None)

    def size_of(self, duration_s: float | None) -> int | None:
        """Return the place of the size whose usual time a launch of that duration takes; None if it is of none.

        If no time is known, there is one size, and each launch is of it.
        """
        for place, size in enumerate(self.usual):
            if size.median_s is None or (duration_s is not None and _is_about(duration_s, size.median_s)):
                return place
        return None

    def sizes_worth_it(self, time_s: float) -> tuple[UsualLaunches, ...]:
        """Return the sizes to profile: that with most time, and others that take enough of `time_s`.

        That is the time of all planned kernels. By number, one more size is one more launch of each of them.
        """
        first, *others = self.usual
        return (first, *(size for size in others if size.time_s >= _WORTH_A_SIZE * time_s))


@dataclass(frozen=True, slots=True)
class ProfilePlan:
    """The kernels to profile, longest first, and those left out because they wait for a peer.

    `others` are those of the survey that are in neither, `excluded` those of the survey that the user did not want,
    which are never in `kernels`; `time_s` is the time of all its launches, `profiled` how many launches one run of ncu
    takes.
    """

    kernels: tuple[PlannedKernel, ...]
    peers: tuple[PlannedKernel, ...]
    others: tuple[PlannedKernel, ...]
    time_s: float
    seen: int
    profiled: int
    excluded: tuple[PlannedKernel, ...] = ()

    @property
    def left_out(self) -> tuple[PlannedKernel, ...]:
        """Return the kernels that are left out for their peers alone."""
        excluded = {kernel.shape for kernel in self.excluded}
        return tuple(kernel for kernel in self.peers if kernel.shape not in excluded)

    @property
    def coverage(self) -> float | None:
        """Return the planned kernels' share of the time; None where the survey has no times."""
        return sum(kernel.time_s for kernel in self.kernels) / self.time_s if self.time_s else None

    @property
    def worth_asking(self) -> tuple[PlannedKernel, ...]:
        """Return the kernels of which more than their limits is worth knowing: the longest, and what takes a share."""
        least_s = _WORTH_ASKING * self.time_s
        return tuple(
            kernel for place, kernel in enumerate(self.kernels) if place < _LONGEST or kernel.time_s >= least_s
        )

    def is_worth_a_run(self, lost: Sequence[PlannedKernel]) -> bool:
        """Tell whether kernels take enough of the time to run the program for them once more."""
        return not self.time_s or sum(kernel.time_s for kernel in lost) >= _WORTH_A_RUN * self.time_s

    def only(self, kernels: Sequence[PlannedKernel], at_first: Collection[PlannedKernel] = ()) -> ProfilePlan:
        """Return the plan for some kernels of this one; those of `at_first` at their first launches, which all have."""
        chosen = tuple(replace(kernel, invocations=_FIRST) if kernel in at_first else kernel for kernel in kernels)
        others = (*self.others, *(kernel for kernel in self.kernels if kernel not in kernels))
        return replace(self, kernels=chosen, others=others, profiled=_profiled(chosen, others, self.peers))

    def filters(self) -> Filters:
        """Return what makes ncu profile the planned launches, and few others."""
        names = _names_of(self.kernels, self.others, self.peers)
        numbers = sorted({number for kernel in self.kernels for number in kernel.invocations})
        either = "|".join(map(str, numbers))
        return Filters(kernel_id=f"::regex:{names.expression}:^({either})$", name_base=names.base)


def make_plan(
    launches: Sequence[Seen],
    *,
    coverage: float = COVERAGE,
    samples: int = 1,
    pattern: re.Pattern[str] | None = None,
    base: KernelBase = "demangled",
    exclude: Sequence[KernelPattern] = (),
    peers: bool = False,
) -> ProfilePlan:
    """Plan the kernels that cover a share of the time, each at `samples` launches that take their usual time.

    `pattern` limits it to kernels whose name has it, the demangled one or the function's own, and `exclude` to those of
    which neither label nor demangled name has another one; `peers` takes kernels that wait for another rank too.
    """
    shapes = _shapes(launches)
    excluded = _excluded(shapes, exclude)
    name = short_name if base == "function" else str
    asked = [kernel for kernel in shapes if pattern is None or pattern.search(name(kernel.demangled))]
    # Kernels that wait for another rank never end when they are profiled alone.
    waiting = [] if peers else [kernel for kernel in asked if is_communication(kernel.demangled)]
    unwanted = {kernel.shape for kernel in (*waiting, *excluded)}
    chosen = _covering([kernel for kernel in asked if kernel.shape not in unwanted], coverage)
    chosen_s = sum(kernel.time_s for kernel in chosen)
    usual = [[size.numbers for size in kernel.sizes_worth_it(chosen_s)] for kernel in chosen]
    numbers = _common_numbers(usual, samples)
    kernels = tuple(replace(kernel, invocations=taken) for kernel, taken in zip(chosen, numbers, strict=True))
    time_s = sum(launch.duration_s or 0.0 for launch in launches)
    planned = {kernel.shape for kernel in (*kernels, *waiting)}
    others = tuple(kernel for kernel in shapes if kernel.shape not in planned)
    profiled = _profiled(kernels, others, waiting)
    return ProfilePlan(
        kernels, tuple(waiting), others, time_s=time_s, seen=len(launches), profiled=profiled, excluded=excluded
    )


def _excluded(kernels: Sequence[PlannedKernel], patterns: Sequence[KernelPattern]) -> tuple[PlannedKernel, ...]:
    if not patterns:
        return ()
    labels = label_kernels([kernel.demangled for kernel in kernels])
    return tuple(
        kernel
        for kernel, label in zip(kernels, labels, strict=True)
        if any(pattern.fits(label, kernel.demangled) for pattern in patterns)
    )


class _Counted(NamedTuple):
    """A launch with its number in its series, and in all series of its name, grid and block together, from 1."""

    seen: Seen
    number: int
    together: int


def _shapes(launches: Iterable[Seen]) -> list[PlannedKernel]:
    """Return the kernels by shape, those with most time first; without times in the order of their first launch."""
    by_shape: dict[LaunchShape, list[_Counted]] = {}
    series: Counter[tuple[Hashable, Hashable]] = Counter()
    together: Counter[Hashable] = Counter()
    for launch in launches:
        shape = launch.shape
        one = (shape.counted, launch.counted_by)
        series[one] += 1
        together[shape.counted] += 1
        by_shape.setdefault(shape, []).append(_Counted(launch, series[one], together[shape.counted]))
    counts: dict[Hashable, list[int]] = {}
    for (counted, _), count in series.items():
        counts.setdefault(counted, []).append(count)
    kernels = [_kernel(shape, group, counts[shape.counted]) for shape, group in by_shape.items()]
    return sorted(kernels, key=lambda kernel: -kernel.time_s)


def _kernel(shape: LaunchShape, launches: Sequence[_Counted], counts: Sequence[int]) -> PlannedKernel:
    longest = _longest_series(launches)
    return PlannedKernel(
        shape,
        launches[0].seen.symbol,
        launches[0].seen.demangled,
        durations=tuple(launch.seen.duration_s for launch in launches),
        counts=tuple(sorted(counts, reverse=True)),
        usual=_usual_of_both(longest, launches, has_shapes="[" in shape.operator),
        invocations=(),
    )


def _longest_series(launches: Sequence[_Counted]) -> list[_Counted]:
    """Return the launches of the series that takes most time."""
    series: dict[Hashable, list[_Counted]] = {}
    for launch in launches:
        series.setdefault(launch.seen.counted_by, []).append(launch)
    return max(series.values(), key=lambda own: (sum(launch.seen.duration_s or 0.0 for launch in own), len(own)))


def _usual_of_both(
    series: Sequence[_Counted], every: Sequence[_Counted], *, has_shapes: bool
) -> tuple[UsualLaunches, ...]:
    """Return the numbers at which a series takes its usual time, if there are any also where all series are one.

    ncu 2025.3 counts the launches of all streams together, where ncu 2024.1 counts those of each. Launches of an
    operator with known shapes (`has_shapes`) are of one size.
    """
    usual = _usual([(launch.number, launch.seen.duration_s) for launch in series], has_shapes=has_shapes)
    if len(every) == len(series):
        return usual
    every_usual = _usual([(launch.together, launch.seen.duration_s) for launch in every], has_shapes=has_shapes)
    together = {number for size in every_usual for number in size.numbers}
    both = (tuple(number for number in size.numbers if number in together) for size in usual)
    return tuple(size._replace(numbers=numbers or size.numbers) for size, numbers in zip(usual, both, strict=True))


def _usual(times: Sequence[tuple[int, float | None]], *, has_shapes: bool) -> tuple[UsualLaunches, ...]:
    """Return the launches, by their numbers, that take about a usual time; never the first of several.

    That is the median, or that of each size where times are of several. Where no time is known all but the first are
    usual. There is always one: that nearest to the median.
    """
    later = times[1:] or times
    known = sorted((time, number) for number, time in later if time is not None)
    if not known:
        return (UsualLaunches(tuple(number for number, _ in later), 0.0, None),)
    groups = [known] if has_shapes else sizes(known)
    usual = [_usual_of(size) for size in groups]
    return tuple(sorted(usual, key=lambda size: -size.time_s))


def _usual_of(ordered: Sequence[tuple[float, int]]) -> UsualLaunches:
    middle, _ = ordered[(len(ordered) - 1) // 2]  # of an even count the lower one, which is a launch's own time
    numbers = tuple(sorted(number for time, number in ordered if _is_about(time, middle)))
    return UsualLaunches(numbers, sum(time for time, _ in ordered), middle)


def _is_about(time_s: float, median_s: float) -> bool:
    return abs(time_s - median_s) <= USUAL * median_s


def _covering(kernels: Sequence[PlannedKernel], coverage: float) -> list[PlannedKernel]:
    """Return the first kernels that reach the share of the time of all; all of them where no time is known."""
    total = sum(kernel.time_s for kernel in kernels)
    if not total:
        return list(kernels)
    taken, covered = [], 0.0
    for kernel in kernels:
        if covered >= coverage * total * (1 - 1e-9):
            break
        taken.append(kernel)
        covered += kernel.time_s
    return taken


def _common_numbers(usual: Sequence[Sequence[tuple[int, ...]]], samples: int) -> list[tuple[int, ...]]:
    """Choose the invocations of each kernel out of its usual ones, with few distinct numbers over all.

    Each sample of each size has a part of a kernel's usual numbers to itself. The number that is in most parts is taken
    first, and so on until each part has one; of equals the smallest, which comes even where the program ends sooner.
    """
    parts = [(kernel, part) for kernel, own in enumerate(usual) for numbers in own for part in _split(numbers, samples)]
    without: dict[int, set[int]] = {}
    for place, (_, part) in enumerate(parts):
        for number in part:
            without.setdefault(number, set()).add(place)
    chosen: list[set[int]] = [set() for _ in usual]
    best = [(-len(places), number) for number, places in without.items()]
    heapify(best)
    while best:
        votes, number = heappop(best)
        places = without[number]
        if len(places) < -votes:  # others were taken since: it is compared again with what it still serves
            if places:
                heappush(best, (-len(places), number))
            continue
        for place in tuple(places):
            kernel, part = parts[place]
            chosen[kernel].add(number)
            for other in part:
                without[other].discard(place)
    return [tuple(sorted(numbers)) for numbers in chosen]


def _split(numbers: tuple[int, ...], samples: int) -> Iterator[tuple[int, ...]]:
    """Yield numbers in as many parts as samples, or as there are numbers, in order; of each part the first ones."""
    count = min(samples, len(numbers))
    for part in range(count):
        yield numbers[len(numbers) * part // count : len(numbers) * (part + 1) // count][:_MOST_CHOICES]


def _names_of(
    kernels: Iterable[PlannedKernel], others: Iterable[PlannedKernel], peers: Iterable[PlannedKernel]
) -> NameFilter:
    """Return the filter for kernels by their symbols, or by their demangled names if one has no symbol."""
    symbols = {kernel.symbol for kernel in kernels}
    if None not in symbols:
        return by_symbol(*(_symbols(group) for group in (kernels, others, peers)))
    return by_name(*({kernel.demangled for kernel in group} for group in (kernels, others, peers)))


def _symbols(kernels: Iterable[PlannedKernel]) -> set[str]:
    return {kernel.symbol for kernel in kernels if kernel.symbol is not None}


def _profiled(kernels: Sequence[PlannedKernel], others: Sequence[PlannedKernel], peers: Sequence[PlannedKernel]) -> int:
    """Count the launches that the filters let through: all shapes of a planned name, at every planned number."""
    names = _names_of(kernels, others, peers)
    pattern = re.compile(names.expression)
    numbers = {number for kernel in kernels for number in kernel.invocations}
    counted = {
        kernel.shape.counted: kernel.counts
        for kernel in (*kernels, *others)
        if pattern.search((kernel.symbol if names.base == "mangled" else None) or kernel.demangled)
    }
    return sum(sum(number <= count for number in numbers) for counts in counted.values() for count in counts)


def not_seen_again(kernels: Iterable[PlannedKernel], launches: Iterable[Seen]) -> tuple[PlannedKernel, ...]:
    """Return the kernels that a profile does not have, because the program launched others this time.

    If both know the operator it must be the same: one function with one grid does other work for another operator.
    """
    by_name: dict[Hashable, set[str]] = {}
    for launch in launches:
        for name in _names(launch.symbol, launch.demangled, launch.grid, launch.block):
            by_name.setdefault(name, set()).add(launch.operator)
    return tuple(kernel for kernel in kernels if not _is_among(kernel, by_name))


def _is_among(kernel: PlannedKernel, by_name: Mapping[Hashable, set[str]]) -> bool:
    names = _names(kernel.symbol, kernel.demangled, kernel.shape.grid, kernel.shape.block)
    operators = set().union(*(by_name.get(name, ()) for name in names))
    return any(may_be_same_operator(kernel.shape.operator, operator) for operator in operators)


def _names(symbol: str | None, demangled: str, grid: Dim3, block: Dim3) -> tuple[Hashable, ...]:
    """Return the names of a kernel that tools may use, each with grid and block: its symbol and its demangled name."""
    return tuple((name, grid, block) for name in (symbol, kernel_key(demangled)) if name is not None)
