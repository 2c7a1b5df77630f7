"""The survey: every launch of the program with its time, from a first run that disturbs it little."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpuprof.collect.autotuning import Tries, has_timed_tries, without_tries
from gpuprof.collect.cost import START_S, SURVEYED_S
from gpuprof.collect.launches import Seen, launches_of
from gpuprof.collect.plan import ProfilePlan
from gpuprof.errors import InputError
from gpuprof.hardware.device import RecordedDevice
from gpuprof.model.recorded import GpuSamples, Report
from gpuprof.timeline.trace import Trace


@dataclass(frozen=True)
class Survey:
    """What a survey has recorded: a report of ncu, or timelines, one of each process.

    `seconds` is how long the program ran for it, `samples` are those of the GPUs meanwhile; both only if we ran it.
    `tries` is what autotuners launched and is not counted.
    """

    recorded: tuple[Report, ...] | tuple[Trace, ...]
    seconds: float | None = None
    samples: tuple[GpuSamples, ...] = ()
    tries: Tries = field(default_factory=lambda: Tries(0, 0.0))

    @property
    def device(self) -> RecordedDevice:
        """Return the first GPU that was used."""
        return self.recorded[0].devices[0]

    @property
    def program_s(self) -> float | None:
        """Return about how long the program ran, without the time that ncu added if it made the survey."""
        if self.seconds is None or not isinstance(self.recorded[0], Report):
            return self.seconds
        launches = sum(len(report.launches) for report in self.recorded if isinstance(report, Report))
        return max(0.0, self.seconds - START_S - launches * SURVEYED_S)

    @property
    def counts_all(self) -> bool:
        """Tell whether positions count every launch since the program's start, as they come again.

        A timeline that the user gave may begin anywhere, and a report lacks the launches that autotuners tried. They
        try as often as there is time, or find their choice on disk: what follows has another number in every run.
        """
        if isinstance(self.recorded[0], Report):
            return not self.tries.launches
        traces = (trace for trace in self.recorded if isinstance(trace, Trace))
        return all(trace.from_start and not has_timed_tries(trace) for trace in traces)

    @property
    def obeys_profiler_calls(self) -> bool:
        """Tell whether it has only what the program itself lets ncu profile, by cudaProfilerStart and cudaProfilerStop.

        No other tool looks at these calls.
        """
        return isinstance(self.recorded[0], Report)

    @property
    def saw_profiler_calls(self) -> bool:
        """Tell whether the program calls cudaProfilerStart or cudaProfilerStop, as far as the tool records that."""
        return any(isinstance(trace, Trace) and trace.profiler_calls for trace in self.recorded)

    def of_main_process(self, plan: ProfilePlan, rank: int | None) -> list[Seen]:
        """Return the launches of the process in which the planned kernels take most time, in its order.

        Only the processes of `rank` are looked at, if that rank was recorded.
        """
        shapes = {kernel.shape for kernel in plan.kernels}
        by_process: dict[Hashable, list[Seen]] = {}
        for seen in self._of_rank(rank):
            by_process.setdefault(seen.process, []).append(seen)
        return max(
            by_process.values(),
            key=lambda own: sum(seen.duration_s or 0.0 for seen in own if seen.shape in shapes),
        )

    def timeline_of(self, seen: Seen) -> Trace | None:
        """Return the timeline that a launch is of; None for one of a report."""
        recorded = self.recorded[seen.source]
        return recorded if isinstance(recorded, Trace) else None

    def own_work(self) -> Survey:
        """Return it without what autotuners tried."""
        own = [without_tries(recording) for recording in self.recorded]
        tries = Tries(sum(some.launches for _, some in own), sum(some.time_s for _, some in own))
        return replace(self, recorded=of_one_kind(recording for recording, _ in own), tries=tries)

    def _of_rank(self, rank: int | None) -> list[Seen]:
        """Return the launches of a rank; all of them if it is not among those recorded."""
        launches = self.launches()
        of_rank = [seen for seen in launches if rank is not None and self.recorded[seen.source].rank == rank]
        return of_rank or launches

    def launches(self) -> list[Seen]:
        """Return all launches of all processes. Raises InputError if there are none."""
        return self._launches

    @cached_property
    def _launches(self) -> list[Seen]:
        every: Sequence[Report | Trace] = self.recorded
        return [seen for source, recorded in enumerate(every) for seen in _seen_in(recorded, source)]


def of_one_kind(recorded: Iterable[Report | Trace]) -> tuple[Report, ...] | tuple[Trace, ...]:
    """Return recordings of which all are timelines, or all reports; of both only the timelines."""
    every = tuple(recorded)
    traces = tuple(recording for recording in every if isinstance(recording, Trace))
    return traces or tuple(recording for recording in every if isinstance(recording, Report))


def _seen_in(recorded: Report | Trace, source: int) -> list[Seen]:
    launches = launches_of(recorded, source)
    if not launches:
        raise InputError(
            f"{recorded.file} has no kernel launches to plan by",
            "a survey is a timeline, or a .ncu-rep with gpu__time_duration of kernels; leave out --survey to make one",
        )
    return launches
