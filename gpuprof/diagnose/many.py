"""The diagnoses of many kernels, made in several processes where that is worth it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct, structs

from gpuprof.diagnose.case import EXECUTED
from gpuprof.model.analyse import Analysis
from gpuprof.model.recorded import Missing
from gpuprof.model.session import Excerpt, Finding, KernelProfile, LineWork
from gpuprof.workers import Worth, made_by_workers

_WITH_CODE, _WITHOUT = Worth(48, each=8), Worth(1_000, each=400)
"""Kernels, of 10 ms each with counts of every instruction, 0.2 ms without."""


class Diagnosis(Struct, frozen=True):
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
    worth = _WITH_CODE if _has_code(analysis) else _WITHOUT
    return made_by_workers(_by_program(analysis), diagnosis, worth)


def _has_code(analysis: Analysis) -> bool:
    """Tell whether a kernel may have counts of its instructions."""
    return any(recorded.launch.metrics.has(EXECUTED) for recorded in analysis.recorded[:1])


def _by_program(analysis: Analysis) -> list[int]:
    """Return the places of kernels, those of one program together: what is worked out of it serves all of them."""
    return sorted(range(len(analysis.recorded)), key=lambda at: (analysis.recorded[at].launch.mangled or "", at))
