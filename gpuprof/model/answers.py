"""Puts the counters of two runs of a program together, launch by launch: its limits, and the answers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, structs

from gpuprof.model.groups import times_apart
from gpuprof.model.kernel_key import kernel_key
from gpuprof.model.recorded import Launch, Metric, MetricTable, Report
from gpuprof.model.torch_ranges import innermost_operator, operator_with_shapes

_TIME = "gpu__time_duration.sum"
_OTHER_WORK = 1.3
"""If no shapes are known, two launches are the same work if neither takes more than so many times as long."""


class _Together(Struct, frozen=True):
    """The metrics of two launches of the same work. A metric that both have is that of the first."""

    first: MetricTable
    second: MetricTable

    def get(self, name: str) -> Metric | None:
        """Return the metric of that exact name."""
        return self._of(name).get(name)

    def number(self, name: str) -> float | None:
        """Return its value where it is a number."""
        return self._of(name).number(name)

    def digits(self, name: str) -> int | None:
        """Return how many significant digits of it a printed source kept."""
        return self._of(name).digits(name)

    def has(self, name: str) -> bool:
        """Return whether there is an entry of that name."""
        return self.first.has(name) or self.second.has(name)

    def is_strange(self, name: str) -> bool:
        """Return whether the value of that name has an unknown form."""
        return self._of(name).is_strange(name)

    def names(self) -> tuple[str, ...]:
        """Return the names of all recorded metrics, sorted."""
        return tuple(sorted({*self.first.names(), *self.second.names()}))

    def instances(self, name: str) -> Mapping[str | int, float] | None:
        """Return a metric's values by instance."""
        return self._of(name).instances(name)

    def _of(self, name: str) -> MetricTable:
        return self.first if self.first.has(name) else self.second


def with_answers(limits: Sequence[Report], answers: Sequence[Report]) -> tuple[Report, ...]:
    """Return the reports of a first run. Their launches also have the counters of the same work in a second run.

    The same work has the same operator, shapes, function, grid and block. If no shapes are known, it must take about as
    long. Launches of the second run whose work is in none of the first follow in reports of their own.
    """
    by_work, of_first = _by_work(answers), _by_work(limits)
    used: set[int] = set()

    def answered(launch: Launch, rank: int | None) -> Launch:
        other = _counterpart(launch, rank, by_work)
        if other is None:
            return launch
        used.add(id(other))
        return structs.replace(launch, metrics=_Together(launch.metrics, other.metrics), details=other.details)

    def is_other_work(launch: Launch, rank: int | None) -> bool:
        same = _counterpart(launch, rank, of_first)
        shapes = operator_with_shapes(launch.ranges)
        return id(launch) not in used and (same is None or operator_with_shapes(same.ranges) != shapes)

    names = _all_names((*limits, *answers))
    first = tuple(
        structs.replace(report, launches=tuple(answered(launch, report.rank) for launch in report), names=names)
        for report in limits
    )
    rest = tuple(
        structs.replace(report, launches=tuple(launch for launch in report if is_other_work(launch, report.rank)))
        for report in answers
    )
    return (*first, *rest)


def _by_work(reports: Iterable[Report]) -> dict[Hashable, list[Launch]]:
    by_work: dict[Hashable, list[Launch]] = {}
    for report in reports:
        for launch in report:
            for work in _works(launch, report.rank):
                by_work.setdefault(work, []).append(launch)
    return by_work


def _works(launch: Launch, rank: int | None) -> Iterator[Hashable]:
    """Yield keys of a launch's work, the most exact first: function and ranges, function and operator, function."""
    kernel = (rank, kernel_key(launch.demangled), launch.grid, launch.block)
    yield kernel, launch.ranges
    yield kernel, (innermost_operator(launch.ranges),)
    yield kernel, None


def _counterpart(launch: Launch, rank: int | None, by_work: Mapping[Hashable, Sequence[Launch]]) -> Launch | None:
    *places, anywhere = _works(launch, rank)
    has_shapes = bool(operator_with_shapes(launch.ranges))
    for work in places if has_shapes else (*places, anywhere):
        if work in by_work:
            nearest = min(by_work[work], key=lambda other: _apart(launch, other))
            return nearest if has_shapes or _apart(launch, nearest) <= _OTHER_WORK else None
    return None


def _apart(launch: Launch, other: Launch) -> float:
    return times_apart(launch.metrics.number(_TIME), other.metrics.number(_TIME))


def _all_names(reports: Iterable[Report]) -> frozenset[str] | None:
    names = [report.names for report in reports]
    known = [own for own in names if own is not None]
    return frozenset().union(*known) if len(known) == len(names) else None
