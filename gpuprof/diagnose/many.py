"""The diagnoses of many kernels, made in several processes where that is worth it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from msgspec import structs

from gpuprof.diagnose.case import EXECUTED
from gpuprof.errors import GpuprofError
from gpuprof.model.analyse import Analysis
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Excerpt, Finding, KernelProfile, LineWork
from gpuprof.workers import done_by_workers, processors

_LEAST = 48
"""So many kernels with counts of each instruction, some 10 ms each, are worth the start of processes; without those one
takes 0.2 ms, and sending it would cost as much."""
_JOBS = 8
"""Each process gets so many jobs, so that they end at about the same time."""
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is found of a kernel: the fields of its profile that the diagnosis fills in."""

    findings: tuple[Finding, ...]
    excerpts: tuple[Excerpt, ...]
    missing: tuple[Missing, ...]
    lines: tuple[LineWork, ...]
    lines_dropped: int

    def of(self, kernel: KernelProfile) -> KernelProfile:
        """Return the profile of the kernel with them."""
        return structs.replace(
            kernel,
            findings=self.findings,
            excerpts=self.excerpts,
            missing=self.missing,
            lines=self.lines,
            lines_dropped=self.lines_dropped,
        )


def each_of(analysis: Analysis, diagnosis: Callable[[int], Diagnosis]) -> Iterator[Diagnosis]:
    """Yield the diagnosis of each kernel of an analysis, in their order; `diagnosis` makes one by its place."""
    count, kernels = processors(), len(analysis.recorded)
    if count < 2 or kernels < _LEAST or not _has_code(analysis):
        yield from map(diagnosis, range(kernels))
        return

    def made(job: list[int]) -> list[Diagnosis]:
        try:
            return [diagnosis(place) for place in job]
        except GpuprofError:  # is met again, and told, by the process that asked
            return []

    done: dict[int, Diagnosis] = {}
    for job, diagnoses in done_by_workers(_jobs(analysis, count), made, count, lambda _: _PATIENCE_S):
        if diagnoses:
            done.update(zip(job, diagnoses, strict=True))
    for place in range(kernels):
        yield done.pop(place) if place in done else diagnosis(place)


def _has_code(analysis: Analysis) -> bool:
    """Tell whether a kernel may have counts of its instructions."""
    return any(recorded.launch.metrics.has(EXECUTED) for recorded in analysis.recorded[:1])


def _jobs(analysis: Analysis, count: int) -> Iterator[list[int]]:
    """Yield places of kernels, those of one program together: what is worked out of it serves all of them."""
    places = sorted(range(len(analysis.recorded)), key=lambda at: (analysis.recorded[at].launch.mangled or "", at))
    size = -(-len(places) // (count * _JOBS))
    for first in range(0, len(places), size):
        yield places[first : first + size]
